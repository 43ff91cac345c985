"""The boosting rounds: LightGBM's own trees on what closed thresholds leave of the data."""

from __future__ import annotations

import ctypes

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.binning import quantile_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import Evaluation
from carvegbm.training.large_spread.exclusion import ExclusionRule, OpenThresholds
from carvegbm.training.large_spread.lightgbm_c import (
    BinLayout,
    CodeTable,
    RawBooster,
)
from carvegbm.training.large_spread.rounds import start_rounds
from carvegbm.training.large_spread.trainer import boost, candidate_bins
from carvegbm.training.model import ModelSpec
from carvegbm.training.spec import TrainSpec
from training import problems

LEARNING = {"num_leaves": 8, "min_data_in_leaf": 5, "deterministic": True, "seed": 1}


def start(X, y, attacker, n_outputs=1, **parameters):
    candidates = quantile_bins(X)
    table = CodeTable(candidates.encode(X), BinLayout(candidates.n_codes), 1)
    blank = cg.Ensemble.from_trees([{"score": 0.0}], n_features=X.shape[1])
    state = OpenThresholds(candidates.thresholds, ExclusionRule.against(attacker, blank))
    parameters = {**LEARNING, "num_threads": 1, **parameters}
    return candidates, start_rounds(table, state, parameters, Dataset(X, y), n_outputs)


def binary(X):
    return ModelSpec("binary", 1, [f"f{i}" for i in range(X.shape[1])], [0, 1])


def splits(tree):
    return list(zip(tree.feature.tolist(), tree.position.tolist(), strict=True))


@pytest.mark.parametrize("norm", ["inf", 0])
@pytest.mark.parametrize("problem", [problems.two_classes, problems.pixels])
def test_every_tree_is_the_one_lightgbm_grows_on_data_rebuilt_from_scratch(problem, norm):
    X, y = problem()
    candidates, grower = start(
        X, y, cg.Attacker(norm, 1 if norm == 0 else 0.02), objective="binary"
    )
    n, d = X.shape
    raw = None
    for done in range(12):
        state = grower.open
        # Codes that only open thresholds tell apart, numbered anew, in a Dataset of their own.
        open_ = [np.flatnonzero(state.is_open(f)) for f in range(d)]
        codes = np.column_stack(
            [np.searchsorted(open_[f], candidates.encode(X)[:, f], side="left") for f in range(d)]
        )
        fresh = lightgbm.Dataset(
            codes.astype(float),
            y,
            init_score=raw,
            params={"min_data_in_bin": 1, "feature_pre_filter": False, "max_bin": 300},
        )
        expected = lightgbm.train(
            {**LEARNING, "objective": "binary", "verbosity": -1, "num_threads": 1}, fresh, 1
        )
        trees = grower.grow()
        if expected.trees_to_dataframe()["split_feature"].notna().sum() == 0:
            assert trees is None
            assert done > 0
            return
        (tree,) = trees
        text = expected.model_to_string()
        fields = dict(line.partition("=")[::2] for line in text.split("\n"))
        features = [int(f) for f in fields["split_feature"].split()]
        thresholds = [int(float(t)) for t in fields["threshold"].split()]
        assert splits(tree) == [(f, open_[f][t]) for f, t in zip(features, thresholds, strict=True)]
        assert tree.value == pytest.approx(
            [float(v) for v in fields["leaf_value"].split()], rel=1e-6, abs=1e-9
        )
        raw = np.zeros(n) if raw is None else raw
        tree.add_to(raw, candidates.encode(X))


def test_lightgbms_own_training_scores_equal_the_grown_trees_to_the_last_bit():
    X, y = problems.numbers()
    candidates, grower = start(X, y, cg.Attacker("inf", 0.01), objective="regression")
    raw = np.zeros(len(X))
    for _ in range(30):
        (tree,) = grower.grow()
        tree.add_to(raw, candidates.encode(X))
    inside = np.empty(len(X))
    lightgbm.basic._LIB.LGBM_BoosterGetPredict(
        grower.booster._handle,
        ctypes.c_int(0),
        ctypes.byref(ctypes.c_int64(0)),
        ctypes.c_void_p(inside.ctypes.data),
    )
    assert np.array_equal(raw, inside)


def test_closed_thresholds_are_never_used_again():
    X, y = problems.pixels()
    _, grower = start(X, y, cg.Attacker("inf", 0.02), objective="binary")
    for _ in range(40):
        before = [grower.open.is_open(f) for f in range(X.shape[1])]
        trees = grower.grow()
        if trees is None:
            break
        for feature, position in splits(trees[0]):
            assert before[feature][position]


def test_within_a_tree_nothing_is_closed():
    X, y = problems.numbers()
    _, grower = start(X[:, :1], y, cg.Attacker("inf", 10.0), objective="regression")
    (tree,) = grower.grow()
    assert len(tree.feature) == LEARNING["num_leaves"] - 1
    assert grower.grow() is None


def test_the_trees_of_a_multiclass_round_restrict_one_another():
    X, y = problems.three_classes()
    _, grower = start(X, y, cg.Attacker(0, 1), 3, objective="multiclass", num_class=3, num_leaves=3)
    first = grower.grow()
    used = [set(tree.feature.tolist()) for tree in first]
    assert all(used)
    assert sum(len(features) for features in used) == len(set.union(*used))


def test_only_the_candidates_given_are_used():
    X, y = problems.two_classes()
    params = {**LEARNING, "objective": "binary"}
    spec = TrainSpec(cg.Attacker("inf", 0.001), binary(X), params, n_rounds=5)
    candidates = candidate_bins(spec, Dataset(X, y))
    flags = [np.full(len(v), f == X.shape[1] - 1) for f, v in enumerate(candidates.thresholds)]
    boosted = boost(spec, Dataset(X, y), candidates.keep(flags))
    used = {f for tree in boosted.model.trees for f in tree.feature.tolist()}
    assert used == {X.shape[1] - 1}


@pytest.mark.parametrize(
    "parameters",
    [
        {"bagging_fraction": 0.3, "bagging_freq": 1},
        {"bagging_fraction": 0.8, "bagging_freq": 1},
        {"data_sample_strategy": "goss"},
        {"extra_trees": True},
        {"feature_fraction": 0.3},
        {"feature_fraction_bynode": 0.5},
        {"use_quantized_grad": True},
        {"max_bin": 300, "min_data_in_bin": 1},
        {"max_bin": 2},
        {"monotone_constraints": [1, 0, 0, 0, 0, 0, 0, 0]},
        {"interaction_constraints": [[0, 1], [2, 3]]},
        {"path_smooth": 2.0, "max_depth": 3},
    ],
    ids=lambda p: next(iter(p)) + "=" + str(next(iter(p.values()))),
)
def test_lightgbms_ways_to_learn_keep_the_spread_and_the_scores(parameters):
    X, y = problems.two_classes()
    attacker = cg.Attacker("inf", 0.004)
    spec = TrainSpec(
        attacker,
        binary(X),
        {**LEARNING, **parameters, "objective": "binary"},
        n_rounds=40,
        evaluation=Evaluation(sets=[Dataset(X, y, name="same")], metrics=["binary_error"]),
    )
    boosted = boost(spec, Dataset(X, y))
    booster = boosted.model.booster(X)
    assert len(boosted.model.trees) >= 3
    assert cg.is_large_spread(booster, attacker)
    raw = booster.predict(X, raw_score=True)
    error = np.mean((raw > 0) != y)
    assert boosted.evals_result["same"]["binary_error"][-1] == pytest.approx(error, abs=1e-12)
    assert error < 0.3


# ── samples without a split ──────────────────────────────────────────────────────────────────


def one_good_feature(n_outputs=1, seed=0):
    """Labels that follow the first of twelve features; a high gain keeps the others out."""
    X = np.random.default_rng(seed).random((300, 12))
    levels = 2 if n_outputs == 1 else n_outputs
    return X, (X[:, 0] * levels).astype(int)


RARELY_A_SPLIT = {"feature_fraction": 0.1, "min_gain_to_split": 15.0}


def objective(n_outputs):
    return (
        {"objective": "multiclass", "num_class": 3} if n_outputs == 3 else {"objective": "binary"}
    )


def whole_data_split(grower, candidates, X, y, raw):
    """Whether LightGBM itself, told to sample nothing, finds a split on what is open."""
    open_ = [np.flatnonzero(grower.open.is_open(f)) for f in range(X.shape[1])]
    codes = np.column_stack(
        [np.searchsorted(v, candidates.encode(X)[:, f], side="left") for f, v in enumerate(open_)]
    )
    data = lightgbm.Dataset(
        codes.astype(float),
        y,
        init_score=raw if raw.shape[1] > 1 else raw[:, 0],
        params={"min_data_in_bin": 1, "feature_pre_filter": False, "max_bin": 300},
    )
    whole = {**LEARNING, **objective(raw.shape[1]), "min_gain_to_split": 15.0, "verbosity": -1}
    booster = lightgbm.train({**whole, "num_threads": 1}, data, 1)
    return max(tree["num_leaves"] for tree in booster.dump_model()["tree_info"]) > 1


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_training_ends_where_the_whole_data_have_no_split_and_not_before(n_outputs, seed):
    X, y = one_good_feature(n_outputs)
    parameters = {**RARELY_A_SPLIT, **objective(n_outputs), "seed": seed, "learning_rate": 0.3}
    candidates, grower = start(X, y, cg.Attacker("inf", 0.01), n_outputs, **parameters)
    raw = np.zeros((len(X), n_outputs), order="F")
    for _ in range(200):
        trees = grower.grow()
        if trees is None:
            break
        for output, tree in enumerate(trees):
            tree.add_to(raw[:, output], candidates.encode(X))
    assert trees is None
    assert np.unique(raw, axis=0).shape[0] > 1
    assert not whole_data_split(grower, candidates, X, y, raw)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize(
    "sampling",
    [
        {"feature_fraction": 0.1},
        {"feature_fraction_bynode": 0.1},
        {"extra_trees": True},
        {"bagging_fraction": 0.2, "bagging_freq": 1},
    ],
    ids=lambda sampling: next(iter(sampling)),
)
def test_a_first_sample_without_a_split_does_not_end_training(sampling, n_outputs):
    X, y = one_good_feature(n_outputs)
    unlucky = 0
    for seed in range(6):
        parameters = {**sampling, **objective(n_outputs), "min_gain_to_split": 15.0, "seed": seed}
        _, grower = start(X, y, cg.Attacker("inf", 0.001), n_outputs, **parameters)
        grown = [grower.grow() for _ in range(3)]
        assert None not in grown
        assert any(tree.n_leaves > 1 for trees in grown for tree in trees)
        first = lightgbm.train(
            {**LEARNING, **parameters, "verbosity": -1, "num_threads": 1},
            lightgbm.Dataset(X, y, params={"feature_pre_filter": False}),
            1,
        )
        unlucky += first.dump_model()["tree_info"][0]["num_leaves"] == 1
    assert unlucky or "feature_fraction" not in sampling  # else the test would show nothing


def test_rounds_without_a_split_keep_lightgbms_scores_to_the_last_bit():
    X, y = one_good_feature()
    y = 3.0 * y
    passed = 0
    for seed in range(6):
        parameters = {**RARELY_A_SPLIT, "min_gain_to_split": 60.0, "objective": "regression"}
        candidates, grower = start(X, y, cg.Attacker("inf", 0.001), **parameters, seed=seed)
        raw = np.zeros(len(X))
        for _ in range(12):
            (tree,) = grower.grow()
            passed += tree.n_leaves == 1
            tree.add_to(raw, candidates.encode(X))
        inside = np.empty(len(X))
        lightgbm.basic._LIB.LGBM_BoosterGetPredict(
            grower.booster._handle,
            ctypes.c_int(0),
            ctypes.byref(ctypes.c_int64(0)),
            ctypes.c_void_p(inside.ctypes.data),
        )
        assert np.array_equal(raw, inside)
    assert passed


def counted(monkeypatch):
    grow, calls = RawBooster.grow, []

    def counting(self, *arguments):
        calls.append(None)
        return grow(self, *arguments)

    monkeypatch.setattr(RawBooster, "grow", counting)
    return calls


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_bag_too_small_for_two_leaves_costs_20_samples_a_round_at_most(monkeypatch, n_outputs):
    X, y = one_good_feature(n_outputs)
    parameters = {"bagging_fraction": 0.1, "bagging_freq": 1, "min_data_in_leaf": 40}
    parameters |= objective(n_outputs)
    _, grower = start(X, y, cg.Attacker("inf", 0.01), n_outputs, **parameters)
    calls = counted(monkeypatch)
    for done in range(10):
        trees = grower.grow()
        assert [tree.n_leaves for tree in trees] == [1] * n_outputs
        assert done == 0 or not any(tree.value[0] for tree in trees)
    assert len(calls) <= 10 * 20 * n_outputs + n_outputs


def test_with_all_thresholds_closed_no_sample_is_drawn_twice(monkeypatch):
    X, y = one_good_feature()
    _, grower = start(X[:, :2], y, cg.Attacker("inf", 10.0), objective="binary", extra_trees=True)
    while grower.open.n_open:
        assert grower.grow() is not None
    calls = counted(monkeypatch)
    assert grower.grow() is None
    assert len(calls) == 1


def test_a_fresh_table_holds_the_codes_it_was_given():
    # Trained on a table of many features, LightGBM must see each of them: labels follow one.
    codes = np.asfortranarray(np.random.default_rng(0).integers(0, 256, (500, 40)), dtype=np.uint8)
    for feature in (0, 17, 39):
        table = CodeTable(codes.copy(order="F"), BinLayout([256] * 40), 1)
        table.set_field("label", codes[:, feature] > 100)
        booster = RawBooster(table, {"objective": "binary", "num_leaves": 2, "num_threads": 1})
        assert booster.grow()
        fields = dict(line.partition("=")[::2] for line in booster.text().split("\n"))
        assert int(fields["split_feature"]) == feature
        assert int(float(fields["threshold"])) == 100


def test_a_table_merged_in_blocks_of_rows_is_the_same(monkeypatch):
    X, y = problems.pixels()
    attacker = cg.Attacker(1, 0.05)
    _, whole = start(X, y, attacker, objective="binary")
    _, blocks = start(X, y, attacker, objective="binary")
    for _ in range(15):
        (expected,) = whole.grow()
        with monkeypatch.context() as patch:
            patch.setattr("carvegbm.training.large_spread.lightgbm_c._MERGED_CELLS", 100)
            (tree,) = blocks.grow()
        assert splits(tree) == splits(expected)
        assert np.array_equal(blocks.table.codes, whole.table.codes)
