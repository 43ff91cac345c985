"""Copy, check and freeze the options of an attacker as users give them.

Numbers, sequences, mappings, arrays, Series and frames become floats, fractions, tuples, read-only
mappings and read-only arrays. What depends on the ensemble (names, number of features) is checked
in `carvegbm.attackers.limits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import as_numbers, frame_numbers
from carvegbm.data.names import column_names, label_text
from carvegbm.errors import CarveError, shown

__all__ = ["FREEZE", "LARGEST_BUDGET", "OPTIONS", "as_feature", "check_bounds", "check_budget"]
__all__ += ["check_groups", "check_kinds", "check_norm", "display_name", "has_value_between"]

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Label = str | int | float

LARGEST_BUDGET = 1e100
"""Budgets and scales beyond 1e±100 have no use and would leave the range of doubles."""

_LARGEST_NORM = 100
_LARGEST_STEP_PART = 1 << 31  # of numerator and denominator: multiples stay exact in doubles
_LARGEST_EXPONENT = 1000  # larger than that of any double


def check_norm(norm: Any) -> int | float:
    """Return a norm as 0, 1, 2, … or math.inf."""
    try:
        value = math.nan if isinstance(norm, bool | np.bool_) else float(norm)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if value == math.inf:
        return math.inf
    if not (0 <= value <= _LARGEST_NORM) or value != int(value):
        raise CarveError(f"norm must be 0, 1, 2, … (at most {_LARGEST_NORM}) or inf, got {norm!r}")
    return int(value)


def check_budget(norm: int | float, budget: Any) -> float:
    """Return a budget >= 0 as a float; a whole number for norm 0."""
    try:
        value = float(budget)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"budget must be a number, got {shown(budget)}") from None
    if not value >= 0:
        raise CarveError(f"budget must be >= 0, got {value:g}")
    if norm == 0 and math.isfinite(value) and value != int(value):
        remedy = f"write {int(value)}" if value > 1 else "write 1, or use another norm"
        raise CarveError(
            f"budget {value:g} with norm 0 means {int(value)} changed features; {remedy}"
        )
    if value > LARGEST_BUDGET or 0 < value < 1 / LARGEST_BUDGET:
        raise CarveError(f"budget must be 0 or between 1e-100 and 1e100, got {value:g}")
    return value


def as_feature(given: Any) -> int | str:
    """Return a feature as a plain name or position."""
    if isinstance(given, str):
        return str(given)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return int(given)
    raise CarveError(f"features must be names or positions, got {given!r}")


def display_name(feature: int | str) -> str:
    """Return what messages call a feature."""
    return feature if isinstance(feature, str) else f"feature {feature}"


def _is_series(given: Any) -> bool:
    return hasattr(given, "iloc") and not hasattr(given, "columns")


def _by_name(given: Any) -> Any:
    """Convert a pandas Series, or the frame of one row that polars returns for `X.std()`.

    They become a mapping from feature name to value. A Series with the default index becomes the
    list of its values. Other integer labels become texts, which stand for positions if the model
    has no names.
    """
    if hasattr(given, "columns") and not hasattr(given, "iloc") and len(given) == 1:
        return {name: given[name][0] for name in column_names(given) or ()}
    if not _is_series(given):
        return given
    labels, values = given.index.tolist(), given.tolist()
    if labels and labels == list(range(len(labels))) and hasattr(given.index, "start"):
        return values
    names = [label_text(label) for label in labels]
    if len(set(names)) < len(names):
        raise CarveError("a Series of limits needs a label for each value, and no label twice")
    return dict(zip(names, values, strict=True))


def _per_feature(
    given: Any, parse: Callable[[Any, str], T], what: str, kind: str
) -> T | tuple[T, ...] | Mapping[int | str, T] | None:
    """Freeze one value, one value per feature, or a mapping from features to values.

    `parse(value, what)` checks one value; `kind` says what `given` should be. An empty mapping
    becomes None.
    """
    given = _by_name(given)
    if isinstance(given, Mapping):
        items = [(as_feature(feature), value) for feature, value in given.items()]
        found = {f: parse(value, f"{what} of {display_name(f)}") for f, value in items}
        return MappingProxyType(found) or None
    if isinstance(given, Set) or hasattr(given, "columns"):  # a set has no order
        raise CarveError(f"{what} must be {kind}, got {shown(given)}")
    is_scalar = isinstance(given, str | bytes) or getattr(given, "ndim", 1) == 0
    if is_scalar or not isinstance(given, Iterable):
        return parse(given, what)
    return tuple(parse(value, f"{what} of feature {i}") for i, value in enumerate(given))


def _number(given: Any, what: str) -> float:
    try:
        if isinstance(given, str | bytes | complex | np.complexfloating):  # float() may read them
            raise TypeError
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"{what} must be a number, got {shown(given)}") from None
    if math.isnan(number):
        raise CarveError(f"{what} must not be NaN")
    return number


# ── scale, step, features, categories, one-hot groups ────────────────────────────────────────


def _scale(given: Any) -> Any:
    kind = "one number, one per feature or a mapping"
    found = _per_feature(given, _scale_value, "scale", kind)
    if isinstance(found, tuple) and any(isinstance(scale, tuple) for scale in found):
        raise CarveError(f"scale must be {kind}; pairs (down, up) need a mapping from features")
    return found


def _scale_value(given: Any, what: str) -> float | tuple[float, float]:
    """Return one scale, or a pair (down, up) in which 0 closes a direction."""
    is_pair = isinstance(given, list | tuple) or getattr(given, "ndim", 0) > 0
    if " of " not in what or not is_pair:
        return _check_scale(_number(given, what), what)
    if len(given) != 2:
        raise CarveError(f"{what} must be a number or a pair (down, up), got {shown(given)}")
    down, up = (_number(end, what) for end in given)
    for end in (down, up):
        if end != 0:
            _check_scale(end, what)
    return down if down == up != 0 else (abs(down), abs(up))  # no -0


def _check_scale(scale: float, what: str) -> float:
    if 1 / LARGEST_BUDGET <= scale <= LARGEST_BUDGET:
        return scale
    remedy = ""
    if scale == 0 and " of " in what:
        remedy = "; give 1 if it is constant, a pair (down, up) to close a direction"
    raise CarveError(f"{what} must be > 0 and finite (1e-100 to 1e100), got {scale}{remedy}")


def _step(given: Any) -> Any:
    kind = "one number, one per feature or a mapping"
    return _per_feature(given, _step_value, "step", kind)


def _step_value(given: Any, what: str) -> Fraction:
    """Return the fraction that a float or text spells: 0.1 is one tenth."""
    try:
        if isinstance(given, bool | np.bool_ | bytes | complex | np.complexfloating):
            raise TypeError
        step = given if isinstance(given, Fraction) else _fraction(str(given))
        if step <= 0:
            raise ValueError
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise CarveError(
            f'{what} must be a number > 0 or a fraction such as "1/255", got {shown(given)}'
        ) from None
    if max(step.numerator, step.denominator) > _LARGEST_STEP_PART:
        raise CarveError(
            f"{what} must be a fraction p/q with p and q up to 2^31, got {shown(given)}; write it "
            "with fewer digits"
        )
    return step


def _fraction(text: str) -> Fraction:
    """Return the number that a text spells, with a bounded exponent.

    `Fraction` writes powers of ten out, which takes hours for 1e1000000000.
    """
    mantissa, _, exponent = text.strip().lower().partition("e")
    if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
        return Fraction(mantissa) and Fraction(10) ** _LARGEST_EXPONENT
    return Fraction(text)


def _features(given: Any) -> tuple[int | str, ...]:
    is_list = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    if not is_list or hasattr(given, "columns") or getattr(given, "ndim", 1) != 1:
        raise CarveError(f"features must be a list of names or positions, got {shown(given)}")
    return tuple(as_feature(feature) for feature in given)


def _categories(given: Any) -> Mapping[int | str, tuple[Label, ...]] | None:
    given = _by_name(given)
    if not isinstance(given, Mapping):
        raise CarveError(
            "categories must be a mapping from feature to what it may be changed to, got "
            f"{shown(given)}"
        )
    found = {as_feature(feature): _labels(items, feature) for feature, items in given.items()}
    return MappingProxyType(found) or None


def _labels(given: Any, feature: Any) -> tuple[Label, ...]:
    what = f"categories of {display_name(feature)} must be"
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise CarveError(f"{what} a list of labels or codes, got {shown(given)}")
    labels = [item.item() if isinstance(item, np.generic) else item for item in given]
    for label in labels:
        is_finite = isinstance(label, int) or (isinstance(label, float) and math.isfinite(label))
        if not is_finite and not isinstance(label, str):
            raise CarveError(f"{what} text or finite numbers, got {shown(label)}")
    return tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))


def _one_hot(given: Any) -> tuple[tuple[int | str, ...], ...] | None:
    def items(group: Any) -> list[Any]:
        if isinstance(group, str | bytes | Mapping) or not isinstance(group, Iterable):
            raise CarveError(
                'one_hot must be a list of groups, such as [["home_own", "home_rent"]], got '
                f"{shown(given)}"
            )
        return list(group)

    groups = tuple(tuple(as_feature(feature) for feature in items(g)) for g in items(given))
    for group in groups:
        if len(group) < 2:
            raise CarveError(
                f"one_hot: a group needs at least two features, got {shown(list(group))}"
            )
    check_groups(groups, display_name)
    return groups or None


# ── bounds ───────────────────────────────────────────────────────────────────────────────────


def _bounds(given: Any) -> Any:
    """Freeze a pair (lower, upper), or a mapping from features to pairs.

    An end of the pair is a number, a tuple with a number per feature, or an array with a row per
    row of X. In a mapping it is a number, or an array with a number per row of X.
    """
    if _is_series(given):  # of pairs
        pairs = _by_name(given)
        given = dict(enumerate(pairs)) if isinstance(pairs, list) else pairs
    if hasattr(given, "columns"):
        raise CarveError("bounds must be a pair (lower, upper) or a mapping, got one frame")
    if isinstance(given, Mapping):
        return _bounds_by_feature(given)
    pair = _pair(given, "bounds")
    if all(hasattr(end, "iloc") and hasattr(end, "columns") for end in pair):
        _check_index(*pair, "bounds are two frames")
    low, high = (_columns(_by_name(end)) for end in pair)
    if isinstance(low, Mapping) or isinstance(high, Mapping):
        return _bounds_by_feature(_joined(low, high))
    kind = "one number, one per feature or a mapping"
    ends: list[Any] = []
    for end, what in ((low, "lower bound"), (high, "upper bound")):
        by_row = getattr(end, "ndim", 0) == 2
        if isinstance(end, list | tuple) and end:
            by_row = isinstance(end[0], list | tuple | np.ndarray)
        ends.append(_rows(end, what) if by_row else _per_feature(end, _number, what, kind))
    if any(isinstance(end, np.ndarray) for end in ends):
        return _bounds_by_row(*ends)
    if all(isinstance(end, float) for end in ends):
        check_bounds(ends[0], ends[1], "")
    return tuple(ends)  # per feature: compared where the number of features is known


def _bounds_by_feature(given: Mapping[Any, Any]) -> Mapping[int | str, tuple[Any, Any]] | None:
    pairs: dict[int | str, tuple[Any, Any]] = {}
    lengths: dict[int, str] = {}
    indexed: tuple[str, Any] | None = None
    for feature, value in given.items():
        name = display_name(as_feature(feature))
        pair = _pair(value, f"bounds of {name}")
        for series in filter(_is_series, pair):
            indexed = indexed or (name, series)
            names = name if indexed[0] == name else f"{indexed[0]} and {name}"
            _check_index(indexed[1], series, f"bounds of {names} are two Series")
        ends = [_end(end, f"bounds of {name}") for end in pair]
        for end in ends:
            if isinstance(end, np.ndarray):
                lengths.setdefault(len(end), name)
        if len(lengths) > 1:
            counts = " and ".join(f"{count} of {of}" for count, of in lengths.items())
            raise CarveError(
                f"bounds by row must have the same number of rows for every feature, got {counts}"
            )
        lower, upper = np.broadcast_arrays(*ends)
        for (*row,) in np.argwhere(~has_value_between(lower, upper))[:1]:
            place = f"{name} in row {row[0]}" if row else name
            check_bounds(float(lower[tuple(row)]), float(upper[tuple(row)]), place)
        pairs[as_feature(feature)] = ends[0], ends[1]
    return MappingProxyType(pairs) or None


def _pair(given: Any, what: str) -> tuple[Any, Any]:
    try:
        if isinstance(given, Set):  # it has no order
            raise TypeError
        low, high = given
    except (TypeError, ValueError):
        kind = " or a mapping to such pairs" if what == "bounds" else ""
        raise CarveError(
            f"{what} must be a pair (lower, upper){kind}, got {shown(given)}"
        ) from None
    return low, high


def _joined(low: Any, high: Any) -> dict[Any, tuple[Any, Any]]:
    """Join two ends, one or both of them mappings, to a mapping to pairs."""
    names = list(low if isinstance(low, Mapping) else high)
    for end in (low, high):
        if isinstance(end, Mapping):
            if set(end) != set(names):
                raise CarveError("bounds by name need the same names for both ends")
        elif not np.isscalar(end):
            raise CarveError(f"bounds by name need names for both ends, got {shown(end)}")

    def at(end: Any, name: Any) -> Any:
        return end[name] if isinstance(end, Mapping) else end

    return {name: (at(low, name), at(high, name)) for name in names}


def _check_index(one: Any, other: Any, what: str) -> None:
    """Refuse pandas objects with different indices: their rows are paired by position."""
    if not one.index.equals(other.index):
        raise CarveError(f"{what} with different indices; align them")


def _end(given: Any, what: str) -> float | Floats:
    """Return one number, or a read-only array with a number per row of X."""
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        return _number(given, what)
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.empty((0, 0))
    if array.ndim == 0:
        return _number(given, what)
    if array.ndim != 1 or len(array) == 0:
        raise CarveError(
            f"{what} must be a pair of numbers, or of a number per row of X, got {shown(given)}"
        )
    return _frozen(as_numbers(array, what), lambda row: f"{what} in row {row}")


def _columns(given: Any) -> Any:
    """Convert a frame to a mapping to its columns, or to an array if these have no names."""
    if not hasattr(given, "columns"):
        return given
    names = column_names(given) or []
    values = frame_numbers(given, names, "bounds")
    if names == [str(position) for position in range(len(names))]:
        return values
    return dict(zip(names, values.T, strict=True))


def _rows(given: Any, what: str) -> Floats:
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
        raise CarveError(f"{what} by row must be numbers (rows, features), got {shown(given)}")
    return _frozen(array, lambda row, column: f"{what} of {display_name(column)} in row {row}")


def _frozen(array: npt.NDArray[Any], place: Callable[..., str]) -> Floats:
    """Return a read-only copy as float64, without NaN; `place` names the entry at a position."""
    for position in np.argwhere(np.isnan(array))[:1].tolist():
        raise CarveError(
            f"{place(*position)} must not be NaN; where a value is missing, give -inf and inf"
        )
    copy = np.array(array, dtype=np.float64, order="C")
    copy.flags.writeable = False
    return copy


def _bounds_by_row(low: Any, high: Any) -> tuple[Floats, Floats]:
    """Return both ends with a row per row of X; at least one end has it already."""
    ends = [np.asarray(end, dtype=np.float64) for end in (low, high)]
    shape = max((end.shape for end in ends), key=len)
    if any(end.shape not in (shape, shape[1:], ()) for end in ends):
        raise CarveError(
            "bounds by row need the same rows and columns for both ends, got "
            f"{' and '.join('x'.join(map(str, end.shape)) for end in ends)}"
        )
    lower, upper = (np.array(np.broadcast_to(end, shape), order="C") for end in ends)
    for row, column in np.argwhere(~has_value_between(lower, upper))[:1]:
        place = f"{display_name(int(column))} in row {row}"
        check_bounds(float(lower[row, column]), float(upper[row, column]), place)
    lower.flags.writeable = upper.flags.writeable = False
    return lower, upper


def check_bounds(low: float, high: float, feature: str) -> None:
    """Refuse bounds with no number between them."""
    if not has_value_between(low, high):
        of = f" of {feature}" if feature else ""
        raise CarveError(
            f"bounds{of} must be lower <= upper, with a number between, got ({low}, {high})"
        )


def has_value_between(low: Any, high: Any) -> Any:
    """Return whether some finite z has low <= z <= high."""
    return (low <= high) & (low < math.inf) & (high > -math.inf)


FREEZE: dict[str, Callable[[Any], Any]] = {
    "scale": _scale,
    "features": _features,
    "bounds": _bounds,
    "step": _step,
    "categories": _categories,
    "one_hot": _one_hot,
}
"""Per option of an attacker, what copies and checks it."""

OPTIONS = tuple(FREEZE)
"""The options of an attacker besides norm and budget."""


# ── options that contradict each other ───────────────────────────────────────────────────────


def check_groups(groups: Sequence[Sequence[Any]], name: Callable[[Any], str]) -> None:
    """Refuse a feature that is in two groups, or in one of them twice."""
    seen: set[Any] = set()
    for feature in (feature for group in groups for feature in group):
        if feature in seen:
            raise CarveError(f"one_hot names {name(feature)} twice; a feature is in one group")
        seen.add(feature)


_NOT_CATEGORICAL = {
    "scale": "with no up and down; give one number",
    "step": "and not changed by steps; leave it out of step",
    "bounds": "and has no bounds; say what it may be changed to in categories",
}
_NOT_IN_GROUPS = {
    "scale": "which moves as one; give one number",
    "step": "so it is 0 or 1; leave it out of step",
}


def check_kinds(
    options: Mapping[str, Collection[Any]],
    categorical: Collection[Any],
    grouped: Collection[Any],
    name: Callable[[Any], str],
) -> None:
    """Refuse options that have no meaning for categorical features and one-hot groups.

    Parameters
    ----------
    options : mapping
        The features that have a pair as their "scale", a "step", "bounds".
    categorical, grouped : collections
        The categorical features, and those in one-hot groups.
    name : function
        What a user calls a feature.
    """
    for feature in grouped:
        if feature in categorical:
            raise CarveError(
                f"one_hot: {name(feature)} is categorical; a group has numeric features, 0 or 1"
            )
    for option, features in options.items():
        for feature in features:
            start = f"{option} of {name(feature)}: it is"
            if feature in categorical:
                raise CarveError(f"{start} categorical, {_NOT_CATEGORICAL[option]}")
            if feature in grouped and option in _NOT_IN_GROUPS:
                raise CarveError(f"{start} in a one-hot group, {_NOT_IN_GROUPS[option]}")
