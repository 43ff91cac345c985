"""The document of a report: everything that the page says, as plain values.

Comes in: `Answers`, and what model and data are called. Goes out: what JSON can hold. All of it but
`times` is the same for the same inputs (unless time limits cut rows short).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.data.sparse import is_sparse
from carvegbm.ensemble import Ensemble
from carvegbm.minimal import MinimalWitness
from carvegbm.proofs.content import data_hash, model_hash
from carvegbm.reports import distances, weakness
from carvegbm.reports.asking import Answers, Asked, Distance
from carvegbm.reports.crowds import crowds
from carvegbm.reports.shares import CONFIDENCE, interval
from carvegbm.reports.units import units
from carvegbm.results import plain_labels
from carvegbm.totals import VerificationTotals
from carvegbm.trees.categories import named_codes
from carvegbm.trees.labels import names_of_codes
from carvegbm.verification import Verification

__all__ = ["Subject", "document_of"]


@dataclass(frozen=True)
class Subject:
    """What a report is about, and what things are called there."""

    ensemble: Ensemble
    model_name: str
    data_name: str
    own_labels: bool
    """No labels were given: the model's own answers count as right."""
    files: Mapping[str, str]
    """SHA-256 of the files that were read, by what they are: "model", "data"."""
    feature_names: Sequence[str] | None = None
    image: tuple[int, int] | None = None
    """Height and width, where rows are images."""

    def feature(self, feature: int) -> str:
        """What a feature is called; of an image, the line and the column of its pixel, from 0."""
        if self.feature_names is not None:
            return self.feature_names[feature]
        if self.image is not None:
            line, column = divmod(feature, self.image[1])
            return f"pixel ({line}, {column})"
        return self.ensemble.feature_name(feature)


def document_of(
    answers: Answers,
    subject: Subject,
    *,
    settings: Mapping[str, Any],
    proofs: Sequence[Mapping[str, Any] | None],
    retraining: Sequence[Mapping[str, Any] | None],
    times: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole document."""
    from carvegbm import __version__

    ensemble, classes = subject.ensemble, subject.ensemble.classes
    sample, first = answers.sample, answers.asked[0].verification
    rows = answers.distances[0].rows
    return {
        "report": 1,
        "carvegbm": __version__,
        "model": {
            "name": subject.model_name,
            "sha256": model_hash(ensemble),
            "file_sha256": subject.files.get("model"),
            "task": ensemble.task,
            "trees": ensemble.n_trees,
            "iterations": ensemble.iterations and ensemble.iterations._asdict(),
            "leaves": ensemble.n_leaves,
            "features": ensemble.n_features,
            "classes": plain_labels(classes),
        },
        "data": {
            "name": subject.data_name,
            "sha256": _data_hash(answers.distances[0]),
            "file_sha256": subject.files.get("data"),
            "rows": sample.rows,
            "judged": len(sample.numbers),
            "seed": sample.seed,
            "labels": "own" if subject.own_labels else "given",
            "missing": _missing(rows.given),
        },
        "rows": {
            "number": sample.numbers.tolist(),
            "label": plain_labels(classes[answers.labels]),
            "answer": _answers(answers.distances[0], ensemble),
            "right": first.right.tolist(),
            "margin": first.margin.tolist(),
        },
        "attackers": [
            _attacker(asked, answers, subject) | {"proof": proof, "retraining": trained}
            for asked, proof, trained in zip(answers.asked, proofs, retraining, strict=True)
        ],
        "distances": [
            _distance(place, answers, subject) for place in range(len(answers.distances))
        ],
        "settings": dict(settings),
        "versions": _versions(),
        "interrupted": answers.interrupted,
        "times": dict(times),
    }


def _data_hash(distance: Distance) -> str:
    def parts() -> Any:
        for _, part in distance.problem.parts(distance.rows):
            assert part.labels is not None
            yield part.given, part.labels

    return data_hash(parts())


def _missing(given: Any) -> int:
    values = given.data if is_sparse(given) else given
    return int(np.count_nonzero(np.isnan(values)))


def _answers(distance: Distance, ensemble: Ensemble) -> list[Any]:
    """What the model says of the judged rows."""
    return plain_labels(ensemble.labels_of(ensemble.scores_of(distance.rows.given)))


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("carvegbm", "numpy", "lightgbm", "xgboost", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


# ── attackers ────────────────────────────────────────────────────────────────────────────────


def _attacker(asked: Asked, answers: Answers, subject: Subject) -> dict[str, Any]:
    verification, distance = asked.verification, answers.distances[asked.distance]
    totals = verification.totals()
    return {
        **totals,
        "norm": totals["attacker"]["norm"],
        "budget": asked.attacker.budget,
        "distance": asked.distance,
        "status": verification.status.tolist(),
        "engine": verification.engine.tolist(),
        "population": None if answers.sample.is_whole else _population(totals),
        "classes": _classes(verification, answers.labels, subject.ensemble),
        "large_spread": asked.task.problem.is_large_spread,
        "units": units(asked.task.problem, distance.rows, subject.feature),
        "crowds": crowds(asked.task.problem, distance.rows, subject.feature),
    }


def _population(totals: Mapping[str, Any]) -> dict[str, Any]:
    """Where the shares of all rows lie, of which these were drawn: Clopper and Pearson's interval.

    With at least that probability, whatever the shares; what is unknown counts both ways.
    """
    count = totals["instances"]
    right = round(totals["accuracy"] * count)
    robust, possible = (round(share * count) for share in totals["robustness"])
    return {
        "confidence": CONFIDENCE,
        "accuracy": list(interval(right, count)),
        "robustness": [interval(robust, count)[0], interval(possible, count)[1]],
    }


def _classes(
    verification: Verification, labels: npt.NDArray[np.int32], ensemble: Ensemble
) -> list[dict[str, Any]]:
    names = plain_labels(ensemble.classes)
    found = VerificationTotals.by_label(verification.columns(), labels, verification.attacker)
    return [
        {"class": names[label], **{k: v for k, v in of.to_dict().items() if k != "attacker"}}
        for label, of in found.items()
    ]


# ── distances ────────────────────────────────────────────────────────────────────────────────


def _distance(place: int, answers: Answers, subject: Subject) -> dict[str, Any]:
    distance, ensemble = answers.distances[place], subject.ensemble
    minimal = distance.minimal
    budgets = [asked.attacker.budget for asked in answers.asked if asked.distance == place]
    shown = weakness.shown(minimal, answers.labels)
    told = _Telling(ensemble)
    return {
        "attacker": _without_budget(distance.attacker),
        "norm": _without_budget(distance.attacker)["norm"],
        **distances.described(distance.radius, budgets),
        "witnesses": [
            weakness.plain_witness(witness, subject.feature, told.value) for witness in minimal
        ],
        "missed": minimal.missed,
        **weakness.weak_features(minimal, budgets, subject.feature, ensemble.categories),
        "first": weakness.first(minimal),
        "shown": shown,
        "images": _images(distance, [minimal.witnesses[s["witness"]] for s in shown], subject),
        "largest_budget": _finite(distance.problem.largest_budget),
    }


def _without_budget(attacker: Attacker) -> dict[str, Any]:
    found = attacker.to_dict()
    del found["budget"]
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


class _Telling:
    """How values of features are told: categories by their labels, where these have names."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.names = names_of_codes(ensemble)

    def value(self, feature: int, value: float) -> Any:
        """As plain a value as JSON can hold; missing is None."""
        if feature in self.names:
            if not np.isnan(value) and value not in self.names[feature]:
                return "unknown category"
            (label,) = named_codes(self.names[feature], [value])
            return label.item() if isinstance(label, np.generic) else label
        return None if np.isnan(value) else value


def _images(
    distance: Distance, witnesses: Sequence[MinimalWitness], subject: Subject
) -> dict[str, Any] | None:
    if subject.image is None or not witnesses:
        return None
    height, width = subject.image
    rows = np.array([witness.row for witness in witnesses])
    given = distance.rows.given[rows]
    before = np.asarray(given.toarray() if is_sparse(given) else given, dtype=np.float64)
    before = np.nan_to_num(before)
    pictures = []
    for pixels, witness in zip(before, witnesses, strict=True):
        after = pixels.copy()
        for change in witness.changes:
            after[change.feature] = change.after
        pictures.append({"before": pixels.tolist(), "after": after.tolist()})
    every = [number for picture in pictures for side in picture.values() for number in side]
    return {
        "height": height,
        "width": width,
        "low": min(0.0, *every),
        "high": max(every),
        "pictures": pictures,
    }
