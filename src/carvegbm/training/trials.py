"""The trials of tuning: what all candidates share, and how each is trained, judged and stored.

A finished candidate is a JSON file and a model file in the work folder, under a name made of all
that it depends on: its configuration, the data with the names of the features, the versions of the
programs. It is found again by that name. Processes that share a folder may train a candidate
twice, but none takes over a half: both files have to carry the right digest.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from carvegbm.errors import CarveError
from carvegbm.files import replacing
from carvegbm.fingerprint import digest_of
from carvegbm.training import inputs
from carvegbm.training.boosting import Reason, Rows
from carvegbm.training.certified import plain_accuracy_of
from carvegbm.training.estimators import LargeSpreadClassifier

__all__ = ["Candidate", "Criterion", "Trials", "key"]

Criterion = Literal["accuracy", "robustness", "tradeoff"]

_FORMAT = 3  # of the files in a work folder
_IGNORED = {"n_jobs", "verbose"}  # parameters that do not change a model
_OURS = {"norm", "budget", "scale", "features", "bounds", "certified", "quietness", "clean_loss"}
# … and those that plain LightGBM knows nothing of


@dataclass(frozen=True)
class Candidate:
    """One trained candidate, judged on the validation data."""

    parameters: dict[str, Any]
    accuracy: float
    robustness: float
    trees: int
    leaves: int
    stopped_because: Reason
    seconds: float
    text: str = field(repr=False)
    outcome: dict[str, Any] = field(repr=False)
    """How training went, as the estimator's `outcome()` says it."""
    refit: bool | None = None
    """Certified training: whether the scores are refitted ones."""

    def score(self, criterion: Criterion, weight: float) -> float:
        """What the criterion maximises; `weight` is the share of accuracy in the trade-off."""
        if criterion == "accuracy":
            return self.accuracy
        if criterion == "robustness":
            return self.robustness
        return weight * self.accuracy + (1 - weight) * self.robustness


@dataclass(frozen=True)
class Trials:
    """What all candidates share."""

    fixed: LargeSpreadClassifier
    X: Any
    y: Any
    X_valid: Any
    y_valid: Any
    early_stopping_rounds: int | None
    folder: Any
    feature_names: Sequence[str] | None
    plain: float | None = None
    """Certified training: the accuracy of plain LightGBM."""

    def plain_accuracy(self, num_leaves: Sequence[int], n_jobs: int | None) -> float:
        """The best accuracy of plain LightGBM on the validation data; stored, too."""
        place = self._place({"num_leaves": list(num_leaves)}, "plain")
        record = None if place is None else _read_record(place)
        if record is not None:
            return float(record["accuracy"])
        best = max(self._plain_accuracy(leaves, n_jobs) for leaves in num_leaves)
        if place is not None:
            _write_record(place, {"accuracy": best})
        return best

    def _plain_accuracy(self, num_leaves: int, n_jobs: int | None) -> float:
        from sklearn.base import clone

        model = clone(self.fixed).set_params(num_leaves=num_leaves)
        X, y = inputs.check_pair(model, self.X, self.y, reset=True)
        X_valid, y_valid = inputs.check_pair(model, self.X_valid, self.y_valid, what="valid")
        classes = np.unique(y)
        return plain_accuracy_of(
            Rows(
                X,
                inputs.encode_labels(y, classes),
                inputs.weigh_classes(y, model.class_weight),
            ),
            Rows(X_valid, inputs.encode_labels(y_valid, classes)),
            model.lightgbm_parameters(1 if len(classes) == 2 else len(classes)),
            n_rounds=model.n_estimators,
            early_stopping_rounds=self.early_stopping_rounds,
            threads=inputs.thread_count(n_jobs),
        )

    def run(self, parameters: dict[str, Any], threads: int) -> Candidate:
        """Train and judge one candidate, and store it."""
        from sklearn.base import clone

        model = clone(self.fixed).set_params(**parameters, n_jobs=threads)
        started = time.monotonic()
        with warnings.catch_warnings():
            # Of many candidates some may be constant; `restore` says it of the one that is chosen.
            warnings.filterwarnings("ignore", "the model is constant")
            model.fit(
                self.X,
                self.y,
                eval_set=(self.X_valid, self.y_valid),
                early_stopping_rounds=self.early_stopping_rounds,
                feature_names=self.feature_names,
                plain_accuracy=self.plain,
            )
        if model.stopped_because_ == "interrupted":
            raise KeyboardInterrupt
        result = model.verify(self.X_valid, self.y_valid)
        candidate = Candidate(
            parameters=parameters,
            accuracy=result.accuracy,
            robustness=float(result.robustness[0]),
            trees=model.ensemble_.n_trees,
            leaves=model.ensemble_.n_leaves,
            stopped_because=model.stopped_because_,
            seconds=round(time.monotonic() - started, 3),
            text=model.booster_.model_to_string(),
            outcome=model.outcome(),
            refit=model.training_report_.chosen.refit if model.certified else None,
        )
        place = self._place(parameters)
        if place is not None:
            _write(place, candidate)
        return candidate

    def find(self, parameters: dict[str, Any]) -> Candidate | None:
        """The candidate, if it is stored."""
        place = self._place(parameters)
        return None if place is None else _read(place, parameters)

    def _place(self, parameters: dict[str, Any], kind: str = "candidate") -> Path | None:
        """Where an outcome is stored: a name made of its configuration and the data."""
        if self.folder is None:
            return None
        folder = Path(self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CarveError(f"{folder}: cannot make the folder: {error.strerror}") from None
        settings = {**self.fixed.get_params(), **parameters}
        ignored = _IGNORED | (_OURS if kind == "plain" else set())
        settings = {k: v for k, v in settings.items() if k not in ignored}
        settings |= {"early_stopping_rounds": self.early_stopping_rounds, "format": _FORMAT}
        settings |= {"plain_accuracy": self.plain}
        digest = digest_of([settings, _versions(), self._fingerprint])
        return folder / f"{kind}-{digest[:24]}.json"

    @cached_property
    def _fingerprint(self) -> str:
        data = [np.asanyarray(part) for part in (self.X, self.y, self.X_valid, self.y_valid)]
        names = (getattr(self.X, "columns", None), self.feature_names)
        return digest_of([data, [None if given is None else list(given) for given in names]])

    def restore(self, candidate: Candidate) -> LargeSpreadClassifier:
        """The fitted estimator of a candidate."""
        from sklearn.base import clone

        model: LargeSpreadClassifier = clone(self.fixed).set_params(**candidate.parameters)
        return model.restore(self.X, self.y, candidate.text, candidate.outcome, self.feature_names)


def key(parameters: Mapping[str, Any]) -> str:
    """A text that differs wherever the parameters do; repr would shorten long arrays."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else repr(value)

    return json.dumps(parameters, sort_keys=True, default=plain)


def _read(place: Path, parameters: dict[str, Any]) -> Candidate | None:
    """The stored candidate, or None where it is missing or damaged."""
    record = _read_record(place)
    try:
        text = place.with_suffix(".txt").read_text(encoding="utf-8")
        if record is None or record.pop("model") != hashlib.sha256(text.encode()).hexdigest():
            return None
        return Candidate(**{**record, "parameters": parameters, "text": text})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_record(place: Path) -> dict[str, Any] | None:
    """What `_write_record` wrote, to the last bit, or None."""
    try:
        record: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        return record if record.pop("digest") == digest_of(record) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _write_record(place: Path, record: dict[str, Any]) -> None:
    text = json.dumps({**record, "digest": digest_of(record)})
    with replacing(place) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


@cache
def _versions() -> list[str]:
    """The programs that a candidate comes from."""
    from importlib.metadata import version

    from carvegbm import __version__

    return [__version__, version("lightgbm")]


def _write(place: Path, candidate: Candidate) -> None:
    """Model first, then the record that says it is complete."""
    record = {k: v for k, v in vars(candidate).items() if k != "text"}
    record["parameters"] = json.loads(key(candidate.parameters))
    record["model"] = hashlib.sha256(candidate.text.encode()).hexdigest()
    with replacing(place.with_suffix(".txt")) as temporary:
        temporary.write_text(candidate.text, encoding="utf-8")
    _write_record(place, record)
