"""What an ensemble says about an instance, in exact rationals.

Comes in: an ensemble, of which only `to_trees()` and plain fields are used.
Goes out: raw scores, decisions, margins, and which way every split sends a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from oracle.numbers import routed

Tree = dict[str, Any]
UNITS = 2**1074  # to one
NO_CODE = -1


def raw_score(ensemble: Any, z: Sequence[float]) -> list[Fraction]:
    """The exact raw score of z, one Fraction per output."""
    return raw_score_in_units(ensemble, in_units(ensemble), z)


def decide(ensemble: Any, raw: Sequence[Fraction]) -> int:
    """Position of the decided class; binary: raw >= threshold, or > where ties are negative.

    Otherwise the first of the largest scores.
    """
    if ensemble.task == "binary":
        above = raw[0] - Fraction(ensemble.threshold)
        return int(above > 0 or (above == 0 and getattr(ensemble, "tie", "positive") == "positive"))
    return list(raw).index(max(raw))


def margin(ensemble: Any, raw: Sequence[Fraction], label: int) -> Fraction:
    """How far the raw score is on the right side, for an instance of class `label`."""
    if ensemble.task == "binary":
        above = raw[0] - Fraction(ensemble.threshold)
        return above if label == 1 else -above
    return raw[label] - max(score for rival, score in enumerate(raw) if rival != label)


def raw_score_in_units(ensemble: Any, trees: list[Tree], z: Sequence[float]) -> list[Fraction]:
    """The exact raw score of z by trees that were given `in_units`."""
    looked_at = [seen(ensemble, feature, value) for feature, value in enumerate(z)]
    leaves = [_leaf(tree, looked_at)["score"] for tree in trees]
    return [Fraction(sum(parts), UNITS * ensemble.average) for parts in zip(*leaves, strict=True)]


def in_units(ensemble: Any) -> list[Tree]:
    """The base score as a tree of one leaf, and all trees, with scores as whole numbers of units.

    Every double is a whole multiple of 2^-1074; adding these up is exact, and fast.
    """

    def convert(tree: Tree) -> Tree:
        if "score" in tree:
            scores = tree["score"] if isinstance(tree["score"], list) else [tree["score"]]
            return {"score": [int(Fraction(score) * UNITS) for score in scores]}
        return tree | {"left": convert(tree["left"]), "right": convert(tree["right"])}

    return [
        convert(tree) for tree in [{"score": ensemble.base_score.tolist()}, *ensemble.to_trees()]
    ]


def _leaf(tree: Tree, looked_at: Sequence[float]) -> Tree:
    while "score" not in tree:
        value = looked_at[tree["feature"]]
        if math.isnan(value):
            tree = tree[tree["missing"]]
        else:
            tree = tree["left"] if goes_left(tree, value) else tree["right"]
    return tree


# ── splits, and what they look at ────────────────────────────────────────────────────────────


def seen(ensemble: Any, feature: int, value: Any) -> float:
    """What the splits on a feature look at: a number, or the code of a category; NaN if missing."""
    if feature in ensemble.categories:
        return code_of(ensemble, feature, value)
    return routed(value, ensemble.input_precision)


def code_of(ensemble: Any, feature: int, value: Any) -> float:
    """The code that a value stands for; NO_CODE if for none, NaN if it is missing."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if ensemble.category_rule == "label":
        for code in ensemble.categories[feature]:
            if value_of(ensemble, feature, code) == value:
                return code
        return math.nan if ensemble.unknown_category == "missing" else NO_CODE
    number = routed(value, ensemble.input_precision)
    code = math.trunc(number)
    if ensemble.category_rule == "truncate":
        return code if 0 <= code < 2**31 else NO_CODE
    return code if 0 <= number < 2**24 else NO_CODE


def value_of(ensemble: Any, feature: int, code: int) -> float:
    """The number that stands for a code in an instance; by its label, unless these are texts."""
    labels = ensemble.categories[feature]
    if ensemble.category_rule == "label" and not all(isinstance(v, str) for v in labels.values()):
        return float(labels[code])
    return float(code)


def goes_left(split: Tree, looked_at: float) -> bool:
    """Which way a split sends what it looks at, if that is not missing."""
    if "categories" in split:
        return looked_at in split["categories"]
    return bool(looked_at <= split["threshold"])


def splits(tree: Tree, feature: int) -> Iterator[Tree]:
    """The splits of a tree on a feature, dead branches included."""
    if "score" not in tree:
        if tree["feature"] == feature:
            yield tree
        yield from splits(tree["left"], feature)
        yield from splits(tree["right"], feature)


def thresholds(tree: Tree, feature: int) -> Iterator[float]:
    """The thresholds of a feature in a tree, dead branches included."""
    return (split["threshold"] for split in splits(tree, feature))
