"""Sparse matrices: what the source library itself makes of them, entries left out included."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import carvegbm as cg
from plain_trees import ensemble, stump

xgboost = pytest.importorskip("xgboost")

ZERO = float(np.float32(1e-35))


def data(seed: int) -> tuple[Any, np.ndarray]:
    """Rows with negative numbers, explicit zeros and many entries left out."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(150, 12)), 2)
    X[rng.random(X.shape) < 0.5] = 0
    y = (X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3] > 0).astype(int)
    csr = sparse.csr_matrix(X)
    csr.data[rng.random(csr.nnz) < 0.1] = 0
    return csr, y


def fitted(name: str, X: Any, y: np.ndarray) -> tuple[Any, Any]:
    """A model, and its own label of every row."""
    if name.startswith("lightgbm"):
        more = {"zero_as_missing": True} if name.endswith("missing") else {}
        parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, **more}
        booster = lightgbm.train(parameters | {"min_data_in_leaf": 2}, lightgbm.Dataset(X, y), 6)
        return booster, lambda rows: booster.predict(rows) > 0.5
    if name == "xgboost":
        model = xgboost.XGBClassifier(n_estimators=6, n_jobs=1).fit(X, y)
        return model, lambda rows: model.predict(rows) == 1
    if name == "xgboost, missing=0":
        model = xgboost.XGBClassifier(n_estimators=6, n_jobs=1, missing=0.0).fit(X, y)
        return model, lambda rows: model.predict(rows) == 1
    kinds = {"forest": RandomForestClassifier, "boosting": GradientBoostingClassifier}
    model = kinds[name](n_estimators=6, random_state=0).fit(X, y)
    return model, lambda rows: model.predict(rows) == 1


NAMES = (
    "lightgbm",
    "lightgbm, zero_as_missing",
    "xgboost",
    "xgboost, missing=0",
    "forest",
    "boosting",
)


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_those_of_the_library(name):
    for seed in range(3):
        X, y = data(seed)
        model, label = fitted(name, X, y)
        rows, _ = data(seed + 100)
        own = cg.load(model)
        assert (own.decide(rows) == own.classes[1]).tolist() == label(rows).tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", [0, 1, "inf"])
def test_witnesses_flip_the_library_on_the_same_kind_of_matrix(name, norm):
    X, y = data(7)
    model, label = fitted(name, X, y)
    found = cg.attack(model, X[:60], None, cg.Attacker(norm, 1 if norm == 0 else 0.3), threads=1)
    some = np.flatnonzero(found.success & ~found.borderline)
    assert len(some) > 5
    assert (label(found.witnesses[some]) != label(X[some])).all()
    changed = (found.witnesses[some] != X[some]).sum()
    assert changed >= len(some)


def test_what_is_left_out_cannot_be_touched_where_it_is_missing():
    tree = stump(1, 0.5, missing="right")
    X = sparse.csr_matrix(np.array([[1.0, 0.0]]))
    for absent, status in (("zero", "fragile"), ("missing", "robust")):
        model = ensemble(tree, n_features=2, absent=absent)
        assert cg.verify(model, X, None, cg.Attacker("inf", 9)).status.tolist() == [status]


def test_witness_does_not_end_where_lightgbm_reads_csr_otherwise():
    """-1e-35 in float32 is 0 to LightGBM in an array, and less than 0 in CSR."""
    X = np.array([[-1.0], [0.0], [1.0]] * 30)
    parameters = {"objective": "binary", "learning_rate": 1.0, "min_data_in_leaf": 2}
    parameters |= {"verbose": -1, "num_threads": 1}
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, X[:, 0] < 0), 1)
    edge = sparse.csr_matrix(([-ZERO], [0], [0, 1]), shape=(1, 1))
    assert (booster.predict(edge) > 0.5) != (booster.predict([[-ZERO]]) > 0.5)
    x = sparse.csr_matrix([[-1.0]])
    found = cg.attack(booster, x, None, cg.Attacker("inf", 1))
    assert found.witnesses.data.tolist() == [np.nextafter(-ZERO, 0)]
    assert not found.borderline[0]
    assert (booster.predict(found.witnesses) > 0.5) != (booster.predict(x) > 0.5)
    # Nothing but the edge itself is in reach of a number as small as this.
    tiny = sparse.csr_matrix(([-4 * ZERO], [0], [0, 1]), shape=(1, 1))
    found = cg.attack(booster, tiny, None, cg.Attacker("inf", 0.75, scale=4 * ZERO))
    assert found.witnesses.data.tolist() == [-ZERO]
    assert found.borderline[0]
