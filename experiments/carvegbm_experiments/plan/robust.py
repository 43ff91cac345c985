"""Robust training beside the published results: data, attackers, figures and parameters.

Facts only; `planning` makes cells of them. A `Row` is one line of a table. Published figures are
copied from their sources as printed. The parameters of every fit are here and nowhere else: those
of a protocol, which the `parameters` of a row add to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "BUILT_IN",
    "PROTOCOLS",
    "PUBLISHED",
    "QUICK_ROWS",
    "ROWS",
    "SOURCES",
    "Protocol",
    "Row",
    "Source",
]


@dataclass(frozen=True)
class Source:
    """Where the rows of a data set come from.

    Attributes
    ----------
    title : str
    images : str
        Name of the image set in `carvegbm_experiments.datasets`, all classes of which are there.
    labels : tuple of int
        The classes of it that are kept; all where there are none.
    file : str
        Name of an .npz file without its ending.
    target : int or None
        The column that is predicted, where it is a regression.
    """

    title: str
    images: str = ""
    labels: tuple[int, ...] = ()
    file: str = ""
    target: int | None = None


def _pair(images: str, first: int, second: int) -> Source:
    name = {"mnist": "MNIST", "fmnist": "Fashion-MNIST"}[images]
    return Source(f"{name} {first} vs {second}", images=images, labels=(first, second))


SOURCES = {
    "mnist-2-6": _pair("mnist", 2, 6),
    "mnist-1-5": _pair("mnist", 1, 5),
    "mnist-3-8": _pair("mnist", 3, 8),
    "mnist-1-7": _pair("mnist", 1, 7),
    "mnist-ten": Source("MNIST, ten classes", images="mnist"),
    "fmnist-5-7": _pair("fmnist", 5, 7),
    "fmnist-3-4": _pair("fmnist", 3, 4),
    "fmnist-7-9": _pair("fmnist", 7, 9),
    "fmnist-2-5": _pair("fmnist", 2, 5),
    "fmnist-ten": Source("Fashion-MNIST, ten classes", images="fmnist"),
    "cod-rna": Source("cod-rna", file="cod_rna_full"),
    "diabetes": Source("Diabetes (Pima)", file="diabetes_pima"),
    "breast-cancer-original": Source(
        "Breast cancer Wisconsin (original)", file="breast_cancer_wisconsin"
    ),
    "spambase": Source("Spambase", file="spambase"),
    "ionosphere": Source("Ionosphere", file="ionosphere"),
    "banknote": Source("Banknote authentication", file="banknote_authentication"),
    "wine": Source("Wine quality", file="wine"),
    "ijcnn1": Source("ijcnn1", file="ijcnn1"),
    "cod-rna-part": Source("cod-rna", file="cod_rna"),
    "nsl-kdd": Source("NSL-KDD", file="nsl_kdd"),
    "social-honeypot": Source("Social honeypot (Twitter)", file="social_honeypot_twitter"),
    "diabetes-progression": Source("Diabetes progression"),
    "wine-alcohol": Source("Wine, alcohol from the rest", file="wine", target=10),
}
"""Beside the data sets of `carvegbm_experiments.datasets`, by name."""

BUILT_IN = ("diabetes-progression",)
"""Data sets that come with scikit-learn."""

Parameters = Mapping[str, Any]
_LARGE_SPREAD: Parameters = {"n_estimators": 500, "num_leaves": 16}


@dataclass(frozen=True)
class Protocol:
    """How rows are divided, which models are trained, and how.

    `division` is "official" (training and test set as published), "folds" (five-fold
    cross-validation of the whole table), "split" (that of `datasets.load`) or "held-out" (the
    published test set, else 30 %, and at most 4,000 rows of it).
    """

    division: str
    models: tuple[str, ...] = ("robust",)
    parameters: Mapping[str, Parameters] = field(default_factory=dict)
    """By model: what its estimator is given beside norm, budget and seed."""
    timeout: float = 10.0
    """Seconds for the verification of a test row."""


PUBLISHED = ("A", "G", "L1/L2")
"""The protocols of published results."""

PROTOCOLS = {
    "A": Protocol("official"),
    "G": Protocol("folds", parameters={"robust": {"n_estimators": 100}}),
    "L1/L2": Protocol("official"),
    "tables": Protocol(
        "held-out",
        ("plain", "certified", "robust"),
        {"plain": _LARGE_SPREAD, "certified": _LARGE_SPREAD},
    ),
    "images": Protocol("split", ("plain", "robust"), {"plain": _LARGE_SPREAD}),
    "regression": Protocol(
        "folds",
        ("plain", "large-spread", "robust"),
        {"plain": _LARGE_SPREAD, "large-spread": _LARGE_SPREAD},
        timeout=2.0,
    ),
}
"""Certified models of `images` are in cells of the paper's evaluation, on the same rows."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a data set, an attacker and what was published about them.

    Attributes
    ----------
    protocol, dataset, norm : str
    budget : float
    clean, robust : float or None
        The published errors in percent, without and with the attacker.
    source : str
        Whose figures they are.
    parameters : dict
        What `RobustClassifier` or `RobustRegressor` is given beside the protocol's.
    inner : bool
        Leave the choice of validation rows to training: it splits a fifth off, chooses by it, and
        trains on all training rows then; where these are few, it cross-validates. Otherwise the
        fifth is set apart for good.
    copies : int
        Of images: how many copies of every training row are added, each shifted by a pixel.
    clean_loss : float or None
        Accuracy that certified and robust training may give up; None: their default.
    """

    protocol: str
    dataset: str
    norm: str
    budget: float
    clean: float | None = None
    robust: float | None = None
    source: str = ""
    parameters: Parameters = field(default_factory=dict)
    inner: bool = False
    copies: int = 0
    clean_loss: float | None = None


_TEN: Parameters = {
    "num_leaves": 400,  # of the stored cells; robust training now takes at most 256
    "n_estimators": 144,
    "n_members": 6,
    "subsample": 0.5,
    "subsample_freq": 1,
}

_A = tuple(
    replace(row, inner=not row.copies)
    for row in (
        Row("A", "mnist-2-6", "inf", 0.3, 0.7, 3.8, "A"),
        Row("A", "mnist-1-5", "inf", 0.3, 0.2, 1.3, "A"),
        Row("A", "fmnist-5-7", "inf", 0.1, 3.6, 8.0, "A"),
        Row("A", "cod-rna", "inf", 0.025, 6.9, 21.3, "A"),
        Row("A", "diabetes", "inf", 0.05, 23.4, 30.5, "A"),
        Row("A", "mnist-ten", "inf", 0.3, 2.68, 12.46, "A", _TEN, copies=1),
        Row("A", "fmnist-ten", "inf", 0.1, 14.15, 23.17, "A", _TEN, copies=1),
    )
)


def _guo(dataset: str, budget: float, accuracy: float, **parameters: Any) -> Row:
    """A row of theirs; they print the robust accuracy."""
    error = round(100 * (1 - accuracy), 2)
    return Row("G", dataset, "inf", budget, None, error, "G", parameters, inner=True)


_G = (
    _guo("mnist-2-6", 0.4, 0.9437),
    _guo("mnist-3-8", 0.4, 0.8829),
    _guo("mnist-1-7", 0.4, 0.9781),
    _guo("fmnist-3-4", 0.2, 0.8674),
    _guo("fmnist-7-9", 0.2, 0.8779),
    _guo("fmnist-2-5", 0.2, 0.9843),
    _guo("breast-cancer-original", 0.3, 0.8838),
    _guo("diabetes", 0.05, 0.6695),
    _guo("spambase", 0.05, 0.7540),
    _guo("ionosphere", 0.2, 0.7960),
    _guo("banknote", 0.1, 0.6680),
    _guo("wine", 0.05, 0.6397),
)

_LP = tuple(
    replace(row, inner=True)
    for row in (
        Row("L1/L2", "mnist-2-6", "1", 0.3, 3.71, 8.24),
        Row("L1/L2", "mnist-2-6", "1", 1.0, 3.4, 5.9),
        Row("L1/L2", "mnist-2-6", "2", 0.8, 3.7, 10.3, "D"),
        Row("L1/L2", "mnist-1-5", "1", 1.0, 0.7, 1.9),
        Row("L1/L2", "mnist-1-5", "2", 0.8, 0.8, 3.7),
        Row("L1/L2", "fmnist-5-7", "1", 0.5, 13.4, 16.3),
        Row("L1/L2", "fmnist-5-7", "2", 0.4, 8.9, 15.5, "D"),
        Row("L1/L2", "breast-cancer-original", "1", 1.0, 0.0, 16.1),
        Row("L1/L2", "breast-cancer-original", "2", 0.7, 0.0, 17.5),
        Row("L1/L2", "diabetes", "1", 0.05, 22.1, 27.9),
    )
)

# Accuracy that may be given up, at smaller budgets and at larger ones.
_SMALL_LOSS, _LARGE_LOSS = 0.01, 0.04
# A smaller and a larger budget each.
_TABLES = {
    "ijcnn1": (0.003, 0.01),
    "cod-rna-part": (0.01, 0.03),
    "nsl-kdd": (0.001, 0.01),
    "social-honeypot": (0.0001, 0.001),
    "spambase": (0.001, 0.005),
}
# Norm, budgets, accuracy that may be given up.
_IMAGES = {
    "fmnist": (
        ("inf", (0.005, 0.01, 0.015), _SMALL_LOSS),
        ("inf", (0.03, 0.05, 0.1), _LARGE_LOSS),
        ("1", (0.05, 0.1, 0.15), _SMALL_LOSS),
        ("0", (1, 2, 3), _SMALL_LOSS),
    ),
    "mnist": (
        ("inf", (0.01, 0.02, 0.03), _SMALL_LOSS),
        ("inf", (0.1, 0.2, 0.3), _LARGE_LOSS),
        ("1", (0.05, 0.1, 0.15), _SMALL_LOSS),
        ("0", (1, 2, 3), _SMALL_LOSS),
    ),
}


def _rounds(norm: str, loss: float) -> Parameters:
    """Norm inf: more rounds than usual where little accuracy may be lost."""
    return {"n_estimators": 360} if norm == "inf" and loss == _SMALL_LOSS else {}


_OURS = (
    *(
        Row("tables", dataset, "inf", budget, clean_loss=loss)
        for dataset, budgets in _TABLES.items()
        for budget, loss in zip(budgets, (_SMALL_LOSS, _LARGE_LOSS), strict=True)
    ),
    *(
        Row("images", dataset, norm, budget, parameters=_rounds(norm, loss), clean_loss=loss)
        for dataset, attackers in _IMAGES.items()
        for norm, budgets, loss in attackers
        for budget in budgets
    ),
)

_TARGETS = {"diabetes-progression": (0.02, 0.05), "wine-alcohol": (0.005, 0.02)}
_REGRESSION = tuple(
    Row("regression", dataset, "inf", budget)
    for dataset, budgets in _TARGETS.items()
    for budget in budgets
)

ROWS = (*_A, *_G, *_LP, *_OURS, *_REGRESSION)
"""Every row, in the order of the tables."""

_LITTLE: Parameters = {"n_estimators": 6, "num_leaves": 4}
QUICK_ROWS = (
    Row("images", "digits", "inf", 0.04, parameters=_LITTLE, clean_loss=0.02),
    Row("regression", "diabetes-progression", "inf", 0.05, parameters=_LITTLE),
)
"""A little of it on data that comes with scikit-learn."""
