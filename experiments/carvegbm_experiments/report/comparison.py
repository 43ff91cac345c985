"""Ours against the paper's: which of our models counts in a row, and the sentences that follow.

The best of our models is the one with the highest robustness on the *validation* set (then the
highest accuracy there); the test set has no say. A number of ours is at or above the paper's if it
is so after rounding to the two decimals the paper prints.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from carvegbm_experiments.plan.paper import MEASURES, Task
from carvegbm_experiments.report.lookup import Cells, Result, attacker_text
from carvegbm_experiments.report.published import lines, standing
from carvegbm_experiments.report.tables.table import decimals, listing, plural, times

__all__ = [
    "Model",
    "best",
    "certified",
    "highlights",
    "large_spread",
    "models",
    "nothing_notes",
    "reaches",
]


@dataclass(frozen=True)
class Model:
    """A trained and verified model of ours: what to call it, and its cell's result."""

    label: str
    result: Result


def models(cells: Cells, task: Task) -> list[Model]:
    """Our verifiable models for one attacker, those of the paper's own method first."""
    dataset, norm, budget = task
    found = []
    for kind in ("large-spread", "certified"):
        for cell in cells.cells(kind, dataset=dataset, norm=norm, budget=float(budget)):
            criterion = cell["configuration"].get("criterion", "accuracy")
            tuned = " (by robustness)" if criterion == "robustness" else ""
            label = kind + (tuned if kind == "large-spread" else "")
            found.append((kind != "large-spread", criterion, Model(label, cell["result"])))
    return [model for *_, model in sorted(found, key=lambda entry: entry[:2])]


def best(cells: Cells, task: Task) -> Model | None:
    """The model with the highest robustness, then accuracy, on the validation set."""
    return _best(models(cells, task))


def large_spread(cells: Cells, task: Task, criterion: str = "accuracy") -> Result | None:
    """The result of the large-spread model tuned by `criterion`."""
    dataset, norm, budget = task
    return cells.result(
        "large-spread", dataset=dataset, norm=norm, budget=float(budget), criterion=criterion
    )


def certified(cells: Cells, task: Task) -> Result | None:
    """The result of certified training; the better on validation if tuned in two ways."""
    model = _best([model for model in models(cells, task) if model.label == "certified"])
    return model.result if model else None


def reaches(ours: float, paper: float) -> bool:
    """Whether ours, as printed with two decimals, is at or above the paper's.

    >>> reaches(0.8851, 0.89), reaches(0.8849, 0.89)
    (True, False)
    """
    return float(f"{ours:.2f}") >= paper


def accurate(ours: float, paper: float) -> bool:
    """Whether ours, as printed with two decimals, is within 0.01 of the paper's or above it."""
    return round(paper - float(f"{ours:.2f}"), 2) <= 0.01


def below_notes(cells: Cells, tasks: list[Task]) -> list[str]:
    """For every row in which the best of ours stays below the paper's, a sentence why."""
    return [note for task in tasks if task in MEASURES for note in _below_note(cells, task)]


def scoreboard(cells: Cells, tasks: list[Task]) -> list[str]:
    """How many of the paper's rows our models reach."""
    rows = [task for task in tasks if task in MEASURES]
    chosen = {task: model for task in rows if (model := best(cells, task))}
    if not chosen:
        return []
    reached = sum(
        reaches(model.result["robustness"], MEASURES[task].robustness)
        for task, model in chosen.items()
    )
    left = len(rows) - len(chosen)
    open_text = f" ({plural(left, 'row is', 'rows are')} not computed yet)" if left else ""
    sentences = [
        f"The best of our models, chosen on the validation set, is at least as robust as the "
        f"paper's, as printed (two decimals), in {reached} of {plural(len(rows), 'row')}"
        f"{open_text}."
    ]
    found = {task: result for task in rows if (result := large_spread(cells, task))}
    near, best_near = (
        sum(accurate(result["accuracy"], MEASURES[task].accuracy) for task, result in of)
        for of in (found.items(), [(task, model.result) for task, model in chosen.items()])
    )
    sentences.append(
        f"Within 0.01 of the accuracy of the paper's large-spread models, or above it: our "
        f"large-spread models in {near} of {plural(len(found), 'row')}, the best of our models in "
        f"{best_near} of {len(chosen)}."
    )
    return sentences


def undecided(cells: Cells, tasks: list[Task]) -> str | None:
    """How much stays open about plain models in these rows."""
    names = [dict(zip(("dataset", "norm", "budget"), task, strict=True)) for task in tasks]
    results = [cell["result"] for name in names for cell in cells.cells("plain-robustness", **name)]
    if not results:
        return None
    unknown, rows = (sum(result[name] for result in results) for name in ("unknown", "rows"))
    half = max((result["robustness"][1] - result["robustness"][0]) / 2 for result in results)
    worst = max((MEASURES[a].plain_uncertainty for a in tasks if a in MEASURES), default=0.0)
    open_text = (
        f"{unknown:,} of {rows:,} verdicts stay open (at most ± {half:.2g} in one row)"
        if unknown
        else f"all {rows:,} verdicts are decided"
    )
    paper = f", where the paper reports up to ± {worst:g}" if worst else ""
    return f"Plain models, which are not large-spread: {open_text}{paper}."


def nothing_notes(cells: Cells) -> list[str]:
    """What a budget that is next to nothing does to plain models, where it was measured."""
    found = [
        (cells.title(dataset), float(result["flipped_by_nothing"]))
        for dataset in cells.datasets()
        if (result := cells.result("plain", dataset=dataset)) and "flipped_by_nothing" in result
    ]
    if not found:
        return []
    shares = listing(f"{100 * share:.2g} % on {title}" for title, share in found)
    text = (
        "Thresholds beside 0: plain LightGBM splits zeros from the rest within 1e-35 of the value "
        f"0, and any positive budget crosses that. A budget of 1e-30 flips {shares} of the rows "
        "a GBDT gets right."
    )
    tasks = [task for task in cells.tasks("plain-robustness") if task[0] == "nsl-kdd"]
    names = [dict(zip(("dataset", "norm", "budget"), task, strict=True)) for task in tasks]
    lost = [result for name in names if (result := cells.result("plain-robustness", **name))]
    if lost and all(result["robustness"][1] == 0 for result in lost):
        text += (
            " On NSL-KDD, full of zeros and of byte counters that scaling to [0, 1] presses "
            "together at 0, nothing is left: its robustness is 0 at every budget above."
        )
    return [text]


def faster(cells: Cells) -> str | None:
    """How much faster the large-spread engine is than the general ones."""
    ratios = [ratio for cell in cells.cells("time") if (ratio := time_ratio(cell["result"]))]
    if not ratios:
        return None
    median = times(statistics.median(ratios))
    spread = (
        f", in the median over {len(ratios)} rows ({times(min(ratios))} to {times(max(ratios))})"
        if len(ratios) > 1
        else ""
    )
    return (
        f"Verifying a large-spread model is {median} as fast as verifying a plain model with as "
        f"many trees and about as many leaves with the general engines{spread}."
    )


def time_ratio(result: Result) -> float | None:
    """General engine's time over the large-spread engine's."""
    seconds = result["large_spread_seconds"]
    return result["general_seconds"] / seconds if seconds else None


def highlights(cells: Cells, tasks: list[Task]) -> list[str]:
    """The run in a few sentences."""
    comparable = scoreboard(cells, tasks) if cells.suite == "paper" else []
    robust = [line for protocol in ("A", "G", "L1/L2") for line in lines(cells, protocol)]
    others = undecided(cells, tasks), faster(cells), standing(robust)
    return [*comparable, *filter(None, others)]


def _best(found: list[Model]) -> Model | None:
    def merit(model: Model) -> tuple[float, float]:
        return model.result["validation_robustness"], model.result["validation_accuracy"]

    return max(found, key=merit, default=None)  # the first of equals


def _below_note(cells: Cells, task: Task) -> list[str]:
    model = best(cells, task)
    paper = MEASURES[task].robustness
    if model is None or reaches(model.result["robustness"], paper):
        return []
    ours = model.result["robustness"]
    dataset, norm, budget = task
    parts = [
        f"{cells.title(dataset)}, {attacker_text(norm, budget)}: {decimals(ours)} "
        f"of the {model.label} model with {plural(model.result['trees'], 'tree')} of at most "
        f"{plural(model.result['num_leaves'], 'leaf', 'leaves')} against {paper:.2f}"
    ]
    statistics_cell = cells.result("dataset", dataset=dataset)
    if statistics_cell:
        rows = statistics_cell["test"]
        robust, right = (round(model.result[name] * rows) for name in ("robustness", "accuracy"))
        needed = next(n for n in range(robust, rows + 1) if reaches(n / rows, paper))
        error = math.sqrt(ours * (1 - ours) * rows)
        parts.append(
            f"{plural(needed - robust, 'test row')} of {rows:,} short, "
            f"{(needed - robust) / max(error, 1):.1f} standard errors of such a count"
        )
        ceiling = float(f"{model.result['accuracy']:.2f}") <= paper
        parts.append(_cause(robust, right, needed, ceiling=ceiling))
    return ["; ".join([*parts, _reason(models(cells, task), model, paper)]) + "."]


def _cause(robust: int, right: int, needed: int, *, ceiling: bool) -> str:
    """What stands between a model and a number of robust rows.

    `ceiling`: its accuracy, as printed, is no more than the robustness it should have.
    """
    if right < needed:
        return (
            f"the cause is accuracy: it gets only {right:,} rows right, {needed:,} would have to "
            "be right and robust"
        )
    lost, spare = right - robust, right - needed
    if ceiling:
        return (
            f"its accuracy is the ceiling: of the {right:,} rows it gets right all but {spare:,} "
            f"would have to be robust, and the attacker flips {lost:,}"
        )
    return (
        f"the attacker flips {lost:,} of the {right:,} rows it gets right, where the paper's "
        f"number leaves room for {spare:,}"
    )


def _reason(found: list[Model], chosen: Model, paper: float) -> str:
    rivals = [model.label for model in found if reaches(model.result["robustness"], paper)]
    if rivals:
        return (
            f"{listing(rivals)} reaches the paper's number on the test set, but was less robust "
            f"on the validation set ({decimals(chosen.result['validation_robustness'])} was chosen)"
        )
    tried = {  # the two criteria choose among the same large-spread trials
        (model.label == "certified", *(c.get(n) for n in ("num_leaves", "quietness", "refit"))): c
        for model in found
        for c in model.result.get("candidates") or ()
    }
    scores = [float(c["robustness"]) for c in tried.values() if c.get("robustness") is not None]
    enough = sum(reaches(score, paper) for score in scores)
    if enough:
        return (
            f"{enough} of the {len(scores)} models tried would reach it on the test set, but "
            f"tuning, which sees the validation set only, preferred another"
        )
    if scores:
        return f"none of the {len(scores)} models tried does better than {decimals(max(scores))}"
    return "no other model was tried"
