"""What robust training costs, and what it buys next to plain and certified training.

    python benchmarks/robust.py [trees] [whole] [images] [tabular] --data FOLDER [--threads N]

trees    a robust tree over a LightGBM tree of as many leaves, one thread each, grown in turn;
         ratios of medians on Fashion-MNIST 0 vs 3 (7,700 × 784) and 192,500 × 254 synthetic rows.
whole    from raw rows to the chosen model, verified on the whole test set: MNIST 2 vs 6 at 0.3,
         both sets with ten classes; time and peak memory, each in a process of its own.
images   the budgets of certified.py on Fashion-MNIST 0 vs 3 and MNIST 2 vs 6, 55/15/30.
tabular  its five tables: plain, certified (large-spread) and robust training side by side.

`images` and `tabular` print proven robustness / accuracy on test rows; everything is chosen on
validation rows. FOLDER holds fashion-mnist/, mnist/ and tabular/.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from sklearn.model_selection import train_test_split

import carvegbm as cg
from carvegbm.datasets.idx import read_idx
from carvegbm.training.binning import reach_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.inputs import blank_ensemble
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.robust.growing import CodedRows, Grower, GrowthSettings
from carvegbm.training.robust.targets import target_of
from certified import IMAGES, SEED, TABULAR, Data, figures, fit, load_images, load_table, plain, row
from train import synthetic

LEAVES = (16, 32, 128)
MAX_CROWDING = 0.35
THRESHOLDS = 31  # per feature, as robust training takes them of many features
LIMIT = 3.0  # of the ratio


class Fit(NamedTuple):
    """A fit of the section `whole`; its limit is in seconds on two cores."""

    folder: str
    labels: tuple[int, ...]
    budget: float
    parameters: dict[str, Any]
    limit: float


TEN = tuple(range(10))
TEN_CLASSES = {"num_leaves": 400, "n_estimators": 24}
WHOLE = {
    "mnist-2-6": Fit("mnist", (2, 6), 0.3, {}, 30.0),
    "mnist-ten": Fit("mnist", TEN, 0.3, TEN_CLASSES, 300.0),
    "fmnist-ten": Fit("fashion-mnist", TEN, 0.1, TEN_CLASSES, 300.0),
}


def main() -> None:
    sections = ("trees", "whole", "images", "tabular")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", help=f"{', '.join(sections)}; default: all")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="one data set")
    parser.add_argument("--rounds", type=int, default=30, help="of the section trees")
    parser.add_argument("--fit", help=argparse.SUPPRESS)  # what a process of `whole` is to do
    given = parser.parse_args()
    if given.fit:
        whole_process(given.data, given.fit, given.threads)
        return
    for name in given.sections or sections:
        if name not in sections:
            parser.error(f"no section {name!r}; there are {', '.join(sections)}")
    asked = given.sections or sections
    if "trees" in asked:
        trees(given.data, given.rounds, given.only)
    if "whole" in asked:
        whole(given.data, given.threads, given.only)
    if "images" in asked:
        images(given.data, given.threads, given.only)
    if "tabular" in asked:
        tabular(given.data / "tabular", given.threads, given.only)


# ── a tree over a tree ───────────────────────────────────────────────────────────────────────


def trees(folder: Path, rounds: int, only: str | None) -> None:
    row("data", "budget", "leaves", "LightGBM tree", "robust tree", "ratio", "limit")
    row(*["---"] * 7)
    for name, budget in (("fmnist", 0.1), ("synthetic", 0.0004)):
        if only not in (None, name):
            continue
        X, y = load_images(name, folder)[:2] if name == "fmnist" else synthetic()
        for leaves in LEAVES:
            ours, rival = in_turn(X, np.asarray(y), budget, leaves, rounds)
            robust, usual = statistics.median(ours), statistics.median(rival)
            shape = f"{name}, {len(X):,} × {X.shape[1]}"
            times = f"{1e3 * usual:.1f} ms", f"{1e3 * robust:.1f} ms"
            row(shape, budget, leaves, *times, f"{robust / usual:.2f}", LIMIT)


def in_turn(
    X: Any, y: Any, budget: float, leaves: int, rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of every robust tree and of every LightGBM tree, the first of each left out."""
    attacker = cg.Attacker("inf", budget)
    rows = Dataset(X, y)
    rule = ExclusionRule.against(attacker, blank_ensemble(X.shape[1]))
    candidates = reach_bins(rows, rule).choose(THRESHOLDS, MAX_CROWDING)
    settings = GrowthSettings(num_leaves=leaves, feature_fraction_bynode=0.5, seed=SEED)
    grower = Grower(CodedRows.of(X, candidates, attacker), target_of("binary", rows, 1), settings)
    parameters = {"objective": "binary", "num_leaves": leaves, "num_threads": 1, "verbosity": -1}
    parameters |= {"learning_rate": settings.learning_rate, "min_child_samples": 10}
    booster = lightgbm.Booster(parameters, lightgbm.Dataset(X, y, params={"verbosity": -1}))
    ours, rival = [], []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        if not grower.round():
            break
        middle = time.perf_counter()
        booster.update()
        ours.append(middle - started)
        rival.append(time.perf_counter() - middle)
    return ours[1:], rival[1:]


# ── a whole fit ──────────────────────────────────────────────────────────────────────────────


def whole(folder: Path, threads: int, only: str | None) -> None:
    header = ("data", "budget", "training", "verification", "limit", "trees", "error", "memory")
    row(*header)
    row(*["---"] * len(header))
    for name in WHOLE:
        if only in (None, name):
            command = [sys.executable, __file__, "--fit", name, "--data", str(folder)]
            subprocess.run([*command, "--threads", str(threads)], check=True)


def whole_process(folder: Path, name: str, threads: int) -> None:
    """In a process of its own: train, verify the test set, and print a row."""
    job = WHOLE[name]
    X, y, X_test, y_test = official(folder / job.folder, job.labels)
    started = time.perf_counter()
    X, X_valid, y, y_valid = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SEED)
    model = cg.RobustClassifier(
        norm="inf", budget=job.budget, random_state=SEED, n_jobs=threads, **job.parameters
    )
    model.fit(X, y, eval_set=[(X_valid, y_valid)])
    trained = time.perf_counter()
    result = cg.verify(
        model, X_test, y_test, model.attacker_, timeout=10, threads=threads, progress=False
    )
    verified = time.perf_counter()
    peak = peak_memory()
    row(
        name,
        job.budget,
        f"{trained - started:.1f} s",
        f"{verified - trained:.1f} s",
        f"{job.limit:.0f} s",
        model.ensemble_.n_trees,
        f"{100 * (1 - result.accuracy):.2f} / {100 * (1 - result.robustness[0]):.2f} %",
        f"{peak:,.0f} MB, data {(X.nbytes + X_valid.nbytes + X_test.nbytes) >> 20} MB",
    )


def peak_memory() -> float:
    """Of this process in MB; getrusage would count what the process that started it had."""
    status = Path("/proc/self/status").read_text("ascii")
    kilobytes = next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)
    return int(kilobytes) / 1024


def official(folder: Path, labels: tuple[int, ...]) -> list[Any]:
    """Training and test images of these classes, as published, pixels / 255."""
    arrays = []
    for part in ("train", "t10k"):
        files = {
            kind: next(folder.glob(f"{part}-{kind}-ubyte*"))
            for kind in ("images-idx3", "labels-idx1")
        }
        y = read_idx(files["labels-idx1"], 1)
        kept = np.isin(y, labels)
        X = read_idx(files["images-idx3"], 3).reshape(len(y), -1)
        arrays += [X[kept] / 255, y[kept].astype(int)]
    return arrays


# ── beside plain and certified training ──────────────────────────────────────────────────────


def robust(data: Data, norm: int | str, budget: float, threads: int, **options: Any) -> list[str]:
    """Robustness / accuracy on the test rows, trees and seconds of robust training."""
    model = cg.RobustClassifier(
        norm=norm, budget=budget, random_state=SEED, n_jobs=threads, **options
    )
    started = time.perf_counter()
    model.fit(data.X_train, data.y_train, eval_set=[(data.X_valid, data.y_valid)])
    seconds = time.perf_counter() - started
    return [
        proven(model, data, model.attacker_, threads),
        f"{model.ensemble_.n_trees}",
        f"{seconds:.1f}",
    ]


def proven(model: Any, data: Data, attacker: cg.Attacker, threads: int) -> str:
    """What is proven of robustness, or between what it lies, and the accuracy."""
    options: dict[str, Any] = {"timeout": 2, "threads": threads, "progress": False}
    result = cg.verify(model, data.X_test, data.y_test, attacker, **options)
    low, high = result.robustness
    return f"{low:.4f}{'' if low == high else f'…{high:.4f}'} / {result.accuracy:.4f}"


def images(folder: Path, threads: int, only: str | None) -> None:
    row("data", "norm", "budget", "plain", "certified", "robust", "trees", "s")
    row(*["---"] * 8)
    for name, settings in IMAGES.items():
        if only not in (None, name):
            continue
        data = load_images(name, folder)
        booster = plain(data, 16, threads)
        for norm, budgets, clean_loss, num_leaves in settings:
            for budget in budgets:
                options: dict[str, Any] = {"certified": True, "clean_loss": clean_loss}
                rival, _ = fit(data, norm, budget, num_leaves, threads, **options)
                row(
                    *(name, norm, budget),
                    proven(booster, data, cg.Attacker(norm, budget), threads),
                    figures(rival, data),
                    *robust(data, norm, budget, threads, clean_loss=clean_loss),
                )


def tabular(folder: Path, threads: int, only: str | None) -> None:
    row("data", "budget", "plain", "certified", "robust", "trees", "s")
    row(*["---"] * 7)
    for name, budgets in TABULAR.items():
        if only not in (None, name):
            continue
        data = load_table(folder / f"{name}.npz")
        booster = plain(data, 16, threads)
        for budget in budgets:
            rival, _ = fit(data, "inf", budget, 16, threads, certified=True)
            row(
                *(name, budget),
                proven(booster, data, cg.Attacker("inf", budget), threads),
                figures(rival, data),
                *robust(data, "inf", budget, threads, clean_loss=0.01),
            )


if __name__ == "__main__":
    main()
