"""The machine's processes, as the runner of the suites sees them: which came from which, how long each has run, where it stands.

Process numbers are those of /proc. A process may end at any moment; each function here then tells of none."""
import os
import re
import shutil
import subprocess

FRAMES = 20  # of each thread's stack, the innermost
INNERMOST = 3  # frames that are told whatever they are: the sanitizer itself may be what hangs
PLUMBING = re.compile(r"__|\?\?|_start$|start_thread$|clone3?$|cond_wait<")  # frames of libc and of sanitizers, which tell nothing further out


def stat_of(pid):
    """What /proc/PID/stat says: the name, and the list of what stands behind it, from the state on; None when the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
        return name, rest.split()
    except (OSError, IndexError):
        return None


def processes():
    """(pid, name, state, parent's pid) of each."""
    told = ((int(pid), stat_of(pid)) for pid in filter(str.isdigit, os.listdir("/proc")))
    return [(pid, stat[0], stat[1][0], int(stat[1][1])) for pid, stat in told if stat]


def command_of(pid):
    """What a process was started as: its program and its arguments."""
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().split("\0")[:-1]
    except OSError:
        return []


def seconds_of(pid):
    """How long a process has run, in seconds; 0 when it has ended."""
    stat = stat_of(pid)
    if not stat:
        return 0.0
    with open("/proc/uptime") as up:
        return float(up.read().split()[0]) - int(stat[1][19]) / os.sysconf("SC_CLK_TCK")


def below(parent):
    """All processes below one, children of children too."""
    parents = {pid: above for pid, _, _, above in processes()}
    found, last = set(), {parent}
    while last:
        last = {pid for pid, above in parents.items() if above in last} - found
        found |= last
    return found


def threads_by_gdb(text):
    """Of what gdb says by `thread apply all bt`, a line for each thread: the functions it is in, innermost first."""
    lines = []
    for thread in re.split(r"^Thread \d+ ", text, flags=re.M)[1:]:
        name = re.search(r'"([^"]*)"', thread.split("\n", 1)[0])
        frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)(?: \([^\n]*?\))?(?: at \S*?([^/\s]+:\d+))?", thread, flags=re.M)
        ours = frames[:INNERMOST] + [frame for frame in frames[INNERMOST:] if not PLUMBING.match(frame[0])]
        lines.append(f"{name.group(1) if name else '?'}: " + " < ".join(f"{what} {where}".strip() for what, where in ours))
    return lines


def read(path):
    """A short file of /proc, or "?": some may be read by few."""
    try:
        with open(path) as f:
            return f.read().strip() or "?"
    except OSError:
        return "?"


def threads_by_proc(pid):
    """A line for each thread from /proc alone: its name, where in the kernel it waits, its system call."""
    try:
        tasks = [f"/proc/{pid}/task/{task}/" for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
    return [f"{read(task + 'comm')}: waits in {read(task + 'wchan')}, system call {read(task + 'syscall')}" for task in tasks]


def stacks(pid):
    """Where each thread of a process stands, a line for each; threads that stand in one place share a line."""
    lines = []
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-ex", f"thread apply all backtrace {FRAMES}"]
        try:
            lines = threads_by_gdb(subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60).stdout)
        except subprocess.TimeoutExpired:
            pass
    counts = {}
    for line in lines or threads_by_proc(pid):
        counts[line] = counts.get(line, 0) + 1
    return [line + (f" ({n} threads)" if n > 1 else "") for line, n in counts.items()]
