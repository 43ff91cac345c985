"""The five statuses: their order, which is that of the core's codes, and what they mean."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["MEANINGS", "STATUSES", "UNKNOWN", "flipped", "named"]

MEANINGS = {
    "robust": "right, and stays right",
    "fragile": "right, but can be flipped",
    "vulnerable": "wrong, and stays wrong",
    "broken": "wrong, and can be flipped",
    "unknown": "not decided",
}
STATUSES = tuple(MEANINGS)
UNKNOWN = STATUSES.index("unknown")

_NAMES = np.array(STATUSES)


def named(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.str_]:
    """The statuses of these codes, by name."""
    return np.asarray(_NAMES[codes])


def flipped(status: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    """Where the attacker can change the decision: fragile and broken."""
    return np.asarray((status == "fragile") | (status == "broken"))
