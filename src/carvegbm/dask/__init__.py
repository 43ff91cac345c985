"""Dask: the same questions about rows that are spread over many machines.

asking       `verify`, `attack`, `radius`, `robustness_curve`, `output_range`
partitions   X and y as Dask holds them, partition by partition
graphs       the tasks: a partition in, its answers and its totals out
results      what is to be computed, by name

Everything is lazy: a call plans the work, and the workers do it when a result is asked for.
"""

from carvegbm.dask.missing import NoDaskError

try:
    from carvegbm.dask.asking import attack, output_range, radius, robustness_curve, verify
    from carvegbm.dask.results import (
        DaskAttack,
        DaskCurve,
        DaskOutputRange,
        DaskRadius,
        DaskResult,
        DaskVerification,
    )
except ImportError as error:
    raise NoDaskError.of(error) from None

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
