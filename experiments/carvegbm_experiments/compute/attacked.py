"""The images of a gallery: which test images are attacked, and what is said about each pair.

LightGBM puts thresholds at 1e-35, right beside the 0 of a black pixel, so that many images fall to
a change nobody could see or print. Images with a visible change come first. Every number is stored
so that the witness can be rebuilt bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import carvegbm as cg
from carvegbm_experiments.store.pixels import stored_pair

__all__ = ["VISIBLE", "Images", "attacked_images"]

VISIBLE = 1 / 510
"""Half a step between two of 256 grey levels: a change that can show."""

_BLOCK = 10  # rows between two looks at whether there are enough; the same for any threads


@dataclass(frozen=True, eq=False)
class Images:
    """Rows of pixels, their labels, and the names of the classes."""

    X: Any
    y: Any
    classes: tuple[str, ...]


def attacked_images(
    model: cg.Ensemble,
    images: Images,
    attacker: cg.Attacker,
    *,
    count: int,
    detail: Callable[[str], object],
    **effort: Any,
) -> dict[str, Any]:
    """Images the model gets right, each with a witness at its radius, half of them per class.

    Rows are tried from the first on until there are enough with a visible change; where the rows
    run out, others fill the gaps. Nearer ones come first. `tried` is how many rows were tried.
    `effort` is the time limit and the threads, as `carvegbm.radius` takes them.
    """
    X, y = images.X, images.y
    right = np.flatnonzero(model.decide(X, threads=effort["threads"]) == y)
    options = {**effort, "progress": False}
    quota = count // 2
    pairs: list[tuple[bool, float, int, Any]] = []  # faint, distance, row, witness
    seen = Counter[int]()
    tried = 0
    while tried < len(right) and any(seen[label] < quota for label in range(len(images.classes))):
        rows = right[tried : tried + _BLOCK]
        tried += len(rows)
        detail(f"row {tried} of {len(right)}, {seen.total()} images")
        budget = attacker.budget
        radii = cg.radius(model, X[rows], y[rows], attacker, max_budget=budget, **options)
        for distance, row in zip(radii.radius.tolist(), rows.tolist(), strict=True):
            label = int(y[row])
            if not distance <= budget or seen[label] >= quota:
                continue
            found = cg.attack(model, X[[row]], y[[row]], attacker.with_budget(distance), **options)
            if not found.success[0] or found.borderline[0]:
                continue  # the model's own library might say otherwise
            witness = found.witnesses[0]
            faint = bool(np.abs(witness - X[row]).max() < VISIBLE)
            seen[label] += not faint
            pairs.append((faint, distance, row, witness))
    chosen = []
    taken = Counter[int]()
    for pair in sorted(pairs, key=lambda pair: pair[:3]):
        label = int(y[pair[2]])
        if taken[label] < quota:
            taken[label] += 1
            chosen.append(pair)
    chosen.sort(key=lambda pair: pair[1:3])
    return {
        "tried": tried,
        "faint": sum(faint for faint, *_ in chosen),
        "images": [_image(model, images, row, z, attacker) for _, _, row, z in chosen],
    }


def _image(
    model: cg.Ensemble, images: Images, row: int, z: Any, attacker: cg.Attacker
) -> dict[str, Any]:
    x, label, classes = images.X[row], int(images.y[row]), images.classes
    fooled = cg.verify(model, z[None], [label], attacker.with_budget(0), progress=False)
    return {
        "label": classes[label],
        "predicted": classes[int(model.decide(z[None])[0])],
        **stored_pair(x, z),
        "distance": float(attacker.distance(model, x, z)),
        "margin": float(fooled.margin[0]),
    }
