"""What readers check in a file before they believe it, and how they refuse what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError

__all__ = [
    "Classes",
    "count",
    "name_of",
    "number",
    "numbers",
    "refuse_override",
    "refuse_split",
    "whole_numbers",
]

Classes = Sequence[Any] | npt.NDArray[Any] | None
"""Labels by output, as the user gives them."""


def count(
    fields: Mapping[str, Any],
    key: str,
    default: Any = None,
    where: str = "",
    most: int = 1 << 31,
) -> int:
    """A field as a whole number >= 0 and < `most`, or a `ModelError`."""
    value = fields.get(key, default)
    found = -1
    if isinstance(value, str):
        if re.fullmatch(r"\s*\d{1,18}\s*", value, re.ASCII):
            found = int(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        found = int(value)
    if not 0 <= found < most:
        what = "is missing" if value is None else f"is {str(value)[:40]!r}"
        raise ModelError(f"{where}{key} {what}, not a count; the file is damaged")
    return found


def whole_numbers(values: Any, size: int | None, what: str) -> npt.NDArray[np.int64]:
    """Values as int64, or a `ModelError`: not whole numbers, or not `size` of them."""
    array = _array(values, what)
    if array.size and array.dtype.kind not in "iub":
        raise ModelError(f"{what} must be whole numbers; the file is damaged")
    return _sized(array, size, what).astype(np.int64)


def numbers(values: Any, size: int | None, what: str) -> npt.NDArray[np.float64]:
    """Values as float64, or a `ModelError`: not numbers, or not `size` of them."""
    array = _array(values, what)
    if array.size and array.dtype.kind not in "iubf":
        raise ModelError(f"{what} must be numbers; the file is damaged")
    return _sized(array, size, what).astype(np.float64)


def number(value: Any, what: str) -> float:
    """A value as a float, or a `ModelError`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise ModelError(f"{what} must be a number, got {str(value)[:40]!r}; the file is damaged")


def refuse_split(tree: int, feature: str) -> NoReturn:
    """Refuse a categorical split whose categories the model does not list."""
    raise ModelError(
        f"tree {tree} has a categorical split on feature {feature!r}, which is not read; encode "
        "the feature as numbers and train again"
    )


def refuse_override(model: Any, package: str, methods: Sequence[str]) -> None:
    """Refuse a model that answers by code of its own: its trees are not all that it computes.

    `methods` must be those of `package`, or of scikit-learn, which all estimators descend from.
    """
    own = {
        name: getattr(owner, "__name__", "")
        for owner in type(model).__mro__
        if owner.__module__.split(".")[0] not in (package, "sklearn", "builtins")
        for name in vars(owner)
    }
    own |= dict.fromkeys(getattr(model, "__dict__", {}), "the object itself")
    for method in methods:
        if method in own:
            raise ModelError(
                f"has its own {method} (in {own[method]}), so its trees are not all that it "
                f"computes; pass a model of {package} itself"
            )


def name_of(feature: int, names: Sequence[str] | None) -> str:
    """How messages call a feature."""
    return names[feature] if names is not None and 0 <= feature < len(names) else str(feature)


def _array(values: Any, what: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} must be numbers; the file is damaged") from None


def _sized(array: npt.NDArray[Any], size: int | None, what: str) -> npt.NDArray[Any]:
    if array.ndim != 1 or (size is not None and len(array) != size):
        expected = "a list" if size is None else f"{size} values"
        raise ModelError(f"{what} must be {expected}, got {array.size}; the file is damaged")
    return array
