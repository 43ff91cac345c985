"""What `--expect` covers, and the attacker that the checker's JSON document holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
import carvegbm_check
from carvegbm.model.ensemble import Ensemble
from carvegbm_check import RefusedError
from oracle import Attacker
from proofs import by_hand
from proofs.asking import Asked
from proofs.by_hand import NOTHING, parts, record
from proofs.random_attackers import NAMES, OWN, Proof, check_document, check_expectation

SEEDS = 1000
TREE = {"feature": 0, "threshold": 1.0, "left": {"score": 2.0}, "right": {"score": -1.0}}


@pytest.mark.parametrize("part", range(4))
def test_the_json_document_holds_the_whole_attacker(part: int, tmp_path: Path) -> None:
    for seed in range(part, SEEDS, 4):
        check_document(seed, tmp_path)


def test_features_without_names_are_positions_in_the_document(tmp_path: Path) -> None:
    options = {"norm": 1, "budget": 2, "features": [0, 2], "scale": {0: 3.0}}
    proof = Proof(tmp_path, options, named=False)
    document = json.loads(json.dumps(proof.check().document()))
    assert cg.Attacker.from_dict(document["attacker"]) == proof.attacker


def test_an_attacker_is_covered_by_a_proof_against_itself_or_a_stronger_one(tmp_path: Path) -> None:
    """And by no other: one option at a time permits more."""
    kinds = set().union(*(check_expectation(seed, tmp_path) for seed in range(SEEDS // 40)))
    every = {"budget", "features", "scale", "categories", "step", "bounds", "bounds of a row"}
    assert kinds == every


EVERYTHING = {
    "norm": 1,
    "budget": 4.0,
    "step": {"7": 1, '"-3"': "3/4"},
    "categories": {"proto": ["tcp"]},
    "bounds": {"src bytes": [None, 1.0]},
    "one_hot": [["own", "rent"]],
}


@pytest.fixture
def proof(tmp_path: Path) -> Proof:
    return Proof(tmp_path, {"norm": 1, "budget": 4.0, "one_hot": [NAMES[7:]]})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"norm": "inf"}, "norm"),
        ({"norm": 0, "budget": 4}, "norm"),
        ({"one_hot": None}, "one-hot"),
        ({"one_hot": [NAMES[7:], NAMES[1:3]]}, "one-hot"),
        ({"labels": "given"}, "labels"),
        ({"labels": None}, "labels"),
        ({"rows": 4}, "rows"),
        ({"robustness": 1}, "robust"),
        ({"budget": 4.000000000000001}, "budget"),
        ({"step": {"src bytes": "1/3"}}, "steps"),
    ],
    ids=str,
)
def test_what_the_proof_does_not_say_is_not_covered(
    proof: Proof, change: dict[str, Any], word: str
) -> None:
    expected = {"norm": 1, "budget": 4.0, "one_hot": [NAMES[7:]], **OWN, "rows": 3}
    assert proof.check(expected).exit_code == 0
    report = proof.check(expected | change)
    assert report.exit_code == 1
    assert word in report.not_covered[0]
    assert " not covered: " in str(report)


@pytest.mark.parametrize(
    "change",
    [
        {"budgets": 1},
        {"budget": None},
        {"norm": None},
        {"budget": "0.1"},
        {"budget": True},
        {"budget": 2**53 + 1},
        {"budget": -1},
        {"budget": float("nan")},
        {"norm": 1.5},
        {"norm": "1"},
        {"rows": 0},
        {"rows": 2.0},
        {"rows": True},
        {"rows": "some"},
        {"robustness": 2},
        {"labels": "any"},
        {"features": ["no such"]},
        {"features": ["own", "own"]},
        {"features": "own"},
        {"features": [9]},
        {"features": [True]},
        {"scale": 0},
        {"scale": {"own": 2}},
        {"scale": {"0": 1, "src bytes": 2}},
        {"scale": [1]},
        {"step": {"0": "1e999999999"}},
        {"step": {"0": 0}},
        {"bounds": [2, 1]},
        {"bounds": [[[0] * 9], [[1] * 9]]},
        {"bounds": {"src bytes": [[0, 0, 0], 1], "rent": [0, [1, 1]]}},
        {"bounds": {"src bytes": [0, 1, 2]}},
        {"categories": {"proto": ["gre"]}},
        {"categories": {"0": [1]}},
        {"one_hot": [["own", "proto"]]},
    ],
    ids=str,
)
def test_an_expectation_is_read_strictly(proof: Proof, change: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="expectation: "):
        proof.check({"norm": 1, "budget": 4.0, "one_hot": [NAMES[7:]]} | change)


def test_an_expectation_without_any_power_is_refused(tmp_path: Path) -> None:
    """A proof that covers it would say nothing: the features must be some that the model tests."""
    asked = two_features(tmp_path)
    robust = record(0, "robust", parts(({}, NOTHING)))
    for change in (
        {"features": []},
        {"features": [1]},
        {"budget": 0},
        {"bounds": {"0": [0, 0]}},
        {"bounds": [[[0, -9]], [[0, 9]]]},
        {"step": {"0": 1}},
    ):
        expected = {"norm": 1, "budget": 0.5, **change}
        with pytest.raises(RefusedError, match="can change nothing; --allow-trivial"):
            asked.check(robust, expect=expected, allow_trivial=False)
    assert asked.check(robust, expect=expected).exit_code == 0


def two_features(folder: Path, row: tuple[float, float] = (0.0, 0.0), **more: Any) -> Asked:
    """A question about a model that tests the first of two features."""
    ensemble = Ensemble.from_trees([TREE], n_features=2, **more)
    return Asked(folder, ensemble, Attacker(1, 0.5), [row], [1])


NEVER = {"0": "0x0.0p+0"}


@pytest.mark.parametrize(
    "change",
    [
        {"features": []},
        {"features": [1]},
        {"budget": (0.0).hex()},
        {"norm": 0, "budget": (0.5).hex()},
        {"down": NEVER, "up": NEVER},
        {"down": {"0": (5e-324).hex()}, "up": {"0": (5e-324).hex()}},
        {"step": {"0": "1/1"}},
        {"lower": {"0": (0.0).hex()}, "upper": {"0": (0.0).hex()}},
        {"lower": {"0": (-0.5).hex()}, "upper": {"0": (0.5).hex()}, "step": {"0": "2/1"}},
        {"one_hot": [[0, 1]], "norm": "inf"},
        {"one_hot": [[0, 1]], "norm": 0, "budget": (2.0).hex(), "upper": {"0": (0.5).hex()}},
    ],
    ids=str,
)
def test_a_proof_against_an_attacker_without_power_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    asked = two_features(tmp_path, (0.0, float("one_hot" in change)))
    asked.head["attacker"] |= change
    robust = record(0, "robust", parts(({}, NOTHING)))
    with pytest.raises(RefusedError, match="proves nothing: the attacker can change no feature"):
        asked.check(robust, allow_trivial=False)
    report = asked.check(robust)
    assert report.is_proved
    assert "can change nothing that the model tests in 1 rows" in str(report)
    assert report.document()["rows_without_attack"] == 1


def test_bounds_of_every_row_may_leave_nothing_to_an_attacker(tmp_path: Path) -> None:
    asked = two_features(tmp_path)
    asked.head["attacker"]["row_bounds"] = True
    pinned = record(0, "robust", parts(({}, NOTHING)), ([0.0, -9.0], [0.0, 9.0]))
    with pytest.raises(RefusedError, match="proves nothing"):
        asked.check(pinned, allow_trivial=False)
    assert "feature 0: bounds in 1 rows; the tightest leave 0 down, 0 up" in str(
        asked.check(pinned)
    )


def test_a_row_of_missing_values_leaves_nothing_to_an_attacker(tmp_path: Path) -> None:
    ensemble = Ensemble.from_trees([TREE | {"missing": "left"}], n_features=1)
    asked = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[np.nan]], [1])
    robust = record(0, "robust", parts(({}, NOTHING)))
    with pytest.raises(RefusedError, match="cannot change values that are missing: 1"):
        asked.check(robust, allow_trivial=False)


def test_a_move_that_a_float32_model_does_not_see_is_none(tmp_path: Path) -> None:
    """The attacker can move 0.1 to the float32 next to it, which the model takes it for anyway."""
    asked = two_features(tmp_path, (0.1, 0.1), input_precision="float32")
    asked.head["attacker"]["budget"] = (2e-9).hex()
    with pytest.raises(RefusedError, match="proves nothing"):
        asked.check(record(0, "robust", parts(({}, NOTHING))), allow_trivial=False)


def test_the_refusal_of_an_attacker_without_power_is_whole(tmp_path: Path) -> None:
    """However many features there are, it has all reasons, none of them cut."""
    n = 300
    names = [f"a rather long name of a feature, number {f}" for f in range(n)]
    ensemble = Ensemble.from_trees([TREE], n_features=n, feature_names=names)
    asked = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.0] * n], [1])
    pairs = {str(f): (0.0).hex() for f in range(200)}
    asked.head["attacker"] |= {"lower": pairs, "upper": pairs, "features": [*range(100)]}
    with pytest.raises(RefusedError) as error:
        asked.check(record(0, "robust", parts(({}, NOTHING))), allow_trivial=False)
    message = str(error.value)
    assert "may not be changed: 200 features" in message
    assert "have bounds that leave no other value: 100 features" in message
    assert message.endswith("--allow-trivial accepts this and prints the full report")
    assert " … " not in message


def test_a_feature_without_a_name_is_expected_as_the_report_names_it(tmp_path: Path) -> None:
    asked = two_features(tmp_path)
    robust = record(0, "robust", parts(({}, NOTHING)))
    report = asked.check(robust)
    assert "feature 0, feature 1" in str(report)
    for name in report.document()["features"]["can be changed"][0], "0":
        expected = {"norm": 1, "budget": 0.5, "features": [name], "scale": {name: 1}}
        assert asked.check(robust, expect=expected).exit_code == 0
        assert asked.check(robust, expect=expected | {"scale": {name: 2}}).exit_code == 1
    for name in ("feature 2", "feature 00", "feature", "feature 1000000000"):
        with pytest.raises(RefusedError, match=f"there is no feature '{name}'"):
            asked.check(robust, expect={"norm": 1, "budget": 0.5, "features": [name]})
    claim = "norm=1,budget=0.5,features=feature 0+feature 1"
    assert asked.check(robust, expect=claim).exit_code == 0


def test_closed_categories_are_stated(tmp_path: Path) -> None:
    """The file states them by the absence of a field, or by an empty list."""
    split = {"feature": 0, "categories": [1], "left": {"score": 1.0}, "right": {"score": -1.0}}
    ensemble = Ensemble.from_trees([split], n_features=1, categories={0: {0: "a", 1: "b"}})
    asked = Asked(tmp_path, ensemble, Attacker(0, 1), [[1.0]], [1])
    asked.rows = [[1.0]]
    asked.head = by_hand.header(ensemble, asked.rows, [1], asked.attacker)
    for closed in ({}, {"categories": {"0": []}}):
        asked.head["attacker"].pop("categories", None)
        asked.head["attacker"] |= closed
        robust = record(0, "robust", parts(({}, NOTHING)))
        with pytest.raises(RefusedError, match="may change to no other category: 1 feature"):
            asked.check(robust, allow_trivial=False)
        assert asked.check(robust).document()["attacker"]["categories"] == {"0": []}
        expected = {"norm": 0, "budget": 1, "categories": {"0": ["a"]}}
        assert asked.check(robust, expect=expected).exit_code == 1


def test_every_restriction_is_stated_in_words(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "norm": 1,
        "budget": 4.0,
        "features": [name for name in NAMES if name != "a.b"],
        "scale": {"src bytes": (0.0, 2.0), "service": 0.125, "-3": (1.0, 0.0), "own": 2, "rent": 2},
        "step": {"7": "1/255", '"count"': 9},
        "categories": {"proto": ["tcp", "udp"]},
        "bounds": {"-3": (-1.5, 8.0), "7": (0.0, 0.0)},
        "one_hot": [NAMES[7:]],
    }
    report = Proof(tmp_path, options).check()
    text = str(report)
    for words in (
        "norm 1, budget 4 (k): ",
        "can change 5 of 9 features: src bytes, -3, proto, own, rent; the model tests 5 of them",
        "may not be changed: 1 feature: a.b",
        "have bounds that leave no other value: 1 feature: 7",
        'cannot pay for any change, because the budget is too small: 2 features: "count", service',
        "can only increase: 1 feature: src bytes",
        "can only decrease: 1 feature: -3",
        "scale 2: 3 features: src bytes, own, rent",
        "between -1.5 and 8: 1 feature: -3",
        "proto: only to 2 of 3 categories: tcp, udp",
        "one-hot group, of which one is 1 and the others are 0: 2 features: own, rent",
        "cannot change values that are missing: 2 in the rows",
        "the model's own decisions count as correct",
        "all 3\n",
        "9 trees, 9 features",
    ):
        assert words in text, text
    document = report.document()
    assert document["features"]["may not be changed"] == ["a.b"]
    assert document["features"]["can be changed"] == ["src bytes", "-3", "proto", "own", "rent"]
    assert document["missing_values"] == 2


def test_steps_are_covered_only_by_finer_ones_of_which_they_are_multiples(tmp_path: Path) -> None:
    asked = two_features(tmp_path)
    robust = record(0, "robust", parts(({}, NOTHING)))

    def is_covered(own: str | None, expected: str, **more: Any) -> bool:
        asked.head["attacker"].pop("step", None)
        asked.head["attacker"] |= {"step": {"0": own}} if own else {}
        step = {"norm": 1, "budget": 0.5, "step": {"0": expected}}
        return asked.check(robust, expect=step | more).exit_code == 0

    assert is_covered("1/10", "1/10")
    assert is_covered("1/10", "3/10")
    assert is_covered(None, "1/8")
    assert not is_covered("1/8", "1/10")
    assert not is_covered("2/10", "1/10")
    assert not is_covered(None, "1/10")  # one tenth is no double: the nearest may be farther
    asked.rows = [[2.0**50, 0.0]]  # beyond the last of the finer multiples
    asked.head["data"] = by_hand.data_content(asked.rows, [1])
    assert not is_covered("1/4", "1/2")


def test_steps_of_a_float32_model_are_covered_only_by_the_same(tmp_path: Path) -> None:
    """The float32 of a row may be another multiple of a finer step, from which less is in reach."""
    x, reached = (float(np.float32(value)) for value in (799.1, 799.2))
    tree = {"feature": 0, "threshold": np.nextafter(np.float32(reached), np.float32(0)).item()}
    leaves = {"left": {"score": 1.0}, "right": {"score": -1.0}, "missing": "left"}
    trees = [tree | leaves]
    model = cg.Ensemble.from_trees(trees, n_features=1, input_precision="float32")
    finer, coarser = (cg.Attacker("inf", 0.1, step=step) for step in ("1/10000000", "1/10"))
    proof, saved = tmp_path / "p", tmp_path / "m.json"
    cg.verify(model, [[x]], [1], finer, proof=proof)
    model.save(saved)
    for expected, code in ((finer, 0), (coarser, 1)):
        report = carvegbm_check.check(proof, saved, ([[x]], [1]), expect=expected.to_dict())
        assert report.exit_code == code, (expected, report.not_covered)


def test_undecided_rows_do_not_pass_for_robust_ones(tmp_path: Path) -> None:
    asked = two_features(tmp_path)
    unproved = b"\0" + bytes([16])
    expected = {"norm": 1, "budget": 0.5, "robustness": 1}
    assert asked.check(unproved, expect=expected).exit_code == 3


def test_expectations_are_read_from_pairs_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = carvegbm_check.read_expectation
    assert read("norm=inf,budget=0.01,rows=all,features=all") == {
        "norm": float("inf"),
        "budget": 0.01,
        "rows": "all",
        "features": "all",
    }
    assert read("norm=1, budget=2,features=age+3") == {
        "norm": 1,
        "budget": 2,
        "features": ["age", 3],
    }
    (tmp_path / "a.json").write_text(json.dumps(EVERYTHING))
    monkeypatch.chdir(tmp_path)
    assert read("a.json") == EVERYTHING
    assert read("a.json,rows=100") == EVERYTHING | {"rows": 100}
    for wrong in ("norm=1,norm=2", "norm=1,budgets=2", "norm=1,scale=2", "none.json", "norm=1,,"):
        with pytest.raises(RefusedError):
            read(wrong)
    for text in ('{"norm": 1, "norm": 2}', "[]", "norm = 1", "{"):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(RefusedError):
            read("b.json")
