"""Other leaf scores for models with categorical splits: all but the scores stays as it is."""

from __future__ import annotations

import re

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.score_writer import open_model, round_scores, write_scores
from readers.categorical_models import lightgbm_model, rows_for, xgboost_model


def rewritten(source, model, rows):
    """A copy of the source with scores of one and a half times, and the ensemble of these."""
    source = open_model(source)
    scores = round_scores(source, model.scores * 1.5)
    X = model.check_data(rows, allow_infinite=True)
    return write_scores(source, model, scores, X), scores


@pytest.mark.parametrize("setting", ["sets of categories", "multiclass", "frame"])
def test_lightgbm_model_keeps_its_categories_and_labels(setting, tmp_path):
    fitted = lightgbm_model(setting, 0, tmp_path)
    for source in fitted.sources:
        model = cg.load(source)
        rows = rows_for(model, (), 0)
        copy, scores = rewritten(source, model, rows)
        assert cg.load(copy) == model.with_scores(scores)
        if setting != "frame":
            raw = copy.predict(rows, raw_score=True)
            np.testing.assert_array_equal(model.with_scores(scores).raw_score(rows), raw)
        before, after = fitted.sources[0].model_to_string(), copy.model_to_string()
        for key in ("cat_boundaries", "cat_threshold", "feature_infos", "pandas_categorical"):
            lines = re.findall(rf"^{key}.*", before, re.M)
            assert lines
            assert lines == re.findall(rf"^{key}.*", after, re.M)


@pytest.mark.parametrize("setting", ["sets of categories", "multiclass", "dart", "frame"])
def test_xgboost_model_keeps_its_categories_and_labels(setting, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    fitted = xgboost_model(setting, 0, tmp_path)
    for source in fitted.sources:
        model = cg.load(source)
        rows = rows_for(model, fitted.odd, 0)
        if str(source).endswith(".ubj"):  # comes back as an Ensemble
            continue
        copy, scores = rewritten(source, model, rows)
        assert cg.load(copy) == model.with_scores(scores)
        types = {"feature_types": copy.feature_types, "feature_names": copy.feature_names}
        matrix = xgboost.DMatrix(rows, enable_categorical=True, **types)
        raw = copy.predict(matrix, output_margin=True)
        np.testing.assert_array_equal(model.with_scores(scores).raw_score(rows), raw)


def test_classifier_of_xgboost_keeps_its_categories(tmp_path):
    pytest.importorskip("xgboost")
    fitted = xgboost_model("classifier", 0, tmp_path)
    (source,) = fitted.sources
    model = cg.load(source)
    copy, scores = rewritten(source, model, rows_for(model, fitted.odd, 0))
    assert cg.load(copy, classes=model.classes) == model.with_scores(scores)
