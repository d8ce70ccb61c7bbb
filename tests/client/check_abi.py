#!/usr/bin/env python3
"""Compare what libtensord.so exports with the recorded list: check_abi.py LIBRARY LIST [--update].

A symbol that is gone breaks programs and fails; one that is new must be recorded. --update writes the list anew."""
import subprocess
import sys

library, recorded_path = sys.argv[1:3]
out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = sorted(line.split()[-1].split("@")[0] for line in out.splitlines())
if "--update" in sys.argv:
    with open(recorded_path, "w") as f:
        f.writelines(s + "\n" for s in exported)
    print(f"{len(exported)} symbols recorded")
    sys.exit(0)
with open(recorded_path) as f:
    recorded = f.read().split()
gone, new = sorted(set(recorded) - set(exported)), sorted(set(exported) - set(recorded))
alien = [s for s in exported if not s.startswith("td_")]
for s in gone:
    print(f"{s} is no longer exported: programs that use it break")
for s in new:
    print(f"{s} is new; record it: {sys.argv[0]} {library} {recorded_path} --update")
for s in alien:
    print(f"{s} must not be exported")
failed = len(gone) + len(new) + len(alien)
print(f"suite client_abi: {len(exported) - len(new) - len(alien)} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
