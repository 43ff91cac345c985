"""The trials of tuning: what they all share, and how each is trained, judged and stored.

A finished trial is a JSON file and a model file in the work folder, under a name made of all that
it depends on: its configuration, the data with the names of the features, the versions of the
programs. It is found again by that name. Processes that share a folder may train a trial twice,
but none takes over a half: both files have to carry the right digest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import OPTIONS
from carvegbm.keeping.fingerprint import digest_of
from carvegbm.keeping.records import make_folder, read_record, write_record
from carvegbm.training import inputs
from carvegbm.training.columns import AUTO
from carvegbm.training.dataset import Dataset
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.model import GBDTModel
from carvegbm.training.search import plain_accuracy_of
from carvegbm.training.tuning.stored_trials import read_trial, write_trial
from carvegbm.training.tuning.trial import TuningTrial

__all__ = ["Trials", "Tunable"]

Tunable = LargeSpreadClassifier | RobustClassifier

_FORMAT = 5  # of the files in a work folder
_IGNORED = {"n_jobs", "verbose"}  # parameters that do not change a model
_OURS = {"norm", "budget", *OPTIONS, "certified", "max_crowding", "clean_loss"}
_OURS |= {"large_spread", "colsample_bynode", "n_members", "leaf_l2"}
# … and those that plain LightGBM is not told


class _Unwritten:
    """Fits as its sibling does, but no Booster is made: the winner's alone is."""

    def _write(self, model: GBDTModel, X: npt.NDArray[Any]) -> None:  # noqa: ARG002
        self.model_ = model


class _UnwrittenLargeSpread(_Unwritten, LargeSpreadClassifier):
    pass


class _UnwrittenRobust(_Unwritten, RobustClassifier):
    pass


@dataclass(frozen=True)
class Trials:
    """What all trials share."""

    fixed: Tunable
    X: Any
    y: Any
    X_valid: Any
    y_valid: Any
    early_stopping_rounds: int | None
    folder: Any
    feature_names: Sequence[str] | None
    categorical_feature: Any = AUTO
    plain: float | None = None
    """Robust and certified training: the accuracy of plain LightGBM, where it counts."""

    def plain_accuracy(self, num_leaves: Sequence[int | None], n_jobs: int | None) -> float:
        """The best accuracy of plain LightGBM on the validation data; stored, too."""
        place = self._place({"num_leaves": list(num_leaves)}, "plain")
        record = None if place is None else read_record(place)
        if record is not None:
            return float(record["accuracy"])
        best = max(self._plain_accuracy(leaves, n_jobs) for leaves in num_leaves)
        if place is not None:
            write_record(place, {"accuracy": best})
        return best

    def _plain_accuracy(self, num_leaves: int | None, n_jobs: int | None) -> float:
        from sklearn.base import clone

        model = clone(self.fixed).set_params(num_leaves=num_leaves)
        X, y = inputs.check_pair(model, self.X, self.y, reset=True)
        X_valid, y_valid = inputs.check_pair(model, self.X_valid, self.y_valid, what="valid")
        model.classes_ = classes = np.unique(y)  # the number of rounds depends on them
        return plain_accuracy_of(
            Dataset(
                X,
                inputs.encode_labels(y, classes),
                inputs.weigh_classes(y, model.class_weight),
            ),
            Dataset(X_valid, inputs.encode_labels(y_valid, classes)),
            model._lightgbm_parameters(1 if len(classes) == 2 else len(classes)),
            n_rounds=model._n_rounds(),
            early_stopping_rounds=self.early_stopping_rounds,
            threads=inputs.thread_count(n_jobs),
            categorical=model._categorical(self.feature_names, self.categorical_feature),
        )

    def run(self, parameters: dict[str, Any], threads: int) -> TuningTrial:
        """Train and judge one trial, and store it."""
        is_robust = isinstance(self.fixed, RobustClassifier)
        unwritten = _UnwrittenRobust if is_robust else _UnwrittenLargeSpread
        model = unwritten(**self.fixed.get_params())
        model.set_params(**parameters, n_jobs=threads)
        started = time.monotonic()
        with warnings.catch_warnings():
            # Of many trials some may be constant; `_restore` says it of the one that is chosen.
            warnings.filterwarnings("ignore", "the model is constant")
            model.fit(
                self.X,
                self.y,
                eval_set=(self.X_valid, self.y_valid),
                early_stopping_rounds=self.early_stopping_rounds,
                feature_names=self.feature_names,
                categorical_feature=self.categorical_feature,
                plain_accuracy=self.plain,
            )
        if model.stopped_because_ == "interrupted":
            raise KeyboardInterrupt
        result = model.verify(self.X_valid, self.y_valid)
        outcome, certified = model._outcome(), getattr(model, "certified", False)
        trial = TuningTrial(
            parameters=parameters,
            measures={
                "accuracy": result.accuracy,
                "robustness": float(result.robustness[0]),
            },
            trees=model.ensemble_.n_trees,
            leaves=model.ensemble_.n_leaves,
            stopped_because=model.stopped_because_,
            seconds=round(time.monotonic() - started, 3),
            model=model.model_,
            outcome=outcome,
            refit=outcome["training_report_"].chosen.parameters["refit"] if certified else None,
        )
        place = self._place(parameters)
        if place is not None:
            write_trial(place, trial)
        return trial

    def find(self, parameters: dict[str, Any]) -> TuningTrial | None:
        """The trial, if it is stored."""
        place = self._place(parameters)
        return None if place is None else read_trial(place, parameters, np.unique(self.y))

    def _place(self, parameters: dict[str, Any], kind: str = "trial") -> Path | None:
        """Where an outcome is stored: a name made of its configuration and the data."""
        if self.folder is None:
            return None
        folder = Path(self.folder)
        make_folder(folder)
        settings = {**self.fixed.get_params(), **parameters}
        ignored = _IGNORED | (_OURS if kind == "plain" else set())
        settings = {k: v for k, v in settings.items() if k not in ignored}
        settings |= {"early_stopping_rounds": self.early_stopping_rounds, "format": _FORMAT}
        settings |= {"plain_accuracy": self.plain}
        digest = digest_of([settings, _versions(), self._fingerprint])
        return folder / f"{kind}-{digest[:24]}.json"

    @cached_property
    def _fingerprint(self) -> str:
        data = [_plain(part) for part in (self.X, self.y, self.X_valid, self.y_valid)]
        names = (getattr(self.X, "columns", None), self.feature_names, self._named)
        return digest_of([data, [None if given is None else list(given) for given in names]])

    @property
    def _named(self) -> Any:
        """The categorical features, where they are named."""
        is_auto = isinstance(self.categorical_feature, str)
        return None if is_auto else self.categorical_feature

    def restore(self, trial: TuningTrial) -> Tunable:
        """The fitted estimator of a trial."""
        from sklearn.base import clone

        model: Tunable = clone(self.fixed).set_params(**trial.parameters)
        return model._restore(self.X, self.y, trial.model, trial.outcome, self.feature_names)


def _plain(given: Any) -> Any:
    """Data as a digest takes them."""
    if hasattr(given, "tocsr"):
        rows = given.tocsr()
        return [list(rows.shape), rows.data, rows.indices, rows.indptr]
    return given.to_numpy() if hasattr(given, "to_numpy") else np.asanyarray(given)


@cache
def _versions() -> list[str]:
    """The programs that a trial comes from."""
    from importlib.metadata import version

    from carvegbm import __version__

    return [__version__, version("lightgbm")]
