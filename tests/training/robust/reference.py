"""The grower, slowly: every split tried by pushing every row where the attacker would.

Comes in: codes, sides, gradients, hessians. Goes out: the same tree as the core's, ties included.
Sums are Python's whole numbers, all else is done in the order that the core's contract names.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

MASK = 2**64 - 1


class Options(NamedTuple):
    leaves: int = 32
    depth: int = 0
    least_rows: int = 1
    least_hessian: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    least_gain: float = 0.0
    feature_share: float = 1.0
    drawn: bool = False
    ordered: bool = False
    seed: int = 0


def scrambled(seed, place):
    z = (seed + 0x9E3779B97F4A7C15 * (place + 1)) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def nearest(value):
    """The nearest whole number; halves away from 0."""
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return whole if value >= 0 else -whole


def unit(most, bits):
    return 2.0 ** max(math.frexp(most)[1] - bits, -900)


class Cut(NamedTuple):
    gain: float
    feature: int
    left_lower: bool
    position: int
    missing_left: bool = False
    codes: frozenset | None = None


NUMBERS, OR_MISSING, CATEGORIES = 0, 1, 2
SMOOTHING = EXTRA = 10.0
LEAST_NAMED, MOST_NAMED = 10, 32


class Reference:
    """One tree; `low`, `high` are (rows, features), `n_thresholds` has a number per feature."""

    def __init__(self, low, high, n_thresholds, down, gradient, hessian, options, kinds=None):
        self.low, self.high, self.n_thresholds = low.tolist(), high.tolist(), n_thresholds
        self.kinds = [NUMBERS] * len(n_thresholds) if kinds is None else kinds
        self.down, self.options = down.tolist(), options
        bits = len(gradient).bit_length()
        self.unit_g = unit(max(map(abs, gradient.tolist())), 62 - bits)
        self.unit_h = unit(max(hessian.tolist()), 63 - 2 * bits)
        self.g = [nearest(g / self.unit_g) for g in gradient.tolist()]
        self.h = [nearest(h / self.unit_h) for h in hessian.tolist()]

    def missing_code(self, feature):
        return self.n_thresholds[feature] + 1 if self.kinds[feature] == OR_MISSING else None

    def figures(self, rows, extra=0.0):
        """Gradient less its l1, hessian with its l2."""
        gradient = float(sum(self.g[i] for i in rows)) * self.unit_g
        rest = max(0.0, abs(gradient) - self.options.l1)
        leaning = -rest if gradient < 0 else rest
        weight = float(sum(self.h[i] for i in rows)) * self.unit_h + self.options.l2
        return leaning, weight + extra if extra else weight

    def value(self, rows, bounds, extra=0.0):
        leaning, weight = self.figures(rows, extra)
        return min(max(-leaning / weight, bounds[0]), bounds[1]) if weight > 0 else 0.0

    def fall(self, rows, given, extra=0.0):
        leaning, weight = self.figures(rows, extra)
        return -(2 * leaning * given + weight * given * given)

    def may_be_leaf(self, rows):
        hessian = float(sum(self.h[i] for i in rows)) * self.unit_h
        return len(rows) >= self.options.least_rows and hessian >= self.options.least_hessian

    def pushed_left(self, row, cut):
        ends = self.low if bool(self.down[row]) == cut.left_lower else self.high
        return goes_left(ends[row][cut.feature], cut, self.missing_code(cut.feature))

    def looked_at(self, number, usable):
        count = max(1, nearest(self.options.feature_share * len(usable)))
        seed = scrambled(self.options.seed, number)
        return sorted(sorted(usable, key=lambda f: (scrambled(seed, f), f))[:count])

    def draw(self, number, feature):
        return scrambled(scrambled(MASK - self.options.seed, number), feature)

    def positions(self, number, feature, missing_left):
        """The thresholds of a feature that a leaf looks at; one more where nothing else is left."""
        has_missing = self.kinds[feature] == OR_MISSING
        count = self.n_thresholds[feature] + has_missing
        able = count - (has_missing and missing_left)
        if not self.options.drawn:
            return range(able)
        drawn = self.draw(number, feature) % count
        return [drawn] if drawn < able else []

    def cuts(self, number, feature):
        """All that may be tried, in the order in which the first of the best counts."""
        for left_lower in (True, False):
            for missing_left in (False, True)[: 1 + (self.kinds[feature] == OR_MISSING)]:
                for position in self.positions(number, feature, missing_left):
                    yield Cut(0.0, feature, left_lower, position, missing_left)

    def best_set(self, leaf, feature, before, best):
        """The ends of the categories in order of gradient / (hessian + smoothing)."""
        named = []
        for code in range(1, self.n_thresholds[feature] + 1):
            rows = [i for i in leaf["rows"] if self.low[i][feature] == code]
            gradient = float(sum(self.g[i] for i in rows)) * self.unit_g
            hessian = float(sum(self.h[i] for i in rows)) * self.unit_h
            if len(rows) >= LEAST_NAMED:
                named.append((gradient / (hessian + SMOOTHING), code))
        most = min(MOST_NAMED, (len(named) + 1) // 2)
        draw = self.draw(leaf["number"], feature)
        for from_below in (True, False):
            named = sorted(named) if from_below else sorted(named)[::-1]
            if self.options.drawn and from_below != (draw % 2 == 0):
                continue
            for i in range(most):
                if self.options.drawn and i != draw // 2 % most:
                    continue
                codes = frozenset(code for _, code in named[: i + 1])
                left = [r for r in leaf["rows"] if self.low[r][feature] in codes]
                right = [r for r in leaf["rows"] if self.low[r][feature] not in codes]
                if not (self.may_be_leaf(left) and self.may_be_leaf(right)):
                    continue
                (g, h), (other_g, other_h) = (self.figures(p, EXTRA) for p in (left, right))
                slant = other_g * h - g * other_h
                falls = [
                    self.fall(p, self.value(p, leaf["bounds"], EXTRA), EXTRA) for p in (left, right)
                ]
                gain = falls[0] + falls[1] - before
                if slant != 0 and gain > (0.0 if best is None else best.gain):
                    best = Cut(gain, feature, slant < 0, 0, False, codes)
        return best

    def best_cut(self, leaf, usable):
        """The first of the best, or None."""
        rows, bounds, depth, number = leaf["rows"], leaf["bounds"], leaf["depth"], leaf["number"]
        options, best = self.options, None
        if len(rows) < 2 * options.least_rows or 0 < options.depth <= depth or not usable:
            return None
        before = self.fall(rows, self.value(rows, bounds)) + options.least_gain
        for f in self.looked_at(number, usable):
            if self.kinds[f] == CATEGORIES:
                best = self.best_set(leaf, f, before, best)
                continue
            for cut in self.cuts(number, f):
                left = [i for i in rows if self.pushed_left(i, cut)]
                right = [i for i in rows if not self.pushed_left(i, cut)]
                if not (self.may_be_leaf(left) and self.may_be_leaf(right)):
                    continue
                # Missing values alone are told from numbers by having these on the left.
                if cut.missing_left and all(self.low[i][f] == self.missing_code(f) for i in left):
                    continue
                (g, h), (other_g, other_h) = self.figures(left), self.figures(right)
                slant = other_g * h - g * other_h  # < 0 iff the left value, -g / h, is lower
                if slant >= 0 if cut.left_lower else slant <= 0:
                    continue
                falls = [self.fall(part, self.value(part, bounds)) for part in (left, right)]
                gain = falls[0] + falls[1] - before
                if gain > (0.0 if best is None else best.gain):
                    best = cut._replace(gain=gain)
        return best

    def grow(self, used, features):
        """(splits, values, rows): a split is [feature, position, left, right], its cut beside."""
        usable = [
            f
            for f, n in enumerate(self.n_thresholds)
            if n + (self.kinds[f] == OR_MISSING) > 0 and features[f]
        ]
        self.made = []  # the cuts
        root = {"rows": list(used), "bounds": (-math.inf, math.inf), "depth": 0, "number": 0}
        leaves, splits = [{**root, "parent": None}], []
        leaves[0]["cut"] = self.best_cut(leaves[0], usable)
        while len(leaves) < self.options.leaves:
            gains = [leaf["cut"].gain if leaf["cut"] else 0.0 for leaf in leaves]
            index = gains.index(max(gains))
            leaf = leaves[index]
            if leaf["cut"] is None:
                break
            cut = leaf["cut"]
            node = len(splits)
            splits.append([cut.feature, cut.position, ~index, ~len(leaves)])
            self.made.append(cut)
            if leaf["parent"] is not None:
                above, side = leaf["parent"]
                splits[above][side] = node
            goes = [self.pushed_left(i, cut) for i in leaf["rows"]]
            parts = [
                [i for i, left in zip(leaf["rows"], goes, strict=True) if left is wanted]
                for wanted in (True, False)
            ]
            bounds = [leaf["bounds"], leaf["bounds"]]
            if self.options.ordered:
                middle = (
                    self.value(parts[0], leaf["bounds"]) / 2
                    + self.value(parts[1], leaf["bounds"]) / 2
                )
                low, high = leaf["bounds"]
                bounds = [(low, middle), (middle, high)]
                if not cut.left_lower:
                    bounds.reverse()
            children = [
                {
                    "rows": parts[k],
                    "bounds": bounds[k],
                    "depth": leaf["depth"] + 1,
                    "number": 2 * node + 1 + k,
                    "parent": (node, 2 + k),
                }
                for k in range(2)
            ]
            for child in children:
                child["cut"] = self.best_cut(child, usable)
            leaves[index] = children[0]
            leaves.append(children[1])
        values = [self.value(leaf["rows"], leaf["bounds"]) for leaf in leaves]
        return splits, values, [len(leaf["rows"]) for leaf in leaves]


def goes_left(code, cut, missing_code):
    if cut.codes is not None:
        return code in cut.codes
    return cut.missing_left if code == missing_code else code <= cut.position


def reachable(splits, values, low, high, slow=None):
    """The lowest and the highest value each row can be pushed to; `slow` grew the splits."""
    cuts = None if slow is None else slow.made
    found = []
    for row in range(len(low)):
        pending, reached = [0 if splits else ~0], []
        while pending:
            here = pending.pop()
            if here < 0:
                reached.append(values[~here])
                continue
            feature, position, left, right = splits[here]
            cut = Cut(0.0, feature, True, position) if cuts is None else cuts[here]
            missing = None if slow is None else slow.missing_code(feature)
            if goes_left(low[row][feature], cut, missing):
                pending.append(left)
            if not goes_left(high[row][feature], cut, missing):
                pending.append(right)
        found.append((min(reached), max(reached)))
    return np.array(found)
