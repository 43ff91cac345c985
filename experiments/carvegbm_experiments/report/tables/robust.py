"""Tables of robust training: beside the published results, and beside our own other models."""

from __future__ import annotations

from collections.abc import Callable

from carvegbm_experiments.plan.robust import PROTOCOLS, QUICK_ROWS, ROWS, Row
from carvegbm_experiments.report.comparison import certified
from carvegbm_experiments.report.lookup import (
    Cells,
    Result,
    anchor,
    attacker_text,
    norm_text,
    promised,
)
from carvegbm_experiments.report.published import Line, lines, short_notes, standing, title
from carvegbm_experiments.report.tables.table import (
    DASH,
    Table,
    decimals,
    duration,
    interval,
    plural,
)

__all__ = ["chapters", "trade_off_points", "trade_offs"]

Chapter = tuple[str, str, str, tuple[Table, ...]]
Points = dict[str, list[tuple[float, float, float]]]
"""By model: budget, accuracy and robustness, from the smallest budget on."""

_OWN = ("tables", "images")
_UNKNOWN = (
    "Every test row is verified; one that time leaves open counts as not robust, and ± says what "
    "that may hide."
)
_AS_PUBLISHED = (
    "Training and test set as published; pixels are divided by 255, tables scaled to [0, 1] by "
    "their training rows. A fifth of the training rows is for validation, and the chosen plan is "
    "trained on all of them then; on diabetes, training cross-validates inside them. With ten "
    "classes there is a copy of every training image, shifted by a pixel (A has four), and the "
    "validation rows are not trained on"
)
_LIKE_A = (
    "Divided and scaled as in the table of A. On breast cancer and diabetes, training "
    "cross-validates inside the training rows"
)


def chapters(cells: Cells) -> list[Chapter]:
    """Id, title, text and tables of every chapter, with or without data."""
    return [
        (
            "published-linf",
            "Robust training beside published results",
            "RobustClassifier on the data, splits and budgets of published results; what it "
            "chooses it chooses on validation rows, and the test rows are looked at once. A: "
            "Andriushchenko and Hein, “Provably Robust Boosted Decision Stumps and Trees against "
            f"Adversarial Attacks”, 2019. {_UNKNOWN} ✓ is at or below the published error.",
            _some(_errors(cells, "A", _AS_PUBLISHED)),
        ),
        (
            "published-folds",
            "Robust training by cross-validation",
            "G: Guo, Teng, Gao and Zhou, “Fast Provably Robust Decision Trees and Boosting”, 2022, "
            "the best of their table.",
            _some(_accuracies(cells)),
        ),
        (
            "published-lp",
            "Robust training for L1 and L2",
            "D: Horváth, Müller, Fischer and Vechev, “(De-)Randomized Smoothing for Decision Stump "
            "Ensembles”, 2022, which certifies a smoothed model; ours is exact for the model "
            "itself.",
            _some(_errors(cells, "L1/L2", _LIKE_A)),
        ),
        (
            "robust-ours",
            "Robust training beside our other models",
            "The same rows for plain LightGBM, for certified training, which keeps the "
            "large-spread condition, and for robust training, which does not.",
            _some(_classes(cells)),
        ),
        (
            "robust-regressors",
            "Robust regression",
            "How far an attacker can drive a prediction off: of the two ends of the range within "
            "reach, the one that is further from the truth.",
            _some(_regression(cells)),
        ),
        (
            "robust-trade-off",
            "Accuracy against robustness by model",
            "A line per model; its points are budgets, named beside the robust model's. Certified "
            "and robust models were trained for each of them, the plain model is the same for all; "
            "where it is far less robust than they are, its points are in the table only.",
            tuple(_points_table(cells, *key) for key in trade_offs(cells)),
        ),
    ]


def _some(table: Table | None) -> tuple[Table, ...]:
    return (table,) if table else ()


# ── beside published results ─────────────────────────────────────────────────────────────────


def _errors(cells: Cells, protocol: str, how: str) -> Table | None:
    found = lines(cells, protocol)
    rows = tuple(
        (
            title(cells, line.row.dataset),
            attacker_text(line.row.norm, line.row.budget),
            line.row.source or DASH,
            _percent(line.row.clean),
            _percent(line.row.robust),
            _ticked(_percent(line.clean), line.clean_reached),
            _ticked(_between(line.robust), line.robust_reached),
            *_size(line.result),
        )
        for line in found
    )
    return _published_table(
        cells,
        found,
        id=anchor("robust", protocol),
        title=f"Robust training, protocol {protocol}",
        caption=f"Error in percent, without and with the attacker. {how}. Training is the time of "
        "all trials, verification that of the whole test set.",
        header=(
            *("data set", "attacker", "source", "clean", "robust", "clean", "robust"),
            *("trees", "leaves", "training", "verification"),
        ),
        groups=(("", 2), ("published error", 3), ("our error", 2), ("ours", 4)),
        align=("left", "left", "left", *("right",) * 8),
        rows=rows,
        paper=frozenset({2, 3, 4}),
        marked=frozenset(
            (i, 5 + j)
            for i, line in enumerate(found)
            for j, reached in enumerate((line.clean_reached, line.robust_reached))
            if reached
        ),
    )


def _accuracies(cells: Cells) -> Table | None:
    """Protocol G, whose source prints accuracies."""
    found = lines(cells, "G")
    rows = tuple(
        (
            title(cells, line.row.dataset),
            attacker_text(line.row.norm, line.row.budget),
            decimals(1 - (line.row.robust or 0.0) / 100, 4),
            _ticked(_robustness(line.result, 4), line.robust_reached),
            decimals(line.result["accuracy"] if line.result else None, 4),
            *_size(line.result),
        )
        for line in found
    )
    return _published_table(
        cells,
        found,
        id="robust-g",
        title="Robust training, protocol G",
        caption="Accuracy under attack, the mean of five folds (those of published evaluations "
        "where the data bring them); at most 100 trees per model. Tables are scaled to [0, 1] as a "
        "whole, as theirs are; pixels are divided by 255, where they stretch every pixel to "
        "[0, 1], which leaves their attacker no more room than ours has. Trees and leaves of the "
        "largest of the five models, times of all five.",
        header=(
            *("data set", "attacker", "robust", "robust", "clean"),
            *("trees", "leaves", "training", "verification"),
        ),
        groups=(("", 2), ("published accuracy", 1), ("our accuracy", 2), ("ours", 4)),
        align=("left", "left", *("right",) * 7),
        rows=rows,
        paper=frozenset({2}),
        marked=frozenset((i, 3) for i, line in enumerate(found) if line.robust_reached),
    )


def _published_table(cells: Cells, found: list[Line], **parts: object) -> Table | None:
    if not found:
        return None
    absent = {f"robust {line.row}" for line in found if line.result is None}
    said = standing(found)
    notes = [*([said] if said else []), *short_notes(cells, found), *_absence(absent)]
    make: Callable[..., Table] = Table
    return make(**parts, notes=tuple(notes), missing=frozenset(absent))


def _absence(absent: set[str]) -> list[str]:
    return [f"Not computed yet: {plural(len(absent), 'cell')} of this table."] if absent else []


def _percent(error: float | None) -> str:
    return decimals(error, 2)


def _between(error: tuple[float, float] | None) -> str:
    return interval(*error, digits=2) if error else DASH


def _ticked(text: str, reached: bool) -> str:
    return f"{text} ✓" if reached else text


def _size(result: Result | None) -> tuple[str, str, str, str]:
    if result is None:
        return (DASH,) * 4
    sizes = f"{result['trees']:,}", f"{result['leaves']:,}"
    return *sizes, duration(result["fit_seconds"]), duration(result["verify_seconds"])


def _robustness(result: Result | None, digits: int = 3) -> str:
    lower, upper = result["robustness"] if result else (None, None)
    return interval(lower, upper, digits)


# ── beside our other models ──────────────────────────────────────────────────────────────────


def _own_rows(cells: Cells, *protocols: str) -> list[Row]:
    """The rows of these protocols that are shown: all where a full run is meant."""
    planned = ROWS if promised(cells) else QUICK_ROWS
    rows = [row for row in planned if row.protocol in protocols]
    return [row for row in rows if cells.cells("robust", protocol=row.protocol)]


def _model(cells: Cells, row: Row, model: str) -> Result | None:
    """The result of one of our models; certified ones of images are those of the evaluation."""
    if model == "certified" and row.protocol == "images":
        return certified(cells, (row.dataset, row.norm, row.budget))
    return cells.result(
        "robust",
        dataset=row.dataset,
        norm=row.norm,
        budget=float(row.budget),
        protocol=row.protocol,
        model=model,
    )


def _figures(result: Result | None) -> tuple[float, float] | None:
    """Accuracy and what is proved of robustness."""
    if result is None:
        return None
    proved = result["robustness"]
    return result["accuracy"], float(proved[0] if isinstance(proved, list) else proved)


def _classes(cells: Cells) -> Table | None:
    rows: list[tuple[str, ...]] = []
    marked, gains, absent = set[tuple[int, int]](), [], set[str]()
    for row in _own_rows(cells, *_OWN):
        found = {
            model: _figures(_model(cells, row, model)) for model in ("plain", "certified", "robust")
        }
        planned = PROTOCOLS[row.protocol].models
        absent |= {f"{model} {row}" for model in planned if found[model] is None}
        rival, ours = found["certified"], found["robust"]
        if rival and ours:
            gains.append((ours[0] - rival[0], ours[1] - rival[1]))
            marked |= {(len(rows), 6 + i) for i in (0, 1) if ours[i] >= rival[i]}
        result = _model(cells, row, "robust")
        rows.append(
            (
                title(cells, row.dataset),
                attacker_text(row.norm, row.budget),
                *(
                    decimals(figures[i] if figures else None, 4)
                    for figures in found.values()
                    for i in (0, 1)
                ),
                *_size(result)[:3],
            )
        )
    if not rows:
        return None
    notes = []
    if gains:
        both = sum(accuracy >= 0 and robustness >= 0 for accuracy, robustness in gains)
        more = sum(robustness >= 0 for _, robustness in gains)
        notes.append(
            f"Robust training is at least as robust as certified training in {more} of "
            f"{plural(len(gains), 'row')}, and at least as accurate, too, in {both} of them."
        )
    return Table(
        id="robust-own",
        title="Plain, certified and robust training",
        caption="Accuracy and proven robustness on test rows. Tables are scaled from their "
        "training rows, a fifth of which is for validation; at most 4,000 test rows. Images are "
        "divided as in the tables above. Certified and robust training may give up as much "
        "accuracy as each other: 0.01, at larger budgets 0.04, of plain LightGBM's accuracy, or of "
        "the best that they reach, where that is less. Robust training has its default of 120 "
        "rounds, 360 at the three smallest L∞ budgets of images; certified training has at most "
        "500. Emphasised: at least as good as certified training.",
        header=(
            *("data set", "attacker"),
            *("accuracy", "robustness") * 3,
            *("trees", "leaves", "training"),
        ),
        groups=(
            *(("", 2), ("plain LightGBM", 2), ("certified (large-spread)", 2)),
            *(("robust training", 2), ("of the robust model", 3)),
        ),
        rows=tuple(rows),
        notes=(*notes, *_absence(absent if promised(cells) else set())),
        stub=2,
        marked=frozenset(marked),
        missing=frozenset(absent if promised(cells) else ()),
    )


def _regression(cells: Cells) -> Table | None:
    models = ("plain", "large-spread", "robust")
    rows: list[tuple[str, ...]] = []
    marked, absent = set[tuple[int, int]](), set[str]()
    for row in _own_rows(cells, "regression"):
        found = [_model(cells, row, model) for model in models]
        absent |= {f"{m} {row}" for m, result in zip(models, found, strict=True) if not result}
        worst = [result["worse_error"][1] if result else float("inf") for result in found]
        marked.add((len(rows), 3 + 2 * worst.index(min(worst))))
        rows.append(
            (
                title(cells, row.dataset),
                attacker_text(row.norm, row.budget),
                *(text for result in found for text in _squared(result)),
            )
        )
    if not rows:
        return None
    return Table(
        id="robust-regression",
        title="Regression",
        caption="Mean squared error over the variance of the test rows, in the mean of five folds: "
        "as it is, and at the worse end of the range that the attacker can reach. Features are "
        "scaled to [0, 1]; a fifth of the training rows is for validation. Emphasised: the "
        "smallest error at the worse end.",
        header=("data set", "attacker", *("clean", "worse end") * 3),
        groups=(("", 2), ("plain LightGBM", 2), ("large-spread", 2), ("robust training", 2)),
        rows=tuple(rows),
        notes=tuple(_absence(absent if promised(cells) else set())),
        stub=2,
        marked=frozenset(marked),
        missing=frozenset(absent if promised(cells) else ()),
    )


def _squared(result: Result | None) -> tuple[str, str]:
    if result is None:
        return DASH, DASH
    lower, upper = (error / result["variance"] for error in result["worse_error"])
    # Two bounds that are doubles next to each other are one number on paper.
    known = f"{lower:.4f}" == f"{upper:.4f}"
    return decimals(result["error"] / result["variance"], 4), interval(
        lower, lower if known else upper, 4
    )


# ── the trade-off ────────────────────────────────────────────────────────────────────────────


def trade_offs(cells: Cells) -> list[tuple[str, str]]:
    """The data sets and norms with more than one of our models."""
    pairs = dict.fromkeys((row.dataset, row.norm) for row in _own_rows(cells, "images"))
    return [pair for pair in pairs if len(trade_off_points(cells, *pair)) > 1]


def trade_off_points(cells: Cells, dataset: str, norm: str) -> Points:
    """What every model is at every budget, as far as it is computed."""
    points: Points = {}
    for model in ("plain", "certified", "robust"):
        for row in _own_rows(cells, "images"):
            if (row.dataset, row.norm) == (dataset, norm):
                figures = _figures(_model(cells, row, model))
                if figures:
                    points.setdefault(model, []).append((float(row.budget), *figures))
    return {model: sorted(found) for model, found in points.items()}


def _points_table(cells: Cells, dataset: str, norm: str) -> Table:
    points = trade_off_points(cells, dataset, norm)
    return Table(
        id=anchor("robust-trade-off", dataset, norm),
        title=f"{title(cells, dataset)}, {norm_text(norm)}, by model",
        caption="Accuracy and proven robustness on the test rows; certified models keep the "
        "large-spread condition.",
        header=("model", "attacker", "accuracy", "robustness"),
        rows=tuple(
            (model, attacker_text(norm, budget), decimals(accuracy, 4), decimals(robustness, 4))
            for model, found in points.items()
            for budget, accuracy, robustness in found
        ),
        stub=2,
    )
