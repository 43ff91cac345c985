"""Data sets of two classes, scaled to [0, 1] and split as the paper does.

`load` looks for the files in a local folder, and downloads what is published elsewhere. README.md
of the experiments lists the data sets and the names of their files.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm import DataError, load_table

__all__ = ["NAMES", "Dataset", "Split", "folder_of", "images_of", "load", "read_idx"]

_TIMEOUT = 30  # seconds without an answer before a server counts as down
_TEST_SHARE = 0.30
_VALID_SHARE_OF_REST = 15 / 70  # 15 % of all rows where 70 % are not for the test


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test set."""

    X_train: npt.NDArray[np.float64]
    y_train: npt.NDArray[np.int64]
    X_valid: npt.NDArray[np.float64]
    y_valid: npt.NDArray[np.int64]
    X_test: npt.NDArray[np.float64]
    y_test: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of two classes.

    Attributes
    ----------
    name, title : str
        ``"fmnist"`` and ``"Fashion-MNIST 0 vs 3"``.
    X : array (n, d)
        0 <= X <= 1.
    y : array (n,)
        0 or 1; classes[y] is what a label means.
    classes : tuple of str
    feature_names : tuple of str, or None
    image_shape : (height, width), or None if the rows are not images
    source : str
        Where the rows came from.
    test_rows : int, optional
        The last `test_rows` rows are the test set of the source.
    test_limit : int, optional
        Largest size of a test set.
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
        """Split into 55, 15 and 30 % of the rows, stratified by class.

        A test set that the source brings is kept, and the rest is divided 55 to 15.

        Examples
        --------
        >>> split = load("breast-cancer").split(seed=7)
        >>> len(split.X_train), len(split.X_valid), len(split.X_test)
        (313, 85, 171)
        """
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

    def _cut(self, rows: npt.NDArray[np.int64], second: float, seed: int) -> Any:
        """Two stratified parts; `second` is the size of the other, or its share."""
        from sklearn.model_selection import train_test_split

        return train_test_split(rows, test_size=second, stratify=self.y[rows], random_state=seed)


@dataclass(frozen=True)
class _Entry:
    """A data set of the catalogue.

    Attributes
    ----------
    kind : str
        "images": idx files, or .npz with X and y. "libsvm": a LIBSVM file. "parts": .npz with
        X_train, y_train, X_test and y_test. "sklearn": comes with scikit-learn.
    labels : pair of int
        What the source calls the classes that become y = 0 and y = 1; other rows are left out.
    rows, features : int
        Size of the published set, of the two classes.
    names : tuple of str
        Names of the folder of the idx files, or of the file without its ending.
    full_scale : float, optional
        The value that becomes 1 (0 stays 0); None: every column from its least to its largest.
    url : str
        Address of the published file, or of the folder of idx files; "" if there is none.
    md5 : tuple of str
        Checksums of the idx files, in the order of `_IDX`.
    """

    title: str
    kind: Literal["images", "libsvm", "parts", "sklearn"]
    labels: tuple[int, int]
    classes: tuple[str, str]
    rows: int
    features: int
    names: tuple[str, ...] = ()
    full_scale: float | None = None
    image_shape: tuple[int, int] | None = None
    url: str = ""
    md5: tuple[str, ...] = ()
    test_limit: int | None = None


_IDX = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
_CATALOGUE = {
    "fmnist": _Entry(
        "Fashion-MNIST 0 vs 3", "images", (0, 3), ("0", "3"), 14_000, 784,
        names=("fashion-mnist", "fmnist", "FashionMNIST/raw"),
        full_scale=255,
        image_shape=(28, 28),
        url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        md5=(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "mnist": _Entry(
        "MNIST 2 vs 6", "images", (2, 6), ("2", "6"), 13_866, 784,
        names=("mnist", "MNIST/raw"),
        full_scale=255,
        image_shape=(28, 28),
        url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        md5=(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "webspam": _Entry(
        "Webspam", "libsvm", (-1, 1), ("-1", "+1"), 350_000, 254,
        names=("webspam_wc_normalized_unigram.svm",),
        url="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
        "webspam_wc_normalized_unigram.svm.xz",
        test_limit=4_200,  # the size of Fashion-MNIST's test set
    ),
    "breast-cancer": _Entry(
        "Breast cancer Wisconsin (diagnostic)", "sklearn", (0, 1), ("malignant", "benign"), 569, 30
    ),
    "digits": _Entry(
        "Digits 3 vs 8", "sklearn", (3, 8), ("3", "8"), 357, 64,
        full_scale=16,
        image_shape=(8, 8),
    ),
    "nsl-kdd": _Entry(
        "NSL-KDD", "parts", (0, 1), ("normal", "attack"), 148_517, 41,
        names=("nsl_kdd", "nsl-kdd"),
    ),
    "social-honeypot": _Entry(
        "Social honeypot (Twitter)", "parts", (0, 1), ("legitimate", "polluter"), 40_000, 15,
        names=("social_honeypot_twitter", "social-honeypot"),
    ),
}  # fmt: skip
NAMES = tuple(_CATALOGUE)
"""Names that `load` knows."""


@dataclass(frozen=True, eq=False)
class _RawDataset:
    """Rows of all classes as they are published; the last `test_rows` are a test set."""

    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    source: str
    feature_names: tuple[str, ...] | None = None
    test_rows: int | None = None


def load(
    name: str, *, folder: str | os.PathLike[str] | None = None, download: bool = True
) -> Dataset:
    """Load a data set: from a local folder if it is there, else from where it is published.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    folder : path, optional
        Folder with the files; default: the environment variable CARVEGBM_DATA.
    download : bool
        Whether to download what the folder does not hold. Downloads are kept in the user's cache,
        or in the folder that CARVEGBM_CACHE names.

    Examples
    --------
    >>> data = load("digits")
    >>> data.title, data.X.shape, data.classes
    ('Digits 3 vs 8', (357, 64), ('3', '8'))
    """
    if name not in _CATALOGUE:
        raise DataError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    entry = _CATALOGUE[name]
    if entry.kind == "sklearn":
        raw: _RawDataset | None = _built_in(name)
    else:
        raw = _find(entry, folder_of(folder))
        if raw is None and download and entry.url:
            raw = _download(name, entry)
    if raw is None:
        raise DataError(f"{name}: not found; {_remedy(entry)}")
    return _prepare(name, entry, raw)


def folder_of(given: str | os.PathLike[str] | None) -> Path | None:
    """The folder of the data: the one given, else the one CARVEGBM_DATA names, or None."""
    named = os.environ.get("CARVEGBM_DATA", "") if given is None else os.fspath(given)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; name the folder that holds the data sets")
    return folder


def images_of(name: str, folder: Path | None) -> _RawDataset | None:
    """All classes of an image set, from its idx files, or None if they are not there."""
    return next(_image_sets(_CATALOGUE[name], folder), None) if folder is not None else None


def _remedy(entry: _Entry) -> str:
    what = f"{entry.names[0]}.npz"
    if entry.kind == "images":
        what = f"the four idx files of {entry.names[0]} into its subfolder {entry.names[0]}"
    elif entry.kind == "libsvm":
        what = f"{entry.names[0]} (or .gz)"
    return f"put {what} into a folder and name the folder with --data or CARVEGBM_DATA"


# ── sources ──────────────────────────────────────────────────────────────────────────────────


def _built_in(name: str) -> _RawDataset:
    from sklearn import datasets

    if name == "digits":
        bunch, names = datasets.load_digits(), None
    else:
        bunch = datasets.load_breast_cancer()
        names = tuple(map(str, bunch.feature_names))
    return _RawDataset(bunch.data, bunch.target, "comes with scikit-learn", names)


def _find(entry: _Entry, folder: Path | None) -> _RawDataset | None:
    if folder is None:
        return None
    if entry.kind == "images" and (found := next(_image_sets(entry, folder), None)) is not None:
        return found
    endings = ("", ".gz") if entry.kind == "libsvm" else (".npz",)
    names = [name + ending for name in entry.names for ending in endings]
    paths = (folder / place / name for place in ("", "webspam", "tabular") for name in names)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    source = f"local file {path.name}"
    if entry.kind == "libsvm":
        return _read_libsvm(entry, path, source)
    if entry.kind == "images":
        table = load_table(path)
        return _RawDataset(table.X, table.y, source)
    train, test = (load_table(path, label=label) for label in ("y_train", "y_test"))
    X, y = (np.concatenate(parts) for parts in ((train.X, test.X), (train.y, test.y)))
    return _RawDataset(X, y, source, train.feature_names, len(test.X))


def _image_sets(entry: _Entry, folder: Path) -> Iterator[_RawDataset]:
    """Sets of idx files. MNIST and Fashion-MNIST name them alike; their folder tells which."""
    itself = [folder] if folder.absolute().name.lower() in entry.names else []
    for place in [*(folder / name for name in entry.names), *itself]:
        found = [
            next((path for path in (place / f"{name}.gz", place / name) if path.is_file()), None)
            for name in _IDX
        ]
        paths = [path for path in found if path is not None]
        if 0 < len(paths) < len(_IDX):
            raise DataError(f"{place}: all four idx files are needed: {', '.join(_IDX)}")
        if paths:
            yield _read_images(paths, f"local idx files of {entry.names[0]}")


def _read_images(paths: list[Path], source: str) -> _RawDataset:
    train, train_labels, test, test_labels = map(read_idx, paths)
    X = np.concatenate([train, test])
    return _RawDataset(X.reshape(len(X), -1), np.concatenate([train_labels, test_labels]), source)


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read an idx file of bytes: two zeros, a type, the number of dimensions, sizes, values."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if content[:3] != bytes((0, 0, 8)):
        raise DataError(f"{path}: not an idx file of bytes")
    start = 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content, ">u4", content[3], 4).tolist())
    if len(content) - start != math.prod(shape):
        raise DataError(f"{path}: truncated; download it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_libsvm(entry: _Entry, path: Path, source: str) -> _RawDataset:
    table = load_table(path, zero_based=False)
    missing = max(0, entry.features - table.X.shape[1])
    X = np.pad(table.X, ((0, 0), (0, missing))) if missing else table.X
    return _RawDataset(X, table.y, source)


def _download(name: str, entry: _Entry) -> _RawDataset:
    """Download into the cache what is not there; pooch compares the checksums."""
    import pooch

    cache = os.environ.get("CARVEGBM_CACHE") or pooch.os_cache("carvegbm")
    options: dict[str, Any] = {"downloader": pooch.HTTPDownloader(timeout=_TIMEOUT)}
    try:
        if entry.kind == "libsvm":
            unpack = pooch.Decompress(method="xz")
            path = pooch.retrieve(entry.url, None, path=cache, processor=unpack, **options)
            return _read_libsvm(entry, Path(path), entry.url)
        paths = [
            pooch.retrieve(f"{entry.url}{file}.gz", f"md5:{md5}", path=cache, **options)
            for file, md5 in zip(_IDX, entry.md5, strict=True)
        ]
    except (OSError, ValueError) as error:  # requests' errors are OSErrors
        reason = " ".join(str(error).split())
        raise DataError(
            f"{name}: cannot download {entry.url}: {reason}; {_remedy(entry)}"
        ) from None
    return _read_images(list(map(Path, paths)), entry.url)


# ── preparation ──────────────────────────────────────────────────────────────────────────────


def _prepare(name: str, entry: _Entry, raw: _RawDataset) -> Dataset:
    """Keep the two classes as y = 0 and y = 1, and scale every feature to [0, 1]."""
    labels = np.asarray(raw.y).astype(np.float64)
    first, second = entry.labels
    keep = (labels == first) | (labels == second)
    y = (labels[keep] == second).astype(np.int64)
    X = raw.X if keep.all() else raw.X[keep]
    if X.shape[1] != entry.features or not 0 < y.sum() < len(y):
        raise DataError(
            f"{name}: {raw.source} has {X.shape[1]} features and {len(y)} rows of the labels "
            f"{first} and {second}; {entry.features} and rows of both are expected"
        )
    part = "" if len(y) == entry.rows else f" ({len(y):,} of {entry.rows:,} rows)"
    return Dataset(
        name,
        entry.title,
        _scaled(name, entry, X),
        y,
        entry.classes,
        raw.feature_names,
        entry.image_shape,
        raw.source + part,
        raw.test_rows,
        entry.test_limit,
    )


def _scaled(name: str, entry: _Entry, X: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Divide by the full scale, or scale every column from its least to its largest value.

    A column with one value becomes 0. Pixels that nowhere exceed 1 are scaled already.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    if not np.isfinite(low).all() or not np.isfinite(high).all():
        raise DataError(f"{name}: holds values that are not finite")
    if entry.full_scale is not None:
        if low.min() < 0 or high.max() > entry.full_scale:
            raise DataError(f"{name}: pixels must lie in 0…{entry.full_scale:g}")
        scale = entry.full_scale if high.max() > 1 else 1.0
        return np.asarray(np.divide(X, scale, dtype=np.float64))
    span = high - low
    span[span == 0] = 1
    scaled: npt.NDArray[np.float64] = np.subtract(X, low, dtype=np.float64)
    scaled /= span  # in place: Webspam takes 700 MB
    return scaled
