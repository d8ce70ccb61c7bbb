"""Models over HTTP: every dtype as binary data, as text and through shared memory; a repository that changes; models of
other processes; deadlines, ends of connections, and fronts, clients and loaders that are killed.

    test_models.py BUILD"""

import http.client
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
from multiprocessing import shared_memory

from served import DTYPES, LONG, Served, UnixConnection, environment, every_dtype, infer_body, onnx, outputs_of, plus, read_answer, run, slow

N = 512  # of the slow model


def values_of(letter, count, rng):
    if letter == "?":
        return [rng.random() < 0.5 for _ in range(count)]
    if letter == "f":  # short ones, which a text keeps
        return [struct.unpack("<f", struct.pack("<f", rng.randrange(-999, 999) / 8))[0] for _ in range(count)]
    if letter in "de":
        packed = struct.pack(f"<{count}{letter}", *(rng.uniform(-8, 8) for _ in range(count)))
        return list(struct.unpack(f"<{count}{letter}", packed))
    bits = 8 * struct.calcsize(letter)
    least = 0 if letter.isupper() else -(1 << bits - 1)
    return [least, least + (1 << bits) - 1, *(rng.randrange(least, least + (1 << bits)) for _ in range(count - 2))]


class Models(Served):
    def has_answer(self, f, name, add=1.0, version=None):
        path = f"/v2/models/{urllib.parse.quote(name, safe='')}" + (f"/versions/{version}" if version else "") + "/infer"
        body, headers = infer_body([("x", "FP32", [2, 4], struct.pack("<8f", *range(8)))])
        status, headers, body = f.ask("POST", path, body, headers)
        self.assertEqual(status, 200, body)
        self.assertEqual(outputs_of(headers, body)["y"], ([2, 4], struct.pack("<8f", *(k + add for k in range(8)))))

    def index(self, f, **more):
        status, rows = f.json("POST", "/v2/repository/index", more)
        self.assertEqual(status, 200, rows)
        return {(r["name"], r["version"]): r["state"] for r in rows}

    def load(self, f, name, what="load"):
        return f.json("POST", f"/v2/repository/models/{urllib.parse.quote(name, safe='')}/{what}", {})

    # ---- values

    def test_every_dtype(self):
        f = self.front(self.write("every.onnx", every_dtype()))
        f.is_ready()
        rng = random.Random(1)
        values = {name: values_of(letter, 6, rng) for name, _, _, letter in DTYPES}
        packed = {name: struct.pack(f"<6{letter}", *values[name]) for name, _, _, letter in DTYPES}
        inputs = [("in_" + name, kind, [2, 3], packed[name]) for name, _, kind, _ in DTYPES]
        body, headers = infer_body(inputs, id="an id")
        status, headers, body = f.ask("POST", "/v2/models/every/infer", body, headers)
        self.assertEqual(status, 200, body)
        out = outputs_of(headers, body)
        self.assertEqual(json.loads(body[:int(headers["Inference-Header-Content-Length"])])["id"], "an id")
        for name in packed:
            self.assertEqual(out["out_" + name], ([2, 3], packed[name]), name)
        halves = ("FP16", "BF16")  # these are binary data alone
        text = {"inputs": [{"name": n, "datatype": k, "shape": s, "data": values[n[3:]]} if k not in halves else
                           {"name": n, "datatype": k, "shape": s, "parameters": {"binary_data_size": len(b)}} for n, k, s, b in inputs],
                "outputs": [{"name": "out_" + n, "parameters": {"binary_data": k in halves}} for n, _, k, _ in reversed(DTYPES)]}
        head = json.dumps(text).encode()
        status, headers, body = f.ask("POST", "/v2/models/every/infer", head + b"".join(b for _, k, _, b in inputs if k in halves),
                                      {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 200, body)
        for name, (shape, came) in outputs_of(headers, body).items():
            want = packed[name[4:]] if isinstance(came, bytes) else values[name[4:]]
            self.assertEqual(came, want, name)
        status, said = f.json("POST", "/v2/models/every/infer", {"inputs": [{"name": "in_float16", "datatype": "FP16", "shape": [1, 3], "data": [1, 2, 3]}]})
        self.assertEqual(status, 400)
        self.assertIn("binary", said["error"])

    def test_shared_memory(self):
        f = self.front(self.write("plus.onnx", plus(1.0)))
        f.is_ready()
        block = shared_memory.SharedMemory(create=True, size=4096)
        self.addCleanup(block.close)
        self.addCleanup(lambda: block._name and block.unlink())
        block.buf[64:96] = struct.pack("<8f", *range(8))
        key = "/" + block.name.lstrip("/")
        self.assertEqual(f.json("POST", "/v2/systemsharedmemory/region/r%201/register", {"key": key, "offset": 64, "byte_size": 4032})[0], 200)
        self.assertEqual(f.json("GET", "/v2/systemsharedmemory/status")[1], [{"name": "r 1", "key": key, "offset": 64, "byte_size": 4032}])
        self.assertEqual(f.json("POST", "/v2/systemsharedmemory/region/q/register", {"key": key, "offset": 1, "byte_size": 4096})[0], 400)
        at = {"shared_memory_region": "r 1", "shared_memory_byte_size": 32}
        ask = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "parameters": at}],
               "outputs": [{"name": "y", "parameters": {**at, "shared_memory_offset": 1000}}]}
        status, said = f.json("POST", "/v2/models/plus/infer", ask)
        self.assertEqual(status, 200, said)
        self.assertNotIn("data", said["outputs"][0])
        self.assertEqual(bytes(block.buf[1064:1096]), struct.pack("<8f", *range(1, 9)))
        ask["outputs"][0]["parameters"]["shared_memory_byte_size"] = 31
        self.assertIn("31", f.json("POST", "/v2/models/plus/infer", ask)[1]["error"])
        ask["inputs"][0]["parameters"] = {**at, "shared_memory_offset": 4001}
        self.assertEqual(f.json("POST", "/v2/models/plus/infer", ask)[0], 400)
        ask["inputs"][0]["parameters"] = at
        os.truncate("/dev/shm" + key, 80)  # its maker cuts it
        status, said = f.json("POST", "/v2/models/plus/infer", ask)
        self.assertEqual((status, "shorter" in said["error"]), (400, True), said)
        self.assertEqual(f.json("POST", "/v2/systemsharedmemory/unregister")[0], 200)
        self.assertEqual(f.json("GET", "/v2/systemsharedmemory/region/r%201/status")[0], 404)
        self.assertEqual(f.json("POST", "/v2/models/plus/infer", ask)[0], 404)
        self.has_answer(f, "plus")

    def test_shared_memory_is_for_this_host(self):
        """Who comes over the network names no region of it, whichever of its inputs and outputs that is for."""
        sums = onnx([("Add", ["a", "b"], ["y"]), ("Sub", ["a", "b"], ["z"])], [("a", 1, [2]), ("b", 1, [2])], [("y", 1, [2]), ("z", 1, [2])])
        f = self.front("--insecure", "--listen", "0.0.0.0:0", self.write("sums.onnx", sums), listen=False)
        f.wait(lambda: f.at and f.unix)
        f.is_ready()
        block = shared_memory.SharedMemory(create=True, size=4096)
        self.addCleanup(block.unlink), self.addCleanup(block.close)
        block.buf[:16] = struct.pack("<4f", 1, 2, 10, 20)

        def here(path, body):
            c = UnixConnection(f.unix)
            c.request("POST", path, json.dumps(body))
            r = c.getresponse()
            status, said = r.status, r.read()
            c.close()
            return status, said

        region = {"key": "/" + block.name.lstrip("/"), "offset": 0, "byte_size": 4096}
        status, said = f.json("POST", "/v2/systemsharedmemory/region/r/register", region)
        self.assertEqual((status, said["error"]), (403, "shared memory is for clients on this host"))
        self.assertEqual(here("/v2/systemsharedmemory/region/r/register", region)[0], 200)

        def question(*names):
            ends = {"a": 0, "b": 8, "y": 1024, "z": 2048}
            at = {n: {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8, "shared_memory_offset": ends[n]}} for n in names}
            values = {"a": [1, 2], "b": [10, 20]}
            return {"inputs": [{"name": n, "datatype": "FP32", "shape": [2], **at.get(n, {"data": values[n]})} for n in "ab"],
                    "outputs": [{"name": n, **at.get(n, {})} for n in "yz"]}

        for name in "abyz":
            status, said = f.json("POST", "/v2/models/sums/infer", question(name))
            self.assertEqual((status, said["error"]), (403, "shared memory is for clients on this host"), name)
        self.assertEqual(bytes(block.buf[1024:]), bytes(3072))  # nothing was written
        status, said = f.json("POST", "/v2/models/sums/infer", question())
        self.assertEqual([o["data"] for o in said["outputs"]], [[11, 22], [-9, -18]])
        status, said = here("/v2/models/sums/infer", question(*"abyz"))
        self.assertEqual((status, ["data" in o for o in json.loads(said)["outputs"]]), (200, [False, False]), said)
        self.assertEqual(struct.unpack("<4f", bytes(block.buf[1024:1032]) + bytes(block.buf[2048:2056])), (11, 22, -9, -18))

    def test_classes_of_nothing_and_of_many(self):
        f = self.front("--memory", "8M", "--model", "same=" + self.write("same.onnx", onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n", "m"])],
                                                                              [("y", 1, ["n", "m"])])))
        f.is_ready()
        outputs = [{"name": "y", "parameters": {"classification": 1}}]
        for shape in ([1 << 40, 0], [0, 1 << 40], [0, 0]):
            status, _ = f.json("POST", "/v2/models/same/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": []}],
                                                                  "outputs": outputs})
            self.assertIn(status, (200, 400), shape)
        # Texts as long as they get, and the order of many.
        wide, = struct.unpack("<f", struct.pack("<f", 3.4e38))
        values = [1.0, -wide, float("nan"), wide, float("inf"), wide]
        for k in (3, 6, 9):
            outputs[0]["parameters"] = {"classification": k, "binary_data": False}
            body, headers = infer_body([("x", "FP32", [1, 6], struct.pack("<6f", *values))], outputs)
            status, headers, body = f.ask("POST", "/v2/models/same/infer", body, headers)
            want = ["inf:4", "%f:3" % wide, "%f:5" % wide, "1.000000:0", "%f:1" % -wide, "-inf:2"][:k]
            self.assertEqual(outputs_of(headers, body)["y"], ([1, len(want)], want))
        values = [random.Random(5).randrange(100) for _ in range(1000)]
        body, headers = infer_body([("x", "FP32", [1, 1000], struct.pack("<1000f", *values))],
                                   [{"name": "y", "parameters": {"classification": 77, "binary_data": False}}])
        status, headers, body = f.ask("POST", "/v2/models/same/infer", body, headers)
        want = ["%f:%d" % (v, i) for v, i in sorted(zip(values, range(1000)), key=lambda x: (-x[0], x[1]))[:77]]
        self.assertEqual(outputs_of(headers, body)["y"], ([1, 77], want))
        outputs[0]["parameters"] = {}
        # All of many: their texts are longer than what there is for requests.
        outputs[0]["parameters"]["classification"] = 1 << 30
        body, headers = infer_body([("x", "FP32", [1, 200000], bytes(800000))], outputs)
        status, _, said = f.ask("POST", "/v2/models/same/infer", body, headers)
        self.assertEqual(status, 503, said[:200])
        self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)

    def test_classes_and_bare_bytes(self):
        f = self.front("--model", "a/b c=" + self.write("plus.onnx", plus(1.0)))
        f.is_ready()
        self.has_answer(f, "a/b c")
        body, headers = infer_body([("x", "FP32", [2, 4], struct.pack("<8f", 3, 1, 2, 0, 0, 0, 5, 0))],
                                   [{"name": "y", "parameters": {"classification": 2, "binary_data": False}}])
        status, headers, body = f.ask("POST", "/v2/models/a%2Fb%20c/infer", body, headers)
        self.assertEqual(outputs_of(headers, body)["y"], ([2, 2], ["4.000000:0", "3.000000:2", "6.000000:2", "1.000000:0"]))
        status, headers, body = f.ask("POST", "/v2/models/a%2Fb%20c/infer", struct.pack("<4f", *range(4)), {"Inference-Header-Content-Length": "0"})
        self.assertEqual(status, 200, body)
        self.assertEqual(outputs_of(headers, body)["y"], ([1, 4], struct.pack("<4f", 1, 2, 3, 4)))

    def test_with_tritons_client(self):
        """The client that Triton's users have, unchanged, where it is installed."""
        python = next((p for p in (os.environ.get("TENSORD_TRITON_PYTHON"), sys.executable) if p and subprocess.run(
            [p, "-c", "import numpy, tritonclient.http, tritonclient.utils.shared_memory"], capture_output=True).returncode == 0), None)
        if not python:
            self.skipTest("tritonclient.http is not installed (TENSORD_TRITON_PYTHON names a Python that has it)")
        one = onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n", 1000])], [("y", 1, ["n", 1000])])
        repository = self.place + "/r"
        self.write("r/every/1/model.onnx", every_dtype()), self.write("r/one/1/model.onnx", one)
        f = self.front("--repository", repository, "--load", "every,one")
        f.is_ready()
        self.write("r/later/3/model.onnx", plus(1.0))
        ran = subprocess.run([python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "triton.py"), "%s:%d" % f.at],
                             capture_output=True, text=True, timeout=LONG)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    # ---- life

    def test_repository(self):
        self.write("r/first/1/model.onnx", plus(1.0))
        self.write("r/first/2/model.onnx", plus(2.0))
        self.write("r/second/1/other.onnx", plus(5.0))
        self.write("r/second/config.pbtxt", 'name: "second" backend: "onnxruntime" max_batch_size: 4 default_model_filename: "other.onnx"\n'
                   'input { name: "x" data_type: TYPE_FP32 dims: [4] }\n')
        self.write("r/third/1/model.onnx", plus(7.0))
        f = self.front("--repository", self.place + "/r", "--load", "first,second")
        f.is_ready()
        self.has_answer(f, "first", 2.0), self.has_answer(f, "second", 5.0)
        self.assertEqual(f.json("GET", "/v2/models/third")[0], 404)
        self.assertEqual(self.index(f), {("first", "2"): "READY", ("second", "1"): "READY", ("third", ""): "UNAVAILABLE"})
        self.assertEqual(self.index(f, ready=True), {("first", "2"): "READY", ("second", "1"): "READY"})
        self.assertEqual(f.json("GET", "/v2/models/first")[1]["versions"], ["2"])
        self.assertEqual(self.load(f, "third"), (200, None))
        self.has_answer(f, "third", 7.0)
        # A version more, and one less.
        self.write("r/first/3/model.onnx", plus(3.0))
        self.has_answer(f, "first", 2.0)
        self.assertEqual(self.load(f, "first")[0], 200)
        self.has_answer(f, "first", 3.0)
        self.assertEqual(self.index(f, ready=True)["first", "3"], "READY")
        os.unlink(self.place + "/r/first/3/model.onnx")
        self.assertEqual(self.load(f, "first")[0], 200)
        self.has_answer(f, "first", 2.0)
        # All versions.
        self.write("r/first/config.pbtxt", "version_policy: { all: { } }")
        self.assertEqual(self.load(f, "first")[0], 200)
        self.has_answer(f, "first", 2.0), self.has_answer(f, "first", 1.0, 1), self.has_answer(f, "first", 2.0, 2)
        # It ends, and its memory with it.
        self.assertEqual(self.load(f, "third", "unload")[0], 200)
        self.assertEqual(f.json("GET", "/v2/models/third/ready")[0], 404)
        self.assertEqual(self.load(f, "none")[0], 404)
        self.assertEqual(self.load(f, "none", "unload")[0], 404)
        self.assertEqual(f.ask("GET", "/v2/health/ready")[0], 200)

    def test_settings_that_change_alone(self):
        """The same file is published anew with other settings, and only then."""
        self.write("r/m/1/model.onnx", plus(1.0))
        f = self.front("--repository", self.place + "/r", "--load", "none")
        for settings, most, counted in (("max_batch_size: 4", 4, 1), ("max_batch_size: 4", 4, 2), ("max_batch_size: 2", 2, 1),
                                        ("max_batch_size: 2 instance_group { count: 3 }", 2, 1)):
            self.write("r/m/config.pbtxt", settings + " dynamic_batching {}")
            self.assertEqual(self.load(f, "m"), (200, None), settings)
            self.has_answer(f, "m")
            self.assertEqual(f.json("GET", "/v2/models/m/config")[1]["max_batch_size"], most)
            self.assertEqual(f.json("GET", "/v2/models/m/stats")[1]["model_stats"][0]["execution_count"], counted, settings)

    def test_a_load_that_fails(self):
        good = self.write("r/m/1/model.onnx", plus(1.0))
        f = self.front("--repository", self.place + "/r")
        f.is_ready()
        for bad, why in ((b"", ""), (plus(1.0)[:-9], ""), (b"\x80" * 100, ""), (b"not a model", ""),
                         (onnx([("NoSuchOp", ["x"], ["y"])], [("x", 1, [4])], [("y", 1, [4])]), "NoSuchOp")):
            self.write("r/m/1/model.onnx", bad)
            status, said = self.load(f, "m")
            self.assertEqual(status, 400, bad)
            self.assertIn(why, said["error"])
            self.has_answer(f, "m")  # the old one goes on
        self.write("r/m/config.pbtxt", "input { name: \"x\" data_type: TYPE_INT64 dims: [-1, 4] }")
        self.write("r/m/1/model.onnx", plus(2.0))
        status, said = self.load(f, "m")
        self.assertEqual(status, 400)
        self.assertIn("config.pbtxt:1", said["error"])
        self.has_answer(f, "m", 1.0)
        self.write("r/m/config.pbtxt", "# nothing")
        for asked in {"parameters": {"config": "{}"}}, {"parameters": {"file:1/model.onnx": "AAAA"}}:
            status, said = f.json("POST", "/v2/repository/models/m/load", asked)
            self.assertEqual((status, said), (400, {"error": "a model is loaded as its files say: parameters are not taken"}))
        self.has_answer(f, "m", 1.0)
        self.assertEqual(f.json("POST", "/v2/repository/models/m/load", {"parameters": {}})[0], 200)
        self.has_answer(f, "m", 2.0)
        self.assertEqual(f.json("POST", "/v2/repository/index", {"ready": 1}), (400, {"error": "ready is true or false"}))
        self.assertTrue(good)

    def test_files_of_other_kinds(self):
        """A pipe that nobody writes to, a directory, a link to itself: an error of that load, which nobody waits for."""
        os.makedirs(self.place + "/r/m/1")
        f = self.front("--repository", self.place + "/r", "--load", "none")
        config, model = self.place + "/r/m/config.pbtxt", self.place + "/r/m/1/model.onnx"
        for bad in (config, model):
            for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)):
                self.write("r/m/config.pbtxt", "# nothing"), self.write("r/m/1/model.onnx", plus(1.0))
                os.unlink(bad)
                make(bad)
                status, said = self.load(f, "m")
                self.assertIn(status, (400, 404), (bad, make))
                self.assertTrue(said["error"])
                os.rmdir(bad) if make is os.mkdir else os.unlink(bad)
        self.write("r/m/1/model.onnx", plus(1.0))
        for config in (b"#" * (1 << 20) + b"\n", b"\0" * 100, b"parameters" + b" { a: [" * 9999, b"input [" * 9999, b'name: "\xff'):
            self.write("r/m/config.pbtxt", config)
            self.assertEqual(self.load(f, "m")[0], 400, config[:20])
        self.write("r/m/config.pbtxt", "")
        self.assertEqual(self.load(f, "m")[0], 200)
        self.has_answer(f, "m")

    def loaders(self):
        """How many sessions there have been."""
        out = subprocess.run([self.BUILD + "/client/tensorctl", "--socket", self.socket, "--json", "sessions"], env=environment(),
                             capture_output=True, text=True, check=True).stdout
        return max(row["session"] for row in json.loads(out))

    def test_loads_that_nobody_waits_for(self):
        """They are one, however many asked for it."""
        self.write("r/m/1/model.onnx", plus(1.0))
        f = self.front("--repository", self.place + "/r")
        f.is_ready()
        before, many = self.loaders(), 100
        for _ in range(many):
            with f.raw() as s:
                s.sendall(b"POST /v2/repository/models/m/load HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        f.settles("tensord_http_under_way", 1)
        self.assertEqual(self.load(f, "m"), (200, None))
        self.assertEqual(self.load(f, "m", "unload"), (200, None))  # none waits behind it
        self.assertLess(self.loaders() - before, many // 2)
        waiting = []
        for _ in range(10):  # those who wait for one are all answered
            waiting.append(f.raw())
            waiting[-1].sendall(b"POST /v2/repository/models/m/load HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        for s in waiting:
            self.assertEqual(read_answer(s)[0], 200)
            s.close()
        self.has_answer(f, "m")

    def test_a_file_that_is_none(self):
        f = self.front(self.write("x.onnx", b"no model"))
        self.assertEqual(f.process.wait(LONG), 1)
        f._reader.join(LONG)
        self.assertIn("x.onnx: it is no ONNX file", "".join(f.said))

    def test_two_files_of_one_name(self):
        path = self.write("x.onnx", b"")
        f = self.front(path, "--model", f"y={path}", "--model", f"x={path}", listen=False)
        self.assertEqual(f.process.wait(LONG), 1)
        f._reader.join(LONG)
        self.assertIn("two files would be x", "".join(f.said))

    def test_reload_under_load(self):
        """Each request is answered, by the old version or the new one, and never by none."""
        self.write("r/m/1/model.onnx", plus(1.0))
        f = self.front("--repository", self.place + "/r")
        f.is_ready()
        body, headers = infer_body([("x", "FP32", [1, 4], struct.pack("<4f", *range(4)))])
        ends, wrong, counts = threading.Event(), [], [0]

        def ask():
            c = http.client.HTTPConnection(*f.at, timeout=LONG)
            while not ends.is_set():
                c.request("POST", "/v2/models/m/infer", body, headers)
                r = c.getresponse()
                came = r.read()
                add = struct.unpack("<4f", outputs_of(r.headers, came)["y"][1])[0] if r.status == 200 else None
                if add not in (1.0, 2.0):
                    wrong.append((r.status, came))
                counts[0] += 1
            c.close()
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for t in threads:
            t.start()
        for k in range(10):
            self.write("r/m/1/model.onnx", plus(1.0 + (k + 1) % 2))
            self.assertEqual(self.load(f, "m")[0], 200)
        ends.set()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertGreater(counts[0], 10)

    def test_rounds_of_loads_leave_nothing(self):
        self.write("r/m/1/model.onnx", plus(1.0, 1 << 16))
        f = self.front("--repository", self.place + "/r", "--load", "none")
        def used():
            deadline = time.monotonic() + LONG
            before = None
            while time.monotonic() < deadline and before != (before := self.status()["bytes_used"]):
                time.sleep(0.05)
            return before
        seen = []
        for _ in range(12):
            self.assertEqual(self.load(f, "m")[0], 200)
            self.assertEqual(f.json("GET", "/v2/models/m/ready")[0], 200)
            self.assertEqual(self.load(f, "m", "unload")[0], 200)
            seen.append(used())
        self.assertEqual(len(set(seen[6:])), 1, seen)  # this server's connection gets its ring in one of the first

    def test_requests_leave_nothing(self):
        """Small inputs go with the request and large ones through a lease; the daemon keeps tensors of neither."""
        f = self.front("--no-http-socket", self.write("plus.onnx", plus(1.0)))
        f.is_ready()

        def ask_both():
            for rows in (2, 4096):
                body, headers = infer_body([("x", "FP32", [rows, 4], bytes(16 * rows))])
                status, headers, body = f.ask("POST", "/v2/models/plus/infer", body, headers)
                self.assertEqual((status, outputs_of(headers, body)["y"]), (200, ([rows, 4], struct.pack("<f", 1) * 4 * rows)))

        ask_both()
        held = self.status()["tensors"]
        for _ in range(10):
            ask_both()
        deadline = time.monotonic() + LONG
        while (now := self.status()["tensors"]) > held and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertLessEqual(now, held)

    def test_models_of_others(self):
        """What another process publishes is served, and what is loaded here outlives this server."""
        f = self.front("--repository", self.place)
        g = self.front("--no-http-socket", self.write("mine.onnx", plus(1.0)))
        g.is_ready()
        self.has_answer(f, "mine")
        self.assertIn(("mine", "1"), self.index(f))
        g.end()
        self.has_answer(f, "mine")
        h = self.front("--no-http-socket", "--model", "mine=" + self.place + "/mine.onnx")  # it is there already
        h.is_ready()
        self.assertEqual([v for n, v in self.index(f) if n == "mine"], ["1"])
        self.assertEqual(self.load(f, "mine", "unload")[0], 200)
        self.assertEqual(f.json("GET", "/v2/models/mine")[0], 404)

    def test_a_model_that_another_process_drops(self):
        """It is not there from then on, and one that comes under its name is what it says of itself at once."""
        f = self.front("--repository", self.place)
        g = self.front("--no-http-socket", self.write("mine.onnx", plus(1.0)))
        g.is_ready()
        for path in ("ready", "config", "versions/1/ready", ""):
            self.assertEqual(f.ask("GET", "/v2/models/mine/" + path if path else "/v2/models/mine")[0], 200)
        self.has_answer(f, "mine")
        self.assertEqual(self.load(g, "mine", "unload")[0], 200)
        for path in ("ready", "config", "versions/1/ready", ""):
            self.assertEqual(f.ask("GET", "/v2/models/mine/" + path if path else "/v2/models/mine")[0], 404)
        self.write("mine.onnx", plus(2.0, columns=3))
        self.assertEqual(self.load(g, "mine")[0], 200)
        self.assertEqual(f.json("GET", "/v2/models/mine")[1]["inputs"][0]["shape"], [-1, 3])

    def test_what_is_said_says_what_to_do(self):
        """Of a start that fails, of paths, and of models that are not there."""
        def fails(*args, socket=self.socket):
            done = subprocess.run([self.BUILD + "/client/tensord-http", "--socket", socket, *args], env=environment(), capture_output=True, text=True, timeout=LONG)
            self.assertEqual(done.returncode, 1, done.stderr)
            return done.stderr

        model = self.write("mine.onnx", plus(1.0))
        f = self.front("--http-socket", self.place + "/web", "--model", "mine=" + model)
        f.is_ready()
        here = "%s:%d" % f.at
        self.assertIn("another server has this port; end that one, or give another port", fails("--no-http-socket", "--listen", here, model))
        self.assertIn("end that one, or give another --http-socket", fails("--http-socket", self.place + "/web", model))
        self.assertRegex(fails(self.place + "/none.onnx"), "^tensord-http: the model none: .*No such file or directory; .*--repository")
        self.assertIn("`tensord --socket /nowhere/d` starts one", fails(model, socket="/nowhere/d"))
        self.assertIn("; POST is", f.json("GET", "/v2/models/mine/infer")[1]["error"])
        self.assertIn("; GET is", f.json("POST", "/v2/models/mine")[1]["error"])
        self.assertIn("models are at /v2/models/NAME", f.json("POST", "/v1/models/mine:predict", {})[1]["error"])
        self.assertIn("no --repository", self.load(f, "other")[1]["error"])
        self.write("repo/cut/1/model.onnx", plus(1.0)[:-9])
        self.write("repo/good/1/model.onnx", plus(1.0))
        g = self.front("--no-http-socket", "--repository", self.place + "/repo", "--load", "cut")
        g.wait(lambda: any("cut is not loaded" in line for line in g.said))
        for method, path in (("GET", "/v2/health/ready"), ("GET", "/v2/models/cut"), ("POST", "/v2/models/cut/infer")):
            self.assertRegex(g.json(method, path, {})[1]["error"], "the model cut was not loaded: model.onnx: .*; POST /v2/repository/models/NAME/load tries it again")
        self.assertEqual(g.json("GET", "/v2/models/good")[1]["error"], "the model good is not loaded; POST /v2/repository/models/NAME/load loads it")
        self.daemon.kill()
        g.process.wait(LONG)
        g._reader.join(LONG)
        self.assertIn("and what it held is gone; start tensord-http again when a daemon runs\n", "".join(g.said))

    def test_text_that_is_no_json(self):
        f = self.front("--model", "same=" + self.write("same.onnx", onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n"])], [("y", 1, ["n"])])))
        f.is_ready()
        for text in (b"hello", b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [nan]}]}'):
            status, _, said = f.ask("POST", "/v2/models/same/infer", text)
            self.assertEqual(status, 400, said)
            self.assertIn("cannot be read: byte", json.loads(said)["error"])

    def test_a_run_that_fails_names_its_node(self):
        f = self.front("--model", "rows=" + self.write("rows.onnx", onnx([("Gather", ["x", "i"], ["y"], {"axis": 0}, "take")], [("x", 1, ["n"]), ("i", 7, ["k"])],
                                                                        [("y", 1, ["k"])])))
        f.is_ready()
        inputs = [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}, {"name": "i", "datatype": "INT64", "shape": [1], "data": [7]}]
        status, said = f.json("POST", "/v2/models/rows/infer", {"inputs": inputs})
        self.assertEqual(status, 400, said)
        self.assertRegex(said["error"], r"index 7 is out of bounds .*, at node 'take' \(Gather\) -> 'y'$")

    def test_numbers_that_are_not_finite(self):
        """In requests and in answers they stand as Python's json and Triton write them, so one NaN costs nobody the whole answer."""
        f = self.front("--model", "same=" + self.write("same.onnx", onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n"])], [("y", 1, ["n"])])))
        f.is_ready()
        values = [1.5, float("nan"), float("inf"), -float("inf")]
        text = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [4], "data": values}]}).encode()
        self.assertIn(b"NaN, Infinity, -Infinity", text)
        status, _, said = f.ask("POST", "/v2/models/same/infer", text)
        self.assertEqual(status, 200, said)
        self.assertIn(b'"data":[1.5,NaN,Infinity,-Infinity]', said)
        self.assertEqual(repr(json.loads(said)["outputs"][0]["data"]), repr(values))

    def test_answers_that_are_too_long(self):
        """As JSON; binary they are as long as the input."""
        f = self.front("--body", "256K", "--model", "same=" + self.write("same.onnx", onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n"])],
                                                                              [("y", 1, ["n"])])))
        f.is_ready()
        x = ("x", "FP32", [50000], struct.pack("<f", 0.12345678) * 50000)
        for outputs in ([{"name": "y", "parameters": {"binary_data": False}}], [{"name": "y", "parameters": {"classification": 50000}}]):
            status, _, said = f.ask("POST", "/v2/models/same/infer", *infer_body([x], outputs))
            self.assertEqual(status, 400, said)
            self.assertIn("ask for", json.loads(said)["error"])
        self.assertEqual(f.ask("POST", "/v2/models/same/infer", *infer_body([x]))[0], 200)

    def test_answers_that_nobody_takes(self):
        """What they hold in the daemon is what requests may take, too."""
        size, limit = 6 << 20, 16 << 20  # more than a socket takes
        f = self.front("--memory", str(limit), "--model", "same=" + self.write("same.onnx", onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n"])],
                                                                                [("y", 1, ["n"])])))
        f.is_ready()
        body, headers = infer_body([("x", "FP32", [size // 4], bytes(size))])
        head = "POST /v2/models/same/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nInference-Header-Content-Length: %s\r\n\r\n" % (
            len(body), headers["Inference-Header-Content-Length"])
        many = []
        for metric, value in (('nv_inference_request_success{model="same",version="1"}', 1),
                              ('nv_inference_request_success{model="same",version="1"}', 2), ("tensord_http_busy_total", 1)):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(LONG)
            s.connect(f.at)
            s.sendall(head.encode() + body)
            many.append(s)
            f.settles(metric, value)
        self.assertGreaterEqual(f.metrics()["tensord_http_request_bytes"], 2 * size)
        self.assertLessEqual(f.metrics()["tensord_http_request_bytes_most"], limit)
        for s in many:
            s.close()
        f.settles("tensord_http_request_bytes", 0)
        self.assertEqual(f.ask("POST", "/v2/models/same/infer", body, headers)[0], 200)

    # ---- requests that others do not wait for

    def same(self, *args):
        f = self.front(*args, "--model", "same=" + self.write("same.onnx", onnx([("Identity", ["x"], ["y"])], [("x", 1, ["n"])], [("y", 1, ["n"])])))
        f.is_ready()
        return f

    def test_a_daemon_that_stands_still_delays_nobody_else(self):
        """Who sends much waits for memory of the daemon's, and the rest of its body in the socket; others are answered."""
        f = self.same()
        n = 1 << 19
        values = struct.pack("<f", 2.5) * n
        body, headers = infer_body([("x", "FP32", [n], values)])
        text = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1 << 15], "data": [1] * (1 << 15)}]}).encode()
        head = "POST /v2/models/same/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n"
        size = "Inference-Header-Content-Length: %s\r\n" % headers["Inference-Header-Content-Length"]
        self.assertEqual(f.ask("POST", "/v2/models/same/infer", body, headers)[0], 200)
        os.kill(self.daemon.pid, signal.SIGSTOP)
        many = [f.raw() for _ in range(12)]
        many[0].sendall((head % (len(text), "")).encode() + text)  # all of it is read before its memory is there
        senders = [threading.Thread(target=s.sendall, args=((head % (len(body), size)).encode() + body,)) for s in many[1:2]]
        for s in many[2:]:
            s.sendall((head % (len(body), size)).encode() + body[:1 << 17])
        for each in senders:
            each.start()
        for _ in range(30):  # longer than it takes until the front looks at the models
            self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)
            time.sleep(0.05)
        for s in many[2:]:  # they go before they are granted anything
            s.close()
        for _ in range(5):
            self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)
        os.kill(self.daemon.pid, signal.SIGCONT)
        for each in senders:
            each.join()
        status, _, said = read_answer(many[0])
        self.assertEqual((status, json.loads(said)["outputs"][0]["data"]), (200, [1.0] * (1 << 15)))
        status, headers, said = read_answer(many[1])
        self.assertEqual(status, 200, said[:200])
        self.assertEqual(outputs_of(headers, said)["y"], ([n], values))
        for s in many[:2]:
            s.close()
        f.settles("tensord_http_request_bytes", 0)
        f.settles("tensord_http_under_way", 1)
        self.assertEqual(f.ask("POST", "/v2/models/same/infer", body, {"Inference-Header-Content-Length": size.split()[1]})[0], 200)

    def test_bodies_that_wait_may_end(self):
        """Whoever goes while the rest of its body waits in the socket breaks nothing, however many go at once."""
        f = self.same()
        n = 1 << 19
        body, headers = infer_body([("x", "FP32", [n], bytes(4 * n))])
        head = "POST /v2/models/same/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nInference-Header-Content-Length: %s\r\n\r\n" % (
            len(body), headers["Inference-Header-Content-Length"])
        self.assertEqual(f.ask("POST", "/v2/models/same/infer", body, headers)[0], 200)
        for _ in range(4):
            os.kill(self.daemon.pid, signal.SIGSTOP)
            many = [f.raw() for _ in range(10)]
            for s in many:
                s.sendall(head.encode() + body[:1 << 16])
            for _ in range(5):  # all of them have come, or some have not
                self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)
            for s in many:
                s.close()
            for _ in range(5):
                self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)
            os.kill(self.daemon.pid, signal.SIGCONT)
            f.settles("tensord_http_request_bytes", 0)
            f.settles("tensord_http_under_way", 1)
        self.assertEqual(f.ask("POST", "/v2/models/same/infer", body, headers)[0], 200)

    def test_long_texts_of_answers_delay_nobody_else(self):
        """They are written in parts, so others are answered between these: many, while one is written."""
        f = self.same("--body", "128M")
        n = 1 << 19
        values = [k / 8 for k in range(n)]
        body, headers = infer_body([("x", "FP32", [n], struct.pack(f"<{n}f", *values))], [{"name": "y", "parameters": {"binary_data": False}}])
        head = "POST /v2/models/same/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nInference-Header-Content-Length: %s\r\n\r\n" % (
            len(body), headers["Inference-Header-Content-Length"])
        most = 0
        for k in range(20):
            with f.raw() as s:
                s.sendall(head.encode() + body)
                f.settles('nv_inference_request_success{model="same",version="1"}', k + 1)
                meanwhile = 0
                while not select.select([s], [], [], 0)[0]:
                    self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)
                    meanwhile += 1
                status, _, said = read_answer(s)
                self.assertEqual((status, json.loads(said)["outputs"][0]["data"] == values), (200, True))
            most = max(most, meanwhile)
            if most >= 3:
                break
        self.assertGreaterEqual(most, 3)
        with f.raw() as s:  # who goes while it is written leaves nothing
            s.sendall(head.encode() + body)
            f.settles('nv_inference_request_success{model="same",version="1"}', k + 2)
        f.settles("tensord_http_request_bytes", 0)
        f.settles("tensord_http_under_way", 1)

    # ---- requests that end early

    def slow(self):
        f = self.front("--no-http-socket", self.write("slow.onnx", slow(20, N)))
        f.is_ready()
        return f

    def test_deadlines(self):
        f = self.slow()
        x = ("x", "FP32", [N, N], bytes(4 * N * N))
        body, headers = infer_body([x], parameters={"timeout": 1000})
        status, _, said = f.ask("POST", "/v2/models/slow/infer", body, headers)
        self.assertEqual(status, 504, said)
        self.assertTrue(json.loads(said)["error"].endswith("; the request's parameter timeout allows 1000 microseconds"), said)
        for seconds in (1, 5):  # meant as seconds
            body, headers = infer_body([x], parameters={"timeout": seconds})
            status, _, said = f.ask("POST", "/v2/models/slow/infer", body, headers)
            self.assertEqual(status, 504, said)
            self.assertTrue(json.loads(said)["error"].endswith(f"allows {seconds} microseconds, where 5 s are 5000000"), said)
        body, headers = infer_body([x], parameters={"timeout": LONG * 1000000, "priority": 1})
        self.assertEqual(f.ask("POST", "/v2/models/slow/infer", body, headers)[0], 200)

    def test_a_connection_that_ends_cancels(self):
        f = self.slow()
        body, headers = infer_body([("x", "FP32", [N, N], bytes(4 * N * N))])
        head = "POST /v2/models/slow/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nInference-Header-Content-Length: %s\r\n\r\n" % (
            len(body), headers["Inference-Header-Content-Length"])
        many = []
        for _ in range(20):  # each takes a while
            s = f.raw()
            s.sendall(head.encode() + body)
            many.append(s)
        f.settles("tensord_http_bytes_in_total", len(many) * len(body))  # all are there, so all have been asked
        for s in many:
            s.close()
        f.settles("tensord_http_under_way", 1)
        f.settles("tensord_http_request_bytes", 0)
        self.assertEqual(f.ask("POST", "/v2/models/slow/infer", body, headers)[0], 200)
        seen = f.metrics()
        given_up = seen.get('nv_inference_request_failure{model="slow",version="1",reason="CANCELED"}', 0)
        answered = seen['nv_inference_request_success{model="slow",version="1"}']
        self.assertGreaterEqual(given_up, 1)
        self.assertEqual(given_up + answered, 21)
        self.assertLessEqual(seen['nv_inference_exec_count{model="slow",version="1"}'], answered + 1)  # one ran when its connection ended; none that waited

    # ---- kills

    def test_killed_fronts(self):
        """What a front had under way, and what it was loading, goes with it; what it had published stays."""
        path = self.write("plus.onnx", plus(1.0))
        first = self.front("--no-http-socket", path)
        first.is_ready()
        rng = random.Random(2)
        whole, headers = infer_body([("x", "FP32", [64, 4], bytes(1024))])
        head = b"POST /v2/models/plus/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nInference-Header-Content-Length: %s\r\n\r\n" % (
            len(whole), headers["Inference-Header-Content-Length"].encode())
        for k in range(20):
            f = self.front("--no-http-socket", "--model", f"other={path}")
            sockets = [f.raw() for _ in range(4)]
            for s in sockets:
                data = head + whole
                s.sendall(data * 3 if k % 2 else data[:rng.randrange(len(data))])
            time.sleep(rng.random() * 0.05)
            f.end(kill=True)
            for s in sockets:
                s.close()
        deadline = time.monotonic() + LONG
        while self.sessions() > 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.sessions(), 1)
        self.has_answer(first, "plus")

    def loader_of(self, f):
        """The process that loads; there is one before long. Until it is a program of its own the front waits for it."""
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            with open(f"/proc/{f.process.pid}/task/{f.process.pid}/children") as c:
                children = c.read().split()
            try:
                with open(f"/proc/{children[0]}/cmdline") as c:
                    if "--publish" in c.read():
                        return int(children[0])
            except (IndexError, FileNotFoundError, ProcessLookupError):
                pass
        raise AssertionError("nothing is loaded")

    def test_killed_loaders(self):
        self.write("r/m/1/model.onnx", plus(1.0))
        self.write("r/s/1/model.onnx", slow(20, N))
        f = self.front("--repository", self.place + "/r", "--load", "m")
        f.is_ready()
        for k in range(5):
            said = []
            t = threading.Thread(target=lambda: said.append(self.load(f, "s")))
            t.start()
            loader = self.loader_of(f)
            time.sleep(0.02 * k)
            os.kill(loader, signal.SIGKILL)
            t.join()
            self.assertEqual(said[0][0], 500, said)
            self.assertIn("signal 9", said[0][1]["error"])
            self.has_answer(f, "m")
            self.assertEqual(f.json("GET", "/v2/models/s")[0], 404)
        self.assertEqual(self.load(f, "s")[0], 200)

    def test_a_loader_that_hangs(self):
        """It is killed after its time, and the loads behind it go on."""
        self.write("r/slow/1/model.onnx", slow(20, N)), self.write("r/n/1/model.onnx", plus(2.0))
        f = self.front("--repository", self.place + "/r", "--load", "none", "--load-seconds", "1")
        said = []
        t = threading.Thread(target=lambda: said.append(self.load(f, "slow")))
        t.start()
        os.kill(self.loader_of(f), signal.SIGSTOP)
        t.join()
        self.assertEqual(said[0][0], 500, said)
        self.assertIn("within 1 s", said[0][1]["error"])
        self.assertIn(self.load(f, "n")[0], (200, 500))  # a second may be little, but it has its turn
        self.assertEqual(f.ask("GET", "/v2/health/live")[0], 200)

    def test_a_killed_daemon(self):
        f = self.front("--no-http-socket", self.write("plus.onnx", plus(1.0)))
        f.is_ready()
        self.daemon.kill()
        self.assertEqual(f.process.wait(LONG), 1)
        f._reader.join(LONG)
        self.assertIn("closed", "".join(f.said))

    # ---- what is told

    def test_numbers(self):
        """Metrics, statistics and the answers that were counted here say one thing."""
        f = self.front("--no-http-socket", self.write("plus.onnx", plus(1.0)))
        f.is_ready()
        labels = '{model="plus",version="1"}'
        before = f.metrics()
        for _ in range(7):
            self.has_answer(f, "plus")
        f.json("POST", "/v2/models/plus/infer", {"inputs": []})  # never comes to the model
        after = f.metrics()
        self.assertEqual(after["nv_inference_request_success" + labels] - before["nv_inference_request_success" + labels], 7)
        self.assertEqual(after["nv_inference_count" + labels] - before["nv_inference_count" + labels], 14)
        self.assertEqual(after["tensord_http_refused_total"] - before["tensord_http_refused_total"], 1)
        self.assertEqual(after["nv_inference_pending_request_count" + labels], 0)
        status, said = f.json("GET", "/v2/models/plus/stats")
        self.assertEqual(status, 200, said)
        stats = said["model_stats"][0]
        self.assertEqual(stats["inference_stats"]["success"]["count"], after["nv_inference_request_success" + labels])
        self.assertEqual(stats["execution_count"], after["nv_inference_exec_count" + labels])
        self.assertEqual(f.json("GET", "/v2/models/stats")[1]["model_stats"][0]["name"], "plus")
        self.assertEqual(f.json("GET", "/v2/models/none/stats")[0], 404)
        status, headers, page = f.ask("GET", "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertNotIn(b"http://", page.replace(b"http://www.w3.org", b""))  # nothing of elsewhere
        self.assertNotIn(b"https://", page)


if __name__ == "__main__":
    run("http_models", sys.modules["__main__"])
