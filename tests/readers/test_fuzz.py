"""Mutated files: an ensemble or one line, never another exception, a crash or a hang.

`tools/campaigns.py fuzz` checks many more files of each format.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carvegbm_check
import fuzzing
from carvegbm import Ensemble, load
from carvegbm.errors import ModelError
from carvegbm.proofs.content import model_hash
from child_processes import LIMIT, end, start
from fuzzing.models import use
from readers import small_models
from readers.onnx_graphs import regressor

FILES = 200  # per format


@pytest.mark.filterwarnings("ignore:no value of column")
@pytest.mark.parametrize("name", sorted({*fuzzing.FORMATS} - {*fuzzing.SLOW}))
def test_mutated_files_are_read_or_refused_with_one_line(name, tmp_path):
    """Most of them are refused, or read, for what they say, not for their syntax."""
    found = [
        fuzzing.FORMATS[name].check(random.Random(seed), tmp_path / "model")
        for seed in range(FILES)
    ]
    assert {*found} <= {*fuzzing.OUTCOMES}
    assert found.count("refused: syntax") < FILES / 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from([b"", b"tree\n", b"{", b"[", b"{L", b"binf", b"classifier-forest "]),
    rest=st.binary(max_size=300),
    packed=st.booleans(),
)
def test_garbage_is_refused_with_one_line(start, rest, packed, tmp_path):
    content = gzip.compress(start + rest, mtime=0) if packed else start + rest
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        load(tmp_path / "model")
    assert len(str(caught.value).splitlines()) == 1


def refused(content: bytes, path: Any, message: str) -> None:
    """Assert that the command line refuses a model; a hang ends after `LIMIT` seconds."""
    path.write_bytes(content)
    code, _, err = end(start("info", path))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"left_child=1 -1", b"left_child=1 0", "a node has two parents"),
        (b"left_child=1 -1", b"left_child=1 1", "a node has two parents"),
        (b"threshold=0.5 0.5", b"threshold=0.5 nan", "NaN"),
        (b"threshold=0.5 0.5", b"threshold=nan 0.5", "NaN"),
    ],
)
def test_damaged_trees_with_zero_as_missing_are_refused(old, new, message, tmp_path):
    content = small_models.LIGHTGBM.replace(b"decision_type=2 4", b"decision_type=4 4")
    content = content.replace(b"tree_sizes=298 179\n", b"")
    content = content.replace(b"threshold=-0.5 1.0000000180025095e-35", b"threshold=0.5 0.5")
    (tmp_path / "whole").write_bytes(content)
    assert load(tmp_path / "whole").n_leaves > 4  # two leaves are there more than once
    assert old in content
    refused(content.replace(old, new), tmp_path / "model", message)


@pytest.mark.parametrize("children", [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], ids=str)
def test_an_onnx_tree_with_equalities_and_a_cycle_is_refused(children, tmp_path):
    asked = {"feature": 0, "mode": "BRANCH_EQ", "value": 1.0}
    tree = {**asked, "true": {**asked, "true": {0: 1.0}, "false": {0: 2.0}}, "false": {0: 3.0}}
    made = regressor([tree], n_features=1)
    (field,) = (a for a in made.graph.node[0].attribute if a.name == "nodes_truenodeids")
    assert len(field.ints) == len(children)
    field.ints[:] = children
    refused(made.SerializeToString(), tmp_path / "model", "tree 0 ")


def test_the_checker_refuses_more_classes_than_trees_at_once(tmp_path):
    huge = small_models.LIGHTGBM.replace(b"num_class=2\n", b"num_class=1000000000\n")
    huge = huge.replace(b"per_iteration=2", b"per_iteration=1000000000")
    (tmp_path / "model").write_bytes(huge)
    (tmp_path / "proof").write_bytes(carvegbm_check.MAGIC)
    (tmp_path / "data").write_text("0,0,0,0\n")
    files = [tmp_path / name for name in ("proof", "model", "data")]
    done = subprocess.run(
        [sys.executable, carvegbm_check.__file__, *files],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == carvegbm_check.BAD_INPUT
    assert "has 2 trees, but 1000000000 for every iteration" in done.stderr


def own_document(**change: Any) -> dict[str, Any]:
    """An ensemble of one tree with 250 splits, with changed fields."""
    document = {
        "format": "carvegbm-ensemble",
        "version": 1,
        "n_features": 1,
        "task": "binary",
        "base_score": [0.0],
        "average": 1,
        "threshold": 0.0,
        "tie": "positive",
        "classes": [],
        "input_precision": "float64",
        "feature_names": None,
        "roots": [0],
        "nodes": [],
    } | change
    k = 250
    document["nodes"] = [
        {"feature": 0, "threshold": i, "left": k + i, "right": i + 1} for i in range(k)
    ] + [{"scores": [1.0]}] * (k + 1)
    document["nodes"][k - 1]["right"] = 2 * k
    return document


def xgboost_document(offsets: list[int]) -> dict[str, Any]:
    """A model with a categorical feature and labels whose texts begin and end at these offsets."""
    document = json.loads(small_models.XGBOOST_JSON)
    learner = document["learner"]
    learner["feature_types"] = ["c", "float"]
    model = learner["gradient_booster"]["gbtree"]["model"]
    labels = {"values": [97] * max(offsets), "offsets": offsets}
    model["cats"] = {"enc": [labels, {"values": [], "offsets": []}]}
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (own_document(roots=[0] * 100_000), "a node with two parents"),
        (own_document(n_features=10**9), "row 0 has 2 cells of 1000000001"),
        (xgboost_document([0, 30_000] * 30_000), "offsets of labels that do not ascend"),
        (xgboost_document([1, 2, 3]), "offsets of labels that do not ascend"),
    ],
    ids=["roots", "features", "overlapping labels", "bytes before the first label"],
)
def test_the_checker_does_no_more_than_a_file_has_content_for(document, message, tmp_path):
    """Trees may not share nodes, labels no bytes, and nothing is as large as a stated count."""
    (tmp_path / "model").write_text(json.dumps(document))
    (tmp_path / "proof").write_bytes(carvegbm_check.MAGIC)
    (tmp_path / "data").write_text("a,label\n0,0\n")
    files = [str(tmp_path / name) for name in ("proof", "model", "data")]
    done = subprocess.run(
        [sys.executable, carvegbm_check.__file__, *files, "--expect", "norm=1,budget=1"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == carvegbm_check.BAD_INPUT
    assert message in done.stderr


def test_the_checker_looks_up_many_labels_of_many_categories_in_linear_time(tmp_path):
    """A cell must not be compared with each of the 100,000 labels of its feature."""
    n_codes = 100_000
    split = {"feature": 0, "categories": [0], "left": {"score": 1.0}, "right": {"score": -1.0}}
    labels = {0: {code: f"shop {code}" for code in range(n_codes)}}
    Ensemble.from_trees([split], n_features=1, categories=labels).save(tmp_path / "model.json")
    lines = [f"shop {n_codes - 1 - row},0" for row in range(30_000)]
    (tmp_path / "data.csv").write_text("\n".join(["shop,label", *lines]))
    (tmp_path / "proof").write_bytes(carvegbm_check.MAGIC)
    files = [tmp_path / name for name in ("proof", "model.json", "data.csv")]
    done = subprocess.run(
        [sys.executable, carvegbm_check.__file__, *files],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == carvegbm_check.BAD_INPUT
    assert "is cut off" in done.stderr  # the data were read before the proof


def test_the_checker_refuses_far_more_scores_than_leaves(tmp_path):
    head, _, rest = small_models.LIGHTGBM.partition(b"Tree=0")
    tree, _, end_of_trees = (b"Tree=0" + rest).partition(b"Tree=1")
    for name in (b"num_class=", b"num_tree_per_iteration="):
        head = head.replace(name + b"2\n", name + b"3000\n")
    lines = [line for line in head.split(b"\n") if not line.startswith(b"tree_sizes")]
    end_of_trees = end_of_trees[end_of_trees.index(b"end of trees") :]
    (tmp_path / "model").write_bytes(b"\n".join(lines) + tree * 3000 + end_of_trees)
    with pytest.raises(carvegbm_check.RefusedError, match="leaves with 3000 scores each"):
        carvegbm_check.read_model(str(tmp_path / "model"), None)
    with pytest.raises(ModelError, match="leaves with 3000 scores each"):
        load(tmp_path / "model")


def test_the_checker_reads_the_iterations_that_an_xgboost_file_lists(tmp_path):
    """It has used none of these trees, as three classes would need three per iteration."""
    document = json.loads(small_models.XGBOOST_JSON)
    document["learner"]["learner_model_param"]["num_class"] = "3"
    document["learner"]["objective"]["name"] = "multi:softprob"
    gbtree = document["learner"]["gradient_booster"]
    model = gbtree["gbtree"]["model"]
    model["trees"] *= 4
    model["tree_info"] = [0, 1, 2, 0]
    model["iteration_indptr"] = [0, 1, 4]
    gbtree["weight_drop"] = [1.0] * 4
    (tmp_path / "model").write_bytes(json.dumps(document).encode())
    ensemble = load(tmp_path / "model")
    model = carvegbm_check.read_model(str(tmp_path / "model"), None)
    assert len(ensemble.roots) == 4
    assert model.content() == model_hash(ensemble)


def test_many_splits_on_a_feature_of_many_categories_are_read_in_linear_time(tmp_path):
    """A split must not be compared with each of the 100,000 categories of its feature."""
    n_codes, n_trees = 100_000, 20_000
    split = {"feature": 0, "categories": [0], "left": {"score": 1.0}, "right": {"score": -1.0}}
    codes = {0: {0: 0, 1: 1}}
    Ensemble.from_trees([split], n_features=1, categories=codes).save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["categories"][0].update(codes=[*range(n_codes)], labels=[*range(n_codes)])
    (root,) = document["roots"]
    places = [root, document["nodes"][root]["left"], document["nodes"][root]["right"]]
    top, left, right = (document["nodes"][place] for place in places)
    document["nodes"], document["roots"] = [], []
    for i in range(n_trees):
        document["roots"].append(3 * i)
        children = {"left": 3 * i + 1, "right": 3 * i + 2, "categories": [n_codes - 1 - i]}
        leaves = [leaf | {"leaf": 2 * i + n} for n, leaf in enumerate((left, right))]
        document["nodes"] += [top | children, *leaves]
    (tmp_path / "model.json").write_text(json.dumps(document))
    program = "import carvegbm, sys; print(carvegbm.load(sys.argv[1]).n_trees)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model.json")],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.stdout == f"{n_trees}\n", done.stderr


def test_scores_whose_sum_is_infinite_in_the_library_are_refused(tmp_path):
    """Each is finite in float32; XGBoost would decide by infinity, or by NaN."""
    text = small_models.XGBOOST_JSON.replace(b"0.75, -0.5, 0.5", b"0.75, 3e38, 0.5")
    document = json.loads(text.replace(b'"weight_drop": [0.5]', b'"weight_drop": [1.0]'))
    (tmp_path / "one").write_text(json.dumps(document))
    booster = document["learner"]["gradient_booster"]
    model = booster["gbtree"]["model"]
    model |= {"trees": model["trees"] * 2, "tree_info": [0, 0], "iteration_indptr": [0, 1, 2]}
    booster["weight_drop"] = [1.0, 1.0]
    (tmp_path / "two").write_text(json.dumps(document))
    use(load(tmp_path / "one"), tmp_path / "model", thoroughly=True)
    with pytest.raises(ModelError, match=r"may add up to 6e\+38, more than float32 holds"):
        load(tmp_path / "two")


def test_long_texts_of_a_file_are_cut_in_messages(tmp_path):
    long = b"x" * 100_000
    (tmp_path / "model").write_bytes(small_models.CATBOOST_JSON.replace(b"AsFalse", long))
    with pytest.raises(ModelError, match="AsTrue") as caught:
        load(tmp_path / "model")
    assert len(str(caught.value)) < 1000
    (tmp_path / "model").write_bytes(small_models.XGBOOST_JSON.replace(b"binary:log", long))
    with pytest.raises(carvegbm_check.RefusedError, match="carvegbm convert") as refusal:
        carvegbm_check.read_model(str(tmp_path / "model"), None)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize(
    "content",
    [
        # A count beyond the file: nothing of that size may be allocated.
        small_models.SILVA.replace(b"3 2\n", b"3 999999999\n"),
        small_models.XGBOOST_JSON.replace(b'"num_class": "0"', b'"num_class": "1048576"'),
        # A negative feature, once taken for a leaf.
        small_models.LIGHTGBM.replace(b"split_feature=0 2", b"split_feature=0 -2"),
        # Whole numbers that no float can hold.
        small_models.XGBOOST_JSON.replace(b"-0.5", b"9" * 400),
        # Numbers where lists belong.
        small_models.XGBOOST_JSON.replace(b"[0, 0, 0]", b"7"),
        small_models.XGBOOST_JSON.replace(b'["a", "b"]', b"7"),
        # Numbers and widths beyond what is held.
        small_models.ENSEMBLE_JSON.replace(b"0.125", b"9" * 400),
        small_models.ENSEMBLE_JSON.replace(b"<U3", b"<U9999999"),
        # A key that is no text.
        small_models.XGBOOST_UBJSON.replace(b"attributes", b"attri\xffutes"),
    ],
)
def test_what_the_fuzzer_found(content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelError, match=r"^((?!the model is damaged).)*$"):
        load(tmp_path / "model")
