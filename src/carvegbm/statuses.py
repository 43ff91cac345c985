"""The five statuses in the order of the core's codes: meanings, colours and patterns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = [
    "COLOURS",
    "HATCHES",
    "INKS",
    "MEANINGS",
    "STATUSES",
    "UNKNOWN",
    "flipped",
    "in_a_bar",
    "named",
]

MEANINGS = {
    "robust": "right, and stays right",
    "fragile": "right, but can be flipped",
    "vulnerable": "wrong, and stays wrong",
    "broken": "wrong, and can be flipped",
    "unknown": "not decided",
}
STATUSES = tuple(MEANINGS)
UNKNOWN = STATUSES.index("unknown")

# Any two differ visibly also for colour-blind readers, and each is visible on white and near-black.
COLOURS = {
    "robust": "#3d82e0",
    "fragile": "#ee9a1b",
    "vulnerable": "#763b86",
    "broken": "#c0462d",
    "unknown": "#b3bccb",
}
"""Colour of each status."""
INKS = {
    "robust": "#000000",
    "fragile": "#000000",
    "vulnerable": "#ffffff",
    "broken": "#ffffff",
    "unknown": "#000000",
}
"""Text colour on each of these colours, with a contrast of at least 4.5."""
HATCHES = {"robust": "", "fragile": "//", "vulnerable": "", "broken": "\\\\", "unknown": ".."}
"""Matplotlib's pattern of each status: flipped ones are striped, unknown ones dotted."""

_NAMES = np.array(STATUSES)


def named(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.str_]:
    """Return the names of status codes."""
    return np.asarray(_NAMES[codes])


def flipped(status: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    """Return where the attacker can change the answer: fragile and broken."""
    return np.asarray((status == "fragile") | (status == "broken"))


def in_a_bar(counts: Mapping[str, int], undecided_right: int) -> list[tuple[str, int]]:
    """Return (status, count) of the non-empty parts of a bar, from left to right.

    Right rows come first: robust, unknown (`undecided_right` of them), fragile. Robustness lies
    between the ends of the first unknown part; accuracy is the end of the fragile part.

    Examples
    --------
    >>> counts = {"robust": 5, "fragile": 2, "vulnerable": 1, "broken": 0, "unknown": 3}
    >>> in_a_bar(counts, 2)
    [('robust', 5), ('unknown', 2), ('fragile', 2), ('unknown', 1), ('vulnerable', 1)]
    """
    parts = [
        ("robust", counts["robust"]),
        ("unknown", undecided_right),
        ("fragile", counts["fragile"]),
        ("broken", counts["broken"]),
        ("unknown", counts["unknown"] - undecided_right),
        ("vulnerable", counts["vulnerable"]),
    ]
    return [(status, count) for status, count in parts if count]
