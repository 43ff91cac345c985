"""Content hashes: what a model, rows and labels say, whatever file they came from.

docs/proofs.md says which bytes are hashed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.trees.sets import Sets

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["data_hash", "model_hash"]

_MISSING = {1: b"L", 0: b"R", -1: b"-"}
_NUMBERS_AT_ONCE = 1 << 20


def model_hash(ensemble: Ensemble) -> str:
    """The SHA-256 of what the model says."""
    digest = hashlib.sha256()
    digest.update(struct.pack("<III", ensemble.n_features, ensemble.n_outputs, ensemble.average))
    digest.update(struct.pack("<d", ensemble.threshold))
    digest.update(np.ascontiguousarray(ensemble.base_score, dtype="<f8").tobytes())
    digest.update(b"+" if ensemble.tie == "positive" else b"-")
    digest.update(b"f" if ensemble.input_precision == "float32" else b"d")
    for part in _nodes(ensemble):
        digest.update(part)
    return digest.hexdigest()


def _nodes(ensemble: Ensemble) -> Iterator[bytes]:
    sets = Sets(ensemble.set_starts, ensemble.set_codes).lists() if ensemble.categories else []
    scores = np.ascontiguousarray(ensemble.scores, dtype="<f8")
    nodes: list[tuple[float, int, int, int, int]] = ensemble.nodes.tolist()
    for root in ensemble.roots.tolist():
        stack = [root]
        while stack:
            threshold, feature, left, right, missing = nodes[stack.pop()]
            if feature < 0:
                yield b"V" + scores[left].tobytes()
                continue
            if feature in ensemble.categories:
                codes = sorted(sets[int(threshold)])
                yield struct.pack(f"<cII{len(codes)}I", b"C", feature, len(codes), *codes)
            else:
                yield struct.pack("<cId", b"N", feature, threshold)
            yield _MISSING[missing]
            stack += (right, left)


def data_hash(X: npt.NDArray[Any], labels: npt.NDArray[np.int32]) -> str:
    """The SHA-256 of rows, as the model takes them, and labels, as places among its classes."""
    digest = hashlib.sha256()
    n, columns = X.shape
    row = np.dtype([("x", "<f8", (columns,)), ("label", "<u4")])
    for begin in range(0, n, step := max(1, _NUMBERS_AT_ONCE // max(1, columns))):
        part = slice(begin, begin + step)
        block = np.empty(len(labels[part]), dtype=row)
        block["x"] = X[part]
        block["x"][np.isnan(block["x"])] = np.nan
        block["label"] = labels[part]
        digest.update(block.tobytes())
    return digest.hexdigest()
