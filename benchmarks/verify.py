"""Speed of verification, as ratios to LightGBM's own predict, measured in one run.

    python benchmarks/verify.py [--data FOLDER] [--quick]

A large-spread model (150 trees of 16 leaves) is trained for each norm on Fashion-MNIST 0 vs 3 if
the idx files are there, else on synthetic data; then, one thread against one thread, the median of
several runs of `carvegbm.verify` over the median of `Booster.predict(raw_score=True)` on the same
rows, run in turn, beside the goal. Also: two threads over one, growth with instances and trees, and
peak memory on a memory-mapped file.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lightgbm
import numpy as np
import numpy.typing as npt

import carvegbm as cg
from carvegbm import LargeSpreadClassifier
from carvegbm_experiments import datasets

Matrix = npt.NDArray[np.float64]
SETTINGS = [
    *(("inf", budget) for budget in (0.005, 0.01, 0.015)),
    *((1, budget) for budget in (0.05, 0.1, 0.15)),
    *((2, budget) for budget in (0.05, 0.1)),
    *((0, budget) for budget in (1, 2, 3)),
]
GOALS = {"inf": 1.0, 1: 3.0, 2: 3.0, 0: 5.0}
"""By norm: verification takes no longer than so many predictions."""
TWO_THREADS = 1.8
"""The goal for two threads over one."""


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_formatter)
    parser.add_argument(
        "--data", default="../shared/data/fashion-mnist", help="folder of idx files"
    )
    parser.add_argument("--trees", type=int, default=150)
    parser.add_argument("--leaves", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, no memory test")
    options = parser.parse_args()
    repeats = 3 if options.quick else options.repeats
    X_train, y_train, X_test, y_test = load_data(Path(options.data))
    print(f"{len(X_train)} training rows, {len(X_test)} test rows, {X_train.shape[1]} features")
    print("\nverify over predict, one thread each, medians; two threads over one, wall clock")
    print(
        f"{'norm':>4} {'budget':>7} {'trees':>5} {'accuracy':>9} {'robustness':>10} "
        f"{'predict':>9} {'verify':>9} {'ratio':>6} {'goal':>6} {'2 threads':>9} {'goal':>7}"
    )
    for norm, budget in SETTINGS:
        model = train(X_train, y_train, norm, budget, options.trees, options.leaves)
        attacker = cg.Attacker(norm, budget)
        ensemble = cg.load(model)
        result = cg.verify(ensemble, X_test, y_test, attacker)
        predict, one, two = in_turn(
            [
                lambda m=model: m.predict(X_test, raw_score=True, num_threads=1),
                lambda e=ensemble, a=attacker: cg.verify(e, X_test, y_test, a, threads=1),
                lambda e=ensemble, a=attacker: cg.verify(e, X_test, y_test, a, threads=2),
            ],
            repeats,
        )
        per_row = 1e6 / len(X_test)
        print(
            f"{norm:>4} {budget:>7g} {ensemble.n_trees:>5} {result.accuracy:>9.4f} "
            f"{result.robustness[0]:>10.4f} {predict * per_row:>6.1f} µs {one * per_row:>6.1f} µs "
            f"{one / predict:>6.2f} {GOALS[norm]:>6.2f} {one / two:>8.2f}x {TWO_THREADS:>6.2f}x",
            flush=True,
        )
    growth(X_train, y_train, X_test, y_test, repeats)
    if not options.quick:
        memory()


def growth(X_train: Matrix, y_train: Matrix, X_test: Matrix, y_test: Matrix, repeats: int) -> None:
    """Time over instances and over trees: both linear."""
    attacker = cg.Attacker("inf", 0.01)
    full = cg.load(train(X_train, y_train, "inf", 0.01, 160, 16))
    trees = full.to_trees()
    print("\ntime per instance in µs (norm inf, budget 0.01, one thread)")
    print(f"{'trees':>6} " + " ".join(f"{n:>9} rows" for n in (1000, 2000, 4000)))
    for count in (40, 80, 160):
        ensemble = cg.Ensemble.from_trees(trees[:count], n_features=full.n_features)
        cells = []
        for rows in (1000, 2000, 4000):
            X, y = X_test[:rows], y_test[:rows]
            (seconds,) = in_turn([partial(cg.verify, ensemble, X, y, attacker, threads=1)], repeats)
            cells.append(f"{seconds / len(X) * 1e6:>14.2f}")
        print(f"{len(trees[:count]):>6} " + " ".join(cells), flush=True)


def memory(rows: int = 1_000_000, columns: int = 254) -> None:
    """Peak memory of verifying a memory-mapped file, beside the file's own size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rng = np.random.default_rng(0)
        data = np.lib.format.open_memmap(path, "w+", np.float64, (rows, columns))
        for start in range(0, rows, 50_000):
            data[start : start + 50_000] = rng.random((len(data[start : start + 50_000]), columns))
        data.flush()
        del data
        script = (
            "import sys, numpy as np, carvegbm as cg\n"
            "def stump(f): return {'feature': f, 'threshold': 0.5, 'left': {'score': -1.0}, "
            "'right': {'score': 1.0}}\n"
            f"model = cg.Ensemble.from_trees([stump(f) for f in range({columns})], "
            f"n_features={columns})\n"
            "X = np.load(sys.argv[1], mmap_mode='r')\n"
            "y = np.zeros(len(X), dtype=int)\n"
            "cg.verify(model, X, y, cg.Attacker('inf', 0.01))\n"
            # Not ru_maxrss, which a process inherits from the one that started it.
            "peak = [l for l in open('/proc/self/status') if l.startswith('VmHWM')][0]\n"
            "print(int(peak.split()[1]) * 1024)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
        )
        size = path.stat().st_size
        peak = int(done.stdout)
        print(
            f"\nmemory: {rows} x {columns} from a memory-mapped file of {size / 1e6:.0f} MB: "
            f"peak {peak / 1e6:.0f} MB (mapped pages included), {(peak - size) / 1e6:+.0f} MB"
        )


def in_turn(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median wall-clock seconds of each, run one after the other in every repeat."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, record in zip(functions, times, strict=True):
            started = time.perf_counter()
            function()
            record.append(time.perf_counter() - started)
    return [statistics.median(record) for record in times]


def train(
    X: Matrix, y: Matrix, norm: object, budget: float, trees: int, leaves: int
) -> lightgbm.Booster:
    """A large-spread model by construction."""
    model = LargeSpreadClassifier(
        norm=norm, budget=budget, n_estimators=trees, num_leaves=leaves, random_state=0, verbose=0
    )
    return model.fit(X, y).booster_


def load_data(folder: Path) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Fashion-MNIST 0 vs 3, scaled to [0, 1] and split 70/30, or a synthetic stand-in."""
    rng = np.random.default_rng(0)
    if (folder / "train-images-idx3-ubyte.gz").exists():
        data = datasets.load("fmnist", folder=folder, download=False)
        X, y = data.X, data.y
    else:
        print(f"no idx files in {folder}: synthetic data")
        X = np.rint(rng.random((14_000, 784)) * 255) / 255
        y = (X[:, :40].sum(axis=1) + rng.normal(0, 1, len(X)) > 20).astype(int)
    order = rng.permutation(len(y))
    cut = int(0.7 * len(y))
    train_rows, test_rows = order[:cut], order[cut:]
    return X[train_rows], y[train_rows], np.ascontiguousarray(X[test_rows]), y[test_rows]


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog)


if __name__ == "__main__":
    main()
