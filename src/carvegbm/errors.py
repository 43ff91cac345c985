"""The errors a user can meet: one line each that names the thing, the value and the remedy."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["CarveError", "DataError", "ModelError", "NotLargeSpreadError"]
__all__ += ["level_of_caller", "shown"]


def shown(given: object) -> str:
    """What a user gave, in one line of a message, whatever it is."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 120 else text[:119] + "…"


def level_of_caller() -> int:
    """Return the `stacklevel` with which the calling function warns the caller of carvegbm."""
    level, frame = 1, sys._getframe(1)
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] == "carvegbm"
    ):
        level, frame = level + 1, frame.f_back
    return level


class CarveError(ValueError):
    """Base of every error that bad input can cause; the command line prints it as one line.

    Examples
    --------
    >>> import carvegbm as cg
    >>> try:
    ...     cg.Attacker("inf", -0.1)
    ... except cg.CarveError as error:
    ...     print(error)
    budget must be >= 0, got -0.1

    Attributes
    ----------
    partition : int or None
        The partition of a distributed table to which the error belongs.
    """

    partition: int | None = None

    def __str__(self) -> str:
        text = self._text()
        return text if self.partition is None else f"partition {self.partition}: {text}"

    def _text(self) -> str:
        return super().__str__()


class ModelError(CarveError):
    """A model that cannot be read, or that the tool cannot represent exactly.

    Examples
    --------
    >>> import carvegbm as cg
    >>> try:
    ...     cg.load(object())
    ... except cg.ModelError as error:
    ...     print(str(error).partition(";")[0])
    cannot read a model from builtins.object
    """


class DataError(CarveError):
    """Data that does not fit the model, or that cannot be read.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> try:
    ...     cg.verify(model, [[0.1, 0.2]], attacker=cg.Attacker("inf", 0.1))
    ... except cg.DataError as error:
    ...     print(error)
    X has 2 columns, the model has 1 features

    Attributes
    ----------
    row : int or None
        The row with the error, counted from 0.
    column : str or None
        What messages call the feature.
    file : str or None
        The file with the error; without one, `what` is named.
    """

    def __init__(
        self,
        message: str,
        *,
        row: int | None = None,
        column: str | None = None,
        file: str | None = None,
        what: str = "X",
    ) -> None:
        super().__init__(message)
        self.row, self.column, self.file, self.what = row, column, file, what

    def _text(self) -> str:
        if self.row is None:
            return f"{self.file}: {self.args[0]}" if self.file else str(self.args[0])
        column = f", {self.column}" if self.column else ""
        return f"{self.file or self.what} row {self.row}{column}: {self.args[0]}"


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

    Examples
    --------
    >>> import carvegbm as cg
    >>> def stump(v):
    ...     return {"feature": 0, "threshold": v, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump(0.25), stump(0.75)], n_features=1)
    >>> try:
    ...     cg.verify(model, [[0.1]], [0], cg.Attacker("inf", 0.3), engine="large-spread")
    ... except cg.NotLargeSpreadError as error:
    ...     print(error.trees, error.thresholds, error.largest_budget < 0.25)
    (0, 1) (0.25, 0.75) True
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
        return _restored, (self.args[0], self.__dict__)


def _restored(message: str, fields: dict[str, Any]) -> NotLargeSpreadError:
    error = NotLargeSpreadError.__new__(NotLargeSpreadError, message)
    error.__dict__.update(fields)
    return error
