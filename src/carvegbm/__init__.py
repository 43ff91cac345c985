"""carvegbm: boosted tree ensembles whose robustness can be proved, and the proofs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from carvegbm.attack import Attack, attack
from carvegbm.attacker import Attacker
from carvegbm.confidence import high_confidence
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError, ModelError, NotLargeSpreadError
from carvegbm.radius import Curve, Radius, radius, robustness_curve
from carvegbm.ranges import OutputRange, output_range, small_neighbourhood, stability
from carvegbm.readers import load
from carvegbm.results import Result
from carvegbm.spread import is_large_spread, spread
from carvegbm.verification import Verification, verify

if TYPE_CHECKING:
    from carvegbm.displays import (
        AttackDisplay,
        RadiusDisplay,
        RobustnessCurveDisplay,
        TrainingDisplay,
        VerificationDisplay,
    )
    from carvegbm.explanation import Explanation, explain
    from carvegbm.instances.tabular import load_table
    from carvegbm.reports import Report, report
    from carvegbm.training.estimators import (
        LargeSpreadClassifier,
        LargeSpreadRegressor,
        RobustClassifier,
        RobustRegressor,
    )
    from carvegbm.training.refitting.refit import robust_refit
    from carvegbm.training.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "Attack",
    "AttackDisplay",
    "Attacker",
    "CarveError",
    "Curve",
    "DataError",
    "Ensemble",
    "Explanation",
    "LargeSpreadClassifier",
    "LargeSpreadRegressor",
    "ModelError",
    "NotLargeSpreadError",
    "OutputRange",
    "Radius",
    "RadiusDisplay",
    "Report",
    "Result",
    "RobustClassifier",
    "RobustRegressor",
    "RobustnessCurveDisplay",
    "TrainingDisplay",
    "Verification",
    "VerificationDisplay",
    "attack",
    "explain",
    "high_confidence",
    "is_large_spread",
    "load",
    "load_table",
    "output_range",
    "radius",
    "report",
    "robust_refit",
    "robustness_curve",
    "small_neighbourhood",
    "spread",
    "stability",
    "tune",
    "verify",
]


_LAZY = {
    "AttackDisplay": "carvegbm.displays",
    "Explanation": "carvegbm.explanation",
    "LargeSpreadClassifier": "carvegbm.training.estimators",
    "LargeSpreadRegressor": "carvegbm.training.estimators",
    "RadiusDisplay": "carvegbm.displays",
    "Report": "carvegbm.reports",
    "RobustClassifier": "carvegbm.training.estimators",
    "RobustRegressor": "carvegbm.training.estimators",
    "RobustnessCurveDisplay": "carvegbm.displays",
    "TrainingDisplay": "carvegbm.displays",
    "VerificationDisplay": "carvegbm.displays",
    "explain": "carvegbm.explanation",
    "load_table": "carvegbm.instances.tabular",
    "report": "carvegbm.reports",
    "robust_refit": "carvegbm.training.refitting.refit",
    "tune": "carvegbm.training.tuning",
}


def __getattr__(name: str) -> Any:
    """Files, pictures and training, imported only when they are asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
