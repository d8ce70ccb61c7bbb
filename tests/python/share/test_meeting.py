"""Which processes meet in one private daemon, whichever of them comes first, and which do not.

Every script here is a program of its own: this process sets TENSORD_BELOW to its own number, and names no socket.
"""
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from common import SLOW

METHODS = ["fork", "spawn", "forkserver"]
PATH = "import tensord as td; td.ones(1); print(td.connection()['path'])"


@pytest.fixture
def program(tmp_path):
    """program(source, ...): what such a script prints, in lines; it and what it wrote to stderr must be well."""
    names = "PATH", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TENSORD_DAEMON", "XDG_RUNTIME_DIR", "HOME", "TMPDIR"
    env = {k: os.environ[k] for k in names if k in os.environ} | {"TENSORD_BELOW": str(os.getpid()), "PYTHONFAULTHANDLER": "1"}

    def run(source, *args, name="program.py", command=(sys.executable,), well=True, **more):
        (tmp_path / name).write_text(textwrap.dedent(source))
        r = subprocess.run([*command, str(tmp_path / name), *args], capture_output=True, text=True, timeout=60 * SLOW, env={**env, **more}, cwd=tmp_path)
        assert not well or (r.returncode, r.stderr) == (0, ""), r.stderr
        return r.stdout.splitlines() if well else r

    run.env, run.place = env, tmp_path
    return run


def one(lines, count):
    assert len(lines) == count and len(set(lines)) == 1, lines


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_ranks_that_nobody_starts_together(program):
    """Each waits alone, in a daemon of its own: the error says so, where no path was given."""
    here = program("""
        import tensord as td
        for socket in None, td.connect() or td.connection()["path"]:
            try:
                td.Group("apart", 2, rank=0, timeout=0.01, socket=socket)
            except td.Timeout as e:
                print(e)
    """)
    assert len(here) == 2 and all("rank 1 did not" in line for line in here), here
    assert ["daemon is a private one" in line and line.endswith("start tensord before them") for line in here] == [True, False], here


# ---- children before the parent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["td.multiprocessing.get_context(method).Pool(2)", "ProcessPoolExecutor(2, mp_context=td.multiprocessing.get_context(method))"],
                         ids=["pool", "executor"])
def test_results_of_workers(program, kind, method):
    """The parent has made no tensor."""
    assert program(f"""
        import sys
        import tensord as td
        from concurrent.futures import ProcessPoolExecutor

        def make(n):
            return td.full((3,), float(n))

        if __name__ == "__main__":
            method = sys.argv[1]
            with {kind} as pool:
                print([x.sum().item() for x in pool.map(make, range(6))])
    """, method) == ["[0.0, 3.0, 6.0, 9.0, 12.0, 15.0]"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("parent", ["first", "last", "never"])
def test_siblings_and_one_queue(program, method, parent):
    """One puts, ends, and another gets; their parent touches tensord before, after, or not at all."""
    lines = program("""
        import multiprocessing, sys

        def produce():
            import tensord as td
            queue = td.Queue("siblings", maxsize=20)
            for n in range(15):
                queue.put(td.full((2,), float(n)))

        def consume():
            import tensord as td
            queue = td.Queue("siblings")
            print(sum(queue.get(timeout=60).sum().item() for _ in range(15)), flush=True)

        def look():
            import tensord as td
            td.ones(1)
            return td.connection()["path"]

        if __name__ == "__main__":
            method, parent = sys.argv[1:]
            before = look() if parent == "first" else None
            for work in produce, consume:
                process = multiprocessing.get_context(method).Process(target=work)
                process.start()
                process.join()
            print(before is None or before == look())
    """, method, parent)
    assert lines == ["210.0", "True"]


def test_joblib(program):
    pytest.importorskip("joblib", reason="joblib is not there (PyPI)")
    assert program("""
        import joblib
        import tensord as td

        def make(n):
            return td.full((3,), float(n))

        if __name__ == "__main__":
            print([x.sum().item() for x in joblib.Parallel(n_jobs=2)(joblib.delayed(make)(n) for n in range(6))])
    """) == ["[0.0, 3.0, 6.0, 9.0, 12.0, 15.0]"]


# ---- how children are started ----------------------------------------------------------------------------------------

START = """
    import os, subprocess, sys
    path = ["-c", "import tensord as td; td.ones(1); print(td.connection()['path'], flush=True)"]
    def run(command, **more):
        assert subprocess.run(command, **more).returncode == 0
"""


@pytest.mark.parametrize("how", ["run([sys.executable, *path], start_new_session=True)", "run([sys.executable, *path], process_group=0)",
                                 "run([sys.executable, *path], cwd='/')", "run(['sh', '-c', '\"$0\" \"$@\"; true', sys.executable, *path])",
                                 "run(['timeout', '600', sys.executable, *path])",
                                 "run(['sh', '-c', 'timeout 600 \"$0\" \"$@\"; true', sys.executable, *path], start_new_session=True)",
                                 "run(['env', '-i', *kept, sys.executable, *path])"],
                         ids=["setsid", "group", "directory", "sh", "timeout", "sh timeout", "emptied"])
def test_a_child_that_is_started_so_meets_the_others(program, how):
    """An emptied environment has only what finds the library, and what keeps this test apart."""
    kept = [f"{k}={v}" for k, v in program.env.items() if k not in ("XDG_RUNTIME_DIR", "HOME", "TMPDIR")]
    if "process_group" in how and sys.version_info < (3, 11):
        pytest.skip("subprocess has no process_group before Python 3.11")
    lines = program(textwrap.dedent(START) + f"""
kept = {kept!r}
{how}
run([sys.executable, *path])
import tensord as td; td.ones(1); print(td.connection()["path"])
""")
    one(lines, 3)


def test_a_sweep_keeps_its_programs_apart(program):
    lines = program(textwrap.dedent(START) + """
apart = {**os.environ, "TENSORD_BELOW": str(os.getpid())}
run([sys.executable, *path], env=apart)
run([sys.executable, *path], env=apart)
import tensord as td; td.ones(1); print(td.connection()["path"])
""")
    assert len(set(lines)) == 3, lines


def test_a_launcher_s_ranks_meet(program):
    """What starts them is no Python, and is known by its name; another script below which two run is nobody's root."""
    for name, count in ("mpirun", 1), ("hydra_pmi_proxy", 1), ("both", 2):
        launcher = program.place / name
        launcher.write_text('#!/bin/sh\n"$@" &\n"$@" &\nwait\n')
        launcher.chmod(0o755)
        lines = program(PATH, command=(str(launcher), sys.executable))
        assert len(lines) == 2 and len(set(lines)) == count, (name, lines)


def test_torchrun_s_ranks_meet(program):
    pytest.importorskip("torch", minversion="2.0", reason="torchrun is not there, or fails by itself, as torch 1.13's does with Python 3.11 (PyPI has a later one)")
    r = program("import os\n" + PATH, command=(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "3"), well=False,
                OMP_NUM_THREADS="1")
    assert r.returncode == 0, r.stderr
    one([line for line in r.stdout.splitlines() if line.startswith("/")], 3)


def test_two_kernels_do_not_meet(program):
    """Each is a program; what it starts is part of it, and what the server above them has is not theirs."""
    (program.place / "ipykernel_launcher.py").write_text(textwrap.dedent("""
        import multiprocessing
        import tensord as td

        def look():
            td.ones(1)
            print(td.connection()["path"], flush=True)

        if __name__ == "__main__":
            child = multiprocessing.get_context("fork").Process(target=look)
            child.start()
            child.join()
            look()
    """))
    for name in "jupyter-lab", "any.py":
        lines = program("""
            import subprocess, sys
            for _ in range(2):
                subprocess.run([sys.executable, "-m", "ipykernel_launcher"], start_new_session=True)
            import tensord as td; td.ones(1); print(td.connection()["path"])
        """, name=name)
        assert lines[0] == lines[1] and lines[2] == lines[3] and len(set(lines)) == 3, lines


def test_services_of_one_manager_do_not_meet(program):
    lines = program(textwrap.dedent(START) + "run([sys.executable, *path])\nrun([sys.executable, *path])\n", name="supervisord")
    assert len(set(lines)) == 2, lines


def test_two_runs_from_a_shell_at_a_terminal_do_not_meet(program):
    """Also where a Python runs the terminal, and though that has a daemon; a pipeline's two programs do not, either."""
    if not shutil.which("bash"):
        pytest.skip("there is no bash")
    (program.place / "look.py").write_text(PATH + "\n")
    (program.place / "terminal.py").write_text(textwrap.dedent("""
        import os, pty, sys
        import tensord as td
        td.ones(1)
        print(td.connection()["path"], flush=True)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvp("bash", ["bash", "--norc", "-i"])
        look = f"{sys.executable} look.py"
        os.write(terminal, f"stty -echo; PS1=\\n{look}\\n{look}\\nexit\\n".encode())
        try:
            while said := os.read(terminal, 4096):
                os.write(1, said)
        except OSError:
            pass
        os.waitpid(pid, 0)
    """))
    r = subprocess.run([sys.executable, "terminal.py"], capture_output=True, text=True, timeout=60 * SLOW, env={**program.env, "TERM": "dumb"}, cwd=program.place)
    lines = re.findall(r"^(/\S+/socket)\s*$", r.stdout, re.M)
    assert len(lines) == 3 and len(set(lines)) == 3, r.stdout


def test_another_pid_namespace(program):
    """Its parents are not seen there; a get() in vain says where the queue is."""
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "--pid", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("no pid namespace can be made here")
    lines = program(f"""
        import os, subprocess, sys
        import tensord as td
        queue = td.Queue("namespace", role="producer")
        env = {{k: v for k, v in os.environ.items() if k != "TENSORD_BELOW"}}
        print(td.connection()["path"], flush=True)
        get = "import tensord as td; q = td.Queue('namespace')\\ntry: q.get(timeout=5)\\nexcept td.QueueEmpty: print(td.connection()['path'])"
        r = subprocess.run([{unshare!r}, "--pid", "--fork", "--mount-proc", sys.executable, "-c", get], capture_output=True, text=True, env=env)
        print(r.stdout.strip())
        print(r.stderr.strip().replace("\\n", " "))
    """)
    here, there, said = lines
    program("import tensord as td\ntd.ones(1)\ntry: td.open('no/such', timeout=0)\nexcept td.NotFound: pass\n")
    assert not os.path.exists(there), "the namespace's end killed its daemon; a program that looks for others removes what it left"
    assert here != there and f"TENSORD_SOCKET={here}" in said and "another pid namespace" in said, lines


def test_words_for_a_queue_that_is_elsewhere(program):
    """A program that nobody starts with this one puts into it."""
    other = subprocess.Popen([sys.executable, "-c", "import sys, tensord as td; q = td.Queue('elsewhere', role='producer'); print(td.connection()['path'], flush=True); "
                              "sys.stdin.read()"], env=program.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with other:
        path = other.stdout.readline().strip()
        r = program("import tensord as td\ntry: td.Queue('elsewhere').get(timeout=5)\nexcept td.QueueEmpty: pass\n", well=False)
        other.stdin.close()
    assert r.returncode == 0 and f"has a queue of this name with items or a producer: start this program with TENSORD_SOCKET={path}" in r.stderr, r.stderr


def test_words_for_items_of_a_program_that_has_ended(program):
    """The next program in the same shell, for one, looks for them."""
    r = program("import tensord as td\ntd.Queue('ended').put(1)\nprint(td.connection()['path'])\n", well=False)
    path = r.stdout.strip()
    assert r.returncode == 0 and r.stderr.startswith("tensord: 1 item of queue 'ended' that nobody took waits "), r.stderr
    assert program("import tensord as td\nprint(td.Queue('ended').get(timeout=60))\n", TENSORD_SOCKET=path) == ["1"]


def test_words_for_items_of_queues_that_are_closed_or_out_of_scope(program):
    r = program("""
        import tensord as td

        def work():
            queue = td.Queue("of a function")
            queue.put(1)
            queue.put(2)

        work()
        closed, taken, own = td.Queue("closed"), td.Queue("taken"), td.Queue("own", role="consumer")
        closed.put(1)
        closed.close()
        taken.put(1)
        taken.get()
        put = td.Queue("own")
        put.put(1)
        put.close()
        print(td.connection()["path"])
    """, well=False)
    said = sorted(line.partition(" that nobody took wait")[0] for line in r.stderr.splitlines())
    assert r.returncode == 0 and said == ["tensord: 1 item of queue 'closed'", "tensord: 2 items of queue 'of a function'"], r.stderr
    take = "import tensord as td\nfor name in 'closed', 'of a function': print(td.Queue(name).get(timeout=60))\n"
    assert program(take, TENSORD_SOCKET=r.stdout.strip()) == ["1", "1"]  # and they hold up nobody
