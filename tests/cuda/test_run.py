#!/usr/bin/env python3
"""tests/cuda/run on a machine without a GPU, from an archive of programs that only say something: what it prints, its exit status, what it leaves."""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run"
PROGRAMS = {
    "probe": "#!/bin/sh\necho SKIP no CUDA device: none here\nexit 77\n",
    "smoke.py": "import os\nprint('on', os.environ['TENSORD_DEVICE'], os.path.isdir(os.environ['PYTHONPATH']))\n",
    "bench.py": "import sys\nprint('this is no GPU')\nsys.exit(1)\n",
}


class Test(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.root = pathlib.Path(self.place.name)
        for name in ("here", "left", "tensord-gpu/bin", "tensord-gpu/python", "tensord-gpu/suites"):
            (self.root / name).mkdir(parents=True)
        for name, text in PROGRAMS.items():
            path = self.root / "tensord-gpu/bin" / name
            path.write_text(text)
            path.chmod(0o755)
        with tarfile.open(self.root / "here/tensord-gpu.tar.xz", "w:xz", preset=0) as tar:
            tar.add(self.root / "tensord-gpu", "tensord-gpu")
        shutil.copy(RUN, self.root / "here")

    def run_it(self, *stages, **env):
        plain = {k: v for k, v in os.environ.items() if k not in ("TENSORD_DEVICE", "OUT")} | {"TMPDIR": str(self.root / "left")}
        done = subprocess.run([sys.executable, str(self.root / "here/run"), *stages], cwd=self.root, env=plain | env, capture_output=True, text=True)
        self.assertEqual(list((self.root / "left").iterdir()), [])
        self.assertEqual(done.stderr if done.returncode in (0, 77) else "", "")
        return done.returncode, done.stdout

    def test_no_device(self):
        self.assertEqual(self.run_it(), (77, "SKIP no CUDA device: none here\n"))
        self.assertIn("==== device: ", (self.root / "run.log").read_text())

    def test_another_device(self):
        status, text = self.run_it("probe", "smoke", "rows", TENSORD_DEVICE="fake:0")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"(?m)^probe +SKIP .*\n    SKIP no CUDA device: none here$")
        self.assertRegex(text, r"(?m)^smoke +ok .*\n    on fake:0 True$")
        self.assertRegex(text, r"(?m)^rows +SKIP +0.0 s +cuda_rows is not in this archive$")

    def test_failures(self):
        status, text = self.run_it("bench", TENSORD_DEVICE="fake:0")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"(?m)^bench +FAILED 1 .*\n    this is no GPU$")
        said = self.run_it("nothing")
        self.assertEqual(said, (1, ""))


if __name__ == "__main__":
    done = unittest.main(exit=False, argv=sys.argv[:1]).result
    wrong = len(done.failures) + len(done.errors)
    print(f"suite cuda_run: {done.testsRun - wrong} passed, {wrong} failed, 0 skipped")
    sys.exit(bool(wrong))
