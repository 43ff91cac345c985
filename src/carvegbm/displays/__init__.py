"""Displays: results as pictures, in scikit-learn's manner, and as HTML in notebooks.

Comes in: results. Goes out: objects that hold plain data and draw it with matplotlib, which is
imported when something is drawn (`carvegbm[plot]`); `notebook` needs none.
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
