"""Fronts, loaders and clients that are killed at random moments, while others go on: every answer is right or an error
that says why, and nothing stays behind. TENSORD_STORM_KILLS says how many kills, TENSORD_SEED which.

    test_storm.py BUILD"""

import json
import os
import random
import signal
import socket
import struct
import sys
import threading
import time

from served import LONG, Served, infer_body, outputs_of, plus, read_answer, run

KILLS = int(os.environ.get("TENSORD_STORM_KILLS", 200))  # a fifth of them of processes
SEED = int(os.environ.get("TENSORD_SEED", 1)) if os.environ.get("TENSORD_SEED", "1").isdigit() else int.from_bytes(os.urandom(4), "little")


class Storm(Served):
    def request(self, rows, first):
        body, headers = infer_body([("x", "FP32", [rows, 4], struct.pack(f"<{4 * rows}f", *range(first, first + 4 * rows)))])
        return (f"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
                f"Inference-Header-Content-Length: {headers['Inference-Header-Content-Length']}\r\n\r\n").encode() + body

    def check(self, answer, rows, first):
        status, headers, body = answer
        if status != 200:
            if status not in (404, 503) or "error" not in json.loads(body):
                self.wrong.append(answer)
            return
        (shape, came), = outputs_of(headers, body).values()
        differ = {round(v - first - k) for k, v in enumerate(struct.unpack(f"<{4 * rows}f", came))}
        if shape != [rows, 4] or len(differ) != 1 or not differ <= {1, 2}:
            self.wrong.append((shape, differ))

    def client(self, seed):
        """Asks, and breaks off at any byte: its socket is reset, as the kernel does when a process is killed."""
        rng = random.Random(seed)
        while not self.ends.is_set():
            try:
                with socket.create_connection(self.f.at, timeout=LONG) as s:
                    while not self.ends.is_set():
                        rows, first = rng.randrange(1, 400), rng.randrange(1000)
                        whole = self.request(rows, first)
                        if rng.random() < 0.3:
                            s.sendall(whole[:rng.randrange(len(whole) + 1)])
                            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                            with self.lock:
                                self.kills += 1
                            break
                        s.sendall(whole)
                        answer = read_answer(s)
                        if answer is None:
                            break
                        self.check(answer, rows, first)
                        with self.lock:
                            self.answered += answer[0] == 200
            except OSError:
                time.sleep(0.002)  # the front was killed

    def loader(self):
        k = 0
        while not self.ends.is_set():
            k += 1
            self.write(f"new.{k % 2}", plus(1.0 + k % 2))
            os.replace(self.place + f"/new.{k % 2}", self.place + "/r/m/1/model.onnx")
            try:
                self.f.json("POST", "/v2/repository/models/m/load", {})
            except (OSError, ValueError):
                time.sleep(0.002)
            except Exception:  # an answer that was cut is an HTTPException
                time.sleep(0.002)

    def children(self):
        try:
            with open(f"/proc/{self.f.process.pid}/task/{self.f.process.pid}/children") as c:
                return [int(p) for p in c.read().split()]
        except OSError:
            return []

    def test_storm(self):
        self.kills, self.answered, self.wrong = 0, 0, []
        self.ends, self.lock = threading.Event(), threading.Lock()
        self.write("r/m/1/model.onnx", plus(1.0))
        args = ("--no-http-socket", "--repository", self.place + "/r")
        self.f = self.front(*args)
        self.f.is_ready()
        threads = [threading.Thread(target=self.client, args=(SEED * 100 + k,)) for k in range(4)]
        threads.append(threading.Thread(target=self.loader))
        for t in threads:
            t.start()
        rng = random.Random(SEED)
        deadline, hard = time.monotonic() + 4 * LONG, 0
        while (self.kills + hard < KILLS or hard < KILLS / 5) and time.monotonic() < deadline:
            time.sleep(rng.random() * 0.1)
            for p in self.children():
                if rng.random() < 0.5:
                    try:
                        os.kill(p, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    hard += 1
            if rng.random() < 0.15:
                self.f.end(kill=True)
                hard += 1
                self.f = self.front(*args)
        self.ends.set()
        for t in threads:
            t.join()
        print(f"{self.kills} connections and {hard} processes killed, {self.answered} answers; seed {SEED}")
        self.assertEqual(self.wrong, [])
        self.assertGreaterEqual(self.kills + hard, KILLS)
        self.assertEqual(self.f.json("POST", "/v2/repository/models/m/load", {})[0], 200)
        with socket.create_connection(self.f.at, timeout=LONG) as s:
            s.sendall(self.request(3, 5))
            answer = read_answer(s)
        self.assertEqual(answer[0], 200, answer)
        self.check(answer, 3, 5)
        self.assertEqual(self.wrong, [])
        self.f.settles("tensord_http_request_bytes", 0)
        self.f.settles("tensord_http_connections", 1)
        while self.sessions() > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.sessions(), 1)
        self.assertEqual(self.f.json("POST", "/v2/repository/models/m/unload", {})[0], 200)
        self.f.end()
        while self.status()["bytes_used"] and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.status()["bytes_used"], 0)


if __name__ == "__main__":
    run("http_storm", sys.modules["__main__"])
