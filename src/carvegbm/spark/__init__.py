"""Spark: the questions of carvegbm about Spark DataFrames of any size.

columns      which columns of a DataFrame are features, label, and kept; what comes out of it
partitions   what runs on executors: Arrow batches in, answers or totals out
asking       a question, sent to all partitions
questions    verify, attack, radius, output_range: a DataFrame in, a DataFrame out
reducing     summary, robustness_curve: a DataFrame in, a few numbers out
estimators   classifiers that tasks train together: a DataFrame in, a model out
training     a fit: one barrier stage, whose tasks are a team
labelled     which columns are trained on; the rows of a partition
failing      what went wrong on an executor, in one line

A DataFrame's rows stay where they are; the model goes to them, once per executor.
"""

from typing import TYPE_CHECKING, Any

from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.spark.estimators import (
        SparkClassifierModel,
        SparkLargeSpreadClassifier,
        SparkRobustClassifier,
    )


class _NoSparkError(CarveError, ImportError):
    """An import that fails, and an error that is one line."""


try:
    import pyspark  # noqa: F401
except ImportError:
    raise _NoSparkError("carvegbm.spark needs pyspark; pip install 'carvegbm[spark]'") from None

from carvegbm.spark.questions import attack, output_range, radius, verify  # noqa: E402
from carvegbm.spark.reducing import robustness_curve, summary  # noqa: E402

__all__ = [
    "SparkClassifierModel",
    "SparkLargeSpreadClassifier",
    "SparkRobustClassifier",
    "attack",
    "output_range",
    "radius",
    "robustness_curve",
    "summary",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Training brings scikit-learn and LightGBM, which executors that verify can do without."""
    if name.startswith("Spark") and name in __all__:
        from carvegbm.spark import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
