"""The experiment of the demo: three kinds of models on handwritten digits, six attackers.

Comes in: nothing; the data are scikit-learn's. Goes out: `Comparison`, accuracy and proven
robustness by kind of model and attacker, and a witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.verification import Verification

__all__ = ["ATTACKERS", "FOLDS", "KINDS", "Comparison", "Judged", "Witness", "compare", "name_of"]

ATTACKERS: tuple[tuple[str, float, str], ...] = (
    ("inf", 0.04, "every pixel by 0.04"),
    ("inf", 0.1, "every pixel by 0.1"),
    ("0", 1, "one pixel, at will"),
    ("0", 2, "two pixels, at will"),
    ("1", 0.2, "pixels, 0.2 in all"),
    ("1", 0.5, "pixels, 0.5 in all"),
)
"""Norm, budget, and what may change; pixels are grey levels from 0 to 1 in steps of 1/16."""

KINDS = {
    "plain": "plain LightGBM",
    "certified": "certified training",
    "robust": "robust training",
}
"""Certified models are large-spread; robust ones may have any shape."""

FOLDS = 5

SIZES = (2, 4)
"""Leaves per tree to choose from, for plain and certified models; larger trees did worse on
validation images."""

MAX_CROWDING = (0.12, 0.25, None)
"""For certified training to choose from; of few training rows a smaller one leaves next to none."""

CLEAN_LOSS = 0.03
"""What certified training may lose of plain LightGBM's accuracy: two of 72 validation images."""

LEARNING: dict[str, Any] = {"n_estimators": 100, "min_child_samples": 5, "random_state": 0}
"""Of plain and certified models; robust training has its own defaults."""

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Sample = tuple[Floats, Labels]


@dataclass(frozen=True)
class Judged:
    """One kind of model against one attacker, over all folds."""

    accuracy: float
    robustness: tuple[float, float]
    """At least and at most; equal where everything was decided."""
    trees: float
    """The mean over the folds."""


@dataclass(frozen=True)
class Witness:
    """An image that the plain model gets right until one pixel is changed.

    The robust model is proven to stay right on it, whichever pixel is changed.
    """

    image: Floats
    attacked: Floats
    label: int
    answer: int
    """The plain model's, on the attacked image."""
    margin: float
    """The plain model's, on the image as it is."""


@dataclass(frozen=True)
class Comparison:
    """What the demo found."""

    instances: int
    judged: list[dict[str, Judged]]
    """For every attacker, by kind of model."""
    witness: Witness | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        results = []
        for (norm, budget, _), judged in zip(ATTACKERS, self.judged, strict=True):
            result: dict[str, Any] = {"norm": norm, "budget": budget}
            for kind, of in judged.items():
                result[f"{kind}_accuracy"] = of.accuracy
                result[f"{kind}_robustness"] = list(of.robustness)
                result[f"{kind}_trees"] = of.trees
            results.append(result)
        return {"instances": self.instances, "results": results}


def name_of(norm: str, budget: float) -> str:
    """An attacker in few letters: L∞ 0.04."""
    return f"L{'∞' if norm == 'inf' else norm} {budget:g}"


def compare(threads: int | None = None, tick: Callable[[int], object] | None = None) -> Comparison:
    """Train, tune and verify all kinds of models for all attackers; the same on every run.

    Every image is judged once, by models that were trained and chosen without it. All kinds get
    the same training rows and validation rows. Plain models are chosen by accuracy on the
    validation rows, certified and robust ones by proven robustness.
    """
    from carvegbm.processes import in_processes
    from carvegbm.training.validation import thread_count

    folds = list(_folds())
    pieces = [(norm, budget, fold) for norm, budget, _ in ATTACKERS for fold in folds]
    workers = min(thread_count(threads), len(pieces))
    # So little data keeps one thread busy: the pieces run side by side, each in its own process.
    tell = tick or (lambda _: None)
    tell(0)
    parts = []
    for part in in_processes(_judge, pieces, workers, ordered=True):
        parts.append(part)
        tell(len(parts))
    per_attacker = [parts[i : i + len(folds)] for i in range(0, len(parts), len(folds))]
    # The most certain answer that one pixel overturns.
    witnesses = [part.witness for part in parts if part.witness is not None]
    return Comparison(
        sum(len(test[1]) for *_, test in folds),
        [{kind: _over_folds(kind, of) for kind in KINDS} for of in per_attacker],
        max(witnesses, key=lambda witness: witness.margin, default=None),
    )


@dataclass(frozen=True)
class _Part:
    """One attacker and one fold."""

    results: dict[str, Verification]
    trees: dict[str, int]
    witness: Witness | None


def _judge(norm: str, budget: float, fold: tuple[Sample, Sample, Sample]) -> _Part:
    import carvegbm

    train, valid, test = fold
    attacker = carvegbm.Attacker(norm, budget)
    models = {
        "plain": _plain(train, valid),
        "certified": _certified(train, valid, attacker),
        "robust": _robust(train, valid, attacker),
    }
    ensembles = {kind: carvegbm.load(model) for kind, model in models.items()}
    results = {
        kind: carvegbm.verify(ensemble, *test, attacker, threads=1, progress=False)
        for kind, ensemble in ensembles.items()
    }
    trees = {kind: ensemble.n_trees for kind, ensemble in ensembles.items()}
    is_one_pixel = (norm, budget) == ("0", 1)
    return _Part(results, trees, _fooled(models["plain"], test, results) if is_one_pixel else None)


def _folds() -> Iterator[tuple[Sample, Sample, Sample]]:
    """Training, validation and test rows, about 214, 72 and 71 of the 357 images."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedKFold, train_test_split

    X, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 8)
    X, y = X[chosen] / 16, y[chosen]
    for rest, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        X_train, X_valid, y_train, y_valid = train_test_split(
            X[rest], y[rest], test_size=0.25, stratify=y[rest], random_state=0
        )
        yield (X_train, y_train), (X_valid, y_valid), (X[test], y[test])


def _plain(train: Sample, valid: Sample) -> Any:
    """LightGBM as it comes, of the size that is most accurate on the validation rows."""
    from lightgbm import LGBMClassifier

    shared = {**LEARNING, "n_jobs": 1, "verbose": -1}
    tried = [LGBMClassifier(num_leaves=size, **shared).fit(*train) for size in SIZES]
    return max(tried, key=lambda model: model.score(*valid))


def _certified(train: Sample, valid: Sample, attacker: Attacker) -> Any:
    """A large-spread model that is trained to be robust, of the size that is the most robust."""
    from carvegbm.training.tuning import tune

    tuning = tune(
        *train,
        norm=attacker.norm,
        budget=attacker.budget,
        valid=valid,
        certified=True,
        clean_loss=CLEAN_LOSS,
        max_crowding=MAX_CROWDING,
        grid={"num_leaves": SIZES},
        early_stopping_rounds=None,
        n_jobs=1,
        **LEARNING,
    )
    if tuning.interrupted:
        raise KeyboardInterrupt
    return tuning.estimator


def _robust(train: Sample, valid: Sample, attacker: Attacker) -> Any:
    """An ensemble of any shape, grown against the attacker; robust training as it comes."""
    from carvegbm.training.estimators import RobustClassifier

    model = RobustClassifier(norm=attacker.norm, budget=attacker.budget, random_state=0, n_jobs=1)
    model.fit(*train, eval_set=[valid])
    if model.stopped_because_ == "interrupted":  # fit returns what it has
        raise KeyboardInterrupt
    return model


def _fooled(model: Any, test: Sample, results: Mapping[str, Verification]) -> Witness | None:
    """Of the images that the robust model keeps and the plain one loses, its most certain."""
    import carvegbm

    X, y = test
    plain, robust = results["plain"], results["robust"]
    rows = np.flatnonzero((plain.status == "fragile") & (robust.status == "robust"))
    if not len(rows):
        return None
    row = rows[plain.margin[rows].argmax()]
    found = carvegbm.attack(model, X[[row]], y[[row]], plain.attacker, threads=1, progress=False)
    answer = int(model.predict(found.witnesses)[0])
    return Witness(X[row], found.witnesses[0], int(y[row]), answer, float(plain.margin[row]))


def _over_folds(kind: str, parts: Sequence[_Part]) -> Judged:
    results = [part.results[kind] for part in parts]
    shares = [(result.accuracy, *result.robustness) for result in results]
    weights = [len(result.status) for result in results]
    accuracy, lower, upper = np.average(shares, axis=0, weights=weights).tolist()
    return Judged(accuracy, (lower, upper), float(np.mean([part.trees[kind] for part in parts])))
