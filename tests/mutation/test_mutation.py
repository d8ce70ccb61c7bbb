#!/usr/bin/env python3
"""tests/mutate: where faults are found, that one at a time is planted, how they are drawn, and what becomes of suites that it runs.

    test_mutation.py BUILD
"""
import ast
import collections
import importlib.machinery
import importlib.util
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/mutation"), str(ROOT / "tests/house")]
import faults  # noqa: E402
import place  # noqa: E402
import rooms  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
OPTIONAL = ("fake_cuda", "python_cuda", "http_")  # what is built where a compiler or a library is


def tool():
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tests/mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(module)
    return module


def kinds(path, text):
    return {f.kind for f in faults.find(path, text)}


class Finding(unittest.TestCase):
    def test_each_kind_has_its_examples(self):
        for kind, (_, *examples) in faults.KINDS.items():
            for path, (before, after) in zip(("it.c", "it.py"), examples):
                planted = [f.plant(before) for f in faults.find(path, before) if f.kind == kind]
                self.assertIn(after, planted, f"{kind} in {path}")

    def test_nothing_where_nobody_could_tell(self):
        for text in ("/* a + b; if (x) return true; */", "// i < n", '    f2 = "a < b && c";', "#if A && B\n#define C(x) (x < 7)\n#endif", "static_assert(A < B, \"\");",
                     "_Static_assert(A == B, \"\");", "    assert(a->b != 0 &&\n           c < d);", "    __builtin_prefetch(p + i, 0, 1);", "    td_log(TD_LOG_INFO, i + 1);",
                     "    fprintf(stderr, i < 7 ? a : b);"):
            self.assertEqual(faults.find("it.c", text), [], text)
        for text in ("# a < b", "'a < b'", "assert a < b", "x: a[1:]", "warnings.warn(x)", "if TYPE_CHECKING:\n    x = a < b", "f.__doc__ = x"):
            self.assertEqual(faults.find("it.py", text), [], text)

    def test_what_only_looks_like_one(self):
        """Pointers, arrows, shifts, templates of types, declarations, what begins or ends a statement elsewhere."""
        for text in ("int *a = b->c;", "uint32_t f(const char *a, int b);", "x = a << 3 >> 1;", "    return f(a) |\n           g(b);", "    int a = f(b);", "f(-1);"):
            self.assertEqual(faults.find("it.c", text), [], text)

    def test_of_equals_each_is_as_good(self):
        for text, there in (("x = (int)a->b < c ? (int)a->b : c;", False), ("f(a <= b[i] ? b[i] : a, 7);", False), ("if (a.b > c) c = a.b;", False), ("if (a > b) a = b;", False),
                            ("x = a < b ? a + 1 : b;", True), ("x = a < b ? c : b;", True), ("x = a < b ? b : c->a;", True), ("if (a > b) c = a;", True), ("if (a > b) b = a + 1;", True),
                            ("x = y->a < b ? a : b;", True), ("x = a < b ? a : b2;", True), ("x = a < b ? b : a[i];", True), ("x = y - a < b ? a : b;", True),
                            ("x = a < b ? a : b - 1;", True)):
            self.assertEqual("bound" in kinds("it.c", text), there, text)

    def test_a_call_is_a_whole_statement(self):
        text = "void f(int *a)\n{\n    if (a)\n        g(a,\n          h(a));\n    else h(a);\n    b = h(a);\n}\n"
        planted = [f.plant(text) for f in faults.find("it.c", text) if f.kind == "call"]
        self.assertEqual(planted, [text.replace("g(a,\n          h(a));", ";\n"), text.replace("else h(a);", "else ;")])

    def test_a_python_text_with_letters_of_many_bytes(self):
        text = 'x = f("äöü") if "é" < b else c'
        self.assertIn(text.replace("<", "<="), [f.plant(text) for f in faults.find("it.py", text)])

    def test_one_change_each(self):
        for room in "daemon/sched", "client/python/tensord/optim":
            for path in rooms.files(ROOT, room):
                text = (ROOT / path).read_text()
                for f in faults.find(path, text)[::5]:
                    planted = f.plant(text)
                    self.assertNotEqual(planted, text)
                    self.assertEqual((planted[: f.start], planted[f.start + len(f.new) :]), (text[: f.start], text[f.end :]))
                    self.assertEqual(planted.count("\n"), text.count("\n"), f)
                    self.assertNotEqual(*f.lines(text), f)
                    if path.endswith(".py"):
                        ast.parse(planted)


class Drawing(unittest.TestCase):
    def test_the_same_seed(self):
        for room in "shm", "client/python/tensord/share":
            one, again, other = (list(itertools.islice(tool().drawn(seed, room), 20)) for seed in (1, 1, 2))
            self.assertEqual(one, again)
            self.assertNotEqual(one, other)
            self.assertEqual(len(set(one)), 20)

    def test_one_file(self):
        """All its faults, and none of the others of its room."""
        path = "shm/chunk.c"
        self.assertEqual(set(tool().drawn(1, "shm", path)), set(faults.find(path, (ROOT / path).read_text())))
        self.assertEqual(list(tool().drawn(1, "client/http", path)), [])

    def test_evenly_over_kinds(self):
        found = faults.find("it.c", "a->b = c && d;\n" + "    x = y < 7;\n" * 1000 + "int f(void) {\n    g(a);\n}")
        first = collections.Counter(f.kind for f in itertools.islice(faults.draw(random.Random(1), found), 400))
        self.assertEqual({first[kind] for kind in ("and-or", "call")}, {1})
        self.assertGreater(min(first["bound"], first["comparison"]), 100)
        self.assertEqual(sorted(map(hash, faults.draw(random.Random(1), found))), sorted(map(hash, found)))

    def test_evenly_over_rooms(self):
        turns, names = tool().turns, list("abcdefg")
        counts = collections.Counter(turns(7, 16, names))
        self.assertEqual((len(counts), set(counts.values())), (7, {2, 3}))
        self.assertEqual(turns(7, 16, names), turns(7, 16, names[::-1]))
        self.assertNotEqual(turns(7, 16, names), turns(8, 16, names))


class Rooms(unittest.TestCase):
    def test_each_source_is_in_one_room(self):
        held = collections.Counter(path for room in rooms.ROOMS for path in rooms.files(ROOT, room))
        self.assertEqual(set(held.values()), {1})
        there = {str(p.relative_to(ROOT)) for top in ("daemon", "client", "proto", "shm") for p in (ROOT / top).glob("**/*.c")}
        there |= {str(p.relative_to(ROOT)) for p in (ROOT / "client/python/tensord").glob("**/*.py")}
        self.assertEqual({p for p in there if not rooms.ASIDE & set(p.split("/"))} - set(held), set())

    def test_each_word_names_suites(self):
        names = [t["name"] for t in json.loads((BUILD / "meson-info/intro-tests.json").read_text())]
        for room, words in rooms.ROOMS.items():
            self.assertTrue(rooms.suites(ROOT, room, names), room)
            for word in words.split():
                one = {**rooms.ROOMS, room: word}
                with unittest.mock.patch.object(rooms, "ROOMS", one):
                    self.assertTrue(word.startswith(OPTIONAL) or rooms.suites(ROOT, room, names), f"{room}: {word}")


class Running(unittest.TestCase):
    """Suites that are lines for a shell, and need nothing to be built."""

    def judged(self, *lines, limit=1000, ninja="", jobs=1, kind="comparison"):
        """Who notices the fault that is the example of its kind. A line finds it as $PLANTED, and knows by $SANITIZED that it is built with the address sanitizer."""
        before, after = faults.KINDS[kind][2]
        with place.Place("/nowhere", jobs) as it:
            it.own_places()
            it.build, it.tree = it.top, it.top / "tree"
            subprocess.run(["git", "init", "-q", it.tree], check=True)  # the one around it has what suites beside this one make just then
            (it.top / "it.py").write_text(before)
            line = f"PLANTED=$(grep -xF '{after}' {it.top}/it.py); "
            it.suites = {f"s{k}": {"cmd": ["sh", "-c", line + end], "env": {}, "workdir": None, "timeout": limit, "build": it.top, "outputs": [ninja] * bool(ninja)} for k, end in enumerate(lines)}
            it.suites |= {name + place.SANITIZED: {**s, "env": {"SANITIZED": "1"}} for name, s in it.suites.items()}
            it.sanitized = lambda names: [name + place.SANITIZED for name in names]
            it.took = {name: k for k, name in enumerate(it.suites)}
            it.plant(next(f for f in faults.find("../it.py", before) if f.kind == kind))
            if ninja:
                (it.top / "ninja").write_text(f"#!/bin/sh\n{ninja}\n")
                (it.top / "ninja").chmod(0o700)
                it.building["PATH"] = f"{it.top}:{it.building['PATH']}"
            said = it.judge([f"s{k}" for k in range(len(lines))])
            self.assertEqual(place.below(os.getpid()), set())
            self.assertEqual((it.top / "it.py").read_text(), after)
        self.assertFalse(it.top.exists())
        self.out = it.out
        return said

    def test_who_notices(self):
        self.assertIsNone(self.judged("exit 0", "exit 0"))
        self.assertEqual(self.judged("exit 0", 'test -z "$PLANTED"', "exit 2"), "s1")
        self.assertEqual(self.judged('test -z "$PLANTED" || kill -SEGV $$'), "s0, by SIGSEGV")
        with unittest.mock.patch.object(place.Place, "limit", lambda *_: 0):
            self.assertEqual(self.judged('test -z "$PLANTED" || sleep 1000'), "s0, which does not end")
        self.assertRegex(self.judged("echo > $TMPDIR/it"), "^left behind: .*/it$")

    def test_who_is_interrupted_in_the_background(self):
        """A shell has the tool ignore interrupts there; suites hear them all the same."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.assertEqual(self.judged('test -z "$PLANTED" || kill -INT $$'), "s0, by SIGINT")
        finally:
            signal.signal(signal.SIGINT, before)

    def test_who_takes_longer_than_it_did(self):
        """One that has to be ended runs without the fault, and then again for as long as that gives it."""
        limits = iter((0, 0, 1000, 1000))
        with unittest.mock.patch.object(place.Place, "limit", lambda *_: next(limits)):
            self.assertIsNone(self.judged("exit 0"))

    def test_suites_that_cannot_tell(self):
        """They fail, are skipped or do not end without the fault, too; one that is skipped with a fault alone has not noticed it."""
        self.assertEqual(self.judged("exit 1", "exit 77", 'test -z "$PLANTED" || exit 77', 'test -z "$PLANTED"'), "s3")
        self.assertEqual(self.out, {"s0": "", "s1": place.SKIPPING})
        self.assertIsNone(self.judged("sleep 1000", limit=0))
        self.assertEqual(self.out, {"s0": place.ENDLESS})

    def test_by_the_sanitizer(self):
        """Suites run with it where a fault may be one of memory, and no one noticed it."""
        sees = 'test -z "$SANITIZED" || test -z "$PLANTED"'
        self.assertEqual(self.judged("exit 0", sees, kind="release"), "s1" + place.SANITIZED)
        self.assertIsNone(self.judged("exit 0", sees))

    def test_two_at_a_time(self):
        self.assertIsNone(self.judged("until rm $TMPDIR/it; do sleep 0.01; done", "echo > $TMPDIR/it", "exit 0", jobs=2))
        self.assertEqual(self.judged("sleep 1000", 'test -z "$PLANTED"', "sleep 1000", jobs=2), "s1")

    def test_what_left_its_parent_ends_too(self):
        self.assertEqual(self.judged("setsid sleep 1000 & sleep 1000 & test -z \"$PLANTED\""), "s0")

    def test_what_compilers_leave_is_no_suites(self):
        self.assertIsNone(self.judged("exit 0", ninja="echo > $TMPDIR/it; echo > $XDG_RUNTIME_DIR/it"))
        self.assertIs(self.judged("exit 0", ninja="exit 1"), False)

    def test_times_are_kept_for_the_next_time(self):
        with place.Place("/nowhere", 1) as top:
            (top.top / "build").mkdir()
            for before, after in ({}, {"a": 2}), ({"a": 2}, {"a": 3}), ({"a": 3}, {"b": 1}), ({"a": 3, "b": 1}, {}):
                with place.Place(str(top.top), 1) as it:
                    self.assertEqual(it.took, before)
                    it.suites = {"a": {"timeout": 1000}}
                    self.assertEqual(it.limit("a"), 30 + 4 * (before["a"] if before else place.UNKNOWN))
                    it.took = after


if __name__ == "__main__":
    import unittest.mock

    done = unittest.main(exit=False, argv=sys.argv[:1]).result
    wrong = len(done.failures) + len(done.errors)
    print(f"suite mutation: {done.testsRun - wrong} passed, {wrong} failed, 0 skipped")
    sys.exit(bool(wrong))
