"""The queries of carvegbm for Spark DataFrames.

query        `verify`, `attack`, `radius`, and how they are sent to executors
columns      which columns are features, label, and kept; the schema of the result
partitions   the function that runs on executors: Arrow batches in and out

Rows stay where they are; the model is sent to every executor once.
"""

from carvegbm.errors import CarveError


class _NoSparkError(CarveError, ImportError):
    """Import error with a message of one line."""


try:
    import pyspark  # noqa: F401
except ImportError:
    raise _NoSparkError("carvegbm.spark needs pyspark; pip install 'carvegbm[spark]'") from None

from carvegbm.spark.query import attack, radius, verify  # noqa: E402

__all__ = ["attack", "radius", "verify"]
