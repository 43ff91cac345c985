"""The command line on sparse data and on labels of categories: the answers of the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import carvegbm as cg
from carvegbm.cli.running import Query, ResumeState
from carvegbm.engines import Settings, decide
from carvegbm.problem import Problem

xgboost = pytest.importorskip("xgboost")

ATTACK = ("--norm", "inf", "--budget", "0.2", "--threads", "1")


def sparse_data(n: int = 80, d: int = 30) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(n, d)), 2)
    X[rng.random(X.shape) < 0.6] = 0
    y = (X[:, 0] + X[:, 3] - X[:, 7] > 0).astype(int)
    return sparse.csr_matrix(X), y


X, Y = sparse_data()


@pytest.fixture
def lightgbm_model(tmp_path: Path) -> str:
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 2}
    booster = lgb.train(parameters, lgb.Dataset(X, Y), 4)
    booster.save_model(tmp_path / "model.txt")
    return str(tmp_path / "model.txt")


@pytest.fixture
def xgboost_model(tmp_path: Path) -> str:
    model = xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, Y)
    model.save_model(tmp_path / "model.json")
    return str(tmp_path / "model.json")


@pytest.fixture
def matrix(tmp_path: Path) -> str:
    sparse.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", Y)
    return str(tmp_path / "X.npz")


@pytest.fixture
def libsvm(tmp_path: Path) -> str:
    lines = [
        f"{y} " + " ".join(f"{f + 1}:{v}" for f, v in zip(x.indices, x.data, strict=True)) + "\n"
        for x, y in zip(X, Y, strict=True)
    ]
    path = tmp_path / "data.libsvm"
    path.write_text("".join(lines))
    return str(path)


def answer(cli: Any, *arguments: object) -> dict[str, Any]:
    code, out, err = cli(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("model", ["lightgbm_model", "xgboost_model"])
def test_matrix_is_read_as_the_models_library_reads_it(cli, request, model, matrix):
    path = request.getfixturevalue(model)
    expected = cg.verify(path, X, Y, cg.Attacker("inf", 0.2), threads=1)
    told = answer(cli, "verify", path, matrix, *ATTACK)
    assert told["status"] == expected.status.tolist()
    accuracy = told["accuracy"]
    if model == "xgboost_model":
        booster = xgboost.Booster(model_file=path)
        accuracy = np.mean((booster.predict(xgboost.DMatrix(X)) > 0.5) == Y)
    else:
        accuracy = np.mean((lgb.Booster(model_file=path).predict(X) > 0.5) == Y)
    assert told["accuracy"] == accuracy


@pytest.mark.parametrize("model", ["lightgbm_model", "xgboost_model"])
@pytest.mark.parametrize("small", [True, False], ids=["dense", "sparse"])
def test_what_libsvm_text_leaves_out_is_zero(cli, request, model, small, libsvm, monkeypatch):
    if not small:
        monkeypatch.setattr("carvegbm.data.sparse.NUMBERS_AT_ONCE", 100)
    path = request.getfixturevalue(model)
    expected = cg.verify(path, X.toarray(), Y, cg.Attacker("inf", 0.2), threads=1)
    told = answer(cli, "verify", path, libsvm, *ATTACK)
    assert told["status"] == expected.status.tolist()
    assert answer(cli, "radius", path, libsvm, "--norm", 1, "--threads", 1)["radius"] == [
        None if np.isinf(r) else r
        for r in cg.radius(path, X.toarray(), Y, cg.Attacker(1), threads=1).radius.tolist()
    ]


@pytest.mark.parametrize("given", ["libsvm", "matrix"])
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_what_is_left_out_is_what_absent_says(cli, request, xgboost_model, given, absent):
    dense = X.toarray()
    if absent == "missing":
        dense[dense == 0] = np.nan
    expected = cg.verify(xgboost_model, dense, Y, cg.Attacker("inf", 0.2), threads=1)
    path = request.getfixturevalue(given)
    told = answer(cli, "verify", xgboost_model, path, *ATTACK, "--absent", absent)
    assert told["status"] == expected.status.tolist()
    assert told["margin"] == expected.margin.tolist()


def test_absent_is_refused_where_nothing_is_left_out(cli, lightgbm_model, tmp_path):
    np.savez(tmp_path / "data.npz", X=X.toarray(), y=Y)
    code, _, err = cli("radius", lightgbm_model, tmp_path / "data.npz", "--absent", "missing")
    assert code == 2
    assert "has no absent entries, so --absent has no meaning" in err


def test_attack_writes_a_matrix(cli, lightgbm_model, matrix, tmp_path):
    out = tmp_path / "z.npz"
    told = answer(cli, "attack", lightgbm_model, matrix, *ATTACK, "--output", out)
    flipped = np.array(told["success"])
    assert 0 < flipped.sum() < len(Y)
    booster = lgb.Booster(model_file=lightgbm_model)
    witnesses = sparse.load_npz(out)
    before, after = booster.predict(X), booster.predict(witnesses)
    assert ((before > 0.5) != (after > 0.5))[flipped].all()


def test_verify_with_witnesses_resumes_on_a_matrix(lightgbm_model):
    query = Query(
        Problem(lightgbm_model, cg.Attacker("inf", 0.2)), X, Y, Settings(threads=1), witness=True
    )
    found = decide(query.task, query.rows)
    some, rest = np.arange(0, len(Y), 2), np.arange(1, len(Y), 2)
    again = ResumeState(query)
    again.add_block(ResumeState(query).to_block(some, found.take(some)))
    joined = again.joined(rest, found.take(rest))
    for name, column in joined.columns.items():
        if name != "witness":
            np.testing.assert_array_equal(column, found[name])
            continue
        for one, other in zip(column, found[name], strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one[0].tolist() == other[0].tolist()
                assert one[1].tolist() == other[1].tolist()
    assert any(change is not None for change in joined["witness"])


def test_questions_about_other_matrices_are_other_questions(lightgbm_model):
    problem, settings = Problem(lightgbm_model, cg.Attacker("inf", 0.2)), Settings()
    other = X.copy()
    other.data[3] += 1
    explicit = X.copy()
    explicit[0, 0] = 0
    wide = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], X.shape[1] + 1))
    told = [
        Query(problem, matrix, Y, settings).identity()["data"]
        for matrix in (X, X.tocoo().tocsr(), other, wide, X.toarray())
    ]
    assert told[0] == told[1]
    assert len(set(told)) == 4


# ── labels of categories ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def categories(tmp_path: Path) -> tuple[str, pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    n = 200
    frame = pd.DataFrame(
        {
            "service": pd.Categorical(rng.choice(["http", "ftp", "smtp"], n)),
            "count": np.round(rng.normal(size=n), 2),
            "port": pd.Categorical(rng.choice([80, 21, 25], n)),
        }
    )
    y = ((frame.service == "http") ^ (frame.port == 21) ^ (frame["count"] > 0)).to_numpy(int)
    model = lgb.LGBMClassifier(
        n_estimators=4,
        min_child_samples=2,
        min_data_per_group=1,
        cat_smooth=0,
        verbose=-1,
        n_jobs=1,
    ).fit(frame, y)
    model.booster_.save_model(tmp_path / "model.txt")
    return str(tmp_path / "model.txt"), frame, y


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_hold_labels(cli, categories, tmp_path, suffix):
    model, frame, y = categories
    path = tmp_path / f"data{suffix}"
    table = frame[["port", "count", "service"]].assign(label=y)
    if suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.astype({"port": int}).to_parquet(path)
    expected = cg.verify(model, frame, y, cg.Attacker(0, 1), threads=1)
    arguments = ["--norm", 0, "--budget", 1, "--threads", 1, "--output", tmp_path / "r.csv"]
    told = answer(cli, "verify", model, path, *arguments)
    assert told["status"] == expected.status.tolist()
    own = lgb.Booster(model_file=model).predict(frame) > 0.5
    assert told["accuracy"] == np.mean(own == y)


def test_file_without_a_header_holds_labels_by_position(cli, categories, tmp_path):
    model, frame, y = categories
    frame.assign(label=y).to_csv(tmp_path / "data.csv", index=False, header=False)
    told = answer(cli, "verify", model, tmp_path / "data.csv", "--norm", 0, "--budget", 1)
    expected = cg.verify(model, frame, y, cg.Attacker(0, 1), threads=1)
    assert told["status"] == expected.status.tolist()


def test_label_that_cannot_be_one_is_refused(refuses, categories, tmp_path):
    model, frame, y = categories
    table = frame.astype({"port": object}).assign(label=y)
    table.loc[4, "port"] = "ninety"
    table.to_csv(tmp_path / "data.csv", index=False)
    words = ["row 4, port: unknown category 'ninety'", "21, 25, 80"]
    refuses("verify", model, tmp_path / "data.csv", "--budget", 1, words=words)
    table.assign(count="many").to_csv(tmp_path / "data.csv", index=False)
    words = ["data.csv: line 2, column 2 (count): 'many' is not a number"]
    refuses("verify", model, tmp_path / "data.csv", "--budget", 1, words=words)
