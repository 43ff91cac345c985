"""Choosing parameters on validation data.

`search` is what users call; `trials` trains and judges each trial (`trial`), and `stored_trials`
keeps the finished ones in a folder.
"""

from carvegbm.training.tuning.search import (
    CERTIFIED_LEAVES,
    CRITERIA,
    LEAVES,
    ROBUST_LEAVES,
    Tuning,
    tune,
)
from carvegbm.training.tuning.trial import TuningTrial

__all__ = [
    "CERTIFIED_LEAVES",
    "CRITERIA",
    "LEAVES",
    "ROBUST_LEAVES",
    "Tuning",
    "TuningTrial",
    "tune",
]
