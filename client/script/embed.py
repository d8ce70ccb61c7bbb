"""Files, one behind the other, as an array of C: embed.py FROM... TO NAME"""
import sys

*paths, to, name = sys.argv[1:]
data = b""
for path in paths:
    with open(path, "rb") as f:
        data += f.read() + b"\n"
data += b"\0"
with open(to, "w", encoding="ascii") as f:
    f.write(f"/* Made of {', '.join(path.rsplit('/', 1)[-1] for path in paths)}. */\n")
    # cppcheck takes minutes for so many numbers.
    f.write(f"#ifdef __cppcheck__\nstatic const char {name}[] = \"\";\n#else\nstatic const char {name}[] = {{\n")
    for k in range(0, len(data), 24):
        f.write("    " + ", ".join(map(str, data[k:k + 24])) + ",\n")
    f.write("};\n#endif\n")
