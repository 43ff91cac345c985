"""What witnesses change: which features, how often, how far.

Comes in: an attack, and the instances it was asked about, in any form that `attack` takes. Goes
out: `Changes`, feature by feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.rows import coded_rows
from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.errors import DataError
from carvegbm.trees.sets import plain

if TYPE_CHECKING:
    from carvegbm.attack import Attack

__all__ = ["Changes", "FeatureChange", "changes_of"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FeatureChange:
    """What witnesses do to one feature."""

    feature: int
    """Its position."""
    name: str
    up: int
    """Witnesses that raise it."""
    down: int
    """Witnesses that lower it."""
    other: int
    """Witnesses that choose another category."""
    smallest: float
    """Of the sizes of all changes; NaN where it has categories, as the next two."""
    median: float
    largest: float

    @property
    def changed(self) -> int:
        """Witnesses that change it."""
        return self.up + self.down + self.other


@dataclass(frozen=True)
class Changes:
    """What witnesses change, the features that are changed most often first."""

    witnesses: int
    features: tuple[FeatureChange, ...]
    """Those that some witness changes."""


def changes_of(attack: Attack, X: Any) -> Changes:
    """What the witnesses of an attack change in the instances X.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X = [[0.75], [5.0]]
    >>> (change,) = changes_of(cg.attack(model, X, [1, 1], cg.Attacker("inf", 0.25)), X).features
    >>> change.down, change.median
    (1, 0.25)
    """
    z, x = attack.witnesses, _instances(attack, X)
    if x.shape != z.shape:
        raise DataError(
            f"X has shape {x.shape}, the attack was on {z.shape}; give the instances that were "
            "attacked"
        )
    success = np.flatnonzero(attack.success)
    features, sizes = _moves(z[success], x[success])
    order = np.argsort(features, kind="stable")
    changed, first = np.unique(features[order], return_index=True)
    found = [
        _change(attack, int(feature), part)
        for feature, part in zip(changed, np.split(sizes[order], first[1:]), strict=False)
    ]
    found.sort(key=lambda change: (-change.changed, change.feature))
    return Changes(len(success), tuple(found))


def _moves(z: Any, x: Any) -> tuple[npt.NDArray[np.int64], Floats]:
    """Features and z - x of all changes."""
    if not is_sparse(z):
        rows, features = np.nonzero((z != x) & ~np.isnan(x))
        return features, z[rows, features] - x[rows, features]
    stored = z.tocoo()
    before = np.asarray(as_csr(x)[stored.row, stored.col]).ravel().astype(np.float64)
    moved = (stored.data != before) & ~np.isnan(before)
    return stored.col[moved], (stored.data - before)[moved]


def _change(attack: Attack, feature: int, sizes: Floats) -> FeatureChange:
    name = f"feature {feature}"
    if attack.feature_names is not None:
        name = attack.feature_names[feature]
    if feature in attack.categories:
        return FeatureChange(feature, name, 0, 0, len(sizes), np.nan, np.nan, np.nan)
    far = np.abs(sizes)
    return FeatureChange(
        feature,
        name,
        int(np.count_nonzero(sizes > 0)),
        int(np.count_nonzero(sizes < 0)),
        0,
        float(far.min()),
        float(np.median(far)),
        float(far.max()),
    )


def _instances(attack: Attack, X: Any) -> Any:
    """X in the order of the model's features, categories as the witnesses hold them."""
    if is_sparse(attack.witnesses):
        return as_csr(X) if is_sparse(X) else as_csr(_sparse(coded_rows(X, None, {}).rows))
    if is_sparse(X):
        return as_csr(X).toarray()
    count = attack.witnesses.shape[1]
    codes = {feature: _Codes(attack.categories.get(feature)) for feature in range(count)}
    return coded_rows(X, attack.feature_names, codes).rows


def _sparse(X: Floats) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


class _Codes:
    """The way from labels of one feature to the numbers that witnesses hold."""

    gives_codes = True

    def __init__(self, labels: Mapping[int, Any] | None) -> None:
        self._places = {label: float(code) for code, label in (labels or {}).items()}
        self._has_labels = labels is not None

    def numbers(self, labels: Sequence[Any], rows: npt.NDArray[np.int64], where: str) -> Floats:
        """The code of every label; of a feature without labels, the label itself."""
        if self._has_labels:
            return np.array([self._places.get(plain(label), -1.0) for label in labels])
        try:
            return np.array([float(label) for label in labels])
        except (TypeError, ValueError):
            raise DataError(f"{where} row {rows[0]}: {labels[0]!r} is no number") from None

    def check_numbers(self, where: str) -> None:
        """Numbers are the codes."""
