"""How long parts of a program take, with the names of torch.profiler: each `with record_function("forward"):` is a row.

    with td.profiler.profile() as prof:
        with td.profiler.record_function("forward"):
            loss = model(x).sum()
    print(prof.key_averages().table())

Ops are computed by the daemon, many at a time, after they were asked for; so while a profile records, a block begins and ends with tensord.sync(), and its
time is the wall's until all that it asked for has ended. What single ops take is told by `tensorctl bench`, what the daemon does now by `tensorctl top`.
"""

import contextlib
import enum
import gzip
import json
import os
import socket
import threading
import time
import warnings
from typing import Any

from tensord import _C

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]


class ProfilerActivity(enum.Enum):
    """What is looked at: the program, and what it waits for."""

    CPU = 0
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_recording: list = []  # the profiles that record now
_open = threading.local()


def supported_activities():
    """{ProfilerActivity.CPU}"""
    return {ProfilerActivity.CPU}


def _settle():
    if _C.connection():
        _C.sync()


class FunctionEvent:
    """One block: `name`, where it began, `cpu_time_total` and what of it lies in no block inside, in microseconds."""

    def __init__(self, name):
        self.name = self.key = name
        self.thread, self.inside, self.count = threading.get_native_id(), 0.0, 1
        self.began, self.cpu_time_total = time.perf_counter_ns() / 1000, 0.0

    def _end(self):
        self.cpu_time_total = time.perf_counter_ns() / 1000 - self.began

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - self.inside

    @property
    def cpu_time(self):
        """The mean of one call."""
        return self.cpu_time_total / self.count

    def __repr__(self):
        return f"<{type(self).__name__} {self.key}: {self.count} calls, {_time(self.cpu_time_total)}>"


class FunctionEventAvg(FunctionEvent):
    """All blocks of a name together."""

    def __init__(self, name):
        super().__init__(name)
        self.count = 0

    def add(self, event):
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.inside += event.inside
        return self


class record_function(contextlib.ContextDecorator):
    """A block, or what it decorates, under this name; nothing while no profile records."""

    def __init__(self, name: str, args: "str | None" = None):
        self.name, self.args = name, args
        self._events: list = []  # one a call, as a decorated function may call itself

    def __enter__(self):
        if _recording:
            _settle()
        event = FunctionEvent(self.name) if _recording else None
        self._events.append(event)
        if event:
            _stack().append(event)
        return self

    def __exit__(self, *error):
        event = self._events.pop()
        if event:
            if error[0] is None:
                _settle()
            _close(event)


def _stack():
    if not hasattr(_open, "events"):
        _open.events = []
    return _open.events


def _close(event):
    event._end()
    stack = _stack()
    if event in stack:
        del stack[stack.index(event) :]  # with what a generator left open
    if stack:
        stack[-1].inside += event.cpu_time_total
    for to in _recording:
        to._events.append(event)


def _time(us):
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


class EventList(list):
    """Blocks, or sums of them: table(), total_average(), export_chrome_trace()."""

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Those of a name added up. There are no shapes, stacks and overloads to group by."""
        sums: dict = {}
        for event in self:
            name = "ProfilerStep*" if event.name.startswith("ProfilerStep#") else event.name
            sums.setdefault(name, FunctionEventAvg(name)).add(event)
        return EventList(sums.values())

    def total_average(self):
        """All added up."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    @property
    def self_cpu_time_total(self):
        return sum(event.self_cpu_time_total for event in self)

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55, max_shapes_column_width=80, header=None, top_level_events_only=False):
        """As text; sort_by: "cpu_time_total", "self_cpu_time_total", "cpu_time", "count" or "key". Raises InvalidError for another."""
        rows: list = list(self)
        if sort_by is not None:
            if sort_by not in ("cpu_time_total", "self_cpu_time_total", "cpu_time", "count", "key"):
                raise _C.InvalidError(f"table(): there is nothing to sort by under {sort_by!r}")
            rows.sort(key=lambda e: getattr(e, sort_by), reverse=sort_by != "key")
        whole = self.self_cpu_time_total or 1.0
        cut = max_name_column_width
        cells = [["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]]
        for e in rows[: row_limit if row_limit >= 0 else None]:
            name = e.key if cut is None or len(e.key) <= cut else e.key[: cut - 3] + "..."
            cells.append([name, f"{100 * e.self_cpu_time_total / whole:.2f}%", _time(e.self_cpu_time_total), f"{100 * e.cpu_time_total / whole:.2f}%",
                          _time(e.cpu_time_total), _time(e.cpu_time), str(e.count)])
        widths = [max(12, *(len(row[k]) + 2 for row in cells)) for k in range(7)]
        line = "  ".join("-" * w for w in widths)
        text = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in cells]
        return "\n".join([*([header] if header else []), line, text[0], line, *text[1:], line, f"Self CPU time total: {_time(self.self_cpu_time_total)}", ""])

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path, metadata=None):
        """A file (gzip, if its name ends so) for chrome://tracing and Perfetto."""
        events = [{"ph": "X", "cat": "user_annotation", "name": e.name, "pid": os.getpid(), "tid": e.thread, "ts": e.began, "dur": e.cpu_time_total} for e in self]
        text = json.dumps({"schemaVersion": 1, **(metadata or {}), "traceEvents": events}).encode()
        with (gzip.open if str(path).endswith(".gz") else open)(path, "wb") as f:
            f.write(text)


class profile:
    """What record_function() blocks inside take; with a schedule, those of the steps that it says, each a row "ProfilerStep*" too.

    on_trace_ready(self) is called when steps that belong together have ended, or the profile. What is asked of ops (record_shapes, profile_memory, with_stack,
    with_flops, with_modules) changes nothing, as they have no rows. acc_events: what was recorded before is kept behind on_trace_ready.
    """

    def __init__(self, *, activities: Any = None, schedule: Any = None, on_trace_ready: Any = None, record_shapes=False, profile_memory=False, with_stack=False,
                 with_flops=False, with_modules=False, experimental_config: Any = None, acc_events=False, use_cuda: Any = None):
        if use_cuda or ProfilerActivity.CUDA in (activities or ()):
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self._schedule, self.on_trace_ready, self.acc_events = schedule, on_trace_ready, acc_events
        self.step_num, self._step, self._metadata = 0, None, {}
        self.current_action = ProfilerAction.NONE
        self._events = EventList()

    def _says(self):
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _go_on(self):
        """What this step is to be."""
        self.current_action = self._says()
        records = self in _recording
        if self.current_action in _RECORDS and not records:
            if not self.acc_events:
                self._events = EventList()
            _settle()
            _recording.append(self)
        elif records and self.current_action not in _RECORDS:
            _recording.remove(self)
        if self._schedule is not None and self in _recording:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self, save):
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if save:
            if self in _recording:
                _recording.remove(self)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def start(self):
        self._go_on()

    def stop(self):
        self._end_step(self.current_action in _RECORDS)
        self.current_action = ProfilerAction.NONE

    def step(self):
        """The next step of the schedule begins."""
        self._end_step(self.current_action is ProfilerAction.RECORD_AND_SAVE)
        self.step_num += 1
        if self._schedule is not None:
            self._go_on()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        if error[0] is None:
            _settle()
        self.stop()

    def events(self):
        """The blocks, as they ended."""
        return self._events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Blocks of one name added up."""
        return self._events.key_averages()

    def export_chrome_trace(self, path):
        """A file (gzip, if its name ends so) for chrome://tracing and Perfetto."""
        self._events.export_chrome_trace(path, self._metadata)

    def add_metadata(self, key, value):
        """A word for the file."""
        self._metadata[key] = value

    def add_metadata_json(self, key, value):
        """JSON for the file."""
        self._metadata[key] = json.loads(value)


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A schedule for profile(): after skip_first steps, again and again (repeat times, 0: always) wait, warmup, then active steps that are recorded.

    skip_first_wait: not 0, the first time begins with warmup. Raises AssertionError for negative numbers, and when none is active.
    """
    if min(wait, warmup, active - 1, repeat, skip_first) < 0:
        raise AssertionError(f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), active={active} (need > 0), "
                             f"repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0).")
    length = wait + warmup + active

    def says(step):
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        turn, at = divmod(step + (wait if skip_first_wait else 0), length)
        if at < wait or repeat and turn >= repeat:
            return ProfilerAction.NONE
        return ProfilerAction.WARMUP if at < wait + warmup else ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD

    return says


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """For on_trace_ready: writes WORKER.TIME.pt.trace.json into the folder, which is made."""

    def handle(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json" + ".gz" * bool(use_gzip)))

    return handle
