"""Write proof files: for every row a proof of its status, in the format of docs/proofs.md.

The verdicts of the engines are not trusted: the core proves `robust` and `vulnerable` anew, by
rules that the checker knows, and `fragile` and `broken` are proved by their witnesses. Rows without
a proof are marked as unproved.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.data.rows import check_threads
from carvegbm.engines.query import ENGINES
from carvegbm.model.categories import in_codes
from carvegbm.progress import Progress, progress_bar
from carvegbm.proofs.content import data_hash, model_hash
from carvegbm.statuses import STATUSES
from carvegbm.storage.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from carvegbm import _core
    from carvegbm.attackers.encoding import CoreEncoding
    from carvegbm.attackers.limits import Limits
    from carvegbm.engines import Decisions, Task
    from carvegbm.problem import Problem, Rows

__all__ = ["Proved", "attacker_of", "write_proof"]

_MAGIC = b"carvegbm proof 1\n"
_BLOCK = 1 << 18
"""Bytes of records that are compressed together."""
_MAX_RATIO = 50
"""Compression ratio above which the checker refuses a block."""
_MAX_PROOF = 1 << 24
"""Bytes of a proof; a block of records may have twice as many."""
_UNPROVED = 16
_LARGE_SPREAD = ENGINES.index("large-spread")
_FLIPPED = [STATUSES.index("fragile"), STATUSES.index("broken")]


class Proved(NamedTuple):
    """Numbers of rows whose status is proved, and is not."""

    proved: int
    unproved: int

    def warning(self, path: Path) -> str:
        """Return what to tell the user if rows are unproved."""
        return (
            f"{path}: {self.unproved} of {self.proved + self.unproved} rows are undecided, or "
            "without a proof; give them more time by a longer timeout"
        )


def write_proof(
    path: Path,
    task: Task,
    rows: Rows,
    found: Decisions,
    *,
    own_labels: bool = False,
    progress: Progress = None,
) -> Proved:
    """Prove decisions with witnesses and write the proofs to a file, whole or not at all.

    With `own_labels`, the labels are the model's own answers.
    """
    from carvegbm import __version__

    problem = task.problem
    header = {
        "model": model_hash(problem.ensemble),
        "data": data_hash((part.given, _labels(part)) for _, part in problem.parts(rows)),
        "attacker": attacker_of(problem),
        "labels": "own" if own_labels else "given",
        "rows": len(rows),
        "written_by": f"carvegbm {__version__}",
    }
    counts = [0, 0]
    with (
        replacing(path) as temporary,
        open(temporary, "wb") as stream,
        progress_bar(progress, len(rows), "proving") as tick,
    ):
        file, names = _ProofFile(stream, header), _names(problem.encoding)
        for which, part in problem.parts(rows):
            some = found.take(which)
            proofs = _safe_proofs(task, part, some, names)
            for place, witness in _flip_proofs(problem, part, some):
                proofs[place] = witness
            for record, is_proved in _records(problem, which, some, proofs):
                file.add(record)
                counts[is_proved] += 1
            if tick is not None:
                tick(which.stop)
        file.close()
    return Proved(counts[True], counts[False])


def attacker_of(problem: Problem) -> dict[str, Any]:
    """Return the attacker for the header of the file, with limits by feature index."""
    attacker, limits = problem.attacker, problem.limits
    found: dict[str, Any] = {
        "norm": "inf" if math.isinf(attacker.norm) else int(attacker.norm),
        "budget": float(attacker.budget).hex(),
        **_limited(limits),
    }
    if limits.by_row:
        found["row_bounds"] = True
    return found


def _limited(limits: Limits) -> dict[str, Any]:
    up = limits.scale_up if len(limits.scale_up) else limits.scale
    arrays = {"down": limits.scale, "up": up}
    if not limits.by_row:
        arrays |= {"lower": limits.lower, "upper": limits.upper}
    found: dict[str, Any] = {
        name: {str(f): float(value).hex() for f, value in enumerate(array.tolist())}
        for name, array in arrays.items()
        if len(array)
    }
    if len(limits.changeable):
        found["features"] = np.flatnonzero(limits.changeable).tolist()
    if limits.step:
        found["step"] = {str(f): f"{s.numerator}/{s.denominator}" for f, s in limits.step.items()}
    if limits.categories:
        found["categories"] = {str(f): list(codes) for f, codes in limits.categories.items()}
    if limits.one_hot:
        found["one_hot"] = [list(group) for group in limits.one_hot]
    return found


# ── proofs of rows ───────────────────────────────────────────────────────────────────────────


def _records(
    problem: Problem, which: slice, found: Decisions, proofs: list[bytes]
) -> Iterator[tuple[bytes, bool]]:
    """Yield the record of every row, and whether it proves the status."""
    limits, rows = problem.limits, range(which.start, which.stop)
    for row, code, proof in zip(rows, found.status.tolist(), proofs, strict=True):
        bounds = _bounds(limits.lower[row], limits.upper[row]) if limits.by_row else b""
        if 0 < len(proof) <= _MAX_PROOF:
            yield _varint(row) + bytes((code,)) + bounds + proof, True
        else:
            yield _varint(row) + bytes((code | _UNPROVED,)) + bounds, False


def _safe_proofs(task: Task, rows: Rows, found: Decisions, names: _core.ProofNames) -> list[bytes]:
    """Return proofs that no attack flips the rows; empty if one does, or the time is up."""
    from carvegbm import _core

    options = _core.Options(
        _core.Solver.search,
        np.full(len(rows), task.settings.timeout),
        check_threads(task.settings.threads),
    )
    if rows.bounds is not None:
        options.bound(*rows.bounds)
    large_spread = (found["engine"] == _LARGE_SPREAD).astype(np.uint8)
    return _core.prove(
        task.problem.core, rows.X, _labels(rows), found.status, large_spread, names, options
    )


def _flip_proofs(problem: Problem, rows: Rows, found: Decisions) -> Iterator[tuple[int, bytes]]:
    """Yield the rows that are flipped, and the changes of their witnesses."""
    from carvegbm import _core

    flips = np.flatnonzero(np.isin(found.status, _FLIPPED))
    if not len(flips):
        return
    some, witnesses = rows.take(flips), found["witness"][flips]
    if witnesses.dtype != object:
        z: npt.NDArray[Any] = problem.witnesses(witnesses, some)
    else:  # sparse rows: changes relative to the rows as they were given
        z = np.array(some.source, dtype=np.float64)
        for row, (features, values) in zip(z, witnesses.tolist(), strict=True):
            row[features] = values
        z = in_codes(problem.ensemble, z)
    yield from zip(flips.tolist(), _core.changes(problem.ensemble.core, z, some.given), strict=True)


def _bounds(lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]) -> bytes:
    bounded = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper)).tolist()
    pairs = (_varint(f) + struct.pack("<2d", lower[f], upper[f]) for f in bounded)
    return _varint(len(bounded)) + b"".join(pairs)


def _labels(rows: Rows) -> npt.NDArray[np.int32]:
    assert rows.labels is not None
    return rows.labels


# ── axes, cells and states ───────────────────────────────────────────────────────────────────


def _names(translation: CoreEncoding) -> _core.ProofNames:
    """Return what proofs call the core's axes, cells and states, see docs/proofs.md."""
    from carvegbm import _core

    ensemble, groups = translation.ensemble, translation.limits.one_hot
    axes = np.arange(ensemble.n_features, dtype=np.int32)
    for number, group in enumerate(groups):
        axes[group[0]] = ensemble.n_features + number
    states = {feature: sorted(codes) for feature, codes in ensemble.categories.items()}
    states |= {group[0]: list(range(len(group))) for group in groups}
    counts = np.zeros(ensemble.n_features, dtype=np.int32)
    for feature, known in states.items():
        counts[feature] = len(known)
    in_order = chain.from_iterable(states[feature] for feature in sorted(states))
    return _core.ProofNames(
        axes,
        *_cells(translation),
        np.cumsum([0, *counts], dtype=np.int32),
        np.array(list(in_order), dtype=np.int32),
    )


def _cells(
    translation: CoreEncoding,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return starts, thresholds in core coordinates, and the last cell left of each threshold.

    The thresholds of feature f are those from starts[f] to starts[f + 1].
    """
    ensemble = translation.ensemble
    finite = {*ensemble.categories, *chain.from_iterable(translation.limits.one_hot)}
    features, thresholds = ensemble.nodes["feature"], ensemble.nodes["threshold"]
    order = np.lexsort((thresholds, features))
    order = order[(features[order] >= 0) & ~np.isin(features[order], list(finite))]
    features, thresholds = features[order], thresholds[order]
    is_new = np.append(True, (np.diff(features) != 0) | (np.diff(thresholds) != 0))[: len(order)]
    features, thresholds = features[is_new], thresholds[is_new]
    starts = np.searchsorted(features, np.arange(ensemble.n_features + 1))
    cells = np.arange(len(features)) - starts[features]
    is_last = np.ones(len(features), dtype=bool)
    for feature in translation.grids.keys() & set(features.tolist()):
        own = slice(starts[feature], starts[feature + 1])
        numbers = translation.grids[feature].last_left(thresholds[own])
        thresholds[own], is_last[own] = numbers, np.append(numbers[1:] != numbers[:-1], True)
    starts = np.append(0, np.cumsum(is_last))[starts]
    return starts.astype(np.int32), thresholds[is_last], cells[is_last].astype(np.int32)


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def _varint(value: int) -> bytes:
    """Return a whole number >= 0 in LEB128: groups of seven bits, the lowest first.

    Examples
    --------
    >>> _varint(5).hex(), _varint(300).hex()
    ('05', 'ac02')
    """
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


class _ProofFile:
    """Writer of a proof file: a header, compressed blocks of records, and a hash of everything."""

    def __init__(self, stream: BinaryIO, header: dict[str, Any]) -> None:
        self._stream, self._digest = stream, hashlib.sha256()
        self._count, self._records = 0, bytearray()
        text = json.dumps(header, allow_nan=False).encode()
        self._put(_MAGIC + struct.pack("<I", len(text)) + text)

    def add(self, record: bytes) -> None:
        """Append a record."""
        self._records += _varint(len(record)) + record
        self._count += 1
        if len(self._records) >= _BLOCK:
            self._flush()

    def close(self) -> None:
        """Write the end; the checker refuses a file without it."""
        self._flush()
        self._put(struct.pack("<IQ", 0, self._count))
        self._stream.write(self._digest.digest())

    def _flush(self) -> None:
        if self._records:
            packed = zlib.compress(bytes(self._records), 6)
            if len(packed) * _MAX_RATIO < len(self._records):
                packed = zlib.compress(bytes(self._records), 0)
            self._put(struct.pack("<II", len(packed), zlib.crc32(packed)) + packed)
            self._records.clear()

    def _put(self, data: bytes) -> None:
        self._stream.write(data)
        self._digest.update(data)
