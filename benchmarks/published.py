"""Other people's models: verdicts and times of the search, beside the mixed-integer program.

    python benchmarks/published.py [--rows 100] [--timeout 10] [--milp-rows 10] [--only radii]

XGBoost forests and robust boosted models that came with published attack and verification papers,
on the test rows that came with them; two budgets for each of the norms inf, 1 and 0, one thread.
The plain mixed-integer program of carvegbm_experiments (milp) decides the first `--milp-rows` rows
as well; where both decide, they must agree.

Then the exact norm inf radii of 5,000 test rows of cod-rna on three models of "Cost-aware robust
tree ensembles for security applications" (Chen et al., USENIX Security 2021). Its authors measure
them with a mixed-integer program and a commercial solver, of which their README says: "The commands
for cod-rna dataset take weeks to run". The rows are drawn by seed 0 (the file is sorted by class).
For `--milp-rows` of those that are right, milp must find an attack at the radius and none at the
next smaller double.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import carvegbm as cg
from carvegbm.data.files import load_table
from carvegbm_experiments import milp
from carvegbm_experiments.old_formats import load

FORESTS, ROBUST = "chong-z_tree-ensemble-attack", "chenhongge_treeVerification"
HIGGS = "data_HIGGS_s.test0.gz"
BREAST = "data_breast_cancer_scale0.test.gz"
MODELS = {
    "breast cancer forest": (FORESTS, "breast_cancer_rf.json.gz", BREAST),
    "diabetes forest": (FORESTS, "diabetes_rf.json.gz", "data_diabetes_scale0.test.gz"),
    "ijcnn forest": (FORESTS, "ijcnn_rf.json.gz", "data_ijcnn1s0.t.gz"),
    "higgs forest": (FORESTS, "higgs_rf.json.gz", HIGGS),
    "webspam forest": (
        FORESTS,
        "webspam_rf.json.gz",
        "data_webspam_wc_normalized_unigram.svm0.test.gz",
    ),
    "mnist forest": (FORESTS, "ori_mnist_rf.model.gz", "data_ori_mnist.test0.gz"),
    "breast cancer robust": (ROBUST, "breast_cancer_robust.0008.json.gz", BREAST),
    "higgs robust": (ROBUST, "higgs_robust.0050.json.gz", "ori_higgs0.gz"),
}
COST_AWARE = "surrealyz_growtrees"
RADII = {
    "cod-rna plain": "nature_cod-rna.bin",
    "cod-rna Chen 2019": "robust_cod-rna.bin",
    "cod-rna Chen 2021": "greedy_cod-rna_center_eps0.03.bin",
}
RADIUS_ROWS = 5000
BUDGETS = {"inf": (0.01, 0.05), 1: (0.05, 0.2), 0: (1, 2)}


def main() -> None:
    """Print a line per model and attacker, then one per model of the radii."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/models"))
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds per instance")
    parser.add_argument("--milp-rows", type=int, default=10)
    parser.add_argument("--only", help="models whose name contains this, or radii")
    options = parser.parse_args()
    if options.only != "radii":
        verdicts(options)
    if options.only is None or options.only == "radii":
        radii(options)


def verdicts(options: argparse.Namespace) -> None:
    """Print a line per model and attacker."""
    print(
        f"{'model':<21} {'trees':>5} {'leaves':>6} {'norm':>4} {'budget':>6} {'robust':>6} "
        f"{'fragile':>7} {'wrong':>5} {'unknown':>7} {'median':>9} {'worst':>9}   milp"
    )
    for name, (folder, model_file, rows_file) in MODELS.items():
        if options.only and options.only not in name:
            continue
        rows_path = options.data / folder / rows_file
        if not rows_path.exists():
            rows_path = options.data / FORESTS / rows_file
        table = load_table(found(rows_path), zero_based=True)
        model = load(found(options.data / folder / model_file), n_features=table.X.shape[1])
        X, y = table.X[: options.rows], table.y[: options.rows]
        for norm, budgets in BUDGETS.items():
            for budget in budgets:
                print(line(name, model, X, y, cg.Attacker(norm, budget), options), flush=True)


def line(
    name: str,
    model: cg.Ensemble,
    X: np.ndarray,
    y: np.ndarray,
    attacker: cg.Attacker,
    options: argparse.Namespace,
) -> str:
    """One line of the table."""
    result = cg.verify(
        model, X, y, attacker, engine="search", timeout=options.timeout, threads=1, progress=False
    )
    counts = result.counts
    second = second_opinion(model, X, y, attacker, result.status, options)
    return (
        f"{name:<21} {model.n_trees:>5} {model.n_leaves:>6} {attacker.norm:>4} "
        f"{attacker.budget:>6g} {counts['robust']:>6} {counts['fragile']:>7} "
        f"{counts['vulnerable'] + counts['broken']:>5} {counts['unknown']:>7} "
        f"{1e3 * np.median(result.seconds):>6.2f} ms {1e3 * result.seconds.max():>6.0f} ms   "
        f"{second}"
    )


def second_opinion(
    model: cg.Ensemble,
    X: np.ndarray,
    y: np.ndarray,
    attacker: cg.Attacker,
    status: np.ndarray,
    options: argparse.Namespace,
) -> str:
    """What milp says of the first rows, beside what the search said."""
    n = min(options.milp_rows, len(X))
    if n == 0:
        return "-"
    second = milp.verify(model, X[:n], y[:n], attacker, timeout=options.timeout)
    both = (status[:n] != "unknown") & (second.status != "unknown")
    differ = int(np.sum(both & (status[:n] != second.status)))
    return f"{int(both.sum())} of {n} decided, {differ} disagree, {np.median(second.seconds):.2f} s"


def radii(options: argparse.Namespace) -> None:
    """Print a line per model whose radii were published."""
    stored = np.load(found(options.data.parent / "tabular" / "cod_rna_full.npz"))
    rows = np.random.default_rng(0).permutation(len(stored["y_test"]))[:RADIUS_ROWS]
    X, y = stored["X_test"][rows], stored["y_test"][rows]
    print(
        f"\n{'norm inf radii':<18} {'trees':>5} {'leaves':>6} {'rows':>5} {'right':>5} "
        f"{'unknown':>7} {'mean':>8} {'median':>8} {'seconds':>7}   milp"
    )
    for name, file in RADII.items():
        model = load(found(options.data / COST_AWARE / file))
        started = time.perf_counter()
        radius = cg.radius(
            model,
            X,
            y,
            cg.Attacker("inf"),
            engine="search",
            timeout=options.timeout,
            threads=1,
            progress=False,
        )
        seconds = time.perf_counter() - started
        right = radius.upper > 0
        known = radius.radius[right & radius.exact]
        print(
            f"{name:<18} {model.n_trees:>5} {model.n_leaves:>6} {len(X):>5} {right.sum():>5} "
            f"{np.sum(~radius.exact):>7} {known.mean():>8.5f} {np.median(known):>8.5f} "
            f"{seconds:>7.2f}   {confirmed(model, X, y, radius, options)}",
            flush=True,
        )


def confirmed(
    model: cg.Ensemble, X: np.ndarray, y: np.ndarray, radius: cg.Radius, options: argparse.Namespace
) -> str:
    """What milp says at the radius and just below it, of the first rows that are right."""
    rows = np.flatnonzero(radius.exact & (radius.upper > 0))[: options.milp_rows]
    agree = differ = 0
    for row in rows:
        at = float(radius.radius[row])
        for budget, expected in ((at, "fragile"), (float(np.nextafter(at, 0)), "robust")):
            attacker = cg.Attacker("inf", budget)
            second = milp.verify(model, X[[row]], y[[row]], attacker, timeout=options.timeout)
            agree += second.status[0] == expected
            differ += second.status[0] not in (expected, "unknown")
    return f"{agree} of {2 * len(rows)} verdicts agree, {differ} disagree"


def found(path: Path) -> Path:
    """The path, if there is something at it."""
    if not path.exists():
        sys.exit(f"no {path}: point --data to the folder models/ that holds it, beside tabular/")
    return path


if __name__ == "__main__":
    main()
