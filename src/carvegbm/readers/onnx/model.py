"""ONNX models of trees: TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble (ai.onnx.ml).

Comes in: a file or a ModelProto, read with the `onnx` package. Goes out: an `Ensemble` whose raw
score is what the trees add up to before `post_transform`, bit for bit as onnxruntime computes it in
one thread (with several it adds up many trees in another order); `decide` gives its label.

- The model is taken for what it is: converted trees that compare float32 numbers are a float32
  model, whatever they were converted from. Models with double inputs compare doubles; onnxruntime
  returns their scores rounded to float32.
- One column of weights for two classes: the second iff its sum > 0, but > 1/2 where no weight is
  negative, which is how onnxruntime tells margins from probabilities.
- More classes: the first with the largest sum. A TreeEnsemble with several targets is a classifier
  if an ArgMax follows, or if `classes` name its targets.
- base_values are added last, so they are a last tree of one leaf. Under AVERAGE they enter the sum
  as many times as there are trees, and the raw score equals onnxruntime's up to rounding.
- What may stand before the trees is Identity and Cast, behind them also ZipMap, changes of shape
  and a product with 1. A graph that does more is refused by the name of the first node that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes
from carvegbm.readers.onnx.graph import Graph
from carvegbm.readers.onnx.trees import Forest, read_nodes, read_tables, translate
from carvegbm.readers.trees import Tree, assemble

__all__ = ["from_bytes", "from_model", "is_model"]

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_LINKS = {"SOFTMAX": "softmax", "LOGISTIC": "logistic"}
_FIRST, _SECOND = b"\x08", (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)


def is_model(data: bytes) -> bool:
    """Whether the bytes begin as a ModelProto: its version, a small number, and another field."""
    return len(data) > 2 and data[:1] == _FIRST and data[1] < 64 and data[2] in _SECOND


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
    graph = Graph.of(model.graph)
    attributes = graph.attributes
    if graph.kind == "TreeEnsemble":
        forest = read_tables(attributes)
    else:
        prefix = "class" if graph.kind == "TreeEnsembleClassifier" else "target"
        forest = read_nodes(attributes, prefix)
    fields, base, column = (
        _classifier(attributes, forest)
        if graph.kind == "TreeEnsembleClassifier"
        else _regressor(attributes, forest, graph.argmax or classes is not None)
    )
    widest = max((int(tree.feature.max(initial=-1)) for tree in forest.trees), default=-1) + 1
    trees, categories = translate(forest, graph.precision)
    if column is not None:
        trees = [replace(tree, score=tree.score[:, [column]]) for tree in trees]
    n_outputs = forest.n_outputs if column is None else 1
    average = fields.setdefault("average", 1)
    if np.any(base):
        trees.append(replace(Tree.leaf(0.0), score=average * base[None, :]))
    labels = fields.pop("classes", None)
    return assemble(
        trees,
        n_outputs=n_outputs,
        n_features=graph.n_features or n_features or widest,
        classes=labels if classes is None else classes,
        input_precision=graph.precision,
        sum_precision=graph.sums,
        categories=categories,
        **fields,
    )


# ── what the trees decide ────────────────────────────────────────────────────────────────────

Decision = tuple[dict[str, Any], Any, int | None]
"""Fields of `Ensemble`; base values by output; the output that alone counts, if one does."""


def _classifier(attributes: Mapping[str, Any], forest: Forest) -> Decision:
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_int64s") or []
    n_classes = len(labels)
    if n_classes < 2:
        raise ModelError(f"has {n_classes} class labels; a classifier needs two or more")
    forest.widen(n_classes)
    base = _base(attributes, n_classes if n_classes > 2 else None)
    fields: dict[str, Any] = {"task": "multiclass", "classes": list(labels)}
    fields["link"] = _LINKS.get(_one_of(attributes, "post_transform", _TRANSFORMS, 0), "identity")
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


def _check_votes(forest: Forest, labels: Sequence[Any]) -> None:
    """Refuse leaves that leave a class out where that differs from a weight of 0.

    onnxruntime passes over a class that no leaf votes for, even if all others are negative. There
    is no difference if some tree votes for the class in all leaves, or if all weights are >= 0 and
    some tree always gives a positive one.
    """
    voted = [tree.voted[tree.feature < 0] for tree in forest.trees]
    always = np.array([leaves.all(axis=0) for leaves in voted]).any(axis=0)
    if not voted or always.all():
        return
    scores = [tree.score[tree.feature < 0] for tree in forest.trees]
    if not (forest.vote_weights < 0).any() and any((s > 0).any(axis=1).all() for s in scores):
        return
    raise ModelError(
        f"has leaves without a weight for class {labels[int(np.argmin(always))]!r}, which then "
        "does not take part; give every class a weight in every leaf, or base_values"
    )


def _regressor(attributes: Mapping[str, Any], forest: Forest, is_choice: bool) -> Decision:
    n_targets = int(attributes.get("n_targets", 1) or 1)
    forest.widen(n_targets)
    transform = _one_of(attributes, "post_transform", _TRANSFORMS, 0)
    aggregate = _one_of(attributes, "aggregate_function", _AGGREGATES, 1)
    if aggregate not in ("SUM", "AVERAGE"):
        raise ModelError(
            f"takes the {aggregate} of its trees, which is no sum; convert it with SUM or AVERAGE"
        )
    fields: dict[str, Any] = {"average": len(forest.trees) or 1} if aggregate == "AVERAGE" else {}
    base = _base(attributes, n_targets)
    if n_targets == 1:
        forest.check_one_vote()
        return fields | {"task": "regression"}, base, None
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
    return fields, base, None


def _base(attributes: Mapping[str, Any], size: int | None) -> Any:
    """The base values, as many as there are outputs or none; `size` None: of two classes."""
    tensor = attributes.get("base_values_as_tensor")
    base = np.asarray(attributes.get("base_values") or () if tensor is None else tensor)
    base = base.astype(np.float64).ravel()
    if len(base) and (len(base) > 2 if size is None else len(base) != size):
        raise ModelError(
            f"base_values has {len(base)} values for {size or 2} outputs; the file is damaged"
        )
    return base


def _one_of(attributes: Mapping[str, Any], key: str, names: Sequence[str], default: int) -> str:
    """An attribute that is one of several names, or in TreeEnsemble its number."""
    given = attributes.get(key, default)
    if isinstance(given, int) and 0 <= given < len(names):
        return names[given]
    if isinstance(given, str) and given in names:
        return given
    raise ModelError(f"{key} is {str(given)[:40]!r}, not one of {', '.join(names)}; it is damaged")
