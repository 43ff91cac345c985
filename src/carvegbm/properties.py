"""Properties beyond robustness: what else an attacker cannot do to the raw score.

Comes in: a model, instances, an attacker, a limit. Goes out: the range of raw scores within reach,
or an answer per instance that is decided in exact arithmetic, or "unknown" where time ran out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker, require_attacker
from carvegbm.confidence import is_confident
from carvegbm.engines import STATUSES, Engine, OnViolation, Rows, Settings, check_spread, decide
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.instances import check_threads
from carvegbm.progress import Progress, progress_bar
from carvegbm.readers import load
from carvegbm.spread import is_large_spread
from carvegbm.verification import are_neighbours, plain_column

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["OutputRange", "high_confidence", "output_range", "small_neighbourhood", "stability"]

Answers = npt.NDArray[np.str_]
""""holds" or "fails" per instance, as a theorem; "unknown" where time ran out, or where
`on_violation="unknown"` leaves an instance undecided."""

_ANSWERS = np.array(["holds", "fails", "unknown"])
"""In the order of the core's codes."""


def output_range(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    *,
    engine: Engine = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> OutputRange:
    """The lowest and the highest raw score the attacker can reach, per instance.

    For regression this is the range of outputs. Where time runs out, both ends are bounded from
    outside, by what no attack exceeds, and from inside, by what an attack reaches. milp does not
    measure ranges; the parameters are otherwise those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, task="regression")
    >>> found = cg.output_range(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1))
    >>> found.lowest.tolist(), found.highest.tolist(), found.exact.tolist()
    ([-1.0, 1.0], [1.0, 1.0], [True, True])
    """
    require_attacker(attacker)
    settings = Settings(engine, timeout, threads, on_violation)
    ensemble = _single_output(load(model), "output_range")
    rows = ensemble.check_data(X)
    attacker.check_instances(ensemble, rows)
    from carvegbm import _core

    with progress_bar(progress, len(rows), "measuring") as tick:
        lowest_lower, lowest_upper, highest_lower, highest_upper = _core.output_range(
            ensemble.core,
            attacker.core(ensemble),
            rows,
            _range_options(ensemble, attacker, settings),
            check_threads(threads),
            tick,
        )
    return OutputRange(lowest_lower, lowest_upper, highest_lower, highest_upper, attacker)


@dataclass(frozen=True, eq=False, repr=False)
class OutputRange:
    """The range of raw scores within reach, per instance; every bound is rounded outward."""

    lowest_lower: npt.NDArray[np.float64]
    """No attack reaches a raw score below this."""
    lowest_upper: npt.NDArray[np.float64]
    """An attack reaches a raw score this low."""
    highest_lower: npt.NDArray[np.float64]
    """An attack reaches a raw score this high."""
    highest_upper: npt.NDArray[np.float64]
    """No attack reaches a raw score above this."""
    attacker: Attacker

    @property
    def exact(self) -> npt.NDArray[np.bool_]:
        """Where both ends are known to the last rounding: no double lies between their bounds."""
        return np.asarray(
            are_neighbours(self.lowest_lower, self.lowest_upper)
            & are_neighbours(self.highest_lower, self.highest_upper)
        )

    @property
    def lowest(self) -> npt.NDArray[np.float64]:
        """The lowest raw score within reach, rounded down; NaN where it is not known."""
        known = are_neighbours(self.lowest_lower, self.lowest_upper)
        return np.where(known, self.lowest_lower, np.nan)

    @property
    def highest(self) -> npt.NDArray[np.float64]:
        """The highest raw score within reach, rounded up; NaN where it is not known."""
        known = are_neighbours(self.highest_lower, self.highest_upper)
        return np.where(known, self.highest_upper, np.nan)

    def __len__(self) -> int:
        return len(self.lowest_lower)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What is known per instance, by name."""
        return {
            "lowest": self.lowest,
            "lowest_lower": self.lowest_lower,
            "lowest_upper": self.lowest_upper,
            "highest": self.highest,
            "highest_lower": self.highest_lower,
            "highest_upper": self.highest_upper,
            "exact": self.exact,
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; NaN and infinity become None."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": len(self),
            **{name: plain_column(column) for name, column in self.columns().items()},
        }

    def save(self, path: Any) -> None:
        """Write to a file, as JSON, CSV or Parquet by its suffix; never half a file."""
        from carvegbm.files import save_result

        save_result(path, self.to_dict, self.columns())

    def __repr__(self) -> str:
        known = int(np.count_nonzero(self.exact))
        return f"<OutputRange: {len(self)} instances, {self.attacker!r}, {known} known exactly>"


def stability(
    model: Any, X: npt.ArrayLike, attacker: Attacker, c: float, **options: Any
) -> Answers:
    """No attack changes the raw score by more than c; decided exactly.

    `options` are those of `output_range`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.stability(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), c=0.5).tolist()
    ['fails', 'holds']
    """
    return _stays_within("stability", model, X, attacker, _limit(c), **options)


def small_neighbourhood(
    model: Any, X: npt.ArrayLike, attacker: Attacker, c: float, **options: Any
) -> Answers:
    """No attack changes the raw score by more than c times its L-infinity budget.

    Decided exactly: the product is not rounded. `options` are those of `output_range`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.small_neighbourhood(model, [[0.45]], cg.Attacker("inf", 0.1), c=100).tolist()
    ['holds']
    """
    require_attacker(attacker)
    if not math.isinf(attacker.norm):
        raise CarveError(f"small_neighbourhood is defined for norm inf, got {attacker.norm}")
    limit = _limit(c) * Fraction(attacker.budget)
    return _stays_within("small_neighbourhood", model, X, attacker, limit, **options)


def high_confidence(
    model: Any, X: npt.ArrayLike, attacker: Attacker, q: float, **options: Any
) -> Answers:
    """An instance predicted with probability >= q cannot be flipped; decided exactly.

    Holds as well where the prediction is less confident than q. Binary models with a logistic
    link only. The probability is that of the exact raw score. `options` are `engine`, `timeout`,
    `threads`, `on_violation` and `progress`, as in `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, link="logistic")
    >>> cg.high_confidence(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), q=0.7).tolist()
    ['fails', 'holds']
    """
    require_attacker(attacker)
    settings, progress = _settings(**options)
    ensemble = load(model)
    if ensemble.task != "binary" or ensemble.link != "logistic":
        raise CarveError(
            f"high_confidence needs a binary model with a logistic link, got {ensemble!r} "
            f"with link {ensemble.link!r}"
        )
    rows = ensemble.check_data(X)
    attacker.check_instances(ensemble, rows)
    positive, confident = is_confident(ensemble, rows, q)
    answers = np.full(len(rows), "holds", dtype="<U7")
    asked = np.flatnonzero(confident)
    if len(asked) == 0:
        return answers
    some = cast("Rows", np.ascontiguousarray(rows[asked]))
    with progress_bar(progress, len(asked), "verifying") as tick:
        found = decide(
            ensemble,
            attacker,
            some,
            positive[asked].astype(np.int32),
            settings,
            witness=False,
            tick=tick,
        )
    answer_of = {"robust": "holds", "fragile": "fails", "unknown": "unknown"}
    answers[asked] = [answer_of[STATUSES[status]] for status in found.status.tolist()]
    return answers


def _settings(
    *,
    engine: Engine = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> tuple[Settings, Progress]:
    """The options of properties; others are refused, as those of any function."""
    return Settings(engine, timeout, threads, on_violation), progress


def _stays_within(
    what: str, model: Any, X: npt.ArrayLike, attacker: Attacker, limit: Fraction, **options: Any
) -> Answers:
    """Whether no attack changes the raw score by more than the limit, exactly."""
    require_attacker(attacker)
    settings, progress = _settings(**options)
    ensemble = _single_output(load(model), what)
    rows = ensemble.check_data(X)
    attacker.check_instances(ensemble, rows)
    from carvegbm import _core

    # Two sums of one leaf per tree differ by no more than twice their magnitude, which is rounded:
    # with four times it, the core's whole numbers know all limits that matter.
    most = 4 * Fraction(float(ensemble.core.magnitude))
    total = min(limit * ensemble.average, most)
    with progress_bar(progress, len(rows), "verifying") as tick:
        found = _core.stays_within(
            ensemble.core,
            attacker.core(ensemble),
            rows,
            np.array(_as_doubles(total)),
            _range_options(ensemble, attacker, settings),
            check_threads(settings.threads),
            tick,
        )
    return _ANSWERS[found]


def _limit(c: Any) -> Fraction:
    """A number >= 0 as the rational it is; one beyond all doubles is more than any change."""
    most = Fraction(float(np.finfo(np.float64).max))
    try:
        if isinstance(c, str | bytes):
            raise TypeError
        if isinstance(c, Rational):  # a whole number, or a fraction, as it is
            number = Fraction(int(c.numerator), int(c.denominator))  # NumPy's overflow
        else:
            number = most if float(c) == math.inf else Fraction(float(c))
    except (TypeError, ValueError, OverflowError):
        number = Fraction(-1)
    if number < 0:
        raise CarveError(f"c must be a number >= 0, got {c!r}")
    return min(number, most)


def _as_doubles(number: Fraction) -> list[float]:
    """Doubles whose sum is the number, or the largest multiple of 2^-1074 below it.

    Sums of scores are such multiples: a limit in between says no more than the one below.
    """
    units = number.numerator * 2**1074 // number.denominator
    parts = []
    while units:
        length = max(units.bit_length() - 53, 0)
        part = units >> length << length
        parts.append(float(Fraction(part, 2**1074)))
        units -= part
    return parts or [0.0]


def _single_output(ensemble: Ensemble, what: str) -> Ensemble:
    if ensemble.n_outputs != 1:
        raise CarveError(
            f"{what} needs a model with one output, this one has {ensemble.n_outputs}, one score "
            "per class; use verify"
        )
    return ensemble


def _range_options(
    ensemble: Ensemble, attacker: Attacker, settings: Settings
) -> _core.RangeOptions:
    """Who may decide: large-spread where it is allowed, search where it may take over."""
    from carvegbm import _core

    if settings.engine == "milp":
        raise CarveError("engine 'milp' does not measure ranges; use auto or search")
    if settings.engine == "search":
        return _core.RangeOptions(settings.timeout, False, False, True)
    if settings.only_large_spread:
        per_instance = check_spread(ensemble, attacker, settings.on_violation)
        return _core.RangeOptions(settings.timeout, not per_instance, per_instance, False)
    holds = is_large_spread(ensemble, attacker)
    return _core.RangeOptions(settings.timeout, holds, not holds, True)
