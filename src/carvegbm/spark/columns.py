"""Which columns of a Spark DataFrame are features, which is the label, which are kept.

Comes in: a DataFrame, and names that a user gives. Goes out: the DataFrame of the columns that
executors need, where each of them stands there (`Layout`), and the schema of what comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from carvegbm.data.names import did_you_mean, is_same_name, listed, order_of
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.model.ensemble import Ensemble
from carvegbm.parts.questions import Kinds

__all__ = [
    "Layout",
    "Names",
    "answer_schema",
    "arranged",
    "is_connect",
    "plain_columns",
    "require_frame",
]

Names = Sequence[str]

_OF_KIND = {str: T.StringType, bool: T.BooleanType, float: T.DoubleType, object: T.StringType}
_NUMBERS = (T.NumericType, T.BooleanType, T.NullType)
_LABELS_MUST_BE = "labels must be whole numbers, truth values or texts"


@dataclass(frozen=True)
class Layout:
    """Where the columns of the batches that executors get are."""

    kept: tuple[str, ...]
    """What the first ones are called, which go back as they came."""
    features: tuple[int, ...]
    """In the model's order; or a column of arrays alone."""
    names: tuple[str, ...]
    """What the features are called; or the column of arrays."""
    is_array: bool
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
    if array is not None and not isinstance(df.schema[array].dataType, T.ArrayType):
        columns.append(_as_array(df, array))
        at = (len(sent),)
    layout = Layout(
        tuple(kept),
        at,
        (array,) if array is not None else ensemble.feature_names or tuple(used),
        array is not None,
        place[labels[0]] if labels else None,
    )
    # mapInArrow looks columns up by their names, and takes a dot in one for a path.
    return df.select(*(column.alias(f"c{i}") for i, column in enumerate(columns))), layout


def answer_schema(df: Any, layout: Layout, kinds: Kinds) -> Any:
    """The columns that are kept, then those of the answer, all of which may be null.

    Raises `CarveError` where two of them would have one name.
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


def plain_columns(df: Any, names: Names) -> Any:
    """These columns, of which the DataFrame must have every one once."""
    return df.select(*(_quoted(name) for name in names))


def _refuse_doubles(df: Any, names: Iterable[str]) -> None:
    """Refuse a name that several columns have, or that is that of several to Spark."""
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
    """What two names have in common that are one to Spark."""
    exactly = df.sparkSession.conf.get("spark.sql.caseSensitive", "false").lower() == "true"
    return str if exactly else str.lower


def _require_kind(df: Any, name: str, kinds: tuple[type, ...], what: str) -> None:
    """Refuse a column of another type; `what` says what it must be."""
    kind = df.schema[name].dataType
    if not isinstance(kind, kinds):
        raise DataError(f"column {name!r} holds {kind.simpleString()}, {what}; cast it first")


def _as_array(df: Any, name: str) -> Any:
    """A column of arrays, or of vectors, as one of arrays; null where it is null."""
    if isinstance(df.schema[name].dataType, T.ArrayType):
        return _quoted(name)
    from pyspark.ml.functions import vector_to_array

    return F.when(_quoted(name).isNotNull(), vector_to_array(_quoted(name)))


def is_connect(df: Any) -> bool:
    """Whether the DataFrame is one of Spark Connect, which has neither broadcasts nor RDDs."""
    return "connect" in type(df).__module__


def _quoted(name: str) -> Any:
    """The column of exactly this name."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def _names_of(names: str | Names, what: str) -> list[str]:
    """One name or several."""
    if isinstance(names, str):
        return [names]
    try:
        return list(names)
    except TypeError:
        raise CarveError(
            f"{what} must be a column's name or a list of them, got {shown(names)}"
        ) from None


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
    """The columns that hold the features, in the model's order."""
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
