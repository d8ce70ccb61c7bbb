"""torch.distributed's store without a port: tdt.Store("name"), and init_method="tensord://name".

The keys lie in a table that processes find by its name (share/_meet.py), so there is no server, and nothing is left when the last process ends.
Processes that say their ranks take seats, and wait until all have come. Invariant: of each seat it is known which process took it, so whoever waits can say who has not come or has ended.

A name may be used again, by ranks that begin anew or by a later job: each time is a session of its own, with keys of its own. A process
goes into the first session in which its seat is free. A seat that is taken by another process that lives is an error: a second job of the name.
"""

import atexit
import datetime
import json
import os
import time
import urllib.parse

import torch.distributed as dist

from tensord import _C
from tensord.share import _meet
from tensord.torch._errors import MemberLost, StoreTimeout


_LONGEST, _SELDOM = 0.01, 0.1  # seconds between two looks of one that waits: at whether anything was written, and at what there is
_SHOWN = 6  # processes that a message names
_kept: "list[Store]" = []  # PyTorch's C++ holds a store, and forgets what is Python's of one that nobody here has


def _seconds(timeout):
    """None: for ever."""
    seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
    return None if seconds is None or seconds < 0 else float(seconds)


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)  # PyTorch 1.13 gives some as lists of numbers


def _ranks(numbers):
    """'rank 2' and 'ranks 2, 3, 7'."""
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else "")
    return f"rank{'s' * (len(numbers) > 1)} {shown}"


def _processes(seats):
    shown = [f"rank {r} (pid {who['pid']}, {who['program']})" for r, who in sorted(seats.items())]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _s(seconds):
    return "0 s" if seconds is None else f"{seconds:g} s"


class _Seats:
    """Who has come to a table under which rank."""

    def __init__(self, table, url):
        self.table, self.url = table, url

    def of(self, session):
        """By rank; with who is there the number of ranks that they said."""
        said = self.table.get(f"\0session {session}")
        return json.loads(said) if said else {"size": 0, "complete": False, "seats": {}}

    def _write(self, session, what):
        self.table.set(f"\0session {session}", json.dumps(what).encode())

    def take(self, rank, size):
        """The number of the session that this process is in now."""
        me, session = _meet.me(), 0
        while True:
            here = self.of(session)
            seats = {int(r): who for r, who in here["seats"].items()}
            others = {r: who for r, who in seats.items() if who["pid"] != me["pid"] and _meet.lives(who)}
            if not here["complete"]:
                self._refuse(rank, size, here["size"], others)
                if here["size"] != size:
                    here, seats = {"size": size, "complete": False, "seats": {}}, {}
                seats[rank] = me
                here["seats"] = seats
                here.get("gave up", {}).pop(str(rank), None)
                self._write(session, here)
                return session
            if rank in others or (size != here["size"] and others):
                self._refuse(rank, size, here["size"], others)
            session += 1

    def _refuse(self, rank, size, there, others):
        another = "; another job that runs at the same time takes another name"
        if others and there != size:
            raise _C.InvalidError(f"{self.url} is of {there} ranks, not of {size}: {_processes(others)} came{another}")
        if rank in others:
            raise _C.AlreadyExists(f"rank {rank} of {self.url} is taken by pid {others[rank]['pid']} ({others[rank]['program']}){another}")

    def complete(self, session):
        """Have all come, and does each live? Then it stays so."""
        here = self.of(session)
        if not here["complete"] and len(here["seats"]) == here["size"] and all(map(_meet.lives, here["seats"].values())):
            here["complete"] = True
            self._write(session, here)
        return here["complete"]

    def give_back(self, session, rank):
        here = self.of(session)
        if not here["complete"] and here["seats"].get(str(rank), {}).get("pid") == os.getpid():
            here.setdefault("gave up", {})[str(rank)] = here["seats"].pop(str(rank))
            self._write(session, here)

    def say_missing(self, session, seconds):
        here = self.of(session)
        came = {int(r): who for r, who in here["seats"].items()}
        ended = {r: who for r, who in came.items() if not _meet.lives(who)}
        gave_up = {int(r): who for r, who in here.get("gave up", {}).items()}
        missing = [r for r in range(here["size"]) if r not in came and r not in gave_up]
        words = []
        if missing:
            words.append(f"{_ranks(missing)} of {here['size']} {'has' if len(missing) == 1 else 'have'} not come to {self.url} in {_s(seconds)}")
        if ended:
            words.append(f"{_processes(ended)} came and ended" + ("" if words else f" before all {here['size']} had come to {self.url} in {_s(seconds)}"))
        if gave_up:
            words.append(f"{_processes(gave_up)} came and gave up" + ("" if words else f" before all {here['size']} had come to {self.url} in {_s(seconds)}"))
        there = {r: who for r, who in came.items() if r not in ended}
        words.append(f"there {'is' if len(there) == 1 else 'are'} {_processes(there)}")
        if session and (before := {int(r): w for r, w in self.of(session - 1)["seats"].items() if w["pid"] != os.getpid() and _meet.lives(w)}):
            words.append(f"of an earlier job of this name there still {'is' if len(before) == 1 else 'are'} {_processes(before)}")
        return "; ".join(words)

    def leave(self, session, rank):
        here = self.of(session)
        if here["seats"].get(str(rank), {}).get("pid") == os.getpid():
            here["seats"][str(rank)]["left"] = True
            self._write(session, here)

    def check(self, session):
        """All had come; has one been killed since, or ended without its leave?"""
        here = self.of(session)
        for r, who in here["seats"].items() if here["complete"] else ():
            if not who.get("left") and not _meet.lives(who):
                e = MemberLost(f"rank {r} (pid {who['pid']}, {who['program']}) has died since it came to {self.url}")
                e.rank, e.pid, e.epoch, e.round = int(r), who["pid"], 0, 0
                raise e


def _at_exit():
    for store in list(_kept):
        try:
            store.leave()
        except _C.Error:
            pass


atexit.register(_at_exit)


class Store(dist.Store):
    """A store of torch.distributed that processes of this machine and user share by a name: no port, no server, no file.

        store = tensord.torch.Store("train")                                    # whoever says the name has the same keys
        dist.init_process_group("tensord", store=store, rank=rank, world_size=4)

    With a rank and a world_size it waits until all have come, as init_process_group(init_method="tensord://train") does, and such processes
    have keys of their own. Who has not come in time is named by a tensord.Timeout; a rank that is taken is tensord.AlreadyExists. It is there as long as a process has it.
    timeout: seconds, or a timedelta; also how long get() and wait() wait for a key.
    """

    def __init__(self, name, world_size=None, rank=None, timeout=300.0):
        super().__init__()
        if not isinstance(name, str) or not name:
            raise _C.DTypeError(f"the name of a Store is a text, not {name!r}")
        if (world_size is None) != (rank is None):
            raise _C.InvalidError("a Store takes both world_size and rank, or neither")
        if world_size is not None and not 0 <= rank < world_size:
            raise _C.InvalidError(f"a Store of {world_size} ranks has no rank {rank}")
        self.name, self._url = name, f"tensord://{name}"
        seconds = _seconds(timeout)
        self.set_timeout(datetime.timedelta(days=999) if seconds is None else datetime.timedelta(seconds=seconds))
        self._table = _meet.Table(self._url, os.environ.get("TENSORD_BELOW", ""), os.environ.get("TORCHELASTIC_RUN_ID", ""))
        self._seats, self._session, self._owner = _Seats(self._table, self._url), None, os.getpid()
        self._prefix, self._seldom = "/", _SELDOM * max(1, (world_size or 0) / 16)
        _kept.append(self)
        if world_size is not None:
            self._come(rank, world_size, seconds)

    def __repr__(self):
        return f"tensord.torch.Store({self.name!r})"

    def _come(self, rank, size, seconds):
        until = None if seconds is None else time.monotonic() + seconds
        try:
            with self._table.held(until):
                session = self._seats.take(rank, size)
            self._prefix = f"{session}/"
            if self._await(lambda: self._seats.complete(session), until):
                self._session, self._rank = session, rank
                return
            with self._table.held():
                missing = self._seats.say_missing(session, seconds)
                self._seats.give_back(session, rank)
            raise StoreTimeout(missing)
        except BaseException:
            self.close()
            raise

    def leave(self):
        """This rank ends, and nobody is to take that for a death."""
        if self._session is not None and self._owner == os.getpid():
            with self._table.held(time.monotonic() + 1):
                self._seats.leave(self._session, self._rank)

    def close(self):
        """Let go of it; for a process that goes on."""
        if self in _kept:
            _kept.remove(self)
        self._table.close()

    # ---- waiting

    def _await(self, there, until):
        """Until there() says so, of the table as it is; False: it was too late."""
        pause, looked = 0.00005, -_SELDOM
        while True:
            if self._table.moved() or time.monotonic() > looked + self._seldom:
                looked = time.monotonic()
                with self._table.held(until):
                    if there():
                        return True
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(pause if until is None else max(0.0, min(pause, until - time.monotonic())))
            pause = min(pause * 2, _LONGEST)
            if pause == _LONGEST:
                self._table.keep_found()

    def _wait(self, keys, timeout):
        seconds = self.timeout.total_seconds() if timeout is None else _seconds(timeout)
        names = [self._prefix + k for k in keys]

        def there():
            if all(n in self._table for n in names):
                return True
            if self._session is not None:
                self._seats.check(self._session)
            return False

        if self._await(there, None if seconds is None else time.monotonic() + seconds):
            return
        with self._table.held():
            missing = [k for k, n in zip(keys, names) if n not in self._table]
        raise StoreTimeout(f"nobody has set {', '.join(map(repr, missing[:3]))}{' and more' if len(missing) > 3 else ''} in {self._url} in {_s(seconds)}")

    def _held(self):
        return self._table.held(time.monotonic() + self.timeout.total_seconds())

    # ---- what PyTorch asks of it; it knows some by two names

    def set(self, key, value):
        with self._held() as t:
            t.set(self._prefix + key, _bytes(value))

    def get(self, key):
        self._wait([key], None)
        with self._held() as t:
            value = t.get(self._prefix + key)
        return self.get(key) if value is None else value  # deleted meanwhile

    def add(self, key, amount):
        with self._held() as t:
            value = int(t.get(self._prefix + key) or 0) + amount
            t.set(self._prefix + key, str(value).encode())
        return value

    def compare_set(self, key, expected, desired):
        expected, desired = _bytes(expected), _bytes(desired)
        with self._held() as t:
            there = t.get(self._prefix + key)
            if there is None and expected:
                return expected
            if there is not None and there != expected:
                return there
            t.set(self._prefix + key, desired)
        return desired

    def append(self, key, value):
        with self._held() as t:
            t.set(self._prefix + key, (t.get(self._prefix + key) or b"") + _bytes(value))

    def check(self, keys):
        with self._held() as t:
            return all(self._prefix + k in t for k in keys)

    def wait(self, keys, timeout=None):
        self._wait(keys, timeout)

    def delete_key(self, key):
        with self._held() as t:
            return t.delete(self._prefix + key)

    def num_keys(self):
        with self._held() as t:
            return sum(k.startswith(self._prefix) for k in t.keys())

    def multi_get(self, keys):
        return [self.get(k) for k in keys]

    def multi_set(self, keys, values):
        for k, v in zip(keys, values):
            self.set(k, v)

    def list_keys(self):
        with self._held() as t:
            return [k[len(self._prefix) :] for k in t.keys() if k.startswith(self._prefix)]

    def has_extended_api(self):
        return True

    def clone(self):
        return self

    deleteKey, getNumKeys, listKeys = delete_key, num_keys, list_keys


def _number(said, name, variable, url):
    text = said.get(name, os.environ.get(variable))
    try:
        return int(text)
    except (TypeError, ValueError):
        raise _C.InvalidError(f"{url}: {name} is {'not given' if text is None else f'not a number: {text!r}'}; give {name}= to init_process_group(), or set "
                              f"{variable}, as torchrun does") from None


def rendezvous(url, timeout=datetime.timedelta(seconds=300), **kwargs):
    """init_method="tensord://name": PyTorch's rendezvous handler."""
    parts = urllib.parse.urlparse(url)
    name = urllib.parse.unquote(parts.netloc + parts.path)
    if not name:
        raise _C.InvalidError(f"{url!r} has no name: ranks meet by one, as in tensord://train")
    said = dict(urllib.parse.parse_qsl(parts.query))
    plain = f"tensord://{name}"
    rank, size = _number(said, "rank", "RANK", plain), _number(said, "world_size", "WORLD_SIZE", plain)
    store = Store(name, size, rank, timeout)
    yield store, rank, size
    raise _C.Unsupported("a process group of tensord:// cannot be made anew by its rendezvous")
