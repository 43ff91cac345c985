"""Proofs that look right and are wrong, and statements that are false: none is accepted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
from carvegbm.model.ensemble import Ensemble
from carvegbm_check import RefusedError
from generators import NORMS, make_case
from kinds import LIMITS, make_kind
from oracle import Attacker
from proofs import by_hand
from proofs.asking import Asked, asked
from proofs.by_hand import NOTHING, bound, cut_below, parts, record, witness

OTHER = {"robust": "fragile", "fragile": "robust", "vulnerable": "broken", "broken": "vulnerable"}


def stump(feature: int, threshold: float, left: Any, right: Any) -> dict[str, Any]:
    def leaf(score: Any) -> Any:
        return score if isinstance(score, dict) else {"score": score}

    return {"feature": feature, "threshold": threshold, "left": leaf(left), "right": leaf(right)}


def robust(case: bytes = NOTHING, row: int = 0) -> bytes:
    return record(row, "robust", parts(({}, case)))


def two_stumps(norm: float, budget: float, folder: Path, **more: Any) -> Asked:
    """x = (0, 0) has the raw score 4; each of two features takes 3 from it, beyond a distance of 1.

    To take both costs 2 and an atom by norm 1. The negative class wins ties.
    """
    trees = [stump(0, 1.0, 2.0, -1.0), stump(1, 1.0, 2.0, -1.0)]
    ensemble = Ensemble.from_trees(trees, n_features=2, tie="negative", **more)
    return Asked(folder, ensemble, Attacker(norm, budget), [[0.0, 0.0]], [1])


# ── the rules ────────────────────────────────────────────────────────────────────────────────


def test_the_price_of_two_changes_is_counted_once(tmp_path: Path) -> None:
    question = two_stumps(1, 1.25, tmp_path)
    assert "the bound is -2" in question.what_is_wrong(robust())
    # λ = 3 · 1.25 in quarters: a change of a feature costs 3 and a little, which is what it brings.
    assert question.check(robust(bound(2, 15))).is_proved
    assert "the bound is" in question.what_is_wrong(robust(bound(2, 2)))
    assert "the bound is" in question.what_is_wrong(robust(bound(2, 90)))


def test_a_leaf_at_exactly_the_budget_is_alive(tmp_path: Path) -> None:
    cost = math.nextafter(1.0, 2.0)
    alive = two_stumps(math.inf, cost, tmp_path)
    assert "the bound is -2" in alive.what_is_wrong(robust())
    dead = two_stumps(math.inf, math.nextafter(cost, 0.0), tmp_path)
    assert dead.check(robust()).is_proved


def test_multipliers_above_the_price_of_a_cell_are_paid_for(tmp_path: Path) -> None:
    question = two_stumps(1, 1.25, tmp_path)
    right = {(0, 0): [(1, 12)], (1, 1): [(1, 12)]}
    assert question.check(robust(bound(2, 15, right))).is_proved
    dear = {(0, 0): [(1, 50)], (1, 1): [(1, 50)]}
    assert "the bound is" in question.what_is_wrong(robust(bound(2, 15, dear)))
    free = bound(2, 0, right)
    assert "the bound is" in question.what_is_wrong(robust(free))


def test_multipliers_of_cells_out_of_reach_do_not_count(tmp_path: Path) -> None:
    """A third cell, beyond the budget, has the multiplier that the second one would need."""
    trees = [stump(0, 1.0, 2.0, stump(0, 9.0, -1.0, 2.0)), stump(1, 1.0, 2.0, -1.0)]
    ensemble = Ensemble.from_trees(trees, n_features=2, tie="negative")
    question = Asked(tmp_path, ensemble, Attacker(1, 1.25), [[0.0, 0.0]], [1])
    right = {(0, 0): [(1, 12)], (1, 1): [(1, 12)]}
    assert question.check(robust(bound(2, 15, right))).is_proved
    far = {(0, 0): [(2, 12)], (1, 1): [(1, 12)]}
    assert "the bound is" in question.what_is_wrong(robust(bound(2, 15, far)))


def test_a_cut_has_two_parts(tmp_path: Path) -> None:
    question = two_stumps(1, 1.5, tmp_path)
    inner = cut_below(1, 0, NOTHING, NOTHING)
    assert question.check(robust(cut_below(0, 0, NOTHING, inner))).is_proved
    # With more budget, the part in which both are changed is no longer empty.
    more = two_stumps(1, 2.5, tmp_path)
    assert "case 4: the bound is -2" in more.what_is_wrong(robust(cut_below(0, 0, NOTHING, inner)))
    with pytest.raises(RefusedError, match="damaged"):
        question.check(robust(cut_below(0, 0, NOTHING, b"")))


def test_states_that_a_cut_does_not_name_are_in_its_second_part(tmp_path: Path) -> None:
    tree = {"feature": 0, "categories": [2], "left": {"score": -1.0}, "right": {"score": 1.0}}
    names = {0: {0: "a", 1: "b", 2: "c"}}
    ensemble = Ensemble.from_trees([tree], n_features=1, categories=names)
    attacker = Attacker(0, 1, categories={0: [0, 1, 2]})
    question = Asked(tmp_path, ensemble, attacker, [[0.0]], [1])
    case = by_hand.cut_states(0, [0, 1], NOTHING, NOTHING)
    assert "case 2: the bound is -1" in question.what_is_wrong(robust(case))
    question.head["attacker"]["categories"] = {"0": [0, 1]}
    assert question.check(robust(case)).is_proved


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (cut_below(7, 0, NOTHING, NOTHING), "there is no axis 7"),
        (by_hand.cut_states(0, [0], NOTHING, NOTHING), "of the other kind"),
        (bound(0, 0, {(2, 0): [(0, 1)]}), "no such tree"),
        (bound(0, 0, {(0, 9): [(0, 1)]}), "there is no axis 9"),
        (bound(0, 0, {(0, 0): [(1, 1), (1, 2)]}), "do not rise"),
        (bound(0, 0, {(0, 0): [(2, 1)]}), "does not exist"),
        (b"\3" + by_hand.weights_of({0: 1}) + NOTHING, "a correct row"),
    ],
)
def test_what_is_not_there_is_not_proved(case: bytes, words: str, tmp_path: Path) -> None:
    assert words in two_stumps(1, 0.5, tmp_path).what_is_wrong(robust(case))


def test_multipliers_of_a_tree_and_an_axis_stand_there_once(tmp_path: Path) -> None:
    # one axis, 0; two trees: 0, and 0 more than that; each with a pair of cell 1 and θ = 3
    twice = b"\0\0\0" + bytes([1, 0, 2]) + 2 * (bytes([0, 1, 1]) + by_hand.signed(3))
    assert "twice" in two_stumps(1, 0.5, tmp_path).what_is_wrong(robust(twice))


def test_a_total_of_zero_is_a_win_where_a_tie_is(tmp_path: Path) -> None:
    for threshold, tie, is_proved in ((1.0, "negative", False), (1.0, "positive", True)):
        trees = [stump(0, 1.0, 2.0, -1.0), stump(1, 1.0, 2.0, -1.0)]
        ensemble = Ensemble.from_trees(trees, n_features=2, tie=tie, threshold=threshold)
        question = Asked(tmp_path, ensemble, Attacker(0, 1), [[0.0, 0.0]], [1])
        case = cut_below(0, 0, NOTHING, cut_below(1, 0, NOTHING, NOTHING))
        assert question.check(robust(case)).is_proved == is_proved


# ── classes and weights ──────────────────────────────────────────────────────────────────────


def three_classes(folder: Path, label: int) -> Asked:
    """Class 0 has 5, class 1 has 3 or 4, class 2 has 1."""
    ensemble = Ensemble.from_trees([stump(0, 1.0, [5.0, 3.0, 1.0], [5.0, 4.0, 1.0])], n_features=1)
    return Asked(folder, ensemble, Attacker(0, 1), [[0.0]], [label])


def test_every_rival_needs_a_part(tmp_path: Path) -> None:
    question = three_classes(tmp_path, 0)
    one, two = ({1: 1}, NOTHING), ({2: 1}, NOTHING)
    assert question.check(record(0, "robust", parts(one, two))).is_proved
    assert question.check(record(0, "robust", parts(two, one))).is_proved
    for wrong in ([one], [two, two], [], [one, two, two], [({1: 1, 2: 1}, NOTHING), two]):
        assert "not one for every rival" in question.what_is_wrong(
            record(0, "robust", parts(*wrong))
        )
    heavy = record(0, "robust", parts(({1: 2}, NOTHING), two))
    assert "with weight 1" in question.what_is_wrong(heavy)


@pytest.mark.parametrize("weights", [{}, {0: 0}, {0: 0, 1: 0}])
def test_weights_are_not_all_zero(weights: dict[int, int], tmp_path: Path) -> None:
    question = three_classes(tmp_path, 2)
    assert question.check(record(0, "vulnerable", parts(({0: 1}, NOTHING)))).is_proved
    zero = record(0, "vulnerable", parts((weights, NOTHING)))
    assert "weights that are all 0" in question.what_is_wrong(zero)
    case = b"\3" + by_hand.weights_of(weights) + NOTHING
    later = record(0, "vulnerable", parts(({0: 1}, case)))
    assert "weights that are all 0" in question.what_is_wrong(later)


def test_weights_are_of_rivals(tmp_path: Path) -> None:
    question = three_classes(tmp_path, 2)
    own = record(0, "vulnerable", parts(({2: 1}, NOTHING)))
    assert "label" in question.what_is_wrong(own)
    none = record(0, "vulnerable", parts(({3: 1}, NOTHING)))
    assert "there is no class 3" in question.what_is_wrong(none)
    both = record(0, "vulnerable", parts(({0: 1}, NOTHING), ({1: 1}, NOTHING)))
    assert "2 parts, not one" in question.what_is_wrong(both)


def test_two_classes_have_one_part_without_weights(tmp_path: Path) -> None:
    question = two_stumps(1, 0.5, tmp_path)
    assert "weights" in question.what_is_wrong(record(0, "robust", parts(({0: 1}, NOTHING))))
    for n in (0, 2):
        wrong = record(0, "robust", parts(*[({}, NOTHING)] * n))
        assert f"{n} parts, not one" in question.what_is_wrong(wrong)


# ── records ──────────────────────────────────────────────────────────────────────────────────


def three_rows(folder: Path) -> Asked:
    """The first is robust, the second fragile, the third vulnerable."""
    ensemble = Ensemble.from_trees([stump(0, 1.0, 2.0, -1.0)], n_features=1)
    return Asked(folder, ensemble, Attacker(1, 0.5), [[0.0], [0.75], [3.0]], [1, 1, 1])


RECORDS = (
    record(0, "robust", parts(({}, NOTHING))),
    record(1, "fragile", witness({0: 1.125})),
    record(2, "vulnerable", parts(({}, NOTHING))),
)


def test_each_row_has_its_own_status(tmp_path: Path) -> None:
    question = three_rows(tmp_path)
    assert question.check(*RECORDS).is_proved
    wrong = (
        record(1, "robust", parts(({}, NOTHING))),
        record(0, "fragile", witness({0: 1.125})),
        record(2, "broken", witness({0: 1.0})),
    )
    report = question.check(*wrong)
    assert (report.checked, len(report.wrong)) == ({}, 3)
    swapped = (record(0, "vulnerable", parts(({}, NOTHING))), *RECORDS[1:])
    assert "the model answers 1" in question.what_is_wrong(*swapped)


def test_a_row_without_a_record_is_not_proved(tmp_path: Path) -> None:
    question = three_rows(tmp_path)
    for left_out in range(3):
        records = [r for row, r in enumerate(RECORDS) if row != left_out]
        report = question.check(*records)
        assert report.wrong == {left_out: "there is no record of it"}
        assert not report.is_proved


def test_a_row_has_one_record(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="row 0"):
        three_rows(tmp_path).check(*RECORDS, RECORDS[0])
    with pytest.raises(RefusedError, match="row 3"):
        three_rows(tmp_path).check(*RECORDS, record(3, "robust", parts(({}, NOTHING))))


def test_the_number_of_records_is_what_the_file_says(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="3 records"):
        three_rows(tmp_path).check(*RECORDS, count=4)


@pytest.mark.parametrize("kind", [4, 5, 21, 32, 255])
def test_there_are_no_other_statuses(kind: int, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"is damaged|unknown kind"):
        three_rows(tmp_path).check(bytes([0, kind]), *RECORDS[1:])


# ── witnesses ────────────────────────────────────────────────────────────────────────────────


def test_a_witness_one_float_beyond_the_budget_is_refused(tmp_path: Path) -> None:
    ensemble = Ensemble.from_trees([stump(0, 1.0, 2.0, -1.0)], n_features=1)
    for norm in (1, 2, 3, math.inf):
        question = Asked(tmp_path, ensemble, Attacker(norm, 0.5), [[0.75]], [1])
        assert question.check(record(0, "fragile", witness({0: 1.25}))).is_proved
        beyond = record(0, "fragile", witness({0: math.nextafter(1.25, 2.0)}))
        assert "where the attacker cannot" in question.what_is_wrong(beyond)


def test_the_costs_of_a_witness_add_up(tmp_path: Path) -> None:
    cost = math.nextafter(1.0, 2.0)
    both = record(0, "fragile", witness({0: cost, 1: cost}))
    assert two_stumps(1, 2 * cost, tmp_path).check(both).is_proved
    less = two_stumps(1, math.nextafter(2 * cost, 0.0), tmp_path)
    assert "costs more than the budget" in less.what_is_wrong(both)
    assert two_stumps(0, 2, tmp_path).check(both).is_proved
    assert "costs more" in two_stumps(0, 1, tmp_path).what_is_wrong(both)


def test_a_witness_that_only_ties_does_not_flip(tmp_path: Path) -> None:
    for tie, is_proved in (("positive", False), ("negative", True)):
        ensemble = Ensemble.from_trees([stump(0, 1.0, 2.0, 0.0)], n_features=1, tie=tie)
        question = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.75]], [1])
        report = question.check(record(0, "fragile", witness({0: 1.125})))
        assert report.is_proved == is_proved


@pytest.mark.parametrize(
    ("limits", "changes"),
    [
        ({}, {}),
        ({}, {0: math.nan}),
        ({}, {0: math.inf}),
        ({}, {0: 0.875}),
        ({"features": []}, {0: 1.25}),
        ({"up": {"0": "0x0.0p+0"}}, {0: 1.25}),
        ({"upper": {"0": (1.125).hex()}}, {0: 1.25}),
        ({"up": {"0": (0.5).hex()}}, {0: 1.25}),
        ({"step": {"0": "1/4"}}, {0: 1.2}),
    ],
)
def test_a_witness_keeps_to_all_limits(
    limits: dict[str, Any], changes: dict[int, float], tmp_path: Path
) -> None:
    ensemble = Ensemble.from_trees([stump(0, 1.0, 2.0, -1.0)], n_features=1)
    question = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.75]], [1])
    assert question.check(record(0, "fragile", witness({0: 1.25}))).is_proved
    question.head["attacker"] |= limits
    question.what_is_wrong(record(0, "fragile", witness(changes)))


def test_a_missing_value_stays_missing(tmp_path: Path) -> None:
    tree = stump(0, 1.0, 2.0, -1.0) | {"missing": "left"}
    ensemble = Ensemble.from_trees([tree], n_features=1)
    question = Asked(tmp_path, ensemble, Attacker(0, 1), [[math.nan]], [1])
    assert question.check(robust()).is_proved
    assert "cannot" in question.what_is_wrong(record(0, "fragile", witness({0: 2.0})))


def test_a_witness_of_a_float32_model_is_float32(tmp_path: Path) -> None:
    single = float(np.nextafter(np.float32(1), np.float32(2)))
    ensemble = Ensemble.from_trees(
        [stump(0, 1.0, 2.0, -1.0)], n_features=1, input_precision="float32"
    )
    question = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.75]], [1])
    assert question.check(record(0, "fragile", witness({0: single}))).is_proved
    double = record(0, "fragile", witness({0: math.nextafter(single, 2.0)}))
    assert "cannot" in question.what_is_wrong(double)


# ── false statements, in general ─────────────────────────────────────────────────────────────


def random_case(rng: np.random.Generator, question: Asked, depth: int = 3) -> bytes:
    """Cuts and multipliers at random, of about the size of those that matter."""
    n, ensemble = question.ensemble.n_features, question.ensemble
    numeric = [f for f in range(n) if f not in ensemble.categories]
    if depth and rng.random() < 0.5:
        halves = [random_case(rng, question, depth - 1) for _ in range(2)]
        return cut_below(int(rng.choice(numeric)), int(rng.integers(4)), *halves)
    theta = {}
    for _ in range(rng.integers(4)):
        feature, tree = int(rng.choice(numeric)), int(rng.integers(max(1, ensemble.n_trees)))
        cuts = {
            t["threshold"] for tree in ensemble.to_trees() for t in oracle.splits(tree, feature)
        }
        cells = sorted(rng.choice(len(cuts) + 1, size=min(2, len(cuts) + 1), replace=False))
        theta[tree, feature] = [(int(cell), int(rng.integers(-60, 60))) for cell in cells]
    return bound(int(rng.integers(7)), int(rng.integers(200)), theta)


@pytest.mark.parametrize("norm", NORMS)
def test_no_proof_at_random_makes_a_fragile_row_robust(norm: float, tmp_path: Path) -> None:
    false = true = 0
    for seed in range(40):
        case = make_case(seed, norm, "any edge" if seed % 2 else "edge", "binary")
        rng = np.random.default_rng([seed, NORMS.index(norm), 5])
        status = oracle.status(case.ensemble, case.x, case.label, case.attacker)
        question = asked(tmp_path, case)
        claim = "robust" if status in ("robust", "fragile") else "vulnerable"
        for _ in range(6):
            proof = parts(({}, random_case(rng, question)))
            is_proved = question.check(record(0, claim, proof)).is_proved
            assert not is_proved or status == claim
            false, true = false + (status != claim), true + is_proved
    assert min(false, true) > 10


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", ["none", *LIMITS])
def test_cuts_down_to_single_cells_do_not_hide_a_witness(
    norm: float, limit: str, tmp_path: Path
) -> None:
    """The proof of a row for a smaller budget, and every other proof of what is false."""
    done = 0
    for seed in range(24):
        if limit == "none":
            case = make_case(seed, norm, "any edge", "binary")
        else:
            case = make_kind(seed, norm, limit, "any edge", "binary")
        status = oracle.status(case.ensemble, case.x, case.label, case.attacker)
        if status in ("robust", "vulnerable"):
            continue
        question = asked(tmp_path, case)
        proof = by_hand.forced(case.ensemble, case.x, case.attacker)
        assert not question.check(record(0, OTHER[status], parts(({}, proof)))).is_proved
        done += 1
    assert done > 0


def mutated(rng: np.random.Generator, data: bytes) -> bytes:
    """The bytes with one to three of them changed, left out, doubled or moved."""
    found = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(max(1, len(found))))
        how = rng.integers(4)
        if how == 0:
            found[place : place + 1] = bytes([int(rng.integers(256))])
        elif how == 1:
            del found[place]
        elif how == 2:
            found.insert(place, int(rng.integers(8)))
        else:
            other = int(rng.integers(len(found)))
            found[place], found[other] = found[other], found[place]
        if not found:
            return b"?"
    return bytes(found)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_mutations_of_right_proofs_prove_nothing_false(
    norm: float, task: str, tmp_path: Path
) -> None:
    """What is still accepted is the status that the oracle finds."""
    accepted = refused = 0
    for seed in range(8):
        case = make_case(seed, norm, "any edge", task)
        status, rest = by_hand.proved(case.ensemble, case.x, case.label, case.attacker)
        question = asked(tmp_path, case)
        rng = np.random.default_rng([seed, NORMS.index(norm), len(task)])
        for _ in range(40):
            try:
                report = question.check(mutated(rng, record(0, status, rest)))
            except RefusedError:
                refused += 1
                continue
            assert set(report.checked.values()) <= {status}
            accepted, refused = accepted + report.is_proved, refused + (not report.is_proved)
    assert refused > 100
    assert accepted > 0


def test_the_content_of_model_data_and_attacker_is_compared(tmp_path: Path) -> None:
    for name in ("model", "data"):
        question = three_rows(tmp_path)
        question.head[name] = question.head[name][:-1] + "f0"[question.head[name][-1] == "f"]
        with pytest.raises(RefusedError, match=f"written for (an)?other {name}"):
            question.check(*RECORDS)
    question = three_rows(tmp_path)
    question.rows[1][0] = math.nextafter(question.rows[1][0], 2)
    with pytest.raises(RefusedError, match="written for other data"):
        question.check(*RECORDS)
    question = three_rows(tmp_path)
    question.labels[0] = 0
    with pytest.raises(RefusedError, match="written for other data"):
        question.check(*RECORDS)
