"""Accuracy against robustness: every trial of tuning, and which of them were chosen.

The two criteria of tuning choose among the same large-spread trials, so that one `Tried` holds
the choices of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from carvegbm_experiments.report.lookup import Cells, Result, anchor, attacker_text, norm_text
from carvegbm_experiments.report.tables.table import DASH, Table, decimals, listing

__all__ = ["Tried", "trade_off_table", "trade_offs", "tried"]

_TOLD_APART_BY = ("num_leaves", "quietness", "refit")


@dataclass(frozen=True)
class Tried:
    """The trials of one kind of model for one budget."""

    kind: str
    budget: float
    trials: list[dict[str, Any]]
    choices: dict[str, Result] = field(default_factory=dict)
    """The model that was chosen, by criterion."""

    def chosen_by(self, trial: Mapping[str, Any]) -> list[str]:
        """The criteria by which this trial became the model."""
        return [
            criterion
            for criterion, result in self.choices.items()
            if all(trial.get(name) == result.get(name) for name in _TOLD_APART_BY)
        ]


def tried(cells: Cells, dataset: str, norm: str) -> list[Tried]:
    """What was tried for one data set and norm, as far as trials were kept."""
    found: dict[tuple[bool, float], Tried] = {}
    for kind in ("large-spread", "certified"):
        for cell in cells.cells(kind, dataset=dataset, norm=norm):
            setting, result = cell["configuration"], cell["result"]
            if not result.get("candidates"):
                continue
            budget = float(setting["budget"])
            place = kind != "large-spread", budget
            entry = found.setdefault(place, Tried(kind, budget, result["candidates"]))
            entry.choices[setting.get("criterion", "accuracy")] = result
    return [found[place] for place in sorted(found)]


def trade_offs(cells: Cells) -> list[tuple[str, str]]:
    """The data sets and norms for which there are trials."""
    tasks = cells.tasks("plain-robustness", "large-spread", "certified")
    pairs = dict.fromkeys((dataset, norm) for dataset, norm, _ in tasks)
    return [pair for pair in pairs if tried(cells, *pair)]


def trade_off_table(cells: Cells, dataset: str, norm: str) -> Table:
    """Every trial for one data set and norm."""
    rows: list[tuple[str, ...]] = []
    marked: set[tuple[int, int]] = set()
    notes = []
    for entry in tried(cells, dataset, norm):
        for trial in entry.trials:
            chosen = entry.chosen_by(trial)
            if chosen:
                marked.add((len(rows), 2))
            rows.append(
                (
                    attacker_text(norm, entry.budget),
                    entry.kind,
                    f"{trial['num_leaves']}",
                    _quietness(entry.kind, trial),
                    f"{trial['trees']}",
                    decimals(trial.get("validation_accuracy")),
                    decimals(trial.get("validation_robustness")),
                    decimals(trial.get("accuracy")),
                    decimals(trial.get("robustness")),
                    listing(chosen) or DASH,
                )
            )
        notes += [
            f"Certified, {attacker_text(norm, entry.budget)}: {result['why']}."
            for result in entry.choices.values()
            if result.get("why")
        ]
    return Table(
        id=anchor("trade-off", dataset, norm),
        title=f"{cells.title(dataset)}, {norm_text(norm)}",
        caption="Every trial, over the number of leaves per tree. Emphasised: those chosen, by "
        "accuracy or by robustness on the validation set. Quietness is the setting of certified "
        "training; test numbers took no part in the choice.",
        header=(
            *("attacker", "model", "leaves", "quietness", "trees"),
            *("accuracy", "robustness", "accuracy", "robustness", "chosen by"),
        ),
        groups=(("", 5), ("validation", 2), ("test", 2), ("", 1)),
        align=("left", "left", *("right",) * 7, "left"),
        rows=tuple(rows),
        notes=tuple(notes),
        marked=frozenset(marked),
    )


def _quietness(kind: str, trial: dict[str, Any]) -> str:
    if kind != "certified":
        return DASH
    value = trial.get("quietness")
    refit = ", refit" if trial.get("refit") else ""
    return ("none" if value is None else f"{value:g}") + refit
