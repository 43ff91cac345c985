"""Section 5, what to do about it: what retraining gives, or would tell, and what else helps.

Comes in: the document. Goes out: HTML. What was not measured is not promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carvegbm.reports.page.attackers import asked_title, distance_title
from carvegbm.reports.page.numbers import counted, number, round_percent
from carvegbm.reports.page.scales import NEXT_TO_NOTHING
from carvegbm.reports.page.subjects import Asked, Distance
from carvegbm.reports.page.tables import Table, opened
from carvegbm.reports.page.text import said, shown_name
from carvegbm.reports.page.words import budgets_below
from carvegbm.storage.text import on_one_line, percent, percent_interval

__all__ = ["what_to_do"]

_MOST = 0.95  # of the rows


def what_to_do(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    distances = [Distance(document, place) for place in range(len(document["distances"]))]
    every = [Asked(document, place) for place in range(len(document["attackers"]))]
    return (
        f'<article><h3 id="retraining">What would robust training give?</h3>'
        f"{_retraining(document, every)}</article>"
        '<article><h3 id="next">What else helps</h3>'
        f"<ul>{_next(document, distances)}</ul></article>"
    )


def _retraining(document: Mapping[str, Any], every: list[Asked]) -> str:
    asked_for = [asked for asked in every if asked.document["retraining"] is not None]
    parts = [_measured(asked) for asked in asked_for]
    missing = len(every) - len(asked_for)
    if missing:
        parts.append(f"<p>{said(_not_measured(document, missing, bool(asked_for)))}</p>")
    return "".join(parts)


def _not_measured(document: Mapping[str, Any], missing: int, is_for_others: bool) -> str:
    if is_for_others:
        cut = ": the work was cut short" if document["interrupted"] else ""
        return f"This was not measured for the other {counted(missing, 'attacker')}{cut}."
    if document["data"]["labels"] == "own":
        return (
            "This was not measured, as it needs labels. Give them, and run the same command again "
            "with --retrain (in Python: retrain=True)."
        )
    return (
        "This was not measured. Run the same command again with --retrain (in Python: "
        "retrain=True) to measure it: a plain and a robust model are trained on one part of the "
        "data, and both, and this one, are verified on another."
    )


def _measured(asked: Asked) -> str:
    found = asked.document["retraining"]
    heading = ""
    if len(asked.whole["attackers"]) > 1:
        heading = f"<h4>{said(asked_title(asked))}</h4>"
    if (refused := found.get("refused")) is not None:
        why = said(f"This could not be measured: {on_one_line(refused)}")
        return f"{heading}<p>{why}{'' if why.endswith(('.', '!', '?')) else '.'}</p>"
    split = found["rows"]
    tests, models = int(split["test"]), found["models"]
    caption = said(
        f"Measured on {counted(tests, 'row')} that no model was trained on, but perhaps “this "
        f"model”; the others were trained on {int(split['train']):,}, and robust training was "
        f"chosen on {int(split['valid']):,} more (seed {found['seed']}). The intervals say what so "
        "few rows tell of others like them, with 95 % confidence."
    )
    rows = [
        [
            shown_name(model["name"]),
            said(percent(model["accuracy"])),
            said(f"{_stay(model, tests)} of {tests:,}"),
            said(percent_interval(*model["robustness"])),
            said(percent_interval(*_interval(model))),
            "–" if model["trees"] is None else f"{model['trees']:,}",
            shown_name(model["note"], 200) if model["note"] else "",
        ]
        for model in models
    ]
    header = ["Model", "accuracy", "robust", "robustness", "95 % interval", "trees", "note"]
    table = Table(f"retraining-{asked.place + 1}", caption, header, rows, texts=frozenset({6}))
    return f"{heading}<p>{_verdict(found)}</p>{opened(table)}"


def _interval(model: Mapping[str, Any]) -> tuple[float, float]:
    """Where the share lies among rows like those tested."""
    low, high = model["interval"]
    return float(low), float(high)


def _stay(model: Mapping[str, Any], tests: int) -> str:
    """How many test rows are robust, from what is proved to what may be."""
    robust, most = int(model["robust"]), round(model["robustness"][1] * tests)
    return f"{robust:,}" if most <= robust else f"{robust:,} to {most:,}"


def _verdict(found: Mapping[str, Any]) -> str:
    """Robust training against this model, in words; no gain that may be chance is called one."""
    models = {model["name"]: model for model in found["models"]}
    robust = models.get("robust training")
    other = models.get("this model") or models.get("plain LightGBM")
    if robust is None or other is None:
        return said("What the models reach:")
    which = "this model" if other is models.get("this model") else "plain LightGBM"
    tests = int(found["rows"]["test"])
    change = 100 * (robust["accuracy"] - other["accuracy"])
    points = f"{number(abs(change), 2)} percentage points"
    accuracy = f"Accuracy is {points} {'higher' if change > 0 else 'lower'}."
    if not change:
        accuracy = "Accuracy is the same."
    ends = f"{_stay(other, tests)} → {_stay(robust, tests)} of {counted(tests, 'test row')}"
    (least, most), (low, high) = robust["robustness"], other["robustness"]
    mine, theirs = _interval(robust), _interval(other)
    if least == most == low == high:
        outcome = f"robust training leaves robustness as it is: {ends} stay right."
    elif least <= high and low <= most:
        outcome = (
            f"{ends} stay right with robust training. Too many rows are undecided to tell whether "
            "it raises robustness."
        )
    elif mine[0] > theirs[1]:
        outcome = f"robust training raises robustness: {ends} stay right."
    elif mine[1] < theirs[0]:
        outcome = f"robust training lowers robustness: {ends} stay right."
    else:
        outcome = (
            f"{ends} stay right with robust training. The intervals overlap: on so few rows, this "
            f"may be chance, and is no proof of a {'gain' if least > high else 'loss'}."
        )
    return said(f"Compared with {which}, {outcome} {accuracy}")


def _next(document: Mapping[str, Any], distances: list[Distance]) -> str:
    items = []
    weak = [one for distance in distances for one in distance.document["weak"][:1]]
    if weak:
        names = list(dict.fromkeys(shown_name(one["name"]) for one in weak))[:3]
        items.append(
            f"{said('Guard what witnesses change most:')} {', '.join(names)}. "
            + said(
                "An input that nobody outside can change needs no guard: leave it out of the "
                "attacker's features (--attacker FILE) and ask again."
            )
        )
    if budgets := _budgets(distances):
        items.append(budgets)
    if any(asked["counts"]["unknown"] for asked in document["attackers"]):
        items.append(said("Give undecided rows more time: --timeout SECONDS."))
    if document["data"]["judged"] < document["data"]["rows"]:
        items.append(said("Judge more rows: --sample ROWS narrows the intervals for all rows."))
    if any(
        asked["crowds"] is not None and asked["crowds"]["zeros"] is not None
        for asked in document["attackers"]
    ):
        items.append(
            said(
                "State what values are possible: where a feature is a whole number, an attacker "
                "with a step of 1 cannot stop next to zero."
            )
        )
    items.append(
        said("Keep this report with the model: its hashes say which model and data it speaks of.")
    )
    return "".join(f"<li>{item}</li>" for item in items)


def _budgets(distances: list[Distance]) -> str:
    """Up to where most rows need no help."""
    found = []
    for distance in distances:
        for one in distance.document["stays"]:
            least = 1 if distance.norm == 0 else NEXT_TO_NOTHING
            if one["share"] != _MOST or one["lower"] is None or one["lower"] <= least:
                continue
            way = f" ({distance_title(distance)})" if len(distances) > 1 else ""
            found.append(f"{budgets_below(one, distance.norm)}{said(way)}")
    if not found:
        return ""
    own = distances[0].whole["data"]["labels"] == "own"
    rows = f"{round_percent(_MOST)} of the {'rows' if own else 'right rows'}"
    start = f"See that changes stay below what most rows withstand: {rows} stay robust at"
    return f"{said(start)} {said(', and at ').join(found)}."
