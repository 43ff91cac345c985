"""What is grown is what LightGBM predicts with, and its bounds hold whatever the attacker does."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
import oracle
from carvegbm.training.binning import reach_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.inputs import blank_ensemble
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.model import ModelSpec
from carvegbm.training.robust.growing import CodedRows, Grower, Grown, GrowthSettings
from carvegbm.training.robust.model import model_of, template_of
from carvegbm.training.robust.targets import target_of
from training import problems

PROBLEMS = {
    "binary": problems.two_classes,
    "multiclass": problems.three_classes,
    "regression": problems.numbers,
}
OBJECTIVES = {
    "binary": {"objective": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "regression": {"objective": "regression"},
}
TASKS = pytest.mark.parametrize("task", list(PROBLEMS))


class Garden:
    """Rows, and trees grown on them."""

    def __init__(self, task, attacker=None, n=200, d=4, rounds=4, members=1, **settings):
        self.attacker = attacker or cg.Attacker("inf", 0.05)
        X, y = PROBLEMS[task](n, d)
        self.rows = Dataset(X, y)
        rule = ExclusionRule.against(self.attacker, blank_ensemble(d))
        self.candidates = reach_bins(self.rows, rule).choose(20, None)
        self.coded = CodedRows.of(X, self.candidates, self.attacker)
        n_outputs = 3 if task == "multiclass" else 1
        self.target = target_of(task, self.rows, n_outputs)
        grow = GrowthSettings(**{"num_leaves": 6, "min_data_in_leaf": 5, **settings})
        self.members = []
        for seed in range(members):
            grower = Grower(self.coded, self.target, replace(grow, seed=seed))
            for _ in range(rounds):
                assert grower.round()
            self.members.append(grower.grown)
            self.grower = grower
        self.grown = Grown.average(self.members)
        classes = None if task == "regression" else np.unique(y)
        self.kind = ModelSpec(task, n_outputs, [f"f{i}" for i in range(d)], classes)
        self.template = template_of(OBJECTIVES[task], grow, d, rounds)

    def model(self, grown=None):
        return model_of(grown or self.grown, self.kind, self.template, self.candidates)


@TASKS
@pytest.mark.parametrize("members", [1, 3])
def test_boosters_raw_scores_are_those_of_the_trees_that_were_grown(task, members):
    garden = Garden(task, members=members)
    X = garden.rows.X
    nobody = CodedRows.of(X, garden.candidates, cg.Attacker("inf", 0))
    own = nobody.bounds(garden.grown)
    assert np.array_equal(own.low, own.high)
    model = garden.model()
    raw = model.booster(X).predict(X, raw_score=True).reshape(len(X), -1)
    assert raw == pytest.approx(own.low, abs=1e-12)
    assert np.array_equal(raw.ravel(), np.ravel(model.ensemble.raw_score(X)))
    assert cg.load(model.booster(X)).n_trees == members * 4 * garden.kind.n_outputs


@TASKS
def test_bounds_hold_for_everything_the_attacker_can_do(task):
    attacker = cg.Attacker("inf", 0.07, scale=[1, 2, 0.5, 1], bounds=(0.0, 1.0))
    garden = Garden(task, attacker, n=60, rounds=2, members=2)
    ensemble = garden.model().ensemble
    bounds = garden.coded.bounds(garden.grown)
    slow = oracle.Attacker(np.inf, 0.07, [1, 2, 0.5, 1], bounds=([0.0] * 4, [1.0] * 4))
    tight = 0
    for i, x in enumerate(garden.rows.X[:25]):
        for output in range(garden.kind.n_outputs):
            raw = [float(a.raw[output]) for a in oracle.attacks(ensemble, x.tolist(), slow)]
            low, high = bounds.low[i, output], bounds.high[i, output]
            assert low <= min(raw) + 1e-12
            assert high >= max(raw) - 1e-12
            tight += high - low < max(raw) - min(raw) + 1e-12
    assert tight > 3  # the bound is not idle: for some rows it is the truth


@TASKS
def test_average_is_the_mean_of_its_members(task):
    garden = Garden(task, members=3)
    X = garden.rows.X
    parts = [garden.model(member).ensemble.raw_score(X) for member in garden.members]
    assert garden.model().ensemble.raw_score(X) == pytest.approx(np.mean(parts, axis=0))


@TASKS
def test_growing_lowers_the_loss_and_bounds_are_kept_up_to_date(task):
    garden = Garden(task, rounds=6)
    grown = garden.grower.grown
    losses = [
        garden.target.loss(garden.coded.bounds(grown.first(n * garden.kind.n_outputs)))
        for n in range(7)
    ]
    assert losses == sorted(losses, reverse=True)
    fresh = garden.coded.bounds(grown)
    assert garden.grower.bounds.low == pytest.approx(fresh.low)
    assert garden.grower.bounds.high == pytest.approx(fresh.high)


@TASKS
def test_model_counts_rows_where_they_are(task):
    garden = Garden(task, n=600)
    X = garden.rows.X
    booster = lightgbm.Booster(model_str=garden.model().with_counts(garden.rows.X, 2).text())
    leaves = booster.predict(X, pred_leaf=True)
    for tree in range(booster.num_trees()):
        frame = booster.trees_to_dataframe().query(f"tree_index == {tree}")
        ends = frame[frame.left_child.isna()]
        for name, count in zip(ends.node_index, ends["count"], strict=True):
            assert count == (leaves[:, tree] == int(name.split("L")[1])).sum()
        assert frame["count"].iloc[0] == len(X)


def test_ordered_trees_agree_with_every_split_all_the_way_down():
    free, ordered = (Garden("binary", num_leaves=24, ordered=o).grown for o in (False, True))

    def disordered(grown):
        """Splits below which the ranges of both sides overlap."""
        count = 0
        for tree, values in zip(grown.trees, grown.values, strict=True):
            children = list(zip(tree.left.tolist(), tree.right.tolist(), strict=True))

            def below(node, children=children, values=values):
                if node < 0:
                    return [values[~node]]
                return [v for child in children[node] for v in below(child)]

            for left, right in children:
                a, b = below(left), below(right)
                count += not (max(a) <= min(b) + 1e-12 or max(b) <= min(a) + 1e-12)
        return count

    assert disordered(ordered) == 0
    assert disordered(free) > 0


def test_no_split_makes_a_constant():
    garden = Garden("binary", rounds=0)
    model = garden.model()
    assert model.ensemble.n_leaves == 1
    X = garden.rows.X
    assert np.ptp(model.booster(X).predict(X)) == 0


def test_a_draw_without_a_split_does_not_end_training():
    """One feature of forty tells the classes apart, and each split looks at two of them."""
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 40)), rng.integers(0, 2, 300)
    X[:, 7] = y
    attacker = cg.Attacker("inf", 0.4)
    rows = Dataset(X, y)
    rule = ExclusionRule.against(attacker, blank_ensemble(40))
    coded = CodedRows.of(X, reach_bins(rows, rule).choose(20, None), attacker)
    for settings in ({"feature_fraction_bynode": 0.05}, {"feature_fraction": 0.05}):
        grower = Grower(coded, target_of("binary", rows, 1), GrowthSettings(**settings))
        assert all(grower.round() for _ in range(5))
        assert all((tree.feature == 7).any() for tree in grower.grown.trees)
