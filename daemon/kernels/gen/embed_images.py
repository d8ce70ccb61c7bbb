#!/usr/bin/env python3
"""Assembly that holds fatbins (daemon/kernels/cuda/images.h): embed_images.py OUT [FATBIN ...].

The text says what the files' contents are, so that it is assembled anew when one changes."""

import hashlib
import sys
from pathlib import Path

out, files = sys.argv[1], [Path(f) for f in sys.argv[2:]]
lines = ["    .section .rodata", "    .globl td_cuda_image_count", "    .balign 8", "td_cuda_image_count:", f"    .long {len(files)}"]
for k, f in enumerate(files):
    lines += ["    .balign 64", f"image_{k}: /* {hashlib.sha256(f.read_bytes()).hexdigest()} */", f'    .incbin "{f.resolve()}"', f"image_{k}_end:"]
lines += ["    .section .data.rel.ro, \"aw\"", "    .globl td_cuda_images", "    .balign 8", "td_cuda_images:"]
lines += [f"    .quad image_{k}, image_{k}_end" for k in range(len(files))] or ["    .quad 0, 0"]
lines += ['    .section .note.GNU-stack, "", %progbits']
Path(out).write_text("\n".join(lines) + "\n")
