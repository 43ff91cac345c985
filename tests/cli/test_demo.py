"""The demo: what it finds, what it shows, and that it says where training loses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carvegbm.cli import demo as digits
from carvegbm.cli.demo import Comparison, Judged, Witness
from carvegbm.training.large_spread.rounds import SingleOutputRounds
from carvegbm.training.robust.trainer import Growth


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def found() -> Comparison:
    """Something the demo might find: another kind is the best for every attacker."""
    image = np.linspace(0, 1, 64)
    attacked = image.copy()
    attacked[20] = 0.97
    judged = []
    for i in range(len(digits.ATTACKERS)):
        shares = [0.5 + (kind == i % 3) * 0.25 + i / 100 for kind in range(3)]
        kinds = zip(digits.KINDS, shares, strict=True)
        judged.append({kind: Judged(0.96875, (share, share), 10 + i) for kind, share in kinds})
    return Comparison(64, judged, Witness(image, attacked, 3, 8, 2.5))


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let the command find this, without the work."""

    def set_to(comparison: Comparison) -> None:
        monkeypatch.setattr(digits, "compare", lambda *_: comparison)

    return set_to


def test_robust_models_are_accurate_and_more_robust_than_the_others(finding: Any, cli: Any) -> None:
    found = digits.compare()
    assert found.instances == 183 + 174  # scikit-learn's 3s and 8s
    assert len(found.judged) == len(digits.ATTACKERS)
    for judged in found.judged:
        assert list(judged) == list(digits.KINDS)
        for of in judged.values():
            right = of.accuracy * found.instances
            assert right == pytest.approx(round(right))
            assert of.robustness[0] <= of.robustness[1] <= of.accuracy
        for kind in ("certified", "robust"):
            assert judged[kind].accuracy > judged["plain"].accuracy - 2 * digits.CLEAN_LOSS
            assert judged[kind].robustness[0] > judged["plain"].robustness[0]
    kinds = zip(*(judged.values() for judged in found.judged), strict=True)
    plain, certified, robust = (sum(of.robustness[0] for of in kind) for kind in kinds)
    assert plain < certified < robust
    finding(found)
    title, head, *_ = cli("demo")[1].splitlines()
    page = Path(__file__, "../../../docs/getting-started.md").resolve().read_text("utf-8")
    assert f"\n{title}\n{head}\n" in page


def test_every_image_is_tested_once_and_never_by_a_model_that_saw_it() -> None:
    tested = []
    for train, valid, test in digits._folds():
        seen, held_back = ({tuple(row) for row in X} for X, _ in (train, valid))
        new = [tuple(row) for row in test[0]]
        assert not seen & held_back
        assert not (seen | held_back) & set(new)
        tested += new
    assert len(tested) == len(set(tested)) == 183 + 174


def test_the_result_does_not_depend_on_the_number_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(digits, "ATTACKERS", (("0", 1, "one pixel, at will"),))
    monkeypatch.setattr(digits, "FOLDS", 2)
    ticks: list[int] = []
    alone, together = digits.compare(1, ticks.append), digits.compare(2, ticks.append)
    assert alone.to_dict() == together.to_dict()
    assert ticks == [0, 1, 2, 0, 1, 2]
    assert alone.witness is not None
    assert together.witness is not None
    np.testing.assert_array_equal(alone.witness.attacked, together.witness.attacked)
    assert (alone.witness.image != alone.witness.attacked).sum() == 1
    assert {alone.witness.label, alone.witness.answer} == {3, 8}


def test_table_fits_100_columns_and_marks_the_best_robustness(
    found: Comparison, finding: Any, cli: Any
) -> None:
    finding(found)
    code, out, err = cli("demo")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    rows = [line for line in out.splitlines() if re.match(r"  L(∞|0|1) ", line)]
    assert len(rows) == len(digits.ATTACKERS)
    for row, judged in zip(rows, found.judged, strict=True):
        best = max(of.robustness[0] for of in judged.values())
        numbers = row[30:].split()
        robust = [numbers[i] for i in (1, 4, 7)]
        expected = [
            f"{100 * of.robustness[0]:.1f}" + "*" * (of.robustness[0] == best)
            for of in judged.values()
        ]
        assert robust == expected
    assert "wrote carvegbm-demo.png" in err
    assert Path("carvegbm-demo.png").read_bytes()[:4] == b"\x89PNG"


def test_best_robustness_is_bold_on_a_terminal_only(
    found: Comparison, finding: Any, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding(found)
    assert "\x1b" not in cli("demo")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = cli("demo")[1]
    marked = re.findall(r"\x1b\[1;32m *([\d.]+)\*\x1b\[0m", out)
    assert len(marked) == out.count("*\x1b")
    assert len(marked) == len(digits.ATTACKERS)


def test_witness_is_shown_as_text_and_what_to_do_next(
    found: Comparison, finding: Any, cli: Any
) -> None:
    finding(found)
    out = cli("demo")[1]
    assert "that one changed pixel" in out
    assert out.count("[") == 2  # the pixel before and after
    commands = re.findall(r"^  carvegbm (.*)$", out, re.M)
    assert len(commands) == 2
    assert cli(*commands[0].split())[0] == 0
    assert commands[1].startswith("train DATA.csv ")
    assert "--robust" in commands[1]


def against_all(plain: float, certified: float, robust: float) -> Comparison:
    shares = {"plain": plain, "certified": certified, "robust": robust}
    judged = {kind: Judged(0.9, (share, share), 10) for kind, share in shares.items()}
    return Comparison(100, [judged] * len(digits.ATTACKERS), None)


def test_demo_says_where_training_is_less_robust_than_a_simpler_kind(
    finding: Any, cli: Any
) -> None:
    everywhere = "L∞ 0.04, L∞ 0.1, L0 1, L0 2, L1 0.2, L1 0.5"
    plain, certified, robust = digits.KINDS.values()
    for shares, said in (
        ((0.5, 0.5, 0.5), []),
        ((0.5, 0.4, 0.6), [(certified, plain)]),
        ((0.5, 0.6, 0.5), [(robust, certified)]),
        ((0.5, 0.4, 0.4), [(certified, plain), (robust, plain)]),
        ((0.5, 0.5, 0.4), [(robust, plain), (robust, certified)]),
    ):
        finding(against_all(*shares))
        lines = [line for line in cli("demo")[1].splitlines() if "is below" in line]
        assert lines == [f"{kind} is below {other} at {everywhere}" for kind, other in said]


def test_demo_names_the_attackers_that_training_loses_to_and_no_others(
    found: Comparison, finding: Any, cli: Any
) -> None:
    finding(found)
    (line,) = [x for x in cli("demo")[1].splitlines() if x.startswith("robust training is below c")]
    lost = [
        digits.name_of(norm, budget)
        for (norm, budget, _), judged in zip(digits.ATTACKERS, found.judged, strict=True)
        if judged["robust"].robustness[0] < judged["certified"].robustness[0]
    ]
    assert 0 < len(lost) < len(digits.ATTACKERS)
    assert line.endswith(" at " + ", ".join(lost))


def test_robustness_that_is_not_decided_is_an_interval(finding: Any, cli: Any) -> None:
    comparison = against_all(0.5, 0.5, 0.6)
    undecided = {"plain": Judged(0.9, (0.5, 0.55), 10)}
    judged = [{**judged, **undecided} for judged in comparison.judged]
    finding(replace(comparison, judged=judged))
    assert cli("demo")[1].count("50.0–55.0 ") == len(digits.ATTACKERS)


def test_json_is_one_document_with_a_result_per_attacker(
    found: Comparison, finding: Any, cli: Any
) -> None:
    finding(found)
    code, out, _ = cli("demo", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["instances"] == found.instances
    assert document["picture"] == "carvegbm-demo.png"
    assert [(r["norm"], r["budget"]) for r in document["results"]] == [
        (norm, budget) for norm, budget, _ in digits.ATTACKERS
    ]
    for result, judged in zip(document["results"], found.judged, strict=True):
        for kind, of in judged.items():
            assert result[f"{kind}_accuracy"] == of.accuracy
            assert result[f"{kind}_robustness"] == list(of.robustness)
            assert result[f"{kind}_trees"] == of.trees


def test_ctrl_c_ends_the_demo_with_130_and_leaves_nothing(
    cli: Any, ctrl_c_at: Any, tmp_path: Path
) -> None:
    for grower, method in ((SingleOutputRounds, "grow"), (Growth, "round")):  # certified, robust
        with ctrl_c_at(grower, method, 5):
            code, out, err = cli("demo", "--threads", "1")
        assert (code, out, err) == (130, "", "carvegbm: interrupted\n")
        assert not list(tmp_path.iterdir())


def test_picture_that_cannot_be_written_is_refused_before_the_work(
    refuses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "compare", pytest.fail)
    refuses("demo", "--picture", "missing/demo.png", words=["missing/demo.png", "no folder"])
    refuses("demo", "--picture", "demo.txt", words=["demo.txt", ".png"])
