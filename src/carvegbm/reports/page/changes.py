"""Changes of features in words and numbers: before and after, never rounded till they look alike.

Comes in: witnesses of the document. Goes out: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from carvegbm.reports.page.numbers import exactly, number, number_pair, signed
from carvegbm.reports.page.text import quoted, said, shown_name

__all__ = ["arrow", "before_and_after", "by_size", "change_size", "in_words"]

Change = Mapping[str, Any]


def by_size(changes: Sequence[Change]) -> list[Change]:
    """The largest first; categories, which have no size, before all numbers."""
    return sorted(changes, key=lambda change: (-_size(change), change["feature"]))


def _size(change: Change) -> float:
    before, after = change["before"], change["after"]
    if not (_is_number(before) and _is_number(after)):
        return float("inf")
    return float(abs(after - before))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def before_and_after(change: Change) -> tuple[str, str]:
    """The two values."""
    before, after = change["before"], change["after"]
    if _is_number(before) and _is_number(after):
        first, second = number_pair(before, after)
        if after > before and _value(second) < after:  # perhaps rounded to what it is just above
            second = f"{second}…" if after > 0 else number(after, 17)
        return exactly(before, first), exactly(after, second)
    return _told(before), _told(after)


def _value(text: str) -> float:
    """Of a number as the page writes it."""
    return float(text.replace(",", "").replace("−", "-"))


def _told(value: Any) -> str:
    if value is None:
        return '<span class="quiet">missing</span>'
    return shown_name(value)


def change_size(change: Change) -> str:
    """By how much, with its sign; nothing for categories."""
    before, after = change["before"], change["after"]
    if not (_is_number(before) and _is_number(after)):
        return "–"
    size = float(Decimal(repr(float(after))) - Decimal(repr(float(before))))  # 0.3 - 0.1 is 0.2
    return exactly(size, signed(size))


def arrow(change: Change) -> str:
    """One change: its feature, before → after."""
    before, after = before_and_after(change)
    return f'<span class="change">{shown_name(change["name"])} {before} → {after}</span>'


def in_words(witness: Mapping[str, Any], said_before: Any) -> str:
    """What the witness changes, and what that does to the answer, which was `said_before`."""
    changes = by_size(witness["changes"])
    few = ", ".join(arrow(change) for change in changes[:3])
    many = len(changes)
    if many == 0:
        does = said("Nothing has to change: the row lies on the threshold. This")
    elif many == 1:
        does = f"{few}: {said('that alone')}"
    elif many <= 3:
        does = f"{few}: {said('together that')}"
    else:
        more = f"{many - 3:,} more {'change' if many == 4 else 'changes'}"
        does = f"{few} {said(f'and {more}: together that')}"
    if str(witness["answer"]) == str(said_before):
        return (
            f"{does} {said('takes the exact score across the threshold, so close to it that')} "
            f"{said('the library itself may still answer')} {quoted(said_before)}."
        )
    return (
        f"{does} {said('turns')} {quoted(said_before)} {said('into')} {quoted(witness['answer'])}."
    )
