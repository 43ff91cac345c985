"""What the page speaks of: attackers asked about, and distances, with what is counted of them.

Comes in: the document. Goes out: its attackers and distances, numbered, each with the counts that
sentences, bars and tables share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from carvegbm.statuses import in_a_bar

__all__ = ["Asked", "Distance"]

Document = Mapping[str, Any]


def _told(attacker: Document, whole: Document) -> Document:
    """The attacker without a limit that is none: all features."""
    features, count = attacker.get("features"), int(whole["model"]["features"])
    if features is None or len(features) != count or not features:
        return attacker
    kinds = {type(entry) for entry in features}
    named = len(kinds) == 1 and len(set(features)) == count  # all by name, or all by position
    is_all = all(features) if kinds == {bool} else named
    return {**attacker, "features": None} if is_all else attacker


@dataclass(frozen=True)
class Asked:
    """An attacker that was asked about, and the answer."""

    whole: Document
    place: int

    @property
    def document(self) -> Document:
        """Its part of the document."""
        return self.whole["attackers"][self.place]  # type: ignore[no-any-return]

    @property
    def attacker(self) -> Document:
        """Norm, budget and limits."""
        return _told(self.document["attacker"], self.whole)

    @property
    def rows(self) -> int:
        """How many rows were judged."""
        return len(self.document["status"])

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by status."""
        return self.document["counts"]  # type: ignore[no-any-return]

    @cached_property
    def right(self) -> int:
        """Rows that are right without an attack."""
        return sum(map(bool, self.whole["rows"]["right"]))

    @cached_property
    def open(self) -> int:
        """Right rows whose status is unknown."""
        pairs = zip(self.whole["rows"]["right"], self.document["status"], strict=True)
        return sum(bool(right) and status == "unknown" for right, status in pairs)

    @cached_property
    def segments(self) -> list[tuple[str, int]]:
        """The statuses as parts of a bar."""
        return in_a_bar(self.counts, self.open)

    @cached_property
    def engines(self) -> Counter[str]:
        """Rows by the engine that decided them."""
        return Counter(str(engine) for engine in self.document["engine"])


@dataclass(frozen=True)
class Distance:
    """An attacker without its budget: how far it has to go."""

    whole: Document
    place: int

    @property
    def document(self) -> Document:
        """Its part of the document."""
        return self.whole["distances"][self.place]  # type: ignore[no-any-return]

    @property
    def attacker(self) -> Document:
        """Norm and limits."""
        return _told(self.document["attacker"], self.whole)

    @property
    def norm(self) -> Any:
        """0, 1, 2, … or "inf"."""
        return self.document["norm"]

    @cached_property
    def rows(self) -> int:
        """How many rows were judged."""
        return len(self.document["radius"]["lower"])

    @cached_property
    def bounds(self) -> list[tuple[float, float]]:
        """lower <= radius <= upper, per row: infinite if no budget flips it, 0 if it is wrong.

        A wrong row is wrong also where the work was cut short before its radius was asked for.
        """
        radius, right = self.document["radius"], self.whole["rows"]["right"]
        found = []
        for lower, upper, is_right in zip(radius["lower"], radius["upper"], right, strict=True):
            ends = (math.inf if end is None else float(end) for end in (lower, upper))
            low, high = ends if is_right else (0.0, 0.0)
            found.append((low, high))
        return found

    @cached_property
    def right(self) -> int:
        """Rows that are right without an attack."""
        return sum(map(bool, self.whole["rows"]["right"]))

    @cached_property
    def never(self) -> int:
        """Right rows that no budget flips."""
        return sum(lower == math.inf for lower, _ in self.bounds)

    @cached_property
    def undecided(self) -> int:
        """Right rows whose radius is not known."""
        return sum(lower != upper for lower, upper in self.bounds)

    @cached_property
    def asked(self) -> list[Asked]:
        """The attackers whose distance it is."""
        attackers: Sequence[Document] = self.whole["attackers"]
        return [
            Asked(self.whole, place)
            for place, attacker in enumerate(attackers)
            if attacker["distance"] == self.place
        ]

    @cached_property
    def alike(self) -> bool:
        """Whether another distance has the same norm."""
        return bool(sum(other["norm"] == self.norm for other in self.whole["distances"]) > 1)
