"""Tables of attackers as people have them: an intrusion detector, a map, grey levels.

Comes in: cells of the kind "attackers". Goes out: chapters. Every table sets a real attacker beside
its twin, which is the nearest that can be said without directions, steps, categories or groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from carvegbm_experiments.plan.attackers import NORMAL, PLAIN, QUICK_STUDIES, STUDIES, Study
from carvegbm_experiments.report.lookup import Cells, Result, anchor, attacker_text, promised
from carvegbm_experiments.report.tables.table import (
    DASH,
    Table,
    decimals,
    duration,
    interval,
    percent,
    plural,
)
from carvegbm_experiments.store.verdicts import read_verdicts

__all__ = ["chapters"]

Chapter = tuple[str, str, str, tuple[Table, ...]]
Attacker = tuple[str, float]

_NAMES = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "large-spread": "large-spread",
    "robust": "robust training",
}
_TIME = "Time is the processor's for one row that is right, in the mean, with one thread."


def chapters(cells: Cells) -> list[Chapter]:
    """Id, title, text and tables of every chapter, with or without data."""
    return [
        (
            "attackers-detector",
            "An attacker who can only add",
            "NSL-KDD as people train on it: protocol, service and flag as categories, counters as "
            "whole numbers, nothing scaled. The attacker may raise duration, bytes sent and "
            "received, and four counters of connections, by whole numbers, and lower none; a unit "
            "of cost is a second, 100 bytes or a connection. For L0 it may also use another of "
            "eleven services and end the connection in another of four ways. Rates over windows, "
            "and all else, stay as they are. Its twin, “either way”, moves the same counters up "
            "and down by any amount, which is what could be said of it without directions and "
            "steps.",
            _tables(cells, "raise", _detector),
        ),
        (
            "attackers-groups",
            "One-hot groups",
            "Covertype, seven classes: ten columns of measurements in whole numbers, and two "
            "groups of 4 and 40 columns of which exactly one is 1, before and after. A unit of "
            "cost is 5 m of elevation, 15 m of distance and the like, or another area or soil "
            "type; for L0, area, soil type, distance to roads or distance to fire points may be "
            "anything. The twin, “columns”, knows no groups: every one of the 44 columns is 0 or 1 "
            "on its own.",
            _tables(cells, "groups", _groups),
        ),
        (
            "attackers-levels",
            "Grey levels",
            "Pixels are multiples of one grey level, and so is what an attacker can make of them. "
            "With the step said, a budget is rounded down to whole levels, and thresholds of two "
            "trees may be closer together. The twin, “reals”, is the paper's attacker.",
            _tables(cells, "levels", _levels),
        ),
    ]


def _tables(cells: Cells, real: str, make: Callable[[_Meetings, str], Table]) -> tuple[Table, ...]:
    """A table per study with this kind of attacker that is begun."""
    return tuple(
        make(_Meetings(cells, study), cells.title(study.dataset))
        for study in (STUDIES if promised(cells) else QUICK_STUDIES)
        if study.real == real and cells.cells("attackers", dataset=study.dataset)
    )


@dataclass(frozen=True)
class _Line:
    """A model that met an attacker: the results with the real one and with its twin."""

    attacker: Attacker
    model: str
    name: str
    real: Result | None
    twin: Result | None

    @property
    def label(self) -> tuple[str, str]:
        return attacker_text(*self.attacker), self.name


@dataclass(frozen=True)
class _Meetings:
    """The cells of one study; remembers what was not there."""

    cells: Cells
    study: Study
    missing: set[str] = field(default_factory=set)

    def lines(self) -> Iterator[_Line]:
        """Every attacker and every model, once for each attacker that it was trained for."""
        study = self.study
        for attacker in study.attackers:
            for model in study.parameters:
                meetings = study.meetings(model)
                for trained in dict.fromkeys(trained for trained, _ in meetings):
                    found = {
                        kind: self._result(attacker, model, kind, trained)
                        for kind in (study.real, study.twin)
                        if (trained, kind) in meetings
                    }
                    suffix = f" for “{trained}”" if trained == study.twin else ""
                    name = _NAMES[model] + suffix
                    pair = found.get(study.real), found.get(study.twin)
                    yield _Line(attacker, model, name, *pair)

    def _result(
        self, attacker: Attacker, model: str, kind: str, trained: str | None
    ) -> Result | None:
        norm, budget = attacker
        result = self.cells.result(
            "attackers",
            dataset=self.study.dataset,
            norm=norm,
            budget=float(budget),
            model=model,
            limits=kind,
            trained=trained,
        )
        if result is None:
            self.missing.add(f"attackers {self.study.dataset} {attacker} {model} {kind} {trained}")
        return result

    def notes(self) -> list[str]:
        """How many rows were judged, and what is missing."""
        study = self.study
        found = self.cells.cells("attackers", dataset=study.dataset)
        rows = max(cell["result"]["rows"] for cell in found)
        notes = [f"{rows:,} test rows, {study.timeout:g} s for each at most. {_TIME}"]
        if self.missing:
            count = plural(len(self.missing), "cell")
            notes.append(f"Not computed yet: {count} of this table.")
        return notes


def _most_robust(lines: list[_Line], column: int) -> frozenset[tuple[int, int]]:
    """Where the most robust model against each attacker stands."""
    best: dict[Attacker, tuple[float, int]] = {}
    for number, line in enumerate(lines):
        if line.real:
            standing = float(line.real["robustness"][0]), -number
            best[line.attacker] = max(best.get(line.attacker, standing), standing)
    return frozenset((-number, column) for _, number in best.values())


def _accuracy(result: Result | None) -> str:
    return decimals(result["accuracy"] if result else None, 4)


def _robustness(result: Result | None) -> str:
    lower, upper = result["robustness"] if result else (None, None)
    return interval(lower, upper, digits=4)


def _effort(result: Result | None) -> tuple[str, str, str]:
    """Trees, time per row, and rows that time left open."""
    if result is None:
        return DASH, DASH, DASH
    judged = max(1, round(result["accuracy"] * result["rows"]))
    each = duration(result["verify_seconds"] / judged)
    return f"{result['trees']:,}", each, f"{result['unknown']}"


# ── an intrusion detector ────────────────────────────────────────────────────────────────────


def _detector(meetings: _Meetings, title: str) -> Table:
    lines = list(meetings.lines())
    rows = tuple(
        (
            *line.label,
            _accuracy(line.real),
            _robustness(line.real),
            *_attacks(line.real),
            _false_alarms(line.real),
            _robustness(line.twin),
            _attacks(line.twin)[1],
            *_effort(line.real),
        )
        for line in lines
    )
    return Table(
        id="attackers-nsl-kdd",
        title=f"{title}: an attacker who can only add",
        caption="Accuracy and proven robustness on all test rows; of attacks, the share that is "
        "recognised, and the share that is recognised but can be turned into what the model takes "
        "for normal; of normal rows, the share taken for attacks. Large-spread and robust models "
        "are trained for the attacker they meet, “for either way” for its twin. Emphasised: the "
        "most robust model.",
        header=(
            *("attacker", "model", "accuracy", "robustness"),
            *("recognised", "turned", "false alarms", "robustness", "turned"),
            *("trees", "time per row", "open"),
        ),
        groups=(
            *(("", 2), ("all rows", 2), ("attacks", 2), ("normal rows", 1)),
            *(("either way", 2), ("model", 3)),
        ),
        rows=rows,
        notes=(*_spared(lines), *meetings.notes()),
        stub=2,
        marked=_most_robust(lines, 3),
        missing=frozenset(meetings.missing),
    )


def _attacks(result: Result | None) -> tuple[str, str]:
    """Shares of the attacks that are recognised, and that can be turned."""
    if result is None:
        return DASH, DASH
    counts = result["by_class"][1 - NORMAL]
    rows, fragile = counts["rows"], counts["fragile"]
    turned = interval(fragile / rows, (fragile + counts["unknown"]) / rows, 4)
    return decimals(1 - counts["wrong"] / rows, 4), turned


def _false_alarms(result: Result | None) -> str:
    if result is None:
        return DASH
    counts = result["by_class"][NORMAL]
    return decimals(counts["wrong"] / counts["rows"], 4)


def _spared(lines: list[_Line]) -> list[str]:
    """How much of what the twin can flip the real attacker cannot."""
    said = []
    for model in PLAIN:
        pairs = [
            (line.real["verdicts"], line.twin["verdicts"])
            for line in lines
            if line.model == model and line.real and line.twin
        ]
        flipped = [
            one for real, twin in pairs for one, other in _by_row(real, twin) if other == "f"
        ]
        if flipped:
            said.append(f"{_NAMES[model]} {percent(flipped.count('r') / len(flipped))}")
    if not said:
        return []
    return [
        "Rows that plain models lose to the twin, but not to the attacker who can only add, of all "
        f"that they lose to the twin: {', '.join(said)}."
    ]


def _by_row(real: str, twin: str) -> Iterator[tuple[str, str]]:
    return zip(read_verdicts(real), read_verdicts(twin), strict=True)


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


def _groups(meetings: _Meetings, title: str) -> Table:
    lines = list(meetings.lines())
    rows = tuple(
        (
            *line.label,
            _accuracy(line.real),
            _robustness(line.real),
            _robustness(line.twin),
            *_differences(line),
            *_effort(line.real),
        )
        for line in lines
    )
    return Table(
        id="attackers-covtype",
        title=f"{title}: one-hot groups",
        caption="Accuracy and proven robustness with the groups, and with each column on its own. "
        "Over-reported: the share of rows that only an attacker who breaks a group can flip. "
        "Missed: the share that can be flipped by moving the 1 of a group, but not by an attacker "
        "for whom that is two changes. Large-spread and robust models are trained for the attacker "
        "they meet, “for columns” for its twin. Emphasised: the most robust model.",
        header=(
            *("attacker", "model", "accuracy", "robustness", "robustness"),
            *("over-reported", "missed", "trees", "time per row", "open"),
        ),
        groups=(("", 2), ("groups", 2), ("columns", 3), ("model", 3)),
        rows=rows,
        notes=tuple(meetings.notes()),
        stub=2,
        marked=_most_robust(lines, 3),
        missing=frozenset(meetings.missing),
    )


def _differences(line: _Line) -> tuple[str, str]:
    """Shares of rows that are fragile without groups only, and with groups only."""
    if line.real is None or line.twin is None:
        return DASH, DASH
    pairs = list(_by_row(line.real["verdicts"], line.twin["verdicts"]))
    over, missed = pairs.count(("r", "f")), pairs.count(("f", "r"))
    return decimals(over / len(pairs), 4), decimals(missed / len(pairs), 4)


# ── grey levels ──────────────────────────────────────────────────────────────────────────────


def _levels(meetings: _Meetings, title: str) -> Table:
    by_attacker: dict[Attacker, list[_Line]] = {}
    for line in meetings.lines():
        by_attacker.setdefault(line.attacker, []).append(line)
    rows = tuple(
        (
            attacker_text(*attacker),
            *(_accuracy(plain.real), _robustness(plain.twin), _robustness(plain.real)),
            *(_accuracy(paper.real), _effort(paper.real)[0]),
            *(_robustness(paper.twin), _robustness(paper.real)),
            *(_accuracy(ours.real), _effort(ours.real)[0], _robustness(ours.real)),
        )
        for attacker, (plain, ours, paper) in by_attacker.items()
    )
    study = meetings.study
    return Table(
        id=anchor("attackers", study.dataset),
        title=f"{title}: grey levels",
        caption="Accuracy, number of trees, and proven robustness against an attacker who may make "
        "any number of a pixel (reals), and against one who makes grey levels (levels). Settings "
        "are those of Table 2; a pair of large-spread models has as many leaves per tree as tuning "
        "chose there.",
        header=(
            *("attacker", "accuracy", "reals", "levels"),
            *("accuracy", "trees", "reals", "levels"),
            *("accuracy", "trees", "levels"),
        ),
        groups=(
            *(("", 1), ("plain LightGBM", 3)),
            *(("large-spread for reals", 4), ("large-spread for levels", 3)),
        ),
        rows=rows,
        notes=("L0 is left out: how far a pixel moves is nothing to it.", *meetings.notes()),
        missing=frozenset(meetings.missing),
    )
