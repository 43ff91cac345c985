"""Seeded random cases for every kind of limit: directions, steps, finite features, rows of bounds.

Comes in: a seed, a norm and a kind of limit. Goes out: a `Case`, small enough for the oracle, as
from `generators`; of `random_parts`, with features in any order. "mixed" has all kinds at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import oracle
from carvegbm.model.ensemble import Ensemble
from generators import (
    NORMS,
    Case,
    random_decision,
    random_label,
    to_the_edge,
    to_the_spread,
)
from oracle import Attacker, Tree
from random_parts import Category, Ground, Number, OneHot, Part, Stepped, attacker_of
from random_trees import (
    MOST_COMBINATIONS,
    NARROW_FAMILIES,
    NARROW_SCORES,
    USUAL_SCORES,
    WIDE_FAMILIES,
    chance,
    pick,
)

LIMITS = ("directions", "steps", "categories", "one-hot", "rows", "mixed")
SITUATIONS = ("random", "edge", "spread", "any", "any edge")
# (situation, task) by turns: half of them on a boundary (edge, spread).
TURNS = (
    ("random", "binary"),
    ("edge", "binary"),
    ("any", "binary"),
    ("any edge", "binary"),
    ("any", "multiclass"),
    ("spread", "binary"),
    ("edge", "multiclass"),
    ("any", "regression"),
    ("any edge", "multiclass"),
    ("any edge", "binary"),
)
_PARTS: dict[str, tuple[type[Part], ...]] = {
    "directions": (Number,),
    "steps": (Stepped, Stepped, Stepped, Number),
    "categories": (Category, Category, Category, Number),
    "one-hot": (OneHot, OneHot, OneHot, Number),
    "rows": (Number, Number, Stepped, Category, OneHot),
    "mixed": (Number, Stepped, Category, OneHot),
}
_WIDE = ("eighths", "tenths", "pixels", "half pixels", "doubles", "mixed")
_NARROW = ("eighths", "tenths", "pixels")


def make_kind(
    seed: int, norm: float, limit: str, situation: str = "any", task: str = "binary"
) -> Case:
    """The case of a seed with one kind of limit.

    "random" and "edge" are large-spread, "any" and "any edge" need not be; "edge" sits on a
    boundary of cost and decision; "spread" has a budget at the largest that is large-spread.
    """
    key = [seed, NORMS.index(norm), LIMITS.index(limit), SITUATIONS.index(situation), len(task)]
    rng = np.random.default_rng(key)
    apart = not situation.startswith("any")
    case = _random_case(rng, norm, limit, task, apart=apart)
    if situation.endswith("edge"):
        for _ in range(5):
            if _scores_in_reach(case) > 4:
                break
            case = _random_case(rng, norm, limit, task, apart=apart)
        return to_the_edge(rng, case)
    return to_the_spread(rng, case) if situation == "spread" else case


def _scores_in_reach(case: Case) -> int:
    attacks = oracle.attacks(case.ensemble, case.x, case.attacker)
    return len({tuple(attack.raw) for attack in attacks})


def _random_case(
    rng: np.random.Generator, norm: float, limit: str, task: str, *, apart: bool
) -> Case:
    narrow = chance(rng, 0.2)
    ground = _random_ground(rng, norm, narrow=narrow, plain=limit == "directions")
    parts = _random_parts(ground, limit)
    attacker = attacker_of(ground, parts)
    holes = chance(rng, 0.25)
    n_outputs = int(rng.integers(2, 5)) if task == "multiclass" else 1
    n_features = sum(len(part.features) for part in parts)
    categories = {p.features[0]: p.labels for p in parts if isinstance(p, Category)}
    score = pick(rng, NARROW_SCORES if narrow else USUAL_SCORES)
    more: dict[str, Any] = {"n_features": n_features, "input_precision": ground.precision}
    if categories:
        more |= {
            "categories": categories,
            "category_rule": ground.category_rule,
            "unknown_category": ground.unknown_category,
        }
    grower = Grower(rng, parts, attacker, Ensemble.from_trees([], **more), apart=apart)
    grower.missing = holes or ground.unknown_category == "missing"
    grower.n_outputs, grower.score = n_outputs, score
    n_trees = pick(rng, [2, 3, 4, 5, 3, 4, 5, 6, 8, 12])
    trees = [grower.tree(index, int(rng.integers(1, 4))) for index in range(n_trees)]
    ensemble = Ensemble.from_trees(
        trees,
        task=task,
        base_score=[float(score(rng)) if chance(rng, 0.5) else 0.0 for _ in range(n_outputs)],
        average=len(trees) if chance(rng, 0.1) else 1,
        **random_decision(rng, task),
        **more,
    )
    x: list[Any] = [0.0] * n_features
    for part in parts:
        hole = holes and chance(rng, 0.25) and not isinstance(part, OneHot)
        for feature, value in zip(part.features, part.value(), strict=True):
            x[feature] = math.nan if hole else value
    label = random_label(rng, ensemble, x)
    return Case(ensemble, x, label, attacker, rowwise=limit == "rows")


def _random_ground(rng: np.random.Generator, norm: float, *, narrow: bool, plain: bool) -> Ground:
    families = NARROW_FAMILIES if narrow else WIDE_FAMILIES
    usual = _NARROW if narrow else _WIDE
    numbers = families[pick(rng, sorted(families) if plain else usual)]
    if norm == 0:
        budget: float = int(rng.integers(0, 5))
    else:
        round_ones = [0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 1 / 255, 3 / 255, 0.7]
        usual_one = plain or chance(rng, 0.5)
        budget = float(numbers.distance(rng)) if usual_one else pick(rng, round_ones)
        budget *= 1 if norm == math.inf else pick(rng, [1, 2, 4, 6])
    rule = pick(rng, ["label", "truncate", "nonnegative"])
    return Ground(
        rng,
        norm,
        0.0 if chance(rng, 0.03) else budget,
        numbers,
        "float32" if narrow else "float64",
        rule,
        pick(rng, ["right", "missing"]) if rule == "label" else "right",
    )


def _random_parts(ground: Ground, limit: str) -> list[Part]:
    """Two to five parts; their features are in any order."""
    rng = ground.rng
    chosen = [pick(rng, _PARTS[limit]) for _ in range(pick(rng, [2, 3, 4, 4, 5, 5]))]
    if limit != "rows":
        chosen[0] = _PARTS[limit][0]
    sizes = [_group_size(rng) if part is OneHot else 1 for part in chosen]
    order = iter([int(feature) for feature in rng.permutation(sum(sizes))])
    bounded = limit == "rows" or chance(rng, 0.3)
    paired = {"directions": 0.8, "steps": 0.4, "mixed": 0.5}.get(limit, 0.2)
    return [
        part(ground, tuple(next(order) for _ in range(size)), chance(rng, paired), bounded)
        for part, size in zip(chosen, sizes, strict=True)
    ]


def _group_size(rng: np.random.Generator) -> int:
    """Seldom as many as there are bits in a word, or more."""
    return int(pick(rng, [64, 65, 70]) if chance(rng, 0.01) else rng.integers(2, 5))


class Grower:
    """Grows random trees over parts, and keeps them apart if they must be large-spread."""

    missing = False
    n_outputs = 1

    def __init__(
        self,
        rng: np.random.Generator,
        parts: list[Part],
        attacker: Attacker,
        ensemble: Ensemble,
        *,
        apart: bool,
    ) -> None:
        self.rng, self.parts, self.attacker, self.apart = rng, parts, attacker, apart
        self.ensemble = ensemble  # without trees: what it says about features counts
        self.planted: list[list[tuple[int, Tree]]] = [[] for _ in parts]
        self.score: Any = None
        self.aligned = chance(rng, 0.4)  # moves to the right all help

    def tree(self, index: int, depth: int, side: str = "left") -> Tree:
        node = self._split(index) if depth > 0 else None
        if node is None:
            return self._leaf(side)
        if self.missing:
            node["missing"] = pick(self.rng, ["left", "right"])
        for way in ("left", "right"):
            node[way] = self.tree(index, depth - 1 if chance(self.rng, 0.75) else 0, way)
        return node

    def _split(self, index: int) -> Tree | None:
        """A split that fits in, or None after a few failures."""
        for _ in range(6):
            place = self._place(index)
            part, planted = self.parts[place], self.planted[place]
            before = len(part.cuts)
            split = part.split()
            far = not self.apart or all(
                oracle.room(self.ensemble, self.attacker, part.features, split, other)
                > self.attacker.budget
                for tree, other in planted
                if tree != index
            )
            if far and math.prod(each.room_for() for each in self.parts) <= MOST_COMBINATIONS:
                planted.append((index, dict(split)))
                return split
            del part.cuts[before:]
        return None

    def _place(self, index: int) -> int:
        """Any part; where trees must keep apart, mostly one that no other tree has taken."""
        each = range(len(self.parts))
        free = [p for p in each if all(tree == index for tree, _ in self.planted[p])]
        return int(pick(self.rng, free if free and self.apart and chance(self.rng, 0.6) else each))

    def _leaf(self, side: str) -> Tree:
        values = [float(self.score(self.rng)) for _ in range(self.n_outputs)]
        if self.aligned:
            values = [abs(value) if side == "right" else -abs(value) for value in values]
        return {"score": values if self.n_outputs > 1 else values[0]}
