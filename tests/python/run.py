"""Run one file of tests: run.py NAME built|absent|thread, of ROOM/test_NAME.py or test_NAME.py here. The last lines say what was skipped and why, and count."""
import atexit
import contextlib
import glob
import os
import random
import runpy
import shutil
import sys
import tempfile
import zlib

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
WITHOUT = os.path.join(HERE, "without")


def skip(name, why):
    print(f"SKIP python_{name}: {why}\nsuite python_{name}: 0 passed, 0 failed, 1 skipped")
    return 77


class Count:
    """A plugin of pytest that counts."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped = name, 0, 0, []

    @staticmethod
    def pytest_runtest_makereport(call):
        """Where all is made on a device whose memory nobody maps, a test that maps some is refused by that device's name, and skipped."""
        device, said = os.environ.get("TENSORD_DEVICE"), str(call.excinfo and call.excinfo.value)
        if device and f"lies on {device}, where nobody can map its bytes" in said:
            call.excinfo = skipped(f"it maps bytes, which {device} does not give")

    @staticmethod
    def pytest_runtest_setup(item):
        """What tests draw without a seed of their own is the same in every run, too: a number that falls on a function's kink fails here or nowhere."""
        begin(f"{item.path.name}::{item.name}")

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.skip(report.nodeid.split("::", 1)[-1], report)
        elif report.failed:
            self.failed += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        self.failed += report.failed
        if report.skipped:
            self.skip(self.name, report)

    def skip(self, what, report):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        self.skipped.append((what, reason.removeprefix("Skipped: ")))


def seed_of(name):
    """The seed that a name has in every run. TENSORD_SEED gives another; None: `random`, one that nobody knows."""
    wish = os.environ.get("TENSORD_SEED", "")
    return None if wish == "random" else int(wish) if wish else zlib.crc32(name.encode())


def begin(name):
    """Seed a process's random numbers by a name, those of NumPy and of the package where these can be imported."""
    seed = seed_of(name)
    if seed is None:
        return
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed)
    with contextlib.suppress(Exception):
        import tensord

        tensord.manual_seed(seed)


def skipped(why):
    """What pytest.skip() raises, as if a test had raised it."""
    import pytest

    try:
        pytest.skip(why)
    except pytest.skip.Exception:
        return pytest.ExceptionInfo.from_exc_info(sys.exc_info())


def clear(place, owner):
    """After multiprocessing's own end: it removes its folder there. That of a process that was killed stays, which is Python's way."""
    if os.getpid() == owner:
        shutil.rmtree(place, ignore_errors=True)


def file_of(name):
    """The one file of this name, in whichever room's folder."""
    found = glob.glob(os.path.join(HERE, f"test_{name}.py")) + glob.glob(os.path.join(HERE, "*", f"test_{name}.py"))
    if len(found) != 1:
        sys.exit(f"there {'is no' if not found else 'are several'} test_{name}.py below {HERE}")
    return found[0]


def main(name, state):
    path = file_of(name)
    # A file may use what stands in another one, and in another room: names of files are unique.
    sys.path[1:1] = [*sorted({os.path.dirname(each) for each in glob.glob(os.path.join(HERE, "*", "test_*.py"))}), os.path.join(HERE, "../support")]
    if os.environ.get("TENSORD_WITHOUT"):  # modules that all of this suite's processes shall not find
        runpy.run_path(os.path.join(WITHOUT, "sitecustomize.py"))
    if state == "absent":
        return skip(name, "the package was not built, as the headers of Python 3.11 or later are not there (Debian: python3-dev)")
    if state == "thread":
        return skip(name, "the thread sanitizer cannot be loaded into a Python that was built without it")
    try:
        import pytest
    except ImportError:
        return skip(name, "pytest is not there (Debian: python3-pytest)")
    os.environ["TENSORD_BELOW"] = str(os.getpid())  # a script that a test starts has its own daemon, which it may kill
    count = Count(name)
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-W", "error", "--no-header", "--tb=short"]
    place = os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="td-")
    atexit.register(clear, place, os.getpid())
    if os.environ.get("TENSORD_WITHOUT"):  # a copy: Python writes what it compiled beside it
        hides = shutil.copytree(WITHOUT, place + "/pytest-without")
        os.environ["PYTHONPATH"] = os.pathsep.join([hides, *filter(None, [os.environ.get("PYTHONPATH")])])
    begin(name)  # what files draw while they are read
    status = pytest.main([*quiet, "--basetemp", place + "/pytest", path], plugins=[count])  # it keeps what its tests wrote
    left = [x for x in os.listdir(place) if x not in ("pytest", "pytest-without") and not x.startswith(("pymp-", "torchinductor"))]  # the last is torch's
    for what in left:
        print(f"FAILED the tests left a temporary file behind: {what}")
    count.failed += len(left)
    for what, why in count.skipped:
        print(f"SKIP {what}: {why}")
    print(f"suite python_{name}: {count.passed} passed, {count.failed} failed, {len(count.skipped)} skipped")
    return 1 if count.failed or status not in (0, 5) else 0


if __name__ == "__main__":  # a process that multiprocessing spawns imports this again
    sys.exit(main(*sys.argv[1:3]))
