"""Documents of reports made by hand, for tests of the page: whole, and consistent in themselves.

A radius is a number (0: wrong already), infinite (no budget flips the row), or a pair of bounds
(time ran out). All that a document says of rows follows from radii and budgets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Radius", "document", "everything", "plain", "with_images"]

STATUSES = ("robust", "fragile", "vulnerable", "broken", "unknown")
Radius = float | tuple[float, float]


def plain(**changed: Any) -> dict[str, Any]:
    """Twelve rows, two classes, one attacker; nothing special."""
    radii = [0, 0, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.5]
    return document(**{"radii": {"inf": radii}, "attackers": [("inf", 0.02)], **changed})


def everything() -> dict[str, Any]:
    """Three norms, four attackers, undecided rows, a sample, limits, proofs, retraining."""
    count = 40
    radii: dict[Any, list[Radius]] = {
        "inf": [0.0, 0.0] + [0.004 * i for i in range(1, count - 1)],
        0: [0.0, 0.0] + [float(1 + i % 4) for i in range(count - 4)] + [math.inf, (2.0, math.inf)],
        1: [0.0, 0.0] + [10.0 ** (i % 9 - 6) for i in range(count - 4)] + [(0.1, 0.3), math.inf],
    }
    attackers = [("inf", 0.02), ("inf", 0.05), (0, 2.0), (1, 0.2)]
    made = document(radii=radii, attackers=attackers, rows=1000, classes=["ham", "spam"])
    made["attackers"][1]["attacker"].update(
        features=["feature 0", 2],
        bounds=[0, None],
        step={"feature 0": "1/255"},
        scale={"feature 0": [0, 100], "2": 5.0},
        one_hot=[[4, 5]],
        categories={"6": ["a", "b"]},
    )
    made["attackers"][0]["crowds"]["zeros"] = {"thresholds": 3, "features": 2, "rows": 17}
    made["attackers"][0]["proof"] = {
        "file": "proof.cvp",
        "sha256": "c" * 64,
        "bytes": 12_345,
        "proved": 39,
        "unproved": 1,
        "checked": True,
        "said": "39 proofs hold",
    }
    made["attackers"][0]["retraining"] = {
        "rows": {"train": 600, "valid": 200, "test": 200},
        "seed": 0,
        "models": [
            retrained(name, accuracy, counts, trees, note)
            for name, accuracy, counts, trees, note in (
                ("plain LightGBM", 0.95, (100, 100), 100, None),
                ("robust training", 0.94, (162, 164), 120, "stopped early"),
                ("this model", 0.96, (104, 105), 80, None),
            )
        ],
    }
    made["attackers"][1]["retraining"] = {"refused": "nothing can be trained on <this>"}
    made["distances"][0]["largest_budget"] = 0.0123
    made["distances"][1]["largest_budget"] = None
    made["times"]["retraining"] = 12.5
    return made


def retrained(
    name: str, accuracy: float, counts: tuple[int, int], trees: int, note: str | None
) -> dict[str, Any]:
    """A model tested on 200 rows; `counts` of rows that are robust, and that may be."""
    low, high = (count / 200 for count in counts)
    return {
        "name": name,
        "accuracy": accuracy,
        "robust": counts[0],
        "robustness": [low, high],
        "interval": [max(0.0, low - 0.07), min(1.0, high + 0.07)],
        "trees": trees,
        "note": note,
    }


def with_images() -> dict[str, Any]:
    """Rows are images of 3 by 4 pixels."""
    made = plain(features=12)
    distance = made["distances"][0]
    pictures = []
    for shown in distance["shown"]:
        witness = distance["witnesses"][shown["witness"]]
        before = [i / 11 for i in range(12)]
        after = list(before)
        for change in witness["changes"]:
            change["before"] = before[change["feature"]]
            change["after"] = change["before"] + 0.1 * (-1) ** change["feature"]
            after[change["feature"]] = change["after"]
        pictures.append({"before": before, "after": after})
    distance["images"] = {"height": 3, "width": 4, "low": 0.0, "high": 1.1, "pictures": pictures}
    return made


def document(
    *,
    radii: Mapping[Any, Sequence[Radius]],
    attackers: Sequence[tuple[Any, float]],
    rows: int | None = None,
    classes: Sequence[Any] = (0, 1),
    features: int = 7,
    own: bool = False,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A document; `radii` by norm, `rows` of which those judged were drawn."""
    judged = len(next(iter(radii.values())))
    rows = judged if rows is None else rows
    first = next(iter(radii.values()))
    right = [radius != 0 for radius in first]
    labels = [classes[i % len(classes)] for i in range(judged)]
    other = [classes[(i + 1) % len(classes)] for i in range(judged)]
    called = [f"feature {i}" for i in range(features)] if names is None else list(names)
    norms = list(radii)
    distances = [
        _distance(norm, radii[norm], other, called, [b for n, b in attackers if n == norm])
        for norm in norms
    ]
    asked = [
        _attacker(norm, budget, norms.index(norm), radii[norm], labels, called, rows > judged)
        for norm, budget in attackers
    ]
    return {
        "report": 1,
        "carvegbm": "0.1.0",
        "model": {
            "name": "model.txt",
            "sha256": "a" * 64,
            "file_sha256": "b" * 64,
            "task": "binary" if len(classes) == 2 else "multiclass",
            "trees": 100,
            "leaves": 3100,
            "features": features,
            "classes": list(classes),
        },
        "data": {
            "name": "data.csv",
            "sha256": "d" * 64,
            "file_sha256": "e" * 64,
            "rows": rows,
            "judged": judged,
            "seed": 0 if rows > judged else None,
            "labels": "own" if own else "given",
            "missing": 0,
        },
        "rows": {
            "number": [3 * i for i in range(judged)],
            "label": labels,
            "answer": [a if ok else b for ok, a, b in zip(right, labels, other, strict=True)],
            "right": right,
            "margin": [1.5 if ok else -0.5 for ok in right],
        },
        "attackers": asked,
        "distances": distances,
        "settings": {"timeout": 2.0, "engine": "auto", "seed": 0, "sample": 500},
        "versions": {"carvegbm": "0.1.0", "python": "3.11.7", "numpy": "2.0", "lightgbm": None},
        "interrupted": False,
        "times": {
            "date": "2026-11-18T08:33:00+00:00",
            "seconds": 65.4321,
            "verify": [0.5 + i for i in range(len(asked))],
            "slowest": [0.1] * len(asked),
            "measure": [1.25] * len(distances),
            "witnesses": [0.75] * len(distances),
            "retraining": None,
        },
    }


def ends(radius: Radius) -> tuple[float, float]:
    """What is known of a radius."""
    return radius if isinstance(radius, tuple) else (radius, radius)


def status(place: int, radius: Radius, budget: float) -> str:
    """Of a row against a budget; wrong rows can be flipped or not by turns."""
    lower, upper = ends(radius)
    if upper == 0:
        return "broken" if place % 2 else "vulnerable"
    return "robust" if lower > budget else "fragile" if upper <= budget else "unknown"


def counted(statuses: Sequence[str], right: int) -> dict[str, Any]:
    """Totals of some rows."""
    counts, n = Counter(statuses), len(statuses)
    return {
        "instances": n,
        "counts": {name: counts[name] for name in STATUSES},
        "accuracy": right / n,
        "robustness": [counts["robust"] / n, (counts["robust"] + counts["unknown"]) / n],
    }


def _attacker(
    norm: Any,
    budget: float,
    distance: int,
    radii: Sequence[Radius],
    labels: Sequence[Any],
    names: Sequence[str],
    sampled: bool,
) -> dict[str, Any]:
    statuses = [status(i, radius, budget) for i, radius in enumerate(radii)]
    right = [radius != 0 for radius in radii]
    totals = counted(statuses, sum(right))
    low, high = totals["robustness"]
    found = []
    for label in dict.fromkeys(labels):
        some = [i for i, other in enumerate(labels) if other == label]
        part = counted([statuses[i] for i in some], sum(right[i] for i in some))
        found.append({"class": label, **part})
    near = [
        {
            "feature": i,
            "name": name,
            "threshold": i + 0.123456789,
            "trees": i + 1,
            "rows": len(radii),
            "share": 1.0,
        }
        for i, name in enumerate(names[:20])
    ]
    accuracy = totals["accuracy"]
    return {
        "attacker": {"norm": norm, "budget": budget, "scale": None, "features": None},
        "norm": norm,
        "budget": budget,
        "distance": distance,
        "status": statuses,
        "engine": ["" if one == "unknown" else "search" for one in statuses],
        **totals,
        "population": {
            "confidence": 0.95,
            "accuracy": [max(0.0, accuracy - 0.0512), min(1.0, accuracy + 0.0413)],
            "robustness": [max(0.0, low - 0.0612), min(1.0, high + 0.0513)],
        }
        if sampled
        else None,
        "classes": found,
        "large_spread": False,
        "units": None if norm == 0 else _units(budget, names),
        "crowds": None
        if norm == 0
        else {"thresholds": 5 * len(names), "near": near, "zeros": None},
        "proof": None,
        "retraining": None,
    }


def _units(budget: float, names: Sequence[str]) -> dict[str, Any]:
    """The range of feature i is i + 1."""
    shares = [budget / (i + 1) for i in range(len(names))]
    smallest, largest = (
        {"feature": i, "name": names[i], "share": shares[i]} for i in (len(names) - 1, 0)
    )
    return {
        "features": len(names),
        "median": sorted(shares)[len(names) // 2],
        "smallest": smallest,
        "largest": largest,
    }


def _distance(
    norm: Any,
    radii: Sequence[Radius],
    other: Sequence[Any],
    names: Sequence[str],
    budgets: Sequence[float],
) -> dict[str, Any]:
    pairs = [ends(radius) for radius in radii]
    known = sorted(low for low, high in pairs if low == high and 0 < low < math.inf)
    n = len(pairs)
    at = sorted({0.0, *known, *budgets})
    witnesses = [
        _witness(norm, row, high, low == high, other[row], names)
        for row, (low, high) in enumerate(pairs)
        if 0 < high < math.inf
    ]
    near = sorted(range(len(witnesses)), key=lambda i: (witnesses[i]["distance"], i))
    shown = [{"witness": place, "why": "first"} for place in near[:1]]
    if len(near) > 1:
        shown.append({"witness": near[len(near) // 2], "why": "typical"})
        shown += [{"witness": place, "why": "class"} for place in near[-1:] if len(near) > 3]
    right = sorted((low, high) for low, high in pairs if high > 0)
    lower, upper = (sorted(side) for side in zip(*right, strict=True)) if right else ([], [])
    return {
        "attacker": {"norm": norm, "scale": None, "features": None},
        "norm": norm,
        "radius": {
            "lower": [_finite(low) for low, _ in pairs],
            "upper": [_finite(high) for _, high in pairs],
        },
        "wrong": sum(high == 0 for _, high in pairs),
        "never": sum(low == math.inf for low, _ in pairs),
        "undecided": sum(low != high for low, high in pairs),
        "smallest": known[0] if known else None,
        "median": known[len(known) // 2] if known else None,
        "largest": known[-1] if known else None,
        "curve": {
            "budgets": at,
            "lower": [sum(low > b for low, _ in pairs) / n for b in at],
            "upper": [sum(high > b for _, high in pairs) / n for b in at],
        },
        "histogram": _histogram(norm, known),
        "stays": [
            {
                "share": share,
                "lower": _finite(lower[len(right) - math.ceil(share * len(right))]),
                "upper": _finite(upper[len(right) - math.ceil(share * len(right))]),
            }
            for share in (0.99, 0.95, 0.9)
            if right
        ],
        "witnesses": witnesses,
        "missed": 0,
        **_weak(witnesses, budgets),
        "first": near[:10],
        "shown": shown,
        "images": None,
        "largest_budget": 0.0,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _histogram(norm: Any, known: Sequence[float]) -> list[dict[str, Any]]:
    if not known:
        return []
    if norm == 0:
        values = range(1, int(known[-1]) + 1)
        return [{"from": v, "to": v, "count": known.count(v)} for v in values]
    edges = [known[-1] * i / 5 for i in range(6)]
    counts = Counter(min(4, int(5 * radius / known[-1])) for radius in known)
    return [{"from": edges[i], "to": edges[i + 1], "count": counts[i]} for i in range(5)]


def _witness(
    norm: Any, row: int, distance: float, nearest: bool, answer: Any, names: Sequence[str]
) -> dict[str, Any]:
    many = min(len(names), int(distance) if norm == 0 else 1 + 5 * row % 17)
    size = distance / many if norm == 1 else distance
    return {
        "row": row,
        "distance": distance,
        "nearest": nearest,
        "margin": -0.25,
        "answer": answer,
        "borderline": False,
        "changes": [
            {"feature": f, "name": names[f], "before": 1032.0 + f, "after": 1032.0 + f - size}
            for f in range(many)
        ],
    }


def _weak(every: Sequence[Mapping[str, Any]], budgets: Sequence[float]) -> dict[str, Any]:
    """Features that witnesses within the largest budget change; without such, all witnesses."""
    within = [witness for witness in every if witness["distance"] <= max(budgets)]
    witnesses = within or every
    sizes: dict[int, list[float]] = {}
    names, alone = {}, Counter[int]()
    for witness in witnesses:
        for change in witness["changes"]:
            names[change["feature"]] = change["name"]
            sizes.setdefault(change["feature"], []).append(change["before"] - change["after"])
        if len(witness["changes"]) == 1:
            alone[witness["changes"][0]["feature"]] += 1
    weak = [
        {
            "feature": f,
            "name": names[f],
            "rows": len(found),
            "share": len(found) / len(witnesses),
            "alone": alone[f],
            "up": 0,
            "down": len(found),
            "smallest": min(found),
            "median": sorted(found)[len(found) // 2],
            "largest": max(found),
        }
        for f, found in sorted(sizes.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return {
        "weak": weak,
        "weak_budget": max(budgets) if within else None,
        "weak_witnesses": len(witnesses),
    }
