"""XGBoost's old binary model format, which XGBoost itself reads only up to version 3.0.

Comes in: the bytes of a file. Goes out: an `Ensemble`.

The format is a memory image: a header of 136 bytes (before it, since version 1.0, the four bytes
"binf"), the names of objective and booster, the parameters of the trees, then per tree its
parameters, its nodes and their statistics, and at last attributes by name. Before version 1.0
base_score is the margin itself.
"""

from __future__ import annotations

import struct

import numpy as np

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes
from carvegbm.readers.trees import Tree
from carvegbm.readers.xgboost import build, chosen_iterations, translate
from carvegbm.trees.iterations import IterationRange

__all__ = ["from_binary", "is_binary"]

_HEADER = 136
_TREES = 160
_TREE = 148
_NODE = np.dtype(
    [
        ("parent", "<i4"),
        ("left", "<i4"),
        ("right", "<i4"),
        ("feature", "<u4"),  # the highest bit: missing values go left
        ("value", "<f4"),  # a split's condition, a leaf's score
    ]
)
_STATISTICS = 16  # bytes per node


def is_binary(data: bytes) -> bool:
    """Whether the bytes look like the format: a known kind of name where the objective stands."""
    start = 4 * data.startswith(b"binf") + _HEADER
    if len(data) < start + 8:
        return data.startswith(b"binf")
    (length,) = struct.unpack_from("<Q", data, start)
    name = data[start + 8 : start + 8 + min(length, 64)]
    return name.startswith((b"binary:", b"count:", b"multi:", b"rank:", b"reg:", b"survival:"))


def from_binary(data: bytes, classes: Classes, iteration_range: IterationRange = None) -> Ensemble:
    """Read a file in the old binary format."""
    stream = _Stream(data, 4 * data.startswith(b"binf"))
    base, n_features, n_classes, with_attributes, _, major, _, n_targets = struct.unpack_from(
        "<fIiiiIII", stream.take(_HEADER)
    )
    objective, booster = stream.name(), stream.name()
    if booster == "gblinear":
        raise ModelError("is a linear model (gblinear), not trees; train with booster='gbtree'")
    if booster not in ("gbtree", "dart"):
        raise ModelError(f"has the unknown booster {booster[:40]!r}; the file is damaged")
    if n_targets > 1:
        raise ModelError("predicts several targets at once; train a model per target")
    if objective == "binary:logitraw" and major >= 1:
        raise ModelError(
            "has the objective binary:logitraw, and versions before 2 disagree on its base_score; "
            "load it with the xgboost that wrote it and save it as JSON"
        )
    n_trees, parallel = struct.unpack_from("<2i", stream.take(_TREES))
    if n_trees < 0:
        raise ModelError(f"has {n_trees} trees; the file is damaged")
    trees = [_tree(index, stream) for index in range(n_trees)]
    groups = np.frombuffer(stream.take(4 * n_trees), "<i4").astype(np.int64)
    weights = None
    if booster == "dart" and n_trees:
        (count,) = struct.unpack("<Q", stream.take(8))
        if count != n_trees:
            raise ModelError(f"has {count} weights for {n_trees} trees; the file is damaged")
        weights = np.frombuffer(stream.take(4 * n_trees), "<f4").astype(np.float64)
    n_outputs = max(1, n_classes)
    per_iteration = n_outputs * max(1, parallel)
    if n_trees % per_iteration:
        raise ModelError(
            f"has {n_trees} trees and {per_iteration} trees per iteration; the file is damaged"
        )
    iterations = chosen_iterations(
        iteration_range, n_trees // per_iteration, stream.attributes() if with_attributes else {}
    )
    return build(
        trees[: iterations.used * per_iteration],
        groups=groups,
        weights=weights,
        base=[base],
        is_margin=major < 1,
        objective=objective,
        n_outputs=n_outputs,
        n_features=n_features,
        names=None,
        classes=classes,
        iterations=iterations,
    )


def _tree(index: int, stream: _Stream) -> Tree:
    _, n_nodes, _, _, _, leaf_size = struct.unpack_from("<6i", stream.take(_TREE))
    if n_nodes < 1:
        raise ModelError(f"tree {index} has {n_nodes} nodes; the file is damaged")
    if leaf_size > 1:
        raise ModelError(f"tree {index} has a vector in every leaf, which is not read; retrain it")
    nodes = np.frombuffer(stream.take(_NODE.itemsize * n_nodes), _NODE)
    stream.take(_STATISTICS * n_nodes)
    feature = nodes["feature"].astype(np.int64)
    return translate(
        index,
        nodes["left"].astype(np.int64),
        nodes["right"].astype(np.int64),
        feature & 0x7FFFFFFF,
        nodes["value"].astype(np.float64),
        feature >> 31,
    )


class _Stream:
    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ModelError(f"ends at byte {len(self.data)}, within its trees; it is truncated")
        self.at += size
        return self.data[self.at - size : self.at]

    def name(self) -> str:
        (length,) = struct.unpack("<Q", self.take(8))
        return self.take(length).decode("utf-8", errors="replace")

    def attributes(self) -> dict[str, str]:
        (count,) = struct.unpack("<Q", self.take(8))
        found = {}
        for _ in range(count):
            key = self.name()
            found[key] = self.name()
        return found
