"""What the Python examples have in common: the package, the data, processes that end together, errors of one line.

A program is one file that starts itself again for each of its processes: `--role NAME` says which one. Its own process, the driver, keeps one
promise: however it ends (well, by an error, Ctrl-C, SIGTERM or SIGKILL), every process that it started ends too.
"""

import argparse
import contextlib
import ctypes
import glob
import gzip
import os
import random
import shutil
import signal
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.basename(sys.argv[0])


class Failed(Exception):
    """Ends the program with one line."""


def find_tensord():
    """The package: the one that is installed, else the one of this source tree's build directory."""
    try:
        import tensord
    except ImportError:
        built = glob.glob(os.path.join(HERE, "../../build/client/python/tensord/_C*.so"))
        if not built:
            sys.exit(f"{PROGRAM}: tensord is not installed for {sys.executable} and not built: run {os.path.relpath(HERE)}/quickstart, which "
                     "builds it into build/ (with Debian's python3-dev there), and try again")
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(built[0]))))
        try:
            import tensord
        except ImportError as e:
            sys.exit(f"{PROGRAM}: {built[0]} does not go with {sys.executable} (needs Python 3.11 or later): {e}")
    return tensord


td = find_tensord()


def tensorctl():
    """What to type for the program that looks into the daemon: the one on PATH, else the one that lies beside the package."""
    if shutil.which("tensorctl"):
        return "tensorctl"
    package = os.path.dirname(os.path.abspath(td.__file__))
    found = [p for p in (os.path.join(package, "bin/tensorctl"), os.path.join(HERE, "../../build/client/tensorctl")) if os.path.exists(p)]
    return os.path.normpath(found[0]) if found else "tensorctl"

# ---- data


def _read(path):
    """The bytes of a file, unpacked; collections name MNIST's files with or without "mnist-" before and ".gz" behind."""
    folder, name = os.path.split(path)
    for each in (path, path + ".gz", os.path.join(folder, "mnist-" + name), os.path.join(folder, "mnist-" + name + ".gz")):
        if os.path.exists(each):
            with gzip.GzipFile(each) if each.endswith(".gz") else open(each, "rb") as f:
                return f.read()
    raise Failed(f"there is no {name} in {folder or '.'}: --mnist wants the directory of MNIST's four IDX files, packed by gzip or not")


def _mnist(folder):
    pixels, labels, split = bytearray(), bytearray(), 0
    for part in ("train", "t10k"):
        images, digits = _read(os.path.join(folder, part + "-images-idx3-ubyte")), _read(os.path.join(folder, part + "-labels-idx1-ubyte"))
        n = struct.unpack(">I", images[4:8])[0] if len(images) > 16 and images[:4] == b"\0\0\x08\x03" else -1
        if len(images) != 16 + n * 784 or len(digits) != 8 + n:
            raise Failed(f"the {part} files in {folder} are not MNIST's: fetch them again")
        pixels += images[16:]
        labels += digits[8:]
        split = split or n
    return pixels, labels, 28, split


def _uci():
    rows = [[int(v) for v in line.split(b",")] for line in _read(os.path.join(HERE, "data/digits.csv.gz")).splitlines()]
    random.Random(1).shuffle(rows)  # the writers come one after another in the file
    return bytes(v for r in rows for v in r[:64]), bytes(r[64] for r in rows), 8, 1500


def load_digits(mnist=None):
    """Images float32[n, side, side] (mean 0, deviation 1), labels int64[n], how many of them are for training, and the pixels as bytes."""
    pixels, labels, side, split = _mnist(mnist) if mnist else _uci()
    images = td.tensor(memoryview(pixels)).reshape(-1, side, side).float()
    images -= images.mean()
    images /= images.std()
    return images, td.tensor(memoryview(labels)).long(), split, pixels


def picture(pixels, side, rows, texts, gap=None):
    """Some images beside each other as characters, a text below each; `gap`: a column before which a bar is drawn."""
    most, step, lines = max(pixels), 2 if side > 16 else 1, []
    for y in range(0, side, step):
        line = []
        for r in rows:
            cells = []
            for x in range(0, side, step):
                at = r * side * side + y * side + x
                total = sum(pixels[at + k // step * side + k % step] for k in range(step * step))
                cells.append("|" * (x == gap) + "  ..::++##@@"[2 * round(5 * total / (most * step * step)) :][:2])
            line.append("".join(cells))
        lines.append("   ".join(line).rstrip())
    width = 2 * len(range(0, side, step)) + (gap is not None)
    return "\n".join([*lines, "   ".join(t.ljust(width) for t in texts).rstrip()])


# ---- memory of processes


def pss(pids, shared=False):
    """The memory of processes in bytes: what several share is counted once (proportional set size). With `shared`, of their shared memory alone.

    A daemon lets nobody but root look into it: of it counts what is resident.
    """
    line, field = ("Pss_Shmem:", 2) if shared else ("Pss:", 1)
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += 1024 * sum(int(each.split()[1]) for each in f if each.startswith(line))
        except PermissionError:
            with open(f"/proc/{pid}/statm") as f:
                total += os.sysconf("SC_PAGESIZE") * int(f.read().split()[field])
    return total


def megabytes(n):
    return f"{n / 1e6:.1f} MB"


# ---- processes


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def parser(text):
    """Of the options that all examples have; `text` is the program's docstring."""
    first, _, rest = text.strip().partition("\n")
    p = _Parser(description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mnist", metavar="DIR", help="learn MNIST from its IDX files, instead of the 1,797 digits that come along")
    p.add_argument("--seed", type=int, default=1, metavar="N", help="random numbers (default 1)")
    p.add_argument("--role", help=argparse.SUPPRESS)
    p.add_argument("--run", help=argparse.SUPPRESS)
    p.add_argument("--driver", type=int, help=argparse.SUPPRESS)
    return p


def number_from(least):
    def number(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"takes a number from {least} on, not {text!r}")
        return int(text)

    return number


class Crew:
    """The processes of a run: started by role, ended together."""

    def __init__(self, run):
        self.run, self.processes, self.given_socket = run, {}, os.environ.get("TENSORD_SOCKET")
        self.connect()

    def connect(self):
        """Find the user's daemon, or start a private one; who is started finds the same."""
        td.connect()
        os.environ["TENSORD_SOCKET"] = td.connection()["path"]

    def connect_anew(self):
        """Begin again in a fresh daemon, when this one is ours. Tensors of before are lost."""
        self.end()
        td.disconnect()
        os.environ.pop("TENSORD_SOCKET")
        if self.given_socket:
            os.environ["TENSORD_SOCKET"] = self.given_socket
        self.connect()

    def start(self, role, *more, given=None):
        """Start a process; `given`: bytes for its standard input. Returns its pid."""
        # A driver that is interrupted ends the others; a Ctrl-C of the terminal, which all would get, must not.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            p = subprocess.Popen([sys.executable, *sys.argv, "--role", role, "--run", self.run, "--driver", str(os.getpid()), *more],
                                 stdin=subprocess.DEVNULL if given is None else subprocess.PIPE)
            self.processes[p.pid] = (role, p)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if given is not None and p.stdin:
            with contextlib.suppress(BrokenPipeError), p.stdin as pipe:  # it has died: wait() says so
                pipe.write(given)
        return p.pid

    def wait(self, block=True):
        """The next that ends: (role, pid, status as subprocess gives it). None: all have, or none has yet."""
        while self.processes:
            pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
            if pid in self.processes:
                role, p = self.processes.pop(pid)
                p.returncode = os.waitstatus_to_exitcode(status)
                return role, pid, p.returncode
            if not pid:
                break
        return None

    def end(self):
        for _, p in self.processes.values():
            p.kill()
        for _, p in self.processes.values():
            p.wait()
        self.processes = {}
        try:  # in a daemon that others use, too
            for row in td.status("names"):
                if row["name"].startswith(self.run + "/"):
                    td.drop(row["name"])
        except td.Error:
            pass


def _end_with(driver):
    """End when the driver does, however that is: the kernel's own promise (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(1)


def _terminated(number, frame):
    raise KeyboardInterrupt


def main(arguments, driver, roles):
    """Run the driver or the role that the arguments name; every end that is not a good one is one line."""
    name = arguments.role or PROGRAM
    try:
        if arguments.role:
            _end_with(arguments.driver)
            roles[arguments.role](arguments)
            return 0
        signal.signal(signal.SIGTERM, _terminated)
        crew = Crew(f"{PROGRAM.removesuffix('.py')}-{os.getpid()}")
        try:
            return driver(arguments, crew) or 0
        finally:
            crew.end()
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; every process has ended", file=sys.stderr)
        return 130
    except BrokenPipeError:  # who read our lines has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except (Failed, td.Error, OSError) as e:
        at = getattr(e, "where", None)
        where = f" (asked for at {at})" if at and "asked for at" not in str(e) else ""
        print(f"{name}: {str(e).splitlines()[0]}{where}", file=sys.stderr)
        return 1
