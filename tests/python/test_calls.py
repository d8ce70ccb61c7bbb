"""Whatever a function is called with, it works or raises one exception that says why (storm_calls.py); the daemon goes on."""
import os
import subprocess
import sys

import pytest
import tensord as td
from common import DEBUG, HERE, SANITIZED, SLOW, daemon, script, seed, without

SECONDS = 4


def storm(place, python, **env):
    note, given = os.path.join(place, "note"), seed()
    with open(note, "wb") as f:
        f.truncate(4096)
    with daemon(place, "--memory", "256M") as d:
        try:
            r = subprocess.run([python, "-X", "dev", "-W", "ignore", os.path.join(HERE, "storm_calls.py"), str(given), str(SECONDS), note], capture_output=True, text=True,
                               timeout=60 * SLOW, env={**os.environ, "TENSORD_SOCKET": d.path, **env})
        except subprocess.TimeoutExpired:
            pytest.fail(f"a call did not end: {last(note)}")
    assert r.returncode == 0, f"ended with {r.returncode} at or after: {last(note)}\n{r.stdout}\n{r.stderr[-3000:]}"
    assert int(r.stdout.split()[0]) > 100, r.stdout


def last(note):
    with open(note, errors="backslashreplace") as f:
        return f.readline()


def test_any_arguments(tmp_path):
    storm(str(tmp_path), sys.executable)


@pytest.mark.skipif(not DEBUG, reason="there is no Python built for debugging (Debian: python3-dbg)")
@pytest.mark.skipif(SANITIZED, reason="the sanitizer watches the memory that Python's own debugging would")
def test_any_arguments_in_a_debug_build(tmp_path):
    storm(str(tmp_path), DEBUG, PYTHONMALLOC="debug")


def test_what_would_never_end_is_refused():
    with pytest.raises(MemoryError):
        td.tensor(range(2**62))
    with pytest.raises(ValueError):
        td.array_api.tensordot(td.ones(2), td.ones(2), axes=2**31)
    with pytest.raises(ValueError):
        td.array_api.broadcast_shapes(range(2**60), (3,))
    assert td.array_api.diff(td.arange(3), n=2**40).shape == (0,)
    with pytest.raises(TypeError):
        td.nn.functional.layer_norm(td.ones(2), td.ones(1).expand(2**20))


def test_a_tensor_without_dimensions_has_no_dimension_to_name():
    x = td.ones(())
    for ask in (lambda: td.fft.fftshift(x, -1), lambda: td.fft.ifftshift(x, [0, 0]), lambda: td.take_along_dim(x, td.tensor(0), 0)):
        with pytest.raises(IndexError, match="has no dimensions"):
            ask()


def test_wrong_kinds_are_type_errors():
    with pytest.raises(TypeError):
        td.ones(2).__dlpack__(max_version=[1, 0])
    with pytest.raises(TypeError):
        td.ones(2).__format__(3)
    with pytest.raises(TypeError, match="a function or None"):
        td._C._on_saved([1])


@pytest.mark.parametrize("dtype", [td.float32, td.float64])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n, dtype):
    xp = td.array_api
    places = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    assert xp.fft.fftfreq(n, d=0.5, dtype=dtype).tolist() == pytest.approx([p / (n * 0.5) for p in places])
    assert xp.fft.rfftfreq(n, dtype=dtype).tolist() == pytest.approx([p / n for p in range(n // 2 + 1)])


@pytest.mark.parametrize("gone", [("torch",), ("torch", "numpy")])
def test_what_is_listed_is_there_whatever_is_not_installed(gone):
    """hasattr, inspect, help and tab completion go through all of the package where NumPy or PyTorch are not."""
    r = script("""
        import inspect, pydoc, types
        import tensord as td
        seen = []

        def walk(module):
            seen.append(module)
            for _, value in inspect.getmembers(module):
                if isinstance(value, types.ModuleType) and value.__name__.startswith("tensord") and value not in seen:
                    walk(value)
            missing = [name for name in dir(module) if not hasattr(module, name)]
            assert not missing, (module, missing)

        walk(td)
        assert len(seen) > 20 and td.nn in seen and "torch" not in dir(td) and not hasattr(td, "torch")
        pydoc.render_doc(td)
        for program in "td.torch", "import tensord.torch", "from tensord import torch":
            try:
                exec(program)
            except (AttributeError, ImportError) as e:
                assert isinstance(e, AttributeError) == program.startswith("td.") and "pip install torch" in str(e), e
            else:
                raise AssertionError(program)
        """, flags=("-X", "dev"), **without(*gone))
    assert (r.returncode, r.stderr) == (0, ""), r.stderr
