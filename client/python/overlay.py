#!/usr/bin/env python3
"""overlay.py STAMP FROM TO FILE...: lay each file of the folder FROM over the folder TO, at the path that it has below FROM, and touch STAMP.

The build calls it for tensord/compat: modules lie there together, and in the package each has its public name. It is called in every build, for
the copies are no outputs that ninja knows of: it removes those that an earlier build of the tree had declared, each time that meson runs again.
What is there already stays, and so does the stamp then.
"""

import filecmp
import shutil
import sys
from pathlib import Path


def is_there(name, to):
    return to.is_file() and filecmp.cmp(name, to, shallow=False)


def main(stamp, origin, target, *files):
    copies = [(name, Path(target) / Path(name).resolve().relative_to(Path(origin).resolve())) for name in files]
    missing = [(name, to) for name, to in copies if not is_there(name, to)]
    for name, to in missing:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(name, to)
    if missing or not Path(stamp).exists():
        Path(stamp).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
