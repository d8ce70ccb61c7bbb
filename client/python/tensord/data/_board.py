"""Where a loader writes what it does, for `tensorctl loaders` and `tensorctl top`: a small tensor that others look at.

A tensor of float64 lies in this process's own shared memory under a name that goes with this process, so a count costs a store,
asks nothing of the daemon, and can be read while the loader's process waits or hangs. client/tensorctl/loaders.c knows the same layout:

    0 LAYOUT, 1 workers, 2 seconds in passes, 3 batches handed out, 4 seconds waited for them, 5 seconds unpacking them, 6 since when it waits (0: it
    does not), 7 since when the pass runs (0: none does); then for each worker pid, batches, idle, fetch, collate, send, others, respawned

Times are seconds of the monotonic clock. All counts go on from pass to pass.
"""

import itertools
import os
import time
from typing import Any

from tensord import _C

LAYOUT, HEAD, EACH = 1, 8, 8
WAITED, WAITING, RUNNING = 4, 6, 7
EVERY = 0.1  # seconds between two entries
_number = itertools.count(1)


class Board:
    def __init__(self, workers, pool):
        self.owner, self.name = os.getpid(), f"loader/{os.getpid()}.{next(_number)}"
        if pool is not None:
            shown = "".join(c if c.isprintable() else "?" for c in pool[:60])
            self.name += "/" + shown.encode()[:200].decode(errors="ignore")  # a name has 255 bytes at most
        self.before, self.next = [0.0] * (HEAD + EACH * workers), 0.0
        self.tensor = _C.zeros(len(self.before), dtype=_C.float64, device="cpu")
        self.view: Any = memoryview(self.tensor)
        self.view[0], self.view[1] = LAYOUT, workers
        self.tensor._lend_as(self.name)

    def begin(self, began):
        self.view[RUNNING] = began

    def wait(self, since):
        self.view[WAITING] = since

    def enter(self, stats, end=False):
        """What the pass has come to; `end`: the next begins at nothing again."""
        now = time.perf_counter()
        if now < self.next and not end:
            return
        self.next = now + EVERY
        row = [0.0, 0.0, stats["seconds"], stats["batches"], stats["waited"], stats["unpacked"], 0.0, 0.0]
        for w in stats.get("workers", ()):
            row += (0.0, w["batches"], w["idle"], w["fetch"], w["collate"], w["send"], w["others"], w["respawned"])
            self.view[len(row) - EACH] = w["pid"] or 0
        for i in range(2, len(row)):
            if i not in (WAITING, RUNNING) and (i < HEAD or i % EACH):
                self.view[i] = self.before[i] + row[i]
        if end:
            self.before, self.view[RUNNING] = list(self.view), 0.0

    def close(self):
        """Nobody reads it any more."""
        if os.getpid() == self.owner:
            try:
                _C.drop(self.name)
            except _C.Error:
                pass  # the daemon has ended
