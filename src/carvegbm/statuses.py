"""The five statuses: their order, which is that of the core's codes, what they mean, how they look.

Whatever draws statuses takes their looks from here, so that they are the same everywhere.
"""

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

# Any two are told apart with full sight and without any one kind of cone, and each is seen on white
# and on near-black paper.
COLOURS = {
    "robust": "#3d82e0",
    "fragile": "#ee9a1b",
    "vulnerable": "#763b86",
    "broken": "#c0462d",
    "unknown": "#b3bccb",
}
"""The colour of every status."""
INKS = {
    "robust": "#000000",
    "fragile": "#000000",
    "vulnerable": "#ffffff",
    "broken": "#ffffff",
    "unknown": "#000000",
}
"""For text on these colours: a contrast of 4.5 or more."""
HATCHES = {"robust": "", "fragile": "//", "vulnerable": "", "broken": "\\\\", "unknown": ".."}
"""Not by colour alone: what can be flipped is striped, what is not decided dotted (the patterns are
those of matplotlib)."""

_NAMES = np.array(STATUSES)


def named(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.str_]:
    """The statuses of these codes, by name."""
    return np.asarray(_NAMES[codes])


def flipped(status: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    """Where the attacker can change the decision: fragile and broken."""
    return np.asarray((status == "fragile") | (status == "broken"))


def in_a_bar(counts: Mapping[str, int], undecided_right: int) -> list[tuple[str, int]]:
    """Statuses and their counts as parts of a bar, from the left; none is empty.

    Those decided rightly come first: robust, unknown (`undecided_right` of them), fragile. So
    robustness lies between the ends of the first unknown part, and accuracy at the end of the
    fragile.

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
