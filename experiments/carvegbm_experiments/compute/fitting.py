"""Models of every library on the same rows: trained, chosen on validation rows, read.

Comes in: a `Part`, the name of a model, its parameters, and the attacker it is trained for, if any.
Goes out: a `Fitted` model. Of every list in the parameters each value is tried; the model with the
largest validation accuracy is chosen, of equal ones the smaller. What is read has to decide every
validation row as the library does.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg
from carvegbm_experiments.compute.plain import boosted, objective_of
from carvegbm_experiments.compute.robust_data import Part

__all__ = ["Fitted", "Job", "fit"]

_LEARNING_RATE = 0.1
_MOST_STATES = 255  # CatBoost: features with more categories would get target statistics

Parameters = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """What is trained on which rows."""

    model: str
    part: Part
    parameters: Parameters
    attacker: cg.Attacker | None
    seed: int
    threads: int

    @property
    def n_classes(self) -> int:
        """Labels are 0 … n - 1."""
        return int(self.part.y_train.max()) + 1


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, how it was chosen, and the processor's seconds for all that were tried."""

    ensemble: cg.Ensemble
    chosen: Parameters
    validation_accuracy: float
    seconds: float


def fit(job: Job) -> Fitted:
    """Train and choose."""
    started = time.process_time()
    found = [_fitted(job, parameters) for parameters in _each(job.parameters)]
    best = max(found, key=lambda tried: (tried[2], -tried[0].n_leaves))
    return Fitted(*best, round(time.process_time() - started, 3))


def _each(parameters: Parameters) -> Iterator[Parameters]:
    """Every choice of one value from each list."""
    names = list(parameters)
    lists = [value if isinstance(value, list) else [value] for value in parameters.values()]
    for values in itertools.product(*lists):
        yield dict(zip(names, values, strict=True))


def _fitted(job: Job, parameters: Parameters) -> tuple[cg.Ensemble, Parameters, float]:
    try:
        ensemble, predicted = _TRAINERS[job.model](job, parameters)
    except ImportError as error:
        raise cg.CarveError(f"{job.model}: {error}; pip install {job.model}") from None
    watched: Any = job.part.X_valid
    decided = ensemble.decide(watched, threads=job.threads)
    if not np.array_equal(decided, predicted):
        raise cg.CarveError(f"{job.model}: the model that was read decides otherwise than its own")
    return ensemble, parameters, float(np.mean(decided == job.part.y_valid))


# ── libraries ────────────────────────────────────────────────────────────────────────────────


def _lightgbm(job: Job, parameters: Parameters) -> tuple[cg.Ensemble, Any]:
    part, many = job.part, job.n_classes > 2
    settings = {
        **objective_of(job.n_classes),
        "num_leaves": parameters["num_leaves"],
        "learning_rate": _LEARNING_RATE,
        "seed": job.seed,
        "num_threads": job.threads,
    }
    booster = boosted(
        (part.X_train, part.y_train),
        settings,
        parameters["n_estimators"],
        valid=(part.X_valid, part.y_valid),
        patience=parameters["early_stopping"],
    )
    raw = booster.predict(part.X_valid, raw_score=True)
    return cg.load(booster), raw.argmax(axis=1) if many else (raw > 0).astype(np.int64)


def _xgboost(job: Job, parameters: Parameters) -> tuple[cg.Ensemble, Any]:
    import xgboost

    part = job.part
    model = xgboost.XGBClassifier(
        n_estimators=parameters["n_estimators"],
        max_leaves=parameters["max_leaves"],
        max_depth=0,
        grow_policy="lossguide",
        learning_rate=_LEARNING_RATE,
        tree_method="hist",
        enable_categorical=True,
        early_stopping_rounds=parameters["early_stopping"],
        random_state=job.seed,
        n_jobs=job.threads,
    )
    model.fit(part.X_train, part.y_train, eval_set=[(part.X_valid, part.y_valid)], verbose=False)
    return cg.load(model), model.predict(part.X_valid)


def _catboost(job: Job, parameters: Parameters) -> tuple[cg.Ensemble, Any]:
    import catboost

    part = job.part
    rows, watched = _pool(part.X_train, part.y_train), _pool(part.X_valid, part.y_valid)
    model = catboost.CatBoostClassifier(
        iterations=parameters["n_estimators"],
        depth=parameters["depth"],
        learning_rate=_LEARNING_RATE,
        one_hot_max_size=_MOST_STATES,
        early_stopping_rounds=parameters["early_stopping"],
        random_seed=job.seed,
        thread_count=job.threads,
        allow_writing_files=False,
        verbose=False,
    )
    model.fit(rows, eval_set=watched)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        # The model itself knows hashes of categories only; the rows bring the texts.
        model.save_model(str(path), format="json", pool=rows)
        ensemble = cg.load(path)
    return ensemble, np.asarray(model.predict(watched)).reshape(-1)


def _pool(X: Any, y: Any) -> Any:
    """Rows as CatBoost takes them: categories are texts."""
    import catboost

    categories = [name for name in X.columns if X[name].dtype == "category"]
    return catboost.Pool(X.astype(dict.fromkeys(categories, object)), y, categories)


# ── carvegbm ─────────────────────────────────────────────────────────────────────────────────


def _large_spread(job: Job, parameters: Parameters) -> tuple[cg.Ensemble, Any]:
    own = {name: value for name, value in parameters.items() if name != "early_stopping"}
    model = cg.LargeSpreadClassifier(
        **_of_attacker(job), learning_rate=_LEARNING_RATE, random_state=job.seed, **own
    )
    return _ours(job, model, early_stopping_rounds=parameters["early_stopping"])


def _robust(job: Job, parameters: Parameters) -> tuple[cg.Ensemble, Any]:
    return _ours(job, cg.RobustClassifier(**_of_attacker(job), random_state=job.seed, **parameters))


def _of_attacker(job: Job) -> dict[str, Any]:
    assert job.attacker is not None  # these are trained for one
    return {**job.attacker.arguments(), "n_jobs": job.threads}


def _ours(job: Job, model: Any, **watch: Any) -> tuple[cg.Ensemble, Any]:
    part = job.part
    model.fit(part.X_train, part.y_train, eval_set=[(part.X_valid, part.y_valid)], **watch)
    if model.stopped_because_ == "interrupted":
        raise KeyboardInterrupt
    return model.ensemble_, model.predict(part.X_valid)


_TRAINERS: dict[str, Callable[[Job, Parameters], tuple[cg.Ensemble, Any]]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "large-spread": _large_spread,
    "robust": _robust,
}
