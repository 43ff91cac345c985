"""Select the columns of a Spark DataFrame that a query needs, and describe those of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from carvegbm.data.names import did_you_mean, is_same_name, listed, order_of
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.model.ensemble import Ensemble
from carvegbm.scale.query import ColumnKinds

__all__ = ["Layout", "Names", "answer_schema", "is_connect", "select_columns"]

Names = Sequence[str]

_OF_KIND = {str: T.StringType, bool: T.BooleanType, float: T.DoubleType, object: T.StringType}
_NUMBERS = (T.NumericType, T.BooleanType, T.NullType)
_LABELS_MUST_BE = "labels must be whole numbers, truth values or texts"


@dataclass(frozen=True)
class Layout:
    """Positions of the columns in the batches that executors get."""

    kept: tuple[str, ...]
    """Names of the first columns, which are passed on."""
    features: tuple[int, ...]
    """In the model's order; or only the column of arrays."""
    names: tuple[str, ...]
    """Names of the features, or of the column of arrays."""
    is_array: bool
    label: int | None


def select_columns(
    df: Any,
    ensemble: Ensemble,
    features: str | Names | None,
    label: str | None,
    keep: str | Names | None,
) -> tuple[Any, Layout]:
    """Return the columns that executors need, those to keep first, and their layout."""
    if not hasattr(df, "mapInArrow"):
        raise CarveError(
            f"df must be a Spark DataFrame, got {shown(type(df).__name__)}; for data in memory use "
            "the functions of carvegbm"
        )
    there = list(df.columns)
    kept = there if keep is None else [_called(n, there, "keep") for n in _names_of(keep, "keep")]
    array = _array_column(df, features)
    used = _feature_columns(df, ensemble, features) if array is None else [array]
    labels = [] if label is None else [_called(label, there, "label")]
    sent = {name: _quoted(name) for name in (*kept, *used, *labels)}
    _refuse_doubles(df, sent)
    for name in labels:
        _require_kind(df, name, (*_NUMBERS, T.StringType), _LABELS_MUST_BE)
    kept, place = list(dict.fromkeys(kept)), {name: at for at, name in enumerate(sent)}
    columns, at = list(sent.values()), tuple(place[name] for name in used)
    for feature, name in enumerate(used):  # kept decimals stay decimals
        if isinstance(df.schema[name].dataType, T.DecimalType):
            at = (*at[:feature], len(columns), *at[feature + 1 :])
            columns.append(_quoted(name).cast("double"))
    if array is not None and not isinstance(df.schema[array].dataType, T.ArrayType):
        columns.append(_as_array(df, array))
        at = (len(columns) - 1,)
    layout = Layout(
        tuple(kept),
        at,
        (array,) if array is not None else ensemble.feature_names or tuple(used),
        array is not None,
        place[labels[0]] if labels else None,
    )
    # mapInArrow looks columns up by their names, and takes a dot in one for a path.
    return df.select(*(column.alias(f"c{i}") for i, column in enumerate(columns))), layout


def answer_schema(df: Any, layout: Layout, kinds: ColumnKinds) -> Any:
    """Return the schema of the kept columns and the answers, which may be null.

    Raises `CarveError` if two of them have the same name.
    """
    fields = [T.StructField(name, _OF_KIND[kind]()) for name, kind in kinds.items()]
    same = _spelling(df)
    taken = {same(name): name for name in layout.kept}
    for field in fields:
        clash = taken.get(same(field.name))
        if clash is not None:
            raise CarveError(
                f"df has a column {clash!r}, and so has the answer; rename it with "
                "df.withColumnRenamed, or give keep=[…] without it"
            )
    kept = [
        T.StructField(name, field.dataType, field.nullable, field.metadata)
        for name, field in zip(layout.kept, df.schema.fields, strict=False)
    ]
    return T.StructType([*kept, *fields])


def _refuse_doubles(df: Any, names: Iterable[str]) -> None:
    """Refuse names of several columns; by default Spark ignores case."""
    same, there = _spelling(df), dict[str, list[str]]()
    for name in df.columns:
        there.setdefault(same(name), []).append(name)
    for name in names:
        alike = there[same(name)]
        if alike.count(name) > 1:
            raise DataError(f"df has several columns called {name!r}; rename them first")
        if len(alike) > 1:
            raise DataError(
                f"df has several columns called {name!r}, to Spark {listed(alike)} are one name; "
                "rename them with df.toDF, or set spark.sql.caseSensitive to true"
            )


def _spelling(df: Any) -> Callable[[str], str]:
    """Return a function under which names that Spark does not distinguish are equal."""
    exactly = df.sparkSession.conf.get("spark.sql.caseSensitive", "false").lower() == "true"
    return str if exactly else str.lower


def _require_kind(df: Any, name: str, kinds: tuple[type, ...], what: str) -> None:
    """Refuse a column of another type; `what` says which type it must have."""
    kind = df.schema[name].dataType
    if not isinstance(kind, kinds):
        raise DataError(f"column {name!r} holds {kind.simpleString()}, {what}; cast it first")


def _as_array(df: Any, name: str) -> Any:
    """Return a column of arrays or vectors as a column of arrays; null stays null."""
    if isinstance(df.schema[name].dataType, T.ArrayType):
        return _quoted(name)
    from pyspark.ml.functions import vector_to_array

    return F.when(_quoted(name).isNotNull(), vector_to_array(_quoted(name)))


def is_connect(df: Any) -> bool:
    """Return whether the DataFrame is one of Spark Connect, which has no broadcasts."""
    return "connect" in type(df).__module__


def _quoted(name: str) -> Any:
    """Return the column of exactly this name, which may contain dots."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def _names_of(names: str | Names, what: str) -> list[str]:
    """Return one name or several as a list."""
    if isinstance(names, str):
        return [names]
    try:
        return list(names)
    except TypeError:
        raise CarveError(
            f"{what} must be a column's name or a list of them, got {shown(names)}"
        ) from None


def _called(name: Any, there: Names, what: str) -> str:
    """Return the column of this name, or the only one with a spelling of it."""
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
    """Return the name of the column of arrays or vectors, if `features` names one."""
    given = [] if features is None else _names_of(features, "features")
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
    """Return the columns that hold the features, in the model's order."""
    known = ensemble.feature_names
    if features is None and known is None:
        raise CarveError(
            "the model does not name its features; give features=[…], the columns in its order"
        )
    given = list(known or ()) if features is None else _names_of(features, "features")
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
