"""Which boosting iterations of a model are read: those of its own predict, or those asked for."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import carvegbm as cg
import early_stopped
from carvegbm import load
from carvegbm.storage.identity import digest_of
from plain_trees import ensemble, refused, stump

XGBOOST: dict[str, dict[str, Any]] = {
    "two classes": {},
    "three classes": {"n_classes": 3},
    "forests": {"n_classes": 3, "num_parallel_tree": 2, "subsample": 0.7},
    "dart": {"booster": "dart", "rate_drop": 0.3},
}


def equal(kind: str, mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Bit for bit; XGBoost adds up the trees of a dart booster in another order."""
    if kind == "dart":
        return np.allclose(mine, theirs, rtol=0, atol=1e-6)
    return np.array_equal(mine, theirs)


# ── XGBoost ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", XGBOOST)
@pytest.mark.parametrize(
    "suffix",
    ["json", "ubj", pytest.param("deprecated", marks=pytest.mark.filterwarnings("ignore"))],
)
def test_a_file_is_read_as_xgboosts_own_estimator_reads_it(kind, suffix, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    model, path = early_stopped.saved(tmp_path, suffix, **XGBOOST[kind])
    again = xgboost.XGBClassifier()
    again.load_model(path)
    X, _ = early_stopped.rows(seed=1)
    read = load(path)
    assert equal(kind, read.raw_score(X), again.predict(X, output_margin=True))
    np.testing.assert_array_equal(read.decide(X), again.predict(X))
    assert read == load(model) == load(path, iteration_range="best")

    booster = model.get_booster()
    whole = load(path, iteration_range="all")
    assert equal(kind, whole.raw_score(X), margin(booster, X))
    assert whole == load(booster)
    three = load(path, iteration_range=3)
    assert equal(kind, three.raw_score(X), margin(booster, X, iteration_range=(0, 3)))
    assert three == load(booster, iteration_range=(0, 3)) == load(model, iteration_range=3)
    assert (three.n_trees, read.n_trees) == tuple(
        n * whole.n_trees // booster.num_boosted_rounds() for n in (3, model.best_iteration + 1)
    )


def margin(booster: Any, X: np.ndarray, **options: Any) -> np.ndarray:
    import xgboost

    return booster.predict(xgboost.DMatrix(X), output_margin=True, **options)


# ── LightGBM and CatBoost ────────────────────────────────────────────────────────────────────


def lightgbm_booster(**more: Any) -> lightgbm.Booster:
    X, y = early_stopped.rows(n_classes=3)
    data = lightgbm.Dataset(X[:200], y[:200], free_raw_data=False)
    parameters = {"objective": "multiclass", "num_class": 3, "num_leaves": 7, "verbose": -1}
    booster = lightgbm.train(
        parameters | {"learning_rate": 0.3, "num_threads": 1} | more,
        data,
        40,
        valid_sets=[lightgbm.Dataset(X[200:], y[200:], reference=data)],
        callbacks=[lightgbm.early_stopping(5, verbose=False)],
        keep_training_booster=True,
    )
    assert 0 < booster.best_iteration < booster.current_iteration()
    return booster


def test_a_lightgbm_booster_is_read_up_to_its_best_iteration_or_as_asked(tmp_path):
    booster = lightgbm_booster()
    X, _ = early_stopped.rows(seed=1)

    def own(count: int | None) -> np.ndarray:
        return booster.predict(X, raw_score=True, num_iteration=count)

    for asked, count in ((None, None), ("best", None), ("all", -1), (3, 3), ((0, 3), 3)):
        assert (load(booster, iteration_range=asked).raw_score(X) == own(count)).all()
    assert load(booster).iterations == (
        booster.best_iteration,
        booster.current_iteration(),
        booster.best_iteration,
    )
    # A file holds the iterations up to the best one, or all; it does not say which is the best.
    for name, count in (("best.txt", None), ("all.txt", -1)):
        booster.save_model(tmp_path / name, num_iteration=count)
        file = load(tmp_path / name)
        assert (file.raw_score(X) == own(count)).all()
        assert file.iterations is None
        assert (load(tmp_path / name, iteration_range=3).raw_score(X) == own(3)).all()


def test_the_iterations_of_a_random_forest_of_lightgbm_are_averaged():
    X, y = early_stopped.rows()
    forest = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}
    model = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, **forest).fit(X, y)
    for count in (2, 6):
        probability = 1 / (1 + np.exp(-load(model, iteration_range=count).raw_score(X)))
        own = model.predict_proba(X, num_iteration=count)[:, 1]
        np.testing.assert_allclose(probability, own, rtol=1e-12)


@pytest.mark.parametrize("kind", ["CatBoostClassifier", "CatBoostRegressor"])
def test_a_catboost_model_is_read_with_all_its_trees_or_as_asked(kind, tmp_path):
    catboost = pytest.importorskip("catboost")
    X, y = early_stopped.rows()
    model = getattr(catboost, kind)(
        iterations=60,
        learning_rate=0.5,
        use_best_model=False,
        verbose=0,
        thread_count=1,
        allow_writing_files=False,
    ).fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    best, total = model.best_iteration_ + 1, model.tree_count_
    assert 1 < best < total

    def own(count: int) -> np.ndarray:
        return model.predict(X, prediction_type="RawFormulaVal", ntree_end=count)

    model.save_model(str(tmp_path / "m.json"), format="json")
    model.save_model(str(tmp_path / "m.cbm"))
    for source in (model, tmp_path / "m.json", tmp_path / "m.cbm"):
        for asked, count in ((None, total), ("all", total), ("best", best), (3, 3)):
            read = load(source, iteration_range=asked)
            assert (read.raw_score(X) == own(count)).all()
            assert read.iterations == (count, total, best)


def test_a_catboost_model_that_was_cut_or_does_not_know_its_best_iteration_has_none(tmp_path):
    catboost = pytest.importorskip("catboost")
    X, y = early_stopped.rows()
    quiet = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    plain = catboost.CatBoostClassifier(iterations=5, **quiet).fit(X, y)
    cut = catboost.CatBoostClassifier(iterations=30, learning_rate=0.5, **quiet)
    cut.fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))  # drops what follows the best iteration
    for model in (plain, cut):
        assert load(model).iterations is None
    cut.shrink(2)
    assert load(cut).iterations is None
    path = tmp_path / "m.json"
    plain.save_model(str(path), format="json")
    document = json.loads(path.read_text())
    del document["model_info"]["training"]
    path.write_text(json.dumps(document))
    assert load(path, iteration_range="best").n_trees == load(plain).n_trees
    document["model_info"]["training"] = json.dumps({"metrics": {"best_iteration": -3}})
    path.write_text(json.dumps(document))
    with refused("best_iteration", "damaged", kind=cg.ModelError):
        load(path)


# ── what is said, and what is equal ──────────────────────────────────────────────────────────


def test_ensembles_of_the_same_trees_are_equal_however_they_were_chosen(tmp_path):
    pytest.importorskip("xgboost")
    model, path = early_stopped.saved(tmp_path)
    read = load(path)
    sliced = load(model.get_booster()[: model.best_iteration + 1])
    assert sliced.iterations is None
    assert read == sliced
    assert digest_of(read) == digest_of(sliced)
    whole = load(path, iteration_range="all")
    assert read != whole
    assert digest_of(read) != digest_of(whole)


def test_copies_keep_what_is_known_of_iterations_and_a_saved_ensemble_is_a_model_of_its_own(
    tmp_path,
):
    pytest.importorskip("xgboost")
    _, path = early_stopped.saved(tmp_path)
    read = load(path)
    for copy in (pickle.loads(pickle.dumps(read)), load(read, classes=["no", "yes"])):
        assert copy.iterations == read.iterations
    read.save(tmp_path / "converted.json")
    converted = load(tmp_path / "converted.json")
    assert converted == read
    assert converted.iterations is None
    with refused("no iterations to choose from", "3", kind=cg.ModelError):
        load(tmp_path / "converted.json", iteration_range=3)


def test_more_iterations_than_there_are_are_refused(sample_folder):
    path: Path = sample_folder / "sample_model.txt"
    with refused("has 40 iterations", "1 to 40", "41", "--trees", kind=cg.ModelError):
        load(path, iteration_range=41)
    assert load(path, iteration_range=np.int64(40)) == load(path)


def test_models_without_iterations_refuse_to_choose_some():
    X, y = early_stopped.rows()
    forest = RandomForestClassifier(2, max_depth=2).fit(X, y)
    for source in (forest, ensemble(stump(0, 0.5))):
        assert load(source, iteration_range="best") == load(source)
        for asked in (1, "all"):
            with refused("no iterations to choose from", kind=cg.ModelError):
                load(source, iteration_range=asked)
