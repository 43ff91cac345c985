"""Tables as people train on them: frames with names, categories as categories, nothing scaled.

Comes in: the name of a data set. Goes out: a `Part` whose rows are frames. A fifth of the training
rows is for validation. A published test set is kept apart; else a fifth is. Labels are 0, 1, ….
"""

from __future__ import annotations

from typing import Any

import numpy as np

from carvegbm_experiments.compute.robust_data import Part, table_path
from carvegbm_experiments.datasets import folder_of
from carvegbm_experiments.plan.attackers import COVERTYPE_COLUMNS

__all__ = ["FILES", "framed", "numbers"]

FILES = {"nsl-kdd": "nsl_kdd", "covtype": "covtype_20k"}
"""By data set: the .npz file without its ending."""

_SHARE = 0.2


def framed(dataset: str, folder: Any, rows: int, seed: int) -> Part:
    """Training, validation and test rows, at most so many of these; or `UnavailableError`."""
    path = table_path(dataset, FILES[dataset], folder_of(folder))
    with np.load(path) as arrays:
        X, y, X_test, y_test = _sets(dict(arrays), seed)
    if len(y_test) > rows:
        X_test, _, y_test, _ = _cut(X_test, y_test, len(y_test) - rows, seed)
    X, X_valid, y, y_valid = _cut(X, y, _SHARE, seed)
    return Part(X, y, X_test, y_test, X_valid, y_valid)


def numbers(X: Any) -> Any:
    """The rows as an array; codes stand for categories. An array is one already."""
    if isinstance(X, np.ndarray):
        return X
    categories = [name for name in X.columns if X[name].dtype == "category"]
    return X.assign(**{name: X[name].cat.codes for name in categories}).to_numpy(np.float64)


def _sets(arrays: dict[str, Any], seed: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and their labels, test rows and theirs."""
    if "X_train" in arrays:
        X, X_test = (_with_categories(arrays[part], arrays) for part in ("X_train", "X_test"))
        return X, arrays["y_train"].astype(np.int64), X_test, arrays["y_test"].astype(np.int64)
    import pandas as pd

    frame = pd.DataFrame(arrays["X"].astype(np.float64), columns=list(COVERTYPE_COLUMNS))
    _, y = np.unique(arrays["y"], return_inverse=True)
    X, X_test, y, y_test = _cut(frame, y, _SHARE, seed)
    return X, y, X_test, y_test


def _with_categories(X: Any, arrays: dict[str, Any]) -> Any:
    """Numbers as a frame; what is a category has its label."""
    import pandas as pd

    names = arrays["feature_names"].tolist()
    frame = pd.DataFrame(X.astype(np.float64), columns=names)
    for position in arrays["categorical"].tolist():
        name, codes = names[position], X[:, position].astype(np.int64)
        labels = arrays[f"cats_{name}"].tolist()
        frame[name] = pd.Categorical.from_codes(codes, categories=labels)
    return frame


def _cut(X: Any, y: Any, second: float, seed: int) -> tuple[Any, Any, Any, Any]:
    """Two parts with the same share of every class; `second` is the size of the other."""
    from sklearn.model_selection import train_test_split

    one, other, y_one, y_other = train_test_split(
        X, y, test_size=second, stratify=y, random_state=seed
    )
    return one.reset_index(drop=True), other.reset_index(drop=True), y_one, y_other
