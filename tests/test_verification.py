"""Verification: what the verdicts add up to, how they read, and the files they go to."""

from __future__ import annotations

import csv
import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.results import describe_interval
from carvegbm.statuses import STATUSES
from plain_trees import ensemble, leaf, refused, split, stump

ATTACKER = cg.Attacker("inf", 0.1)
MODEL = ensemble(stump(0, 0.5))
X, Y = [[0.1], [0.45], [0.1], [0.45], [0.9]], [0, 0, 1, 1, 1]
STATUS = ["robust", "fragile", "vulnerable", "broken", "robust"]

# Near 0.5 one move crosses both trees, so that the large-spread engine cannot decide there.
SHARED = ensemble(stump(0, 0.5), stump(0, 0.5), stump(1, 0.5), n_features=2)


def verified(**options):
    return cg.verify(MODEL, X, Y, ATTACKER, **options)


def random_stumps(n):
    """A stump for every feature, at random."""
    rng = np.random.default_rng(0)
    trees = [
        stump(f, rng.uniform(0.2, 0.8), *np.sort(rng.normal(size=2)).tolist()) for f in range(n)
    ]
    return ensemble(*trees, n_features=n)


def half_known():
    """Four instances: robust, two unknown (one right, one wrong), vulnerable."""
    rows = [[0.1, 0.1], [0.45, 0.1], [0.45, 0.1], [0.1, 0.1]]
    return cg.verify(SHARED, rows, [0, 0, 1, 1], ATTACKER, on_violation="unknown")


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", [0, 1, 2, 3, "inf"])
@pytest.mark.parametrize("engine", ["auto", "large-spread", "search"])
def test_every_status_on_one_stump(norm, engine):
    attacker = cg.Attacker(norm, 1, bounds=(0, 0.6)) if norm == 0 else cg.Attacker(norm, 0.1)
    rows = [[0.1], [0.45], [0.1], [0.45]]
    expected = ["fragile", "fragile", "broken", "broken"] if norm == 0 else STATUS[:4]
    result = cg.verify(MODEL, rows, Y[:4], attacker, engine=engine, exact_margin=True)
    assert result.status.tolist() == expected
    assert result.right.tolist() == [True, True, False, False]
    assert result.margin.tolist() == [1, 1, -1, -1]
    flipped = np.isin(expected, ["fragile", "broken"])
    assert (
        result.worst_margin.tolist()
        == np.where(flipped, -1, 1).tolist()[:2] + np.where(flipped, 1, -1).tolist()[2:]
    )


@pytest.mark.parametrize(("label", "status"), [(1, "robust"), (0, "fragile")])
def test_raw_score_at_the_decision_threshold_is_positive(label, status):
    """A positive instance may be pushed onto the threshold, a negative one may not."""
    model = ensemble(stump(0, 0.5, 0.0, 1.0) if label else stump(0, 0.5, -1.0, 0.0))
    x = 0.55 if label else 0.45
    result = cg.verify(model, [[x]], [label], ATTACKER)
    assert result.status.tolist() == [status]
    assert result.worst_margin.tolist() == [0.0]


@pytest.mark.parametrize(("true", "status"), [(0, "robust"), (1, "fragile")])
def test_first_of_two_equal_classes_wins(true, status):
    scores = [0.0, 0.0]
    scores[true] = 1.0
    model = ensemble(stump(0, 0.5, scores, [0.0, 0.0]))
    assert cg.verify(model, [[0.45]], [true], ATTACKER).status.tolist() == [status]


def test_margin_is_measured_against_the_best_rival():
    model = ensemble(stump(0, 0.5, [3.0, 1.0, 2.0], [0.0, 4.0, 2.0]))
    result = cg.verify(model, [[0.45]], [0], ATTACKER)
    assert (result.margin.tolist(), result.worst_margin.tolist()) == ([1.0], [-4.0])


@pytest.mark.parametrize("engine", ["auto", "large-spread", "search"])
def test_best_attacks_of_several_rivals_need_not_agree(engine):
    """Class 2 beats class 0 on one side and class 1 on the other, and never both by as much."""
    model = ensemble(stump(0, 0.5, [3.0, 0.0, 2.0], [0.0, 3.0, 2.0]))
    result = cg.verify(model, [[0.45]], [2], ATTACKER, engine=engine)
    assert result.status.tolist() == ["unknown" if engine == "large-spread" else "vulnerable"]
    assert result.worst_margin_lower[0] <= -1 <= result.worst_margin_upper[0]


def test_missing_value_cannot_be_attacked():
    model = ensemble(stump(0, 0.5, missing="left"), stump(1, 0.5, -0.5, 0.5), n_features=2)
    rows, attacker = [[math.nan, 0.45], [0.45, 0.45]], cg.Attacker("inf", 0.1)
    result = cg.verify(model, rows, [0, 0], attacker)
    assert result.status.tolist() == ["robust", "fragile"]


def test_labels_are_the_models_own():
    model = ensemble(stump(0, 0.5), classes=["no", "yes"])
    labels = np.array(["no", "yes"])[Y]
    assert cg.verify(model, X, labels, ATTACKER).status.tolist() == STATUS


@pytest.mark.parametrize("norm", [0, 1, 2, "inf"])
def test_methods_of_the_paper_agree(norm):
    model = ensemble(
        split(0, 0.5, stump(1, 0.5), leaf(0.75)), stump(2, 0.5), leaf(0.25), n_features=3
    )
    rows = np.random.default_rng(0).random((200, 3))
    labels = model.decide(rows)
    attacker = cg.Attacker(norm, 1 if norm == 0 else 0.2)
    for exact in (False, True):
        options = {"exact_margin": exact}
        efficient = cg.verify(model, rows, labels, attacker, **options)
        basic = cg.verify(model, rows, labels, attacker, method="basic", **options)
        assert {"robust", "fragile"} <= set(efficient.status.tolist())
        np.testing.assert_array_equal(efficient.status, basic.status)
        np.testing.assert_array_equal(efficient.worst_margin, basic.worst_margin)
    assert not np.isnan(efficient.worst_margin).any()


@pytest.mark.parametrize("norm", [1, 2, 3])
def test_a_first_look_decides_as_the_worst_margin_does(norm):
    """Of norms 1, 2, … the worst margin is found only where somebody asks for it."""
    model = random_stumps(40)
    rows = np.random.default_rng(1).random((300, 40))
    labels = model.decide(rows)
    labels[::7] = 1 - labels[::7]
    attacker = cg.Attacker(norm, 0.3)
    quick = cg.verify(model, rows, labels, attacker, engine="large-spread")
    exact = cg.verify(model, rows, labels, attacker, engine="large-spread", exact_margin=True)
    assert set(exact.status.tolist()) == {"robust", "fragile", "vulnerable", "broken"}
    np.testing.assert_array_equal(quick.status, exact.status)
    np.testing.assert_array_equal(quick.margin, exact.margin)
    assert not np.isnan(exact.worst_margin).any()
    unknown = np.isnan(quick.worst_margin)
    assert unknown.any()
    np.testing.assert_array_equal(quick.worst_margin[~unknown], exact.worst_margin[~unknown])
    assert (quick.worst_margin_lower <= exact.worst_margin_upper).all()
    assert (exact.worst_margin_lower <= quick.worst_margin_upper).all()


@pytest.mark.parametrize("norm", [1, 2])
def test_witnesses_of_large_spread_models_are_the_best_attacks(norm):
    model = random_stumps(40)
    rows = np.random.default_rng(2).random((100, 40))
    labels = model.decide(rows)
    attacker = cg.Attacker(norm, 0.3)
    found = cg.attack(model, rows, labels, attacker, engine="large-spread")
    worst = cg.verify(model, rows, labels, attacker, exact_margin=True).worst_margin
    assert found.success.sum() > 20
    raw = model.raw_score(found.witnesses[found.success])
    margins = np.where(labels[found.success] == 1, raw, -raw)
    np.testing.assert_allclose(margins, worst[found.success], rtol=1e-12, atol=1e-12)


def test_grid_is_never_robust_where_the_exact_verdict_is_not():
    """Both features must move by 0.09, which is nothing in whole tenths; the budget is one."""
    model = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2, base_score=-1.0)
    rows, attacker = [[0.41, 0.41], [0.49, 0.49], [0.1, 0.1]], cg.Attacker(1, 0.1)
    exact = cg.verify(model, rows, [0, 0, 0], attacker)
    rough = cg.verify(model, rows, [0, 0, 0], attacker, grid=1)
    assert exact.status.tolist() == ["robust", "fragile", "robust"]
    assert rough.status.tolist() == ["unknown", "fragile", "robust"]


def test_grid_too_fine_for_the_budget_is_refused():
    with refused("grid 20", "10^15"):
        cg.verify(MODEL, X, Y, cg.Attacker(1, 10), grid=20)


# ── what they add up to ──────────────────────────────────────────────────────────────────────


def test_accuracy_and_robustness_are_shares_of_all_instances():
    result = verified()
    assert result.status.tolist() == STATUS
    assert len(result) == 5
    assert result.accuracy == 3 / 5
    assert result.robustness == (2 / 5, 2 / 5)
    assert result.counts == {
        "robust": 2, "fragile": 1, "vulnerable": 1, "broken": 1, "unknown": 0
    }  # fmt: skip
    assert list(result.counts) == list(STATUSES)


def test_unknown_instances_widen_robustness_only_where_the_decision_is_right():
    result = half_known()
    assert result.status.tolist() == ["robust", "unknown", "unknown", "vulnerable"]
    assert result.right.tolist() == [True, True, False, False]
    assert result.robustness == (1 / 4, 2 / 4)
    assert result.accuracy == 2 / 4
    assert np.isnan(result.worst_margin[[1, 2]]).all()
    assert result.engine.tolist() == ["large-spread", "", "", "large-spread"]


def test_worst_margin_is_given_where_its_bounds_meet():
    result = replace(
        verified(),
        worst_margin_lower=np.array([1.0, -2.0, -math.inf, 0.0, 1.0]),
        worst_margin_upper=np.array([1.0, -1.0, math.inf, 0.0, 2.0]),
    )
    np.testing.assert_array_equal(result.worst_margin, [1, math.nan, math.nan, 0, math.nan])


# ── how they read ────────────────────────────────────────────────────────────────────────────


def test_summary_is_one_number_or_the_papers_plus_minus():
    assert verified().summary() == "robustness 0.4000"
    assert half_known().summary() == "robustness 0.3750 ± 0.1250 (2 unknown)"
    assert describe_interval(0.69, 0.93) == "0.8100 ± 0.1200"
    assert describe_interval(0.5, 0.5) == "0.5000"


def test_print_shows_accuracy_robustness_and_counts():
    lines = str(verified()).splitlines()
    assert lines[0] == "5 instances against Attacker(norm=inf, budget=0.1)"
    table = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert table == {
        "accuracy": "0.6000",
        "robustness": "0.4000",
        "robust": "2",
        "fragile": "1",
        "vulnerable": "1",
        "broken": "1",
    }


def test_print_shows_what_is_unknown_and_who_decided():
    text = str(half_known())
    assert "0.3750 ± 0.1250 (2 unknown)" in text
    assert "unknown           2   not decided" in text
    by_search = str(verified(engine="search"))
    assert "decided by  search 5; slowest " in by_search
    assert "decided by" not in str(verified())


def test_dict_is_json_with_nothing_but_plain_values():
    document = json.loads(json.dumps(half_known().to_dict(), allow_nan=False))
    assert document["attacker"]["budget"] == 0.1
    assert document["instances"] == 4
    assert document["robustness"] == [0.25, 0.5]
    assert document["counts"]["unknown"] == 2
    assert document["status"] == half_known().status.tolist()
    assert document["right"] == [True, True, False, False]
    assert document["worst_margin"][0] == 3.0
    assert document["worst_margin"][1:3] == [None, None]


# ── files ────────────────────────────────────────────────────────────────────────────────────


def test_json_file_is_the_dict(tmp_path):
    result = half_known()
    result.save(tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text()) == result.to_dict()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_file_has_a_row_per_instance(tmp_path, suffix):
    result, path = verified(), tmp_path / f"result.{suffix}"
    result.save(str(path))
    if suffix == "csv":
        with path.open() as file:
            rows = list(csv.DictReader(file))
        assert [row.pop("instance") for row in rows] == ["0", "1", "2", "3", "4"]
        table = {name: [row[name] for row in rows] for name in rows[0]}
        table["margin"] = [float(value) for value in table["margin"]]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(path).to_pydict()
    assert set(table) == set(result.columns())
    assert table["status"] == STATUS
    assert table["margin"] == result.margin.tolist()


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_failed_save_leaves_nothing_behind_and_keeps_what_was_there(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"result.{suffix}"
    path.write_text("earlier")
    broken = replace(verified(), status=np.array([object()] * 5))
    if suffix == "csv":
        monkeypatch.setattr(csv, "writer", lambda _: 1 / 0)
    with pytest.raises(Exception, match=r"JSON serializable|zero|object"):
        broken.save(path)
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == [path.name]
