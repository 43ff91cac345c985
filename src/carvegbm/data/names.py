"""Match the columns of a frame or file with the features of a model, by name or by position.

Libraries change names: LightGBM replaces spaces by underscores and refuses JSON syntax, training
here replaces both by underscores, XGBoost joins the parts of a tuple with spaces. So names that are
not equal are compared by `_key`, which is the same for all of these spellings.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from carvegbm.errors import DataError

__all__ = [
    "column_names",
    "did_you_mean",
    "feature_named",
    "feature_position",
    "is_same_name",
    "label_text",
    "listed",
    "order_of",
]

_DEFAULT_NAMES = ("{}", "f{}", "Column_{}", "column_{}")  # by pandas, XGBoost, LightGBM, polars
_SHOWN = 8


def column_names(X: Any) -> list[str] | None:
    """Return the names of a frame's columns as text, or None if X is no frame.

    Examples
    --------
    >>> import pandas
    >>> column_names(pandas.DataFrame({"age": [1], ("a", "b"): [2], 7: [3]}))
    ['age', 'a b', '7']
    """
    # A pyarrow table calls its arrays `columns`, and their names `column_names`.
    found = getattr(X, "column_names", None)
    if found is None:  # a record batch of earlier versions has them in its schema
        found = getattr(getattr(X, "schema", None), "names", None)
    if found is None or callable(found):
        found = getattr(X, "columns", None)
    if found is None or isinstance(found, str) or not isinstance(found, Iterable):
        return None
    return [label_text(name) for name in list(found)]


def label_text(label: Any) -> str:
    """Return the name of a column as text; join the parts of a tuple by spaces."""
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def order_of(columns: Sequence[str], names: Sequence[str], what: str) -> list[int] | None:
    """Return positions with columns[order[i]] = feature names[i], or None for the given order.

    Default names of libraries (f0, f1, …) stand for positions.

    Raises
    ------
    DataError
        The columns of `what` do not match the features one to one.

    Examples
    --------
    >>> order_of(["mean area", "age"], ["age", "mean_area"], "X")
    [1, 0]
    """
    if list(columns) == list(names):
        return None
    if sorted(columns) != sorted(names) or len(set(names)) < len(names):
        keys, wanted = [_key(name) for name in columns], [_key(name) for name in names]
    else:
        keys, wanted = list(columns), list(names)
    if len(set(wanted)) == len(wanted) and sorted(keys) == sorted(wanted):
        place = {key: position for position, key in enumerate(keys)}
        order = [place[key] for key in wanted]
        return None if order == list(range(len(order))) else order
    if _are_default_names(names) or _are_default_names(columns):
        return None
    raise DataError(_misfit(columns, names, keys, wanted, what))


def did_you_mean(given: Any, known: Iterable[Any]) -> str:
    """Return the end of a message that suggests the known name nearest to `given`, or "".

    Examples
    --------
    >>> did_you_mean("src_byte", ["count", "src_bytes"])
    "; did you mean 'src_bytes'?"
    """
    texts = [name for name in known if isinstance(name, str)]
    near = get_close_matches(given, texts, n=1, cutoff=0.75) if isinstance(given, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


def feature_named(name: str, names: Sequence[str] | None) -> int:
    """Return the position of a feature given by its name, in any spelling."""
    known = list(names or ())
    for spelled in (str, _key):
        alike = [position for position, own in enumerate(known) if spelled(own) == spelled(name)]
        if len(alike) == 1:
            return alike[0]
        if alike:
            shown = listed(known[position] for position in alike)
            raise DataError(f"feature {name!r} may be any of {shown}; give its position instead")
    if names is None:
        raise DataError(f"unknown feature {name!r}; there are no names, give its position instead")
    there = listed(names, quote=False)
    raise DataError(f"unknown feature {name!r}; known: {there}{did_you_mean(name, known)}")


def feature_position(feature: Any, names: Sequence[str] | None, n_features: int) -> int:
    """Return the position of a feature given by its name or by its position.

    Without names, or with default names, a text such as "3" is a position.

    Examples
    --------
    >>> feature_position("1", ["Column_0", "Column_1"], 2), feature_position("1", ["1", "7"], 2)
    (1, 0)
    """
    if isinstance(feature, str):
        has_names = names is not None and (feature in names or not _are_default_names(names))
        if has_names or not re.fullmatch("0|[1-9][0-9]{0,9}", feature, re.ASCII):
            return feature_named(feature, names)
        feature = int(feature)
    if isinstance(feature, bool | np.bool_) or feature != int(feature):
        raise DataError(f"a feature is a name or a whole-number position, got {feature!r}")
    if not 0 <= int(feature) < n_features:
        raise DataError(f"feature {feature} is not in 0…{n_features - 1}")
    return int(feature)


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names are spellings of the same name."""
    return _key(one) == _key(other)


def listed(names: Iterable[str], *, quote: bool = True) -> str:
    """Return the first few names in one line.

    Examples
    --------
    >>> listed(["a", "b c"])
    "'a', 'b c'"
    """
    every = list(names)
    shown = ", ".join(repr(name) if quote else name for name in every[:_SHOWN])
    return shown + (", …" if len(every) > _SHOWN else "")


def _key(name: str) -> str:
    """Return what all spellings of a name have in common."""
    plain = re.sub(r'[\s",:\[\]{}]', "_", unicodedata.normalize("NFC", name))
    return plain.strip("_") or plain  # a file's header loses the spaces around a name


def _are_default_names(names: Sequence[str]) -> bool:
    return any(
        all(name == pattern.format(position) for position, name in enumerate(names))
        for pattern in _DEFAULT_NAMES
    )


def _misfit(
    columns: Sequence[str],
    names: Sequence[str],
    keys: Sequence[str],
    wanted: Sequence[str],
    what: str,
) -> str:
    remedy = "name the columns as the features, or leave the names out to go by position"
    found, needed = Counter(keys), Counter(wanted)
    for given, known, count in ((columns, keys, found), (names, wanted, needed)):
        often = [name for name, key in zip(given, known, strict=True) if count[key] > 1]
        if often:
            return f"{what}: the names {listed(often)} cannot be told apart; {remedy}"
    parts = []
    missing = [name for name, key in zip(names, wanted, strict=True) if key not in found]
    if missing:
        parts.append(f"lacks {listed(missing)}")
    unexpected = [name for name, key in zip(columns, keys, strict=True) if key not in needed]
    if unexpected:
        parts.append(f"has the unexpected {listed(unexpected)}")
    if unexpected == [""]:
        remedy = "a column without a name may be the index of a frame; write it with index=False"
    return f"{what} {' and '.join(parts)}; {remedy}"
