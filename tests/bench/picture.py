#!/usr/bin/env python3
"""Pictures of the README as SVG, from what was really measured and printed.

    tests/bench/run --json --only loader | tests/bench/picture.py bars loader > tests/bench/pictures/loader.svg
    client/examples/quickstart --kill-loader 2>&1 | tests/bench/picture.py terminal "client/examples/quickstart --kill-loader" > tests/bench/pictures/kill-loader.svg

`bars` reads the rows of table.py and draws those of one comparison (CHARTS below says which); `terminal` shows lines as a terminal does. Both follow the
reader's light or dark setting.
"""
import html
import json
import re
import sys

# What stands under one heading is one comparison of table.py, in one scale.
CHARTS = {"loader": ("a batch of 38.5 MB from two workers to the trainer, ms (less is better)",
                     [("a data set that costs nothing", "py.loader.one_line"), ("images unpacked from PNG", "py.loader.png.one_line"),
                      ("images unpacked from PNG, beside another's work", "py.loader.busy.one_line")],
                     [("PyTorch's DataLoader", "reference"), ("with the one line", "ours")])}
STYLE = """<style>
text { font: 15px system-ui, sans-serif; fill: #1c2430 } .dim { fill: #5c6878; font-size: 13px } .theirs { fill: #a9b4c2 } .ours { fill: #1f5fbf }
.back { fill: #f4f6f9 } .mono text { font: 13px ui-monospace, Menlo, Consolas, monospace; white-space: pre } .strong { fill: #b3372c }
@media (prefers-color-scheme: dark) { text { fill: #dde3ec } .dim { fill: #98a3b3 } .theirs { fill: #5c6878 } .ours { fill: #7fb0ff } .back { fill: #1e252e } .strong { fill: #ff9d8f } }
</style>"""
FIRST, LAST = 7, 16  # lines of a terminal


def svg(width, height, body, title):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
            f"<title>{html.escape(title)}</title>{STYLE}{body}</svg>\n")


def bars(rows, chart):
    title, groups, kinds = CHARTS[chart]
    by_name = {row["name"]: row for row in rows}
    left, room, y, body, told = 180, 460, 16, [f'<text class="dim" x="0" y="16">{html.escape(title)}</text>'], []
    for heading, name in groups:
        values = [(label, column, by_name[name][column]) for label, column in kinds]
        most = max(v for *_, v in values)
        y += 30
        body.append(f'<text x="{left}" y="{y}">{html.escape(heading)}</text>')
        for label, column, value in values:
            width, kind = max(2, room * value / most), "theirs" if column == "reference" else "ours"
            body.append(f'<text x="{left - 12}" y="{y + 27}" text-anchor="end">{html.escape(label)}</text><rect class="{kind}" x="{left}" y="{y + 10}" '
                        f'width="{width:.1f}" height="24" rx="3"/><text x="{left + width + 8:.1f}" y="{y + 27}">{value:.1f}</text>')
            y += 30
        y += 10
        told.append(f"{heading}: " + ", ".join(f"{label} {value:.1f}" for label, _, value in values))
    against = by_name[groups[0][1]]["against"]
    body.append(f'<text class="dim" x="{left}" y="{y + 18}">against: {html.escape(against)}; medians of runs that took turns</text>')
    return svg(left + room + 70, y + 28, "".join(body), f"{title}; " + "; ".join(told))


def chosen(lines):
    """The first and the last lines, and between them what a program says of itself; what was left out is marked."""
    kept, out = {*range(FIRST), *range(len(lines) - LAST, len(lines))}, []
    for k, line in enumerate(lines):
        if k in kept or re.match(r"\w+: ", line):
            out.append(line)
        elif out[-1] != "...":
            out.append("...")
    return out


def terminal(lines, command):
    lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip() for line in lines]
    lines = [line for line in lines if line and not line.startswith("building ") and not re.search(r"(^|\s)/\w", line)]  # no machine's own paths
    shown = chosen(lines)
    shown.insert(0, f"$ {command}")
    width = 8.0 * max(len(line) for line in shown) + 32
    body = [f'<rect class="back" width="{width:.0f}" height="{20 * len(shown) + 24}" rx="8"/><g class="mono">']
    for k, line in enumerate(shown):
        kind = ' class="strong"' if "killed" in line or "died" in line else ' class="dim"' if k == 0 or line == "..." else ""
        body.append(f'<text x="16" y="{30 + 20 * k}"{kind} xml:space="preserve">{html.escape(line)}</text>')
    return svg(round(width), 20 * len(shown) + 24, "".join(body) + "</g>", command)


def main(argv):
    if len(argv) == 3 and argv[1] == "bars" and argv[2] in CHARTS:
        sys.stdout.write(bars(json.load(sys.stdin), argv[2]))
    elif len(argv) == 3 and argv[1] == "terminal":
        sys.stdout.write(terminal(sys.stdin.read().splitlines(), argv[2]))
    else:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
