"""`carvegbm verify` on many rows from a file: time and peak memory, everything included.

    python benchmarks/command_line.py
    python benchmarks/command_line.py --rows 1000000 --repeats 3 --program PATH/TO/carvegbm

A large-spread model of 60 trees is trained on 20,000 rows of 20 columns; a million such rows are
written as Parquet and as .npy with labels beside it, and verified in processes of their own, with
--output (hence with a resume file) and one thread. Beside the command stands what reading the file
alone takes, in a process of its own, too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import carvegbm as cg

FEATURES = 20
BUDGET = 0.01
FILES = ("data.parquet", "X.npy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("carvegbm")))
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write is not None:
        write_files(options.write, options.rows)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In another process: what a child is charged with begins with the memory of its parent.
        this = [sys.executable, __file__, "--rows", str(options.rows), "--write", name]
        subprocess.run(this, check=True)
        for data in FILES:
            print(f"{data}, {options.rows} x {FEATURES}, norm inf, budget {BUDGET}, 1 thread")
            for what, command in commands(options.program, folder, data).items():
                runs = [measure(command, folder) for _ in range(options.repeats)]
                seconds = statistics.median(taken for taken, _ in runs)
                megabytes = statistics.median(peak for _, peak in runs)
                print(f"  {what:<8} {seconds:6.2f} s  {megabytes:6.0f} MB at most", flush=True)


def write_files(folder: Path, rows: int) -> None:
    """Write a model, and the data in two formats."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    X = rng.random((rows, FEATURES))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=rows) > 0.8).astype(np.int64)
    model = cg.LargeSpreadClassifier(
        norm="inf", budget=BUDGET, n_estimators=60, num_leaves=16, random_state=0
    )
    model.fit(X[:20_000], y[:20_000]).save_model(folder / "model.txt")
    columns = {f"Column_{i}": X[:, i] for i in range(FEATURES)} | {"label": y}
    parquet.write_table(pyarrow.table(columns), folder / "data.parquet")
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)


def commands(program: str, folder: Path, data: str) -> dict[str, list[str]]:
    """The command, and what reading its data takes."""
    read = f"from carvegbm import load_table; load_table({str(folder / data)!r})"
    verify = [program, "verify", str(folder / "model.txt"), str(folder / data), "--norm", "inf"]
    verify += ["--budget", str(BUDGET), "--threads", "1", "--output", str(folder / "out.parquet")]
    return {"read": [sys.executable, "-c", read], "verify": verify}


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds, and megabytes at most."""
    started = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, code, used = os.wait4(child.pid, 0)
    taken = time.monotonic() - started
    if code != 0:
        raise SystemExit(f"{command[0]} ended with {code}")
    (folder / "out.parquet").unlink(missing_ok=True)
    return taken, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
