"""The page states what its document holds, for any document, and nothing else."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.reports.charts import axis_for
from carvegbm.reports.formats import before_and_after, budget_below, name, number, number_pair
from carvegbm.reports.page import html
from carvegbm.statuses import STATUSES
from carvegbm.storage.text import percent, percent_interval
from outlines import Outline, check_references, check_that_nothing_is_loaded
from reports.documents import leave_open, made, plain, stump

INF = math.inf


def everything() -> dict[str, Any]:
    """Three norms, four attackers with and without limits, a sample, and a row nothing flips."""
    rng = np.random.default_rng(0)
    trees = [
        {"feature": f, "threshold": t, "left": {"score": -w}, "right": {"score": w}}
        for f, t, w in ((0, 0.2, 1.0), (1, 0.5, 1.5), (2, 1.0000000180025095e-35, 0.7), (0, 0.7, 1))
    ]
    model = cg.Ensemble.from_trees(trees, n_features=3, classes=["ham", "spam"])
    X = rng.random((90, 3)) * [1, 1, 100]
    X[::3, 2] = 0
    attackers = [
        cg.Attacker("inf", 0.1),
        cg.Attacker("inf", 0.3),
        cg.Attacker(0, 1, features=[0, 2]),
        cg.Attacker(1, 0.2, scale={0: (0, 2.0)}, bounds=(0, 100)),
    ]
    y = np.where(rng.random(90) < 0.1, "ham", model.decide(X))
    return made(model, X, y, attackers, sample=60)


def images() -> dict[str, Any]:
    model = stump(n_features=12)
    X = np.tile(np.linspace(0, 1, 12), (3, 1))
    X[:, 0] = [0.2, 0.5, -0.4]
    return made(model, X, None, cg.Attacker("inf", 0.1), images=(3, 4))


def interrupted() -> dict[str, Any]:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    found = cg.report(stump(), [[0.1, 1.0]] * 3, [1, 1, 0], cg.Attacker("inf", 0.02), progress=stop)
    return json.loads(json.dumps(found.to_dict()))


DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": plain,
    "everything": everything,
    "images": images,
    "interrupted": interrupted,
    "no row right": lambda: plain([0] * 5),
    "no row robust": lambda: plain([0, 0.01, 0.02]),
    "all robust": lambda: plain([0.3, 0.4]),
    "no row ever flipped": lambda: plain([INF] * 4),
    "one row": lambda: plain([0.5]),
    "one row, wrong": lambda: plain([0]),
    "own labels": lambda: plain([0.01, 0.02, 0.3], own=True),
    "twelve attackers": lambda: plain(attackers=[cg.Attacker("inf", 0.01 * i) for i in range(12)]),
    "norm 3": lambda: plain([0.1, 0.5], [cg.Attacker(3, 0.2)]),
    "norm 0": lambda: plain([0.1, 0], [cg.Attacker(0, 1)]),
    "radius below all budgets": lambda: plain([5e-324, 5e-324], [cg.Attacker("inf", 0)]),
}


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return everything()


@pytest.fixture
def some_open(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Four rows, of which the third is not decided, but flipped at 0.5 at the latest."""
    leave_open(monkeypatch, [2], 0.0, 0.5)
    return plain([0.0, 0.01, 0.3, 0.7])


def sentences(made: dict[str, Any]) -> str:
    """All that can be read, on one line."""
    return " ".join(Outline(html(made)).text.split())


# ── every page ───────────────────────────────────────────────────────────────────────────────


def check_page(made: dict[str, Any]) -> None:
    text = html(made)
    outline = Outline(text)  # every element is closed
    check_that_nothing_is_loaded(text, outline)
    assert check_references(text, outline) >= 12
    levels = [level for level, _ in outline.headings]
    assert (levels.count(1), levels.count(2)) == (1, 6)
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert not re.search(r"None|\bnan\b|(?<!norm )(?<!Norm )\binf\b|\{\{|\{%", outline.text)
    assert not re.search(r"(?<![\d,.])1 (rows|features|witnesses|classes)\b", outline.text)
    for attributes in outline.all("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes["aria-label"]
    assert all(attributes.get("scope") in ("row", "col") for attributes in outline.all("th"))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_kind_of_document_makes_a_sound_page_with_its_counts(kind: str) -> None:
    made = DOCUMENTS[kind]()
    check_page(made)
    text = html(made)
    tables = Outline(text).tables
    bars = re.findall(r'<svg class="bar".*?</svg>', text, re.S)
    for place, (asked, bar) in enumerate(zip(made["attackers"], bars, strict=True), 1):
        header, *lines = tables[f"classes-{place}"]
        assert header == ["Class", "rows", "accuracy", "robustness", *STATUSES]
        for line, entry in zip(lines, [{**asked, "class": "all"}, *asked["classes"]], strict=True):
            assert line == [
                str(entry["class"]),
                f"{entry['instances']:,}",
                percent(entry["accuracy"]),
                percent_interval(*entry["robustness"]),
                *(f"{entry['counts'][status]:,}" for status in STATUSES),
            ]
        check_bar(bar, asked)


def check_bar(bar: str, asked: dict[str, Any]) -> None:
    """Parts are as wide as their counts, and the mark is at the accuracy."""
    found, end = dict.fromkeys(STATUSES, 0.0), 0.0
    for x, width, status in re.findall(
        r'<rect x="([\d.]+)%" y="8" width="([\d.]+)%"[^>]*url\(#look-(\w+)\)', bar
    ):
        assert float(x) == pytest.approx(end, abs=0.01)
        end = float(x) + float(width)
        found[status] += float(width)
    for status, width in found.items():
        assert width == pytest.approx(100 * asked["counts"][status] / asked["instances"], abs=0.01)
    (mark,) = re.findall(r'<rect x="([\d.]+)%"[^>]*class="mark-bar"', bar)
    assert float(mark) == pytest.approx(100 * asked["accuracy"], abs=0.21)


def test_figures_have_their_numbers_in_tables(whole: dict[str, Any]) -> None:
    tables = Outline(html(whole)).tables
    for place, distance in enumerate(whole["distances"], 1):
        curve = distance["curve"]
        steps = {
            percent_interval(*ends) for ends in zip(curve["lower"], curve["upper"], strict=True)
        }
        rows = tables[f"far-{place}-curve"][1:]
        assert {row[1] for row in rows} <= steps
        asked = {one["budget"] for one in whole["attackers"] if one["distance"] == place - 1}
        assert {number(budget, 17) for budget in asked} <= {row[0] for row in rows}
        bars = tables[f"far-{place}-radii"][1:]
        assert [row[1] for row in bars] == [str(bar["count"]) for bar in distance["histogram"]]
        features = tables[f"weak-{place}-features"][1:]
        assert [row[:4] for row in features] == [
            [one["name"], str(one["rows"]), percent(one["share"]), str(one["alone"])]
            for one in distance["weak"]
        ]
        numbers = whole["rows"]["number"]
        firsts = [numbers[distance["witnesses"][i]["row"]] for i in distance["first"]]
        assert [row[0] for row in tables[f"weak-{place}-first"][1:]] == list(map(str, firsts))


def test_the_same_document_makes_the_same_page_and_only_times_differ(whole: dict[str, Any]) -> None:
    other = copy.deepcopy(whole)
    other["times"] = {
        "date": "2030-01-02T03:04:05+00:00", "seconds": 9.0, "verify": [9.0] * 4,
        "slowest": [9.0] * 4, "measure": [9.0] * 3, "witnesses": [9.0] * 3,
    }  # fmt: skip
    assert html(copy.deepcopy(whole)) == html(whole)
    pages = [
        re.sub(r"<(\w+)[^>]* data-time>.*?</\1>", "", html(one), flags=re.S)
        for one in (whole, other)
    ]
    assert html(other) != html(whole)
    assert pages[0] == pages[1]
    assert len(pages[0]) > 0.9 * len(html(whole))


def test_everything_is_escaped_and_nothing_hidden() -> None:
    nasty = '<b onclick="x">&\'\u202egnp.exe\n\x00\ud800</b>'
    found = plain(classes=[nasty, "<i>"], names=[nasty, "x" * 5000])
    found["model"]["name"] = found["data"]["name"] = nasty
    found["versions"]["numpy"] = found["settings"]["engine"] = nasty
    entry = found["attackers"][0]
    entry["attacker"]["features"], entry["changeable"] = [nasty], 1
    entry["units"]["smallest"]["name"] = "x" * 5000
    entry["proof"] = {
        "file": nasty, "sha256": nasty, "bytes": 1, "proved": 1, "unproved": 0, "checked": False,
        "said": nasty,
    }  # fmt: skip
    text = html(found)
    text.encode("utf-8")
    outline = Outline(text)
    assert "<b onclick" not in text
    assert "<i>" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
    assert "\\u202egnp.exe\\n\\u0000\\ud800" in outline.text
    assert all(set(attributes) <= {"title", "class"} for attributes in outline.all("bdi"))
    assert "x" * 60 not in outline.text  # shortened, with more in its title
    assert any(attributes.get("title") == "x" * 1000 for attributes in outline.all("bdi"))


def test_a_large_report_is_a_small_page() -> None:
    radii = [0.0] * 10 + [0.001 * i**1.1 for i in range(1, 991)]
    assert len(html(plain(radii, sample=None)).encode()) < 200_000


# ── notices ──────────────────────────────────────────────────────────────────────────────────


def test_what_a_reader_must_know_first_is_stated_where_it_holds(whole: dict[str, Any]) -> None:
    missing = plain([0.1, INF])
    cases = {
        "A sample was analysed. 60 of 90 rows, drawn at random (seed 0).": whole,
        "The work was cut short.": interrupted(),
        "No labels were given.": plain(own=True),
        "Missing values. 1 value in these rows": missing,
        "The trap beside zero.": whole,
        "Mind the units.": whole,
    }
    for notice, document in cases.items():
        assert sentences(document).count(notice) == 1, notice
        assert notice.split(".")[0] + "." not in sentences(plain([0.01, 0.3]))
    for entry in whole["attackers"]:
        interval = percent_interval(*entry["population"]["robustness"])
        assert f"robustness in {interval}, with 95 % confidence." in sentences(whole)


def test_the_answer_holds_all_counts(some_open: dict[str, Any]) -> None:
    assert (
        "Without an attack, the model is right on 3 of 4 rows (75.0 %). Whatever an attacker does "
        "who changes each feature by at most 0.02, it stays right on 1 to 2 of 4 rows (25.0 % to "
        "50.0 %): proved, row by row; not decided: 1." in sentences(some_open)
    )
    assert "Weakest class" not in sentences(some_open)  # what is not decided may be weaker


def test_several_attackers_begin_with_the_weakest_and_the_strongest_result() -> None:
    text = sentences(plain([0, 0.01, 0.3], [cg.Attacker("inf", b) for b in (0.001, 0.5, 0.1)]))
    assert (
        "Proved to stay right: from 0 rows against attacker 2 (each feature by at most 0.5) to 2 "
        "rows against attacker 1 (each feature by at most 0.001)." in text
    )


def test_the_weakest_class_and_the_budget_beside_feature_ranges_are_stated() -> None:
    found = made(stump(classes=["<a>", "b"]), [[0.01, 0], [5.01, 0], [-3, 0]], None,
                 cg.Attacker("inf", 0.02))  # fmt: skip
    text = sentences(found)
    assert "Weakest class: “b” (right on 2 of 2 rows, stays right on 1: 50.0 %)." in text
    share = number(100 * 0.02 / 8.01, 2)
    assert f"is {share} % of the feature’s range" in text
    assert f"from {share} % (feature 0) to {share} % (feature 0)" in text


def test_all_features_are_no_limit() -> None:
    assert "Limits:" not in sentences(plain([0.3], [cg.Attacker("inf", 0.02, features=[0, 1])]))
    some = [cg.Attacker("inf", 0.02, features=[0], step=0.25, bounds=(0, 1))]
    text = sentences(plain([0.5], some))
    assert "Limits: " in text
    for part in ("features: [0]", "bounds: [0.0, 1.0]", 'step: "1/4"'):
        assert part in text


def test_proofs_are_named_with_what_the_checker_said(tmp_path: Path) -> None:
    text = sentences(plain([0.01, 0.3], proof=tmp_path / "a.proof"))
    assert "a.proof (" in text
    assert "proved: 2, not proved: 0; checked: " in text
    assert "not written" not in text


# ── radii ────────────────────────────────────────────────────────────────────────────────────


def test_a_curve_falls_where_the_radii_are(some_open: dict[str, Any]) -> None:
    text = html(some_open)
    (line,) = re.findall(r'<path d="M([^"]+)" class="line"/>', text)
    (above,) = re.findall(r'<path d="M([^"]+)" class="line open"/>', text)
    budgets = (0.005, 0.1, 0.6)
    assert [share_at(line, budget) for budget in budgets] == [0.5, 0.25, 0.25]
    assert [share_at(above, budget) for budget in budgets] == [0.75, 0.5, 0.25]


def share_at(path: str, budget: float) -> float:
    """The share at which a path of the chart stands at a budget; its axis ends at 1.05 * 0.7."""
    x = 46 + (400 - 46 - 20) * budget / (1.05 * 0.7)
    points = [tuple(map(float, point.split())) for point in path.split("L")]
    height = [y for at, y in points if at <= x][-1]
    return round((236 - 40 - height) / (236 - 40 - 26), 2)


@given(
    st.lists(st.floats(1e-90, 1e90), min_size=2, max_size=30),
    st.lists(st.floats(1e-6, 1e6), max_size=3),
)
def test_an_axis_shows_most_radii_apart_and_all_budgets(radii: Any, budgets: Any) -> None:
    axis = axis_for(radii, budgets, whole=False)
    values = sorted([*radii, *budgets])
    assert axis.place(values[-1]) > 0.5
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert [axis.place(v) for v in values] == sorted(axis.place(v) for v in values)
    assert axis.place(np.median(values)) >= 0.045 or axis.is_log  # no outlier squeezes the rest
    assert len(axis.ticks()) <= 7
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks())


def test_an_outlier_makes_the_axis_logarithmic() -> None:
    assert "logarithmic" not in html(plain([0.01, 0.02, 0.03, 0.04]))
    assert "logarithmic" in html(plain([0.01, 0.02, 0.03, 0.04, 70.0]))


def test_budgets_of_the_curve_are_told_apart_and_rounded_to_where_they_hold() -> None:
    near = [0.03125, 0.03125 + 1e-9, math.nextafter(0.03126, 1), 0.05]
    rows = Outline(html(plain(near))).tables["far-1-curve"][1:]
    assert len({budget for budget, _ in rows}) == len(rows) == 6
    for budget, share in rows:
        assert share == percent(sum(radius > float(budget) for radius in near) / 4)


@given(st.floats(1e-300, 1e300))
def test_a_stated_lower_bound_is_never_above_the_bound(bound: float) -> None:
    text = re.sub("<[^>]*>", "", budget_below(bound))
    stated = float(text.split()[0].replace(",", "").replace("−", "-"))
    assert stated <= bound or ("up to a rounding" in text and stated <= bound * (1 + 1e-9))
    assert stated >= bound * (1 - 1e-4)


def test_budgets_to_live_with_are_in_a_table(some_open: dict[str, Any]) -> None:
    rows = Outline(html(some_open)).tables["far-1-stays"][1:]
    assert [row[0] for row in rows] == ["99 %", "95 %", "90 %"]
    assert [row[2] for row in rows] == ["0.01"] * 3  # the undecided row may flip first


def test_a_bound_that_is_a_rounding_below_a_number_is_stated_as_this_number() -> None:
    exact = Outline(html(plain([0.47 - 0.45]))).tables["far-1-stays"][1:]
    assert exact[0] == ["99 %", "0.02 (up to a rounding)", "–"]
    assert [row[1:] for row in Outline(html(plain([INF]))).tables["far-1-stays"][1:]] == [
        ["∞", "–"]
    ] * 3


def test_radii_of_next_to_nothing_lead_to_the_trap_beside_zero(whole: dict[str, Any]) -> None:
    assert "that LightGBM tells from it: the trap beside zero" in sentences(whole)
    assert 'href="#trap"' in html(whole)
    assert html(whole).count('id="trap"') == 1
    assert "that LightGBM tells from it" not in sentences(plain())


# ── witnesses ────────────────────────────────────────────────────────────────────────────────


def test_witnesses_are_told_in_words_and_numbers() -> None:
    found = plain(classes=["spam", "ham"])
    distance = found["distances"][0]
    witness = distance["witnesses"][distance["shown"][0]["witness"]]
    before, after = found["rows"]["answer"][witness["row"]], witness["answer"]
    one = {"feature": 0, "name": "src_bytes", "before": 1032.0, "after": 1029.5}
    two = {"feature": 1, "name": "service", "before": "http", "after": "<b>"}
    witness["changes"] = [one]
    assert f"src_bytes 1,032 → 1,029.5: turns “{before}” into “{after}”." in sentences(found)
    witness["changes"] = [one, two]
    assert Outline(html(found)).tables["witnesses-1-1"][1:] == [
        ["service", "http", "<b>", "–"],
        ["src_bytes", "1,032", "1,029.5", "−2.5"],
    ]
    witness["changes"] = [
        {"feature": i, "name": f"f{i}", "before": float(i), "after": i + 2.0**-i} for i in range(43)
    ]
    assert "f0 0 → 1, f1 1 → 1.5, f2 2 → 2.25, 40 more: turns" in sentences(found)
    assert len(Outline(html(found)).tables["witnesses-1-1"]) == 13


def test_a_borderline_witness_and_one_that_may_not_be_nearest_are_marked() -> None:
    found = plain([0.1, 0.2])
    assert "orderline: it" not in sentences(found)
    distance = found["distances"][0]
    witness = distance["witnesses"][0]
    witness.update(borderline=True, nearest=False, answer=found["rows"]["answer"][witness["row"]])
    distance["borderline"] = 1
    distance["radius"]["lower"][witness["row"]] = 0.05
    text = sentences(found)
    assert "Borderline: it is closer to the decision threshold" in text
    assert "the library itself may still answer" in text
    assert "Size 0.1; no change below 0.05 flips this row." in text
    assert Outline(html(found)).tables["weak-1-first"][1][1] == "≤ 0.1"


def test_images_outline_the_pixels_that_changed() -> None:
    found = images()
    pairs = re.findall(r'<figure class="pair">.*?</figure>', html(found), re.S)
    pictures = found["distances"][0]["images"]["pictures"]
    kinds = set()
    for pair, picture in zip(pairs, pictures, strict=True):
        for kind, is_it in (("brighter", float.__gt__), ("darker", float.__lt__)):
            outlines = "".join(re.findall(rf'class="{kind}" d="([^"]+)"', pair))
            corners = re.findall(r"M(\d+)\.1 (\d+)\.1", outlines)
            places = [4 * int(row) + int(column) for column, row in corners]
            sides = enumerate(zip(picture["after"], picture["before"], strict=True))
            assert places == [i for i, (after, before) in sides if is_it(after, before)]
            kinds |= {kind} if places else set()
    assert kinds == {"brighter", "darker"}


# ── numbers and names ────────────────────────────────────────────────────────────────────────


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_numbers_that_differ_never_look_alike(before: float, after: float) -> None:
    first, second = number_pair(before, after)
    assert (first == second) == (before == after)
    texts = [text.replace(",", "").replace("−", "-") for text in (first, second)]
    for shown, value in zip(map(float, texts), (before, after), strict=True):
        assert shown == pytest.approx(value, rel=1e-4, abs=1e-320)


@given(st.text())
def test_a_name_is_one_element_without_hidden_characters(text: str) -> None:
    shown = name(text)
    assert re.fullmatch(r"<bdi[^<>]*>[^<>]*</bdi>", shown)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (0.5, 0.8125000000000002, ["0.5", "0.8125…"]),
        (0.5, 1.0000000180025096e-35, ["0.5", "1e−35"]),
        (0.0, 1.0000000180025096e-35, ["0", "1e−35…"]),
        (-0.5, -0.29999999999999993, ["−0.5", "−0.29999999999999993"]),
        (0.9, 0.8125, ["0.9", "0.8125"]),
        (0.5, 2 / 3, ["0.5", "0.66667"]),
    ],
)
def test_a_value_just_above_a_threshold_does_not_look_like_it(
    before: float, after: float, shown: list[str]
) -> None:
    change = {"feature": 0, "name": "a", "before": before, "after": after}
    assert [re.sub("<[^>]*>", "", text) for text in before_and_after(change)] == shown
