"""More machines than one: that Dask and Spark answer as one process does, and what they cost.

    python benchmarks/scale.py                        # all parts, hours
    python benchmarks/scale.py --only overhead
    python benchmarks/scale.py --only equal --rows 100000 --partition 10000

equal       verdicts, margins, worst margins and radii of Dask and Spark beside those of one
            process: row by row on Fashion-MNIST 0 vs 3, and by a hash per partition on synthetic
            rows that the workers make
memory      peak memory of client and workers while the rows grow tenfold, answers written to files
throughput  rows per second with one worker and with two, of one thread each
overhead    Dask with one worker over a plain call on the same rows, and from where on two workers
            are faster than one plain process
files       `carvegbm verify` on many files over the same rows in one file
spark       Spark on one core over a plain call on the same rows

Synthetic rows are 20 random numbers and a label with noise; the model is a large-spread one of up
to 60 trees with 16 leaves, norm inf, budget 0.01, trained on 20,000 such rows. Times are wall
clock, medians of runs in turn after one to warm up, one thread against one thread, on a quiet
machine with two cores. Every part runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import carvegbm as cg
import scale_answers
from scale_setup import (
    BUDGET,
    NAMES,
    Synthetic,
    dask_client,
    has_spark,
    heading,
    in_turn,
    line,
    persisted,
    shown,
    spark_session,
    synthetic_model,
)

ATTACKER = cg.Attacker("inf", BUDGET)
PARTITIONS = (10_000, 50_000, 200_000)
FILES = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of equal and memory")
    parser.add_argument("--timed-rows", type=int, default=1_000_000, help="overhead, throughput, …")
    parser.add_argument("--file-rows", type=int, default=2_000_000, help="of all files together")
    parser.add_argument("--image-rows", type=int, help="Fashion-MNIST rows; all by default")
    parser.add_argument("--partition", type=int, default=50_000, help="rows of a partition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/fashion-mnist"))
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("carvegbm")))
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step is not None:
        STEPS[options.step](options)
    elif options.only is not None:
        PARTS[options.only](options)
    else:
        for part in PARTS:
            subprocess.run([sys.executable, *sys.argv, "--only", part], check=True)


# ── Dask ─────────────────────────────────────────────────────────────────────────────────────


def plain(model: Any, X: Any, y: Any) -> object:
    return cg.verify(model, X, y, ATTACKER, threads=1).totals()


def on_dask(client: Any, model: Any, X: Any, y: Any) -> object:
    """From the call to the totals; answers stay with the workers."""
    from carvegbm import dask as cgd

    return client.compute(cgd.verify(model, X, y, ATTACKER).totals).result()


def throughput(options: argparse.Namespace) -> None:
    model = synthetic_model().ensemble_
    data = Synthetic(options.timed_rows, options.partition)
    with dask_client(1) as one, dask_client(2) as two:
        heading(
            f"Throughput: {data.rows:,} rows in {len(data)} partitions, {model.n_trees} trees",
            "rows are",
            "one worker, rows/s",
            "two workers, rows/s",
            "ratio",
            "goal",
        )
        held = [partial(on_dask, client, model, *persisted(client, data)) for client in (one, two)]
        made = [partial(on_dask, client, model, *data.on_dask()) for client in (one, two)]
        for what, calls in (("in the workers' memory", held), ("made by the workers", made)):
            first, second = in_turn(calls, options.repeats)
            rates = (f"{data.rows / seconds:,.0f}" for seconds in (first, second))
            line(what, *rates, f"{first / second:.2f} ×", "1.7 ×")


def overhead(options: argparse.Namespace) -> None:
    model = synthetic_model().ensemble_
    sizes = [max(1, options.timed_rows // share) for share in (100, 10, 1)]
    with dask_client(1) as one, dask_client(2) as two:

        def three(data: Synthetic) -> list[float]:
            calls = [partial(plain, model, *data.all())]
            calls += [partial(on_dask, c, model, *persisted(c, data)) for c in (one, two)]
            return in_turn(calls, options.repeats)

        heading(
            f"Overhead: rows in the workers' memory, {model.n_trees} trees; goal of one worker "
            "over a plain call at 10⁶ rows: 1.10",
            "rows",
            "per partition",
            "plain call",
            "µs per row",
            "one worker",
            "over plain",
            "two workers",
            "over plain",
        )
        for rows in sizes:
            for partition in sorted({min(partition, rows) for partition in PARTITIONS}):
                alone, single, double = three(Synthetic(rows, partition))
                line(
                    f"{rows:,}",
                    f"{partition:,}",
                    shown(alone),
                    f"{alone / rows * 1e6:.2f}",
                    shown(single),
                    f"{single / alone:.3f}",
                    shown(double),
                    f"{double / alone:.3f}",
                )
        heading(
            "Where it breaks even: two workers, a partition each",
            "rows",
            "plain call",
            "two workers",
            "over plain",
        )
        slower = 0
        for rows in (size * step // 10 for size in sizes for step in (1, 2, 5)):
            if rows < 2:
                continue
            alone, _, double = three(Synthetic(rows, (rows + 1) // 2))
            line(f"{rows:,}", shown(alone), shown(double), f"{double / alone:.3f}")
            if double >= alone:
                slower = rows
        print(f"\nThe largest size at which two workers were slower: {slower:,} of {rows:,} rows")


# ── Spark ────────────────────────────────────────────────────────────────────────────────────


def spark(options: argparse.Namespace) -> None:
    if not has_spark():
        return
    from carvegbm import spark as cgs

    model = synthetic_model().ensemble_
    data = Synthetic(options.timed_rows, options.partition)
    X, y = data.all()
    with spark_session(1) as session:
        df = data.on_spark(session).persist()
        df.count()
        out = cgs.verify(df, model, ATTACKER, features=NAMES, label="label", keep="part")
        moved = df.drop("part").mapInArrow(_last_columns, "label long")
        alone, handed, answered = in_turn(
            [
                partial(plain, model, X, y),
                lambda: moved.write.format("noop").mode("overwrite").save(),
                lambda: out.write.format("noop").mode("overwrite").save(),
            ],
            options.repeats,
        )
    heading(
        f"Spark local[1]: {data.rows:,} rows in {len(data)} partitions, in Spark's memory",
        "what",
        "time",
        "µs per row",
        "more than plain, µs per row",
        "over plain",
    )
    times = {
        "plain call": alone,
        "Spark hands the rows to Python, and nothing is done": handed,
        "`verify`, answers to nowhere": answered,
    }
    for what, seconds in times.items():
        per_row = seconds / data.rows * 1e6
        more = (seconds - alone) / data.rows * 1e6
        line(what, shown(seconds), f"{per_row:.2f}", f"{more:+.2f}", f"{seconds / alone:.2f}")


def _last_columns(batches: Any) -> Any:
    for batch in batches:
        yield batch.select([batch.num_columns - 1])


# ── files ────────────────────────────────────────────────────────────────────────────────────


def files(options: argparse.Namespace) -> None:
    heading(
        f"`carvegbm verify` with --output, one thread: {FILES} files, and all rows in one file",
        "rows",
        "data",
        "files, time",
        "files, peak memory",
        "one file, time",
        "one file, peak memory",
    )
    for rows in (options.file_rows // 10, options.file_rows):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # In another process: what a child is charged with begins with its parent's memory.
            write = ["--step", "write", "--folder", name, "--file-rows", str(rows)]
            subprocess.run([sys.executable, __file__, *write], check=True)
            size = (folder / "all.parquet").stat().st_size
            cells = []
            for source, target in (
                ("part-*.parquet", "answers/"),
                ("all.parquet", "all-out.parquet"),
            ):
                command = [options.program, "verify", str(folder / "model.txt"), f"{name}/{source}"]
                command += ["--norm", "inf", "--budget", str(BUDGET), "--threads", "1", "--output"]
                turns = range(min(options.repeats, 3))
                runs = [measured([*command, f"{name}/{turn}-{target}"]) for turn in turns]
                taken, peaks = zip(*runs, strict=True)
                cells += [shown(statistics.median(taken)), f"{statistics.median(peaks):.0f} MB"]
            line(f"{rows:,}", f"{size / 1e6:.0f} MB", *cells)


def write_files(options: argparse.Namespace) -> None:
    """A model, and the same rows in many files and in one."""
    import pyarrow
    from pyarrow import parquet

    synthetic_model().save_model(options.folder / "model.txt")
    data = Synthetic(options.file_rows, -(-options.file_rows // FILES))
    tables = []
    for number in range(len(data)):
        X, y = data.part(number)
        columns = {**{name: X[:, i] for i, name in enumerate(NAMES)}, "label": y}
        tables.append(pyarrow.table(columns))
        parquet.write_table(tables[-1], options.folder / f"part-{number:02}.parquet")
    parquet.write_table(pyarrow.concat_tables(tables), options.folder / "all.parquet")


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds, and megabytes at most."""
    started = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _, code, used = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        raise
    if code != 0:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return time.monotonic() - started, used.ru_maxrss / 1024


PARTS = {
    "overhead": overhead,
    "throughput": throughput,
    "memory": scale_answers.memory,
    "equal": scale_answers.equal,
    "files": files,
    "spark": spark,
}
STEPS = {
    "write": write_files,
    "memory-dask": scale_answers.memory_of_dask,
    "memory-spark": scale_answers.memory_of_spark,
}

if __name__ == "__main__":
    main()
