"""How the package was built, and who computes: print(tensord.__config__.show())."""

from tensord import _C


def show() -> str:
    """Version and daemon, as text. Starts no daemon."""
    at = _C.connection()
    daemon = f"daemon {at['version']} at {at['path']}, process {at['pid']}" if at else "no daemon yet: the first tensor finds or starts one"
    return f"tensord {_C.__version__} built with:\n  - OpenBLAS and oneDNN, which the daemon opens when they are first needed\n  - {daemon}\n"


def parallel_info() -> str:
    """Whose threads compute, as text."""
    return "the daemon's threads compute: `tensord --workers N` says how many, `tensorctl status` tells\n"
