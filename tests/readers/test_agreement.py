"""The label of every row is the source library's own, ties and rounding included."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from readers.tied_models import FAMILIES, Fitted

MODELS = 12  # per family: every list of tied scores twice
LARGEST = 1e30  # scikit-learn refuses infinity, which larger numbers become in float32
families = pytest.mark.parametrize("name", FAMILIES)
Models = Callable[[str, int], Fitted]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """The model of a family and a seed, fitted once."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def make(name: str, seed: int) -> Fitted:
        own = folder / str(list(FAMILIES).index(name))
        own.mkdir(exist_ok=True)
        return FAMILIES[name].make(seed, own)

    return make


def rows_of(fitted: Fitted, ensemble: cg.Ensemble, boundary_rows: Any, nan: bool) -> np.ndarray:
    """Every combination of the training values, and rows at and beside all thresholds."""
    everywhere = product(*(np.unique(column) for column in fitted.X.T))
    return np.vstack([list(everywhere), boundary_rows(ensemble, nan=nan, huge=LARGEST)])


def ties(ensemble: cg.Ensemble, X: np.ndarray) -> int:
    """Rows whose raw score prefers no class; > 0 may also be written as >= the next double."""
    raw = ensemble.raw_score(X)
    if ensemble.task == "binary":
        return int(np.count_nonzero(np.abs(raw - ensemble.threshold) <= math.ulp(0.0)))
    ranked = np.sort(raw, axis=1)
    return int(np.count_nonzero(ranked[:, -1] == ranked[:, -2]))


@families
def test_every_row_is_decided_as_the_library_predicts_it(name, model, boundary_rows):
    undecided, disagreements = 0, []
    for seed in range(MODELS):
        fitted = model(name, seed)
        ensemble = cg.load(fitted.source)
        X = rows_of(fitted, ensemble, boundary_rows, FAMILIES[name].nan)
        mine, theirs = ensemble.decide(X), fitted.labels(X)
        undecided += ties(ensemble, X)
        wrong = np.flatnonzero(mine != theirs)
        if len(wrong):
            first = wrong[0]
            raw = ensemble.raw_score(X[first : first + 1])[0].tolist()
            disagreements.append(
                f"seed {seed}: {len(wrong)} of {len(X)} rows, e.g. {X[first].tolist()}: "
                f"{mine[first]} for {theirs[first]} at raw score {raw}"
            )
    assert not disagreements
    assert undecided >= FAMILIES[name].ties


@families
@pytest.mark.parametrize("norm", ["inf", 1, 0])
def test_witness_that_is_not_borderline_changes_the_librarys_label(name, norm, model):
    """A fragile instance loses its label, a broken one gets it."""
    for seed in range(MODELS // 2):
        fitted = model(name, seed)
        ensemble = cg.load(fitted.source)
        X = np.unique(fitted.X, axis=0)
        y = fitted.labels(X)
        y[::3] = np.random.default_rng(seed).choice(ensemble.classes, len(y[::3]))
        attacker = cg.Attacker(norm, 1 if norm == 0 else 0.6 * np.ptp(fitted.X[:, 0]))
        found = cg.attack(ensemble, X, y, attacker, threads=1)
        settled = found.success & ~found.borderline
        after = fitted.labels(np.where(settled[:, None], found.witnesses, X))
        gets_it = found.status == "broken"
        wrong = np.flatnonzero(settled & ((after == y) != gets_it))
        failed = [
            f"{X[row].tolist()} ({y[row]}) to {found.witnesses[row].tolist()}: {found.status[row]}"
            for row in wrong[:3]
        ]
        assert not failed, f"seed {seed}: {len(wrong)} witnesses"


def test_witnesses_are_settled_more_often_than_not(model):
    """Otherwise the claim above would say little."""
    for name in ("lightgbm binary", "xgboost logistic", "histograms", "random forest"):
        settled = successes = 0
        for seed in range(MODELS):
            fitted = model(name, seed)
            X = np.unique(fitted.X, axis=0)
            attacker = cg.Attacker("inf", 0.6 * np.ptp(X[:, 0]))
            found = cg.attack(fitted.source, X, fitted.labels(X), attacker, threads=1)
            successes += np.count_nonzero(found.success)
            settled += np.count_nonzero(found.success & ~found.borderline)
        assert settled > successes / 2 > 50, name
