"""Suggest a first attacker from data: limits that hold in every row, as TOML for users to edit."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.files import key_of, to_plain
from carvegbm.data.files import load_table
from carvegbm.data.frames import as_numbers
from carvegbm.data.sparse import is_sparse
from carvegbm.errors import DataError, level_of_caller

if TYPE_CHECKING:
    from carvegbm.attackers.limits import Limits
    from carvegbm.model.ensemble import Ensemble

__all__ = ["Suggestion", "Table", "read_table", "suggest", "warn_if_unscaled"]

_STEPS = (Fraction(1), Fraction(1, 255))  # whole numbers, and grey levels of images from 0 to 1
_MIN_ROWS_PER_MEMBER = 10  # with fewer rows, unnamed columns may sum to 1 by chance
_VALUES_AT_ONCE = 1 << 22
_LARGEST_WHOLE = 1 << 50  # multiples of a step are exact in doubles up to here
_MAX_COLUMNS = 1 << 17  # of a file with columns of text and no names
_WIDTH = 96
_MIN_ROWS = 10  # fewer rows say little about the ranges of columns
_RATIO = 100
_UNSCALED = 10  # columns scaled to [0, 1] or to unit variance rarely span more


class Table(NamedTuple):
    """The features of a file: numbers (NaN if missing), and columns of text by position."""

    X: npt.NDArray[Any]
    names: tuple[str, ...] | None
    texts: dict[int, list[str | None]]
    label: str | None = None


def read_table(path: str | os.PathLike[str], **options: Any) -> Table:
    """Read a file whose columns may hold text; `options` are those of `load_table`."""
    try:
        table = load_table(path, **options)
        return Table(table.X, table.feature_names, {}, table.label_name)
    except DataError:  # columns of text, or an error that the second attempt repeats
        table = load_table(
            path, **options, categorical=lambda names: range(len(names or range(_MAX_COLUMNS)))
        )
    names, columns = table.feature_names, table.X.values
    X, texts = np.full((len(columns[0]), len(columns)), np.nan), {}
    for position, cells in enumerate(columns):
        try:
            X[:, position] = [_number(cell) for cell in cells]
        except ValueError:
            texts[position] = [None if cell is None else str(cell) for cell in cells]
        except TypeError:  # other types in Parquet
            column = position if names is None else repr(names[position])
            X[:, position] = as_numbers(cells, f"{os.fspath(path)}, column {column},")
    return Table(X, names, texts, table.label_name)


def _number(cell: Any) -> float:
    if isinstance(cell, str) and "_" in cell:  # float() reads 1_0 as 10
        raise ValueError
    return np.nan if cell is None else float(cell)


@dataclass(frozen=True)
class Suggestion:
    """Limits that hold in every row, by position of the feature; missing values are ignored."""

    n_features: int
    bounds: dict[int, tuple[float, float]] = field(default_factory=dict)
    step: dict[int, Fraction] = field(default_factory=dict)
    one_hot: list[list[int]] = field(default_factory=list)
    categories: dict[int, list[str]] = field(default_factory=dict)

    def arguments(
        self, names: Sequence[str] | None, norm: float | str, budget: float
    ) -> dict[str, Any]:
        """Return arguments of an `Attacker` that may change every feature within these limits.

        Features go by name, or by position if they have no names of their own.
        """
        n = self.n_features
        numbered = names is None or len(set(names)) < n or list(names) == [str(i) for i in range(n)]
        features: Sequence[Any] = range(n) if numbered or names is None else names
        grouped = {f for group in self.one_hot for f in group}
        limits: dict[str, dict[int, Any]] = {
            "step": {f: step for f, step in self.step.items() if f not in grouped},
            "bounds": {f: ends for f, ends in self.bounds.items() if f not in grouped},
            "categories": dict(self.categories),
        }
        return {
            "norm": norm,
            "budget": budget,
            "features": list(features),
            "one_hot": [[features[f] for f in group] for group in self.one_hot],
            **{
                option: {features[f]: value for f, value in given.items()}
                for option, given in limits.items()
            },
        }

    def to_toml(self, arguments: Mapping[str, Any], source: str) -> str:
        """Return these arguments as TOML with comments; `source` names the data."""
        return "\n".join(
            [*_head(arguments, source), *self._features(arguments), *_tables(arguments)]
        )

    def _features(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        yield ""
        yield "# The features that the attacker can change: delete the lines of the others."
        yield "features = ["
        lines = [f"    {_value(feature)}," for feature in arguments["features"]]
        width = min(40, max(map(len, lines), default=0))
        for feature, line in enumerate(lines):
            yield f"{line:<{width}}  # {self._describe(feature)}"
        yield "]"
        if arguments["one_hot"]:
            yield ""
            yield "# Columns of which exactly one is 1; moving the 1 is one change."
            yield "one_hot = ["
            for group in arguments["one_hot"]:
                yield from _list("    ", group, ",")
            yield "]"

    def _describe(self, feature: int) -> str:
        for group in self.one_hot:
            if feature in group:
                return f"one of {len(group)} columns, one-hot"
        if feature in self.categories:
            return f"{len(self.categories[feature])} categories"
        if feature not in self.bounds:
            return "without a value"
        low, high = map(_value, self.bounds[feature])
        step = self.step.get(feature)
        kind = "" if step is None else "whole numbers, " if step == 1 else f"multiples of {step}, "
        return f"always {low}" if low == high else f"{kind}{low} to {high}"


def suggest(
    X: npt.NDArray[Any],
    names: Sequence[str] | None = None,
    texts: Mapping[int, Sequence[str | None]] | None = None,
) -> Suggestion:
    """Find limits that hold in all rows of X; `texts` are the columns that hold text.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 7.5]])
    >>> found = suggest(X, ["home_own", "home_rent", "age"])
    >>> found.one_hot, found.bounds[2], found.step
    ([[0, 1]], (3.0, 7.5), {0: Fraction(1, 1), 1: Fraction(1, 1)})
    """
    texts, n = texts or {}, X.shape[1]
    lowest, highest = np.full(n, np.inf), np.full(n, -np.inf)
    is_binary = np.ones(n, dtype=bool)
    multiples = {step: np.ones(n, dtype=bool) for step in _STEPS}
    for rows in _blocks(X):
        missing = np.isnan(rows)
        lowest = np.minimum(lowest, np.where(missing, np.inf, rows).min(axis=0))
        highest = np.maximum(highest, np.where(missing, -np.inf, rows).max(axis=0))
        is_binary &= ((rows == 0) | (rows == 1)).all(axis=0)
        for step, every in multiples.items():
            every &= (missing | _are_multiples(rows, step)).all(axis=0)
    has_numbers = (lowest < np.inf) & (highest > -np.inf)
    numeric = [f for f in np.flatnonzero(has_numbers).tolist() if f not in texts]
    steps: dict[int, Fraction] = {}
    for step in reversed(_STEPS):
        steps |= {f: step for f in numeric if multiples[step][f]}
    return Suggestion(
        n,
        {f: (float(lowest[f]) + 0.0, float(highest[f]) + 0.0) for f in numeric},
        dict(sorted(steps.items())),
        _one_hot_groups(X, [f for f in numeric if is_binary[f]], names),
        {f: sorted({text for text in own if text is not None}) for f, own in texts.items()},
    )


def _blocks(X: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    at_once = max(1, _VALUES_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), at_once):
        yield np.asarray(X[start : start + at_once])


def _are_multiples(rows: npt.NDArray[Any], step: Fraction) -> npt.NDArray[np.bool_]:
    """Return where a value is the nearest number to a multiple of the step in its own precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        times = np.rint(rows.astype(np.float64) * step.denominator / step.numerator)
        nearest = (times * step.numerator / step.denominator).astype(rows.dtype)
        small = np.abs(times * step.numerator) <= _LARGEST_WHOLE
    return np.asarray((nearest == rows) & small)


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


def _one_hot_groups(
    X: npt.NDArray[Any], binary: list[int], names: Sequence[str] | None
) -> list[list[int]]:
    """Return disjoint groups of binary columns that sum to 1 in every row.

    First those whose names begin alike, then neighbouring columns.
    """
    if len(binary) < 2:
        return []
    ones = np.concatenate([rows[:, binary] == 1 for rows in _blocks(X)])
    free = set(range(len(binary)))
    groups = [
        group
        for group in _groups_by_name([names[f] for f in binary] if names else [])
        if (np.count_nonzero(ones[:, group], axis=1) == 1).all()
        and np.count_nonzero(ones[:, group].any(axis=0)) >= 2
    ]
    found: list[list[int]] = []
    for group in groups:
        if free.issuperset(group):
            free.difference_update(group)
            found.append([binary[place] for place in group])
    for start in range(len(binary)):
        run = _neighbours(start, ones, binary, free)
        free.difference_update(run)
        found += [[binary[place] for place in run]] if run else []
    return sorted(found)


def _groups_by_name(names: Sequence[str]) -> list[list[int]]:
    """Return groups of names with the same beginning, the longest beginnings first.

    Beginnings end before a number at the end, or after one of _ - = . : / or a space.
    """
    alike: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        ends = {match.end() for match in re.finditer(r"[_\-=.:/\s]+", name)}
        ends |= {match.start() for match in re.finditer(r"[0-9]+$", name)}
        for end in ends - {0, len(name)}:
            alike.setdefault(name[:end], []).append(place)
    groups = [(beginning, places) for beginning, places in alike.items() if len(places) >= 2]
    return [places for _, places in sorted(groups, key=lambda pair: -len(pair[0]))]


def _neighbours(
    start: int, ones: npt.NDArray[np.bool_], binary: list[int], free: set[int]
) -> list[int]:
    """Return neighbouring columns from `start` on that sum to 1 in every row, if there are any."""
    taken = np.zeros(len(ones), dtype=bool)
    run: list[int] = []
    for place in range(start, len(binary)):
        is_neighbour = not run or binary[place] == binary[place - 1] + 1
        column = ones[:, place]
        if place not in free or not is_neighbour or not column.any() or (taken & column).any():
            return []
        run.append(place)
        taken = taken | column
        if taken.all():
            enough = len(run) >= 2 and len(ones) >= _MIN_ROWS_PER_MEMBER * len(run)
            return run if enough else []
    return []


# ── TOML ─────────────────────────────────────────────────────────────────────────────────────


def _head(arguments: Mapping[str, Any], source: str) -> Iterator[str]:
    printable = "".join(letter if letter.isprintable() else "?" for letter in source)
    yield f"# An attacker suggested from {printable}: limits that hold in all of its rows."
    yield "# Edit it, and use it with --attacker; docs/attackers.md explains every option."
    yield ""
    yield f"norm = {_value(arguments['norm'])}  # 0: the number of changed features; 1, 2, … or inf"
    yield f"budget = {_value(arguments['budget'])}"


_MEANINGS = {
    "step": "Values are whole multiples of the step, before and after.",
    "bounds": "Values stay within; rows outside are refused. -inf and inf are no bounds.",
    "categories": "What a categorical feature of the model may be changed to.",
}


def _tables(arguments: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "# Moving by one scale costs 1, and every scale is 1 unless it is given here; a pair is"
    yield "# (down, up), 0 closes a direction. A category or a one-hot group changes for 1 / scale."
    yield "[scale]"
    for feature in [*arguments["bounds"], *arguments["features"]][:1]:
        yield f"# {_key(feature)} = [0, 100]  # may only grow, by 100 for a cost of 1"
    for option, meaning in _MEANINGS.items():
        if arguments[option]:
            yield ""
            yield f"# {meaning}"
            yield f"[{option}]"
        for feature, value in arguments[option].items():
            start = f"{_key(feature)} = "
            if isinstance(value, list | tuple):
                yield from _list(start, value)
            else:
                yield start + _value(value)
    yield ""


def _list(start: str, items: Sequence[Any], end: str = "") -> Iterator[str]:
    """Yield a list on one line, or on several lines if it is long."""
    parts = [_value(item) for item in items]
    line = f"{start}[{', '.join(parts)}]{end}"
    if len(line) <= _WIDTH:
        yield line
        return
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    yield f"{start}["
    line = indent
    for part in parts:
        if len(line) + len(part) >= _WIDTH and line != indent:
            yield line.rstrip()
            line = indent
        line += f"{part}, "
    yield line.rstrip()
    yield f"{indent[4:]}]{end}"


def _value(value: Any) -> str:
    """Write a number, a text or a fraction in TOML; whole numbers without a point."""
    plain = to_plain(value) if isinstance(value, Fraction) else value
    if isinstance(plain, str):
        return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(plain, float) and math.isfinite(plain) and plain == int(plain):
        return str(int(plain)) if abs(plain) < 1 << 53 else repr(plain)
    return str(plain)


def _key(feature: int | str) -> str:
    key = key_of(feature)
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _value(key)


def warn_if_unscaled(ensemble: Ensemble, limits: Limits, rows: Any) -> None:
    """Warn if the ranges of columns differ by orders of magnitude, so that one budget misfits.

    Compares the numerical columns that the model tests (all, if it has no splits) and the attacker
    may change: the widest one with the narrowest, or of many columns with the lowest decile.
    """
    features = np.unique(ensemble.nodes["feature"][ensemble.nodes["feature"] >= 0])
    if len(features) == 0:
        features = np.arange(ensemble.n_features)
    if len(limits.changeable):
        features = features[limits.changeable[features] != 0]
    left_out = [*ensemble.categories, *(feature for group in limits.one_hot for feature in group)]
    features = np.setdiff1d(features, left_out)
    if rows.shape[0] < _MIN_ROWS or len(features) < 2:
        return
    with np.errstate(over="ignore"):
        ranges = _ranges(rows)[features]
    order = [place for place in np.argsort(ranges) if ranges[place] > 0]  # neither 0 nor NaN
    if len(order) < 2:
        return
    narrow, wide = order[(len(order) - 1) // 10], order[-1]
    if ranges[wide] > _UNSCALED and ranges[wide] >= _RATIO * ranges[narrow]:
        spans = [
            f"{ensemble.feature_name(int(features[place]))} spans about {ranges[place]:.0e}"
            for place in (wide, narrow)
        ]
        warnings.warn(
            f"one budget for all columns, but {spans[0]} and {spans[1]}; give scale= (--scale), "
            "or scale the data",
            stacklevel=level_of_caller(),
        )


def _ranges(rows: Any) -> npt.NDArray[np.float64]:
    """Return the range of the numbers of each column, NaN if all are missing."""
    if is_sparse(rows):
        low = np.zeros(rows.shape[1])
        high = low.copy()
        np.fmin.at(low, rows.indices, rows.data)
        np.fmax.at(high, rows.indices, rows.data)
    else:
        low, high = np.fmin.reduce(rows), np.fmax.reduce(rows)
    return np.asarray(high - low, dtype=np.float64)
