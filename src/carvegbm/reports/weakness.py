"""Where it is weak: what minimal witnesses change.

Comes in: witnesses. Goes out: features, and which witnesses to look at, as plain values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.minimal import Minimal, MinimalWitness

__all__ = ["Named", "first", "plain_witness", "shown", "weak_features"]

Named = Callable[[int], str]

_FIRST = 10
_SHOWN = 8


def weak_features(
    minimal: Minimal, budgets: Sequence[float], named: Named, categorical: Collection[int]
) -> dict[str, Any]:
    """The features that witnesses change: how often, and by how much; the most frequent first.

    Of witnesses within the largest of the budgets; if there are none, of all of them.
    """
    within = [witness for witness in minimal if witness.distance <= max(budgets)]
    some = within or list(minimal)
    moves: dict[int, list[float]] = {}
    alone: Counter[int] = Counter()
    for witness in some:
        for change in witness.changes:
            moves.setdefault(change.feature, []).append(change.after - change.before)
        if len(witness.changes) == 1:
            alone[witness.changes[0].feature] += 1
    found = []
    for feature in sorted(moves, key=lambda f: (-len(moves[f]), f)):
        by, is_number = np.array(moves[feature]), feature not in categorical
        size = np.abs(by)
        found.append(
            {
                "feature": feature,
                "name": named(feature),
                "rows": len(by),
                "share": len(by) / len(some),
                "alone": alone[feature],
                "up": int(np.count_nonzero(by > 0)) if is_number else None,
                "down": int(np.count_nonzero(by < 0)) if is_number else None,
                "smallest": float(size.min()) if is_number else None,
                "median": float(np.median(size)) if is_number else None,
                "largest": float(size.max()) if is_number else None,
            }
        )
    return {
        "weak": found,
        "weak_budget": max(budgets) if within else None,
        "weak_witnesses": len(some),
    }


def first(minimal: Minimal) -> list[int]:
    """The places of the witnesses that are nearest, nearest first."""
    return _by_distance(minimal)[:_FIRST]


def _by_distance(minimal: Minimal) -> list[int]:
    """The places of all witnesses, nearest first."""
    return sorted(range(len(minimal)), key=lambda i: (minimal.witnesses[i].distance, i))


def shown(minimal: Minimal, labels: npt.NDArray[np.int32]) -> list[dict[str, Any]]:
    """Witnesses to look at: the nearest, one at the median distance, the nearest of every class."""
    if len(minimal) == 0:
        return []
    witnesses, near = minimal.witnesses, _by_distance(minimal)
    found = {near[0]: "first"}
    found.setdefault(near[len(near) // 2], "typical")
    for label in np.unique(labels).tolist():
        place = next((i for i in near if labels[witnesses[i].row] == label), None)
        if place is not None and len(found) < _SHOWN:
            found.setdefault(place, "class")
    return [{"witness": place, "why": why} for place, why in found.items()]


def plain_witness(
    witness: MinimalWitness, named: Named, told: Callable[..., Any]
) -> dict[str, Any]:
    """A witness as plain values; `told` is how a value of a feature is told."""
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
                "name": named(change.feature),
                "before": told(change.feature, change.before),
                "after": told(change.feature, change.after),
            }
            for change in witness.changes
        ],
    }
