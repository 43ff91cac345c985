"""Runs that are disturbed in every way end with the right result, or with one line.

INTERRUPTED_RUNS sets the number of cases; `tools/campaigns.py interrupted` runs many.
"""

from __future__ import annotations

import os

import pytest

from interrupted_runs import Runs, check

CASES = int(os.environ.get("INTERRUPTED_RUNS", "30"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    runs = Runs(tmp_path_factory.mktemp("runs"))
    yield runs
    runs.close()


def test_questions_have_answers_of_their_own(runs):
    """Taking one's rows for another's would show."""
    alike = {"the same", "bounds", "another engine", "another time limit"}
    answers = {
        name: {column: values for column, values in truth.items() if column != "attacker"}
        for name, truth in runs.truth.items()
    }
    for name in answers.keys() - alike:
        assert answers[name] != answers["the same"], name


@pytest.mark.parametrize("seed", range(CASES))
def test_disturbed_run_ends_with_the_right_result_or_is_refused(runs, seed):
    check(runs, seed)
