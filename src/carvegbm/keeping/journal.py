"""Journals: what a long run has finished, on disk, for the run that continues it.

Comes in: what a run is about, and records of what it has finished, one after the other.
Goes out: a file that grows line by line, and from it the records of a run that was interrupted.

The first line says what the run is about; then come, as lines that are `sealed`, who opened the
file, and the records. The file is locked while a run uses it. A journal is continued if
the run is about the same to the last bit; one with a line that does not fit is refused as a whole.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from carvegbm.errors import CarveError
from carvegbm.keeping.files import is_unfinished, naming, partial_path
from carvegbm.keeping.locks import is_still_at, open_locked
from carvegbm.keeping.sealed import Sealed, next_line, read_sealed

__all__ = ["Journal", "check_unfinished"]

_REMEDY = "delete it or use another --output"

Record = dict[str, Any]


def check_unfinished(output: Path) -> None:
    """Refuse an output whose `NAME.partial` an unfinished result must not replace.

    It is the journal of an interrupted run, or a file that carvegbm did not write.
    """
    path = partial_path(output)
    if path.is_file() and read_sealed(path.read_bytes()).records:
        raise CarveError(f"{path} holds an interrupted run; {_REMEDY}")
    if path.exists() and not is_unfinished(path):
        raise CarveError(
            f"{path} is not an unfinished result of carvegbm, and would be replaced by one; "
            "move it or use another --output"
        )


class Journal:
    """The records of a run, on disk; see `opened`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._seal, self._size = "", 0

    @classmethod
    @contextmanager
    def opened(
        cls,
        output: Path,
        identity: Mapping[str, Any],
        resume: bool,
        take: Callable[[Record], bool],
    ) -> Iterator[Journal]:
        """The journal of a run, new or with `resume` the one it left; locked within the block.

        `identity` is what the run is about: names that tell a user what differs, and JSON values.
        `take` gets the records of before, in their order, and says whether each can be.
        """
        with cls.at(partial_path(output), identity, resume, take) as journal:
            yield journal

    @classmethod
    @contextmanager
    def at(
        cls,
        path: Path,
        identity: Mapping[str, Any],
        resume: bool,
        take: Callable[[Record], bool],
        remedy: str = _REMEDY,
    ) -> Iterator[Journal]:
        """The same, at a place of one's own; `remedy` is what to do with one of another run."""
        file = open_locked(path)
        if file is None:
            raise CarveError(
                f"{path} is in use by {_holder(path)}; wait for its end or use another --output"
            )
        with file:
            with naming(path):
                data = file.read()
            journal = cls(path, file)
            try:
                if data and not resume:
                    raise CarveError(
                        f"{path} holds an interrupted run; add --resume to continue it, or "
                        "delete it"
                    )
                if data:
                    journal._take_over(read_sealed(data), identity, take, remedy)
                else:
                    journal.append(dict(identity))
                journal.append({"opened by": _me()})
            except BaseException:
                if not data:
                    journal.discard()
                raise
            yield journal

    def append(self, record: Record) -> None:
        """Keep a record, after all others."""
        line, seal = next_line(self._seal, record)
        with naming(self.path):
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[self._file.write(rest) :]
            except BaseException:
                with suppress(OSError):
                    self._cut()
                raise
        self._seal, self._size = seal, self._size + len(line)

    def discard(self) -> None:
        """Remove the journal from disk."""
        ours = not self._file.closed and is_still_at(self._file, self.path)
        if os.name == "nt":  # where an open file cannot be removed, nor one that others have open
            self._file.close()
        if ours:
            with suppress(PermissionError):
                self.path.unlink(missing_ok=True)

    def _take_over(
        self,
        found: Sealed,
        identity: Mapping[str, Any],
        take: Callable[[Record], bool],
        remedy: str,
    ) -> None:
        """Continue what another process left; the file is changed only if all of it is right."""
        if found.damaged is not None or not found.records:
            raise CarveError(
                f"{self.path} is damaged in line {found.damaged or 1}, or no journal of this "
                f"version; {remedy}"
            )
        given = found.records[0]
        differ = [name for name, value in identity.items() if given.get(name) != value]
        if differ or given.keys() != identity.keys():
            raise CarveError(
                f"{self.path} belongs to another run (other {', '.join(differ) or 'header'}); "
                f"{remedy}"
            )
        for number, record in enumerate(found.records[1:], start=2):
            if record.keys() != {"opened by"} and not take(record):
                raise CarveError(
                    f"{self.path} is damaged: line {number} holds what cannot be; {remedy}"
                )
        self._seal, self._size = found.seal, found.size
        self._cut()

    def _cut(self) -> None:
        """Leave whole lines only."""
        self._file.truncate(self._size)
        self._file.seek(self._size)


def _me() -> str:
    since = datetime.now(timezone.utc).isoformat(" ", "seconds")
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


def _holder(path: Path) -> str:
    """Who has the journal, as its last line about that says."""
    try:
        records = read_sealed(path.read_bytes()).records
    except OSError:
        records = []
    named = [str(record["opened by"]) for record in records if "opened by" in record]
    return named[-1] if named else "another process"
