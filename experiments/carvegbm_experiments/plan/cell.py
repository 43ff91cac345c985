"""A cell: one measurement to make, and the names by which it is stored and found again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from carvegbm.storage.identity import sha256_of

__all__ = ["KINDS", "TIMED", "Cell", "Configuration", "canonical", "key"]

Configuration = Mapping[str, Any]
"""All that determines the result of a cell, as JSON can hold it."""

KINDS = (
    "dataset",
    "plain",
    "gallery",
    "plain-robustness",
    "large-spread",
    "curve",
    "certified",
    "robust",
    "attackers",
    "time",
    "speed-up",
)
"""In the order of the work, as far as the cells they need allow."""

TIMED = ("time", "speed-up")
"""Kinds whose result is a time: one thread, alone, at the end."""


@dataclass(frozen=True)
class Cell:
    """One measurement to make."""

    kind: str
    configuration: Configuration
    cost: float
    """Seconds it may take on two cores, roughly."""
    needs: tuple[Cell, ...] = field(default=(), repr=False)
    """Cells whose models it uses."""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other cells."""
        return self.kind, key(self.configuration)

    @property
    def dataset(self) -> str:
        """The data it is about."""
        return str(self.configuration["dataset"])

    @property
    def trains(self) -> bool:
        """Whether its models are trained for it, not for a cell it needs."""
        chosen_first = self.configuration.get("criterion") == "accuracy"
        own = self.kind in ("plain", "certified", "robust")
        return own or (self.kind == "large-spread" and chosen_first)

    @property
    def title(self) -> str:
        """The cell in a few words."""
        setting = self.configuration
        parts = [self.kind, self.dataset]
        if "protocol" in setting:
            parts.append(f"({setting['protocol']})")
        if "norm" in setting:
            parts.append(f"norm {setting['norm']} budget {setting['budget']:g}")
        if "limits" in setting:
            parts.append(f"({setting['limits']})")
        if "model" in setting:
            parts.append(f"of the {setting['model']} model")
        if "trained" in setting:
            parts.append(f"trained for ({setting['trained']})")
        if self.kind == "large-spread":
            parts.append(f"by {setting['criterion']}")
        if self.kind == "speed-up":
            parts.append(f"{setting['trees']} trees")
        return " ".join(parts)


def canonical(configuration: Configuration) -> str:
    """A text that is the same iff the configuration is."""
    return json.dumps(configuration, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key(configuration: Configuration) -> str:
    """The configuration in ten characters.

    Not `digest_of`: files are named by it, and stored cells have to be found again.

    >>> key({"norm": "inf", "budget": 0.01}) == key({"budget": 0.01, "norm": "inf"})
    True
    """
    return sha256_of([canonical(configuration).encode()])[:10]
