"""What pip calls to build the package: meson-python, which cleans up behind it, and a source distribution of our own.

The tree above this folder is reached by the link subprojects/tensord, which meson-python would leave out of a source
distribution. There it is a folder: all that a wheel is built from, once, without the tests.
"""

import io
import os
import subprocess
import tarfile
import tomllib

import mesonpy
from mesonpy import *  # noqa: F401,F403
from pyproject_metadata import StandardMetadata

_TREE = os.path.join("subprojects", "tensord")
_OWN = ("pyproject.toml", "meson.build", "_backend.py", "README.md")
_LEFT_OUT = ("tests/", "build", ".git", ".ci/", "client/examples/", "client/python/subprojects")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    try:
        return mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    finally:  # meson's lock on the folder of subprojects; nothing of a build stays in the tree
        if os.path.exists("subprojects/.wraplock"):
            os.unlink("subprojects/.wraplock")


def _files():
    """Files of the tree that are sources: git's word in a clone, else whatever lies there."""
    listed = subprocess.run(["git", "-C", _TREE, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."], capture_output=True, text=True)
    if listed.returncode == 0 and os.path.exists(os.path.join(_TREE, ".git")):
        names = listed.stdout.split("\0")
    else:
        names = []
        for place, folders, here in os.walk(_TREE):
            folders[:] = [f for f in folders if f != "__pycache__" and not os.path.islink(os.path.join(place, f))]
            names += [os.path.relpath(os.path.join(place, name), _TREE) for name in here]
    return sorted(n for n in set(names) if n and not n.startswith(_LEFT_OUT) and os.path.lexists(os.path.join(_TREE, n)))


def build_sdist(sdist_directory, config_settings=None):
    with open("pyproject.toml", "rb") as f:
        metadata = StandardMetadata.from_pyproject(tomllib.load(f), ".")
    info = bytes(metadata.as_rfc822())
    base = f"tensord-{metadata.version}"
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo(base + "/PKG-INFO")
        entry.size = len(info)
        tar.addfile(entry, io.BytesIO(info))
        for name in _OWN:
            tar.add(name, f"{base}/{name}")
        for name in _files():
            tar.add(os.path.join(_TREE, name), f"{base}/{_TREE}/{name}")
    return base + ".tar.gz"
