"""Tables of what the paper does not have: L2, larger budgets, curves, tuning, trade-offs, images.

Rows come from the cells there are. `tables` puts these chapters behind the paper's own.
"""

from __future__ import annotations

import statistics
from typing import Any

from carvegbm_experiments.plan.paper import Task
from carvegbm_experiments.report.comparison import certified, large_spread
from carvegbm_experiments.report.lookup import (
    Cells,
    Record,
    Result,
    anchor,
    attacker_text,
    class_text,
    is_extra,
    norm_text,
)
from carvegbm_experiments.report.tables.table import DASH, Table, decimals, interval, plural, signed
from carvegbm_experiments.report.tables.trade_offs import trade_off_table, trade_offs
from carvegbm_experiments.store.pixels import original_pixels

__all__ = ["chapters", "curves"]

Chapter = tuple[str, str, str, tuple[Table, ...]]


def chapters(cells: Cells) -> list[Chapter]:
    """Id, title, text and tables of every chapter, with or without data."""
    extras = [task for task in _trained(cells) if is_extra(task)]
    return [
        (
            "l2",
            "The Euclidean norm",
            "The same kinds of model, and the same proofs, for an attacker who moves an instance "
            "by a Euclidean distance. The paper has no such numbers.",
            _some(_extra_table(cells, "l2-table", "The Euclidean norm", extras, euclidean=True)),
        ),
        (
            "larger-budgets",
            "Budgets the paper does not have",
            "Stronger attackers than the paper's, with and without certified training.",
            _some(
                _extra_table(
                    cells,
                    "larger-budgets-table",
                    "Budgets the paper does not have",
                    extras,
                    euclidean=False,
                )
            ),
        ),
        (
            "curves",
            "Robustness over the budget",
            "The smallest budget that flips each test row is computed once per model; the share of "
            "rows beyond it is the curve. Every number in the tables is proved; between two marks "
            "the line is drawn at the lower of them.",
            tuple(_curve_table(cells, *key) for key in curves(cells)),
        ),
        (
            "tuning",
            "Tuning by robustness",
            "The paper suggests to choose the number of leaves by proven robustness. Verification "
            "is fast enough to do so; both choices are made on the validation set.",
            _some(_tuning_table(cells)),
        ),
        (
            "trade-off",
            "Accuracy against robustness",
            "The trials of tuning on the test set: they differ in the leaves per tree, those "
            "of certified training in max_crowding too. Filled marks were chosen by accuracy, "
            "ringed marks by robustness, both on the validation set.",
            tuple(trade_off_table(cells, *key) for key in trade_offs(cells)),
        ),
        (
            "gallery",
            "Attacked images",
            "Test images that a plain model gets right, and beside each the changed image that it "
            "gets wrong. Changed pixels are outlined.",
            tuple(_gallery_table(cell, cells) for cell in _galleries(cells)),
        ),
    ]


def curves(cells: Cells) -> dict[tuple[str, str], dict[str, Result]]:
    """For every data set and norm the curves, by the name of their model."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for cell in sorted(cells.cells("curve"), key=_curve_order):
        setting = cell["configuration"]
        budget = setting.get("budget")
        name = "GBDT" if setting["model"] == "plain" else str(setting["model"])
        if name != "GBDT" and budget is not None:
            name += f" for {float(budget):g}"
        found.setdefault((setting["dataset"], setting["norm"]), {})[name] = cell["result"]
    return dict(sorted(found.items(), key=lambda item: cells.order((*item[0], 0.0))))


def _some(table: Table | None) -> tuple[Table, ...]:
    return (table,) if table else ()


def _trained(cells: Cells) -> list[Task]:
    return cells.tasks("plain-robustness", "large-spread", "certified")


def _curve_order(cell: Record) -> tuple[Any, ...]:
    setting = cell["configuration"]
    place = ("plain", "large-spread", "certified").index(setting["model"])
    return (place, float(setting.get("budget") or 0))


def _extra_table(
    cells: Cells, name: str, title: str, extras: list[Task], *, euclidean: bool
) -> Table | None:
    tasks = [task for task in extras if (task[1] == "2") == euclidean]
    if not tasks:
        return None
    rows, gains, absent = [], [], set[str]()
    plain = any(_plain(cells, task) for task in tasks)
    for task in tasks:
        dataset, norm, budget = task
        bounds, ours = _plain(cells, task), large_spread(cells, task)
        proud = certified(cells, task)
        for kind, result in (("large-spread", ours), ("certified", proud)):
            absent |= set() if result else {f"{kind} {task}"}
        if ours and proud:
            gains.append(proud["robustness"] - ours["robustness"])
        rows.append(
            (
                cells.title(dataset),
                attacker_text(norm, budget),
                *([_bounds(bounds)] if plain else []),
                *_pair(ours),
                *_pair(proud),
            )
        )
    pair = ("accuracy", "robustness", "leaves", "trees")
    losses = {
        cell["configuration"].get("clean_loss")
        for dataset, norm, budget in tasks
        for cell in cells.cells("certified", dataset=dataset, norm=norm, budget=budget)
    } - {None}
    notes = []
    if losses:
        allowed = " or ".join(f"{loss:g}" for loss in sorted(losses))
        notes.append(
            f"Certified training was allowed to give up {allowed} of plain LightGBM's accuracy on "
            "the validation set."
        )
    if gains:
        better = sum(gain > 0 for gain in gains)
        notes.append(
            f"Certified training is more robust in {better} of {plural(len(gains), 'row')}, by "
            f"{signed(statistics.mean(gains))} on average."
        )
    if absent:
        notes.append(f"Not computed yet: {plural(len(absent), 'cell')} of this table.")
    return Table(
        id=name,
        title=title,
        caption="Leaves are per tree, as chosen on the validation set.",
        header=("data set", "attacker", *(["robustness"] if plain else []), *pair, *pair),
        groups=(
            ("", 2),
            *([("GBDT", 1)] if plain else []),
            ("large-spread", 4),
            ("certified training", 4),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        stub=2,
        missing=frozenset(absent),
    )


def _plain(cells: Cells, task: Task) -> Result | None:
    dataset, norm, budget = task
    return cells.result("plain-robustness", dataset=dataset, norm=norm, budget=budget)


def _bounds(result: Result | None) -> str:
    lower, upper = result["robustness"] if result else (None, None)
    return interval(lower, upper, 3)


def _pair(result: Result | None) -> tuple[str, str, str, str]:
    if result is None:
        return (DASH,) * 4
    numbers = decimals(result["accuracy"]), decimals(result["robustness"])
    return *numbers, f"{result['num_leaves']}", f"{result['trees']}"


def _curve_table(cells: Cells, dataset: str, norm: str) -> Table:
    found = curves(cells)[dataset, norm]
    points = {
        name: dict(
            zip(
                map(float, result["budgets"]),
                zip(result["lower"], result["upper"], strict=True),
                strict=True,
            )
        )
        for name, result in found.items()
    }
    budgets = sorted({budget for curve in points.values() for budget in curve})
    rows = tuple(
        (
            f"{budget:g}",
            *(interval(*curve.get(budget, (None, None)), digits=3) for curve in points.values()),
        )
        for budget in budgets
    )
    count = max(result["rows"] for result in found.values())
    title = f"{cells.title(dataset)}, {norm_text(norm)}"
    return Table(
        id=anchor("curve", dataset, norm),
        title=title,
        caption=f"Robustness over the budget on {count:,} test rows. A number after “for” is the "
        "budget a model was trained for; ± is what a time limit left open.",
        header=("budget", *found),
        rows=rows,
        align=tuple("right" for _ in ("budget", *found)),
    )


def _tuning_table(cells: Cells) -> Table | None:
    rows, gains, losses = [], [], []
    for task in _trained(cells):
        one, two = (large_spread(cells, task, how) for how in ("accuracy", "robustness"))
        if two is None:
            continue
        gain = two["robustness"] - one["robustness"] if one else None
        if one and gain is not None:
            gains.append(gain)
            losses.append(two["accuracy"] - one["accuracy"])
        rows.append(
            (
                cells.title(task[0]),
                attacker_text(*task[1:]),
                *_pair(one)[:3],
                *_pair(two)[:3],
                DASH if gain is None else signed(gain),
            )
        )
    if not rows:
        return None
    notes = []
    if gains:
        more = sum(gain > 0 for gain in gains)
        notes.append(
            f"Tuning by robustness gives a more robust model in {more} of "
            f"{plural(len(gains), 'row')}, by {signed(statistics.mean(gains))} on average, while "
            f"accuracy changes by {signed(statistics.mean(losses))}."
        )
    return Table(
        id="tuning-table",
        title="Tuning by robustness",
        caption="Test accuracy and robustness of the large-spread model that either criterion "
        "chooses on the validation set; leaves are per tree.",
        header=(
            *("data set", "attacker", "accuracy", "robustness", "leaves"),
            *("accuracy", "robustness", "leaves", "robustness"),
        ),
        groups=(("", 2), ("tuned by accuracy", 3), ("tuned by robustness", 3), ("gain", 1)),
        rows=tuple(rows),
        notes=tuple(notes),
        stub=2,
    )


def _galleries(cells: Cells) -> list[Record]:
    def place(cell: Record) -> tuple[Any, ...]:
        setting = cell["configuration"]
        return cells.order((setting["dataset"], setting["norm"], float(setting["budget"])))

    return sorted(cells.cells("gallery"), key=place)


def _gallery_table(cell: Record, cells: Cells) -> Table:
    setting, result = cell["configuration"], cell["result"]
    norm, budget = setting["norm"], float(setting["budget"])
    rows = tuple(
        (
            f"{number}",
            class_text(setting["dataset"], image["label"]),
            class_text(setting["dataset"], image["predicted"]),
            f"{len(image['changed'])}",
            f"{_largest_change(image):.3g}",
            f"{image['distance']:.3g}",
            f"{image['margin']:.3g}",
        )
        for number, image in enumerate(result["images"], 1)
    )
    return Table(
        id=anchor("gallery", setting["dataset"], norm, budget),
        title=f"{cells.title(setting['dataset'])}, {attacker_text(norm, budget)}",
        caption=f"{_selection(result)}What was changed, and how far the changed image is from the "
        "original in the attacker's norm. Margin is the raw score of the changed image relative to "
        "the decision threshold, negative on the wrong side.",
        header=(
            "image",
            "class",
            "taken for",
            "pixels changed",
            "by at most",
            "distance",
            "margin",
        ),
        rows=rows,
        notes=_out_of_range(result["images"]),
        align=("right", "left", "left", "right", "right", "right", "right"),
    )


def _selection(result: Result) -> str:
    """Which images were chosen, where the cell says it."""
    if "tried" not in result:
        return ""
    faint = (
        f" {plural(result['faint'], 'image')} had to be taken whose change is smaller."
        if result["faint"]
        else ""
    )
    return (
        f"The first {result['tried']} test rows that the model gets right were tried; shown are "
        "the nearest witnesses, half of either class, that change some pixel by 1/510 or more, "
        f"half a grey level; smaller changes flip other images.{faint} "
    )


def _out_of_range(images: list[dict[str, Any]]) -> tuple[str, ...]:
    """The paper's attacker knows no pixels, only numbers."""
    count = sum(not 0 <= value <= 1 for image in images for _, value in image["changed"])
    if not count:
        return ()
    moved = plural(count, "changed pixel leaves", "changed pixels leave")
    return (f"{moved} the range from 0 to 1, as the paper's attacker may; drawn black or white.",)


def _largest_change(image: dict[str, Any]) -> float:
    original = original_pixels(image)
    return max((abs(value - original[index]) for index, value in image["changed"]), default=0.0)
