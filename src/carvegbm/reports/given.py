"""What a report is given: attackers, names, sizes and paths, checked before any work is done.

Comes in: what a user gave. Goes out: the same as the work takes it, or a line that says what is
wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.attacker import Attacker, require_attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, shown
from carvegbm.readers import load
from carvegbm.reports.document import Subject
from carvegbm.storage.files import check_output, naming
from carvegbm.storage.identity import sha256_of

__all__ = [
    "attackers_of",
    "checked_sample",
    "checked_seed",
    "files_read",
    "proof_paths",
    "rows_of",
    "subject_of",
]

_SEEDS = 1 << 31
"""What LightGBM takes, with which retraining goes."""


def files_read(model: Any, files: Mapping[str, Any] | None) -> dict[str, Any]:
    """The files that model and data were read from, by what they are, as far as that is known."""
    read = {what: where for what, where in (files or {}).items() if where is not None}
    if isinstance(model, str | os.PathLike):
        read.setdefault("model", model)
    return read


def subject_of(
    model: Any,
    read: Mapping[str, Any],
    *,
    called: Mapping[str, str | None],
    names: Sequence[str] | None,
    images: Any,
    own_labels: bool,
) -> Subject:
    """What the report is about; `called` is what model and data are called, where that is said."""
    ensemble = load(model)
    unsaid = {"model": type(model).__name__, "data": "data given in memory"}
    unsaid |= {what: Path(where).name for what, where in read.items()}
    return Subject(
        ensemble,
        called["model"] or unsaid["model"],
        called["data"] or unsaid["data"],
        own_labels,
        {what: _sha256(where) for what, where in read.items()},
        _names(names, ensemble),
        _image(images, ensemble),
    )


def attackers_of(given: Any, y: Any) -> list[Attacker]:
    """The attackers, at least one."""
    if given is None or isinstance(given, Attacker):
        return [require_attacker(given, y)]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise CarveError(f"attackers must be an Attacker or several, got {shown(given)}")
    found = [require_attacker(attacker) for attacker in given]
    if not found:
        raise CarveError("attackers must name at least one attacker")
    return found


def proof_paths(proof: Any, count: int) -> list[Path]:
    """Where proofs go, one per attacker; none if none are asked for."""
    if proof is None:
        return []
    path = Path(proof)
    rest = [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(2, count + 1)]
    return [check_output(target, None) for target in (path, *rest)]


def _names(names: Sequence[str] | None, ensemble: Ensemble) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, Iterable):
        raise CarveError(f"names must be one per feature, got {shown(names)}")
    found = tuple(map(str, names))
    if len(found) != ensemble.n_features:
        raise CarveError(
            f"names has {len(found)} entries, the model has {ensemble.n_features} features; give "
            "one per feature"
        )
    return found


def _image(size: Any, ensemble: Ensemble) -> tuple[int, int] | None:
    if size is None:
        return None
    try:
        height, width = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"images must be (height, width), got {shown(size)}") from None
    if height < 1 or width < 1 or height * width != ensemble.n_features:
        raise CarveError(
            f"images of {height} x {width} have {height * width} pixels, the model has "
            f"{ensemble.n_features} features; give the size that rows have"
        )
    return height, width


def checked_sample(sample: Any) -> int | None:
    """How many rows are judged at most; None: all."""
    if sample is not None and (not _is_whole(sample) or sample < 1):
        raise CarveError(
            f"sample must be a whole number of rows from 1 on, or None, got {shown(sample)}"
        )
    return None if sample is None else int(sample)


def checked_seed(seed: Any) -> int:
    """What rows are drawn by."""
    if not _is_whole(seed) or not 0 <= seed < _SEEDS:
        raise CarveError(f"seed must be a whole number from 0 to 2**31 - 1, got {shown(seed)}")
    return int(seed)


def _is_whole(number: Any) -> bool:
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return is_integer or (isinstance(number, float) and number.is_integer())


def rows_of(X: Any) -> int:
    """The number of rows; 0 for what has none, which is refused where it is read."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0


def _sha256(path: Any) -> str:
    with naming(path), open(path, "rb") as file:
        return sha256_of(iter(lambda: file.read(1 << 20), b""))
