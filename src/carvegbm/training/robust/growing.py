"""Growing: tree after tree by the grower whose splits see the attacker.

Comes in: rows as codes, a target, parameters. Goes out: `Grown`, trees over codes with their
scores, and the treewise bounds of the rows they were grown on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attacker import Attacker, Limits
from carvegbm.axes.translation import Translation
from carvegbm.ensemble import Ensemble
from carvegbm.training.binning import BinMapper, category_codes
from carvegbm.training.inputs import blank_ensemble
from carvegbm.training.robust.targets import Bounds, Lean, Target

__all__ = ["CodedRows", "Grower", "Grown", "GrowthSettings"]

Floats = npt.NDArray[np.float64]

_OR_MISSING, _CATEGORIES = 1, 2  # kinds of codes, as the core has them
_DRAWS = 20  # of rows and features, before all of them are looked at


@dataclass(frozen=True)
class GrowthSettings:
    """How trees are grown: LightGBM's parameters that this grower honours."""

    num_leaves: int = 32
    max_depth: int = -1
    learning_rate: float = 0.15
    min_data_in_leaf: int = 10
    min_sum_hessian_in_leaf: float = 1e-3
    min_gain_to_split: float = 0.0
    lambda_l1: float = 0.0
    lambda_l2: float = 1.0
    bagging_fraction: float = 1.0
    bagging_freq: int = 0
    feature_fraction: float = 1.0
    feature_fraction_bynode: float = 1.0
    extra_trees: bool = False
    ordered: bool = False
    """Whether the scores below a split agree with its orientation all the way down."""
    seed: int = 0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> GrowthSettings:
        """Those among LightGBM's parameters, under their main names, that are honoured."""
        named = {name: parameters[name] for name in cls.__dataclass_fields__ if name in parameters}
        return cls(**named)

    def options(self, seed: int) -> _core.GrowerOptions:
        """As the core takes them."""
        return _core.GrowerOptions(
            leaves=self.num_leaves,
            depth=max(0, self.max_depth),
            least_rows=self.min_data_in_leaf,
            least_hessian=self.min_sum_hessian_in_leaf,
            l1=self.lambda_l1,
            l2=self.lambda_l2,
            least_gain=self.min_gain_to_split,
            feature_share=self.feature_fraction_bynode,
            drawn=self.extra_trees,
            ordered=self.ordered,
            seed=seed,
        )


@dataclass(frozen=True)
class CodedRows:
    """Rows as the grower sees them."""

    codes: _core.Codes
    candidates: BinMapper
    threads: int

    @classmethod
    def of(
        cls,
        X: npt.NDArray[Any],
        candidates: BinMapper,
        attacker: Attacker,
        threads: int = 1,
        blank: Ensemble | None = None,
    ) -> CodedRows:
        """What an attacker of norm inf, on its own with every feature, can do to the rows.

        Nothing to a missing value, a category or a member of a one-hot group. `blank` knows the
        features; by default they are numbers without a name.
        """
        blank = blank_ensemble(candidates.n_features) if blank is None else blank
        translation = _of_numbers(blank, attacker.limits(blank))
        places = list(candidates.thresholds)
        for lattice, features in translation.by_lattice:
            ends = np.cumsum([len(places[feature]) for feature in features])
            last = lattice.last_left(np.concatenate([places[feature] for feature in features]))
            for feature, own in zip(features.tolist(), np.split(last, ends[:-1]), strict=True):
                places[feature] = own
        kinds = np.zeros(candidates.n_features, dtype=np.uint8)
        kinds[list(candidates.missing)] = _OR_MISSING
        for feature, known in candidates.categories.items():
            places[feature] = np.arange(0.5, len(known))  # between codes
            kinds[feature] = _CATEGORIES
        ends = np.cumsum([0, *map(len, places)], dtype=np.int64)
        codes = _core.Codes(
            translation.core_ensemble,
            translation.core_attacker(attacker),
            np.ascontiguousarray(translation.rows(_with_codes(X, candidates))),
            np.concatenate([np.empty(0), *places]),
            ends,
            threads,
            kinds.tolist() if kinds.any() else [],
        )
        return cls(codes, candidates, threads)

    def __len__(self) -> int:
        return int(self.codes.rows)

    def bounds(self, grown: Grown) -> Bounds:
        """Treewise bounds of the rows."""
        low = np.tile(grown.bias, (len(self), 1))
        bounds = Bounds(low, low.copy())
        for tree, output, values in zip(grown.trees, grown.outputs, grown.values, strict=True):
            self.add(bounds, tree, output, values)
        return bounds

    def add(self, bounds: Bounds, tree: _core.CodedTree, output: int, values: Floats) -> None:
        """Add a tree with these leaf values to the bounds."""
        low, high = tree.reachable(self.codes, values, self.threads)
        bounds.low[:, output] += low
        bounds.high[:, output] += high


def _of_numbers(blank: Ensemble, limits: Limits) -> Translation:
    """What the grower sees of an attacker: all it can do to numbers; steps become whole ones."""
    n = blank.n_features
    still = [*blank.categories, *(feature for group in limits.one_hot for feature in group)]
    if still:
        changeable = limits.changeable if len(limits.changeable) else np.ones(n, dtype=np.uint8)
        changeable = changeable.copy()
        changeable[still] = 0
        limits = replace(limits, changeable=changeable, categories={}, one_hot=())
    return Translation(blank_ensemble(n, blank.feature_names), limits)


def _with_codes(X: npt.NDArray[Any], candidates: BinMapper) -> npt.NDArray[Any]:
    """The rows with codes for categories; 0 for what is missing where training saw nothing so.

    The same object where nothing changes.
    """
    if not candidates.categories and not np.isnan(X.min(initial=0.0)):
        return X
    rows = np.array(X, dtype=np.float64)
    for feature in range(rows.shape[1]):
        if feature in candidates.categories:
            known = candidates.categories[feature]
            rows[:, feature] = category_codes(rows[:, feature], known)
        elif feature not in candidates.missing:
            rows[np.isnan(rows[:, feature]), feature] = 0.0
    return rows


@dataclass
class Grown:
    """Trees over codes, and their scores.

    Attributes
    ----------
    bias : array (n_outputs,)
        Added to the scores of every row.
    trees : list of CodedTree
    outputs : list of int
        Which output each tree counts for.
    values : list of array
        Leaf scores of every tree.
    """

    bias: Floats
    trees: list[_core.CodedTree] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def first(self, n_trees: int) -> Grown:
        """The model as it was after so many trees."""
        return replace(
            self,
            trees=self.trees[:n_trees],
            outputs=self.outputs[:n_trees],
            values=self.values[:n_trees],
        )

    def last(self, n_trees: int) -> Iterator[tuple[_core.CodedTree, int, Floats]]:
        """The last trees, with their outputs and scores."""
        return zip(
            self.trees[-n_trees:], self.outputs[-n_trees:], self.values[-n_trees:], strict=True
        )

    def starts(self) -> Floats:
        """Per leaf, the part of its folded score that is bias."""
        left = dict(enumerate(self.bias.tolist()))
        parts = [
            np.full(len(own), left.pop(output, 0.0))
            for output, own in zip(self.outputs, self.values, strict=True)
        ]
        return np.concatenate(parts)

    def own(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the scores stand in a matrix by leaf and output."""
        outputs = np.repeat(self.outputs, [len(values) for values in self.values])
        return np.arange(len(outputs)), outputs

    def anchor(self) -> Floats:
        """What a refit pulls the folded scores towards, by leaf and output: the bias, and 0."""
        anchor = np.zeros((self.n_leaves, len(self.bias)))
        anchor[self.own()] = self.starts()
        return anchor

    def with_scores(self, scores: Floats) -> Grown:
        """The same trees with other scores, one after the other in one array, and no bias."""
        ends = np.cumsum([len(values) for values in self.values])[:-1]
        values = [np.array(part) for part in np.split(scores, ends)]
        return Grown(np.zeros_like(self.bias), [*self.trees], [*self.outputs], values)

    def folded(self) -> Grown:
        """The same with the bias in the scores of every output's first tree."""
        if not self.trees:
            return self
        return self.with_scores(np.concatenate(self.values) + self.starts())

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return sum(map(len, self.values))

    @staticmethod
    def average(members: Sequence[Grown]) -> Grown:
        """The model whose score is the mean of the members' scores."""
        share = len(members)
        bias: Floats = np.mean([member.bias for member in members], axis=0)
        n_outputs = len(bias)
        # Round after round of all members: the outputs stay in turn.
        order = sorted(
            (place // n_outputs, number, place)
            for number, member in enumerate(members)
            for place in range(len(member.trees))
        )
        mean = Grown(bias)
        for _, number, place in order:
            member = members[number]
            mean.trees.append(member.trees[place])
            mean.outputs.append(member.outputs[place])
            mean.values.append(member.values[place] / share)
        return mean


class Grower:
    """Adds trees to a `Grown`, round after round, each at the bounds that those before left."""

    def __init__(
        self,
        rows: CodedRows,
        target: Target,
        settings: GrowthSettings,
        grown: Grown | None = None,
    ) -> None:
        self._rows = rows
        self._target = target
        self._settings = settings
        self.grown = Grown(target.start()) if grown is None else grown
        self.bounds = rows.bounds(self.grown)
        self._random = np.random.default_rng([settings.seed, len(self.grown.trees)])

    def round(self) -> bool:
        """Grow a tree per output; False, and none of them is kept, if none has a split.

        Where rows or features are drawn, a draw without a split does not mean that there is none:
        others are tried, and in the end all rows and features.
        """
        leans = self._target.leans(self.bounds)
        whole = replace(
            self._settings,
            bagging_fraction=1.0,
            feature_fraction=1.0,
            feature_fraction_bynode=1.0,
        )
        tries = [self._settings] * _DRAWS if self._settings != whole else []
        for settings in (*tries, whole):
            trees = self._trees(leans, settings)
            if any(len(tree.values) > 1 for tree in trees):
                break
        else:
            return False
        for output, tree in enumerate(trees):
            values = self._settings.learning_rate * tree.values
            self._rows.add(self.bounds, tree, output, values)
            self.grown.trees.append(tree)
            self.grown.outputs.append(output)
            self.grown.values.append(values)
        return True

    def _trees(self, leans: Sequence[Lean], settings: GrowthSettings) -> list[_core.CodedTree]:
        """A tree per output, on the rows and features that are drawn."""
        n_rows, n_features = len(self._rows), self._rows.candidates.n_features
        used = np.arange(n_rows, dtype=np.int32)
        if settings.bagging_freq > 0 and settings.bagging_fraction < 1:
            n_drawn = max(1, round(settings.bagging_fraction * n_rows))
            used = np.sort(self._random.choice(n_rows, n_drawn, replace=False)).astype(np.int32)
        features = np.ones(n_features, dtype=np.uint8)
        if settings.feature_fraction < 1:
            n_left_out = n_features - max(1, round(settings.feature_fraction * n_features))
            features[self._random.choice(n_features, n_left_out, replace=False)] = 0
        options = [settings.options(int(self._random.integers(2**63))) for _ in leans]
        # Trees of one round do not depend on each other: threads take a tree each, if they can.
        at_once = min(self._rows.threads, len(leans))
        threads = self._rows.threads // at_once

        def grow(lean: Lean, asked: _core.GrowerOptions) -> _core.CodedTree:
            rows = lean.down.astype(np.uint8), lean.gradient, lean.hessian, used
            return _core.grow_tree(self._rows.codes, *rows, features, asked, threads)

        if at_once == 1:
            return list(map(grow, leans, options))
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(grow, leans, options))

    def restart(self, grown: Grown) -> None:
        """Go on from the same trees with other scores."""
        self.grown = grown
        self.bounds = self._rows.bounds(grown)
