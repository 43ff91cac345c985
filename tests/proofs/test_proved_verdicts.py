"""Verdicts that the package decides, proved by its own prover and checked by the checker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

import carvegbm as cg
import carvegbm_check
from carvegbm.errors import CarveError
from kinds import LIMITS, NORMS
from plain_trees import ensemble, stump
from proofs.asking import NO_LIMIT, arguments, check_proof, make_any

CASES = 10  # per limit and norm
STUMPS = ensemble(*(stump(f, 0.5) for f in range(3)), n_features=3)
ROWS = [[0.1, 0.1, 0.9], [0.45, 0.1, 0.9], [0.45, 0.1, 0.9], [0.9, 0.9, 0.9]]
LABELS = [0, 0, 1, 1]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", [NO_LIMIT, *LIMITS])
def test_every_verdict_has_a_proof_that_is_checked(limit: str, norm: float) -> None:
    for given in arguments(range(CASES), norm, limit):
        check_proof(make_any(*given))


def assert_checked(result: cg.Verification, proof: Path, model: Path, data: Any) -> None:
    report = carvegbm_check.check(proof, model, data)
    assert report.wrong == {}
    assert [report.checked[row] for row in range(len(result))] == result.status.tolist()


BUDGETS = [("inf", 0.02), (1, 0.05), (2, 0.05), (0, 2)]


@pytest.mark.parametrize(("norm", "budget"), BUDGETS)
def test_a_plain_model_of_lightgbm_is_proved(norm: Any, budget: float, tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    data = lightgbm.Dataset(X[100:], y[100:])
    options = {"objective": "binary", "num_leaves": 8, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, data, 40)
    model, proof = tmp_path / "model.txt", tmp_path / "verdicts.proof"
    booster.save_model(model)
    result = cg.verify(model, X[:60], y[:60], cg.Attacker(norm, budget), proof=proof)
    assert {"robust", "fragile"} <= set(result.status.tolist())
    assert_checked(result, proof, model, (X[:60].tolist(), y[:60].tolist()))


@pytest.mark.parametrize(("norm", "budget"), [*BUDGETS[:3], (0, 1)])
def test_a_model_of_ten_classes_is_proved(norm: Any, budget: float, tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    data = lightgbm.Dataset(X[200:], y[200:])
    options = {"objective": "multiclass", "num_class": 10, "num_leaves": 8}
    booster = lightgbm.train({**options, "verbose": -1, "num_threads": 1}, data, 8)
    model, proof = tmp_path / "model.txt", tmp_path / "verdicts.proof"
    booster.save_model(model)
    result = cg.verify(model, X[:40], y[:40], cg.Attacker(norm, budget), proof=proof)
    assert {"robust", "fragile"} <= set(result.status.tolist())
    assert_checked(result, proof, model, (X[:40].tolist(), y[:40].tolist()))


@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.02), (1, 0.02), (2, 0.02), (0, 1)])
def test_the_sample_is_proved_from_the_command_line(
    norm: Any, budget: float, cli: Any, tmp_path: Path
) -> None:
    proof = tmp_path / "verdicts.proof"
    asked = ["sample", "--norm", norm, "--budget", budget, "--proof", proof]
    code, _, err = cli("verify", *asked)
    assert (code, err) == (0, f"wrote {proof}\n")
    code, out, err = cli("check", proof, "sample", "--quiet")
    assert (code, err) == (0, "")
    assert "rows:      all 171\nlabels:    from column 'label'\n" in out


def test_the_same_proofs_are_the_same_file(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "ab"]
    for file, threads in zip(files, (1, 2), strict=True):
        cg.verify(STUMPS, ROWS, LABELS, cg.Attacker("inf", 0.1), proof=file, threads=threads)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_without_labels_the_models_own_answers_are_proved(tmp_path: Path) -> None:
    model, proof = tmp_path / "model.json", tmp_path / "verdicts.proof"
    STUMPS.save(model)
    result = cg.verify(STUMPS, ROWS, attacker=cg.Attacker("inf", 0.1), proof=proof)
    assert_checked(result, proof, model, (ROWS, None))


def test_a_verdict_without_a_proof_is_marked_and_warned_of(tmp_path: Path) -> None:
    """Which takes no time at all here, but that is too much."""
    X, y = load_digits(return_X_y=True)
    booster = lightgbm.train(
        {"objective": "multiclass", "num_class": 10, "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(X[200:], y[200:]),
        20,
    )
    model, proof = tmp_path / "model.txt", tmp_path / "verdicts.proof"
    booster.save_model(model)
    with pytest.warns(UserWarning, match="undecided, or without a proof; give them more time"):
        cg.verify(model, X[:3], y[:3], cg.Attacker(1, 3), timeout=1e-6, proof=proof)
    report = carvegbm_check.check(proof, model, (X[:3].tolist(), y[:3].tolist()))
    assert not report.is_proved
    assert report.checked == {}


def test_a_folder_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(CarveError, match="there is no folder"):
        cg.verify(STUMPS, ROWS, LABELS, cg.Attacker("inf", 0.1), proof=tmp_path / "no" / "a.proof")


def test_a_run_that_is_ended_leaves_no_file(tmp_path: Path, monkeypatch: Any) -> None:
    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("carvegbm.proofs.write._safe_proofs", end)
    with pytest.raises(KeyboardInterrupt):
        cg.verify(STUMPS, ROWS, LABELS, cg.Attacker("inf", 0.1), proof=tmp_path / "a.proof")
    assert list(tmp_path.iterdir()) == []


def test_a_proof_may_not_overwrite_what_is_read(refuses: Any, tmp_path: Path) -> None:
    model, data = tmp_path / "model.json", tmp_path / "data.csv"
    STUMPS.save(model)
    data.write_text(
        "".join(f"{a},{b},{c},{label}\n" for (a, b, c), label in zip(ROWS, LABELS, strict=True))
    )
    asked = ["verify", model, data, "--budget", "0.1", "--proof", data]
    refuses(*asked, words=["--proof", "would overwrite"])


def test_a_proof_never_overwrites_the_model(tmp_path: Path) -> None:
    tree = {"feature": 0, "threshold": 1.0, "left": {"score": 2.0}, "right": {"score": -1.0}}
    path = tmp_path / "model.json"
    cg.Ensemble.from_trees([tree], n_features=1).save(path)
    before = path.read_bytes()
    with pytest.raises(CarveError, match="overwrite"):
        cg.verify(path, [[0.0]], [1], cg.Attacker(1, 0.5), proof=path)
    assert path.read_bytes() == before
