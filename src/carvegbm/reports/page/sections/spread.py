"""Of section 6: whether the model is easy to verify, which is whether it is large-spread.

Comes in: the document. Goes out: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carvegbm.reports.page.attackers import distance_title
from carvegbm.reports.page.numbers import number
from carvegbm.reports.page.subjects import Distance
from carvegbm.reports.page.text import said
from carvegbm.reports.page.words import lower_bound

__all__ = ["is_it_easy"]


def is_it_easy(document: Mapping[str, Any]) -> str:
    """Large-spread or not, per distance."""
    distances = [Distance(document, place) for place in range(len(document["distances"]))]
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
        told = [f"{said('this model is large-spread for budgets up to')} {lower_bound(largest)}."]
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
