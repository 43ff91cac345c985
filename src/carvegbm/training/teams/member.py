"""One member's part of a fit: partitions of rows in, the trained estimator out.

All members are told the same (`Plan`), and have partitions of their own. Partitions are numbered as
the user's data have them; a row's number among all rows follows from that, whoever has it, so that
the model does not depend on who has what.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from carvegbm.errors import CarveError, DataError
from carvegbm.parts.shipping import check_version
from carvegbm.training import inputs
from carvegbm.training.estimator import Told
from carvegbm.training.evaluation import Asked
from carvegbm.training.teams.share import Share
from carvegbm.training.teams.team import Team

__all__ = ["Part", "Plan", "fit_share"]


@dataclass(frozen=True)
class Part:
    """A partition of rows with their labels."""

    number: int
    X: Any
    y: Any
    weight: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True)
class Plan:
    """What all members are told.

    Attributes
    ----------
    estimator : LargeSpreadClassifier or RobustClassifier
        Not fitted.
    version : str
        Of carvegbm, where the fit was asked for.
    asked : mapping
        What to watch: the arguments of `Asked` that are not rows.
    told : Told
    options : mapping
        Further arguments of the estimator's fit.
    """

    estimator: Any
    version: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    told: Told = field(default_factory=Told)
    options: Mapping[str, Any] = field(default_factory=dict)


def fit_share(
    plan: Plan,
    team: Team,
    rows: Sequence[Part],
    sets: Sequence[Sequence[Part]],
    threads: int | None = None,
) -> Any:
    """The estimator, trained with the team on the rows of all members; `sets` are to be watched.

    `threads` are those that this member may use, unless the estimator says how many.
    """
    from sklearn import clone

    check_version(plan.version)
    estimator = clone(plan.estimator)
    if estimator.n_jobs is None:
        estimator.n_jobs = threads
    if estimator.random_state is None and getattr(estimator, "certified", True):
        # Chance must decide alike for all members; LightGBM alone has seeds of its own.
        estimator.random_state = team.first(secrets.randbelow(1 << 31))
    share, train = _joined(team, rows)
    share.require_rows_everywhere()
    shares, pairs, weights = [], [], []
    for parts in sets:
        own, (X, y, weight) = _joined(team, parts)
        shares.append(own)
        pairs.append((X, y))
        weights.append(weight)
    asked = dict(plan.asked)
    if sets:
        asked |= {"eval_set": pairs, "shares": shares}
        if any(weight is not None for weight in weights):
            asked["eval_sample_weight"] = weights
    try:
        return estimator._fit_share(train, share, Asked(**asked), plan.told, **plan.options)
    except DataError as error:
        raise _named(error, plan.estimator, rows, sets) from None


def _joined(team: Team, parts: Sequence[Part]) -> tuple[Share, tuple[Any, Any, Any]]:
    """Which of all rows those of the parts are; and they, with labels and weights."""
    ordered = sorted(parts, key=lambda part: part.number)
    lengths: dict[int, int] = {}
    for own in team.gather({part.number: len(part) for part in ordered}):
        lengths |= own
    numbers = sorted(lengths)
    place = {number: i for i, number in enumerate(numbers)}
    share = Share.of_parts(
        team, [lengths[number] for number in numbers], [place[part.number] for part in ordered]
    )
    weights = [part.weight for part in ordered]
    has_weights = team.any(any(weight is not None for weight in weights))
    rows = (
        _stacked([part.X for part in ordered]),
        _stacked([part.y for part in ordered]),
        _stacked(weights) if has_weights else None,
    )
    return share, rows


def _stacked(parts: Sequence[Any]) -> Any:
    """Arrays, frames, series or sparse matrices of one kind, one below the other."""
    if not parts:
        return np.empty(0)
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        if any(not _same_kinds(part, parts[0]) for part in parts):
            raise DataError(
                "partitions have columns of other types, or other categories; give all of them the "
                "same (Dask: astype(), categorize())"
            )
        return pd.concat(parts)
    if hasattr(parts[0], "tocsr"):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    return np.concatenate(parts)


def _same_kinds(one: Any, other: Any) -> bool:
    """Whether two frames or series have columns of the same types, with the same categories."""
    if not hasattr(one, "dtypes") or one.ndim == 1:
        return bool(one.dtype == other.dtype)
    return len(one.dtypes) == len(other.dtypes) and all(one.dtypes == other.dtypes)


def _named(
    error: DataError, estimator: Any, rows: Sequence[Part], sets: Sequence[Sequence[Part]]
) -> CarveError:
    """The error with the partition it is about, where one of them alone has it."""
    from sklearn import clone

    groups = [("", rows), *((f"eval_set {i}, ", parts) for i, parts in enumerate(sets))]
    for where, parts in groups:
        for part in parts:
            if len(part) == 0:
                continue
            try:
                inputs.check_pair(clone(estimator), part.X, part.y, reset=True)
                inputs.check_weight(part.weight, len(part), team=None)
            except DataError as found:
                return DataError(f"{where}partition {part.number}: {found}")
    return error
