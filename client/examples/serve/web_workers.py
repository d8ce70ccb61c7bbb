#!/usr/bin/env python3
"""Four web workers, one model: each answers requests over HTTP, and the model is in memory once.

    client/examples/serve/web_workers.py face_detection_yunet.onnx                # serves until Ctrl-C
    curl --data-binary @portrait.png http://127.0.0.1:8080/                       # [{"score": 0.94, "box": [112, 37, 169, 111]}]
    client/examples/serve/web_workers.py face_detection_yunet.onnx --try 200      # sends itself 200 pictures, and says what memory they took

The first process loads the file and publishes the model; each worker opens it by its name. A worker is an ordinary program with `http.server` (a thread
a connection), or with asyncio (`--asyncio`): it maps the results where the daemon has written them. A worker that is killed is started again.
"""
import argparse
import asyncio
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import socketserver
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import _png
import faces
import tensord.aio
from _common import Failed, _end_with, megabytes, number_from, pss, td

MOST_BYTES = 8 << 20  # of a picture that somebody sends
SECONDS = 10  # an answer that takes longer is given up


def answer(found):
    return json.dumps([{"score": round(score, 3), "box": [round(v) for v in box]} for score, box in found]).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """One request of the worker with threads."""

    protocol_version = "HTTP/1.1"
    model = None

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if not 0 < size <= MOST_BYTES:
            return self.reply(413 if size else 411, json.dumps({"error": f"send a PNG file of at most {MOST_BYTES} bytes"}).encode())
        try:
            picture = _png.read(self.rfile.read(size))
        except ValueError as e:
            return self.reply(400, json.dumps({"error": str(e)}).encode())
        return self.reply(200, answer(faces.find(self.model, picture)))

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def serve_with_threads(listening, name):
    Handler.model = td.model(name, timeout=SECONDS)
    server = socketserver.ThreadingTCPServer(listening.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.daemon_threads = listening, True
    server.serve_forever()


def serve_with_asyncio(listening, name):
    async def connection(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.split(": ", 1) for line in head.decode("latin-1").lower().split("\r\n")[1:] if ": " in line)
                size = int(fields.get("content-length", 0))
                status, body = "413 Content Too Large", b'{"error": "the picture is too large"}'
                if size <= MOST_BYTES:
                    try:
                        picture = _png.read(await reader.readexactly(size))
                        x = faces.as_input(*picture)
                        outputs = await td.aio.infer(model, x, timeout=SECONDS)
                        status, body = "200 OK", answer(faces.boxes(outputs, x.shape[3]))
                    except ValueError as e:
                        status, body = "400 Bad Request", json.dumps({"error": str(e)}).encode()
                writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
                if size > MOST_BYTES:
                    break
        writer.close()

    async def serve():
        async with await asyncio.start_server(connection, sock=listening):
            await asyncio.get_running_loop().create_future()

    model = td.model(name, timeout=SECONDS)
    asyncio.run(serve())


def work(listening, name, with_asyncio, driver):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(driver)
    (serve_with_asyncio if with_asyncio else serve_with_threads)(listening, name)


class Workers:
    def __init__(self, arguments, listening, name):
        self.context = multiprocessing.get_context("spawn")
        self.given = (listening, name, arguments.asyncio, os.getpid())
        self.processes = [self.begin() for _ in range(arguments.workers)]

    def begin(self):
        process = self.context.Process(target=work, args=self.given, daemon=True)
        process.start()
        return process

    def pids(self):
        return [p.pid for p in self.processes]

    def replace_dead(self):
        for k, p in enumerate(self.processes):
            if not p.is_alive():
                print(f"web_workers.py: worker {p.pid} has ended ({p.exitcode}); another one takes its place", flush=True)
                self.processes[k] = self.begin()


def ask(port, body, count):
    """Send a picture `count` times over one connection; the last answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(count):
        connection.request("POST", "/", body)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise Failed(f"a worker said {reply.status}: {text.decode()}")
    connection.close()
    return json.loads(text)


def try_it(arguments, port, workers):
    with open(faces.PICTURE, "rb") as f:
        body = f.read()
    clients = 2 * arguments.workers
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        shares = [arguments.requests // clients + (k < arguments.requests % clients) for k in range(clients)]
        answers = list(pool.map(lambda n: ask(port, body, n), [n for n in shares if n]))
    took = time.monotonic() - began
    if any(a != answers[0] for a in answers):
        raise Failed("the workers' answers differ")
    print(f"{arguments.requests} pictures in {took:.1f} s by {arguments.workers} workers; each answer: {json.dumps(answers[0])}")
    row = next(r for r in td.status("models") if r["name"] == workers.given[1])
    each = pss(workers.pids()) / arguments.workers
    print(f"a worker takes {megabytes(each)}; the model is in memory once, {megabytes(row['bytes'])} for all of them")


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("model", help="the face detector YuNet as an ONNX file")
    p.add_argument("--workers", type=number_from(1), default=4, metavar="N", help="how many processes answer (default 4)")
    p.add_argument("--port", type=int, default=8080, metavar="N", help="of 127.0.0.1 (default 8080; 0: any that is free)")
    p.add_argument("--asyncio", action="store_true", help="workers are asyncio programs, not threads")
    p.add_argument("--try", type=number_from(1), dest="requests", metavar="N", help="send N pictures, say what they took, and end")
    arguments = p.parse_args()
    if arguments.requests and "--port" not in " ".join(sys.argv):
        arguments.port = 0
    td.connect()
    os.environ["TENSORD_SOCKET"] = td.connection()["path"]  # the workers find this daemon
    name = f"faces-{os.getpid()}"
    td.load_model(arguments.model).publish(name)
    listening = socket.create_server(("127.0.0.1", arguments.port), backlog=64)
    port = listening.getsockname()[1]
    workers = Workers(arguments, listening, name)
    try:
        if arguments.requests:
            return try_it(arguments, port, workers)
        print(f"{arguments.workers} workers ({' '.join(map(str, workers.pids()))}) serve http://127.0.0.1:{port}/; Ctrl-C ends them", flush=True)
        while True:
            multiprocessing.connection.wait([p.sentinel for p in workers.processes])
            workers.replace_dead()
    finally:
        for each in workers.processes:
            each.kill()
            each.join()
        td.drop(name)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print()
    except (Failed, OSError, td.Error) as e:
        sys.exit(f"web_workers.py: {str(e).splitlines()[0]}")
