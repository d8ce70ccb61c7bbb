#!/usr/bin/env python3
""".ci/changed says "unchanged" only where git knows: what CI leaves out by it can never be left out by mistake."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHANGED = pathlib.Path(__file__).resolve().parents[2] / ".ci/changed"
PLAIN = {**{k: v for k, v in os.environ.items() if not k.startswith("GIT_")}, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
         **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}


class Test(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.root = pathlib.Path(self.place.name)
        self.git("init", "-q")
        self.commit("here/a", "here/b", "there/a")
        for k in range(3):
            self.commit("there/a", text=str(k))

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.root, env=PLAIN, check=True, capture_output=True)

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def commit(self, *names, text="text"):
        for name in names:
            self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "it")

    def changed(self, commits=2, *paths, **more):
        return subprocess.run([CHANGED, str(commits), *(paths or ("here",))], cwd=self.root, capture_output=True, env={**PLAIN, **more}).returncode == 0

    def test_nothing_changed(self):
        self.assertFalse(self.changed())
        self.assertTrue(self.changed(2, "there"))
        self.assertTrue(self.changed(2, "here", "there"))

    def test_a_commit(self):
        self.commit("here/a", text="other")
        self.assertTrue(self.changed())

    def test_what_is_not_committed(self):
        self.write("here/a", "other")
        self.assertTrue(self.changed())

    def test_a_new_file(self):
        self.write("here/c")
        self.assertTrue(self.changed())

    def test_a_file_that_moved_away_or_is_gone(self):
        self.git("mv", "here/a", "there/moved")
        self.git("commit", "-q", "-m", "it")
        self.assertTrue(self.changed())
        self.git("reset", "-q", "--hard", "HEAD~1")
        self.git("rm", "-q", "here/b")
        self.assertTrue(self.changed())

    def test_texts_do_not_count(self):
        self.commit("here/README.md")
        self.write("here/more.md")
        self.assertFalse(self.changed())

    def test_git_cannot_tell(self):
        self.assertTrue(self.changed(40))  # as in a shallow clone
        self.assertTrue(self.changed(2, "elsewhere"))
        self.assertTrue(self.changed(2, "here", GIT_DIR=str(self.root / "none")))
        self.assertTrue(self.changed(2, "here", PATH=""))
        self.assertTrue(self.changed("many"))


if __name__ == "__main__":
    done = unittest.main(exit=False, argv=sys.argv[:1]).result
    wrong = len(done.failures) + len(done.errors)
    print(f"suite changed: {done.testsRun - wrong} passed, {wrong} failed, 0 skipped")
    sys.exit(bool(wrong))
