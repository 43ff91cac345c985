"""A witness feature by feature: what changes, at what price, and what for.

Comes in: an instance, and the changes that a minimal witness makes. Goes out: the witness as splits
read it, and a `ChangedFeature` for every change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.explanation.paths import Splits, as_read
from carvegbm.explanation.result import ChangedFeature
from carvegbm.minimal import Change, MinimalWitness
from carvegbm.problem import Problem, Rows
from carvegbm.trees.categories import in_codes
from carvegbm.trees.labels import FeatureLabels

__all__ = ["Moved"]

Floats = npt.NDArray[np.float64]


class Moved:
    """An instance and its witness.

    Parameters
    ----------
    problem : Problem
        The compact one where the instance is sparse.
    part : Rows
        The instance alone.
    features : array of int
        What the features of the problem are in the instance as it was given.
    x : array (n_features,)
        The instance in code space.
    witness : MinimalWitness or None
        None: nothing is changed.
    """

    def __init__(
        self,
        problem: Problem,
        part: Rows,
        features: npt.NDArray[np.int64],
        x: Floats,
        witness: MinimalWitness | None,
    ) -> None:
        self.problem, self.part, self.features, self.x = problem, part, features, x
        self.ensemble = problem.ensemble
        changes = () if witness is None else witness.changes
        places = np.searchsorted(features, [change.feature for change in changes]).tolist()
        self.by_place: dict[int, Change] = dict(zip(places, changes, strict=True))
        self.z = self._moved(list(self.by_place))
        self.read = as_read(self.ensemble, self.z)
        """The witness as splits read it."""

    def changes(self, splits: Splits, threads: int | None) -> tuple[ChangedFeature, ...]:
        """What is changed, in the order of the features; a one-hot group is one change."""
        parts = self._parts()
        singles = [self._moved(places) for places in parts]
        alone, distances = self._judged(singles, threads)
        x, leaves = as_read(self.ensemble, self.x), splits.leaves(self.read)
        return tuple(
            ChangedFeature(
                features=tuple(int(self.features[place]) for place in places),
                distance=distance,
                alone=flips,
                trees=int(np.sum(splits.leaves(self._without(places, x)) != leaves)),
                **self._told(places, x),
            )
            for places, flips, distance in zip(parts, alone, distances, strict=True)
        )

    def _parts(self) -> list[list[int]]:
        """What moves together: members of a group, first the one that was 1; features alone."""
        group_of = {
            member: number
            for number, group in enumerate(self.problem.limits.one_hot)
            for member in group
        }
        parts: dict[tuple[bool, int], list[int]] = {}
        for place in self.by_place:
            is_member = place in group_of
            parts.setdefault((is_member, group_of.get(place, place)), []).append(place)
        return [
            sorted(part, key=lambda place: -self.by_place[place].before) for part in parts.values()
        ]

    def _moved(self, places: list[int]) -> Floats:
        """The instance with these features as in the witness, in code space."""
        z: Floats = self.x.copy()
        by_label = []
        for place in places:
            z[place] = self.by_place[place].after
            is_category = place in self.ensemble.categories
            if is_category and not FeatureLabels(self.ensemble, place).gives_codes:
                by_label.append(place)
        if by_label:
            encoded = self.ensemble.categories.keys() - set(by_label)
            z = np.array(in_codes(self.ensemble, z[None], encoded)[0], dtype=np.float64)
        return z

    def _without(self, places: list[int], x: Floats) -> Floats:
        """The witness with these features as they were, as splits read it."""
        z: Floats = self.read.copy()
        z[places] = x[places]
        return z

    def _judged(self, rows: list[Floats], threads: int | None) -> tuple[list[bool], list[float]]:
        """Which of these rows, in code space, flip the answer, and how far they are."""
        assert self.part.labels is not None
        here = np.asarray(self.part.X[0], dtype=np.float64)
        there = np.asarray(self.problem.encoding.encode(np.array(rows)), dtype=np.float64)
        labels = np.repeat(self.part.labels, len(rows))
        right = self.problem.unattacked(Rows(there, there, labels), threads).right
        distance = self.problem.core_attacker.distance
        return (~right).tolist(), [float(distance(here, row)) for row in there]

    def _told(self, places: list[int], x: Floats) -> dict[str, Any]:
        """The change of a part in words and numbers."""
        name = self.ensemble.feature_name
        if len(places) > 1:
            was, becomes = places
            group = next(g for g in self.problem.limits.one_hot if was in g)
            whole = _common_start([name(member) for member in group])
            return {"name": whole, "kind": "one-hot", "before": name(was), "after": name(becomes)}
        (place,) = places
        change = self.by_place[place]
        if place in self.ensemble.categories:
            labels = self.ensemble.categories[place]
            codes = (float(x[place]), float(self.read[place]))
            before, after = (labels.get(int(code)) for code in codes)
            return {"name": name(place), "kind": "category", "before": before, "after": after}
        return {
            "name": name(place),
            "kind": "number",
            "before": change.before,
            "after": change.after,
            "thresholds": self._crossed(place, float(x[place]), float(self.read[place])),
        }

    def _crossed(self, place: int, before: float, after: float) -> tuple[float, ...]:
        """The thresholds t with before <= t < after, or after <= t < before, as they are met."""
        nodes = self.ensemble.nodes
        found = np.unique(nodes["threshold"][nodes["feature"] == place])
        low, high = min(before, after), max(before, after)
        crossed = found[(found >= low) & (found < high)].tolist()
        return tuple(crossed if before < after else reversed(crossed))


def _common_start(names: list[str]) -> str:
    """What a one-hot group is called: the beginning that its members' names share, or all names."""
    shortest = min(map(len, names))
    same = 0
    while same < shortest and len({name[same] for name in names}) == 1:
        same += 1
    start = names[0][:same].rstrip(" _=:.-")
    return start if start and start != "feature" else "/".join(names)
