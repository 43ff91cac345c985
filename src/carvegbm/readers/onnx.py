"""ONNX models of trees: TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble (ai.onnx.ml).

The raw score is the sum of the trees before `post_transform`, bit for bit as onnxruntime computes
it in one thread (with several it adds up many trees in another order); `decide` returns its label.

- Converted trees that compare float32 numbers are a float32 model, whatever they were converted
  from. Models with double inputs compare doubles; onnxruntime returns their scores as float32.
- One column of weights for two classes: the second iff its sum > 0, but > 1/2 if no weight is
  negative, which is how onnxruntime distinguishes margins from probabilities.
- More classes: the first with the largest sum. A TreeEnsemble with several targets is a classifier
  if an ArgMax follows, or if `classes` name its targets.
- base_values are added last, so they are a last tree of one leaf. Under AVERAGE they enter the sum
  as many times as there are trees, and the raw score equals onnxruntime's up to rounding.
- Identity and Cast may precede the trees; ZipMap, changes of shape and a product with 1 may follow
  as well. Graphs with other nodes are refused.

A node compares in one of six ways, or tests membership of a set. With x a number of the inputs'
precision (float32 or float64) and t any double,

    x <= t  iff  x <= the largest number of that precision that is <= t
    x <  t  iff  x <= the largest number of that precision that is <  t
    x >  t, x >= t   are the same with the children swapped
    x == t, x != t   ask whether x is in an interval between two numbers of that precision

NaN goes to the true child if missing_value_tracks_true says so, and if x != t is asked. Membership
of a set is equality with one of its numbers, of which onnxruntime uses whole ones only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.model.categories import Categories
from carvegbm.model.ensemble import Ensemble, Precision
from carvegbm.readers.common import (
    Bools,
    Classes,
    Floats,
    Ints,
    Pieces,
    Tree,
    assemble,
    below,
    check_size,
    integers,
    numbers,
    require,
)

__all__ = ["from_bytes", "from_model", "is_model"]

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_LINKS = {"SOFTMAX": "softmax", "LOGISTIC": "logistic"}
_SECOND_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)
_ENSEMBLES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
_BEFORE = ("Identity", "Cast")
_SHAPES = ("Reshape", "Squeeze", "Flatten")
_BEHIND = ("Identity", "Cast", "ZipMap", "ArgMax", "Constant", *_SHAPES)
_PRECISIONS: dict[int, Precision] = {1: "float32", 11: "float64"}  # TensorProto.FLOAT, DOUBLE
_TYPES = {6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16"}
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER, _LEAF = range(8)
_MODES = [f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")] + ["LEAF"]


def is_model(data: bytes) -> bool:
    """Return whether the bytes begin as a ModelProto: a small version, and another field."""
    return len(data) > 2 and data[0] == 8 and data[1] < 64 and data[2] in _SECOND_FIELDS


def from_bytes(data: bytes, classes: Classes, n_features: int | None) -> Ensemble:
    """Read the content of an ONNX file."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ModelError(
            "is an ONNX model, which needs the onnx package; pip install 'carvegbm[onnx]'"
        ) from None
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise ModelError("is not a complete ONNX model; the file is damaged") from None
    return from_model(model, classes, n_features)


def from_model(model: Any, classes: Classes, n_features: int | None = None) -> Ensemble:
    """Read a ModelProto."""
    if not hasattr(model, "graph"):
        raise ModelError(f"is an onnx.{type(model).__name__}, not a model; pass a ModelProto")
    graph = _graph(model.graph)
    attributes = graph.attributes
    is_classifier = graph.operator == "TreeEnsembleClassifier"
    if graph.operator == "TreeEnsemble":
        forest = _read_tables(attributes)
    else:
        forest = _read_nodes(attributes, "class" if is_classifier else "target")
    column = None
    if is_classifier:
        fields, base, column = _classifier(attributes, forest)
    else:
        fields, base = _regressor(attributes, forest, graph.argmax or classes is not None)
    widest = max((int(tree.feature.max(initial=-1)) for tree in forest.trees), default=-1) + 1
    trees, categories = _translate(forest, graph.precision)
    if column is not None:
        trees = [replace(tree, score=tree.score[:, [column]]) for tree in trees]
    average = fields.setdefault("average", 1)
    if np.any(base):
        trees.append(replace(Tree.leaf(0.0), score=average * base[None, :]))
    labels = fields.pop("classes", None)
    return assemble(
        trees,
        n_outputs=forest.n_outputs if column is None else 1,
        n_features=graph.n_features or n_features or widest,
        classes=labels if classes is None else classes,
        input_precision=graph.precision,
        sum_precision=graph.sum_precision,
        categories=categories,
        **fields,
    )


# ── the graph around the trees ───────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Graph:
    """The operator with the trees, and the effect of the nodes around it."""

    operator: str
    attributes: Mapping[str, Any]  # numbers and texts; arrays for tensors
    precision: Precision  # of the inputs: once rounded to float32 they stay float32
    sum_precision: Precision
    n_features: int  # 0 if the graph does not state it
    argmax: bool  # the first largest output of a row is chosen


def _graph(graph: Any) -> _Graph:
    """Read the graph of a ModelProto; refuse nodes that change inputs or scores."""
    nodes = list(graph.node)
    found = [place for place, node in enumerate(nodes) if node.op_type in _ENSEMBLES]
    if not found:
        names = ", ".join(dict.fromkeys(str(node.op_type) for node in nodes)) or "nothing"
        raise ModelError(
            f"holds no ensemble of trees but {names[:120]}; pass a model with a "
            "TreeEnsembleClassifier, TreeEnsembleRegressor or TreeEnsemble"
        )
    if len(found) > 1:
        raise ModelError(f"holds {len(found)} ensembles of trees; convert them one by one")
    place = found[0]
    before = _nodes_before(nodes, place)
    argmax = _check_behind(nodes, place, {place, *before}, _ones(graph))
    source = _the_input(graph, nodes[before[-1] if before else place])
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
    return _Graph(
        operator=nodes[place].op_type,
        attributes=_attributes(nodes[place]),
        precision="float32" if 1 in types else "float64",
        sum_precision=_PRECISIONS[types[-1]],
        n_features=int(dims[1].dim_value) if dims else 0,
        argmax=argmax,
    )


def _nodes_before(nodes: Sequence[Any], ensemble: int) -> list[int]:
    """Return the nodes before the ensemble, the nearest first."""
    maker = {name: place for place, node in enumerate(nodes) for name in node.output}
    found: list[int] = []
    name = _first(nodes[ensemble].input)
    while name in maker:
        place = maker[name]
        kind = nodes[place].op_type
        require(place not in found and place != ensemble, f"the node {kind} is its own input")
        if kind not in _BEFORE:
            raise ModelError(
                f"has {kind} before its trees, which changes their inputs; "
                "transform the data yourself and convert the trees alone"
            )
        found.append(place)
        name = _first(nodes[place].input)
    return found


def _check_behind(nodes: Sequence[Any], ensemble: int, known: set[int], ones: set[str]) -> bool:
    """Refuse nodes that change the ensemble's outputs; return whether an ArgMax follows.

    A product with one of the constants `ones` changes nothing.
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


def _ones(graph: Any) -> set[str]:
    """Return the names of constants 1, by which converters of LightGBM multiply probabilities."""
    from onnx import numpy_helper

    found = set()
    for tensor in graph.initializer:
        if math.prod(tensor.dims) != 1 or _is_external(tensor):
            continue
        try:
            if numpy_helper.to_array(tensor).item() == 1:
                found.add(str(tensor.name))
        except (KeyError, TypeError, ValueError):  # damaged
            continue
    return found - {str(value.name) for value in graph.input}  # which a caller may replace


def _the_input(graph: Any, first: Any) -> Any:
    """Return the type of the graph's only input, a matrix."""
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
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            if _is_external(value):
                raise ModelError(f"{attribute.name} is in another file; save the model as one file")
            value = numpy_helper.to_array(value)
        elif attribute.type == AttributeProto.STRING:
            value = value.decode("utf-8", "replace")
        elif attribute.type == AttributeProto.STRINGS:
            value = [text.decode("utf-8", "replace") for text in value]
        found[str(attribute.name)] = value
    return found


def _is_external(tensor: Any) -> bool:
    """Return whether the numbers are in another file, which may be any file of this machine."""
    return bool(tensor.external_data) or tensor.data_location == tensor.EXTERNAL


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) else ""


# ── what the trees decide ────────────────────────────────────────────────────────────────────


def _classifier(
    attributes: Mapping[str, Any], forest: _Forest
) -> tuple[dict[str, Any], Floats, int | None]:
    """Return fields of `Ensemble`, base values by output, and the only output used, if any."""
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_int64s") or []
    n_classes = len(labels)
    if n_classes < 2:
        raise ModelError(f"has {n_classes} class labels; a classifier needs two or more")
    forest.set_outputs(n_classes)
    base = _base(attributes)
    is_right = len(base) in (0, n_classes) if n_classes > 2 else len(base) <= 2
    require(is_right, f"base_values has {len(base)} values for {n_classes} classes")
    fields: dict[str, Any] = {"task": "multiclass", "classes": list(labels)}
    fields["link"] = _LINKS.get(_choice(attributes, "post_transform", _TRANSFORMS, 0), "identity")
    if n_classes > 2:
        if not len(base):
            _check_votes(forest, labels)
        return fields, base, None
    fields |= {"task": "binary", "tie": "negative"}
    if fields["link"] == "softmax":
        fields["link"] = "identity"
    voted = sorted(set(forest.vote_outputs.tolist()))
    if voted == [0, 1]:
        weights = np.concatenate([tree.score for tree in forest.trees])
        if not np.array_equal(weights[:, 0], -weights[:, 1]) or np.any(base):
            raise ModelError(
                "has weights for both of two classes, which onnxruntime decides by the second "
                "alone and the standard by the larger; convert it with weights of one class"
            )
        return fields, np.zeros(1), 1
    column = voted[0] if voted else 0
    if np.any(base) and (column or len(base) == 2):
        raise ModelError(
            f"has weights of one class and {len(base)} base values, which runtimes read "
            "differently; convert it with weights of class 0 and one base value"
        )
    if not (forest.vote_weights < 0).any():
        fields["threshold"] = 0.5
    return fields, base[:1], column


def _check_votes(forest: _Forest, labels: Sequence[Any]) -> None:
    """Refuse leaves without a weight for a class if that differs from a weight of 0.

    onnxruntime ignores a class that no leaf votes for, even if all others are negative. There is no
    difference if some tree votes for the class in all leaves, or if all weights are >= 0 and some
    tree always gives a positive one.
    """
    voted = [tree.voted[tree.feature < 0] for tree in forest.trees]
    always = np.array([leaves.all(axis=0) for leaves in voted]).any(axis=0)
    if not voted or always.all():
        return
    scores = [tree.score[tree.feature < 0] for tree in forest.trees]
    if not (forest.vote_weights < 0).any() and any((s > 0).any(axis=1).all() for s in scores):
        return
    raise ModelError(
        f"has leaves without a weight for class {labels[int(np.argmin(always))]!r}, which "
        "onnxruntime then ignores; give every class a weight in every leaf, or base_values"
    )


def _regressor(
    attributes: Mapping[str, Any], forest: _Forest, is_choice: bool
) -> tuple[dict[str, Any], Floats]:
    """Return fields of `Ensemble`, and base values by output."""
    n_targets = int(attributes.get("n_targets", 1) or 1)
    forest.set_outputs(n_targets)
    transform = _choice(attributes, "post_transform", _TRANSFORMS, 0)
    aggregate = _choice(attributes, "aggregate_function", _AGGREGATES, 1)
    if aggregate not in ("SUM", "AVERAGE"):
        raise ModelError(
            f"takes the {aggregate} of its trees, which is no sum; convert it with SUM or AVERAGE"
        )
    fields: dict[str, Any] = {"average": len(forest.trees) or 1} if aggregate == "AVERAGE" else {}
    base = _base(attributes)
    is_right = len(base) in (0, n_targets)
    require(is_right, f"base_values has {len(base)} values for {n_targets} targets")
    if n_targets == 1:
        is_complete = all(tree.voted[tree.mode == _LEAF].all() for tree in forest.trees)
        require(is_complete, "a leaf has no weight")
        return fields | {"task": "regression"}, base
    if not is_choice:
        raise ModelError(
            f"predicts {n_targets} targets at once; pass classes if they are the scores of "
            "classes, or convert a model per target"
        )
    fields |= {"task": "multiclass", "link": _LINKS.get(transform, "identity")}
    if transform in _LINKS:
        fields["compares"] = "probability"
    elif transform != "NONE":
        raise ModelError(
            f"chooses the largest of {n_targets} targets after {transform}, which is not read; "
            "convert it with post_transform NONE, SOFTMAX or LOGISTIC"
        )
    return fields, base


def _base(attributes: Mapping[str, Any]) -> Floats:
    tensor = attributes.get("base_values_as_tensor")
    base = np.asarray(attributes.get("base_values") or () if tensor is None else tensor)
    return base.astype(np.float64).ravel()


def _choice(attributes: Mapping[str, Any], key: str, names: Sequence[str], default: int) -> str:
    """Return an attribute that is one of several names, or in TreeEnsemble its number."""
    given = attributes.get(key, default)
    if isinstance(given, int) and 0 <= given < len(names):
        return names[given]
    require(isinstance(given, str) and given in names, f"{key} is {str(given)[:40]!r}")
    return str(given)


# ── trees as ONNX stores them ────────────────────────────────────────────────────────────────


@dataclass
class _Comparisons:
    """A tree as arrays over its nodes; node 0 is the root."""

    mode: Ints
    feature: Ints  # -1 at a leaf
    value: Floats
    true: Ints
    false: Ints
    tracks: Bools  # NaN goes to the true child
    members: Mapping[int, Floats] = field(default_factory=dict)  # sets, by node
    score: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    voted: Bools = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))


@dataclass
class _Forest:
    """All trees, and their votes: weights of leaves for outputs."""

    trees: list[_Comparisons]
    vote_trees: Ints
    vote_nodes: Ints  # positions in their trees
    vote_outputs: Ints
    vote_weights: Floats
    n_outputs: int = 0

    def set_outputs(self, n_outputs: int) -> None:
        """Give every leaf a row of `n_outputs` scores, from its votes."""
        check_size(sum(len(tree.mode) for tree in self.trees), n_outputs)
        is_known = (self.vote_outputs >= 0) & (self.vote_outputs < n_outputs)
        require(is_known.all(), f"a leaf counts for an output beyond {n_outputs}")
        self.n_outputs = n_outputs
        for tree in self.trees:
            tree.score = np.zeros((len(tree.mode), n_outputs))
            tree.voted = np.zeros((len(tree.mode), n_outputs), dtype=bool)
        votes = (self.vote_trees, self.vote_nodes, self.vote_outputs, self.vote_weights)
        for index, node, output, weight in zip(*(v.tolist() for v in votes), strict=True):
            tree = self.trees[index]
            require(tree.mode[node] == _LEAF, f"tree {index} has a weight at a split")
            if tree.voted[node, output]:
                raise ModelError(
                    f"tree {index} has a leaf with two weights for output {output}, of which "
                    "onnxruntime may take the first alone; add them up"
                )
            tree.score[node, output], tree.voted[node, output] = weight, True


def _read_nodes(attributes: Mapping[str, Any], prefix: str) -> _Forest:
    """Read TreeEnsembleClassifier (prefix "class") or TreeEnsembleRegressor (prefix "target")."""
    tree_ids = _ints(attributes, "nodes_treeids", None)
    size = len(tree_ids)
    node_ids = _ints(attributes, "nodes_nodeids", size)
    modes = attributes.get("nodes_modes") or []
    is_right = len(modes) == size and "BRANCH_MEMBER" not in modes
    require(is_right, f"nodes_modes must be {size} comparisons or leaves")
    mode = np.array([_MODES.index(name) for name in modes], dtype=np.int64)
    feature = _ints(attributes, "nodes_featureids", size)
    require((feature[mode != _LEAF] >= 0).all(), "a split tests a negative feature")
    value = _floats(attributes, "nodes_values", size)
    children = [_ints(attributes, f"nodes_{side}nodeids", size) for side in ("true", "false")]
    tracks = _tracks(attributes, size)

    starts = np.flatnonzero(np.diff(tree_ids, prepend=tree_ids[:1] - 1)) if size else np.zeros(0)
    order = tree_ids[starts.astype(np.int64)].tolist()
    if len(set(order)) < len(order):
        raise ModelError("the nodes of a tree do not stand together; list the trees one by one")
    trees, places = [], []
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], size], strict=True)):
        own = slice(int(start), int(end))
        place = {number: i for i, number in enumerate(node_ids[own].tolist())}
        require(len(place) == own.stop - own.start, f"tree {index} has two nodes of one number")
        places.append(place)
        split = mode[own] != _LEAF
        true, false = (
            np.array(
                [
                    place[number] if inner else -1
                    for number, inner in zip(ids[own].tolist(), split, strict=True)
                ],
                dtype=np.int64,
            )
            for ids in children
        )
        if (split.any() and not split[0]) or 0 in true or 0 in false:
            raise ModelError(f"tree {index} does not begin with its root; list that node first")
        own_feature = np.where(split, feature[own], -1)
        trees.append(_Comparisons(mode[own], own_feature, value[own], true, false, tracks[own]))

    vote_tree_ids = _ints(attributes, f"{prefix}_treeids", None)
    n_votes = len(vote_tree_ids)
    vote_node_ids = _ints(attributes, f"{prefix}_nodeids", n_votes)
    index_of = {number: index for index, number in enumerate(order)}
    vote_trees = [index_of[number] for number in vote_tree_ids.tolist()]
    vote_nodes = [
        places[index][node] for index, node in zip(vote_trees, vote_node_ids.tolist(), strict=True)
    ]
    return _Forest(
        trees,
        np.array(vote_trees, dtype=np.int64),
        np.array(vote_nodes, dtype=np.int64),
        _ints(attributes, f"{prefix}_ids", n_votes),
        _floats(attributes, f"{prefix}_weights", n_votes),
    )


def _read_tables(attributes: Mapping[str, Any]) -> _Forest:
    """Read TreeEnsemble, where splits and leaves are two tables; leaves may be shared."""
    mode = integers(attributes.get("nodes_modes", []), None, "nodes_modes")
    size = len(mode)
    require(((mode >= 0) & (mode <= _MEMBER)).all(), "nodes_modes must be 0 … 6")
    feature = _ints(attributes, "nodes_featureids", size)
    value = numbers(attributes.get("nodes_splits", []), size, "nodes_splits")
    sides = [
        (
            _ints(attributes, f"nodes_{side}nodeids", size),
            _ints(attributes, f"nodes_{side}leafs", size),
        )
        for side in ("true", "false")
    ]
    tracks = _tracks(attributes, size)
    members = _members(attributes, mode)
    outputs = _ints(attributes, "leaf_targetids", None)
    weights = numbers(attributes.get("leaf_weights", []), len(outputs), "leaf_weights")
    trees: list[_Comparisons] = []
    votes: list[tuple[int, int, int]] = []  # tree, position, leaf
    seen: set[int] = set()  # nodes of all trees: none may be in two
    for index, root in enumerate(_ints(attributes, "tree_roots", None).tolist()):
        require(0 <= root < size, f"tree {index} begins at node {root} of {size}")
        kept: list[int] = []  # the node, or -1 - the leaf
        children: list[list[int]] = []
        first = -1 - int(sides[0][0][root]) if _is_leaf(root, sides) else root
        stack = [(first, -1, 0)]
        while stack:
            node, parent, side = stack.pop()
            is_there = node < size and -1 - node < len(outputs)
            require(is_there, f"tree {index} points to a node or leaf that it lacks")
            is_new = node < 0 or node not in seen  # a leaf may have several parents
            require(is_new, f"tree {index} has a node with two parents, or a cycle")
            seen.add(node)
            place = len(kept)
            if parent >= 0:
                children[parent][side] = place
            kept.append(node)
            children.append([-1, -1])
            if node < 0:
                votes.append((index, place, -1 - node))
                continue
            require(feature[node] >= 0, f"tree {index} tests a negative feature")
            for which in (1, 0):
                child = int(sides[which][0][node])
                require(child >= 0, f"tree {index} points to node {child}")
                stack.append((-1 - child if sides[which][1][node] else child, place, which))
        source = np.array(kept, dtype=np.int64)
        split, at = source >= 0, np.maximum(source, 0)
        true, false = np.array(children, dtype=np.int64).T
        trees.append(
            _Comparisons(
                np.where(split, _taken(mode, at), _LEAF),
                np.where(split, _taken(feature, at), -1),
                _taken(value, at).astype(np.float64),
                true,
                false,
                _taken(tracks, at).astype(bool),
                {i: members[node] for i, node in enumerate(kept) if node in members},
            )
        )
    at_leaf = np.array([leaf for _, _, leaf in votes], dtype=np.int64)
    return _Forest(
        trees,
        np.array([index for index, _, _ in votes], dtype=np.int64),
        np.array([place for _, place, _ in votes], dtype=np.int64),
        outputs[at_leaf],
        weights[at_leaf],
    )


def _is_leaf(root: int, sides: Sequence[tuple[Ints, Ints]]) -> bool:
    """Return whether a root stands for a tree of one leaf: both its children are this leaf."""
    (true, is_true_leaf), (false, is_false_leaf) = sides
    return bool(is_true_leaf[root] and is_false_leaf[root] and true[root] == false[root])


def _taken(values: npt.NDArray[Any], at: Ints) -> npt.NDArray[Any]:
    return values[at] if len(values) else np.zeros(len(at), dtype=values.dtype)


def _members(attributes: Mapping[str, Any], mode: Ints) -> dict[int, Floats]:
    """Return the set of each node that tests membership; in the attribute, NaN ends each set."""
    listed = numbers(attributes.get("membership_values", []), None, "membership_values")
    testing = np.flatnonzero(mode == _MEMBER)
    ends = np.flatnonzero(np.isnan(listed))
    if len(listed) and not np.isnan(listed[-1]):  # behind the last one it may be left out
        ends = np.append(ends, len(listed))
    is_right = len(ends) == len(testing)
    require(is_right, f"membership_values has {len(ends)} sets for {len(testing)} nodes")
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    return {
        int(node): np.unique(listed[start:end])
        for node, start, end in zip(testing, starts, ends, strict=False)
    }


def _ints(attributes: Mapping[str, Any], key: str, size: int | None) -> Ints:
    return integers(attributes.get(key, []), size, key)


def _floats(attributes: Mapping[str, Any], key: str, size: int) -> Floats:
    """Return floats, or doubles in a tensor."""
    tensor = attributes.get(f"{key}_as_tensor")
    return numbers(attributes.get(key, []) if tensor is None else tensor, size, key)


def _tracks(attributes: Mapping[str, Any], size: int) -> Bools:
    key = "nodes_missing_value_tracks_true"
    given = attributes.get(key)
    if given is None or len(given) == 0:
        return np.zeros(size, dtype=bool)
    return np.asarray(_ints(attributes, key, size) == 1)


# ── comparisons as thresholds ────────────────────────────────────────────────────────────────


def _translate(forest: _Forest, precision: Precision) -> tuple[list[Tree], Categories]:
    """Return trees with `<=` splits and sets of categories, and the labels of the categories.

    A feature that is only tested for membership of sets is categorical. Its labels are the members,
    and the first whole number that is none, which represents all others. For other features, a set
    becomes pieces.
    """
    members: dict[int, list[Floats]] = {}
    compared: set[int] = set()
    for tree in forest.trees:
        compared |= set(tree.feature[~np.isin(tree.mode, (_MEMBER, _LEAF))].tolist())
        for node, listed in tree.members.items():
            members.setdefault(int(tree.feature[node]), []).append(listed)
    known: dict[int, Floats] = {}
    for feature, lists in members.items():
        if feature not in compared:
            listed = np.unique(_representable(np.concatenate(lists), precision))
            other = np.setdiff1d(np.arange(len(listed) + 1.0), listed)[0]
            known[feature] = np.sort(np.append(listed, other))
    trees = [_tree(index, tree, precision, known) for index, tree in enumerate(forest.trees)]
    return trees, {feature: dict(enumerate(labels.tolist())) for feature, labels in known.items()}


def _tree(
    index: int, tree: _Comparisons, precision: Precision, known: Mapping[int, Floats]
) -> Tree:
    mode = tree.mode
    is_compared = (mode != _LEAF) & (mode != _MEMBER)
    require(not np.isnan(tree.value[is_compared]).any(), f"tree {index} compares with NaN")
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = tree.value.astype(precision).astype(np.float64)
    down = np.where(rounded > tree.value, below(rounded, precision), rounded)
    strictly = np.where(rounded >= tree.value, below(rounded, precision), rounded)
    swapped = np.isin(mode, (_GTE, _GT))
    to_true = tree.tracks | (mode == _NEQ)
    sets: dict[int, Ints] = {}
    for node, listed in tree.members.items():
        labels = known.get(int(tree.feature[node]))
        if labels is not None:
            codes = np.searchsorted(labels, _representable(listed, precision))
            sets[node] = codes.astype(np.int64)
    pieces: dict[int, Pieces] = {}
    for node in np.flatnonzero(np.isin(mode, (_EQ, _NEQ, _MEMBER))).tolist():
        if node not in sets:
            listed = tree.members[node] if mode[node] == _MEMBER else tree.value[node : node + 1]
            pieces[node] = _points(listed, precision, 1 if mode[node] == _NEQ else 0)
    return Tree(
        tree.feature,
        np.where(np.isin(mode, (_LT, _GTE)), strictly, down),
        np.where(swapped, tree.false, tree.true),
        np.where(swapped, tree.true, tree.false),
        (to_true != swapped).astype(np.int64),
        tree.score,
        sets=sets,
        pieces=pieces,
    )


def _points(listed: Floats, precision: Precision, side: int) -> Pieces:
    """Return pieces in which the listed numbers, as far as inputs can be equal, go to `side`."""
    points = _representable(listed, precision)
    pieces: list[tuple[float, int]] = [(-np.inf, side)]  # for NaN, if there is no such number
    for point, before in zip(points.tolist(), below(points, precision).tolist(), strict=True):
        pieces += [(before, 1 - side), (point, side)]
    return [*pieces, (np.inf, 1 - side)]


def _representable(values: Floats, precision: Precision) -> Floats:
    """Return the values that an input of this precision can have."""
    with np.errstate(over="ignore"):
        kept: Floats = values[values.astype(precision).astype(np.float64) == values]
    return kept
