"""The JSON that `Ensemble.save` writes; docs/ensemble-json.md describes it field by field.

Comes in: the text of a file, or its document. Goes out: the `Ensemble` that was saved, to the bit,
or a `ModelError` that names the field or the node.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import NODE, Ensemble
from carvegbm.errors import ModelError, shown
from carvegbm.readers.checks import Classes
from carvegbm.trees.ensemble_json import (
    FORMAT,
    VERSION,
    WITH_CATEGORIES,
    check_class_dtype,
    check_label,
    check_text,
)
from carvegbm.trees.sets import check_kinds, flat_sets
from carvegbm.trees.wellformed import double

__all__ = ["from_document", "is_ensemble", "parse"]

_SCALARS: dict[str, type] = {
    "task": str,
    "tie": str,
    "compares": str,
    "link": str,
    "input_precision": str,
    "sum_precision": str,
    "threshold": float,
    "link_scale": float,
    "average": int,
    "n_features": int,
}
_FIELDS = frozenset(
    ("format", "version", *_SCALARS, "classes", "class_dtype", "feature_names", "base_score")
) | {"roots", "nodes"}
_OF_CATEGORIES = {"category_rule", "unknown_category", "categories"}
_KINDS = {
    ("feature", cut, "left", "right", *missing): cut
    for cut in ("threshold", "categories")
    for missing in ((), ("missing",))
}
_KINDS[("leaf", "scores")] = "leaf"
_KINDS |= {tuple(sorted(keys)): kind for keys, kind in _KINDS.items()}
"""What tells a node from those of other kinds, by its fields."""

_INFINITE = ("Infinity", "-Infinity")
_NOT_FINITE = (*_INFINITE, "NaN")
"""How numbers that JSON does not know are written: as texts, which float() reads."""

_MARK = re.compile(rf'"format"\s*:\s*"{FORMAT}"')
_AGAIN = "the file is damaged, save it again"


def is_ensemble(document: Mapping[str, Any]) -> bool:
    """Whether a JSON document says that it is an ensemble of this format."""
    return document.get("format") == FORMAT


def parse(text: str) -> Any:
    """Parse a JSON text of this format or another.

    A field that occurs twice in one object is refused, because it means one thing to one reader and
    another to the next. In this format so are NaN and Infinity, which are not JSON.
    """
    constant = _refuse_constant if _MARK.search(text) else None
    with _no_collection():
        return json.loads(text, object_pairs_hook=_without_doubles, parse_constant=constant)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Objects by the hundred thousand, none of them garbage, would be looked at again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ModelError(f"has the field {shown(twice)} twice in one object; {_AGAIN}")
    return fields


def _refuse_constant(word: str) -> float:
    raise ModelError(f'holds the word {word}, which JSON does not know; write it as "{word}"')


def from_document(document: Mapping[str, Any], classes: Classes) -> Ensemble:
    """Read a document; `classes` rename those that it holds."""
    version = document.get("version")
    if type(version) is not int or version not in (VERSION, WITH_CATEGORIES):
        raise ModelError(
            f"is version {shown(version)} of {FORMAT}, and versions {VERSION} and "
            f"{WITH_CATEGORIES} are read here; update carvegbm, or save the ensemble again with "
            "this version"
        )
    fields = _FIELDS | _OF_CATEGORIES if version == WITH_CATEGORIES else _FIELDS
    for name in sorted(fields - document.keys()):
        raise ModelError(f"lacks the field {name!r}; {_AGAIN}")
    for name in sorted(document.keys() - fields - {"absent"}):
        raise ModelError(f"has the unknown field {shown(name)}; remove it")
    scalars = {name: _scalar(document[name], kind, name) for name, kind in _SCALARS.items()}
    categories: dict[int, dict[int, Any]] = {}
    if version == WITH_CATEGORIES:
        for name in ("category_rule", "unknown_category"):
            scalars[name] = _scalar(document[name], str, name)
        categories = _categories(document["categories"], int(scalars["n_features"]))
    if "absent" in document:
        scalars["absent"] = _scalar(document["absent"], str, "absent")
    base = _doubles(_list(document["base_score"], "base_score"), "base_score[{}]".format)
    given = _list(document["nodes"], "nodes")
    nodes, scores, by_set = _nodes(given, int(scalars["n_features"]), len(base))
    sets = flat_sets(_sets(given, nodes, by_set, categories))
    ensemble = Ensemble(
        nodes,
        _indices(document["roots"], len(nodes), "roots", f"one of the {len(nodes)} nodes"),
        scores,
        base_score=base,
        classes=_labels(document["classes"], document["class_dtype"], scalars["task"]),
        feature_names=_names(document["feature_names"]),
        categories=categories,
        set_starts=sets.starts,
        set_codes=sets.codes,
        **scalars,
    )
    return ensemble if classes is None else ensemble.with_classes(classes)


def _nodes(
    given: Sequence[Any], n_features: int, n_outputs: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.float64], list[int]]:
    """The array of nodes, that of scores, and the places of splits by categories."""
    by_set: list[int] = []
    at_split: list[int] = []
    at_leaf: list[int] = []
    for place, node in enumerate(given):
        kind = None
        if type(node) is dict:
            kind = _KINDS.get(tuple(node))
            if kind is None:  # in another order
                kind = _KINDS.get(tuple(sorted(node)))
        if kind is not None:
            (at_leaf if kind == "leaf" else at_split).append(place)
            if kind == "categories":
                by_set.append(place)
        else:
            raise ModelError(
                f"node {place} is {shown(node)}; a split has feature, threshold or categories, "
                f"left, right, and missing or not, a leaf has leaf and scores; {_AGAIN}"
            )

    splits = [given[place] for place in at_split]
    leaves = [given[place] for place in at_leaf]

    def whole(name: str, size: int, what: str) -> npt.NDArray[np.int64]:
        owners, places = (leaves, at_leaf) if name == "leaf" else (splits, at_split)
        values = [node[name] for node in owners]
        return _indices(values, size, f"node {{}}: {name}", f"one of the {size} {what}", places)

    nodes = np.zeros(len(given), dtype=NODE)
    nodes["feature"] = nodes["right"] = nodes["missing"] = -1
    where = np.array(at_split, dtype=np.int64)
    nodes["feature"][where] = whole("feature", n_features, "features")
    nodes["left"][where] = whole("left", len(given), "nodes")
    nodes["right"][where] = whole("right", len(given), "nodes")
    nodes["missing"][where] = [_rule(*pair) for pair in zip(at_split, splits, strict=True)]
    nodes["threshold"][where] = _doubles(
        [node.get("threshold", 0.0) for node in splits],
        lambda index: f"node {at_split[index]}: threshold",
        _INFINITE,
    )
    rows = whole("leaf", len(leaves), "leaves")
    nodes["left"][at_leaf] = rows
    for place, leaf in zip(at_leaf, leaves, strict=True):
        if type(leaf["scores"]) is not list or len(leaf["scores"]) != n_outputs:
            raise ModelError(
                f"node {place}: scores is {shown(leaf['scores'])}, not a list of {n_outputs} "
                f"numbers, one for each of base_score; {_AGAIN}"
            )
    scores = np.zeros((len(leaves), n_outputs))
    scores[rows] = _doubles(
        [score for leaf in leaves for score in leaf["scores"]],
        lambda index: f"node {at_leaf[index // n_outputs]}: a score",
    ).reshape(scores.shape)
    return nodes, scores, by_set


def _sets(
    given: Sequence[Any],
    nodes: npt.NDArray[np.void],
    by_set: Sequence[int],
    categories: Mapping[int, Any],
) -> list[npt.NDArray[np.int64]]:
    """The sets that the splits at `by_set` list; their numbers go into these nodes."""
    by_threshold = np.ones(len(nodes), dtype=bool)
    by_threshold[by_set] = False
    check_kinds(
        set(nodes["feature"][by_threshold].tolist()) - {-1},
        nodes["feature"][~by_threshold].tolist(),
        categories,
    )
    nodes["threshold"][by_set] = np.arange(len(by_set))
    return [_codes(given[place]["categories"], f"node {place}: categories") for place in by_set]


def _rule(place: int, node: Mapping[str, Any]) -> int:
    if "missing" not in node:
        return -1
    rule = node["missing"]
    if rule not in ("left", "right"):
        raise ModelError(
            f"node {place}: missing is {shown(rule)}, not left or right; leave it out where there "
            "is no rule for missing values"
        )
    return int(rule == "left")


# ── fields of one kind ───────────────────────────────────────────────────────────────────────


def _list(value: Any, name: str) -> list[Any]:
    if type(value) is not list:
        raise ModelError(f"{name} is {shown(value)}, not a list; {_AGAIN}")
    return value


def _scalar(value: Any, kind: type, name: str) -> Any:
    if kind is float:
        return _double(value, name)
    if type(value) is not kind:
        what = "a text" if kind is str else "a whole number"
        raise ModelError(f"{name} is {shown(value)}, not {what}; {_AGAIN}")
    return value


def _categories(value: Any, n_features: int) -> dict[int, dict[int, Any]]:
    """The labels by code of every categorical feature."""
    found: dict[int, dict[int, Any]] = {}
    for place, entry in enumerate(_list(value, "categories")):
        where = f"categories[{place}]"
        if type(entry) is not dict or entry.keys() != {"feature", "codes", "labels"}:
            raise ModelError(f"{where} is {shown(entry)}, not feature, codes and labels; {_AGAIN}")
        feature = entry["feature"]
        if type(feature) is not int or not 0 <= feature < n_features or feature in found:
            raise ModelError(
                f"{where}: feature is {shown(feature)}, not one of the {n_features} features, "
                f"each once; {_AGAIN}"
            )
        codes = _codes(entry["codes"], f"{where}: codes").tolist()
        labels = _list(entry["labels"], f"{where}: labels")
        if len(labels) != len(codes):
            raise ModelError(f"{where} has {len(codes)} codes and {len(labels)} labels; {_AGAIN}")
        for label in labels:
            check_label(label, "O", "category")
        found[feature] = dict(zip(codes, labels, strict=True))
    if not found:
        raise ModelError(f"categories is [], which is version {VERSION} of the format; {_AGAIN}")
    return found


def _codes(value: Any, name: str) -> npt.NDArray[np.int64]:
    """Codes, ascending and each once."""
    listed = _indices(value, 1 << 31, name, "a code from 0 to 2147483647")
    if (np.diff(listed) <= 0).any():
        raise ModelError(f"{name} is {shown(value)}, which does not ascend; {_AGAIN}")
    return listed


def _names(value: Any) -> list[str] | None:
    if value is None:
        return None
    for place, name in enumerate(_list(value, "feature_names")):
        if type(name) is not str:
            raise ModelError(f"feature_names[{place}] is {shown(name)}, not a text; {_AGAIN}")
        check_text(name, "feature name")
    return list(value)


def _indices(
    values: Any, size: int, name: str, what: str, places: Sequence[int] | None = None
) -> npt.NDArray[np.int64]:
    """Whole numbers from 0 to size - 1; `places` are what the values are numbered by in errors."""
    given = _list(values, name)
    if set(map(type, given)) != {int} or min(given) < 0 or max(given) >= size:
        for index, value in enumerate(given):
            if type(value) is not int or not 0 <= value < size:
                where = f"{name}[{index}]" if places is None else name.format(places[index])
                raise ModelError(f"{where} is {shown(value)}, not {what}; {_AGAIN}")
    return np.array(given, dtype=np.int64)


def _doubles(
    values: list[Any], name: Callable[[int], str], words: Sequence[str] = ()
) -> npt.NDArray[np.float64]:
    if set(map(type, values)) == {float}:
        found = np.array(values)
        if np.isfinite(found).all():
            return found
    return np.array([_double(value, name(i), words) for i, value in enumerate(values)], dtype=float)


def _double(value: Any, name: str, words: Sequence[str] = ()) -> float:
    """A finite number that a double holds, or one of the words for those that are not finite."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int:
        return double(value, name)
    if type(value) is str and value in words:
        return float(value)
    allowed = "".join(f', "{word}"' for word in words)
    raise ModelError(f"{name} is {shown(value)}, not a finite number{allowed}; {_AGAIN}")


def _labels(values: Any, dtype: Any, task: str) -> npt.NDArray[Any]:
    """The class labels as an array of the dtype that the file names."""
    labels = list(_list(values, "classes"))
    check_class_dtype(dtype, len(labels))
    if task == "regression" and labels:
        raise ModelError(f"a regression ensemble has classes {shown(labels)}; make them []")
    for place, label in enumerate(labels):
        if dtype[1] == "f":
            labels[place] = _double(label, f"classes[{place}]", _NOT_FINITE)
        else:
            check_label(label, dtype[1])
    try:
        array = np.array(labels, dtype=dtype)
    except OverflowError:
        array = np.array([], dtype=dtype)
    if repr(array.tolist()) != repr(labels):
        raise ModelError(f"classes {shown(labels)} do not fit class_dtype {dtype!r}; {_AGAIN}")
    return array
