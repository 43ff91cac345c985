"""The rows of a verification that are decided, as a journal keeps them.

Comes in: decisions, some rows at a time and in any order. Goes out: records for the journal, and
from the records of an earlier run the rows that need not be decided again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.sparse import is_sparse
from carvegbm.engines import ENGINES, Decisions, Indices, Settings, Task
from carvegbm.errors import CarveError
from carvegbm.keeping.fingerprint import digest_of
from carvegbm.problem import Problem, Rows
from carvegbm.statuses import STATUSES

__all__ = ["Kept", "Question"]

_FORMAT = 3
_KINDS = {
    "status": "|u1",
    "engine": "|u1",
    "seconds": "<f8",
    "right": "|b1",
    "margin": "<f8",
    "worst_lower": "<f8",
    "worst_upper": "<f8",
}
_WITNESS_KINDS = {"distance": "<f8", "witness": "<f8"}


@dataclass(frozen=True, eq=False)
class Question:
    """All that the verdicts depend on."""

    problem: Problem
    X: Any
    y: npt.NDArray[Any]
    settings: Settings
    witness: bool = False
    any_witness: bool = False

    @property
    def task(self) -> Task:
        """The same, as engines take it."""
        return Task(self.problem, self.settings, witness=self.witness, any_witness=self.any_witness)

    @cached_property
    def rows(self) -> Rows:
        """X and y, checked, as engines take them."""
        return self.problem.rows(self.X, self.y, self.settings.threads)

    def identity(self) -> dict[str, Any]:
        """What ties a journal to this question; the names tell a user what differs."""
        from carvegbm import __version__

        attacker = self.problem.attacker
        settings = {**vars(self.settings), "witness": self.witness}
        if self.witness and self.any_witness:
            settings["any_witness"] = True
        del settings["threads"]  # what is decided does not depend on them
        return {
            "format of the journal": _FORMAT,
            "version of carvegbm": __version__,
            "number of rows": self.X.shape[0],
            "model": digest_of(self.problem.ensemble),
            "data": digest_of(self.X),
            "labels": digest_of(np.asarray(self.y)),
            "attacker": digest_of([attacker.norm, attacker.budget, vars(self.problem.limits)]),
            "settings": digest_of(settings),
        }


class Kept:
    """Which rows of a question are decided, and how.

    Attributes
    ----------
    done : array of bool
        The rows that are decided.
    parts : list of (rows, Decisions)
        What was taken over from an earlier run.
    """

    def __init__(self, question: Question) -> None:
        self._shape = question.X.shape
        self._kinds = {**_KINDS, **(_WITNESS_KINDS if question.witness else {})}
        self._is_sparse = is_sparse(question.X)
        self.parts: list[tuple[Indices, Decisions]] = []
        self.done = np.zeros(self._shape[0], dtype=bool)

    def record(self, rows: Indices, found: Decisions) -> dict[str, Any]:
        """The record that says how these rows were decided, one after the other, in `found`."""
        columns = {name: found[name] for name in self._kinds}
        if "witness" in columns:  # most rows have none
            columns["witness"] = columns["witness"][~np.isnan(columns["distance"])]
            if self._is_sparse:
                columns["witness"] = _packed(columns["witness"])
        coded = {name: _text(column, self._kinds[name]) for name, column in columns.items()}
        return {"rows": _text(rows, "<i8"), "columns": coded}

    def take(self, record: dict[str, Any]) -> bool:
        """Take over rows from an earlier run's record; False where it cannot be one."""
        try:
            rows = _array(record["rows"], "<i8")
            if record.keys() != {"rows", "columns"} or not self._are_new(rows):
                return False
            if record["columns"].keys() != self._kinds.keys():
                return False
            columns = {
                name: _array(record["columns"][name], kind) for name, kind in self._kinds.items()
            }
            if "witness" in columns:
                columns["witness"] = self._witnesses(columns["witness"], columns["distance"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return False
        part = Decisions(columns)
        if any(len(column) != len(rows) for column in columns.values()) or not _is_sound(part):
            return False
        self.parts.append((rows, part))
        self.done[rows] = True
        return True

    def joined(self, rows: Indices, found: Decisions | None) -> Decisions:
        """All rows: those taken over, and `found`, which says how the others were decided.

        Every row must be there once, and nothing that cannot be: a result is a theorem.
        """
        parts = [*self.parts, *([(rows, found)] if found is not None else [])]
        covered = np.sort(np.concatenate([some for some, _ in parts]))
        everything = np.arange(len(self.done))
        sound = all(len(part) == len(some) and _is_sound(part) for some, part in parts)
        if not sound or not np.array_equal(covered, everything):
            there = len(np.intersect1d(covered, everything))
            raise CarveError(
                f"{there} of {len(everything)} rows came out of the run, or some that cannot be; "
                "please report this"
            )
        if len(parts) == 1 and found is not None:
            return found
        columns: dict[str, npt.NDArray[Any]] = {}
        for name, kind in self._kinds.items():
            if name == "witness" and self._is_sparse:
                columns[name] = np.full(self._shape[0], None, dtype=object)
            else:
                shape = self._shape if name == "witness" else self._shape[:1]
                columns[name] = np.empty(shape, dtype=kind)
            for some, part in parts:
                columns[name][some] = part[name]
        return Decisions(columns)

    def _are_new(self, rows: Indices) -> bool:
        """Whether these are rows of the question, each of them once, and none is decided."""
        if len(rows) == 0 or rows.min() < 0 or rows.max() >= len(self.done):
            return False
        return len(np.unique(rows)) == len(rows) and not self.done[rows].any()

    def _witnesses(
        self, given: npt.NDArray[np.float64], distance: npt.NDArray[np.float64]
    ) -> npt.NDArray[Any]:
        flipped = ~np.isnan(distance)
        if self._is_sparse:
            changes = np.full(len(distance), None, dtype=object)
            changes[flipped] = _unpacked(given, int(np.count_nonzero(flipped)), self._shape[1])
            return changes
        witnesses = np.full((len(distance), self._shape[1]), np.nan)
        witnesses[flipped] = given.reshape(np.count_nonzero(flipped), self._shape[1])
        return witnesses


def _packed(changes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Changes of sparse rows, see `carvegbm.engines.sparse`: their lengths, features and values.

    All of them are whole numbers below 2^53, or doubles.
    """
    lengths = [len(columns) for columns, _ in changes]
    parts = [columns for columns, _ in changes] + [values for _, values in changes]
    return np.concatenate([np.array(lengths, dtype=np.float64), *parts])


def _unpacked(packed: npt.NDArray[np.float64], count: int, width: int) -> npt.NDArray[Any]:
    lengths = packed[:count].astype(np.int64)
    columns, values = np.split(packed[count:], [int(lengths.sum())])
    positions = columns.astype(np.int64)
    if len(columns) != len(values) or (lengths < 1).any() or (positions != columns).any():
        raise ValueError("not what was packed")
    if ((positions < 0) | (positions >= width)).any():
        raise ValueError("a feature that is none")
    found = np.full(count, None, dtype=object)
    ends = np.cumsum(lengths)
    for place, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        found[place] = positions[end - length : end], values[end - length : end]
    return found


def _text(column: npt.NDArray[Any], kind: str) -> str:
    return b64encode(np.ascontiguousarray(column.astype(kind, copy=False)).data).decode()


def _array(text: str, kind: str) -> npt.NDArray[Any]:
    data = b64decode(text, validate=True)
    if kind == "|b1" and not set(data) <= {0, 1}:
        raise ValueError("neither true nor false")
    return np.array(np.frombuffer(data, dtype=kind))


def _is_sound(part: Decisions) -> bool:
    """Whether every status is one, and says of right and wrong what the column `right` says."""
    status, right = part.status, part["right"]
    if (status >= len(STATUSES)).any() or (part["engine"] >= len(ENGINES)).any():
        return False
    means_right = np.isin(status, [STATUSES.index("robust"), STATUSES.index("fragile")])
    means_wrong = np.isin(status, [STATUSES.index("vulnerable"), STATUSES.index("broken")])
    return not bool((means_right & ~right).any() or (means_wrong & right).any())
