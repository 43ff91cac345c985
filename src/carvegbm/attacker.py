"""The attacker A(p, k): how far, and in which features, an instance may be moved.

Comes in: norm, budget and per-feature limits as a user states them.
Goes out: the same, checked, and resolved against an ensemble for the core.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.discrete import (
    check_kinds,
    frozen_categories,
    frozen_one_hot,
    frozen_step,
)
from carvegbm.attackers.files import arguments_in, naming
from carvegbm.attackers.given import (
    LARGEST_BUDGET,
    called,
    frozen_bounds,
    frozen_features,
    frozen_scale,
)
from carvegbm.attackers.plain import OPTIONS, from_plain, to_plain
from carvegbm.attackers.within import first_outside
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.instances.sparse import Csr
from carvegbm.limits import Limits, limits_of

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.ensemble import Ensemble

__all__ = ["LARGEST_BUDGET", "OPTIONS", "Attacker", "Limits", "require_attacker"]

_LARGEST_NORM = 100
_SHORT = 80  # characters of an option that `str` shows in full


@dataclass(frozen=True, eq=False)
class Attacker:
    """An attacker that moves x to any z with ‖(z − x) / scale‖_norm ≤ budget.

    Frozen: what is given is copied and checked, so that nothing done to it later, and no iterator
    that can be read only once, changes what the attacker may do. Features go by name or position;
    a pandas Series is a mapping from its labels.

    Parameters
    ----------
    norm : int, float or str
        p: 0 (number of changed features), 1, 2, 3, … or "inf" (largest change).
    budget : float
        k ≥ 0; a whole number for norm 0.
    scale : float, iterable or mapping, optional
        Distances in a feature are measured in units of its scale; one number for all features,
        one per feature, or a mapping from feature to its scale, or to a pair (down, up) where the
        directions differ: 0 closes one. Default 1, also of features not named.
    features : iterable, optional
        The features the attacker may change, or a mask with a truth value per feature. Default:
        all.
    bounds : (lower, upper) or mapping, optional
        z must stay within; each a number, one per feature, or an array with a row per instance,
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
    budget: float
    scale: Any
    features: Any
    bounds: Any
    step: Any
    categories: Any
    one_hot: Any

    def __init__(
        self,
        norm: int | float | str,
        budget: float,
        *,
        scale: float | Iterable[float] | Mapping[Any, Any] | None = None,
        features: Iterable[int | str] | None = None,
        bounds: tuple[Any, Any] | Mapping[Any, tuple[float, float]] | None = None,
        step: float | Fraction | str | Iterable[Any] | Mapping[Any, Any] | None = None,
        categories: Mapping[Any, Iterable[Any]] | None = None,
        one_hot: Iterable[Iterable[int | str]] | None = None,
    ) -> None:
        checked_norm = check_norm(norm)
        self._set(
            norm=checked_norm,
            budget=_check_budget(checked_norm, budget),
            scale=None if scale is None else frozen_scale(scale),
            features=None if features is None else frozen_features(features),
            bounds=None if bounds is None else frozen_bounds(bounds),
            step=None if step is None else frozen_step(step),
            categories=None if categories is None else frozen_categories(categories),
            one_hot=None if one_hot is None else frozen_one_hot(one_hot),
        )
        self._check_kinds()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_kinds(self) -> None:
        """Refuse contradictions that show without a model: features are called the same."""
        named = {
            option: list(given)
            for option in ("step", "bounds")
            if isinstance(given := getattr(self, option), Mapping)
        }
        if isinstance(self.scale, Mapping):
            named["scale"] = [f for f, scale in self.scale.items() if isinstance(scale, tuple)]
        grouped = dict.fromkeys(feature for group in self.one_hot or () for feature in group)
        check_kinds(named, self.categories or (), grouped, called)

    def with_budget(self, budget: float) -> Attacker:
        """The same attacker with another budget."""
        return self.with_norm(self.norm, budget)

    def with_norm(self, norm: int | float | str, budget: float) -> Attacker:
        """The same attacker with another norm and budget."""
        other = object.__new__(Attacker)
        checked = check_norm(norm)
        other._set(**{**vars(self), "norm": checked, "budget": _check_budget(checked, budget)})
        return other

    def arguments(self) -> dict[str, Any]:
        """What the attacker can be made of again, or an estimator that trains against it.

        Examples
        --------
        >>> attacker = Attacker(1, 30, scale={"bytes": (0, 100)})
        >>> attacker.arguments()
        {'norm': 1, 'budget': 30.0, 'scale': {'bytes': (0.0, 100.0)}}
        >>> from carvegbm import RobustClassifier
        >>> RobustClassifier(**attacker.arguments()).budget
        30.0
        """
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self).items()
            if value is not None
        }

    def limits(self, ensemble: Ensemble) -> Limits:
        """The limits, resolved to the ensemble's features."""
        return limits_of(self, ensemble)

    def has_limits_of(self, other: Attacker) -> bool:
        """Whether the two differ in norm and budget at most."""
        return all(_same(getattr(self, option), getattr(other, option)) for option in OPTIONS)

    def core(self, ensemble: Ensemble, limits: Limits | None = None) -> _core.Attacker:
        """The attacker as the C++ core holds it; `limits` are those for the ensemble, if known."""
        from carvegbm.axes.translation import Translation

        limits = self.limits(ensemble) if limits is None else limits
        return Translation(ensemble, limits).core_attacker(self)

    def check_instances(
        self,
        ensemble: Ensemble,
        X: npt.NDArray[np.float64] | npt.NDArray[np.float32] | Csr,
        limits: Limits | None = None,
    ) -> None:
        """Refuse instances outside the bounds; `limits` are those for the ensemble, if known."""
        if self.bounds is None:
            return
        limits = self.limits(ensemble) if limits is None else limits
        count = X.shape[0]
        if limits.by_row and len(limits.lower) != count:
            raise DataError(
                f"the attacker's bounds have {len(limits.lower)} rows, X has {count}; give a row "
                "of bounds per instance"
            )
        is_zero = ensemble.absent == "zero"
        outside = first_outside(X, limits.lower, limits.upper, absent_is_zero=is_zero)
        if outside is not None:
            row, column, lower, upper = outside
            raise DataError(
                f"X row {row}, {ensemble.feature_name(column)}: value "
                f"{X[row, column]} lies outside the attacker's bounds "
                f"[{lower}, {upper}]; clip it or widen the bounds"
            )

    def distance(
        self, ensemble: Ensemble, x: npt.NDArray[np.float64], z: npt.NDArray[np.float64]
    ) -> float:
        """The smallest budget that affords moving x to z, exactly; both in code space."""
        from carvegbm.axes.translation import Translation

        translation = Translation(ensemble, self.limits(ensemble))
        here, there = np.asarray(translation.rows(np.stack([x, z])), dtype=np.float64)
        return float(translation.core_attacker(self).distance(here, there))

    def to_dict(self) -> dict[str, Any]:
        """The attacker as plain values, ready for JSON; docs/attackers.md describes them.

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
            "budget": self.budget,
            **{option: to_plain(getattr(self, option)) for option in always},
            **{option: to_plain(v) for option in later if (v := getattr(self, option)) is not None},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Attacker:
        """The attacker that `to_dict` wrote, or a user, as plain values.

        Examples
        --------
        >>> attacker = Attacker(1, 2, scale={"age": (0, 5)}, one_hot=[[0, 1]])
        >>> Attacker.from_dict(attacker.to_dict()) == attacker
        True
        """
        return cls._made_of(from_plain(document))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Attacker:
        r"""The attacker in a TOML or JSON file; docs/attackers.md describes it.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "attacker.toml"
        >>> _ = path.write_text('norm = 0\nbudget = 1\nstep = {age = 1}')
        >>> Attacker.from_file(path)
        Attacker(norm=0, budget=1, step={'age': 1})
        """
        with naming(path):
            return cls._made_of(arguments_in(path))

    @classmethod
    def _made_of(cls, arguments: dict[str, Any]) -> Attacker:
        for key in ("norm", "budget"):
            if key not in arguments:
                raise CarveError(f"{key} of the attacker is missing; give it")
        return cls(**arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict is what it was made of.
        return _rebuild, (self.arguments(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attacker):
            return NotImplemented
        same = (self.norm, self.budget) == (other.norm, other.budget)
        return same and self.has_limits_of(other)

    def __hash__(self) -> int:
        return hash((self.norm, self.budget))

    def __repr__(self) -> str:
        return self._written(_shown)

    def __str__(self) -> str:
        """On one line: of an option with many entries the first, and how many there are."""
        return self._written(_in_short)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import attacker_html

        return attacker_html(self)

    def _written(self, write: Callable[[Any], str]) -> str:
        rest = "".join(
            f", {name}={write(value)}"
            for name in OPTIONS
            if (value := getattr(self, name)) is not None
        )
        return f"Attacker(norm={self.norm}, budget={self.budget:g}{rest})"


def require_attacker(given: Any, y: Any = None) -> Attacker:
    """Refuse what is no `Attacker`, such as a budget alone, or one that stands in place of y."""
    if isinstance(y, Attacker):
        raise CarveError(
            "an Attacker stands where y should; write (model, X, y, attacker), or attacker=… "
            "where there is no y"
        )
    if given is None:
        raise CarveError(
            "attacker is missing; give an Attacker(norm, budget) after X and y, or as attacker=…"
        )
    if not isinstance(given, Attacker):
        raise CarveError(f"attacker must be an Attacker(norm, budget), got {shown(given)}")
    return given


def check_norm(norm: int | float | str) -> int | float:
    """A norm as 0, 1, 2, … or math.inf."""
    message = f"norm must be 0, 1, 2, … (at most {_LARGEST_NORM}) or inf, got {norm!r}"
    if isinstance(norm, bool | np.bool_):
        raise CarveError(message)
    try:
        value = float(norm)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(message) from None
    if value == math.inf:
        return math.inf
    if not (0 <= value <= _LARGEST_NORM) or value != int(value):
        raise CarveError(message)
    return int(value)


def _check_budget(norm: int | float, budget: Any) -> float:
    try:
        value = float(budget)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"budget must be a number, got {shown(budget)}") from None
    if not value >= 0:
        raise CarveError(f"budget must be >= 0, got {value:g}")
    if norm == 0 and math.isfinite(value) and value != int(value):
        remedy = f"write {int(value)}" if value > 1 else "write 1, or use another norm"
        raise CarveError(
            f"budget {value:g} with norm 0 means {int(value)} changed features; {remedy}"
        )
    if value > LARGEST_BUDGET or 0 < value < 1 / LARGEST_BUDGET:
        raise CarveError(f"budget must be 0 or between 1e-100 and 1e100, got {value:g}")
    return value


def _rebuild(fields: dict[str, Any]) -> Attacker:
    return Attacker(**fields)


def _same(one: Any, other: Any) -> bool:
    """Whether two options are equal; bounds by row are arrays."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    return bool(one == other)


def _shown(value: Any) -> str:
    """An option as it can be given again, but for bounds by row, which are too long."""
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
    """An option as it can be given again if it is short, else its beginning."""
    whole = _shown(value)
    if len(whole) <= _SHORT:
        return whole
    if isinstance(value, Mapping):
        key, item = next(iter(value.items()))
        return f"{{{key!r}: {_in_short(item)}, … {len(value)} in all}}"
    if any(isinstance(item, tuple) for item in value):  # bounds, or groups
        return f"({', '.join(map(_in_short, value[:2]))}{', …' * (len(value) > 2)})"
    return f"({_in_short(value[0])}, … {len(value)} in all)"
