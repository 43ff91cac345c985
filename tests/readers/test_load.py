"""What `load` recognises, and that everything else is refused with one line."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
import zlib

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from carvegbm import Ensemble, LargeSpreadClassifier, load
from carvegbm.errors import ModelError
from readers import small_models

STUMP = {"feature": 0, "threshold": 0.5, "left": {"score": -1.0}, "right": {"score": 1.0}}
X = np.array([[-0.5, 0.5, 0.0], [-0.4, 0.8, 2.0], [np.nan, np.nan, np.nan]])


@pytest.fixture
def write(tmp_path):
    def write_bytes(content):
        path = tmp_path / "model"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_bytes


def refusal(path, **options):
    with pytest.raises(ModelError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert "the model is damaged (" not in message, message  # the reader names what is wrong
    return message.removeprefix(f"{path}: ")


def test_an_ensemble_is_returned_as_it_is():
    ensemble = Ensemble.from_trees([STUMP], n_features=1)
    assert load(ensemble) is ensemble
    assert load(ensemble, n_features=1) is ensemble


def test_classes_name_the_outputs_of_an_ensemble_and_leave_it_alone():
    ensemble = Ensemble.from_trees([STUMP], n_features=1, threshold=0.5)
    named = load(ensemble, classes=["no", "yes"])
    assert named.decide([[0.0], [1.0]]).tolist() == ["no", "yes"]
    assert named.threshold == 0.5
    assert ensemble.classes.tolist() == [0, 1]
    assert named == Ensemble.from_trees([STUMP], n_features=1, threshold=0.5, classes=["no", "yes"])


def test_two_classes_make_a_classifier_of_a_regression_ensemble():
    ensemble = Ensemble.from_trees([STUMP], n_features=1, task="regression")
    named = load(ensemble, classes=[-1, 1])
    assert (named.task, named.decide([[0.0], [1.0]]).tolist()) == ("binary", [-1, 1])


def test_classes_and_n_features_that_do_not_fit_an_ensemble_are_refused():
    three = {**STUMP, "left": {"score": [1, 2, 3]}, "right": {"score": [3, 2, 1]}}
    for tree, classes in ((STUMP, "abc"), (STUMP, [1, 1]), (three, [1, 2])):
        ensemble = Ensemble.from_trees([tree], n_features=1)
        with pytest.raises(ModelError, match=r"Ensemble: classes must be . different labels"):
            load(ensemble, classes=list(classes))
        with pytest.raises(ModelError, match="Ensemble: has 1 features, not n_features=2"):
            load(ensemble, n_features=2)


def test_classes_name_the_outputs_of_a_model_trained_here():
    pytest.importorskip("lightgbm")
    rows = np.arange(60.0).reshape(-1, 1)
    fitted = LargeSpreadClassifier(budget=0.01, n_estimators=2, min_child_samples=5)
    fitted.fit(rows, (rows[:, 0] > 30).astype(int))
    named = load(fitted, classes=["low", "high"])
    assert named.decide([[0.0], [59.0]]).tolist() == ["low", "high"]
    with pytest.raises(ModelError, match="LargeSpreadClassifier: has 1 features"):
        load(fitted, n_features=3)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LightGBM text", [[0.001, 0.125], [-0.25, 0.125], [-0.25, 0.125]]),
        ("XGBoost JSON", [-0.25, 0.25, -0.25]),
        ("XGBoost UBJSON", [-0.25, 0.25, -0.25]),
        ("CatBoost JSON of other trees", [-0.75, 1.25, 1.25]),
        ("Ensemble JSON", [-0.125, 1.875, -0.125]),
    ],
)
def test_files_are_recognised_by_content(name, expected, packed, write):
    content = small_models.ALL[name]
    ensemble = load(write(gzip.compress(content) if packed else content))
    base = {"XGBoost JSON": 0.3, "XGBoost UBJSON": 0.3}.get(name)
    logit = np.log(base / (1 - base)) if base else 0.0
    raw = ensemble.raw_score(X[:, : ensemble.n_features])
    np.testing.assert_allclose(raw, np.array(expected) + logit, rtol=1e-6)


def test_no_library_is_needed_to_read_its_files(tmp_path):
    for number, content in enumerate(small_models.ALL.values()):
        (tmp_path / f"{number:02}").write_bytes(content)
    code = (
        "import sys\n"
        "for name in ('lightgbm', 'sklearn', 'xgboost', 'catboost'): sys.modules[name] = None\n"
        "from carvegbm import load\n"
        "print(*(load(path).n_trees for path in sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2", "1", "1", "2", "2", "2", "2", "1"]


@pytest.mark.parametrize("name", small_models.ALL)
def test_every_truncation_is_refused_or_harmless(name, write):
    content = small_models.ALL[name]
    whole = load(write(content))
    step = max(1, len(content) // 60)
    for size in range(0, len(content) - 1, step):
        try:
            assert load(write(content[:size])) == whole  # only what follows the trees is lost
        except ModelError:
            assert refusal(write(content[:size]))


def test_missing_empty_and_unreadable_files(tmp_path, write):
    assert refusal(tmp_path / "absent") == "no such file"
    assert refusal(str(tmp_path / "absent")) == "no such file"
    assert refusal(tmp_path).startswith("cannot be read")
    assert refusal(write(b"")) == "the file is empty"
    assert refusal(write(b" \n\n")) == "the file is empty"
    assert refusal(write(gzip.compress(b""))) == "the file is empty"
    assert "cannot be unpacked" in refusal(write(gzip.compress(small_models.SILVA)[:-9]))
    broken = bytearray(gzip.compress(small_models.LIGHTGBM))
    broken[30] ^= 255
    assert "cannot be unpacked" in refusal(write(bytes(broken)))


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        b"\x00\x01\x02",
        b"a,b,c\n1,2,3\n",
        b"PK\x03\x04",
        b"\xff\xfe\x00",
        b"binf",
        b"x" * 999,
    ],
)
def test_anything_else_is_refused_with_what_can_be_read(content, write):
    assert refusal(write(content))


def test_pickles_are_not_opened(write):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("the pickle was opened",)

    model = DecisionTreeClassifier().fit([[0], [1]], [0, 1])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        message = refusal(write(pickle.dumps(model, protocol)))
        assert message.endswith("load it yourself and pass the estimator")
        assert "is a pickle" in refusal(write(zlib.compress(pickle.dumps(model, protocol))))
    assert "is a pickle" in refusal(write(gzip.compress(pickle.dumps(Trap()))))


def test_objects_of_other_kinds_are_refused_by_name():
    for source in (42, None, [1, 2], {"learner": {}}, np.zeros(3)):
        with pytest.raises(ModelError, match=f"cannot read a model from .*{type(source).__name__}"):
            load(source)


def test_the_number_of_features_is_checked(write):
    path = write(small_models.LIGHTGBM)
    assert load(path, n_features=3) == load(path)
    assert refusal(path, n_features=4) == "has 3 features, not n_features=4"


def test_classes_are_checked_against_the_outputs(write):
    path = write(small_models.LIGHTGBM)
    assert load(path, classes=["a", "b"]).classes.tolist() == ["a", "b"]
    assert "classes must be 2 different labels" in refusal(path, classes=["a", "b", "c"])
    assert "classes must be 2 different labels" in refusal(path, classes=["a", "a"])


# ── broken LightGBM text ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_leaves=3", "num_leaves=4", "tree 0: leaf_value must be 4 values, got 3"),
        ("num_leaves=3", "num_leaves=0", "tree 0: leaf_value must be 0 values, got 3"),
        ("num_leaves=3", "num_leaves=-3", "tree 0: num_leaves is '-3', not a count"),
        ("num_leaves=3", "num_leaves=99999999999", "not a count"),
        ("num_leaves=3\n", "", "tree 0: num_leaves is missing"),
        ("left_child=1 -1", "left_child=1 -9", "tree 0 points to node 10, it has 5 nodes"),
        ("left_child=1 -1", "left_child=1 7", "tree 0 points to node 7, it has 5 nodes"),
        ("left_child=1 -1", "left_child=0 -1", "tree 0 is not a tree: a node has two parents"),
        ("left_child=1 -1", "left_child=1 1", "tree 0 is not a tree"),
        ("left_child=1 -1", "left_child=-2 -1", "tree 0 is not a tree"),
        ("left_child=1 -1", "left_child=1", "tree 0: left_child must be 2 values, got 1"),
        ("left_child=1 -1", "left_child=1 x", "tree 0: left_child must be numbers"),
        ("left_child=1 -1", "left_child=1 -1.5", "tree 0: left_child must be numbers"),
        ("left_child=1 -1", "left_child=1 -99999999999999999999", "left_child"),
        ("split_feature=0 2", "split_feature=0 3", "tree 0 tests feature 3, the model has 3"),
        ("split_feature=0 2", "split_feature=0 -2", "tree 0 tests a negative feature"),
        ("threshold=-0.5", "threshold=nan", "NaN"),
        ("threshold=-0.5", "threshold=1_0", "tree 0: threshold must be numbers"),
        ("threshold=-0.5", "threshold=0x1", "tree 0: threshold must be numbers"),
        ("leaf_value=0.5", "leaf_value=inf", "finite"),
        ("leaf_value=0.5", "leaf_value=1e999", "finite"),
        ("decision_type=2 4", "decision_type=2 16", "decision_type must be 0…15"),
        (
            "decision_type=2 4",
            "decision_type=3 4",
            "tree 0: cat_boundaries must be 1 numbers",
        ),
        ("is_linear=0", "is_linear=1", "tree 0 has linear models"),
        ("max_feature_idx=2", "max_feature_idx=3", "3 feature names for 4 features"),
        ("max_feature_idx=2", "max_feature_idx=999999999", "at most 16777216 are read"),
        ("max_feature_idx=2", "max_feature_idx=x", "max_feature_idx is 'x', not a count"),
        ("num_tree_per_iteration=2", "num_tree_per_iteration=0", "0 trees per iteration"),
        ("num_tree_per_iteration=2", "num_tree_per_iteration=3", "3 trees per iteration"),
        ("num_tree_per_iteration=2", "num_tree_per_iteration=1", "at least two scores"),
        ("tree_sizes=298 179", "tree_sizes=298", "has 2 trees, its header announces 1"),
        ("tree_sizes=298 179", "tree_sizes=298 178", "tree 1 has 179 bytes, tree_sizes says 178"),
        ("feature_names=a b c\n", "", "has no feature_names"),
        ("end of trees", "end of", "truncated"),
        ("feature_names=a", "feature_names=\udcff", "byte .* is not UTF-8 text"),
    ],
)
def test_broken_lightgbm_text_says_what_is_wrong(old, new, message, write):
    text = small_models.LIGHTGBM.decode()
    if "tree_sizes" not in old:  # it would contradict most changes
        text = text.replace("tree_sizes=298 179\n", "")
    assert old in text
    broken = text.replace(old, new, 1).encode("utf-8", "surrogateescape")
    path = write(broken)
    with pytest.raises(ModelError, match=message):
        load(path)
    assert refusal(path)


# ── broken JSON ──────────────────────────────────────────────────────────────────────────────


TREE = ("learner", "gradient_booster", "gbtree", "model", "trees", 0)
MODEL = TREE[:-2]
PARAM = ("learner", "learner_model_param")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*TREE, "left_children"), [1, -1], "tree 0: right_children|tree 0: split_indices"),
        ((*TREE, "left_children"), [9, -1, -1], "tree 0 points to node 9, it has 3 nodes"),
        ((*TREE, "left_children"), [0, -1, -1], "tree 0 is not a tree"),
        ((*TREE, "left_children"), [2, -1, -1], "tree 0 is not a tree"),
        ((*TREE, "left_children"), [1.5, -1, -1], "left_children must be whole numbers"),
        ((*TREE, "left_children"), [[1], [2], [3]], "left_children must be a list"),
        ((*TREE, "left_children"), "abc", "left_children"),
        ((*TREE, "left_children"), [], "tree 0"),
        ((*TREE, "left_children"), [10**30, -1, -1], "left_children must be whole numbers"),
        ((*TREE, "left_children"), ..., "left_children"),
        ((*TREE, "right_children"), [-5, -1, -1], "tree 0 points to node -5"),
        ((*TREE, "split_indices"), [2, 0, 0], "tree 0 tests feature 2, the model has 2 features"),
        ((*TREE, "split_indices"), [-1, 0, 0], "tree 0 tests a negative feature"),
        ((*TREE, "split_conditions"), [float("nan"), 0, 0], "NaN"),
        ((*TREE, "split_conditions"), [0.5, float("inf"), 0], "finite"),
        ((*TREE, "split_conditions"), [0.5, 1e39, 0], "finite"),
        ((*TREE, "split_conditions"), [None, 0, 0], "split_conditions must be numbers"),
        ((*TREE, "split_conditions"), ["a", 0, 0], "split_conditions must be numbers"),
        ((*TREE, "split_type"), [1, 0, 0], "tree 0: node 0 lists no categories"),
        ((*TREE, "split_type"), 7, "split_type"),
        ((*TREE, "tree_param", "size_leaf_vector"), "2", "tree 0 has a vector in every leaf"),
        (TREE, 7, "trees must be a list of trees"),
        ((*MODEL, "trees"), {}, "trees must be a list of trees"),
        ((*MODEL, "tree_info"), [1], "tree 0 counts for output 1, the model has 1 outputs"),
        ((*MODEL, "tree_info"), [-1], "tree 0 counts for output -1"),
        ((*MODEL, "tree_info"), [], "tree_info must be 1 values, got 0"),
        (("learner", "gradient_booster", "weight_drop"), [], "weight_drop must be 1 values"),
        (("learner", "gradient_booster", "weight_drop"), ["x"], "weight_drop must be numbers"),
        (("learner", "gradient_booster", "gbtree"), ..., "has no 'gbtree'"),
        (("learner", "gradient_booster"), [], "has no 'gradient_booster'"),
        (("learner",), [], "has no 'learner'"),
        (("learner", "feature_names"), [1, 2], "feature_names must be a list of names"),
        (("learner", "feature_names"), 5, "feature_names must be a list of names"),
        (("learner", "feature_names"), ["a"], "1 feature names for 2 features"),
        (("learner", "objective"), "x", "has no 'objective'"),
        (("learner", "objective", "name"), ["x"], "unknown objective"),
        ((*PARAM, "base_score"), "[]", "base_score is '\\[\\]', not a number"),
        ((*PARAM, "base_score"), "nan", "base_score is 'nan', not a number"),
        ((*PARAM, "base_score"), "[1E-1,2E-1]", "base_score has 2 values for 1 outputs"),
        ((*PARAM, "base_score"), ..., "base_score is 'None', not a number"),
        ((*PARAM, "num_class"), "-3", "num_class is '-3', not a count"),
        ((*PARAM, "num_class"), "2000000", "outputs; at most 65536 are read"),
        ((*PARAM, "num_feature"), "x", "num_feature is 'x', not a count"),
        ((*PARAM, "num_feature"), [], "num_feature is '\\[\\]', not a count"),
        ((*PARAM, "num_target"), "2", "several targets"),
    ],
)
def test_broken_xgboost_json_says_what_is_wrong(path, value, message, write):
    document = small_models.replaced(json.loads(small_models.XGBOOST_JSON), path, value)
    file = write(json.dumps(document))
    with pytest.raises(ModelError, match=message):
        load(file)
    assert refusal(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "is JSON, but not a model; if it is an XGBoost dump of trees: save"),
        ('{"a": 1}', "is JSON, but not a model that can be read"),
        ('{"oblivious_trees": []}', "is JSON, but not a model that can be read"),
        ("{", "is not JSON from line 1 on"),
        ("[" * 100_000, "nested too deeply"),
        ('{"learner":' * 100_000, "nested too deeply"),
        ("[" + "1" * 5000 + "]", "holds a number beyond all bounds"),
    ],
)
def test_broken_json_says_what_is_wrong(content, message, write):
    assert message in refusal(write(content))


# ── broken UBJSON ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{L\0\0\0\0\0\0\0\1a[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff}", "do not fit into the file"),
        (b"{L\0\0\0\0\0\0\0\1a[#L\xff\xff\xff\xff\xff\xff\xff\xff}", "do not fit into the file"),
        (b"{L\xff\xff\xff\xff\xff\xff\xff\xffa", "truncated"),
        (b"{i\1a[$d}", "a typed container needs a count"),
        (b"{i\1a[$Z#i\1}", "a container of the type 'Z'"),  # whose elements take no bytes
        (b"{i\1aX}", "unknown type 'X'"),
        (b"{i\1ad", "truncated"),
        (b"{i\1\xffT}", "a text is not UTF-8"),
        (b"{i\1aTi\1aT}", "'a' occurs twice"),
        (b"{i\1a" + b"[" * 5000, "nested deeper than 200"),
        (b"{i\1aT}", "is JSON, but not a model that can be read"),
        (b"{i\7learnerT}", "has no 'learner'"),
        (b"{iN", "truncated"),
    ],
)
def test_broken_ubjson_says_what_is_wrong(content, message, write):
    assert message in refusal(write(content))


def test_the_old_binary_format_of_xgboost_is_refused_with_the_remedy(write):
    for start in (b"", b"binf"):
        file = write(start + bytes(136 + 8) + b"binary:logistic" + bytes(64))
        assert "old binary format, which is not read; save the model with" in refusal(file)
