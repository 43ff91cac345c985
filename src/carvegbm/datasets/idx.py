"""The idx format of MNIST: two zero bytes, a type, a number of dimensions, the sizes, the values.

Comes in: a path, gzip or not. Goes out: an array of bytes. Sizes are big-endian.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError

__all__ = ["read_idx"]

_UNSIGNED_BYTE = 8


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The array in the idx file at `path`, which must have so many dimensions."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: damaged file: {error}; get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if content[:3] != bytes((0, 0, _UNSIGNED_BYTE)) or len(content) < 4 + 4 * dimensions:
        raise DataError(f"{path}: not an idx file of bytes; the files of MNIST are")
    if content[3] != dimensions:
        raise DataError(f"{path}: has {content[3]} dimensions, {dimensions} are needed")
    shape = tuple(np.frombuffer(content, ">u4", dimensions, 4).tolist())
    start = 4 + 4 * dimensions
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path}: holds {len(content) - start:,} values, its header says"
            f" {math.prod(shape):,}; get it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
