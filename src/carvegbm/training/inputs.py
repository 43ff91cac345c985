"""What a user passes to `fit` and `predict`, checked and turned into plain arrays.

Comes in: frames, lists, arrays, sparse matrices, labels of any kind. Goes out: arrays of numbers
that are finite or missing (NaN), or sparse matrices stored by row, with codes for categories;
encoded labels; an attacker with features by position; or one line that says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import inf
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.encoding import CoreEncoding
from carvegbm.attackers.options import OPTIONS
from carvegbm.data.rows import as_rows, first_where
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError
from carvegbm.training.columns import Columns

__all__ = [
    "blank_ensemble",
    "check_instances",
    "check_pair",
    "check_rows",
    "check_targets",
    "check_weight",
    "encode_labels",
    "evaluation_pairs",
    "require_labels",
    "resolve_attacker",
    "seed_from",
    "split_off",
    "thread_count",
    "weigh_classes",
    "whole_number",
]

Floats = npt.NDArray[np.float64]


def check_rows(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """X as a two-dimensional array of floats, finite or NaN, or as a sparse matrix of these.

    `reset`: remember the number and names of features, and the labels of categories, in the
    estimator, instead of checking them.
    """
    X = _coded(estimator, _unmasked(X), reset, "X")
    try:
        rows = _by_row(_validate(estimator, X, reset=reset))
    except (TypeError, ValueError) as error:
        _reraise_for_objects(X, error)
        _refuse_texts(X, "")
        raise DataError(_one_line(error)) from None
    _refuse_infinity(rows, getattr(estimator, "feature_names_in_", None), "X")
    _require_numbers(X, "")
    return rows


def check_pair(
    estimator: Any, X: Any, y: Any, *, reset: bool = False, what: str = "X"
) -> tuple[Any, npt.NDArray[Any]]:
    """X as `check_rows` returns it, and y as an array with as many entries."""
    where = "" if what == "X" else f"{what}: "
    require_labels(y, f"{where}y")
    X = _coded(estimator, _unmasked(X), reset, what)
    try:
        rows, labels = _validate(estimator, X, y, reset=reset, multi_output=False, y_numeric=False)
    except (TypeError, ValueError) as error:
        _reraise_for_objects(X, error)
        _refuse_texts(X, where)
        raise DataError(where + _one_line(error)) from None
    rows = _by_row(rows)
    _refuse_infinity(rows, getattr(estimator, "feature_names_in_", None), what)
    _require_numbers(X, where)
    return rows, labels


def _coded(estimator: Any, X: Any, reset: bool, what: str) -> Any:
    """Codes for the labels of categories; the labels are those of training."""
    if reset:
        estimator._columns = Columns.of(X)
    known: Columns = getattr(estimator, "_columns", Columns())
    return known.coded(X, what)


def _by_row(rows: Any) -> Any:
    """A sparse matrix as a CSR matrix with every entry once, in order; an array as it is."""
    if not hasattr(rows, "tocsr"):
        return rows
    from scipy.sparse import csr_matrix

    by_row = csr_matrix(rows)  # which LightGBM takes as it is
    by_row.sum_duplicates()
    return by_row


def _validate(estimator: Any, *data: Any, **options: Any) -> Any:
    options |= {"dtype": [np.float64, np.float32], "accept_sparse": ["csr", "csc", "coo"]}
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn before 1.6
        return estimator._validate_data(*data, force_all_finite=False, **options)
    return validate_data(estimator, *data, ensure_all_finite=False, **options)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _refuse_texts(X: Any, where: str) -> None:
    """Name the column that holds texts, where one does: scikit-learn names a text alone."""
    try:
        as_rows(X)
    except DataError as error:
        if "turn them into numbers" in str(error) and not np.iscomplexobj(X):
            raise DataError(
                f"{where}{error}, or into categories (pandas: astype('category'))"
            ) from None
    except (TypeError, ValueError):
        pass


def _reraise_for_objects(X: Any, error: Exception) -> None:
    """Leave scikit-learn's TypeError for arrays of objects as it is: its checks expect it."""
    if isinstance(error, TypeError) and hasattr(X, "__len__"):
        raise error


def _unmasked(X: Any) -> Any:
    """Masked entries as what they are, missing values: scikit-learn would look under the mask."""
    return X


def _require_numbers(X: Any, where: str) -> None:
    """Refuse what the rest of the package refuses: scikit-learn lets dates pass."""
    if (type(X) is np.ndarray or hasattr(X, "tocsr")) and X.dtype.kind in "biuf":
        return
    try:
        as_rows(X)
    except DataError as error:
        raise DataError(f"{where}{error}") from None


def require_labels(y: Any, what: str = "y") -> None:
    """Refuse masked labels, whose mask scikit-learn ignores."""
    if np.ma.is_masked(y):
        row = int(np.argmax(np.ma.getmaskarray(y)))
        raise DataError(f"{what} row {row} is masked; drop the row or fill it")


def _refuse_infinity(X: Any, names: Any, what: str) -> None:
    values = X.data if hasattr(X, "tocsr") else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    if hasattr(X, "tocsr"):
        places = np.flatnonzero(np.isinf(values))
        rows = np.searchsorted(X.indptr, places, side="right") - 1
        bad = (int(rows[0]), int(X.indices[places[0]])) if len(places) else None
    else:
        bad = first_where(X, np.isinf)
    if bad is None:
        return
    row, column = bad
    name = f"feature {column}" if names is None else f"feature {names[column]!r}"
    raise DataError(f"{what} row {row}, {name} is infinity ({float(X[row, column])}); clip it")


def check_weight(weight: Any, n_rows: int, what: str = "sample_weight") -> Floats | None:
    """Return one finite weight >= 0 per row, not all of them 0; or None."""
    if weight is None:
        return None
    require_labels(weight, what)
    try:
        array = _floats(weight)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers: {error}") from None
    if array.ndim == 0:
        array = np.full(n_rows, float(array))
    if array.shape != (n_rows,):
        raise DataError(f"{what} must have one number per row ({n_rows}), got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise DataError(f"{what} must be finite numbers >= 0, not all of them zero")
    return array


def _floats(values: Any) -> Floats:
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        raise TypeError("dates and durations have no unit here; subtract and divide first")
    return np.asarray(array, dtype=np.float64)


def encode_labels(
    y: npt.NDArray[Any], classes: npt.NDArray[Any], what: str = "y"
) -> npt.NDArray[np.int64]:
    """The position of each label in `classes`."""
    y = np.asarray(y)
    try:
        positions = np.searchsorted(classes, y)
        known = classes[np.minimum(positions, len(classes) - 1)] == y
    except (TypeError, ValueError):  # labels of another kind: the first of them is named below
        known = np.zeros(len(y), dtype=bool)
    if not np.all(known):
        odd = y[int(np.argmin(known))]
        odd = odd.item() if isinstance(odd, np.generic) else odd
        listed = ", ".join(repr(label) for label in classes.tolist()[:8])
        raise DataError(f"{what}: label {odd!r} does not occur in the training labels ({listed})")
    return np.asarray(positions, dtype=np.int64)


def check_targets(y: Any, what: str = "y") -> Floats:
    """Finite numbers to predict."""
    try:
        targets = _floats(y)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers for regression: {error}") from None
    if not np.isfinite(targets).all():
        row = int(np.argmin(np.isfinite(targets)))
        value = "NaN" if np.isnan(targets[row]) else "infinity"
        raise DataError(f"{what} row {row} is {value}; the target must be a finite number")
    return targets


def evaluation_pairs(eval_set: Any) -> list[tuple[Any, Any]]:
    """`eval_set` as a list of (X, y); one pair may come alone."""
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
    """Positions of training and validation rows: a fifth, at most `most` rows, is split off."""
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


def blank_ensemble(
    n_features: int,
    names: Sequence[str] | None = None,
    categories: Mapping[int, Mapping[int, Any]] | None = None,
) -> Ensemble:
    """An ensemble that knows its features and nothing else."""
    return Ensemble.from_trees(
        [{"score": 0.0}],
        n_features=n_features,
        feature_names=names,
        categories=categories or {},
        category_rule="truncate",
    )


def check_instances(attacker: Attacker, blank: Ensemble, X: Any, what: str = "X") -> None:
    """Refuse rows that the attacker cannot meet: out of bounds, no multiple of a step, in no state.

    Rows are named by their number in X: give it before any are split off.
    """
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


def weigh_classes(
    y: npt.NDArray[Any],
    class_weight: Any,
    weight: Floats | None = None,
    counts: Mapping[Any, int] | None = None,
) -> Floats | None:
    """The weights of rows, times those of their classes.

    `counts` are the rows of every class, where y holds only some of them.
    """
    if class_weight is None:
        return weight
    from sklearn.utils.class_weight import compute_sample_weight

    if counts is not None and class_weight == "balanced":
        total = sum(counts.values())
        class_weight = {label: total / (len(counts) * n) for label, n in counts.items()}
    elif counts is not None and isinstance(class_weight, Mapping) and {*class_weight} <= {*counts}:
        class_weight = dict.fromkeys(counts, 1.0) | dict(class_weight)  # some may not occur in y

    by_class = np.asarray(compute_sample_weight(class_weight, y))
    return by_class if weight is None else weight * by_class


def resolve_attacker(
    attacker: Attacker,
    n_features: int,
    names: Sequence[str] | None,
    categories: Mapping[int, Mapping[int, Any]] | None = None,
    called: Sequence[str] | None = None,
) -> Attacker:
    """The same attacker with features by position, or by the names in `called`."""
    blank = blank_ensemble(n_features, names, categories)
    limits = attacker.limits(blank)
    if limits.by_row:
        raise CarveError(
            "bounds with a row per instance fit the instances they were made for alone; train with "
            "bounds for all rows, and verify with those"
        )
    features: Sequence[Any] = range(n_features) if called is None else called

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


def seed_from(random_state: Any) -> int | None:
    """A seed for LightGBM, drawn from a random generator where one is given."""
    if random_state is None:
        return None
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer):
        if not 0 <= random_state < 1 << 31:
            raise CarveError(f"random_state must be from 0 to 2**31 - 1, got {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(1 << 31))


def whole_number(name: str, value: Any) -> int:
    """A parameter that counts something: at least 1."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not (is_number and value >= 1 and value == value // 1):
        raise CarveError(f"{name} must be a whole number >= 1, got {value!r}")
    return int(value)


def thread_count(n_jobs: Any) -> int:
    """Number of threads: all cores for None and -1, all but one for -2, …."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None:
        return cores
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise CarveError(f"n_jobs must be a whole number other than 0, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))
