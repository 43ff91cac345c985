"""Queries about the rows of a Spark DataFrame; each returns a DataFrame with an answer per row.

Arguments and answers equal those of the functions in `carvegbm`. The DataFrame is not computed
before Spark is asked for rows. Spark runs a lost task again, and its rows occur once.
"""

from __future__ import annotations

from typing import Any, Literal

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import EngineName, OnViolation
from carvegbm.parts.questions import Attack, Measure, Range, Verify
from carvegbm.spark.asking import asked
from carvegbm.spark.columns import Names

__all__ = ["attack", "output_range", "radius", "verify"]


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
    method: Literal["efficient", "basic"] = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
    threads: int | None = None,
) -> Any:
    """Decide for every row whether the attacker can flip the model's decision.

    Parameters
    ----------
    df : Spark DataFrame
        Its partitions are verified where they are. A null is a missing value.
    model : Ensemble, path, Booster or fitted estimator
        Read here, and brought to every executor once.
    attacker : Attacker
    features : list of str, or str, optional
        The columns with the features: of a model that names them, those names in any order (the
        default is all of them); of another, in its order. Numbers and truth values; texts are
        labels of a categorical feature. Or one column of arrays or of vectors (`VectorUDT`), which
        go by position.
    label : str, optional
        The column with the labels; without it the model's own answers are right.
    keep : list of str, or str, optional
        Columns to pass on; all by default.
    engine, timeout, method, grid, on_violation, exact_margin
        As in `carvegbm.verify`.
    threads : int, optional
        Per task; by default those that Spark gives it (`spark.task.cpus`).

    Returns
    -------
    Spark DataFrame
        What is kept, then status, right, margin, worst_margin, worst_margin_lower,
        worst_margin_upper, engine and seconds, as in `carvegbm.Verification`; null where that has
        NaN. It is computed anew for every action on it: write it, or `persist()`.

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
    question = Verify.of(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        method=method,
        grid=grid,
        on_violation=on_violation,
        exact_margin=exact_margin,
    )
    return asked(question, df, features=features, label=label, keep=keep, threads=threads)


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
    on_violation: OnViolation | None = None,
    threads: int | None = None,
) -> Any:
    """Find, for every row, a witness within the budget that flips the model's decision.

    As `carvegbm.attack`, which see; the columns are those of `verify`. The answer is success,
    distance, status, borderline, and a column "witness NAME" for every feature, null where there
    is no witness or the value is missing; categories go by their labels, as texts.

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
    question = Attack.of(model, attacker, engine=engine, timeout=timeout, on_violation=on_violation)
    return asked(question, df, features=features, label=label, keep=keep, threads=threads)


def radius(
    df: Any,
    model: Any,
    attacker: Attacker | None = None,
    *,
    norm: int | float | str | None = None,
    features: str | Names | None = None,
    label: str | None = None,
    keep: str | Names | None = None,
    max_budget: float | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> Any:
    """The smallest budget that flips each row, exactly; 0 where it is wrong already.

    As `carvegbm.radius`, which see; the columns are those of `verify`. An attacker with more than a
    norm, such as scales, is given as `attacker`, whose budget has no part in it. The answer is
    radius, lower and upper; radius is null where it was not found.

    Examples
    --------
    >>> found = radius(df, model, norm="inf", label="label")  # doctest: +SKIP
    >>> found.select("id", "radius").show()  # doctest: +SKIP
    +---+-------------------+
    | id|             radius|
    +---+-------------------+
    |  0|0.40000000000000013|
    |  1| 0.0500000000000001|
    +---+-------------------+
    <BLANKLINE>
    """
    question = Measure.of(
        model,
        attacker,
        max_budget=max_budget,
        ways={"norm": norm},
        engine=engine,
        timeout=timeout,
    )
    return asked(question, df, features=features, label=label, keep=keep, threads=threads)


def output_range(
    df: Any,
    model: Any,
    attacker: Attacker,
    *,
    features: str | Names | None = None,
    keep: str | Names | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    on_violation: OnViolation | None = None,
    threads: int | None = None,
) -> Any:
    """The lowest and the highest raw score the attacker can reach, per row.

    As `carvegbm.output_range`, which see; the columns are those of `verify`. The answer is lowest,
    lowest_lower, lowest_upper, highest, highest_lower, highest_upper and exact; null where an end
    is not known.

    Examples
    --------
    >>> found = output_range(df, model, attacker, keep="id")  # doctest: +SKIP
    >>> found.select("id", "lowest", "highest").show()  # doctest: +SKIP
    +---+------+-------+
    | id|lowest|highest|
    +---+------+-------+
    |  0|  -1.0|   -1.0|
    |  1|  -1.0|    1.0|
    +---+------+-------+
    <BLANKLINE>
    """
    question = Range.of(model, attacker, engine=engine, timeout=timeout, on_violation=on_violation)
    return asked(question, df, features=features, keep=keep, threads=threads)
