"""`tune` chooses parameters of the estimators on validation data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import carvegbm as cg
from carvegbm import LargeSpreadClassifier, RobustClassifier, tune
from carvegbm.training.tuning import ROBUST_LEAVES
from training import problems

OPTIONS = {
    "budget": 0.02,
    "grid": {"num_leaves": [3, 6, 12]},
    "n_estimators": 30,
    "early_stopping_rounds": 10,
    "n_jobs": 1,
}
ROBUST = {"robust": True, "leaf_l2": 0.001, "n_members": 1, "max_crowding": None}
METHODS = {"large-spread": {}, "certified": {"certified": True}, "robust": ROBUST}


@pytest.fixture(scope="module", name="data")
def make_data():
    X, y = problems.two_classes(300)
    return X[:200], y[:200], (X[200:], y[200:])


@pytest.mark.parametrize("method", METHODS)
def test_the_chosen_estimator_is_that_of_a_direct_fit(data, method):
    X, y, valid = data
    result = tune(X, y, valid=valid, **OPTIONS, **METHODS[method])
    criterion = "accuracy" if method == "large-spread" else "robustness"
    assert result.criterion == criterion
    assert [t.parameters for t in result.trials] == [{"num_leaves": n} for n in (3, 6, 12)]
    best = max(t.measures[criterion] for t in result.trials)
    assert result.chosen.measures[criterion] == best
    judged = result.estimator.verify(*valid)
    assert judged.accuracy == result.chosen.accuracy
    assert judged.robustness[0] == result.chosen.robustness
    direct = clone(result.estimator).fit(X, y, eval_set=[valid], early_stopping_rounds=10)
    assert direct.num_leaves == result.chosen.parameters["num_leaves"]
    assert direct.ensemble_ == result.estimator.ensemble_


def test_robust_training_has_its_own_sizes(data):
    X, y, valid = data
    result = tune(X, y, valid=valid, **{**OPTIONS, **ROBUST, "grid": None, "n_estimators": 3})
    assert [t.parameters["num_leaves"] for t in result.trials] == list(ROBUST_LEAVES)
    assert isinstance(result.estimator, RobustClassifier)


def test_validation_data_is_split_off_and_frames_keep_names_and_categories():
    X, y = problems.two_classes(300)
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    frame["colour"] = pd.Categorical(np.where(y > 0, "red", "blue"))
    words = pd.Series(np.array(["no", "yes"])[y])
    result = tune(frame, words, **{**OPTIONS, "grid": {"num_leaves": [4]}})
    assert result.estimator.booster_.feature_name()[0] == "f0"
    assert set(result.estimator.predict(frame)) == {"no", "yes"}
    assert len(result.estimator.ensemble_.categories) == 1


@pytest.mark.parametrize("returns", [True, False], ids=["in a fit", "between fits"])
def test_ctrl_c_keeps_the_best_of_the_finished_candidates(data, monkeypatch, returns):
    X, y, valid = data
    whole = tune(X, y, valid=valid, **{**OPTIONS, "grid": {"num_leaves": [3, 6]}})
    fit = LargeSpreadClassifier.fit

    def interrupted(self, *arguments, **options):
        if self.num_leaves < 12:
            return fit(self, *arguments, **options)
        if not returns:
            raise KeyboardInterrupt
        fitted = fit(self, *arguments, **options)
        fitted.stopped_because_ = "interrupted"
        return fitted

    monkeypatch.setattr(LargeSpreadClassifier, "fit", interrupted)
    found = tune(X, y, valid=valid, **OPTIONS)
    assert found.interrupted
    assert not whole.interrupted
    assert len(found.trials) == 2
    assert found.estimator.ensemble_ == whole.estimator.ensemble_


def test_the_table_lists_every_trial_and_marks_the_chosen_one(data):
    X, y, valid = data
    seen = []
    result = tune(X, y, valid=valid, on_trial=seen.append, **OPTIONS)
    assert seen == result.trials
    lines = str(result).splitlines()
    assert len(lines) == 5
    assert sum(line.endswith("chosen") for line in lines) == 1
    document = result.to_dict()
    assert document["trials"][document["chosen"]]["accuracy"] == result.chosen.accuracy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "beauty"}, "criterion must be"),
        ({"certified": True, "robust": True}, "certified and robust exclude each other"),
        ({"robust": True, "grid": {"path_smooth": [1.0]}}, "path_smooth cannot be honoured: rob"),
        ({"robust": True, "clean_loss": 2}, "clean_loss must be .* got 2"),
        ({"grid": {"num_leaves": 3}}, "grid: .*num_leaves"),
        ({"grid": {"num_leaves": []}}, "grid: .*num_leaves"),
        ({"grid": {"num_leafs": [3]}}, "no parameter 'num_leafs'"),
        ({"valid": (np.ones((2, 8)), ["a", "b"])}, "label 'a' does not occur"),
        ({"valid": (np.ones((2, 3)), [0, 1])}, "3 features"),
        ({"valid": 3}, "must be"),
    ],
)
def test_bad_input_is_refused_before_or_at_the_first_trial(options, message):
    X, y = problems.two_classes(60)
    with pytest.raises(cg.CarveError, match=message):
        tune(X, y, **{**OPTIONS, **options})
