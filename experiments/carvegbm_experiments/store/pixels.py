"""Images in a cell: kept so that both of a pair can be rebuilt bit by bit.

The original is whole grey levels where its pixels are such (`levels`: a pixel is level / levels),
the witness is the pixels that differ, as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["original_pixels", "stored_pair"]

_LEVELS = (255, 16)


def stored_pair(x: Any, z: Any) -> dict[str, Any]:
    """An image and its witness, as a cell holds them.

    >>> stored_pair(np.array([0.0, 0.25, 1.0]), np.array([0.0, 0.3, 1.0]))
    {'levels': 16, 'original': [0, 4, 16], 'changed': [[1, 0.3]]}
    """
    levels, original = _stored(x)
    changed = [[int(i), float(z[i])] for i in np.flatnonzero(z != x)]
    return {"levels": levels, "original": original, "changed": changed}


def original_pixels(image: Mapping[str, Any]) -> list[float]:
    """The pixels of the original, as the model saw them.

    >>> original_pixels({"levels": 16, "original": [0, 4, 16]})
    [0.0, 0.25, 1.0]
    """
    levels = image.get("levels")
    return [pixel / levels if levels else pixel for pixel in image["original"]]


def _stored(x: Any) -> tuple[int | None, list[Any]]:
    """The pixels as whole levels, where no bit is lost by that; else as they are."""
    for levels in _LEVELS:
        whole = np.rint(x * levels)
        if np.array_equal(whole / levels, x):
            return levels, whole.astype(int).tolist()
    return None, x.tolist()
