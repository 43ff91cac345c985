"""Estimators that train on the executors of a Spark cluster.

Comes in: a Spark DataFrame. Goes out: a model that adds predictions to DataFrames and verifies
them, and `to_local()`, the same model as one process has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pyspark.sql import types as T  # noqa: N812
from sklearn.base import BaseEstimator

from carvegbm.errors import CarveError
from carvegbm.parts.shipping import Shipped
from carvegbm.radius import Curve
from carvegbm.spark import questions, reducing
from carvegbm.spark.asking import broadcast, mapped
from carvegbm.spark.columns import Layout, Names, arranged, longer_schema
from carvegbm.spark.labelled import Chosen, Columns, frame
from carvegbm.spark.partitions import matrix, named
from carvegbm.spark.training import fit
from carvegbm.training.columns import AUTO
from carvegbm.training.estimator import Told
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.growing.watching import Metric
from carvegbm.training.teams.member import Plan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SparkClassifier",
    "SparkClassifierModel",
    "SparkLargeSpreadClassifier",
    "SparkRobustClassifier",
]

Self = TypeVar("Self", bound="SparkClassifier")

_OWN = (
    "features_col",
    "label_col",
    "weight_col",
    "validation_indicator_col",
    "prediction_col",
    "probability_col",
    "num_workers",
)


class SparkClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained by several tasks of Spark together."""

    _kind: ClassVar[type[Any]]

    def __init__(
        self,
        *,
        features_col: str | Names = "features",
        label_col: str = "label",
        weight_col: str | None = None,
        validation_indicator_col: str | None = None,
        prediction_col: str = "prediction",
        probability_col: str = "probability",
        num_workers: int | None = 1,
        **parameters: Any,
    ) -> None:
        self.features_col = features_col
        self.label_col = label_col
        self.weight_col = weight_col
        self.validation_indicator_col = validation_indicator_col
        self.prediction_col = prediction_col
        self.probability_col = probability_col
        self.num_workers = num_workers
        self._local = self._kind(**parameters)

    # ── parameters ───────────────────────────────────────────────────────────────────────────

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name: columns, workers, and those of the local estimator."""
        return {**{name: getattr(self, name) for name in _OWN}, **self._local.get_params(deep)}

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name."""
        for name in _OWN:
            if name in params:
                setattr(self, name, params.pop(name))
        self._local.set_params(**params)
        return self

    def __repr__(self) -> str:
        return f"Spark{self._local!r}"

    # ── fitting ──────────────────────────────────────────────────────────────────────────────

    def fit(
        self,
        df: Any,
        *,
        eval_names: str | Sequence[str] | None = None,
        eval_metric: Metric | Sequence[Metric] | None = None,
        early_stopping_rounds: int | None = None,
        feature_names: Sequence[str] | None = None,
        categorical_feature: Any = AUTO,
        plain_accuracy: float | None = None,
    ) -> SparkClassifierModel:
        """Train on the cluster; the further parameters are those of the local estimator's `fit`.

        Parameters
        ----------
        df : Spark DataFrame
            Computed once, and held by the executors: it must fit into their memory. A null is a
            missing value. Texts are categories. Rows are numbered by partition, and by place in
            it; with `num_workers`, Spark decides where a row goes and in which order.
        eval_names, eval_metric, early_stopping_rounds
            About the rows that `validation_indicator_col` marks.
        feature_names : sequence of str, optional
            Names for the model where one column holds all features.
        categorical_feature : list of names or positions, default "auto"
            "auto": the columns of texts.
        plain_accuracy : float, optional

        Returns
        -------
        SparkClassifierModel
            This estimator stays as it is.
        """
        from carvegbm import __version__

        self._require_validation(
            eval_metric=eval_metric, early_stopping_rounds=early_stopping_rounds
        )
        asked = {
            "eval_names": eval_names,
            "eval_metric": eval_metric,
            "early_stopping_rounds": early_stopping_rounds,
        }
        plan = Plan(
            self._kind(**self._local.get_params()),
            __version__,
            asked,
            Told(feature_names, categorical_feature),
            {"plain_accuracy": plain_accuracy},
        )
        columns = Columns(
            self.features_col, self.label_col, self.weight_col, self.validation_indicator_col
        )
        trained, chosen = fit(df, plan, columns, self.num_workers)
        trained.set_params(**self._local.get_params())  # threads are those of tasks there
        return SparkClassifierModel(trained, chosen, self.prediction_col, self.probability_col)

    def _require_validation(self, **asked: Any) -> None:
        """Refuse what would be watched on nothing; what certifies splits rows off by itself."""
        if self.validation_indicator_col is not None or getattr(self._local, "certified", True):
            return
        for name, value in asked.items():
            if value is not None:
                raise CarveError(
                    f"{name} needs validation_indicator_col, a boolean column that marks "
                    "validation rows"
                )


class SparkClassifierModel:
    """A classifier that was trained on Spark.

    It has the local estimator's attributes: `booster_`, `ensemble_`, `attacker_`, `classes_`, ….

    Examples
    --------
    >>> estimator = SparkLargeSpreadClassifier(norm="inf", budget=0.1, features_col=["a"])
    >>> model = estimator.fit(df)  # doctest: +SKIP
    >>> model.transform(df).columns  # doctest: +SKIP
    ['id', 'a', 'label', 'prediction', 'probability']
    >>> model.to_local().save_model("robust.txt")  # doctest: +SKIP
    """

    def __init__(
        self, local: Any, trained_on: Chosen, prediction_col: str, probability_col: str
    ) -> None:
        self._local = local
        self._trained_on = trained_on
        self.prediction_col = prediction_col
        self.probability_col = probability_col

    def __getattr__(self, name: str) -> Any:
        """What training found, under the local estimator's names."""
        if name.startswith("_") or "_local" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._local, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._local!r})"

    def to_local(self) -> Any:
        """The same model as an estimator that takes rows in memory."""
        return self._local

    def transform(self, df: Any) -> Any:
        """The DataFrame with the predicted label, and the probability of every class, per row.

        Features are in the columns that they had in training. Probabilities are arrays in the order
        of `classes_`.
        """
        rows, layout = arranged(df, self.ensemble_, self._trained_on.features, None, None)
        kinds = [
            T.StructField(self.prediction_col, self._trained_on.label_type),
            T.StructField(self.probability_col, T.ArrayType(T.DoubleType(), False)),
        ]
        remedy = "let prediction_col and probability_col name others"
        schema = longer_schema(rows, layout, kinds, remedy)
        work = _Predicting(broadcast(df, Shipped.of(self._local)), layout, tuple(kinds))
        return mapped(rows, partial(_predicted, work), schema)

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def verify(self, df: Any, **options: Any) -> Any:
        """Decide for every row whether the attacker can flip the decision; a DataFrame.

        The attacker is the one the model was trained for, columns are those of training unless
        `options` name others; with label=None, the model's own answers are right. See
        `carvegbm.spark.verify`.
        """
        return questions.verify(df, self.ensemble_, self.attacker_, **self._asked(options))

    def attack(self, df: Any, **options: Any) -> Any:
        """A witness for every row whose decision the attacker can flip; see `verify`."""
        return questions.attack(df, self.ensemble_, self.attacker_, **self._asked(options))

    def radius(self, df: Any, **options: Any) -> Any:
        """The smallest budget that flips each row; see `verify`."""
        return questions.radius(df, self.ensemble_, self.attacker_, **self._asked(options))

    def robustness_curve(
        self, df: Any, *, budgets: float | Iterable[float], **options: Any
    ) -> Curve:
        """Robustness at many budgets; see `verify`."""
        asked = self._asked(options)
        return reducing.robustness_curve(
            df, self.ensemble_, self.attacker_, budgets=budgets, **asked
        )

    def robust_score(self, df: Any) -> float:
        """Share of rows proven robust."""
        return float(self._summary(df).robustness[0])

    def score(self, df: Any) -> float:
        """Accuracy, without an attack."""
        return float(self._summary(df).accuracy)

    def _summary(self, df: Any) -> Any:
        return reducing.summary(self.verify(df, keep=[]), self.attacker_)

    def _asked(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"features": self._trained_on.features, "label": self._trained_on.label, **options}


# ── what tasks do ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Predicting:
    """A model on its way to partitions."""

    broadcast: Any
    """Whose value is a `Shipped`."""
    layout: Layout
    fields: tuple[Any, ...]


def _predicted(work: _Predicting, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every batch with what the model says of it."""
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql.pandas.types import to_arrow_type

    context, first = TaskContext.get(), 0
    assert context is not None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        with named(context.partitionId(), first):
            local = work.broadcast.value.opened()
            local.n_jobs = context.cpus() if local.n_jobs is None else local.n_jobs
            X = _instances(local, work.layout, batch)
            labels, shares = local.predict(X), local.predict_proba(X)
        kinds = [to_arrow_type(field.dataType) for field in work.fields]
        found = [pa.array(labels.tolist(), kinds[0]), pa.array(list(shares), kinds[1])]
        kept = [batch.column(place) for place in range(len(work.layout.kept))]
        names = [*work.layout.kept, *(field.name for field in work.fields)]
        yield pa.RecordBatch.from_arrays([*kept, *found], names=names)
        first += batch.num_rows


def _instances(local: Any, layout: Layout, batch: pa.RecordBatch) -> Any:
    columns = [batch.column(place) for place in layout.features]
    if layout.is_array:
        return matrix(columns[0], local.n_features_in_, layout.names[0])
    return frame(columns, local.feature_names_in_.tolist())


# ── the estimators ───────────────────────────────────────────────────────────────────────────


class SparkLargeSpreadClassifier(SparkClassifier):
    """`LargeSpreadClassifier`, trained by several tasks of Spark together.

    Columns are named as in `xgboost.spark`: `features` is already what the attacker may change.

    Parameters
    ----------
    features_col : str or list of str, default "features"
        A column of arrays or of vectors that holds all features; or a column per feature, of
        numbers, truth values, or texts, which are categories.
    label_col : str, default "label"
    weight_col : str, optional
    validation_indicator_col : str, optional
        A boolean column, true in rows that are not trained on: they are the evaluation set.
    prediction_col, probability_col : str
        What `transform` calls its columns.
    num_workers : int or None, default 1
        Tasks that train together, all at once: the rows are spread over as many partitions. None:
        one per partition, which stay as they are. Where there is no room for so many tasks, Spark
        waits for executors (spark.scheduler.barrier.maxConcurrentTasksCheck.*).
    **parameters
        Those of `carvegbm.LargeSpreadClassifier`; n_jobs is per task, by default spark.task.cpus.

    Examples
    --------
    >>> estimator = SparkLargeSpreadClassifier(
    ...     norm="inf", budget=0.1, features_col=["a"], num_workers=2
    ... )
    >>> model = estimator.fit(df)  # doctest: +SKIP
    >>> model.robust_score(df)  # doctest: +SKIP
    0.8
    >>> model.transform(df).where("id = 150").select("a", "prediction").show()  # doctest: +SKIP
    +----+----------+
    |   a|prediction|
    +----+----------+
    |0.75|      true|
    +----+----------+
    <BLANKLINE>
    """

    _kind = LargeSpreadClassifier


class SparkRobustClassifier(SparkClassifier):
    """`RobustClassifier`, trained by several tasks of Spark together.

    The parameters of columns and workers are those of `SparkLargeSpreadClassifier`, all others
    those of `carvegbm.RobustClassifier`.

    Examples
    --------
    >>> estimator = SparkRobustClassifier(
    ...     norm="inf", budget=0.1, n_estimators=5, pull=0.001, features_col=["a"], num_workers=2
    ... )
    >>> estimator.fit(df).robust_score(df)  # doctest: +SKIP
    0.8
    """

    _kind = RobustClassifier
