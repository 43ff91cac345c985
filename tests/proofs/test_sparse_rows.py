"""Proofs about sparse rows: the file is that of the dense ones, though these are never there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_digits

import carvegbm as cg
import carvegbm_check
from asking import question
from carvegbm.data import sparse
from kinds import LIMITS, NORMS
from proofs.asking import NO_LIMIT, arguments, make_any

CASES = 6  # per limit and norm


def stored(X: Any, absent: float = 0.0) -> csr_matrix:
    """All entries but those that a sparse matrix leaves out; -0.0 is not 0.0 to a hash."""
    X = np.asarray(X, dtype=np.float64)
    kept = ~np.isnan(X) if np.isnan(absent) else (X != 0) | np.signbit(X)
    rows, columns = np.nonzero(kept)
    return csr_matrix((X[kept], (rows, columns)), shape=X.shape)


def proofs_of(folder: Path, dense: Any, model: Any, *asked: Any, absent: float = 0.0) -> list[Path]:
    """The files of the proofs for rows that are dense, and sparse."""
    files = [folder / "dense.proof", folder / "sparse.proof"]
    for file, X in zip(files, (dense, stored(dense, absent)), strict=True):
        cg.verify(model, X, *asked, threads=1, proof=file)
    return files


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", [NO_LIMIT, *LIMITS])
def test_the_proofs_are_those_of_the_dense_rows(limit: str, norm: float, tmp_path: Path) -> None:
    for given in arguments(range(CASES), norm, limit):
        model, X, y, attacker = question(make_any(*given))
        absent = 0.0 if model.absent == "zero" else np.nan
        dense, of_sparse = proofs_of(tmp_path, X, model, y, attacker, absent=absent)
        assert of_sparse.read_bytes() == dense.read_bytes()


@pytest.fixture
def widest(monkeypatch: Any) -> list[int]:
    """The numbers of every dense block that is made of sparse rows: few are allowed at once."""
    made: list[int] = []
    make = sparse.dense

    def dense(*given: Any) -> Any:
        block = make(*given)
        made.append(block.size)
        return block

    monkeypatch.setattr(sparse, "NUMBERS_AT_ONCE", 500)
    monkeypatch.setattr("carvegbm.model.rows.dense", dense)
    return made


@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.02), (1, 0.1), (2, 0.1), (0, 1)])
def test_rows_are_made_dense_some_at_a_time(
    norm: Any, budget: float, widest: list[int], tmp_path: Path
) -> None:
    X, y = load_digits(n_class=2, return_X_y=True)
    X = X / 16
    options = {"norm": norm, "budget": budget, "n_estimators": 20, "num_leaves": 8}
    model = cg.LargeSpreadClassifier(**options, random_state=0, verbose=0).fit(X[100:], y[100:])
    path = tmp_path / "model.txt"
    model.booster_.save_model(path)
    X, y = X[:60], y[:60]
    dense, of_sparse = proofs_of(tmp_path, X, path, y, cg.Attacker(norm, budget))
    assert of_sparse.read_bytes() == dense.read_bytes()
    assert 64 <= max(widest) <= 500 < X.size
    report = carvegbm_check.check(of_sparse, path, (X.tolist(), y.tolist()))
    assert report.wrong == {}
    assert len(report.checked) == len(X)


def test_what_xgboost_takes_for_missing_is_missing_in_the_proof(tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 3, "nthread": 1},
        xgboost.DMatrix(X[60:], y[60:]),
        20,
    )
    path = tmp_path / "model.json"
    booster.save_model(path)
    X, y = X[:60], y[:60]
    dense, of_sparse = proofs_of(tmp_path, X, path, y, cg.Attacker("inf", 0.02), absent=np.nan)
    assert of_sparse.read_bytes() == dense.read_bytes()
    report = carvegbm_check.check(of_sparse, path, (X.tolist(), y.tolist()))
    assert report.wrong == {}
    assert {"robust", "fragile"} <= set(report.checked.values())
