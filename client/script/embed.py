"""A file as an array of C: embed.py FROM TO NAME"""
import sys

path, to, name = sys.argv[1:]
with open(path, "rb") as f:
    data = f.read() + b"\0"
with open(to, "w", encoding="ascii") as f:
    f.write(f"/* Made of {path.rsplit('/', 1)[-1]}. */\nstatic const char {name}[] = {{\n")
    for k in range(0, len(data), 24):
        f.write("    " + ", ".join(map(str, data[k:k + 24])) + ",\n")
    f.write("};\n")
