"""How long statements take, by the names of torch.utils.benchmark: Timer, Measurement, Compare.

    t = Timer("a @ b", globals={"a": td.rand(64, 64), "b": td.rand(64, 64)}, label="matmul", description="64")
    print(t.blocked_autorange())

A run ends when the daemon has done all that was asked: what a statement leaves for later counts, too. What compiles C++ or counts instructions is not here.
"""

import contextlib
import itertools
import math
import statistics
import timeit
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tensord as td
from tensord.core import _absent

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit", "set_torch_threads", "timer", "trim_sigfig", "unit_to_english"]

_UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3), "s": ("second", 1.0)}


def timer() -> float:
    """Seconds, when all that was asked is done."""
    td.sync()
    return timeit.default_timer()


def select_unit(t: float) -> "tuple[str, float]":
    """The unit in which so many seconds are a number from 1 to 1000, and its seconds."""
    unit = next((u for u, end in (("ns", 1e-6), ("us", 1e-3), ("ms", 1.0)) if t < end), "s")  # 1000 * 1e-9 is more than 1e-6
    return unit, _UNITS[unit][1]


def unit_to_english(u: str) -> str:
    """'us' -> 'microsecond'"""
    return _UNITS[u][0]


def trim_sigfig(x: float, n: int) -> float:
    """x with n significant digits."""
    return float(f"{x:.{n - 1}e}")


def ordered_unique(elements: "Iterable[Any]") -> "list[Any]":
    """Each once, in the order in which they came."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> "Iterator[None]":
    """With so many threads."""
    before = td.get_num_threads()
    try:
        td.set_num_threads(n)
        yield
    finally:
        td.set_num_threads(before)


@dataclass(frozen=True)
class TaskSpec:
    """What was measured."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: "str | None" = None
    sub_label: "str | None" = None
    description: "str | None" = None
    env: "str | None" = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        return (self.label or self.stmt) + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        return "" if self.setup in ("", "pass") else f"setup:\n{self.setup}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        return "\n".join(line for line in (self.title, self.description, self.setup_str()) if line)


@dataclass(repr=False)
class Measurement:
    """Times of a statement; those of `times` are seconds of one run of it. It has the TaskSpec's fields."""

    number_per_run: int
    raw_times: "list[float]"
    task_spec: TaskSpec
    metadata: "dict[Any, Any] | None" = None

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> "list[float]":
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        times = sorted(self.times)
        at = q * (len(times) - 1)
        low = math.floor(at)
        return times[low] + (at - low) * (times[math.ceil(at)] - times[low])

    @property
    def median(self) -> float:
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """From where a quarter of the times lies below to where a quarter lies above."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits the middle half of the times bears out, from 1 to 5."""
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        if not middle:  # of a single time
            return 1
        unsure = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)), 25e-9)
        return min(max(math.floor(math.log10(self.median / unsure)), 1), 5)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        n, threads = len(self.raw_times), self.num_threads
        lines = [f"<{type(self).__module__}.Measurement object at {id(self):#x}>", self.task_spec.summarize(), f"  {'Median: ' * (n > 1)}{self.median / scale:.2f} {unit}"]
        if n > 3:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({self._quantile(0.25) / scale:.2f} to {self._quantile(0.75) / scale:.2f})")
        lines.append(f"  {n} measurement{'s' * (n > 1)}, {self.number_per_run} runs{' per measurement' * (n > 1)}, {threads} thread{'s' * (threads > 1)}")
        if self.has_warnings:
            why = "This could indicate system fluctuation." if self.meets_confidence(0.25) else "This suggests significant environmental influence."
            lines.append(f"  WARNING: Interquartile range is {100 * self.iqr / self.median:.1f}% of the median measurement.\n           {why}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: "Iterable[Measurement]") -> "list[Measurement]":
        """One of each TaskSpec, with the times of all of it."""
        by_task: "dict[TaskSpec, list[float]]" = {}
        for m in measurements:
            by_task.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task) for task, times in by_task.items()]


class Timer:
    """Measures a statement of Python, which sees `globals`; with one thread if not said otherwise."""

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: "Callable[[], float]" = timer, globals: "dict[str, Any] | None" = None,
                 label: "str | None" = None, sub_label: "str | None" = None, description: "str | None" = None, env: "str | None" = None, num_threads: int = 1,
                 language: Any = "python") -> None:
        if str(language).lower() not in ("python", "py") or global_setup:
            raise td.Unsupported("statements are Python's here; no C++ is compiled")
        setup = "pass" if setup == "" else setup
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # no clock is finer

    def _measured(self, number: int, times: "list[float]") -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of so many runs, behind some that warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measured(number, [self._timeit(number)])

    def _runs(self, least: float) -> int:
        """How many take as long as this."""
        number = 1
        while self._timeit(number) < least:
            number *= 10
        return number

    def blocked_autorange(self, callback: "Callable[[int, float], Any] | None" = None, min_run_time: float = 0.2) -> Measurement:
        """Times of as many runs as make a thousandth of min_run_time or more, until that is over."""
        with set_torch_threads(self._task_spec.num_threads):
            number, times = self._runs(min_run_time / 1000), []
            while not times or sum(times) < min_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0, callback: "Callable[[int, float], Any] | None" = None) -> Measurement:
        """As blocked_autorange(), until the times of the middle half differ by less than `threshold` of their median, or max_run_time is over."""
        with set_torch_threads(self._task_spec.num_threads):
            number, times = self._runs(min_run_time / 1000), []
            while sum(times) < max_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                if len(times) > 3 and sum(times) > min_run_time and self._measured(number, times).meets_confidence(threshold):
                    break
        return self._measured(number, times)


class Compare:
    """A table of measurements for each label: a row for each sub_label (of each env), a column for each description; the best of a row is marked by highlight_best()."""

    def __init__(self, results: "list[Measurement]") -> None:
        self._results = list(results)
        self._trim = self._highlight = False

    def extend_results(self, results: "Iterable[Measurement]") -> None:
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show no more digits than the times bear out."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        self.highlight_best()

    def highlight_best(self) -> None:
        """Put a * behind the least time of each row."""
        self._highlight = True

    def print(self) -> None:
        """On standard output."""
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        return "\n".join(self._table([m for m in merged if m.label == label]) for label in ordered_unique(m.label for m in merged))

    def _table(self, results: "list[Measurement]") -> str:
        unit, scale = min((select_unit(m.median) for m in results), key=lambda u: u[1])
        columns = ordered_unique(m.description for m in results)
        lines: "list[list[str]]" = [["", *(c or "" for c in columns)]]
        for threads in ordered_unique(m.num_threads for m in results):
            lines.append([f"{threads} threads:"])
            for env, row in itertools.product(ordered_unique(m.env for m in results), ordered_unique(m.as_row_name for m in results)):
                of = {m.description: m for m in results if (m.num_threads, m.env, m.as_row_name) == (threads, env, row)}
                if of:
                    best = min(m.median for m in of.values())
                    lines.append([(f"({env}) " if env else "") + row, *(self._cell(of.get(c), scale, best) for c in columns)])
        widths = [max((len(line[k]) for line in lines if len(line) > k and len(line) > 1), default=0) for k in range(len(columns) + 1)]
        shown = [line[0] if len(line) == 1 else "  |  ".join([f"  {line[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(line[1:], widths[1:]))]) for line in lines]
        return "\n".join([f"[{results[0].label or results[0].stmt:-^{max(map(len, shown)) - 2}}]", *shown, f"\nTimes are in {unit_to_english(unit)}s ({unit}).\n"])

    def _cell(self, m: "Measurement | None", scale: float, best: float) -> str:
        if m is None:
            return ""
        value = trim_sigfig(m.median, m.significant_figures) if self._trim else m.median
        return f"{value / scale:.1f}" + ("*" if self._highlight and m.median == best else "")


__getattr__ = _absent.of("tensord.utils.benchmark")
