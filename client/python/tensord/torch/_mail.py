"""What goes from rank to rank in a process group, as torch.distributed wants it: isend and irecv that wait for nobody.

Messages are the group's (td_group_send), which has room for a few of each tag; what finds no room is kept here, as a copy, and goes as soon as there is some.
A receive is made when it is waited for, or looked at. Nothing goes on by itself: each wait also moves what else can be moved, so ranks that
post their sends and receives in any order, and wait for them in any order, come to an end.

Invariant: of the receives that a message could be for, the one that was asked for first gets it.
"""

import collections
import ctypes
import threading
import time

from tensord import _C
from tensord.core import _forking

_SLICE = 0.002  # seconds between two looks at what else can be moved, while there is something


class Posted:
    """A tensor that is sent: gone, or (kept) a copy that waits for room."""

    def __init__(self, to, tag, what, where):
        self.to, self.tag, self.what, self.where = to, tag, what, where
        self.gone, self.failed = False, None


class Asked:
    """A tensor to come, from a rank or (None) from any."""

    def __init__(self, sender, tag, what, where):
        self.sender, self.tag, self.what, self.where = sender, tag, what, where
        self.done, self.busy, self.failed = False, False, None

    def competes(self, other):
        return self.tag == other.tag and (self.sender is None or other.sender is None or self.sender == other.sender)


class Mail:
    """raw: the member of the group. What is sent and received is a (tensor without gaps, dtype, count)."""

    def __init__(self, raw):
        self._raw, self._changed = raw, threading.Condition(_forking.rlock())
        self._kept = collections.defaultdict(collections.deque)  # by (to, tag)
        self._asked = []

    # ---- sending

    def _send(self, letter, seconds):
        t, dtype, count = letter.what
        self._raw.send(t.data_ptr(), dtype, (count,), letter.to, letter.tag, seconds, letter.where)
        letter.gone, letter.what = True, None

    def post(self, to, tag, what, where):
        with self._changed:
            letter = Posted(to, tag, what, where)
            waiting = self._kept[to, tag]
            if not waiting:
                try:
                    self._send(letter, 0)
                    return letter
                except _C.Timeout:
                    pass
            t, dtype, count = what
            letter.what = (t.clone(), dtype, count)
            waiting.append(letter)
            return letter

    def _move_sends(self):
        with self._changed:
            for key, waiting in list(self._kept.items()):
                try:
                    while waiting:
                        self._send(waiting[0], 0)
                        waiting.popleft()
                except _C.Timeout:
                    continue
                except _C.Error as e:
                    for letter in waiting:
                        letter.failed = e
                    waiting.clear()
                if not waiting:
                    del self._kept[key]

    def sent(self, letter, seconds):
        """Until a message is on its way."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            self._move_sends()
            if letter.failed:
                raise letter.failed
            if letter.gone:
                return
            self._move_receives()
            if until is not None and time.monotonic() >= until:
                raise _C.Timeout(f"send(): rank {letter.to} has taken none of the messages of tag {letter.tag} for {seconds:g} s, and there is no room for another")
            time.sleep(_SLICE)

    # ---- receiving

    def ask(self, sender, tag, what, where):
        with self._changed:
            asked = Asked(sender, tag, what, where)
            self._asked.append(asked)
            return asked

    def _first(self, asked):
        """The receive to be made first, of those that compete with this one; None: other threads are at all of them."""
        return next((x for x in self._asked if not x.busy and x.competes(asked)), None)

    def _receive(self, asked, seconds):
        """Takes the next message for this receive, which is busy."""
        try:
            message = self._raw.receive(asked.sender, asked.tag, seconds, asked.where)
            source, dtype, shape, at = message.facts()
            t, wanted, count = asked.what
            here = 1
            for n in shape:
                here *= n
            if dtype != wanted or here != count:
                asked.failed = _C.Mismatch(f"recv(): rank {source} sent {_say(dtype, here)}, and {_say(wanted, count)} was to be received")
            elif count:
                ctypes.memmove(t.data_ptr(), at, count * dtype.itemsize)
            asked.sender = source
            self._over(asked)
        finally:
            with self._changed:
                asked.busy = False
                self._changed.notify_all()

    def _over(self, asked):
        with self._changed:
            asked.done, asked.what = True, None
            if asked in self._asked:
                self._asked.remove(asked)

    def _move_receives(self):
        """Takes what has come for those who have asked, without waiting."""
        tried = set()
        while True:
            with self._changed:
                first = next((x for x in self._asked if not x.busy and (x.sender, x.tag) not in tried), None)
                first = first and self._first(first)
                if first is None or (first.sender, first.tag) in tried:
                    return
                first.busy = True
            key = (first.sender, first.tag)
            try:
                self._receive(first, 0)
            except _C.Timeout:
                tried.add(key)
            except _C.Error as e:
                first.failed = e
                self._over(first)

    def look(self, asked):
        if not asked.done:
            self._move_sends()
            self._move_receives()
        return asked.done

    def received(self, asked, seconds):
        """Until it has come."""
        until = None if seconds is None else time.monotonic() + seconds
        while not asked.done:
            self._move_sends()
            with self._changed:
                first = self._first(asked)
                if first is None:
                    self._changed.wait(_SLICE)
                    if until is not None and time.monotonic() >= until and not asked.busy and not asked.done:
                        asked.failed = _C.Timeout(f"recv(): other threads have waited for messages of tag {asked.tag} for {seconds:g} s, before this receive")
                        self._over(asked)
                    continue
                first.busy = True
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                self._receive(first, _SLICE if self._kept else left)
            except _C.Timeout as e:
                if left is None or time.monotonic() < until:
                    self._move_receives()
                elif not asked.done:
                    asked.failed = e
                    self._over(asked)
            except _C.Error as e:
                first.failed = e
                self._over(first)
        if asked.failed:
            raise asked.failed


def _say(dtype, count):
    return f"{str(dtype).rpartition('.')[2]}[{count}]"
