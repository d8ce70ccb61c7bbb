#!/usr/bin/env python3
"""A small HTTP server before a model: many connections, one worker process, batches.

    client/examples/http_front.py [--port N] [--batch 32] [--wait-ms 2]
    curl -d '[0.5, 1, 2, 3]' http://127.0.0.1:8080/scores

The front is one asyncio program. It gathers what comes within a moment, a batch at most, into one tensor and puts that into a queue; the worker gets it,
computes, and puts the scores into another; whoever asked has its row. A request that is given up before its batch has gone costs nothing. Ctrl-C ends both.
"""
import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

try:
    import tensord as td
except ImportError:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/client/python"))
    try:
        import tensord as td
    except ImportError:
        sys.exit("http_front.py: there is no tensord; client/examples/quickstart, which builds it, comes first")
import tensord.aio

WIDTH, CLASSES, MOST_BYTES, SECONDS = 4, 3, 1 << 16, 10


def work(name):
    """The worker: a model that gives each row of a batch its scores."""
    td.manual_seed(0)
    model = td.nn.Linear(WIDTH, CLASSES)
    answers = td.Queue(name + "/answers", role="producer")
    with td.no_grad():
        for job in td.Queue(name + "/jobs"):
            answers.put({"batch": job["batch"], "scores": model(job["rows"]).softmax(1)})
    answers.close()


class Front:
    def __init__(self, name, most, wait):
        self.most, self.wait, self.waiting, self.sent, self.batches = most, wait, [], {}, 0
        self.jobs, self.answers = td.aio.Queue(name + "/jobs", 8), td.aio.Queue(name + "/answers")
        self.more, self.full = asyncio.Event(), asyncio.Event()

    async def scores(self, row):
        """One row's scores, computed together with others'."""
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((row, future))
        self.more.set()
        if len(self.waiting) >= self.most:
            self.full.set()
        return await asyncio.wait_for(future, self.wait + SECONDS)

    async def send(self):
        while True:
            await self.more.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.full.wait(), self.wait)
            batch = [(row, future) for row, future in self.waiting[:self.most] if not future.done()]
            del self.waiting[:self.most]
            if not self.waiting:
                self.more.clear()
            if len(self.waiting) < self.most:
                self.full.clear()
            if batch:
                self.batches += 1
                self.sent[self.batches] = [future for _, future in batch]
                await self.jobs.put({"batch": self.batches, "rows": td.tensor([row for row, _ in batch])})

    async def receive(self):
        async for answer in self.answers:
            rows = await td.aio.tolist(answer["scores"])
            for row, future in zip(rows, self.sent.pop(answer["batch"])):
                if not future.done():
                    future.set_result(row)
        raise RuntimeError("the worker has ended")

    async def answer(self, reader):
        """Status and what to say, of one request; None: the connection has ended."""
        line = await reader.readline()
        if not line:
            return None
        method, path, *_ = line.decode("latin-1").split() + ["", ""]
        length = 0
        while (header := await reader.readline()).strip():
            key, _, value = header.decode("latin-1").partition(":")
            if key.strip().lower() == "content-length" and value.strip().isdecimal():
                length = int(value)
        if length > MOST_BYTES:
            return "413 Content Too Large", {"error": f"at most {MOST_BYTES} bytes"}
        body = await reader.readexactly(length)
        if (method, path) != ("POST", "/scores"):
            return "404 Not Found", {"error": "POST /scores"}
        try:
            row = [float(x) for x in json.loads(body)]
        except (ValueError, TypeError):
            row = []
        if len(row) != WIDTH:
            return "400 Bad Request", {"error": f"a list of {WIDTH} numbers"}
        try:
            return "200 OK", {"scores": await self.scores(row)}
        except TimeoutError:
            return "503 Service Unavailable", {"error": f"no answer within {self.wait + SECONDS:g} s"}

    async def serve(self, reader, writer):
        try:
            while said := await asyncio.wait_for(self.answer(reader), self.wait + 2 * SECONDS):
                body = json.dumps(said[1]).encode()
                writer.write(f"HTTP/1.1 {said[0]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
                if said[0].startswith("413"):
                    break
        except (OSError, EOFError, ValueError, TimeoutError):
            pass  # it went, or sent no HTTP
        finally:
            writer.close()


async def front(name, args):
    here = Front(name, args.batch, args.wait_ms / 1000)
    server = await asyncio.start_server(here.serve, "127.0.0.1", args.port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/scores", flush=True)
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    tasks = [asyncio.ensure_future(c) for c in (here.send(), here.receive(), end.wait())]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await here.jobs.close(end=True)  # the worker ends with it
    await here.answers.close()
    print(f"{here.batches} batches", flush=True)
    return next((str(t.exception()) for t in done if t.exception()), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--batch", type=int, default=32, help="rows of a batch at most")
    parser.add_argument("--wait-ms", type=float, default=2, help="how long a batch waits for more")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of its queue ends it
        return work(args.worker)
    td.connect()
    name = f"http-{os.getpid()}"
    worker = subprocess.Popen([sys.executable, __file__, "--worker", name])
    try:
        wrong = asyncio.run(front(name, args))
    finally:
        try:
            worker.wait(SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
    if wrong:
        sys.exit(f"http_front.py: {wrong}")


if __name__ == "__main__":
    main()
