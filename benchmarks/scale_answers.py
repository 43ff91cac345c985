"""Two parts of scale.py: that answers are those of one process, and how much memory they take."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

import carvegbm as cg
from carvegbm_experiments import datasets
from scale_setup import (
    BUDGET,
    NAMES,
    Asked,
    Digest,
    Synthetic,
    dask_client,
    has_spark,
    heading,
    line,
    shown,
    spark_session,
    synthetic_model,
)

IMAGE_BUDGETS = {"inf": 0.01, 1: 0.1}
IMAGE_CUTS = (0.02, 0.33, 0.34, 0.71, 0.9)
"""Where the partitions of the images end, as shares of the rows."""
SYNTHETIC = [Asked(what, norm, BUDGET) for what in ("verify", "radius") for norm in ("inf", 1)]


def load_images(options: argparse.Namespace) -> datasets.Dataset | None:
    """Fashion-MNIST 0 vs 3, if its files are there."""
    if not (options.data / "train-images-idx3-ubyte.gz").exists():
        print(f"no idx files in {options.data}: nothing about Fashion-MNIST")
        return None
    return datasets.load("fmnist", folder=options.data, download=False)


# ── equal ────────────────────────────────────────────────────────────────────────────────────


def equal(options: argparse.Namespace) -> None:
    """Answers of Dask and of Spark beside those of one process."""
    with_spark = has_spark()
    images = load_images(options)
    if images is not None:
        equal_images(options, images, with_spark)
    equal_synthetic(options, with_spark)


def equal_images(options: argparse.Namespace, images: datasets.Dataset, with_spark: bool) -> None:
    X, y = images.X[: options.image_rows], images.y[: options.image_rows]
    models = image_models(images.split(seed=0))
    asked = [
        (name, model, Asked(what, norm, IMAGE_BUDGETS[norm]))
        for (name, norm), model in models.items()
        for what in ("verify", "radius")
    ]
    known = [one.alone(model, X, y) for _, model, one in asked]
    found: dict[str, list[Any]] = {"Dask": [], "Spark": []}
    with dask_client(2) as client:
        import dask.array as da

        ends = [0, *(int(cut * len(X)) for cut in IMAGE_CUTS), len(X)]
        chunks = tuple(np.diff(ends).tolist())
        arrays = da.from_array(X, chunks=(chunks, X.shape[1])), da.from_array(y, chunks=(chunks,))
        for _, model, one in asked:
            found["Dask"].append(client.compute(one.on_dask(model, *arrays)).result())
    if with_spark:
        with tempfile.TemporaryDirectory() as folder, spark_session(2) as session:
            write_images(Path(folder), X, y)
            df = session.read.parquet(folder)
            for _, model, one in asked:
                out = one.on_spark(df, model, "pixels", "id").toPandas()
                found["Spark"].append(out.sort_values("id").drop(columns="id"))
    heading(
        f"Answers on Fashion-MNIST 0 vs 3, {len(X):,} rows: rows that are equal in all columns",
        "question",
        "norm",
        "budget",
        "model",
        "Dask",
        "Spark",
    )
    for place, ((name, _, one), truth) in enumerate(zip(asked, known, strict=True)):
        counts = [
            f"{rows_alike(truth, answers[place]):,} of {len(X):,}" if answers else "–"
            for answers in found.values()
        ]
        line(one.question, one.norm, one.budget, name, *counts)


def image_models(split: Any) -> dict[tuple[str, Any], cg.Ensemble]:
    """By name and norm; the plain one is small, so that all its rows can be decided."""
    X, y = split.X_train, split.y_train
    common = {"random_state": 0, "n_jobs": 1}
    small = lightgbm.LGBMClassifier(n_estimators=30, num_leaves=8, verbose=-1, **common)
    plain = cg.load(small.fit(X, y).booster_)
    found = {}
    for norm, budget in IMAGE_BUDGETS.items():
        large = cg.LargeSpreadClassifier(
            norm=norm, budget=budget, n_estimators=100, num_leaves=16, **common
        )
        ensemble = large.fit(X, y).ensemble_
        found[f"large-spread, {ensemble.n_trees} trees", norm] = ensemble
        found[f"plain LightGBM, {plain.n_trees} trees", norm] = plain
    return found


def write_images(folder: Path, X: Any, y: Any) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for number, rows in enumerate(np.array_split(np.arange(len(X)), 7)):
        ends = np.arange(len(rows) + 1, dtype=np.int32) * X.shape[1]
        pixels = pa.ListArray.from_arrays(pa.array(ends), pa.array(X[rows].ravel()))
        table = pa.table({"id": rows, "pixels": pixels, "label": y[rows]})
        parquet.write_table(table, folder / f"part-{number}.parquet")


def rows_alike(truth: Mapping[str, Any], found: Any) -> int:
    """How many rows have the same values in all columns but that of time."""
    same = np.ones(len(found), dtype=bool)
    for name in truth.keys() - {"seconds"}:
        one, other = np.asarray(truth[name]), found[name].to_numpy()
        if one.dtype.kind == "f":
            same &= (one == other) | (np.isnan(one) & np.isnan(other.astype(np.float64)))
        else:
            same &= one.astype(object) == other.astype(object)
    return int(same.sum())


def equal_synthetic(options: argparse.Namespace, with_spark: bool) -> None:
    model = synthetic_model().ensemble_
    data = Synthetic(options.rows, options.partition)
    known: list[dict[int, str]] = [{} for _ in SYNTHETIC]
    started = time.perf_counter()
    for number in range(len(data)):
        X, y = data.part(number)
        for one, digests in zip(SYNTHETIC, known, strict=True):
            digests[number] = str(Digest().add(one.alone(model, X, y)))
    taken = {"one process": time.perf_counter() - started}
    found: dict[str, list[dict[int, str]]] = {"Dask": [], "Spark": []}
    started = time.perf_counter()
    with dask_client(2) as client:
        for one in SYNTHETIC:
            answers = one.on_dask(model, *data.on_dask())
            hashed = answers.map_partitions(hash_frame, meta=hash_frame(answers._meta).iloc[:0])
            table = client.compute(hashed).result()
            assert table["rows"].tolist() == list(data.sizes())
            found["Dask"].append(dict(enumerate(table["digest"])))
    taken["Dask, two workers"] = time.perf_counter() - started
    if with_spark:
        started = time.perf_counter()
        with spark_session(2) as session:
            df = data.on_spark(session)
            for one in SYNTHETIC:
                out = one.on_spark(df, model, NAMES, "part")
                rows = out.mapInPandas(hash_batches, "part long, rows long, digest string")
                found["Spark"].append({row["part"]: row["digest"] for row in rows.collect()})
        taken["Spark, two cores"] = time.perf_counter() - started
    heading(
        f"Answers on {data.rows:,} × {len(NAMES)} rows that workers make, in {len(data)} "
        f"partitions, {model.n_trees} trees: partitions with equal hashes of all answers",
        "question",
        "norm",
        "budget",
        "Dask",
        "Spark",
    )
    for place, (one, truth) in enumerate(zip(SYNTHETIC, known, strict=True)):
        counts = [
            f"{sum(answers[place].get(n) == truth[n] for n in truth)} of {len(truth)}"
            if answers
            else "–"
            for answers in found.values()
        ]
        line(one.question, one.norm, one.budget, *counts)
    spent = ", ".join(f"{who} {shown(s)}" for who, s in taken.items())
    print(f"\nAll questions, rows made and hashed anew for each: {spent}", flush=True)


def hash_frame(frame: Any) -> Any:
    import pandas as pd

    digest = Digest().add(frame)
    return pd.DataFrame({"rows": [digest.rows], "digest": [str(digest)]})


def hash_batches(batches: Iterator[Any]) -> Iterator[Any]:
    import pandas as pd

    found: dict[int, Digest] = {}
    for batch in batches:
        for part, rows in batch.groupby("part", sort=False):
            found.setdefault(part, Digest()).add(rows)
    for part, digest in found.items():
        yield pd.DataFrame({"part": [part], "rows": [digest.rows], "digest": [str(digest)]})


# ── memory ───────────────────────────────────────────────────────────────────────────────────


def memory(options: argparse.Namespace) -> None:
    """Peaks at a tenth of the rows and at all of them, each in a process of its own."""
    heading(
        f"Peak memory, `verify` and answers to Parquet, partitions of {options.partition:,} rows, "
        "two workers",
        "engine",
        "rows",
        "rows in all",
        "client or driver",
        "worker processes",
        "Java",
        "time",
    )
    for engine in ("dask", "spark"):
        if engine == "spark" and not has_spark():
            continue
        for rows in (options.rows // 10, options.rows):
            command = [sys.executable, sys.argv[0], "--step", f"memory-{engine}"]
            command += ["--rows", str(rows), "--partition", str(options.partition)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            peaks = json.loads(done.stdout.splitlines()[-1])
            workers = ", ".join(f"{size / 1e6:.0f} MB" for size in peaks["workers"])
            line(
                engine.capitalize(),
                f"{rows:,}",
                f"{rows * (len(NAMES) + 1) * 8 / 1e6:,.0f} MB",
                f"{peaks['client'] / 1e6:.0f} MB",
                workers,
                f"{peaks['java'] / 1e6:.0f} MB" if peaks["java"] else "–",
                shown(peaks["seconds"]),
            )


def memory_of_dask(options: argparse.Namespace) -> None:
    from carvegbm import dask as cgd

    model = synthetic_model().ensemble_
    data = Synthetic(options.rows, options.partition)
    with tempfile.TemporaryDirectory() as folder, dask_client(2) as client:
        workers = set(client.run(os.getpid).values())
        with peaks_of(lambda process: process.pid in workers), client.as_current():
            result = cgd.verify(model, *data.on_dask(), cg.Attacker("inf", BUDGET))
            result.write(Path(folder) / "answers")


def memory_of_spark(options: argparse.Namespace) -> None:
    from carvegbm import spark as cgs

    model = synthetic_model().ensemble_
    data = Synthetic(options.rows, options.partition)
    attacker = cg.Attacker("inf", BUDGET)
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session(2, memory="1g") as session,
        peaks_of(is_spark_worker),
    ):
        df = data.on_spark(session)
        out = cgs.verify(df, model, attacker, features=NAMES, label="label", keep="part")
        out.write.parquet(f"{folder}/answers")


def is_spark_worker(process: Any) -> bool:
    """Not the one that Java started, which only starts the others."""
    return "pyspark.daemon" in process.cmdline() and process.parent().name() != "java"


@contextmanager
def peaks_of(is_worker: Callable[[Any], bool]) -> Iterator[None]:
    """Print, as JSON, the largest memory of this process and of those it started.

    The kernel keeps the peak of a process as long as it lives; so to look now and then is enough.
    """
    import psutil

    workers: dict[int, int] = {}
    java = [0]
    done = threading.Event()

    def look() -> None:
        for process in psutil.Process().children(recursive=True):
            try:
                if is_worker(process):
                    workers[process.pid] = peak(process.pid)
                elif process.name() == "java":
                    java.append(peak(process.pid))
            except (psutil.Error, OSError, StopIteration):
                continue  # it ended meanwhile

    def watch() -> None:
        while not done.wait(0.2):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    started = time.perf_counter()
    try:
        yield
    finally:
        done.set()
        thread.join()
    seconds = time.perf_counter() - started
    look()
    sizes = sorted(workers.values(), reverse=True)
    found = {"client": peak(os.getpid()), "workers": sizes, "java": max(java), "seconds": seconds}
    print(json.dumps(found))


def peak(pid: int) -> int:
    """Bytes that the process had in memory at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(row.split()[1]) * 1024 for row in status.splitlines() if "VmHWM" in row)
