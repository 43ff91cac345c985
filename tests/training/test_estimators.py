"""The estimators: scikit-learn citizens whose models are large-spread by construction."""

from __future__ import annotations

import gzip
import pickle
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import carvegbm as cg
from carvegbm.training.estimators import LargeSpreadClassifier, LargeSpreadRegressor
from carvegbm.training.tuning import tune
from training import problems

ATTACKERS = [("inf", 0.01), (1, 0.02), (2, 0.015), (0, 2)]


def classifier(**parameters):
    defaults = {"n_estimators": 30, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}
    return LargeSpreadClassifier(**{**defaults, **parameters})


def regressor(**parameters):
    defaults = {"n_estimators": 30, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}
    return LargeSpreadRegressor(**{**defaults, **parameters})


def small_leaves(estimator):
    del estimator
    return {
        "check_sample_weight_equivalence_on_dense_data": "as in LightGBM, the rows of a leaf and "
        "of a bin are counted, not weighed, so weight 2 is not two rows",
    }


@parametrize_with_checks(
    [
        LargeSpreadClassifier(n_estimators=10, min_child_samples=2, budget=1e-3, n_jobs=1),
        LargeSpreadRegressor(n_estimators=10, min_child_samples=2, budget=1e-3, n_jobs=1),
    ],
    expected_failed_checks=small_leaves,
)
def test_scikit_learns_estimator_checks(estimator, check):
    check(estimator)


# ── the model ────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes, problems.pixels])
def test_a_saved_model_loads_as_the_same_ensemble_and_in_stock_lightgbm(problem, tmp_path):
    X, y = problem()
    model = classifier().fit(X, y)
    model.save_model(tmp_path / "model.txt")
    assert cg.load(tmp_path / "model.txt") == model.ensemble_
    stock = lightgbm.Booster(model_file=tmp_path / "model.txt")
    assert np.array_equal(stock.predict(X), model.booster_.predict(X))
    assert stock.model_to_string() == model.booster_.model_to_string()


def test_the_booster_is_a_real_one():
    X, y = problems.three_classes()
    model = classifier(n_estimators=5).fit(X, y)
    contributions = model.booster_.predict(X, pred_contrib=True).reshape(len(X), 3, -1)
    assert contributions.sum(axis=2) == pytest.approx(model.decision_function(X))
    assert len(model.booster_.trees_to_dataframe()) > 15
    assert model.booster_.dump_model()["num_class"] == 3
    assert model.feature_importances_.sum() == model.ensemble_.n_leaves - model.ensemble_.n_trees


def test_features_the_attacker_cannot_change_are_used_freely():
    X, y = problems.two_classes()
    model = classifier(norm=0, budget=1, features=[4, 5, 6, 7], n_estimators=20).fit(X, y)
    users = [
        sum(0 in tree for tree in features_by_tree(model)),
        max(sum(f in tree for tree in features_by_tree(model)) for f in (4, 5, 6, 7)),
    ]
    assert users[0] > 5
    assert users[1] <= 1


def features_by_tree(model):
    frame = model.booster_.trees_to_dataframe()
    for _, tree in frame.groupby("tree_index"):
        yield {int(name.removeprefix("Column_")) for name in tree["split_feature"].dropna()}


def test_scale_stretches_the_distance_between_thresholds():
    X, y = problems.two_classes()
    scale = np.array([1, 50, 1, 1, 1, 1, 1, 1.0])
    model = classifier(budget=0.004, scale=scale, n_estimators=60).fit(X, y)
    assert cg.is_large_spread(model.ensemble_, cg.Attacker("inf", 0.004, scale=scale))
    assert sum(1 in tree for tree in features_by_tree(model)) < 4


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


def test_budget_0_trains_on_distinct_thresholds():
    X, y = problems.two_classes()
    model = classifier(budget=0.0).fit(X, y)
    assert model.stopped_because_ == "rounds"
    assert cg.spread(model.ensemble_) > 0


def test_a_huge_budget_leaves_one_tree_per_feature_at_most():
    X, y = problems.two_classes()
    model = classifier(budget=5.0, n_estimators=200).fit(X, y)
    assert model.stopped_because_ == "no thresholds left"
    assert 1 <= model.n_iter_ == model.ensemble_.n_trees <= X.shape[1]
    assert model.n_open_thresholds_ < 255


# ── proofs ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("norm", "budget"), ATTACKERS)
def test_robust_score_is_the_share_of_robust_instances(norm, budget):
    X, y = problems.two_classes()
    model = classifier(norm=norm, budget=budget).fit(X[:300], y[:300])
    result = model.verify(X[300:], y[300:])
    assert model.robust_score(X[300:], y[300:]) == np.mean(result.status == "robust")
    assert result.accuracy == model.score(X[300:], y[300:])


def test_regression_outputs_lie_in_the_reachable_range():
    X, y = problems.numbers()
    model = regressor(budget=0.01).fit(X, y)
    found = model.output_range(X)
    assert found.exact.all()
    lowest, highest = found.lowest, found.highest
    moved = X + np.random.default_rng(0).uniform(-0.01, 0.01, X.shape)
    raw = model.predict(moved)
    assert ((lowest <= raw + 1e-12) & (raw - 1e-12 <= highest)).all()
    assert (lowest < highest).any()


# ── scikit-learn ─────────────────────────────────────────────────────────────────────────────


def test_clones_and_pickles_predict_the_same():
    X, y = problems.two_classes()
    model = classifier(path_smooth=0.5, random_state=3).fit(X, y)
    again = clone(model).fit(X, y)
    assert again.get_params() == model.get_params()
    assert again.booster_.model_to_string() == model.booster_.model_to_string()
    restored = pickle.loads(pickle.dumps(model))
    assert restored.ensemble_ == model.ensemble_
    assert np.array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_parameters_of_lightgbm_are_parameters_of_the_estimator():
    model = classifier(path_smooth=1.0)
    assert model.get_params()["path_smooth"] == 1.0
    model.set_params(path_smooth=2.0, lambda_l2=3.0)
    assert model.get_params()["lambda_l2"] == 3.0
    assert "path_smooth=2.0" in repr(model)


def test_it_is_deterministic_for_a_random_state_and_any_number_of_threads():
    X, y = problems.two_classes(200)
    options = {"subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.5}
    texts = [
        classifier(random_state=seed, n_jobs=jobs, **options)
        .fit(X, y)
        .booster_.trees_to_dataframe()
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    ]
    assert texts[0].equals(texts[1])
    assert not texts[0].equals(texts[2])
    drawn = np.random.RandomState(0)
    first, second = (classifier(random_state=drawn, **options).fit(X, y) for _ in range(2))
    assert first.ensemble_ != second.ensemble_


def test_frames_give_their_names_to_the_model_and_the_attacker():
    X, y = problems.two_classes()
    names = ["age", "income [k]", "a", "b", "c", "d", "e", "f"]
    frame = pd.DataFrame(X, columns=names)
    model = classifier(norm=0, budget=1, features=["income [k]", "age"]).fit(frame, y)
    assert model.booster_.feature_name()[:2] == ["age", "income__k_"]
    assert list(model.feature_names_in_) == names
    assert model.attacker_.features == (0, 1)
    assert model.ensemble_.feature_names[0] == "age"
    model.verify(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"age": "years"}))


def test_string_labels_come_back():
    X, y = problems.three_classes()
    words = np.array(["low", "middle", "high"])[y]
    model = classifier().fit(X, words, eval_set=(X, words))
    assert set(model.predict(X)) == {"low", "middle", "high"}
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.verify(X, words).accuracy == model.score(X, words)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


def test_weights_pull_the_decision():
    X, y = problems.two_classes()
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < 0.3, 1 - y, y)
    plain = classifier().fit(X, y).predict(X).mean()
    by_row = classifier().fit(X, y, sample_weight=np.where(y == 1, 9.0, 1.0)).predict(X).mean()
    by_class = classifier(class_weight={0: 1, 1: 9}).fit(X, y).predict(X).mean()
    assert by_row > plain + 0.1
    assert by_class == by_row
    classifier(class_weight="balanced").fit(X, y)


def test_robust_score_works_as_scoring():
    X, y = problems.two_classes()
    scores = cross_val_score(
        classifier(n_estimators=10), X, y, cv=3, scoring=LargeSpreadClassifier.robust_score
    )
    assert ((scores > 0.3) & (scores < 1)).all()
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), classifier(n_estimators=5)),
        {"largespreadclassifier__num_leaves": [4, 8]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_["largespreadclassifier__num_leaves"] in (4, 8)


def test_float32_rows_train_and_predict():
    X, y = problems.pixels()
    model = classifier().fit(X.astype(np.float32), y)
    assert model.score(X.astype(np.float32), y) > 0.8


# ── evaluation ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "metric",
    ["binary_logloss", "binary_error", "auc", "average_precision", "cross_entropy", "l1"],
)
def test_lightgbms_metrics_are_lightgbms(metric):
    X, y = problems.two_classes()
    weight = np.random.default_rng(0).uniform(0.5, 2, 100)
    model = classifier(n_estimators=7).fit(
        X[:300],
        y[:300],
        eval_set=(X[300:], y[300:]),
        eval_sample_weight=[weight],
        eval_metric=metric,
    )
    data = lightgbm.Dataset(X[300:], y[300:], weight=weight)
    data.set_init_score(model.decision_function(X[300:]))
    parameters = {"objective": "binary", "metric": metric, "verbosity": -1, "num_threads": 1}
    expected = lightgbm.Booster(parameters, data.construct()).eval_train()[0][2]
    assert len(model.evals_result_["valid_0"][metric]) == 7
    assert model.evals_result_["valid_0"][metric][-1] == expected


def test_multiclass_metrics_see_the_scores_of_all_classes():
    X, y = problems.three_classes()
    model = classifier().fit(X, y, eval_set=(X, y), eval_metric=["multi_error", "multi_logloss"])
    history = model.evals_result_["valid_0"]
    assert history["multi_error"][-1] == pytest.approx(1 - model.score(X, y))
    chosen = model.predict_proba(X)[np.arange(len(y)), y]
    assert history["multi_logloss"][-1] == pytest.approx(-np.log(chosen).mean())


def test_early_stopping_keeps_the_best_round():
    X, y = problems.two_classes()
    model = classifier(n_estimators=300, learning_rate=0.5).fit(
        X[:250], y[:250], eval_set=[(X[250:], y[250:])], early_stopping_rounds=10
    )
    losses = model.evals_result_["valid_0"]["binary_logloss"]
    assert model.stopped_because_ == "early stopping"
    assert model.best_iteration_ == model.ensemble_.n_trees == int(np.argmin(losses)) + 1
    assert model.best_score_ == min(losses)
    assert len(losses) == model.best_iteration_ + 10


def test_early_stopping_on_proven_robustness():
    X, y = problems.two_classes()
    model = classifier(n_estimators=60, budget=0.02).fit(
        X[:250],
        y[:250],
        eval_set=[(X[250:], y[250:]), (X[:250], y[:250])],
        eval_names=["held out", "training"],
        eval_metric=["robustness", "auc"],
        early_stopping_rounds=15,
    )
    proven = model.evals_result_["held out"]["robustness"]
    assert model.best_score_ == max(proven) == model.robust_score(X[250:], y[250:])
    assert model.best_iteration_ == int(np.argmax(proven)) + 1
    assert set(model.evals_result_["training"]) == {"robustness", "auc"}


def test_callbacks_see_every_round_and_may_change_the_learning_rate():
    X, y = problems.two_classes()
    seen, recorded = [], {}
    model = classifier(n_estimators=6).fit(
        X,
        y,
        eval_set=(X, y),
        callbacks=[
            lambda env: seen.append((env.iteration, env.evaluation_result_list[0][1])),
            lightgbm.record_evaluation(recorded),
            lightgbm.reset_parameter(learning_rate=lambda i: 0.3 if i == 0 else 1e-6),
        ],
    )
    assert seen == [(i, "binary_logloss") for i in range(6)]
    assert recorded["valid_0"]["binary_logloss"] == model.evals_result_["valid_0"]["binary_logloss"]
    trees = model.booster_.trees_to_dataframe()
    later = trees[(trees["tree_index"] == 5) & trees["split_feature"].isna()]["value"]
    assert later.abs().max() < 1e-4


def test_lightgbms_early_stopping_callback_works():
    X, y = problems.two_classes()
    model = classifier(n_estimators=300, learning_rate=0.5).fit(
        X[:250],
        y[:250],
        eval_set=(X[250:], y[250:]),
        callbacks=[lightgbm.early_stopping(8, verbose=False)],
    )
    losses = model.evals_result_["valid_0"]["binary_logloss"]
    assert model.stopped_because_ == "early stopping"
    assert model.n_iter_ == int(np.argmin(losses)) + 1


def test_lightgbms_early_stopping_callback_that_never_fires_stopped_nothing():
    X, y = problems.two_classes()
    model = classifier(n_estimators=25, learning_rate=0.5).fit(
        X[:250],
        y[:250],
        eval_set=(X[250:], y[250:]),
        callbacks=[lightgbm.early_stopping(100, verbose=False)],
    )
    losses = model.evals_result_["valid_0"]["binary_logloss"]
    assert model.stopped_because_ == "rounds"
    assert len(losses) == 25
    assert model.n_iter_ == int(np.argmin(losses)) + 1 < 25
    assert model.best_score_ == min(losses)


@pytest.mark.parametrize("own", [True, False])
def test_early_stopping_that_is_due_in_the_last_round_stopped_nothing(own):
    X, y = problems.two_classes()

    def fit(n_estimators):
        how = {"early_stopping_rounds": 5}
        if not own:
            how = {"callbacks": [lightgbm.early_stopping(5, verbose=False)]}
        model = classifier(n_estimators=n_estimators, learning_rate=0.5)
        return model.fit(X[:250], y[:250], eval_set=(X[250:], y[250:]), **how)

    stopped = fit(300)
    done = len(stopped.evals_result_["valid_0"]["binary_logloss"])
    last = fit(done)
    assert (stopped.stopped_because_, last.stopped_because_) == ("early stopping", "rounds")
    assert last.ensemble_ == stopped.ensemble_


def test_lightgbms_early_stopping_keeps_the_best_round_where_no_thresholds_are_left():
    X, y = problems.two_classes()
    fit = {"eval_set": (X[250:], y[250:])}
    own, theirs = (
        classifier(n_estimators=300, learning_rate=1.0, budget=0.2).fit(
            X[:250], y[:250], **fit, **how
        )
        for how in (
            {"early_stopping_rounds": 200},
            {"callbacks": [lightgbm.early_stopping(200, verbose=False)]},
        )
    )
    assert own.stopped_because_ == theirs.stopped_because_ == "no thresholds left"
    assert own.n_iter_ < len(own.evals_result_["valid_0"]["binary_logloss"])
    assert own.ensemble_ == theirs.ensemble_
    assert own.best_score_ == theirs.best_score_


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_samples_too_small_for_a_split_say_how_to_get_one(problem):
    X, y = problem(200)
    model = classifier(subsample=0.1, subsample_freq=1, min_child_samples=40, n_estimators=5)
    with pytest.warns(UserWarning, match="the model is constant: .* raise subsample"):
        model.fit(X, y)
    assert model.stopped_because_ == "rounds"
    assert model.n_iter_ == 0
    shares = np.bincount(y) / len(y)
    assert model.predict_proba(X)[0] == pytest.approx(shares)


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_rounds_without_a_split_keep_their_numbers(problem):
    X, y = problem()
    model = classifier(
        n_estimators=40, colsample_bytree=0.1, min_split_gain=12.0, random_state=0, budget=0.001
    ).fit(X, y, eval_set=(X, y), eval_metric="binary_error" if y.max() == 1 else "multi_error")
    (errors,) = model.evals_result_["valid_0"].values()
    assert errors[model.n_iter_ - 1] == pytest.approx(1 - model.score(X, y))
    assert model.booster_.current_iteration() == model.n_iter_


def test_interruption_returns_what_is_trained_so_far():
    X, y = problems.three_classes()

    def interrupt(env):
        if env.iteration == 7:
            raise KeyboardInterrupt

    model = classifier(n_estimators=100).fit(X, y, callbacks=[interrupt])
    assert model.stopped_because_ == "interrupted"
    assert model.n_iter_ == 8
    assert model.ensemble_.n_trees == 24
    assert cg.is_large_spread(model.ensemble_, model.attacker_)


def test_progress_is_a_line_per_50_rounds_and_silent_by_default(capsys):
    X, y = problems.two_classes()
    classifier(n_estimators=55, budget=1e-3).fit(X, y)
    assert capsys.readouterr() == ("", "")
    classifier(n_estimators=55, budget=1e-3, verbose=1).fit(X, y, eval_set=(X, y))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("round 50: binary_logloss ")
    assert lines[1].startswith("stopped after 55 rounds (rounds)")


# ── bad input ────────────────────────────────────────────────────────────────────────────────


def broken(value):
    X, y = problems.two_classes(60)
    X[3, 2] = value
    return X, y


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: classifier().fit(*broken(np.nan)), "X row 3, feature 2 is NaN; .* impute"),
        (lambda: classifier().fit(*broken(np.inf)), "X row 3, feature 2 is infinity"),
        (lambda: classifier().fit([[1.0], [2.0]], [1, 1]), r"one class only \(1\)"),
        (lambda: fit_with(budget=-1), "budget must be >= 0"),
        (lambda: fit_with(norm=0.5), "norm must be"),
        (lambda: fit_with(norm=0, budget=1.5), "means 1 changed features"),
        (lambda: fit_with(features=["nope"]), "unknown feature 'nope'"),
        (lambda: fit_with(num_leafs=3), "no parameter 'num_leafs'; did you mean num_leaves"),
        (lambda: fit_with(boosting="dart"), "boosting must be 'gbdt', got 'dart'"),
        (lambda: fit_with(linear_tree=True), "linear_tree must be False"),
        (lambda: fit_with(categorical_feature=[0]), "categorical_feature cannot be honoured"),
        (lambda: fit_with(forcedsplits_filename="x"), "cannot be honoured: forced splits"),
        (lambda: fit_with(force_row_wise=True), "force_row_wise must be False"),
        (lambda: fit_with(device="gpu"), "device must be 'cpu', got 'gpu'"),
        (lambda: fit_with(subsample=0.5, subsample_freq=5), "subsample_freq must be 0 or 1"),
        (lambda: fit_with(early_stopping_round=5), "give early_stopping_rounds to fit"),
        (lambda: fit_with(reg_alpha=1.0, lambda_l1=2.0), "lambda_l1 and reg_alpha are one"),
        (lambda: fit_with(num_leaves=1), "num_leaves must be a whole number from 2"),
        (lambda: fit_with(min_child_samples=0), "min_child_samples must be a whole number >= 1"),
        (lambda: fit_with(learning_rate=0), "learning_rate must be > 0"),
        (lambda: fit_with(n_estimators=0), "n_estimators must be a whole number >= 1"),
        (lambda: fit_with(objective="poisson"), "objective must be 'binary' for 2 classes"),
        (lambda: fit_with(monotone_constraints=[1]), "LightGBM refused"),
        (lambda: fit_with(n_jobs=0), "n_jobs must be"),
        (lambda: fit_with(random_state=-1), "random_state must be"),
        (lambda: fit_more(eval_set=[(np.ones((5, 8)), list("aabab"))]), "eval_set 0: label 'a'"),
        (lambda: fit_more(eval_set=[(np.ones((5, 8)), [0, 1, 2, 0, 1])]), "eval_set 0: label 2"),
        (lambda: fit_more(eval_set=[(np.ones((5, 7)), np.ones(5))]), "7 features"),
        (lambda: fit_more(eval_set=5), "eval_set must be"),
        (lambda: fit_more(early_stopping_rounds=5), "early_stopping_rounds needs eval_set"),
        (lambda: fit_more(eval_metric="auc"), "eval_metric needs eval_set; give validation data"),
        (lambda: fit_more(eval_metric=len), "eval_metric needs eval_set"),
        (lambda: fit_more(eval_metric="robustness", eval_set=[]), "eval_metric needs eval_set"),
        (lambda: fit_more(eval_names=["a"]), "eval_names needs eval_set"),
        (lambda: fit_more(eval_sample_weight=[np.ones(5)]), "eval_sample_weight needs eval_set"),
        (lambda: evaluated(eval_names=["a", "b"]), "eval_names has 2 entries, eval_set has 1 pair"),
        (lambda: evaluated(eval_sample_weight=np.ones(5)), "has 5 entries, eval_set has 1 pair"),
        (lambda: evaluated(eval_names=iter("a")), "eval_names must be a list"),
        (lambda: evaluated(eval_metric=5), "eval_metric must be a name, a function, or a list"),
        (lambda: evaluated(eval_metric=lambda *_: 1.0), r"must return \(name, value, higher"),
        (lambda: evaluated(early_stopping_rounds=2.5), "must be a whole number >= 1, got 2.5"),
        (lambda: evaluated(early_stopping_rounds="2"), "must be a whole number >= 1, got '2'"),
        (lambda: evaluated(callbacks=[3]), "callbacks must be a list of functions, got 3"),
        (
            lambda: fit_more(callbacks=[lightgbm.early_stopping(5, verbose=False)]),
            "lightgbm.early_stopping needs eval_set",
        ),
        (
            lambda: fit_more(callbacks=[lightgbm.record_evaluation({})]),
            "lightgbm.record_evaluation needs eval_set",
        ),
        (lambda: fit_more(plain_accuracy=0.5), "plain_accuracy has no meaning without certified"),
        (lambda: fit_with(n_estimators=None), "n_estimators must be a whole number >= 1, got None"),
        (lambda: fit_more(sample_weight=[1.0]), "one number per row"),
        (lambda: fit_more(sample_weight=-np.ones(60)), "finite numbers >= 0"),
        (
            lambda: fit_more(eval_set=(np.ones((2, 8)), [0, 1]), eval_metric="nonsense"),
            "nonsense",
        ),
        (lambda: regressor().fit(np.ones((9, 1)), list("abcdefghi")), "numbers for regression"),
        (lambda: regressor(objective="binary").fit([[1.0], [2]], [1, 2]), "objective must be one"),
        (lambda: regressor(class_weight="balanced").fit([[1.0], [2]], [1, 2]), "class_weight"),
    ],
)
def test_bad_input_is_refused_in_one_clear_line(fit, message):
    with pytest.raises(ValueError, match=message) as caught:
        fit()
    assert "\n" not in str(caught.value)


def fit_with(**parameters):
    return classifier(**parameters).fit(*problems.two_classes(60))


def fit_more(**options):
    return classifier().fit(*problems.two_classes(60), **options)


def evaluated(**options):
    X, y = problems.two_classes(60)
    return classifier().fit(X, y, eval_set=(X, y), **options)


@pytest.mark.parametrize("changed", [{"clean_loss": 0.2}, {"quietness": 0.1}, {"quietness": None}])
def test_a_parameter_of_certified_training_is_not_ignored_in_silence(changed):
    (name,) = changed
    with pytest.warns(UserWarning, match=f"{name}=.* has no effect without certified=True"):
        fit_with(**changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_with(quietness=[0.03, 0.06, 0.12, 0.25, None], clean_loss=0.01)


# ── what is no table of numbers ──────────────────────────────────────────────────────────────


def every_way_in(model, X, y):
    """All that takes rows and labels from a user, each to be called with one of them spoilt."""
    attacker = cg.Attacker("inf", 0.001)
    return {
        "fit": lambda X=X, y=y: classifier().fit(X, y),
        "fit a regressor": lambda X=X, y=y: regressor().fit(X, y),
        "eval_set": lambda X=X, y=y: classifier().fit(*problems.two_classes(60), eval_set=(X, y)),
        "verify": lambda X=X, y=y: model.verify(X, y),
        "refit": lambda X=X, y=y: cg.robust_refit(model, X, y, attacker, steps=1),
        "refit, eval_set": lambda X=X, y=y: cg.robust_refit(
            model, *problems.two_classes(60), attacker, eval_set=(X, y), steps=1
        ),
        "tune": lambda X=X, y=y: tune(X, y, grid={"num_leaves": [4]}, n_estimators=2, n_jobs=1),
    }


WAYS_IN = list(every_way_in(None, None, None))


@pytest.mark.parametrize("way", WAYS_IN)
def test_an_iterator_or_a_masked_label_is_refused_in_one_line(way):
    X, y = problems.two_classes(60)
    call = every_way_in(classifier(budget=0.001).fit(X, y), X, y)[way]
    call()
    for spoilt in (
        {"X": (row for row in X)},
        {"y": iter(y)},
        {"y": np.ma.masked_array(y, mask=np.arange(60) == 7)},
    ):
        with pytest.raises(cg.DataError) as caught:
            call(**spoilt)
        assert "\n" not in str(caught.value)
    assert "row 7 is masked" in str(caught.value)


@pytest.mark.parametrize("way", [way for way in WAYS_IN if not way.startswith("refit")])
def test_what_a_mask_hides_is_missing_in_training_too(way):
    X, y = problems.two_classes(60)
    call = every_way_in(classifier(budget=0.001).fit(X, y), X, y)[way]
    for masked in (np.ma.masked_array(X, mask=X > 0.9), [np.ma.masked_greater(x, 0.9) for x in X]):
        with pytest.raises(cg.DataError, match=r"nan|NaN|missing"):
            call(X=masked)


def test_a_refit_takes_what_a_mask_hides_as_missing():
    X, y = problems.two_classes(60)
    model, attacker = classifier(budget=0.001).fit(X, y), cg.Attacker("inf", 0.001)
    hidden = X > 0.9
    masked, missing = np.ma.masked_array(X, mask=hidden), np.where(hidden, np.nan, X)
    one, other = (
        cg.robust_refit(model.ensemble_, x, y, attacker, steps=5) for x in (masked, missing)
    )
    assert one == other
    assert one != cg.robust_refit(model.ensemble_, X, y, attacker, steps=5)


def test_rows_to_predict_go_through_the_same_door():
    X, y = problems.two_classes(60)
    model = classifier().fit(X, y)
    with pytest.raises(cg.DataError, match="X is an iterator"):
        model.predict(iter(X))
    with pytest.raises(cg.DataError, match="feature 1 is NaN"):
        model.predict(pd.DataFrame(X, dtype="Float64").mask(np.isclose(X, X[5, 1])))


def test_weights_and_targets_are_numbers_and_not_dates():
    X, y = problems.two_classes(60)
    days = np.arange(60).astype("datetime64[D]")
    with pytest.raises(cg.DataError, match="sample_weight must be numbers: dates"):
        classifier().fit(X, y, sample_weight=days)
    with pytest.raises(cg.DataError, match="y must be numbers for regression: dates"):
        regressor().fit(X, days)
    with pytest.raises(cg.DataError, match="sample_weight row 3 is masked"):
        classifier().fit(X, y, sample_weight=np.ma.masked_equal(np.arange(60.0), 3.0))


def test_too_few_rows_give_a_constant_and_a_warning():
    X, y = problems.two_classes(30)
    with pytest.warns(UserWarning, match="30 rows are fewer than two leaves of min_child_samples"):
        model = classifier(min_child_samples=20).fit(X, y)
    assert model.n_iter_ == 0
    assert len(np.unique(model.predict_proba(X))) <= 2
    X, y = problems.three_classes(30)
    with pytest.warns(UserWarning, match="the model is constant"):
        model = classifier(min_child_samples=20).fit(X, y)
    assert model.predict_proba(X)[0] == pytest.approx(np.bincount(y) / 30)


def test_a_failed_fit_is_not_a_fitted_model():
    model = classifier(boosting="dart")
    with pytest.raises(ValueError, match="boosting"):
        model.fit(*problems.two_classes(60))
    with pytest.raises(NotFittedError):
        model.predict([[0.0] * 8])


def test_an_alias_replaces_the_named_parameter():
    X, y = problems.two_classes(30)
    model = LargeSpreadClassifier(min_data_in_leaf=5, n_estimators=3, n_jobs=1).fit(X, y)
    assert model.n_iter_ == 3


def test_images_train_verify_and_reload(shared_data, tmp_path):
    folder = shared_data / "fashion-mnist"
    pixels = np.frombuffer(
        gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16
    ).reshape(-1, 784)
    labels = np.frombuffer(
        gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8
    )
    chosen = np.isin(labels, (0, 3))
    X, y = pixels[chosen] / 255, labels[chosen]
    model = LargeSpreadClassifier(norm=1, budget=0.1, n_estimators=30, num_leaves=8, n_jobs=1)
    model.fit(X[:1000], y[:1000])
    result = model.verify(X[1000:], y[1000:])
    assert result.accuracy > 0.93
    assert 0.5 < result.robustness[0] < result.accuracy
    model.save_model(tmp_path / "model.txt")
    assert cg.load(tmp_path / "model.txt", classes=[0, 3]) == model.ensemble_
