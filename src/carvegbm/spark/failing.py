"""Translate errors on executors to one line.

Spark returns an error as text: the traceback of the Python worker, in which the last line of a
`CarveError` is what a user should see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from carvegbm.errors import CarveError, DataError

__all__ = ["in_one_line", "wrong_python"]

_OURS = re.compile(r"^carvegbm\.errors\.(\w+): (.+)$", re.M)
_PYTHON = {
    r"^ModuleNotFoundError: No module named '([\w]+)": "has no {}",
    r"Python in worker has different version:? (.+?) than that in driver:? ([\d.]+)": (
        "is of version {}, the driver's of version {}"
    ),
    r"Cannot run program|Error from python worker": "cannot be started",
}
"""Explanations of failures of the executors' Python, by pattern of Spark's error text."""


@contextmanager
def in_one_line(python: str | None = None) -> Iterator[None]:
    """Raise `CarveError` for what is known to go wrong on executors, other errors unchanged.

    `python` is the command by which executors start Python, if that is known.
    """
    try:
        yield
    except CarveError:
        raise
    except Exception as error:
        translated = _translated(str(error), python)
        if translated is None:
            raise
        raise translated from None


def wrong_python(what: str, python: str | None) -> CarveError:
    """The error for executors whose Python cannot run carvegbm."""
    name = f", {python}," if python else ""
    return CarveError(
        f"the executors' Python{name} {what}; install carvegbm[spark] there, or set PYSPARK_PYTHON "
        "to a Python that has it before Spark starts"
    )


def _translated(text: str, python: str | None) -> CarveError | None:
    ours = _OURS.findall(text)
    if ours:
        name, line = ours[-1]
        return DataError(line) if name == "DataError" else CarveError(line)
    for pattern, what in _PYTHON.items():
        if found := re.search(pattern, text, re.M):
            return wrong_python(what.format(*found.groups()), python)
    return None
