"""Reports of what is hard to report on: tiny radii, odd options, rare classes, Ctrl-C late."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier

import carvegbm as cg
from carvegbm.reports import asking
from carvegbm.reports.page import html
from carvegbm.reports.page.changes import before_and_after
from carvegbm.training.robust.trainer import Growth
from outlines import Outline
from reports.documents import everything, plain

STUMP = {"feature": 0, "threshold": 0.0, "left": {"score": -1}, "right": {"score": 1}}
MODEL = cg.Ensemble.from_trees([STUMP], n_features=1)
ATTACKER = cg.Attacker("inf", 0.1)


def small(X: Any, y: Any = None, **options: Any) -> dict[str, Any]:
    found = cg.report(MODEL, X, y, ATTACKER, progress=False, **options)
    assert "<html" in found.html()
    return json.loads(json.dumps(found.to_dict(), allow_nan=False))


def test_radii_that_are_the_smallest_double_have_a_bar() -> None:
    found = small([[0.0], [0.0]])["distances"][0]
    assert found["largest"] == 5e-324
    assert found["histogram"] == [{"from": 0.0, "to": 5e-324, "count": 2}]


@pytest.mark.parametrize("sample", [np.int64(1), 1.0])
def test_a_sample_or_seed_may_be_any_kind_of_whole_number(sample: Any) -> None:
    found = small([[0.4], [0.5]], sample=sample, seed=np.int32(1))
    assert found["settings"]["sample"] == found["settings"]["seed"] == 1
    assert found["attackers"][0]["population"] is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": float("nan")}, "sample must be a whole number"),
        ({"sample": "5"}, "sample must be a whole number"),
        ({"sample": True}, "sample must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0 to 2**31 - 1, got -1"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": 1 << 31}, "seed must be a whole number"),
        ({"names": 5}, "names must be one per feature, got 5"),
        ({"images": (float("inf"), 1)}, "images must be (height, width)"),
        ({"y": [[1]] * 60, "X": [[0.5]] * 60, "retrain": True}, "make it flat"),
        ({"y": range(60), "X": [[0.5]] * 60, "retrain": True}, "a class of 4 rows or more"),
        ({"X": None, "proof": "x.proof"}, "X must have two dimensions"),
    ],
)
def test_odd_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(cg.CarveError) as caught:
        small(**{"X": [[0.5]], **options})
    assert message in str(caught.value)


def test_a_file_that_is_none_is_no_file() -> None:
    assert small([[0.5]], files={"data": None})["data"]["file_sha256"] is None


# ── retraining ───────────────────────────────────────────────────────────────────────────────

ROWS = np.random.default_rng(0).random((120, 3))
LABELS = (ROWS[:, 0] > ROWS[:, 1]).astype(int)


def fitted(labels: Any, **options: Any) -> Any:
    model = LGBMClassifier(n_estimators=2, num_leaves=3, verbose=-1)
    return model.fit(ROWS, labels, **options)


def trained(model: Any, y: Any, attacker: cg.Attacker = ATTACKER, **options: Any) -> Any:
    options = {"sample": 3, "timeout": 0.5, "progress": False, **options}
    found = cg.report(model, ROWS, y, attacker, retrain=True, **options)
    return found.to_dict()["attackers"][0]["retraining"]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_class_of_one_row_is_trained_on_and_never_tested(seed: int) -> None:
    labels = LABELS.copy()
    labels[0] = 2
    found = trained(fitted(np.where(np.arange(120) < 40, 2, LABELS)), labels, seed=seed)
    assert sum(found["rows"].values()) == 120


def test_there_may_be_more_classes_than_a_fifth_of_the_rows() -> None:
    labels = np.arange(120) % 30
    assert trained(fitted(labels), labels)["rows"] == {"train": 60, "valid": 30, "test": 30}


def test_every_class_is_split_in_proportion() -> None:
    labels = np.arange(120) % 3
    assert trained(fitted(labels), labels)["rows"] == {"train": 72, "valid": 24, "test": 24}


def test_an_attacker_may_name_features_that_only_the_model_has_names_for() -> None:
    model = fitted(LABELS, feature_name=["a", "b", "c"])
    attacker = cg.Attacker("inf", 0.05, features=["a"], scale={"b": (0, 2)})
    assert trained(model, LABELS, attacker) == trained(
        model, LABELS, cg.Attacker("inf", 0.05, features=[0], scale={1: (0, 2)})
    )


# ── Ctrl-C when all is decided ───────────────────────────────────────────────────────────────


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_ctrl_c_while_training_leaves_the_page_without_the_unfinished_model(
    ctrl_c_at: Any, tmp_path: Path
) -> None:
    model = fitted(LABELS)
    to, unfinished = tmp_path / "page.json", tmp_path / "page.json.partial"
    with ctrl_c_at(Growth, "round", 5):
        found = cg.report(model, ROWS, LABELS, ATTACKER, to, retrain=True, progress=False)
    assert found.interrupted
    assert list(tmp_path.iterdir()) == [unfinished]
    (entry,) = json.loads(unfinished.read_text("utf-8"))["attackers"]
    assert entry["counts"]["unknown"] == 0
    assert entry["retraining"] is None


def test_ctrl_c_while_proving_leaves_the_page_and_no_proof(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("carvegbm.proofs.write._records", interrupt)
    made = cg.report(MODEL, [[0.5]], None, ATTACKER, proof=tmp_path / "p", progress=False)
    assert made.interrupted
    assert made.to_dict()["attackers"][0]["proof"] is None
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_checking_says_that_proofs_are_not_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("carvegbm_check.check", interrupt)
    against = [ATTACKER, cg.Attacker(1, 0.1)]
    made = cg.report(MODEL, [[0.5]], None, against, proof=tmp_path / "p", progress=False)
    first, second = (entry["proof"] for entry in made.to_dict()["attackers"])
    assert made.interrupted
    assert (first["checked"], first["said"]) == (False, "the check was interrupted")
    assert second is None
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    assert "the check was interrupted" in made.html()


# ── crowds ───────────────────────────────────────────────────────────────────────────────────


def crowds(threshold: float, x: float, budget: float, **options: Any) -> Any:
    stump = {**STUMP, "threshold": threshold}
    model = cg.Ensemble.from_trees([stump], n_features=1, **options)
    found = cg.report(model, [[x]], None, cg.Attacker("inf", budget), progress=False)
    return found.to_dict()["attackers"][0]["crowds"]


@pytest.mark.parametrize(("budget", "rows"), [(1e-9, 0), (1e-8, 1)])
def test_the_side_of_a_float32_model_is_that_of_what_it_reads(budget: float, rows: int) -> None:
    threshold = float(np.float32(0.1))
    near = crowds(threshold, threshold + 1e-12, budget, input_precision="float32")["near"]
    assert sum(crowd["rows"] for crowd in near) == rows


def test_only_thresholds_beside_zero_are_the_trap_of_lightgbm() -> None:
    beside = 1.0000000180025095e-35
    assert crowds(beside, 0.0, 0.1)["zeros"] == {"thresholds": 1, "features": 1, "rows": 1}
    for threshold in (0.0, -5e-324, 1e-30):
        found = crowds(threshold, 0.0, 0.1)
        assert found["zeros"] is None
        assert found["near"][0]["rows"] == 1


# ── time runs out ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", [0, "inf"])
def test_radii_that_are_not_found_lie_where_statuses_say(
    norm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stumps = [{**STUMP, "threshold": threshold} for threshold in (0.0, 0.25, 1.0)]
    model = cg.Ensemble.from_trees(stumps, n_features=1)
    X, y = [[-5.0], [3.0], [0.1], [2.0]], [0, 1, 0, 0]
    against = [cg.Attacker(norm, budget) for budget in (0, 1, 2, 4)]
    whole = cg.report(model, X, y, against, progress=False).to_dict()["distances"][0]["radius"]

    def undecided(found: Any, *_: Any) -> None:
        found["radius_lower"][:] = 0
        found["radius_upper"][:] = np.where(found["radius_upper"] > 0, np.inf, 0)

    bounding = asking._bound_radii
    monkeypatch.setattr(asking, "_bound_radii", lambda *of: (undecided(*of), bounding(*of)))
    made = cg.report(model, X, y, against, progress=False)
    found = made.to_dict()["distances"][0]
    for number, right in enumerate(made.to_dict()["rows"]["right"]):
        low, high = (found["radius"][side][number] for side in ("lower", "upper"))
        assert low <= whole["lower"][number]
        assert high is None or whole["upper"][number] <= high
        assert (low > 0) == right
    for entry in made.to_dict()["attackers"]:
        at = found["curve"]["budgets"].index(entry["budget"])
        ends = [found["curve"][side][at] for side in ("lower", "upper")]
        assert ends == entry["robustness"]


# ── classes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        (np.array(["a,b", "c"], dtype=object), ["a,b", "c"]),
        (np.array([np.int64(-3), np.int64(4)], dtype=object), [-3, 4]),
        (np.array([False, True], dtype=object), [False, True]),
        (np.array([b"a", b"b"]), ["b'a'", "b'b'"]),
        ([0.5, np.inf], [0.5, "inf"]),
    ],
)
def test_classes_of_any_kind_are_told_as_json_can(classes: Any, told: list[Any]) -> None:
    model = cg.Ensemble.from_trees([STUMP], n_features=1, classes=classes)
    y = model.decide([[-0.01], [0.5]])
    made = cg.report(model, [[-0.01], [0.5]], y, ATTACKER, progress=False)
    found = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert found["model"]["classes"] == found["rows"]["label"] == found["rows"]["answer"] == told
    assert [one["class"] for one in found["attackers"][0]["classes"]] == told
    assert found["distances"][0]["witnesses"][0]["answer"] == told[1]
    explained = cg.explain(model, [-0.01], norm=1).to_dict()
    assert json.loads(json.dumps(explained, allow_nan=False))["witness"]["answer"] == told[1]


def test_labels_may_come_from_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(np.where(LABELS, "spam", "ham"), dtype="category")
    model = LGBMClassifier(n_estimators=2, num_leaves=3, verbose=-1).fit(ROWS, y.astype(object))
    made = cg.report(model, ROWS, y, ATTACKER, sample=5, progress=False)
    assert [one["class"] for one in made.to_dict()["attackers"][0]["classes"]] == ["ham", "spam"]


# ── what the page says of what is not known ──────────────────────────────────────────────────


def said(norm: Any, lower: Any, upper: Any) -> str:
    made = plain(radii={norm: [1.0, 2.0]}, attackers=[(norm, 1)])
    made["distances"][0]["stays"] = [{"share": 0.99, "lower": lower, "upper": upper}]
    return Outline(html(made)).tables["far-1-stays"][1][1]


def test_nothing_is_said_to_be_too_much_that_is_not_decided() -> None:
    assert said(0, 1, 1) == "no budget: one changed feature is too many"
    assert said(0, 1, None) == "budget 0; what lies above is not decided"
    assert said(0, 1, 3) == "budget 0; what lies above is not decided, and not at 3 or more"
    assert said(0, 3, None) == "up to 2 changed features; what lies above is not decided"
    assert said("inf", 5e-324, None) == "budget 0; above, this is not decided"
    assert said("inf", 5e-324, 5e-324) == "no budget above 0"


def test_a_radius_below_all_budgets_makes_no_axis() -> None:
    assert cg.report(MODEL, [[0.0]], None, cg.Attacker("inf", 0), progress=False).html()


def test_no_row_is_said_to_flip_first_where_one_has_no_witness() -> None:
    made = plain(radii={"inf": [0.1, 0.2, 0.3]})
    made["distances"][0]["missed"] = 1
    text = Outline(html(made)).text
    assert "The nearest witnesses found" in text
    assert ", the nearest witness found" in text
    assert "The rows that flip first" not in text


def test_the_time_limit_is_not_blamed_for_an_interruption() -> None:
    made = plain(radii={"inf": [(0.1, np.inf), (0.2, np.inf)]})
    assert "within the time limit" in Outline(html(made)).text
    made["interrupted"] = True
    text = Outline(html(made)).text
    assert "before the work was cut short" in text
    assert "within the time limit" not in text


def test_equal_intervals_are_no_equal_robustness() -> None:
    made = everything()
    for model in made["attackers"][0]["retraining"]["models"]:
        model["robustness"] = [0.5, 0.7]
    text = Outline(html(made)).text
    assert "leaves robustness as it is" not in text
    assert "Too many rows are undecided" in text


def test_a_category_that_the_model_does_not_know_is_told_as_such() -> None:
    pandas = pytest.importorskip("pandas")
    codes = np.arange(120) % 4
    frame = pandas.DataFrame({"kind": pandas.Categorical.from_codes(codes, list("abcd"))})
    model = LGBMClassifier(
        n_estimators=2, min_child_samples=1, min_data_per_group=1, cat_smooth=0, verbose=-1
    ).fit(frame, codes % 2)
    rows = pandas.DataFrame({"kind": pandas.Categorical(["new"])})
    made = cg.report(model, rows, None, cg.Attacker(0, 1), progress=False)
    (witness,) = made.to_dict()["distances"][0]["witnesses"]
    (change,) = witness["changes"]
    assert change["before"] == "unknown category"
    assert change["after"] in "abcd"


def test_a_name_that_is_no_unicode_can_be_written(tmp_path: Path) -> None:
    name = "a\udcffb\u202e\n"
    for ending in ("html", "json"):
        to = tmp_path / f"page.{ending}"
        cg.report(MODEL, [[0.5]], None, ATTACKER, to, names=[name], model_name=name, progress=False)
        assert "\u202e" not in to.read_text("utf-8") or ending == "json"
    assert json.loads(to.read_text("utf-8"))["model"]["name"] == name


def test_a_value_just_above_a_threshold_does_not_look_like_it() -> None:
    def told(before: float, after: float) -> list[str]:
        change = {"feature": 0, "name": "a", "before": before, "after": after}
        return [re.sub("<[^>]*>", "", text) for text in before_and_after(change)]

    assert told(0.5, 0.8125000000000002) == ["0.5", "0.8125…"]
    assert told(0.5, 1.0000000180025096e-35) == ["0.5", "1e−35"]
    assert told(0, 1.0000000180025096e-35) == ["0", "1e−35…"]
    assert told(-0.5, -0.29999999999999993) == ["−0.5", "−0.29999999999999993"]
    assert told(0.9, 0.8125) == ["0.9", "0.8125"]
    assert told(0.5, 2 / 3) == ["0.5", "0.66667"]
