"""Robust training and its rivals: each model is trained, kept, and judged on all its test rows.

Comes in: a cell of the kind "robust". Goes out: its result. Accuracy and proven robustness for
classes; for regression the mean squared error as it is, and that of the worse end of what the
attacker can reach. A row that time leaves open counts as not robust. An interrupted cell goes on
with the models it has trained and the rows it has judged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import carvegbm as cg
from carvegbm.storage.identity import digest_of
from carvegbm_experiments.compute.data import fingerprint
from carvegbm_experiments.compute.models import Bench, attacker_of
from carvegbm_experiments.compute.plain import boosted, objective_of
from carvegbm_experiments.compute.robust_data import Part
from carvegbm_experiments.plan.cell import Cell, Configuration, key
from carvegbm_experiments.store.records import read_record, write_record

__all__ = ["robust"]

Result = dict[str, Any]

_BLOCK = 500  # test rows per thread between two moments at which they are kept
_MAX_LEAVES = 256  # of robust training; some stored cells were computed with more
_PATIENCE = 50  # rounds of early stopping, as in the paper's evaluation


def robust(cell: Cell, bench: Bench) -> Result:
    """The result of the cell: that of its only part, or the mean of its folds."""
    found = []
    for number, part in enumerate(bench.parts(cell.configuration)):
        found.append(_Fit(cell, bench, part, number).judged())
    return found[0] if len(found) == 1 else _mean(found)


def _mean(folds: list[Result]) -> Result:
    """Shares and errors in the mean of the folds, times and counts in all, sizes at most."""
    result: Result = {}
    for name, value in folds[0].items():
        values = [fold[name] for fold in folds]
        if name in ("trees", "leaves"):
            result[name] = max(values)
        elif name in ("rows", "unknown") or name.endswith("_seconds"):
            result[name] = round(sum(values), 6)
        elif isinstance(value, float):
            result[name] = float(np.mean(values))
        elif isinstance(value, list) and name in ("robustness", "worse_error"):
            result[name] = np.mean(values, axis=0).tolist()
    return {**result, "folds": folds}


@dataclass(frozen=True, eq=False)
class _Fit:
    """One model of a cell: the part it is trained and judged on, and the number of that part."""

    cell: Cell
    bench: Bench
    part: Part
    number: int

    def judged(self) -> Result:
        """What the model is, how it was chosen, and how it does on the test rows."""
        record = self._trained()
        model = _ensemble(record["text"], self.part, self._regression)
        figures = self._errors(model) if self._regression else self._verdicts(model)
        return {
            **figures,
            "trees": model.n_trees,
            "leaves": model.n_leaves,
            "fit_seconds": record["seconds"],
            "report": record["report"],
        }

    @property
    def _regression(self) -> bool:
        return self.part.y_train.dtype.kind == "f"

    def _trained(self) -> dict[str, Any]:
        """The model as text, with the report on its training; found, or trained and kept."""
        setting, part = self.cell.configuration, self.part
        every = (part.X_train, part.y_train, part.X_valid, part.y_valid)
        data = [rows for rows in every if rows is not None]
        name = key({**setting, "fold": self.number, "data": fingerprint(*data)})
        path = self.bench.store.models / "robust" / self.cell.dataset / f"{name}.json"
        record = read_record(path)
        if record is not None:
            self.bench.earlier.training += record["seconds"]
            return record
        fold = f", fold {self.number + 1}" if setting["division"] == "folds" else ""
        self.bench.detail(f"training{fold}")
        started = time.monotonic()
        text, report = _train(setting, part, self._regression, self.bench.threads)
        seconds = round(time.monotonic() - started, 3)
        record = {"text": text, "report": report, "seconds": seconds}
        write_record(path, record)
        return record

    def _verdicts(self, model: cg.Ensemble) -> Result:
        """Accuracy and robustness; rows that are wrong already need no proof."""
        part, setting = self.part, self.cell.configuration
        right = model.decide(part.X_test, threads=self.bench.threads) == part.y_test
        X, y = part.X_test[right], part.y_test[right]

        def block(start: int, stop: int) -> dict[str, list[Any]]:
            found = cg.verify(model, X[start:stop], y[start:stop], attacker_of(setting), **options)
            return {name: [found.counts[name]] for name in ("robust", "unknown")}

        options = self._options()
        counts, seconds = self._in_blocks(model, X, y, block)
        rows, proven, unknown = len(part.y_test), sum(counts["robust"]), sum(counts["unknown"])
        return {
            "accuracy": float(right.mean()),
            "robustness": [proven / rows, (proven + unknown) / rows],
            "unknown": unknown,
            "rows": rows,
            "verify_seconds": seconds,
        }

    def _errors(self, model: cg.Ensemble) -> Result:
        """Squared errors as they are, and at the worse end, between two bounds of it."""
        X, y, setting = self.part.X_test, self.part.y_test, self.cell.configuration

        def block(start: int, stop: int) -> dict[str, list[Any]]:
            found = cg.output_range(model, X[start:stop], attacker_of(setting), **options)
            ends = {
                "lower": (found.lowest_upper, found.highest_lower),
                "upper": (found.lowest_lower, found.highest_upper),
            }
            return {
                name: np.max([(end - y[start:stop]) ** 2 for end in pair], axis=0).tolist()
                for name, pair in ends.items()
            }

        options = self._options()
        errors, seconds = self._in_blocks(model, X, y, block)
        raw = model.raw_score(X, threads=self.bench.threads).reshape(-1)
        return {
            "error": float(np.mean((raw - y) ** 2)),
            "worse_error": [float(np.mean(errors[name])) for name in ("lower", "upper")],
            "variance": float(np.var(y)),
            "rows": len(y),
            "verify_seconds": seconds,
        }

    def _options(self) -> dict[str, Any]:
        timeout = self.cell.configuration["timeout"]
        return {"timeout": timeout, "threads": self.bench.threads, "progress": False}

    def _in_blocks(
        self, model: cg.Ensemble, X: Any, y: Any, block: Any
    ) -> tuple[dict[str, list[Any]], float]:
        """Columns for the rows and how long they took; finished blocks are kept."""

        def timed(start: int, stop: int) -> dict[str, list[Any]]:
            self.bench.detail(f"row {start} of {len(X)}")
            started = time.perf_counter()
            return {**block(start, stop), "seconds": [time.perf_counter() - started]}

        name = f"{self.number}-{digest_of([cg.__version__, model, X, y])[:16]}"
        found, earlier = self.bench.store.by_rows(
            self.cell.kind,
            self.cell.configuration,
            name,
            len(X),
            _BLOCK * self.bench.threads,
            timed,
        )
        self.bench.earlier.rows += earlier
        return found, round(sum(found.pop("seconds")), 6)


def _ensemble(text: str, part: Part, regression: bool) -> cg.Ensemble:
    import lightgbm

    classes = None if regression else np.unique(part.y_train).tolist()
    return cg.load(lightgbm.Booster(model_str=text), classes=classes)


# ── training ─────────────────────────────────────────────────────────────────────────────────


def _train(
    setting: Configuration, part: Part, regression: bool, threads: int
) -> tuple[str, Mapping[str, Any] | None]:
    """The model as LightGBM's text, and what its training reports."""
    if setting["model"] == "plain":
        return _plain(setting, part, regression, threads), None
    robustly = setting["model"] == "robust"
    estimators = {
        (True, False): "RobustClassifier",
        (True, True): "RobustRegressor",
        (False, False): "LargeSpreadClassifier",
        (False, True): "LargeSpreadRegressor",
    }
    options: dict[str, Any] = dict(setting["parameters"])
    watched: dict[str, Any] = {}
    if part.X_valid is not None:
        watched["eval_set"] = [(part.X_valid, part.y_valid)]
    if robustly and "num_leaves" in options:
        options["num_leaves"] = min(options["num_leaves"], _MAX_LEAVES)
    if not robustly:
        options["certified"] = setting["model"] == "certified"
        if watched:
            watched["early_stopping_rounds"] = _PATIENCE
    model = getattr(cg, estimators[robustly, regression])(
        norm=setting["norm"],
        budget=setting["budget"],
        random_state=setting["seed"],
        n_jobs=threads,
        **options,
    )
    model.fit(part.X_train, part.y_train, **watched)
    if getattr(model, "stopped_because_", None) == "interrupted":
        raise KeyboardInterrupt
    report = getattr(model, "training_report_", None)
    return model.booster_.model_to_string(), None if report is None else _values(report.to_dict())


def _plain(setting: Configuration, part: Part, regression: bool, threads: int) -> str:
    """Plain LightGBM, with early stopping where there are validation rows."""
    classes, y = np.unique(part.y_train, return_inverse=True)
    parameters = {
        **({"objective": "regression"} if regression else objective_of(len(classes))),
        "num_leaves": setting["parameters"]["num_leaves"],
        "seed": setting["seed"],
        "num_threads": threads,
    }
    valid = None
    if part.X_valid is not None and part.y_valid is not None:
        y_valid = part.y_valid if regression else np.searchsorted(classes, part.y_valid)
        valid = part.X_valid, y_valid
    booster = boosted(
        (part.X_train, part.y_train if regression else y),
        parameters,
        setting["parameters"]["n_estimators"],
        valid=valid,
        patience=_PATIENCE,
    )
    return str(booster.model_to_string(num_iteration=booster.best_iteration or -1))


def _values(report: Any) -> Any:
    """Plain values, as JSON holds them; a number that is not finite is None."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(name): plain(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [plain(entry) for entry in value]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not np.isfinite(value):
            return None
        return value if isinstance(value, int | float | str | None) else str(value)

    return json.loads(json.dumps(plain(report)))
