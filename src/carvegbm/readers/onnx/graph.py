"""The graph around an ensemble of trees: what stands before it, and behind it.

Comes in: the graph of a ModelProto. Goes out: a `Graph` that says what goes into the ensemble and
what its operator's attributes are, or a `ModelError` that names the node that is in the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carvegbm.ensemble import Precision
from carvegbm.errors import ModelError

__all__ = ["Graph"]

_ENSEMBLES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
_BEFORE = ("Identity", "Cast")
_SHAPES = ("Reshape", "Squeeze", "Flatten")
_BEHIND = ("Identity", "Cast", "ZipMap", "ArgMax", "Constant", *_SHAPES)
_PRECISIONS: dict[int, Precision] = {1: "float32", 11: "float64"}  # TensorProto.FLOAT, DOUBLE
_TYPES = {6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16"}


@dataclass(frozen=True)
class Graph:
    """One ensemble of trees, and all that matters about the nodes around it."""

    kind: str  # the operator
    attributes: Mapping[str, Any]  # numbers and texts; arrays for tensors
    precision: Precision  # of the inputs: once rounded to float32 they stay float32
    sums: Precision  # in which the trees add up
    n_features: int  # 0 where the graph does not say it
    argmax: bool  # the first largest output of a row is chosen

    @classmethod
    def of(cls, graph: Any) -> Graph:
        """From the graph of a ModelProto."""
        nodes = list(graph.node)
        place = _the_ensemble(nodes)
        before = _before(nodes, place)
        argmax = _check_behind(nodes, place, {place, *before}, _ones(graph))
        first = nodes[before[-1] if before else place]
        source = _the_input(graph, first)
        casts = [nodes[i] for i in reversed(before) if nodes[i].op_type == "Cast"]
        types = [source.elem_type, *(_attributes(node).get("to", 0) for node in casts)]
        for number in types:
            if number not in _PRECISIONS:
                raise ModelError(
                    f"takes inputs of the type {_TYPES.get(number, number)}; "
                    "convert it with float or double inputs"
                )
        dims = source.shape.dim if source.HasField("shape") else ()
        if len(dims) not in (0, 2):
            raise ModelError(f"takes inputs of {len(dims)} dimensions; convert it with a matrix")
        return cls(
            kind=nodes[place].op_type,
            attributes=_attributes(nodes[place]),
            precision="float32" if 1 in types else "float64",
            sums=_PRECISIONS[types[-1]],
            n_features=int(dims[1].dim_value) if dims else 0,
            argmax=argmax,
        )


def _the_ensemble(nodes: Sequence[Any]) -> int:
    found = [place for place, node in enumerate(nodes) if node.op_type in _ENSEMBLES]
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"holds {len(found)} ensembles of trees; convert them one by one")
    names = ", ".join(dict.fromkeys(str(node.op_type) for node in nodes)) or "nothing"
    raise ModelError(
        f"holds no ensemble of trees but {names[:120]}; pass a model with a TreeEnsembleClassifier,"
        " TreeEnsembleRegressor or TreeEnsemble"
    )


def _before(nodes: Sequence[Any], ensemble: int) -> list[int]:
    """The nodes before the ensemble, the nearest first; refuses those that change its inputs."""
    maker = {name: place for place, node in enumerate(nodes) for name in node.output}
    found: list[int] = []
    name = _first(nodes[ensemble].input)
    while name in maker:
        place = maker[name]
        kind = nodes[place].op_type
        if place in found or place == ensemble:
            raise ModelError(f"its node {kind} feeds itself; the file is damaged")
        if kind not in _BEFORE:
            raise ModelError(
                f"has {kind} before its trees, which changes their inputs; "
                "transform the data yourself and convert the trees alone"
            )
        found.append(place)
        name = _first(nodes[place].input)
    return found


def _ones(graph: Any) -> set[str]:
    """The stored numbers that are 1: what converters of LightGBM multiply probabilities by."""
    from onnx import numpy_helper

    found = set()
    for tensor in graph.initializer:
        if math.prod(tensor.dims) != 1 or _is_elsewhere(tensor):
            continue
        try:
            if numpy_helper.to_array(tensor).item() == 1:
                found.add(str(tensor.name))
        except (KeyError, TypeError, ValueError):  # damaged, and so no one
            continue
    return found - {str(value.name) for value in graph.input}  # which a caller may replace


def _check_behind(nodes: Sequence[Any], ensemble: int, known: set[int], ones: set[str]) -> bool:
    """Refuse nodes that change the ensemble's outputs; say whether an ArgMax chooses among them.

    A multiplication by one of `ones` changes nothing.
    """
    is_classifier = nodes[ensemble].op_type == "TreeEnsembleClassifier"
    scores = set(nodes[ensemble].output[1:] if is_classifier else nodes[ensemble].output)
    argmax = False
    for place, node in enumerate(nodes):
        if place in known:
            continue
        kind = node.op_type
        allowed = kind in _BEHIND and not (kind == "ArgMax" and is_classifier)
        allowed |= kind == "Mul" and not ones.isdisjoint(node.input)
        if allowed and kind == "Cast" and _first(node.input) in scores:
            allowed = _attributes(node).get("to") in _PRECISIONS
        if allowed and kind == "ArgMax":
            given = _attributes(node)
            allowed = given.get("axis", 0) in (1, -1) and not given.get("select_last_index", 0)
            argmax = True
        if not allowed:
            raise ModelError(
                f"has {kind} behind its trees, which changes their outputs; convert the trees alone"
            )
        if kind in ("Identity", "Cast", "Mul", *_SHAPES) and not scores.isdisjoint(node.input):
            scores |= set(node.output)
    return argmax


def _the_input(graph: Any, first: Any) -> Any:
    """The type of the one matrix that the graph takes."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    if len(inputs) != 1 or inputs[0].name != _first(first.input):
        names = ", ".join(str(value.name) for value in inputs)
        raise ModelError(
            f"takes {len(inputs)} inputs ({names[:80]}); "
            "convert it with one matrix of float numbers as its input"
        )
    return inputs[0].type.tensor_type


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import AttributeProto, helper, numpy_helper

    found: dict[str, Any] = {}
    for attribute in node.attribute:
        name = str(attribute.name)
        try:
            value = helper.get_attribute_value(attribute)
        except ValueError:
            raise ModelError(f"{name[:40]} has no known type; the file is damaged") from None
        if attribute.type == AttributeProto.TENSOR:
            if _is_elsewhere(value):
                raise ModelError(f"{name} is in another file; save the model as one file")
            try:
                value = numpy_helper.to_array(value)
            except (KeyError, TypeError, ValueError):
                raise ModelError(f"{name[:40]} is no tensor of numbers; it is damaged") from None
        elif attribute.type == AttributeProto.STRING:
            value = value.decode("utf-8", "replace")
        elif attribute.type == AttributeProto.STRINGS:
            value = [text.decode("utf-8", "replace") for text in value]
        found[name] = value
    return found


def _is_elsewhere(tensor: Any) -> bool:
    """Whether the numbers are in another file, which may be any file of this machine."""
    return bool(tensor.external_data) or tensor.data_location == tensor.EXTERNAL


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) else ""
