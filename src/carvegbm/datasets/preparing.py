"""From rows as they are published to a dataset as the paper uses it: two classes, [0, 1], split.

Comes in: `Published`, wherever they are from. Goes out: a `Dataset`, and from it a `Split`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.datasets.catalogue import Entry
from carvegbm.errors import DataError

__all__ = ["Dataset", "Published", "Split", "prepare"]

_TEST_SHARE = 0.30
_VALID_SHARE_OF_REST = 15 / 70  # 15 % of all rows where 70 % are not for the test


@dataclass(frozen=True, eq=False)
class Published:
    """Rows as they are published, all classes, not scaled; the last `test_rows` are for the test.

    `test_rows` is None where the source has no test set of its own that is to be kept.
    """

    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    source: str
    feature_names: tuple[str, ...] | None = None
    test_rows: int | None = None


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test set.

    Examples
    --------
    >>> from carvegbm import datasets
    >>> split = datasets.load("digits").split(seed=0)
    >>> split.X_train.shape, split.X_valid.shape, split.X_test.shape
    ((196, 64), (53, 64), (108, 64))
    """

    X_train: npt.NDArray[np.float64]
    y_train: npt.NDArray[np.int64]
    X_valid: npt.NDArray[np.float64]
    y_valid: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float64]
    y_test: npt.NDArray[np.int64]

    @property
    def y(self) -> tuple[npt.NDArray[np.int64], ...]:
        """The labels of the three sets, in the order training, validation, test."""
        return self.y_train, self.y_valid, self.y_test


@dataclass(frozen=True, eq=False)
class Dataset:
    """Instances of two classes, scaled to [0, 1].

    Attributes
    ----------
    name, title : str
        ``"fmnist"`` and ``"Fashion-MNIST 0 vs 3"``.
    X : array (n, d) of float64
        0 <= X <= 1.
    y : array (n,) of int64
        0 or 1.
    classes : tuple of str
        classes[y] is what a label means.
    feature_names : tuple of str, or None where the columns have no names
    image_shape : (height, width), or None where the rows are not images
    source : str
        Where the rows came from.
    test_rows : int or None
        If not None, the last so many rows are the test set that the source brings.
    test_limit : int or None
        If not None, a test set has at most so many rows.

    Examples
    --------
    >>> from carvegbm import datasets
    >>> data = datasets.load("digits")
    >>> data.title, data.image_shape, data.classes[data.y[0]]
    ('Digits 3 vs 8', (8, 8), '3')
    """

    name: str
    title: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    feature_names: tuple[str, ...] | None
    image_shape: tuple[int, int] | None
    source: str
    test_rows: int | None = None
    test_limit: int | None = None

    def split(self, seed: int = 0) -> Split:
        """Training, validation and test set: 55, 15 and 30 %, each with the same share of classes.

        Where the source brings a test set, that one is taken, and the rest is divided 55 to 15.
        A test set beyond `test_limit` is reduced to it, again with the same share of classes.

        Examples
        --------
        >>> from carvegbm import datasets
        >>> split = datasets.load("breast-cancer").split(seed=7)
        >>> len(split.X_train), len(split.X_valid), len(split.X_test)
        (313, 85, 171)
        """
        try:
            seed = operator.index(seed)
        except TypeError:
            raise DataError(f"seed must be a whole number, got {seed!r}") from None
        if not 0 <= seed < 2**32:
            raise DataError(f"seed must be in 0…4294967295, got {seed}")
        rows = np.arange(len(self.y))
        if self.test_rows is None:
            rest, test = self._cut(rows, _TEST_SHARE, seed)
        else:
            rest, test = np.split(rows, [len(rows) - self.test_rows])
        train, valid = self._cut(rest, round(len(rest) * _VALID_SHARE_OF_REST), seed)
        if self.test_limit is not None and len(test) > self.test_limit:
            test = self._cut(test, self.test_limit, seed)[1]
        X, y = self.X, self.y
        return Split(X[train], y[train], X[valid], y[valid], X[test], y[test])

    def _cut(
        self, rows: npt.NDArray[np.int64], second: float, seed: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows in two parts, stratified; `second` is the size of the other, or its share."""
        from sklearn.model_selection import train_test_split

        try:
            one, other = train_test_split(
                rows, test_size=second, stratify=self.y[rows], random_state=seed
            )
        except ValueError:
            least = int(np.bincount(self.y[rows], minlength=len(self.classes)).min())
            raise DataError(
                f"{self.name}: {len(rows)} rows, {least} of the rarer class, are too few to be"
                " split by class; give more rows"
            ) from None
        return one, other


def prepare(entry: Entry, rows: Published) -> Dataset:
    """The two classes of `entry`, as y = 0 and y = 1, with every feature scaled to [0, 1]."""
    y, keep = _two_classes(entry, rows)
    X = rows.X if keep.all() else rows.X[keep]
    if X.shape[1] != entry.features:
        raise DataError(
            f"{entry.name}: {rows.source} has {X.shape[1]} features, {entry.features} are expected"
        )
    part = "" if len(y) == entry.rows else f" ({len(y):,} of {entry.rows:,} rows)"
    return Dataset(
        name=entry.name,
        title=entry.title,
        X=_scaled(entry, rows, X),
        y=y,
        classes=entry.classes,
        feature_names=rows.feature_names,
        image_shape=entry.image_shape,
        source=rows.source + part,
        test_rows=rows.test_rows,
        test_limit=entry.test_limit,
    )


def _two_classes(
    entry: Entry, rows: Published
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The labels 0 and 1, and which rows have one of them."""
    try:
        labels = np.asarray(rows.y).astype(np.float64)
    except ValueError:
        raise DataError(f"{entry.name}: {rows.source} has labels that are not numbers") from None
    first, second = entry.labels
    keep = (labels == first) | (labels == second)
    if entry.others is None and not keep.all():
        strange = labels[~keep][0]
        raise DataError(
            f"{entry.name}: {rows.source} has the label {strange:g}; {first} and {second} are"
            " expected"
        )
    y = (labels[keep] == second).astype(np.int64)
    for label, there in ((first, (y == 0).any()), (second, (y == 1).any())):
        if not there:
            raise DataError(f"{entry.name}: {rows.source} has no row with the label {label}")
    return y, keep


def _scaled(entry: Entry, rows: Published, X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """X in [0, 1]: divided by the full scale, or every column from its least to its largest.

    A column with one value only becomes 0. Pixels that nowhere exceed 1 are scaled already.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
    if len(bad):
        raise DataError(f"{entry.name}: {rows.source}: feature {bad[0]} has a value not finite")
    if entry.full_scale is not None:
        least, largest = low.min(), high.max()
        if least < 0 or largest > entry.full_scale:
            raise DataError(
                f"{entry.name}: {rows.source} has pixels from {least:g} to {largest:g};"
                f" 0 to {entry.full_scale:g} are expected"
            )
        scale = entry.full_scale if largest > 1 else 1.0
        return np.asarray(np.divide(X, scale, dtype=np.float64))
    span = high - low
    span[span == 0] = 1
    scaled: npt.NDArray[np.float64] = np.subtract(X, low, dtype=np.float64)
    scaled /= span  # in place: Webspam takes 700 MB
    return scaled
