"""What went wrong on an executor, in one line.

Spark brings an error back as a text: the traceback of the Python worker, in which the last line of
ours is what a user should see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from carvegbm.errors import CarveError, DataError

__all__ = ["in_one_line"]

_OURS = re.compile(r"^carvegbm\.errors\.(\w+): (.+)$", re.M)
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.M)

_LOST = re.compile(r"barrier task \w+\(\d+, (\d+)\) finished unsuccessfully\.\s+(.+)")
_BARRIER = {
    "[SPARK-24819]": "Spark has no room for so many tasks at once; give fewer num_workers, or more "
    "executors",
    "[SPARK-24820]": "Spark cannot train on these partitions as they are, such as those of unions; "
    "give num_workers",
    "[SPARK-24942]": "training needs all of its tasks at once, which Spark does not promise with "
    "spark.dynamicAllocation.enabled; set it to false",
}


@contextmanager
def in_one_line() -> Iterator[None]:
    """Errors of ours that executors met are raised as what they are; others as they come."""
    try:
        yield
    except CarveError:
        raise
    except Exception as error:
        translated = _translated(str(error))
        if translated is None:
            raise
        raise translated from None


def _translated(text: str) -> CarveError | None:
    ours = _OURS.findall(text)
    if ours:
        name, line = ours[-1]
        return DataError(line) if name == "DataError" else CarveError(line)
    missing = _MISSING.search(text)
    if missing:
        return CarveError(
            f"the executors' Python has no {missing[1].partition('.')[0]}; install carvegbm[spark] "
            "there, or let PYSPARK_PYTHON name the Python that has it"
        )
    for code, line in _BARRIER.items():
        if code in text:
            return CarveError(line)
    lost = _LOST.search(text)
    if lost and "PythonException" not in lost[2]:
        reason = lost[2].removeprefix("org.apache.spark.SparkException: ").partition(". ")[0]
        return CarveError(
            f"partition {lost[1]}: its task was lost in the middle of training ({reason}); fit "
            "again, with more memory for executors if that was short"
        )
    return None
