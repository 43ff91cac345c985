"""What a report says follows from its results: every number is recomputed from the raw ones."""

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
from carvegbm.reports.distances import SHARES

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
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("wine"))


def bounds(distance: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Of radii; null stands for infinity."""
    return tuple(
        [math.inf if value is None else value for value in distance["radius"][side]]
        for side in ("lower", "upper")
    )


def test_the_document_is_that_of_the_report(made: Made) -> None:
    assert made.document == json.loads(json.dumps(made.report.to_dict()))


def test_rows_are_a_sample_of_the_data(made: Made) -> None:
    data, numbers = made.document["data"], made.rows["number"]
    assert (data["rows"], data["judged"], data["seed"]) == (len(made.y), 90, 0)
    assert len(set(numbers)) == 90 == len(made.rows["label"])
    assert numbers == sorted(numbers)
    assert made.rows["label"] == made.y[numbers].tolist()
    assert made.rows["answer"] == made.model.predict(made.X[numbers]).tolist()
    right = [a == b for a, b in zip(made.rows["label"], made.rows["answer"], strict=True)]
    assert made.rows["right"] == right
    assert 0 < sum(right) < 90


def test_shares_are_counted_from_statuses(made: Made) -> None:
    assert [entry["budget"] for entry in made.document["attackers"]] == [0.3, 1.0, 2.0, 1.0]
    for entry, attacker in zip(made.document["attackers"], ATTACKERS, strict=True):
        numbers = made.rows["number"]
        result = cg.verify(made.model, made.X[numbers], made.y[numbers], attacker)
        assert entry["status"] == result.status.tolist()
        check_shares(entry, entry["status"], made.rows["right"])
        for part in entry["classes"]:
            here = [label == part["class"] for label in made.rows["label"]]
            assert part["instances"] == sum(here)
            some = [s for s, is_here in zip(entry["status"], here, strict=True) if is_here]
            right = [r for r, is_here in zip(made.rows["right"], here, strict=True) if is_here]
            check_shares(part, some, right)
        assert {part["class"] for part in entry["classes"]} == set(made.rows["label"])


def check_shares(entry: dict[str, Any], status: list[str], right: list[bool]) -> None:
    counts = Counter(status)
    assert entry["counts"] == {name: counts[name] for name in entry["counts"]}
    assert sum(entry["counts"].values()) == len(status)
    assert entry["accuracy"] == sum(right) / len(right)
    open_ = sum(s == "unknown" and r for s, r in zip(status, right, strict=True))
    robust = counts["robust"]
    assert entry["robustness"] == [robust / len(status), (robust + open_) / len(status)]


def test_intervals_for_all_rows_are_those_of_clopper_and_pearson(made: Made) -> None:
    for entry in made.document["attackers"]:
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


def test_distances_agree_with_statuses_and_are_counted_right(made: Made) -> None:
    assert [entry["distance"] for entry in made.document["attackers"]] == [0, 0, 1, 2]
    for entry in made.document["attackers"]:
        lower, upper = bounds(made.document["distances"][entry["distance"]])
        for status, low, high, right in zip(
            entry["status"], lower, upper, made.rows["right"], strict=True
        ):
            assert (low == high == 0) == (not right)
            if status in ("robust", "fragile"):
                assert (status == "robust") == (low > entry["budget"])
    for found in made.document["distances"]:
        lower, upper = bounds(found)
        known = [r for r, u in zip(lower, upper, strict=True) if r == u and 0 < r < math.inf]
        assert found["wrong"] == made.rows["right"].count(False)
        assert found["never"] == lower.count(math.inf)
        assert found["undecided"] == sum(r != u for r, u in zip(lower, upper, strict=True))
        assert found["smallest"] == min(known)
        assert found["largest"] == max(known)
        assert found["median"] == np.median(known)


def test_the_curve_is_the_share_of_radii_beyond_each_budget(made: Made) -> None:
    for place, found in enumerate(made.document["distances"]):
        (lower, upper), curve = bounds(found), found["curve"]
        asked = {e["budget"] for e in made.document["attackers"] if e["distance"] == place}
        assert {0.0, *asked} <= set(curve["budgets"])
        for budget, low, high in zip(*curve.values(), strict=True):
            assert low == sum(r > budget for r in lower) / len(lower)
            assert high == sum(r > budget for r in upper) / len(upper)


def test_the_histogram_counts_every_known_radius_once(made: Made) -> None:
    for found in made.document["distances"]:
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


def test_a_share_of_the_right_rows_stays_robust_below_its_budget_and_not_beyond(made: Made) -> None:
    for found in made.document["distances"]:
        lower, upper = bounds(found)
        right = [r for r, u in zip(lower, upper, strict=True) if u > 0]
        for share, entry in zip(SHARES, found["stays"], strict=True):
            assert entry["share"] == float(share)
            b = entry["lower"]
            assert b == entry["upper"]
            assert Fraction(sum(r >= b for r in right), len(right)) >= share
            assert Fraction(sum(r > b for r in right), len(right)) < share


def test_witnesses_flip_and_weak_features_are_counted_from_them(made: Made) -> None:
    for place, found in enumerate(made.document["distances"]):
        lower, upper = bounds(found)
        asked = [e["budget"] for e in made.document["attackers"] if e["distance"] == place]
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
            x = made.X[made.rows["number"][witness["row"]]]
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
            told = made.model.predict([z]).item()
            assert witness["borderline"] or told == witness["answer"]
            assert witness["answer"] != made.rows["label"][witness["row"]] or witness["borderline"]
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


def test_crowds_are_the_rows_that_can_cross_a_threshold(made: Made) -> None:
    ensemble = cg.load(made.model)
    nodes = ensemble.nodes[ensemble.nodes["feature"] >= 0]
    pairs = set(zip(nodes["feature"].tolist(), nodes["threshold"].tolist(), strict=True))
    for entry, attacker in zip(made.document["attackers"], ATTACKERS, strict=True):
        crowds = entry["crowds"]
        if attacker.norm == 0:
            assert crowds is None
            continue
        assert crowds["thresholds"] == len(pairs)
        counts = {}
        for feature, threshold in pairs:
            x = made.X[made.rows["number"], feature]
            counts[feature, threshold] = sum(crosses(v, threshold, attacker.budget) for v in x)
        found = {(c["feature"], c["threshold"]): c["rows"] for c in crowds["near"]}
        assert found == {pair: counts[pair] for pair in found}
        assert sorted(found.values()) == sorted(counts.values())[-len(found) :]
        beside = {pair for pair in pairs if abs(pair[1]) < 1e-30}
        at_zero = (made.X[made.rows["number"]][:, [f for f, _ in beside]] == 0).any(axis=1)
        assert crowds["zeros"] == {
            "thresholds": len(beside),
            "features": len({f for f, _ in beside}),
            "rows": int(at_zero.sum()),
        }


@pytest.mark.parametrize("step", ["1/8", 1])
def test_with_a_step_rows_cross_to_the_next_multiple(step: Any) -> None:
    def stump(threshold: float) -> dict[str, Any]:
        return {**STUMP, "threshold": threshold}

    model = cg.Ensemble.from_trees([stump(0.3), stump(0.25), stump(5.5)], n_features=1)
    X = [[0.0], [1.0], [2.0], [5.0], [4.0], [-3.0]]
    attacker = cg.Attacker("inf", 0.25, scale={0: (2, 4)}, step=step, bounds=(-3, 5.5))
    found = small(X, None, attacker, model=model)["attackers"][0]["crowds"]
    expected = {}
    for threshold in (0.3, 0.25, 5.5):
        last = math.floor(threshold / Fraction(step)) * Fraction(step)
        moves = [(x, last + Fraction(step) if x <= last else last) for (x,) in X]
        crossed = [
            abs(z - Fraction(x)) / (4 if z > x else 2) <= attacker.budget and -3 <= z <= 5.5
            for x, z in moves
        ]
        if any(crossed):
            expected[threshold] = sum(crossed)
    assert {crowd["threshold"]: crowd["rows"] for crowd in found["near"]} == expected
    assert found["thresholds"] == 3
    assert found["zeros"] is None


def crosses(x: float, threshold: float, budget: float) -> bool:
    other = math.nextafter(threshold, math.inf) if x <= threshold else threshold
    return abs(Fraction(other) - Fraction(x)) <= Fraction(budget)


def test_a_report_of_the_same_inputs_differs_in_times_only(made: Made, tmp_path: Path) -> None:
    again = Made(tmp_path).document
    assert again.pop("times").keys() == made.document["times"].keys()
    assert again == {name: value for name, value in made.document.items() if name != "times"}


# ── what can be asked ────────────────────────────────────────────────────────────────────────

STUMP = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}


def small(X: Any, y: Any = None, attackers: Any = None, **options: Any) -> dict[str, Any]:
    model = options.pop("model", cg.Ensemble.from_trees([STUMP], n_features=len(X[0])))
    attackers = cg.Attacker("inf", 0.1) if attackers is None else attackers
    return cg.report(model, X, y, attackers, progress=False, **options).to_dict()


def test_without_labels_the_models_own_answers_are_right() -> None:
    found = small([[0.45], [0.9]])
    assert found["data"]["labels"] == "own"
    assert found["attackers"][0]["counts"]["robust"] == 1
    assert found["attackers"][0]["accuracy"] == 1


def test_all_wrong_all_robust_one_row_and_missing_values_make_sound_documents() -> None:
    wrong = small([[0.1], [0.2]], [1, 1])
    assert wrong["attackers"][0]["robustness"] == [0, 0]
    assert wrong["distances"][0]["stays"] == []
    assert wrong["distances"][0]["witnesses"] == []
    robust = small([[0.1], [0.9]], [0, 1])
    assert robust["attackers"][0]["robustness"] == [1, 1]
    assert small([[0.1]], [0])["data"]["judged"] == 1
    tree = {**STUMP, "missing": "left"}
    holes = cg.Ensemble.from_trees([tree], n_features=2)
    found = small([[math.nan, 1.0], [math.nan, 2.0]], [0, 0], model=holes)
    assert found["data"]["missing"] == 2
    assert found["distances"][0]["never"] == 2
    assert found["distances"][0]["stays"][0] == {"share": 0.99, "lower": None, "upper": None}


def test_names_and_classes_are_those_given() -> None:
    model = cg.Ensemble.from_trees([STUMP], n_features=1, classes=["ham", "spam"])
    found = small([[0.45]], ["ham"], model=model, names=["<b>"])
    assert found["distances"][0]["witnesses"][0]["answer"] == "spam"
    assert found["distances"][0]["weak"][0]["name"] == "<b>"


def test_sparse_rows_say_what_dense_ones_say(made: Made) -> None:
    X, y = sparse.csr_matrix(made.X[:40]), made.y[:40]
    thin = cg.report(made.model, X, y, ATTACKERS, progress=False).to_dict()
    dense = cg.report(made.model, made.X[:40], y, ATTACKERS, progress=False).to_dict()
    for one, other in zip(thin["attackers"], dense["attackers"], strict=True):
        assert one == other
    for one, other in zip(thin["distances"], dense["distances"], strict=True):
        assert one["radius"] == other["radius"]
        assert one["histogram"] == other["histogram"]


def test_bounds_of_rows_go_with_the_rows_that_are_drawn(made: Made) -> None:
    X, y = made.X[:60], made.y[:60]
    bounded = cg.Attacker("inf", 1.0, bounds=(X - 0.25, X + 0.25))
    plain = cg.Attacker("inf", 0.25)
    for rows in (X, sparse.csr_matrix(X)):
        found = cg.report(made.model, rows, y, [bounded, plain], sample=25, progress=False)
        one, other = found.to_dict()["attackers"]
        assert one["status"] == other["status"]
        assert one["crowds"] == other["crowds"]


def test_units_say_what_a_budget_is_beside_the_range_of_features(made: Made) -> None:
    used = {s["feature"] for s in cg.load(made.model).nodes if s["feature"] >= 0}
    X = made.X[made.rows["number"]]
    for entry in made.document["attackers"]:
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
    found = small([[0.1], [0.9]], [0, 1])["distances"][0]
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
    found = small([[0.45], [0.9]], proof=tmp_path / "own.proof")
    assert found["attackers"][0]["proof"]["checked"] is True


def test_retraining_measures_three_models_on_the_same_rows() -> None:
    X, y = load_wine(return_X_y=True)
    model = LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1).fit(X, y)
    attacker = cg.Attacker("inf", 0.1)
    report = cg.report(model, X, y, attacker, retrain=True, sample=20, progress=False)
    (entry,) = report.to_dict()["attackers"]
    trained = entry["retraining"]
    assert sum(trained["rows"].values()) == len(y)
    assert [line["name"] for line in trained["models"]] == [
        "plain LightGBM",
        "robust training",
        "this model",
    ]
    assert [line["note"] is None for line in trained["models"]] == [True, True, False]
    for line in trained["models"]:
        assert line["robust"] == round(line["robustness"][0] * trained["rows"]["test"])
        assert line["interval"][0] <= line["robustness"][0] <= line["interval"][1]
        assert 0 <= line["robustness"][0] <= line["robustness"][1] <= line["accuracy"] <= 1
        assert line["trees"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [0, 2]}, "2"),
        ({"attackers": []}, "attackers must name at least one attacker"),
        ({"attackers": "inf"}, "attackers must be an Attacker or several, got 'inf'"),
        ({"names": ["a", "b"]}, "names has 2 entries, the model has 1 features"),
        ({"images": (2, 2)}, "images of 2 x 2 have 4 pixels, the model has 1 features"),
        ({"images": 28}, "images must be (height, width), got 28"),
        ({"sample": 0}, "sample must be a whole number of rows from 1 on, or None, got 0"),
        ({"timeout": 0}, "timeout must be > 0"),
        ({"retrain": True, "y": None}, "retrain needs labels"),
        ({"retrain": True}, "retrain needs 50 rows"),
        ({"retrain": True, "y": [1, 1]}, "retrain needs two classes"),
        ({"proof": "x.proof", "sample": 1}, "proof is of all rows, and of 2 rows a sample of 1"),
        ({"path": "report.pdf"}, "end the name in .html or .json"),
        ({"path": "nowhere/report.html"}, "there is no folder nowhere"),
        ({"X": np.empty((0, 1)), "y": []}, "row"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = cg.Ensemble.from_trees([STUMP], n_features=1)
    given: dict[str, Any] = {"X": [[0.1], [0.9]], "y": [0, 1], "attackers": cg.Attacker("inf", 0.1)}
    with pytest.raises(cg.CarveError) as caught:
        cg.report(model, **{**given, **options}, progress=False)
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
