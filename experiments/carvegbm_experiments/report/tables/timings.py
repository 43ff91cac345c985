"""How long verification takes: the paper's Table 3 and the data of its speed-up figure."""

from __future__ import annotations

from carvegbm_experiments.plan.paper import MEASURES, SPEED_UP
from carvegbm_experiments.plan.suites import PAPER
from carvegbm_experiments.report.comparison import time_ratio
from carvegbm_experiments.report.lookup import Asked, Cells, Result, attacker_text, promised, shown
from carvegbm_experiments.report.tables.table import DASH, Table, duration, plural, times

__all__ = ["speed_up_table", "speed_ups", "verification_times"]

_HOW = (
    "One thread; model and data are in memory, and what is prepared once per model is not counted; "
    "a short measurement is the median of up to 7"
)


def verification_times(cells: Cells) -> Table | None:
    """Table 3."""
    computed = cells.tasks("time")
    tasks = [a for a in shown(cells) if a in computed or (a in MEASURES and promised(cells))]
    if not tasks:
        return None
    ask, rows = Asked(cells), []
    for task in tasks:
        result, paper = ask("time", *task), MEASURES.get(task)
        rows.append(
            (
                cells.title(task[0]),
                attacker_text(*task[1:]),
                duration(result["general_seconds"] if result else None),
                duration(result["large_spread_seconds"] if result else None),
                times(time_ratio(result) if result else None),
                f"{result['general_unknown']:,}" if result else DASH,
                f"{result['trees']:,}" if result else DASH,
                f"{result['leaves']:,}" if result else DASH,
                f"{result['plain_leaves']:,}" if result else DASH,
                f"{paper.baseline_seconds:,} s" if paper else DASH,
                f"{paper.seconds:,} s" if paper else DASH,
                times(paper.baseline_seconds / paper.seconds if paper else None),
            )
        )
    counts = {cell["result"]["rows"] for cell in cells.cells("time")}
    measured = f"{max(counts):,} test rows" if counts else "500 test rows"
    return Table(
        id="times",
        title="Table 3: verification time",
        caption=f"Time to verify {measured}. General: on a plain model with as many trees and "
        "about as many leaves, the large-spread algorithm where it holds around an instance, then "
        f"a search, then a mixed-integer program. {_HOW}. The paper's baseline is SILVA for L∞ and "
        "a mixed-integer program for L0 and L1, on another machine: compare the speed-ups, not the "
        "seconds.",
        header=(
            *("data set", "attacker", "general", "large-spread", "speed-up", "undecided"),
            *("trees", "leaves", "plain leaves"),
            *("baseline", "CARVE-GBM", "speed-up"),
        ),
        groups=(("", 2), ("ours", 7), ("paper", 3)),
        rows=tuple(rows),
        notes=ask.notes(),
        stub=2,
        paper=frozenset({9, 10, 11}),
        missing=frozenset(ask.missing),
    )


def speed_up_table(cells: Cells) -> Table | None:
    """The data of the speed-up figure."""
    rows, absent = [], set()
    for dataset, norm, budget in cells.tasks("speed-up"):
        found = cells.cells("speed-up", dataset=dataset, norm=norm, budget=budget)
        by_trees = {cell["configuration"]["trees"]: cell["result"] for cell in found}
        if promised(cells):
            planned = {(dataset, norm, budget, trees) for trees in PAPER.speed_up_trees}
            absent |= {f"speed-up {p}" for p in planned if p[3] not in by_trees}
        for asked, result in sorted(by_trees.items()):
            trees = result.get("trees", asked)
            search, milp = speed_ups(result)
            rows.append(
                (
                    attacker_text(norm, budget),
                    f"{trees}" if trees == asked else f"{trees} of {asked}",
                    _leaves(result),
                    duration(result["large_spread_seconds"]),
                    duration(result["search_seconds"]),
                    times(search),
                    f"{result['search_unknown']:,}",
                    duration(result.get("milp_seconds")),
                    times(milp),
                    f"{result['milp_unknown']:,} of {result['milp_rows']:,}"
                    if result.get("milp_rows")
                    else DASH,
                )
            )
    if not rows:
        return None
    counts = {cell["result"]["rows"] for cell in cells.cells("speed-up")}
    setting = cells.cells("speed-up")[0]["configuration"]
    title = cells.title(setting["dataset"])
    leaves = f"trees of {setting['num_leaves']} leaves" if "num_leaves" in setting else "one thread"
    notes = [f"Not computed yet: {plural(len(absent), 'cell')} of this table."] if absent else []
    short = [row[1] for row in rows if " of " in row[1]]
    if short:
        notes.append(
            f"“{short[-1]}” trees: training ended early, when the thresholds that earlier trees "
            "had left open separated nothing any more (with L0 no feature may occur in two trees). "
            "The plain ensemble has as many trees."
        )
    return Table(
        id="speed-up-table",
        title="Speed-up over the number of trees",
        caption=f"{title}, {max(counts):,} test rows, {leaves}; the plain model has as many trees "
        f"and about as many leaves. {_HOW}. Where the mixed-integer program saw "
        "fewer rows, the speed-up compares the times per row. The paper's figure, which "
        f"compares with SILVA and a mixed-integer program, goes from about {SPEED_UP[0]} to "
        f"more than {SPEED_UP[1]} at 125 trees.",
        header=(
            *("attacker", "trees", "leaves / plain", "large-spread"),
            *("time", "speed-up", "undecided", "time", "speed-up", "undecided"),
        ),
        groups=(("", 4), ("search", 3), ("mixed-integer program", 3)),
        rows=tuple(rows),
        notes=tuple(notes),
        missing=frozenset(absent),
    )


def _leaves(result: Result) -> str:
    both = [result.get(name) for name in ("leaves", "plain_leaves")]
    return " / ".join(DASH if count is None else f"{count:,}" for count in both)


def speed_ups(result: Result) -> tuple[float | None, float | None]:
    """Time per row over the large-spread engine's time per row: the search's, the program's."""
    unit = result["large_spread_seconds"] / result["rows"]
    if not unit:
        return None, None
    milp = None
    if result.get("milp_rows") and result.get("milp_seconds") is not None:
        milp = result["milp_seconds"] / result["milp_rows"] / unit
    return result["search_seconds"] / result["rows"] / unit, milp
