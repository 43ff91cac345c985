"""Damaged files of every format are refused in one line that begins with the file.

Each entry would be read as another model, or crash, hang or allocate, if it were not checked.
`test_fuzz.py` adds random damage.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from carvegbm import load
from carvegbm.errors import ModelError
from readers import small_models
from readers.small_models import replaced

NAN, INF = math.nan, math.inf


def check(content: bytes | str, path: Path) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(path)) + 700


# ── LightGBM text ────────────────────────────────────────────────────────────────────────────

LIGHTGBM = [
    ("num_leaves=3", ["num_leaves=4", "num_leaves=0", "num_leaves=-3", "num_leaves=99999999999"]),
    ("num_leaves=3\n", [""]),
    ("left_child=1 -1", [f"left_child={value}" for value in (
        "1 -9", "1 7", "0 -1", "1 1", "-2 -1", "1", "1 x", "1 -1.5", "1 -99999999999999999999")]),
    ("split_feature=0 2", ["split_feature=0 3", "split_feature=0 -2"]),
    ("threshold=-0.5", ["threshold=nan", "threshold=1_0", "threshold=0x1"]),
    ("leaf_value=0.5", ["leaf_value=inf", "leaf_value=1e999"]),
    ("decision_type=2 4", ["decision_type=2 16", "decision_type=3 4"]),
    ("is_linear=0", ["is_linear=1"]),
    ("max_feature_idx=2", [f"max_feature_idx={value}" for value in (3, 999999999, "x")]),
    ("num_tree_per_iteration=2", [f"num_tree_per_iteration={value}" for value in (0, 3, 1)]),
    ("tree_sizes=298 179", ["tree_sizes=298", "tree_sizes=298 178"]),
    ("feature_names=a b c\n", [""]),
    ("feature_names=a", ["feature_names=\udcff"]),
    ("end of trees", ["end of"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, every in LIGHTGBM for new in every])
def test_lightgbm_text(old, new, tmp_path):
    text = small_models.LIGHTGBM.decode()
    if "tree_sizes" not in old:  # it would contradict most changes
        text = text.replace("tree_sizes=298 179\n", "")
    assert old in text
    check(text.replace(old, new, 1).encode("utf-8", "surrogateescape"), tmp_path / "model")


# ── JSON: by path, the values that are refused; ... removes the field ────────────────────────

LEARNER = ("learner",)
BOOSTER = ("learner", "gradient_booster")
MODEL = (*BOOSTER, "gbtree", "model")
XGB_TREE = (*MODEL, "trees", 0)
PARAM = ("learner", "learner_model_param")
XGBOOST = {
    (*XGB_TREE, "left_children"): [
        [1, -1], [9, -1, -1], [0, -1, -1], [2, -1, -1], [1.5, -1, -1], [[1], [2], [3]], "abc", [],
        [10**30, -1, -1], ...,
    ],
    (*XGB_TREE, "right_children"): [[-5, -1, -1]],
    (*XGB_TREE, "split_indices"): [[2, 0, 0], [-1, 0, 0], [2**32, 0, 0]],
    (*XGB_TREE, "split_conditions"): [
        [NAN, 0, 0], [0.5, INF, 0], [0.5, 1e39, 0], [None, 0, 0], ["a", 0, 0], [10**400, 0, 0],
    ],
    (*XGB_TREE, "split_type"): [[1, 0, 0], 7],
    (*XGB_TREE, "tree_param", "size_leaf_vector"): ["2"],
    XGB_TREE: [7],
    (*MODEL, "trees"): [{}],
    (*MODEL, "tree_info"): [[1], [-1], []],
    (*BOOSTER, "weight_drop"): [[], ["x"]],
    (*BOOSTER, "gbtree"): [...],
    BOOSTER: [[]],
    LEARNER: [[], 7],
    (*LEARNER, "feature_names"): [[1, 2], 5, ["a"]],
    (*LEARNER, "objective"): ["x"],
    (*LEARNER, "objective", "name"): [["x"], "reg:mystery"],
    (*PARAM, "base_score"): ["[]", "nan", "[1E-1,2E-1]", "1_0", ...],
    (*PARAM, "num_class"): ["-3", "2000000"],
    (*PARAM, "num_feature"): ["x", []],
    (*PARAM, "num_target"): ["2"],
}  # fmt: skip

FLOATS = ("features_info", "float_features")
TABLE = ("features_info", "cat_features_hash", 0)
SPLIT = ("oblivious_trees", 0, "splits", 0)
ONE_HOT = ("oblivious_trees", 1, "splits", 0)
CATBOOST = {
    ("features_info",): [3],
    FLOATS: [3],
    (*FLOATS, 0): [3],
    (*FLOATS, 0, "flat_feature_index"): [-1, ..., 99999999],
    (*FLOATS, 0, "nan_value_treatment"): ["AsYouLike"],
    (*FLOATS, 0, "borders"): [[0.5, -0.5], [NAN]],
    (*FLOATS, 0, "feature_index"): [1],
    ("oblivious_trees",): [3],
    ("oblivious_trees", 0): [3],
    ("oblivious_trees", 0, "splits"): [3, [{}] * 25],
    ("oblivious_trees", 0, "leaf_values"): [[1.0], [], ["x"] * 4, [1e999] * 4, [0.5] * 8],
    SPLIT: [3],
    (*SPLIT, "border"): ["x", ..., NAN, 0.5],
    (*SPLIT, "float_feature_index"): [1, 7, ...],
    (*SPLIT, "split_index"): [1, 3, ..., 0.0, "0", -1],
    (*SPLIT, "split_type"): ["Mystery", "OnlineCtr", "EstimatedFeature"],
    (*ONE_HOT, "value"): ["x", 5],
    (*ONE_HOT, "cat_feature_index"): [1],
    (*TABLE, "hash"): [5, 2**32],
    (*TABLE, "value"): ["other", 3],
    ("features_info", "text_features"): [[{"feature_id": "t"}]],
    ("scale_and_bias",): [
        [1], ["x", [0]], [1, ["x"]], [1, [0, 0]], [1, 0.25], [1, []], [1e300, [1e300]],
    ],
    ("model_info", "class_params", "class_names"): [["a"], "ab", ["a", ["b"]], ["a", "a"]],
    ("model_info", "binclass_probability_threshold"): ["x", 0, 1],
}  # fmt: skip

NODE, LEAF = ("nodes", 0), ("nodes", 2)
ENSEMBLE = {
    ("version",): [3, 2, "1", True, ...],
    ("colour",): ["green"],
    ("task",): ["ranking", 7, "regression", "multiclass", ...],
    ("tie",): [None, "both"],
    ("link",): [[]],
    ("compares",): ["odds"],
    ("absent",): ["nan", 0],
    ("input_precision",): ["float16"],
    ("sum_precision",): ["x" * 900],
    ("average",): [1.0, True, 0],
    ("n_features",): [1, 3, -1, "2"],
    ("feature_names",): [["a"], ["a", 1], "ab", ["a", "\ud800"]],
    ("threshold",): ["0", "Infinity", 2**53 + 1, ...],
    ("link_scale",): [0, False],
    ("base_score",): [0.5, [None], [0.5, 0.5], []],
    ("classes",): ["ny", ["no"], ["no", "no"], ["no", 1], ["no", None], ["no", "perhaps"]],
    ("class_dtype",): ["<i8", "<f8", "<U9999999", "|V8", None],
    ("roots",): [0, [0, 6], [0, -1], [0, 5.0], [0], [0, 1], []],
    ("nodes",): [{}, []],
    NODE: [7, {}],
    (*NODE, "gain"): [0.5],
    (*NODE, "left"): [..., 6, 10**30, True, 0],
    (*NODE, "right"): [1, None, -1],
    (*NODE, "feature"): [2, -1, 1.0, "b"],
    (*NODE, "threshold"): ["NaN", None, True, 2**53 + 1],
    (*NODE, "missing"): ["up", None, {}, -1],
    (*LEAF, "leaf"): [4, 1, None],
    (*LEAF, "scores"): [1.5, [], ["1.5"], ["Infinity"], [1e301]],
    (*LEAF, "feature"): [0],
}
CATEGORIES = {
    ("version",): [1],
    ("categories",): [..., {}, []],
    ("category_rule",): [1, "round"],
    ("unknown_category",): [None],
    ("categories", 0): [7],
    ("categories", 0, "feature"): [2, True, 1],
    ("categories", 0, "codes"): [
        "ab", [0, 0, 3], [-1, 0, 3], [0, 1, 1 << 31], [0, 1, 1 << 24], [0, 1, 3.0], [0, 1],
        [0, 1, 2],
    ],
    ("categories", 0, "labels"): [..., ["a", None, 1], ["a", "a", 1]],
    ("nodes", 0, "categories"): [0, [3, 0], ["a"], [0, 2]],
    ("nodes", 0, "feature"): [1],
    ("nodes", 0, "threshold"): [0.5],
    ("nodes", 1, "feature"): [0],
}  # fmt: skip

DOCUMENTS = {
    "XGBoost": (json.loads(small_models.XGBOOST_JSON), XGBOOST),
    "CatBoost": (small_models.CATBOOST_DOCUMENT, CATBOOST),
    "ensemble": (json.loads(small_models.ENSEMBLE_JSON), ENSEMBLE),
    "categories": (json.loads(small_models.CATEGORICAL_JSON), CATEGORIES),
}


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        (name, path, value)
        for name, (_, changes) in DOCUMENTS.items()
        for path, values in changes.items()
        for value in values
    ],
)
def test_json(name: str, path: tuple[Any, ...], value: Any, tmp_path: Path) -> None:
    document = replaced(DOCUMENTS[name][0], path, value)
    check(json.dumps(document), tmp_path / "model")


ONE = small_models.CATBOOST_DOCUMENT["oblivious_trees"][0]["splits"][0]


@pytest.mark.parametrize(
    "tree",
    [
        3,
        {"split": 3},
        {"value": "x"},
        {"value": []},
        {"split": ONE, "left": {"value": 0.0}},
        {"split": ONE, "left": {"value": 0.0}, "right": {"value": [1, 2]}},
    ],
)
def test_catboost_trees_that_are_not_symmetric(tree, tmp_path):
    document = {k: v for k, v in small_models.CATBOOST_DOCUMENT.items() if k != "oblivious_trees"}
    check(json.dumps({**document, "trees": [tree]}), tmp_path / "model")


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        '{"a": 1}',
        '{"oblivious_trees": []}',
        "{",
        "[" * 100_000,
        '{"learner":' * 100_000,
        "[" + "1" * 5000 + "]",
        # One field twice, of which readers may take either.
        small_models.ENSEMBLE_JSON.replace(b'"tie"', b'"tie": "positive", "tie"', 1),
        small_models.ENSEMBLE_JSON.replace(b'"feature": 1', b'"feature": 1, "feature": 0', 1),
        # Words and numbers that are not JSON.
        small_models.ENSEMBLE_JSON.replace(b'"-Infinity"', b"-Infinity", 1),
        small_models.ENSEMBLE_JSON.replace(b'"threshold": 0.5', b'"threshold": NaN', 1),
        small_models.ENSEMBLE_JSON.replace(b'"threshold": 0.5', b'"threshold": 1e999', 1),
        small_models.ENSEMBLE_JSON.replace(b"0.125", b"9" * 400),
    ],
)
def test_json_text(content, tmp_path):
    check(content, tmp_path / "model")


@pytest.mark.parametrize(
    "content",
    [
        b"{L\0\0\0\0\0\0\0\1a[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff}",
        b"{L\0\0\0\0\0\0\0\1a[#L\xff\xff\xff\xff\xff\xff\xff\xff}",
        b"{L\xff\xff\xff\xff\xff\xff\xff\xffa",
        b"{i\1a[$d}",
        b"{i\1a[$Z#i\1}",  # elements that take no bytes
        b"{i\1aX}",
        b"{i\1ad",
        b"{i\1\xffT}",
        b"{i\1aTi\1aT}",
        b"{i\1a" + b"[" * 5000,
        b"{i\1aT}",
        b"{i\7learnerT}",
        b"{iN",
        small_models.XGBOOST_UBJSON.replace(b"attributes", b"attri\xffutes"),
    ],
)
def test_ubjson(content, tmp_path):
    check(content, tmp_path / "model")


# ── ONNX and silva ───────────────────────────────────────────────────────────────────────────

NODES: dict[str, list[Any]] = {
    "nodes_treeids": [None, [0, 1, 0]],
    "nodes_nodeids": [[0, 1], [0, 1, 1]],
    "nodes_modes": [
        ["BRANCH_LEQ", "LEAF", "BRANCH_WHAT"], ["BRANCH_LEQ"], ["LEAF", "LEAF", "BRANCH_LEQ"],
    ],
    "nodes_values": [[NAN, 0.0, 0.0]],
    "nodes_featureids": [[-1, 0, 0], [7, 0, 0]],
    "nodes_truenodeids": [[9, 0, 0], [0, 0, 0], [2, 0, 0]],
    "target_nodeids": [[1, 9], [1, 0], [1, 1]],
    "target_treeids": [[0, 5]],
    "target_ids": [[0, 1]],
    "target_weights": [[1.0], [INF, 1.0]],
    "n_targets": [70000],
    "base_values": [[1.0, 2.0]],
    "post_transform": ["TWIST"],
    "aggregate_function": ["MODE", "MAX"],
}  # fmt: skip
TABLES: dict[str, list[Any]] = {
    "tree_roots": [[3], [-1]],
    "nodes_truenodeids": [[5], [-1]],
    "nodes_trueleafs": [[0]],
    "nodes_featureids": [[-2], [0, 1]],
    "leaf_targetids": [[0], [0, 4]],
    "nodes_modes": [[9], [6]],  # as unsigned bytes; 6 is membership of a set
    "post_transform": [9],
}


@pytest.mark.parametrize(
    ("layout", "name", "value"),
    [
        (layout, name, value)
        for layout, changes in (("regressor", NODES), ("ensemble", TABLES))
        for name, values in changes.items()
        for value in values
    ],
)
def test_onnx(layout, name, value, tmp_path):
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    from readers import onnx_graphs

    stump = {"feature": 1, "mode": "BRANCH_LEQ", "value": 0.5, "true": {0: -1.0}, "false": {0: 1.0}}
    made = getattr(onnx_graphs, layout)([stump], n_features=2)
    node = made.graph.node[0]
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if layout == "ensemble" and name == "nodes_modes":
        value = helper.make_tensor("m", TensorProto.UINT8, [1], value)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))
    check(made.SerializeToString(), tmp_path / "model")


FOREST = small_models.SILVA.decode()


@pytest.mark.parametrize(
    "text",
    [
        FOREST[:-10],
        FOREST + "LEAF 1 2",
        FOREST.replace("3 2\n", "3 999999999\n"),
        FOREST.replace("SPLIT 0", "SPLIT 9"),
        FOREST.replace("SPLIT 0", "SPLIT -2"),
        FOREST.replace("0.5", "low"),
        FOREST.replace("0.5", "nan"),
        FOREST.replace("LEAF", "LEAF_LOGARITHMIC", 1),
        FOREST.replace("LEAF", "TWIG", 1),
        FOREST.replace("forest ", "forest 1"),
        "classifier-forest 0",
        "classifier-forest 1 classifier-decision-tree 1 1 a LEAF 1",
        "classifier-forest 99999999999",
    ],
)
def test_silva(text, tmp_path):
    assert text != FOREST
    check(text, tmp_path / "model")
