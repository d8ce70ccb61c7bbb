#!/usr/bin/env python3
"""One image of CUDA's kernels: compile_image.py NVCC SOURCE FATBIN DEPFILE [FLAG ...].

nvcc is asked for an object, and the fatbin is taken out of it: so ccache, which knows objects alone, keeps what takes long."""

import shutil
import subprocess
import sys

nvcc, source, fatbin, depfile, *flags = sys.argv[1:]
first = ["ccache"] if shutil.which("ccache") else []
made = fatbin + ".o"
done = subprocess.run([*first, nvcc, "-x", "cu", "-std=c++17", "-c", "--compress-mode=size", "-Werror", "all-warnings", *flags,
                       "-MD", "-MF", depfile, "-MT", fatbin, source, "-o", made])
sys.exit(done.returncode or subprocess.run(["objcopy", "--dump-section", f".nv_fatbin={fatbin}", made]).returncode)
