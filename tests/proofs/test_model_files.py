"""The checker does no more work on a model file than the file has content for."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import carvegbm_check
from carvegbm import Ensemble, load
from carvegbm.errors import ModelError
from carvegbm.proofs.content import model_hash
from child_processes import LIMIT
from readers import small_models


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
