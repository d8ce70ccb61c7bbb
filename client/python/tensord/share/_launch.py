"""The commands `tensord`, `tensorctl` and `tensord-http` of an installed package: the programs lie in bin/, these become them. And what a daemon that is
started here is told of Python's packages."""

import importlib.util
import os
import sys
from typing import NoReturn


def _become(name: str) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", name)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"{name}: cannot run {program}: {e.strerror}; install the package again (pip install --force-reinstall tensord)")


def daemon() -> NoReturn:
    _become("tensord")


def ctl() -> NoReturn:
    _become("tensorctl")


def http() -> NoReturn:
    _become("tensord-http")


def cuda_libraries() -> str:
    """Directories of the packages nvidia-* that have cuBLASLt in them, newest layout first, with colons between. None of the packages is imported."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return ""
    tops = (spec and spec.submodule_search_locations) or ()
    return ":".join(place for part in ("cu13/lib", "cublas/lib") for top in tops if os.path.isdir(place := os.path.join(top, part)))
