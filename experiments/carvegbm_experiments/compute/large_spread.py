"""Train large-spread and certified models, judge them on the validation data and keep them.

The files have the format of `plain`, whose `find` reads them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import carvegbm as cg
from carvegbm.storage.identity import digest_of
from carvegbm.training.dataset import Dataset
from carvegbm.training.search import plain_accuracy_of
from carvegbm_experiments.store.records import write_json

if TYPE_CHECKING:
    from carvegbm_experiments.datasets import Split

__all__ = ["plain_accuracy", "train"]


def train(split: Split, settings: Mapping[str, Any], path: Path, threads: int) -> None:
    """Train a model and keep it."""
    started = time.monotonic()
    model = _classifier(settings, threads)
    valid = split.X_valid, split.y_valid
    model.fit(
        split.X_train,
        split.y_train,
        eval_set=valid,
        early_stopping_rounds=settings["early_stopping"],
        plain_accuracy=settings.get("plain_accuracy"),
    )
    if model.stopped_because_ == "interrupted":
        raise KeyboardInterrupt
    judged = model.verify(*valid)
    refit = model.training_report_.chosen.parameters["refit"] if model.certified else None
    record = {
        "num_leaves": settings["num_leaves"],
        "quietness": settings.get("quietness"),
        "refit": refit,
        "validation_accuracy": judged.accuracy,
        "validation_robustness": float(judged.robustness[0]),
        "text": model.booster_.model_to_string(),
        "seconds": round(time.monotonic() - started, 3),
    }
    write_json(path, {**record, "digest": digest_of(record)})


def plain_accuracy(split: Split, grid: Iterable[Mapping[str, Any]], threads: int) -> float:
    """Return the best accuracy of plain LightGBM with the parameters of these models."""
    classes, labels = np.unique(split.y_train, return_inverse=True)
    train = Dataset(np.asarray(split.X_train), labels)
    valid = Dataset(np.asarray(split.X_valid), np.searchsorted(classes, split.y_valid))
    return max(
        plain_accuracy_of(
            train,
            valid,
            _classifier(settings, threads)._lightgbm_parameters(1),
            n_rounds=settings["trees"],
            early_stopping_rounds=settings["early_stopping"],
            threads=threads,
        )
        for settings in {settings["num_leaves"]: settings for settings in grid}.values()
    )


def _classifier(settings: Mapping[str, Any], threads: int) -> cg.LargeSpreadClassifier:
    names = {"certified": "certified", "quietness": "max_crowding", "clean_loss": "clean_loss"}
    certified = {ours: settings[name] for name, ours in names.items() if name in settings}
    return cg.LargeSpreadClassifier(
        norm=settings["norm"],
        budget=settings["budget"],
        n_estimators=settings["trees"],
        num_leaves=settings["num_leaves"],
        learning_rate=settings["learning_rate"],
        min_child_samples=settings["min_child_samples"],
        random_state=settings["seed"],
        n_jobs=threads,
        **certified,
    )
