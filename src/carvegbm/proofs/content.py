"""Hashes of a model, and of rows with labels, that do not depend on their file format.

docs/proofs.md specifies which bytes are hashed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["data_hash", "model_hash"]

_MISSING = {1: b"L", 0: b"R", -1: b"-"}
_NUMBERS_AT_ONCE = 1 << 15
"""Numbers converted at once; few enough to stay in the processor's cache."""


def model_hash(ensemble: Ensemble) -> str:
    """Return the SHA-256 of everything that determines the model's answers."""
    digest = hashlib.sha256()
    digest.update(struct.pack("<III", ensemble.n_features, ensemble.n_outputs, ensemble.average))
    digest.update(struct.pack("<d", ensemble.threshold))
    digest.update(np.ascontiguousarray(ensemble.base_score, dtype="<f8").tobytes())
    digest.update(b"+" if ensemble.tie == "positive" else b"-")
    digest.update(b"f" if ensemble.input_precision == "float32" else b"d")
    digest.update(b"".join(_nodes(ensemble)))
    return digest.hexdigest()


def _nodes(ensemble: Ensemble) -> Iterator[bytes]:
    """Yield the nodes of all trees in preorder."""
    categories = ensemble.categories
    sets = ensemble.sets if categories else []
    scores = np.ascontiguousarray(ensemble.scores, dtype="<f8").tobytes()
    width = 8 * ensemble.n_outputs
    nodes: list[tuple[float, int, int, int, int]] = ensemble.nodes.tolist()
    numeric = struct.Struct("<cIdc").pack
    for root in ensemble.roots.tolist():
        stack = [root]
        while stack:
            threshold, feature, left, right, missing = nodes[stack.pop()]
            if feature < 0:
                yield b"V" + scores[width * left : width * (left + 1)]
                continue
            if feature in categories:
                codes = sorted(sets[int(threshold)])
                head = struct.pack(f"<cII{len(codes)}I", b"C", feature, len(codes), *codes)
                yield head + _MISSING[missing]
            else:
                yield numeric(b"N", feature, threshold, _MISSING[missing])
            stack += (right, left)


def data_hash(parts: Iterable[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]]) -> str:
    """Return the SHA-256 of rows in code space and labels as class indices, given in batches."""
    digest = hashlib.sha256()
    for X, labels in parts:
        n, columns = X.shape
        row = np.dtype([("x", "<f8", (columns,)), ("label", "<u4")])
        step = max(1, _NUMBERS_AT_ONCE // max(1, columns))
        buffer = np.empty(min(n, step), dtype=row)
        for begin in range(0, n, step):
            part = slice(begin, begin + step)
            block = buffer[: len(labels[part])]
            x = block["x"]
            x[:], block["label"] = X[part], labels[part]
            is_missing = np.isnan(x)
            if is_missing.any():
                x[is_missing] = np.nan
            digest.update(block.view(np.uint8).data)
    return digest.hexdigest()
