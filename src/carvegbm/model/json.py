"""The JSON format of ensembles: `Ensemble.save` writes it, `carvegbm.load` reads it.

Reading returns the fields that were written, bit for bit. docs/ensemble-json.md describes the
format. An ensemble without categorical features is written in version 1, which older readers know.
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

from carvegbm.errors import ModelError, shown
from carvegbm.model.categories import check_kinds, flat_sets
from carvegbm.model.ensemble import Ensemble
from carvegbm.model.nodes import MOST_CHARACTERS, NODE, double
from carvegbm.storage.files import check_output, replacing

__all__ = ["from_document", "is_ensemble", "parse", "write"]

_FORMAT = "carvegbm-ensemble"
_VERSION = 1
_WITH_CATEGORIES = 2  # the version that has categorical features
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
_OTHER_FIELDS = ("format", "version", "classes", "class_dtype", "feature_names", "base_score")
_FIELDS = {*_SCALARS, *_OTHER_FIELDS, "roots", "nodes"}
_CATEGORY_FIELDS = {"category_rule", "unknown_category", "categories"}
_NODES = {
    ("leaf", "scores"),
    ("feature", "left", "right", "threshold"),
    ("feature", "left", "missing", "right", "threshold"),
    ("categories", "feature", "left", "right"),
    ("categories", "feature", "left", "missing", "right"),
}
"""The fields of a node, sorted."""
_LABEL_TYPES: dict[str, set[type]] = {
    "b": {bool},
    "i": {int},
    "u": {int},
    "U": {str},
    "O": {bool, int, float, str},
}
"""The types of class labels by the kind of their dtype; "f" holds floats, also infinite ones."""
_DTYPE = re.compile(r"\|b1|\|[iu]1|[<>][iuf][248]|[<>]U\d{1,7}|\|O")
_INFINITE = ("Infinity", "-Infinity")
_NOT_FINITE = (*_INFINITE, "NaN")
"""Texts for the floats that JSON does not have; float() reads them."""
_MARK = re.compile(rf'"format"\s*:\s*"{_FORMAT}"')


# ── writing ──────────────────────────────────────────────────────────────────────────────────


def write(ensemble: Ensemble, path: Any) -> None:
    """Write the ensemble to a file whose name ends in .json, completely or not at all."""
    target = check_output(path, (".json",))
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(_text(ensemble))


def _text(ensemble: Ensemble) -> Iterator[str]:
    """Yield the file with one field per line and one node per line."""
    fields: dict[str, Any] = {
        "format": _FORMAT,
        "version": _WITH_CATEGORIES if ensemble.categories else _VERSION,
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
        _check_text(name, "feature name")
    yield "{\n"
    for name, value in fields.items():
        yield f'"{name}": {json.dumps(value, ensure_ascii=False, allow_nan=False)},\n'
    yield '"nodes": [\n'
    yield ",\n".join(_node_lines(ensemble))
    yield "\n]\n}\n"


def _node_lines(ensemble: Ensemble) -> Iterator[str]:
    # Python's repr of a float is the shortest JSON number that reads back as the same double.
    scores, sets = ensemble.scores.tolist(), ensemble.sets
    rules = {1: ', "missing": "left"', 0: ', "missing": "right"', -1: ""}
    for threshold, feature, left, right, missing in ensemble.nodes.tolist():
        if feature < 0:
            yield f'{{"leaf": {left}, "scores": {scores[left]}}}'
        else:
            number = repr(threshold) if math.isfinite(threshold) else f'"{_word(threshold)}"'
            cut = f'"threshold": {number}'
            if feature in ensemble.categories:
                cut = f'"categories": {sets[int(threshold)]}'
            yield (
                f'{{"feature": {feature}, {cut}, "left": {left}, "right": {right}{rules[missing]}}}'
            )


def _written_categories(ensemble: Ensemble) -> list[dict[str, Any]]:
    for feature, labels in ensemble.categories.items():
        for label in labels.values():
            _check_label(label, "O", f"category of {ensemble.feature_name(feature)}")
    return [
        {"feature": feature, "codes": list(labels), "labels": list(labels.values())}
        for feature, labels in ensemble.categories.items()
    ]


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _written_labels(classes: npt.NDArray[Any]) -> list[Any]:
    """Return the class labels as JSON values; refuse those that would read back differently."""
    kind = classes.dtype.kind
    _check_class_dtype(classes.dtype.str, len(classes))
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]
    if kind == "f":
        return [label if math.isfinite(label) else _word(label) for label in plain]
    for label in plain:
        _check_label(label, kind)
    return plain


# ── checks for both directions ───────────────────────────────────────────────────────────────


def _check_class_dtype(dtype: Any, size: int) -> None:
    known = type(dtype) is str and _DTYPE.fullmatch(dtype)
    if not known or (dtype[1] == "U" and int(dtype[2:]) * size > MOST_CHARACTERS):
        raise ModelError(
            f"class_dtype {shown(dtype)} cannot be stored as JSON; use texts, whole numbers, "
            "floats or booleans as class labels"
        )


def _check_label(label: Any, kind: str, what: str = "class") -> None:
    """Refuse a label that an array of this kind, or JSON, cannot hold."""
    if (
        type(label) not in _LABEL_TYPES[kind]
        or (type(label) is int and not -(2**63) <= label < 2**64)
        or (type(label) is float and not math.isfinite(label))
    ):
        place = f"class_dtype of kind {kind!r}" if what == "class" else "JSON"
        raise ModelError(
            f"the {what} {shown(label)} cannot be stored as {place}; use a text, a whole number, "
            "a float or a boolean"
        )
    if type(label) is str:
        _check_text(label, what)


def _check_text(text: str, what: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(
            f"the {what} {shown(text)} is not Unicode text, it holds half of a surrogate pair; "
            "give it another name"
        ) from None


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def is_ensemble(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON document states this format."""
    return document.get("format") == _FORMAT


def parse(text: str) -> Any:
    """Parse JSON text of this format or another.

    Refuses a field that occurs twice in one object, because readers disagree about its value. In
    this format, also refuses the words NaN and Infinity, which are not JSON.
    """
    constant = _refuse_constant if _MARK.search(text) else None
    with _no_garbage_collection():
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=constant)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, which would traverse every new object again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ModelError(f"has the field {shown(twice)} twice in one object; the file is damaged")
    return fields


def _refuse_constant(word: str) -> float:
    raise ModelError(f'has the word {word}, which is not JSON; write it as "{word}"')


def from_document(document: Mapping[str, Any], classes: Any) -> Ensemble:
    """Convert a document; `classes` replace the class labels unless None."""
    version = document.get("version")
    if type(version) is not int or version not in (_VERSION, _WITH_CATEGORIES):
        raise ModelError(
            f"has version {shown(version)} of {_FORMAT}, this carvegbm reads {_VERSION} and "
            f"{_WITH_CATEGORIES}; update carvegbm, or save the ensemble again with this version"
        )
    has_categories = version == _WITH_CATEGORIES
    fields = _FIELDS | _CATEGORY_FIELDS if has_categories else _FIELDS
    for name in sorted(fields - document.keys()):
        raise _damage(f"the field {name!r} is missing")
    for name in sorted(document.keys() - fields - {"absent"}):
        raise ModelError(f"has the unknown field {shown(name)}; remove it")
    kinds = _SCALARS | dict.fromkeys({"absent"} & document.keys(), str)
    if has_categories:
        kinds |= {"category_rule": str, "unknown_category": str}
    scalars = {name: _scalar(document[name], kind, name) for name, kind in kinds.items()}
    n_features = int(scalars["n_features"])
    categories = _categories(document["categories"], n_features) if has_categories else {}
    base = _doubles(_list(document["base_score"], "base_score"), "base_score[{}]".format)
    given = _list(document["nodes"], "nodes")
    nodes, scores, by_set = _nodes(given, n_features, len(base))
    by_threshold = np.ones(len(nodes), dtype=bool)
    by_threshold[by_set] = False
    check_kinds(
        set(nodes["feature"][by_threshold].tolist()) - {-1},
        nodes["feature"][by_set].tolist(),
        categories,
    )
    nodes["threshold"][by_set] = np.arange(len(by_set))
    starts, codes = flat_sets(
        _codes(given[place]["categories"], f"node {place}: categories") for place in by_set
    )
    ensemble = Ensemble(
        nodes,
        _indices(_list(document["roots"], "roots"), len(nodes), "roots[{}]".format),
        scores,
        base_score=base,
        classes=_labels(document["classes"], document["class_dtype"], scalars["task"]),
        feature_names=_names(document["feature_names"]),
        categories=categories,
        set_starts=starts,
        set_codes=codes,
        **scalars,
    )
    return ensemble if classes is None else ensemble.with_classes(classes)


def _nodes(
    given: Sequence[Any], n_features: int, n_outputs: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.float64], list[int]]:
    """Return nodes, scores, and the positions of categorical splits."""
    by_set: list[int] = []
    at_split: list[int] = []
    at_leaf: list[int] = []
    for place, node in enumerate(given):
        if type(node) is not dict or tuple(sorted(node)) not in _NODES:
            raise _damage(
                f"node {place} is {shown(node)}; a split has feature, threshold or categories, "
                "left, right and optionally missing, a leaf has leaf and scores"
            )
        (at_leaf if "leaf" in node else at_split).append(place)
        if "categories" in node:
            by_set.append(place)
    splits = [given[place] for place in at_split]
    leaves = [given[place] for place in at_leaf]

    def whole(name: str, size: int) -> npt.NDArray[np.int64]:
        values = [node[name] for node in splits]
        return _indices(values, size, lambda index: f"node {at_split[index]}: {name}")

    nodes = np.zeros(len(given), dtype=NODE)
    nodes["feature"] = nodes["right"] = nodes["missing"] = -1
    where = np.array(at_split, dtype=np.int64)
    nodes["feature"][where] = whole("feature", n_features)
    nodes["left"][where] = whole("left", len(given))
    nodes["right"][where] = whole("right", len(given))
    nodes["missing"][where] = [_rule(*pair) for pair in zip(at_split, splits, strict=True)]
    nodes["threshold"][where] = _doubles(
        [node.get("threshold", 0.0) for node in splits],
        lambda index: f"node {at_split[index]}: threshold",
        _INFINITE,
    )
    rows = _indices(
        [leaf["leaf"] for leaf in leaves],
        len(leaves),
        lambda index: f"node {at_leaf[index]}: leaf",
    )
    nodes["left"][at_leaf] = rows
    for place, leaf in zip(at_leaf, leaves, strict=True):
        if type(leaf["scores"]) is not list or len(leaf["scores"]) != n_outputs:
            raise _damage(
                f"node {place}: scores is {shown(leaf['scores'])}, not a list of {n_outputs} "
                "numbers, one for each of base_score"
            )
    scores = np.zeros((len(leaves), n_outputs))
    scores[rows] = _doubles(
        [score for leaf in leaves for score in leaf["scores"]],
        lambda index: f"node {at_leaf[index // n_outputs]}: a score",
    ).reshape(scores.shape)
    return nodes, scores, by_set


def _rule(place: int, node: Mapping[str, Any]) -> int:
    if "missing" not in node:
        return -1
    rule = node["missing"]
    if rule not in ("left", "right"):
        raise _damage(f"node {place}: missing is {shown(rule)}, not left or right")
    return int(rule == "left")


def _damage(what: str) -> ModelError:
    return ModelError(f"{what}; the file is damaged, save it again")


def _list(value: Any, name: str) -> list[Any]:
    if type(value) is not list:
        raise _damage(f"{name} is {shown(value)}, not a list")
    return value


def _scalar(value: Any, kind: type, name: str) -> Any:
    if kind is float:
        return _double(value, name)
    if type(value) is not kind:
        raise _damage(
            f"{name} is {shown(value)}, not a {'text' if kind is str else 'whole number'}"
        )
    return value


def _categories(value: Any, n_features: int) -> dict[int, dict[int, Any]]:
    """Return the labels by code of every categorical feature."""
    found: dict[int, dict[int, Any]] = {}
    for place, entry in enumerate(_list(value, "categories")):
        where = f"categories[{place}]"
        if type(entry) is not dict or entry.keys() != {"feature", "codes", "labels"}:
            raise _damage(f"{where} is {shown(entry)}, not feature, codes and labels")
        feature = entry["feature"]
        if type(feature) is not int or not 0 <= feature < n_features or feature in found:
            raise _damage(
                f"{where}: feature is {shown(feature)}, not one of the {n_features} features, "
                "each once"
            )
        codes = _codes(entry["codes"], f"{where}: codes").tolist()
        labels = _list(entry["labels"], f"{where}: labels")
        if len(labels) != len(codes):
            raise _damage(f"{where} has {len(codes)} codes and {len(labels)} labels")
        for label in labels:
            _check_label(label, "O", "category")
        found[feature] = dict(zip(codes, labels, strict=True))
    if not found:
        raise _damage(f"categories is empty, which needs version {_VERSION} of the format")
    return found


def _codes(value: Any, name: str) -> npt.NDArray[np.int64]:
    """Return codes, which must be strictly ascending."""
    codes = _indices(_list(value, name), 1 << 31, lambda index: f"{name}[{index}]")
    if (np.diff(codes) <= 0).any():
        raise _damage(f"{name} is {shown(value)}, which does not ascend")
    return codes


def _names(value: Any) -> list[str] | None:
    if value is None:
        return None
    for place, name in enumerate(_list(value, "feature_names")):
        if type(name) is not str:
            raise _damage(f"feature_names[{place}] is {shown(name)}, not a text")
        _check_text(name, "feature name")
    return list(value)


def _indices(values: list[Any], size: int, name: Callable[[int], str]) -> npt.NDArray[np.int64]:
    """Return whole numbers from 0 to size - 1; `name` names a value by its position in errors."""
    if set(map(type, values)) != {int} or min(values) < 0 or max(values) >= size:
        for index, value in enumerate(values):
            if type(value) is not int or not 0 <= value < size:
                raise _damage(f"{name(index)} is {shown(value)}, not one of 0 … {size - 1}")
    return np.array(values, dtype=np.int64)


def _doubles(
    values: list[Any], name: Callable[[int], str], words: Sequence[str] = ()
) -> npt.NDArray[np.float64]:
    if set(map(type, values)) == {float}:
        found = np.array(values)
        if np.isfinite(found).all():
            return found
    return np.array([_double(value, name(i), words) for i, value in enumerate(values)], dtype=float)


def _double(value: Any, name: str, words: Sequence[str] = ()) -> float:
    """Return a finite number that a double holds, or one of the words for other floats."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int:
        return double(value, name)
    if type(value) is str and value in words:
        return float(value)
    allowed = "".join(f', "{word}"' for word in words)
    raise _damage(f"{name} is {shown(value)}, not a finite number{allowed}")


def _labels(values: Any, dtype: Any, task: str) -> npt.NDArray[Any]:
    """Return the class labels as an array of the dtype in the file."""
    labels = list(_list(values, "classes"))
    _check_class_dtype(dtype, len(labels))
    if task == "regression" and labels:
        raise ModelError(f"a regression ensemble has classes {shown(labels)}; make them []")
    for place, label in enumerate(labels):
        if dtype[1] == "f":
            labels[place] = _double(label, f"classes[{place}]", _NOT_FINITE)
        else:
            _check_label(label, dtype[1])
    try:
        array = np.array(labels, dtype=dtype)
    except OverflowError:
        array = np.array([], dtype=dtype)
    if repr(array.tolist()) != repr(labels):
        raise _damage(f"classes {shown(labels)} do not fit class_dtype {dtype!r}")
    return array
