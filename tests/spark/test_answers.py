"""Answers about a Spark DataFrame are those of one process, row by row."""

from __future__ import annotations

import datetime
import decimal
import doctest
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.data.files import load_table

pytest.importorskip("pyspark")
cgs = pytest.importorskip("carvegbm.spark")

FEATURES = ["a", "b", "c", "d"]
TASKS = ["binary", "multiclass", "binary"]
ATTACKERS = [cg.Attacker("inf", 0.15), cg.Attacker(1, 0.2), cg.Attacker(0, 1)]


def by_id(df: Any) -> dict[str, list[Any]]:
    """The columns of a DataFrame, its rows in the order of their ids, each there once."""
    rows = sorted(df.collect(), key=lambda row: row.id)
    assert [row.id for row in rows] == list(range(len(rows)))
    return {name: [row[name] for row in rows] for name in df.columns}


def agree(found: Mapping[str, list[Any]], known: Mapping[str, Any]) -> None:
    """All columns but those of time; what is NaN in one process is null."""
    for name in known.keys() - {"seconds"}:
        expected = [None if value != value else value for value in known[name].tolist()]
        assert found[name] == expected, name


def on_spark(spark: Any, X: np.ndarray, y: np.ndarray | None) -> Any:
    rows = [
        (i, *(None if math.isnan(v) else v for v in x), None if y is None else y[i])
        for i, x in enumerate(X.tolist())
    ]
    columns = ", ".join(f"{name} double" for name in FEATURES)
    return spark.createDataFrame(rows, f"id int, {columns}, label int")


def random_rows(seed: int, count: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 11, size=(count, 4)) / 10 + rng.choice([0, 0.03], size=(count, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize(("task", "attacker"), list(zip(TASKS, ATTACKERS, strict=True)), ids=str)
def test_random_ensembles_in_uneven_and_empty_partitions(
    spark: Any, planted: Callable[..., Any], split_by: Any, task: str, attacker: cg.Attacker
) -> None:
    model, X = planted(3, task), random_rows(4)
    y = np.random.default_rng(5).integers(0, len(model.classes), len(X))
    df = split_by(on_spark(spark, X, y.tolist()), lambda i: (0, 2, 2, 2, 5)[i % 5], 6)
    options = {"features": FEATURES, "label": "label"}

    agree(
        by_id(cgs.verify(df, model, attacker, **options)),
        cg.verify(model, X, y, attacker).columns(),
    )
    witnesses = cg.attack(model, X, y, attacker)
    assert witnesses.success.any()
    agree(
        by_id(cgs.attack(df, model, attacker, **options)),
        {**witnesses.columns(), **witnesses.witness_columns()},
    )
    radii = cg.radius(model, X, y, attacker)
    agree(by_id(cgs.radius(df, model, attacker, **options)), radii.columns())


def test_the_sample_model_by_its_own_names_without_labels(spark: Any, sample_folder: Path) -> None:
    model = cg.load(sample_folder / "sample_model.txt")
    table = load_table(sample_folder / "sample_data.csv")
    attacker = cg.Attacker("inf", 0.02)
    names = list(reversed(model.feature_names))
    rows = [(i, *x) for i, x in enumerate(table.X[:, ::-1].tolist())]
    df = spark.createDataFrame(rows, ["id", *names])
    found = cgs.verify(df, str(sample_folder / "sample_model.txt"), attacker, keep="id")
    agree(by_id(found), cg.verify(model, table.X, None, attacker).columns())


def test_no_rows_have_no_answers(spark: Any, few: Any, stump: cg.Ensemble) -> None:
    nowhere = spark.createDataFrame(spark.sparkContext.emptyRDD(), few.schema)
    assert nowhere.rdd.getNumPartitions() == 0
    for nothing in (few.where("id > 7"), nowhere):
        assert cgs.verify(nothing, stump, cg.Attacker("inf", 0.1), label="label").collect() == []


def test_what_is_not_known_is_null(few: Any, stump: cg.Ensemble) -> None:
    """To Spark, NaN is larger than every number."""
    found = cgs.radius(few, stump, cg.Attacker("inf"), max_budget=0.2, label="label")
    assert [row.id for row in found.where("radius is null").collect()] == [0]
    assert found.where("radius > 0.1").collect() == []


def test_arrays_and_vectors_hold_the_features(spark: Any, planted: Callable[..., Any]) -> None:
    from pyspark.ml.linalg import Vectors

    model, attacker = planted(11), ATTACKERS[0]
    X = random_rows(12)
    y = model.decide(X)
    as_lists = [[None if math.isnan(v) else v for v in x] for x in X.tolist()]
    arrays = spark.createDataFrame(
        [(i, *row) for i, row in enumerate(zip(as_lists, y.tolist(), strict=True))],
        "id int, x array<double>, label int",
    )
    known = cg.verify(model, X, y, attacker).columns()
    agree(by_id(cgs.verify(arrays, model, attacker, features="x", label="label")), known)

    full = np.nan_to_num(X)
    vectors = [
        Vectors.dense(x) if i % 2 else Vectors.sparse(4, [(j, v) for j, v in enumerate(x) if v])
        for i, x in enumerate(full.tolist())
    ]
    df = spark.createDataFrame(list(enumerate(vectors)), ["id", "x"])
    found = by_id(cgs.verify(df, model, attacker, features=["x"]))
    agree(found, cg.verify(model, full, None, attacker).columns())
    assert found["x"] == vectors

    whole = spark.createDataFrame(
        [(i, (10 * x).astype(int).tolist()) for i, x in enumerate(full)], "id int, x array<bigint>"
    )
    agree(
        by_id(cgs.verify(whole, model, attacker, features="x")),
        cg.verify(model, (10 * full).astype(int), None, attacker).columns(),
    )


def test_columns_may_be_of_any_numeric_type_and_hold_nulls(
    spark: Any, planted: Callable[..., Any]
) -> None:
    model, attacker = planted(13), ATTACKERS[0]
    rng = np.random.default_rng(14)
    X = np.column_stack(
        [
            rng.integers(0, 2, 40),
            np.float32(rng.random(40)),
            rng.integers(0, 2, 40),
            rng.integers(0, 11, 40) / 10,
        ]
    ).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    kinds = (int, float, bool, lambda v: decimal.Decimal(f"{v:.1f}"))
    rows = [
        (i, *(None if v != v else kind(v) for v, kind in zip(x, kinds, strict=True)))
        for i, x in enumerate(X.tolist())
    ]
    df = spark.createDataFrame(
        rows, "id int, a bigint, b float, c boolean, d decimal(3, 1)"
    ).repartition(2)
    agree(
        by_id(cgs.verify(df, model, attacker, features=FEATURES)),
        cg.verify(model, X, None, attacker).columns(),
    )


def test_texts_are_labels_of_categories_and_of_classes(spark: Any) -> None:
    pandas = pytest.importorskip("pandas")
    from lightgbm import LGBMClassifier

    rng = np.random.default_rng(15)
    X = pandas.DataFrame(
        {"size": rng.random(200), "colour": rng.choice(["blue", "green", "red"], 200)}
    )
    y = np.where((X["colour"] == "red") ^ (X["size"] > 0.6), "yes", "no")
    X["colour"] = X["colour"].astype("category")
    fitted = LGBMClassifier(n_estimators=5, min_child_samples=5, verbose=-1).fit(X, y)
    attacker = cg.Attacker(0, 1)
    rows = list(zip(range(200), X["size"].tolist(), X["colour"].tolist(), y.tolist(), strict=True))
    rows[3] = (3, rows[3][1], None, rows[3][3])
    X.loc[3, "colour"] = None
    df = spark.createDataFrame(rows, "id int, size double, colour string, answer string")

    known = cg.attack(fitted, X, y, attacker)
    found = by_id(cgs.attack(df, fitted, attacker, label="answer"))
    assert set(found["witness colour"]) >= {"blue", "green", "red"}
    agree(found, known.columns())
    frame = known.to_frame()
    assert found["witness colour"] == [
        v if isinstance(v, str) else None for v in frame["witness colour"].tolist()
    ]


def test_what_is_kept_comes_back_as_it_was(spark: Any, stump: cg.Ensemble) -> None:
    when = datetime.datetime(2024, 2, 29, 12, 30)
    rows = [
        (2**60 + 1, None, 0.25, when, [1, None], {"k": 1.5}, decimal.Decimal("1.10"), b"\x00"),
        (None, float("nan"), 0.75, None, None, None, None, None),
    ]
    df = spark.createDataFrame(
        rows,
        "`odd.name` bigint, `back``tick` double, a double, t timestamp, l array<int>, "
        "m map<string, double>, x decimal(9, 2), y binary",
    )
    kept = [c for c in df.columns if c != "a"]
    found = cgs.verify(df, stump, cg.Attacker("inf", 0.1), keep=kept)
    assert found.columns[: len(kept)] == kept
    before = df.select(*(f"`{c.replace('`', '``')}`" for c in kept)).collect()
    assert [str(row[: len(kept)]) for row in found.collect()] == [str(tuple(row)) for row in before]


@pytest.mark.parametrize("name", ["verify", "attack", "radius"])
def test_examples_run(few: Any, stump: cg.Ensemble, name: str) -> None:
    attacker = cg.Attacker("inf", 0.1)
    names = {"df": few, "model": stump, "attacker": attacker, name: getattr(cgs, name)}
    names["Attacker"] = cg.Attacker
    text = getattr(cgs, name).__doc__.replace("# doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
