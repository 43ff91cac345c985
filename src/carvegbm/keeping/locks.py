"""A file that one process has to itself, for as long as it lives.

The lock is the operating system's, on the open file: it ends with the process, however that ends,
and a file that a killed process left behind is free.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from carvegbm.errors import CarveError

__all__ = ["is_still_at", "open_locked"]


def open_locked(path: Path) -> BinaryIO | None:
    """The file at `path`, made if it is not there, for this process alone; None if it is taken.

    The lock goes with the file, not with the name: where a name was given to another file between
    opening and locking (its holder was done and removed it), the new file is tried.
    """
    while True:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CarveError(f"{path} is not a file; delete it or use another --output")
            if not _lock(file.fileno(), path):
                file.close()
                return None
            if is_still_at(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def is_still_at(file: BinaryIO, path: Path) -> bool:
    """Whether the open file is the one that `path` names."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    _FAR_OUT = 1 << 40  # Windows keeps others from reading what is locked: lock what is not there

    def _lock(descriptor: int, _path: Path) -> bool:
        os.lseek(descriptor, _FAR_OUT, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _lock(descriptor: int, path: Path) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if os.fstat(descriptor).st_size == 0:  # made just now
                path.unlink(missing_ok=True)
            raise CarveError(
                f"{path}: cannot be locked on this file system ({error.strerror}); "
                "write to a folder on another one"
            ) from None
        return True
