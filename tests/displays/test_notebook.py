"""Results in notebooks: sound, escaped, small, and with the numbers of the results."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.report import TrainingReport, Trial
from drawn import radii, verification
from plain_trees import ensemble, stump

EVIL = '<script>alert("1")</script> & <b>'
MODEL = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2, feature_names=[EVIL, "sum"])
X, Y = [[0.1, 0.1], [0.45, 0.45], [0.9, 0.9]], [0, 0, 0]
ATTACKER = cg.Attacker("inf", 0.1, scale={EVIL: 2.0})
ALL_TAGS = {
    *("div", "strong", "span", "table", "thead", "tbody", "tr", "th", "td", "details", "summary")
}


class Reader(HTMLParser):
    """Text by cell; every tag is closed, and is one of ours."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ALL_TAGS
        assert all(name in ("style", "title", "role", "aria-label") for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data.strip())


def a_report() -> TrainingReport:
    size = {"trees": 3, "leaves": 12, "seconds": 0.25, "model": None}
    figures = {"accuracy": 0.9, "robustness": 0.6}
    trials = [Trial(parameters={EVIL: i}, note=EVIL, **size, measures=figures) for i in range(500)]
    return TrainingReport(trials, trials[400], f"because {EVIL}")


SHOWN = {
    "verify": lambda: cg.verify(MODEL, X, Y, ATTACKER),
    "totals": lambda: cg.verify(MODEL, X, Y, ATTACKER)._totals,
    "attack": lambda: cg.attack(MODEL, X, Y, ATTACKER),
    "radius": lambda: cg.radius(MODEL, X, Y, cg.Attacker(1)),
    "curve": lambda: cg.robustness_curve(MODEL, X, Y, cg.Attacker(1), budgets=[0, 0.1, 0.2]),
    "range": lambda: cg.output_range(MODEL, X, ATTACKER),
    "report": a_report,
    "attacker": lambda: ATTACKER,
    "ensemble": lambda: MODEL,
}


@pytest.mark.parametrize("what", SHOWN)
def test_everything_is_sound_html_with_names_escaped(what):
    text = SHOWN[what]()._repr_html_()
    found = Reader(text)
    assert "<script" not in text
    assert found.words
    if what in ("verify", "totals", "attack", "range", "report", "attacker", "ensemble"):
        assert any("<script>" in word for word in found.words)


def test_verification_says_counts_accuracy_and_robustness():
    result = verification(["robust"] * 6 + ["fragile", "broken", "vulnerable", "unknown"])
    words = Reader(result._repr_html_()).words
    assert "accuracy 80.0 %, robustness 60.0 % to 70.0 %" in words
    place = words.index("6")
    assert words[place + 1] == "60.0 %"
    assert "not decided" in words


def test_radii_of_every_kind_are_counted():
    found = radii(0, 0.25, 0.5, np.inf, np.inf, np.inf, (0.125, np.inf))
    words = Reader(found._repr_html_()).words
    for what, count in {
        "wrong already, radius 0": "1",
        "flipped by a finite budget": "2",
        "flipped by none": "3",
        "not decided": "1",
    }.items():
        assert words[words.index(what) + 1] == count
    assert "0.25 to 0.5, median 0.375" in words
    assert "at least 0.125" in words


def test_curve_is_a_row_per_budget_and_long_ones_end_early():
    curve = SHOWN["curve"]()
    words = Reader(curve._repr_html_()).words
    for budget in curve.budgets:
        assert f"{budget:g}" in words
    many = cg.robustness_curve(MODEL, X, Y, cg.Attacker(1), budgets=np.linspace(0, 1, 5000))
    words = Reader(many._repr_html_()).words
    assert "the first 60 of 5,000 budgets" in words


def test_large_results_are_small_pages():
    n = 200_000
    result = verification(["robust"] * n)
    text = result._repr_html_()
    assert len(text) < 20_000
    assert "the first 10 of 200,000 rows" in text
    wide = ensemble(
        stump(0, 0.5), n_features=10_000, feature_names=["x" * 300 + str(i) for i in range(10_000)]
    )
    assert len(wide._repr_html_()) < 20_000
    assert len(cg.Attacker(1, 1, scale=np.ones(100_000))._repr_html_()) < 20_000
    assert len(cg.Attacker(1, 1, bounds=(np.zeros((999, 99)), 1))._repr_html_()) < 20_000


def test_the_chosen_trial_is_bold_however_late_it_comes():
    text = a_report()._repr_html_()
    assert len(text) < 200_000
    rows = [row for row in text.split("<tr>") if "font-weight: bold" in row and "<td" in row]
    assert len(rows) == 1
    assert ">400<" in rows[0]
    assert "61 of 500 trials" in text
