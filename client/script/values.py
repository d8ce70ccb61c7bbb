"""What texts, lists, dicts and numbers can do beside prim:: ops; a part of the prelude (prelude.py).

KIND_NAME is the method NAME of values of that kind, where no prim:: op takes the arguments; builtin_NAME a function of Python's, math_NAME one of math."""


# ---- texts


def _span(n: int, start: int | None, end: int | None):
    """Where a part of n items begins and ends; it begins behind its end where Python finds nothing, not even an empty text."""
    a = 0 if start is None else start if start >= 0 else max(start + n, 0)
    b = n if end is None else min(end, n) if end >= 0 else max(end + n, 0)
    return a, b


def str_find(self, sub: str, start: int | None = None, end: int | None = None) -> int:
    a, b = _span(len(self), start, end)
    at = prim_find(self[a:b], sub) if a <= b else -1
    return at if at < 0 else at + a


def str_rfind(self, sub: str, start: int | None = None, end: int | None = None) -> int:
    a, b = _span(len(self), start, end)
    at = prim_find(self[a:b][::-1], sub[::-1]) if a <= b else -1
    return at if at < 0 else b - at - len(sub)


def str_index(self, sub: str, start: int | None = None, end: int | None = None) -> int:
    at = str_find(self, sub, start, end)
    if at < 0:
        raise ValueError("substring not found")
    return at


def str_rindex(self, sub: str, start: int | None = None, end: int | None = None) -> int:
    at = str_rfind(self, sub, start, end)
    if at < 0:
        raise ValueError("substring not found")
    return at


def str_count(self, sub: str, start: int | None = None, end: int | None = None) -> int:
    a, b = _span(len(self), start, end)
    return prim_count(self[a:b], sub) if a <= b else 0


def _begins(text: str, a: int, b: int, prefix: str) -> bool:
    return a <= b and prim_startswith(text[a:b], prefix)


def _ends(text: str, a: int, b: int, suffix: str) -> bool:
    return a <= b and prim_endswith(text[a:b], suffix)


def str_startswith(self, prefix, start: int | None = None, end: int | None = None) -> bool:
    a, b = _span(len(self), start, end)
    if isinstance(prefix, str):
        return _begins(self, a, b, prefix)
    found = False
    for one in prefix:
        found = found or _begins(self, a, b, one)
    return found


def str_endswith(self, suffix, start: int | None = None, end: int | None = None) -> bool:
    a, b = _span(len(self), start, end)
    if isinstance(suffix, str):
        return _ends(self, a, b, suffix)
    found = False
    for one in suffix:
        found = found or _ends(self, a, b, one)
    return found


def str_replace(self, old: str, new: str, count: int = -1) -> str:
    if old == "":
        parts = [c for c in self] + [""]
        return "".join([parts[k] if 0 <= count <= k else new + parts[k] for k in range(len(parts))])
    if count < 0:
        return prim_replace(self, old, new)
    return new.join(str_split(self, old, count))


def str_removeprefix(self, prefix: str) -> str:
    return self[len(prefix):] if prim_startswith(self, prefix) else self


def str_removesuffix(self, suffix: str) -> str:
    return self[:len(self) - len(suffix)] if prim_endswith(self, suffix) else self


def _blank_ends(text: str, chars: str | None, left: bool, right: bool):
    """How many characters go at the left; where the rest ends."""
    letters = [c for c in text]
    a, b = 0, len(letters)
    while left and a < b and (prim_strip(letters[a]) == "" if chars is None else letters[a] in chars):
        a += 1
    while right and a < b and (prim_strip(letters[b - 1]) == "" if chars is None else letters[b - 1] in chars):
        b -= 1
    return text[a:b]


def str_strip(self, chars: str | None = None) -> str:
    return prim_strip(self) if chars is None else _blank_ends(self, chars, True, True)


def str_lstrip(self, chars: str | None = None) -> str:
    return _blank_ends(self, chars, True, False)


def str_rstrip(self, chars: str | None = None) -> str:
    return _blank_ends(self, chars, False, True)


def _split_blanks(text: str, most: int) -> list[str]:
    parts: list[str] = []
    rest = str_lstrip(text)
    while rest != "" and len(parts) < most:
        word = prim_split(rest)[0]
        parts.append(word)
        rest = str_lstrip(rest[len(word):])
    if rest != "":
        parts.append(rest)
    return parts


def str_split(self, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    if sep is None:
        return prim_split(self) if maxsplit < 0 else _split_blanks(self, maxsplit)
    parts: list[str] = prim_split(self, sep)
    if maxsplit >= 0 and len(parts) > maxsplit + 1:
        return parts[:maxsplit] + [sep.join(parts[maxsplit:])]
    return parts


def str_rsplit(self, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    if sep is None:
        return prim_split(self) if maxsplit < 0 else [part[::-1] for part in _split_blanks(self[::-1], maxsplit)][::-1]
    parts: list[str] = prim_split(self, sep)
    if maxsplit >= 0 and len(parts) > maxsplit + 1:
        first = len(parts) - maxsplit
        return [sep.join(parts[:first])] + parts[first:]
    return parts


def str_partition(self, sep: str) -> tuple[str, str, str]:
    assert sep != "", "empty separator"
    at = prim_find(self, sep)
    if at < 0:
        return self, "", ""
    return self[:at], sep, self[at + len(sep):]


def str_rpartition(self, sep: str) -> tuple[str, str, str]:
    assert sep != "", "empty separator"
    at = str_rfind(self, sep)
    if at < 0:
        return "", "", self
    return self[:at], sep, self[at + len(sep):]


def str_splitlines(self, keepends: bool = False) -> list[str]:
    lines: list[str] = []
    line, before = "", ""
    for c in self:
        if before == "\r" and c == "\n":
            if keepends:
                lines[-1] = lines[-1] + c
        elif c in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
            lines.append(line + c if keepends else line)
            line = ""
        else:
            line += c
        before = c
    if line != "":
        lines.append(line)
    return lines


def _fill(n: int, fillchar: str) -> str:
    assert len(fillchar) == 1, "The fill character must be exactly one character long"
    return fillchar * n


def str_ljust(self, width: int, fillchar: str = " ") -> str:
    return self + _fill(width - len(self), fillchar)


def str_rjust(self, width: int, fillchar: str = " ") -> str:
    return _fill(width - len(self), fillchar) + self


def str_center(self, width: int, fillchar: str = " ") -> str:
    more = max(width - len(self), 0)
    left = more // 2 + (more & width & 1)
    return _fill(left, fillchar) + self + _fill(more - left, fillchar)


def str_zfill(self, width: int) -> str:
    sign = self[:1] if self[:1] in ["+", "-"] else ""
    return sign + "0" * (width - len(self)) + self[len(sign):]


def str_expandtabs(self, tabsize: int = 8) -> str:
    out: list[str] = []
    column = 0
    for c in self:
        n = 1
        if c == "\t":
            n = tabsize - column % tabsize if tabsize > 0 else 0
            out.append(" " * n)
        else:
            out.append(c)
        column = 0 if c in "\n\r" else column + n
    return "".join(out)


def str_isascii(self) -> bool:
    for c in self:
        if ord(c) >= 128:
            return False
    return True


def _all_of(text: str, some: str, name: str) -> bool:
    for c in text:
        if c not in some:
            assert ord(c) < 128, f"{name}() of a program knows ASCII only, and not {c!r}"
            return False
    return text != ""


def str_isdigit(self) -> bool:
    return _all_of(self, "0123456789", "isdigit")


def str_isdecimal(self) -> bool:
    return _all_of(self, "0123456789", "isdecimal")


def str_isnumeric(self) -> bool:
    return _all_of(self, "0123456789", "isnumeric")


def str_isalpha(self) -> bool:
    return _all_of(self, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "isalpha")


def str_isalnum(self) -> bool:
    return _all_of(self, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "isalnum")


def str_isidentifier(self) -> bool:
    return self[:1] not in list("0123456789") and _all_of(self, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", "isidentifier")


def str_isprintable(self) -> bool:
    for c in self:
        assert ord(c) < 128, f"isprintable() of a program knows ASCII only, and not {c!r}"
        if ord(c) < 32 or ord(c) == 127:
            return False
    return True


def str_isspace(self) -> bool:
    return self != "" and prim_strip(self) == ""


def str_islower(self) -> bool:
    return prim_lower(self) == self and prim_upper(self) != self


def str_isupper(self) -> bool:
    return prim_upper(self) == self and prim_lower(self) != self


def _is_cased(c: str) -> bool:
    return prim_lower(c) != c or prim_upper(c) != c


def str_istitle(self) -> bool:
    inside, found = False, False
    for c in self:
        if _is_cased(c):
            if (prim_lower(c) == c) != inside:
                return False
            inside, found = True, True
        else:
            inside = False
    return found


def str_title(self) -> str:
    out: list[str] = []
    inside = False
    for c in self:
        out.append(prim_lower(c) if inside else _title_of(c))
        inside = _is_cased(c)
    return "".join(out)


def _title_of(c: str) -> str:
    large = prim_upper(c)
    assert ord(c) < 128 or (len(large) == 1 and c not in "\u01c4\u01c5\u01c6\u01c7\u01c8\u01c9\u01ca\u01cb\u01cc\u01f1\u01f2\u01f3" and large not in "\u01c4\u01c7\u01ca\u01f1"), \
        f"a program does not know how {c!r} begins a title"
    return large


def str_capitalize(self) -> str:
    return _title_of(self[:1]) + prim_lower(self)[1:] if self != "" else self


def str_swapcase(self) -> str:
    return "".join([prim_lower(c) if prim_lower(c) != c else prim_upper(c) for c in self])


def str_casefold(self) -> str:
    assert str_isascii(self), "casefold() of a program knows ASCII only; use lower()"
    return prim_lower(self)


# ---- lists


def list_index(self, value, start: int | None = None, end: int | None = None) -> int:
    a, b = _span(len(self), start, end)
    for k in range(a, b):
        if self[k] == value:
            return k
    raise ValueError("the value is not in the list")


def list_count(self, value) -> int:
    n = 0
    for item in self:
        if item == value:
            n += 1
    return n


def list_remove(self, value):
    prim_delitem(self, self.index(value))


def list_put(self, start: int | None, end: int | None, step: int, items):
    """self[start:end:step] = items"""
    new = list(items)
    if step == 1:
        a, b = _span(len(self), start, end)
        rest = self[max(a, b):]
        while len(self) > a:
            self.pop()
        self.extend(new)
        self.extend(rest)
    else:
        places = [k for k in range(len(self))][start:end:step]
        if len(places) != len(new):
            raise ValueError(f"attempt to assign sequence of size {len(new)} to extended slice of size {len(places)}")
        for k, item in zip(places, new):
            self[k] = item


def list_delete(self, start: int | None, end: int | None, step: int):
    """del self[start:end:step]"""
    for k in sorted([k for k in range(len(self))][start:end:step], reverse=True):
        prim_delitem(self, k)


def rest_of(self, before: int, behind: int):
    """What is left when so many names take items at both ends."""
    if len(self) < before + behind:
        raise ValueError(f"not enough values to unpack (expected at least {before + behind}, got {len(self)})")
    return self[before:len(self) - behind]


def list_eq(self, other) -> bool:
    if len(self) != len(other):
        return False
    for k in range(len(self)):
        if self[k] != other[k]:
            return False
    return True


def list_lt(self, other) -> bool:
    for k in range(min(len(self), len(other))):
        if self[k] != other[k]:
            return self[k] < other[k]
    return len(self) < len(other)


def list_contains(self, value) -> bool:
    for item in self:
        if item == value:
            return True
    return False


def list_sort(self, reverse: bool):
    """Each to its place among those before it, behind its equals."""
    for k in range(1, len(self)):
        item, a, b = self[k], 0, k
        while a < b:
            middle = (a + b) // 2
            before = self[middle] < item if reverse else item < self[middle]
            if before:
                b = middle
            else:
                a = middle + 1
        if a < k:
            prim_delitem(self, k)
            self.insert(a, item)


# ---- dicts


def dict_eq(self, other) -> bool:
    if len(self) != len(other):
        return False
    for key in self.keys():
        if key not in other:
            return False
        if self[key] != other[key]:
            return False
    return True


def dict_setdefault(self, key, default):
    if key not in self:
        self[key] = default
    return self[key]


def dict_pop(self, key, default):
    value = self.get(key, default)
    if key in self:
        prim_delitem(self, key)
    return value


def dict_popitem(self):
    if len(self) == 0:
        raise KeyError("popitem(): dictionary is empty")
    key = list(self.keys())[-1]
    return key, self.pop(key)


# ---- numbers


def complex_conjugate(self):
    return complex(self.real, -self.imag)


def float_is_integer(self) -> bool:
    return math.isfinite(self) and self % 1.0 == 0.0


def builtin_divmod(a, b):
    return a // b, a % b


def builtin_pow(base: int, exp: int, mod: int) -> int:
    if mod == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    if exp < 0:
        raise ValueError("pow() of a negative power has no remainder in a program")
    out, base = 1 % mod, base % mod
    while exp > 0:
        if exp % 2 == 1:
            out = _times(out, base, mod)
        base = _times(base, base, mod)
        exp = exp // 2
    return out


def _times(a: int, b: int, mod: int) -> int:
    """a * b % mod, also where a * b is more than an int holds."""
    if abs(mod) < 2 ** 31:
        return a * b % mod
    out, down = 0, mod < 0
    a, b, m = abs(a), abs(b), abs(mod)
    while b > 0:
        if b % 2 == 1:
            out = out - (m - a) if out >= m - a else out + a
        a = a - (m - a) if a >= m - a else a + a
        b = b // 2
    return -out if down else out


def round_int(number: int, digits: int) -> int:
    """To the nearest multiple of a power of ten, of two to the even one."""
    if digits >= 0:
        return number
    if digits < -18:
        return 0
    unit = 10 ** -digits
    whole, rest = number // unit, number % unit
    up = rest > unit - rest or (rest == unit - rest and whole % 2 == 1)
    return (whole + 1 if up else whole) * unit


def builtin_int(text: str, base: int) -> int:
    if base != 0 and (base < 2 or base > 36):
        raise ValueError("int() base must be >= 2 and <= 36, or 0")
    rest = text.strip().lower()
    minus = rest.startswith("-")
    if minus or rest.startswith("+"):
        rest = rest[1:]
    prefix, radix, good = rest[:2], base, True
    said = 16 if prefix == "0x" else 8 if prefix == "0o" else 2 if prefix == "0b" else 0
    if said != 0 and (base == 0 or base == said):
        rest, radix = rest[2:], said
        if rest.startswith("_"):
            rest = rest[1:]
    elif base == 0:
        radix = 10
        good = not rest.startswith("0") or rest.replace("0", "").replace("_", "") == ""
    out, last = 0, "_"
    for letter in rest:
        digit = "0123456789abcdefghijklmnopqrstuvwxyz".find(letter)
        if letter != "_":
            good = good and 0 <= digit and digit < radix
            out = out * radix - digit
        elif last == "_":
            good = False
        last = letter
    if not good or last == "_":
        raise ValueError(f"invalid literal for int() with base {base}: {repr(text)}")
    return out if minus else -out


def _digits(number: int, spec: str, sign: str) -> str:
    return "-" + sign + format(number, spec)[1:] if number < 0 else sign + format(number, spec)


def builtin_hex(number: int) -> str:
    return _digits(number, "x", "0x")


def builtin_oct(number: int) -> str:
    return _digits(number, "o", "0o")


def builtin_bin(number: int) -> str:
    return _digits(number, "b", "0b")


def two_min(a, b):
    return b if b < a else a


def two_max(a, b):
    return b if b > a else a


# ---- what goes over items


def builtin_min(iterable):
    assert len(iterable) > 0, "min() arg is an empty sequence"
    least = iterable[0]
    for item in iterable:
        least = item if item < least else least
    return least


def builtin_max(iterable):
    assert len(iterable) > 0, "max() arg is an empty sequence"
    most = iterable[0]
    for item in iterable:
        most = item if item > most else most
    return most


def builtin_sum(iterable, start=None):
    if start is not None:
        total = start + 0 * iterable[0] if isinstance(start, int) else start
        for item in iterable:
            total = total + item
        return total
    total = 0 + iterable[0]
    for k in range(1, len(iterable)):
        total = total + iterable[k]
    return total


def _unwrap_optional(x):
    assert x is not None, "Unwrapping null optional"
    return x


def beside_modules(n: int, modules: int):
    assert n >= modules, f"zip() of {modules} modules wants as many items beside them, not {n}"


def gathered(iterable):
    return [item for item in iterable]


def builtin_dict(pairs):
    if isinstance(pairs, dict):
        return pairs.copy()
    return {key: value for key, value in pairs}


def builtin_any(iterable) -> bool:
    for item in iterable:
        if item:
            return True
    return False


def builtin_all(iterable) -> bool:
    for item in iterable:
        if not item:
            return False
    return True


def builtin_reversed(sequence):
    items = list(sequence)
    return items[::-1]


# ---- tensors as lists: x.tolist() where such a list is wanted


def tolist_1_int(x):
    assert x.ndim == 1, f"tolist(): a list of ints is that of a tensor of 1 dimension, not {x.ndim}"
    return [int(x[k]) for k in range(x.shape[0])]


def tolist_2_int(x):
    assert x.ndim == 2, f"tolist(): such a list is that of a tensor of 2 dimensions, not {x.ndim}"
    return [tolist_1_int(x[k]) for k in range(x.shape[0])]


def tolist_3_int(x):
    assert x.ndim == 3, f"tolist(): such a list is that of a tensor of 3 dimensions, not {x.ndim}"
    return [tolist_2_int(x[k]) for k in range(x.shape[0])]


def tolist_4_int(x):
    assert x.ndim == 4, f"tolist(): such a list is that of a tensor of 4 dimensions, not {x.ndim}"
    return [tolist_3_int(x[k]) for k in range(x.shape[0])]


def tolist_1_float(x):
    assert x.ndim == 1, f"tolist(): a list of floats is that of a tensor of 1 dimension, not {x.ndim}"
    return [float(x[k]) for k in range(x.shape[0])]


def tolist_2_float(x):
    assert x.ndim == 2, f"tolist(): such a list is that of a tensor of 2 dimensions, not {x.ndim}"
    return [tolist_1_float(x[k]) for k in range(x.shape[0])]


def tolist_3_float(x):
    assert x.ndim == 3, f"tolist(): such a list is that of a tensor of 3 dimensions, not {x.ndim}"
    return [tolist_2_float(x[k]) for k in range(x.shape[0])]


def tolist_4_float(x):
    assert x.ndim == 4, f"tolist(): such a list is that of a tensor of 4 dimensions, not {x.ndim}"
    return [tolist_3_float(x[k]) for k in range(x.shape[0])]


def tolist_1_bool(x):
    assert x.ndim == 1, f"tolist(): a list of bools is that of a tensor of 1 dimension, not {x.ndim}"
    return [bool(x[k]) for k in range(x.shape[0])]


def tolist_2_bool(x):
    assert x.ndim == 2, f"tolist(): such a list is that of a tensor of 2 dimensions, not {x.ndim}"
    return [tolist_1_bool(x[k]) for k in range(x.shape[0])]


def tolist_3_bool(x):
    assert x.ndim == 3, f"tolist(): such a list is that of a tensor of 3 dimensions, not {x.ndim}"
    return [tolist_2_bool(x[k]) for k in range(x.shape[0])]


def tolist_4_bool(x):
    assert x.ndim == 4, f"tolist(): such a list is that of a tensor of 4 dimensions, not {x.ndim}"
    return [tolist_3_bool(x[k]) for k in range(x.shape[0])]


# ---- math


def math_isclose(a: float, b: float, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> bool:
    assert rel_tol >= 0.0 and abs_tol >= 0.0, "tolerances must be non-negative"
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    return abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


def math_trunc(x: float) -> int:
    return int(x)


def math_log(x: float, base: float) -> float:
    return math.log(x) / math.log(base)


def math_modf(x: float) -> tuple[float, float]:
    if math.isinf(x):
        return math.copysign(0.0, x), x
    whole = math.copysign(abs(x) - abs(x) % 1.0, x)
    return math.copysign(abs(x) % 1.0, x), whole


def math_ldexp(x: float, i: int) -> float:
    return x * 2.0 ** float(i)


def math_frexp(x: float) -> tuple[float, int]:
    if x == 0.0 or math.isinf(x) or math.isnan(x):
        return x, 0
    size, e = abs(x), 0
    while size >= 1.0:
        size, e = size / 2.0, e + 1
    while size < 0.5:
        size, e = size * 2.0, e - 1
    return math.copysign(size, x), e


def math_remainder(x: float, y: float) -> float:
    assert y != 0.0 and not math.isinf(x), "math domain error"
    if math.isinf(y):
        return x
    size = abs(y)
    rest = math.fmod(abs(x), size)
    over = size - rest
    if rest > over or (rest == over and math.fmod(abs(x) - rest, 2.0 * size) != 0.0):
        rest = rest - size
    return math.copysign(1.0, x) * rest


def math_dist(p: list[float], q: list[float]) -> float:
    assert len(p) == len(q), "both points must have the same number of dimensions"
    out = 0.0
    for k in range(len(p)):
        out = math.hypot(out, p[k] - q[k])
    return out


def math_erfc(x: float) -> float:
    return td.erfc(td.full([1], x, dtype=td.float64)).item()


def math_prod(iterable):
    out = 1 if isinstance(iterable, list[int]) else 1.0
    for item in iterable:
        out = out * item
    return out


def math_lcm(a: int, b: int) -> int:
    return 0 if a == 0 or b == 0 else abs(a * b) // math.gcd(a, b)


def math_perm(n: int, k: int | None = None) -> int:
    k = n if k is None else k
    assert n >= 0 and k >= 0, "perm() not defined for negative values"
    out = 1 if k <= n else 0
    for i in range(n - k + 1, n + 1):
        out = out * i
    return out


def math_comb(n: int, k: int) -> int:
    assert n >= 0 and k >= 0, "comb() not defined for negative values"
    out = 1 if k <= n else 0
    for i in range(1, min(k, n - k) + 1):
        out = out * (n - i + 1) // i
    return out


def math_isqrt(n: int) -> int:
    assert n >= 0, "isqrt() argument must be nonnegative"
    root = int(math.sqrt(n))
    while root * root > n:
        root -= 1
    while (root + 1) * (root + 1) <= n:
        root += 1
    return root
