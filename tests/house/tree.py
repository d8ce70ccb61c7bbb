"""The files that checks of the house look at."""
import os
import subprocess


def tracked(root):
    """The tree's own files, from its root; where git cannot tell, all that lie outside of hidden folders and build directories."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
    if git.returncode == 0 and git.stdout:
        return [name for name in git.stdout.split("\0") if name]
    found = (os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names)
    return sorted(name for name in found if not name.startswith(("build", ".")))
