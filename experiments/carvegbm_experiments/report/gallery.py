"""Attacked images: original and changed side by side, changed pixels outlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from carvegbm.reports.page.pictures import LEGEND, pair
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
    return f'{LEGEND}<div class="gallery">{"".join(pairs)}</div>'


def _pair(number: int, image: Mapping[str, Any], shape: Sequence[int], dataset: str) -> str:
    label, taken = (class_text(dataset, image[name]) for name in ("label", "predicted"))
    changed = dict(image["changed"])
    said = f"taken for {taken}; {len(changed)} changed pixels outlined"
    return pair(
        original_pixels(image),
        changed,
        shape,
        (f"Image {number}: original, class {label}", f"Image {number}: changed, {said}"),
        f"<b>{number}</b> {escape(label)} → {escape(taken)}",
    )
