"""What the parts of scale.py share: rows that workers make themselves, clusters, questions, tables.

A module of its own, and not scale.py, because workers of Spark and Dask import it by its name.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import carvegbm as cg

FEATURES = 20
NAMES = [f"Column_{i}" for i in range(FEATURES)]
BUDGET = 0.01
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "OFF",
}


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Synthetic:
    """Rows of random numbers; partition i is the same wherever it is made."""

    rows: int
    partition: int
    """Rows per partition; the last one may have fewer."""

    def __len__(self) -> int:
        return math.ceil(self.rows / self.partition)

    def sizes(self) -> tuple[int, ...]:
        last = self.rows - (len(self) - 1) * self.partition
        return (*(self.partition,) * (len(self) - 1), last)

    def instances(self, number: int) -> npt.NDArray[np.float64]:
        return np.random.default_rng([number, 0]).random((self.sizes()[number], FEATURES))

    def part(self, number: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        X = self.instances(number)
        return X, labels(X, number)

    def all(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """All partitions, one after the other, in this process."""
        X = np.empty((self.rows, FEATURES))
        y = np.empty(self.rows, dtype=np.int64)
        for number in range(len(self)):
            place = slice(number * self.partition, (number + 1) * self.partition)
            X[place], y[place] = self.part(number)
        return X, y

    def on_dask(self) -> tuple[Any, Any]:
        """Dask Arrays of X and y, which workers fill."""
        import dask.array as da

        X = da.map_blocks(
            partial(_instances_of, self),
            chunks=(self.sizes(), (FEATURES,)),
            dtype=np.float64,
            meta=np.empty((0, FEATURES)),
        )
        empty = np.empty(0, dtype=np.int64)
        return X, da.map_blocks(_labels_of, X, drop_axis=1, dtype=np.int64, meta=empty)

    def on_spark(self, spark: Any) -> Any:
        """A Spark DataFrame of part, features and label, which executors fill."""
        columns = ", ".join(f"{name} double" for name in NAMES)
        numbers = spark.range(0, len(self), 1, len(self))
        return numbers.mapInPandas(partial(_frames_of, self), f"part long, {columns}, label long")


def labels(X: npt.NDArray[np.float64], number: int) -> npt.NDArray[np.int64]:
    noise = np.random.default_rng([number, 1]).normal(size=len(X))
    return (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * noise > 0.8).astype(np.int64)


def _instances_of(data: Synthetic, block_id: tuple[int, ...]) -> npt.NDArray[np.float64]:
    return data.instances(block_id[0])


def _labels_of(X: npt.NDArray[np.float64], block_id: tuple[int, ...]) -> npt.NDArray[np.int64]:
    return labels(X, block_id[0])


def _frames_of(data: Synthetic, batches: Iterator[Any]) -> Iterator[Any]:
    import pandas as pd

    for batch in batches:
        for number in batch["id"]:
            X, y = data.part(number)
            columns = {name: X[:, i] for i, name in enumerate(NAMES)}
            yield pd.DataFrame({"part": number, **columns, "label": y})


def synthetic_model() -> Any:
    """A large-spread classifier for norm inf, hence for norm 1 with the same budget, too."""
    X, y = Synthetic(20_000, 20_000).all()
    model = cg.LargeSpreadClassifier(
        norm="inf", budget=BUDGET, n_estimators=60, num_leaves=16, random_state=0, n_jobs=1
    )
    return model.fit(X, y)


# ── clusters ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def dask_client(workers: int) -> Iterator[Any]:
    """A client of so many worker processes of one thread each."""
    from distributed import Client, LocalCluster

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # two clusters at a time would want one port
            worker_dashboard_address=None,
            local_directory=folder,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(workers)
        yield client


@contextmanager
def spark_session(cores: int, memory: str = "2g") -> Iterator[Any]:
    """Spark in this machine; one per process, since its Java outlives the session."""
    from pyspark.sql import SparkSession

    # Said for every call, which would tear the tables apart.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    here = str(Path(__file__).resolve().parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [here, os.environ.get("PYTHONPATH", "")])
    )
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master(f"local[{cores}]")
        own = {"spark.driver.memory": memory, "spark.local.dir": folder}
        for name, value in {**SPARK, **own}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            with suppress(Exception):  # an interrupt may have ended its Java
                session.stop()


def has_spark() -> bool:
    import importlib.util
    import shutil

    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") or (home and shutil.which("java", path=f"{home}/bin"))
    if java and importlib.util.find_spec("pyspark"):
        return True
    print("no Spark: it needs pyspark and Java")
    return False


def persisted(client: Any, data: Synthetic) -> tuple[Any, Any]:
    """X and y in the memory of the workers."""
    from distributed import wait

    X, y = client.persist(list(data.on_dask()))
    with client.as_current():
        wait([X, y])
    return X, y


# ── questions ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    """A question, put to one process, to Dask and to Spark; every row is decided."""

    question: str
    """`verify`, with the worst margin of every row, or `radius`, up to the budget."""
    norm: Any
    budget: float

    @property
    def attacker(self) -> cg.Attacker:
        return cg.Attacker(self.norm, self.budget)

    @property
    def options(self) -> dict[str, Any]:
        # What time permits to prove is not the same in every run.
        own = {"max_budget": self.budget} if self.question == "radius" else {"exact_margin": True}
        return {"timeout": math.inf, "threads": 1, **own}

    def alone(self, model: Any, X: Any, y: Any) -> Mapping[str, npt.NDArray[Any]]:
        found = getattr(cg, self.question)(model, X, y, self.attacker, **self.options)
        columns: Mapping[str, npt.NDArray[Any]] = found.columns()
        return columns

    def on_dask(self, model: Any, X: Any, y: Any) -> Any:
        from carvegbm import dask as cgd

        return getattr(cgd, self.question)(model, X, y, self.attacker, **self.options).answers

    def on_spark(self, df: Any, model: Any, features: Any, keep: str) -> Any:
        from carvegbm import spark as cgs

        ask = getattr(cgs, self.question)
        return ask(
            df,
            model,
            self.attacker,
            features=features,
            label="label",
            keep=keep,
            **self.options,
        )


class Digest:
    """A hash of the columns of an answer but `seconds`, the same in whatever batches they come."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}
        self.rows = 0

    def add(self, columns: Mapping[str, Any]) -> Digest:
        for name in columns:
            if name not in ("seconds", "part"):
                column = np.asarray(columns[name])
                self._columns.setdefault(name, sha256()).update(_content(column))
        self.rows += len(column)
        return self

    def __str__(self) -> str:
        ends = "".join(f"{name} {found.hexdigest()}\n" for name, found in self._columns.items())
        return sha256(ends.encode()).hexdigest()


def _content(column: npt.NDArray[Any]) -> bytes:
    if column.dtype.kind == "f":
        # Spark has null for NaN, which comes back as some NaN.
        return np.where(np.isnan(column), np.nan, column).tobytes()
    if column.dtype.kind == "b":
        return column.tobytes()
    return "".join(f"{value}\n" for value in column.tolist()).encode()


# ── measuring ────────────────────────────────────────────────────────────────────────────────


def in_turn(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each, run one after the other in every repeat, after one to warm up."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, record in zip(functions, times, strict=True):
            started = time.perf_counter()
            function()
            if turn:
                record.append(time.perf_counter() - started)
    return [statistics.median(record) for record in times]


def heading(title: str, *columns: str) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def line(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
