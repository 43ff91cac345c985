"""What the report's page concludes: of attackers, of classes, of budgets, of weak features."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from carvegbm.reports.page import html
from outlines import Outline
from reports.documents import document, everything, plain

INF = math.inf


def sentences(made: dict[str, Any]) -> str:
    """All that can be read, on one line."""
    return " ".join(Outline(html(made)).text.split())


def conclusion(made: dict[str, Any]) -> str | None:
    """What is said of all attackers."""
    found = re.search(r'<p class="conclusion">(.*?)</p>', html(made))
    return None if found is None else found[1].replace("\u00a0", " ").replace("&#x27;", "'")


RADII = [0.0, 0.01, 0.02, 0.03, 0.04]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"attackers": [("inf", b) for b in (0.01, 0.02, 0.03)]},
            "Without an attack, the model is right on 4 of 5 rows (80.0 %). 3 of them are proved "
            "to stay right against attacker 1 (each feature by at most 0.01), and only 1 against "
            "attacker 3 (each feature by at most 0.03): the most and the fewest of all attackers "
            "here.",
        ),
        (
            {"attackers": [("inf", 0.5), ("inf", 0.03)]},
            "Without an attack, the model is right on 4 of 5 rows (80.0 %). 1 of them is proved to "
            "stay right against attacker 2 (each feature by at most 0.03), and none against "
            "attacker 1 (each feature by at most 0.5).",
        ),
        (
            {"attackers": [("inf", 0.5), ("inf", 0.6)]},
            "Without an attack, the model is right on 4 of 5 rows (80.0 %). None of them is proved "
            "to stay right against either attacker.",
        ),
        (
            {"attackers": [("inf", 0.01), ("inf", 0.03)], "own": True, "rows": 90},
            "3 of 5 judged rows are proved to keep the model's answer against attacker 1 (each "
            "feature by at most 0.01), and only 1 against attacker 2 (each feature by at most "
            "0.03).",
        ),
        (
            {"attackers": [("inf", 0.01), ("inf", 0.03)], "radii": {"inf": [0.0, 0.0]}},
            "The model is right on none of 2 rows: no attacker can do worse.",
        ),
        ({"attackers": [("inf", 0.01)]}, None),
    ],
)
def test_several_attackers_begin_with_a_conclusion(
    changed: dict[str, Any], expected: str | None
) -> None:
    assert conclusion(document(**{"radii": {"inf": RADII}, **changed})) == expected


def test_what_is_not_decided_is_not_counted_as_proved() -> None:
    radii = {"inf": [0.0, 0.1, (0.0, INF), 0.3]}
    made = document(radii=radii, attackers=[("inf", 0.01), ("inf", 0.2)])
    text = conclusion(made)
    assert text is not None
    assert "2 of them are proved to stay right against attacker 1" in text
    assert "Weakest" not in sentences(made)


@pytest.mark.parametrize(
    ("radii", "classes", "expected"),
    [
        (
            [0.0, 0.9, 0.01, 0.9, 0.01, 0.9, 0.9, 0.9],
            ["fraud", "<b>"],
            "Weakest is “fraud”: of its 4 rows, the model is right on 3, and 1 stays right "
            "(25.0 %).",
        ),
        (
            [0.01, 0.9, 0.01, 0.9],
            ["a", "b"],
            "Weakest is “a”: of its 2 rows, the model is right on all, and none stays right (0 %).",
        ),
        ([0.0, 0.9], ["a", "b"], "Weakest is “a”: of its one row, the model is right on none."),
        (
            [0.0, 0.9, 0.9, 0.9, 0.9, 0.9],
            ["a", "b"],
            "Weakest is “a”: of its 3 rows, the model is right on 2, and all of these stay right",
        ),
        ([0.01, 0.01, 0.9], "abc", "Weakest are “a” and “b”, with a robustness of 0 % each."),
        (
            [0.01] * 5 + [0.9],
            "abcdef",
            "Weakest are 5 of the 6 classes, with a robustness of 0 % each.",
        ),
        ([0.9, 0.9], ["a", "b"], None),
        ([0.01, 0.9], ["a"], None),
    ],
)
def test_the_weakest_class_is_named(
    radii: list[float], classes: list[str], expected: str | None
) -> None:
    text = sentences(plain(radii={"inf": radii}, classes=classes))
    assert ("Weakest" in text) == (expected is not None)
    assert expected is None or expected in text


def test_a_budget_is_told_in_ranges_of_features() -> None:
    made = plain()
    assert (
        "The budget is 0.5 % of the range (largest minus smallest value here) of the feature in "
        "the middle; from 0.29 % (feature 6) to 2 % (feature 0)." in sentences(made)
    )
    assert "Mind the units" not in sentences(made)
    made["attackers"][0]["units"]["features"] = 1
    assert "smallest value here) of feature 6." in sentences(made)
    made["attackers"][0]["units"] = None
    assert "The budget is" not in sentences(made)
    summed = sentences(document(radii={1: RADII}, attackers=[(1, 0.02)]))
    assert "The budget, spent on one feature alone, is 0.5 % of the range" in summed


def test_features_of_very_different_ranges_are_noticed_once() -> None:
    made = plain(features=11, attackers=[("inf", 0.01), ("inf", 0.02), ("inf", 0.03)])
    made["attackers"][1]["attacker"]["scale"] = {"feature 0": 2.0}  # is meant
    text = sentences(made)
    assert text.count("Mind the units.") == 1
    assert (
        "Attackers 1 and 3 treat features of very different ranges alike: give them a scale per "
        "feature (scale=, --scale) if that is not meant." in text
    )
    assert "This attacker treats features of very different" in sentences(plain(features=11))
    assert "Mind the units." not in sentences(plain(features=10))


def test_weak_features_are_counted_within_the_budget() -> None:
    text = sentences(plain())
    assert (
        "3 of the 10 right rows can be flipped within budget 0.02; their nearest witnesses are "
        "known." in text
    )
    assert "Witnesses within budget 0.02 that change a feature" in text
    text = sentences(plain(attackers=[("inf", 0.001)]))
    assert (
        "No right row can be flipped within the budget asked about. With larger budgets, all 10 "
        "right rows can be flipped; their nearest witnesses are known." in text
    )
    text = sentences(plain(radii={"inf": [0.01, 0.3, (0.001, INF)]}))
    assert "At least 1 of the 3 right rows can be flipped within budget 0.02; its" in text
    text = sentences(plain(radii={"inf": [0.0, 0.3, (0.001, INF)]}))
    assert "No witness within the budget asked about was found. With larger budgets, 1 of" in text


def test_rows_that_share_the_smallest_size_are_said_to() -> None:
    text = sentences(plain(radii={"inf": [0.01] * 25 + [0.4]}))
    assert "10 of 25 rows that share the smallest size." in text
    text = sentences(plain(radii={"inf": [0.01] * 4 + [0.4] * 8}))
    assert "flips them; 2 more rows have the size of the last." in text
    assert "share the smallest size" not in sentences(plain())


def test_sizes_of_next_to_nothing_lead_to_the_trap_beside_zero() -> None:
    made = plain(radii={"inf": [1e-35, 1e-35, 0.3]})
    told = "2 rows flip at a size of about 1e−35: that is a step from exactly 0"
    assert told in sentences(made)
    assert 'href="#trap"' not in html(made)
    made["attackers"][0]["crowds"]["zeros"] = {"thresholds": 1, "features": 1, "rows": 2}
    assert 'href="#trap"' in html(made)
    assert 'id="trap"' in html(made)
    assert "at a size of about" not in sentences(plain())


def test_changed_features_are_counted_where_the_norm_counts_them() -> None:
    text = sentences(document(radii={0: [1.0, 2.0, (1.0, 3.0)]}, attackers=[(0, 1.0)]))
    assert "no smaller change" not in text
    assert "1 changed feature: the fewest there can be." in text
    text = sentences(document(radii={0: [2.0, 3.0]}, attackers=[(0, 1.0)]))
    assert "2 changed features: no change of fewer features flips this row." in text


@pytest.mark.parametrize("features", [[True] * 3, [0, 1, 2], ["a", "b", "c"]])
def test_all_features_are_no_limit(features: list[Any]) -> None:
    made = plain(names=["a", "b", "c"], features=3)
    made["attackers"][0]["attacker"]["features"] = features
    assert "It can change" not in sentences(made)
    assert "with limits" not in sentences(made)
    made["attackers"][0]["attacker"]["features"] = features[:2] if features[0] is not True else [
        True, False, True,
    ]  # fmt: skip
    assert "It can change 2 features only" in sentences(made)
    assert "with limits" in sentences(made)


def test_the_matter_of_large_spread_stands_with_how_it_was_decided() -> None:
    text = html(everything())
    decided = text.index('<h2 id="decided">')
    assert text.index('<h3 id="large-spread">') > decided
    assert text.index('<h3 id="retraining">') < decided
