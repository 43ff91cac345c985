"""Estimators that train on the workers of a Dask cluster.

Comes in: Dask collections. Goes out: an estimator that predicts and verifies Dask collections, and
`to_local()`, the same model as one process has it: trees are those that one process with all rows
would have grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import dask.array as da
import dask.dataframe as dd
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from carvegbm.dask import asking
from carvegbm.dask.partitions import whole_rows
from carvegbm.dask.results import DaskAttack, DaskCurve, DaskRadius, DaskVerification
from carvegbm.dask.running import Rows, fit
from carvegbm.errors import CarveError
from carvegbm.training.columns import AUTO
from carvegbm.training.estimator import Told
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.growing.watching import Metric
from carvegbm.training.inputs import evaluation_pairs
from carvegbm.training.teams.member import Plan

__all__ = ["DaskClassifier", "DaskLargeSpreadClassifier", "DaskRobustClassifier"]

Self = TypeVar("Self", bound="DaskClassifier")


class DaskClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained by all workers together."""

    _kind: ClassVar[type[Any]]

    def __init__(self, *, client: Any = None, **parameters: Any) -> None:
        self.client = client
        self._local = self._kind(**parameters)

    # ── parameters ───────────────────────────────────────────────────────────────────────────

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name: the client, and those of the local estimator."""
        return {"client": self.client, **self._local.get_params(deep)}

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name."""
        if "client" in params:
            self.client = params.pop("client")
        self._local.set_params(**params)
        return self

    def __getattr__(self, name: str) -> Any:
        """What training found, under the local estimator's names: `booster_`, `classes_`, …."""
        if name.startswith("_") or "_local" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._local, name)

    def __sklearn_clone__(self: Self) -> Self:
        """The same, not fitted; a connection cannot be copied, and is shared."""
        return type(self)(client=self.client, **clone(self._local).get_params(deep=False))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "client": None}  # a connection stays where it is

    def __repr__(self) -> str:
        return f"Dask{self._local!r}"

    def to_local(self) -> Any:
        """The same model as an estimator that takes rows in memory."""
        if not hasattr(self._local, "booster_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._local

    # ── fitting ──────────────────────────────────────────────────────────────────────────────

    def fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_metric: Metric | Sequence[Metric] | None = None,
        early_stopping_rounds: int | None = None,
        feature_names: Sequence[str] | None = None,
        categorical_feature: Any = AUTO,
        plain_accuracy: float | None = None,
    ) -> Self:
        """Train on the cluster; the parameters are those of the local estimator's `fit`.

        X, y and weights are Dask collections in the same partitions, and so are those of every
        evaluation set. They are computed, and must fit into the memory of all workers together.
        Every worker that has training rows takes part, with as many threads as it has, and must
        have a thread free for it.
        """
        from distributed import default_client

        from carvegbm import __version__

        pairs = evaluation_pairs(eval_set)
        weights = eval_sample_weight or [None] * len(pairs)
        if len(weights) != len(pairs):
            raise CarveError(
                f"eval_sample_weight has {len(weights)} entries, eval_set {len(pairs)} pairs"
            )
        plan = Plan(
            self._kind(**self._local.get_params()),
            __version__,
            {
                "eval_names": eval_names,
                "eval_metric": eval_metric,
                "early_stopping_rounds": early_stopping_rounds,
            },
            Told(feature_names, categorical_feature),
            {"plain_accuracy": plain_accuracy},
        )
        sets = [Rows(*pair, weight) for pair, weight in zip(pairs, weights, strict=True)]
        client = default_client() if self.client is None else self.client
        trained = fit(client, plan, Rows(X, y, sample_weight), sets)
        trained.set_params(**self._local.get_params())  # a seed may have been drawn
        self._local = trained
        return self

    # ── the fitted model ─────────────────────────────────────────────────────────────────────

    def predict(self, X: Any) -> Any:
        """The predicted label of every row: a Dask Series of a DataFrame, an Array of an Array."""
        return self._predicted(X, "predict", self.to_local().classes_.dtype, 1)

    def predict_proba(self, X: Any) -> Any:
        """The probability of every class, per row."""
        return self._predicted(X, "predict_proba", np.dtype(np.float64), 2)

    def decision_function(self, X: Any) -> Any:
        """Raw score per row, or per row and class for more than two classes."""
        n_dimensions = 1 if len(self.to_local().classes_) == 2 else 2
        return self._predicted(X, "decision_function", np.dtype(np.float64), n_dimensions)

    def _predicted(self, X: Any, method: str, kind: Any, n_dimensions: int) -> Any:
        import dask

        X = whole_rows(X)
        # One value in the graph, however many partitions there are.
        local = dask.delayed(self.to_local(), pure=True)
        if isinstance(X, dd.DataFrame):
            meta = _meta(X, kind, n_dimensions, self)
            return X.map_partitions(_answers, local, method, meta=meta)
        classes = len(self.to_local().classes_)
        chunks = (X.chunks[0],) if n_dimensions == 1 else (X.chunks[0], (classes,))
        return da.map_blocks(
            _answers,
            X,
            local,
            method,
            dtype=kind,
            chunks=chunks,
            drop_axis=[1] if n_dimensions == 1 else [],
            meta=np.empty((0,) * n_dimensions, dtype=kind),
        )

    def verify(self, X: Any, y: Any = None, **options: Any) -> DaskVerification:
        """Decide for every instance whether the attacker can flip the decision; lazily.

        The attacker is the one the model was trained for; see `carvegbm.dask.verify`.
        """
        local = self.to_local()
        return asking.verify(local.ensemble_, X, y, local.attacker_, **options)

    def attack(self, X: Any, y: Any = None, **options: Any) -> DaskAttack:
        """A witness for every instance whose decision the attacker can flip; lazily."""
        local = self.to_local()
        return asking.attack(local.ensemble_, X, y, local.attacker_, **options)

    def radius(self, X: Any, y: Any = None, **options: Any) -> DaskRadius:
        """The smallest budget that flips each instance; lazily."""
        local = self.to_local()
        return asking.radius(local.ensemble_, X, y, local.attacker_, **options)

    def robustness_curve(self, X: Any, y: Any = None, **options: Any) -> DaskCurve:
        """Robustness at many budgets; lazily."""
        local = self.to_local()
        return asking.robustness_curve(local.ensemble_, X, y, local.attacker_, **options)

    def robust_score(self, X: Any, y: Any) -> float:
        """Share of instances proven robust."""
        return float(self.verify(X, y).summary().robustness[0])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, without an attack."""
        return float(self.verify(X, y).summary().accuracy)


def _meta(X: Any, kind: Any, n_dimensions: int, estimator: DaskClassifier) -> Any:
    import pandas as pd

    classes = estimator.to_local().classes_
    empty = np.empty((0,) if n_dimensions == 1 else (0, len(classes)), dtype=kind)
    index = X._meta.index[:0]
    if n_dimensions == 1:
        return pd.Series(empty, index=index)
    return pd.DataFrame(empty, index=index, columns=classes.tolist())


def _answers(X: Any, local: Any, method: str) -> Any:
    """What the local estimator says of a partition."""
    if X.shape[0] == 0:
        found = getattr(local, method)(np.zeros((1, X.shape[1])))[:0]
    else:
        found = getattr(local, method)(X)
    if not hasattr(X, "iloc"):
        return found
    import pandas as pd

    if found.ndim == 1:
        return pd.Series(found, index=X.index)
    return pd.DataFrame(found, index=X.index, columns=local.classes_.tolist())


class DaskLargeSpreadClassifier(DaskClassifier):
    """`LargeSpreadClassifier`, trained by all workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the one in use.
    **parameters
        Those of `carvegbm.LargeSpreadClassifier`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from carvegbm import dask as cgd
    >>> from distributed import Client
    >>> X = np.random.default_rng(0).random((400, 4))
    >>> dX, dy = da.from_array(X, chunks=(100, 4)), da.from_array(X[:, 0] > 0.5, chunks=100)
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     model = cgd.DaskLargeSpreadClassifier(client=client, norm="inf", budget=0.01)
    ...     float(model.fit(dX, dy).score(dX, dy)) > 0.9
    True
    >>> model.to_local().predict(X[:1]).dtype.name
    'bool'
    """

    _kind = LargeSpreadClassifier


class DaskRobustClassifier(DaskClassifier):
    """`RobustClassifier`, trained by all workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the one in use.
    **parameters
        Those of `carvegbm.RobustClassifier`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from carvegbm import dask as cgd
    >>> from distributed import Client
    >>> X = np.random.default_rng(0).random((400, 4))
    >>> dX, dy = da.from_array(X, chunks=(100, 4)), da.from_array(X[:, 0] > 0.5, chunks=100)
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     model = cgd.DaskRobustClassifier(
    ...         client=client, norm="inf", budget=0.01, n_estimators=5, n_members=1, pull=0.001
    ...     )
    ...     float(model.fit(dX, dy).score(dX, dy)) > 0.9
    True
    """

    _kind = RobustClassifier
