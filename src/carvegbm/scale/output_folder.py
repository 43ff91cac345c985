"""A folder of answers, one file per file of instances, and which of them are finished.

A resume file in the folder holds a record per finished file, with its totals. A file need not be
answered again if its record is there, neither it nor its input has changed, and the query is the
same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from glob import escape
from pathlib import Path
from typing import Any

from carvegbm.data.files import files_of
from carvegbm.data.table import FileSchema
from carvegbm.errors import CarveError
from carvegbm.scale.files import Part
from carvegbm.scale.query import Query, empty_columns
from carvegbm.scale.writing import Format
from carvegbm.storage.files import make_folder
from carvegbm.storage.identity import digest_of, identity_of
from carvegbm.storage.resume import ResumeFile
from carvegbm.totals import Totals

__all__ = ["NAME", "OutputFolder", "is_used"]

NAME = "_carvegbm.resume"
"""The resume file; readers of Parquet folders ignore names that begin with an underscore."""

_SHARED = ("attacker", "norm", "iterations")  # equal in all totals of a query

Stamp = list[list[int]]


def is_used(folder: Path) -> bool:
    """Return whether a folder contains anything but hidden files."""
    return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())


class OutputFolder:
    """The finished files of one folder; see `open`."""

    def __init__(self, query: Query, matching: FileSchema, folder: Path) -> None:
        self._nothing = query.totals(empty_columns(query.kinds()))
        self._label, self._folder = matching.label or None, folder
        self._resume_file: ResumeFile | None = None
        self._records: dict[str, dict[str, Any]] = {}
        self._stamps: dict[str, Stamp] = {}

    @classmethod
    @contextmanager
    def open(
        cls,
        query: Query,
        matching: FileSchema,
        folder: Path,
        form: Format,
        resume: bool,
    ) -> Iterator[OutputFolder]:
        """Create or resume a folder, locked for this process until the block ends.

        If nothing is finished in the end, nothing is left.
        """
        if is_used(folder) and not resume:
            raise CarveError(
                f"{folder} is not empty; add --resume to go on with the run that wrote into it, or "
                "give another --output"
            )
        if is_used(folder) and not (folder / NAME).is_file():
            raise CarveError(
                f"{folder} is not empty, and no run that could be resumed wrote into it; give "
                "another --output"
            )
        is_new = not folder.exists()
        make_folder(folder)
        opened = cls(query, matching, folder)
        identity = {**_identity(query, matching), "--format": form}

        file = ResumeFile.open(
            folder / NAME, identity, resume=resume, remedy="use another --output"
        )
        try:
            with file as resume_file:
                opened._resume_file = resume_file
                records = map(json.loads, resume_file.blocks())
                opened._records = {record["part"]: record for record in records}
                try:
                    yield opened
                finally:
                    opened._sweep()
                    if not opened._records:
                        resume_file.remove()
        finally:
            if is_new and not opened._records:
                with suppress(OSError):
                    folder.rmdir()

    def totals(self, part: Part) -> Totals | None:
        """Return the totals of a finished part; None if it must be answered (again)."""
        assert part.target is not None
        name, target = part.target.name, part.target
        self._stamps[name] = _stamp(part, self._label)  # before the file is read
        record = self._records.get(name)
        if (
            record is not None
            and target.is_file()
            and record["rows"] == part.rows
            and record["read"] == self._stamps[name]
            and record["bytes"] == target.stat().st_size
        ):
            return replace(self._nothing, **record["totals"])
        # No stale answers may stay if the file cannot be answered as it is now.
        self._records.pop(name, None)
        target.unlink(missing_ok=True)
        return None

    def keep(self, part: Part, totals: Totals) -> None:
        """Record that a part is finished."""
        assert part.target is not None
        assert self._resume_file is not None
        values = {field.name: getattr(totals, field.name) for field in fields(totals)}
        record = {
            "part": part.target.name,
            "rows": part.rows,
            "read": self._stamps[part.target.name],
            "bytes": part.target.stat().st_size,
            "totals": {
                name: dict(value) if isinstance(value, Mapping) else value
                for name, value in values.items()
                if name not in _SHARED
            },
        }
        self._resume_file.append(json.dumps(record).encode())
        self._records[part.target.name] = record

    def others(self, parts: list[Part]) -> list[str]:
        """Return finished files that belong to none of these parts and still exist."""
        named = {part.target.name for part in parts if part.target is not None}
        others = self._records.keys() - named
        return sorted(name for name in others if (self._folder / name).is_file())

    def _sweep(self) -> None:
        """Remove files that were not finished when the run ended."""
        for name in self._stamps:
            for path in self._folder.glob(f".{escape(name)}.*"):
                if path.name not in self._records:
                    path.unlink(missing_ok=True)
            if name not in self._records:
                (self._folder / name).unlink(missing_ok=True)


def _identity(query: Query, matching: FileSchema) -> dict[str, Any]:
    """Return what ties a folder to a query; the names say what differs."""
    is_search = query.name in ("radius", "robustness_curve")  # which ignores the budget
    problem = query.problem.with_budget(0.0) if is_search else query.problem
    settings = {**vars(query.verifier.settings), "max_budget": query.max_budget}
    return {
        **identity_of(query.name, problem, settings),
        "options of reading": digest_of([matching.label, matching.zero_based, matching.absent]),
    }


def _stamp(part: Part, label: str | None) -> Stamp:
    """Return size and time of the files that are read, which change when they are written."""
    stats = [Path(path).stat() for path in files_of(part.path, label) if Path(path).is_file()]
    return [[stat.st_size, stat.st_mtime_ns] for stat in stats]
