"""Results: all of them are tables that print, become frames and save."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from plain_trees import ensemble, refused, stump

MODEL = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2, feature_names=["age", "sum"])
X, Y = [[0.1, 0.1], [0.45, 0.45], [0.9, 0.9]], [0, 0, 0]
ATTACKER = cg.Attacker("inf", 0.1)
RESULTS = {
    "verify": lambda: cg.verify(MODEL, X, Y, ATTACKER),
    "attack": lambda: cg.attack(MODEL, X, Y, ATTACKER),
    "radius": lambda: cg.radius(MODEL, X, Y, cg.Attacker(1)),
    "robustness_curve": lambda: cg.robustness_curve(
        MODEL, X, Y, cg.Attacker(1), budgets=[0, 0.1, 0.2]
    ),
    "output_range": lambda: cg.output_range(MODEL, X, ATTACKER),
}


@pytest.fixture(params=RESULTS)
def result(request):
    return RESULTS[request.param]()


def test_every_result_has_a_length_and_columns_of_it(result):
    assert isinstance(result, cg.Result)
    assert len(result) == 3
    assert {len(column) for column in result.columns().values()} == {3}


def test_every_result_becomes_plain_values(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert result.columns().keys() <= document.keys()


def test_every_result_becomes_a_frame(result):
    frame = result.to_frame()
    assert len(frame) == 3
    for name, column in result.columns().items():
        np.testing.assert_array_equal(frame[name].to_numpy(), column)


@pytest.mark.parametrize("suffix", [".json", ".csv", ".parquet"])
def test_every_result_is_saved_in_every_format(result, suffix, tmp_path):
    path = tmp_path / f"result{suffix}"
    result.save(path)
    if suffix == ".json":
        assert json.loads(path.read_text()) == result.to_dict()
        return
    saved = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert len(saved) == 3
    assert set(result.columns()) <= set(saved.columns)


def test_result_says_what_to_install_where_pandas_is_not(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with refused("to_frame", "pip install pandas"):
        RESULTS["verify"]().to_frame()


def test_frame_of_an_attack_holds_the_witnesses():
    found = RESULTS["attack"]()
    frame = found.to_frame()
    assert frame.columns.tolist()[-2:] == ["witness age", "witness sum"]
    np.testing.assert_array_equal(frame[["witness age", "witness sum"]], found.witnesses)


def test_attack_is_saved_with_its_witnesses(tmp_path):
    found = RESULTS["attack"]()
    found.save(tmp_path / "found.npz")
    saved = np.load(tmp_path / "found.npz")
    np.testing.assert_array_equal(saved["X"], found.witnesses)
    assert saved["y"].tolist() == Y
    assert saved["feature_names"].tolist() == ["age", "sum"]
    assert saved["status"].tolist() == found.status.tolist()
    with refused("found.txt", ".npz", ".parquet"):
        found.save(tmp_path / "found.txt")


def test_every_result_says_which_iterations_of_the_model_it_is_about():
    model = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2, iterations=(2, 5, 2))
    attacker = cg.Attacker("inf", 0.1)
    results = [
        cg.verify(model, X, Y, attacker),
        cg.attack(model, X, Y, attacker),
        cg.radius(model, X, Y, cg.Attacker(1)),
        cg.robustness_curve(model, X, Y, cg.Attacker(1), budgets=[0, 0.1]),
        cg.output_range(model, X, attacker),
        cg.explain(model, X[0], 0, attacker),
        cg.report(model, X, Y, attacker, progress=False),
    ]
    for found in results:
        document = json.loads(json.dumps(found.to_dict()))
        used = document.get("iterations") or document["model"]["iterations"]
        assert used == {"used": 2, "total": 5, "best": 2}
        (line,) = [text for text in str(found).splitlines() if "iterations" in text]
        assert "2 of 5 iterations" in line
        assert "iteration_range=" in line
        if hasattr(found, "_repr_html_"):
            assert "2 of 5 iterations" in found._repr_html_()
    assert "2 of 5 iterations" in results[-1].html()
    for request in RESULTS.values():
        found = request()  # of a model all of whose iterations are used
        assert "iterations" not in str(found)
        assert "iterations" not in found.to_dict()
