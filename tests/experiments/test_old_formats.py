"""Models of old formats: published ones with their rows and outputs, and fresh ones."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from carvegbm import DataError, Ensemble
from carvegbm import load as load_new
from carvegbm_experiments.old_formats import lightgbm_text, load
from readers import categorical_models


def libsvm(path: Path, n_features: int, absent: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    X = np.full((len(lines), n_features), absent)
    y = np.empty(len(lines))
    for row, line in enumerate(lines):
        label, *pairs = line.split()
        y[row] = float(label)
        for pair in pairs:
            column, value = pair.split(":")
            X[row, int(column)] = float(value)
    return X, y


@pytest.mark.parametrize("name", ["xgagaricus", "xg_dart_agaricus", "xgdermatology"])
def test_leaves_models_in_the_old_binary_format(name, shared_data):
    folder = shared_data / "models" / "dmitryikh_leaves"
    ensemble = load(folder / f"{name}.model.gz")
    rows = "dermatology" if "derma" in name else "agaricus"
    X, _ = libsvm(folder / f"{rows}_test.libsvm.gz", ensemble.n_features, absent=np.nan)
    truth = np.loadtxt(folder / f"{name}_true_predictions.txt.gz")
    if name == "xgagaricus":
        probability = 1 / (1 + np.exp(-ensemble.raw_score(X)))
        np.testing.assert_allclose(probability, truth, rtol=3e-7)
        return
    if name == "xg_dart_agaricus":  # the expected outputs are those of the first ten trees
        ensemble = Ensemble.from_trees(
            ensemble.to_trees()[:10],
            n_features=ensemble.n_features,
            input_precision="float32",
            sum_precision="float32",
        )
    np.testing.assert_array_equal(ensemble.raw_score(X), truth)


CHONG_Z = "chong-z_tree-ensemble-attack"


@pytest.mark.parametrize(
    ("name", "rows", "accuracy"),
    [
        ("breast_cancer_rf.json.gz", "data_breast_cancer_scale0.test.gz", 0.9),
        ("diabetes_rf.json.gz", "data_diabetes_scale0.test.gz", 0.7),
        ("higgs_rf.json.gz", "data_HIGGS_s.test0.gz", 0.65),
        ("ijcnn_rf.json.gz", "data_ijcnn1s0.t.gz", 0.9),
        ("webspam_rf.json.gz", "data_webspam_wc_normalized_unigram.svm0.test.gz", 0.9),
        ("ori_mnist_rf.model.gz", "data_ori_mnist.test0.gz", 0.85),
        ("covtype_rf.model.gz", "data_covtype.scale01.test0.gz", 0.6),
    ],
)
def test_published_models_predict_their_rows(name, rows, accuracy, shared_data):
    X, y = libsvm(shared_data / "models" / CHONG_Z / rows, 1000)
    ensemble = load(shared_data / "models" / CHONG_Z / name)
    assert (ensemble.decide(X[:, : ensemble.n_features]) == y).mean() > accuracy


@pytest.mark.parametrize(
    ("model", "dump"),
    [
        (f"{CHONG_Z}/covtype_rf.model.gz", f"{CHONG_Z}/covtype_rf.dump_by_xgb176.json.gz"),
        (f"{CHONG_Z}/ori_mnist_rf.model.gz", f"{CHONG_Z}/ori_mnist_rf.dump_by_xgb176.json.gz"),
        (
            "chenhongge_treeVerification/breast_cancer_robust.0008.model",
            "chenhongge_treeVerification/breast_cancer_robust.0008.json.gz",
        ),
        (
            "chenhongge_treeVerification/higgs_robust.0050.model.gz",
            "chenhongge_treeVerification/higgs_robust.0050.json.gz",
        ),
    ],
)
def test_published_binary_models_have_the_trees_of_their_dumps(model, dump, shared_data):
    binary = load(shared_data / "models" / model)
    if binary.task == "multiclass":
        assert binary.base_score.tolist() == [0.5] * len(binary.classes)
    one_output = Ensemble(  # each tree counts for one class, the dump does not say which
        binary.nodes,
        binary.roots,
        binary.scores.sum(axis=1),
        n_features=binary.n_features,
        task="binary",
        tie="negative",
        link="logistic",
        input_precision="float32",
        sum_precision="float32",
        compares="probability",
        absent="missing",
    )
    assert load(shared_data / "models" / dump, n_features=binary.n_features) == one_output


@pytest.mark.parametrize(
    ("name", "rows", "accuracy"),
    [
        (
            "breast_cancer_robust.0008.model",
            "../" + CHONG_Z + "/data_breast_cancer_scale0.test.gz",
            0.9,
        ),
        ("higgs_robust.0050.model.gz", "ori_higgs0.gz", 0.6),
    ],
)
def test_published_robust_models_predict_their_rows(name, rows, accuracy, shared_data):
    folder = shared_data / "models" / "chenhongge_treeVerification"
    model = load(folder / name)
    X, y = libsvm(folder / rows, model.n_features)
    assert (model.decide(X) == y).mean() > accuracy


def test_leaves_models_in_the_json_of_lightgbm(shared_data):
    folder = shared_data / "models" / "dmitryikh_leaves"
    X = np.loadtxt(folder / "breast_cancer_test.tsv.gz", ndmin=2)
    dump, text = (load(folder / f"lg_dart_breast_cancer.{end}.gz") for end in ("json", "model"))
    assert dump.task == "regression"  # dumps of that time did not name the objective
    np.testing.assert_allclose(dump.raw_score(X), text.raw_score(X), rtol=1e-9)
    dump = load(folder / "lg_1tree.json.gz")
    assert dump.categories == {1: {code: code for code in (1, 10, 100)}}
    assert dump.raw_score([[0, 10], [0, 11], [1, 10]]).tolist() == [0.4703, 0.4242, 1.1111]


@pytest.mark.parametrize(
    "setting", ["sets of categories", "multiclass", "frame", "zero as missing", "dart"]
)
def test_text_of_a_lightgbm_dump_is_the_model_for_lightgbm_and_for_carvegbm(setting, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    booster = categorical_models.lightgbm_model(setting, 0, tmp_path).sources[0]
    document = booster.dump_model()
    (tmp_path / "dump.json").write_text(json.dumps(document))
    assert load(tmp_path / "dump.json") == load_new(booster)
    again = lightgbm.Booster(model_str=lightgbm_text(document))
    assert load_new(again) == load_new(booster)


def test_a_dump_of_xgboost_holds_the_trees_but_no_base_score(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 4)) < 0.1, np.nan, rng.normal(size=(200, 4)))
    matrix = xgboost.DMatrix(X, label=rng.integers(0, 2, 200))
    booster = xgboost.train({"objective": "binary:logistic", "base_score": 0.5}, matrix, 5)
    booster.dump_model(tmp_path / "dump", dump_format="json")
    raw = booster.predict(matrix, output_margin=True)
    assert load(tmp_path / "dump", n_features=4).raw_score(X).tolist() == raw.tolist()


def test_missing_values_have_a_rule_only_where_the_dump_gives_one(tmp_path):
    split = {"nodeid": 0, "split": 0, "split_condition": 1.5, "yes": 1, "no": 2}
    leaves = [{"nodeid": 1, "leaf": 1}, {"nodeid": 2, "leaf": 2}]
    (tmp_path / "dump").write_text(json.dumps([{**split, "children": leaves}]))
    model = load(tmp_path / "dump")
    assert model.raw_score([[1.0], [2.0]]).tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="row 0"):
        model.raw_score([[np.nan]])


def test_the_command_writes_what_carvegbm_reads(tmp_path):
    (tmp_path / "dump").write_text('[{"nodeid": 0, "leaf": 0.5}]')
    command = [sys.executable, "-m", "carvegbm_experiments.old_formats", "--n-features", "3"]
    subprocess.run([*command, tmp_path / "dump", tmp_path / "new.json"], check=True)
    assert load_new(tmp_path / "new.json") == load(tmp_path / "dump", n_features=3)
