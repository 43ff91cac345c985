"""One Spark for all tests of a process: two threads, no ports but on the loopback."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import carvegbm as cg

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",  # to compile takes longer than these jobs
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",  # errors are what some tests are about
}


@pytest.fixture(scope="session")
def java() -> None:
    """Spark is a program for Java."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and (
        home is None or shutil.which("java", path=f"{home}/bin") is None
    ):
        pytest.skip("Spark needs Java; install one (Debian: default-jre-headless)")


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[Any]:  # noqa: ARG001
    sql = pytest.importorskip("pyspark.sql")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = sql.SparkSession.builder.master("local[2]")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def stump() -> cg.Ensemble:
    """One feature, which is called a: below 0.5 is class 0."""
    tree = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    return cg.Ensemble.from_trees([tree], n_features=1, feature_names=["a"])


@pytest.fixture(scope="session")
def few(spark: Any) -> Any:
    """Rows of the stump: right and far from its threshold, right and near it."""
    return spark.createDataFrame([(0, 0.1, 0), (1, 0.45, 0)], "id int, a double, label int")


@pytest.fixture(scope="session")
def split_by() -> Callable[..., Any]:
    """Rows of a DataFrame with an `id` in these partitions: a function of id, and how many."""

    def split(df: Any, part: Callable[[int], int], count: int) -> Any:
        pairs = df.rdd.map(lambda row: (row.id, row)).partitionBy(count, part).values()
        return df.sparkSession.createDataFrame(pairs, df.schema)

    return split


@pytest.fixture(scope="session")
def planted() -> Callable[..., cg.Ensemble]:
    """A random ensemble over four features, with thresholds at tenths."""

    def plant(seed: int, task: str = "binary", **options: Any) -> cg.Ensemble:
        rng = np.random.default_rng(seed)
        outputs = 3 if task == "multiclass" else 1

        def tree(depth: int) -> dict[str, Any]:
            if depth == 0:
                scores = rng.normal(size=outputs).round(2).tolist()
                return {"score": scores if outputs > 1 else scores[0]}
            return {
                "feature": int(rng.integers(4)),
                "threshold": float(rng.integers(1, 10)) / 10,
                "missing": str(rng.choice(["left", "right"])),
                "left": tree(depth - 1),
                "right": tree(depth - 1),
            }

        trees = [tree(int(rng.integers(1, 4))) for _ in range(6)]
        return cg.Ensemble.from_trees(trees, n_features=4, task=task, **options)

    return plant
