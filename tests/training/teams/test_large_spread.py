"""Large-spread training in a team is that of one process with all rows, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.errors import DataError
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


def same_as_alone(make, train, valid=None, *, size, seed=0, told=None, **asked):
    alone = make()
    given = {} if valid is None else {"eval_set": [valid]}
    alone.fit(*train, **given, **asked, **(told or {}))
    models = fit_together(
        make, train, valid, size=size, random=np.random.default_rng(seed), told=told, **asked
    )
    for model in models:
        assert text(model) == text(alone)
        assert model.classes_.tolist() == alone.classes_.tolist()
        assert model.evals_result_ == alone.evals_result_
        assert model.stopped_because_ == alone.stopped_because_
        assert model.best_score_ == alone.best_score_
    return alone


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
