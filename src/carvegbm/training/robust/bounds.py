"""Robust training against norm inf: trees grown and refitted at tree-wise bounds.

The bound of a row is the sum over trees of the worst leaf that the attacker can push it into. It is
a lower bound on the worst margin, and a minimum of linear functions of the leaf scores: growing
takes gradients at it, the refit minimises its loss by Adam, and validation rows are judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attackers.attacker import Attacker
from carvegbm.model.ensemble import Ensemble
from carvegbm.training.binning import BinMapper, reach_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.params import RobustSettings
from carvegbm.training.robust.booster import CodedRows, Coder, RobustTrees
from carvegbm.training.robust.trainer import FEW_ROWS, MANY_FEATURES, Growth, RobustTrainer
from carvegbm.training.spec import FitResult, Params, TrainSpec

__all__ = ["BoundTrainer"]

Floats = npt.NDArray[np.float64]
Coded = tuple[BinMapper, CodedRows, CodedRows | None]

_SAMPLE = 20_000  # rows that thresholds are placed by
_MANY_ROWS = 10_000
_MIN_DRAWN, _DRAWN_SHARE = 20_000, 10  # rows per tree: so many, or one in so many
_MAX_BIN = (127, 31)  # per feature: of few features, and of many
_NODE_SHARE = 0.5  # of few features, per split
_SCREENING = 6  # every configuration is first tried with one round in so many
_STAGE = 4  # rounds between refits of all trees so far, for several outputs
_STAGE_CROWDING = 0.35
_BLOCK = 64  # rows
_MAX_VISITS = 1_600_000  # of rows, in a refit
_MIN_VISITS = 50_000
_EPOCHS = ((_MANY_ROWS, 4), (FEW_ROWS, 30), (0, 80))  # of at least so many rows
_STAGE_EPOCHS = 8
_WARM = 0.25  # share of the steps of a refit that starts from refitted scores


class BoundTrainer(RobustTrainer):
    """Trainer for norm inf."""

    def __init__(self, spec: TrainSpec, settings: RobustSettings) -> None:
        super().__init__(spec, settings)
        self._coded: dict[tuple[float, float | None], Coded] = {}
        self._coded_rows: Dataset | None = None
        self._sample: Dataset
        self._ranges: tuple[Floats, Floats, frozenset[int]]

    def search_space(self, n_rows: int) -> Sequence[Params]:
        """Return the configurations to compare, the default first."""
        settings, staged = self.settings, self.n_outputs > 1
        members: tuple[int, ...] = (1,)
        ordered: tuple[bool, ...] = (False, True)
        shares: tuple[float, ...] = (1.0, 0.75)
        min_rows: tuple[int, ...] = (int(self.spec.params["min_data_in_leaf"]),)
        if staged:
            ordered, shares = (False,), (1.0,)
        elif n_rows < FEW_ROWS:
            members, ordered, shares = (3,), (True,), (1.0,)
        elif n_rows < _MANY_ROWS:
            members = (1, 3)
        if self.task == "regression":
            shares = (1.0,)
        if settings.n_members is not None:
            members = (settings.n_members,)
        most = max(1, self.spec.n_rounds // 10)
        crowding = settings.max_crowding
        if crowding is None:
            crowding = (_STAGE_CROWDING,) if staged and n_rows >= FEW_ROWS else (None,)
        if settings.min_child_samples is None and n_rows < FEW_ROWS:
            min_rows = (5, 20)
        names = ("n_members", "ordered", "budget_share", "max_crowding", "min_child_samples")
        found = product(members, ordered, shares, crowding, min_rows)
        return [dict(zip(names, (min(n, most), *each), strict=True)) for n, *each in found]

    def fit_path(
        self, params: Params, train: Dataset, valid: Dataset | None
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield models of one growth: a small one, then one per refit strength (the usual first).

        With several outputs, yield after every stage: a few rounds, and a refit of all trees so
        far. `params` may fix "rounds" and "leaf_l2"; a model of fewer rounds is then not yielded.
        """
        bins, coded, coded_valid = self._code(params, train, valid)
        members = int(params["n_members"])
        growths = [self._start(params, coded, coded_valid, number) for number in range(members)]
        full = self._full_rounds(params)
        may_scout = self.n_outputs == 1 and len(train) >= FEW_ROWS
        for found, trees in self._grow_path(params, growths, coded):
            mean = RobustTrees.average(trees)
            yield (
                found,
                replace(
                    self._finished(found, mean, bins, growths[0], coded),
                    is_scout=may_scout and found["rounds"] < full,
                    refit_on=partial(self._fit_again, found, len(trees[0].trees) // self.n_outputs),
                ),
            )
            if growths[0].stopped_because in ("interrupted", "time limit"):
                return

    def _fit_again(self, params: Params, n_rounds: int, rows: Dataset) -> FitResult:
        """Fit the same configuration, with so many rounds, to other rows."""
        fixed = {**params, "rounds": max(1, n_rounds)}
        *_, (_, last) = self.fit_path(fixed, rows, None)
        return last

    def _full_rounds(self, params: Params) -> int:
        return int(params.get("rounds", max(1, self.spec.n_rounds // int(params["n_members"]))))

    def _grow_path(
        self, params: Params, growths: Sequence[Growth], coded: CodedRows
    ) -> Iterator[tuple[Params, list[RobustTrees]]]:
        """Yield the members of every model along the path, with their parameters."""
        n_rounds = self._full_rounds(params)
        n = len(coded.data)
        strengths = self._strengths(params, n)
        if self.n_outputs > 1 and strengths[0] is not None:
            yield from self._stages(params, growths, coded, n_rounds)
            return
        sizes = {n_rounds}
        if "rounds" not in params and not _is_plain(params):
            sizes.add(max(1, n_rounds // (2 if n < FEW_ROWS else _SCREENING)))
        for size in sorted(sizes):
            for growth in growths:
                self.grow(growth, size)
            grown = [self.kept(growth) for growth in growths]
            first = [self._refit(member, coded, strengths[0]) for member in grown]
            yield {**params, "rounds": size, "leaf_l2": strengths[0]}, first
            if None in strengths[1:]:
                yield {**params, "rounds": size, "leaf_l2": None}, grown
        for strength in filter(None, strengths[1:]):
            trees = [self._refit(member, coded, strength, _WARM) for member in first]
            yield {**params, "rounds": n_rounds, "leaf_l2": strength}, trees

    def _stages(
        self, params: Params, growths: Sequence[Growth], coded: CodedRows, n_rounds: int
    ) -> Iterator[tuple[Params, list[RobustTrees]]]:
        """Yield the members after every stage; growing goes on from the refitted scores."""
        (strength,) = self._strengths(params, len(coded.data))[:1]
        for end in sorted({*range(_STAGE, n_rounds, _STAGE), n_rounds}):
            trees = []
            for growth in growths:
                self.grow(growth, end)
                trees.append(self._refit(RobustTrees.of(growth.booster), coded, strength))
                growth.booster.set_values(trees[-1].values)
            stopped = growths[0].stopped_because != "rounds"
            if "rounds" not in params or end == n_rounds or stopped:
                yield {**params, "rounds": end, "leaf_l2": strength}, trees
            if stopped:
                return

    def _finished(
        self,
        params: Params,
        trees: RobustTrees,
        bins: BinMapper,
        growth: Growth,
        coded: CodedRows,  # noqa: ARG002
    ) -> FitResult:
        """Return the model of the trees, with its bounds on the validation rows."""
        found = None
        if growth.valid is not None and not _is_plain(params):
            found = growth.valid.margins(trees)
        return self.result(trees, bins, growth, int(params["n_members"]), found)

    # ── parts of a path ──────────────────────────────────────────────────────────────────────

    def _code(self, params: Params, train: Dataset, valid: Dataset | None) -> Coded:
        """Return thresholds and coded rows, which paths on the same rows share."""
        if self._coded_rows is not train:
            self._take_rows(train)
        attacker, crowding = self._growing_attacker(params), params.get("max_crowding")
        key = attacker.budget, crowding
        if key in self._coded:
            return self._coded[key]
        # Against other norms, bounds serve to compare models of one radius.
        own = _is_plain(params) or "radius" in params
        judged = attacker if own else self.spec.attacker
        blank = self.spec.model.blank()
        bins = _not_exchanged(self._bins(train, attacker, crowding), judged, blank)
        coded_valid = None
        if valid is not None:
            coded_valid = self._coder(bins, judged).code(self._centered(valid))
        coded = self._coder(bins, attacker).code(self._centered(train), self.seed)
        if not _is_plain(params):
            self._coded[key] = bins, coded, coded_valid
        return bins, coded, coded_valid

    def _take_rows(self, train: Dataset) -> None:
        """Find what all codings of these rows share."""
        self._coded.clear()
        self._coded_rows = self._sample = train
        self.center = float(np.mean(train.y)) if self.task == "regression" else 0.0
        if len(train) > _SAMPLE:
            drawn = np.random.default_rng(self.seed).choice(len(train), _SAMPLE, replace=False)
            self._sample = train.take(np.sort(drawn))
            lower, upper = (ends.reduce(train.matrix, axis=0) for ends in (np.fmin, np.fmax))
            missing = np.flatnonzero(np.isnan(np.minimum.reduce(train.matrix, axis=0)))
            self._ranges = lower, upper, frozenset(missing.tolist())

    def _coder(self, bins: BinMapper, attacker: Attacker) -> Coder:
        return Coder(bins, attacker, self.spec.model.blank(), self.task, self.spec.threads)

    def _centered(self, rows: Dataset) -> Dataset:
        return replace(rows, y=rows.y - self.center) if self.center else rows

    def _growing_attacker(self, params: Params) -> Attacker:
        """Return the attacker of norm inf that trees are grown and refitted against."""
        share = params["radius"] if "radius" in params else params["budget_share"]
        return self.spec.attacker.with_norm("inf", float(share) * self.spec.attacker.budget)

    def _bins(self, train: Dataset, attacker: Attacker, crowding: float | None) -> BinMapper:
        rule = ExclusionRule.against(attacker, self.spec.model.blank())
        most = self.settings.max_bin or _MAX_BIN[train.matrix.shape[1] > MANY_FEATURES]
        found = reach_bins(self._sample, rule, self.spec.threads)
        bins = found.choose(min(most, _MAX_BIN[0]), crowding)
        if self._sample is train:
            return bins
        lower, upper, missing = self._ranges
        return replace(bins, lower=lower, upper=upper, missing=missing.difference(bins.categories))

    def _start(
        self, params: Params, coded: CodedRows, valid: CodedRows | None, number: int
    ) -> Growth:
        drawn = max(_MIN_DRAWN, len(coded.data) // _DRAWN_SHARE)
        options = self.growing_options(
            params,
            self.seed + number,
            feature_fraction_bynode=self.settings.colsample_bynode or _NODE_SHARE,
            bagging_fraction=min(1.0, drawn / len(coded.data)),
        )
        booster = coded.booster(options, self.n_outputs)
        if valid is not None and self.spec.evaluation.sets:
            booster.watch(valid.rows, valid.targets, valid.weights)
        return Growth(booster, valid)

    def _strengths(self, params: Params, n_rows: int) -> list[float | None]:
        """Return the L2 strengths of the refit, the usual one first; None: no refit."""
        if _is_plain(params):
            return [None]
        if "leaf_l2" in params:
            return [params["leaf_l2"]]
        if self.settings.leaf_l2 is not None:
            return list(self.settings.leaf_l2)
        if self.n_outputs > 1:
            return [5e-4]
        if n_rows < FEW_ROWS:
            return [1e-3, None]
        found: list[float | None] = [1e-3, 1e-4, 3e-3]
        if n_rows >= _MANY_ROWS:
            found = [50 / n_rows, 10 / n_rows, 250 / n_rows]
        return found[:1] if "radius" in params else found  # a refit at witnesses follows

    def _refit(
        self, trees: RobustTrees, coded: CodedRows, strength: float | None, share: float = 1.0
    ) -> RobustTrees:
        """Return the trees with refitted scores; `share` of the usual steps."""
        if strength is None or not trees.trees:
            return trees
        n = len(coded.data)
        epochs = next(count for least, count in _EPOCHS if n >= least)
        epochs = epochs if self.n_outputs == 1 else _STAGE_EPOCHS
        visits = int(share * min(max(epochs * n, _MIN_VISITS), _MAX_VISITS))
        blocks = max(1, min(64 if n > 100_000 else 32, n // (4 * _BLOCK)))
        steps = max(50, visits // (_BLOCK * blocks))
        options = _core.RefitOptions(
            steps=steps, blocks_per_batch=blocks, l2=strength, seed=self.seed
        )
        return coded.refit(trees, options)


def _not_exchanged(bins: BinMapper, attacker: Attacker, blank: Ensemble) -> BinMapper:
    """Drop categories and one-hot groups that this attacker can exchange.

    Bounds take them as fixed; an attacker with a share of the budget may not afford to exchange
    them although the whole attacker can.
    """
    exchanged = ExclusionRule.against(attacker, blank).discrete
    known = (bins.categories.get(f, t) for f, t in enumerate(bins.thresholds))
    return bins.keep([np.full(len(own), not exchanged.get(f)) for f, own in enumerate(known)])


def _is_plain(params: Params) -> bool:
    return params.get("budget_share") == 0
