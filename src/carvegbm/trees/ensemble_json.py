"""The format of an ensemble as JSON, and the way into it; docs/ensemble-json.md describes it.

Comes in: an `Ensemble`. Goes out: a file from which `readers.ensemble_json` makes an ensemble with
the same fields, to the bit. What class labels and texts may be is said here for both directions.
An ensemble without categorical features is written in version 1, which older readers know, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError, shown
from carvegbm.storage.files import check_output, replacing
from carvegbm.trees.sets import Sets
from carvegbm.trees.wellformed import MOST_CHARACTERS

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = [
    "FORMAT",
    "VERSION",
    "WITH_CATEGORIES",
    "check_class_dtype",
    "check_label",
    "check_text",
    "write",
]

FORMAT = "carvegbm-ensemble"
VERSION = 1
WITH_CATEGORIES = 2
"""The version that has categorical features."""

_LABELS: dict[str, set[type]] = {
    "b": {bool},
    "i": {int},
    "u": {int},
    "U": {str},
    "O": {bool, int, float, str},
}
"""The types of class labels by the kind of their dtype; "f" holds floats, all of them."""
_DTYPE = re.compile(r"\|b1|\|[iu]1|[<>][iuf][248]|[<>]U\d{1,7}|\|O")


def write(ensemble: Ensemble, path: Any) -> None:
    """Write the ensemble to a file whose name ends in .json; it is there whole or not at all."""
    target = check_output(path, (".json",))
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(_text(ensemble))


def _text(ensemble: Ensemble) -> Iterator[str]:
    """The file, one field per line and one node per line."""
    fields: dict[str, Any] = {
        "format": FORMAT,
        "version": WITH_CATEGORIES if ensemble.categories else VERSION,
        "task": ensemble.task,
        "classes": _written_labels(ensemble.classes),
        "class_dtype": ensemble.classes.dtype.str,
        "n_features": ensemble.n_features,
        "feature_names": ensemble.feature_names,
        "base_score": ensemble.base_score.tolist(),
        "average": ensemble.average,
        "threshold": ensemble.threshold,
        "tie": ensemble.tie,
        "compares": ensemble.compares,
        "link": ensemble.link,
        "link_scale": ensemble.link_scale,
        "input_precision": ensemble.input_precision,
        "sum_precision": ensemble.sum_precision,
    }
    if ensemble.absent != "zero":
        fields["absent"] = ensemble.absent
    if ensemble.categories:
        fields |= {
            "category_rule": ensemble.category_rule,
            "unknown_category": ensemble.unknown_category,
            "categories": _written_categories(ensemble),
        }
    fields["roots"] = ensemble.roots.tolist()
    for name in ensemble.feature_names or ():
        check_text(name, "feature name")
    yield "{\n"
    for name, value in fields.items():
        yield f'"{name}": {json.dumps(value, ensure_ascii=False, allow_nan=False)},\n'
    yield '"nodes": [\n'
    yield ",\n".join(_node_lines(ensemble))
    yield "\n]\n}\n"


def _node_lines(ensemble: Ensemble) -> Iterator[str]:
    # The shortest text that means a double is both Python's repr and a JSON number.
    scores = ensemble.scores.tolist()
    sets = Sets(ensemble.set_starts, ensemble.set_codes).lists()
    rules = {1: ', "missing": "left"', 0: ', "missing": "right"', -1: ""}
    for threshold, feature, left, right, missing in ensemble.nodes.tolist():
        if feature < 0:
            yield f'{{"leaf": {left}, "scores": {scores[left]}}}'
        else:
            cut = f'"threshold": {_written_number(threshold)}'
            if feature in ensemble.categories:
                cut = f'"categories": {sets[int(threshold)]}'
            yield (
                f'{{"feature": {feature}, {cut}, "left": {left}, "right": {right}{rules[missing]}}}'
            )


def _written_categories(ensemble: Ensemble) -> list[dict[str, Any]]:
    for feature, labels in ensemble.categories.items():
        for label in labels.values():
            check_label(label, "O", f"category of {ensemble.feature_name(feature)}")
    return [
        {"feature": feature, "codes": list(labels), "labels": list(labels.values())}
        for feature, labels in ensemble.categories.items()
    ]


def _written_number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{_word(value)}"'


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _written_labels(classes: npt.NDArray[Any]) -> list[Any]:
    """The labels as JSON has them; refuses those that would not come back."""
    kind = classes.dtype.kind
    check_class_dtype(classes.dtype.str, len(classes))
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]
    if kind == "f":
        return [label if math.isfinite(label) else _word(label) for label in plain]
    for label in plain:
        check_label(label, kind)
    return plain


# ── what labels and texts may be, in both directions ─────────────────────────────────────────


def check_class_dtype(dtype: Any, size: int) -> None:
    """Refuse a dtype that class labels cannot have, as numpy spells it."""
    known = type(dtype) is str and _DTYPE.fullmatch(dtype)
    if not known or (dtype[1] == "U" and int(dtype[2:]) * size > MOST_CHARACTERS):
        raise ModelError(
            f"class_dtype is {shown(dtype)}, which JSON does not hold; name the classes by texts, "
            "whole numbers, floats or booleans"
        )


def check_label(label: Any, kind: str, what: str = "class") -> None:
    """Refuse a label that an array of this kind does not hold, or JSON does not."""
    if (
        type(label) not in _LABELS[kind]
        or (type(label) is int and not -(2**63) <= label < 2**64)
        or (type(label) is float and not math.isfinite(label))
    ):
        holds = f"a class_dtype of kind {kind!r}" if what == "class" else "JSON"
        raise ModelError(
            f"the {what} {shown(label)} is not what {holds} holds; name it by a text, a whole "
            "number, a float or a boolean"
        )
    if type(label) is str:
        check_text(label, what)


def check_text(text: str, what: str) -> None:
    """Refuse a text that is not Unicode; `what` is its name in errors."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(
            f"the {what} {shown(text)} is not Unicode text, it holds half of a surrogate pair; "
            "give it another name"
        ) from None
