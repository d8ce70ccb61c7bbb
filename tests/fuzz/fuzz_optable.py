#!/usr/bin/env python3
"""Fuzzes the reader of the op table: a table that was changed at random is taken, or refused with FILE:LINE, and nothing else.

    fuzz_optable.py DIRECTORY [--seconds N] [--seed N]

DIRECTORY is proto/. Without --seconds it makes a fixed number of tables, always the same ones."""
import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROUNDS = 60
REFUSED = re.compile(r"^\S+\.(toml|lock|h):\d+: \S")
WORDS = ["T", "T?", "T[]", "TS", "I[]", "D?=none", "(", ")", "->", "=", "!", "\"", "[", "]", "[op.x]", "id = 7", "grad", "expr",
         "flags", "\\u0000", "'", "none", "-1", "99999999999999999999", "1e999", "true", "{", "}", ",", "#", "\n", "", "é"]


def change(lines, rng):
    """The same table with one to four changes: characters, words, lines, blocks."""
    lines = list(lines)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        line = lines[at]
        cut = rng.randint(0, len(line))
        kind = rng.randrange(7)
        if kind == 0:
            lines[at] = line[:cut] + rng.choice(WORDS) + line[cut:]
        elif kind == 1:
            lines[at] = line[:cut] + line[cut + rng.randint(1, 5):]
        elif kind == 2:
            del lines[at]
        elif kind == 3:
            lines.insert(rng.randrange(len(lines)), line)
        elif kind == 4:
            lines[at] = line[:cut] + chr(rng.choice([0, 9, 34, 127, 0x2028, 0x1F600, rng.randrange(32, 127)])) + line[cut + 1:]
        elif kind == 5:
            parts = re.split(r"(\W+)", line)
            rng.shuffle(parts)
            lines[at] = "".join(parts)
        else:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def try_table(model, paths, proto):
    """Why it is wrong that this table was taken or refused as it was; None when it is right."""
    try:
        model.load(paths, proto / "infer" / "infer.h", proto / "ops" / "ops.lock", True)
    except model.TableError as e:
        for line in str(e).split("\n"):
            if not REFUSED.match(line):
                return f"refused without a place: {line}"
    except Exception:
        return traceback.format_exc()
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("proto", type=Path)
    ap.add_argument("--seconds", type=float, default=0)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(args.proto / "gen"))
    import table as model

    rng = random.Random(args.seed)
    texts = {path.name: path.read_text().splitlines() for path in model.files_of([args.proto / "ops"])}
    names = list(texts)
    until, tried, failed = time.monotonic() + args.seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while tried < ROUNDS or time.monotonic() < until:
            victim = rng.choice(names)
            for n in names:
                text = change(texts[n], rng) if n == victim else "\n".join(texts[n])
                (Path(folder) / n).write_text(text)
            wrong = try_table(model, [str(Path(folder) / n) for n in names], args.proto)
            tried += 1
            if wrong:
                failed += 1
                kept = Path(tempfile.gettempdir(), f"fuzz_optable_{tried}.toml")
                kept.write_text((Path(folder) / victim).read_text())
                print(f"table {tried} (changed {victim}, kept as {kept.resolve()}): {wrong}")
    print(f"suite fuzz_optable: {tried - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
