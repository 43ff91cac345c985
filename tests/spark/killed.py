"""Verify on two executors, one of which is killed in the middle; a program of its own.

Comes in: a folder. Goes out, as JSON on the standard output: the statuses of all rows as Spark gave
them, those of one process, and how many executors there were. A process has one Spark, so this
cannot be the one of the other tests.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg

ROWS, PARTITIONS, BATCH = 240, 6, 10
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a Java that does not live long


def main(folder: Path) -> None:
    import pyspark
    from pyspark.sql import SparkSession

    from carvegbm import spark as cgs

    home = folder / "home"  # where its workers write
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH),
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.executor.extraJavaOptions": BRIEF,
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    tree = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    model = cg.Ensemble.from_trees([tree], n_features=1, feature_names=["a"])
    attacker = cg.Attacker("inf", 0.1)
    a = np.arange(ROWS) / ROWS
    ids = spark.range(0, ROWS, 1, PARTITIONS)
    rows = ids.mapInArrow(partial(deadly, str(folder)), "id long, a double")
    found = cgs.verify(rows, model, attacker).select("id", "status", "margin").collect()
    known = cg.verify(model, a[:, None], None, attacker)
    told = {
        "found": sorted((row.id, row.status, row.margin) for row in found),
        "known": list(zip(range(ROWS), known.status.tolist(), known.margin.tolist(), strict=True)),
        "executors": len(list(folder.glob("executor *"))),
        "killed": (folder / "killed").exists(),
    }
    spark.stop()
    print(json.dumps(told))


def deadly(folder: str, batches: Iterator[Any]) -> Iterator[Any]:
    """The rows; the first to come halfway through partition 3 kills its executor."""
    import pyarrow as pa
    from pyspark import TaskContext

    executor = _parent(_parent(os.getpid()))  # above Spark's daemon, which forks Python workers
    Path(folder, f"executor {executor}").touch()
    for count, batch in enumerate(batches):
        a = pa.array(batch.column(0).to_numpy() / ROWS)
        yield pa.RecordBatch.from_arrays([batch.column(0), a], names=["id", "a"])
        if count == 1 and TaskContext.get().partitionId() == 3:
            try:
                Path(folder, "killed").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(executor, signal.SIGKILL)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
