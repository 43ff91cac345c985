"""A long verification that keeps what it has finished.

Comes in: a question (model, instances, labels, attacker, settings) and the verdicts on its rows,
block by block. Goes out: FILE.partial while `verify --output FILE` runs, and from it the blocks of
a run that was interrupted.

The first line of FILE.partial says what the run is about; then come, as sealed lines
(`carvegbm.sealed`), who opened the file and, block by block, the numbers and the columns of the
rows that are decided. The file is locked while a run uses it. An interrupted run is continued with
--resume if the question is the same to the last bit; a file with a line that does not fit is
refused as a whole.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.files import naming
from carvegbm.fingerprint import digest_of
from carvegbm.locks import is_still_at, open_locked
from carvegbm.sealed import Sealed, next_line, read_sealed
from carvegbm.verification import STATUSES, Verification

__all__ = ["Journal", "Question", "journal_path", "whole"]

_FORMAT = 2
_REMEDY = "delete it or use another --output"


@dataclass(frozen=True, eq=False)
class Question:
    """All that the verdicts depend on."""

    model: Ensemble
    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    attacker: Attacker
    settings: dict[str, Any]

    def identity(self) -> dict[str, Any]:
        """What ties a journal to this question; the names tell a user what differs."""
        from carvegbm import __version__

        attacker = self.attacker
        limits = vars(attacker.limits(self.model))
        return {
            "format of the journal": _FORMAT,
            "version of carvegbm": __version__,
            "number of rows": len(self.X),
            "model": digest_of(self.model),
            "data": digest_of(np.asarray(self.X)),
            "labels": digest_of(np.asarray(self.y)),
            "attacker": digest_of([attacker.norm, attacker.budget, limits]),
            "settings": digest_of(self.settings),
        }


def journal_path(output: Path) -> Path:
    """Where a run with this --output keeps what is decided."""
    return output.with_name(output.name + ".partial")


class Journal:
    """The blocks of rows that are decided, on disk.

    Attributes
    ----------
    parts : list of Verification
        The blocks, in the order of their rows, from row 0 on.
    """

    def __init__(self, path: Path, file: BinaryIO, question: Question) -> None:
        self.path = path
        self.parts: list[Verification] = []
        self._file = file
        self._question = question
        self._seal, self._size, self._rows = "", 0, 0

    @classmethod
    @contextmanager
    def opened(cls, output: Path, question: Question, resume: bool) -> Iterator[Journal]:
        """The journal of a run, new or with `resume` the one it left; locked within the block."""
        path = journal_path(output)
        file = open_locked(path)
        if file is None:
            raise CarveError(
                f"{path} is in use by {_holder(path)}; wait for its end or use another --output"
            )
        with file:
            with naming(path):
                data = file.read()
            journal = cls(path, file, question)
            try:
                if data and not resume:
                    raise CarveError(
                        f"{path} holds an interrupted run; add --resume to continue it, or "
                        "delete it"
                    )
                if data:
                    journal._take_over(read_sealed(data))
                else:
                    journal._append(question.identity())
                journal._append({"opened by": _me()})
            except BaseException:
                if not data:
                    journal.discard()
                raise
            yield journal

    def add(self, part: Verification) -> None:
        """Keep a finished block, the one after all others."""
        columns = {name: getattr(part, name) for name in _columns()}
        start, stop = self._rows, self._rows + len(part)
        self._append(
            {
                "start": start,
                "stop": stop,
                "kinds": {name: column.dtype.str for name, column in columns.items()},
                "columns": {name: _plain(column) for name, column in columns.items()},
            }
        )
        self.parts.append(part)
        self._rows = stop

    def discard(self) -> None:
        """Remove the journal from disk."""
        ours = not self._file.closed and is_still_at(self._file, self.path)
        if os.name == "nt":  # where an open file cannot be removed, nor one that others have open
            self._file.close()
        if ours:
            with suppress(PermissionError):
                self.path.unlink(missing_ok=True)

    def _take_over(self, found: Sealed) -> None:
        """Continue what another process left; the file is changed only if all of it is right."""
        if found.damaged is not None or not found.records:
            raise CarveError(
                f"{self.path} is damaged in line {found.damaged or 1}, or no journal of this "
                f"version; {_REMEDY}"
            )
        expected, given = self._question.identity(), found.records[0]
        differ = [name for name, value in expected.items() if given.get(name) != value]
        if differ or given.keys() != expected.keys():
            raise CarveError(
                f"{self.path} belongs to another run (other {', '.join(differ) or 'header'}); "
                f"{_REMEDY}"
            )
        for record in found.records[1:]:
            if record.keys() == {"opened by"}:
                continue
            part = _block(record, self._rows, self._question)
            if part is None:
                raise CarveError(
                    f"{self.path} is damaged: what should be the rows from {self._rows} on is "
                    f"not; {_REMEDY}"
                )
            self.parts.append(part)
            self._rows += len(part)
        self._seal, self._size = found.seal, found.size
        self._cut()

    def _append(self, record: dict[str, Any]) -> None:
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

    def _cut(self) -> None:
        """Leave whole lines only."""
        self._file.truncate(self._size)
        self._file.seek(self._size)


def whole(parts: list[Verification], question: Question) -> Verification:
    """The blocks as one result, if they are: every row once, and nothing that cannot be."""
    result = Verification.joined(parts)
    if len(result) != len(question.X) or not _is_sound(result):
        raise CarveError(
            f"{len(result)} of {len(question.X)} rows came out of the run, or some that cannot "
            "be; please report this"
        )
    return result


def _block(record: dict[str, Any], start: int, question: Question) -> Verification | None:
    """The rows from `start` on, or None where the record holds anything else."""
    try:
        rows = record["stop"] - start
        right_place = record["start"] == start and 0 < rows <= len(question.X) - start
        if not right_place or list(record["columns"]) != _columns():
            return None
        columns = {}
        for name, values in record["columns"].items():
            kind = np.dtype(record["kinds"][name])
            column = np.array([np.nan if v is None else v for v in values], dtype=kind)
            # repr tells 1 from True and from 1.0, which are equal.
            if column.shape != (rows,) or repr(_plain(column)) != repr(values):
                return None
            columns[name] = column
        part = Verification(**columns, attacker=question.attacker)
        return part if _is_sound(part) else None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _is_sound(result: Verification) -> bool:
    """Whether every status is one, and says of right and wrong what the column `right` says."""
    means_right = np.isin(result.status, ["robust", "fragile"])
    means_wrong = np.isin(result.status, ["vulnerable", "broken"])
    return (
        all(len(getattr(result, name)) == len(result) for name in _columns())
        and bool(np.isin(result.status, STATUSES).all())
        and not (means_right & ~result.right).any()
        and not (means_wrong & result.right).any()
    )


def _columns() -> list[str]:
    return [field.name for field in fields(Verification) if field.name != "attacker"]


def _plain(column: npt.NDArray[Any]) -> list[Any]:
    if column.dtype.kind != "f":
        return list(column.tolist())
    return [None if value != value else value for value in column.tolist()]


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
