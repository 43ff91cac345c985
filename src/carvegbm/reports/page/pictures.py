"""Images before and after, side by side as inline SVG, with the changed pixels outlined.

Comes in: pixels as grey levels from 0 (black) to 1 (white), row by row. Goes out: HTML. The pixels
are a PNG in a data URI; the outlines are a path, so that they stay sharp at any size.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["LEGEND", "pair", "png"]

LEGEND = (
    '<p class="legend"><span class="swatch brighter"></span> made brighter '
    '<span class="swatch darker"></span> made darker</p>'
)
"""What the colours of the outlines mean."""


def pair(
    before: Sequence[float],
    changed: Mapping[int, float],
    shape: Sequence[int],
    labels: tuple[str, str],
    caption: str,
    directions: Mapping[int, bool] | None = None,
) -> str:
    """The image, and the image with the pixels of `changed`, by their place, in its stead.

    `labels` say what the two are, in words; `caption` is HTML. `directions` tell which pixels are
    brighter, where the levels themselves are too coarse to tell.
    """
    after = list(before)
    for place, level in changed.items():
        after[place] = level
    brighter = directions or {place: level > before[place] for place, level in changed.items()}
    first = _drawing(before, shape, "", labels[0])
    second = _drawing(after, shape, _outlines(brighter, shape[1]), labels[1])
    return (
        f'<figure class="pair"><div>{first}{second}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _drawing(pixels: Sequence[float], shape: Sequence[int], outlines: str, label: str) -> str:
    height, width = shape
    data = base64.b64encode(png(pixels, width, height)).decode()
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f'<image href="data:image/png;base64,{data}" width="{width}" height="{height}"/>'
        f"{outlines}</svg>"
    )


def _outlines(brighter: Mapping[int, bool], width: int) -> str:
    squares: dict[str, list[str]] = {"brighter": [], "darker": []}
    for place, is_brighter in brighter.items():
        kind = "brighter" if is_brighter else "darker"
        squares[kind].append(f"M{place % width}.1 {place // width}.1h.8v.8h-.8z")
    return "".join(f'<path class="{k}" d="{"".join(d)}"/>' for k, d in squares.items() if d)


def png(pixels: Sequence[float], width: int, height: int) -> bytes:
    """Grey levels from 0 (black) to 1 (white), row by row, as a PNG."""
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
