"""CatBoost: raw score and label are the library's own, bit for bit; what is not read is named."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
import oracle
from carvegbm import load
from carvegbm.errors import DataError, ModelError
from carvegbm.readers.catboost import binary
from carvegbm.readers.catboost.hashing import category_hash
from readers import small_models

catboost = pytest.importorskip("catboost")
from readers import catboost_models  # noqa: E402
from readers.catboost_models import classes_of, data, options  # noqa: E402

MODELS = 2  # per setting; `tools/campaigns.py libraries` checks many
LEAF = {"value": 0.0, "weight": 1}
NODE_SPLIT = small_models.CATBOOST_DOCUMENT["oblivious_trees"][0]["splits"][0]


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


def test_no_library_is_needed_to_read_json(tmp_path, monkeypatch):
    model = fitted()
    saved(model, tmp_path / "model.json")
    model.save_model(str(tmp_path / "model.cbm"))
    monkeypatch.setitem(sys.modules, "catboost", None)
    assert load(tmp_path / "model.json").n_features == 4
    with pytest.raises(ModelError, match=r"model\.cbm: .*; pip install 'carvegbm\[catboost\]', or"):
        load(tmp_path / "model.cbm")


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


def test_nan_goes_where_the_library_sends_it_and_infinity_as_well():
    X, y = data(0, missing=0.2)
    ends = np.array([[v] * 4 for v in (np.nan, np.inf, -np.inf, 1e39, -1e39)])
    for mode in ("Min", "Max"):
        model = catboost.CatBoostRegressor(**options(1, nan_mode=mode)).fit(X, y)
        assert (load(model).raw_score(ends) == model.predict(ends)).all()


def test_the_bias_is_added_last():
    model = fitted("CatBoostRegressor")
    assert load(model).n_trees == model.tree_count_ + 1
    assert load(fitted()).n_trees == fitted().tree_count_


# ── verification ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", catboost_models.POLICIES)
@pytest.mark.parametrize("norm", [0, 1, float("inf")])
def test_verdicts_are_the_oracles_and_witnesses_change_the_librarys_label(policy, norm):
    X, y = data(2, missing=0.05)
    X, labels = X[:, :3], classes_of(y, 2)
    small = options(3, iterations=4, depth=2, grow_policy=policy)
    model = catboost.CatBoostClassifier(**small).fit(X, labels)
    ensemble = load(model)
    rows = X[:12]
    given = model.predict(rows)
    budget = 1 if norm == 0 else 0.4
    found = cg.verify(model, rows, given, cg.Attacker(norm, budget), threads=1)
    slow = oracle.Attacker(norm, budget)
    for row, status in zip(rows, found.status.tolist(), strict=True):
        label = int(ensemble.decide(row[None])[0])
        assert status == oracle.status(ensemble, row.tolist(), label, slow)
    attack = cg.attack(model, rows, given, cg.Attacker(norm, budget), threads=1)
    settled = attack.success & ~attack.borderline
    assert settled.any()
    assert (model.predict(attack.witnesses[settled]) != given[settled]).all()


# ── categories ───────────────────────────────────────────────────────────────────────────────


def test_numbers_and_their_texts_are_one_category(tmp_path):
    made = catboost_models.ONE_HOT["one-hot, texts"](0, tmp_path)
    ensemble = load(made.path)
    assert list(ensemble.categories) == [1, 3]
    labels = set(ensemble.categories[3].values())
    assert {"red", "03", 3, -1} <= labels
    assert not {"3", "-1"} & labels
    from carvegbm.trees.categories import codes_of_labels

    same = codes_of_labels(ensemble, 3, ["3", 3, np.int64(3), "03", "never"])
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
    entries = saved(model, tmp_path / "model.json", pool=pool)
    hashes = {e["value"]: e["hash"] for e in entries["features_info"]["cat_features_hash"]}
    assert hashes == {text: category_hash(text) for text in texts}


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


def test_categorical_features_that_no_split_asks_for_need_no_texts():
    X, y = data(0)
    frame = pd.DataFrame(X).assign(c="one")
    model = catboost.CatBoostClassifier(**options(1)).fit(
        frame, classes_of(y, 2), cat_features=["c"]
    )
    ensemble = load(model)
    assert dict(ensemble.categories[4]) == {}
    rows = np.column_stack([X, np.zeros(len(X))])
    assert (ensemble.raw_score(rows) == model.predict(frame, prediction_type="RawFormulaVal")).all()


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


def test_text_features_are_refused_by_name():
    words = np.random.default_rng(0).choice(["good film", "bad film", "so so"], 200)
    frame = pd.DataFrame({"size": np.arange(200.0), "review": words})
    y = (words == "good film").astype(int)
    model = catboost.CatBoostClassifier(**options(1)).fit(frame, y, text_features=["review"])
    with pytest.raises(
        ModelError, match=r"^CatBoostClassifier: .*(text feature|text and embedding)"
    ):
        load(model)


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


def test_several_labels_at_once_are_refused():
    X, y = data(0)
    model = catboost.CatBoostClassifier(**options(1, loss_function="MultiLogloss"))
    model.fit(X, np.c_[classes_of(y, 2), 1 - classes_of(y, 2)])
    with pytest.raises(ModelError, match=r"predicts 2 numbers at once .*'MultiLogloss'"):
        load(model)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_a_threshold_that_decides_everything_is_refused(probability):
    model = fitted()
    model.set_probability_threshold(probability)
    with pytest.raises(
        ModelError, match=rf"binclass_probability_threshold is '{probability}'.*set_"
    ):
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
        ModelError, match=r"model\.cbm: catboost cannot read it \(.*\); it is damaged"
    ) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_cbm_file_that_crashes_the_library_is_refused_with_one_line(tmp_path, monkeypatch):
    path = tmp_path / "model.cbm"
    fitted().save_model(str(path))
    monkeypatch.setattr(binary, "_PROGRAM", "import os; os.abort()")
    with pytest.raises(ModelError, match=r"model\.cbm: catboost crashed at it; it is damaged"):
        load(path)


def test_nothing_is_imported_from_where_a_cbm_file_is_read(tmp_path, monkeypatch):
    fitted().save_model(str(tmp_path / "model.cbm"))
    (tmp_path / "catboost.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    assert load("model.cbm").n_trees


FLOATS = ("features_info", "float_features")
TABLE = ("features_info", "cat_features_hash", 0)
ONE_HOT = ("oblivious_trees", 1, "splits", 0)
CLASSES = ("model_info", "class_params", "class_names")
THRESHOLD = "binclass_probability_threshold"
SPLIT = ("oblivious_trees", 0, "splits", 0)


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


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("features_info",), 3, "features_info must be a dict"),
        (FLOATS, 3, "float_features must be a list of features"),
        ((*FLOATS, 0), 3, "float_features must be a list of features"),
        ((*FLOATS, 0, "flat_feature_index"), -1, "flat_feature_index is '-1', not a count"),
        ((*FLOATS, 0, "flat_feature_index"), ..., "flat_feature_index is missing"),
        ((*FLOATS, 0, "flat_feature_index"), 99999999, "at most 16777216 are read"),
        ((*FLOATS, 0, "nan_value_treatment"), "AsYouLike", "is 'AsYouLike', not AsIs, AsFalse or"),
        (("oblivious_trees",), 3, "the trees must be a list of dicts"),
        (("oblivious_trees", 0), 3, "the trees must be a list of dicts"),
        (("oblivious_trees", 0, "splits"), 3, "tree 0: splits must be a list of at most 24"),
        (("oblivious_trees", 0, "splits"), [{}] * 25, "tree 0: splits must be a list of at most"),
        (("oblivious_trees", 0, "leaf_values"), [1.0], "tree 0 has 1 leaf values for 4 leaves"),
        (("oblivious_trees", 0, "leaf_values"), [], "tree 0 has 0 leaf values for 4 leaves"),
        (("oblivious_trees", 0, "leaf_values"), ["x"] * 4, "leaf_values must be numbers"),
        (("oblivious_trees", 0, "leaf_values"), [1e999] * 4, "finite"),
        (("oblivious_trees", 0, "leaf_values"), [0.5] * 8, "tree 1 has 1 scores per leaf, tree 0"),
        (SPLIT, 3, "tree 0: a split must be a dict"),
        ((*SPLIT, "border"), "x", "tree 0: a border must be a number, got 'x'"),
        ((*SPLIT, "border"), ..., "tree 0: a border must be a number, got 'None'"),
        ((*SPLIT, "border"), float("nan"), "tree 0: split_index 0 is FloatFeature 0 -0.4"),
        ((*SPLIT, "border"), 0.5, "tree 0: split_index 0 is FloatFeature 0 -0.4"),
        ((*SPLIT, "float_feature_index"), 1, "tree 0: split_index 0 is FloatFeature 0 -0.4"),
        ((*SPLIT, "split_index"), 1, "tree 0: split_index 1 is FloatFeature 1 0.75, the split"),
        ((*SPLIT, "split_index"), 3, "tree 0: split_index 3 is none"),
        ((*SPLIT, "split_index"), ..., "tree 0: split_index is missing"),
        ((*SPLIT, "split_index"), 0.0, "tree 0: split_index is 0.0, not a whole number"),
        ((*SPLIT, "split_index"), "0", "tree 0: split_index is '0', not a whole number"),
        ((*SPLIT, "split_index"), -1, "tree 0: split_index is '-1', not a count"),
        ((*FLOATS, 0, "borders"), [0.5, -0.5], "borders of feature 'a' must ascend"),
        ((*FLOATS, 0, "borders"), [float("nan")], "borders of feature 'a' must ascend"),
        ((*FLOATS, 0, "feature_index"), 1, "has two features at position 1"),
        ((*SPLIT, "float_feature_index"), 7, "tree 0 tests feature 7 of 2; the file is damaged"),
        ((*SPLIT, "float_feature_index"), ..., "float_feature_index is missing"),
        ((*SPLIT, "split_type"), "Mystery", "tree 0 has a split of the unknown type 'Mystery'"),
        ((*SPLIT, "split_type"), "OnlineCtr", "target statistics"),
        ((*SPLIT, "split_type"), "EstimatedFeature", "the unknown type 'EstimatedFeature'"),
        ((*ONE_HOT, "value"), "x", "tree 1: a category must be the number"),
        ((*ONE_HOT, "value"), 5, "tree 1: split_index 2 is OneHotFeature 0 -1242798403, the"),
        ((*TABLE, "hash"), 5, "is stored with the hash 5, CatBoost computes"),
        ((*TABLE, "value"), "other", "the category 'other' is stored with the hash"),
        ((*ONE_HOT, "cat_feature_index"), 1, "tree 1 tests feature 1 of 1"),
        ((*TABLE, "value"), 3, "a category must be a text, got '3'"),
        ((*TABLE, "hash"), 2**32, "hash is '4294967296', not a count"),
        (("features_info", "text_features"), [{"feature_id": "t"}], "has the text feature 't'"),
        (("scale_and_bias",), [1], "scale_and_bias must be a pair"),
        (("scale_and_bias",), ["x", [0]], "scale must be a number, got 'x'"),
        (("scale_and_bias",), [1, ["x"]], "the bias must be numbers"),
        (("scale_and_bias",), [1, [0, 0]], "the bias has 2 values for 1 outputs"),
        (("scale_and_bias",), [1e300, [1e300]], "beyond 1e300|finite"),
        (CLASSES, ["a"], "class_names names 1 classes"),
        (CLASSES, "ab", "must be lists"),
        (CLASSES, ["a", ["b"]], "class_names must be texts or numbers"),
        (CLASSES, ["a", "a"], "2 different labels"),
        (("model_info", THRESHOLD), "x", f"{THRESHOLD} is 'x'"),
    ],
)  # fmt: skip
def test_broken_json_says_what_is_wrong(path, value, message, tmp_path):
    document = small_models.replaced(small_models.CATBOOST_DOCUMENT, path, value)
    file = tmp_path / "model"
    file.write_text(json.dumps(document))
    with pytest.raises(ModelError, match=message) as caught:
        load(file)
    assert "\n" not in str(caught.value)
    assert "the model is damaged (" not in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (3, "the trees must be a list of dicts"),
        ({"split": 3}, "tree 0: a split must be a dict"),
        ({"value": "x"}, "tree 0: a leaf's value must be numbers"),
        ({"value": []}, "tree 0: its leaves differ in their values"),
        ({"split": NODE_SPLIT, "left": LEAF}, "a node must be a dict"),
        ({"split": NODE_SPLIT, "left": LEAF, "right": {"value": [1, 2]}},
         "its leaves differ in their values"),
    ],
)  # fmt: skip
def test_broken_trees_that_are_not_symmetric_say_what_is_wrong(tree, message, tmp_path):
    document = {k: v for k, v in small_models.CATBOOST_DOCUMENT.items() if k != "oblivious_trees"}
    file = tmp_path / "model"
    file.write_text(json.dumps({**document, "trees": [tree]}))
    with pytest.raises(ModelError, match=message):
        load(file)


def test_a_model_without_trees_is_its_bias(tmp_path):
    file = tmp_path / "model"
    document = {**small_models.CATBOOST_DOCUMENT, "oblivious_trees": []}
    file.write_text(json.dumps({**document, "scale_and_bias": [1, [0.5]]}))
    assert load(file).raw_score(np.zeros((2, 3))).tolist() == [0.5, 0.5]
    file.write_text(json.dumps({**document, "scale_and_bias": [1, 0]}))  # as older versions do
    assert load(file).raw_score(np.zeros((1, 3))).tolist() == [0.0]
    file.write_text(json.dumps({**document, "scale_and_bias": [1, 0.25]}))  # to CatBoost 0
    with pytest.raises(ModelError, match=r"the bias is '0\.25', not a list"):
        load(file)


def test_the_command_line_reads_and_converts_a_model(cli, tmp_path):
    path = tmp_path / "model.json"
    document = saved(fitted(), path)
    code, out, _ = cli("info", path)
    assert code == 0
    assert str(len(document["oblivious_trees"])) in out
    assert cli("convert", path, tmp_path / "ensemble.json")[0] == 0
    assert load(tmp_path / "ensemble.json") == load(path)
