"""The pages of client/python/guide do what they say: every block of code is run.

In a page, ```python blocks are one program, in their order; a block whose first line is a comment with a file's name is that file instead. ```console
blocks are commands after `$ ` with what they print below them, where `...` stands for anything. What a line prints may also stand behind it: print(x)  # 3
"""
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
from common import SLOW
from onnx_file import FLOAT, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "client/python/guide").glob("*.md"))
BUILD = pathlib.Path(os.environ["TENSORD_DAEMON"]).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
HTTP = BUILD / "client/tensord-http"
MARK = "--- the next command"
# Of what Python's development mode says only how long a step of a loop took is left out: that is the machine's load (the first may start a daemon).
UNTIMED = "import logging; logging.getLogger('asyncio').setLevel(logging.ERROR)\n"
NEWER = "assign=True"  # PyTorch 2.1
NEEDS = {"torch": "PyTorch is not installed", "numpy": "NumPy is not installed"}


def blocks(page):
    return [(m[1], m[2]) for m in BLOCK.finditer(page.read_text())]


def file_name(body):
    found = re.match(r"# ([\w/]+\.\w+)\n", body)
    return found and found[1]


class Place:
    """A directory with the page's files, and a daemon below it when a program starts one. Commands are Debian's python3, tensord and tensorctl as built."""

    def __init__(self, path):
        self.path, self.bin = path, path / "bin"
        self.bin.mkdir()
        (self.bin / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')  # a link would not find a virtual environment's packages
        (self.bin / "python3").chmod(0o755)
        (self.bin / "tensord").symlink_to(os.environ["TENSORD_DAEMON"])
        (self.bin / "tensorctl").symlink_to(BUILD / "client/tensorctl")
        (self.bin / "tensord-http").symlink_to(HTTP)
        (path / "run").mkdir(mode=0o700)
        self.env = {k: v for k, v in os.environ.items() if k not in ("TENSORD_SOCKET", "TENSORD_BELOW")}
        self.env |= {"PATH": f"{self.bin}:{self.env['PATH']}", "XDG_RUNTIME_DIR": str(path / "run"), "TENSORD_BELOW": str(os.getpid())}

    def run(self, *command):
        """What it prints, on both outputs, and its status; whatever it started in the background ends with it."""
        with open(self.path / "printed", "w+") as out:
            process = subprocess.Popen(command, cwd=self.path, env=self.env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(timeout=60 * SLOW)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            return out.read(), status

    def shell(self, lines):
        """What each command prints; they are one session, so a variable or a background process is there for the next."""
        script = "".join(f"echo '{MARK}'\n{line}\n" for line in lines)
        return self.run("/bin/bash", "-c", script)[0].split(MARK + "\n")[1:]


def alike(printed, said):
    """`...` in what was said stands for anything, a line of its own for any number of lines."""
    pattern = re.escape("\n".join(line.rstrip() for line in said.strip().splitlines())).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().splitlines()), re.S)


def commands(body):
    """(command, what it prints) of a console block; a command goes on in the next line after a backslash."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        m = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.S)
        yield m[1], m[2]


def needed(text):
    for name, why in NEEDS.items():
        if re.search(rf"^\s*(import|from) (tensord\.)?{name}\b|\b{name} as ", text, re.M):
            pytest.importorskip(name, reason=why)


def lay_out(page, path):
    """What a page takes for granted. For serving.md a model of digits; it needs curl, and tensord-http to be built."""
    if page.stem != "serving":
        return
    if not HTTP.exists() or not shutil.which("curl"):
        pytest.skip("curl is not installed" if HTTP.exists() else "tensord-http is not built")
    write(path / "digits.onnx", [("Gemm", ["pixels", "w"], ["scores"])], [("pixels", FLOAT, ["n", 64])], [("scores", FLOAT, ["n", 10])],
          {"w": ((64, 10), [k % 7 / 7 for k in range(640)])})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page(page, tmp_path):
    place, program, said = Place(tmp_path), "", []
    lay_out(page, tmp_path)
    for language, body in blocks(page):
        assert language in ("python", "console", "text", "ini", "diff"), f"{page.name}: a block of {language or 'no language'}"
        if language == "python" and (name := file_name(body)):
            (tmp_path / name).write_text(body)
        elif language == "python":
            program += body + "\n"
            said += re.findall(r"^\s*print\(.*?\)  # (.*)$", body, re.M)
    needed(page.read_text())
    if program:
        printed, status = place.run(sys.executable, "-X", "dev", "-c", UNTIMED + program)
        assert status == 0 and alike(printed, "\n".join(said)), f"{page.name}: {status}\n{printed}"
    asked = [pair for language, body in blocks(page) if language == "console" for pair in commands(body) if not newer(pair[0], tmp_path)]
    run_commands(page, place, asked)


def newer(command, path):
    """Does it run a file that needs a PyTorch which may not be the one that is here?"""
    return any(NEWER in (path / name).read_text() for name in re.findall(r"\w+\.py", command) if (path / name).exists())


@pytest.mark.parametrize("page", [p for p in PAGES if NEWER in p.read_text()], ids=lambda p: p.stem)
def test_what_needs_a_newer_pytorch(page, tmp_path):
    pytest.importorskip("torch", "2.1", reason="PyTorch 2.1 or later is not installed")
    place = Place(tmp_path)
    for language, body in blocks(page):
        if language == "python" and (name := file_name(body)):
            (tmp_path / name).write_text(body)
    asked = [pair for language, body in blocks(page) if language == "console" for pair in commands(body) if newer(pair[0], tmp_path)]
    assert asked
    run_commands(page, place, asked)


def run_commands(page, place, asked):
    for (command, text), printed in itertools.zip_longest(asked, place.shell([command for command, _ in asked])):
        assert printed is not None and alike(printed, text), f"{page.name}: $ {command} printed\n{printed}"


def test_a_slow_step_of_a_loop_is_no_fault_of_a_page(tmp_path):
    slow = "import asyncio, time\nasync def main():\n    time.sleep(0.2)\n    print('done')\nasyncio.run(main())\n"
    place = Place(tmp_path)
    assert place.run(sys.executable, "-X", "dev", "-c", UNTIMED + slow) == ("done\n", 0)
    assert re.search(r"took \d+\.\d", place.run(sys.executable, "-X", "dev", "-c", slow)[0])


def test_every_page_is_in_the_index():
    index = (ROOT / "client/python/guide/README.md").read_text()
    assert {p.name for p in PAGES} - {"README.md"} == set(re.findall(r"\]\((\w+\.md)\)", index))


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.parent.name + "/" + p.stem)
def test_links_lead_somewhere(page):
    """Relative links are files of the tree; what is built has to be there after a build."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)|src=\"([^\"]+)\"", page.read_text()):
        link = target[0] or target[1]
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
