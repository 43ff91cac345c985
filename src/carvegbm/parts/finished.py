"""What of a folder of answers is finished: a file in it says so, and with which totals.

Comes in: a question, and parts that have been answered. Goes out: a journal that lies in the folder
as long as the folder lives, and from it the parts that need not be answered again: those of the
same question about the same files, unchanged, whose answers are still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields, replace
from glob import escape
from pathlib import Path
from typing import Any

from carvegbm.data.files import files_of
from carvegbm.data.table import FileSchema
from carvegbm.errors import CarveError
from carvegbm.keeping.fingerprint import digest_of
from carvegbm.keeping.journal import Journal
from carvegbm.keeping.records import make_folder
from carvegbm.scale.files import Part
from carvegbm.scale.query import Query, empty_columns
from carvegbm.scale.writing import Format
from carvegbm.totals import Totals

__all__ = ["NAME", "Finished", "is_used"]

NAME = "_carvegbm.journal"
"""In the folder; what reads folders of Parquet files leaves out names that begin so."""

_FORMAT = 1
_SHARED = ("attacker", "norm", "iterations")  # by all totals of a question

Stamp = list[list[int]]


def is_used(folder: Path) -> bool:
    """Whether something is in a folder, hidden files left out."""
    return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())


class Finished:
    """The parts of one folder that have been answered, and a journal of them; see `opened`."""

    def __init__(self, question: Query, matching: FileSchema, folder: Path) -> None:
        self._nothing = question.totals(empty_columns(question.kinds()))
        self._label, self._folder = matching.label, folder
        self._journal: Journal | None = None
        self._records: dict[str, dict[str, Any]] = {}
        self._stamps: dict[str, Stamp] = {}

    @classmethod
    @contextmanager
    def opened(
        cls,
        question: Query,
        matching: FileSchema,
        folder: Path,
        form: Format,
        resume: bool,
    ) -> Iterator[Finished]:
        """What is finished; the folder is made, and is this process's own within the block.

        Where nothing is finished in the end, nothing is left.
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
        finished = cls(question, matching, folder)
        identity = {**_identity(question, matching), "--format": form}

        def journal_of(resume: bool) -> AbstractContextManager[Journal]:
            return Journal.at(
                folder / NAME, identity, resume, finished._take, "use another --output"
            )

        try:
            with journal_of(resume) as journal:
                finished._journal = journal
                try:
                    yield finished
                finally:
                    finished._sweep()
                    if not finished._records:
                        journal.discard()
        finally:
            if is_new and not finished._records:
                with suppress(OSError):
                    folder.rmdir()

    def totals(self, part: Part) -> Totals | None:
        """Those of a part that need not be answered again; else None, and its target is gone."""
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
        # Nobody is to find it if the file cannot be answered as it is now.
        self._records.pop(name, None)
        target.unlink(missing_ok=True)
        return None

    def keep(self, part: Part, totals: Totals) -> None:
        """A part is finished."""
        assert part.target is not None
        assert self._journal is not None
        record = {
            "part": part.target.name,
            "rows": part.rows,
            "read": self._stamps[part.target.name],
            "bytes": part.target.stat().st_size,
            "totals": {
                field.name: _plain(getattr(totals, field.name))
                for field in fields(totals)
                if field.name not in _SHARED
            },
        }
        self._journal.append(record)
        self._records[part.target.name] = record

    def others(self, parts: list[Part]) -> list[str]:
        """Finished parts that are none of these, and whose answers are there."""
        asked = {part.target.name for part in parts if part.target is not None}
        others = self._records.keys() - asked
        return sorted(name for name in others if (self._folder / name).is_file())

    def _take(self, record: dict[str, Any]) -> bool:
        if record.keys() != {"part", "rows", "read", "bytes", "totals"}:
            return False
        for field in fields(self._nothing):
            if field.name in _SHARED:
                continue
            expected, given = getattr(self._nothing, field.name), record["totals"].get(field.name)
            if type(_plain(expected)) is not type(given):
                return False
            if isinstance(expected, Mapping) and expected.keys() != given.keys():
                return False
        self._records[str(record["part"])] = record
        return True

    def _sweep(self) -> None:
        """Remove what workers left that died, or were on their way when the run ended."""
        for name in self._stamps:
            for path in self._folder.glob(f".{escape(name)}.*"):
                if path.name not in self._records:
                    path.unlink(missing_ok=True)
            if name not in self._records:
                (self._folder / name).unlink(missing_ok=True)


def _identity(question: Query, matching: FileSchema) -> dict[str, Any]:
    """What ties a folder to a question; the names tell a user what differs."""
    from carvegbm import __version__

    problem = question.problem
    settings = {**vars(question.verifier.settings), "max_budget": question.max_budget}
    del settings["threads"]  # what is answered does not depend on them
    return {
        "format of the folder": _FORMAT,
        "version of carvegbm": __version__,
        "command": question.name,
        "model": digest_of(problem.ensemble),
        "attacker": digest_of(
            [problem.attacker.norm, problem.attacker.budget, vars(problem.limits)]
        ),
        "settings": digest_of(settings),
        "options of reading": digest_of([matching.label, matching.zero_based, matching.absent]),
    }


def _stamp(part: Part, label: str | None) -> Stamp:
    """What is other where a file that is read has been changed."""
    stats = [Path(path).stat() for path in files_of(part.path, label) if Path(path).is_file()]
    return [[stat.st_size, stat.st_mtime_ns] for stat in stats]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
