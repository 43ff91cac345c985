"""Attackers as people have them: a model is trained, kept, and judged on its test rows.

Comes in: a cell of the kind "attackers". Goes out: its result, with the verdict on every row and
counts by class. A row that time leaves open counts as not robust. Seconds are the processor's, not
the clock's. A model that several cells ask for is trained once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import carvegbm as cg
from carvegbm.storage.files import make_folder
from carvegbm.storage.identity import digest_of
from carvegbm_experiments.compute.fitting import Fitted, Job, fit
from carvegbm_experiments.compute.frames import FILES, numbers
from carvegbm_experiments.compute.models import Bench
from carvegbm_experiments.compute.robust_data import Part
from carvegbm_experiments.plan.cell import Cell, Configuration, key
from carvegbm_experiments.store.records import read_record, write_record
from carvegbm_experiments.store.verdicts import stored_verdicts

__all__ = ["attackers"]

Result = dict[str, Any]


def attackers(cell: Cell, bench: Bench) -> Result:
    """The result of the cell."""
    setting = cell.configuration
    part = _part(setting, bench)
    fitted = _trained(setting, part, bench)
    model = fitted.ensemble
    return {
        **_judged(setting, part, model, bench),
        "trees": model.n_trees,
        "leaves": model.n_leaves,
        "chosen": fitted.chosen,
        "validation_accuracy": fitted.validation_accuracy,
        "fit_seconds": fitted.seconds,
    }


def _part(setting: Configuration, bench: Bench) -> Part:
    """Frames of tables; images as in the paper's evaluation, so many rows of their test set."""
    dataset, rows = setting["dataset"], setting["rows"]
    if dataset in FILES:
        return bench.framed(dataset, rows, setting["seed"])
    (part,) = bench.parts({**setting, "division": "split"})
    return replace(part, X_test=part.X_test[:rows], y_test=part.y_test[:rows])


def _attacker(setting: Configuration, options: Mapping[str, Any]) -> cg.Attacker:
    return cg.Attacker.from_dict({"norm": setting["norm"], "budget": setting["budget"], **options})


def _trained(setting: Configuration, part: Part, bench: Bench) -> Fitted:
    """The model of the cell; found, or trained and kept."""
    names = ["suite", "dataset", "seed", "model", "parameters"]
    names += ["norm", "budget", "training"] if "trained" in setting else []
    about = {name: setting[name] for name in names}
    rows = [numbers(part.X_train), numbers(part.X_valid)]
    data = digest_of([*rows, part.y_train, part.y_valid])
    folder = bench.store.models / "attackers" / setting["dataset"]
    path = folder / f"{key({**about, 'data': data})}.json"
    trees = path.with_suffix(".ensemble.json")
    record = read_record(path)
    if record is None:
        bench.detail("training")
        attacker = _attacker(setting, setting["training"]) if "trained" in setting else None
        job = Job(
            setting["model"], part, setting["parameters"], attacker, setting["seed"], bench.threads
        )
        fitted = fit(job)
        make_folder(folder)
        fitted.ensemble.save(trees)
        record = {name: value for name, value in vars(fitted).items() if name != "ensemble"}
        write_record(path, {**record, "ensemble": digest_of(fitted.ensemble)})
        return fitted
    model = cg.load(trees)
    if digest_of(model) != record.pop("ensemble"):
        raise cg.CarveError(f"{trees}: not the model that was kept; delete {path.name} beside it")
    bench.earlier.training += record["seconds"]
    return Fitted(model, **record)


def _judged(setting: Configuration, part: Part, model: cg.Ensemble, bench: Bench) -> Result:
    """Accuracy and robustness; rows that are wrong already need no proof."""
    y = part.y_test
    right = model.decide(part.X_test, threads=bench.threads) == y
    bench.detail(f"verifying {right.sum()} rows")
    started = time.process_time()
    found = cg.verify(
        model,
        part.X_test[right],
        y[right],
        _attacker(setting, setting["options"]),
        timeout=setting["timeout"],
        threads=bench.threads,
        progress=False,
    )
    seconds = time.process_time() - started
    letters = np.full(len(y), "w")
    letters[right] = [status[0] for status in found.status.tolist()]
    robust, unknown = found.counts["robust"], found.counts["unknown"]
    return {
        "rows": len(y),
        "accuracy": float(right.mean()),
        "robustness": [robust / len(y), (robust + unknown) / len(y)],
        "unknown": unknown,
        "by_class": [_counts(letters[y == label].tolist()) for label in np.unique(y)],
        "verdicts": stored_verdicts(letters.tolist()),
        "engines": dict(sorted(Counter(name for name in found.engine.tolist() if name).items())),
        "verify_seconds": round(seconds, 6),
    }


def _counts(letters: list[str]) -> dict[str, int]:
    counts = Counter(letters)
    return {
        "rows": len(letters),
        "robust": counts["r"],
        "fragile": counts["f"],
        "unknown": counts["u"],
        "wrong": counts["w"],
    }
