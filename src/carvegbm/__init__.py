"""carvegbm: boosted tree ensembles whose robustness can be proved, and the proofs.

Importing the package loads nothing else: a name is imported from its module on first use. The
command line can therefore handle Ctrl-C before NumPy and the compiled core are loaded.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # importing typing takes as long as all else that happens here
if TYPE_CHECKING:
    from typing import Any

    from carvegbm.attack import Attack
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.attackers.spread import is_large_spread, spread
    from carvegbm.data.files import load_table
    from carvegbm.displays import (
        AttackDisplay,
        RadiusDisplay,
        RobustnessCurveDisplay,
        TrainingDisplay,
        VerificationDisplay,
    )
    from carvegbm.errors import CarveError, DataError, ModelError, NotLargeSpreadError
    from carvegbm.explanation import Explanation, explain
    from carvegbm.model.ensemble import Ensemble
    from carvegbm.queries import (
        attack,
        high_confidence,
        output_range,
        radius,
        robustness_curve,
        small_neighbourhood,
        stability,
        verify,
    )
    from carvegbm.radius import Curve, Radius
    from carvegbm.ranges import OutputRange
    from carvegbm.readers import load
    from carvegbm.reports import Report, report
    from carvegbm.results import Result
    from carvegbm.training.estimators import (
        LargeSpreadClassifier,
        LargeSpreadRegressor,
        RobustClassifier,
        RobustRegressor,
    )
    from carvegbm.training.robust_refit import robust_refit
    from carvegbm.training.tuning import tune
    from carvegbm.verification import Verification
    from carvegbm.verifier import Verifier

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
    "Verifier",
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

_MODULE_OF = {
    name: f"carvegbm.{module}"
    for module, names in {
        "attack": "Attack",
        "attackers.attacker": "Attacker",
        "displays": "AttackDisplay RadiusDisplay RobustnessCurveDisplay TrainingDisplay "
        "VerificationDisplay",
        "model.ensemble": "Ensemble",
        "errors": "CarveError DataError ModelError NotLargeSpreadError",
        "explanation": "Explanation explain",
        "data.files": "load_table",
        "queries": "attack high_confidence output_range radius robustness_curve stability verify "
        "small_neighbourhood",
        "radius": "Curve Radius",
        "ranges": "OutputRange",
        "readers": "load",
        "reports": "Report report",
        "results": "Result",
        "attackers.spread": "is_large_spread spread",
        "training.estimators": "LargeSpreadClassifier LargeSpreadRegressor RobustClassifier "
        "RobustRegressor",
        "training.robust_refit": "robust_refit",
        "training.tuning": "tune",
        "verification": "Verification",
        "verifier": "Verifier",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


class _Package(ModuleType):
    """Keeps `carvegbm.attack` and `carvegbm.radius` functions.

    Importing a submodule sets it as an attribute of its package, where a public function of the
    same name must stay.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
