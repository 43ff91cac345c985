"""Verify all rows of a command, with a resume file for --output and --resume."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.cli.shared import output
from carvegbm.data.sparse import is_sparse
from carvegbm.engines import Decisions, Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.problem import Problem, Rows
from carvegbm.progress import showing
from carvegbm.storage.files import partial_path
from carvegbm.storage.identity import digest_of, identity_of
from carvegbm.storage.resume import ResumeFile

if TYPE_CHECKING:
    from carvegbm.engines.query import Indices

__all__ = ["Query", "ResumeState", "verify"]

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Query:
    """A verification: everything that the verdicts depend on."""

    problem: Problem
    X: Any
    y: npt.NDArray[Any]
    settings: Settings
    witness: bool = False
    any_witness: bool = False

    @property
    def task(self) -> Task:
        """The query for the engines."""
        return Task(self.problem, self.settings, witness=self.witness, any_witness=self.any_witness)

    @cached_property
    def rows(self) -> Rows:
        """Validated X and y."""
        return self.problem.rows(self.X, self.y, self.settings.threads)

    def identity(self) -> dict[str, Any]:
        """Return what ties a resume file to this query; the names say what differs."""
        any_witness = self.witness and self.any_witness
        settings = {**vars(self.settings), "witness": self.witness, "any_witness": any_witness}
        return {
            **identity_of("verify", self.problem, settings),
            "number of rows": self.X.shape[0],
            "data": digest_of(self.X),
            "labels": digest_of(np.asarray(self.y)),
        }


class ResumeState:
    """Decisions of an earlier run, and which rows are decided.

    Attributes
    ----------
    done : array of bool
        The rows that are decided.
    parts : list of (rows, Decisions)
        The decisions of the earlier run.
    """

    def __init__(self, query: Query) -> None:
        self._n_features = query.X.shape[1]
        self._is_sparse = is_sparse(query.X)
        self.done = np.zeros(query.X.shape[0], dtype=bool)
        self.parts: list[tuple[Indices, Decisions]] = []

    def to_block(self, rows: Indices, found: Decisions) -> bytes:
        """Return decisions as the content of a block: arrays in NumPy's npz format."""
        columns: dict[str, Any] = dict(found.columns)
        if "witness" in columns:
            witnesses = columns.pop("witness")[~np.isnan(columns["distance"])]
            columns |= _packed(witnesses) if self._is_sparse else {"witness": witnesses}
        stream = BytesIO()
        np.savez(stream, rows=rows, **columns)
        return stream.getvalue()

    def add_block(self, content: bytes) -> None:
        """Add the decisions in a block of the earlier run."""
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            columns = dict(arrays)
        rows = columns.pop("rows")
        if "distance" in columns:
            columns["witness"] = self._witnesses(columns)
        self.parts.append((rows, Decisions(columns)))
        self.done[rows] = True

    def joined(self, rows: Indices, found: Decisions | None) -> Decisions:
        """Return the decisions of all rows: those of the earlier run, and `found` about `rows`."""
        parts = [*self.parts, *([] if found is None else [(rows, found)])]
        order = np.concatenate([some for some, _ in parts])
        if not np.array_equal(np.sort(order), np.arange(len(self.done))):
            raise CarveError(
                f"{len(np.unique(order))} of {len(self.done)} rows were decided, or some twice; "
                "please report this"
            )
        if not self.parts and found is not None:
            return found
        place = np.argsort(order)
        names = parts[0][1].columns
        return Decisions({n: np.concatenate([part[n] for _, part in parts])[place] for n in names})

    def _witnesses(self, columns: Columns) -> npt.NDArray[Any]:
        """Return a witness per row, NaN or None where there is none."""
        flipped = ~np.isnan(columns["distance"])
        if self._is_sparse:
            witnesses = np.full(len(flipped), None, dtype=object)
            witnesses[flipped] = _unpacked(columns)
            return witnesses
        witnesses = np.full((len(flipped), self._n_features), np.nan)
        witnesses[flipped] = columns.pop("witness")
        return witnesses


_PACKED = ("changes", "changed features", "changed values")


def _packed(changes: npt.NDArray[Any]) -> Columns:
    """Return the changes of sparse rows, see `carvegbm.engines.sparse`, as plain arrays."""
    features = [np.asarray(features, dtype=np.int64) for features, _ in changes]
    values = [np.asarray(values, dtype=np.float64) for _, values in changes]
    arrays = (
        np.array([len(some) for some in features], dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *features]),
        np.concatenate([np.zeros(0), *values]),
    )
    return dict(zip(_PACKED, arrays, strict=True))


def _unpacked(columns: Columns) -> npt.NDArray[Any]:
    lengths, features, values = (columns.pop(name) for name in _PACKED)
    found = np.full(len(lengths), None, dtype=object)
    for i, (end, length) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
        found[i] = features[end - length : end], values[end - length : end]
    return found


def verify(
    query: Query, *, out: Path | None, resume: bool, finish: Callable[[Decisions], None]
) -> None:
    """Decide all rows; with `out`, decisions are kept until `finish` has written the result."""
    state = ResumeState(query)
    opened: AbstractContextManager[ResumeFile | None] = nullcontext()
    if out is not None:
        opened = ResumeFile.open(partial_path(out), query.identity(), resume=resume)
    with opened as resume_file:
        for content in () if resume_file is None else resume_file.blocks():
            state.add_block(content)
        total, before = len(state.done), int(state.done.sum())
        if before:
            output.note(f"resuming after {before} of {output.counted(total, 'row')}")
        elif resume:
            output.note("there is nothing to resume; beginning with the first row")
        try:
            finish(_decide_rest(query, state, resume_file))
        except BaseException as error:
            done = int(state.done.sum())
            progress = f"{done} of {total} rows are kept; add --resume to continue"
            if resume_file is None:
                raise
            if done == 0:
                resume_file.remove()
            elif isinstance(error, KeyboardInterrupt):
                raise output.Interrupted(progress) from None
            elif isinstance(error, OSError | CarveError):
                reason = output.reason(error) if isinstance(error, OSError) else str(error)
                raise CarveError(f"{reason}; {progress}") from None
            raise
        if resume_file is not None:
            resume_file.remove()


def _decide_rest(query: Query, state: ResumeState, resume_file: ResumeFile | None) -> Decisions:
    """Decide the rows that are not done, and append them to the resume file as they are decided."""
    rest = np.flatnonzero(~state.done)
    if len(rest) == 0:
        return state.joined(rest, None)
    # All rows are validated first: resuming must not hide an error in the data.
    rows = query.rows.take(rest)
    with showing(None, len(state.done), "verifying") as show:
        if show is not None:
            for earlier, part in state.parts:
                show(part, np.arange(len(earlier)))

        def listen(found: Decisions, finished: Indices) -> None:
            if len(finished) and resume_file is not None:
                resume_file.append(state.to_block(rest[finished], found.take(finished)))
                state.done[rest[finished]] = True
            if show is not None:
                show(found, finished)

        found = decide(query.task, rows, listen)
    return state.joined(rest, found)
