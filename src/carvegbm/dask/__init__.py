"""Dask: the same questions about rows that are spread over many machines.

asking       `verify`, `attack`, `radius`, `robustness_curve`, `output_range`
partitions   X and y as Dask holds them, partition by partition
graphs       the tasks: a partition in, its answers and its totals out
results      what is to be computed, by name

Questions are lazy: a call plans the work, and the workers do it when a result is asked for.
"""

from carvegbm.errors import CarveError


class _NoDaskError(CarveError, ImportError):
    """An import that fails, and an error that is one line."""


try:
    import dask.dataframe  # noqa: F401
except ImportError:
    raise _NoDaskError("carvegbm.dask needs dask; pip install 'carvegbm[dask]'") from None

from carvegbm.dask.asking import (  # noqa: E402
    attack,
    output_range,
    radius,
    robustness_curve,
    verify,
)
from carvegbm.dask.results import (  # noqa: E402
    DaskAttack,
    DaskCurve,
    DaskOutputRange,
    DaskRadius,
    DaskResult,
    DaskVerification,
)

__all__ = [
    "DaskAttack",
    "DaskCurve",
    "DaskOutputRange",
    "DaskRadius",
    "DaskResult",
    "DaskVerification",
    "attack",
    "output_range",
    "radius",
    "robustness_curve",
    "verify",
]
