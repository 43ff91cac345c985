"""Attacked images: original and changed side by side, changed pixels outlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from carvegbm.reports.charts import image_pair
from carvegbm_experiments.report.lookup import Record, class_text
from carvegbm_experiments.store.pixels import original_pixels

__all__ = ["gallery"]

_LEGEND = (
    '<p class="legend"><span class="swatch brighter"></span> made brighter '
    '<span class="swatch darker"></span> made darker</p>'
)


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
    return f'{_LEGEND}<div class="gallery">{"".join(pairs)}</div>'


def _pair(number: int, image: Mapping[str, Any], shape: Sequence[int], dataset: str) -> str:
    label, taken = (class_text(dataset, image[name]) for name in ("label", "predicted"))
    changed = dict(image["changed"])
    said = f"taken for {taken}; {len(changed)} changed pixels outlined"
    return image_pair(
        original_pixels(image),
        changed,
        shape,
        (f"Image {number}: original, class {label}", f"Image {number}: changed, {said}"),
        Markup("<b>{}</b> {} → {}").format(number, label, taken),
    )
