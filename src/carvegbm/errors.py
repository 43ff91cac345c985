"""The errors a user can meet: one line each that names the thing, the value and the remedy."""

from __future__ import annotations

from typing import Any

__all__ = ["CarveError", "DataError", "ModelError", "NotLargeSpreadError", "shown"]


def shown(given: object) -> str:
    """What a user gave, in one line of a message, whatever it is."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 120 else text[:119] + "…"


class CarveError(ValueError):
    """Base of every error that bad input can cause; the command line prints it as one line."""


class ModelError(CarveError):
    """A model that cannot be read, or that the tool cannot represent exactly."""


class DataError(CarveError):
    """Data that does not fit the model, or that cannot be read."""


class NotLargeSpreadError(CarveError):
    """An ensemble that is not large-spread for the attacker went to the large-spread engine.

    Attributes
    ----------
    feature : int
        The feature two trees share too closely.
    trees : tuple of int
        The two trees, by position.
    thresholds : tuple of float
        Their two thresholds; of a feature with a step, the last multiples on the left of them; of
        a categorical feature or a one-hot group (`feature` is its first), NaN.
    largest_budget : float
        The largest budget for which the ensemble is large-spread; 0 if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        feature: int,
        trees: tuple[int, int],
        thresholds: tuple[float, float],
        largest_budget: float,
    ) -> None:
        super().__init__(message)
        self.feature = feature
        self.trees = trees
        self.thresholds = thresholds
        self.largest_budget = largest_budget

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (str(self), self.__dict__)


def _restored(message: str, fields: dict[str, Any]) -> NotLargeSpreadError:
    return NotLargeSpreadError(message, **fields)
