"""Base classes of results: columns with one value per row, and their conversion to plain values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.model.ensemble import Iterations
from carvegbm.storage.files import save_result

__all__ = ["OfModel", "Result", "are_neighbours", "describe_interval", "plain_column"]
__all__ += ["plain_labels", "plain_norm"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OfModel:
    """Base of all results: the boosting iterations of the model."""

    iterations: Iterations | None = field(default=None, kw_only=True, repr=False)
    """The boosting iterations of the model (used, total, best); None if all are used and best."""

    @property
    def note(self) -> str:
        """Which boosting iterations were used, in one line; "" if `iterations` is None."""
        return "" if self.iterations is None else f"the model {self.iterations.note}"

    @property
    def _in_short(self) -> str:
        return "" if self.iterations is None else f", {self.iterations}"

    def _of_model(self) -> dict[str, Any]:
        """Return the entry of `to_dict` for `iterations`."""
        return {} if self.iterations is None else {"iterations": self.iterations._asdict()}

    def _text(self) -> str:
        return repr(self)

    def __str__(self) -> str:
        return self._text() + (f"\n  {self.note}" if self.note else "")


class Result(OfModel, ABC):
    """Columns with one value per row (of a curve: per budget), and totals.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> len(result), list(result.columns())[:3]
    (2, ['status', 'right', 'margin'])
    >>> result.to_dict()["status"]
    ['robust', 'fragile']
    """

    @abstractmethod
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""

    def totals(self) -> dict[str, Any]:
        """Return plain values about all rows together."""
        return {}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values())))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; NaN and infinity become None."""
        columns = {name: plain_column(column) for name, column in self.columns().items()}
        return {**self._of_model(), **self.totals(), **columns}

    def to_frame(self) -> Any:
        """Return the columns as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise CarveError("to_frame needs pandas; pip install pandas") from None
        return pd.DataFrame(self.columns())

    def save(self, path: Any) -> None:
        """Write a JSON, CSV or Parquet file, by its suffix; the file is complete or not there."""
        save_result(path, self.to_dict, self.columns())

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import result_html

        return result_html(self)


def are_neighbours(lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Return where no double lies strictly between lower and upper."""
    return np.asarray(np.isfinite(lower) & (upper <= np.nextafter(lower, np.inf)))


def describe_interval(lower: float, upper: float) -> str:
    """Write an interval as its middle ± half its width, or as one number if it is one."""
    if lower == upper:
        return f"{lower:.4f}"
    return f"{(lower + upper) / 2:.4f} ± {(upper - lower) / 2:.4f}"


def plain_norm(norm: int | float) -> int | str:
    """Return a norm for JSON, which has no infinity."""
    return "inf" if math.isinf(norm) else int(norm)


def plain_column(column: npt.NDArray[Any]) -> list[Any]:
    """Return a column for JSON; NaN and infinity become None."""
    if column.dtype.kind != "f":
        return list(column.tolist())
    return [
        value if finite else None
        for value, finite in zip(column.tolist(), np.isfinite(column), strict=True)
    ]


def plain_labels(labels: npt.NDArray[Any]) -> list[Any]:
    """Return labels for JSON; all but texts, truth values and finite numbers become texts.

    Examples
    --------
    >>> plain_labels(np.array([np.int64(3), "a", b"b"], dtype=object))
    [3, 'a', "b'b'"]
    """
    found = (label.item() if isinstance(label, np.generic) else label for label in labels.tolist())
    return [
        label
        if isinstance(label, str | int) or (isinstance(label, float) and math.isfinite(label))
        else str(label)
        for label in found
    ]
