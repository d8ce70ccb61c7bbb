"""A copy of the tree in a temporary directory, with a build directory of its own: faults are planted in it, and suites run in it.

Invariant: nothing of it is left when its `with` ends, however that comes: no process, socket, file or name in /dev/shm. What it starts is its
own to end, also daemons that left their parents: it is the subreaper of them all."""
import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import rooms
import suites
from processes import below
from tree import tracked

SUBREAPER, NEW_NAMESPACE, PRIVATE = 36, 0x20000, 0x40000  # prctl: PR_SET_CHILD_SUBREAPER; unshare: CLONE_NEWNS; mount: MS_PRIVATE
RECURSIVE = 0x4000
SKIPPED, SKIPPING, ENDLESS = 77, ", which is skipped", ", which does not end"
SANITIZED = ", by the address sanitizer"
UNKNOWN = 60  # seconds that a suite may take that was never seen to pass; where it needs more it gets that without the fault
SLOWER = 5  # times that the sanitizer may take
MEMORY = {"bound", "edge", "sign", "release", "call", "store"}  # kinds that may show in nothing but memory


def own_memory_names():
    """Give this process, and all that it starts, a /dev/shm of its own, where it may (as root): whether it has one."""
    c = ctypes.CDLL(None, use_errno=True)
    return c.unshare(NEW_NAMESPACE) == 0 and c.mount(None, b"/", None, PRIVATE | RECURSIVE, None) == 0 and c.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None) == 0


def end_all():
    """Kill all that this process started, and what that started."""
    while there := below(os.getpid()):
        for pid in there:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
        reap()


def reap(but=()):
    """Collect what has ended, but not those of `but`, who are waited for by name."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) and ended.si_pid not in but:
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        pass


def hear_interrupts():
    """A shell has what it starts in the background ignore them, and suites interrupt programs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Place:
    def __init__(self, root, jobs):
        self.root, self.jobs, self.kept, self.took, self.out, self.alone, self.building = root, jobs, {}, {}, {}, False, None
        self.sound, self.planted, self.watched = set(), None, {}  # sound: suites that were seen to pass without a fault

    def __enter__(self):
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        self.alone = own_memory_names()
        self.took = self.known()
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="td-mutate-"))
        self.top.chmod(0o755)  # suites run the daemon as another user, too
        self.tree = self.top / "tree"
        self.build = self.tree / "build"
        return self

    def __exit__(self, *_):
        end_all()
        shutil.rmtree(self.top, ignore_errors=True)
        if self.took and self.times().parent.is_dir():
            self.times().write_text(json.dumps({**self.known(), **self.took}, indent=1))

    def known(self):
        """What earlier runs, and those beside this one, have kept."""
        return json.loads(self.times().read_text()) if self.times().exists() else {}

    def times(self):
        """Where it is kept what suites took, for the order of the next time."""
        return pathlib.Path(self.root) / "build" / "mutate-times.json"

    def prepare(self):
        """Copy, configure, and learn what is built for which suite."""
        new = subprocess.run(["git", "-C", self.root, "ls-files", "-z", "--others", "--exclude-standard"], capture_output=True, text=True).stdout
        for name in tracked(self.root) + new.split("\0"):
            if os.path.isfile(os.path.join(self.root, name)):
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(os.path.join(self.root, name), self.tree / name, follow_symlinks=False)
        if os.path.isdir(shared := os.path.join(self.root, "../shared")):
            os.symlink(os.path.realpath(shared), self.top / "shared")
        self.own_places()
        # Without words for a debugger it is linked in less time, and ccache has it from the last time.
        self.suites = self.configure(self.build, "-Ddebug=false", "-Doptimization=2")
        self.names = list(self.suites)
        with open(self.build / "compile_commands.json") as f:
            self.objects = {}
            for c in json.load(f):
                self.objects.setdefault(os.path.normpath(os.path.join("build", c["file"])), []).append(c["output"])

    def configure(self, build, *options):
        """A build directory, and its suites by name."""
        self.must(["meson", "setup", str(build), *options])
        targets, tests = (json.loads(self.must(["meson", "introspect", str(build), what])) for what in ("--targets", "--tests"))
        outputs = {t["id"]: t["filename"] for t in targets}
        installed = [t["id"] for t in targets if t["installed"]]
        for s in tests:
            needed = s["depends"] + installed * (s["name"] in rooms.INSTALLING)
            s |= {"build": build, "outputs": [os.path.relpath(f, build) for d in needed for f in outputs.get(d, [])]}
        return {s["name"]: s for s in tests}

    def sanitized(self, names):
        """These suites once more, in a build that the address sanitizer looks into; it sees nothing of a fault in Python."""
        if self.planted.path.endswith(".py"):
            return []
        if not self.watched:
            said = self.must(["bash", "-c", 'root=$PWD; . .ci/setup.sh && sanitizer_options && printf "%s\n" "ASAN_OPTIONS=$ASAN_OPTIONS" "UBSAN_OPTIONS=$UBSAN_OPTIONS"'])
            env = dict(line.split("=", 1) for line in said.splitlines())
            self.watched = self.configure(self.build / "address", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1", "-Ddebug=true")
            for name, s in self.watched.items():
                self.suites[name + SANITIZED] = {**s, "env": {**s["env"], **env}, "timeout": s["timeout"] * SLOWER}
        return [name + SANITIZED for name in names if name in self.watched]

    def own_places(self):
        """Where suites keep sockets and temporary files. Compilers have a place beside: what they leave is no suite's."""
        (self.top / "made").mkdir()
        self.building = {**os.environ, "TMPDIR": str(self.top / "made"), "XDG_RUNTIME_DIR": str(self.top / "made")}
        for variable, name in ("TMPDIR", "tmp"), ("XDG_RUNTIME_DIR", "run"):
            os.environ[variable] = str(self.top / name)
        self.clear()

    def clear(self):
        for name in os.listdir("/dev/shm") if self.alone else ():  # else they may be others'
            os.unlink("/dev/shm/" + name)
        for variable in "TMPDIR", "XDG_RUNTIME_DIR":
            shutil.rmtree(os.environ[variable], ignore_errors=True)
            os.makedirs(os.environ[variable], mode=0o700)

    def must(self, command):
        done = subprocess.run(command, cwd=self.tree, env=self.building, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"mutate: {' '.join(command)} failed: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def ninja(self, build, outputs):
        return not outputs or subprocess.run(["ninja", f"-j{self.jobs}", *outputs], cwd=build, env=self.building, capture_output=True).returncode == 0

    def compiled(self, path):
        """A sum of the objects of a source; None: it does not compile, or nothing is made of it."""
        outputs = self.objects.get(path, [])
        if not outputs or not self.ninja(self.build, outputs):
            return None
        return [hashlib.sha256((self.build / o).read_bytes()).digest() for o in outputs]

    def read(self, path):
        return self.kept.setdefault(path, (self.tree / path).read_text())

    def plant(self, fault):
        """Whether it can be planted: it compiles, and to another program."""
        text = self.read(fault.path)
        if fault.path.endswith(".py"):
            try:
                compile(fault.plant(text), fault.path, "exec")
            except SyntaxError:
                return False
            self.put(fault)
            return True
        before = self.compiled(fault.path)
        self.put(fault)
        if before and (after := self.compiled(fault.path)) and after != before:
            return True
        self.heal()
        return False

    def put(self, fault):
        (self.tree / fault.path).write_text(fault.plant(self.read(fault.path)))
        self.planted = fault

    def heal(self):
        (self.tree / self.planted.path).write_text(self.read(self.planted.path))

    def usable(self, names):
        """Those that can tell, as far as it is known, the shortest first. What one takes is unknown until it passes."""
        return sorted((n for n in names if n not in self.out), key=lambda n: self.took.get(n, 0))

    def limit(self, name):
        return min(self.suites[name]["timeout"], 30 + 4 * self.took.get(name, UNKNOWN))

    def can_tell(self, name):
        """Whether a suite passes where nothing is planted, too; else it is not asked again."""
        if name not in self.sound:
            self.heal()
            try:
                why = self.run([name], lambda _: self.suites[name]["timeout"])
            finally:
                self.end()
                self.put(self.planted)
            if why is False:
                raise SystemExit(f"mutate: what {name} needs does not compile")
            if why:
                self.out[name] = why[1]
        return name not in self.out

    def between(self):
        """What suites left: as suites.py does, processes have time to end by themselves."""
        left = suites.end_orphans()
        reap()
        left += sorted(x for x in suites.traces(self.tree) if self.alone or not x.startswith("/dev/shm"))
        self.clear()
        return left

    def judge(self, names):
        """Who notices what is planted, in words; None: nobody. A build that fails later says False. A fault of memory may be one that only CI's address stage notices."""
        said = self.judge_by(names)
        return self.judge_by(self.sanitized(names)) if said is None and self.planted.kind in MEMORY else said

    def judge_by(self, names):
        waiting = self.usable(names)
        try:
            while why := self.run(waiting, self.limit):
                self.end()
                name, how = why
                had = self.limit(name)
                if how == ENDLESS:
                    self.sound.discard(name)  # the machine may be slower than it was
                if not self.can_tell(name) or how == SKIPPING:
                    continue
                if how != ENDLESS or self.limit(name) <= had:
                    return name + how
                waiting.insert(0, name)
            if why is None and (left := self.between()):
                return f"left behind: {left[0]}"
            return why
        finally:
            self.end()

    def end(self):
        """End what suites that did not pass left running."""
        end_all()
        self.clear()

    def run(self, waiting, limit):
        """Run suites until one does not pass, and take from the list those that ended: (its name, how it ended). None: all passed. False: not all could be built."""
        running = {}
        try:
            while waiting:
                while len(running) < min(self.jobs, len(waiting)):
                    name = next(n for n in waiting if n not in running)
                    if not self.ninja(self.suites[name]["build"], self.suites[name]["outputs"]):
                        return False
                    start = time.monotonic()
                    running[name] = self.start(name), start, start + limit(name)
                reap({p.pid for p, *_ in running.values()})
                for name, (process, start, end) in list(running.items()):
                    status = process.poll()
                    if status is None and time.monotonic() < end:
                        continue
                    waiting.remove(name)
                    if status is None:
                        return name, ENDLESS
                    del running[name]
                    if status:
                        return name, SKIPPING if status == SKIPPED else "" if status > 0 else f", by {signal.Signals(-status).name}"
                    self.took[name] = time.monotonic() - start
                    self.sound.add(name)
                time.sleep(0.02)
        finally:
            for process, *_ in running.values():
                process.kill()
                process.wait()
        return None

    def start(self, name):
        s = self.suites[name]
        env = {**os.environ, **s["env"], "TENSORD_BELOW": str(os.getpid()), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen(s["cmd"], cwd=s["workdir"] or s["build"], env=env, start_new_session=True, preexec_fn=hear_interrupts, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
