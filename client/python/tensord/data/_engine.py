"""One pass over a loader's batches, in this process or by its workers: the order they come in, and where it stands.

Tasks are numbered. Task n goes to the next worker in turn, `prefetch_factor` for each are under way, and batches are handed out in the order of
their numbers (in_order) or as they come. The state of a pass is what was handed out, which tasks were not, and where each worker
stood behind its last batch that was; a pass that is begun with it gives the batches that this one would have given. What is done is gone over
by asking the sampler again. A checksum of what it said goes with the state, so a sampler that says something else now is refused.
"""

import contextlib
import importlib
import marshal
import os
import time
import weakref
import zlib
from collections import deque
from typing import Any, Callable

from tensord.share import _loans
from tensord.data import _board, _pool, _worker

VERSION = 1
_NEEDED = {"num_workers", "rng", "drew", "base_seed", "sent", "next", "handed_out", "turn", "tasks", "active", "behind", "local"}


def _sum(so_far, indices):
    """A checksum of all that a sampler said; what is neither plain data nor a tensor or an array does not count."""
    for plain in (lambda x: x, _plain):
        try:
            return zlib.crc32(marshal.dumps(plain(indices), 0), so_far)
        except ValueError:
            continue
    return so_far


def _plain(x):
    if isinstance(x, (list, tuple)):
        return list(map(_plain, x))
    return x.tolist() if hasattr(x, "tolist") else x


def _length(x):
    try:
        return len(x)
    except Exception:  # it has none, or does not know it
        return None


def _made(loader, plan):
    """How a loader is made, as far as its order depends on it: for words."""
    generator = None if loader.generator is None else type(loader.generator).__qualname__
    return {"loader": plan.flavour, "sampler": type(loader.sampler).__qualname__, "generator": generator, "batch_size": plan.batch_size,
            "samples": _length(plan.dataset)}


def _start(saved):
    return _worker.Start(**saved) if saved else _worker.Start()


class Pass:
    """An iterator over one epoch."""

    def __init__(self, loader, plan, record, saved=None):
        self.plan, self.record, self.flavour = plan, record, importlib.import_module(plan.flavour)
        self.place = record.begun = record.begun + 1
        self.workers, self.generator, self.sampler = plan.num_workers, loader.generator, loader._index_sampler
        self.prefetch, self.persistent, self.pin_memory = loader.prefetch_factor, loader.persistent_workers, loader.pin_memory
        self.in_order, self.timeout = loader.in_order, loader.timeout or None
        self.began, self.waited, self.unpacked, self.handed_out = time.perf_counter(), 0.0, 0.0, 0
        self.finished = False
        self.tasks = {}  # number -> [worker, the batch as it came or None, where the worker is behind it]
        self.made, self.sum = _made(loader, plan), 0
        self.left = deque()  # num_workers=0: what was under way when the state was taken
        self.sent = self.next_number = 0
        self.turn, self.active = 0, [True] * self.workers
        self.behind = [None] * self.workers  # where each worker is behind what was handed out
        self.pool: Any = None
        self.first: Any = None  # num_workers=0: the random state when the sampler gave its first; the program had its turn in between
        unsent = self._begin(saved)
        if self.workers:
            self._start_workers(loader, unsent)
        else:
            plan.base_seed = self.base_seed
            with self.flavour.generator_as_it_was(None, self.flavour.generator_state(None)):  # going over what is done draws no numbers
                self.fetcher = _worker.Fetcher(plan, _start(saved and saved["local"]))
            self.local = _start(saved and saved["local"])

    # ---- beginning ----------------------------------------------------------------------------------------------

    def _begin(self, saved):
        """Begin the sampler, or bring it to where it was. Tasks that were under way then: [(number, indices, worker)]."""
        flavour, generator = self.flavour, self.generator
        if not saved:
            self.rng = flavour.generator_state(generator)
            self.indices = iter(self.sampler)
            kept = self.record.pool
            self.drew = kept is None  # as torch: workers that are kept keep their seed
            self.base_seed = flavour.draw_seed(generator) if self.drew else kept.setup.base_seed
            self.untouched = not self.workers
            return []
        self._check(saved)
        self.rng, self.first, under_way = saved["rng"], saved.get("first"), dict(saved["tasks"])
        self.untouched, unsent = False, []
        with flavour.generator_as_it_was(generator, self.rng):
            self.indices = iter(self.sampler)
            if saved["drew"]:
                flavour.draw_seed(generator)
            with flavour.generator_as_it_was(generator, self.first) if self.first is not None else contextlib.nullcontext():
                for n in range(saved["sent"]):
                    index = self._skip(n, saved)
                    if n in under_way:
                        unsent.append((n, index, under_way[n]))
                self.indices = _chain(self.indices)
        if "sum" in saved and saved["sum"] != self.sum:
            raise ValueError(f"load_state_dict: the first {saved['sent']} batches are of other samples here than in the pass that the state is of"
                             + self._otherwise(saved))
        self.base_seed, self.drew = saved["base_seed"], saved["drew"]
        self.sent, self.next_number, self.handed_out = saved["sent"], saved["next"], saved["handed_out"]
        if self.workers == saved["num_workers"]:
            self.turn, self.active, self.behind = saved["turn"], list(saved["active"]), list(saved["behind"])
        else:
            unsent = [(n, index, n % self.workers if self.workers else 0) for n, index, _ in unsent]
            self.turn = self.sent % self.workers if self.workers else 0
        if not self.workers:
            self.left = deque(unsent)
        return unsent

    def _next_indices(self):
        indices = next(self.indices)
        self.sum = _sum(self.sum, indices)
        return indices

    def _skip(self, n, saved):
        try:
            return self._next_indices()
        except StopIteration:
            raise ValueError(f"load_state_dict: the state is of a pass that had begun {saved['sent']} batches, but here there are only {n}; "
                             f"it is of a loader with another data set, sampler or batch size{self._otherwise(saved)}") from None

    def _otherwise(self, saved):
        """How that loader was made, as far as it is known, and what to do."""
        then = saved.get("made", {})
        differ = [f"{k} {then[k]} there, {now} here" for k, now in self.made.items() if k in then and then[k] != now]
        return (f" ({'; '.join(differ)})" if differ else "") + (". Make this loader as that one was made: the same data set, shuffle or sampler, and "
                                                                "batch_size; a sampler of one's own draws from the loader's generator")

    def _check(self, saved):
        if saved.get("version") != VERSION:
            raise ValueError(f"load_state_dict: this is no state of a DataLoader of tensord (version {saved.get('version')!r})")
        theirs = saved.get("made", self.made)["loader"]
        if theirs != self.made["loader"]:
            raise ValueError(f"load_state_dict: the state is of a loader of {_family(theirs)}, and this is one of {_family(self.made['loader'])}: their random "
                             "numbers are not the same ones")
        if self.plan.iterable and saved["num_workers"] != self.workers:
            raise ValueError(f"load_state_dict: the state is of a loader with num_workers={saved['num_workers']}, this one has {self.workers}; "
                             "an iterable data set is read by each worker on its own, so the numbers must be the same")

    def _start_workers(self, loader, unsent):
        starts = [_start(b) for b in self.behind]
        self.pool = self.record.pool
        if self.pool is None:
            self.plan.base_seed, self.plan.path = self.base_seed, _loans.connect()
            self.pool = self._new_pool(loader, self.flavour.context(loader.multiprocessing_context), starts)
        else:
            self.base_seed = self.pool.setup.base_seed
            self.pool.begin_epoch(starts)
            self.behind = [vars(m.start) for m in self.pool.members]  # workers that are kept draw on where they stand
        self.epoch = self.pool.epoch
        self._put_up_board(loader)
        if self.persistent:
            self.record.pool = self.pool
        for number, indices, k in unsent:
            self._give(number, indices, k)
        while len(self.tasks) < self.prefetch * self.workers and self._put_next():
            pass

    def _new_pool(self, loader, context, starts):
        if loader.pool is None:
            return _pool.Pool(self.plan, context, starts, loader.on_worker_death)
        from tensord.data import _host

        seat = self.record.seat
        if seat is None or seat.sock is None or seat.owner != os.getpid():
            seat = self.record.seat = _host.Seat(loader.pool, self.plan, context)
        return _host.Pool(self.plan, seat, starts, loader.on_worker_death)

    def _put_up_board(self, loader):
        board = self.record.board
        if board is None or board.owner != os.getpid():
            board = self.record.board = _board.Board(self.workers, loader.pool)
        board.begin(self.began)

    # ---- tasks --------------------------------------------------------------------------------------------------

    def _give(self, number, indices, k):
        self.tasks[number] = [k, None, None]
        self.pool.give(k, number, indices)

    def _next_worker(self):
        """The next one in turn; by itself a quick one gets more when order does not matter."""
        share = self.prefetch * self.workers // max(1, sum(self.active))
        for _ in range(self.workers):
            k = self.turn
            self.turn = (k + 1) % self.workers
            if self.active[k] and (self.in_order or len(self.pool.members[k].pending) < share):
                return k
        return None

    def _put_next(self):
        k = self._next_worker()  # before the sampler is asked: what it says is not said again
        if k is None:
            return False
        try:
            indices = self._next_indices()
        except StopIteration:
            return False
        self._give(self.sent, indices, k)
        self.sent += 1
        return True

    def _hand_out(self, number):
        k, (kind, body), where = self.tasks.pop(number)
        self.behind[k] = vars(where)
        self.handed_out += 1
        self._put_next()
        self.pool.members[k].unpacked += 1
        if kind == "failed":
            body.throw()
        begin = time.perf_counter()
        batch = self.flavour.loads(body, self.plan.options)
        now = time.perf_counter()
        self.unpacked += now - begin
        if now >= self.record.board.next:
            self.record.board.enter(self.stats())
        return batch

    def _next_of_workers(self):
        while True:
            while self.next_number < self.sent:
                task = self.tasks.get(self.next_number)
                if task and (task[1] or self.active[task[0]]):
                    break
                self.tasks.pop(self.next_number, None)
                self.next_number += 1
            else:
                self._end()
                raise StopIteration
            if task[1]:
                self.next_number += 1
                return self._hand_out(self.next_number - 1)
            number = self._receive()
            if number is not None and not self.in_order:
                return self._hand_out(number)

    def _receive(self):
        """Wait for a message; the number of the batch that it brought."""
        begin = time.perf_counter()
        self.record.board.wait(begin)
        try:
            got = self.pool.get(self.timeout)
        except BaseException:
            self.close()
            raise
        finally:
            self.record.board.wait(0.0)
            self.waited += time.perf_counter() - begin
        if got is None:
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        k, kind, number, body, where = got
        if kind == "end":
            self.active[k] = False
            self._put_next()
            return None
        self.tasks[number][1:] = [(kind, body), where]
        return number

    def _next_here(self):
        if self.untouched:
            self.first, self.untouched = self.flavour.generator_state(self.generator), False
        if self.left:
            indices = self.left.popleft()[1]
        else:
            try:
                indices = self._next_indices()
            except StopIteration:
                self._end()
                raise
            self.sent += 1
        self.next_number = self.left[0][0] if self.left else self.sent
        self.handed_out += 1
        begin = time.perf_counter()
        try:
            batch = self.fetcher.fetch(indices)
        except StopIteration as e:
            if not self.plan.iterable:
                raise RuntimeError(f"the data set raised StopIteration for {indices}; that would end the epoch without a word") from e
            self._end()
            raise
        self.waited += time.perf_counter() - begin
        self.local = _worker.Start(self.local.fetched + 1, None, self.fetcher.state())
        return self.flavour.finish(batch, self.plan.options)

    def __iter__(self):
        return self

    def __next__(self):
        if self.finished:
            raise StopIteration
        if self.pool and (self.pool.closed or self.pool.epoch != self.epoch):
            raise RuntimeError("another pass over this loader was begun, and has its workers now (persistent_workers=True); go on with that one")
        if self.pool and self.pool.owner != os.getpid():
            raise RuntimeError(f"this pass over a loader was begun by process {self.pool.owner}, to which its workers send; begin one in this process: "
                               "iter(loader)")
        batch = self._next_of_workers() if self.workers else self._next_here()
        return self.flavour.pin(batch) if self.pin_memory else batch

    def __len__(self):
        return len(self.sampler)

    # ---- where it stands ----------------------------------------------------------------------------------------

    def state_dict(self):
        return {"version": VERSION, "finished": self.finished, "num_workers": self.workers, "rng": self.rng, "first": self.first,
                "drew": self.drew,
                "base_seed": self.base_seed,
                "sent": self.sent, "next": self.next_number, "handed_out": self.handed_out, "turn": self.turn,
                "made": self.made, "sum": self.sum,
                "tasks": [(n, k) for n, _, k in self.left] or [(n, t[0]) for n, t in sorted(self.tasks.items())], "active": list(self.active), "behind": list(self.behind),
                "local": None if self.workers else vars(self.local)}

    def stats(self):
        out = {"batches": self.handed_out, "seconds": time.perf_counter() - self.began, "waited": self.waited, "unpacked": self.unpacked}
        if self.pool:
            out["workers"] = [{"worker": m.k, "pid": m.pid, **m.times} for m in self.pool.members]
        return out

    # ---- the end ------------------------------------------------------------------------------------------------

    def _end(self):
        self._enter_last()
        self.finished = True
        if not self.persistent:
            self.close()

    def _enter_last(self):
        if self.pool and self.pool.owner == os.getpid() and not self.finished and self.record.board:
            self.record.board.enter(self.stats(), end=True)

    def close(self):
        self._enter_last()
        self.finished = True
        if self.pool:
            self.pool.close()
            if self.record.pool is self.pool:
                self.record.pool = None

    def __del__(self):
        try:
            if self.pool or not self.workers:
                if self.place == self.record.begun:  # otherwise another was begun since, and is what the loader tells of
                    self.record.state, self.record.stats = self.state_dict(), self.stats()
                if not self.persistent:
                    self.close()
        except Exception:
            pass  # the interpreter is shutting down


def check(on_worker_death, pool, num_workers):
    """Arguments that both loaders have."""
    if on_worker_death not in ("raise", "respawn"):
        raise ValueError(f"on_worker_death is 'raise' or 'respawn', not {on_worker_death!r}")
    if pool is not None and not (isinstance(pool, str) and pool):
        raise ValueError(f"pool is the name of a pool of workers, a str, not {pool!r}")
    if pool is not None and not num_workers:
        raise ValueError("pool needs num_workers > 0: as many as the pool is to have")


class Record:
    """What a pass leaves to its loader: the loader knows its pass weakly, and the pass not its loader, so workers end with whoever iterates."""

    pool = seat = board = None
    begun = 0  # passes
    state, stats = {"version": VERSION, "finished": True}, {"batches": 0, "seconds": 0.0, "waited": 0.0, "unpacked": 0.0}

    def close(self):
        if self.pool:
            self.pool.close()
            self.pool = None
        if self.seat:
            self.seat.close()
            self.seat = None
        if self.board:
            self.board.close()
            self.board = None

    def __del__(self):
        try:
            self.close()
        except Exception:
            pass  # the interpreter is shutting down


def _family(flavour):
    return "tensord.torch" if flavour.startswith("tensord.torch") else "tensord.data"


def _chain(it):
    """`it`, with the random numbers it needs for its next element drawn now."""
    try:
        first = [next(it)]
    except StopIteration:
        first = []
    return _Again(first, it)


class _Again:
    """Some elements again, and then the rest."""

    def __init__(self, first, rest):
        self.first, self.rest = list(reversed(first)), rest

    def __iter__(self):
        return self

    def __next__(self):
        return self.first.pop() if self.first else next(self.rest)


class Stateful:
    """What both DataLoaders have beyond torch's: passes with a state."""

    _pass: Any = None
    _record: Any = None
    _saved: Any = None
    _plan: Callable[..., Any]  # what is to be done by workers, as each loader says it

    def _running(self):
        return self._pass() if self._pass else None

    def _new_pass(self):
        saved, self._saved = self._saved, None
        if saved and saved["finished"]:
            saved = None
        running, self._record = self._running(), self._record or Record()
        if self._record.pool and self._record.pool.owner != os.getpid():  # whoever forked this process has these workers
            self._record.pool.close()
            self._record.pool = None
        over = running.finished if running is not None else self._record.state["finished"]
        if self._record.pool and (saved or not over):
            self._record.pool.close()  # what is under way is not wanted any more
            self._record.pool = None
        new = Pass(self, self._plan(), self._record, saved)
        self._pass = weakref.ref(new)
        return new

    def state_dict(self):
        """Where the pass stands that was begun last: give it to load_state_dict() of a loader made the same way, and its next iteration goes
        on with the next batch. Cheap, of a few kilobytes a worker, and exact also in the middle of an epoch."""
        if self._saved is not None:
            return self._saved
        running = self._running()
        return running.state_dict() if running is not None else (self._record or Record).state

    def load_state_dict(self, state_dict):
        if not isinstance(state_dict, dict) or state_dict.get("version") != VERSION:
            raise ValueError("load_state_dict: this is no state of a DataLoader of tensord")
        lost = set() if state_dict.get("finished") else _NEEDED.difference(state_dict)
        if lost or "finished" not in state_dict:
            raise ValueError(f"load_state_dict: the state of a DataLoader is not whole: {', '.join(sorted(lost or {'finished'}))} is missing")
        self._saved = state_dict

    def stats(self):
        """Where the time went in the last pass, in seconds: `waited` for batches and `unpacked` them here; each worker was `idle` (this process
        was slower), fetched, collated, sent, and in a pool worked for `others`. `tensorctl top` shows the same while it runs. With
        num_workers=0 `waited` is fetching and collating."""
        running = self._running()
        return running.stats() if running is not None else (self._record or Record).stats

    def close(self):
        """End the workers now."""
        running = self._running()
        if running is not None:
            running.close()
        if self._record:
            self._record.close()
