"""tensord.aio: awaiting holds up nobody, cancelling takes nothing, and every end is told."""
import asyncio
import gc
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import tensord as td
import tensord.aio
from common import at_rest, script, settles


@pytest.fixture(autouse=True)
def nothing_is_left():
    td.jit.trace(lambda x: -x, (td.ones(1),))(td.ones(1))  # the connection has its stopper from then on
    asyncio.run(td.aio.sync())
    before = at_rest()
    yield
    assert settles(before) == before


def test_values():
    async def main():
        x = td.arange(6.0).reshape(2, 3)
        y = x @ x.T
        assert await td.aio.ready(y) is y
        assert await td.aio.tolist(y) == y.tolist() and await td.aio.item(y.sum()) == y.sum().item()
        assert await td.aio.tolist(td.tensor(3)) == 3
        assert await td.aio.tolist(td.nonzero(td.ones(3))) == [[0], [1], [2]]  # a shape that is known later
        await td.aio.sync()
        assert {row["key"] for row in await td.aio.status()} >= {"tensors", "queues"}
        with pytest.raises(td.ShapeError, match="6 elements cannot be converted"):
            await td.aio.item(x)
        with pytest.raises(td.OutOfRange):
            await td.aio.ready(td.ones(3).index_select(0, td.tensor([7])))
        with pytest.raises(TypeError, match="wants a tensor, not a int"):
            await td.aio.item(3)

    asyncio.run(main())


def test_numpy():
    np = pytest.importorskip("numpy")

    async def main():
        for dtype in (td.float32, td.int64, td.bool, td.complex64, td.float16):
            x = td.ones(2, 3, dtype=dtype)
            a = await td.aio.numpy(x)
            assert a.dtype.name == dtype.name and a.shape == (2, 3) and np.array_equal(a, x.numpy()) and a.flags.writeable
        assert (await td.aio.numpy(td.ones(3, requires_grad=True))).sum() == 3
        with pytest.raises(TypeError, match="bfloat16"):
            await td.aio.numpy(td.ones(2, dtype=td.bfloat16))

    asyncio.run(main())


def test_queue():
    async def main():
        async with td.aio.Queue("aio", 2) as q:
            get = asyncio.create_task(q.get())
            await asyncio.sleep(0.01)
            await q.put({"x": td.ones(3), "n": 1})
            assert (await get)["x"].tolist() == [1, 1, 1]
            await q.put(1)
            q.put_nowait(2)
            assert q.full() and q.qsize() == 2
            with pytest.raises(td.Timeout, match="stayed full"):
                await q.put(3, timeout=0.01)
            with pytest.raises(td.QueueFull):
                q.put_nowait(3)
            assert [await q.get(), q.get_nowait()] == [1, 2] and q.empty()
            with pytest.raises(TimeoutError, match="stayed empty"):
                await q.get(timeout=0.01)
        with pytest.raises(ValueError, match="close.. has left it"):
            await q.get()

    asyncio.run(main())


def test_async_for_ends_with_the_producers():
    async def main():
        consumer = td.aio.Queue("aio-for", role="consumer")
        async with td.aio.Queue("aio-for", role="producer") as producer:
            for i in range(5):
                await producer.put(i)
        got = [item async for item in consumer]
        await consumer.close()
        return got

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_open_waits_for_newer():
    async def main():
        with pytest.raises(td.NotFound):
            await td.aio.open("aio-name", timeout=0)
        waits = asyncio.create_task(td.aio.open("aio-name"))
        await asyncio.sleep(0.01)
        w = td.ones(2).publish("aio-name")
        assert (await waits).tolist() == [1, 1] and (await waits).name == "aio-name"
        _, version = await td.aio.open("aio-name", newer_than=0)
        newer = asyncio.create_task(td.aio.open("aio-name", newer_than=version))
        await asyncio.sleep(0.01)
        assert not newer.done()
        td.publish("aio-name", {"w": w * 2, "step": 7})
        tree, after = await newer
        assert tree["step"] == 7 and tree["w"].tolist() == [2, 2] and after > version
        with pytest.raises(td.Timeout):
            await td.aio.open("aio-name", timeout=0.01, newer_than=after)
        with pytest.raises(td.NotNewer):
            await td.aio.open("aio-name", timeout=0, newer_than=after)
        for timeout in (0, 0.01):
            with pytest.raises(td.NotPublished):
                await td.aio.open("aio-nobody", timeout=timeout, newer_than=after)
        with pytest.raises(ValueError, match="none is negative"):
            await td.aio.open("aio-name", newer_than=-1)
        td.drop("aio-name")

    asyncio.run(main())


def test_the_loop_goes_on():
    """The loop ticks while a get waits, and nothing spins."""
    async def main():
        async with td.aio.Queue("aio-ticks", 1) as q:
            get = asyncio.create_task(q.get())
            for _ in range(100):
                await asyncio.sleep(0.001)
            assert not get.done()
            spent = time.process_time()
            await asyncio.sleep(0.3)
            assert time.process_time() - spent < 0.15
            await q.put(1)
            assert await get == 1

    asyncio.run(main())


@td.jit.script
def mixture(x, n: int = 2):
    print("n is", n)
    x.mul_(n)
    return x.sum().item(), x + 1, [n, n], {"a": "b"}, n > 1


@td.jit.script
def endless(k: int):
    while k >= 0:
        k = (k + 1) % 1000
    return k


class Scales(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = td.nn.Parameter(td.tensor([1.0, 2.0]))

    def forward(self, x, by: float = 1.0):
        return (self.w * x * by).sum(), by


def test_calls_of_programs(tmp_path, capsys):
    async def main():
        x = td.ones(3)
        seen = memoryview(x)
        total, y, numbers, words, more = await td.aio.call(mixture, x)
        assert (total, y.tolist(), numbers, words, more) == (6.0, [3, 3, 3], [2, 2], {"a": "b"}, True) and type(total) is float
        assert seen.tolist() == [2, 2, 2] and capsys.readouterr().out == "n is 2\n"
        assert (await td.aio.call(mixture, n=3, x=td.ones(1)))[2] == [3, 3]
        with pytest.raises(TypeError, match="too many positional"):
            await td.aio.call(mixture, x, 1, 2)
        with pytest.raises(td.InvalidError, match="3 elements, so it is no number"):
            await td.aio.call(td.jit.script(number), x)
        with pytest.raises(TypeError, match="takes a program .* not function"):
            await td.aio.call(number, x)

        model = td.jit.script(Scales())
        loss, by = await td.aio.call(model, x[:2], by=0.5)
        assert by == 0.5
        loss.backward()
        assert model.w.grad.tolist() == [1, 1]
        model.save(str(tmp_path / "m.td"))
        assert (await td.aio.call(td.jit.load(str(tmp_path / "m.td")), td.ones(2)))[1] == 1.0
        mixture.publish("aio-program")
        assert (await td.aio.call(td.jit.open("aio-program"), x, n=1))[4] is False
        td.drop("aio-program")
        traced = td.jit.trace(lambda t: {"y": t["x"] * 2}, ({"x": td.ones(2)},))
        assert (await td.aio.call(traced, {"x": td.ones(2)}))["y"].tolist() == [2, 2]
        traced = td.jit.trace(td.nn.Linear(2, 2), (td.ones(1, 2),))
        assert tuple((await td.aio.call(traced, td.ones(1, 2))).shape) == (1, 2)
        with traced.register_forward_hook(lambda *_: None), pytest.raises(td.Unsupported, match="hooks"):
            await td.aio.call(traced, td.ones(1, 2))
        got = await asyncio.gather(*(td.aio.call(mixture, td.ones(1), k) for k in range(50)))
        assert [each[2] for each in got] == [[k, k] for k in range(50)]

    asyncio.run(main())


class Remembers(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.seen = 0, td.zeros(0)

    def forward(self, x, spin: int = 0):
        for _ in range(spin):
            x = x + 1 - 1
        self.count += 1
        self.seen = td.cat([self.seen, x])
        return self.count


def test_calls_of_what_keeps_its_attributes(tmp_path):
    """They overlap, in tasks and threads, and none is lost; one that is cancelled while it waits is never made."""
    module = Remembers()
    program = td.jit.script(module)

    async def calls(n, **kw):
        return await asyncio.gather(*(td.aio.call(program, td.full((1,), float(k)), **kw) for k in range(n)))

    async def main():
        assert await calls(20) == list(range(1, 21)) and module.seen.tolist() == list(range(20))
        os.kill(td.connection()["pid"], signal.SIGSTOP)  # the first lasts until it goes on
        try:
            long, waits, last = (asyncio.create_task(td.aio.call(program, td.ones(1), n)) for n in (2000, 0, 0))
            await asyncio.sleep(0.002)
            with pytest.raises(RuntimeError, match="is awaited in this event loop"):
                program(td.ones(1))
            waits.cancel()
        finally:
            os.kill(td.connection()["pid"], signal.SIGCONT)
        assert await asyncio.gather(long, last) == [21, 22]
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert program(td.ones(1)) == module.count == 23 == len(module.seen)

    asyncio.run(main())
    counts, threads = [], [threading.Thread(target=lambda: counts.append(asyncio.run(calls(10)))) for _ in range(3)]
    for t in threads:
        t.start()
    mine = [program(td.ones(1)) for _ in range(10)]
    for t in threads:
        t.join()
    assert sorted(mine + sum(counts, [])) == list(range(24, 64)) and len(module.seen) == 63
    program.save(str(tmp_path / "m.td"))
    program = td.jit.load(str(tmp_path / "m.td"))
    assert asyncio.run(calls(5)) == list(range(64, 69))


def number(x):
    return x.item()


def test_calls_end_with_who_waits(tmp_path):
    """The loop goes on while a program runs; a deadline, a cancel and the end of the loop stop it, and what is asked behind it is done."""
    async def main():
        x = td.ones(2)
        call = asyncio.create_task(td.aio.call(endless, 1))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not call.done()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await td.aio.tolist(x + 1) == [2, 2]
        with pytest.raises(td.Timeout, match="had not come to its end in time"):
            await td.aio.call(endless, 1, timeout=0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.gather(*(td.aio.call(endless, 1) for _ in range(30)))
        assert await td.aio.tolist(x + 2) == [3, 3]
        late = asyncio.create_task(td.aio.call(endless, 1))
        await asyncio.sleep(0.01)
        assert not late.done()  # asyncio.run() cancels it

    asyncio.run(main())
    assert td.ones(1).item() == 1


def test_cancelled_gets_take_nothing():
    async def main():
        async with td.aio.Queue("aio-cancel", 1000) as q:
            first, second = (asyncio.create_task(q.get()) for _ in range(2))
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await q.put("for who still waits")
            assert await second == "for who still waits" and first.cancelled()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await q.get()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(q.get(), 0.01)
            for i in range(300):
                await q.put(i)
            got = []
            for k in range(10000):  # given up before, while and after the item comes: each comes once, in order
                if len(got) == 300:
                    break
                task = asyncio.create_task(q.get())
                for _ in range(k % 4):
                    await asyncio.sleep(0 if k % 3 else 0.0005)
                if not task.done():
                    task.cancel()
                elif k % 7 == 0:
                    await asyncio.sleep(0)
                try:
                    got.append(await task)
                except asyncio.CancelledError:
                    pass
            while len(got) < 300:
                got.append(await q.get(timeout=20))
            assert got == list(range(300)) and q.empty()

    asyncio.run(main())


def test_an_item_that_came_as_the_task_was_cancelled_goes_back():
    async def main():
        async with td.aio.Queue("aio-tick", 4) as q:
            task = asyncio.create_task(q.get())
            await asyncio.sleep(0.05)
            q.put_nowait({"x": td.ones(2)})
            time.sleep(0.05)  # it is there when the loop looks
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.gather(task, return_exceptions=True)
            if task.cancelled():
                assert (await q.get(timeout=20))["x"].tolist() == [1, 1]

    for _ in range(5):
        asyncio.run(main())


def test_a_cancelled_put_has_put_nothing():
    async def main():
        async with td.aio.Queue("aio-put", 1) as q:
            await q.put(1)
            put = asyncio.create_task(q.put(2))
            await asyncio.sleep(0.01)
            put.cancel()
            await asyncio.gather(put, return_exceptions=True)
            assert put.cancelled() and await q.get() == 1
            with pytest.raises(td.Timeout):
                await q.get(timeout=0.05)

    asyncio.run(main())


def test_a_wait_for_nobody_is_told_once(monkeypatch, capsys):
    """As tensord.Queue's are, while the wait goes on; by another thread, whose ends this test waits for."""
    monkeypatch.setattr(td.aio, "_SILENT", 0.01)

    async def main():
        loop, ends = asyncio.get_running_loop(), asyncio.Queue()
        in_thread = loop.run_in_executor

        def in_thread_and_noted(executor, call, *args):
            end = in_thread(executor, call, *args)
            if getattr(call, "__name__", "") == "tell":
                ends.put_nowait(end)
            return end

        loop.run_in_executor = in_thread_and_noted

        async def said(wait):
            await (await ends.get())
            assert not wait.done()
            return capsys.readouterr().err

        async with td.aio.Queue("aio/nobody") as q:
            got = asyncio.create_task(q.get())
            line = await said(got)
            assert line.startswith("tensord: get() has waited for a second, and nobody has joined queue 'aio/nobody' as a producer") and line.count("\n") == 1
            with td.Queue("aio/nobody") as theirs:
                theirs.put(5)
                assert await got == 5
                got = asyncio.create_task(q.get())
                assert await said(got) == ""
                theirs.put(6)
                assert await got == 6
        async with td.aio.Queue("aio/full", 1) as q:
            q.put_nowait(0)
            put = asyncio.create_task(q.put(1))
            line = await said(put)
            assert line.startswith("tensord: put() has waited for a second for room, and nobody has joined queue 'aio/full' as a consumer") and line.count("\n") == 1
            another = asyncio.create_task(q.put(2))
            assert await said(another) == ""
            assert [await q.get(), await q.get(), await q.get()] == [0, 1, 2]
            await asyncio.gather(put, another)
        async with td.aio.Queue("aio/somebody") as q:
            with td.Queue("aio/somebody", role="producer"):
                got = asyncio.create_task(q.get())
                assert await said(got) == ""
                got.cancel()
        del loop.run_in_executor

    asyncio.run(main())
    assert capsys.readouterr().err == ""


def test_a_thousand_at_once():
    async def main():
        async with td.aio.Queue("aio-many", 2000) as q:
            gets = [asyncio.create_task(q.get()) for _ in range(1500)]
            await asyncio.sleep(0)
            assert await td.aio.item(td.ones(3).sum()) == 3
            for i in range(1500):
                q.put_nowait(i)
            assert sorted(await asyncio.gather(*gets)) == list(range(1500))

    asyncio.run(main())


def test_loops_in_threads():
    wrong = []

    def loop(k):
        async def main():
            async with td.aio.Queue(f"aio-thread-{k}", 4) as q:
                for i in range(50):
                    get = asyncio.create_task(q.get())
                    await q.put({"x": td.full((3,), float(i))})
                    assert await td.aio.tolist((await get)["x"]) == [i] * 3

        try:
            asyncio.run(main())
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=loop, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def test_a_loop_that_is_closed_lets_go_of_all():
    loop = asyncio.new_event_loop()
    q = td.aio.Queue("aio-closed", 2)
    task = loop.create_task(q.get())
    loop.run_until_complete(asyncio.sleep(0.01))
    task._log_destroy_pending = False
    loop.close()
    del task, loop
    gc.collect()
    asyncio.run(q.put(5))
    assert asyncio.run(q.get(timeout=20)) == 5  # nobody else had it
    asyncio.run(q.close())


def test_a_disconnect_is_told():
    r = script("""
        import asyncio, tensord as td, tensord.aio
        async def main():
            q = td.aio.Queue("q")
            gets = [asyncio.create_task(q.get()) for _ in range(3)]
            await asyncio.sleep(0.01)
            td.disconnect()
            for e in await asyncio.gather(*gets, return_exceptions=True):
                print(type(e).__name__, e)
            print(await td.aio.item(td.ones(2).sum()))  # the next connection has a descriptor of its own
        asyncio.run(main())
    """)
    assert r.returncode == 0 and r.stdout.count("ConnectionLost") == 3 and r.stdout.endswith("2.0\n"), r.stdout + r.stderr


def test_a_daemon_that_dies():
    r = script("""
        import asyncio, os, signal, tensord as td, tensord.aio
        async def main():
            x = td.ones(3)
            q = td.aio.Queue("q")
            gets = [asyncio.create_task(q.get()) for _ in range(100)] + [asyncio.create_task(td.aio.open("no")) for _ in range(100)]
            await asyncio.sleep(0.05)
            os.kill(td.connection()["pid"], signal.SIGKILL)
            told = await asyncio.gather(*gets, return_exceptions=True)
            print({type(e).__name__ for e in told}, len(told), told[0])
            try:
                await td.aio.item(x.sum())
            except td.ConnectionLost as e:
                print("lost")
        asyncio.run(main())
    """, TENSORD_BELOW=str(os.getpid()))  # a daemon of its own
    assert r.returncode == 0 and "{'ConnectionLost'} 200" in r.stdout and "it ended or was killed" in r.stdout and r.stdout.endswith("lost\n"), r.stdout + r.stderr


def test_a_forked_child():
    async def main():
        async with td.aio.Queue("aio-fork", 2) as q:
            get = asyncio.create_task(q.get())
            await asyncio.sleep(0.01)
            pid = os.fork()
            if pid == 0:
                asyncio._set_running_loop(None)
                asyncio.events.set_event_loop(None)
                good = False
                try:
                    good = asyncio.run(td.aio.item(td.ones(4).sum())) == 4
                finally:
                    os._exit(0 if good else 1)
            status = await asyncio.to_thread(os.waitpid, pid, 0)
            assert status[1] == 0 and not get.done()
            await q.put("the parent's")
            assert await get == "the parent's"

    asyncio.run(main())


@pytest.fixture
def front(tmp_path):
    """The example, with a daemon of its own: its process and its port. Its batches wait until they are full: each has twenty rows, however long they take to come."""
    program = pathlib.Path(__file__).resolve().parents[3] / "client/examples/http_front.py"
    env = {k: v for k, v in os.environ.items() if k != "TENSORD_SOCKET"} | {"TENSORD_BELOW": str(os.getpid()), "XDG_RUNTIME_DIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, str(program), "--port", "0", "--batch", "20", "--wait-ms", "6e5"], stdout=subprocess.PIPE, text=True, env=env)
    yield process, int(re.search(r":(\d+)/", process.stdout.readline())[1])
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    process.stdout.close()


def test_an_http_front_batches(front):
    process, port = front

    async def ask(body, method="POST", path="/scores"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        status = (await reader.readline()).split()[1]
        while (line := await reader.readline()).strip():
            if line.lower().startswith(b"content-length"):
                length = int(line.split(b":")[1])
        said = json.loads(await reader.readexactly(length))
        writer.close()
        return int(status), said

    async def main():
        told = await asyncio.gather(*(ask(json.dumps([i, 1, 2, 3]).encode()) for i in range(100)))
        assert [status for status, _ in told] == [200] * 100
        assert all(len(said["scores"]) == 3 and abs(sum(said["scores"]) - 1) < 1e-5 for _, said in told)
        again = await asyncio.gather(*(ask(json.dumps([27 - i, 1, 2, 3]).encode()) for i in range(20)))
        for i, (_, said) in enumerate(again):
            assert said["scores"] == pytest.approx(told[27 - i][1]["scores"], abs=1e-6)  # each has its own row
        assert [(await ask(b"[1, 2]"))[0], (await ask(b"no"))[0], (await ask(b"", "GET"))[0]] == [400, 400, 404]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /scores HTTP/1.1\r\nContent-Length: 12\r\n\r\n[1, ")  # who goes in the middle
        writer.close()
        assert [status for status, _ in await asyncio.gather(*(ask(b"[1, 1, 2, 3]") for _ in range(20)))] == [200] * 20

    asyncio.run(main())
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == "7 batches\n"
    assert process.wait(60) == 0
