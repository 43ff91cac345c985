"""ONNX models built by hand from nested trees, and what onnxruntime says about rows.

A tree is ``{"feature": f, "mode": "BRANCH_LT", "value": v, "true": …, "false": …}``, optionally
with ``"tracks": True`` for NaN, or a leaf ``{output: weight, …}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
MEMBER = "BRANCH_MEMBER"
TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "float16": TensorProto.FLOAT16,
}
_POST = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
_AGGREGATES = ["AVERAGE", "SUM", "MIN", "MAX"]
Tree = dict[Any, Any]


def _walk(tree: Tree) -> Iterator[tuple[int, Tree]]:
    """Every node with its number: a node before its children, the true one first."""
    stack, made = [tree], 0
    numbers = {}
    while stack:
        node = stack.pop()
        numbers[id(node)] = made
        made += 1
        yield numbers[id(node)], node
        if "feature" in node:
            stack += [node["false"], node["true"]]


def node_arrays(trees: Sequence[Tree]) -> dict[str, list[Any]]:
    """The attributes of TreeEnsembleClassifier and TreeEnsembleRegressor, without prefixes."""
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    found: dict[str, list[Any]] = {name: [] for name in (*names, "missing_value_tracks_true")}
    votes: list[tuple[int, int, int, float]] = []
    for index, tree in enumerate(trees):
        own = list(_walk(tree))
        place = {id(node): number for number, node in own}
        for number, node in own:
            is_split = "feature" in node
            found["treeids"].append(index)
            found["nodeids"].append(number)
            found["featureids"].append(node["feature"] if is_split else 0)
            found["modes"].append(node["mode"] if is_split else "LEAF")
            found["values"].append(float(node["value"]) if is_split else 0.0)
            found["truenodeids"].append(place[id(node["true"])] if is_split else 0)
            found["falsenodeids"].append(place[id(node["false"])] if is_split else 0)
            found["missing_value_tracks_true"].append(int(is_split and node.get("tracks", False)))
            if not is_split:
                votes += [(index, number, output, weight) for output, weight in node.items()]
    found["votes"] = votes
    return found


def _attributes(trees: Sequence[Tree], prefix: str, double: bool) -> dict[str, Any]:
    arrays = node_arrays(trees)
    votes = arrays.pop("votes")
    attributes = {f"nodes_{name}": values for name, values in arrays.items()}
    attributes[f"{prefix}_treeids"] = [vote[0] for vote in votes]
    attributes[f"{prefix}_nodeids"] = [vote[1] for vote in votes]
    attributes[f"{prefix}_ids"] = [vote[2] for vote in votes]
    attributes[f"{prefix}_weights"] = [float(vote[3]) for vote in votes]
    return _in_tensors(attributes, ("nodes_values", f"{prefix}_weights")) if double else attributes


def _in_tensors(attributes: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        values = attributes.pop(name)
        attributes[f"{name}_as_tensor"] = helper.make_tensor(
            name, TensorProto.DOUBLE, [len(values)], values
        )
    return attributes


def classifier(
    trees: Sequence[Tree],
    labels: Sequence[Any],
    *,
    n_features: int,
    kind: str = "float32",
    double: bool = False,
    **attributes: Any,
) -> Any:
    """A model with one TreeEnsembleClassifier; `double`: its numbers are doubles."""
    given = _attributes(trees, "class", double)
    named = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    given[named] = list(labels)
    given |= (
        _in_tensors(attributes, ["base_values"])
        if double and attributes.get("base_values")
        else attributes
    )
    node = helper.make_node(
        "TreeEnsembleClassifier", ["X"], ["label", "scores"], domain="ai.onnx.ml", **given
    )
    label = TensorProto.STRING if isinstance(labels[0], str) else TensorProto.INT64
    outputs = [_value("label", label, [None]), _value("scores", TensorProto.FLOAT, [None, None])]
    return model([node], [_value("X", TYPES[kind], [None, n_features])], outputs)


def regressor(
    trees: Sequence[Tree],
    *,
    n_features: int,
    n_targets: int = 1,
    kind: str = "float32",
    double: bool = False,
    **attributes: Any,
) -> Any:
    """A model with one TreeEnsembleRegressor."""
    given = _attributes(trees, "target", double)
    given |= (
        _in_tensors(attributes, ["base_values"])
        if double and attributes.get("base_values")
        else attributes
    )
    node = helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", n_targets=n_targets, **given
    )
    outputs = [_value("Y", TensorProto.FLOAT, [None, n_targets])]
    return model([node], [_value("X", TYPES[kind], [None, n_features])], outputs)


def ensemble(
    trees: Sequence[Tree],
    *,
    n_features: int,
    n_targets: int = 1,
    kind: str = "float32",
    argmax: bool = False,
    post_transform: str = "NONE",
    aggregate_function: str = "SUM",
) -> Any:
    """A model with one TreeEnsemble of version 5; a leaf votes for one output."""
    nodes: dict[str, list[Any]] = {
        name: []
        for name in ("featureids", "modes", "splits", "truenodeids", "falsenodeids",
                     "trueleafs", "falseleafs", "missing_value_tracks_true")
    }  # fmt: skip
    leaves: list[tuple[int, float]] = []
    roots: list[int] = []
    members: dict[int, list[float]] = {}

    def add(tree: Tree) -> tuple[int, int]:
        """Position, and whether it is a leaf."""
        if "feature" not in tree:
            ((output, weight),) = tree.items()
            leaves.append((output, weight))
            return len(leaves) - 1, 1
        place = len(nodes["modes"])
        for name in nodes:
            nodes[name].append(0)
        nodes["featureids"][place] = tree["feature"]
        nodes["modes"][place] = [*MODES, MEMBER].index(tree["mode"])
        nodes["missing_value_tracks_true"][place] = int(tree.get("tracks", False))
        if tree["mode"] == MEMBER:
            members[place] = list(tree["value"])
        else:
            nodes["splits"][place] = tree["value"]
        for side in ("true", "false"):
            nodes[f"{side}nodeids"][place], nodes[f"{side}leafs"][place] = add(tree[side])
        return place, 0

    for tree in trees:
        if "feature" not in tree:
            tree = {"feature": 0, "mode": "BRANCH_LEQ", "value": 0.0, "true": tree, "false": tree}
        roots.append(add(tree)[0])
    number = TYPES[kind]
    given: dict[str, Any] = {f"nodes_{name}": values for name, values in nodes.items()}
    count = [len(nodes["modes"])]
    given["nodes_modes"] = helper.make_tensor("m", TensorProto.UINT8, count, nodes["modes"])
    given["nodes_splits"] = helper.make_tensor("s", number, count, nodes["splits"])
    weights = [weight for _, weight in leaves]
    given["leaf_weights"] = helper.make_tensor("w", number, [len(leaves)], weights)
    given["leaf_targetids"] = [output for output, _ in leaves]
    if members:
        listed = [v for place in sorted(members) for v in (*members[place], np.nan)]
        given["membership_values"] = helper.make_tensor("v", number, [len(listed)], listed)
    node = helper.make_node(
        "TreeEnsemble", ["X"], ["Y"], domain="ai.onnx.ml", tree_roots=roots, n_targets=n_targets,
        post_transform=_POST.index(post_transform),
        aggregate_function=_AGGREGATES.index(aggregate_function), **given,
    )  # fmt: skip
    inputs = [_value("X", number, [None, n_features])]
    outputs = [_value("Y", number, [None, n_targets])]
    if not argmax:
        return model([node], inputs, outputs, 5)
    best = helper.make_node("ArgMax", ["Y"], ["label"], axis=1, keepdims=0)
    outputs.insert(0, _value("label", TensorProto.INT64, [None]))
    return model([node, best], inputs, outputs, 5)


def model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], ml: int = 3) -> Any:
    """A model of the nodes."""
    graph = helper.make_graph(list(nodes), "trees", list(inputs), list(outputs))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _value(name: str, kind: int, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def run(made: Any, X: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime says, in one thread: its outputs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (given,) = session.get_inputs()
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}.get(given.type, np.int64)
    with np.errstate(over="ignore"):
        return session.run(None, {given.name: X.astype(kind)})
