"""The programs as a user meets them: tensorctl with every command, a daemon that is started by systemd's protocols, an
installation that works. Nothing but Python's standard library; a client is held through the shared library.

    test_tools.py BUILD SOURCE
"""

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD, SOURCE = sys.argv[1:3]
DAEMON, CTL = BUILD + "/daemon/server/tensord", BUILD + "/client/tensorctl"
CTL = CTL if os.path.isfile(CTL) else CTL + "/tensorctl"
PROTOCOL = int(re.search(r"TD_PROTOCOL (\d+)", open(SOURCE + "/proto/wire/frame.h").read())[1])
LONGEST = 55  # bytes of an XDG_RUNTIME_DIR in which private daemons' sockets find room
STATUS = {"pid": int, "version": str, "uptime_s": float, "sessions": int, "tensors": int, "storages": int,
          "segments": int, "bytes_committed": int, "bytes_used": int, "bytes_limit": int, "descriptors": int,
          "tasks_pending": int, "nodes_recorded": int, "ops_run": int, "names": int, "queues": int, "workers": int,
          "maps": int, "peak_rss_bytes": int, "kernels": str}


def options():
    """The options of the build, by name."""
    found = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], capture_output=True, text=True, check=True)
    return {o["name"]: o["value"] for o in json.loads(found.stdout)}


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENSORD", "LISTEN", "NOTIFY", "XDG_RUNTIME"))}
    return {**clean, **more}


def ctl(*args, code=0, **env):
    run = subprocess.run([CTL, *args], capture_output=True, text=True, env=environment(**env), timeout=100)
    if run.returncode != code:
        raise AssertionError(f"tensorctl {args}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout if code == 0 else run.stderr


def can_seal_memory():
    try:
        with open(os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 20)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        return False
    return True


class Place(unittest.TestCase):
    """A directory, and a daemon on a socket in it."""

    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="td-")
        if len(self.place) > LONGEST:
            os.rmdir(self.place)
            self.place = tempfile.mkdtemp(prefix="td-", dir="/tmp")
        self.socket = self.place + "/socket"
        self.running = []

    def tearDown(self):
        for p in self.running:
            p.kill()
            p.wait()
        shutil.rmtree(self.place)

    def start(self, *args, **env):
        p = subprocess.Popen([DAEMON, *args], env=environment(**env), stderr=subprocess.PIPE, text=True)
        self.running.append(p)
        self.addCleanup(p.stderr.close)
        return p

    def serve(self, *args, **env):
        p = self.start("--socket", self.socket, *args, **env)
        for _ in range(6000):
            if subprocess.run([CTL, "--socket", self.socket, "status"], capture_output=True).returncode == 0:
                return p
            time.sleep(0.01)
        self.fail("the daemon does not answer")

    def end(self, p):
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(60), 0)
        self.running.remove(p)


class Ints(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int), ("at", ctypes.POINTER(ctypes.c_int64))]


def library():
    lib = ctypes.CDLL(BUILD + "/client/libtensord.so")
    for name in ("td_connect", "td_from_data", "td_queue_open"):
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


class Tensorctl(Place):
    def test_tables(self):
        if options()["b_sanitize"] != "none":
            self.skipTest("a sanitizer's library cannot be loaded into a Python without it")
        p = self.serve()
        lib = library()
        c = ctypes.c_void_p(lib.td_connect(self.socket.encode()))
        shape = (ctypes.c_int64 * 2)(2, 3)
        x = ctypes.c_void_p(lib.td_from_data(c, 9, Ints(2, shape), (ctypes.c_double * 6)(*range(6))))
        self.assertEqual(lib.td_publish(x, b"tools/x", 0), 0)
        q = ctypes.c_void_p(lib.td_queue_open(c, b"tools/q", 3, 3))
        say = lambda what: json.loads(ctl("--socket", self.socket, "--json", what))
        status = say("status")
        for key, kind in STATUS.items():
            self.assertIsInstance(status[key], kind, key)
        self.assertEqual((status["pid"], status["sessions"], status["names"], status["queues"]), (p.pid, 2, 1, 1))
        self.assertGreaterEqual(status["tensors"], 2)
        self.assertGreater(status["bytes_committed"], status["bytes_used"])
        self.assertGreater(status["descriptors"], 5)
        pids = [row["pid"] for row in say("sessions")]
        self.assertIn(os.getpid(), pids)
        row = next(row for row in say("daemons") if row["kind"] == "shared")
        self.assertEqual((row["pid"], row["program"], row["sessions"], row["socket"]), (p.pid, "", 1, self.socket))
        tensor = next(row for row in say("tensors") if row["bytes"] == 48)
        self.assertIn("float64", tensor["tensor"])
        self.assertEqual([row["name"] for row in say("names")], ["tools/x"])
        queue = say("queues")[0]
        self.assertEqual((queue["queue"], queue["capacity"], queue["producers"]), ("tools/q", 3, 1))
        lib.td_group_open.restype = ctypes.c_void_p
        g = ctypes.c_void_p(lib.td_group_open(c, b"tools/g", 1, -1, 10000))
        self.assertEqual(lib.td_group_at_barrier(b"here.c:3", g, -1), 0)
        whole, first = say("groups")
        self.assertEqual((whole["group"], whole["rank"], whole["state"], whole["round"]), ("tools/g", "all", "open, 1 of 1", 1))
        self.assertEqual((first["rank"], first["pid"], first["last"], first["at"]), (0, os.getpid(), 1, "here.c:3"))
        self.assertEqual(first["now"], "after barrier #1")
        shown = ctl("--socket", self.socket, "--prometheus")
        self.assertRegex(shown, rf'tensord_group_last\{{group="tools/g",rank="0",pid="{os.getpid()}",program="[^"]*"\}} 1\n')
        self.assertIn('tensord_group_round{group="tools/g",rank="all",pid="",program=""} 1', shown)
        self.assertIn("open, 1 of 1", ctl("--socket", self.socket, "top"))
        lib.td_group_close(g)
        self.assertEqual(say("groups"), [])
        self.assertEqual({row["kind"] for row in say("segments")}, {"session", "service"})
        for what in ("status", "sessions", "tensors", "names", "queues", "segments"):
            self.assertGreater(len(ctl("--socket", self.socket, what).splitlines()), 1, what)
        self.check_prometheus(status)
        self.assertIn("is published as 'tools/y'", ctl("--socket", self.socket, "drop", "tools/y", code=1))
        self.assertIn("wants a name", ctl("--socket", self.socket, "drop", code=2))
        self.assertEqual(ctl("--socket", self.socket, "drop", "tools/x"), "")
        self.assertEqual(say("names"), [])
        lib.td_queue_close(q, False)
        lib.td_release(x)
        lib.td_disconnect(c)
        self.end(p)

    def test_tensors_of_one_line_are_one_row(self):
        """It has the bytes of all, and says of the largest what it is."""
        if options()["b_sanitize"] != "none":
            self.skipTest("a sanitizer's library cannot be loaded into a Python without it")
        p = self.serve()
        lib = library()
        c = ctypes.c_void_p(lib.td_connect(self.socket.encode()))
        made = [ctypes.c_void_p(lib.td_from_data(c, 9, Ints(1, (ctypes.c_int64 * 1)(n)), (ctypes.c_double * 9)())) for n in (2, 9, 0, 4)]
        self.assertEqual(lib.td_sync(c), 0)
        ages = lambda: [row["age_s"] for row in json.loads(ctl("--socket", self.socket, "--json", "tensors")) if row["pid"] == os.getpid()]
        end = time.monotonic() + 60
        while max(ages()) < 0.2 and time.monotonic() < end:
            time.sleep(0.05)
        shown = ctl("--socket", self.socket, "tensors").splitlines()
        kept = [line for line in shown if f" {os.getpid()}  tensor " in line]
        self.assertEqual(len(kept), 1, shown)
        self.assertRegex(kept[0], r" 4 +[\d.]+  float64\[9\] +\(opened, taken or cloned\)$")
        self.assertGreater(float(re.search(r" 4 +([\d.]+)  float64", kept[0])[1]), 0, "how old the oldest is")
        for x, name in zip(made, (b"a", b"b", b"c")):
            self.assertEqual(lib.td_publish(x, name, 0), 0)
        shown = ctl("--socket", self.socket, "tensors")
        self.assertEqual(re.findall(r"float64\[(\d)\] .* ([abc])$", shown, re.M), [("9", "b"), ("2", "a"), ("0", "c")], "the largest first")
        for x in made:
            lib.td_release(x)
        lib.td_disconnect(c)
        self.end(p)

    def check_prometheus(self, status):
        lines = ctl("--socket", self.socket, "--prometheus").splitlines()
        types = dict(line.split()[2:] for line in lines if line.startswith("# TYPE "))
        values = {}
        for line in lines:
            if not line.startswith("#"):
                name, labels, value = re.fullmatch(r'([a-z_]+)(\{(?:[a-z]+="[^"]*",?)+\})? (-?[0-9.e+-]+)', line).groups()
                self.assertTrue(types[name] == ("counter" if name.endswith("_total") else "gauge"), line)
                values[name + (labels or "")] = float(value)
        self.assertEqual((values["tensord_pid"], values["tensord_names"]), (status["pid"], 1))
        self.assertGreaterEqual(values["tensord_ops_run_total"], status["ops_run"])
        self.assertEqual(values['tensord_queue_capacity{queue="tools/q"}'], 3)
        self.assertTrue([key for key in values if re.match(rf'tensord_session_bytes{{session="\d+",pid="{os.getpid()}",', key)], values)
        self.assertIn("goes with status", ctl("--prometheus", "queues", code=2))

    def hold(self):
        """A program with a private daemon; it ends with its standard input."""
        script = ("import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); lib.td_connect.restype = ctypes.c_void_p\n"
                  "print('connected' if lib.td_connect(None) else 'failed', flush=True); sys.stdin.read()")
        p = subprocess.Popen([sys.executable, "-c", script, BUILD + "/client/libtensord.so"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, env=environment(XDG_RUNTIME_DIR=self.place, TENSORD_DAEMON=DAEMON, TENSORD_BELOW=str(os.getpid())))
        self.running.append(p)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.stdout.close)
        self.assertEqual(p.stdout.readline(), "connected\n")
        return p

    def test_private_daemons(self):
        if options()["b_sanitize"] != "none":
            self.skipTest("a sanitizer's library cannot be loaded into a Python without it")
        env = {"XDG_RUNTIME_DIR": self.place, "TENSORD_BELOW": str(os.getpid())}  # whatever else runs on this machine
        first, second = self.hold(), self.hold()
        rows = {row["program"].split("pid ")[1].rstrip(")"): row for row in json.loads(ctl("--json", "daemons", **env)) if row["kind"] == "private"}
        for p in first, second:
            row = rows[str(p.pid)]
            self.assertEqual((row["sessions"], row["socket"].startswith(self.place + f"/tensord/{p.pid}-")), (1, True))
            for pid in p.pid, row["pid"]:
                self.assertEqual(json.loads(ctl("--pid", str(pid), "--json", "status", **env))["pid"], row["pid"])
        run = subprocess.run([CTL, "--pid", str(first.pid), "--count", "1", "top"], capture_output=True, text=True, env=environment(**env))
        self.assertRegex(run.stderr, rf"^the private daemon of python3\S* \(pid {first.pid}\), at {self.place}\S+; \d+ others? runs?: see")
        self.assertIn(f"the private daemon of python3", run.stdout.splitlines()[0])
        refused = ctl("status", code=1, **env)
        self.assertTrue("--pid" in refused and str(first.pid) in refused and str(second.pid) in refused, refused)
        self.assertIn("neither", ctl("--pid", "1", "status", code=1, **env))
        # Killed, a daemon leaves its directory; it is not listed, and the next of that process takes its place.
        os.kill(rows[str(first.pid)]["pid"], signal.SIGKILL)
        second.stdin.close()
        self.assertEqual(second.wait(60), 0)
        self.running.remove(second)
        place = os.path.dirname(rows[str(second.pid)]["socket"])
        for _ in range(6000):
            if not os.path.exists(place):
                break
            time.sleep(0.01)
        self.assertFalse(os.path.exists(place))
        self.assertFalse({str(first.pid), str(second.pid)} & {row["program"].split("pid ")[-1].rstrip(")")
                                                              for row in json.loads(ctl("--json", "daemons", **env))})

    def test_top(self):
        p = self.serve()
        text = ctl("--socket", self.socket, "--json", "--count", "2", "--interval", "0.1", "top")
        first, at = json.JSONDecoder().raw_decode(text)
        second, _ = json.JSONDecoder().raw_decode(text[at:].lstrip())
        self.assertGreater(second["uptime_s"], first["uptime_s"])
        self.assertIn("memory", ctl("--socket", self.socket, "--count", "1", "top"))
        self.assertEqual(ctl("--socket", self.socket, "top").count("memory"), 1)  # no terminal: once
        self.assertEqual(json.loads(ctl("--socket", self.socket, "--json", "loaders")), [])
        self.end(p)

    def test_bench(self):
        p = self.serve()
        rows = json.loads(ctl("--socket", self.socket, "--json", "bench"))
        self.assertEqual([r["error"] for r in rows], [None] * len(rows))
        self.assertTrue(all(0 < r["median_us"] <= r["p99_us"] for r in rows) and len(rows) >= 5)
        self.end(p)

    def test_programs(self):
        """From the text of an IR; what Python and C saved, tests/python/program/test_jit_files.py runs."""
        path = self.place + "/power.txt"
        with open(path, "w") as f:
            f.write("graph(%x : Tensor, %n : int, %by : float?, %words : str[]):\n"
                    "  %yes : bool = prim::Constant[value=1]()\n"
                    "  %y : Tensor = prim::Loop(%n, %yes, %x)\n"
                    "    block0(%i : int, %z : Tensor):\n"
                    "      %t : Tensor = td::t(%z)\n"
                    "      %u : Tensor = td::t(%t)\n"
                    "      %m : Tensor = td::mul(%u, %x)\n"
                    "      -> (%yes, %m)\n"
                    "  return (%y, %n, %by, %words)\n")
        self.assertEqual(ctl("program", "check", path),
                         "graph(x : Tensor, n : int, by : float?, words : str[]) -> (Tensor, int, float?, str[])\n  5 nodes\n")
        self.assertEqual(ctl("program", "show", path), open(path).read())
        self.assertIn("for i in range(n)", ctl("program", "code", path))
        self.assertIn("digraph", ctl("program", "dot", path))
        self.assertIn("</svg>", ctl("program", "svg", path))
        passes = ctl("program", "passes", path)
        self.assertIn("---- after peephole", passes)
        self.assertEqual(passes.split("---- after")[-1].count("td::t("), 0)
        p = self.serve()
        run = lambda *args, code=0: ctl("--socket", self.socket, "run", path, *args, code=code)
        words = ("--in", "words=a, b")
        self.assertEqual(run("--in", "x=3", "--in", "n=2", "--in", "by=none", *words), "int64[] 27\n2\nNone\na\nb\n")
        self.assertEqual(run("--in", "0=0.5", "--in", "n=0", "--in", "by=1e3", *words, "--out", self.place + "/y.npy"), "0\n1000\na\nb\n")
        self.assertEqual(run("--in", f"x={self.place}/y.npy", "--in", "n=1", "--in", "by=1", "--in", "words=[]").splitlines()[0], "float32[] 0.25")
        bad = run("--in", "x=1", "--in", "n=1", "--in", "by=1", "--in", "words=\x1b[2Jé\x9b\u202e\tx, b")  # what others say moves no cursor
        self.assertEqual(bad.splitlines()[3:], ["\\x1b[2Jé\\xc2\\x9b\\xe2\\x80\\xae\tx", "b"])
        self.assertIn("'by' is not given", run("--in", "x=1", "--in", "n=1", code=1))
        self.assertIn("--in n=1.5: that is no int", run("--in", "x=1", "--in", "n=1.5", code=1))
        self.assertIn("no such parameter", run("--in", "q=1", code=1))
        self.assertIn("NAME=VALUE is wanted", run("--in", "x", code=1))
        self.assertIn("no.npy", run("--in", "x=no.npy", code=1))
        self.assertIn("1 tensors come, and 2 files", run("--in", "x=1", "--in", "n=1", "--in", "by=1", *words, "--out", "/a.npy", "--out", "/b.npy", code=1))
        self.assertIn("calls, us", subprocess.run([CTL, "--socket", self.socket, "run", path, "--repeat", "5", "--in", "x=1", "--in", "n=1", "--in", "by=1", *words],
                                                  capture_output=True, text=True, env=environment()).stderr)
        once = subprocess.run([CTL, "--socket", self.socket, "run", path, "--repeat", "1", "--in", "x=1", "--in", "n=1", "--in", "by=1", *words],
                              capture_output=True, text=True, env=environment())
        self.assertEqual((once.returncode, once.stderr.count("calls")), (0, 0), once.stderr)
        self.assertIn("nothing is published", ctl("--socket", self.socket, "run", "nothing", code=1))
        self.assertIn("nothing is published", ctl("--socket", self.socket, "program", "show", "nothing", code=1))
        self.assertIn("nothing is published", ctl("--socket", self.socket, "program", "plan", "nothing", code=1))
        planned = self.place + "/planned.ir"
        with open(planned, "w") as f:
            f.write("graph(%x : Tensor, %n : int):\n  %h : Tensor = td::exp(%x) # a.py:1:1\n  %k : Tensor = td::neg(%h) # a.py:2:1\n"
                    "  %l : Tensor = td::tanh(%k) # a.py:3:1\n  %m : Tensor = td::nonzero(%l) # a.py:4:1\n  return (%m)\n")
        plan = ctl("--socket", self.socket, "program", "plan", planned, "--in", "x=0.5", "--in", "n=2")
        self.assertRegex(plan, r"4 nodes, 1 plan\nfrom node 0: row of 3 ops")
        self.assertRegex(plan, r"before nonzero +a.py:4   the shape of its result depends on values\none by one:\n  nonzero")
        self.assertIn("'n' is not given", ctl("--socket", self.socket, "program", "plan", planned, "--in", "x=0.5", code=1))
        self.assertIn("none.td", ctl("program", "show", self.place + "/none.td", code=1))
        self.assertIn("did you mean 'show'", ctl("program", "shw", path, code=2))
        ctl("program", "show", code=2)
        ctl("run", code=2)
        self.end(p)
        with open(path, "w") as f:
            f.write("graph(%x : Tensor):\n  return (%y)\n")
        self.assertIn("%y", ctl("program", "check", path, code=1))
        with open(path, "w") as f:
            f.write('captured %w : Tensor = "\\x1b[2J"\ngraph(%x : Tensor):\n  return (%w)\n')
        self.assertNotIn("\x1b", "".join(ctl("program", form, path) for form in ("check", "show", "code", "dot", "svg")))

    def test_ops(self):
        rows = json.loads(ctl("--json", "ops"))
        names = {row["name"] for row in rows}
        self.assertGreater(len(names), 90)
        self.assertEqual(len(names), len(rows))
        for row in rows:
            self.assertTrue(row["doc"] and row["signature"] and row["dtypes"], row["name"])
            self.assertEqual(row["results"] == [], row["signature"].endswith("-> ()"), row["name"])
            self.assertTrue(all(r["doc"] for r in row["results"]), row["name"])
        one = ctl("ops", "max_dim" if "max_dim" in names else "topk")
        for part in ("results", "dtypes", "gradients", "example"):
            self.assertIn(part, one)
        self.assertEqual(json.loads(ctl("--json", "ops", "add"))[0]["name"], "add")
        self.assertIn("softmax", ctl("ops", "softmx", code=1))
        listed = {line.split()[0] for line in ctl("ops").splitlines()}
        self.assertEqual(listed, names)

    def test_ops_of_a_gpu(self):
        *lines, counts = ctl("ops", "--device", "cuda").splitlines()
        ways = {name: way for name, way in (line.split(maxsplit=1) for line in lines)}
        self.assertEqual([ways[name] for name in ("add", "matmul", "transpose", "linalg_qr")], ["a kernel", "parts", "runs nothing", "no kernel"])
        said = [int(n) for n in re.findall(r"\d+", counts)]
        self.assertEqual(said, [list(ways.values()).count(way) for way in ("a kernel", "parts", "runs nothing", "no kernel")])
        self.assertEqual(sum(said), len(ctl("ops").splitlines()))
        self.assertEqual(ctl("ops", "--device", "cuda", "softmax").split(maxsplit=1)[1].strip(), "a kernel")
        ctl("ops", "--device", "gpu", code=2)

    def test_doctor(self):
        def ask(socket_path, **more):
            run = subprocess.run([CTL, "--socket", socket_path, "--json", "doctor"], capture_output=True, text=True,
                                 env=environment() | more)
            rows = {row["what"]: row for row in json.loads(run.stdout)}
            problems = [row for row in rows.values() if row["state"] == "problem"]
            self.assertEqual(run.returncode, 1 if problems else 0)
            for row in rows.values():
                self.assertIn(row["state"], ("ok", "note", "problem"))
                self.assertTrue(row["found"])
                self.assertTrue(row["state"] != "problem" or row["advice"], row)
            return rows

        rows = ask(self.place + "/nobody")
        self.assertEqual(rows["daemon"]["state"], "note")
        for what in ("open files", "locked memory", "/dev/shm", "memory group", "processors", "sealed memory",
                     "huge pages", "instructions", "CUDA", "cuBLASLt", "wakes", "kernels", "socket directory", "process watch"):
            self.assertIn(what, rows)
        self.assertEqual(rows["sealed memory"]["state"], "ok" if can_seal_memory() else "problem")
        library = f"{self.place}/libcublasLt.so.12"
        with open(library, "w"):  # what is in it is not looked at
            pass
        rows = ask(self.place + "/nobody", TENSORD_CUDA_LIBRARIES=f"/nowhere:{self.place}")
        self.assertEqual((rows["cuBLASLt"]["state"], rows["cuBLASLt"]["found"]), ("ok", library))
        rows = ask(self.place + "/nobody", TENSORD_CUDA_LIBRARIES="off")
        self.assertEqual((rows["cuBLASLt"]["state"], rows["cuBLASLt"]["found"]), ("note", "not found"))
        os.unlink(library)
        p = self.serve()
        rows = ask(self.socket)
        self.assertEqual(rows["daemon"]["state"], "ok")
        self.assertNotIn("unknown", rows["kernels"]["found"])
        self.end(p)

    def test_wrong_usage(self):
        ctl(code=2)
        self.assertIn("did you mean 'status'?", ctl("statsu", code=2))
        self.assertNotIn("did you mean", ctl("differentiate", code=2) + ctl("fly", code=2))
        ctl("--fly", code=2)
        self.assertEqual(len(ctl("--socket", self.place + "/nobody", "status", code=1).splitlines()), 1)
        self.assertIn("tensorctl", ctl("--version"))
        self.assertIn("usage", ctl("--help"))

    def test_manuals_have_examples_that_work(self):
        """Those of tensorctl are run; of the daemon's the options are known."""
        if options()["b_sanitize"] != "none":
            self.skipTest("a sanitizer's library cannot be loaded into a Python without it")
        manual = lambda path: open(SOURCE + path).read().replace("\\-", "-").split(".SH EXAMPLES")[1].split(".SH ")[0]
        examples = [line for block in re.findall(r"\.RS\n(.*?)\.RE", manual("/client/tensorctl/tensorctl.1"), re.S) for line in block.splitlines()]
        self.assertGreaterEqual(len(examples), 5)
        p = self.serve()
        lib = library()
        c = ctypes.c_void_p(lib.td_connect(self.socket.encode()))
        x = ctypes.c_void_p(lib.td_from_data(c, 9, Ints(1, (ctypes.c_int64 * 1)(1)), (ctypes.c_double * 1)(1)))
        self.assertEqual(lib.td_publish(x, b"old/weights", 0), 0)
        for example in examples:
            run = subprocess.run(["sh", "-e", "-c", example.replace("4711", str(p.pid))], cwd=self.place, capture_output=True, text=True,
                                 env=environment(PATH=os.path.dirname(CTL) + ":" + os.environ["PATH"], **({} if "--pid" in example else {"TENSORD_SOCKET": self.socket}),
                                                 XDG_RUNTIME_DIR=self.place))
            self.assertTrue(run.returncode == 0 or "--pid" in example, (example, run.stderr))
        self.assertTrue(os.path.exists(self.place + "/tensord.prom"))
        for option in re.findall(r"tensord (--[a-z-]+ .*?)&?$", manual("/daemon/server/tensord.8"), re.M):
            asked = subprocess.run([DAEMON, *option.split(), "--version"], capture_output=True, text=True, env=environment())
            self.assertEqual(asked.returncode, 0, asked.stderr)
        lib.td_release(x)
        lib.td_disconnect(c)
        self.end(p)

    def test_completion_of_what_runs(self):
        """--pid and drop: from a tensorctl that knows a private daemon, and a name."""
        with open(self.place + "/tensorctl", "w") as f:
            f.write("""#!/bin/sh
case "$*" in
"--json daemons") echo '[{"kind": "private", "pid": 5, "program": "a.py (pid 417)", "socket": "/x"}]' ;;
"--json names") printf '[\\n  {"name": "some/name", "tensor": "float32[3]"}\\n]\\n' ;;
esac""")
        os.chmod(self.place + "/tensorctl", 0o755)
        for words, found in (("--pid", "417"), ("drop", "some/name")):
            out = subprocess.run(["bash", "-c", f'''. {SOURCE}/client/completions/tensorctl.bash
                COMP_WORDS=(tensorctl {words} "") COMP_CWORD=2; _tensorctl; echo "${{COMPREPLY[@]}}"'''], capture_output=True, text=True,
                                 env={**os.environ, "PATH": self.place + ":" + os.environ["PATH"]}).stdout
            self.assertEqual(out, found + "\n")

    def stand_in(self, rows):
        """A tensorctl that says these rows, whatever it is asked."""
        with open(self.place + "/rows.json", "w") as f:
            f.write("[\n" + "".join("  " + json.dumps(row, ensure_ascii=False) + ",\n" for row in rows) + "]\n")
        with open(self.place + "/tensorctl", "w") as f:
            f.write(f"#!/bin/sh\ncat {self.place}/rows.json\n")
        os.chmod(self.place + "/tensorctl", 0o755)

    NAMES = ["$(touch${IFS}ran)", "`touch ran`", "a;touch ran", "a b", "a'b", "$HOME", "*", "(touch ran)", "{a,b}", "~", "ä:c", "-n", "n" * 255]

    def other_shell(self, shell, text):
        run = subprocess.run([*shell, text], capture_output=True, text=True, cwd=self.place, timeout=100,
                             env={**os.environ, "HOME": self.place, "PATH": self.place + ":" + os.environ["PATH"]})
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertNotIn("ran", os.listdir(self.place))
        return run.stdout.splitlines()

    # What a program calls itself, as the daemon shows it: also as if another one ended there.
    PROGRAMS = ["$(touch ran)", "a:b (pid 1)", 'x", "program": "y (pid 2)"', "`touch ran`", "\\x1b[2J"]

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish_completes_names_and_does_not_run_them(self):
        self.stand_in([{"name": name, "tensor": "float32[3]"} for name in self.NAMES])
        path = SOURCE + "/client/completions/tensorctl.fish"
        found = self.other_shell(["fish", "-N", "-c"], f"source {path}; complete -C 'tensorctl drop '")
        self.assertEqual(sorted(found), sorted(self.NAMES))
        self.stand_in([{"program": f"{name} (pid {100 + k})"} for k, name in enumerate(self.PROGRAMS)])
        found = self.other_shell(["fish", "-N", "-c"], f"source {path}; complete -C 'tensorctl --pid '")
        self.assertEqual(sorted(line.split("\t")[0] for line in found), [str(100 + k) for k in range(len(self.PROGRAMS))])

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_completes_names_and_does_not_run_them(self):
        """What it hands to compadd and _describe, which quote it."""
        self.stand_in([{"name": name, "tensor": "float32[3]"} for name in self.NAMES])
        path = SOURCE + "/client/completions/_tensorctl"
        given = f"""compdef() {{ }}; _arguments() {{ }}; compadd() {{ [[ $1 == -a ]] && print -rl -- ${{(P)2}} }}
                    _describe() {{ print -rl -- ${{(P)2}} }}; words=(tensorctl drop ""); CURRENT=3; . {path}; """
        self.assertEqual(self.other_shell(["zsh", "-f", "-c"], given + "_tensorctl_words"), self.NAMES)
        self.stand_in([{"program": f"{name} (pid {100 + k})"} for k, name in enumerate(self.PROGRAMS)])
        found = self.other_shell(["zsh", "-f", "-c"], given + "_tensorctl_pids")
        self.assertEqual([line.split(":")[0] for line in found], [str(100 + k) for k in range(len(self.PROGRAMS))])

    def test_names_are_completed_and_not_run(self):
        names = ["$(touch${IFS}ran)", "`touch ran`", "a;touch ran", "a b", "a'b", "$HOME", "*"]
        self.stand_in([{"name": name, "tensor": "float32[3]"} for name in names])
        out = subprocess.run(["bash", "-c", f'''. {SOURCE}/client/completions/tensorctl.bash
            COMP_WORDS=(tensorctl drop "") COMP_CWORD=2; _tensorctl
            for word in "${{COMPREPLY[@]}}"; do eval "printf '%s\\n' $word"; done'''], capture_output=True, text=True, cwd=self.place,
                             env={**os.environ, "PATH": self.place + ":" + os.environ["PATH"]})
        self.assertEqual((out.stdout.splitlines(), out.stderr), (names, ""))
        self.assertNotIn("ran", os.listdir(self.place))

    def test_no_text_forges_a_line(self):
        """Of a program that is called so as to clear the screen and to write a line of its own."""
        p = self.serve("--log", "info")
        name, ends = b"a\nb\x1b[2J\xc2\x9b1m\xff\"\\", []
        hello = b"\x08" + bytes([PROTOCOL]) + b"\x1a" + bytes([len(name)]) + name
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.socket)
        s.sendall(len(hello).to_bytes(4, "little") + bytes([1, 0, 0, 0]) + hello)
        s.recv(1)
        shown = "a\\x0ab\\x1b[2J\\xc2\\x9b1m\\xff\"\\"
        self.assertIn(shown, ctl("--socket", self.socket, "sessions"))
        self.assertIn(shown, [row["program"] for row in json.loads(ctl("--socket", self.socket, "--json", "sessions"))])
        self.assertIn('program="' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"', ctl("--socket", self.socket, "--prometheus"))
        s.close()
        self.end(p)

    def test_completions_of_other_shells(self):
        known, options = re.findall(r"^  ([a-z]+) ", ctl("--help"), re.M), set(re.findall(r"--[a-z]+", ctl("--help")))
        for shell, name in (("zsh", "_tensorctl"), ("fish", "tensorctl.fish")):
            path = SOURCE + "/client/completions/" + name
            words = re.findall(r"[a-z]+", open(path).read())
            for word in known + [option[2:] for option in options]:
                self.assertIn(word, words, name)
            if shutil.which(shell):
                run = subprocess.run([shell, "-n", path], capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_completion(self):
        words = subprocess.run(["bash", "-c", f'''. {SOURCE}/client/completions/tensorctl.bash
            COMP_WORDS=(tensorctl "") COMP_CWORD=1; _tensorctl; echo "${{COMPREPLY[@]}}"'''], capture_output=True, text=True).stdout.split()
        known = re.findall(r"^  ([a-z]+) ", ctl("--help"), re.M)
        self.assertGreaterEqual(len(known), 10)
        for command in known:
            self.assertIn(command, words)
            self.assertIn(command, open(SOURCE + "/client/tensorctl/tensorctl.1").read())


class Daemon(Place):
    def test_options(self):
        ask = lambda *args: subprocess.run([DAEMON, *args], capture_output=True, text=True, env=environment())
        self.assertRegex(ask("--version").stdout, r"^tensord \d+\.\d+")
        listed = set(re.findall(r"--[a-z-]+", ask("--help").stdout))
        manual = open(SOURCE + "/daemon/server/tensord.8").read().replace("\\-", "-")
        for option in listed:
            self.assertIn(option, manual)
        for wrong in (["--memory", "none"], ["--session-objects", "10"], ["--user-objects", "many"], ["--workers", "0"], ["--shm", "disk"], ["--cuda", "on"], ["--cuda-handles", "all"], ["--log", "loud"], ["--fly"], ["file"],
                      ["--socket", "/" + "x" * 200]):
            run = ask(*wrong)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), wrong)
        for wrong, named in ((["--fly"], "--fly"), (["--memory"], "--memory"), (["--private=3"], "--private=3"), (["-xh"], "-x;")):
            self.assertIn(named, ask(*wrong).stderr)

    def test_the_log_tells_of_killed_clients_and_refused_memory(self):
        """Without any option; not of who leaves as it should."""
        if options()["b_sanitize"] != "none":
            self.skipTest("a sanitizer's library cannot be loaded into a Python without it")
        p = self.serve("--session-memory", "1M")
        lib = library()
        lib.td_lease_new.restype = ctypes.c_void_p
        c = ctypes.c_void_p(lib.td_connect(self.socket.encode()))
        for _ in range(3):
            self.assertIsNone(lib.td_lease_new(c, ctypes.c_size_t(64 << 20)))
        queue = ctypes.c_void_p(lib.td_queue_open(c, b"log/q", 3, 3))
        lib.td_disconnect(c)
        with open(self.place + "/taker.py", "w") as f:
            f.write("import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); lib.td_connect.restype = lib.td_queue_open.restype = ctypes.c_void_p\n"
                    "c = ctypes.c_void_p(lib.td_connect(sys.argv[2].encode())); q = ctypes.c_void_p(lib.td_queue_open(c, b'log/jobs', 3, 2))\n"
                    "lib.td_queue_get(q, (ctypes.c_char * 65536)(), -1)")
        taker = subprocess.Popen([sys.executable, self.place + "/taker.py", BUILD + "/client/libtensord.so", self.socket])
        for _ in range(6000):
            if "log/jobs" in ctl("--socket", self.socket, "sessions"):
                break
            time.sleep(0.01)
        taker.kill()
        taker.wait()
        for _ in range(6000):
            if "taker.py" not in ctl("--socket", self.socket, "sessions"):
                break
            time.sleep(0.01)
        self.end(p)
        said = p.stderr.read().splitlines()
        self.assertEqual(len(said), 2, said)
        self.assertRegex(said[0], rf"^tensord: warning: refused memory to test_tools.py \(pid {os.getpid()}\): .*session \d+")
        self.assertRegex(said[1], rf"^tensord: warning: taker.py \(pid {taker.pid}\) has gone without a word, as if killed: it held .* MB, "
                                  "had 1 queues open, waited for an item of a queue 'log/jobs'$")

    def test_the_log_is_not_filled_by_killed_clients(self):
        if options()["b_sanitize"] != "none":
            self.skipTest("a sanitizer's library cannot be loaded into a Python without it")
        p = self.serve()
        die = ("import ctypes, os, sys; lib = ctypes.CDLL(sys.argv[1]); lib.td_connect.restype = lib.td_queue_open.restype = ctypes.c_void_p\n"
               "for i in range(60): lib.td_queue_open(ctypes.c_void_p(lib.td_connect(sys.argv[2].encode())), b'log/jobs', 3, 2)\n"
               "os._exit(0)")
        program = [sys.executable, "-c", die, BUILD + "/client/libtensord.so", self.socket]
        self.assertEqual(subprocess.run(program).returncode, 0)
        for _ in range(6000):
            if "log/jobs" not in ctl("--socket", self.socket, "queues"):
                break
            time.sleep(0.01)
        self.end(p)
        said = p.stderr.read().splitlines()
        self.assertTrue(1 <= len(said) <= 30, said)
        self.assertIn("has gone without a word, as if killed: ", said[0])

    def test_one_socket_one_daemon(self):
        p = self.serve()
        second = subprocess.run([DAEMON, "--socket", self.socket], capture_output=True, text=True, env=environment())
        self.assertEqual(second.returncode, 1)
        self.assertIn("another tensord", second.stderr)
        self.end(p)
        self.assertEqual(os.listdir(self.place), [])

    def test_another_user_has_the_directory(self):
        """Both sides go to another place, and the daemon says so."""
        if os.geteuid() != 0:
            self.skipTest("to have a directory of another user one must be root")
        uid = 54000 + os.getpid() % 10000  # nobody's, with no home but the environment's
        taken, home = f"/tmp/tensord-{uid}", tempfile.mkdtemp(prefix="td-", dir="/tmp")  # where that user may go, too
        self.addCleanup(shutil.rmtree, home, True)
        os.mkdir(taken, 0o755)
        self.addCleanup(os.rmdir, taken)
        os.chown(taken, uid + 10000, -1)
        os.chown(home, uid, -1)
        for program in DAEMON, CTL:
            try:
                may_run = not subprocess.run([program, "--version"], user=uid, capture_output=True, cwd="/").returncode
            except PermissionError:  # a folder above is its owner's alone, as home directories are
                may_run = False
            if not may_run:
                self.skipTest("the build cannot be read by other users")
        env = environment(HOME=home)
        p = subprocess.Popen([DAEMON], user=uid, env=env, stderr=subprocess.PIPE, text=True, cwd="/")
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        said = p.stderr.readline()
        self.assertIn(f"{taken} belongs to uid {uid + 10000}; listening on {home}/.tensord/socket instead", said)
        for _ in range(6000):
            if os.path.exists(home + "/.tensord/socket"):
                break
            time.sleep(0.05)
        seen = subprocess.run([CTL, "status"], user=uid, env=env, capture_output=True, text=True, cwd="/", timeout=100)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        self.assertIn(str(p.pid), seen.stdout)
        p.terminate()
        self.assertEqual(p.wait(100), 0)
        p.stderr.close()

    def test_what_is_no_socket_stays(self):
        with open(self.socket, "w") as file:
            file.write("mine")
        p = subprocess.run([DAEMON, "--socket", self.socket], capture_output=True, text=True, env=environment(), timeout=100)
        self.assertEqual(p.returncode, 1)
        self.assertIn("is no socket", p.stderr)
        with open(self.socket) as file:
            self.assertEqual(file.read(), "mine")
        os.unlink(self.socket)
        self.assertEqual(os.listdir(self.place), [])

    def test_killed_and_started_again(self):
        p = self.serve()
        p.kill()
        p.wait()
        self.running.remove(p)
        self.end(self.serve())
        self.assertEqual(os.listdir(self.place), [])

    def test_socket_activation(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket)
        listener.listen()
        fd = listener.fileno()
        p = subprocess.Popen(["sh", "-c", f'exec 3<&{fd}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0"' if fd != 3 else
                              'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0"', DAEMON], pass_fds=[fd], env=environment())
        self.running.append(p)
        listener.close()
        status = json.loads(ctl("--socket", self.socket, "--json", "status"))
        self.assertEqual(status["pid"], p.pid)
        self.end(p)
        self.assertTrue(os.path.exists(self.socket))  # it is systemd's

    def test_activation_meant_for_another(self):
        p = self.serve(LISTEN_PID="1", LISTEN_FDS="1")
        self.assertEqual(json.loads(ctl("--socket", self.socket, "--json", "status"))["pid"], p.pid)
        self.end(p)

    def sockets(self, p):
        """How many the process has open."""
        directory = f"/proc/{p.pid}/fd"
        return sum(os.readlink(os.path.join(directory, fd)).startswith("socket:") for fd in os.listdir(directory))

    def notified(self, address):
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(address)
        told.settimeout(60)
        p = self.start("--socket", self.socket, NOTIFY_SOCKET=address.replace("\0", "@"))
        self.assertEqual(told.recv(100), b"READY=1")
        ctl("--socket", self.socket, "status")  # it said so when it was
        if os.geteuid() == 0:  # others cannot look into the daemon
            late = time.monotonic() + 60
            while self.sockets(p) != 1 and time.monotonic() < late:  # the one it listens on
                time.sleep(0.01)
            self.assertEqual(self.sockets(p), 1)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(told.recv(100), b"STOPPING=1")
        self.assertEqual(p.wait(60), 0)
        self.running.remove(p)
        told.close()

    def test_readiness(self):
        self.notified(self.place + "/notify")
        self.notified("\0tensord-tools-%d" % os.getpid())


class Installed(unittest.TestCase):
    """`meson install` into a prefix, and everything from there."""

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="installed-", dir=BUILD)
        option = options()
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.root], check=True,
                       capture_output=True)
        cls.prefix = cls.root + option["prefix"]
        cls.lib = os.path.join(cls.prefix, option["libdir"])
        cls.plain = option["b_sanitize"] == "none"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def test_files(self):
        for name in ("bin/tensord", "bin/tensorctl", "share/man/man8/tensord.8", "share/man/man1/tensorctl.1",
                     "share/bash-completion/completions/tensorctl", "share/zsh/site-functions/_tensorctl",
                     "share/fish/vendor_completions.d/tensorctl.fish", "lib/systemd/user/tensord.service",
                     "lib/systemd/user/tensord.socket", "include/tensord/tensord.h", "share/doc/tensord/ops.md"):
            self.assertTrue(os.path.isfile(os.path.join(self.prefix, name)), name)
        unit = open(self.prefix + "/lib/systemd/user/tensord.service").read()
        path = re.search(r"ExecStart=(\S+)", unit).group(1)
        self.assertTrue(os.access(self.root + path, os.X_OK), path)

    def build(self, compiler, source, program):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tensord"], capture_output=True, text=True, check=True,
                               env={**os.environ, "PKG_CONFIG_PATH": self.lib + "/pkgconfig",
                                    "PKG_CONFIG_SYSROOT_DIR": self.root}).stdout.split()
        subprocess.run([*compiler, source, "-Wall", "-Wextra", "-Werror", *flags, "-o", program], check=True)

    def run_installed(self, program):
        place = tempfile.mkdtemp(dir=self.root)
        return subprocess.run([program], capture_output=True, text=True, timeout=100,
                              env=environment(LD_LIBRARY_PATH=self.lib, XDG_RUNTIME_DIR=place, HOME=place,
                                              PATH=self.prefix + "/bin:" + os.environ["PATH"]))

    def test_a_program(self):
        if not self.plain:
            self.skipTest("a sanitizer's library needs its own flags to be linked")
        program = self.root + "/hello"
        self.build(["cc"], SOURCE + "/client/examples/hello.c", program)
        run = self.run_installed(program)
        self.assertEqual((run.returncode, run.stdout), (0, "loss 23.125, gradient 28 36.5 45\n"), run.stderr)

    def test_the_readme_shows_it(self):
        shown = re.search(r"```c\n(.*?)```", open(SOURCE + "/client/README.md").read(), re.S).group(1)
        self.assertTrue(open(SOURCE + "/client/examples/hello.c").read().endswith(shown))

    def test_tools(self):
        env = environment(LD_LIBRARY_PATH=self.lib)
        for program in ("tensord", "tensorctl"):
            run = subprocess.run([self.prefix + "/bin/" + program, "--version"], capture_output=True, text=True, env=env)
            self.assertRegex(run.stdout, rf"^{program} \d")


class Ci(unittest.TestCase):
    """What .ci/run says at its end, of suites that are made up."""

    SAID = """== quick: ok, 0.4 s
suite quick: 7 passed, 0 failed, 1 skipped

== slow: fail, 70.2 s
suite slow: 2 passed, 3 failed, 0 skipped

9 passed, 3 failed, 1 skipped
"""

    def ci(self, *stages, changed=0, listed="echo a; echo b"):
        """The run of .ci/run among programs that are made up; .ci/changed has the status `changed`, the list of a group is what `listed` prints."""
        with tempfile.TemporaryDirectory(prefix="td-") as root:
            programs = {".ci/setup.sh": "packages=\nneed_packages() { :; }\nbuild() { mkdir -p $1; }\ndie() { echo $1; exit 1; }\n",
                        ".ci/changed": f"#!/bin/sh\nexit {changed}\n", "bin/python3": f"#!/bin/sh\n{listed}\n",
                        "tests/run": f"#!/bin/sh\ncat <<'END'\n{self.SAID}END\n"}
            for name, text in programs.items():
                os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
                with open(f"{root}/{name}", "w") as f:
                    f.write(text)
                os.chmod(f"{root}/{name}", 0o755)
            shutil.copy(SOURCE + "/.ci/run", root + "/.ci/run")
            env = environment()
            return subprocess.run([root + "/.ci/run", *stages], capture_output=True, text=True, env={**env, "PATH": f"{root}/bin:{env['PATH']}"})

    def test_tables(self):
        run = self.ci("suites", "address")
        self.assertEqual((run.returncode, run.stderr), (1, ""))
        lines = [line.split() for line in run.stdout.split("==== the 20 that took longest\n")[1].splitlines()]
        self.assertEqual(sorted(lines[1:5], reverse=True), [["70.2", "suites", "slow"], ["70.2", "address", "slow"], ["0.4", "suites", "quick"],
                                                            ["0.4", "address", "quick"]])
        self.assertEqual([row[:1] + row[2:] for row in lines[7:]], [["suites", "9", "3", "1", "slow"], ["address", "9", "3", "1", "slow"],
                                                                    ["18", "6", "failed,", "2", "skipped"]])

    def test_compat(self):
        """Its suites run unless git is certain that nothing changed; those that do not are named, and counted as skipped."""
        for changed in 0, 2, 127:
            run = self.ci("compat", changed=changed)
            self.assertEqual((run.returncode, run.stdout.splitlines()[-1]), (1, "9 passed, 3 failed, 1 skipped"))
        run = self.ci("compat", changed=1)
        self.assertEqual((run.returncode, run.stdout.splitlines()[-1]), (0, "0 passed, 0 failed, 2 skipped"))
        self.assertRegex(run.stdout, "SKIP compat: 2 suites: .*: a b\n")
        for listed in (":", "exit 1", "echo a; exit 1"):
            run = self.ci("compat", changed=1, listed=listed)
            self.assertEqual((run.returncode, run.stdout.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"), run.stdout)


class Quickstart(unittest.TestCase):
    def test_packages_are_seen_to_come(self):
        """apt-get's own words on its descriptor, and a failure of it is one."""
        script = f"""root={SOURCE}; . {SOURCE}/.ci/setup.sh; have() {{ false; }}; sudo() {{ "$@"; }}; apt-get() {{ :; }}
            env() {{ for n in 3 12 15 40 99; do echo "dlstatus:1:$n.5:Retrieving"; echo "pmstatus:x:$n:Unpacking"; done >&3; echo noise; return ${{FAILS-0}}; }}
            need_packages some-package:some-proof; echo "and on" """
        run = lambda **env: subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={**os.environ, **env})
        said = run().stdout.splitlines()
        self.assertEqual((said[0].split(": ")[1], said[-1]), ("some-package", "and on"))
        self.assertEqual(said[1:-1], [f"  {what} {n}0%" for n in (1, 1, 4, 9) for what in ("fetched", "installed")])
        failed = run(FAILS="1")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("could not install: some-package", failed.stderr)

    def test_what_to_try_next_works(self):
        shown = open(SOURCE + "/client/examples/quickstart").read().split("cat <<END")[1].split("END")[0]
        for line in re.findall(r"^    (.*?)(?:  +#.*)?$", shown, re.M):
            words = [word.replace("${here}", SOURCE + "/") for word in line.split()]
            program = next(word for word in words if "=" not in word.split("'")[0] or word.startswith("/"))
            self.assertTrue(program == "python3" or os.access(program.replace(SOURCE + "/build", BUILD), os.X_OK), line)
        self.assertEqual(shown.count("python3 -c"), 1)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    bad = len(result.failures) + len(result.errors)
    for test, why in result.skipped:
        print(f"SKIP {test}: {why}")
    print(f"suite tools: {result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bad != 0)


main()
