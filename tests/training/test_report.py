"""A training report: trials of any kind as values and as a table."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.training.report import TrainingReport, Trial


def trial(parameters, note="", **figures):
    size = {"trees": 3, "leaves": 12, "seconds": 0.25, "model": None}
    measures = {name.replace("_", " "): value for name, value in figures.items()}
    return Trial(parameters=parameters, note=note, measures=measures, **size)


@pytest.fixture(name="report")
def a_report():
    scout = trial({"leaf_l2": 0.001}, note="scout", accuracy=0.9, robustness=0.6)
    best = trial({"leaf_l2": 0.01, "n_members": 4}, accuracy=0.85, robustness=0.7)
    return TrainingReport([scout, best], best, "the best", 0.8, 0.91)


def test_parameters_that_differ_become_columns_and_the_others_stand_above(report):
    heading, first, second = report.rows()
    assert heading == ("leaf_l2", "trees", "leaves", "accuracy", "robust", "sec", "")
    assert first == ("0.001", "3", "12", "0.9000", "0.6000", "0.2", "scout")
    assert second == ("0.01", "3", "12", "0.8500", "0.7000", "0.2", "chosen")
    assert report.common() == "n_members 4"
    assert str(report).splitlines()[-1] == "the best"


def test_values_are_plain_and_hold_no_model(report):
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["chosen"] == 1
    assert (plain["floor"], plain["plain_accuracy"]) == (0.8, 0.91)
    assert plain["trials"][0] == {
        "leaf_l2": 0.001,
        "accuracy": 0.9,
        "robustness": 0.6,
        "trees": 3,
        "leaves": 12,
        "seconds": 0.25,
        "note": "scout",
    }


def test_the_chosen_trial_is_the_chosen_one_and_not_its_equal():
    one, other = (trial({"leaf_l2": 0.1}, accuracy=0.9, robustness=0.6) for _ in range(2))
    report = TrainingReport([one, other], other, "")
    assert report.to_dict()["chosen"] == 1
    assert [row[-1] for row in report.rows()] == ["", "", "chosen"]


def test_regressors_report_errors():
    found = trial({"leaf_l2": 0.1}, error=0.5, worst_error=0.75)
    heading, row = TrainingReport([found], found, "").rows()
    assert heading[2:4] == ("error", "worst")
    assert row[2:4] == ("0.5000", "0.7500")
    assert found.to_dict()["worst error"] == 0.75


def test_the_plain_trial_is_marked_and_makes_no_columns():
    plain = trial({"budget_share": 0.0, "leaf_l2": None}, "plain", accuracy=0.9, robustness=0.2)
    robust = trial({"budget_share": 1.0, "leaf_l2": 0.1}, accuracy=0.8, robustness=0.6)
    report = TrainingReport([robust, plain], robust, "")
    assert report.plain is plain
    assert [row[-1] for row in report.rows()] == ["", "chosen", "plain"]
    assert report.rows()[0][0] == "trees"
    assert dict(report.summary())["proven robustness"] == "0.6000 (plain model 0.2000)"


@given(st.data())
def test_tables_of_robust_trials_fit_into_80_columns(data):
    values = {
        "n_members": st.sampled_from([1, 3]),
        "ordered": st.booleans(),
        "budget_share": st.sampled_from([0.0, 0.75, 1.0]),
        "max_crowding": st.sampled_from([0.125, None]),
        "rounds": st.integers(1, 999),
        "leaf_l2": st.sampled_from([0.00025, 0.001, None]),
    }
    found = [
        trial(data.draw(st.fixed_dictionaries(values)), accuracy=0.5, robustness=0.5)
        for _ in range(4)
    ]
    lines = str(TrainingReport(found, found[0], "")).splitlines()
    assert max(map(len, lines)) <= 80
