"""How each kind of cell is computed: from its configuration to its result.

Comes in: a `Cell` and the `Bench` with data and models. Goes out: the result as plain values.
Models are chosen on validation data; their test figures are reported and decide nothing. Verdicts
of general engines and radii are computed in blocks of rows that are kept, so that an interrupted
cell goes on with them. Times that are measured begin anew.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm import __version__
from carvegbm.attacker import Attacker
from carvegbm.engines import EngineName as Engine
from carvegbm.ensemble import Ensemble
from carvegbm.fingerprint import digest_of
from carvegbm.radius import radius
from carvegbm.reproduce.attacked import attacked_images
from carvegbm.reproduce.models import Bench, Candidate, Candidates, attacker_of
from carvegbm.reproduce.plan import Cell
from carvegbm.spread import spread
from carvegbm.verification import Verification, verify

if TYPE_CHECKING:
    from carvegbm.datasets import Split

__all__ = ["compute"]

Result = dict[str, Any]

_BLOCK = 8  # rows per thread and block: enough to keep threads busy, few enough to keep often
_REPEATS = 7  # of a measurement that is short
_PATIENCE = 2.0  # seconds after which a measurement is not short
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
                "num_leaves": candidate.num_leaves,
                "trees": candidate.ensemble.n_trees,
                "validation_accuracy": candidate.validation_accuracy,
            }
            for candidate in tuned.all
        ],
        "flipped_by_nothing": _flipped_by_nothing(tuned.best.ensemble, split, bench.threads),
    }


def _flipped_by_nothing(model: Ensemble, split: Split, threads: int) -> float:
    """Share of right rows that a budget of 1e-30 flips: LightGBM puts thresholds beside 0."""
    X, y = split.X_test[:_NOTHING_ROWS], split.y_test[:_NOTHING_ROWS]
    found = verify(model, X, y, Attacker("inf", _NOTHING), threads=threads, progress=False)
    return found.counts["fragile"] / max(1, int(found.right.sum()))


def _plain_robustness(cell: Cell, bench: Bench) -> Result:
    model = bench.plain(cell.configuration).best.ensemble
    found = _verified(cell, bench, "plain", model, cell.configuration["engine"])
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


def _why(tuned: Candidates) -> str:
    """Why certified training chose its model, in a sentence."""
    from carvegbm.training.certified import reason

    robustness = tuned.best.validation_robustness
    assert robustness is not None  # tuning proves it of every candidate
    accuracies = [candidate.validation_accuracy for candidate in tuned.all]
    return reason(robustness, accuracies, tuned.floor, tuned.plain_accuracy)


def _tuned(cell: Cell, bench: Bench, tuned: Candidates) -> Result:
    """The chosen model on the whole test set; the others too, for plots only."""
    split, attacker = bench.split(cell.configuration), attacker_of(cell.configuration)
    candidates, chosen = [], {}
    for number, candidate in enumerate(tuned.all, 1):
        bench.detail(f"testing {number} of {len(tuned.all)} models")
        started = time.monotonic()
        judged = verify(
            candidate.ensemble,
            split.X_test,
            split.y_test,
            attacker,
            threads=bench.threads,
            progress=False,
        )
        seconds = time.monotonic() - started
        figures = {
            "trees": candidate.ensemble.n_trees,
            "validation_accuracy": candidate.validation_accuracy,
            "validation_robustness": candidate.validation_robustness,
            "accuracy": judged.accuracy,
            "robustness": judged.robustness[0],
        }
        variant = {} if candidate.refit is None else _variant(candidate)
        candidates.append({"num_leaves": candidate.num_leaves, **variant, **figures})
        if candidate is tuned.best:
            chosen = {
                "num_leaves": candidate.num_leaves,
                **figures,
                "unknown": judged.counts["unknown"],
                "leaves": candidate.ensemble.n_leaves,
                "spread": _finite(spread(candidate.ensemble)),
                "verify_seconds": round(seconds, 6),
                "fit_seconds": candidate.seconds,
            }
    return {**chosen, "candidates": candidates}


def _variant(candidate: Candidate) -> Result:
    """What certified training did to the candidate."""
    return {"quietness": candidate.quietness, "refit": candidate.refit}


def _gallery(cell: Cell, bench: Bench) -> Result:
    setting = cell.configuration
    data, split = bench.dataset(cell.dataset), bench.split(setting)
    found = attacked_images(
        bench.plain(setting).best.ensemble,
        split.X_test[: setting["rows"]],
        split.y_test[: setting["rows"]],
        Attacker(setting["norm"], setting["budget"]),
        count=setting["images"],
        timeout=setting["timeout"],
        classes=data.classes,
        threads=bench.threads,
        detail=bench.detail,
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
        found = radius(
            model,
            X[start:stop],
            y[start:stop],
            norm=setting["norm"],
            max_budget=float(budgets.max()),
            timeout=setting["timeout"],
            threads=bench.threads,
            progress=False,
        )
        return {"lower": found.lower.tolist(), "upper": found.upper.tolist()}

    radii = _by_rows(cell, bench, "radius", (model, X, y), bench.threads, block)
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
    seconds, verdicts = _measured(cell, bench, ours, "large-spread")
    general_seconds, general = _measured(cell, bench, plain, setting["engine"])
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
    seconds, verdicts = _measured(cell, bench, ours, "large-spread")
    search_seconds, search = _measured(cell, bench, plain, "search")
    _prepare(cell, bench, plain, "milp")
    milp = _verified(cell, bench, "milp", plain, "milp", threads=1, rows=setting["milp_rows"])
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


def _measured(
    cell: Cell, bench: Bench, model: Ensemble, engine: Engine
) -> tuple[float, Verification]:
    """How long one thread takes for the rows (the median, if it is short), and the verdicts."""
    setting, split = cell.configuration, bench.split(cell.configuration)
    X, y = split.X_test[: setting["rows"]], split.y_test[: setting["rows"]]
    options: dict[str, Any] = {"engine": engine, "timeout": setting["timeout"], "threads": 1}
    attacker = attacker_of(setting)
    bench.detail(f"measuring {engine}")
    found = _prepare(cell, bench, model, engine)
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _PATIENCE:
        started = time.perf_counter()
        found = verify(model, X, y, attacker, progress=False, **options)
        times.append(time.perf_counter() - started)
    return round(float(np.median(times)), 6), found


def _prepare(cell: Cell, bench: Bench, model: Ensemble, engine: Engine) -> Verification:
    """Verify one row: what is done once per model is no part of a measured time."""
    split, timeout = bench.split(cell.configuration), cell.configuration["timeout"]
    return verify(
        model,
        split.X_test[:1],
        split.y_test[:1],
        attacker_of(cell.configuration),
        engine=engine,
        timeout=timeout,
        threads=1,
        progress=False,
    )


# ── any engine, row by row ───────────────────────────────────────────────────────────────────


def _verified(
    cell: Cell,
    bench: Bench,
    name: str,
    model: Ensemble,
    engine: Engine,
    *,
    threads: int | None = None,
    rows: int | None = None,
) -> Result:
    """Verdicts on the first rows of the test set, in numbers."""
    setting, split = cell.configuration, bench.split(cell.configuration)
    rows = setting["rows"] if rows is None else min(rows, setting["rows"])
    X, y = split.X_test[:rows], split.y_test[:rows]
    attacker = attacker_of(setting)
    threads = bench.threads if threads is None else threads

    def block(start: int, stop: int) -> dict[str, list[Any]]:
        bench.detail(f"{name}, row {start} of {len(X)}")
        started = time.perf_counter()
        found = verify(
            model,
            X[start:stop],
            y[start:stop],
            attacker,
            engine=engine,
            timeout=setting["timeout"],
            threads=threads,
            progress=False,
        )
        return {
            "seconds": [time.perf_counter() - started],
            "status": found.status.tolist(),
            "right": found.right.tolist(),
            "engine": found.engine.tolist(),
        }

    found = _by_rows(cell, bench, name, (model, X, y), threads, block)
    statuses = Counter(found["status"])
    open_ = sum(
        status == "unknown" and right
        for status, right in zip(found["status"], found["right"], strict=True)
    )
    robust = statuses["robust"]
    return {
        "rows": len(X),
        "right": sum(found["right"]),
        "robustness": [robust / len(X), (robust + open_) / len(X)],
        "unknown": statuses["unknown"],
        "seconds": round(sum(found["seconds"]), 6),
        "engines": dict(sorted(Counter(name for name in found["engine"] if name).items())),
    }


def _by_rows(
    cell: Cell,
    bench: Bench,
    name: str,
    about: tuple[Ensemble, Any, Any],
    threads: int,
    block: Callable[[int, int], dict[str, list[Any]]],
) -> dict[str, list[Any]]:
    """Columns for the rows of `about` (model, X, y), of which finished blocks are kept."""
    named, rows = f"{name}-{digest_of([__version__, *about])[:16]}", len(about[1])
    size = _BLOCK * threads
    store = bench.store
    found, earlier = store.by_rows(cell.kind, cell.configuration, named, rows, size, block)
    bench.earlier.rows += earlier
    return found


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
    "time": _time,
    "speed-up": _speed_up,
}
