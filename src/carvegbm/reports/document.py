"""The report document: every number of the page as plain values, ready for JSON.

`times` is the only entry in which two documents of the same inputs differ (unless a time limit cut
rows short). Infinite and missing numbers are None.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.sparse import is_sparse
from carvegbm.engines.sparse import ZERO
from carvegbm.minimal import Minimal, MinimalWitness
from carvegbm.model.categories import named_codes, names_of_codes
from carvegbm.model.ensemble import Ensemble
from carvegbm.problem import Problem, Rows
from carvegbm.proofs.content import data_hash, model_hash
from carvegbm.reports import statistics
from carvegbm.reports.query import AttackerResult, DistanceResult, QueryResults
from carvegbm.results import plain_column, plain_labels
from carvegbm.totals import VerificationTotals

__all__ = ["Names", "document_of"]

Floats = npt.NDArray[np.float64]

SHARES = (Fraction(99, 100), Fraction(95, 100), Fraction(90, 100))
"""Shares of the right rows for which the document states the budget they withstand."""
NEAR_ZERO = 1e-30
"""A radius below this is a step across LightGBM's threshold beside zero."""

_MOST_CURVE_STEPS = 200
_FIRST_WITNESSES = 10
_SHOWN_WITNESSES = 8
_VERY_DIFFERENT = 10
"""Ranges of features are very different if one is this many times another."""


@dataclass(frozen=True)
class Names:
    """Names of the model, the data and the features, and hashes of the files they come from."""

    ensemble: Ensemble
    model: str
    data: str
    own_labels: bool
    """No labels were given: the model's own answers count as right."""
    file_hashes: Mapping[str, str]
    """SHA-256 of the files of "model" and "data", where known."""
    features: Sequence[str] | None = None
    image: tuple[int, int] | None = None
    """Height and width if rows are images."""

    def feature(self, feature: int) -> str:
        """The name of a feature; of an image's pixel, its line and column from 0."""
        if self.features is not None:
            return self.features[feature]
        if self.image is not None:
            line, column = divmod(feature, self.image[1])
            return f"pixel ({line}, {column})"
        return self.ensemble.feature_name(feature)


def document_of(
    results: QueryResults,
    names: Names,
    *,
    settings: Mapping[str, Any],
    proofs: Sequence[Mapping[str, Any] | None],
    times: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole document."""
    from carvegbm import __version__

    ensemble, first = names.ensemble, results.distances[0]
    verification = results.attackers[0].verification
    given = first.rows.given
    values = given.data if is_sparse(given) else given
    return {
        "report": 1,
        "carvegbm": __version__,
        "model": {
            "name": names.model,
            "sha256": model_hash(ensemble),
            "file_sha256": names.file_hashes.get("model"),
            "task": ensemble.task,
            "trees": ensemble.n_trees,
            "iterations": ensemble.iterations and ensemble.iterations._asdict(),
            "leaves": ensemble.n_leaves,
            "features": ensemble.n_features,
            "classes": plain_labels(ensemble.classes),
        },
        "data": {
            "name": names.data,
            "sha256": _data_hash(first),
            "file_sha256": names.file_hashes.get("data"),
            "rows": results.total,
            "judged": len(results.rows),
            "seed": results.seed,
            "labels": "own" if names.own_labels else "given",
            "missing": int(np.count_nonzero(np.isnan(values))),
        },
        "rows": {
            "number": results.rows.tolist(),
            "label": plain_labels(ensemble.classes[results.labels]),
            "answer": plain_labels(ensemble.labels_of(ensemble.scores_of(given))),
            "right": verification.right.tolist(),
            "margin": verification.margin.tolist(),
        },
        "attackers": [
            {**_attacker(result, results, names), "proof": proof}
            for result, proof in zip(results.attackers, proofs, strict=True)
        ],
        "distances": [_distance(place, results, names) for place in range(len(results.distances))],
        "settings": dict(settings),
        "versions": _versions(),
        "interrupted": results.interrupted,
        "times": dict(times),
    }


def _data_hash(distance: DistanceResult) -> str:
    def batches() -> Any:
        for _, part in distance.problem.parts(distance.rows):
            assert part.labels is not None
            yield part.given, part.labels

    return data_hash(batches())


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


def _attacker(result: AttackerResult, results: QueryResults, names: Names) -> dict[str, Any]:
    verification, problem = result.verification, result.task.problem
    rows = results.distances[result.distance].rows
    counted = VerificationTotals.of(verification.columns(), verification.attacker)
    totals = verification.totals()
    return {
        **totals,
        "norm": totals["attacker"]["norm"],
        "budget": result.attacker.budget,
        "distance": result.distance,
        "right": counted.right,
        "undecided": counted.open,
        "status": verification.status.tolist(),
        "engine": verification.engine.tolist(),
        "engines": dict(Counter(verification.engine.tolist())),
        "population": None if results.seed is None else _population(counted),
        "classes": _classes(result, results, names.ensemble),
        "large_spread": problem.is_large_spread,
        "changeable": _changeable(problem),
        "units": _units(problem, rows, names),
        "zero_trap": _zero_trap(problem, rows),
    }


def _population(counted: VerificationTotals) -> dict[str, Any]:
    """Confidence intervals for all rows; unknown rows widen that of robustness on both sides."""
    n, robust = counted.instances, counted.counts["robust"]
    lower, _ = statistics.clopper_pearson(robust, n)
    _, upper = statistics.clopper_pearson(robust + counted.open, n)
    return {
        "confidence": statistics.CONFIDENCE,
        "accuracy": list(statistics.clopper_pearson(counted.right, n)),
        "robustness": [lower, upper],
    }


def _classes(
    result: AttackerResult, results: QueryResults, ensemble: Ensemble
) -> list[dict[str, Any]]:
    verification, labels = result.verification, plain_labels(ensemble.classes)
    found = VerificationTotals.by_label(
        verification.columns(), results.labels, verification.attacker
    )
    least = min(totals.robustness[0] for totals in found.values())
    entries = []
    for label, totals in found.items():
        plain = {key: value for key, value in totals.to_dict().items() if key != "attacker"}
        weakest = totals.robustness[0] == least
        entries.append({"class": labels[label], **plain, "right": totals.right, "weakest": weakest})
    return entries


def _changeable(problem: Problem) -> int:
    """Number of features that the attacker's `features` option lets it change."""
    allowed = problem.limits.changeable
    return int(np.count_nonzero(allowed)) if len(allowed) else problem.ensemble.n_features


def _movable(problem: Problem) -> list[int]:
    """The numeric features that splits test and the attacker can change, ascending."""
    ensemble, limits = problem.ensemble, problem.limits
    tested = ensemble.nodes["feature"]
    excluded = {*ensemble.categories, *(f for group in limits.one_hot for f in group)}
    if len(limits.changeable):
        excluded |= set(np.flatnonzero(limits.changeable == 0).tolist())
    return sorted(set(tested[tested >= 0].tolist()) - excluded)


def _column(problem: Problem, rows: Rows, feature: int) -> Floats:
    """The values of a feature as given."""
    matrix: Any = rows.given
    if not rows.is_sparse:
        return np.asarray(matrix[:, feature], dtype=np.float64)
    found = np.full(len(rows), 0.0 if problem.ensemble.absent == "zero" else np.nan)
    stored = matrix[:, [feature]].tocoo()
    found[stored.row] = stored.data
    return found


def _units(problem: Problem, rows: Rows, names: Names) -> dict[str, Any] | None:
    """The budget, spent on one feature alone, as a share of the feature's range in the rows.

    Over the features that are tested, changeable and not constant; None if there is none, and for
    norm 0. `very_different` warns of an attacker without a scale per feature.
    """
    if problem.attacker.norm == 0:
        return None
    limits = problem.limits
    shares: dict[int, float] = {}
    for feature in _movable(problem):
        values = _column(problem, rows, feature)
        known = values[~np.isnan(values)]
        width = float(known.max() - known.min()) if len(known) else 0.0
        scale = float(limits.scale[feature]) if len(limits.scale) else 1.0
        if len(limits.scale_up):
            scale = max(scale, float(limits.scale_up[feature]))
        with np.errstate(over="ignore"):
            share = problem.attacker.budget * scale / width if width > 0 else np.inf
        if np.isfinite(share):
            shares[feature] = share
    if not shares:
        return None
    order = sorted(shares, key=lambda feature: (shares[feature], feature))
    smallest, largest = (
        {"feature": feature, "name": names.feature(feature), "share": shares[feature]}
        for feature in (order[0], order[-1])
    )
    has_scales = not isinstance(problem.attacker.scale, int | float | None)
    ratio = shares[order[-1]] > _VERY_DIFFERENT * shares[order[0]]
    return {
        "features": len(order),
        "median": float(np.median(list(shares.values()))),
        "smallest": smallest,
        "largest": largest,
        "very_different": bool(ratio and not has_scales),
    }


def _zero_trap(problem: Problem, rows: Rows) -> dict[str, int] | None:
    """Count LightGBM's thresholds beside zero, and the rows with 0 there that the budget moves.

    None if there are no such rows, and for norm 0.
    """
    if problem.attacker.norm == 0:
        return None
    ensemble, core, limits = problem.ensemble, problem.core_attacker, problem.limits
    n = ensemble.n_features
    nodes = ensemble.nodes[ensemble.nodes["feature"] >= 0]
    size = np.abs(nodes["threshold"])
    nodes = nodes[(size >= ZERO / 2) & (size <= 2 * ZERO)]
    number: Any = np.float32 if ensemble.input_precision == "float32" else np.float64
    crossed: dict[tuple[int, float], npt.NDArray[np.bool_]] = {}
    for feature in set(_movable(problem)) & set(nodes["feature"].tolist()):
        if feature in problem.encoding.grids:  # a whole step is not next to nothing
            continue
        lower, upper = _bounds(problem, rows, feature)
        for threshold in np.unique(nodes["threshold"][nodes["feature"] == feature]).tolist():
            z = np.zeros(n)  # 0 lies on the left of thresholds >= 0
            z[feature] = threshold
            if threshold >= 0:
                z[feature] = np.nextafter(number(threshold), number(np.inf))
            scale = limits.scale_up if threshold >= 0 and len(limits.scale_up) else limits.scale
            is_closed = len(scale) > 0 and scale[feature] == 0
            if not is_closed and core.distance(np.zeros(n), z) <= problem.attacker.budget:
                within = (lower <= z[feature]) & (z[feature] <= upper)
                crossed[feature, threshold] = (_column(problem, rows, feature) == 0) & within
    found = {place: chosen for place, chosen in crossed.items() if chosen.any()}
    if not found:
        return None
    return {
        "thresholds": len(found),
        "features": len({feature for feature, _ in found}),
        "rows": int(np.count_nonzero(np.any(list(found.values()), axis=0))),
    }


def _bounds(problem: Problem, rows: Rows, feature: int) -> tuple[Any, Any]:
    """Lower and upper limits of a feature: numbers, or one per row."""
    if rows.bounds is None:
        lower, upper = problem.encoding.bounds
        low = lower[feature] if len(lower) else -np.inf
        return low, upper[feature] if len(upper) else np.inf
    if rows.is_sparse:  # per-row limits are those of the compact problem
        feature = int(np.flatnonzero(problem.compact[1].chosen == feature)[0])
    return rows.bounds[0][:, feature], rows.bounds[1][:, feature]


# ── distances ────────────────────────────────────────────────────────────────────────────────


def _distance(place: int, results: QueryResults, names: Names) -> dict[str, Any]:
    distance, ensemble = results.distances[place], names.ensemble
    problem, minimal = distance.problem, distance.minimal
    budgets = [one.attacker.budget for one in results.attackers if one.distance == place]
    attacker = problem.attacker.to_dict()
    del attacker["budget"]
    shown = _shown(minimal, results.labels)
    labels = names_of_codes(ensemble)
    return {
        "attacker": attacker,
        "norm": attacker["norm"],
        "changeable": _changeable(problem),
        **_radii(distance, budgets),
        "witnesses": [_witness(witness, names, labels) for witness in minimal],
        "missed": minimal.missed,
        "borderline": sum(witness.borderline for witness in minimal),
        **_weak_features(minimal, budgets, names),
        "first": _nearest_first(minimal)[:_FIRST_WITNESSES],
        "shown": shown,
        "images": _images(distance, [minimal.witnesses[s["witness"]] for s in shown], names),
        "largest_budget": _finite(problem.largest_budget),
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _radii(distance: DistanceResult, budgets: Sequence[float]) -> dict[str, Any]:
    """Radii of all rows and their statistics; `budgets` are those of the attackers."""
    lower, upper = distance.radius.lower, distance.radius.upper
    known = statistics.known_radii(lower, upper)
    steps = statistics.curve_budgets(lower, upper, _MOST_CURVE_STEPS)
    at = sorted({*steps.tolist(), *budgets})
    low, high = statistics.robust_shares(lower, upper, at)
    whole = distance.radius.norm == 0
    edges, counts = statistics.histogram(known, whole)
    near_zero = known[known < NEAR_ZERO]
    stays = statistics.budgets_for_shares(lower, upper, SHARES)
    return {
        "radius": {"lower": plain_column(lower), "upper": plain_column(upper)},
        "right": int(np.count_nonzero(upper > 0)),
        "wrong": int(np.count_nonzero(upper == 0)),
        "never": int(np.count_nonzero(np.isinf(lower))),
        "undecided": int(np.count_nonzero(lower != upper)),
        "known": len(known),
        "near_zero": {"rows": len(near_zero), "smallest": float(known[0])}
        if len(near_zero)
        else None,
        "smallest": float(known.min()) if len(known) else None,
        "median": float(np.median(known)) if len(known) else None,
        "largest": float(known.max()) if len(known) else None,
        "curve": {"budgets": at, "lower": low.tolist(), "upper": high.tolist()},
        "histogram": [
            {"from": start, "to": end, "count": count}
            for start, end, count in zip(
                edges.tolist(), edges.tolist()[0 if whole else 1 :], counts.tolist(), strict=False
            )
        ],
        "stays": [
            {"share": float(share), "lower": _finite(low), "upper": _finite(high)}
            for share, (low, high) in zip(SHARES, stays, strict=False)
        ],
    }


def _witness(witness: MinimalWitness, names: Names, labels: Mapping[int, Any]) -> dict[str, Any]:
    return {
        "row": witness.row,
        "distance": witness.distance,
        "nearest": witness.is_nearest,
        "margin": witness.margin,
        "answer": witness.answer,
        "borderline": witness.borderline,
        "changes": [
            {
                "feature": change.feature,
                "name": names.feature(change.feature),
                "before": _value(change.feature, change.before, labels),
                "after": _value(change.feature, change.after, labels),
            }
            for change in witness.changes
        ],
    }


def _value(feature: int, value: float, labels: Mapping[int, Any]) -> Any:
    """A plain value of a feature: a category's label where it has one, None where missing."""
    if feature not in labels:
        return None if np.isnan(value) else value
    if not np.isnan(value) and value not in labels[feature]:
        return "unknown category"
    (label,) = named_codes(labels[feature], [value])
    return label.item() if isinstance(label, np.generic) else label


def _weak_features(minimal: Minimal, budgets: Sequence[float], names: Names) -> dict[str, Any]:
    """What the witnesses within the largest budget change; if there are none, all witnesses."""
    within = [witness for witness in minimal if witness.distance <= max(budgets)]
    some = within or list(minimal)
    changes = [
        (place, change.feature, change.after - change.before)
        for place, witness in enumerate(some)
        for change in witness.changes
    ]
    witnesses, features, moves = zip(*changes, strict=True) if changes else ((), (), ())
    found = statistics.changed_features(
        np.array(witnesses, dtype=np.int64),
        np.array(features, dtype=np.int64),
        np.array(moves, dtype=np.float64),
        names.ensemble.categories,
    )
    return {
        "weak": [
            {
                **one._asdict(),
                "name": names.feature(one.feature),
                "share": one.rows / len(some),
            }
            for one in found
        ],
        "weak_budget": max(budgets) if within else None,
        "weak_witnesses": len(some),
        "weak_nearest": sum(witness.is_nearest for witness in some),
    }


def _nearest_first(minimal: Minimal) -> list[int]:
    """Positions of all witnesses by distance."""
    return sorted(range(len(minimal)), key=lambda i: (minimal.witnesses[i].distance, i))


def _shown(minimal: Minimal, labels: npt.NDArray[np.int32]) -> list[dict[str, Any]]:
    """Witnesses to show: the nearest, the one at the median distance, the nearest of each class."""
    if len(minimal) == 0:
        return []
    near = _nearest_first(minimal)
    found = {near[0]: "first"}
    found.setdefault(near[len(near) // 2], "typical")
    for label in np.unique(labels).tolist():
        place = next((i for i in near if labels[minimal.witnesses[i].row] == label), None)
        if place is not None and len(found) < _SHOWN_WITNESSES:
            found.setdefault(place, "class")
    return [{"witness": place, "why": why} for place, why in found.items()]


def _images(
    distance: DistanceResult, witnesses: Sequence[MinimalWitness], names: Names
) -> dict[str, Any] | None:
    if names.image is None or not witnesses:
        return None
    given = distance.rows.given[np.array([witness.row for witness in witnesses])]
    values = np.asarray(given.toarray() if is_sparse(given) else given, dtype=np.float64)
    before = np.nan_to_num(values)
    after = before.copy()
    for row, witness in enumerate(witnesses):
        for change in witness.changes:
            after[row, change.feature] = change.after
    height, width = names.image
    return {
        "height": height,
        "width": width,
        "low": min(0.0, float(before.min()), float(after.min())),
        "high": max(float(before.max()), float(after.max())),
        "pictures": [
            {"before": one.tolist(), "after": other.tolist()}
            for one, other in zip(before, after, strict=True)
        ],
    }
