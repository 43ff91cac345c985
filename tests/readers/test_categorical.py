"""Categorical splits of every family: raw scores and labels are the library's own, to the bit.

CATEGORICAL_MODELS=100 compares that many models per family and setting, in place of a few.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import carvegbm as cg
from readers.categorical_models import FAMILIES, PACKAGES, rows_for

MODELS = int(os.environ.get("CATEGORICAL_MODELS", "2"))
CASES = [(family, setting) for family, (settings, _) in FAMILIES.items() for setting in settings]


@pytest.mark.parametrize(("family", "setting"), CASES)
def test_raw_scores_and_labels_are_those_of_the_library(family, setting, tmp_path, assert_same):
    pytest.importorskip(PACKAGES[family])
    splits = 0
    for seed in range(MODELS):
        fitted = FAMILIES[family][1](setting, seed, tmp_path)
        expected = None
        for source in fitted.sources:
            model = cg.load(source)
            if expected is None:
                splits += np.isin(model.nodes["feature"], list(model.categories)).sum()
                known = model.categories
                rows = rows_for(model, fitted.odd, seed)
                expected = fitted.raw(rows)
            assert model.categories == known
            assert_same(model.raw_score(rows), expected)
        if fitted.labels is not None:
            np.testing.assert_array_equal(model.decide(rows), fitted.labels(rows))
        again = tmp_path / "again.json"
        model.save(again)
        assert cg.load(again) == model
    assert splits > MODELS


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("LightGBM", "classifier"),
        ("XGBoost", "classifier"),
        ("HistGradientBoosting", "far codes"),
        ("HistGradientBoosting", "odd labels"),
    ],
)
@pytest.mark.parametrize("norm", [0, "inf"])
def test_witness_that_is_not_borderline_changes_the_librarys_label(family, setting, norm, tmp_path):
    pytest.importorskip(PACKAGES[family])
    changed = 0
    for seed in range(MODELS):
        fitted = FAMILIES[family][1](setting, seed, tmp_path)
        model = cg.load(fitted.sources[0])
        rows = rows_for(model, (), seed, count=30)
        labels = fitted.labels(rows)
        found = cg.attack(model, rows, labels, cg.Attacker(norm, 1), threads=1)
        settled = found.success & ~found.borderline
        witnesses = found.witnesses[settled]
        assert (fitted.labels(witnesses) != labels[settled]).all()
        columns = list(model.categories)
        before, after = (model.check_data(X)[:, columns] for X in (rows[settled], witnesses))
        changed += int((~np.isclose(before, after, equal_nan=True)).any(axis=1).sum())
    assert changed > MODELS
