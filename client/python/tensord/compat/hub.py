"""Files of weights from the network, kept in a folder: load_state_dict_from_url().

Programs of others are not fetched and run, as torch.hub.load() does: load() says so.
"""

import hashlib as _hashlib
import os as _os
import re as _re
import sys as _sys
import tempfile as _tempfile
import typing as _typing
import urllib.request as _request
from urllib.parse import urlparse as urlparse

from tensord import _C
from tensord.core import _absent
from tensord.files._save import load as _load

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = _re.compile(r"-([0-9a-f]{8,})\.")  # how a name says how its file's SHA-256 begins
_STEP = 1 << 20
_dir: "str | None" = None


def _get_torch_home() -> str:
    """tensord in $XDG_CACHE_HOME or ~/.cache, by the name that model zoos ask for."""
    return _os.path.join(_os.environ.get("XDG_CACHE_HOME") or _os.path.expanduser("~/.cache"), "tensord")


def get_dir() -> str:
    """Where files are kept: what set_dir() said, else tensord/hub in $XDG_CACHE_HOME or ~/.cache."""
    return _dir or _os.path.join(_get_torch_home(), "hub")


def set_dir(d: "str | _os.PathLike[str]") -> None:
    """Keep files there from now on."""
    global _dir
    _dir = _os.path.expanduser(d)


def download_url_to_file(url: str, dst: "str | _os.PathLike[str]", hash_prefix: "str | None" = None, progress: bool = True) -> None:
    """Fetches what is at `url` into the file `dst`, which is there when all has come, or not at all.

    hash_prefix: how the SHA-256 of it begins, in hexadecimal digits; another raises RuntimeError. progress: says on standard error how much has come.
    """
    dst = _os.path.expanduser(dst)
    digest = _hashlib.sha256()
    with _request.urlopen(_request.Request(url, headers={"User-Agent": "tensord"})) as answer:
        size, come = int(answer.headers.get("Content-Length") or 0), 0
        descriptor, part = _tempfile.mkstemp(prefix=_os.path.basename(dst) + ".", suffix=".part", dir=_os.path.dirname(dst) or ".")
        try:
            with open(descriptor, "wb") as file:
                while block := answer.read(_STEP):
                    file.write(block)
                    digest.update(block)
                    come += len(block)
                    if progress:
                        print(f"\r{url}: {come / 1e6:.1f}{f' of {size / 1e6:.1f}' if size else ''} MB", end="", file=_sys.stderr, flush=True)
            if progress:
                print(file=_sys.stderr)
            if size and come != size:
                raise RuntimeError(f"{url} ended after {come} of {size} bytes")
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(f"what came from {url} is not what was expected: its SHA-256 begins with {digest.hexdigest()[:len(hash_prefix)]}, not {hash_prefix}")
            _os.chmod(part, 0o644)
            _os.replace(part, dst)
        except BaseException:
            if _os.path.exists(part):
                _os.remove(part)
            raise


def load_state_dict_from_url(url: str, model_dir: "str | _os.PathLike[str] | None" = None, map_location: _typing.Any = None, progress: bool = True, check_hash: bool = False,
                             file_name: "str | None" = None, weights_only: bool = True) -> _typing.Any:
    """tensord.load() of the file at `url`, which is fetched when it is not in model_dir (default: checkpoints in get_dir()) under its name, or file_name, yet.

    check_hash: the name says how the file's SHA-256 begins, as in resnet18-f37072fd.pth. Nothing in a file is ever run, whatever weights_only says.
    """
    home = _os.path.join(get_dir(), "checkpoints") if model_dir is None else _os.fspath(model_dir)
    name = file_name or _os.path.basename(urlparse(url).path)
    if not name:
        raise _C.InvalidError(f"{url} names no file; file_name says what it is called here")
    _os.makedirs(home, exist_ok=True)
    file = _os.path.join(home, name)
    if not _os.path.exists(file):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, file, found.group(1) if found else None, progress)
    return _load(file, map_location=map_location)


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
