"""ONNX: raw score and label are onnxruntime's, bit for bit; what is not read is named."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn import ensemble as forests

from carvegbm import load
from carvegbm.errors import ModelError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from readers import onnx_models  # noqa: E402
from readers.conftest import rows_at_boundaries, same  # noqa: E402
from readers.onnx_graphs import (  # noqa: E402
    MEMBER,
    MODES,
    classifier,
    ensemble,
    model,
    regressor,
    run,
)

MODELS = 2  # per setting; `tools/campaigns.py libraries` checks many
STUMP = {"feature": 1, "mode": "BRANCH_LEQ", "value": 0.5, "true": {0: -1.0}, "false": {0: 1.0}}


@pytest.mark.parametrize("seed", range(MODELS))
@pytest.mark.parametrize("setting", onnx_models.ALL)
def test_raw_score_and_label_are_onnxruntimes(setting, seed):
    assert onnx_models.check(setting, seed) > 0


def test_the_onnx_package_is_named_where_it_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(regressor([STUMP], n_features=2).SerializeToString())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"model\.onnx: .*; pip install 'carvegbm\[onnx\]'"):
        load(path)


@pytest.mark.parametrize("mode", MODES)
def test_a_comparison_is_exact_at_the_threshold_and_beside_it(mode):
    """Also in trees that compare doubles with inputs that were float32."""
    beside = np.nextafter(np.float32(0.1), np.float32([-1, 1]))
    X = np.array([0.1, *beside, np.nan, 0.0, -0.0, 1e-45], dtype=np.float32)[:, None]
    for value in (0.1, float(np.float32(0.1)), 0.0, 1e300, -1e300):
        node = {**STUMP, "feature": 0, "mode": mode, "value": value}
        made = ensemble([node], n_features=1, kind="float64")
        same(load(made).raw_score(X.astype(float)), run(made, X)[0][:, 0], X)
        narrow = cast_before(made)
        assert load(narrow).input_precision == "float32"
        same(load(narrow).raw_score(X), run(narrow, X)[0][:, 0], X)


def cast_before(made: Any) -> Any:
    """The model with float inputs that are cast to double."""
    cast = helper.make_node("Cast", ["given"], ["X"], to=TensorProto.DOUBLE)
    inputs = [helper.make_tensor_value_info("given", TensorProto.FLOAT, [None, 1])]
    return model([cast, *made.graph.node], inputs, made.graph.output, 5)


def test_equality_copies_no_subtree_that_nothing_reaches():
    """A chain of a hundred questions x == i stays a chain."""
    tree: Any = {0: 0.0}
    for number in range(100):
        asked = {"feature": 0, "mode": "BRANCH_EQ", "value": float(number)}
        tree = {**asked, "true": {0: number + 1.0}, "false": tree}
    made = load(regressor([tree], n_features=1))
    assert made.n_leaves < 400
    X = np.arange(-2.0, 102.0, 0.5)[:, None]
    expected = np.where((X >= 0) & (X < 100) & (np.trunc(X) == X), X + 1, 0)[:, 0]
    assert made.raw_score(X).tolist() == expected.tolist()


def test_sets_are_categories_unless_the_feature_is_compared_as_well():
    node = {**STUMP, "feature": 0, "mode": MEMBER, "value": [3.0, 1.0, 7.0]}
    made = load(ensemble([node], n_features=2))
    assert {feature: dict(labels) for feature, labels in made.categories.items()} == {
        0: {0: 0.0, 1: 1.0, 2: 3.0, 3: 7.0}
    }
    assert made.raw_score([[1.0, 0], [7.0, 0], [2.0, 0], [1.5, 0]]).tolist() == [-1, -1, 1, 1]
    mixed = load(ensemble([node, {**STUMP, "feature": 0}], n_features=2))
    assert not mixed.categories
    assert mixed.raw_score([[1.0, 0], [0.5, 0], [1.5, 0]]).tolist() == [0, 0, 2]


def test_labels_links_and_thresholds_are_the_operators():
    trees = [{**STUMP, "true": {0: 0.25}, "false": {0: 0.75}}]
    shares = load(classifier(trees, ["no", "yes"], n_features=2))
    assert (shares.threshold, shares.link, shares.tie) == (0.5, "identity", "negative")
    margins = load(classifier([STUMP], [4, 2], n_features=2, post_transform="LOGISTIC"))
    assert (margins.threshold, margins.link) == (0.0, "logistic")
    assert margins.classes.tolist() == [4, 2]
    three = [{**STUMP, "true": dict.fromkeys(range(3), 0.5), "false": dict.fromkeys(range(3), 1.0)}]
    many = load(classifier(three, [1, 2, 3], n_features=2, post_transform="SOFTMAX"))
    assert (many.task, many.link) == ("multiclass", "softmax")
    assert load(classifier([STUMP], [4, 2], n_features=2), classes=["a", "b"]).classes[1] == "b"


def test_several_targets_are_classes_if_somebody_says_so():
    trees = [{**STUMP, "true": {0: 1.0}, "false": {2: 2.0}}]
    made = ensemble(trees, n_features=2, n_targets=3)
    with pytest.raises(ModelError, match="predicts 3 targets at once; pass classes if"):
        load(made)
    assert load(made, classes=["a", "b", "c"]).decide([[0, 0], [0, 9]]).tolist() == ["a", "c"]
    chosen = ensemble(trees, n_features=2, n_targets=3, argmax=True)
    assert load(chosen).decide([[0, 0], [0, 9]]).tolist() == [0, 2]


def test_a_class_that_leaves_leave_out_is_refused_where_it_matters():
    """onnxruntime passes over it, so that a negative score can win against its zero."""
    sparse = [{**STUMP, "true": {0: -1.0, 1: -2.0}, "false": {2: -1.0}}]
    with pytest.raises(ModelError, match="without a weight for class 'a', which"):
        load(classifier(sparse, ["a", "b", "c"], n_features=2))
    base = {"base_values": [0.0, 0.0, 0.0]}
    for trees, more in (
        (sparse, base),
        ([{**STUMP, "true": {0: 1.0}, "false": {2: 0.5}}], {}),
    ):
        made = classifier(trees, ["a", "b", "c"], n_features=2, **more)
        X = np.array([[0.0, 0.0], [0.0, 1.0]])
        assert (load(made).decide(X) == run(made, X)[0]).all()


@pytest.mark.parametrize("shape", [None, [], [None, None]])
def test_the_number_of_features_may_be_given(shape):
    made = regressor([STUMP], n_features=2)
    del made.graph.input[:]
    made.graph.input.append(helper.make_tensor_value_info("X", TensorProto.FLOAT, shape or None))
    assert load(made).n_features == 2
    assert load(made, n_features=5).n_features == 5
    with pytest.raises(ModelError, match="tree 0 tests a feature beyond the 1"):
        load(made, n_features=1)


# ── converted models ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("kind", ["RandomForestClassifier", "GradientBoostingClassifier"])
def test_what_skl2onnx_converts_is_read_as_onnxruntime_runs_it(kind, k, zipmap):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, y = data(k)
    source = getattr(forests, kind)(n_estimators=6, max_depth=4, random_state=0).fit(X, y)
    made = skl2onnx.to_onnx(source, X[:1], options={"zipmap": zipmap})
    got = load(made)
    rows = rows_at_boundaries(got, nan=False).astype(np.float32)
    assert (got.decide(rows) == run(made, rows)[0]).all()
    assert got.input_precision == got.sum_precision == "float32"


@pytest.mark.parametrize("k", [0, 2, 3])
def test_what_catboost_exports_is_read_as_onnxruntime_runs_it(k, tmp_path):
    catboost = pytest.importorskip("catboost")
    X, y = data(max(k, 2))
    kind = catboost.CatBoostClassifier if k else catboost.CatBoostRegressor
    source = kind(iterations=9, depth=3, verbose=False, allow_writing_files=False, thread_count=1)
    source.fit(X, y).save_model(str(tmp_path / "model.onnx"), format="onnx")
    got = load(tmp_path / "model.onnx")
    rows = rows_at_boundaries(got, nan=True).astype(np.float32)
    made = onnx.load(tmp_path / "model.onnx")
    if k:
        assert (got.decide(rows) == run(made, rows)[0]).all()
    else:
        same(got.raw_score(rows), run(made, rows)[0][:, 0], rows)
    np.testing.assert_allclose(
        got.raw_score(X), source.predict(X, prediction_type="RawFormulaVal"), rtol=1e-5, atol=1e-5
    )


def data(k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2]
    return X, np.searchsorted(np.quantile(score, np.arange(1, k) / k), score)


# ── verification ─────────────────────────────────────────────────────────────────────────────


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def around(*nodes: Any, before: bool = False) -> Any:
    """The stump with nodes before or behind it; nodes read "in" and write "out"."""
    made = regressor([STUMP], n_features=2)
    if before:
        made.graph.input[0].name, nodes[-1].output[0] = "in", "X"
    else:
        nodes[0].input[0] = "Y"
    return model([*made.graph.node, *nodes], made.graph.input, made.graph.output)


def test_other_nodes_are_refused_by_name():
    scaler = helper.make_node("Scaler", ["in"], ["out"], domain="ai.onnx.ml", offset=[0.0] * 2)
    with pytest.raises(ModelError, match=r"^ModelProto: has Scaler before its trees.*; transform"):
        load(around(scaler, before=True))
    for kind, more in (
        ("Sigmoid", {}),
        ("Cast", {"to": TensorProto.INT64}),
        ("ArgMax", {"axis": 0}),
    ):
        node = helper.make_node(kind, ["in"], ["out"], **more)
        with pytest.raises(ModelError, match=f"has {kind} behind its trees, which changes"):
            load(around(node))
    for kind, more in (("Identity", {}), ("Cast", {"to": TensorProto.DOUBLE})):
        assert load(around(helper.make_node(kind, ["in"], ["out"], **more))).n_trees == 1


@pytest.mark.parametrize(
    ("factor", "is_input", "is_read"), [(1.0, False, True), (2.0, False, False), (1.0, True, False)]
)
def test_a_product_with_one_changes_nothing(factor, is_input, is_read):
    made = around(helper.make_node("Mul", ["in", "one"], ["out"]))
    made.graph.initializer.append(helper.make_tensor("one", TensorProto.FLOAT, [], [factor]))
    if is_input:  # so that a caller may give another number
        given = helper.make_tensor_value_info("one", TensorProto.FLOAT, [])
        made.graph.input.append(given)
    if is_read:
        assert load(made).n_trees == 1
    else:
        with pytest.raises(ModelError, match="has Mul behind its trees, which changes"):
            load(made)


def test_graphs_without_one_ensemble_are_refused():
    made = regressor([STUMP], n_features=2)
    twice = model([*made.graph.node, *made.graph.node], made.graph.input, made.graph.output)
    with pytest.raises(ModelError, match="holds 2 ensembles of trees; convert them one by one"):
        load(twice)
    linear = helper.make_node("LinearRegressor", ["X"], ["Y"], domain="ai.onnx.ml")
    with pytest.raises(ModelError, match="holds no ensemble of trees but LinearRegressor; pass"):
        load(model([linear], made.graph.input, made.graph.output))
    with pytest.raises(ModelError, match=r"^NodeProto: is an onnx.NodeProto, not a model; pass"):
        load(linear)


def test_weights_of_both_of_two_classes_are_refused():
    shares = [{**STUMP, "true": {0: 0.25, 1: 0.75}, "false": {0: 0.5, 1: 0.5}}]
    with pytest.raises(ModelError, match="weights for both of two classes, which onnxruntime"):
        load(classifier(shares, [0, 1], n_features=2))
    with pytest.raises(ModelError, match="one class and 2 base values, which runtimes read"):
        load(classifier([STUMP], [0, 1], n_features=2, base_values=[0.5, 0.5]))
