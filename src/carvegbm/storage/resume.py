"""Resume files: the answers of an unfinished run, appended block by block.

A resume file starts with MAGIC, followed by blocks: the length of the content (8 bytes, little
endian), its SHA-256, and the content. The first block is the identity of the run as JSON: names of
everything the answers depend on, with digests. One process at a time holds the file, by a lock of
the operating system that ends with the process.

A block that is incomplete or does not match its checksum, as after a kill, a full disk or a power
failure, is dropped together with all blocks after it; what they held is computed again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from carvegbm.errors import CarveError
from carvegbm.storage.files import is_unfinished, naming, partial_path

__all__ = ["MAGIC", "ResumeFile", "check_unfinished"]

MAGIC = b"carvegbm resume file 1\n"
_REMEDY = "delete it or use another --output"
_HEAD = 8 + 32  # bytes of length and checksum


class ResumeFile:
    """A locked resume file, positioned after its identity; see `open`.

    Read all blocks of the earlier run before you append one.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._size = 0  # bytes up to the end of the last whole block

    @classmethod
    @contextmanager
    def open(
        cls, path: Path, identity: Mapping[str, Any], *, resume: bool, remedy: str = _REMEDY
    ) -> Iterator[ResumeFile]:
        """Open the resume file of a run: a new one, or with `resume` also an existing one.

        `remedy` tells the user what to do with the file of another run. Raises CarveError if
        another process holds the file, or it belongs to another run; it is left unchanged then.
        """
        with _locked(path) as file:
            opened = cls(path, file)
            opened._begin(identity, resume, remedy)
            yield opened

    def blocks(self) -> Iterator[bytes]:
        """Yield the content of every block of the earlier run."""
        while (content := self._read_block()) is not None:
            yield content

    def append(self, content: bytes) -> None:
        """Append a block; if it cannot be written, the file stays as it was."""
        self._write(_block(content))

    def remove(self) -> None:
        """Remove the file, unless its name was given to another file meanwhile."""
        if _has_name(self._file, self.path):
            self.path.unlink(missing_ok=True)

    def _begin(self, identity: Mapping[str, Any], resume: bool, remedy: str) -> None:
        """Read the identity and compare it, or write it if there is none."""
        header = MAGIC + _block(json.dumps(dict(identity)).encode())
        with naming(self.path):
            beginning = self._file.read(len(header))
        # An incomplete header of this run is all that was written before a kill.
        if beginning == header[: len(beginning)] and len(beginning) < len(header):
            try:
                self._write(header)
            except BaseException:
                self.remove()
                raise
            return
        if not beginning.startswith(MAGIC):
            raise CarveError(f"{self.path} is not a resume file of carvegbm; {remedy}")
        if not resume:
            raise CarveError(
                f"{self.path} holds an interrupted run; add --resume to continue it, or delete it"
            )
        self._size = len(MAGIC)
        content = self._read_block()
        if content is None:
            raise CarveError(f"{self.path} is damaged; {remedy}")
        stored = json.loads(content)
        names = identity.keys() | stored.keys()
        if different := sorted(n for n in names if stored.get(n) != identity.get(n)):
            raise CarveError(
                f"{self.path} belongs to another run (other {', '.join(different)}); {remedy}"
            )

    def _read_block(self) -> bytes | None:
        """Return the content of the next block; None at the end, or if it is not whole."""
        with naming(self.path):
            self._file.seek(self._size)
            head = self._file.read(_HEAD)
            length = int.from_bytes(head[:8], "little")
            left = os.fstat(self._file.fileno()).st_size - self._size - _HEAD
            if left < length:
                return None
            content = self._file.read(length)
        if _block(content)[:_HEAD] != head:
            return None
        self._size += _HEAD + length
        return content

    def _write(self, data: bytes) -> None:
        """Write after the last whole block."""
        with naming(self.path):
            try:
                self._cut()
                rest = memoryview(data)
                while rest:
                    rest = rest[self._file.write(rest) :]
            except BaseException:
                with suppress(OSError):
                    self._cut()
                raise
        self._size += len(data)

    def _cut(self) -> None:
        self._file.truncate(self._size)
        self._file.seek(self._size)


def check_unfinished(output: Path) -> None:
    """Reject an output whose `NAME.partial` an unfinished result must not replace.

    It is the resume file of an interrupted run, or a file that carvegbm did not write.
    """
    path = partial_path(output)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                raise CarveError(f"{path} holds an interrupted run; {_REMEDY}")
    if path.exists() and not is_unfinished(path):
        raise CarveError(
            f"{path} is not an unfinished result of carvegbm, and would be replaced by one; "
            "move it or use another --output"
        )


def _block(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + hashlib.sha256(content).digest() + content


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open or create a file and lock it for this process.

    The lock belongs to the file, not to its name: if the file was removed by its previous holder
    between opening and locking, the file that has the name now is opened.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CarveError(f"{path} is not a file; {_REMEDY}")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CarveError(
                    f"{path} is in use by another process; wait for its end or use another --output"
                ) from None
            except OSError as error:
                if os.fstat(descriptor).st_size == 0:  # created just now
                    path.unlink(missing_ok=True)
                raise CarveError(
                    f"{path}: cannot be locked on this file system ({error.strerror}); write to "
                    "another one"
                ) from None
            if _has_name(file, path):
                yield file
                return


def _has_name(file: BinaryIO, path: Path) -> bool:
    """Return whether `path` is the name of the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
