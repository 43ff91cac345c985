"""The report's page says what its document says, in every case, and nothing that is not in it."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.reports.page import html
from carvegbm.reports.page.numbers import number, number_pair
from carvegbm.reports.page.text import shown_name
from carvegbm.statuses import STATUSES
from carvegbm.storage.text import percent, percent_interval
from outlines import Outline, check_references, check_that_nothing_is_loaded
from reports.documents import document, everything, plain, retrained, with_images

INF = math.inf
DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": plain,
    "everything": everything,
    "images": with_images,
    "no row right": lambda: plain(radii={"inf": [0.0] * 5}),
    "no row robust": lambda: plain(radii={"inf": [0.0, 0.01, 0.02]}),
    "all robust": lambda: plain(radii={"inf": [0.3, 0.4]}),
    "one class": lambda: plain(classes=["only"]),
    "one feature": lambda: plain(features=1),
    "10,000 features": lambda: plain(features=10_000),
    "all radii infinite": lambda: plain(radii={"inf": [INF] * 4}),
    "all unknown": lambda: plain(radii={"inf": [(0.0, INF)] * 4}),
    "some unknown": lambda: plain(radii={"inf": [0.0, 0.01, (0.01, 0.5), 0.7]}),
    "one row, right": lambda: plain(radii={"inf": [0.5]}),
    "one row, wrong": lambda: plain(radii={"inf": [0.0]}),
    "one row, unknown": lambda: plain(radii={"inf": [(0.0, INF)]}),
    "own labels": lambda: plain(own=True, radii={"inf": [0.01, 0.02, 0.3]}),
    "own labels, one row": lambda: plain(own=True, radii={"inf": [0.01]}),
    "own labels, none kept": lambda: plain(own=True, radii={"inf": [0.01, 0.01]}),
    "own labels, unknown": lambda: plain(own=True, radii={"inf": [(0.0, INF), 0.5]}),
    "twelve attackers": lambda: plain(attackers=[("inf", 0.01 * i) for i in range(12)]),
    "norm 2": lambda: document(radii={2: [0.0, 0.5, 1.5]}, attackers=[(2, 1.0)]),
    "norm 3": lambda: document(radii={3: [0.0, 0.5, 1.5]}, attackers=[(3, 1.0)]),
    "norm 0, never": lambda: document(radii={0: [0.0, INF]}, attackers=[(0, 1.0)]),
}
"""Documents of every kind."""


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return everything()


@pytest.fixture(scope="module")
def text(whole: dict[str, Any]) -> str:
    return html(whole)


@pytest.fixture(scope="module")
def outline(text: str) -> Outline:
    return Outline(text)


def sentences(made: dict[str, Any]) -> str:
    """All that can be read, on one line."""
    return " ".join(Outline(html(made)).text.split())


def answer(made: dict[str, Any]) -> str:
    """The first attacker's sentence."""
    found = re.search(r'<p class="answer">(.*?)</p>', html(made))
    assert found is not None
    return found[1].replace("\u00a0", " ")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_kind_of_document_makes_a_sound_page(name: str) -> None:
    made = DOCUMENTS[name]()
    text = html(made)
    outline = Outline(text)  # every element is closed
    check_that_nothing_is_loaded(text, outline)
    assert check_references(text, outline) >= 12
    levels = [level for level, _ in outline.headings]
    assert levels.count(1) == 1
    assert levels.count(2) == 6
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert not re.search(r"None|\bnan\b|(?<!norm )(?<!Norm )\binf\b|\S  \S(?<!r  m)", outline.text)
    assert not re.search(
        r"(?<![\d,.])1 (rows|changes|features|witnesses|thresholds|trees|classes|radii|pixels)\b",
        outline.text,
    )
    for attributes in outline.all("svg"):
        assert attributes.get("aria-hidden") == "true" or (
            attributes["role"] == "img" and attributes["aria-label"]
        )
    assert all(attributes.get("scope") in ("row", "col") for attributes in outline.all("th"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_counts_of_every_class_are_those_of_the_document(name: str) -> None:
    made = DOCUMENTS[name]()
    tables = Outline(html(made)).tables
    own = made["data"]["labels"] == "own"
    for place, asked in enumerate(made["attackers"], 1):
        header, *lines = tables[f"classes-{place}"]
        some = [status for status in STATUSES if asked["counts"][status]]  # others have no column
        assert header == ["Class", "rows", *([] if own else ["accuracy"]), "robustness", *some]
        n, right = made["data"]["judged"], sum(made["rows"]["right"])
        everything_ = {**asked, "class": "all", "instances": n, "accuracy": right / n}
        for line, entry in zip(lines, [everything_, *asked["classes"]], strict=True):
            assert line == [
                str(entry["class"]),
                f"{entry['instances']:,}",
                *([] if own else [percent(entry["accuracy"])]),
                percent_interval(*entry["robustness"]),
                *(f"{entry['counts'][status]:,}" for status in some),
            ]


def test_bars_are_as_wide_as_their_counts(whole: dict[str, Any], text: str) -> None:
    bars = re.findall(r'<svg class="bar".*?</svg>', text)
    for bar, asked in zip(bars, whole["attackers"], strict=True):
        found: dict[str, float] = dict.fromkeys(STATUSES, 0.0)
        end = 0.0
        for x, width, status in re.findall(
            r'<rect x="([\d.]+)%" y="8" width="([\d.]+)%"[^>]*url\(#look-(\w+)\)', bar
        ):
            assert float(x) == pytest.approx(end, abs=0.01)
            end = float(x) + float(width)
            found[status] += float(width)
        n = len(asked["status"])
        for status, width in found.items():
            assert width == pytest.approx(100 * asked["counts"][status] / n, abs=0.01)
        (mark,) = re.findall(r'<rect x="([\d.]+)%"[^>]*class="mark-bar"', bar)
        assert float(mark) == pytest.approx(100 * asked["accuracy"], abs=0.01)


def test_curves_histograms_and_features_have_their_numbers_in_tables(
    whole: dict[str, Any], outline: Outline
) -> None:
    for place, distance in enumerate(whole["distances"], 1):
        curve = distance["curve"]
        rows = outline.tables[f"far-{place}-curve"][1:]
        expected = [
            [number(b, 6, "up"), percent_interval(low, high)]  # where it holds, not just before
            for b, low, high in zip(curve["budgets"], curve["lower"], curve["upper"], strict=True)
        ]
        assert rows == expected
        bars = outline.tables[f"far-{place}-radii"][1:]
        assert [row[1] for row in bars] == [str(bar["count"]) for bar in distance["histogram"]]
        features = outline.tables[f"weak-{place}-features"][1:]
        assert [row[:4] for row in features] == [
            [one["name"], str(one["rows"]), percent(one["share"]), str(one["alone"])]
            for one in distance["weak"][:15]
        ]
        firsts = outline.tables[f"weak-{place}-first"][1:]
        rows_of = [distance["witnesses"][i]["row"] for i in distance["first"]]
        numbers = whole["rows"]["number"]
        assert [row[0] for row in firsts] == [f"{numbers[i]:,}" for i in rows_of]


def test_budgets_that_would_look_alike_are_told_apart() -> None:
    near = [0.03125, math.nextafter(0.03125, 1), math.nextafter(0.03126, 1)]
    made = document(radii={"inf": near}, attackers=[("inf", 0.03125)])
    assert Outline(html(made)).tables["far-1-curve"][1:] == [
        ["0", "100 %"],
        ["0.03125", "66.7 %"],
        ["0.0312501", "33.3 %"],  # as it is there, too
        ["0.0312601", "0 %"],
    ]
    close = [0.03125, math.nextafter(0.03125, 1), 0.03125 + 1e-9, 0.031250005]
    made = document(radii={"inf": close}, attackers=[("inf", 0.1)])
    assert ["0.031250005", "0 %"] not in Outline(html(made)).tables["far-1-curve"]
    assert Outline(html(made)).tables["far-1-curve"][-2] == ["0.0312501", "0 %"]


def test_a_curve_falls_where_the_radii_are() -> None:
    made = document(radii={"inf": [0.0, 0.25, 0.5, (0.5, INF)]}, attackers=[("inf", 0.3)])
    text = html(made)
    (line,) = re.findall(r'<path d="M([^"]+)" class="line"/>', text)
    (above,) = re.findall(r'<path d="M([^"]+)" class="line open"/>', text)
    heights = [
        sorted({float(point.split()[1]) for point in path.split("L")}) for path in (line, above)
    ]
    top, bottom = 26, 236 - 40
    shares = [[round((bottom - y) / (bottom - top), 2) for y in path] for path in heights]
    assert shares == [[0.75, 0.5, 0], [0.75, 0.5, 0.25]]  # what lies beyond 0.5 is not decided


def test_budgets_to_live_with_are_rounded_down_and_say_what_is_not_known() -> None:
    made = plain()
    distance = made["distances"][0]
    distance["stays"] = [
        {"share": 0.999, "lower": 0.47 - 0.45, "upper": 0.47 - 0.45},
        {"share": 0.99, "lower": 0.012345678, "upper": 0.012345678},
        {"share": 0.95, "lower": 0.5, "upper": None},
        {"share": 0.9, "lower": None, "upper": None},
    ]
    rows = Outline(html(made)).tables["far-1-stays"][1:]
    assert 0.47 - 0.45 < 0.02
    assert rows == [
        ["99.9 %", "every budget below 0.02 (up to a rounding)"],
        ["99 %", "every budget below 0.0123456"],
        ["95 %", "every budget below 0.5; above, this is not decided"],
        ["90 %", "every budget"],
    ]


def test_no_row_is_said_to_flip_first_where_another_may() -> None:
    decided = Outline(html(plain(radii={"inf": [0.1, 0.2, 0.3]}))).text
    assert "flips first" in decided
    assert "The rows that flip first" in decided
    for known in ([0.1, 0.2], [0.1, 0.1], [0.1]):
        text = Outline(html(plain(radii={"inf": [*known, (0.01, math.inf)]}))).text
        assert "for which it is known exactly" in text
        assert "The nearest witnesses found" in text
        assert "the nearest witness found" in text
        assert "The rows that flip first" not in text
        assert ", the row that flips first" not in text


def test_everything_is_escaped_and_nothing_hidden() -> None:
    nasty = '<b onclick="x">&\'\u202egnp.exe\n\x00\ud800</b>'
    names = [nasty, "x" * 5000, "", "\u05d0\u05d1", *(f"{nasty}{i}" for i in range(3))]
    made = plain(classes=[nasty, "<i>"], names=names)
    made["model"]["name"] = made["data"]["name"] = nasty
    made["versions"]["numpy"] = made["settings"]["engine"] = nasty
    made["attackers"][0]["attacker"]["features"] = [nasty]
    made["attackers"][0]["proof"] = {
        "file": nasty, "sha256": nasty, "bytes": 1, "proved": 1, "unproved": 0, "checked": False,
        "said": nasty,
    }  # fmt: skip
    text = html(made)
    text.encode("utf-8")
    outline = Outline(text)
    assert "<b onclick" not in text
    assert "<i>" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
    assert "\\u202egnp.exe\\n\\u0000\\ud800" in outline.text
    assert all(set(attributes) <= {"title", "class"} for attributes in outline.all("bdi"))
    assert "x" * 60 not in outline.text  # shortened, and whole in its title
    assert any(attributes.get("title") == "x" * 1000 for attributes in outline.all("bdi"))
    assert "(empty)" in outline.text


def test_the_same_document_makes_the_same_page_and_only_times_differ(whole: dict[str, Any]) -> None:
    other = copy.deepcopy(whole)
    other["times"] = {
        "date": "2030-01-02T03:04:05+00:00", "seconds": 9.0, "verify": [9.0] * 4,
        "slowest": [9.0] * 4, "measure": [9.0] * 3, "witnesses": [9.0] * 3, "retraining": 9.0,
    }  # fmt: skip
    assert html(json.loads(json.dumps(whole))) == html(whole)
    assert html(other) != html(whole)
    assert timeless(html(other)) == timeless(html(whole))
    assert len(timeless(html(whole))) > 0.9 * len(html(whole))


def timeless(text: str) -> str:
    """Without the elements that times stand in."""
    return re.sub(r"<(\w+)[^>]* data-time>.*?</\1>", "", text, flags=re.S)


ANSWERS = {
    "plain": "Of 12 rows, the model is right on 10 (83.3 %); 7 of them (58.3 % of all) stay right "
    "whatever an attacker does who changes each feature by at most 0.02: proved, not sampled.",
    "no row right": "Of 5 rows, the model is right on none: there is nothing that an attacker who "
    "changes each feature by at most 0.02 would have to turn wrong.",
    "no row robust": "Of 3 rows, the model is right on 2 (66.7 %); not one of them stays right "
    "against an attacker who changes each feature by at most 0.02: for each there is a witness "
    "that turns it wrong.",
    "all robust": "The model is right on both rows; all of them stay right whatever an attacker "
    "does who changes each feature by at most 0.02: proved, not sampled.",
    "all unknown": "The model is right on all 4 rows; how many of them stay right whatever an "
    "attacker does who changes each feature by at most 0.02 is not decided.",
    "some unknown": "Of 4 rows, the model is right on 3 (75.0 %); 1 to 2 of them (25.0 % to 50.0 % "
    "of all) stay right whatever an attacker does who changes each feature by at most 0.02: 1 row "
    "is proved to, and 1 is not decided.",
    "one row, right": "The model is right on the one row judged, and it stays right whatever an "
    "attacker does who changes each feature by at most 0.02: proved, not sampled.",
    "one row, wrong": "The model is wrong on the one row judged: there is nothing that an attacker "
    "who changes each feature by at most 0.02 would have to turn wrong.",
    "one row, unknown": "The model is right on the one row judged; whether it stays right whatever "
    "an attacker does who changes each feature by at most 0.02 is not decided.",
    "own labels": "Of 3 rows, 1 (33.3 %) keeps the model's answer whatever an attacker does who "
    "changes each feature by at most 0.02: proved, not sampled.",
    "own labels, one row": "The one row judged does not keep the model's answer: an attacker who "
    "changes each feature by at most 0.02 can change it.",
    "everything": "Of 40 judged rows, the model is right on 38 (95.0 %); 33 of them (82.5 % of "
    "all) stay right whatever an attacker does who changes each feature by at most 0.02: proved, "
    "row by row.",
    "norm 0, never": "Of 2 rows, the model is right on 1 (50.0 %); this one stays right whatever "
    "an attacker does who changes one feature to any value: proved, not sampled.",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_is_right_in_words(name: str) -> None:
    assert answer(DOCUMENTS[name]()).replace("&#x27;", "'") == ANSWERS[name]


def test_without_labels_nothing_is_said_of_accuracy() -> None:
    text = sentences(DOCUMENTS["own labels"]())
    assert "No labels were given." in text
    assert "accuracy" not in text
    assert "right rows" not in text


def test_a_sample_is_said_to_be_one_with_the_interval_for_all_rows(whole: dict[str, Any]) -> None:
    text = sentences(whole)
    assert "A sample was judged. 40 of 1,000 rows, drawn at random (seed 0)." in text
    for asked in whole["attackers"]:
        low, high = percent_interval(*asked["population"]["robustness"]).split(" to ")
        assert f"robustness lies between {low} and {high}, with 95 % confidence." in text
    assert "From here on, rows are those that were judged" in text
    for said in ("A sample was judged", "From here on"):
        assert said not in sentences(plain())


def test_work_that_was_cut_short_is_said_to_be() -> None:
    made = plain()
    assert "cut short" not in sentences(made)
    made["interrupted"] = True
    assert "The work was cut short." in sentences(made)


def test_witnesses_are_told_in_words_and_numbers() -> None:
    made = plain(classes=["spam", "ham"])
    distance = made["distances"][0]
    witness = distance["witnesses"][0]
    distance["shown"] = [{"witness": 0, "why": "first"}]
    one = {"feature": 0, "name": "src_bytes", "before": 1032.0, "after": 1029.5}
    two = {"feature": 1, "name": "count", "before": 1.0, "after": 2.0}
    witness["changes"] = [one]
    before, after = made["rows"]["answer"][witness["row"]], witness["answer"]
    text = sentences(made)
    assert f"src_bytes 1,032 → 1,029.5: that alone turns “{before}” into “{after}”." in text
    assert "witnesses-1-1" not in Outline(html(made)).tables  # the sentence says it all
    witness["changes"] = [one, two]
    assert Outline(html(made)).tables["witnesses-1-1"][1:] == [
        ["src_bytes", "1,032", "1,029.5", "−2.5"],
        ["count", "1", "2", "+1"],
    ]
    witness["changes"] = [
        {"feature": i, "name": f"f{i}", "before": float(i), "after": i + 2.0**-i} for i in range(43)
    ]
    text = sentences(made)
    assert "f0 0 → 1, f1 1 → 1.5, f2 2 → 2.25 and 40 more changes: together that turns" in text
    assert "The largest 12 of 43 changes, and 31 more." in text
    assert len(Outline(html(made)).tables["witnesses-1-1"]) == 13
    witness["changes"] = [{"feature": 0, "name": "service", "before": "http", "after": "<b>"}]
    assert "service http → <b>: that alone turns" in sentences(made)


def test_a_borderline_witness_and_one_that_may_not_be_nearest_are_said_to_be() -> None:
    made = plain()
    witness = made["distances"][0]["witnesses"][0]
    assert "orderline" not in sentences(made)
    witness["borderline"] = True
    witness["answer"] = made["rows"]["answer"][witness["row"]]
    witness["nearest"] = False
    text = sentences(made)
    assert "Borderline: it is closer to the decision threshold" in text
    assert "1 witness is borderline" in text
    assert "the library itself may still answer" in text
    assert "a smaller change may flip this row, too." in text


def test_images_outline_the_pixels_that_changed() -> None:
    made = with_images()
    text = html(made)
    pairs = re.findall(r'<figure class="pair">.*?</figure>', text, re.S)
    pictures = made["distances"][0]["images"]["pictures"]
    for pair, picture in zip(pairs, pictures, strict=True):
        for kind, is_it in (("brighter", float.__gt__), ("darker", float.__lt__)):
            found = re.findall(rf'class="{kind}" d="([^"]+)"', pair)
            corners = re.findall(r"M(\d+)\.1 (\d+)\.1", "".join(found))
            places = [4 * int(row) + int(column) for column, row in corners]
            sides = enumerate(zip(picture["after"], picture["before"], strict=True))
            assert places == [i for i, (after, before) in sides if is_it(after, before)]


def test_advice_is_what_was_measured_or_how_to_measure_it(whole: dict[str, Any]) -> None:
    again = "Run the same command again with --retrain (in Python: retrain=True) to measure it"
    assert again in sentences(plain())
    measured = sentences(whole)
    assert (
        "Compared with this model, robust training raises robustness: 104 to 105 → 162 to 164 of "
        "200 test rows stay right. Accuracy is 2 percentage points lower." in measured
    )
    assert "This could not be measured: nothing can be trained on <this>." in measured
    assert "This was not measured for the other 2 attackers." in measured
    table = Outline(html(whole)).tables["retraining-1"]
    assert table[2][:5] == [
        "robust training", "94.0 %", "162 to 164 of 200", "81.0 % to 82.0 %", "74.0 % to 89.0 %",
    ]  # fmt: skip
    made = plain(own=True, radii={"inf": [0.01]})
    assert "This was not measured, as it needs labels." in sentences(made)


@pytest.mark.parametrize(
    ("robust", "expected"),
    [
        ((160, 160), "robust training raises robustness: 100 → 160 of 200 test rows stay right."),
        ((40, 40), "robust training lowers robustness: 100 → 40 of 200 test rows stay right."),
        ((100, 100), "robust training leaves robustness as it is: 100 → 100 of 200 test rows"),
        ((110, 110), "this may be chance, and is no proof of a gain."),
        ((90, 90), "this may be chance, and is no proof of a loss."),
        ((90, 200), "100 → 90 to 200 of 200 test rows stay right with robust training."),
    ],
)
def test_a_gain_is_claimed_only_where_the_intervals_do_not_overlap(
    robust: tuple[int, int], expected: str
) -> None:
    made = plain()
    models = [
        retrained("robust training", 0.9, robust, 9, None),
        retrained("this model", 0.9, (100, 100), 9, None),
    ]
    rows = {"train": 600, "valid": 200, "test": 200}
    made["attackers"][0]["retraining"] = {"rows": rows, "seed": 0, "models": models}
    text = sentences(made)
    assert expected in text
    assert ("The intervals overlap" in text) == (robust in ((110, 110), (90, 90)))
    assert ("Too many rows are undecided" in text) == (robust == (90, 200))


def test_the_trap_beside_zero_is_told_once() -> None:
    made = plain(attackers=[("inf", 0.01), ("inf", 0.02)])
    assert "trap beside zero" not in sentences(made)
    for asked in made["attackers"]:
        asked["crowds"]["zeros"] = {"thresholds": 1, "features": 1, "rows": 3}
    text = sentences(made)
    assert text.count("The trap beside zero.") == 1
    assert "1 threshold of 1 feature lies 1e−35 beside zero, and 3 rows have exactly 0" in text


def test_a_large_report_is_a_small_page() -> None:
    radii = [0.0] * 10 + [0.001 * i**1.1 for i in range(1, 991)]
    norms = {
        norm: [float(math.ceil(r)) if norm == 0 else r for r in radii] for norm in ("inf", 1, 0)
    }
    made = document(
        radii=norms, attackers=[("inf", 0.1), (1, 0.5), (0, 1.0)], features=784, rows=5000
    )
    assert len(html(made).encode()) < 500_000


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_numbers_that_differ_never_look_alike(before: float, after: float) -> None:
    first, second = number_pair(before, after)
    assert (first == second) == (before == after)
    texts = [t.replace(",", "").replace("−", "-") for t in (first, second)]
    for shown, value in zip(map(float, texts), (before, after), strict=True):
        assert shown == pytest.approx(value, rel=1e-4, abs=1e-320)


@given(st.text())
def test_a_name_is_one_element_without_hidden_characters(name: str) -> None:
    shown = shown_name(name)
    assert re.fullmatch(r"<bdi[^<>]*>[^<>]*</bdi>", shown)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode("utf-8")
