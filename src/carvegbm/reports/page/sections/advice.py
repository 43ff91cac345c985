"""Section 5, what to do about it: large-spread or not, and what retraining gives, or would tell.

Comes in: the document. Goes out: HTML. What was not measured is not promised.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

from carvegbm.reports.page.attackers import asked_title, distance_title, is_limited
from carvegbm.reports.page.numbers import counted, exactly, number
from carvegbm.reports.page.subjects import Asked, Distance
from carvegbm.reports.page.tables import Table, opened
from carvegbm.reports.page.text import said, shown_name
from carvegbm.wording.hidden import on_one_line
from carvegbm.wording.shares import percent, percent_interval

__all__ = ["what_to_do"]


def what_to_do(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    distances = [Distance(document, place) for place in range(len(document["distances"]))]
    every = [Asked(document, place) for place in range(len(document["attackers"]))]
    return (
        f'<article><h3 id="large-spread">Is the model easy to verify?</h3>{_spread(distances)}'
        f'</article><article><h3 id="retraining">What would robust training give?</h3>'
        f"{_retraining(document, every)}</article>"
        '<article><h3 id="next">What else helps</h3>'
        f"<ul>{_next(document, distances)}</ul></article>"
    )


def _spread(distances: list[Distance]) -> str:
    intro = said(
        "A model is large-spread for an attacker if no value of a feature can be taken across "
        "thresholds of two different trees within the budget. Then its robustness is decided "
        "exactly and quickly, row by row, without a search. Any other model is decided by search: "
        "as exactly, but a hard row can run out of time."
    )
    items = [_spread_of(distance, len(distances) > 1) for distance in distances]
    return f"<p>{intro}</p><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _spread_of(distance: Distance, is_one_of_many: bool) -> str:
    largest, asked = distance.document["largest_budget"], distance.asked
    if largest is None:
        told = [said("this model is large-spread, whatever the budget.")]
    elif largest == 0:
        told = [said("this model is large-spread for no budget.")]
    else:
        size = exactly(largest, number(largest, 6, "down"))
        told = [f"{said('this model is large-spread for budgets up to')} {size}."]
        told += [
            said(
                f"For the budget {number(float(one.document['budget']), 17)}, it "
                f"{'is' if one.document['large_spread'] else 'is not'}."
            )
            for one in asked
        ]
    unknown = sum(int(one.counts["unknown"]) for one in asked)
    if unknown:
        verdicts = "1 verdict is" if unknown == 1 else f"{unknown:,} verdicts are"
        told.append(said(f"{verdicts} not decided."))
    elif all(one.document["large_spread"] for one in asked):
        told.append(said("Every row was decided."))
    else:
        told.append(said("Every row was decided all the same."))
    text = " ".join(told)
    if is_one_of_many:
        return f"<b>{said(distance_title(distance))}</b>: {text}"
    return text[0].upper() + text[1:]


def _retraining(document: Mapping[str, Any], every: list[Asked]) -> str:
    measured = [asked for asked in every if asked.document["retraining"] is not None]
    tables = "".join(_measured(asked) for asked in measured)
    missing = len(every) - len(measured)
    if not missing:
        return tables
    not_measured = "This was not measured"
    if measured:
        not_measured += f" for the other {counted(missing, 'attacker')}"
    if document["data"]["labels"] == "own":
        text = said(
            f"{not_measured}. Retraining needs labels: give them, and add --retrain to the "
            "command (retrain=True in Python)."
        )
        return f"{tables}<p>{text}</p>"
    text = said(
        f"{not_measured}. The command below trains a plain and a robust model on one part of "
        "the data and verifies both, and this one, on another part:"
    )
    command = " ".join(_command(document, every))
    return f'{tables}<p>{text}</p><pre class="command"><code>{command}</code></pre>'


def _command(document: Mapping[str, Any], every: list[Asked]) -> list[str]:
    # What was never in a file has a name that no command can open.
    names = [
        shlex.quote(on_one_line(document[what]["name"]))
        if document[what].get("file_sha256")
        else what.upper()
        for what in ("model", "data")
    ]
    words = ["carvegbm", "report", *names]
    if any(is_limited(asked.attacker) for asked in every):
        words += ["--attacker", "FILE"] * len(every)
    else:
        for asked in every:
            budget = number(float(asked.attacker["budget"]), 17)
            words += ["--norm", str(asked.attacker["norm"]), "--budget", _plain(budget)]
    return [escape(word) for word in [*words, "--retrain", "-o", "report.html"]]


def _plain(text: str) -> str:
    return text.replace(",", "").replace("−", "-")


def _measured(asked: Asked) -> str:
    found = asked.document["retraining"]
    split = found["rows"]
    tested = counted(int(split["test"]), "row")
    heading = ""
    if len(asked.whole["attackers"]) > 1:
        heading = f"<h4>{said(asked_title(asked))}</h4>"
    caption = said(
        f"Measured on {tested} that no model was trained on, but perhaps “this model”; the others "
        f"were trained on {int(split['train']):,}, and robust training was chosen on "
        f"{int(split['valid']):,} more (seed {found['seed']})."
    )
    rows = [
        [
            shown_name(model["name"]),
            said(percent(model["accuracy"])),
            said(percent_interval(*model["robustness"])),
            "–" if model["trees"] is None else f"{model['trees']:,}",
            shown_name(model["note"], 200) if model["note"] else "",
        ]
        for model in found["models"]
    ]
    header = ["Model", "accuracy", "robustness", "trees", "note"]
    table = Table(f"retraining-{asked.place + 1}", caption, header, rows, texts=frozenset({4}))
    return f"{heading}<p>{_verdict(found)}</p>{opened(table)}"


def _verdict(found: Mapping[str, Any]) -> str:
    """Robust training against this model, in a sentence; only what the intervals allow."""
    models = {model["name"]: model for model in found["models"]}
    robust = models.get("robust training")
    other = models.get("this model") or models.get("plain LightGBM")
    if robust is None or other is None:
        return said("What the models reach:")
    which = "this model" if other is models.get("this model") else "plain LightGBM"
    change = 100 * (robust["accuracy"] - other["accuracy"])
    points = f"{number(abs(change), 2)} percentage points"
    accuracy = (
        f"accuracy is {points} {'higher' if change > 0 else 'lower'}"
        if change
        else ("accuracy is the same")
    )
    if robust["robustness"][0] > other["robustness"][1]:
        outcome = "raises robustness"
    elif robust["robustness"][1] < other["robustness"][0]:
        outcome = "does not raise robustness"
    elif len({*robust["robustness"], *other["robustness"]}) == 1:
        outcome = "leaves robustness as it is"
    else:
        return said(
            "Too many rows are undecided to tell whether robust training raises robustness; "
            f"{accuracy} than that of {which}."
            if change
            else "Too many rows are undecided to tell."
        )
    ends = (percent_interval(*one["robustness"]) for one in (other, robust))
    return said(
        f"Compared with {which}, robust training {outcome}: {' → '.join(ends)}; {accuracy}."
    )


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
