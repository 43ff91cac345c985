"""Which categories a model knows and what they are called, and files that tell it wrongly."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from readers.categorical_models import COLOURS, KINDS, data, framed, lightgbm_model, xgboost_model
from readers.small_models import replaced

LABELS = {1: dict(enumerate(COLOURS)), 3: dict(enumerate(KINDS))}
CODES = {1: {code: code for code in range(12)}, 3: {code: code for code in range(3)}}


# ── LightGBM ─────────────────────────────────────────────────────────────────────────────────


def test_lightgbm_knows_the_labels_of_a_frame(tmp_path):
    for source in lightgbm_model("frame", 0, tmp_path).sources:
        model = cg.load(source)
        assert model.categories == LABELS
        assert model.category_rule == "truncate"


def test_lightgbm_knows_the_codes_that_training_kept(tmp_path):
    for source in lightgbm_model("far codes", 0, tmp_path).sources:
        assert cg.load(source).categories[1] == {997 * code: 997 * code for code in range(12)}


def test_labels_are_not_believed_where_a_number_may_have_them():
    """An ordered column is a number to LightGBM, and has a list of labels like the others."""
    lgb, pd = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    X, y = data(0, missing=0.0)
    frame = framed(X)
    frame["age"] = pd.Categorical(np.where(X[:, 2] > 0, "old", "young"), ordered=True)
    params = {"verbose": -1, "min_data_per_group": 3, "min_data_in_leaf": 3, "num_threads": 1}
    booster = lgb.train(params, lgb.Dataset(frame, y), 4)
    assert cg.load(booster).categories == CODES


def lightgbm_text(folder: Any, setting: str = "sets of categories") -> str:
    pytest.importorskip("lightgbm")
    return str(lightgbm_model(setting, 0, folder).sources[0].model_to_string())


@pytest.mark.parametrize(
    "labels",
    [
        "null",
        "x",
        "7",
        '["a"]',
        "[]",
        '[["a"]]',
        '[["a"], ["b"]]',
        '[["a", "b", "c"], [1, 2, 3], [4]]',
        '[["a", null], [0]]',
        "[[NaN], [0]]",
        '[["a", "a"], [0]]',
    ],
)
def test_labels_that_do_not_fit_the_codes_are_not_believed(labels, tmp_path):
    text = lightgbm_text(tmp_path, "frame")
    changed = re.sub(r"^pandas_categorical:.*", f"pandas_categorical:{labels}", text, flags=re.M)
    assert changed != text
    (tmp_path / "model").write_text(changed)
    assert cg.load(tmp_path / "model").categories == CODES


# ── XGBoost ──────────────────────────────────────────────────────────────────────────────────


def test_xgboost_knows_the_labels_of_a_frame(tmp_path):
    pytest.importorskip("xgboost")
    for source in xgboost_model("frame", 0, tmp_path).sources:
        model = cg.load(source)
        assert model.categories == LABELS
        assert model.category_rule == "nonnegative"


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (["", "a b", '"', "\n"], ["", "a b", '"', "\n"]),
        ([-5, 0, 7, 2**40], [-5, 0, 7, 2**40]),
        (["grös", "abc", "d", "e"], [0, 1, 2, 3]),  # which its library cuts in the wrong places
    ],
)
def test_xgboost_knows_labels_of_ascii_and_whole_numbers(labels, known):
    xgb, pd = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    codes = np.random.default_rng(0).integers(0, 4, 200)
    frame = pd.DataFrame({"a": pd.Categorical.from_codes(codes, labels)})
    matrix = xgb.DMatrix(frame, label=codes % 2, enable_categorical=True)
    booster = xgb.train({"max_depth": 2, "nthread": 1}, matrix, 2)
    assert cg.load(booster).categories == {0: dict(enumerate(known))}


def test_without_labels_one_category_that_no_split_lists_stands_for_the_others():
    xgb = pytest.importorskip("xgboost")
    X = np.tile([0.0, 1.0, 2.0], 60)[:, None]
    for good, known in ((0, {0, 1}), (1, {0, 1}), (2, {0, 2})):
        matrix = xgb.DMatrix(X, label=X[:, 0] == good, feature_types=["c"], enable_categorical=True)
        options = {"max_depth": 1, "max_cat_to_onehot": 9, "nthread": 1}
        model = cg.load(xgb.train(options, matrix, 2))
        assert set(model.categories[0]) == known
        assert len(set(model.raw_score(X).tolist())) == 2
    nothing = xgb.train({"nthread": 1}, xgb.DMatrix(X, label=X * 0, feature_types=["c"]), 1)
    assert cg.load(nothing).categories == {0: {}}


TREE = ("learner", "gradient_booster", "model", "trees", 0)
CATS = ("learner", "gradient_booster", "model", "cats")


@pytest.mark.parametrize(
    ("path", "value"),
    [(CATS, ...), (CATS, 7), ((*CATS, "enc"), []), ((*CATS, "enc"), [1, 2, 3, 4])],
)
def test_document_without_labels_is_read_with_codes(path, value, tmp_path):
    pytest.importorskip("xgboost")
    xgboost_model("frame", 0, tmp_path)
    document = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model").write_text(json.dumps(replaced(document, path, value)))
    known = cg.load(tmp_path / "model").categories
    assert set(known) == {1, 3}
    assert all(code == label for labels in known.values() for code, label in labels.items())


# ── HistGradientBoosting ─────────────────────────────────────────────────────────────────────


def test_histogram_boosting_knows_the_labels_of_its_encoder():
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y = data(0)
    X[:, 0] = np.where(X[:, 0] > 0, 7.0, 3.0)
    model = HistGradientBoostingRegressor(max_iter=2, categorical_features=[0, 1, 3]).fit(X, y)
    found = cg.load(model)
    assert found.categories == {0: {3: 3, 7: 7}, **CODES}
    assert (found.category_rule, found.unknown_category) == ("label", "missing")
    X[:, 3] -= 1.5
    model = HistGradientBoostingRegressor(max_iter=2, categorical_features=[3]).fit(X, y)
    assert cg.load(model).categories == {3: {0: -1.5, 1: -0.5, 2: 0.5}}
