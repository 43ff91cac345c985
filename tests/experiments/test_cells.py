"""What the cells of a run hold."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import carvegbm as cg
from carvegbm_experiments import milp
from carvegbm_experiments.compute import kinds, models
from carvegbm_experiments.compute.attacked import Images, attacked_images
from carvegbm_experiments.compute.models import Bench
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import QUICK
from carvegbm_experiments.report import page
from carvegbm_experiments.store.folder import Store
from carvegbm_experiments.store.pixels import original_pixels
from experiments.runs import CELLS, run


@pytest.fixture(autouse=True)
def without_drawing(monkeypatch):
    monkeypatch.setattr(page, "html", lambda cells: f"<p>{len(list(cells))} cells</p>")


def results(whole, kind, **wanted):
    return [
        cell["result"]
        for cell in whole[0].values()
        if cell["kind"] == kind and wanted.items() <= cell["configuration"].items()
    ]


def test_models_are_chosen_on_validation_data(whole):
    for criterion in ("accuracy", "robustness"):
        found = results(whole, "large-spread", criterion=criterion)
        assert found
        for result in found:
            name = f"validation_{criterion}"
            assert result[name] == max(c[name] for c in result["candidates"])
            assert result["robustness"] <= result["accuracy"]
            chosen = [c for c in result["candidates"] if c["num_leaves"] == result["num_leaves"]]
            assert chosen[0]["accuracy"] == result["accuracy"]


def test_a_curve_falls_from_the_accuracy_and_holds_the_robustness(whole):
    for model in ("plain", "large-spread", "certified"):
        (curve,) = results(whole, "curve", dataset="digits", model=model)
        assert curve["lower"] == sorted(curve["lower"], reverse=True)
        assert all(low <= high for low, high in zip(curve["lower"], curve["upper"], strict=True))
    (plain,) = results(whole, "curve", dataset="digits", model="plain")
    (robustness,) = results(whole, "plain-robustness", dataset="digits")
    at = plain["budgets"].index(0.04)
    assert [plain["lower"][at], plain["upper"][at]] == robustness["robustness"]
    assert plain["lower"][0] == robustness["accuracy"]


@pytest.mark.parametrize("norm", ["inf", "1", "0"])
def test_gallery_images_rebuilt_from_the_cell_fool_the_plain_model_within_the_budget(
    tmp_path, norm
):
    (cell,) = [c for c in plan(QUICK, norms=[norm]) if c.kind == "gallery"]
    run(tmp_path, [cell])
    setting = cell.configuration
    images = Store(tmp_path).find("gallery", setting)["result"]["images"]
    bench = Bench(Store(tmp_path), download=False, threads=1)
    model = bench.plain(setting).best.ensemble
    classes, split = bench.dataset("digits").classes, bench.split(setting)
    attacker = models.attacker_of(setting)
    assert 2 <= len(images) <= 4
    assert {image["label"] for image in images} == set(classes)
    assert [image["distance"] for image in images] == sorted(i["distance"] for i in images)
    for image in images:
        assert image["levels"] == 16
        x = np.array(original_pixels(image))
        assert (split.X_test == x).all(axis=1).any()
        z = x.copy()
        for pixel, value in image["changed"]:
            assert value != x[pixel]
            z[pixel] = value
        assert image["label"] == classes[model.decide([x])[0]]
        assert image["predicted"] == classes[model.decide([z])[0]] != image["label"]
        assert attacker.distance(model, x, z) == image["distance"] <= setting["budget"]
        assert image["margin"] <= 0


class Beside:
    """A model with a threshold right beside 0 and one at 0.5: everything falls, little shows."""

    trees = (
        {
            "feature": 0,
            "threshold": 1e-35,
            "left": {"score": 1.0},
            "right": {
                "feature": 1,
                "threshold": 0.5,
                "left": {"score": 1.0},
                "right": {"score": -1.0},
            },
        },
    )
    model = cg.Ensemble.from_trees(trees, n_features=2)
    # Beside the first threshold, beside the second, one step away from the second; and class 0.
    X = np.array([[0.0, 1.0], [1.0, 0.5], [1.0, 0.41], [1.0, 0.7], [1e-34, 0.9]])
    y = np.array([1, 1, 1, 0, 0])


def gallery_of_beside(rows, count=2):
    return attacked_images(
        Beside.model,
        Images(Beside.X[rows], Beside.y[rows], ("no", "yes")),
        cg.Attacker("inf", 0.3),
        count=count,
        detail=lambda _: None,
        timeout=5.0,
        threads=1,
    )


def test_galleries_prefer_a_change_that_can_be_seen():
    found = gallery_of_beside([0, 1, 2, 3, 4])
    assert [image["label"] for image in found["images"]] == ["yes", "no"]
    assert [image["changed"] for image in found["images"]] == [
        [[1, np.nextafter(0.5, 1)]],
        [[1, 0.5]],
    ]
    assert (found["tried"], found["faint"]) == (5, 0)
    assert found["images"][0]["levels"] is None  # 0.41 is no grey level
    assert found["images"][0]["original"] == [1.0, 0.41]


def test_galleries_fall_back_to_changes_that_cannot_be_seen():
    found = gallery_of_beside([0, 4])
    assert (found["tried"], found["faint"]) == (2, 2)
    yes = next(image for image in found["images"] if image["label"] == "yes")
    ((pixel, value),) = yes["changed"]
    assert (pixel, value) == (0, np.nextafter(1e-35, 1))


def test_a_budget_of_nothing_is_measured_on_plain_models(whole):
    for result in results(whole, "plain"):
        assert 0 <= result["flipped_by_nothing"] <= 1
    split = SimpleNamespace(X_test=Beside.X, y_test=Beside.y)
    assert kinds._flipped_by_nothing(Beside.model, split, 1) == 2 / 5


def test_every_engine_sees_a_row_before_its_time_is_taken(tmp_path, monkeypatch):
    verify, judge, seen = cg.verify, milp.verify, {}

    def watched(model, X, y, attacker, *, engine="auto", **options):
        seen.setdefault(engine, []).append(len(X))
        return verify(model, X, y, attacker, engine=engine, **options)

    def judging(model, X, y, attacker, **options):
        seen.setdefault("milp", []).append(len(X))
        return judge(model, X, y, attacker, **options)

    monkeypatch.setattr(cg, "verify", watched)
    monkeypatch.setattr(milp, "verify", judging)
    run(tmp_path, [next(c for c in CELLS if c.kind == "speed-up")])
    assert set(seen) == {"large-spread", "search", "milp"}
    assert all(counts[0] == 1 < counts[1] for counts in seen.values())


def test_times_compare_models_of_the_same_size(whole):
    for result in results(whole, "time") + results(whole, "speed-up"):
        assert result["plain_trees"] == result["trees"]
        assert result["plain_leaves"] == pytest.approx(result["leaves"], rel=0.25)


def test_certified_training_takes_the_most_robust_model_that_is_accurate_enough(whole):
    found = results(whole, "certified")
    assert found
    for result in found:
        assert len(result["candidates"]) == 6  # two numbers of leaves, three of quietness
        floor = float(re.search(r"as accurate as (0\.\d+)", result["why"])[1])
        able = [c for c in result["candidates"] if c["validation_accuracy"] >= floor - 5e-5]
        best = max(c["validation_robustness"] for c in able)
        assert result["validation_robustness"] == best
        names = ("num_leaves", "quietness", "refit")
        chosen = [c for c in able if all(c[name] == result[name] for name in names)]
        assert chosen[0]["robustness"] == result["robustness"]


def test_certified_and_large_spread_models_are_large_spread(tmp_path, whole):
    bench = Bench(Store(tmp_path), download=False, threads=1)
    cell = next(c for c in CELLS if c.kind == "certified" and c.dataset == "digits")
    trials = bench.certified(cell.configuration)
    assert all(
        cg.is_large_spread(c.ensemble, models.attacker_of(cell.configuration)) for c in trials.all
    )
    (chosen,) = results(whole, "certified", dataset="digits")
    assert trials.best.num_leaves == chosen["num_leaves"]
