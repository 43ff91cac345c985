"""The rows of robust training: read from the data folder, scaled, divided as a protocol asks.

Comes in: a `Source` and a division. Goes out: `Part`s, one per fit: training and validation rows,
and the test rows the model is judged on. Pixels are divided by 255. A table that is not within
[0, 1] is scaled there, column by column: from the training rows ("official", "held-out"), as
sources with a test set do, or from the whole table ("folds"), as those do that cross-validate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm_experiments.compute.data import UnavailableError
from carvegbm_experiments.datasets import folder_of, images_of
from carvegbm_experiments.plan.robust import SOURCES, Source

__all__ = ["Part", "divide", "table_path"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]

_FOLDS = 5
_FOLD_SEED = 1
_VALIDATION = 0.2
_TEST = 0.3
_TEST_ROWS = 4000  # of a "held-out" test set
_OFFICIAL_IMAGES = 60_000
_ALL_IMAGES = 70_000
_NEARLY = 1e-9  # beyond [0, 1]: what scaling in floating point may leave


@dataclass(frozen=True, eq=False)
class Part:
    """Rows for one fit and its test; without validation rows, training chooses for itself."""

    X_train: Floats
    y_train: Labels
    X_test: Floats
    y_test: Labels
    X_valid: Floats | None = None
    y_valid: Labels | None = None


@dataclass(frozen=True, eq=False)
class _Rows:
    """A data set as it is published; the last `test` rows are its test set."""

    X: npt.NDArray[Any]
    y: Labels
    test: int = 0
    fold: npt.NDArray[Any] | None = None


def divide(
    dataset: str,
    folder: Any,
    division: str,
    *,
    inner: bool = False,
    copies: int = 0,
    seed: int = 0,
) -> Iterator[Part]:
    """The parts of a data set, each made when it is asked for; `UnavailableError` without it.

    `inner`: no validation rows are set apart, training is to choose inside its own. `copies`: as
    many of every training image are added, each shifted by a pixel in another direction.
    """
    source = SOURCES[dataset]
    rows = _published(dataset, folder_of(folder))
    if division == "folds":
        for part in _folds(rows, source):
            yield part if inner else _with_validation(part, seed)
        return
    X, y, X_test, y_test = _train_and_test(rows, division, seed)
    X, X_test = _scaled(source, X, X_test)
    if division == "held-out":
        X_test = np.clip(X_test, 0, 1)
        if len(X_test) > _TEST_ROWS:
            X_test, _, y_test, _ = _cut(X_test, y_test, len(X_test) - _TEST_ROWS, seed)
    part = Part(X, y, X_test, y_test)
    if not inner:
        part = _with_validation(part, seed)
    yield _with_copies(part, copies, seed) if copies else part


def _with_validation(part: Part, seed: int) -> Part:
    X, X_valid, y, y_valid = _cut(part.X_train, part.y_train, _VALIDATION, seed)
    return Part(X, y, part.X_test, part.y_test, X_valid, y_valid)


def _with_copies(part: Part, copies: int, seed: int) -> Part:
    """The training images, and shifted ones after them; what a shift brings in is blank."""
    X = part.X_train
    side = math.isqrt(X.shape[1])
    padded = np.pad(X.reshape(-1, side, side), ((0, 0), (1, 1), (1, 1)))
    # Where a window of the image's size begins: above, below, to the left or right of the image.
    corners = np.array([(0, 1), (2, 1), (1, 0), (1, 2)])
    random = np.random.default_rng(seed)
    order = random.permuted(np.tile(np.arange(len(corners)), (len(X), 1)), axis=1)
    shifted = np.empty((copies, *X.shape))
    for copy, which in zip(shifted, order.T, strict=False):
        for number, (top, left) in enumerate(corners):
            chosen = which == number
            window = padded[chosen, top : top + side, left : left + side]
            copy[chosen] = window.reshape(-1, X.shape[1])
    y = np.tile(part.y_train, copies + 1)
    return replace(part, X_train=np.concatenate([X, *shifted]), y_train=y)


def _folds(rows: _Rows, source: Source) -> Iterator[Part]:
    """Five parts, each with another fifth for the test: the published folds where there are any."""
    (X,) = _scaled(source, rows.X)
    if rows.fold is not None:
        tests = [np.flatnonzero(rows.fold == fold) for fold in np.unique(rows.fold)]
    else:
        from sklearn.model_selection import KFold, StratifiedKFold

        folds = KFold if rows.y.dtype.kind == "f" else StratifiedKFold
        division = folds(_FOLDS, shuffle=True, random_state=_FOLD_SEED)
        tests = [test for _, test in division.split(X, rows.y)]
    for test in tests:
        train = np.setdiff1d(np.arange(len(X)), test)
        yield Part(X[train], rows.y[train], X[test], rows.y[test])


def _train_and_test(rows: _Rows, division: str, seed: int) -> tuple[Any, ...]:
    if rows.test:
        X, X_test = np.split(rows.X, [len(rows.X) - rows.test])
        y, y_test = np.split(rows.y, [len(rows.y) - rows.test])
        return X, y, X_test, y_test
    if division == "official":
        raise UnavailableError("no training and test set are published; choose another division")
    X, X_test, y, y_test = _cut(rows.X, rows.y, _TEST, seed)
    return X, y, X_test, y_test


def _cut(X: Any, y: Labels, second: float, seed: int) -> tuple[Any, Any, Any, Any]:
    """Two parts with the same share of every class; `second` is the size of the other."""
    from sklearn.model_selection import train_test_split

    classes = None if y.dtype.kind == "f" else y
    one, other, y_one, y_other = train_test_split(
        X, y, test_size=second, stratify=classes, random_state=seed
    )
    return one, other, y_one, y_other


def _scaled(source: Source, first: Any, *others: Any) -> tuple[Floats, ...]:
    """All within [0, 1] as far as the columns of the first say."""
    if source.images:
        return tuple(np.divide(X, 255, dtype=np.float64) for X in (first, *others))
    tables = [np.asarray(X, dtype=np.float64) for X in (first, *others)]
    low, high = tables[0].min(axis=0), tables[0].max(axis=0)
    if low.min() >= -_NEARLY and high.max() <= 1 + _NEARLY:
        return tuple(tables)
    width = np.where(high > low, high - low, 1)
    return tuple((X - low) / width for X in tables)


# ── files ────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=2)
def _published(dataset: str, place: Path | None) -> _Rows:
    source = SOURCES[dataset]
    if source.images:
        return _images(dataset, source, place)
    if source.file:
        return _table(dataset, source, place)
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    return _Rows(X, y)


def _images(dataset: str, source: Source, place: Path | None) -> _Rows:
    """All classes of an image set are in its idx files only; downloads keep two of them."""
    found = images_of(source.images, place)
    if found is None or len(found.X) != _ALL_IMAGES:
        raise UnavailableError(
            f"{dataset}: not all images are there; put the four idx files of {source.images} into "
            "a folder and name that folder with --data"
        )
    y, test = found.y.astype(np.int64), np.arange(len(found.y)) >= _OFFICIAL_IMAGES
    kept = np.isin(y, source.labels) if source.labels else np.full(len(y), True)
    return _Rows(found.X[kept], y[kept], int(test[kept].sum()))


def table_path(dataset: str, file: str, place: Path | None) -> Path:
    """The .npz file of a data set, or `UnavailableError`."""
    name = f"{file}.npz"
    places = [] if place is None else [place / name, place / "tabular" / name]
    path = next((path for path in places if path.is_file()), None)
    if path is None:
        where = f"into the folder {place}" if place else "into a folder and name it with --data"
        raise UnavailableError(f"{dataset}: {name} is not there; put it {where}")
    return path


def _table(dataset: str, source: Source, place: Path | None) -> _Rows:
    with np.load(table_path(dataset, source.file, place)) as arrays:
        if "X_train" in arrays:
            X = np.concatenate([arrays["X_train"], arrays["X_test"]])
            y = np.concatenate([arrays["y_train"], arrays["y_test"]])
            return _Rows(X, y.astype(np.int64), len(arrays["y_test"]))
        X, fold = arrays["X"], arrays.get("fold")
        y = arrays["y"].astype(np.int64)
    if source.target is not None:
        return _Rows(np.delete(X, source.target, axis=1), X[:, source.target], 0, fold)
    return _Rows(X, y, 0, fold)
