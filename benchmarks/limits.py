"""Time limits against the time taken, and how long Ctrl-C takes, on cases that are hard.

    python benchmarks/limits.py [--only stumps,forest] [--engines search] [--functions verify]
                                [--limits 0.1,0.3,1] [--rows 3] [--no-interrupts]

One instance per call, one thread, wall-clock time of the whole call; the model is loaded
beforehand. A limit is kept if the worst call takes at most 1.2 × limit + 50 ms. A call that decides
its instance earlier says little: the column `unknown` counts those that did not. A combination that
is refused (a model that is not large-spread) is left out.

Ctrl-C: a process of its own calls the function with a limit of 60 seconds and is interrupted a
second later; the delay is the time until KeyboardInterrupt comes through.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import carvegbm as cg

ENGINES = ("auto", "large-spread", "search")
FUNCTIONS = ("verify", "radius", "output_range")
LONG = 60.0
HEAD = f"{'case':<16} {'engine':<13} {'function':<13}"


class Case(NamedTuple):
    """Instances of a model, and an attacker."""

    model: cg.Ensemble
    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    attacker: cg.Attacker


def main() -> None:
    """Print a table of limits, then one of interrupts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default=",".join(CASES), help="cases, by the start of a name")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--limits", default="0.1,0.3,1", help="seconds")
    parser.add_argument("--rows", type=int, default=3, help="instances per line")
    parser.add_argument("--no-interrupts", action="store_true")
    parser.add_argument("--call", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.call:
        call_until_interrupted(options, *options.call)
        return
    names = [name for name in CASES if name.startswith(tuple(options.only.split(",")))]
    print(f"{HEAD} {'limit':>6} {'median':>8} {'worst':>8} {'unknown':>7}  within?")
    possible: list[tuple[str, str, str]] = []
    for name in names:
        case = CASES[name](options)
        for engine, function in product(options.engines.split(","), options.functions.split(",")):
            if measure(name, case, engine, function, options):
                possible.append((name, engine, function))
    if not options.no_interrupts:
        print(f"\n{HEAD} {'Ctrl-C':>8}  within 1 s?")
        for name, engine, function in possible:
            interrupt(name, engine, function, options)


def measure(name: str, case: Case, engine: str, function: str, options: argparse.Namespace) -> bool:
    """Print a line per limit; False if the engine refuses the case."""
    head = f"{name:<16} {engine:<13} {function:<13}"
    for limit in map(float, options.limits.split(",")):
        seconds, unknown = [], 0
        for row in range(min(options.rows, len(case.X))):
            started = time.perf_counter()
            try:
                decided = call(case, row, engine, function, limit)
            except cg.CarveError:
                return False
            seconds.append(time.perf_counter() - started)
            unknown += not decided
        worst = max(seconds)
        print(
            f"{head} {limit:>6g} {statistics.median(seconds):>8.3f} {worst:>8.3f} "
            f"{unknown:>3} of {len(seconds):<2} {'yes' if worst <= 1.2 * limit + 0.05 else 'NO'}",
            flush=True,
        )
    return True


def call(case: Case, row: int, engine: Any, function: str, limit: float) -> bool:
    """Ask about one instance; whether it was decided."""
    model, X, y, attacker = case.model, case.X[[row]], case.y[[row]], case.attacker
    how: dict[str, Any] = {"engine": engine, "timeout": limit, "threads": 1, "progress": False}
    if function == "verify":
        return bool(cg.verify(model, X, y, attacker, **how).status[0] != "unknown")
    if function == "radius":
        return bool(cg.radius(model, X, y, attacker, **how).exact[0])
    return bool(cg.output_range(model, X, attacker, **how).exact[0])


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────────


def interrupt(name: str, engine: str, function: str, options: argparse.Namespace) -> None:
    """Print how long it takes until a process that is at work hears Ctrl-C."""
    command = [sys.executable, __file__, "--data", str(options.data)]
    command += ["--call", name, engine, function]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # it begins
    time.sleep(1.0)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    heard = process.stdout.readline().split()
    process.kill()
    process.wait()
    head = f"{name:<16} {engine:<13} {function:<13}"
    if heard[:1] != ["interrupted"]:
        print(f"{head} {'–':>8}  done within a second, or before Ctrl-C came through", flush=True)
        return
    delay = float(heard[1]) - sent  # the clock is the same in all processes
    print(f"{head} {delay:>8.3f}  {'yes' if delay <= 1 else 'NO'}", flush=True)


def call_until_interrupted(
    options: argparse.Namespace, name: str, engine: str, function: str
) -> None:
    """Be the process that hears Ctrl-C."""
    case = CASES[name](options)
    print("begin", flush=True)
    try:
        call(case, 0, engine, function, LONG)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic(), flush=True)
    else:
        print("done", flush=True)
    os._exit(0)


# ── cases ────────────────────────────────────────────────────────────────────────────────────


def prepared(model: cg.Ensemble, X: npt.NDArray[np.float64], attacker: cg.Attacker) -> Case:
    """A case with the model's own decisions as labels, so that all rows are right."""
    return Case(model, X, model.decide(X), attacker)


def stumps(norm: Any, budget: float) -> Callable[[argparse.Namespace], Case]:
    """10^5 stumps on 100 features, many in reach of each other."""

    def make(_: argparse.Namespace) -> Case:
        rng = np.random.default_rng(0)
        model = many_stumps(rng.integers(100, size=100_000), rng.random(100_000), rng)
        return prepared(model, rng.random((20, 100)), cg.Attacker(norm, budget))

    return make


def apart(norm: Any, budget: float) -> Callable[[argparse.Namespace], Case]:
    """10^5 stumps, each on a feature of its own: large-spread."""

    def make(_: argparse.Namespace) -> Case:
        rng = np.random.default_rng(0)
        model = many_stumps(np.arange(100_000), rng.random(100_000), rng)
        return prepared(model, rng.random((5, 100_000)), cg.Attacker(norm, budget))

    return make


def many_stumps(
    features: npt.NDArray[np.int64], thresholds: npt.NDArray[np.float64], rng: np.random.Generator
) -> cg.Ensemble:
    scores = rng.normal(size=(len(features), 2)).tolist()
    trees = [
        {"feature": feature, "threshold": threshold, "left": {"score": a}, "right": {"score": b}}
        for feature, threshold, (a, b) in zip(
            features.tolist(), thresholds.tolist(), scores, strict=True
        )
    ]
    return cg.Ensemble.from_trees(trees, n_features=int(features.max()) + 1)


def forest(
    norm: Any, budget: float, *, regression: bool = False
) -> Callable[[argparse.Namespace], Case]:
    """ExtraTrees, 400 trees of any depth, on spambase or, without it, on synthetic data."""

    def make(options: argparse.Namespace) -> Case:
        from sklearn.datasets import make_classification
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        path = options.data / "tabular" / "spambase.npz"
        if path.exists():
            data = np.load(path, allow_pickle=True)
            keys = {key.lower(): key for key in data.files}
            X, y = data[keys.get("x", "X")], data[keys.get("y", "y")]
        else:
            X, y = make_classification(4000, 57, n_informative=20, flip_y=0.05, random_state=0)
        X = np.asarray(X, dtype=np.float64)
        X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12)
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], np.asarray(y)[order]
        kind = ExtraTreesRegressor if regression else ExtraTreesClassifier
        trees = kind(400, random_state=0, n_jobs=1).fit(X[500:], y[500:])
        rows = X[:20].astype(np.float32).astype(np.float64)
        return prepared(cg.load(trees), rows, cg.Attacker(norm, budget))

    return make


def knapsack(norm: int) -> Callable[[argparse.Namespace], Case]:
    """Stumps on features of their own whose gains are their costs: a subset-sum problem.

    Half of the total cost may be spent; to tell whether exactly that much can be gained is hard.
    """

    def make(_: argparse.Namespace) -> Case:
        rng = np.random.default_rng(norm)
        steps = rng.integers(2**20, 2**22, size=60)
        gains = steps.astype(float) ** norm
        trees = [
            {"feature": i, "threshold": -float(step), "left": {"score": -g}, "right": {"score": 0}}
            for i, (step, g) in enumerate(zip(steps.tolist(), gains.tolist(), strict=True))
        ]
        spend = float(gains.sum()) / 2
        model = cg.Ensemble.from_trees(trees, n_features=60, base_score=float(np.floor(spend)))
        return prepared(model, np.zeros((3, 60)), cg.Attacker(norm, spend ** (1 / norm)))

    return make


CASES: dict[str, Callable[[argparse.Namespace], Case]] = {
    "stumps-inf": stumps("inf", 0.1),
    "stumps-1": stumps(1, 1.0),
    "stumps-apart-inf": apart("inf", 0.1),
    "stumps-apart-1": apart(1, 10.0),
    "forest-inf": forest("inf", 0.05),
    "forest-1": forest(1, 0.3),
    "forest-output": forest("inf", 0.05, regression=True),
    "knapsack-1": knapsack(1),
    "knapsack-2": knapsack(2),
}

if __name__ == "__main__":
    main()
