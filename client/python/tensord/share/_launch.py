"""The commands `tensord`, `tensorctl` and `tensord-http` of an installed package: the programs lie in bin/, these become them."""

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
