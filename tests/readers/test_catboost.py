"""CatBoost: raw score and label are the library's own, bit for bit; what is not read is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from carvegbm import load
from carvegbm.errors import DataError, ModelError
from carvegbm.model.categories import FeatureLabels
from carvegbm.readers import catboost as reader
from readers import small_models

catboost = pytest.importorskip("catboost")
from readers import catboost_models  # noqa: E402
from readers.catboost_models import data, options  # noqa: E402
from readers.conftest import classes_of  # noqa: E402

MODELS = 2  # per setting; `tools/campaigns.py libraries` checks many


def fitted(kind: str = "CatBoostClassifier", **given: Any) -> Any:
    X, y = data(0)
    model = getattr(catboost, kind)(**options(1, **given))
    return model.fit(X, classes_of(y, 2) if kind == "CatBoostClassifier" else y)


def saved(model: Any, path: Path, **given: Any) -> dict[str, Any]:
    model.save_model(str(path), format="json", **given)
    return json.loads(path.read_text())


@pytest.mark.parametrize("seed", range(MODELS))
@pytest.mark.parametrize("setting", catboost_models.ALL)
def test_raw_score_and_label_are_the_librarys(setting, seed):
    assert catboost_models.check(setting, seed) > 0


@pytest.mark.parametrize("policy", catboost_models.POLICIES)
def test_json_cbm_and_object_are_the_same_ensemble(policy, tmp_path):
    for kind in ("CatBoostClassifier", "CatBoostRegressor"):
        model = fitted(kind, grow_policy=policy)
        for form in ("json", "cbm"):
            plain, packed = tmp_path / "model", tmp_path / "packed"
            model.save_model(str(plain), format=form)
            packed.write_bytes(gzip.compress(plain.read_bytes()))
            assert load(plain) == load(packed) == load(model)


def test_leaves_that_nothing_reaches_are_left_out(tmp_path):
    """Of x > 1 and x > 2 one combination cannot be; bit i of a leaf is the answer to split i."""
    document = small_models.CATBOOST_DOCUMENT
    one, two = (
        {
            "border": border,
            "float_feature_index": 0,
            "split_index": index,
            "split_type": "FloatFeature",
        }
        for index, border in enumerate((1.0, 2.0))
    )
    borders = ("features_info", "float_features", 0, "borders")
    document = small_models.replaced(document, borders, [1.0, 2.0])
    tree = {"splits": [two, one, two], "leaf_values": list(range(8)), "leaf_weights": [1] * 8}
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**document, "oblivious_trees": [tree]}))
    ensemble = load(path)
    X = np.zeros((4, ensemble.n_features))
    X[:, 0] = [0.5, 1.0, 1.5, 3.0]
    assert ensemble.raw_score(X).tolist() == [0.0, 0.0, 2.0, 7.0]
    assert ensemble.n_leaves == 3


def test_a_scale_that_is_no_power_of_two_is_honoured_up_to_rounding():
    model = fitted("CatBoostRegressor")
    X = data(0)[0]
    model.set_scale_and_bias(-0.3, 0.7)
    theirs = model.predict(X)
    np.testing.assert_allclose(load(model).raw_score(X), theirs, rtol=1e-14)


def test_names_classes_and_links_survive():
    X, y = data(0)
    frame = pd.DataFrame(X, columns=["a", "größe", "c=d", "f g"])
    labels = np.array(["no", "yes"])[classes_of(y, 2)]
    model = catboost.CatBoostClassifier(**options(1, class_names=None)).fit(frame, labels)
    ensemble = load(model)
    assert ensemble.feature_names == tuple(frame.columns)
    assert ensemble.classes.tolist() == ["no", "yes"]
    assert (ensemble.link, ensemble.tie, ensemble.threshold) == ("logistic", "negative", 0.0)
    assert (ensemble.decide(frame) == model.predict(frame)).all()
    probability = 1 / (1 + np.exp(-ensemble.raw_score(X)))
    np.testing.assert_allclose(probability, model.predict_proba(X)[:, 1], rtol=1e-14)
    assert load(model, classes=[-1, 1]).classes.tolist() == [-1, 1]
    unnamed = catboost.CatBoostClassifier(**options(1)).fit(pd.DataFrame(X), labels)
    assert load(unnamed).feature_names is None


def test_classes_that_no_row_had_are_no_outputs():
    X, y = data(0)
    names = ["z", "b", "a", "q"]
    labels = np.array(["a", "z"])[classes_of(y, 2)]
    model = catboost.CatBoostClassifier(
        **options(1, loss_function="MultiClass"), class_names=names
    ).fit(X, labels)
    ensemble = load(model)
    assert ensemble.classes.tolist() == ["z", "a"]
    assert (ensemble.decide(X) == model.predict(X).ravel()).all()


# ── verification ─────────────────────────────────────────────────────────────────────────────


# ── categories ───────────────────────────────────────────────────────────────────────────────


def test_numbers_and_their_texts_are_one_category(tmp_path):
    made = catboost_models.ONE_HOT["one-hot, texts"](0, tmp_path)
    ensemble = load(made.path)
    assert list(ensemble.categories) == [1, 3]
    labels = set(ensemble.categories[3].values())
    assert {"red", "03", 3, -1} <= labels
    assert not {"3", "-1"} & labels
    same = FeatureLabels(ensemble, 3).codes(["3", 3, np.int64(3), "03", "never"])
    assert same[0] == same[1] == same[2] != same[3]
    assert same[4] == -1


def test_texts_are_hashed_as_catboost_hashes_them(tmp_path):
    """CatBoost knows categories by their hashes; lengths take five ways through the algorithm."""
    rng = np.random.default_rng(0)
    letters = list("abcdefgh XYZ019é")
    texts = list(dict.fromkeys("".join(rng.choice(letters, size=n)) for n in range(150)))
    X = pd.DataFrame({"text": texts * 2})
    pool = catboost.Pool(X, np.arange(len(X)) % 2, cat_features=["text"])
    settings = {"iterations": 1, "one_hot_max_size": 255, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(**settings, verbose=False).fit(pool)
    document = saved(model, tmp_path / "model.json", pool=pool)
    labels = load(tmp_path / "model.json").categories[0].values()
    assert {str(label) for label in labels} == set(texts)
    for entry in document["features_info"]["cat_features_hash"]:
        entry["hash"] ^= 1
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelError, match="hash"):
        load(tmp_path / "model.json")


@pytest.mark.parametrize("norm", [0, 1, float("inf")])
def test_witnesses_that_change_categories_change_the_librarys_label(norm, tmp_path):
    made = catboost_models.ONE_HOT["one-hot, symmetric"](0, tmp_path)
    frame = made.frame[:40]
    X = frame.to_numpy(dtype=float)
    attacker = cg.Attacker(norm, 1, features=["shop", "colour"])
    found = cg.attack(made.path, X, made.labels(frame), attacker, threads=1)
    settled = found.success & ~found.borderline
    assert settled.any()
    after = pd.DataFrame(found.witnesses[settled], columns=frame.columns)
    after = after.astype({"shop": int, "colour": int})
    assert (made.labels(after) != made.labels(frame)[settled]).all()


def test_a_missing_category_is_refused(tmp_path):
    made = catboost_models.ONE_HOT["one-hot, symmetric"](0, tmp_path)
    X = made.frame.to_numpy(dtype=float)
    X[3, 1] = np.nan
    with pytest.raises(DataError, match=r"X row 3, shop: value nan; .*; impute it"):
        load(made.path).raw_score(X)


def test_hashes_without_their_texts_are_refused_by_name(tmp_path):
    made = catboost_models.ONE_HOT["one-hot, symmetric"](0, tmp_path)
    remedy = r"knows categories of feature '(shop|colour)' by hashes alone.*pool=training_pool\)"
    with pytest.raises(ModelError, match=rf"^CatBoostClassifier: tree \d+ {remedy}"):
        load(made.model)
    path = tmp_path / "short.json"
    document = json.loads(made.path.read_text())
    table = document["features_info"]["cat_features_hash"]
    shop = document["features_info"]["categorical_features"][0]
    gone = shop["values"][0] % 2**32
    document["features_info"]["cat_features_hash"] = [e for e in table if e["hash"] != gone]
    path.write_text(json.dumps(document))
    with pytest.raises(ModelError, match=r"by the hash -?\d+, without a text; save"):
        load(path)


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def test_target_statistics_are_refused_with_the_remedy(tmp_path):
    frame = catboost_models.frame_of(0, True, 300)
    y = (frame["size"] + 3 * frame["colour"].isin(["red", "3"]) > 1).astype(int)
    pool = catboost.Pool(frame, y, cat_features=["shop", "colour"])
    model = catboost.CatBoostClassifier(**options(1, depth=4, iterations=9)).fit(pool)
    saved(model, tmp_path / "model.json", pool=pool)
    for source in (model, tmp_path / "model.json"):
        with pytest.raises(
            ModelError, match=r"statistics \(CTR\), .* of '(shop|colour)'.*one_hot_max_size"
        ):
            load(source)


@pytest.mark.parametrize(
    "loss", ["RMSEWithUncertainty", "MultiRMSE", "MultiQuantile:alpha=0.2,0.8"]
)
def test_several_numbers_at_once_are_refused(loss):
    X, y = data(0)
    model = catboost.CatBoostRegressor(**options(1, loss_function=loss))
    model.fit(X, np.c_[y, -y] if loss == "MultiRMSE" else y)
    message = rf"predicts 2 numbers at once \(loss function '{loss.split(':')[0]}'\).*; train"
    with pytest.raises(ModelError, match=message):
        load(model)


def test_what_is_no_fitted_model_is_refused():
    with pytest.raises(ModelError, match=r"^CatBoostClassifier: the model is not fitted; call fit"):
        load(catboost.CatBoostClassifier())
    with pytest.raises(ModelError, match=r"^Pool: is a catboost.Pool, not a model; pass a fitted"):
        load(catboost.Pool([[1.0]], [1]))

    class Mine(catboost.CatBoostClassifier):
        def predict(self, X):
            return 1 - super().predict(X)

    X, y = data(0)
    with pytest.raises(ModelError, match="has its own predict"):
        load(Mine(**options(1)).fit(X, classes_of(y, 2)))


@pytest.mark.parametrize("size", [4, 40, 400, 1000])
def test_a_truncated_cbm_file_is_refused_with_one_line(size, tmp_path):
    path = tmp_path / "model.cbm"
    fitted().save_model(str(path))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        ModelError, match=r"model\.cbm: catboost cannot convert it \(.*\); it is damaged"
    ) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_cbm_file_that_crashes_the_library_is_refused_with_one_line(tmp_path, monkeypatch):
    path = tmp_path / "model.cbm"
    fitted().save_model(str(path))
    monkeypatch.setattr(reader, "_CONVERSION", "import os; os.abort()")
    with pytest.raises(ModelError, match=r"model\.cbm: catboost crashed; it is damaged"):
        load(path)


def test_nothing_is_imported_from_where_a_cbm_file_is_read(tmp_path, monkeypatch):
    fitted().save_model(str(tmp_path / "model.cbm"))
    (tmp_path / "catboost.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    assert load("model.cbm").n_trees


def test_splits_are_those_of_split_index_as_in_catboost_itself(tmp_path):
    """CatBoost ignores the border and the feature of a split; a file must not contradict it."""
    path = tmp_path / "model.json"
    document = saved(fitted(iterations=8), path)
    X, _ = data(0)

    def own() -> np.ndarray:
        path.write_text(json.dumps(document))
        model = catboost.CatBoostClassifier().load_model(str(path), format="json")
        return model.predict(X, prediction_type="RawFormulaVal")

    before = own()
    splits = [split for tree in document["oblivious_trees"] for split in tree["splits"]]
    one, other = splits[0], next(s for s in splits if s["split_index"] != splits[0]["split_index"])
    original = dict(one)
    one["border"], one["float_feature_index"] = other["border"], other["float_feature_index"]
    assert (own() == before).all()
    with pytest.raises(ModelError, match="split_index"):
        load(path)
    one["split_index"] = other["split_index"]
    assert (own() != before).any()
    np.testing.assert_allclose(load(path).raw_score(X), own(), rtol=1e-14)  # another order
    one.update(original, split_index=other["split_index"])
    own()
    with pytest.raises(ModelError, match="split_index"):
        load(path)


def test_a_model_without_trees_is_its_bias(tmp_path):
    file = tmp_path / "model"
    document = {**small_models.CATBOOST_DOCUMENT, "oblivious_trees": []}
    file.write_text(json.dumps({**document, "scale_and_bias": [1, [0.5]]}))
    assert load(file).raw_score(np.zeros((2, 3))).tolist() == [0.5, 0.5]
    file.write_text(json.dumps({**document, "scale_and_bias": [1, 0]}))  # as older versions do
    assert load(file).raw_score(np.zeros((1, 3))).tolist() == [0.0]
    file.write_text(json.dumps({**document, "scale_and_bias": [1, 0.25]}))  # to CatBoost 0
    with pytest.raises(ModelError, match="the bias must be a list"):
        load(file)
