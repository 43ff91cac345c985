"""Certified training: robust models, not only models that can be checked.

`quiet` leaves crowded thresholds out; `job` grows trials, refits them and judges them; `choosing`
says which one wins; `report` holds what a trial is.
"""

from carvegbm.training.certified.choosing import (
    accuracy_floor,
    check_clean_loss,
    check_quietness,
    plain_accuracy_of,
    reason,
)

__all__ = [
    "accuracy_floor",
    "check_clean_loss",
    "check_quietness",
    "plain_accuracy_of",
    "reason",
]
