"""Spark: the questions of carvegbm about Spark DataFrames of any size.

columns      which columns of a DataFrame are features, label, and kept; what comes out of it
partitions   what runs on executors: Arrow batches in, answers or totals out
asking       a question, sent to all partitions
questions    verify, attack, radius, output_range: a DataFrame in, a DataFrame out
reducing     summary, robustness_curve: a DataFrame in, a few numbers out
failing      what went wrong on an executor, in one line

A DataFrame's rows stay where they are; the model goes to them, once per executor.
"""

from carvegbm.errors import CarveError


class _NoSparkError(CarveError, ImportError):
    """An import that fails, and an error that is one line."""


try:
    import pyspark  # noqa: F401
except ImportError:
    raise _NoSparkError("carvegbm.spark needs pyspark; pip install 'carvegbm[spark]'") from None

from carvegbm.spark.questions import attack, output_range, radius, verify  # noqa: E402
from carvegbm.spark.reducing import robustness_curve, summary  # noqa: E402

__all__ = [
    "attack",
    "output_range",
    "radius",
    "robustness_curve",
    "summary",
    "verify",
]
