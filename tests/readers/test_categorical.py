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
