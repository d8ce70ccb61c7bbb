"""The programs of client/examples, as somebody runs them: short forms, killed processes, Ctrl-C, and what they leave behind (nothing)."""
import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from common import SLOW, wait_for

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "client/examples"
sys.path.append(str(EXAMPLES))


PIPE = 4096  # bytes: of the pipe for its output


class Run:
    """A program in a session of its own, with its private daemon's socket in a directory of its own. Its output is a small pipe, so a program that
    says much cannot be far ahead of who reads it."""

    def __init__(self, place, program, *args):
        self.place, self.killed = place, set()
        env = {k: v for k, v in os.environ.items() if k != "TENSORD_SOCKET"}
        env["XDG_RUNTIME_DIR"] = str(place)
        self.process = subprocess.Popen([sys.executable, str(EXAMPLES / program), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        encoding="utf-8", start_new_session=True, env=env, pipesize=PIPE)

    def line(self, pattern):
        """Wait for such a line of its output."""
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"ended without a line like {pattern!r}: {self.process.stderr.read()}")

    def those(self, role):
        """Its processes that have a role now. Who was just killed may still be listed, who was just started not yet: lines may come two at once."""
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(c) for c in children if int(c) not in self.killed and f"--role\0{role}\0" in words(c)]

    def kill(self, role, count=1):
        """Kill processes that have a role, as soon as there are so many."""
        assert wait_for(lambda: len(self.those(role)) >= count or self.process.poll() is not None) and self.process.poll() is None, f"few are {role}"
        for each in self.those(role)[:count]:
            self.killed.add(each)
            os.kill(each, signal.SIGKILL)

    def end(self):
        """Its status and words. Its pipes end with the last of its processes; the daemon takes its directory along."""
        out, err = self.process.communicate(timeout=120 * SLOW)
        assert wait_for(lambda: os.listdir(self.place) == [], 30), "the daemon is still there"
        return self.process.returncode, out, err


def words(pid):
    """Of a process; none when it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def start(tmp_path):
    runs = []

    def start(program, *args):
        runs.append(Run(tmp_path, program, *args))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.communicate()


PROGRAMS = {"two_towers.py": ("--steps", "1000000"), "hogwild.py": ("--epochs", "100000", "--hidden", "64")}


@pytest.mark.parametrize("more", [(), ("--kill", "left"), ("--kill", "right")])
def test_two_towers_are_one_graph(start, more):
    status, out, err = start("two_towers.py", "--steps", "120", *more).end()
    assert (status, err) == (0, ""), err
    assert "10 of 10 weights and 10 of 10 gradients are the same to the last bit" in out
    assert float(re.search(r"accuracy (\d\.\d+)", out)[1]) > 0.85 and len(re.findall(r"^step +\d+/120  loss", out, re.M)) == 11
    made = {side: [int(n) for n in re.findall(rf"^{side} .*of (\d+) steps", out, re.M)] for side in ("left", "right")}
    assert {side: sum(n) for side, n in made.items()} == {"left": 120, "right": 120}
    assert {side: len(n) for side, n in made.items()} == {side: 2 if side in more else 1 for side in made}
    assert ("was killed when it had built its part of step 61" in out) == bool(more)


def test_two_towers_go_on_when_anybody_kills_one(start):
    run = start("two_towers.py", "--steps", "2500")
    run.line("^step +1/")
    run.kill("left")
    run.kill("left")  # its successor, which may not have begun
    run.line("^step  250/")
    run.kill("plotter")
    status, out, err = run.end()
    assert (status, err) == (0, ""), err
    assert "10 of 10 weights and 10 of 10 gradients" in out and "nobody waits for it" in out
    made = [int(n) for n in re.findall(r"^left .*of (\d+) steps", out, re.M)]
    assert len(made) == 3 and sum(made) == 2500, out


def test_two_towers_compare_bits(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import tensord as td
    import two_towers
    assert two_towers.same(td.ones(3), td.ones(3))
    assert not two_towers.same(td.ones(3), td.tensor([1, 1, 1 + 2**-23])) and not two_towers.same(td.zeros(1), -td.zeros(1))
    assert not two_towers.same(td.ones(3), None)
    curve = two_towers.Curve(100, 40, 5).lines([2.0, 0.5, 0.1] + [float("nan")] * 97, [(50, "x")])
    assert curve[-1].endswith("step 3 of 100, loss 0.1000") and curve[5][9:].index("x") == 15 and len({len(line) for line in curve[:6]}) == 1


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("number, status, words", [(signal.SIGINT, 130, "interrupted; every process has ended"), (signal.SIGTERM, 130, "interrupted"),
                                                   (signal.SIGKILL, -9, "")])
def test_it_ends_whole(start, program, number, status, words):
    run = start(program, *PROGRAMS[program])
    run.line("loss")
    (os.killpg if number == signal.SIGINT else os.kill)(run.process.pid, number)  # the keys of a terminal reach all of its processes
    ended, _, err = run.end()
    assert ended == status and words in err and len(err.strip().splitlines()) == bool(words), err


def test_without_its_trainer_it_ends(start):
    run = start("two_towers.py", "--steps", "1000000")
    run.line("loss")
    run.kill("trainer")
    status, _, err = run.end()
    assert status == 1 and re.fullmatch(r"two_towers.py: trainer \(process \d+\) was ended by signal 9; the others were ended too\n", err), err


def workers(out):
    """What the table says of each: steps, samples, what happened."""
    rows = re.findall(r"^(\d) +\d+ +(\d+) +(\d+) +\S+  (.*)", out, re.M)
    return {int(n): (int(steps), int(samples), end) for n, steps, samples, end in rows}


def test_hogwild(start):
    status, out, err = start("hogwild.py", "--epochs", "5", "--hidden", "256", "--lr", "0.002").end()
    assert (status, err) == (0, ""), err
    assert float(re.search(r"^accuracy (\d\.\d+)", out, re.M)[1]) > 0.85
    rows = workers(out)
    lost = int(re.search(r"(\d+) of 150 batches died", out)[1])
    assert len(rows) == 4 and lost <= 1 and sum(steps for steps, _, _ in rows.values()) == 150 - lost + 8
    assert rows[3][2] == "killed (SIGKILL) at batch 75" and all(rows[k][2] == "worked to the end" and rows[k][0] > 2 for k in (1, 2, 4))
    assert re.search(r"daemon: a producer .* died: .*; of its [1-9]\d* tensors, .* in [1-9]\d* segments, nothing is left", out), out
    left = re.search(r"left in the daemon by the workers: (.*)", out)[1]
    assert re.findall(r"-?\d+", left) == ["0"] * 6, left


def test_hogwild_has_one_model_in_memory(start):
    status, out, err = start("hogwild.py", "--epochs", "1", "--batch", "300", "--kill", "0").end()
    assert (status, err) == (0, ""), err
    one, each = ([float(n) for n in re.search(rf"^{what} +(\d+\.\d) MB +(\d+\.\d) MB +(\d+\.\d) MB$", out, re.M).groups()]
                 for what in ("one model for all", "a model for each"))
    model = float(re.search(r"with Adam's state (\d+\.\d) MB", out)[1])
    rings = 8 * 0.3  # of processes that waited often, which is by chance
    assert model > 50 and abs(each[0] - one[0] - 3 * model) < rings and each[1] - one[1] > 2 * model, out
    # What the daemon computes in differs by more than a model, and by chance: how many of its threads came to a product.
    assert each[2] > each[1] and one[2] > one[1], out


def test_hogwild_goes_on_when_anybody_kills_workers(start):
    epochs = 20 + 2 * PIPE // 60  # what is read here and what is in the pipe are lines of more than 60 bytes: there are epochs to come
    run = start("hogwild.py", "--epochs", str(epochs), "--hidden", "64", "--kill", "0")
    run.line(f"^epoch  5/{epochs}")
    run.kill("worker")
    run.line(f"^epoch 10/{epochs}")
    run.kill("worker")
    status, out, err = run.end()
    assert (status, err) == (0, ""), err
    assert sorted(end for _, _, end in workers(out).values()) == ["killed (SIGKILL) by somebody"] * 2 + ["worked to the end"] * 2
    assert float(re.search(r"^accuracy (\d\.\d+)", out, re.M)[1]) > 0.85


def test_hogwild_without_workers_ends(start):
    run = start("hogwild.py", "--epochs", "100000", "--hidden", "64", "--workers", "2", "--kill", "0")
    run.line("^epoch")
    run.kill("worker", 2)
    status, _, err = run.end()
    assert status == 1 and "no worker is left" in err and len(err.splitlines()) == 1, err


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("args, words", [(("--mnist", "/nowhere"), "--mnist wants the directory"), (("--seed", "x"), "--seed"), (("--what",), "--what"),
                                         (("--lr", "much"), "--lr")])
def test_errors_are_one_line(start, program, args, words):
    status, out, err = start(program, *args).end()
    assert status in (1, 2) and words in err and len(err.splitlines()) == 1 and err.startswith(program + ": ") and not out, err


@pytest.mark.parametrize("program", PROGRAMS)
def test_help(start, program):
    status, out, err = start(program, "--help").end()
    assert status == 0 and err == "" and "--mnist" in out and "--role" not in out and len(out) < 4000


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_the_package(program, tmp_path):
    for name in (program, "_common.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    r = subprocess.run([sys.executable, "-S", "-E", str(tmp_path / program)], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "quickstart, which builds it" in r.stderr and len(r.stderr.splitlines()) == 1, r.stderr


def test_the_program_of_the_readme(tmp_path):
    """The first one in Python prints what it says."""
    text = (EXAMPLES.parents[1] / "README.md").read_text()
    program = re.search(r"```python\n(import tensord as td.*?)```", text, re.S)[1]
    said = re.findall(r"^print\(.*# (.*)$", program, re.M)
    r = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert said and (r.stdout.splitlines(), r.stderr) == (said, "")


def numbers(program):
    """What it prints, with numbers to a thousandth or so."""
    ran = subprocess.run([sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True, timeout=120 * SLOW)
    assert ran.returncode == 0, ran.stderr
    return [float(word) if re.fullmatch(r"-?\d+\.\d+", word) else word for word in ran.stdout.split()]


@pytest.mark.parametrize("name", ["script_and_trace", "custom_lstm", "train_scripted"])
def test_programs_of_pytorch_after_changing_the_import(name, tmp_path):
    ours = numbers(EXAMPLES / f"{name}.py")
    assert len(ours) > 10 and "False" not in ours
    pytest.importorskip("torch")
    theirs = re.sub(r"^(import|from) tensord", r"\1 torch", (EXAMPLES / f"{name}.py").read_text(), flags=re.M).replace("import torch as torch", "import torch")
    (tmp_path / "theirs.py").write_text(theirs)
    for a, b in zip(ours, numbers(tmp_path / "theirs.py"), strict=True):
        assert a == b if isinstance(a, str) else abs(a - b) <= 2e-3 * max(1.0, abs(b)), (a, b)


# ---- serve/: their models are outside of the project

MODELS = pathlib.Path(os.environ.get("TENSORD_MODELS") or EXAMPLES.parents[1].parent / "shared/data/onnx")
YUNET, SILERO = MODELS / "yunet_n_dynamic.onnx", MODELS / "silero_vad_16k_op15.onnx"
PORTRAIT = '{"score": 0.937, "box": [112, 37, 169, 111]}'


def needs(model):
    if not model.exists():
        pytest.skip(f"{model.name} is not in {model.parent} (TENSORD_MODELS names another directory)")


def test_faces_draws_a_box(start, tmp_path_factory):
    needs(YUNET)
    drawn = tmp_path_factory.mktemp("drawn") / "faces.png"
    status, out, err = start("serve/faces.py", str(YUNET), "-o", str(drawn)).end()
    assert (status, err) == (0, "") and out.splitlines()[0] == "a face from (112, 37) to (169, 111), score 0.94"
    from serve import _png
    width, height, pixels = _png.read(drawn.read_bytes())
    assert (width, height) == (320, 240)
    edge = [pixels[3 * (y * width + 112) : 3 * (y * width + 112) + 3] for y in range(37, 112)]
    assert set(edge) == {bytes((0, 255, 64))}


@pytest.mark.parametrize("kind", [(), ("--asyncio",)])
def test_web_workers_answer(start, kind):
    needs(YUNET)
    status, out, err = start("serve/web_workers.py", str(YUNET), "--workers", "2", "--try", "6", *kind).end()
    assert (status, err) == (0, ""), err
    assert PORTRAIT in out and "the model is in memory once" in out


def test_a_web_worker_that_dies_is_replaced(start):
    needs(YUNET)
    run = start("serve/web_workers.py", str(YUNET), "--workers", "2", "--port", "0")
    pids, port = run.line(r"workers \((\d+ \d+)\) serve http://127.0.0.1:(\d+)/").groups()
    os.kill(int(pids.split()[0]), signal.SIGKILL)
    run.line(r"another one takes its place")
    body = (EXAMPLES / "data/eileen_collins.png").read_bytes()
    for given, status, said in ((body, 200, PORTRAIT), (body[:5000], 400, "cut short"), (b"no picture", 400, "not a PNG file")):
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
        connection.request("POST", "/", given)
        reply = connection.getresponse()
        assert reply.status == status and said in reply.read().decode()
        connection.close()
    os.kill(run.process.pid, signal.SIGINT)
    assert run.end()[0] == 0


def test_speech_hears_voices(start):
    needs(SILERO)
    status, out, err = start("serve/speech.py", str(SILERO)).end()
    assert (status, err) == (0, "")
    parts = [tuple(map(float, p)) for p in re.findall(r"from +([\d.]+) s to +([\d.]+) s", out)]
    assert parts and all(int(at // 6) % 2 for part in parts for at in (part[0] + 0.1, part[1] - 0.5)), out  # silence and voice take turns of 6 s
    assert {int(begin // 12) for begin, _ in parts} == {0, 1, 2, 3, 4}


def test_a_picture_goes_through_a_file():
    from serve import _png
    data = (EXAMPLES / "data/eileen_collins.png").read_bytes()
    width, height, pixels = _png.read(data)
    assert (width, height, len(pixels)) == (320, 240, 230400) and _png.read(_png.write(width, height, pixels)) == (width, height, pixels)
    for k in range(0, len(data) - 12, 997):
        with pytest.raises(ValueError):
            _png.read(data[:k])
