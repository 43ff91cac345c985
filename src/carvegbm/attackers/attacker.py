"""The attacker A(p, k): which rows z it may move a row x to."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.files import from_plain, naming_file, read_document, to_plain
from carvegbm.attackers.limits import Limits, limits_of
from carvegbm.attackers.options import (
    FREEZE,
    OPTIONS,
    check_budget,
    check_kinds,
    check_norm,
    display_name,
)
from carvegbm.errors import CarveError, shown

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["Attacker", "require_attacker"]

_SHORT = 80  # characters of an option that `str` shows in full


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Attacker:
    """An attacker that moves x to any z with ‖(z − x) / scale‖_norm ≤ budget.

    Frozen: arguments are copied and checked. Features are given by name or position; a pandas
    Series is a mapping from its labels.

    Parameters
    ----------
    norm : int, float or str
        p: 0 (number of changed features), 1, 2, 3, … or "inf" (largest change).
    budget : float, optional
        k ≥ 0; a whole number for norm 0. Queries that search for a budget, such as
        `carvegbm.radius`, ignore it and do not need it.
    scale : float, iterable or mapping, optional
        Distances in a feature are measured in units of its scale; one number for all features,
        one per feature, or a mapping from feature to its scale, or to a pair (down, up) where the
        directions differ: 0 closes one. Default 1, also of features not named.
    features : iterable, optional
        The features the attacker may change. Default: all.
    bounds : (lower, upper) or mapping, optional
        z must stay within; each a number, one per feature, or an array with a row per row of X,
        or a mapping from feature to its (lower, upper). Categorical features have none.
    step : number, str, iterable or mapping, optional
        Values are whole multiples of the step, before and after: a number or a fraction such as
        "1/255" for all features, one per feature, or a mapping from feature to its step. A float
        stands for its shortest decimal: 0.1 is one tenth.
    categories : mapping, optional
        From categorical feature to the labels or codes that it may be changed to. Default: all
        that the model knows. Any change of a categorical feature costs 1 / scale.
    one_hot : iterable of groups, optional
        Groups of features of which exactly one is 1 and the others 0, before and after. Moving
        the 1 is one change, and costs 1 / scale.

    Examples
    --------
    >>> Attacker(norm="inf", budget=0.01)
    Attacker(norm=inf, budget=0.01)
    >>> Attacker(norm=0, budget=3, features=[0, 2], bounds=(0, 1)).norm
    0
    >>> Attacker(1, 30, scale={"bytes": (0, 100)}, step={"bytes": 1})
    Attacker(norm=1, budget=30, scale={'bytes': (0.0, 100.0)}, step={'bytes': 1})
    """

    norm: int | float
    _budget: float | None
    scale: Any
    features: Any
    bounds: Any
    step: Any
    categories: Any
    one_hot: Any

    def __init__(
        self,
        norm: int | float | str,
        budget: float | None = None,
        *,
        scale: float | Iterable[float] | Mapping[Any, Any] | None = None,
        features: Iterable[int | str] | None = None,
        bounds: tuple[Any, Any] | Mapping[Any, tuple[float, float]] | None = None,
        step: float | Fraction | str | Iterable[Any] | Mapping[Any, Any] | None = None,
        categories: Mapping[Any, Iterable[Any]] | None = None,
        one_hot: Iterable[Iterable[int | str]] | None = None,
    ) -> None:
        given = {
            "scale": scale,
            "features": features,
            "bounds": bounds,
            "step": step,
            "categories": categories,
            "one_hot": one_hot,
        }
        checked = check_norm(norm)
        self._set(
            norm=checked,
            _budget=None if budget is None else check_budget(checked, budget),
            **{name: None if v is None else FREEZE[name](v) for name, v in given.items()},
        )
        self._check_kinds()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_kinds(self) -> None:
        """Refuse contradictions between options that show without a model."""
        named = {
            option: list(given)
            for option in ("step", "bounds")
            if isinstance(given := getattr(self, option), Mapping)
        }
        if isinstance(self.scale, Mapping):
            named["scale"] = [f for f, scale in self.scale.items() if isinstance(scale, tuple)]
        grouped = dict.fromkeys(feature for group in self.one_hot or () for feature in group)
        check_kinds(named, self.categories or (), grouped, display_name)

    @property
    def budget(self) -> float:
        """The budget; an error if none was given."""
        if self._budget is None:
            raise CarveError("the attacker has no budget; give Attacker(norm, budget)")
        return self._budget

    @property
    def has_budget(self) -> bool:
        """Whether a budget was given."""
        return self._budget is not None

    def with_budget(self, budget: float) -> Attacker:
        """Return a copy with another budget."""
        return self.with_norm(self.norm, budget)

    def with_norm(self, norm: int | float | str, budget: float) -> Attacker:
        """Return a copy with another norm and budget."""
        other = object.__new__(Attacker)
        checked = check_norm(norm)
        other._set(**{**vars(self), "norm": checked, "_budget": check_budget(checked, budget)})
        return other

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments for `Attacker`, or for an estimator that trains against it.

        Examples
        --------
        >>> attacker = Attacker(1, 30, scale={"bytes": (0, 100)})
        >>> attacker.arguments()
        {'norm': 1, 'budget': 30.0, 'scale': {'bytes': (0.0, 100.0)}}
        >>> from carvegbm import RobustClassifier
        >>> RobustClassifier(**attacker.arguments()).budget
        30.0
        """
        fields = {"norm": self.norm, "budget": self._budget}
        fields |= {option: getattr(self, option) for option in OPTIONS}
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in fields.items()
            if value is not None
        }

    def limits(self, ensemble: Ensemble) -> Limits:
        """Return the limits per feature of the ensemble."""
        return limits_of(self, ensemble)

    def has_limits_of(self, other: Attacker) -> bool:
        """Return whether the two differ in norm and budget at most."""
        return all(_same(getattr(self, option), getattr(other, option)) for option in OPTIONS)

    def distance(
        self, ensemble: Ensemble, x: npt.NDArray[np.float64], z: npt.NDArray[np.float64]
    ) -> float:
        """Return the smallest budget that moves x to z, exactly; both in code space."""
        from carvegbm.attackers.encoding import CoreEncoding

        encoding = CoreEncoding(ensemble, self.limits(ensemble))
        rows = np.asarray(encoding.encode(np.stack([x, z])), dtype=np.float64)
        return float(encoding.core_attacker(self).distance(*rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; docs/attackers.md describes them.

        Examples
        --------
        >>> Attacker(1, 2, step={"age": 1, 3: "1/255"}, bounds=(0, float("inf"))).to_dict()
        ... # doctest: +NORMALIZE_WHITESPACE
        {'norm': 1, 'budget': 2.0, 'scale': None, 'features': None, 'bounds': [0.0, None],
         'step': {'age': 1, '3': '1/255'}}
        """
        always, later = OPTIONS[:3], OPTIONS[3:]
        return {
            "norm": "inf" if math.isinf(self.norm) else int(self.norm),
            "budget": self._budget,
            **{option: to_plain(getattr(self, option)) for option in always},
            **{option: to_plain(v) for option in later if (v := getattr(self, option)) is not None},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Attacker:
        """Make an attacker of plain values, such as `to_dict` returns.

        Examples
        --------
        >>> attacker = Attacker(1, 2, scale={"age": (0, 5)}, one_hot=[[0, 1]])
        >>> Attacker.from_dict(attacker.to_dict()) == attacker
        True
        """
        return cls._from_arguments(from_plain(document))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Attacker:
        r"""Read a TOML or JSON file; docs/attackers.md describes it.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "attacker.toml"
        >>> _ = path.write_text('norm = 0\nbudget = 1\nstep = {age = 1}')
        >>> Attacker.from_file(path)
        Attacker(norm=0, budget=1, step={'age': 1})
        """
        with naming_file(path):
            return cls._from_arguments(from_plain(read_document(path)))

    @classmethod
    def _from_arguments(cls, arguments: dict[str, Any]) -> Attacker:
        if "norm" not in arguments:
            raise CarveError("norm of the attacker is missing; give it")
        return cls(**arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict is what it was made of.
        return _rebuild, (self.arguments(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attacker):
            return NotImplemented
        same = (self.norm, self._budget) == (other.norm, other._budget)
        return same and self.has_limits_of(other)

    def __hash__(self) -> int:
        return hash((self.norm, self._budget))

    def __repr__(self) -> str:
        return self._written(_shown)

    def __str__(self) -> str:
        """Shorten long options to their first entry and the number of entries."""
        return self._written(_in_short)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import attacker_html

        return attacker_html(self)

    def _written(self, write: Callable[[Any], str]) -> str:
        budget = "" if self._budget is None else f", budget={self._budget:g}"
        rest = "".join(
            f", {name}={write(value)}"
            for name in OPTIONS
            if (value := getattr(self, name)) is not None
        )
        return f"Attacker(norm={self.norm}{budget}{rest})"


def require_attacker(given: Any, y: Any = None) -> Attacker:
    """Return the attacker; refuse anything else, and an attacker passed as y."""
    if isinstance(y, Attacker):
        raise CarveError("y is an Attacker; pass attacker=…, or (model, X, y, attacker)")
    if given is None:
        raise CarveError(
            "attacker is missing; give an Attacker(norm, budget) after X and y, or as attacker=…"
        )
    if not isinstance(given, Attacker):
        raise CarveError(f"attacker must be an Attacker(norm, budget), got {shown(given)}")
    return given


def _rebuild(fields: dict[str, Any]) -> Attacker:
    return Attacker(**fields)


def _same(one: Any, other: Any) -> bool:
    """Return whether two options are equal; bounds by row are arrays."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    return bool(one == other)


def _shown(value: Any) -> str:
    """Write an option as it can be given again; of bounds by row only the shape."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        parts = [_shown(item) for item in value]
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if isinstance(value, np.ndarray):
        return (
            f"<{' x '.join(map(str, value.shape))}>" if value.ndim > 1 else f"<{len(value)} rows>"
        )
    return repr(to_plain(value)) if isinstance(value, Fraction) else repr(value)


def _in_short(value: Any) -> str:
    """Write an option as it can be given again if it is short, else its beginning."""
    whole = _shown(value)
    if len(whole) <= _SHORT:
        return whole
    if isinstance(value, Mapping):
        key, item = next(iter(value.items()))
        return f"{{{key!r}: {_in_short(item)}, … {len(value)} in all}}"
    if any(isinstance(item, tuple) for item in value):  # bounds, or groups
        return f"({', '.join(map(_in_short, value[:2]))}{', …' * (len(value) > 2)})"
    return f"({_in_short(value[0])}, … {len(value)} in all)"
