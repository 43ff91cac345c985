"""What datasets there are: facts only, no reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CATALOGUE", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One dataset.

    Attributes
    ----------
    name, title : str
    kind : str
        "images": idx files or .npz with X and y. "libsvm": a LIBSVM file. "parts": .npz with
        X_train, y_train, X_test and y_test. "sklearn": comes with scikit-learn.
    labels : pair of int
        What the source calls the classes that become y = 0 and y = 1.
    classes : pair of str
        What they mean.
    rows, features : int
        Size of the published set, the two classes alone.
    names : tuple of str
        What the folder of the idx files, or the file without its ending, may be called.
    full_scale : float or None
        The value that becomes 1 (0 stays 0); None: every column from its least to its largest.
    others : int or None
        Number of rows of the source with all its classes; None: there are no other classes.
    openml : int or None
        Number of the set at OpenML.
    url, sha256 : str or None
        Where the file is published; its checksum where one is published.
    test_limit : int or None
        The test set has at most so many rows.
    """

    name: str
    title: str
    kind: Literal["images", "libsvm", "parts", "sklearn"]
    labels: tuple[int, int]
    classes: tuple[str, str]
    rows: int
    features: int
    names: tuple[str, ...] = ()
    full_scale: float | None = None
    image_shape: tuple[int, int] | None = None
    others: int | None = None
    openml: int | None = None
    url: str | None = None
    sha256: str | None = None
    test_limit: int | None = None

    @property
    def local_only(self) -> bool:
        """Whether there is no place to download it from."""
        return self.openml is None and self.url is None


_FMNIST = Entry(
    name="fmnist",
    title="Fashion-MNIST 0 vs 3",
    kind="images",
    labels=(0, 3),
    classes=("0", "3"),
    rows=14_000,
    features=784,
    names=("fashion-mnist", "fmnist", "FashionMNIST/raw"),
    full_scale=255,
    image_shape=(28, 28),
    others=70_000,
    openml=40996,
)

_MNIST = Entry(
    name="mnist",
    title="MNIST 2 vs 6",
    kind="images",
    labels=(2, 6),
    classes=("2", "6"),
    rows=13_866,
    features=784,
    names=("mnist", "MNIST/raw"),
    full_scale=255,
    image_shape=(28, 28),
    others=70_000,
    openml=554,
)

_WEBSPAM = Entry(
    name="webspam",
    title="Webspam",
    kind="libsvm",
    labels=(-1, 1),
    classes=("-1", "+1"),
    rows=350_000,
    features=254,
    names=("webspam_wc_normalized_unigram.svm",),
    url="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
    "webspam_wc_normalized_unigram.svm.xz",
    test_limit=4_200,  # Fashion-MNIST's test set: 30 % of 14,000
)

_BREAST_CANCER = Entry(
    name="breast-cancer",
    title="Breast cancer Wisconsin (diagnostic)",
    kind="sklearn",
    labels=(0, 1),
    classes=("malignant", "benign"),
    rows=569,
    features=30,
)

_DIGITS = Entry(
    name="digits",
    title="Digits 3 vs 8",
    kind="sklearn",
    labels=(3, 8),
    classes=("3", "8"),
    rows=357,
    features=64,
    full_scale=16,
    image_shape=(8, 8),
    others=1_797,
)

_NSL_KDD = Entry(
    name="nsl-kdd",
    title="NSL-KDD",
    kind="parts",
    labels=(0, 1),
    classes=("normal", "attack"),
    rows=148_517,
    features=41,
    names=("nsl_kdd", "nsl-kdd"),
)

_SOCIAL_HONEYPOT = Entry(
    name="social-honeypot",
    title="Social honeypot (Twitter)",
    kind="parts",
    labels=(0, 1),
    classes=("legitimate", "polluter"),
    rows=40_000,
    features=15,
    names=("social_honeypot_twitter", "social-honeypot"),
)

CATALOGUE = {
    entry.name: entry
    for entry in (
        _FMNIST,
        _MNIST,
        _WEBSPAM,
        _BREAST_CANCER,
        _DIGITS,
        _NSL_KDD,
        _SOCIAL_HONEYPOT,
    )
}
