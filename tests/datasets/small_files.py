"""Small files of the kinds in which datasets are published."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np


def idx_bytes(values: np.ndarray) -> bytes:
    header = bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes()
    return header + values.astype(np.uint8).tobytes()


def images(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random 28 × 28 images whose labels go 0, 1, … 9, 0, …"""
    pixels = np.random.default_rng(seed).integers(0, 256, (rows, 28, 28), dtype=np.uint8)
    pixels[0, 0, 0] = 255
    return pixels, (np.arange(rows) % 10).astype(np.uint8)


def write_idx(folder: Path, packed: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The four files of an image set, 60 and 40 rows; returns all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": images(60, 1), "t10k": images(40, 2)}
    for part, (pixels, labels) in parts.items():
        for name, values in (("images-idx3", pixels), ("labels-idx1", labels)):
            content = idx_bytes(values)
            path = folder / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    X = np.concatenate([pixels.reshape(-1, 784) for pixels, _ in parts.values()])
    return X, np.concatenate([labels for _, labels in parts.values()])


def libsvm_text(rows: int = 60) -> tuple[str, np.ndarray, np.ndarray]:
    """Webspam in small: the text, X and the labels ±1; the largest index is 254."""
    random = np.random.default_rng(3)
    X = np.round(random.random((rows, 254)) * (random.random((rows, 254)) < 0.2), 6)
    X[0, 253] = 0.5
    y = np.where(np.arange(rows) % 5 < 3, 1, -1)
    lines = (
        f"{label:+d} " + " ".join(f"{i + 1}:{row[i]:g}" for i in np.flatnonzero(row))
        for row, label in zip(X, y, strict=True)
    )
    return "\n".join(lines) + "\n", X, y
