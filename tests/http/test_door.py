"""What comes through the door of tensord-http: requests cut at each byte, slow, pipelined, oversized, wrong; who may
ask; and that nothing of it stays.

    test_door.py BUILD"""

import json
import os
import resource
import socket
import stat
import struct
import sys
import time
import unittest

from served import LONG, Served, infer_body, outputs_of, plus, read_answer, run

X = struct.pack("<4f", 1, 2, 3, 4)


def request(body, headers, path="/v2/models/plus/infer", method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Door(Served):
    def setUp(self):
        super().setUp()
        self.file = self.write("plus.onnx", plus(1.0))

    def plus(self, *args):
        f = self.front("--no-http-socket", *args, self.file)
        f.is_ready()
        return f

    def is_well(self, f):
        """It answers as ever, and holds nothing of what was before."""
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        status, headers, body = f.ask("POST", "/v2/models/plus/infer", body, headers)
        self.assertEqual(status, 200, body)
        self.assertEqual(outputs_of(headers, body)["y"], ([1, 4], struct.pack("<4f", 2, 3, 4, 5)))
        f.settles("tensord_http_connections", 1)
        f.settles("tensord_http_request_bytes", 0)

    def refuses(self, f, status, raw, why):
        with f.raw() as s:
            s.sendall(raw)
            answer = read_answer(s)
        self.assertIsNotNone(answer, raw[:80])
        self.assertEqual(answer[0], status, answer)
        self.assertIn(why, json.loads(answer[2])["error"])

    def test_cut_at_each_byte(self):
        f = self.plus()
        whole = request(*infer_body([("x", "FP32", [1, 4], X)]))
        for n in range(len(whole)):
            with f.raw() as s:
                s.sendall(whole[:n])
        self.is_well(f)

    def test_cut_at_each_byte_and_waiting(self):
        f = self.plus()
        whole = request(*infer_body([("x", "FP32", [1, 4], X)]))
        open_ones = []
        for n in range(0, len(whole), 3):  # all of them at once, beside one that is served
            s = f.raw()
            s.sendall(whole[:n])
            open_ones.append(s)
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        self.assertEqual(f.ask("POST", "/v2/models/plus/infer", body, headers)[0], 200)
        for s in open_ones:
            s.close()
        self.is_well(f)

    def test_byte_by_byte(self):
        f = self.plus()
        whole = request(*infer_body([("x", "FP32", [1, 4], X)]))
        with f.raw() as s:
            for k in range(len(whole)):
                s.sendall(whole[k:k + 1])
            status, headers, body = read_answer(s)
        self.assertEqual(status, 200)
        self.assertEqual(outputs_of(headers, body)["y"][1], struct.pack("<4f", 2, 3, 4, 5))
        self.is_well(f)

    def test_pipelined(self):
        f = self.plus()
        many = [request(*infer_body([("x", "FP32", [1, 4], struct.pack("<4f", k, k, k, k))], id=str(k))) for k in range(20)]
        many[7] = request(b"{", {})  # in their midst one that is refused
        with f.raw() as s:
            s.sendall(b"".join(many))
            for k in range(20):
                status, headers, body = read_answer(s)
                self.assertEqual(status, 400 if k == 7 else 200)
                if k != 7:
                    self.assertEqual(json.loads(body[:int(headers["inference-header-content-length"])])["id"], str(k))
        self.is_well(f)

    def test_lengths(self):
        f = self.plus()
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        name, size = "Inference-Header-Content-Length", len(body) - 16
        self.refuses(f, 400, request(body, {name: str(len(body) + 1)}), "and the body has")
        self.refuses(f, 400, request(body, {name: "-1"}), name)
        self.refuses(f, 400, request(body, {name: "seven"}), name)
        self.refuses(f, 400, request(body, {name: "99999999999999999999999"}), name)
        self.refuses(f, 400, request(body, {name: str(size - 1)}), "cannot be read")
        self.refuses(f, 400, request(body, {name: str(size + 1)}), "cannot be read")
        self.refuses(f, 400, request(body + b"x", headers), "17 bytes lie behind")
        self.refuses(f, 400, request(body[:-1], headers), "15 bytes lie behind")
        self.refuses(f, 400, request(body, {}), "cannot be read")
        self.refuses(f, 400, request(b"", {}), "list of inputs")
        self.refuses(f, 400, b"POST /v2/models/plus/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ", "Content-Length")
        self.refuses(f, 400, b"POST /v2/models/plus/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", "either")
        self.is_well(f)

    def test_statuses(self):
        f = self.plus("--body", "2M")
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        self.refuses(f, 411, b"POST /v2/models/plus/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "Content-Length")
        self.refuses(f, 413, b"POST /v2/models/plus/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 2097153\r\n\r\n", "2097152")
        self.refuses(f, 413, request(b" " * (1 << 20) + b"{}", {}), "1048576")
        self.refuses(f, 413, request(b" " * (1 << 20) + b"{}", {}, "/v2/repository/index"), "1048576")
        self.refuses(f, 415, request(body, {**headers, "Content-Encoding": "gzip"}), "gzip")
        self.refuses(f, 431, request(body, {**headers, "X-Long": "a" * 17000}), "16384")
        self.refuses(f, 404, request(b"{}", {}, "/v2/models/none/infer"), "none")
        self.refuses(f, 404, request(b"{}", {}, "/v2/models/plus/versions/9/infer"), "")
        self.refuses(f, 404, request(b"{}", {}, "/v3"), "nothing at /v3")
        self.refuses(f, 400, request(b"{}", {}, "/v2/models/%zz/infer"), "path")
        self.refuses(f, 405, request(b"", {}, "/v2/models/plus/infer", "GET"), "GET")
        self.refuses(f, 405, request(b"", {}, "/metrics", "DELETE"), "DELETE")
        self.refuses(f, 400, request(b"[" * 33 + b"]" * 33, {}), "32 deep")
        with f.raw() as s:  # more than libmicrohttpd keeps of a head: it says so itself
            s.sendall(request(body, {"X-Long": "a" * 100000}))
            self.assertIn(read_answer(s)[0], (400, 413, 431))
        self.is_well(f)

    def test_a_word_before_the_body(self):
        f = self.plus("--body", "1M")
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        whole = request(body, {**headers, "Expect": "100-continue"})
        with f.raw() as s:
            s.sendall(whole[:-len(body)])
            self.assertEqual(read_answer(s)[0], 100)
            s.sendall(body)
            self.assertEqual(read_answer(s)[0], 200)
        with f.raw() as s:
            s.sendall(b"POST /v2/models/plus/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n")
            self.assertEqual(read_answer(s)[0], 413)
        with f.raw() as s:
            s.sendall(b"POST /v2/models/none/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 999\r\n\r\n")
            self.assertEqual(read_answer(s)[0], 404)
        self.is_well(f)

    def test_noise(self):
        f = self.plus()
        for noise in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50,
                      b"GET / HTTP/1.1\r\n: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with f.raw() as s:
                s.sendall(noise)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
        self.is_well(f)

    def test_too_slow(self):
        f = self.plus("--idle", "2")
        whole = request(*infer_body([("x", "FP32", [1, 4], X)]))
        sockets = [f.raw() for _ in range(3)]
        sockets[1].sendall(whole[:40])       # in its head
        sockets[2].sendall(whole[:-5])       # in its body
        for s in sockets:
            self.assertEqual(s.recv(1000), b"")  # closed, after whatever time
            s.close()
        f.settles("tensord_http_closed_slow_total", 3)
        with f.raw() as s:  # a head that drips does not live longer for that
            ended = False
            for k in range(LONG * 5):
                try:
                    s.sendall(whole[k % 40:k % 40 + 1])
                except OSError:
                    ended = True
                    break
                time.sleep(0.2)
            self.assertTrue(ended)
        self.is_well(f)

    def test_slow_reader(self):
        f = self.plus("--idle", "2")
        rows = 1 << 18  # an answer of 4 MiB
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(f.at)
        s.settimeout(LONG)
        with s:
            s.sendall(request(*infer_body([("x", "FP32", [rows, 4], X * rows)])))
            before = f.metrics()["tensord_http_closed_slow_total"]
            self.assertEqual(before, 0)
            f.settles("tensord_http_closed_slow_total", 1)
        self.is_well(f)

    def test_room(self):
        f = self.plus("--connections", "8")
        idle = [f.raw() for _ in range(8)]
        f.settles("tensord_http_connections", 8)
        self.assertEqual(idle[0].recv(1), b"")  # who asked for the metrics made the oldest go
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        self.assertEqual(f.ask("POST", "/v2/models/plus/infer", body, headers)[0], 200)
        self.assertLessEqual(f.metrics()["tensord_http_connections"], 8)
        for s in idle:
            s.close()
        self.is_well(f)

    def test_few_descriptors(self):
        f = self.front("--no-http-socket", self.file, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)))
        f.is_ready()
        idle = [f.raw() for _ in range(400)]  # more than it can have: the oldest go
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        self.assertEqual(f.ask("POST", "/v2/models/plus/infer", body, headers)[0], 200)
        self.assertLessEqual(f.metrics()["tensord_http_connections"], 172)
        for s in idle:
            s.close()
        self.is_well(f)

    def test_memory(self):
        f = self.plus("--memory", "1M")
        rows = 1 << 17
        self.refuses(f, 400, request(*infer_body([("x", "FP32", [rows, 4], X * rows)])), "1048576")
        self.assertEqual(f.metrics()["tensord_http_busy_total"], 0)  # it is not to be sent again later
        self.is_well(f)

    def test_memory_of_values(self):
        """A number of two characters takes a value's memory, and a value that is read four bytes: both are charged."""
        f = self.plus("--memory", "4M")
        head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":['
        few = b"1,2,3,4]}]}"
        self.refuses(f, 400, request(head + b"1," * 200000 + few, {}), "4194304")
        # Answers that nobody reads.
        rows, many = 6000, []
        body = request(*infer_body([("x", "FP32", [rows, 4], struct.pack("<f", 0.1) * 4 * rows)], binary_data_output=False))
        for _ in range(12):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(LONG)
            s.connect(f.at)
            s.sendall(body)
            many.append(s)
        seen = f.metrics()
        while seen["tensord_http_requests_total"] < 12:
            seen = f.metrics()
        self.assertLessEqual(seen["tensord_http_request_bytes_most"], 4 << 20)
        for s in many:
            s.close()
        self.is_well(f)

    def test_a_thousand(self):
        f = self.plus()
        idle = []
        for _ in range(1000):
            idle.append(f.raw())
        f.settles("tensord_http_connections", 1001)
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        self.assertEqual(f.ask("POST", "/v2/models/plus/infer", body, headers)[0], 200)
        for s in idle:
            s.close()
        self.is_well(f)

    def test_token(self):
        token = self.write("token", "a-long-enough-token\n")
        os.chmod(token, 0o600)
        f = self.front("--no-http-socket", "--token-file", token, self.file)
        f.is_ready()  # whoever watches needs no token
        self.assertEqual(f.json("GET", "/v2")[0], 401)
        self.assertEqual(f.json("GET", "/v2", headers={"Authorization": "Bearer a-long-enough-tokem"})[0], 401)
        self.assertEqual(f.json("GET", "/v2", headers={"Authorization": "Bearer "})[0], 401)
        self.assertEqual(f.json("GET", "/v2", headers={"Authorization": "Bearer a-long-enough-token"})[0], 200)
        os.chmod(token, 0o644)
        g = self.front("--no-http-socket", "--token-file", token, "--listen", "127.0.0.1:0", listen=False)
        self.assertEqual(g.process.wait(LONG), 1)
        g._reader.join(LONG)
        self.assertIn("chmod 600", "".join(g.said))

    def test_open_to_the_network_only_on_request(self):
        g = self.front("--no-http-socket", "--listen", "0.0.0.0:0", listen=False)
        self.assertEqual(g.process.wait(LONG), 1)
        g._reader.join(LONG)
        self.assertIn("--token-file", "".join(g.said))
        g = self.front("--no-http-socket", "--insecure", "--listen", "0.0.0.0:0", listen=False)
        g.wait(lambda: g.at)

    def test_addresses_that_are_none(self):
        for arguments, status, said in ((("--listen", "127.0.0.1:65536"), 1, "a port from 0 to 65535"), (("--listen", "127.0.0.1:"), 1, "HOST:PORT"),
                                        (("--listen", "8000"), 1, "HOST:PORT"), ((), 2, "says where to listen")):
            g = self.front("--no-http-socket", *arguments, listen=False)
            self.assertEqual(g.process.wait(LONG), status)
            g._reader.join(LONG)
            self.assertIn(said, "".join(g.said))

    def test_no_descriptors(self):
        """Those who are there are served; the others wait, and the server sleeps meanwhile."""
        f = self.plus()
        self.is_well(f)  # the daemon's memory is open
        limits = resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE)
        body = request(*infer_body([("x", "FP32", [1, 4], X)]))
        many = []

        def begin():
            many.append(f.raw())
            many[-1].sendall(body[:-1])  # no room is made of those who are at it

        def spent():
            with open("/proc/%d/stat" % f.process.pid) as s:
                return sum(map(int, s.read().rsplit(")", 1)[1].split()[11:13]))
        for _ in range(3):
            begin()
        f.settles("tensord_http_under_way", 4)
        highest = max(map(int, os.listdir("/proc/%d/fd" % f.process.pid)))
        resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        for _ in range(5):
            begin()
        time.sleep(0.1)
        before = spent()
        time.sleep(0.5)
        self.assertLess(spent() - before, 5)  # hundredths of a second of a processor's time
        for s in many:
            s.sendall(body[-1:])
            self.assertEqual(read_answer(s)[0], 200)
            s.close()
        resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, limits)
        self.is_well(f)

    def test_room_is_made_of_the_idle(self):
        """Of the one that was idle longest, not of one that has just come."""
        f = self.plus("--connections", "4")
        body = request(*infer_body([("x", "FP32", [1, 4], X)]))
        idle = []
        for _ in range(3):
            idle.append(f.raw())
            idle[-1].sendall(body)
            self.assertEqual(read_answer(idle[-1])[0], 200)
            time.sleep(0.002)  # one was idle longer than the next
        comes = f.raw()
        later = f.raw()
        for s in (later, comes, idle[2], idle[1]):
            s.sendall(body)
            self.assertEqual(read_answer(s)[0], 200)
        self.assertIsNone(read_answer(idle[0]))
        for s in (comes, later, *idle):
            s.close()
        self.is_well(f)

    def test_pages_of_other_sites(self):
        f = self.plus()
        host = "%s:%d" % f.at
        self.assertEqual(f.ask("GET", "/v2", headers={"Origin": "http://" + host})[0], 200)
        self.assertEqual(f.ask("GET", "/v2", headers={"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(f.ask("GET", "/v2", headers={"Origin": "null"})[0], 403)
        self.assertEqual(f.ask("GET", "/v2", headers={"Host": "evil.example", "Sec-Fetch-Site": "same-origin"})[0], 403)
        # A name of the other site's that means this host: the page and what it asks are of one origin then.
        port, agent = ":%d" % f.at[1], {"User-Agent": "Mozilla/5.0 (X11)"}
        for name in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.evil.example", "[::1", "[::1].evil.example", ""):
            for more in ({"Origin": "http://" + name + port}, agent):
                self.assertEqual(f.ask("POST", "/v2/repository/index", b"{}", {"Host": name + port, **more})[0], 403, name)
        for name in ("127.0.0.1", "localhost", "LocalHost", "[::1]", "127.1.2.3"):
            for more in ({"Origin": "http://" + name + port}, agent, {}):
                self.assertEqual(f.ask("POST", "/v2/repository/index", b"{}", {"Host": name + port, **more})[0], 200, name)
        self.assertEqual(f.ask("POST", "/v2/repository/index", b"{}", {"Host": "behind.a.proxy"})[0], 200)  # no browser

    def test_unix_socket(self):
        f = self.front(self.file, listen=False)
        f.wait(lambda: f.unix)
        self.assertEqual(f.unix, self.place + "/http")  # beside the daemon's
        self.assertEqual(stat.S_IMODE(os.stat(self.place).st_mode), 0o700)
        f.is_ready()
        body, headers = infer_body([("x", "FP32", [1, 4], X)])
        self.assertEqual(f.ask("POST", "/v2/models/plus/infer", body, headers)[0], 200)
        second = self.front(listen=False)
        self.assertEqual(second.process.wait(LONG), 1)  # the place is taken
        f.end(kill=True)
        third = self.front(listen=False)  # and free again, though the name was left
        third.wait(lambda: third.unix)
        self.assertEqual(third.ask("GET", "/v2/models/plus/ready")[0], 200)  # models outlive who loaded them
        os.chmod(self.place, 0o755)
        fourth = self.front("--http-socket", self.place + "/other", listen=False)
        self.assertEqual(fourth.process.wait(LONG), 1)
        fourth._reader.join(LONG)
        self.assertIn("0700", "".join(fourth.said))
        os.chmod(self.place, 0o700)


if __name__ == "__main__":
    run("http_door", sys.modules["__main__"])
