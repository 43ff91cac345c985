"""Attackers as people have them: what is planned, how it is computed, what the tables say of it."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm_experiments.compute import attackers as computing
from carvegbm_experiments.compute import fitting
from carvegbm_experiments.compute.data import UnavailableError
from carvegbm_experiments.compute.frames import framed
from carvegbm_experiments.compute.models import Bench
from carvegbm_experiments.plan.attackers import COVERTYPE_COLUMNS, PLAIN, STUDIES
from carvegbm_experiments.plan.cell import Cell
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import PAPER, QUICK
from carvegbm_experiments.report import page
from carvegbm_experiments.report.tables.chapters import tables
from carvegbm_experiments.report.tables.table import DASH
from carvegbm_experiments.store.folder import Store
from carvegbm_experiments.store.verdicts import read_verdicts, stored_verdicts
from experiments.runs import contents, run
from experiments.sample_cells import attackers

PLANNED = plan(PAPER, only=["attackers"])
QUICKLY = plan(QUICK, only=["attackers"])
NSL_KDD, COVTYPE, FMNIST = STUDIES


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("CARVEGBM_DATA", raising=False)
    monkeypatch.setattr(page, "html", lambda _: "")


def attacker_of(cell, options="options"):
    setting = cell.configuration
    return cg.Attacker.from_dict(
        {"norm": setting["norm"], "budget": setting["budget"], **setting[options]}
    )


# ── the plan ─────────────────────────────────────────────────────────────────────────────────


def test_every_planned_attacker_is_one_that_carvegbm_takes():
    assert {cell.dataset for cell in PLANNED} == {"nsl-kdd", "covtype", "fmnist"}
    for cell in (*PLANNED, *QUICKLY):
        attacker = attacker_of(cell)
        assert cg.Attacker.from_dict(attacker.to_dict()) == attacker
        if "trained" in cell.configuration:
            attacker_of(cell, "training")


def test_who_can_only_add_lowers_nothing_and_moves_in_whole_numbers():
    real = {c.configuration["norm"]: attacker_of(c) for c in PLANNED if "(raise)" in c.title}
    assert set(real) == {"inf", "1", "0"}
    for attacker in real.values():
        assert {down for down, _ in attacker.scale.values()} == {0}
        assert set(attacker.step.values()) == {1}
        assert set(attacker.scale) <= set(attacker.features)
    assert set(real["0"].features) - set(real["1"].features) == {"service", "flag"}
    assert set(real["0"].categories) == {"service", "flag"}


def test_a_twin_may_do_all_that_the_real_attacker_may_where_no_groups_are_lost():
    for study in (NSL_KDD, FMNIST):
        for norm, budget in study.attackers:
            real, twin = (
                cg.Attacker.from_dict({"norm": norm, "budget": budget, **study.allowed(kind, norm)})
                for kind in (study.real, study.twin)
            )
            assert (real.features, real.bounds) == (twin.features, twin.bounds)
            assert real.categories == twin.categories
            assert twin.step is None
            for feature, scale in (real.scale or {}).items():
                assert scale[1] == twin.scale[feature]


def test_plain_models_meet_both_and_ours_are_trained_for_whom_they_meet():
    for cell in PLANNED:
        setting = cell.configuration
        assert ("trained" in setting) == (setting["model"] not in PLAIN)
        if setting["model"] == "robust":
            assert setting["training"] == setting["options"]
    for study in STUDIES:
        for model in set(PLAIN) & set(study.parameters):
            met = [
                (c.configuration["norm"], c.configuration["budget"], c.configuration["limits"])
                for c in PLANNED
                if c.dataset == study.dataset and c.configuration["model"] == model
            ]
            wanted = [(*a, kind) for a in study.attackers for kind in (study.real, study.twin)]
            assert sorted(met) == sorted(wanted)


def test_images_are_trained_with_the_settings_of_table_2():
    chosen = {("inf", 0.005): 128}
    for cell in PLANNED:
        setting = cell.configuration
        if cell.dataset == "fmnist":
            parameters, attacker = setting["parameters"], (setting["norm"], setting["budget"])
            assert attacker in PAPER.attackers["fmnist"]
            assert parameters["n_estimators"] == PAPER.trees
            assert parameters["early_stopping"] == PAPER.early_stopping
            leaves = chosen.get(attacker, 16) if setting["model"] == "large-spread" else 16
            assert parameters["num_leaves"] == leaves


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(name="data")
def make_data(tmp_path):
    """A folder with a little of both tables."""
    random = np.random.default_rng(0)
    folder = tmp_path / "data" / "tabular"
    folder.mkdir(parents=True)
    names = [*NSL_KDD.options["raise"][""]["features"], "service", "flag", "rate"]
    services = [*NSL_KDD.options["raise"]["0"]["categories"]["service"], "time"]
    flags = ["SF", "S0", "REJ", "RSTO", "RSTOS0", "SH"]

    def table(rows):
        counters = random.integers(0, 250, (rows, 7))
        service, flag = random.integers(0, len(services), rows), random.integers(0, 6, rows)
        rate = random.random(rows)
        attack = (flag > 0) & (counters[:, 3] > 40) | (rate > 0.8)
        return np.column_stack([counters, service, flag, rate]).astype(np.float32), attack

    (X, y), (X_test, y_test) = table(800), table(150)
    arrays = {"feature_names": np.array(names), "categorical": np.array([7, 8])}
    arrays |= {"cats_service": np.array(services), "cats_flag": np.array(flags)}
    parts = {"X_train": X, "y_train": y, "X_test": X_test, "y_test": y_test}
    np.savez(folder / "nsl_kdd.npz", **arrays, **parts)
    X = np.zeros((400, len(COVERTYPE_COLUMNS)), dtype=np.int16)
    X[:, :10] = random.integers(0, 200, (400, 10))
    area, soil = random.integers(0, 4, 400), random.integers(0, 40, 400)
    X[np.arange(400), 10 + area] = X[np.arange(400), 14 + soil] = 1
    np.savez(folder / "covtype_20k.npz", X=X, y=1 + (X[:, 0] > 60) + (area > 1))
    return folder.parent


def test_categories_are_categories_and_nothing_is_scaled(data):
    part = framed("nsl-kdd", data, 100, 0)
    assert (len(part.X_train), len(part.X_valid), len(part.X_test)) == (640, 160, 100)
    assert part.X_train["flag"].dtype == "category"
    assert list(part.X_train["flag"].cat.categories) == ["SF", "S0", "REJ", "RSTO", "RSTOS0", "SH"]
    assert part.X_train["count"].max() > 200
    arrays = np.load(data / "tabular" / "nsl_kdd.npz")
    shares = [np.mean(y) for y in (part.y_test, arrays["y_test"])]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_without_a_test_set_a_fifth_is_kept_apart_and_classes_begin_at_0(data):
    part = framed("covtype", data, 1000, 0)
    assert (len(part.X_train), len(part.X_valid), len(part.X_test)) == (256, 64, 80)
    assert set(part.y_train) == {0, 1, 2}
    assert (part.X_test[[f"area_{n}" for n in range(1, 5)]].sum(axis=1) == 1).all()


def test_data_that_is_not_there_is_named_with_a_remedy(tmp_path):
    with pytest.raises(UnavailableError, match=r"^covtype: covtype_20k.npz is not there; put it"):
        framed("covtype", tmp_path, 10, 0)


# ── cells ────────────────────────────────────────────────────────────────────────────────────


def small(cell):
    """The cell with few trees."""
    parameters = {"n_estimators": 5, "early_stopping": 5}
    size = {"catboost": {"depth": [2, 3]}, "xgboost": {"max_leaves": 4}}
    parameters |= size.get(cell.configuration["model"], {"num_leaves": [4, 8]})
    return Cell(cell.kind, {**cell.configuration, "parameters": parameters}, 1.0)


def cells_of(dataset, model, norm):
    found = [cell for cell in PLANNED if cell.dataset == dataset]
    found = [cell for cell in found if cell.configuration["model"] == model]
    return [small(cell) for cell in found if cell.configuration["norm"] == norm]


@pytest.mark.parametrize("norm", ["inf", "1", "0"])
@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "catboost", "large-spread"])
def test_a_detector_is_as_robust_as_its_verdicts_say(tmp_path, data, model, norm):
    pytest.importorskip(model if model in PLAIN else "lightgbm")
    bench = Bench(Store(tmp_path / "results"), data=data, download=False, threads=1)
    for cell in cells_of("nsl-kdd", model, norm):
        result = computing.attackers(cell, bench)
        letters = read_verdicts(result["verdicts"])
        assert len(letters) == result["rows"] == 150
        assert letters.count("r") == result["robustness"][0] * 150
        assert letters.count("w") == pytest.approx((1 - result["accuracy"]) * 150)
        assert sum(counts["rows"] for counts in result["by_class"]) == 150
        assert result["unknown"] == sum(counts["unknown"] for counts in result["by_class"]) == 0


def test_the_real_attacker_flips_nothing_that_its_twin_cannot(tmp_path, data):
    bench = Bench(Store(tmp_path), data=data, download=False, threads=1)
    by_budget = {}
    for cell in cells_of("nsl-kdd", "lightgbm", "1"):
        result = computing.attackers(cell, bench)
        by_budget.setdefault(cell.configuration["budget"], []).append(result["verdicts"])
    assert len(by_budget) == 2
    for real, twin in by_budget.values():
        pairs = set(zip(read_verdicts(real), read_verdicts(twin), strict=True))
        assert ("f", "r") not in pairs
        assert ("r", "f") in pairs
    assert len(list(tmp_path.glob("models/attackers/nsl-kdd/*.ensemble.json"))) == 1  # for all


def test_groups_are_kept_whole_in_training_and_in_verification(tmp_path, data):
    bench = Bench(Store(tmp_path), data=data, download=False, threads=1)
    for cell in cells_of("covtype", "large-spread", "0"):
        result = computing.attackers(cell, bench)
        assert result["robustness"][0] <= result["accuracy"]
        if cell.configuration["trained"] == cell.configuration["limits"] == "groups":
            assert set(result["engines"]) == {"large-spread"}


def test_the_trial_with_the_largest_validation_accuracy_is_chosen(tmp_path, data, monkeypatch):
    tried = []
    trainer = fitting._TRAINERS["lightgbm"]

    def watched(job, parameters):
        ensemble, predicted = trainer(job, parameters)
        tried.append((np.mean(predicted == job.part.y_valid), parameters["num_leaves"]))
        return ensemble, predicted

    monkeypatch.setitem(fitting._TRAINERS, "lightgbm", watched)
    bench = Bench(Store(tmp_path), data=data, download=False, threads=1)
    result = computing.attackers(cells_of("nsl-kdd", "lightgbm", "inf")[0], bench)
    assert [leaves for _, leaves in tried] == [4, 8]
    assert result["validation_accuracy"] == max(accuracy for accuracy, _ in tried)
    assert (result["validation_accuracy"], result["chosen"]["num_leaves"]) in tried


def test_a_model_that_is_read_wrongly_is_refused(tmp_path, data, monkeypatch):
    trainer = fitting._TRAINERS["lightgbm"]

    def wrong(job, parameters):
        ensemble, predicted = trainer(job, parameters)
        return ensemble, 1 - predicted

    monkeypatch.setitem(fitting._TRAINERS, "lightgbm", wrong)
    bench = Bench(Store(tmp_path), data=data, download=False, threads=1)
    with pytest.raises(cg.CarveError, match="decides otherwise"):
        computing.attackers(cells_of("nsl-kdd", "lightgbm", "inf")[0], bench)


def test_a_library_that_is_not_installed_is_named(tmp_path, data, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    bench = Bench(Store(tmp_path), data=data, download=False, threads=1)
    with pytest.raises(cg.CarveError, match="pip install xgboost"):
        computing.attackers(cells_of("nsl-kdd", "xgboost", "inf")[0], bench)


def test_models_are_found_again_and_cells_come_out_the_same(tmp_path, monkeypatch):
    run(tmp_path / "one", QUICKLY)
    run(tmp_path / "two", QUICKLY)
    for path in (tmp_path / "two" / "cells").rglob("*.json"):
        path.unlink()
    monkeypatch.setattr(computing, "fit", None)
    run(tmp_path / "two", QUICKLY)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != {}


def test_a_kept_model_that_was_changed_is_refused(tmp_path):
    run(tmp_path, QUICKLY[:1])
    (path,) = tmp_path.glob("models/attackers/digits/*.ensemble.json")
    text = path.read_text()
    path.write_text(text.replace('"scores": [0.', '"scores": [1.', 1))
    assert path.read_text() != text
    with pytest.raises(cg.CarveError, match="not the model that was kept"):
        computing.attackers(QUICKLY[0], Bench(Store(tmp_path), download=False, threads=1))


# ── tables ───────────────────────────────────────────────────────────────────────────────────


def table(name, cells):
    return next(found for found in tables(cells) if found.id == name)


def test_verdicts_survive_being_stored():
    for letters in ("", "r", "rrfuw", "w" * 30 + "rf"):
        assert read_verdicts(stored_verdicts(letters)) == letters


def test_a_detector_is_judged_by_the_attacks_that_can_be_turned():
    found = table("attackers-nsl-kdd", attackers(NSL_KDD, letters="frrrrrrfrw"))
    shown = dict(zip(found.flat_header(), found.rows[0], strict=True))
    assert (shown["attacker"], shown["model"]) == ("L∞ 1", "LightGBM")
    assert (shown["all rows: accuracy"], shown["all rows: robustness"]) == ("0.9000", "0.7000")
    # Of the five attacks, one is wrong already and one can be turned.
    assert (shown["attacks: recognised"], shown["attacks: turned"]) == ("0.8000", "0.2000")
    assert shown["normal rows: false alarms"] == "0.0000"
    assert shown["model: time per row"] == "2 ms"
    assert found.missing == frozenset()


def test_what_the_twin_takes_and_the_real_attacker_cannot_is_said():
    found = table("attackers-nsl-kdd", attackers(NSL_KDD))
    assert "LightGBM 50 %, XGBoost 50 %, CatBoost 50 %." in found.notes[0]
    models = [row[1] for row in found.rows if row[0] == "L1 10"]
    assert models[-3:] == ["large-spread", "large-spread for “either way”", "robust training"]
    trained_for_the_real_one = next(row for row in found.rows if row[1] == "large-spread")
    assert trained_for_the_real_one[7] == DASH  # it has not met the twin


def test_groups_say_what_is_over_reported_and_what_is_missed_without_them():
    found = table("attackers-covtype", attackers(COVTYPE, letters="frrrrrrrrw"))
    shown = dict(zip(found.flat_header(), found.rows[0], strict=True))
    assert (shown["columns: over-reported"], shown["columns: missed"]) == ("0.2000", "0.1000")


def test_levels_stand_beside_reals_with_their_trees():
    found = table("attackers-fmnist", attackers(FMNIST))
    assert [row[0] for row in found.rows][::3] == ["L∞ 0.005", "L1 0.05"]
    shown = dict(zip(found.flat_header(), found.rows[0], strict=True))
    assert (shown["plain LightGBM: reals"], shown["plain LightGBM: levels"]) == ("0.7000", "0.8000")
    assert shown["large-spread for levels: trees"] == "120"


def test_a_cell_that_is_missing_leaves_a_dash_and_is_counted():
    cells = attackers(COVTYPE)
    gone = [c for c in cells if c["configuration"]["model"] != "robust"]
    found = table("attackers-covtype", gone)
    assert len(found.missing) == len(cells) - len(gone) == 5
    assert f"Not computed yet: {len(found.missing)} cells of this table." in found.notes
    assert [row[2] for row in found.rows if row[1] == "robust training"] == [DASH] * 5
    assert [t.id for t in tables(gone)] == ["attackers-covtype"]  # and no row in Table 1
