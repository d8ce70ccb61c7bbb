"""The package as pip installs it: a wheel is built from client/python, put into a fresh environment, and used from there alone."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import textwrap
import tomllib
import zipfile

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
PROJECT = TREE / "client" / "python"
TOOLS = ["meson-python>=0.18", "meson>=1.3", "ninja"]

# Nothing of the build directory's package: what this test finds, it found in the wheel.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TENSORD_", "LD_", "VIRTUAL_ENV"))}
CLEAN |= {"TENSORD_BELOW": str(os.getpid()), "PYTHONDONTWRITEBYTECODE": "1", "PIP_CACHE_DIR": str(TREE / "build" / "pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
BUILDS = {k: v for k, v in CLEAN.items() if k != "XDG_RUNTIME_DIR"}  # where ccache would leave a folder


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **{"env": CLEAN, **more})


def last_line(r):
    return ([x for x in r.stderr.splitlines() if x.startswith("ERROR")] or r.stderr.splitlines() or ["it said nothing"])[-1]


def environment(place, *options):
    """The programs of a new virtual environment."""
    if not importlib.util.find_spec("ensurepip"):
        pytest.skip("this Python cannot make virtual environments with pip (Debian: python3-venv)")
    made = run(sys.executable, "-m", "venv", *options, place)
    assert made.returncode == 0, made.stdout + made.stderr
    return place / "bin"


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """The programs that build a wheel, from PyPI."""
    bin = environment(tmp_path_factory.mktemp("tools"))
    got = run(bin / "pip", "install", "-q", "--retries", "1", "--timeout", "20", *TOOLS)
    if got.returncode:
        pytest.skip("PyPI does not give the tools that build a wheel: " + last_line(got))
    return bin


@pytest.fixture(scope="module")
def wheel(tools, tmp_path_factory):
    """Not optimized, and without notes for a debugger: it is looked at, not measured."""
    place = tmp_path_factory.mktemp("wheel")
    env = {**BUILDS, "PATH": f"{tools}:{CLEAN['PATH']}"}
    built = run(tools / "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", place,
                "--config-settings=setup-args=-Doptimization=0", "--config-settings=setup-args=-Ddebug=false", f"--config-settings=build-dir={place / 'objects'}", PROJECT, env=env)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    (made,) = place.glob("tensord-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(tools, wheel, tmp_path_factory):
    """The programs of an environment with nothing but the wheel."""
    bin = environment(tmp_path_factory.mktemp("used"), "--without-pip")
    got = run(tools / "pip", "--python", bin / "python", "install", "-q", "--no-index", wheel)
    assert got.returncode == 0, got.stderr
    return bin


def package_files(project=PROJECT):
    """What the package consists of besides what is compiled or generated; compat/ lies over it."""
    return {str(p.relative_to(project)).replace("tensord/compat/", "tensord/") for p in (project / "tensord").rglob("*") if p.suffix in (".py", ".pyi", ".typed")}


def test_the_wheel_is_whole(wheel):
    assert re.fullmatch(r"tensord-[0-9.]+-cp3\d+-abi3-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as z:
        names = {n for n in z.namelist() if n.startswith("tensord/") and not n.endswith("/")}
        assert any(n.endswith("/LICENSE") and ".dist-info/" in n for n in z.namelist())
        programs = {n: z.getinfo(n).external_attr >> 16 & 0o111 for n in names if n.startswith("tensord/bin/")}
    assert names - set(programs) == package_files() | {"tensord/_C.abi3.so", "tensord/_C.pyi", "tensord/array_api/_ops.py"}
    assert set(programs) == {"tensord/bin/" + n for n in ("tensord", "tensorctl", "tensord-http", "tensord-cuda", "carried-openblas.so", "carried-onednn.so")}
    assert all(programs["tensord/bin/" + n] for n in ("tensord", "tensorctl", "tensord-http"))


def test_it_works_alone(installed):
    r = run(installed / "python", "-X", "dev", "-W", "error", "-c", textwrap.dedent("""
        import importlib.metadata, os, tensord as td
        from tensord import array_api, data, nn, optim
        assert td.ones(3).tolist() == [1, 1, 1]
        assert (td.ones(40, 40) @ td.ones(40, 40)).sum().item() == 40 ** 3, "with OpenBLAS"
        assert nn.Conv2d(3, 5, 3)(td.ones(2, 3, 16, 16)).shape == (2, 5, 14, 14)
        program = os.readlink(f"/proc/{td.connection()['pid']}/exe")
        assert program == os.path.join(os.path.dirname(os.path.realpath(td.__file__)), "bin", "tensord"), program
        assert importlib.metadata.version("tensord") == td.__version__ == td.connection()["version"]
    """), cwd="/")
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_commands(installed):
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    for name in "tensord", "tensorctl", "tensord-http":
        r = run(installed / name, "--version")
        assert r.stdout == f"{name} {version}\n", r.stderr
    assert "softmax(x" in run(installed / "tensorctl", "ops", "softmax").stdout
    assert run(installed / "tensorctl", "nonsense").returncode == 2, "the status is handed on"


def test_the_source_distribution_is_whole(tools, tmp_path):
    script = f"import _backend; print(_backend.build_sdist({str(tmp_path)!r}))"
    r = run(tools / "python", "-c", script, cwd=PROJECT, env={**CLEAN, "PYTHONPATH": "."})
    assert r.returncode == 0, r.stderr
    with tarfile.open(tmp_path / r.stdout.strip()) as tar:
        tar.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (top,) = (p for p in tmp_path.iterdir() if p.is_dir())
    assert (top / "PKG-INFO").read_text().startswith("Metadata-Version:")
    copied = top / "subprojects" / "tensord" / "client" / "python"
    assert package_files(copied) == package_files()
    assert not list(top.rglob("subprojects/tensord/client/python/subprojects")), "the tree is there once"
    set_up = run(tools / "meson", "setup", tmp_path / "objects", top, env=BUILDS)
    assert set_up.returncode == 0, set_up.stdout[-2000:]
