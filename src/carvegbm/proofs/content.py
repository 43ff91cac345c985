"""Content hashes: what a model, rows and labels say, whatever file they came from.

docs/proofs.md says which bytes are hashed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.trees.sets import Sets

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["data_hash", "model_hash"]

_MISSING = {1: b"L", 0: b"R", -1: b"-"}
_NUMBERS_AT_ONCE = 1 << 15
"""So few that they stay in the cache while they are hashed."""


def model_hash(ensemble: Ensemble) -> str:
    """The SHA-256 of what the model says."""
    digest = hashlib.sha256()
    digest.update(struct.pack("<III", ensemble.n_features, ensemble.n_outputs, ensemble.average))
    digest.update(struct.pack("<d", ensemble.threshold))
    digest.update(np.ascontiguousarray(ensemble.base_score, dtype="<f8").tobytes())
    digest.update(b"+" if ensemble.tie == "positive" else b"-")
    digest.update(b"f" if ensemble.input_precision == "float32" else b"d")
    digest.update(b"".join(_nodes(ensemble)))
    return digest.hexdigest()


def _nodes(ensemble: Ensemble) -> Iterator[bytes]:
    categories = ensemble.categories
    sets = Sets(ensemble.set_starts, ensemble.set_codes).lists() if categories else []
    scores = np.ascontiguousarray(ensemble.scores, dtype="<f8").tobytes()
    width = 8 * ensemble.n_outputs
    nodes: list[tuple[float, int, int, int, int]] = ensemble.nodes.tolist()
    by_number = struct.Struct("<cIdc").pack
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
                yield by_number(b"N", feature, threshold, _MISSING[missing])
            stack += (right, left)


def data_hash(parts: Iterable[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]]) -> str:
    """The SHA-256 of rows, as the model takes them, and labels, as places among its classes.

    They come some at a time.
    """
    digest = hashlib.sha256()
    for X, labels in parts:
        n, columns = X.shape
        row = np.dtype([("x", "<f8", (columns,)), ("label", "<u4")])
        step = max(1, _NUMBERS_AT_ONCE // max(1, columns))
        room = np.empty(min(n, step), dtype=row)
        for begin in range(0, n, step):
            part = slice(begin, begin + step)
            block = room[: len(labels[part])]
            x = block["x"]
            x[:], block["label"] = X[part], labels[part]
            is_missing = np.isnan(x)
            if is_missing.any():
                x[is_missing] = np.nan
            digest.update(block.view(np.uint8).data)
    return digest.hexdigest()
