"""A report's document: every number is recomputed from raw results, and every option works."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from scipy import sparse, stats
from sklearn.datasets import load_digits, load_wine

import carvegbm as cg
import carvegbm_check
from carvegbm import minimal
from carvegbm.engines import decide
from carvegbm.reports import query
from carvegbm.reports.document import SHARES
from reports.documents import STUMP, leave_open, plain, stump
from reports.documents import made as document_of

ATTACKERS = (
    cg.Attacker("inf", 0.3),
    cg.Attacker("inf", 1.0),
    cg.Attacker(1, 2.0),
    cg.Attacker(0, 1),
)


class Made:
    """A report on wine, saved and read again, and what it was made of."""

    def __init__(self, folder: Path, **options: Any) -> None:
        X, y = load_wine(return_X_y=True)
        self.X, self.y = np.where(X < 2, 0, X), y  # zeros for LightGBM's thresholds beside them
        self.model = LGBMClassifier(n_estimators=15, num_leaves=7, verbose=-1, random_state=0)
        self.model.fit(self.X[::2], y[::2])
        path = folder / "report.json"
        self.report = cg.report(
            self.model, self.X, y, ATTACKERS, path, sample=90, progress=False, **options
        )
        self.document = json.loads(path.read_text("utf-8"))
        self.rows = self.document["rows"]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("wine"))


def bounds(distance: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Of radii; null stands for infinity."""
    return tuple(
        [math.inf if value is None else value for value in distance["radius"][side]]
        for side in ("lower", "upper")
    )


def test_the_document_is_that_of_the_report(wine: Made) -> None:
    assert wine.document == json.loads(json.dumps(wine.report.to_dict()))


def test_rows_are_a_sample_of_the_data(wine: Made) -> None:
    data, numbers = wine.document["data"], wine.rows["number"]
    assert (data["rows"], data["judged"], data["seed"]) == (len(wine.y), 90, 0)
    assert len(set(numbers)) == 90 == len(wine.rows["label"])
    assert numbers == sorted(numbers)
    assert wine.rows["label"] == wine.y[numbers].tolist()
    assert wine.rows["answer"] == wine.model.predict(wine.X[numbers]).tolist()
    right = [a == b for a, b in zip(wine.rows["label"], wine.rows["answer"], strict=True)]
    assert wine.rows["right"] == right
    assert 0 < sum(right) < 90


def test_shares_are_counted_from_statuses(wine: Made) -> None:
    assert [entry["budget"] for entry in wine.document["attackers"]] == [0.3, 1.0, 2.0, 1.0]
    for entry, attacker in zip(wine.document["attackers"], ATTACKERS, strict=True):
        numbers = wine.rows["number"]
        result = cg.verify(wine.model, wine.X[numbers], wine.y[numbers], attacker)
        assert entry["status"] == result.status.tolist()
        check_shares(entry, entry["status"], wine.rows["right"])
        for part in entry["classes"]:
            here = [label == part["class"] for label in wine.rows["label"]]
            assert part["instances"] == sum(here)
            some = [s for s, is_here in zip(entry["status"], here, strict=True) if is_here]
            right = [r for r, is_here in zip(wine.rows["right"], here, strict=True) if is_here]
            check_shares(part, some, right)
        assert {part["class"] for part in entry["classes"]} == set(wine.rows["label"])


def check_shares(entry: dict[str, Any], status: list[str], right: list[bool]) -> None:
    counts = Counter(status)
    assert entry["counts"] == {name: counts[name] for name in entry["counts"]}
    assert sum(entry["counts"].values()) == len(status)
    assert entry["accuracy"] == sum(right) / len(right)
    open_ = sum(s == "unknown" and r for s, r in zip(status, right, strict=True))
    robust = counts["robust"]
    assert entry["robustness"] == [robust / len(status), (robust + open_) / len(status)]


def test_intervals_for_all_rows_are_those_of_clopper_and_pearson(wine: Made) -> None:
    for entry in wine.document["attackers"]:
        n = len(entry["status"])
        low, high = (round(share * n) for share in entry["robustness"])
        found = entry["population"]
        alpha = 1 - found["confidence"]
        expected = (
            stats.beta.ppf(alpha / 2, low, n - low + 1) if low else 0.0,
            stats.beta.ppf(1 - alpha / 2, high + 1, n - high) if high < n else 1.0,
        )
        assert found["robustness"] == pytest.approx(list(expected), rel=1e-9)
        assert found["accuracy"][0] < entry["accuracy"] < found["accuracy"][1]


def test_distances_agree_with_statuses_and_are_counted_right(wine: Made) -> None:
    assert [entry["distance"] for entry in wine.document["attackers"]] == [0, 0, 1, 2]
    for entry in wine.document["attackers"]:
        lower, upper = bounds(wine.document["distances"][entry["distance"]])
        for status, low, high, right in zip(
            entry["status"], lower, upper, wine.rows["right"], strict=True
        ):
            assert (low == high == 0) == (not right)
            if status in ("robust", "fragile"):
                assert (status == "robust") == (low > entry["budget"])
    for found in wine.document["distances"]:
        lower, upper = bounds(found)
        known = [r for r, u in zip(lower, upper, strict=True) if r == u and 0 < r < math.inf]
        assert found["wrong"] == wine.rows["right"].count(False)
        assert found["never"] == lower.count(math.inf)
        assert found["undecided"] == sum(r != u for r, u in zip(lower, upper, strict=True))
        assert found["smallest"] == min(known)
        assert found["largest"] == max(known)
        assert found["median"] == np.median(known)


def test_the_curve_is_the_share_of_radii_beyond_each_budget(wine: Made) -> None:
    for place, found in enumerate(wine.document["distances"]):
        (lower, upper), curve = bounds(found), found["curve"]
        asked = {e["budget"] for e in wine.document["attackers"] if e["distance"] == place}
        assert {0.0, *asked} <= set(curve["budgets"])
        for budget, low, high in zip(*curve.values(), strict=True):
            assert low == sum(r > budget for r in lower) / len(lower)
            assert high == sum(r > budget for r in upper) / len(upper)


def test_the_histogram_counts_every_known_radius_once(wine: Made) -> None:
    for found in wine.document["distances"]:
        lower, upper = bounds(found)
        known = [r for r, u in zip(lower, upper, strict=True) if r == u and 0 < r < math.inf]
        bars = found["histogram"]
        assert sum(bar["count"] for bar in bars) == len(known)
        for i, bar in enumerate(bars):
            if found["norm"] == 0:
                assert bar["count"] == known.count(bar["from"])
                continue
            last = i == len(bars) - 1
            inside = [bar["from"] <= r < bar["to"] or (last and r == bar["to"]) for r in known]
            assert bar["count"] == sum(inside)
            assert last or bar["to"] == bars[i + 1]["from"]


def test_a_share_of_the_right_rows_stays_robust_below_its_budget_and_not_beyond(wine: Made) -> None:
    for found in wine.document["distances"]:
        lower, upper = bounds(found)
        right = [r for r, u in zip(lower, upper, strict=True) if u > 0]
        for share, entry in zip(SHARES, found["stays"], strict=True):
            assert entry["share"] == float(share)
            b = entry["lower"]
            assert b == entry["upper"]
            assert Fraction(sum(r >= b for r in right), len(right)) >= share
            assert Fraction(sum(r > b for r in right), len(right)) < share


def test_witnesses_flip_and_weak_features_are_counted_from_them(wine: Made) -> None:
    for place, found in enumerate(wine.document["distances"]):
        lower, upper = bounds(found)
        asked = [e["budget"] for e in wine.document["attackers"] if e["distance"] == place]
        within = [w for w in found["witnesses"] if w["distance"] <= max(asked)]
        assert found["weak_budget"] == max(asked)
        assert found["weak_witnesses"] == len(within) > 0
        flipped = [i for i, u in enumerate(upper) if 0 < u < math.inf]
        assert [w["row"] for w in found["witnesses"]] == flipped
        assert found["missed"] == 0
        counts: Counter[int] = Counter()
        alone: Counter[int] = Counter()
        sizes: dict[int, list[float]] = {}
        for witness in found["witnesses"]:
            assert witness["distance"] == lower[witness["row"]]
            x = wine.X[wine.rows["number"][witness["row"]]]
            z = x.copy()
            for change in witness["changes"]:
                f = change["feature"]
                assert change["before"] == x[f]
                z[f] = change["after"]
                if witness in within:
                    counts[f] += 1
                    sizes.setdefault(f, []).append(change["after"] - change["before"])
            if len(witness["changes"]) == 1 and witness in within:
                alone[witness["changes"][0]["feature"]] += 1
            told = wine.model.predict([z]).item()
            assert witness["borderline"] or told == witness["answer"]
            assert witness["answer"] != wine.rows["label"][witness["row"]] or witness["borderline"]
        assert {w["feature"]: w["rows"] for w in found["weak"]} == counts
        assert [w["rows"] for w in found["weak"]] == sorted(counts.values(), reverse=True)
        for weak in found["weak"]:
            moves = sizes[weak["feature"]]
            assert weak["alone"] == alone[weak["feature"]]
            assert (weak["up"], weak["down"]) == (
                sum(m > 0 for m in moves),
                sum(m < 0 for m in moves),
            )
            assert weak["smallest"] == min(map(abs, moves))
            assert weak["largest"] == max(map(abs, moves))
            assert weak["median"] == np.median(np.abs(moves))
            assert weak["share"] == weak["rows"] / len(within)
        order = [found["witnesses"][i]["distance"] for i in found["first"]]
        assert order == sorted(lower[i] for i in flipped)[:10]
        shown = [entry["witness"] for entry in found["shown"]]
        assert len(set(shown)) == len(shown) <= 8
        assert shown[0] == found["first"][0]


def test_the_trap_beside_zero_counts_rows_with_zero_at_thresholds_beside_it(wine: Made) -> None:
    nodes = cg.load(wine.model).nodes
    beside = (nodes["feature"] >= 0) & (np.abs(nodes["threshold"]) < 1e-30)
    features = np.unique(nodes["feature"][beside])
    rows = wine.X[wine.rows["number"]]
    expected = {
        "thresholds": len(features),
        "features": len(features),
        "rows": int((rows[:, features] == 0).any(axis=1).sum()),
    }
    assert expected["rows"] > 0
    for entry in wine.document["attackers"]:
        assert entry["zero_trap"] == (None if entry["norm"] == 0 else expected)


@pytest.mark.parametrize(
    ("threshold", "options", "is_trap"),
    [
        (1.0000000180025095e-35, {}, True),
        (-1.0000000180025095e-35, {}, True),
        (1.0000000180025095e-35, {"scale": {0: (1.0, 0)}}, False),
        (1.0000000180025095e-35, {"bounds": (-1, 0)}, False),
        (1.0000000180025095e-35, {"step": 1}, False),
        (1.0000000180025095e-35, {"features": [1]}, False),
        (0.0, {}, False),
        (1e-30, {}, False),
    ],
)
def test_only_a_threshold_beside_zero_that_the_attacker_can_cross_is_a_trap(
    threshold: float, options: Any, is_trap: bool
) -> None:
    model = cg.Ensemble.from_trees([{**STUMP, "threshold": threshold}], n_features=2)
    found = document_of(model, [[0.0, 0.0]], None, cg.Attacker("inf", 0.1, **options))
    trap = {"thresholds": 1, "features": 1, "rows": 1} if is_trap else None
    assert found["attackers"][0]["zero_trap"] == trap


def test_a_report_of_the_same_inputs_differs_in_times_only(wine: Made, tmp_path: Path) -> None:
    again = Made(tmp_path).document
    assert again.pop("times").keys() == wine.document["times"].keys()
    assert again == {name: value for name, value in wine.document.items() if name != "times"}


# ── what can be asked ────────────────────────────────────────────────────────────────────────

ATTACKER = cg.Attacker("inf", 0.1)


def test_without_labels_the_models_own_answers_are_right() -> None:
    found = plain([0.05, 0.5], [ATTACKER], own=True)
    assert found["data"]["labels"] == "own"
    assert found["attackers"][0]["counts"]["robust"] == 1
    assert found["attackers"][0]["accuracy"] == 1


def test_all_wrong_all_robust_and_missing_values_make_sound_documents() -> None:
    wrong = plain([0, 0])
    assert wrong["attackers"][0]["robustness"] == [0, 0]
    assert wrong["distances"][0]["stays"] == []
    assert wrong["distances"][0]["witnesses"] == []
    assert plain([0.3, 0.5])["attackers"][0]["robustness"] == [1, 1]
    found = plain([math.inf, math.inf])
    assert found["data"]["missing"] == found["distances"][0]["never"] == 2
    assert found["distances"][0]["stays"][0] == {"share": 0.99, "lower": None, "upper": None}


def test_names_and_classes_are_those_given() -> None:
    found = plain([0.1], classes=["ham", "spam"], names=["<b>", "c"])["distances"][0]
    assert found["witnesses"][0]["answer"] == "ham"
    assert found["weak"][0]["name"] == "<b>"


def test_radii_that_are_the_smallest_double_have_a_bar() -> None:
    found = document_of(stump(), [[0.0, 1.0]] * 2, None, ATTACKER)["distances"][0]
    assert found["largest"] == 5e-324
    assert found["histogram"] == [{"from": 0.0, "to": 5e-324, "count": 2}]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (np.array(["a,b", "c"], dtype=object), ["a,b", "c"]),
        (np.array([np.int64(-3), np.int64(4)], dtype=object), [-3, 4]),
        (np.array([False, True], dtype=object), [False, True]),
        (np.array([b"a", b"b"]), ["b'a'", "b'b'"]),
        ([0.5, np.inf], [0.5, "inf"]),
    ],
)
def test_classes_of_any_kind_are_written_as_json_can_hold_them(
    classes: Any, expected: list[Any]
) -> None:
    model = stump(n_features=1, classes=classes)
    y = model.decide([[-0.01], [0.5]])
    found = document_of(model, [[-0.01], [0.5]], y, ATTACKER)
    assert found["model"]["classes"] == found["rows"]["label"] == found["rows"]["answer"]
    assert found["model"]["classes"] == expected
    assert [one["class"] for one in found["attackers"][0]["classes"]] == expected
    assert found["distances"][0]["witnesses"][0]["answer"] == expected[1]


def test_sparse_rows_say_what_dense_ones_say(wine: Made) -> None:
    X, y = sparse.csr_matrix(wine.X[:40]), wine.y[:40]
    thin = cg.report(wine.model, X, y, ATTACKERS, progress=False).to_dict()
    dense = cg.report(wine.model, wine.X[:40], y, ATTACKERS, progress=False).to_dict()
    for one, other in zip(thin["attackers"], dense["attackers"], strict=True):
        assert one == other
    for one, other in zip(thin["distances"], dense["distances"], strict=True):
        assert one["radius"] == other["radius"]
        assert one["histogram"] == other["histogram"]


def test_bounds_of_rows_go_with_the_rows_that_are_drawn(wine: Made) -> None:
    X, y = wine.X[:60], wine.y[:60]
    bounded = cg.Attacker("inf", 1.0, bounds=(X - 0.25, X + 0.25))
    plain = cg.Attacker("inf", 0.25)
    for rows in (X, sparse.csr_matrix(X)):
        found = cg.report(wine.model, rows, y, [bounded, plain], sample=25, progress=False)
        one, other = found.to_dict()["attackers"]
        assert one["status"] == other["status"]
        assert one["zero_trap"] == other["zero_trap"]


def test_units_say_what_a_budget_is_beside_the_range_of_features(wine: Made) -> None:
    used = {s["feature"] for s in cg.load(wine.model).nodes if s["feature"] >= 0}
    X = wine.X[wine.rows["number"]]
    for entry in wine.document["attackers"]:
        if entry["norm"] == 0:
            assert entry["units"] is None
            continue
        ranges = {f: X[:, f].max() - X[:, f].min() for f in used}
        shares = {f: entry["budget"] / width for f, width in ranges.items() if width > 0}
        units = entry["units"]
        assert units["features"] == len(shares)
        assert units["median"] == np.median(list(shares.values()))
        for name, end in (("smallest", min), ("largest", max)):
            assert units[name]["share"] == end(shares.values()) == shares[units[name]["feature"]]


def test_where_no_witness_is_within_the_budget_weak_features_are_those_of_all() -> None:
    found = plain([0.3, 0.5])["distances"][0]
    assert (found["weak_budget"], found["weak_witnesses"]) == (None, 2)
    assert found["weak"][0]["rows"] == 2


def test_images_show_what_witnesses_change() -> None:
    X, y = load_digits(return_X_y=True)
    model = LGBMClassifier(n_estimators=5, num_leaves=7, verbose=-1).fit(X, y)
    found = cg.report(
        model, X[:40], y[:40], cg.Attacker(0, 1), images=(8, 8), progress=False
    ).to_dict()["distances"][0]
    images = found["images"]
    assert (images["height"], images["width"]) == (8, 8)
    for entry, picture in zip(found["shown"], images["pictures"], strict=True):
        witness = found["witnesses"][entry["witness"]]
        assert picture["before"] == X[witness["row"]].tolist()
        for change in witness["changes"]:
            assert change["name"] == f"pixel ({change['feature'] // 8}, {change['feature'] % 8})"
        changed = {c["feature"]: c["after"] for c in witness["changes"]}
        expected = [changed.get(f, v) for f, v in enumerate(picture["before"])]
        assert picture["after"] == expected
        assert images["low"] <= min(expected)
        assert max(expected) <= images["high"]


def test_categories_go_by_their_labels() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = pd.Categorical(rng.choice(["red", "green", "blue"], 200))
    X = pd.DataFrame({"colour": colour, "size": rng.random(200)})
    y = (colour == "red") | (X["size"] > 0.9)
    model = LGBMClassifier(
        n_estimators=5, min_child_samples=5, min_data_per_group=5, cat_smooth=1, verbose=-1
    ).fit(X, y)
    found = cg.report(model, X, y, cg.Attacker(0, 1, features=["colour"]), progress=False)
    changes = [
        change for w in found.to_dict()["distances"][0]["witnesses"] for change in w["changes"]
    ]
    assert changes
    for change in changes:
        assert change["name"] == "colour"
        assert {change["before"], change["after"]} < {"red", "green", "blue"}


def test_proofs_are_written_and_checked(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    model = LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1).fit(X, y)
    path = tmp_path / "all.proof"
    found = cg.report(model, X, y, ATTACKERS[:2], sample=None, proof=path, progress=False).to_dict()
    names = [entry["proof"]["file"] for entry in found["attackers"]]
    assert names == ["all.proof", "all-2.proof"]
    model.booster_.save_model(tmp_path / "model.txt")
    for entry, name in zip(found["attackers"], names, strict=True):
        assert entry["proof"]["checked"] is True
        assert entry["proof"]["proved"] == len(y)
        report = carvegbm_check.check(
            tmp_path / name, tmp_path / "model.txt", (X.tolist(), y.tolist())
        )
        assert report.is_proved
        assert report.summary() == entry["proof"]["said"]
        assert [report.checked[i] for i in range(len(y))] == entry["status"]


def test_proofs_without_labels_are_checked_too(tmp_path: Path) -> None:
    found = plain([0.05, 0.5], own=True, proof=tmp_path / "own.proof")
    assert found["attackers"][0]["proof"]["checked"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [0, 2]}, "2"),
        ({"attackers": []}, "attackers must name at least one attacker"),
        ({"attackers": "inf"}, "attackers must be an Attacker or several, got 'inf'"),
        ({"names": ["a", "b"]}, "names has 2 entries, the model has 1 features"),
        ({"images": (2, 2)}, "images of 2 x 2 have 4 pixels, the model has 1 features"),
        ({"images": 28}, "images must be (height, width), got 28"),
        ({"sample": 0}, "sample must be a whole number >= 1, or None, got 0"),
        ({"sample": float("nan")}, "sample must be a whole number"),
        ({"sample": True}, "sample must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0 to 2**31 - 1, got -1"),
        ({"seed": None}, "seed must be a whole number"),
        ({"names": 5}, "names must be one per feature, got 5"),
        ({"images": (float("inf"), 1)}, "images must be (height, width)"),
        ({"X": None, "proof": "x.proof"}, "X must have two dimensions"),
        ({"timeout": 0}, "timeout must be > 0"),
        (
            {"proof": "x.proof", "sample": 1},
            "proof needs every row, but sample selects only 1 of 2",
        ),
        ({"path": "report.pdf"}, "end the name in .html or .json"),
        ({"path": "nowhere/report.html"}, "there is no folder nowhere"),
        ({"X": np.empty((0, 1)), "y": []}, "row"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"X": [[0.1], [0.9]], "y": [0, 1], "attackers": ATTACKER}
    with pytest.raises(cg.CarveError) as caught:
        cg.report(stump(n_features=1), **{**given, **options}, progress=False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_regression_models_are_refused() -> None:
    model = cg.Ensemble.from_trees([STUMP], n_features=1, task="regression")
    with pytest.raises(cg.CarveError, match="a regression model has no classes"):
        cg.report(model, [[0.1]], None, cg.Attacker("inf", 0.1), progress=False)


def test_cut_short_the_rest_is_unknown() -> None:
    X, y = load_wine(return_X_y=True)
    model = LGBMClassifier(n_estimators=15, num_leaves=7, verbose=-1).fit(X, y)
    calls = 0

    def interrupt(_done: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    report = cg.report(model, X, y, ATTACKERS, progress=interrupt)
    found = report.to_dict()
    assert report.interrupted
    assert calls == 3
    last = found["attackers"][-1]
    assert last["counts"]["unknown"] == len(y)
    assert last["robustness"] == [0, last["accuracy"]]
    assert found["distances"][-1]["undecided"] == sum(found["rows"]["right"])
    assert all(b is None or b >= 0 for b in found["distances"][-1]["radius"]["upper"])


def test_cut_short_while_witnesses_are_sought_those_found_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = load_wine(return_X_y=True)
    model = LGBMClassifier(n_estimators=15, num_leaves=7, verbose=-1).fit(X, y)
    found: list[int] = []

    def interrupted(self: Any, numbers: Any, *rest: Any) -> Any:
        if len(found) > 20:
            raise KeyboardInterrupt
        found.extend(numbers.tolist())
        return witnesses(self, numbers, *rest)

    witnesses = minimal._Block.witnesses
    monkeypatch.setattr(minimal._Block, "witnesses", interrupted)
    report = cg.report(model, X, y, ATTACKERS[0], progress=False)
    (distance,) = report.to_dict()["distances"]
    assert report.interrupted
    assert [witness["row"] for witness in distance["witnesses"]] == sorted(found)
    flips = sum(upper is not None and upper > 0 for upper in distance["radius"]["upper"])
    assert distance["missed"] == flips - len(found) > 0
    assert "The work was cut short" in report.html()


@pytest.mark.parametrize("norm", [0, "inf"])
def test_undecided_radii_lie_where_the_statuses_say(
    norm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stumps = [{**STUMP, "threshold": threshold} for threshold in (0.0, 0.25, 1.0)]
    model = cg.Ensemble.from_trees(stumps, n_features=1)
    X, y = [[-5.0], [3.0], [0.1], [2.0]], [0, 1, 0, 0]
    against = [cg.Attacker(norm, budget) for budget in (0, 1, 2, 4)]
    exact = document_of(model, X, y, against)["distances"][0]["radius"]

    def without_radii(task: Any, rows: Any, listen: Any) -> Any:
        found = decide(task, rows, listen)
        if task.asks == "radius":
            found["radius_lower"][:] = 0
            found["radius_upper"][:] = np.where(found["radius_upper"] > 0, np.inf, 0)
        return found

    monkeypatch.setattr(query, "decide", without_radii)
    made = document_of(model, X, y, against)
    found = made["distances"][0]
    for row, right in enumerate(made["rows"]["right"]):
        low, high = (found["radius"][side][row] for side in ("lower", "upper"))
        assert low <= exact["lower"][row]
        assert high is None or exact["upper"][row] <= high
        assert (low > 0) == right
    for entry in made["attackers"]:
        at = found["curve"]["budgets"].index(entry["budget"])
        assert [found["curve"][side][at] for side in ("lower", "upper")] == entry["robustness"]


def test_what_is_not_decided_is_unknown_and_has_no_weakest_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave_open(monkeypatch, [2])
    (entry,) = plain([0, 0.01, 0.3, 0.7])["attackers"]
    assert entry["status"][2] == "unknown"
    assert (entry["undecided"], entry["engines"][""]) == (1, 1)
    assert entry["robustness"] == [0.25, 0.5]


# ── Ctrl-C when all is decided ───────────────────────────────────────────────────────────────


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_ctrl_c_while_proving_leaves_the_page_and_no_proof(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("carvegbm.proofs.write._records", interrupt)
    found = plain([0.5], proof=tmp_path / "p")
    assert found["interrupted"]
    assert found["attackers"][0]["proof"] is None
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_checking_says_that_proofs_are_not_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("carvegbm_check.check", interrupt)
    found = plain([0.5], [ATTACKER, cg.Attacker(1, 0.1)], proof=tmp_path / "p")
    first, second = (entry["proof"] for entry in found["attackers"])
    assert found["interrupted"]
    assert (first["checked"], first["said"]) == (False, "the check was interrupted")
    assert second is None
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_a_name_that_is_no_unicode_can_be_written(tmp_path: Path) -> None:
    name = "a\udcffb\u202e\n"
    for ending in ("html", "json"):
        plain([0.5], path=tmp_path / f"page.{ending}", names=[name, name], model_name=name)
    assert "\u202e" not in (tmp_path / "page.html").read_text("utf-8")
    written = json.loads((tmp_path / "page.json").read_text("utf-8"))
    assert written["model"]["name"] == name
