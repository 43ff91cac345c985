"""Small reports with known answers, for tests of the document and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.engines import decide
from carvegbm.reports import query
from carvegbm.statuses import UNKNOWN

STUMP = {
    "feature": 0,
    "threshold": 0.0,
    "left": {"score": -1},
    "right": {"score": 1},
    "missing": "left",
}
PLAIN_RADII = [0, 0, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.5]


def stump(**options: Any) -> cg.Ensemble:
    """Answers the second class iff the first feature is > 0."""
    return cg.Ensemble.from_trees([STUMP], n_features=options.pop("n_features", 2), **options)


def made(model: Any, X: Any, y: Any, attackers: Any, **options: Any) -> dict[str, Any]:
    """A report's document, as JSON gives it back."""
    found = cg.report(model, X, y, attackers, progress=False, **options)
    return json.loads(json.dumps(found.to_dict(), allow_nan=False))


def plain(
    radii: Sequence[float] = PLAIN_RADII,
    attackers: Any = None,
    *,
    classes: Sequence[Any] = (0, 1),
    own: bool = False,
    norm: Any = "inf",
    **options: Any,
) -> dict[str, Any]:
    """A report on the stump: one row per radius; 0 is a wrong row, infinity one never flipped."""
    model = stump(classes=list(classes))
    X = np.array([[np.nan if r == np.inf else r or 1.0, 1.0] for r in radii])
    y = model.classes[[int(r not in (0, np.inf)) for r in radii]]
    attackers = [cg.Attacker(norm, 0.02)] if attackers is None else attackers
    return made(model, X, None if own else y, attackers, **options)


def leave_open(
    patch: pytest.MonkeyPatch, rows: Sequence[int], lower: float = 0.0, upper: float = np.inf
) -> None:
    """From now on, reports do not decide these rows: their radii lie between lower and upper."""

    def undecided(task: Any, given: Any, listen: Any) -> Any:
        found = decide(task, given, listen)
        found.status[list(rows)] = UNKNOWN
        found.columns["engine"][list(rows)] = 0
        if task.asks == "radius":
            found["radius_lower"][list(rows)] = lower
            found["radius_upper"][list(rows)] = upper
        return found

    patch.setattr(query, "decide", undecided)
