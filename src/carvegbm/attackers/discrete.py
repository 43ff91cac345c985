"""Steps, categories and one-hot groups as a user gives them: copied, checked, frozen.

Comes in: numbers, labels, iterables and mappings by feature. Goes out: exact fractions, tuples and
read-only mappings; and the refusal of options that contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from carvegbm.attackers.given import as_feature, by_name, called
from carvegbm.errors import CarveError, shown

__all__ = ["check_groups", "check_kinds", "frozen_categories", "frozen_one_hot", "frozen_step"]

_LARGEST_PART = 1 << 31
"""Of the numerator and the denominator of a step: multiples of it stay exact in doubles."""

_LARGEST_EXPONENT = 1000
"""Of a power of ten that is written out: those of all doubles are smaller."""

Label = str | int | float


def frozen_step(given: Any) -> Any:
    """A step as one fraction, a tuple of them, or a read-only mapping to them; None if empty.

    Examples
    --------
    >>> frozen_step(["1/255", 0.1])
    (Fraction(1, 255), Fraction(1, 10))
    """
    given = by_name(given)
    if isinstance(given, Mapping):
        steps = {as_feature(feature): _step(value, feature) for feature, value in given.items()}
        return MappingProxyType(steps) or None
    if isinstance(given, bytes | Set):  # a set has no order
        raise _no_step(given, None)
    is_scalar = isinstance(given, str) or (isinstance(given, np.ndarray) and given.ndim == 0)
    if is_scalar or not isinstance(given, Iterable):
        return _step(given, None)
    return tuple(_step(value, position) for position, value in enumerate(given))


def _step(given: Any, feature: Any) -> Fraction:
    if isinstance(given, bool | np.bool_ | bytes | complex | np.complexfloating):
        raise _no_step(given, feature)
    try:
        # The shortest decimal of a float is what its user wrote: 0.1 is one tenth.
        step = given if isinstance(given, Fraction) else _fraction(str(given))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise _no_step(given, feature) from None
    if step <= 0:
        raise _no_step(given, feature)
    if max(step.numerator, step.denominator) > _LARGEST_PART:
        raise CarveError(
            f"step{_of(feature)} must be a fraction p/q with p and q up to 2^31, got "
            f"{shown(given)}; write it with fewer digits"
        )
    return step


def _fraction(text: str) -> Fraction:
    """The number that a text spells; a power of ten far beyond all steps stands for any other.

    `Fraction` writes such a power out, which takes hours for 1e1000000000.
    """
    mantissa, _, exponent = text.strip().lower().partition("e")
    if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
        return Fraction(mantissa) and Fraction(10) ** _LARGEST_EXPONENT
    return Fraction(text)


def _no_step(given: Any, feature: Any) -> CarveError:
    return CarveError(
        f'step{_of(feature)} must be a number > 0 or a fraction such as "1/255", got {shown(given)}'
    )


def _of(feature: Any) -> str:
    return "" if feature is None else f" of {called(feature)}"


def frozen_categories(given: Any) -> Mapping[int | str, tuple[Label, ...]] | None:
    """Labels or codes by feature, each once and in order; None if there are no features.

    Examples
    --------
    >>> dict(frozen_categories({"service": ["smtp", "http", "http"]}))
    {'service': ('http', 'smtp')}
    """
    given = by_name(given)
    if not isinstance(given, Mapping):
        raise CarveError(
            "categories must be a mapping from feature to what it may be changed to, got "
            f"{shown(given)}"
        )
    found = {as_feature(feature): _labels(items, feature) for feature, items in given.items()}
    return MappingProxyType(found) if found else None


def _labels(given: Any, feature: Any) -> tuple[Label, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise CarveError(
            f"categories of {called(feature)} must be a list of labels or codes, got {shown(given)}"
        )
    labels = [_label(item, feature) for item in given]
    return tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))


def _label(given: Any, feature: Any) -> Label:
    plain = given.item() if isinstance(given, np.generic) else given
    is_number = isinstance(plain, int) or (isinstance(plain, float) and math.isfinite(plain))
    if is_number or isinstance(plain, str):
        return str(plain) if isinstance(plain, str) else plain
    raise CarveError(
        f"categories of {called(feature)} must be text or finite numbers, got {shown(given)}"
    )


def frozen_one_hot(given: Any) -> tuple[tuple[int | str, ...], ...] | None:
    """Groups of at least two features, none of them in two groups; None if there are no groups.

    Examples
    --------
    >>> frozen_one_hot([["home_own", "home_rent"]])
    (('home_own', 'home_rent'),)
    """
    groups = tuple(
        tuple(as_feature(feature) for feature in _items(group, given))
        for group in _items(given, given)
    )
    for group in groups:
        if len(group) < 2:
            raise CarveError(
                f"one_hot: a group needs at least two features, got {shown(list(group))}"
            )
    check_groups(groups, called)
    return groups or None


def _items(given: Any, groups: Any) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise CarveError(
            f'one_hot must be a list of groups, such as [["home_own", "home_rent"]], got '
            f"{shown(groups)}"
        )
    return list(given)


# ── options that contradict each other ───────────────────────────────────────────────────────


def check_groups(groups: Sequence[Sequence[Any]], name: Callable[[Any], str]) -> None:
    """Refuse a feature that is in two groups, or in one of them twice."""
    seen: set[Any] = set()
    for feature in (feature for group in groups for feature in group):
        if feature in seen:
            raise CarveError(f"one_hot names {name(feature)} twice; a feature is in one group")
        seen.add(feature)


def check_kinds(
    options: Mapping[str, Collection[Any]],
    categorical: Collection[Any],
    grouped: Collection[Any],
    name: Callable[[Any], str],
) -> None:
    """Refuse what has no meaning for a finite feature; `options` are the features given by name.

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
            if feature in categorical:
                what, remedy = _NOT_CATEGORICAL[option]
                raise CarveError(
                    f"{option} of {name(feature)}: it is categorical, {what}; {remedy}"
                )
            if feature in grouped and option in _NOT_GROUPED:
                what, remedy = _NOT_GROUPED[option]
                raise CarveError(
                    f"{option} of {name(feature)}: it is in a one-hot group, {what}; {remedy}"
                )


_NOT_CATEGORICAL = {
    "scale": ("with no up and down", "give one number"),
    "step": ("and not changed by steps", "leave it out of step"),
    "bounds": ("and has no bounds", "say what it may be changed to in categories"),
}
_NOT_GROUPED = {
    "scale": ("which moves as one", "give one number"),
    "step": ("so it is 0 or 1", "leave it out of step"),
}
