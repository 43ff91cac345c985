"""The estimators: models that keep what their training promises, and proofs about them."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from sklearn.metrics import r2_score

import carvegbm as cg
from carvegbm.training.estimators import LargeSpreadRegressor
from training import problems
from training.estimators import (
    ATTACKERS,
    CLASSIFIERS,
    REGRESSORS,
    classifier,
    regressor,
    robust_classifier,
    robust_regressor,
)


@pytest.mark.parametrize(("norm", "budget"), ATTACKERS)
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_the_model_is_large_spread_for_its_attacker(problem, norm, budget):
    X, y = problem()
    model = classifier(norm=norm, budget=budget).fit(X, y)
    assert cg.is_large_spread(model.booster_, cg.Attacker(norm, budget))
    assert model.score(X, y) > (0.7 if norm != 0 or problem is problems.two_classes else 0.4)
    assert model.ensemble_.n_trees > 1


@pytest.mark.parametrize(
    ("estimator", "problem"),
    [
        (classifier(), problems.two_classes),
        (classifier(), problems.pixels),
        (classifier(), problems.three_classes),
        (classifier(boost_from_average=False), problems.three_classes),
        (regressor(), problems.numbers),
        (regressor(objective="quantile", alpha=0.3), problems.numbers),
        (regressor(objective="l1"), problems.numbers),
    ],
    ids=["binary", "pixels", "multiclass", "no-average", "squared", "quantile", "absolute"],
)
def test_the_boosters_raw_scores_equal_the_training_loops_to_the_last_bit(estimator, problem):
    X, y = problem()
    seen = []
    estimator.fit(
        X, y, eval_set=(X, y), eval_metric=lambda _, p: seen.append(p) or ("none", 0.0, True)
    )
    assert np.array_equal(estimator.booster_.predict(X, raw_score=True), raw_of(estimator, X))
    predicted = estimator.booster_.predict(X)
    assert seen[-1] == pytest.approx(predicted, rel=1e-12)
    if isinstance(estimator, LargeSpreadRegressor):
        assert np.array_equal(seen[-1], predicted)


@pytest.mark.parametrize(
    ("estimator", "problem"),
    [
        (robust_classifier(), problems.two_classes),
        (robust_classifier(n_members=2), problems.pixels),
        (robust_classifier(n_estimators=6), problems.three_classes),
        (robust_regressor(), problems.numbers),
    ],
    ids=["binary", "pixels", "multiclass", "squared"],
)
def test_a_robust_boosters_raw_scores_are_its_leaf_values_added_up(estimator, problem):
    X, y = problem()
    estimator.fit(X, y)
    raw = estimator.booster_.predict(X, raw_score=True)
    assert np.array_equal(raw, raw_of(estimator, X))
    assert np.array_equal(raw, estimator.ensemble_.raw_score(X))


def raw_of(estimator, X):
    """Leaf values added up in the order of the trees, as plain Python floats."""
    n_outputs = estimator.booster_.num_model_per_iteration()
    raw = np.zeros((len(X), n_outputs))
    for index, tree in enumerate(estimator.ensemble_.to_trees()):
        for row, x in enumerate(X):
            node = tree
            while "feature" in node:
                node = node["left" if x[node["feature"]] <= node["threshold"] else "right"]
            score = node["score"]
            raw[row, index % n_outputs] += (
                score[index % n_outputs] if isinstance(score, list) else score
            )
    return raw[:, 0] if n_outputs == 1 else raw


@CLASSIFIERS
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes, problems.pixels])
def test_a_saved_model_loads_as_the_same_ensemble_and_in_stock_lightgbm(
    classifier, problem, tmp_path
):
    X, y = problem()
    model = classifier().fit(X, y)
    model.save_model(tmp_path / "model.txt")
    assert cg.load(tmp_path / "model.txt") == model.ensemble_
    stock = lightgbm.Booster(model_file=tmp_path / "model.txt")
    assert np.array_equal(stock.predict(X), model.booster_.predict(X))
    assert stock.model_to_string() == model.booster_.model_to_string()


@CLASSIFIERS
def test_the_booster_is_a_real_one(classifier):
    X, y = problems.three_classes()
    model = classifier(n_estimators=5).fit(X, y)
    contributions = model.booster_.predict(X, pred_contrib=True).reshape(len(X), 3, -1)
    assert contributions.sum(axis=2) == pytest.approx(model.decision_function(X))
    assert np.abs(contributions[:, :, :-1]).max() > 0
    assert len(model.booster_.trees_to_dataframe()) > 15
    assert model.booster_.dump_model()["num_class"] == 3
    assert model.feature_importances_.sum() == model.ensemble_.n_leaves - model.ensemble_.n_trees
    assert model.booster_.feature_importance("gain").sum() > 0
    leaves = model.booster_.predict(X, pred_leaf=True)
    assert leaves.shape == (len(X), model.ensemble_.n_trees)


@CLASSIFIERS
def test_the_booster_counts_the_rows_in_its_leaves_as_lightgbm_does(classifier):
    """What SHAP values, plots and converters weigh leaves with."""
    X, y = problems.two_classes()
    model = classifier(n_estimators=5).fit(X, y, eval_set=(X, y))
    frame = model.booster_.trees_to_dataframe()
    for tree, nodes in frame.groupby("tree_index"):
        leaves = nodes[nodes["left_child"].isna()].sort_values("node_index")
        own = model.booster_.predict(X, pred_leaf=True)[:, tree]
        counted = [int(row.node_index.split("L")[1]) for row in leaves.itertuples()]
        assert leaves["count"].sum() == len(X)
        assert [int((own == leaf).sum()) for leaf in counted] == leaves["count"].tolist()


def features_by_tree(model):
    frame = model.booster_.trees_to_dataframe()
    for _, tree in frame.groupby("tree_index"):
        yield {int(name.removeprefix("Column_")) for name in tree["split_feature"].dropna()}


def test_thresholds_outside_the_bounds_are_free():
    X, y = problems.two_classes()
    model = classifier(norm=0, budget=1, bounds=([2] + [0] * 7, [3] + [1] * 7)).fit(X, y)
    assert sum(0 in tree for tree in features_by_tree(model)) > 5
    assert sum(1 in tree for tree in features_by_tree(model)) == 1


def test_constant_features_are_ignored():
    X, y = problems.two_classes()
    X[:, 5] = 7.0
    model = classifier().fit(X, y)
    assert model.feature_importances_[5] == 0
    assert model.score(X, y) > 0.8
    with pytest.warns(UserWarning, match="no feature separates the labels"):
        assert classifier().fit(np.ones((60, 2)), np.arange(60) % 2).n_iter_ == 0


def test_a_huge_budget_leaves_one_tree_per_feature_at_most():
    X, y = problems.two_classes()
    model = classifier(budget=5.0, n_estimators=200).fit(X, y)
    assert model.stopped_because_ == "no thresholds left"
    assert 1 <= model.n_iter_ == model.ensemble_.n_trees <= X.shape[1]
    assert model.n_open_thresholds_ < 255


# ── proofs ───────────────────────────────────────────────────────────────────────────────────


@CLASSIFIERS
@pytest.mark.parametrize(("norm", "budget"), ATTACKERS)
def test_robust_score_is_the_share_of_robust_instances(classifier, norm, budget):
    X, y = problems.two_classes()
    model = classifier(norm=norm, budget=budget).fit(X[:300], y[:300])
    result = model.verify(X[300:], y[300:])
    assert model.robust_score(X[300:], y[300:]) == np.mean(result.status == "robust")
    assert result.accuracy == model.score(X[300:], y[300:])


@REGRESSORS
def test_regression_outputs_lie_in_the_reachable_range(regressor):
    X, y = problems.numbers()
    model = regressor(budget=0.01).fit(X, y)
    found = model.output_range(X)
    assert found.exact.all()
    lowest, highest = found.lowest, found.highest
    moved = X + np.random.default_rng(0).uniform(-0.01, 0.01, X.shape)
    raw = model.predict(moved)
    assert ((lowest <= raw + 1e-12) & (raw - 1e-12 <= highest)).all()
    assert (lowest < highest).any()


@REGRESSORS
def test_a_regressors_robust_score_is_r2_at_the_worse_ends(regressor):
    X, y = problems.numbers()
    model = regressor(budget=0.01).fit(X[:300], y[:300])
    found = model.output_range(X[300:])
    worse = [
        max(low, high, key=lambda end, y=y: abs(end - y))
        for low, high, y in zip(found.lowest, found.highest, y[300:], strict=True)
    ]
    assert model.robust_score(X[300:], y[300:]) == pytest.approx(r2_score(y[300:], worse))
    assert model.robust_score(X[300:], y[300:]) < model.score(X[300:], y[300:])
