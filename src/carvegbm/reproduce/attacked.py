"""The images of a gallery: which test images are attacked, and how a pair is stored exactly.

LightGBM puts thresholds at 1e-35, right beside the 0 of a black pixel, so that many images fall to
a change nobody could see or print. Images with a visible change come first, and every number is
stored so that the attacked image can be rebuilt bit by bit: pixels as whole grey levels where they
are such (`levels`: a pixel is level / levels), changed values as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from carvegbm.attack import attack
from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.radius import radius
from carvegbm.verification import verify

__all__ = ["VISIBLE", "attacked_images", "original_pixels"]

VISIBLE = 1 / 510
"""Half a step between two of 256 grey levels: a change that can show."""

_BLOCK = 10  # rows between two looks at whether there are enough; the same for any threads
_LEVELS = (255, 16)


def attacked_images(
    model: Ensemble,
    X: Any,
    y: Any,
    attacker: Attacker,
    *,
    count: int,
    timeout: float,
    classes: tuple[str, ...],
    threads: int,
    detail: Callable[[str], object],
) -> dict[str, Any]:
    """Images the model gets right, each with an attack at its radius, half of them per class.

    Rows are tried from the first on until there are enough with a visible change; where the rows
    run out, others fill the gaps. Nearer ones come first. `tried` is how many rows were tried.
    """
    right = np.flatnonzero(model.decide(X, threads=threads) == y)
    options: dict[str, Any] = {"timeout": timeout, "threads": threads, "progress": False}
    quota = count // 2
    pairs: list[tuple[bool, float, int, Any]] = []  # faint, distance, row, attacked image
    seen = Counter[int]()
    tried = 0
    while tried < len(right) and any(seen[label] < quota for label in range(len(classes))):
        rows = right[tried : tried + _BLOCK]
        tried += len(rows)
        detail(f"row {tried} of {len(right)}, {seen.total()} images")
        norm, budget = attacker.norm, attacker.budget
        radii = radius(model, X[rows], y[rows], norm=norm, max_budget=float(budget), **options)
        for distance, row in zip(radii.radius.tolist(), rows.tolist(), strict=True):
            label = int(y[row])
            if not distance <= budget or seen[label] >= quota:
                continue
            found = attack(model, X[[row]], y[[row]], attacker.with_budget(distance), **options)
            if not found.success[0] or found.borderline[0]:
                continue  # the model's own library might say otherwise
            faint = bool(np.abs(found.witnesses[0] - X[row]).max() < VISIBLE)
            seen[label] += not faint
            pairs.append((faint, distance, row, found.witnesses[0]))
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
        "images": [
            _image(model, X[row], z, int(y[row]), classes, attacker) for _, _, row, z in chosen
        ],
    }


def original_pixels(image: Mapping[str, Any]) -> list[float]:
    """The pixels of the original, as the model saw them."""
    levels = image.get("levels")
    return [pixel / levels if levels else pixel for pixel in image["original"]]


def _image(
    model: Ensemble, x: Any, z: Any, label: int, classes: tuple[str, ...], attacker: Attacker
) -> dict[str, Any]:
    fooled = verify(model, z[None], [label], attacker.with_budget(0), progress=False)
    levels, original = _stored(x)
    return {
        "label": classes[label],
        "predicted": classes[int(model.decide(z[None])[0])],
        "levels": levels,
        "original": original,
        "changed": [[int(i), float(z[i])] for i in np.flatnonzero(z != x)],
        "distance": float(attacker.distance(model, x, z)),
        "margin": float(fooled.margin[0]),
    }


def _stored(x: Any) -> tuple[int | None, list[Any]]:
    """The pixels as whole levels, where no bit is lost by that; else as they are."""
    for levels in _LEVELS:
        whole = np.rint(x * levels)
        if np.array_equal(whole / levels, x):
            return levels, whole.astype(int).tolist()
    return None, x.tolist()
