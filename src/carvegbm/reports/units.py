"""Units: what a budget is beside what features hold.

Comes in: an attacker's problem and its rows. Goes out: the budget as shares of the ranges of
features, as plain values. One that treats features of different ranges alike may be a mistake.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from carvegbm.problem import Problem, Rows
from carvegbm.reports.crowds import column, movable
from carvegbm.reports.weakness import Named

__all__ = ["units"]


def units(problem: Problem, rows: Rows, named: Named) -> dict[str, Any] | None:
    """How far the budget alone moves a feature, as a share of its range in the rows.

    Over the features that the model asks for, that the attacker can change, and that vary: the
    smallest and the largest share, and the one in the middle. None for norm 0, and where there is
    no such feature.
    """
    if problem.attacker.norm == 0:
        return None
    limits = problem.limits
    shares: dict[int, float] = {}
    for feature in movable(problem):
        values = column(problem, rows, feature)
        known = values[~np.isnan(values)]
        width = float(known.max() - known.min()) if len(known) else 0.0
        scale = float(limits.scale[feature]) if len(limits.scale) else 1.0
        if len(limits.scale_up):
            scale = max(scale, float(limits.scale_up[feature]))
        with np.errstate(over="ignore"):
            share = problem.attacker.budget * scale / width if width > 0 else np.inf
        if np.isfinite(share):
            shares[feature] = share
    if not shares:
        return None
    order = sorted(shares, key=lambda f: (shares[f], f))
    smallest, largest = (
        {"feature": feature, "name": named(feature), "share": shares[feature]}
        for feature in (order[0], order[-1])
    )
    return {
        "features": len(order),
        "median": float(np.median(list(shares.values()))),
        "smallest": smallest,
        "largest": largest,
    }
