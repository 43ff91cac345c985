"""Plots of results in scikit-learn's style, and HTML for notebooks.

A display holds what it draws; matplotlib (`carvegbm[plot]`) is imported when something is drawn.
"""

from carvegbm.displays.attack import AttackDisplay
from carvegbm.displays.curve import RobustnessCurveDisplay
from carvegbm.displays.radius import RadiusDisplay
from carvegbm.displays.training import TrainingDisplay
from carvegbm.displays.verification import VerificationDisplay

__all__ = [
    "AttackDisplay",
    "RadiusDisplay",
    "RobustnessCurveDisplay",
    "TrainingDisplay",
    "VerificationDisplay",
]
