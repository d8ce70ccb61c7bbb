"""Python values as C initialisers. Shared by the emitters."""

import math

HEAD = "/* Written by proto/gen/opgen.py from the op table: edit that instead. */\n"

# Before thousands of calls one after the other: with what sanitizers put between them, to optimize them takes minutes.
CALLS = """#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#pragma GCC optimize("O0")
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#pragma clang optimize off
#endif
#endif

"""


def string(text):
    """A C string literal."""
    out = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{out}"'


def boolean(value):
    return "true" if value else "false"


def integer(value):
    """A constant of type int64_t (the least one has no literal of its own)."""
    return "INT64_MIN" if value == -(2**63) else f"{value}"


def double(value):
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def scalar(value):
    """A td_scalar initialiser."""
    if isinstance(value, bool):
        return f"{{TD_S_BOOL, {int(value)}, 0, 0}}"
    if isinstance(value, int):
        return f"{{TD_S_INT, {integer(value)}, 0, 0}}"
    if isinstance(value, complex):
        return f"{{TD_S_COMPLEX, 0, {double(value.real)}, {double(value.imag)}}}"
    return f"{{TD_S_FLOAT, 0, {double(value)}, 0}}"


def dtype(name):
    return "TD_" + name.upper()


def flags(prefix, names):
    return " | ".join(prefix + n.upper() for n in names) or "0"


def fnv(text, bits):
    """FNV-1a of a text: the same on every machine and run."""
    basis, prime = {32: (0x811C9DC5, 0x01000193), 64: (0xCBF29CE484222325, 0x100000001B3)}[bits]
    h = basis
    for byte in text.encode():
        h = (h ^ byte) * prime % 2**bits
    return h
