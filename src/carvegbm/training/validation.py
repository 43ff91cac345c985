"""Validate what a user passes to `fit` and `predict`, and convert it to plain arrays.

Rows become arrays of finite numbers and NaN, or CSR matrices, with codes for categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.encoding import CoreEncoding
from carvegbm.attackers.options import OPTIONS
from carvegbm.data.rows import as_rows, first_where, refuse_masked
from carvegbm.errors import CarveError, DataError
from carvegbm.model.ensemble import Ensemble
from carvegbm.training.categorical import FrameCategories

__all__ = ["blank_ensemble", "check_data", "check_instances", "check_targets", "check_weight"]
__all__ += ["encode_labels", "evaluation_pairs", "resolve_attacker", "seed_from", "split_off"]
__all__ += ["thread_count"]

Floats = npt.NDArray[np.float64]


def check_data(
    estimator: Any, X: Any, y: Any = None, *, reset: bool = False, what: str = "X"
) -> tuple[Any, Any]:
    """Return X as an array or a CSR matrix, and y as an array, or None if there are no labels.

    `reset` stores number and names of the features, and the categories of a frame, in the
    estimator, instead of comparing X with them. `what` names X in errors.
    """
    where = "" if what == "X" else f"{what}: "
    refuse_masked(X, what, "pass X.filled(numpy.nan)")
    refuse_masked(y, f"{where}y", "leave out rows without a label")
    if reset:
        estimator._frame_categories = FrameCategories.of(X)
    X = estimator._frame_categories.encode(X, what)
    options = {"dtype": [np.float64, np.float32], "accept_sparse": ["csr", "csc", "coo"]}
    data = (X, y) if reset or y is not None else (X,)
    try:
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:  # scikit-learn before 1.6
            found = estimator._validate_data(*data, reset=reset, force_all_finite=False, **options)
        else:
            found = validate_data(estimator, *data, reset=reset, ensure_all_finite=False, **options)
    except ValueError as error:
        message = " ".join(str(error).split())
        if "could not convert string" in message:
            message = _text_column(X) or message
        raise DataError(f"{where}{message}") from None
    rows, labels = found if len(data) == 2 else (found, None)
    if hasattr(rows, "tocsr"):
        from scipy.sparse import csr_matrix

        rows = csr_matrix(rows)  # LightGBM takes no csr_array
        rows.sum_duplicates()
    _refuse_infinity(rows, getattr(estimator, "feature_names_in_", None), what)
    return rows, labels


def _text_column(X: Any) -> str | None:
    """Return a message that names the column with texts, which scikit-learn's does not."""
    try:
        as_rows(X)
    except DataError as error:
        return f"{error}, or into categories (pandas: astype('category'))"
    return None


def _refuse_infinity(X: Any, names: Sequence[str] | None, what: str) -> None:
    if hasattr(X, "tocsr"):
        entries = X.tocoo()
        found = np.flatnonzero(np.isinf(entries.data))[:1]
        bad = (int(entries.row[found[0]]), int(entries.col[found[0]])) if len(found) else None
    else:
        bad = first_where(X, np.isinf)
    if bad is not None:
        name = f"feature {bad[1]}" if names is None else f"feature {names[bad[1]]!r}"
        raise DataError(f"{what} row {bad[0]}, {name} is infinity ({float(X[bad])}); clip it")


def check_weight(weight: Any, n_rows: int, what: str = "sample_weight") -> Floats | None:
    """Return one finite weight >= 0 per row, not all of them 0; or None."""
    if weight is None:
        return None
    try:
        array = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers: {error}") from None
    if array.ndim == 0:
        array = np.full(n_rows, float(array))
    if array.shape != (n_rows,):
        raise DataError(f"{what} must have one number per row ({n_rows}), got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise DataError(f"{what} must be finite numbers >= 0, not all of them zero")
    return array


def encode_labels(
    y: npt.NDArray[Any], classes: npt.NDArray[Any], what: str = "y"
) -> npt.NDArray[np.int64]:
    """Return the position of each label in `classes`, which are sorted."""
    y = np.asarray(y)
    try:
        positions = np.searchsorted(classes, y)
        known = classes[np.minimum(positions, len(classes) - 1)] == y
    except (TypeError, ValueError):  # labels of another type
        known = np.zeros(len(y), dtype=bool)
    if not np.all(known):
        unknown = y[int(np.argmin(known))]
        unknown = unknown.item() if isinstance(unknown, np.generic) else unknown
        listed = ", ".join(repr(label) for label in classes.tolist()[:8])
        raise DataError(
            f"{what}: label {unknown!r} does not occur in the training labels ({listed})"
        )
    return np.asarray(positions, dtype=np.int64)


def check_targets(y: Any, what: str = "y") -> Floats:
    """Return the targets of a regression as finite numbers."""
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers for regression: {error}") from None
    if not np.isfinite(targets).all():
        row = int(np.argmin(np.isfinite(targets)))
        raise DataError(f"{what} row {row} is {targets[row]}; the target must be a finite number")
    return targets


def evaluation_pairs(eval_set: Any) -> list[tuple[Any, Any]]:
    """Return `eval_set` as a list of pairs (X, y); it may be a single pair."""
    if eval_set is None:
        return []
    pairs = [eval_set] if isinstance(eval_set, tuple) and len(eval_set) == 2 else eval_set
    try:
        return [(X, y) for X, y in pairs]
    except (TypeError, ValueError):
        raise DataError("eval_set must be (X, y) or a list of such pairs") from None


def split_off(
    labels: npt.NDArray[Any], seed: int | None, stratify: bool = True, most: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the positions of training rows and of a fifth, at most `most`, for validation."""
    from sklearn.model_selection import train_test_split

    values, counts = np.unique(labels, return_counts=True)
    if stratify and counts.min() < 2:
        rare = values[counts < 2]
        others = f" (and {len(rare) - 1} others)" if len(rare) > 1 else ""
        raise DataError(
            f"cannot split off validation data: label {rare.tolist()[0]!r}{others} occurs once; "
            "give validation data, drop the row, or check that this column holds classes"
        )
    try:
        rows, rest = train_test_split(
            np.arange(len(labels)),
            test_size=0.2 if most is None or len(labels) <= 5 * most else most,
            stratify=labels if stratify else None,
            random_state=seed,
        )
    except ValueError as error:
        raise DataError(f"cannot split off validation data: {error}") from None
    return np.sort(rows), np.sort(rest)


# ── the attacker ─────────────────────────────────────────────────────────────────────────────


def blank_ensemble(
    n_features: int,
    names: Sequence[str] | None = None,
    categories: Mapping[int, Mapping[int, Any]] | None = None,
) -> Ensemble:
    """Return a constant ensemble with these features."""
    return Ensemble.from_trees(
        [{"score": 0.0}],
        n_features=n_features,
        feature_names=names,
        categories=categories or {},
        category_rule="truncate",
    )


def check_instances(attacker: Attacker, blank: Ensemble, X: Any, what: str = "X") -> None:
    """Refuse rows outside the attacker's bounds, off its steps, or in no state of a group."""
    limits = attacker.limits(blank)
    is_discrete = bool(limits.step or limits.one_hot)
    if not is_discrete and attacker.bounds is None:
        return
    rows = X.toarray() if hasattr(X, "toarray") else X
    try:
        limits.check_rows(blank, rows)
        if is_discrete:
            CoreEncoding(blank, limits).encode(rows)
    except DataError as error:
        raise DataError(str(error) if what == "X" else f"{what}: {error}") from None


def resolve_attacker(
    attacker: Attacker,
    n_features: int,
    names: Sequence[str] | None,
    categories: Mapping[int, Mapping[int, Any]] | None = None,
    new_names: Sequence[str] | None = None,
) -> Attacker:
    """Return the same attacker with features by position, or by `new_names`."""
    blank = blank_ensemble(n_features, names, categories)
    limits = attacker.limits(blank)
    if limits.by_row:
        raise CarveError(
            "bounds with a row per instance fit the instances they were made for alone; train with "
            "bounds for all rows, and verify with those"
        )
    features: Sequence[Any] = range(n_features) if new_names is None else new_names

    def renamed(given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {features[blank.feature_index(f)]: value for f, value in given.items()}

    options = {name: renamed(getattr(attacker, name)) for name in OPTIONS}
    if len(limits.changeable) and attacker.features is not None:
        options["features"] = [features[f] for f in np.flatnonzero(limits.changeable).tolist()]
    if isinstance(attacker.scale, tuple):
        options["scale"] = dict(zip(features, attacker.scale, strict=True))
    if isinstance(attacker.bounds, tuple) and any(isinstance(b, tuple) for b in attacker.bounds):
        ends = zip(features, limits.lower.tolist(), limits.upper.tolist(), strict=True)
        options["bounds"] = {f: (low, high) for f, low, high in ends if (low, high) != (-inf, inf)}
    if isinstance(attacker.step, tuple):
        options["step"] = {features[f]: step for f, step in limits.step.items()}
    options["one_hot"] = [[features[f] for f in group] for group in limits.one_hot]
    return Attacker(attacker.norm, attacker.budget, **options)


# ── seeds and threads ────────────────────────────────────────────────────────────────────────


def seed_from(random_state: Any) -> int | None:
    """Return a seed for LightGBM; a random generator draws one."""
    if random_state is None:
        return None
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer):
        if not 0 <= random_state < 1 << 31:
            raise CarveError(f"random_state must be from 0 to 2**31 - 1, got {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(1 << 31))


def thread_count(n_jobs: Any) -> int:
    """Return the number of threads: all cores for None and -1, all but one for -2, …."""
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise CarveError(f"n_jobs must be a whole number other than 0, got {n_jobs!r}")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    from joblib import cpu_count

    return max(1, int(cpu_count()) + 1 + int(-1 if n_jobs is None else n_jobs))
