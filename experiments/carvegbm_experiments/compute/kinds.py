"""How each kind of cell is computed: from its configuration to its result.

Comes in: a `Cell` and the `Bench` with data and models. Goes out: the result as plain values.
Models are chosen on validation data; their test figures are reported and decide nothing. Stored
cells call the trials of a configuration its `candidates`; that name stays theirs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import carvegbm as cg
from carvegbm_experiments.compute.attacked import Images, attacked_images
from carvegbm_experiments.compute.attackers import attackers
from carvegbm_experiments.compute.models import Bench, attacker_of
from carvegbm_experiments.compute.robust import robust
from carvegbm_experiments.compute.trials import Trial, Trials
from carvegbm_experiments.compute.verdicts import Judge, in_blocks
from carvegbm_experiments.plan.cell import Cell

if TYPE_CHECKING:
    from carvegbm_experiments.datasets import Split

__all__ = ["compute"]

Result = dict[str, Any]

_NOTHING = 1e-30  # a budget that no measurement can tell from 0
_NOTHING_ROWS = 500


def compute(cell: Cell, bench: Bench) -> Result:
    """The result of a cell."""
    return _KINDS[cell.kind](cell, bench)


def _dataset(cell: Cell, bench: Bench) -> Result:
    data = bench.dataset(cell.dataset)
    split = bench.split(cell.configuration)
    counts = np.bincount(data.y, minlength=len(data.classes))
    return {
        "title": data.title,
        "instances": len(data.y),
        "features": data.X.shape[1],
        "classes": [
            [str(name), round(int(count) / len(data.y), 6)]
            for name, count in zip(data.classes, counts, strict=True)
        ],
        "train": len(split.y_train),
        "validation": len(split.y_valid),
        "test": len(split.y_test),
        "source": data.source,
        "fingerprint": bench.fingerprint(cell.configuration),
    }


def _plain(cell: Cell, bench: Bench) -> Result:
    tuned = bench.plain(cell.configuration)
    split = bench.split(cell.configuration)
    decided = tuned.best.ensemble.decide(split.X_test, threads=bench.threads)
    return {
        "accuracy": float(np.mean(decided == split.y_test)),
        "num_leaves": tuned.best.num_leaves,
        "trees": tuned.best.ensemble.n_trees,
        "leaves": tuned.best.ensemble.n_leaves,
        "validation_accuracy": tuned.best.validation_accuracy,
        "candidates": [
            {
                "num_leaves": trial.num_leaves,
                "trees": trial.ensemble.n_trees,
                "validation_accuracy": trial.validation_accuracy,
            }
            for trial in tuned.all
        ],
        "flipped_by_nothing": _flipped_by_nothing(tuned.best.ensemble, split, bench.threads),
    }


def _flipped_by_nothing(model: cg.Ensemble, split: Split, threads: int) -> float:
    """Share of right rows that a budget of 1e-30 flips: LightGBM puts thresholds beside 0."""
    X, y = split.X_test[:_NOTHING_ROWS], split.y_test[:_NOTHING_ROWS]
    found = cg.verify(model, X, y, cg.Attacker("inf", _NOTHING), threads=threads, progress=False)
    return found.counts["fragile"] / max(1, int(found.right.sum()))


def _plain_robustness(cell: Cell, bench: Bench) -> Result:
    model = bench.plain(cell.configuration).best.ensemble
    judge = Judge(cell, bench, model, cell.configuration["engine"], bench.threads)
    found = judge.counted("plain")
    return {
        "accuracy": found["right"] / found["rows"],
        "robustness": found["robustness"],
        "unknown": found["unknown"],
        "rows": found["rows"],
        "verify_seconds": found["seconds"],
        "engines": found["engines"],
    }


def _large_spread(cell: Cell, bench: Bench) -> Result:
    tuned = bench.large_spread(cell.configuration, cell.configuration["criterion"])
    return _tuned(cell, bench, tuned)


def _certified(cell: Cell, bench: Bench) -> Result:
    tuned = bench.certified(cell.configuration)
    return {**_tuned(cell, bench, tuned), **_variant(tuned.best), "why": _why(tuned)}


def _why(tuned: Trials) -> str:
    """Why certified training chose its model, in a sentence."""
    from carvegbm.training.search import describe_choice

    robustness = tuned.best.validation_robustness
    assert robustness is not None  # tuning proves it of every trial
    accuracies = [trial.validation_accuracy for trial in tuned.all]
    measures = {"robustness": robustness}
    return describe_choice(measures, accuracies, tuned.floor, tuned.plain_accuracy)


def _tuned(cell: Cell, bench: Bench, tuned: Trials) -> Result:
    """The chosen model on the whole test set; the others too, for plots only."""
    split, attacker = bench.split(cell.configuration), attacker_of(cell.configuration)
    tried, chosen = [], {}
    for number, trial in enumerate(tuned.all, 1):
        bench.detail(f"testing {number} of {len(tuned.all)} models")
        started = time.monotonic()
        judged = cg.verify(
            trial.ensemble,
            split.X_test,
            split.y_test,
            attacker,
            threads=bench.threads,
            progress=False,
        )
        seconds = time.monotonic() - started
        figures = {
            "trees": trial.ensemble.n_trees,
            "validation_accuracy": trial.validation_accuracy,
            "validation_robustness": trial.validation_robustness,
            "accuracy": judged.accuracy,
            "robustness": judged.robustness[0],
        }
        variant = {} if trial.refit is None else _variant(trial)
        tried.append({"num_leaves": trial.num_leaves, **variant, **figures})
        if trial is tuned.best:
            chosen = {
                "num_leaves": trial.num_leaves,
                **figures,
                "unknown": judged.counts["unknown"],
                "leaves": trial.ensemble.n_leaves,
                "spread": _finite(cg.spread(trial.ensemble)),
                "verify_seconds": round(seconds, 6),
                "fit_seconds": trial.seconds,
            }
    return {**chosen, "candidates": tried}


def _variant(trial: Trial) -> Result:
    """What certified training did to the trial."""
    return {"quietness": trial.quietness, "refit": trial.refit}


def _gallery(cell: Cell, bench: Bench) -> Result:
    setting = cell.configuration
    data, split = bench.dataset(cell.dataset), bench.split(setting)
    found = attacked_images(
        bench.plain(setting).best.ensemble,
        Images(split.X_test[: setting["rows"]], split.y_test[: setting["rows"]], data.classes),
        attacker_of(setting),
        count=setting["images"],
        detail=bench.detail,
        timeout=setting["timeout"],
        threads=bench.threads,
    )
    return {"image_shape": list(data.image_shape or (1, data.X.shape[1])), **found}


def _curve(cell: Cell, bench: Bench) -> Result:
    setting = cell.configuration
    make = {
        "plain": bench.plain,
        "large-spread": bench.large_spread,
        "certified": bench.certified,
    }[setting["model"]]
    model = make(setting).best.ensemble
    split = bench.split(setting)
    X, y = split.X_test[: setting["rows"]], split.y_test[: setting["rows"]]
    budgets = np.array(setting["budgets"])

    def block(start: int, stop: int) -> dict[str, list[Any]]:
        bench.detail(f"row {start} of {len(X)}")
        found = cg.radius(
            model,
            X[start:stop],
            y[start:stop],
            cg.Attacker(setting["norm"]),
            max_budget=float(budgets.max()),
            timeout=setting["timeout"],
            threads=bench.threads,
            progress=False,
        )
        return {"lower": found.lower.tolist(), "upper": found.upper.tolist()}

    radii = in_blocks(cell, bench, "radius", (model, X, y), bench.threads, block)
    bounds = {name: np.array(values)[None, :] for name, values in radii.items()}
    return {
        "budgets": budgets.tolist(),
        "lower": (bounds["lower"] > budgets[:, None]).mean(axis=1).tolist(),
        "upper": (bounds["upper"] > budgets[:, None]).mean(axis=1).tolist(),
        "rows": len(X),
    }


# ── times: one thread each side ──────────────────────────────────────────────────────────────


def _time(cell: Cell, bench: Bench) -> Result:
    setting = cell.configuration
    ours = bench.large_spread(setting).best.ensemble
    plain = bench.plain_like(setting, ours)
    seconds, verdicts = Judge(cell, bench, ours, "large-spread").measured()
    general_seconds, general = Judge(cell, bench, plain, setting["engine"]).measured()
    return {
        "rows": len(verdicts),
        "large_spread_seconds": seconds,
        "general_seconds": general_seconds,
        "general_unknown": general.counts["unknown"],
        "trees": ours.n_trees,
        "leaves": ours.n_leaves,
        "plain_trees": plain.n_trees,
        "plain_leaves": plain.n_leaves,
    }


def _speed_up(cell: Cell, bench: Bench) -> Result:
    setting = cell.configuration
    ours = bench.large_spread(setting).best.ensemble
    plain = bench.plain_like(setting, ours)
    seconds, verdicts = Judge(cell, bench, ours, "large-spread").measured()
    search_seconds, search = Judge(cell, bench, plain, "search").measured()
    program = Judge(cell, bench, plain, "milp")
    program.prepare()  # imports the solver
    milp = program.counted("milp", rows=setting["milp_rows"])
    return {
        "rows": len(verdicts),
        "large_spread_seconds": seconds,
        "search_seconds": search_seconds,
        "search_unknown": search.counts["unknown"],
        "milp_seconds": milp["seconds"],
        "milp_rows": milp["rows"],
        "milp_unknown": milp["unknown"],
        "trees": ours.n_trees,
        "leaves": ours.n_leaves,
        "plain_trees": plain.n_trees,
        "plain_leaves": plain.n_leaves,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


_KINDS: dict[str, Callable[[Cell, Bench], Result]] = {
    "dataset": _dataset,
    "plain": _plain,
    "gallery": _gallery,
    "plain-robustness": _plain_robustness,
    "large-spread": _large_spread,
    "curve": _curve,
    "certified": _certified,
    "robust": robust,
    "attackers": attackers,
    "time": _time,
    "speed-up": _speed_up,
}
