"""What the tests of tensord-http share: a daemon and a front of their own, a client of HTTP that sends what it is told,
and ONNX files made byte by byte, so that nothing but Python's standard library is needed."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import onnx_file

LONG = 60  # seconds; a hundred times longer than anything here takes

# name here and of tensord, number in ONNX, name in the protocol, struct's letter
DTYPES = [("float32", 1, "FP32", "f"), ("uint8", 2, "UINT8", "B"), ("int8", 3, "INT8", "b"), ("uint16", 4, "UINT16", "H"),
          ("int16", 5, "INT16", "h"), ("int32", 6, "INT32", "i"), ("int64", 7, "INT64", "q"), ("bool", 9, "BOOL", "?"),
          ("float16", 10, "FP16", "e"), ("float64", 11, "FP64", "d"), ("uint32", 12, "UINT32", "I"),
          ("uint64", 13, "UINT64", "Q"), ("bfloat16", 16, "BF16", "H")]


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENSORD", "XDG_RUNTIME"))}
    return {**clean, **more}


# ---- ONNX files ----------------------------------------------------------------------------------------------------


def onnx(nodes, inputs, outputs, constants=()):
    """A model's file, as onnx_file.py says; constants: (name, floats)."""
    return onnx_file.model(nodes, inputs, outputs, {name: ((len(values),), values) for name, values in constants}, opset=15)


def plus(constant, columns=4):
    """y = x + constant, for any number of rows."""
    return onnx([("Add", ["x", "c"], ["y"])], [("x", 1, ["n", columns])], [("y", 1, ["n", columns])],
                [("c", [constant] * columns)])


def slow(times=40, n=1024):
    """Takes a second or so: a product of the input with itself, again and again."""
    nodes = [("MatMul", [f"t{k}" if k else "x", "x"], [f"t{k + 1}" if k + 1 < times else "y"]) for k in range(times)]
    return onnx(nodes, [("x", 1, [n, n])], [("y", 1, [n, n])])


def every_dtype():
    """Each input comes back as an output."""
    return onnx([("Identity", ["in_" + t], ["out_" + t]) for t, *_ in DTYPES],
                [("in_" + t, k, ["n", 3]) for t, k, *_ in DTYPES], [("out_" + t, k, ["n", 3]) for t, k, *_ in DTYPES])


# ---- a front and its clients -----------------------------------------------------------------------------------------


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=LONG)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LONG)
        self.sock.connect(self.path)


class Front:
    """A tensord-http that runs. `at`: (host, port)."""

    def __init__(self, program, daemon_socket, *args, listen=True, **more):
        listens = ["--listen", "127.0.0.1:0"] if listen else []
        self.process = subprocess.Popen([program, "--socket", daemon_socket, *listens, *args], stderr=subprocess.PIPE,
                                        text=True, env=environment(), **more)
        self.at, self.unix, self.said = None, None, []
        self._came = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait(lambda: self.at or not listen)

    def _read(self):
        for line in self.process.stderr:
            with self._came:
                self.said.append(line)
                if m := re.search(r"listening at http://(\S+):(\d+)", line):
                    self.at = (m[1], int(m[2]))
                if m := re.search(r"listening at unix:(\S+)", line):
                    self.unix = m[1]
                self._came.notify_all()
        with self._came:
            self._came.notify_all()

    def wait(self, what):
        deadline = time.monotonic() + LONG
        with self._came:
            while not what() and time.monotonic() < deadline:
                if self.process.poll() is not None:
                    break
                self._came.wait(0.1)
        if not what():
            raise AssertionError("the front says: " + "".join(self.said))

    def is_ready(self):
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            if self.ask("GET", "/v2/health/ready")[0] == 200:
                return True
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError("it is not ready: " + "".join(self.said))

    def connection(self):
        return UnixConnection(self.unix) if self.at is None else http.client.HTTPConnection(*self.at, timeout=LONG)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body)"""
        c = self.connection()
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def json(self, method, path, body=None, headers=None):
        status, _, text = self.ask(method, path, None if body is None else json.dumps(body), headers)
        return status, json.loads(text) if text else None

    def raw(self):
        s = socket.create_connection(self.at, timeout=LONG)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def metrics(self):
        status, _, text = self.ask("GET", "/metrics")
        assert status == 200, text
        out = {}
        for line in text.decode().splitlines():
            if line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out

    def settles(self, name, value):
        """A metric comes to this value."""
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            if (now := self.metrics().get(name)) == value:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} is {now}, not {value}")

    def end(self, kill=False):
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        try:
            return self.process.wait(LONG)
        finally:
            self._reader.join(LONG)
            self.process.stderr.close()


def read_answer(s):
    """(status, headers in small letters, body) of what a socket gives; None: it has ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(1)
        if not more:
            return None
        data += more
    head, data = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    want = int(headers.get("content-length", 0))
    while len(data) < want:
        more = s.recv(want - len(data))
        if not more:
            return None
        data += more
    return int(lines[0].split()[1]), headers, data


def infer_body(inputs, outputs=None, **more):
    """A body with binary values, and the header that says where they begin. inputs: (name, datatype, shape, bytes)."""
    text = {"inputs": [{"name": n, "datatype": t, "shape": s, "parameters": {"binary_data_size": len(b)}} for n, t, s, b in inputs],
            "parameters": {"binary_data_output": True}, **more}
    if outputs is not None:
        text["outputs"] = outputs
    head = json.dumps(text).encode()
    return head + b"".join(b for *_, b in inputs), {"Inference-Header-Content-Length": str(len(head))}


def outputs_of(headers, body):
    """{name: (shape, bytes or values)} of an answer."""
    size = headers.get("Inference-Header-Content-Length") or headers.get("inference-header-content-length")
    size = len(body) if size is None else int(size)
    text, at, out = json.loads(body[:size]), size, {}
    for o in text["outputs"]:
        n = o.get("parameters", {}).get("binary_data_size")
        out[o["name"]] = (o["shape"], o.get("data") if n is None else body[at:at + n])
        at += n or 0
    assert at == len(body)
    return out


class Served(unittest.TestCase):
    """A daemon of the test's own, and fronts that end with it. BUILD is set by who runs it."""
    BUILD = None

    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="td-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.socket = self.place + "/d"
        self.daemon = subprocess.Popen([self.BUILD + "/daemon/server/tensord", "--socket", self.socket], env=environment(),
                                       stderr=subprocess.DEVNULL)
        self.addCleanup(self._end_daemon)
        deadline = time.monotonic() + LONG
        while not os.path.exists(self.socket) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _end_daemon(self):
        self.daemon.kill()
        self.daemon.wait(LONG)

    def write(self, name, content):
        path = os.path.join(self.place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def front(self, *args, **kw):
        f = Front(self.BUILD + "/client/tensord-http", self.socket, *args, **kw)
        self.addCleanup(f.end)
        return f

    def sessions(self):
        out = subprocess.run([self.BUILD + "/client/tensorctl", "--socket", self.socket, "--json", "status"], env=environment(),
                             capture_output=True, text=True, check=True).stdout
        return json.loads(out)["sessions"] - 1

    def status(self):
        out = subprocess.run([self.BUILD + "/client/tensorctl", "--socket", self.socket, "--json", "status"], env=environment(),
                             capture_output=True, text=True, check=True).stdout
        return json.loads(out)


def run(name, module):
    """The suite of a file; its first argument is where the programs were built."""
    Served.BUILD = sys.argv[1]
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(sys.argv[2:], module) if sys.argv[2:] else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    bad = len(result.failures) + len(result.errors)
    for test, why in result.skipped:
        print(f"SKIP {test}: {why}")
    print(f"suite {name}: {result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bad != 0)
