"""Programs of ours for a user other than root. The project may lie where only root can go (a clone in /root), so
each runs as a copy in a folder that everybody can enter."""
import atexit
import os
import shutil
import tempfile

NOBODY = 65534
_folder = None


def copy_for_all(program):
    global _folder
    if _folder is None:
        _folder = tempfile.mkdtemp(prefix="sluice-for-all.")
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
        os.chmod(_folder, 0o755)
    copy = os.path.join(_folder, os.path.basename(program))
    shutil.copyfile(program, copy)
    os.chmod(copy, 0o755)
    return copy
