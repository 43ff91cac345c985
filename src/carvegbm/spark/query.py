"""Queries about the rows of a Spark DataFrame; each returns a lazy DataFrame of answers.

Arguments and answers equal those of the functions in `carvegbm`. The columns that a query needs are
selected, the model is broadcast, and `mapInArrow` runs a `SparkJob` on every partition.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from carvegbm.attackers.attacker import Attacker
from carvegbm.errors import CarveError
from carvegbm.options import EngineName, Method, OnViolation
from carvegbm.scale.query import PickledQuery, Query
from carvegbm.spark.columns import Names, answer_schema, is_connect, select_columns
from carvegbm.spark.partitions import InlineBroadcast, SparkJob
from carvegbm.verifier import Verifier

__all__ = ["attack", "radius", "verify"]

_DEFAULT_PYTHON = "python3"  # SparkContext.pythonExec without PYSPARK_PYTHON
_PYTHON_LOCK = Lock()  # held while `SparkContext.pythonExec` is changed
_CHECKED: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()
"""By session: the workers' Python that was found to have carvegbm."""

_PYTHON_ERRORS = {
    r"^ModuleNotFoundError: No module named '([\w]+)": "has no {}",
    r"Python in worker has different version:? (.+?) than that in driver:? ([\d.]+)": (
        "is of version {}, the driver's of version {}"
    ),
    r"Cannot run program|Error from python worker": "cannot be started",
}
"""Explanations of failures of the executors' Python, by pattern of Spark's error text."""


def verify(
    df: Any,
    model: Any,
    attacker: Attacker,
    *,
    features: str | Names | None = None,
    label: str | None = None,
    keep: str | Names | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    method: Method = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
) -> Any:
    """Decide for every row whether the attacker can flip the model's answer.

    Parameters
    ----------
    df : Spark DataFrame
        A null is a missing value.
    model : Ensemble, path, Booster or fitted estimator
        Read here, and sent to every executor once.
    attacker : Attacker
    features : list of str, or str, optional
        The columns with the features. If the model names its features: these names in any order;
        by default all of them. Otherwise: columns in the model's order. Numbers and truth values;
        texts are labels of a categorical feature. Or one column of arrays or of vectors
        (`VectorUDT`) in the model's order.
    label : str, optional
        The column with the labels; without it the model's own answers are right.
    keep : list of str, or str, optional
        Columns to pass on; all by default.
    engine, timeout, method, grid, on_violation, exact_margin
        As in `carvegbm.verify`.
    threads : int, optional
        Threads of one task; by default those that Spark gives it (`spark.task.cpus`).

    Returns
    -------
    Spark DataFrame
        The kept columns, then status, right, margin, worst_margin, worst_margin_lower,
        worst_margin_upper, engine and seconds, as in `carvegbm.Verification`; null for NaN. Every
        action computes it again: write it, or `persist()`.

    Examples
    --------
    >>> verify(df, model, attacker, label="label").select("id", "status").show()  # doctest: +SKIP
    +---+-------+
    | id| status|
    +---+-------+
    |  0| robust|
    |  1|fragile|
    +---+-------+
    <BLANKLINE>
    """
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        method=method,
        grid=grid,
        on_violation=on_violation,
        exact_margin=exact_margin,
    )
    return _send(Query("verify", verifier), df, features, label, keep)


def attack(
    df: Any,
    model: Any,
    attacker: Attacker,
    *,
    features: str | Names | None = None,
    label: str | None = None,
    keep: str | Names | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
) -> Any:
    """Find a witness for every row: a change within the budget that flips the model's answer.

    As `carvegbm.attack`; the columns are those of `verify`. The answer is success, distance,
    status, borderline, and a column "witness NAME" per feature, null if there is no witness or the
    value is missing. Categories are labels, as texts.

    Examples
    --------
    >>> found = attack(df, model, attacker, label="label", keep="id")  # doctest: +SKIP
    >>> found.where("success").select("id", "witness a").show()  # doctest: +SKIP
    +---+------------------+
    | id|         witness a|
    +---+------------------+
    |  1|0.5000000000000001|
    +---+------------------+
    <BLANKLINE>
    """
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return _send(Query("attack", verifier), df, features, label, keep)


def radius(
    df: Any,
    model: Any,
    attacker: Attacker,
    *,
    features: str | Names | None = None,
    label: str | None = None,
    keep: str | Names | None = None,
    max_budget: float | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> Any:
    """Find the smallest budget that flips each row, exactly; 0 if its answer is wrong already.

    As `carvegbm.radius`; the columns are those of `verify`. The answer is radius, lower and upper;
    radius is null if it was not found.

    Examples
    --------
    >>> attacker = Attacker("inf")
    >>> found = radius(df, model, attacker, label="label")  # doctest: +SKIP
    >>> found.select("id", "radius").show()  # doctest: +SKIP
    +---+-------------------+
    | id|             radius|
    +---+-------------------+
    |  0|0.40000000000000013|
    |  1| 0.0500000000000001|
    +---+-------------------+
    <BLANKLINE>
    """
    verifier = Verifier(model, attacker, engine=engine, timeout=timeout, threads=threads)
    query = Query("radius", verifier, max_budget=max_budget)
    return _send(query, df, features, label, keep)


def _send(
    query: Query,
    df: Any,
    features: str | Names | None,
    label: str | None,
    keep: str | Names | None,
) -> Any:
    """Return the DataFrame of the kept columns and the answers."""
    rows, layout = select_columns(df, query.problem.ensemble, features, label, keep)
    schema = answer_schema(rows, layout, query.kinds())
    pickled = PickledQuery.of(query)
    if is_connect(df):
        broadcast: Any = InlineBroadcast(pickled)
    else:
        broadcast = df.sparkSession.sparkContext.broadcast(pickled)
    return _map(rows, SparkJob(broadcast, layout, query.verifier.settings.threads), schema)


def _map(df: Any, job: SparkJob, schema: Any) -> Any:
    """Return `df.mapInArrow(job, schema)`, run by a Python that has carvegbm.

    That is the driver's Python on local workers if PYSPARK_PYTHON names none; PySpark would take
    the first `python3` on the PATH. Raises `CarveError` if the workers' Python has no carvegbm.
    """
    context = None if is_connect(df) else df.sparkSession.sparkContext
    if context is None or not _may_choose_python(context):
        _require_carvegbm(df.sparkSession, None if context is None else context.pythonExec)
        return df.mapInArrow(job, schema)
    with _PYTHON_LOCK:
        # Spark keeps the command with each function, so the user's own functions keep theirs.
        context.pythonExec = sys.executable
        try:
            return df.mapInArrow(job, schema)
        finally:
            context.pythonExec = _DEFAULT_PYTHON


def _may_choose_python(context: Any) -> bool:
    """Whether workers run on this machine, and PYSPARK_PYTHON names no Python for them."""
    if "PYSPARK_PYTHON" in os.environ or not context.master.startswith("local"):
        return False
    # It is sys.executable while another thread is in `_map`.
    return bool(sys.executable) and context.pythonExec in (_DEFAULT_PYTHON, sys.executable)


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

    rows = session.range(0, 1, 1, 1)
    try:
        found = rows.mapInArrow(missing, "python string, module string").collect()
    except Exception as error:
        for pattern, what in _PYTHON_ERRORS.items():
            if match := re.search(pattern, str(error), re.M):
                raise _wrong_python(what.format(*match.groups()), python) from None
        raise
    if found:
        raise _wrong_python(f"has no {found[0].module.partition('.')[0]}", found[0].python)
    _CHECKED[session] = python


def _wrong_python(what: str, python: str | None) -> CarveError:
    name = f", {python}," if python else ""
    return CarveError(
        f"the executors' Python{name} {what}; install carvegbm[spark] there, or set PYSPARK_PYTHON "
        "to a Python that has it before Spark starts"
    )
