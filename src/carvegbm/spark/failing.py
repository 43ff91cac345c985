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
    return None
