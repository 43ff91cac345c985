"""Plain LightGBM models: each is trained, judged on the validation data and kept as one file.

Comes in: a split data set and settings. Goes out: `Trial`s. A file that is missing or damaged
counts as not trained.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.storage.identity import digest_of
from carvegbm_experiments.compute.trials import Trial, ensemble_of
from carvegbm_experiments.store.records import read_json, write_json

if TYPE_CHECKING:
    from carvegbm_experiments.datasets import Split

__all__ = ["boosted", "find", "objective_of", "train"]

Rows = tuple[Any, Any]
"""X and y."""


def train(split: Split, settings: Mapping[str, Any], path: Path, threads: int) -> None:
    """Train a model and keep it."""
    started = time.monotonic()
    record = _fit(split, settings, threads)
    record["seconds"] = round(time.monotonic() - started, 3)
    write_json(path, {**record, "digest": digest_of(record)})


def find(path: Path, split: Split) -> Trial | None:
    """A trained model, or None where it is missing or damaged."""
    record = read_json(path)
    try:
        if record is None or record.pop("digest") != digest_of(record):
            return None
        return Trial(ensemble=ensemble_of(record.pop("text"), split), **record)
    except (KeyError, TypeError, AttributeError):
        return None


def objective_of(n_classes: int) -> dict[str, Any]:
    """What LightGBM is told of so many classes."""
    if n_classes == 2:
        return {"objective": "binary"}
    return {"objective": "multiclass", "num_class": n_classes}


def boosted(
    rows: Rows,
    parameters: Mapping[str, Any],
    n_rounds: int,
    *,
    valid: Rows | None,
    patience: int | None,
) -> Any:
    """A booster that does not depend on threads; stopped early, if told by which rows and when."""
    import lightgbm

    settings = {**parameters, "deterministic": True, "force_col_wise": True, "verbose": -1}
    train = lightgbm.Dataset(*rows, params={"verbose": -1})
    watch: dict[str, Any] = {}
    if valid is not None and patience is not None:
        watch["valid_sets"] = [train.create_valid(*valid)]
        watch["callbacks"] = [lightgbm.early_stopping(patience, verbose=False)]
    return lightgbm.train(settings, train, n_rounds, **watch)


def _fit(split: Split, settings: Mapping[str, Any], threads: int) -> dict[str, Any]:
    parameters = {
        **objective_of(2),
        "num_leaves": settings["num_leaves"],
        "learning_rate": settings["learning_rate"],
        "min_child_samples": settings["min_child_samples"],
        "seed": settings["seed"],
        "num_threads": threads,
    }
    booster = boosted(
        (split.X_train, split.y_train),
        parameters,
        settings["trees"],
        valid=(split.X_valid, split.y_valid),
        patience=settings["early_stopping"],
    )
    text = booster.model_to_string(num_iteration=booster.best_iteration or -1)
    decided = ensemble_of(text, split).decide(split.X_valid, threads=threads)
    return {
        "num_leaves": settings["num_leaves"],
        "validation_accuracy": float(np.mean(decided == split.y_valid)),
        "text": text,
    }
