#!/usr/bin/env python3
"""A corpus is one file, an input a line in hexadecimal; libFuzzer wants a directory of files.

    corpus.py unpack FILE DIRECTORY      write the inputs as files
    corpus.py pack DIRECTORY FILE        the other way: each input once, short ones first"""
import hashlib
import os
import sys


def unpack(path, directory):
    os.makedirs(directory, exist_ok=True)
    with open(path) as f:
        for line in f:
            data = bytes.fromhex(line)
            with open(os.path.join(directory, hashlib.sha1(data).hexdigest()), "wb") as out:
                out.write(data)


def pack(directory, path):
    inputs = set()
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as f:
            inputs.add(f.read())
    with open(path, "w") as out:
        for data in sorted(inputs, key=lambda d: (len(d), d)):
            out.write(data.hex() + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    (pack if sys.argv[1] == "pack" else unpack)(*sys.argv[2:])
