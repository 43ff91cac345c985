"""The queries of carvegbm for Dask collections; they are lazy.

query        `verify`, `attack`, `radius`, `robustness_curve`, `output_range`
results      the task graph of a query, and the lazy results
partitions   X and y as Dask holds them
"""

from carvegbm.errors import CarveError


class _NoDaskError(CarveError, ImportError):
    """Import error with a message of one line."""


try:
    import dask.dataframe  # noqa: F401
except ImportError:
    raise _NoDaskError("carvegbm.dask needs dask; pip install 'carvegbm[dask]'") from None

from carvegbm.dask.query import (  # noqa: E402
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
