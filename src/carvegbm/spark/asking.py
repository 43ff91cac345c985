"""Send a query to all partitions of a Spark DataFrame.

`sent` selects the columns that a query needs and broadcasts the model, which Spark brings to every
executor once. `mapped` runs a function on the partitions, in a Python that has carvegbm.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from carvegbm.data.rows import check_threads
from carvegbm.engines import engine_schedule
from carvegbm.parts.questions import Question
from carvegbm.parts.shipping import Shipped
from carvegbm.spark.columns import Names, answer_schema, arranged, is_connect
from carvegbm.spark.failing import in_one_line, wrong_python
from carvegbm.spark.partitions import Here, Sent, answered

__all__ = ["asked", "broadcast", "mapped", "sent"]

_DEFAULT = "python3"  # what SparkContext.pythonExec is without PYSPARK_PYTHON
_PYTHON = Lock()  # held while `SparkContext.pythonExec` is another
_CHECKED: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()
"""By session: the workers' Python that was found to have carvegbm."""


def asked(
    question: Question,
    df: Any,
    *,
    features: str | Names | None,
    label: str | None = None,
    keep: str | Names | None,
    threads: int | None,
) -> Any:
    """The DataFrame of what is kept and of the answer."""
    rows, work = sent(question, df, features=features, label=label, keep=keep, threads=threads)
    schema = answer_schema(rows, work.layout, question.kinds())
    return mapped(rows, partial(answered, work), schema)


def sent(
    question: Question,
    df: Any,
    *,
    features: str | Names | None,
    label: str | None,
    keep: str | Names | None,
    threads: int | None,
) -> tuple[Any, Sent]:
    """The columns that the question is about, and what executors do with them."""
    check_threads(threads)
    engine_schedule(question.task)  # reject the query here, not on executors
    rows, layout = arranged(df, question.problem.ensemble, features, label, keep)
    return rows, Sent(broadcast(df, Shipped.of(question)), layout, threads)


def broadcast(df: Any, value: Any) -> Any:
    """Something that has this `value` on executors."""
    if is_connect(df):
        return Here(value)
    return df.sparkSession.sparkContext.broadcast(value)


def mapped(df: Any, function: Any, schema: Any) -> Any:
    """Return `df.mapInArrow(function, schema)`, run by a Python that has carvegbm.

    That is the driver's Python on local workers if PYSPARK_PYTHON names none; PySpark would take
    the first `python3` on the PATH. Raises `CarveError` if the workers' Python has no carvegbm.
    """
    context = None if is_connect(df) else df.sparkSession.sparkContext
    if context is None or not _is_ours_to_choose(context):
        _require_carvegbm(df.sparkSession, None if context is None else context.pythonExec)
        return df.mapInArrow(function, schema)
    with _PYTHON:
        # Spark keeps the command with each function, so the user's own functions keep theirs.
        context.pythonExec = sys.executable
        try:
            return df.mapInArrow(function, schema)
        finally:
            context.pythonExec = _DEFAULT


def _is_ours_to_choose(context: Any) -> bool:
    """Whether workers run on this machine, and PYSPARK_PYTHON names no Python for them."""
    if "PYSPARK_PYTHON" in os.environ or not context.master.startswith("local"):
        return False
    # It is sys.executable while another thread is in `mapped`.
    return bool(sys.executable) and context.pythonExec in (_DEFAULT, sys.executable)


def _require_carvegbm(session: Any, python: str | None) -> None:
    """Refuse workers that cannot import carvegbm, by a job of one row, once per session.

    Otherwise the user would see a traceback, after all work on which the DataFrame depends.
    """
    if session in _CHECKED and _CHECKED[session] == python:
        return

    def missing(_: Any) -> Iterator[Any]:  # nested: it is pickled without a reference to carvegbm
        import sys

        import pyarrow

        try:
            import carvegbm.spark  # noqa: F401
        except ModuleNotFoundError as error:
            found = [[sys.executable], [error.name]]
            yield pyarrow.RecordBatch.from_arrays(
                [pyarrow.array(column) for column in found], names=["python", "module"]
            )

    with in_one_line(python):
        rows = session.range(0, 1, 1, 1)
        found = rows.mapInArrow(missing, "python string, module string").collect()
    if found:
        raise wrong_python(f"has no {found[0].module.partition('.')[0]}", found[0].python)
    _CHECKED[session] = python
