"""Totals of Spark DataFrames: every partition adds up its own, and one executor adds these up.

Comes in: a DataFrame, of answers or of rows. Goes out: totals, or a curve; of all rows, one that
holds a few numbers reaches the driver. These functions run a job and wait for it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from carvegbm import __version__
from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.data.names import listed
from carvegbm.engines import EngineName
from carvegbm.errors import CarveError
from carvegbm.parts.questions import Kinds, Measure
from carvegbm.parts.shipping import check_version
from carvegbm.radius import Curve, budgetless, check_budgets
from carvegbm.spark.asking import mapped, sent
from carvegbm.spark.columns import Names, plain_columns, require_frame
from carvegbm.spark.failing import in_one_line
from carvegbm.spark.partitions import added_up, columns_of, totals_of_answers, whole
from carvegbm.totals import (
    AttackTotals,
    Columns,
    CurveTotals,
    RadiusTotals,
    RangeTotals,
    Totals,
    VerificationTotals,
    added,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["robustness_curve", "summary"]

_TOTALS = "totals binary"


def summary(
    out: Any, attacker: Attacker
) -> VerificationTotals | AttackTotals | RadiusTotals | RangeTotals:
    """What the answers of `verify`, `attack`, `radius` or `output_range` say as a whole.

    Counted on the executors. A DataFrame is computed anew for every action on it: write it, and
    give what was written, or `out.persist()`, where it is needed more than once.

    Parameters
    ----------
    out : Spark DataFrame
        What one of these functions returned, or any rows of it, as read from a file perhaps.
    attacker : Attacker
        Whom they were asked about; of radii, only the norm matters.

    Returns
    -------
    VerificationTotals, AttackTotals, RadiusTotals or RangeTotals

    Examples
    --------
    >>> summary(out, attacker).robustness  # doctest: +SKIP
    (0.5, 0.5)
    """
    require_frame(out)
    require_attacker(attacker)
    what = _Counting.of(list(out.columns), attacker)
    answers = plain_columns(out, list(what.kinds))
    found: VerificationTotals | AttackTotals | RadiusTotals | RangeTotals
    found = _reduced(answers, partial(_counted, what, __version__))
    return found


@dataclass(frozen=True)
class _Counting:
    """Which totals, of whom, and the columns that they are made of."""

    make: Callable[[Columns, Any], Totals]
    whose: Any
    kinds: Kinds

    @classmethod
    def of(cls, columns: list[str], attacker: Attacker) -> _Counting:
        """The totals of a DataFrame with these columns."""
        verified = {"status": str, "right": bool, "engine": str, "seconds": float}
        known = (
            cls(VerificationTotals.of, attacker, verified),
            cls(AttackTotals.of, attacker, {"success": bool, "status": str, "distance": float}),
            cls(RadiusTotals.of, attacker.norm, {"radius": float, "lower": float}),
            cls(
                RangeTotals.of,
                attacker,
                {"exact": bool, "lowest_lower": float, "highest_upper": float},
            ),
        )
        for each in known:
            if each.kinds.keys() <= set(columns):
                return each
        raise CarveError(
            f"out has the columns {listed(columns)}; for a summary it needs those of verify, "
            f"{listed(verified)}, or of attack, radius or output_range"
        )

    def __call__(self, columns: Columns) -> Totals:
        """The totals of some answers."""
        return self.make(columns, self.whose)


def _counted(
    what: _Counting, version: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row for the partition: the totals of the answers that it holds."""
    check_version(version)
    return added_up(what, map(columns_of, batches), lambda: what.kinds)


def robustness_curve(
    df: Any,
    model: Any,
    attacker: Attacker | None = None,
    *,
    norm: int | float | str | None = None,
    budgets: float | Iterable[float],
    features: str | Names | None = None,
    label: str | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> Curve:
    """Robustness at many budgets, from one pass over the rows.

    As `carvegbm.robustness_curve`, which see; the columns are those of `carvegbm.spark.verify`.
    Radii are counted where they are found.

    Examples
    --------
    >>> robustness_curve(
    ...     df, model, norm="inf", budgets=[0.01, 0.1, 0.5], label="label"
    ... ).lower.tolist()  # doctest: +SKIP
    [1.0, 0.5, 0.0]
    """
    kind = budgetless(attacker, None, norm=norm)
    checked = check_budgets(budgets, kind.norm)
    question = Measure.of(model, kind, max_budget=max(checked), engine=engine, timeout=timeout)
    rows, work = sent(question, df, features=features, label=label, keep=[], threads=threads)
    used = question.problem.ensemble.iterations
    of = partial(CurveTotals.of, norm=kind.norm, budgets=checked, iterations=used)
    return Curve.of(_reduced(rows, partial(totals_of_answers, work, of)))


def _reduced(df: Any, totals: Callable[[Any], Iterator[pa.RecordBatch]]) -> Any:
    """The sum of the totals of all partitions."""
    with in_one_line():
        parts = mapped(df, totals, _TOTALS)
        rows = mapped(parts.repartition(1), whole, _TOTALS).collect()
    return added([pickle.loads(row[0]) for row in rows])
