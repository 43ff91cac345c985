"""The search engine on plain models: verdicts and times, and Veritas on the same rows.

    python benchmarks/search.py [--only fm-300x64] [--norms inf,1] [--rows 100] [--veritas]
                                [--milp-rows 10]

Plain LightGBM models (not large-spread) on Fashion-MNIST 0 vs 3 and four tabular sets, min-max
scaled; the first `--rows` test rows, one thread, `--timeout` seconds per instance. Models are kept
in `--models` and lines in `--output`, so that an interrupted run can be taken up again.

Veritas (`pip install dtai-veritas`) is measured for norm inf in the same run. It keeps thresholds
as float32: where it says that no attack exists and ours is validated exactly, that is its error.
The plain mixed-integer program of carvegbm_experiments decides the first `--milp-rows` rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

import carvegbm as cg
from carvegbm.statuses import STATUSES
from carvegbm_experiments import milp
from verify import load_data

Matrix = npt.NDArray[np.float64]
Split = tuple[Matrix, Matrix, Matrix, Matrix]
IMAGES = [
    *((("inf", budget)) for budget in (0.005, 0.015, 0.03, 0.05)),
    *[(1, 0.05), (1, 0.1), (1, 0.15), (0, 1), (0, 2), (0, 3), (2, 0.05), (2, 0.1)],
]
CASES: dict[str, tuple[str, int, int, list[tuple[Any, float]]]] = {
    "fm-100x16": ("fashion-mnist", 100, 16, IMAGES),
    "fm-300x64": ("fashion-mnist", 300, 64, IMAGES),
    "fm-500x256": ("fashion-mnist", 500, 256, IMAGES),
    "ijcnn1": ("ijcnn1", 300, 64, [("inf", 0.01), ("inf", 0.03)]),
    "higgs": ("higgs_lightgbm_7k", 300, 64, [("inf", 0.005), ("inf", 0.02)]),
    "spambase": ("spambase", 300, 64, [("inf", 0.01)]),
    "pe_malware": ("pe_malware_20k", 300, 64, [("inf", 0.001)]),
}


def main() -> None:
    """Print one line per model and attacker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_formatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default=",".join(CASES), help="models, comma-separated")
    parser.add_argument("--norms", default="inf,1,0,2", help="norms, comma-separated")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds per instance")
    parser.add_argument("--exact", action="store_true", help="find the worst margin as well")
    parser.add_argument("--veritas", action="store_true", help="measure Veritas as well (inf)")
    parser.add_argument("--milp-rows", type=int, default=0)
    parser.add_argument("--models", type=Path, default=Path(".cache/search"), help="model folder")
    parser.add_argument("--output", type=Path, help="keep results here, and skip those it has")
    parser.add_argument("--train-only", action="store_true")
    options = parser.parse_args()
    done = _finished(options.output)
    print(
        f"{'model':<11} {'norm':>4} {'budget':>6} {'engine':<8} {'robust':>6} {'fragile':>7} "
        f"{'wrong':>5} {'unknown':>7} {'errors':>6} {'median ms':>9} {'worst s':>8} {'total s':>8}"
    )
    for name in options.only.split(","):
        data, trees, leaves, settings = CASES[name]
        split = load_split(options.data, data)
        booster = trained(options.models / f"{name}.txt", split, trees, leaves)
        if options.train_only:
            continue
        X, y = np.ascontiguousarray(split[2][: options.rows]), split[3][: options.rows]
        for norm, budget in settings:
            key = f"{name} {norm} {budget} {len(X)} {options.timeout}"
            if str(norm) not in options.norms.split(",") or key in done:
                continue
            lines = measure(booster, X, y, norm, budget, options)
            for line in lines:
                _print(name, norm, budget, line)
            if options.output is not None:
                with options.output.open("a") as file:
                    file.write(json.dumps({"key": key, "lines": lines}) + "\n")


def measure(
    booster: lightgbm.Booster, X: Matrix, y: Matrix, norm: Any, budget: float, options: Any
) -> list[dict[str, Any]]:
    """Verdicts and seconds of the search, and of Veritas and the program where asked for."""
    found = cg.verify(
        booster,
        X,
        y,
        cg.Attacker(norm, budget),
        engine="search",
        timeout=options.timeout,
        threads=1,
        exact_margin=options.exact,
        progress=False,
    )
    statuses, seconds = found.status.tolist(), found.seconds
    lines = [_line("search", statuses, seconds, 0)]
    if options.veritas and norm == "inf":
        rows = [i for i, status in enumerate(statuses) if status not in ("vulnerable", "broken")]
        theirs, their_seconds = veritas_verdicts(booster, X[rows], y[rows], budget, options.timeout)
        # Our fragile rows have witnesses checked in exact arithmetic, our robust rows are proofs.
        errors = sum(
            {"robust", "fragile"} == {verdict, statuses[row]}
            for verdict, row in zip(theirs, rows, strict=True)
        )
        wrong = [status for status in statuses if status in ("vulnerable", "broken")]
        lines.append(_line("veritas", [*theirs, *wrong], their_seconds, errors))
    if n := options.milp_rows:
        program = milp.verify(
            booster, X[:n], y[:n], cg.Attacker(norm, budget), timeout=options.timeout
        )
        errors = sum(
            "unknown" not in (one, other) and one != other
            for one, other in zip(program.status.tolist(), statuses[:n], strict=True)
        )
        lines.append(_line("milp", program.status.tolist(), program.seconds.tolist(), errors))
    return lines


def veritas_verdicts(
    booster: lightgbm.Booster, X: Matrix, y: Matrix, budget: float, timeout: float
) -> tuple[list[str], list[float]]:
    """What Veritas says of right instances, one at a time, single-threaded."""
    import veritas

    trees = veritas.get_addtree(booster, silent=True)
    negated = trees.negate_leaf_values()
    verdicts, seconds = [], []
    for row, label in zip(X, y, strict=True):
        started = time.perf_counter()
        config = veritas.Config(veritas.HeuristicType.MAX_OUTPUT)
        config.ignore_state_when_worse_than = 0.0
        config.stop_when_num_solutions_exceeds = 1
        config.stop_when_optimal = True
        config.max_focal_size = 1000  # as Veritas' own robustness search sets it
        config.focal_eps = 0.2
        config.max_memory = 4 << 30
        box = [veritas.Interval(value - budget, value + budget) for value in row.tolist()]
        search = config.get_search(negated if label == 1 else trees, box)
        reason = veritas.StopReason.NONE
        open_reasons = (veritas.StopReason.NONE, veritas.StopReason.NUM_NEW_SOLUTIONS_EXCEEDED)
        while reason in open_reasons and time.perf_counter() - started < timeout:
            reason = search.step_for(timeout - (time.perf_counter() - started), 100)
        if search.num_solutions() > 0 and search.get_solution(0).output > 0:
            verdicts.append("fragile")
        elif reason in (veritas.StopReason.NO_MORE_OPEN, veritas.StopReason.OPTIMAL):
            verdicts.append("robust")
        else:
            verdicts.append("unknown")
        seconds.append(time.perf_counter() - started)
    return verdicts, seconds


def trained(path: Path, split: Split, trees: int, leaves: int) -> lightgbm.Booster:
    """A plain LightGBM model, read from the folder if it is there."""
    if path.exists():
        return lightgbm.Booster(model_file=str(path))
    options = {
        "objective": "binary",
        "num_leaves": leaves,
        "learning_rate": 0.1,
        "num_threads": 1,
        "deterministic": True,
        "seed": 0,
        "verbose": -1,
    }
    booster = lightgbm.train(options, lightgbm.Dataset(split[0], split[1]), trees)
    path.parent.mkdir(parents=True, exist_ok=True)
    booster.save_model(str(path))
    return lightgbm.Booster(model_file=str(path))


def load_split(folder: Path, name: str) -> Split:
    """Training and test rows, min-max scaled by the training rows."""
    if name == "fashion-mnist":
        return load_data(folder / name)
    path = folder / "tabular" / f"{name}.npz"
    if not path.exists():
        sys.exit(f"no {path}: point --data to the folder that holds tabular/{path.name}")
    stored = np.load(path, allow_pickle=True)
    if "X" in stored:
        order = np.random.default_rng(0).permutation(len(stored["y"]))
        cut = int(0.7 * len(order))
        parts = [(stored["X"][rows], stored["y"][rows]) for rows in (order[:cut], order[cut:])]
    else:
        parts = [(stored[f"X_{part}"], stored[f"y_{part}"]) for part in ("train", "test")]
    (X, y), (X_test, y_test) = parts
    X, X_test = X.astype(np.float64), X_test.astype(np.float64)
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    labels = [np.unique(y, return_inverse=True)[1], np.unique(y_test, return_inverse=True)[1]]
    return (X - low) / width, labels[0], (X_test - low) / width, labels[1]


def _line(engine: str, statuses: list[str], seconds: Any, errors: int) -> dict[str, Any]:
    counts = {status: statuses.count(status) for status in STATUSES}
    return {
        "engine": engine,
        **counts,
        "errors": errors,
        "median": float(np.median(seconds)),
        "worst": float(np.max(seconds)),
        "total": float(np.sum(seconds)),
    }


def _print(name: str, norm: Any, budget: float, line: dict[str, Any]) -> None:
    print(
        f"{name:<11} {norm:>4} {budget:>6g} {line['engine']:<8} {line['robust']:>6} "
        f"{line['fragile']:>7} {line['vulnerable'] + line['broken']:>5} {line['unknown']:>7} "
        f"{line['errors']:>6} {line['median'] * 1e3:>9.2f} {line['worst']:>8.3f} "
        f"{line['total']:>8.3f}",
        flush=True,
    )


def _finished(path: Path | None) -> set[str]:
    if path is None or not path.exists():
        return set()
    return {json.loads(line)["key"] for line in path.read_text().splitlines()}


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog)


if __name__ == "__main__":
    main()
