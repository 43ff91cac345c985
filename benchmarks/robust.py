"""What robust training costs next to plain LightGBM, and how robust both models are.

    python benchmarks/robust.py --data FOLDER [NAME …] [--repeat 3] [--threads 2]

Every row is one problem: a whole `fit` with its search, against LightGBM with as many trees and
leaves in the same run, in turn; seconds are medians (of one run from a million rows on). Both
models are verified on the same held-out rows (at most 4,000), within 1 s per row. Problems of the
group "unseen" were not used to choose anything in robust training. FOLDER holds fashion-mnist/,
mnist/ and tabular/; the synthetic problems need no data.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

import carvegbm as cg

Array = npt.NDArray[Any]
Split = tuple[Array, Array, Array, Array]  # training rows and labels, held-out rows and labels

HELD_OUT = 4000
MANY = 1_000_000  # rows: problems of so many are fitted once


@dataclass(frozen=True)
class Problem:
    """A row of the table: where the data come from, the attacker, the goal of the ratio."""

    load: Callable[[Path], Split]
    norm: float | str
    budget: float
    goal: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


# ── data ─────────────────────────────────────────────────────────────────────────────────────


def synthetic(
    n: int, seed: int = 3, d: int = 30, dtype: type[np.floating[Any]] = np.float64
) -> Callable[[Path], Split]:
    """Uniform features; a linear score with an interaction and noise decides the class."""

    def load(_: Path) -> Split:
        random = np.random.default_rng(seed)
        X = random.random((n + HELD_OUT, d), dtype=dtype)  # type: ignore[arg-type]
        weight = random.normal(size=d)
        score = np.empty(len(X))
        for first in range(0, len(X), MANY):  # in parts, which leaves the peak memory to training
            part = X[first : first + MANY]
            own = (part - 0.5) @ weight + 0.3 * np.sin(9 * part[:, 0]) * part[:, 1]
            score[first : first + MANY] = own
        y = (score + 0.2 * random.normal(size=len(X)) > 0).astype(np.int64)
        return X[:n], y[:n], X[n:], y[n:]

    return load


def table(
    name: str, *, positive: Callable[[Array], Array] = lambda y: y > 0
) -> Callable[[Path], Split]:
    """A table with two classes, scaled to [0, 1] by its training rows unless it is already."""

    def load(folder: Path) -> Split:
        file = np.load(folder / "tabular" / f"{name}.npz", allow_pickle=True)
        if "X_train" in file:
            end = "_normalized" if "X_train_normalized" in file else ""
            parts = [
                file[f"{key}{end}" if key[0] == "X" else key]
                for key in ("X_train", "y_train", "X_test", "y_test")
            ]
        else:
            X, y = file["X"], file["y"]
            order = np.random.default_rng(1).permutation(len(X))
            cut = max(len(X) - HELD_OUT, int(0.75 * len(X)))
            parts = [X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]]
        X, y, X_test, y_test = (np.asarray(part, dtype=np.float64) for part in parts)
        low, high = X.min(axis=0), X.max(axis=0)
        if low.min() < -2 or high.max() > 2:
            width = np.where(high > low, high - low, 1)
            X, X_test = (X - low) / width, (X_test - low) / width
        return held_out(X, positive(y).astype(int), X_test, positive(y_test).astype(int))

    return load


def images(name: str, labels: tuple[int, ...]) -> Callable[[Path], Split]:
    """Images of these classes, pixels / 255, as published."""

    def load(folder: Path) -> Split:
        arrays: list[Array] = []
        for part in ("train", "t10k"):
            y = idx(folder / name / f"{part}-labels-idx1-ubyte.gz")
            kept = np.isin(y, labels)
            X = idx(folder / name / f"{part}-images-idx3-ubyte.gz").reshape(len(y), -1)[kept]
            arrays += [X / 255, np.searchsorted(labels, y[kept])]
        return held_out(*arrays)

    return load


def idx(path: Path) -> Array:
    data = gzip.decompress(path.read_bytes())
    n_axes = data[3]
    shape = np.frombuffer(data, ">u4", n_axes, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def nsl_kdd_mixed(folder: Path) -> Split:
    """NSL-KDD with its categories, and 5 % of the numbers missing."""
    X, y, X_test, y_test = table("nsl_kdd")(folder)
    file = np.load(folder / "tabular" / "nsl_kdd.npz", allow_pickle=True)
    categorical = file["categorical"].astype(int)
    X[:, categorical] = file["X_train"][:, categorical]
    order = np.random.default_rng(0).permutation(len(file["X_test"]))[:HELD_OUT]
    X_test[:, categorical] = file["X_test"][order][:, categorical]
    random = np.random.default_rng(5)
    numbers = np.setdiff1d(np.arange(X.shape[1]), categorical)
    for rows in (X, X_test):
        values = rows[:, numbers]
        values[random.random(values.shape) < 0.05] = np.nan
        rows[:, numbers] = values
    return X, y, X_test, y_test


def wine_alcohol(folder: Path) -> Split:
    """Alcohol from the other columns: a regression."""
    X = np.load(folder / "tabular" / "wine.npz", allow_pickle=True)["X"].astype(float)
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order][:, :-1], X[order][:, -1]
    return X[:-1600], y[:-1600], X[-1600:], y[-1600:]


def held_out(X: Array, y: Array, X_test: Array, y_test: Array) -> Split:
    rows = np.random.default_rng(0).permutation(len(X_test))[:HELD_OUT]
    return X, y, X_test[rows], y_test[rows]


PROBLEMS = {
    "synthetic-2e5": Problem(synthetic(200_000), "inf", 0.01, 1.2),
    "synthetic-1e6": Problem(synthetic(1_000_000), "inf", 0.01, 1.0),
    "synthetic-1e7": Problem(synthetic(10_000_000), "inf", 0.01, 0.5),
    "synthetic-1e7-float32": Problem(synthetic(10_000_000, dtype=np.float32), "inf", 0.01, 0.5),
    "ijcnn1": Problem(table("ijcnn1"), "inf", 0.01, 4),
    "cod-rna": Problem(table("cod_rna"), "inf", 0.03, 4),
    "social-honeypot": Problem(table("social_honeypot_twitter"), "inf", 0.01, 4),
    "covtype": Problem(table("covtype_20k", positive=lambda y: y == 2), "inf", 0.01, 6),
    "pe-malware": Problem(table("pe_malware_20k"), "inf", 0.01, 6),
    "nsl-kdd": Problem(table("nsl_kdd"), "inf", 0.01, 6),
    "fmnist-0-3": Problem(images("fashion-mnist", (0, 3)), "inf", 0.03, 1),
    "pe-malware-l1": Problem(table("pe_malware_20k"), 1, 0.02, 5),
    "pe-malware-l2": Problem(table("pe_malware_20k"), 2, 0.015, 5),
    "pe-malware-l0": Problem(table("pe_malware_20k"), 0, 1, 5),
    "fmnist-0-3-l1": Problem(images("fashion-mnist", (0, 3)), 1, 0.1, 5),
    "fmnist-0-3-l2": Problem(images("fashion-mnist", (0, 3)), 2, 0.1, 5),
    "fmnist-0-3-l0": Problem(images("fashion-mnist", (0, 3)), 0, 1, 5),
    "mnist-ten": Problem(
        images("mnist", tuple(range(10))), "inf", 0.3, 5, {"num_leaves": 200, "n_estimators": 24}
    ),
    "wine-alcohol": Problem(wine_alcohol, "inf", 0.02, 5),
    "nsl-kdd-mixed": Problem(nsl_kdd_mixed, "inf", 0.01, 5, {"categorical_feature": [1, 2, 3]}),
    # unseen: not used to choose anything
    "unseen-synthetic-6e4": Problem(synthetic(60_000, seed=11, d=20), "inf", 0.03),
    "unseen-higgs": Problem(table("higgs_lightgbm_7k"), "inf", 0.01),
    "unseen-cover": Problem(table("adbench_cover_2v4"), "inf", 0.02),
    "unseen-banknote": Problem(table("banknote_authentication"), "inf", 0.05),
    "unseen-fmnist-2-4": Problem(images("fashion-mnist", (2, 4)), "inf", 0.05),
    "unseen-mnist-4-9": Problem(images("mnist", (4, 9)), "inf", 0.2),
    "unseen-cod-rna-.01": Problem(table("cod_rna"), "inf", 0.01),
    "unseen-spambase": Problem(table("spambase"), "inf", 0.003),
}


# ── measuring ────────────────────────────────────────────────────────────────────────────────


def measure(name: str, folder: Path, threads: int, repeat: int) -> str:
    problem = PROBLEMS[name]
    X, y, X_test, y_test = problem.load(folder)
    parameters = dict(problem.parameters)
    categorical = parameters.pop("categorical_feature", "auto")
    numbers = y.dtype.kind == "f"
    robust_class = cg.RobustRegressor if numbers else cg.RobustClassifier
    plain_class = lightgbm.LGBMRegressor if numbers else lightgbm.LGBMClassifier
    attacker = cg.Attacker(problem.norm, problem.budget)
    ours, theirs = [], []
    memory = 0.0
    for _ in range(1 if len(X) >= MANY else repeat):
        robust = robust_class(
            norm=problem.norm, budget=problem.budget, random_state=0, n_jobs=threads, **parameters
        )
        started = time.perf_counter()
        robust.fit(X, y, categorical_feature=categorical)
        ours.append(time.perf_counter() - started)
        memory = memory or peak_memory()
        trees, leaves = parameters.get("n_estimators", 120), parameters.get("num_leaves", 32)
        plain = plain_class(n_estimators=trees, num_leaves=leaves, n_jobs=threads, verbose=-1)
        started = time.perf_counter()
        plain.fit(X, y, categorical_feature=categorical)
        theirs.append(time.perf_counter() - started)
    seconds, base = statistics.median(ours), statistics.median(theirs)
    goal = "" if problem.goal is None else f"{problem.goal:g}"
    cells = [
        name,
        f"{len(X):,} × {X.shape[1]}",
        f"{problem.norm} {problem.budget:g}",
        f"{base:.2f}",
        f"{seconds:.2f}",
        f"{seconds / base:.2f}",
        goal,
        figures(plain, X_test, y_test, attacker, threads),
        figures(robust, X_test, y_test, attacker, threads),
        f"{memory:,.0f} / {X.nbytes / 2**20:,.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def figures(model: Any, X: Array, y: Array, attacker: cg.Attacker, threads: int) -> str:
    """Accuracy / proven robustness; of a regression, both root mean squared errors."""
    options: dict[str, Any] = {"timeout": 1, "threads": threads, "progress": False}
    if y.dtype.kind == "f":
        ends = cg.output_range(model, X, attacker, **options)
        worst = np.maximum(ends.highest_upper - y, y - ends.lowest_lower)
        error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
        return f"{error:.4f} / {np.sqrt(np.mean(worst**2)):.4f}"
    found = cg.verify(model, X, y, attacker, **options)
    return f"{100 * found.accuracy:.2f} / {100 * found.robustness[0]:.2f}"


def peak_memory() -> float:
    """Peak memory of this process in MB."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"default: all of {', '.join(PROBLEMS)}")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:  # a process of its own, so that peak memory is this problem's
        print(measure(given.names[0], given.data, given.threads, given.repeat), flush=True)
        return
    print(
        "| problem | rows | attacker | LightGBM s | robust s | ratio | goal "
        "| LightGBM: plain / robust | robust model | memory / matrix, MB |"
    )
    print("|" + "---|" * 10, flush=True)
    for name in given.names or PROBLEMS:
        if name not in PROBLEMS:
            parser.error(f"no problem {name!r}; there are {', '.join(PROBLEMS)}")
        command = [sys.executable, __file__, name, "--one", "--data", str(given.data)]
        command += ["--threads", str(given.threads), "--repeat", str(given.repeat)]
        subprocess.run(command, check=False)


if __name__ == "__main__":
    main()
