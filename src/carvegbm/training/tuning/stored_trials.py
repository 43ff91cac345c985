"""Finished trials as files: a JSON record, and the model as LightGBM's text beside it.

Comes in: a path made of all that a trial depends on. Goes out: the trial, or None where it is
missing or damaged: the record carries its own digest, and that of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.ensemble import Ensemble
from carvegbm.keeping.fingerprint import digest_of
from carvegbm.keeping.records import read_record, write_record, write_text
from carvegbm.readers.checks import Classes
from carvegbm.readers.lightgbm import from_text
from carvegbm.training.report import TrainingReport, Trial
from carvegbm.training.tuning.trial import TuningTrial

__all__ = ["key", "read_trial", "write_trial"]


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model read from its text; it has the methods of `GBDTModel` that a stored trial needs."""

    written: str
    classes: Classes

    def __eq__(self, other: object) -> bool:
        return hasattr(other, "text") and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.written)

    @cached_property
    def ensemble(self) -> Ensemble:
        """The trees as an ensemble."""
        return from_text(self.written, self.classes)

    def text(self) -> str:
        """Return LightGBM's text of the model."""
        return self.written

    def booster(self, X: Any) -> Any:  # noqa: ARG002
        """Return LightGBM's Booster of the model."""
        import lightgbm

        return lightgbm.Booster(model_str=self.written)


def key(parameters: Mapping[str, Any]) -> str:
    """A text that differs wherever the parameters do; repr would shorten long arrays."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else repr(value)

    return json.dumps(parameters, sort_keys=True, default=plain)


def write_trial(place: Path, trial: TuningTrial) -> None:
    """Model first, then the record that says it is complete."""
    text = trial.text
    record = {f.name: getattr(trial, f.name) for f in fields(trial)}
    record["parameters"] = json.loads(key(trial.parameters))
    record["outcome"] = dict(trial.outcome)
    if "training_report_" in trial.outcome:
        record["outcome"]["training_report_"] = _report_to_record(trial.outcome["training_report_"])
    record["model"] = digest_of(text)
    write_text(place.with_suffix(".txt"), text)
    write_record(place, record)


def read_trial(place: Path, parameters: dict[str, Any], classes: Classes) -> TuningTrial | None:
    """The stored trial of these parameters, or None where it is missing or damaged."""
    record = read_record(place)
    try:
        text = place.with_suffix(".txt").read_text(encoding="utf-8")
        if record is None or record["model"] != digest_of(text):
            return None
        outcome = record["outcome"]
        if "training_report_" in outcome:
            outcome["training_report_"] = _report_of(outcome["training_report_"], classes)
        return TuningTrial(
            **{**record, "parameters": parameters, "model": StoredModel(text, classes)}
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _report_to_record(report: TrainingReport) -> dict[str, Any]:
    """A report as plain values, with the models as text."""

    def plain(trial: Trial) -> dict[str, Any]:
        given = {f.name: getattr(trial, f.name) for f in fields(trial) if f.init}
        given["parameters"] = json.loads(key(trial.parameters))
        return {**given, "model": trial.text}

    return {**report.to_dict(), "trials": [plain(trial) for trial in report.trials]}


def _report_of(record: Mapping[str, Any], classes: Classes) -> TrainingReport:
    trials = [_trial_of(dict(trial), classes) for trial in record["trials"]]
    chosen = trials[record["chosen"]]
    return TrainingReport(**{**record, "trials": trials, "chosen": chosen})


def _trial_of(record: dict[str, Any], classes: Classes) -> Trial:
    return Trial(**{**record, "model": StoredModel(record["model"], classes)})
