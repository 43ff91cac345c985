"""Attacked images: original and changed side by side as inline SVG, changed pixels outlined.

The pixels are a PNG in a data URI; the outlines are a path, so that they stay sharp at any size.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from carvegbm_experiments.report.lookup import Record, class_text
from carvegbm_experiments.store.pixels import original_pixels

__all__ = ["gallery"]


def gallery(cell: Record) -> str:
    """The images of a gallery cell as HTML; empty for data that are no images."""
    result = cell["result"]
    shape = result.get("image_shape")
    if not shape or not result["images"]:
        return ""
    dataset = str(cell["configuration"]["dataset"])
    pairs = [
        _pair(number, image, shape, dataset) for number, image in enumerate(result["images"], 1)
    ]
    legend = (
        '<p class="legend"><span class="swatch brighter"></span> made brighter '
        '<span class="swatch darker"></span> made darker</p>'
    )
    return f'{legend}<div class="gallery">{"".join(pairs)}</div>'


def _pair(number: int, image: Mapping[str, Any], shape: Sequence[int], dataset: str) -> str:
    label, taken = (
        html.escape(class_text(dataset, image[name])) for name in ("label", "predicted")
    )
    original = original_pixels(image)
    attacked = list(original)
    for index, value in image["changed"]:
        attacked[index] = value
    before = _drawing(original, shape, "", f"Image {number}: original, class {label}")
    after = _drawing(
        attacked,
        shape,
        _outlines(image, shape[1]),
        f"Image {number}: changed, taken for {taken}; {len(image['changed'])} changed pixels "
        "outlined",
    )
    return (
        f'<figure class="pair"><div>{before}{after}</div>'
        f"<figcaption><b>{number}</b> {label} → {taken}</figcaption></figure>"
    )


def _drawing(pixels: Sequence[float], shape: Sequence[int], outlines: str, label: str) -> str:
    height, width = shape
    data = base64.b64encode(_png(pixels, width, height)).decode()
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        f'<image href="data:image/png;base64,{data}" width="{width}" height="{height}"/>'
        f"{outlines}</svg>"
    )


def _outlines(image: Mapping[str, Any], width: int) -> str:
    squares: dict[str, list[str]] = {"brighter": [], "darker": []}
    original = original_pixels(image)
    for index, value in image["changed"]:
        kind = "brighter" if value > original[index] else "darker"
        squares[kind].append(f"M{index % width}.1 {index // width}.1h.8v.8h-.8z")
    return "".join(f'<path class="{k}" d="{"".join(d)}"/>' for k, d in squares.items() if d)


def _png(pixels: Sequence[float], width: int, height: int) -> bytes:
    """Grey levels from 0 (black) to 1 (white), row by row."""
    levels = bytes(round(255 * min(1.0, max(0.0, pixel))) for pixel in pixels)
    rows = b"".join(b"\0" + levels[i * width : (i + 1) * width] for i in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )
