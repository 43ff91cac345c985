"""What is proven of rows that the members of a team share."""

from __future__ import annotations

from typing import Any

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.parts.questions import Verify
from carvegbm.totals import VerificationTotals, added
from carvegbm.training.data import Labelled

__all__ = ["proven"]


def proven(
    ensemble: Ensemble, rows: Labelled, attacker: Attacker, threads: int | None, **options: Any
) -> VerificationTotals:
    """The verdicts on all rows, counted; every member proves its own.

    Labels are positions among the ensemble's classes; `options` are those of `carvegbm.verify`.
    """
    question = Verify.of(ensemble, attacker, **options)
    labels = ensemble.classes[np.asarray(rows.labels, dtype=np.int64)]
    own = question.totals(question.answer(rows.X, labels, threads=threads))
    parts: list[VerificationTotals] = rows.share.team.gather(own)
    return added(parts)
