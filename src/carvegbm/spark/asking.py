"""Asking: a question, sent to all partitions of a Spark DataFrame.

Comes in: a question, a DataFrame, names of columns. Goes out: a `Sent`, and the columns that it is
about. The model is broadcast, that is, Spark brings it to every executor once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from carvegbm.engines.auto import turns
from carvegbm.instances.rows import check_threads
from carvegbm.parts.questions import Question
from carvegbm.parts.shipping import Shipped
from carvegbm.spark.columns import Names, answer_schema, arranged, is_connect
from carvegbm.spark.partitions import Here, Sent, answered

__all__ = ["asked", "broadcast", "sent"]


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
    return rows.mapInArrow(partial(answered, work), schema)


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
    turns(question.task)  # what cannot be asked at all is said here, not on executors
    rows, layout = arranged(df, question.problem.ensemble, features, label, keep)
    return rows, Sent(broadcast(df, Shipped.of(question)), layout, threads)


def broadcast(df: Any, value: Any) -> Any:
    """Something that has this `value` on executors."""
    if is_connect(df):
        return Here(value)
    return df.sparkSession.sparkContext.broadcast(value)
