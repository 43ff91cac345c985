"""LightGBM: the ensemble's raw score is the Booster's own, bit for bit."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from carvegbm import load
from carvegbm.errors import ModelError
from readers.conftest import boundary_data, classes_of

ZERO = float(np.float32(1e-35))


def data(missing: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    return boundary_data(1e-36, missing)


def train(y: np.ndarray | None = None, rounds: int = 12, **params: object) -> lgb.Booster:
    X, target = data()
    quiet = {"verbose": -1, "num_threads": 1, "num_leaves": 15, "min_data_in_leaf": 5, "seed": 1}
    return lgb.train(quiet | params, lgb.Dataset(X, target if y is None else y), rounds)


OBJECTIVES = {
    "binary": {"objective": "binary"},
    "scaled binary": {"objective": "binary", "sigmoid": 0.7, "is_unbalance": True},
    "cross entropy": {"objective": "cross_entropy"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "one against all": {"objective": "multiclassova", "num_class": 3},
    "regression": {"objective": "regression"},
    "sqrt": {"objective": "regression", "reg_sqrt": True},
    "l1": {"objective": "regression_l1"},
    "huber": {"objective": "huber"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "poisson": {"objective": "poisson"},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie"},
    "dart": {"objective": "binary", "boosting": "dart", "drop_rate": 0.5},
    "goss": {"objective": "binary", "data_sample_strategy": "goss"},
    "forest": {
        "objective": "binary",
        "boosting": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.6,
    },
    "multiclass forest": {
        "objective": "multiclass",
        "num_class": 3,
        "boosting": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.6,
    },
    "regression forest": {
        "objective": "regression",
        "boosting": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.6,
    },
}


def target_for(params: dict[str, object]) -> np.ndarray:
    y = data()[1]
    if "num_class" in params:
        return classes_of(y, 3)
    if params["objective"] in ("binary", "cross_entropy"):
        return classes_of(y, 2)
    return np.abs(y) + 0.1


@pytest.mark.parametrize("missing", [{}, {"zero_as_missing": True}, {"use_missing": False}])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_raw_score_is_the_boosters(name, missing, boundary_rows, assert_same):
    params = OBJECTIVES[name]
    booster = train(target_for(params), **params, **missing)
    ensemble = load(booster)
    X = boundary_rows(ensemble, nan=True)
    sums = booster.predict(X, raw_score=True)
    if "forest" not in name:
        assert_same(ensemble.raw_score(X), sums)
    else:  # LightGBM divides by the number of iterations after it took the raw score
        assert_same(ensemble.raw_score(X), sums / booster.current_iteration())
    if name in ("regression", "regression forest"):
        assert_same(ensemble.raw_score(X), booster.predict(X))


@pytest.mark.parametrize("kind", [0, 2, 4, 6, 8, 10])
@pytest.mark.parametrize(
    "threshold",
    [-0.5, np.nextafter(-ZERO, -1), -ZERO, -1e-36, -0.0, 0.0, 1e-36, ZERO, 0.5, 1e300, -1e300],
)
def test_every_missing_type_goes_where_lightgbm_sends_it(kind, threshold, assert_same):
    tree = f"""split_feature=0
threshold={float(threshold)!r}
decision_type={kind}
left_child=-1
right_child=-2
leaf_value=1 2
"""
    booster = lgb.Booster(model_str=model_text([tree]))
    ensemble = load(booster)
    near = [0.0, 1e-36, 1e-30, 1.0, 5e-324, 1e300, 1.7e308, np.inf, ZERO]
    near += [np.nextafter(ZERO, 0), np.nextafter(ZERO, 1), 0.5, np.nextafter(0.5, 1)]
    X = np.array([[v * sign] for v in near for sign in (1, -1)] + [[np.nan]])
    assert_same(ensemble.raw_score(X), booster.predict(X))


def model_text(trees: list[str], features: int = 1, header: str = "objective=regression") -> str:
    """A model file around bare trees."""
    blocks = [
        f"Tree={i}\nnum_leaves={len(re.search('leaf_value=(.*)', tree)[1].split())}\nnum_cat=0\n"
        f"{tree}is_linear=0\nshrinkage=1\n\n\n"
        for i, tree in enumerate(trees)
    ]
    names = " ".join(f"Column_{i}" for i in range(features))
    ranges = " ".join("[-1:1]" for i in range(features))
    sizes = " ".join(str(len(block)) for block in blocks)
    return (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        f"max_feature_idx={features - 1}\n{header}\nfeature_names={names}\n"
        f"feature_infos={ranges}\ntree_sizes={sizes}\n\n{''.join(blocks)}end of trees\n\n"
        "feature_importances:\n\nparameters:\nend of parameters\n\npandas_categorical:null\n"
    )


def random_tree(rng: np.random.Generator, leaves: int, features: int) -> str:
    """A random tree whose splits use every missing type, around zero and away from it."""
    left, right = [-1] * (leaves - 1), [-2] * (leaves - 1)
    for node in range(1, leaves - 1):  # as LightGBM grows trees: a leaf becomes split `node`
        leaf = ~int(rng.integers(0, node + 1))
        for side in (left, right):
            side[:node] = [node if child == leaf else child for child in side[:node]]
        left[node], right[node] = leaf, ~(node + 1)
    thresholds = rng.choice([-1.0, -0.5, -ZERO, -0.0, ZERO, 0.5, 1.0, 2.0], leaves - 1)
    fields = {
        "split_feature": rng.integers(0, features, leaves - 1),
        "threshold": [repr(float(t)) for t in thresholds],
        "decision_type": rng.choice([0, 2, 4, 6, 8, 10], leaves - 1),
        "left_child": left,
        "right_child": right,
        "leaf_value": [repr(float(v)) for v in rng.normal(size=leaves)],
    }
    return "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in fields.items())


@pytest.mark.parametrize("seed", range(12))
def test_nested_splits_for_zero_as_missing_equal_lightgbm(seed, assert_same):
    rng = np.random.default_rng(seed)
    features = 1 + seed % 3
    grown = [random_tree(rng, int(rng.integers(2, 12)), features) for _ in range(6)]
    booster = lgb.Booster(model_str=model_text(grown, features))
    ensemble = load(booster)
    values = [-2.0, -1.0, -0.7, -0.5, -0.3, -1e-30, -ZERO, -1e-36, 0.0, 1e-36, ZERO, 1e-30]
    values += [0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, np.nan]
    X = rng.choice(values, size=(4000, features))
    assert_same(ensemble.raw_score(X), booster.predict(X))


def test_a_tree_that_would_explode_is_refused_by_name():
    rng = np.random.default_rng(0)
    depth = 40
    tree = "".join(
        f"{key}={' '.join(map(str, values))}\n"
        for key, values in {
            "split_feature": range(depth),
            "threshold": [0.5] * depth,
            "decision_type": [4] * depth,  # zero goes right, 0.1 goes left
            "left_child": [*range(1, depth), -1],
            "right_child": range(-2, -depth - 2, -1),
            "leaf_value": rng.normal(size=depth + 1),
        }.items()
    )
    with pytest.raises(ModelError, match=r"tree 0 .* 64 times as many nodes; train it with"):
        load(lgb.Booster(model_str=model_text([tree], depth)))


def test_file_and_booster_are_the_same_ensemble(tmp_path):
    booster = train(target_for(OBJECTIVES["multiclass"]), **OBJECTIVES["multiclass"])
    text, dump = tmp_path / "a", tmp_path / "b.txt"
    booster.save_model(text)
    dump.write_text(json.dumps(booster.dump_model()))
    with pytest.raises(ModelError, match=r"dump_model returns.*; save the model with"):
        load(dump)
    (tmp_path / "c.json").write_bytes(gzip.compress(text.read_bytes()))
    (tmp_path / "d").write_bytes(text.read_bytes().replace(b"\n", b"\r\n"))
    for path in (text, str(tmp_path / "c.json"), tmp_path / "c.json", tmp_path / "d"):
        assert load(path) == load(booster)


def test_feature_names_and_links_survive():
    X, y = data()
    dataset = lgb.Dataset(X, classes_of(y, 2), feature_name=["a", "größe", "c=d", "f\xa0g", "e"])
    booster = lgb.train(
        {"objective": "binary", "sigmoid": 2.0, "verbose": -1, "num_threads": 1}, dataset, 2
    )
    ensemble = load(booster)
    assert ensemble.feature_names == ("a", "größe", "c=d", "f\xa0g", "e")
    assert (ensemble.task, ensemble.link, ensemble.link_scale) == ("binary", "logistic", 2.0)
    probability = 1 / (1 + np.exp(-2.0 * ensemble.raw_score(X)))
    np.testing.assert_allclose(probability, booster.predict(X), rtol=1e-14)


def test_estimators_bring_their_classes():
    X, y = data()
    two = np.array(["no", "yes"])[classes_of(y, 2)]
    three = np.array([7, 8, 11])[classes_of(y, 3)]
    for labels in (two, three):
        model = lgb.LGBMClassifier(n_jobs=1, n_estimators=4, verbose=-1).fit(X, labels)
        ensemble = load(model)
        assert ensemble.classes.tolist() == np.unique(labels).tolist()
        assert (ensemble.decide(X) == model.predict(X)).all()
        assert load(model, classes=list("xyz")[: len(ensemble.classes)]).classes[0] == "x"
    regressor = lgb.LGBMRegressor(n_jobs=1, n_estimators=4, verbose=-1).fit(X, y)
    assert load(regressor).task == "regression"
    assert (load(regressor).raw_score(X) == regressor.predict(X)).all()
    assert load(regressor, classes=[-1, 1]).task == "binary"


def test_a_custom_objective_is_regression_unless_classes_are_given():
    X, y = data()
    two = classes_of(y, 2)

    def logistic(raw, dataset):
        p = 1 / (1 + np.exp(-raw))
        return p - dataset.get_label(), p * (1 - p)

    booster = train(two, objective=logistic)
    assert load(booster).task == "regression"
    ensemble = load(booster, classes=["no", "yes"])
    assert ensemble.task == "binary"
    assert (ensemble.decide(X) == np.where(booster.predict(X) >= 0, "yes", "no")).all()


def test_no_trees_and_trees_of_one_leaf_work(assert_same):
    X, y = data()
    constant = train(np.ones(len(y)), objective="regression")
    assert_same(load(constant).raw_score(X), constant.predict(X))
    empty = lgb.Booster(model_str=model_text([]).replace("tree_sizes=\n", "tree_sizes=\n"))
    assert load(empty).n_trees == 0
    assert_same(load(empty).raw_score([[3.0]]), [0.0])


def test_feature_that_is_a_number_here_and_a_category_there_is_refused_by_name(tmp_path):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=300), rng.integers(0, 5, 300)]
    y = X[:, 0] + np.isin(X[:, 1], [1, 4]) * 3
    names = ["size", "colour"]
    first = lgb.train({"verbose": -1}, lgb.Dataset(X, y, feature_name=names), 2)
    dataset = lgb.Dataset(X, y, categorical_feature=[1], feature_name=names)
    booster = lgb.train({"verbose": -1}, dataset, 2, init_model=first)
    message = r"feature 1 is categorical, and a split compares it with a threshold; "
    with pytest.raises(ModelError, match="^Booster: " + message):
        load(booster)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    with pytest.raises(ModelError, match="^" + re.escape(str(path)) + ": " + message):
        load(path)


def test_linear_trees_are_refused_by_name():
    X, y = data(missing=0.0)
    booster = lgb.train({"linear_tree": True, "verbose": -1}, lgb.Dataset(X, y), 3)
    with pytest.raises(ModelError, match=r"tree \d has linear models .*; train with linear_tree"):
        load(booster)


# ── expected outputs of others ───────────────────────────────────────────────────────────────


def table(path: Path) -> np.ndarray:
    return np.loadtxt(path, ndmin=2)  # unpacks .gz


def test_leaves_random_forest(shared_data):
    folder = shared_data / "models" / "dmitryikh_leaves"
    rows = gzip.decompress((folder / "iris_test.libsvm.gz").read_bytes()).decode().split("\n")
    X = np.array([[float(p.split(":")[1]) for p in row.split()[1:]] for row in rows if row])
    truth = table(folder / "lg_rf_iris_true_predictions.txt.gz")[:, 0]
    ensemble = load(folder / "lg_rf_iris.model.gz")
    assert ensemble.average == ensemble.n_trees == 30
    np.testing.assert_allclose(ensemble.raw_score(X), truth, rtol=1e-14)
    labels = np.array([row[0] != "0" for row in rows if row])  # one species against the others
    assert (ensemble.decide(X) == labels).all()


def test_leaves_categorical_splits(shared_data, assert_same):
    folder = shared_data / "models" / "dmitryikh_leaves"
    X = table(folder / "kddcup99_test.tsv.gz")
    truth = table(folder / "lg_kddcup99_true_predictions.txt.gz")
    ensemble = load(folder / "lg_kddcup99.model.gz")
    assert len(ensemble.categories) == 10
    assert list(ensemble.categories[3]) == [1, 2, 4, 5, 6, 7, 8, 9]
    np.testing.assert_allclose(ensemble.raw_score(X), truth, rtol=1e-13)
    text = gzip.decompress((folder / "lg_kddcup99.model.gz").read_bytes()).decode()
    booster = lgb.Booster(model_str=text)
    assert_same(ensemble.raw_score(X), booster.predict(X, raw_score=True))
