"""Which columns of a Spark DataFrame are features, which is the label, which are kept.

Comes in: a DataFrame, and names that a user gives. Goes out: the DataFrame of the columns that
executors need, where each of them stands there (`Layout`), and the schema of what comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.instances.columns import did_you_mean, is_same_name, listed, order_of
from carvegbm.parts.questions import Kinds

__all__ = ["Layout", "answer_schema", "arranged", "plain_columns", "require_frame"]

Names = Sequence[str]

_OF_KIND = {str: T.StringType, bool: T.BooleanType, float: T.DoubleType, object: T.StringType}
_NUMBERS = (T.NumericType, T.BooleanType, T.NullType)


@dataclass(frozen=True)
class Layout:
    """Where the columns of the batches that executors get are."""

    kept: int
    """The first so many go back as they came."""
    features: tuple[int, ...]
    """In the model's order; or a column of arrays alone."""
    names: tuple[str, ...] | None
    """What the features are called; None of a column of arrays."""
    label: int | None


def require_frame(df: Any) -> None:
    """Refuse what is no Spark DataFrame."""
    if not hasattr(df, "mapInArrow"):
        raise CarveError(
            f"df must be a Spark DataFrame, got {shown(type(df).__name__)}; rows in this process "
            "are for the functions of carvegbm itself"
        )


def arranged(
    df: Any,
    ensemble: Ensemble,
    features: str | Names | None,
    label: str | None,
    keep: str | Names | None,
) -> tuple[Any, Layout]:
    """The columns that executors need, those to keep first, and where they are."""
    require_frame(df)
    there = list(df.columns)
    kept = there if keep is None else [_called(name, there, "keep") for name in _listed(keep)]
    sent = {name: _column(name) for name in dict.fromkeys(kept)}
    array = _array_column(df, features)
    names: tuple[str, ...] | None = None
    if array is None:
        used = _feature_columns(df, ensemble, features)
        names = ensemble.feature_names or tuple(used)
        sent |= {name: _column(name) for name in used}
        columns = list(sent)
    elif isinstance(df.schema[array].dataType, T.ArrayType):
        sent[array] = _column(array)
        columns, used = list(sent), [array]
    else:
        from pyspark.ml.functions import vector_to_array

        as_array = f"{array} as an array"
        sent[as_array] = vector_to_array(_column(array)).alias(as_array)
        columns, used = list(sent), [as_array]
    if label is not None:
        label = _called(label, there, "label")
        sent[label] = _column(label)
        columns = list(sent)
    for name in columns:
        if there.count(name) > 1:
            raise DataError(f"df has several columns called {name!r}; rename them first")
    layout = Layout(
        len(dict.fromkeys(kept)),
        tuple(map(columns.index, used)),
        names,
        None if label is None else columns.index(label),
    )
    return df.select(*sent.values()), layout


def answer_schema(df: Any, layout: Layout, kinds: Kinds) -> Any:
    """The columns that are kept, then those of the answer, all of which may be null.

    Raises `CarveError` where two of them would have one name.
    """
    kept = df.schema.fields[: layout.kept]
    exactly = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    taken = {field.name if exactly else field.name.lower(): field.name for field in kept}
    for name in kinds:
        clash = taken.get(name if exactly else name.lower())
        if clash is not None:
            raise CarveError(
                f"df has a column {clash!r}, and so has the answer; rename it with "
                f"df.withColumnRenamed, or give keep=[…] without it"
            )
    return T.StructType(
        [*kept, *(T.StructField(name, _OF_KIND[kind]()) for name, kind in kinds.items())]
    )


def plain_columns(df: Any, names: Names) -> Any:
    """These columns, of which the DataFrame must have every one once."""
    return df.select(*(_column(name) for name in names))


def _column(name: str) -> Any:
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def _listed(names: str | Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _called(name: Any, there: Names, what: str) -> str:
    """A column by its name, or by another spelling of it that only one column goes by."""
    if name in there:
        return str(name)
    alike = [other for other in there if isinstance(name, str) and is_same_name(name, other)]
    if len(alike) != 1:
        raise DataError(
            f"{what}: df has no column {shown(name)}; it has {listed(there)}"
            f"{did_you_mean(name, there)}"
        )
    return alike[0]


def _array_column(df: Any, features: str | Names | None) -> str | None:
    """The column of arrays or vectors that holds all features, if one is given."""
    given = [] if features is None else _listed(features)
    if len(given) != 1:
        return None
    name = _called(given[0], df.columns, "features")
    kind = df.schema[name].dataType
    if isinstance(kind, T.ArrayType):
        if not isinstance(kind.elementType, _NUMBERS):
            raise DataError(
                f"column {name!r} holds {kind.simpleString()}; features must be arrays of numbers"
            )
        return name
    return name if kind.simpleString() == "vector" else None


def _feature_columns(df: Any, ensemble: Ensemble, features: str | Names | None) -> list[str]:
    """The columns that hold the features, in the model's order."""
    known = ensemble.feature_names
    if features is None and known is None:
        raise CarveError(
            "the model does not name its features; give features=[…], the columns in its order"
        )
    given = list(known or ()) if features is None else _listed(features)
    used = [_called(name, df.columns, "features") for name in given]
    if len(used) != ensemble.n_features:
        raise DataError(
            f"features names {len(used)} columns, the model has {ensemble.n_features} features"
        )
    order = None if known is None else order_of(used, known, "features")
    used = used if order is None else [used[place] for place in order]
    for feature, name in enumerate(used):
        kind = df.schema[name].dataType
        may_be = _NUMBERS + ((T.StringType,) if feature in ensemble.categories else ())
        if not isinstance(kind, may_be):
            raise DataError(
                f"column {name!r} holds {kind.simpleString()}, "
                f"{ensemble.feature_name(feature)} must be numbers; cast it first"
            )
    return used
