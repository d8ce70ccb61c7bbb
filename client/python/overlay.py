#!/usr/bin/env python3
"""overlay.py STAMP FROM TO FILE...: lay each file of the folder FROM over the folder TO, at the path that it has below FROM, and touch STAMP.

The build calls it for tensord/compat: modules lie there together, and in the package each has its public name.
"""

import shutil
import sys
from pathlib import Path


def main(stamp, origin, target, *files):
    for name in files:
        to = Path(target) / Path(name).resolve().relative_to(Path(origin).resolve())
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(name, to)
    Path(stamp).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
