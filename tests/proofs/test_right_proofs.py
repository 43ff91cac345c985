"""Proofs made by hand that are right: the checker accepts them, whatever model and attacker."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm_check
import oracle
from carvegbm.model.ensemble import Ensemble
from generators import NORMS, Case, make_case
from kinds import LIMITS, make_kind
from oracle import Attacker
from proofs import by_hand
from proofs.asking import Asked, asked, in_code_space

KINDS = (("any", "binary"), ("any edge", "binary"), ("any edge", "multiclass"), ("edge", "binary"))


def assert_proved(folder: Path, case: Case, **how: Any) -> str:
    status, rest = by_hand.proved(case.ensemble, case.x, case.label, case.attacker, **how)
    question = asked(folder, case)
    bounds = None
    if case.rowwise and case.attacker.bounds is not None:
        fields = question.head["attacker"]
        bounds = case.attacker.bounds
        del fields["lower"], fields["upper"]
        fields["row_bounds"] = True
    report = question.check(by_hand.record(0, status, rest, bounds))
    assert (report.checked, report.wrong) == ({0: status}, {})
    return status


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("kind", "task"), KINDS)
def test_proofs_by_cuts_are_accepted(norm: float, kind: str, task: str, tmp_path: Path) -> None:
    cases = [make_case(seed, norm, kind, task) for seed in range(7)]
    found = Counter(assert_proved(tmp_path, case) for case in cases)
    assert len(found) > 1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", LIMITS)
def test_proofs_for_every_kind_of_limit_are_accepted(
    norm: float, limit: str, tmp_path: Path
) -> None:
    for seed in range(6):
        task, situation = ("multiclass", "any") if seed % 3 == 0 else ("binary", "any edge")
        assert_proved(tmp_path, make_kind(seed, norm, limit, situation, task))


@pytest.mark.parametrize("norm", NORMS)
def test_proofs_that_cut_down_to_single_cells_are_accepted(norm: float, tmp_path: Path) -> None:
    done = 0
    for seed in range(40):
        case = make_case(seed, norm, "any", "binary")
        axes = by_hand.axes_of(case.ensemble, case.x, case.attacker)
        if math.prod(len(axis.cells) for axis in axes) <= 64:
            assert_proved(tmp_path, case, to_the_end=True)
            done += 1
    assert done >= 3


def many_stumps(norm: int, seed: int) -> tuple[Ensemble, Attacker]:
    """A stump per feature, all 1 at x = 0; to turn one to -1 costs 1 to 3, a few can be."""
    rng = np.random.default_rng([seed, norm])
    stumps = [
        {"feature": f, "threshold": float(at), "left": {"score": 1.0}, "right": {"score": -1.0}}
        for f, at in enumerate(rng.integers(1, 4, size=8))
    ]
    budget = float(rng.integers(4, 9)) / 2
    return Ensemble.from_trees(stumps, n_features=8, threshold=0.5), Attacker(norm, budget)


@pytest.mark.parametrize("norm", [1, 2, 3])
def test_one_price_proves_rows_of_large_spread_models(norm: int, tmp_path: Path) -> None:
    """The price is λ, and θ is the cost of cells: no multiplier is in the file."""
    needed = 0
    for seed in range(20):
        ensemble, attacker = many_stumps(norm, seed)
        x = [0.0] * 8
        if oracle.status(ensemble, x, 1, attacker) != "robust":
            continue
        question = Asked(tmp_path, ensemble, attacker, [x], [1])
        plain = by_hand.parts(({}, by_hand.NOTHING))
        priced = by_hand.parts(({}, by_hand.price_bound(ensemble, x, attacker, 1)))
        is_proved = question.check(by_hand.record(0, "robust", priced)).is_proved
        needed += is_proved and not question.check(by_hand.record(0, "robust", plain)).is_proved
    assert needed > 0


def test_many_rows_in_any_order_are_checked_one_by_one(tmp_path: Path) -> None:
    case = make_case(5, 1, "any", "binary")
    rows = [[value + 0.125 * i for value in case.x] for i in range(-4, 5)]
    attacker = case.attacker._replace(bounds=None)
    labels = [i % 2 for i in range(len(rows))]
    found = [
        by_hand.proved(case.ensemble, x, label, attacker)
        for x, label in zip(rows, labels, strict=True)
    ]
    question = Asked(tmp_path, case.ensemble, attacker, rows, labels)
    records = [by_hand.record(row, *pair) for row, pair in enumerate(found)]
    report = question.check(*reversed(records))
    assert report.checked == {row: status for row, (status, _) in enumerate(found)}
    assert report.is_proved


def test_labels_may_be_the_models_own_decisions(tmp_path: Path) -> None:
    case = make_case(3, math.inf, "any", "multiclass")
    label = oracle.decide(case.ensemble, oracle.raw_score(case.ensemble, case.x))
    status, rest = by_hand.proved(case.ensemble, case.x, label, case.attacker)
    question = Asked(tmp_path, case.ensemble, case.attacker, [case.x], [label])
    question.head["labels"] = "own"
    question.labels = [1 - label if label < 2 else 0]  # which nobody looks at
    assert question.check(by_hand.record(0, status, rest)).checked == {0: status}


def test_rows_that_were_not_decided_or_not_proved_are_listed(tmp_path: Path) -> None:
    case = make_case(3, math.inf, "any", "binary")
    question = Asked(tmp_path, case.ensemble, case.attacker, [case.x, case.x], [0, 1])
    report = question.check(b"\0\x10", b"\1\x14")
    assert report.undecided == {0: "robust: without a proof", 1: "unknown: without a proof"}
    assert report.exit_code == carvegbm_check.UNDECIDED
    assert not report.is_proved


def no_single_rival() -> tuple[Ensemble, Attacker]:
    """A row of class 0 that class 1 wins left of 0.5, and class 2 right of it, each by far."""
    stump = {
        "feature": 0,
        "threshold": 0.5,
        "left": {"score": [0.0, 1.0, -100.0]},
        "right": {"score": [0.0, -100.0, 1.0]},
    }
    return Ensemble.from_trees([stump], n_features=1), Attacker(math.inf, 1.0)


def test_a_wrong_row_of_many_classes_may_need_a_rival_in_every_case(tmp_path: Path) -> None:
    ensemble, attacker = no_single_rival()
    question = Asked(tmp_path, ensemble, attacker, [[0.5]], [0])
    status, rest = by_hand.proved(ensemble, [0.5], 0, attacker)
    assert status == "vulnerable"
    assert question.check(by_hand.record(0, status, rest)).is_proved
    fixed = by_hand.cut_below(0, 0, by_hand.NOTHING, by_hand.NOTHING)
    for weights in ({1: 1}, {2: 1}, {1: 1, 2: 1}):
        record = by_hand.record(0, status, by_hand.parts((weights, fixed)))
        assert "the bound is" in question.what_is_wrong(record)


def test_weights_may_mix_rivals(tmp_path: Path) -> None:
    """No rival alone stays ahead of class 0, but their mean does, by one bound."""
    left, right = {"score": [0.0, 3.0, -1.0]}, {"score": [0.0, -1.0, 3.0]}
    stump = {"feature": 0, "threshold": 0.5, "left": left, "right": right}
    ensemble = Ensemble.from_trees([stump], n_features=1)
    question = Asked(tmp_path, ensemble, Attacker(math.inf, 1.0), [[0.5]], [0])
    mean = by_hand.record(0, "vulnerable", by_hand.parts(({1: 1, 2: 1}, by_hand.NOTHING)))
    assert question.check(mean).is_proved
    alone = by_hand.record(0, "vulnerable", by_hand.parts(({1: 1}, by_hand.NOTHING)))
    assert "the bound is -1" in question.what_is_wrong(alone)


def test_data_are_compared_as_codes(tmp_path: Path) -> None:
    case = make_kind(2, 0, "categories", "any", "binary")
    assert in_code_space(case.ensemble, [case.x])
    assert_proved(tmp_path, case)
