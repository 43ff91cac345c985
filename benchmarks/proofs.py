"""Proofs: how large they are, what they cost, and how fast they are checked.

    python benchmarks/proofs.py [--data FOLDER] [--rows 200] [--models .cache/proofs] [--only NAME]

The sample that comes with the package, a plain LightGBM on breast cancer and one of ten classes on
digits; on Fashion-MNIST 0 vs 3, if the idx files are there, large-spread models trained for each
attacker, and plain models of 100 trees with 16 leaves and 300 trees with 64, at the budgets of the
paper. All rows are verified, verified with a proof, and the proof is checked; one thread. Models
are kept in `--models`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits

import carvegbm as cg
import carvegbm_check
from verify import SETTINGS, load_data, train

Matrix = npt.NDArray[np.float64]
SMALL = [("inf", 0.01), ("inf", 0.03), (1, 0.05), (1, 0.1), (2, 0.05), (2, 0.1), (0, 1), (0, 2)]
PLAIN = {"plain 100 x 16": (100, 16), "plain 300 x 64": (300, 64)}
SAMPLE = Path(cg.__file__).parent / "data"
TWICE, FIFTY = 2.0, 50
"""The goals: verification with proofs over that without; rows that are checked in a second."""


class Setting(NamedTuple):
    """A model, the rows, and the attacker."""

    name: str
    model: Path
    X: Matrix
    y: npt.NDArray[Any]
    norm: Any
    budget: float


def main() -> None:
    """Print a line per model and attacker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_formatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/fashion-mnist"))
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--models", type=Path, default=Path(".cache/proofs"), help="model folder")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="one kind of model, by its name in the first column")
    options = parser.parse_args()
    options.models.mkdir(parents=True, exist_ok=True)
    print(
        f"{'model':<16} {'norm':>4} {'budget':>6} {'proved':>9} {'bytes/row':>9} {'verify':>10} "
        f"{'with proof':>10} {'ratio':>6} {'goal':>5} {'checked/s':>9} {'goal':>5}"
    )
    for setting in settings(options):
        if options.only in (None, setting.name):
            print(measure(setting, options.repeats), flush=True)


def settings(options: argparse.Namespace) -> Iterator[Setting]:
    """All models with their rows and attackers."""
    table = cg.load_table(SAMPLE / "sample_data.csv")
    for norm, budget in SMALL:
        yield Setting("sample", SAMPLE / "sample_model.txt", table.X, table.y, norm, budget)
    for name, load, parameters in (
        ("breast cancer", load_breast_cancer, {"objective": "binary"}),
        ("digits", load_digits, {"objective": "multiclass", "num_class": 10}),
    ):
        X, y = load(return_X_y=True)
        X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1)
        path = options.models / f"{name.replace(' ', '_')}.txt"
        _train(path, X[200:], y[200:], {**parameters, "num_leaves": 16}, 30)
        for norm, budget in SMALL:
            yield Setting(name, path, X[: options.rows], y[: options.rows], norm, budget)
    if not options.data.is_dir():
        print(f"{options.data} is not there; Fashion-MNIST is left out")
        return
    X_train, y_train, X, y = load_data(options.data)
    X, y = X[: options.rows], y[: options.rows]
    for norm, budget in SETTINGS:
        path = options.models / f"large_spread_{norm}_{budget}.txt"
        if not path.exists():
            train(X_train, y_train, norm, budget, 150, 16).save_model(path)
        yield Setting("large-spread", path, X, y, norm, budget)
    for name, (trees, leaves) in PLAIN.items():
        path = options.models / f"{name.replace(' ', '_')}.txt"
        _train(path, X_train, y_train, {"objective": "binary", "num_leaves": leaves}, trees)
        for norm, budget in SETTINGS:
            yield Setting(name, path, X, y, norm, budget)


def measure(setting: Setting, repeats: int) -> str:
    """Verify, prove and check; a line of figures."""
    name, model, X, y, norm, budget = setting
    ensemble, attacker = cg.load(model), cg.Attacker(norm, budget)
    with tempfile.TemporaryDirectory() as folder:
        proof = Path(folder) / "verdicts.proof"
        plain = _seconds(lambda: cg.verify(ensemble, X, y, attacker, threads=1), repeats)
        proving = _seconds(
            lambda: cg.verify(ensemble, X, y, attacker, threads=1, proof=proof), repeats
        )
        began = time.perf_counter()
        report = carvegbm_check.check(proof, model, (X.tolist(), y.tolist()))
        checking = time.perf_counter() - began
        size = proof.stat().st_size / len(X)
    per_row = 1e6 / len(X)
    return (
        f"{name:<16} {norm:>4} {budget:>6g} {len(report.checked):>4} / {len(X):<3} {size:>8.0f} "
        f"{plain * per_row:>7.0f} µs {proving * per_row:>7.0f} µs {proving / plain:>6.2f} "
        f"{TWICE:>5.1f} {len(X) / checking:>9.0f} {FIFTY:>5}"
    )


def _seconds(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _train(
    path: Path, X: Matrix, y: npt.NDArray[Any], parameters: dict[str, Any], rounds: int
) -> None:
    if not path.exists():
        options = {**parameters, "verbose": -1, "num_threads": 1, "seed": 0}
        lightgbm.train(options, lightgbm.Dataset(X, y), rounds).save_model(path)


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog)


if __name__ == "__main__":
    main()
