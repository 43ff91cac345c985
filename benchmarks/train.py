"""Cost and quality of large-spread training, next to plain LightGBM, measured in one run.

    python benchmarks/train.py [rounds] [memory] [accuracy] [--data FOLDER] [--quick]

rounds    time per round over plain LightGBM's, two threads each. A large-spread round (grow, read
          the tree, close thresholds, merge codes) and a plain one are run in turn; the figure is
          the ratio of their medians.
memory    peak memory of a whole fit over plain LightGBM's, each in a process of its own, data
          included.
accuracy  Fashion-MNIST 0 vs 3 and MNIST 2 vs 6, split 55/15/30, at most 500 rounds, learning rate
          0.1, early stopping 50, the better of 16 and 32 leaves on validation accuracy: test
          accuracy of both kinds of model, proven robustness, and the paper's figures.

Without a section all of them run. FOLDER holds fashion-mnist/ and mnist/ with the idx files.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

import carvegbm as cg
from carvegbm.training.binning import quantile_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule, OpenThresholds
from carvegbm.training.large_spread.lightgbm_c import BinLayout, CodeTable
from carvegbm.training.large_spread.rounds import start_rounds
from carvegbm.training.tuning import tune
from carvegbm_experiments import datasets

Matrix = npt.NDArray[np.float64]
LEAVES = (16, 32, 128)
# Norm, budget, and the largest ratio that is acceptable for 16, 32 and 128 leaves.
ROUND_SETTINGS = {
    "fashion-mnist": [
        ("inf", 0.01, (3.0, 3.0, 2.0)),
        (1, 0.1, (3.0, 3.0, 2.0)),
        (0, 1, (2.0, 2.0, 2.0)),
    ],
    "synthetic": [
        ("inf", 0.0004, (3.5, 3.0, 2.5)),
        (1, 0.002, (3.5, 3.0, 2.5)),
        (0, 1, (2.0, 2.0, 2.0)),
    ],
}
CLASSES = {"fashion-mnist": "0 vs 3", "mnist": "2 vs 6"}
# Per data set: (norm, budget, the paper's accuracy and robustness, allowed loss).
PAPER = {
    "fashion-mnist": [
        ("inf", 0.005, 0.97, 0.96, 0.005),
        ("inf", 0.01, 0.97, 0.89, 0.005),
        ("inf", 0.015, 0.97, 0.88, 0.005),
        (1, 0.05, 0.97, 0.89, 0.01),
        (1, 0.1, 0.96, 0.83, 0.01),
        (1, 0.15, 0.96, 0.66, 0.01),
        (0, 1, 0.96, 0.96, 0.015),
        (0, 2, 0.96, 0.90, 0.015),
        (0, 3, 0.96, 0.85, 0.015),
    ],
    "mnist": [
        ("inf", 0.01, 0.99, 0.99, 0.005),
        ("inf", 0.02, 0.99, 0.98, 0.005),
        ("inf", 0.03, 0.99, 0.97, 0.005),
        (1, 0.05, 0.99, 0.99, 0.01),
        (1, 0.1, 0.99, 0.96, 0.01),
        (1, 0.15, 0.99, 0.84, 0.01),
        (0, 1, 0.99, 0.99, 0.015),
        (0, 2, 0.99, 0.98, 0.015),
        (0, 3, 0.99, 0.96, 0.015),
    ],
}


def main() -> None:
    """Print the tables of the sections asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("section", nargs="*", help="rounds, memory, accuracy")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--threads", type=int, default=2, help="of both kinds of training")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and settings")
    parser.add_argument("--peak", help=argparse.SUPPRESS)  # what a memory process is to do
    options = parser.parse_args()
    if options.peak:
        print_peak(options)
        return
    sections = {"rounds": measure_rounds, "memory": measure_memory, "accuracy": measure_accuracy}
    for name in options.section or sections:
        if name not in sections:
            parser.error(f"no section {name!r}; there are {', '.join(sections)}")
        sections[name](options)


# ── data ─────────────────────────────────────────────────────────────────────────────────────


def split(folder: Path, name: str) -> tuple[Any, ...]:
    """Images of two classes: rows and labels for training, for validation and for testing."""
    known = {"fashion-mnist": "fmnist"}.get(name, name)
    parts = datasets.load(known, folder=folder, download=False).split(seed=0)
    names = ("X_train", "y_train", "X_valid", "y_valid", "X_test", "y_test")
    return tuple(getattr(parts, part) for part in names)


def synthetic(n: int = 192_500, d: int = 254) -> tuple[Matrix, npt.NDArray[Any]]:
    """As many rows and columns as the paper's Webspam training set, skewed towards 0."""
    rng = np.random.default_rng(0)
    X = rng.random((n, d)) ** 3
    score = (X - 0.25) @ rng.normal(size=d) + 2 * np.sin(6 * X[:, 0]) * X[:, 1]
    return X, (score + rng.normal(scale=0.5, size=n) > np.median(score)).astype(int)


def training_data(name: str, folder: Path) -> tuple[Matrix, npt.NDArray[Any]] | None:
    """The rows to train on, or None where the files are missing."""
    if name == "synthetic":
        return synthetic()
    if not (folder / name).is_dir():
        print(f"{name}: no folder {folder / name}, skipped")
        return None
    X_train, y_train, *_ = split(folder, name)
    return X_train, y_train


# ── time per round ───────────────────────────────────────────────────────────────────────────


def measure_rounds(options: argparse.Namespace) -> None:
    """Ratios of medians, large-spread and plain rounds in turn."""
    for name, settings in ROUND_SETTINGS.items():
        data = training_data(name, options.data)
        if data is None:
            continue
        X, y = data
        n_rounds = (
            (12 if options.quick else 40) if name == "synthetic" else (25 if options.quick else 100)
        )
        plain_data = lightgbm.Dataset(X, y, params={"verbosity": -1}).construct()
        candidates = quantile_bins(X, threads=options.threads)
        print(f"\ntime per round, {name} {len(X)} × {X.shape[1]}, {options.threads} threads each")
        print(
            f"{'norm':>4} {'budget':>7} {'leaves':>6} {'rounds':>6} {'plain':>9} {'ours':>9}"
            f" {'ratio':>6} {'limit':>6}"
        )
        for norm, budget, limits in settings[:1] if options.quick else settings:
            for leaves, limit in zip(LEAVES, limits, strict=True):
                attacker = cg.Attacker(norm, budget)
                times = in_turn(
                    X, y, plain_data, candidates, attacker, leaves, n_rounds, options.threads
                )
                ours, plain = (statistics.median(t) for t in times)
                print(
                    f"{norm!s:>4} {budget:>7g} {leaves:>6} {len(times[0]):>6}"
                    f" {1e3 * plain:>6.1f} ms {1e3 * ours:>6.1f} ms {ours / plain:>6.2f}"
                    f" {limit:>6.1f}",
                    flush=True,
                )


def in_turn(
    X: Matrix,
    y: npt.NDArray[Any],
    plain_data: lightgbm.Dataset,
    candidates: Any,
    attacker: cg.Attacker,
    leaves: int,
    n_rounds: int,
    threads: int,
) -> tuple[list[float], list[float]]:
    """Seconds of every large-spread round and of every plain one, until no split is left."""
    parameters = {"objective": "binary", "num_leaves": leaves, "learning_rate": 0.1}
    parameters |= {"num_threads": threads, "verbosity": -1}
    layout = BinLayout(candidates.n_codes, candidates.missing)
    table = CodeTable(candidates.encode(X, threads), layout, threads)
    blank = cg.Ensemble.from_trees([{"score": 0.0}], n_features=X.shape[1])
    state = OpenThresholds(candidates.thresholds, ExclusionRule.against(attacker, blank))
    ours_only = {**parameters, "deterministic": True}
    grower = start_rounds(table, state, ours_only, Dataset(X, y), 1)
    booster = lightgbm.Booster(parameters, plain_data)
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(n_rounds):
        started = time.perf_counter()
        trees = grower.grow()
        middle = time.perf_counter()
        if trees is None:
            break
        booster.update()
        ours.append(middle - started)
        plain.append(time.perf_counter() - middle)
    return ours, plain


# ── memory ───────────────────────────────────────────────────────────────────────────────────


def measure_memory(options: argparse.Namespace) -> None:
    """Peak memory of whole fits, each in a process of its own."""
    print("\npeak memory of a fit of 20 rounds × 32 leaves, data included")
    for name in ("fashion-mnist",) if options.quick else ("fashion-mnist", "synthetic"):
        if name != "synthetic" and not (options.data / name).is_dir():
            continue
        peaks = {}
        for kind in ("data", "plain", "large-spread"):
            command = [
                sys.executable,
                __file__,
                "--data",
                str(options.data),
                "--peak",
                f"{kind},{name}",
            ]
            command += ["--threads", str(options.threads)]
            peaks[kind] = float(subprocess.run(command, check=True, capture_output=True).stdout)
        ratio = peaks["large-spread"] / peaks["plain"]
        print(
            f"{name:>14}: data {peaks['data']:.0f} MB, plain {peaks['plain']:.0f} MB, "
            f"large-spread {peaks['large-spread']:.0f} MB, ratio {ratio:.2f} (limit 3)",
            flush=True,
        )


def print_peak(options: argparse.Namespace) -> None:
    """In a process of its own: do one thing and print the peak memory in MB.

    What loading the data took for a moment is not counted, where the system can forget it.
    """
    kind, name = options.peak.split(",")
    data = training_data(name, options.data)
    assert data is not None
    X, y = data
    forgets = Path("/proc/self/clear_refs")
    if forgets.exists():
        forgets.write_text("5")
    if kind == "plain":
        parameters = {"objective": "binary", "num_leaves": 32, "verbosity": -1}
        parameters["num_threads"] = options.threads
        lightgbm.train(parameters, lightgbm.Dataset(X, y), 20)
    elif kind == "large-spread":
        from carvegbm.training.estimators import LargeSpreadClassifier

        LargeSpreadClassifier(
            norm="inf", budget=0.0004, n_estimators=20, num_leaves=32, n_jobs=options.threads
        ).fit(X, y)
    if forgets.exists():
        status = Path("/proc/self/status").read_text()
        print(float(status.split("VmHWM:")[1].split()[0]) / 1024)
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


# ── accuracy and robustness ──────────────────────────────────────────────────────────────────


def measure_accuracy(options: argparse.Namespace) -> None:
    """Test accuracy and proven robustness next to plain LightGBM and the paper."""
    for name, settings in PAPER.items():
        if not (options.data / name).is_dir():
            print(f"{name}: no folder {options.data / name}, skipped")
            continue
        X, y, X_valid, y_valid, X_test, y_test = split(options.data, name)
        plain = max(
            (plain_model(X, y, X_valid, y_valid, leaves, options.threads) for leaves in (16, 32)),
            key=lambda model: np.mean((model.predict(X_valid) > 0.5) == y_valid),
        )
        accuracy = np.mean((plain.predict(X_test) > 0.5) == y_test)
        print(
            f"\n{name} {CLASSES[name]}: plain LightGBM {accuracy:.4f} ({plain.num_trees()} trees)"
        )
        print(
            f"{'norm':>4} {'budget':>7} {'leaves':>6} {'trees':>5} {'accuracy':>8} {'loss':>7} "
            f"{'limit':>6} {'robust':>7} {'seconds':>8}   paper"
        )
        for norm, budget, paper_accuracy, paper_robustness, limit in settings[
            :: 4 if options.quick else 1
        ]:
            started = time.perf_counter()
            result = tune(
                X,
                y,
                valid=(X_valid, y_valid),
                norm=norm,
                budget=budget,
                grid={"num_leaves": (16, 32)},
                n_jobs=options.threads,
            )
            verified = result.estimator.verify(X_test, y_test)
            seconds = time.perf_counter() - started
            print(
                f"{norm!s:>4} {budget:>7g} {result.chosen.parameters['num_leaves']:>6} "
                f"{result.chosen.trees:>5} {verified.accuracy:>8.4f} "
                f"{accuracy - verified.accuracy:>7.4f} {limit:>6.3f} "
                f"{verified.robustness[0]:>7.4f} {seconds:>8.1f}   "
                f"{paper_accuracy:.2f} {paper_robustness:.2f}",
                flush=True,
            )


def plain_model(
    X: Matrix,
    y: npt.NDArray[Any],
    X_valid: Matrix,
    y_valid: npt.NDArray[Any],
    leaves: int,
    threads: int,
) -> lightgbm.Booster:
    """LightGBM with its defaults, trained as the paper does."""
    training = lightgbm.Dataset(X, y)
    return lightgbm.train(
        {"objective": "binary", "num_leaves": leaves, "learning_rate": 0.1, "verbosity": -1}
        | {"num_threads": threads},
        training,
        500,
        valid_sets=[lightgbm.Dataset(X_valid, y_valid, reference=training)],
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )


if __name__ == "__main__":
    main()
