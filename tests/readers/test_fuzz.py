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

import fuzzing
from carvegbm import Ensemble, load
from carvegbm.errors import ModelError
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
        (b"left_child=1 -1", b"left_child=1 0", "a node with two parents"),
        (b"left_child=1 -1", b"left_child=1 1", "a node with two parents"),
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
