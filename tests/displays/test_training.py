"""Trials as points: where they were measured, and which was chosen."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.report import TrainingReport, Trial
from drawn import shown_texts
from plain_trees import refused

pytestmark = pytest.mark.usefixtures("plt")


def trial(parameters, note="", **figures):
    size = {"trees": 3, "leaves": 12, "seconds": 0.25, "model": None}
    measures = {name.replace("_", " "): value for name, value in figures.items()}
    return Trial(parameters=parameters, note=note, measures=measures, **size)


def a_report(floor=0.8, plain=0.91):
    scout = trial({"leaf_l2": 0.001, "same": 1}, note="scout", accuracy=0.9, robustness=0.6)
    other = trial({"leaf_l2": 0.1, "same": 1}, accuracy=0.95, robustness=0.5)
    best = trial({"leaf_l2": 0.01, "same": 1}, accuracy=0.85, robustness=0.7)
    return TrainingReport([scout, other, best], best, "the best", floor, plain)


def test_points_are_accuracy_and_robustness_and_the_chosen_one_is_marked():
    display = a_report().plot()
    assert display.points_[""].get_offsets().tolist() == [[0.95, 0.5], [0.85, 0.7]]
    assert display.points_["scout"].get_offsets().tolist() == [[0.9, 0.6]]
    assert display.chosen_.get_offsets().tolist() == [[0.85, 0.7]]
    assert display.ax_.get_xlabel() == "accuracy on validation data"
    assert display.ax_.get_ylabel() == "robustness on validation data"


def test_limits_are_lines_where_there_are_some():
    display = a_report().plot()
    assert display.lines_["floor"].get_xdata() == [0.8, 0.8]
    assert display.lines_["plain_accuracy"].get_xdata() == [0.91, 0.91]
    assert a_report(None, None).plot().lines_ == {}


def test_regressors_are_points_of_two_errors():
    one, other = (trial({"leaf_l2": p}, error=p, worst_error=2 * p) for p in (0.1, 0.5))
    display = TrainingReport([one, other], one, "").plot()
    assert display.points_[""].get_offsets().tolist() == [[0.1, 0.2], [0.5, 1.0]]
    assert display.ax_.get_ylabel() == "worst error on validation data"
    assert not any("%" in text for text in shown_texts(display.ax_))


def test_a_fitted_estimator_and_a_tuning_have_trials_to_draw():
    X = np.random.default_rng(0).random((120, 3))
    y = (X[:, 0] > 0.5).astype(int)
    robust = cg.RobustClassifier(budget=0.05, n_estimators=4, random_state=0, n_jobs=1).fit(X, y)
    display = cg.TrainingDisplay.from_estimator(robust)
    report = robust.training_report_
    assert len(display.measures) == len(report.trials)
    assert display.measures[display.chosen] == report.chosen.measures
    tuned = cg.tune(X, y, budget=0.05, grid={"num_leaves": [2, 4]}, n_estimators=4, n_jobs=1)
    drawn = tuned.plot()
    assert drawn.measures == [
        {"accuracy": t.accuracy, "robustness": t.robustness} for t in tuned.trials
    ]
    assert drawn.label in ("num_leaves 2", "num_leaves 4")
    assert "Tuning" in tuned._repr_html_()


def test_what_has_no_trials_is_refused_in_one_line(plt):
    with refused("training_report_", "LargeSpreadClassifier"):
        cg.TrainingDisplay.from_estimator(cg.LargeSpreadClassifier())
    with refused("TrainingReport", "Tuning", "3"):
        cg.TrainingDisplay.from_result(3)
    assert plt.get_fignums() == []
