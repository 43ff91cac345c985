"""Folds: cross-validation where rows are few.

One small set of validation rows says little about which of two plans is the better one; every row
in its turn says more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from carvegbm.training.data import Labelled

__all__ = ["FEW_ROWS", "enough_for_folds", "folds", "joined"]

FEW_ROWS = 2000
"""With fewer rows, all told, a choice is made by cross-validation."""

_FOLDS = 5
_TIMES = 2


def joined(one: Labelled, other: Labelled) -> Labelled:
    """Both sets of rows in one."""
    weight = None
    if one.weight is not None and other.weight is not None:
        weight = np.concatenate([one.weight, other.weight])
    return Labelled(
        np.concatenate([one.X, other.X]), np.concatenate([one.labels, other.labels]), weight
    )


def folds(rows: Labelled, seed: int, stratify: bool) -> Iterator[tuple[Labelled, Labelled]]:
    """Training and validation rows, ten times: five folds, twice."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = StratifiedKFold if stratify else KFold
    labels = rows.labels
    for time in range(_TIMES):
        maker = kind(_FOLDS, shuffle=True, random_state=seed + time)
        for kept, rest in maker.split(np.zeros((len(labels), 1)), labels):
            yield rows.part(kept), rows.part(rest)


def enough_for_folds(rows: Labelled, stratify: bool) -> bool:
    """Whether every fold can have rows of every class."""
    if not stratify:
        return len(rows) >= 2 * _FOLDS
    return bool(np.unique(rows.labels, return_counts=True)[1].min() >= _FOLDS)
