"""Models others have published, with their rows and their expected outputs."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from carvegbm import Ensemble, load


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
def test_leaves_models_in_the_old_binary_format(name, shared_data, assert_same):
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
    assert_same(ensemble.raw_score(X), truth)


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
