"""Large-spread training in a team is that of one process with all rows, to the last digit."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.errors import CarveError, DataError
from carvegbm.training.estimator import Told
from carvegbm.training.evaluation import Asked
from carvegbm.training.teams.share import Share
from training import problems
from training.together import fit_together, run_team

SIZES = (1, 2, 3, 4)
FREE = {"min_child_samples": 1, "min_child_weight": 0, "n_jobs": 1}
"""Where these forbid splits, LightGBM in a team looks again at features that it gives up alone."""


def text(model):
    return model.booster_.model_to_string()


def blobs(n, d, classes, random):
    X = np.round(random.normal(size=(n, d)), 2)
    scores = X[:, :classes] + 0.7 * X[:, 1 : classes + 1] ** 2 + random.normal(0, 0.5, (n, classes))
    return X, np.array(["a", "bb", "ccc", "d"])[scores.argmax(axis=1)]


def assert_same_trees(model, alone):
    """To the last digit, but for two classes: LightGBM adds up their gradients in any order."""
    if len(alone.classes_) > 2:
        assert text(model) == text(alone)
        return
    one, other = model.ensemble_, alone.ensemble_
    assert np.array_equal(one.nodes, other.nodes)
    assert np.allclose(one.scores, other.scores, rtol=1e-12, atol=1e-13)


def same_as_alone(make, train, valid=None, *, size, seed=0, told=None, **asked):
    alone = make()
    given = {} if valid is None else {"eval_set": [valid]}
    alone.fit(*train, **given, **asked, **(told or {}))
    models = fit_together(
        make, train, valid, size=size, random=np.random.default_rng(seed), told=told, **asked
    )
    for model in models:
        assert_same_trees(model, alone)
        assert model.classes_.tolist() == alone.classes_.tolist()
        assert model.evals_result_.keys() == alone.evals_result_.keys()
        for name, metrics in alone.evals_result_.items():
            for metric, values in metrics.items():
                assert model.evals_result_[name][metric] == pytest.approx(values, rel=1e-9)
        assert model.stopped_because_ == alone.stopped_because_
        assert (model.best_score_ or 0) == pytest.approx(alone.best_score_ or 0, rel=1e-9)
    return alone


# ── parameters ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "parameters",
    [
        {"monotone_constraints": [1, 0, 0, 0, 0, 0]},
        {"use_quantized_grad": True},
        {"cegb_penalty_split": 0.1},
    ],
)
def test_what_a_team_cannot_honour_is_refused(parameters):
    random = np.random.default_rng(0)
    train = blobs(200, 6, 2, random)

    def make():
        return cg.LargeSpreadClassifier(n_estimators=2, n_jobs=1, **parameters)

    name = next(iter(parameters))
    with pytest.raises(CarveError, match=f"{name} cannot be honoured by several machines"):
        fit_together(make, train, size=2, random=random)
    assert make().fit(*train).n_iter_ > 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 3},
        {"colsample_bytree": 0.5, "random_state": 3},
        {"scale_pos_weight": 3.0},
        {"boost_from_average": False},
        {"class_weight": {"a": 3.0}},
    ],
)
def test_parameters_that_a_team_honours(parameters):
    train = blobs(800, 6, 2, np.random.default_rng(1))

    def make():
        return cg.LargeSpreadClassifier(budget=0.01, n_estimators=10, **parameters, **FREE)

    same_as_alone(make, train, size=2, seed=4)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"reg_alpha": 0.5, "reg_lambda": 2.0},
        {"max_delta_step": 0.3, "path_smooth": 1.0, "min_child_samples": 1},
        {"min_split_gain": 0.5, "min_child_weight": 1.0},
        {"extra_trees": True, "colsample_bynode": 0.5},
        {"subsample": 0.6, "subsample_freq": 1},
        {"data_sample_strategy": "goss"},
    ],
)
def test_members_agree_where_trees_may_be_others_than_those_of_one_process(parameters):
    """A feature without use in a leaf is given up below it by one process, and not by a team."""
    random = np.random.default_rng(1)
    train, (X, y) = blobs(1500, 6, 2, random), blobs(500, 6, 2, random)

    def make():
        return cg.LargeSpreadClassifier(budget=0.01, n_estimators=15, n_jobs=1, **parameters)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # sizes of leaves are those of the rows
        models = fit_together(make, train, size=3, random=random)
    assert len({text(model) for model in models}) == 1
    assert models[0].score(X, y) == pytest.approx(make().fit(*train).score(X, y), abs=0.05)


def test_lists_of_categories_that_are_too_long_to_follow_are_told():
    X, y = problems.with_categories(600)

    def make():
        return cg.LargeSpreadClassifier(n_estimators=3, max_cat_threshold=1000, n_jobs=1)

    with pytest.warns(UserWarning, match="LightGBM estimated the sizes of leaves"):
        fit_together(
            make,
            (X, y),
            size=2,
            random=np.random.default_rng(0),
            told={"categorical_feature": [2, 3, 4]},
        )


def test_a_member_whose_rows_all_go_to_validation_is_told():
    X, y = blobs(100, 4, 2, np.random.default_rng(0))

    def work(team, seed):
        share = Share.of_parts(team, [99, 1], [team.rank])
        here = share.positions
        model = cg.LargeSpreadClassifier(
            certified=True, n_estimators=1, quietness=None, n_jobs=1, random_state=seed
        )
        return model._fit_share((X[here], y[here], None), share, Asked(), Told())

    def train_until_the_lonely_row_is_split_off():
        for seed in range(30):
            run_team(2, partial(work, seed=seed))

    with pytest.raises(DataError, match="a member of the team has no training rows"):
        train_until_the_lonely_row_is_split_off()


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("norm", "budget", "num_leaves"), [("inf", 0.02, 15), (1, 0.05, 15), (0, 1, 3)]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_trees_are_those_of_one_process(norm, budget, num_leaves, classes, size):
    random = np.random.default_rng(size)
    train = blobs(1500, 20, classes, random)

    def make():
        return cg.LargeSpreadClassifier(
            norm=norm, budget=budget, n_estimators=25, num_leaves=num_leaves, **FREE
        )

    model = same_as_alone(make, train, size=size, seed=size)
    assert model.n_iter_ >= 3


def test_a_member_may_have_rows_of_one_class_alone():
    random = np.random.default_rng(5)
    X, y = blobs(900, 6, 3, random)
    order = np.argsort(y, kind="stable")

    def make():
        return cg.LargeSpreadClassifier(norm="inf", budget=0.01, n_estimators=15, n_jobs=1)

    for seed in range(4):
        same_as_alone(make, (X[order], y[order]), size=3, seed=seed)
    two = y[order] != "ccc"
    same_as_alone(make, (X[order][two], y[order][two]), size=2, seed=1)


def test_validation_rows_are_spread_as_well():
    random = np.random.default_rng(6)
    train, valid = blobs(1200, 6, 2, random), blobs(500, 6, 2, random)

    def make():
        return cg.LargeSpreadClassifier(
            norm="inf", budget=0.01, n_estimators=60, num_leaves=8, learning_rate=0.3, n_jobs=1
        )

    model = same_as_alone(
        make,
        train,
        valid,
        size=3,
        eval_metric=["auc", "binary_logloss", "robustness"],
        early_stopping_rounds=5,
    )
    assert model.stopped_because_ == "early stopping"


def test_weights_missing_values_and_depth():
    random = np.random.default_rng(7)
    X, y = blobs(1000, 6, 3, random)
    X[random.random(X.shape) < 0.1] = np.nan
    X[:300, 2] = np.nan
    weight = random.random(len(y)) + 0.1
    weight[:400] = 0  # all that some member has, perhaps

    def make():
        return cg.LargeSpreadClassifier(
            norm=2, budget=0.02, n_estimators=12, max_depth=4, class_weight="balanced", n_jobs=1
        )

    same_as_alone(make, (X, y, weight), size=3)


def test_categories_without_labels():
    X, y = problems.with_categories(1200)

    def make():
        return cg.LargeSpreadClassifier(norm="inf", budget=0.02, n_estimators=12, **FREE)

    told = {"categorical_feature": [2, 3, 4]}
    for size in SIZES:
        same_as_alone(make, (X, y), size=size, seed=size, told=told)


def test_members_with_other_columns_or_categories_are_told_so():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": np.arange(60.0), "b": pd.Categorical(["x", "y", "z"] * 20)})
    y = np.arange(60) % 2

    def fit(own):
        def work(team):
            share = Share.of_parts(team, [30, 30], [team.rank])
            rows = own(frame[30 * team.rank : 30 * team.rank + 30], team.rank)
            given = (rows, y[:30], None)
            return cg.LargeSpreadClassifier(n_jobs=1)._fit_share(given, share, Asked(), Told())

        return run_team(2, work)

    with pytest.raises(DataError, match=r"other columns: \['a', 'b'\] and \['a'\]|\['a'\] and"):
        fit(lambda rows, rank: rows if rank else rows[["a"]])
    with pytest.raises(DataError, match="other categories in one column"):
        fit(lambda rows, rank: rows.assign(b=rows["b"].cat.add_categories("w")) if rank else rows)
