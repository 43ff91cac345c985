"""Results made by hand, for tests of what is drawn of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import carvegbm as cg

ATTACKER = cg.Attacker("inf", 0.1)
WRONG = ("vulnerable", "broken")
NASTY = "_a $x_1$ <b>&amp;</b>"
"""A name in which matplotlib and browsers would see more than text."""


def verification(
    statuses: Sequence[str], open_and_wrong: Sequence[int] = (), attacker: cg.Attacker = ATTACKER
) -> cg.Verification:
    """One with these statuses; those unknown are right, but for some rows."""
    right = np.array([status not in WRONG for status in statuses])
    right[list(open_and_wrong)] = False
    n = len(statuses)
    number = np.zeros(n)
    engine = np.full(n, "search")
    return cg.Verification(
        np.array(statuses, dtype="<U10"), number, number, number, right, engine, number, attacker
    )


def radii(*values: Any, norm: Any = np.inf) -> cg.Radius:
    """Each a radius, or a pair (lower, upper) where it is not decided."""
    lower = np.array([v[0] if isinstance(v, tuple) else v for v in values], dtype=float)
    upper = np.array([v[1] if isinstance(v, tuple) else v for v in values], dtype=float)
    return cg.Radius(np.where(lower == upper, lower, np.nan), lower, upper, norm)


def shown_texts(ax: Any) -> list[str]:
    """All text on the axes as it is drawn: what matplotlib takes for itself is refused."""
    from matplotlib.text import Text

    ax.figure.canvas.draw()
    found = []
    for text in ax.figure.findobj(Text):
        if text.get_visible() and text.get_text():
            plain, is_math = text._preprocess_math(text.get_text())
            assert not is_math, text.get_text()
            found.append(plain)
    return found
