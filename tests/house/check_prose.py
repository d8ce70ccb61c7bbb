#!/usr/bin/env python3
"""Sentences of documents name their subject: in a document and in a public header none begins with Who or What, but a question.

"What a region did not make is a source" makes a reader guess the noun; "A value that the region did not make is a source" says it.
Code, and what stands in backticks, is not looked at.

    check_prose.py SOURCE
"""
import os
import re
import sys

from tree import tracked

# Public headers, and doors whose comments are kept to this, too.
HEADERS = ("client/tensord.h", "client/tensord_bind.h", "client/tensord_script.h", "proto/types.h", "daemon/service/service.h", "daemon/session/stream/stream.h")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
FENCE = re.compile(r"^ *```.*?^ *```", re.S | re.M)
STARTS_ANEW = re.compile(r"\s*(?:[-#|]|\d+\. )")  # an item, a heading, a row
END = re.compile(r"(?<=[.!?])[)*\"]* +|\| *")
SUBJECT = re.compile(r"(?:Who|Whoever|Whom|Whose|What|Whatever)\b")


def blocks(lines, first=1):
    """(line, text) of each paragraph, item, heading and row."""
    start, rows = first, []
    for number, line in enumerate([*lines, ""], first):
        if rows and (not line.strip() or STARTS_ANEW.match(line)):
            yield start, " ".join(rows)
            rows = []
        if line.strip():
            start = start if rows else number
            rows.append(line.strip())


def in_markdown(text):
    text = FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)
    return [(number, re.sub(r"^(?:[-#]+|\d+\.) +", "", block)) for number, block in blocks(text.splitlines())]


def in_header(text):
    for m in COMMENT.finditer(text):
        lines = [re.sub(r"^\s*\*+ ?", "", line) for line in m.group(1).split("\n")]
        yield from blocks(lines, text.count("\n", 0, m.start()) + 1)


def faults(path, text):
    """(line, sentence) of each sentence that hides its subject, and how many sentences there are."""
    found, seen = [], 0
    for number, block in in_markdown(text) if path.endswith(".md") else in_header(text):
        for sentence in END.split(block):
            sentence = sentence.strip(' (*"|')
            seen += bool(sentence)
            if SUBJECT.match(sentence) and not sentence.endswith("?"):
                found.append((number, sentence))
    return found, seen


def main(source):
    bad = "# A\n\nWhat it does is done. It is (so). Whatever.\n- **Who waits waits.** He waits.\n\n| a | What b is |\n"
    good = "# A\n\nWhat is it? It says what it does.\n\n```\nWhat is code.\n```\nSee `What`: what then.\n"
    assert len(faults("a.md", bad)[0]) == 4 and not faults("a.md", good)[0], faults("a.md", bad)
    assert [n for n, _ in faults("a.h", "int a;\n/* It is a. What\n * it is, is b.\n *\n * Who b is. */\n")[0]] == [2, 5]
    rows, seen = [], 0
    for path in tracked(source):
        if (path.endswith(".md") or path in HEADERS) and os.path.exists(os.path.join(source, path)):
            with open(os.path.join(source, path), encoding="utf-8") as f:
                found, count = faults(path, f.read())
            seen += count
            rows += [f"{path}:{number}: name the subject: {sentence[:100]}" for number, sentence in found]
    print("\n".join(rows))
    print(f"suite house_prose: {seen - len(rows)} passed, {len(rows)} failed, 0 skipped")
    return 1 if rows or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
