"""What milp pushes down: the margins that an attack must bring below zero."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from carvegbm.errors import CarveError

__all__ = ["Aim", "Term"]


@dataclass(frozen=True)
class Term:
    """raw[plus] − raw[minus], where None stands for the decision threshold (regression: 0)."""

    plus: int | None
    minus: int | None
    strict: bool = True
    """The attacker wants it < 0; if not strict, <= 0 is enough."""

    def won(self, value: Fraction) -> bool:
        """Whether this value is what the attacker wants."""
        return value < 0 if self.strict else value <= 0


@dataclass(frozen=True)
class Aim:
    """What the attacker pushes down: the largest of some differences of raw scores.

    Examples
    --------
    >>> Aim.pair(held=2, rival=0).terms
    (Term(plus=2, minus=0, strict=False),)
    """

    terms: tuple[Term, ...]
    decides: bool = True
    """The attacker wins iff every term is won. If False, the least value of the one term is asked
    for."""

    def __post_init__(self) -> None:
        if not self.decides and len(self.terms) != 1:
            raise CarveError(f"the least value of one term can be asked for, not {len(self.terms)}")

    @classmethod
    def binary(cls, held: int, tie: str = "positive") -> Aim:
        """The margin of the class that holds (0 negative, 1 positive) in a binary ensemble."""
        strict = (tie == "positive") == (held == 1)
        return cls((Term(0, None, strict) if held else Term(None, 0, strict),))

    @classmethod
    def pair(cls, held: int, rival: int) -> Aim:
        """The margin of one class over another; of equal scores the first class wins."""
        return cls((Term(held, rival, strict=held < rival),))

    @classmethod
    def takeover(cls, label: int, n_classes: int) -> Aim:
        """How far a class is from being the one that is decided, over all its rivals."""
        rivals = [rival for rival in range(n_classes) if rival != label]
        return cls(tuple(Term(rival, label, strict=rival < label) for rival in rivals))

    @classmethod
    def lowest(cls) -> Aim:
        """The lowest raw score of an ensemble with one output."""
        return cls((Term(0, None),), decides=False)

    @classmethod
    def highest(cls) -> Aim:
        """The highest raw score of an ensemble with one output, with its sign changed."""
        return cls((Term(None, 0),), decides=False)
