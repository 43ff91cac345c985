"""Draw the figures of the guides to plots, certified and robust training.

    python tools/docs_figures.py [FOLDER]

writes quiet_thresholds.svg, robust_refit.svg and plots.svg to FOLDER (default docs/figures), and as
.png where `--png` is given. Data are scikit-learn's handwritten digits 3 and 8, and breast cancer.
Run twice with the same versions of matplotlib and LightGBM, it writes the same bytes.
robust_trade_off_fmnist.svg and robust_trade_off_mnist.svg are drawn from the cells in
experiments/results, as far as these are there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
from lightgbm import LGBMClassifier
from matplotlib.patches import Patch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

import carvegbm as cg
from carvegbm_experiments.report.figures import alone, figures
from carvegbm_experiments.store.folder import Store

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docs" / "figures"
RESULTS = REPOSITORY / "experiments" / "results"
TRADE_OFFS = ("fmnist", "mnist")
BUDGET = 0.1
PIXEL = 42  # the third of the sixth row
CROWDED, QUIET = 0.5 / 16, 5.5 / 16  # thresholds on it, each in the middle of a lattice cell
LEFT, RIGHT, BAD, GOOD = "#4477aa", "#ddaa33", "#bb5566", "#228833"  # safe for colour-blind eyes
STYLE = {
    "svg.hashsalt": "carvegbm",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--png", action="store_true", help="write .png files as well")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    parts = split()
    with plt.rc_context(STYLE):
        for name, figure in (
            ("quiet_thresholds", quiet_thresholds(*parts[0])),
            ("robust_refit", robust_refit(parts)),
            ("plots", plots()),
        ):
            figure.savefig(given.folder / f"{name}.svg", metadata={"Date": None})
            if given.png:
                figure.savefig(given.folder / f"{name}.png", dpi=110)
    for name, text in trade_offs().items():
        (given.folder / f"robust_trade_off_{name}.svg").write_text(text, encoding="utf-8")


def plots() -> Any:
    """A plain and a robust model, as the displays draw what is found out about them."""
    X, y = load_breast_cancer(return_X_y=True)
    names = [name.replace(" ", "_") for name in load_breast_cancer().feature_names]
    frame = pd.DataFrame(minmax_scale(X), columns=names)
    X_train, X_test, y_train, y_test = train_test_split(frame, y, random_state=0, test_size=0.4)
    attacker = cg.Attacker("inf", 0.03)
    models = {
        "plain": LGBMClassifier(n_estimators=60, num_leaves=8, verbose=-1, n_jobs=1),
        "robust": cg.RobustClassifier(norm="inf", budget=0.03, random_state=0, n_jobs=1),
    }
    for model in models.values():
        model.fit(X_train, y_train)
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    cg.VerificationDisplay.from_result(
        {name: cg.verify(model, X_test, y_test, attacker) for name, model in models.items()},
        ax=axes[0, 0],
    )
    radii = {name: cg.radius(model, X_test, y_test, norm="inf") for name, model in models.items()}
    cg.RobustnessCurveDisplay.from_result(radii, ax=axes[0, 1])
    radii["plain"].plot(axes[1, 0])
    found = cg.attack(models["plain"], X_test, y_test, attacker)
    found.plot(X_test, axes[1, 1], n_features=8)
    return figure


def trade_offs() -> dict[str, str]:
    """Plain, certified and robust training by data set, norm inf, from the stored cells."""
    drawn = figures(Store(RESULTS).cells("paper"))
    names = {name: f"robust-trade-off-{name}-inf" for name in TRADE_OFFS}
    return {name: alone(drawn[table]) for name, table in names.items() if table in drawn}


def split() -> list[tuple[Floats, Labels]]:
    """Training, validation and test images of the digits 3 and 8, pixels from 0 to 1."""
    X, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 8)
    X, X_rest, y, y_rest = train_test_split(
        X[chosen] / 16, y[chosen], test_size=0.5, stratify=y[chosen], random_state=0
    )
    X_valid, X_test, y_valid, y_test = train_test_split(
        X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
    )
    return [(X, y), (X_valid, y_valid), (X_test, y_test)]


def quiet_thresholds(X: Floats, y: Labels) -> Any:
    """One pixel of both digits, and the windows of a crowded and of a quiet threshold."""
    figure, axes = plt.subplots(figsize=(7.2, 3.3), layout="constrained")
    levels = np.arange(17) / 16
    columns = {digit: X[y == digit, PIXEL] for digit in (3, 8)}
    for digit, colour, shift in ((3, LEFT, -0.0115), (8, RIGHT, 0.0115)):
        height = [(columns[digit] == level).mean() for level in levels]
        axes.bar(levels + shift, height, 0.022, color=colour, label=f"digit {digit}", zorder=2)
    for threshold, colour, name in ((CROWDED, BAD, "crowded"), (QUIET, GOOD, "quiet")):
        axes.axvspan(threshold - BUDGET, threshold + BUDGET, color=colour, alpha=0.13, lw=0)
        axes.axvline(threshold, color=colour, lw=1.6, zorder=3)
        inside = {d: (np.abs(c - threshold) <= BUDGET).mean() for d, c in columns.items()}
        apart = abs((columns[3] <= threshold).mean() - (columns[8] <= threshold).mean())
        axes.text(
            threshold + 0.012,
            0.80,
            f"{name}: in reach\n{inside[3]:.0%} of the 3s\n{inside[8]:.0%} of the 8s",
            color=colour,
            va="top",
            linespacing=1.4,
        )
        print(f"{name}: crowding {max(inside.values()):.2f}, tells {apart:.2f} apart")
    axes.set_xlim(-0.08, 1.04)
    axes.set_ylim(0, 0.82)
    axes.set_xlabel(f"value of pixel {PIXEL} (training data)")
    axes.set_ylabel("share of the digit's images")
    handles, _ = axes.get_legend_handles_labels()
    window = Patch(color="#888888", alpha=0.25, lw=0, label="threshold ± budget")
    axes.legend(handles=[*handles, window], loc="upper right", frameon=False)
    return figure


def robust_refit(parts: list[tuple[Floats, Labels]]) -> Any:
    """Worst margins on test data before and after the refit."""
    train, valid, test = parts
    model = cg.LargeSpreadClassifier(
        norm="inf",
        budget=BUDGET,
        n_estimators=200,
        num_leaves=8,
        min_child_samples=10,
        random_state=0,
        n_jobs=1,
    ).fit(*train, eval_set=[valid], early_stopping_rounds=30)
    better = cg.robust_refit(model, *train, model.attacker_, eval_set=valid, threads=1)
    figure, rows = plt.subplots(
        2, 1, figsize=(7.2, 4.0), sharex=True, sharey=True, layout="constrained"
    )
    results = [
        (name, each.verify(*test, exact_margin=True))
        for name, each in (("before the refit", model), ("after it", better))
    ]
    everything = np.concatenate([result.worst_margin for _, result in results])
    edge = 0.25
    bins = np.arange(np.floor(everything.min() / edge), np.ceil(everything.max() / edge) + 1) * edge
    for axes, (name, result) in zip(rows, results, strict=True):
        robust = result.status == "robust"
        for chosen, colour, what in ((~robust, BAD, "not robust"), (robust, GOOD, "robust")):
            axes.hist(result.worst_margin[chosen], bins, color=colour, rwidth=0.9, label=what)
        axes.axvline(0, color="#333333", lw=1)
        counts = f"of {len(robust)} images {result.right.sum()} right, {robust.sum()} robust"
        axes.set_title(f"{name}: {counts}", loc="left", fontsize=9)
        axes.set_ylabel("images")
        print(f"{name}: {counts}")
    rows[0].legend(loc="upper right", frameon=False)
    rows[1].set_xlabel("worst margin (test data): raw score left after the best attack")
    return figure


if __name__ == "__main__":
    main()
