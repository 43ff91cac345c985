"""Tuning: train candidates, judge them on validation data, keep the best by a stated criterion.

Comes in: training and validation data, an attacker, values to try. Goes out: `Tuning`, a table of
all candidates and the chosen one as a fitted estimator. Candidates are trained in parallel; with
a folder to work in, a finished candidate is never trained again.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from carvegbm.errors import CarveError, DataError
from carvegbm.files import replacing
from carvegbm.training import inputs
from carvegbm.training.boosting import Reason
from carvegbm.training.estimators import LargeSpreadClassifier

__all__ = ["CRITERIA", "LEAVES", "Candidate", "Tuning", "tune"]

LEAVES = (16, 32, 64, 128, 256)
"""The paper's grid of `num_leaves`."""

CRITERIA = ("accuracy", "robustness", "tradeoff")
Criterion = Literal["accuracy", "robustness", "tradeoff"]

_FORMAT = 1  # of the files in a work folder


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

    def score(self, criterion: Criterion, weight: float) -> float:
        """What the criterion maximises; `weight` is the share of accuracy in the trade-off."""
        if criterion == "accuracy":
            return self.accuracy
        if criterion == "robustness":
            return self.robustness
        return weight * self.accuracy + (1 - weight) * self.robustness


@dataclass(frozen=True)
class Tuning:
    """All candidates, and the chosen one."""

    candidates: list[Candidate]
    best: Candidate
    estimator: LargeSpreadClassifier
    """Fitted: the best candidate."""
    criterion: Criterion
    weight: float

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        names = ("accuracy", "robustness", "trees", "leaves", "stopped_because", "seconds")
        return {
            "criterion": self.criterion,
            "weight": self.weight,
            "best": self.candidates.index(self.best),
            "candidates": [
                {**c.parameters, "score": c.score(self.criterion, self.weight)}
                | {name: getattr(c, name) for name in names}
                for c in self.candidates
            ],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The table as text, a heading first; the best candidate is marked."""
        names = list(self.candidates[0].parameters)
        table = [(*names, "accuracy", "robustness", "trees", "stopped because", "seconds", "")]
        for c in self.candidates:
            values = (f"{v:g}" if isinstance(v, float) else str(v) for v in c.parameters.values())
            numbers = (f"{c.accuracy:.4f}", f"{c.robustness:.4f}", str(c.trees))
            mark = "best" if c is self.best else ""
            table.append((*values, *numbers, c.stopped_because, f"{c.seconds:.1f}", mark))
        return table

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def tune(
    X: Any,
    y: Any,
    *,
    valid: tuple[Any, Any] | None = None,
    norm: int | float | str = "inf",
    budget: float = 0.01,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: Criterion = "accuracy",
    weight: float = 0.5,
    n_estimators: int = 500,
    early_stopping_rounds: int | None = 50,
    random_state: int = 0,
    n_jobs: int | None = None,
    folder: Any = None,
    search: Literal["grid", "optuna"] = "grid",
    n_trials: int = 20,
    on_candidate: Callable[[Candidate], object] | None = None,
    feature_names: Sequence[str] | None = None,
    **parameters: Any,
) -> Tuning:
    """Choose parameters of a `LargeSpreadClassifier` on validation data.

    Parameters
    ----------
    X, y
        Training data.
    valid : (X, y), optional
        Validation data; by default a stratified fifth of the training data is split off.
    norm, budget
        The attacker.
    grid : mapping from parameter to values, optional
        Default: ``{"num_leaves": (16, 32, 64, 128, 256)}``, as in the paper.
    criterion : {"accuracy", "robustness", "tradeoff"}
        Maximise validation accuracy, proven robustness on the validation data, or
        ``weight * accuracy + (1 - weight) * robustness``.
    weight : float, default 0.5
    n_estimators, early_stopping_rounds, random_state, **parameters
        Of every candidate.
    n_jobs : int, optional
        Cores to use, for candidates in parallel; all by default.
    folder : path, optional
        Finished candidates are stored there (a JSON file and a model file each) and found again
        by configuration and data, so that an interrupted run goes on where it stopped.
    search : {"grid", "optuna"}
        Try all combinations, or let Optuna propose `n_trials` of them, one after the other (a
        list of two or more numbers then is a range). Needs ``carvegbm[optuna]``.
    on_candidate : callable, optional
        Called with every candidate as it is finished or found.
    feature_names : sequence of str, optional
        Names for the models where X is an array.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = tune(
    ...     minmax_scale(X), y, budget=0.01, grid={"num_leaves": [4, 8]}, n_estimators=20, n_jobs=1
    ... )
    >>> [candidate.parameters for candidate in result.candidates]
    [{'num_leaves': 4}, {'num_leaves': 8}]
    """
    if criterion not in CRITERIA:
        raise CarveError(f"criterion must be accuracy, robustness or tradeoff, got {criterion!r}")
    if not 0 <= weight <= 1:
        raise CarveError(f"weight must be from 0 to 1, got {weight!r}")
    options = {"norm": norm, "budget": budget, "n_estimators": n_estimators, **parameters}
    fixed = LargeSpreadClassifier(**options, random_state=random_state, n_jobs=1)
    data = _split(fixed, X, y, valid, random_state)
    job = _Job(fixed, *data, early_stopping_rounds, folder, feature_names)
    values = {name: list(tried) for name, tried in (grid or {"num_leaves": LEAVES}).items()}
    if not all(values.values()):
        raise CarveError("every parameter of the grid needs at least one value")

    def score(candidate: Candidate) -> float:
        return candidate.score(criterion, weight)

    if search == "optuna":
        found = _optuna(job, values, n_trials, score, random_state, n_jobs)
    elif search == "grid":
        found = _grid(job, values, n_jobs)
    else:
        raise CarveError(f"search must be 'grid' or 'optuna', got {search!r}")
    candidates = []
    for candidate in found:
        candidates.append(candidate)
        if on_candidate is not None:
            on_candidate(candidate)
    order = {_key(c.parameters): i for i, c in enumerate(candidates)}
    if search == "grid":
        order = {_key(tried): i for i, tried in enumerate(_combinations(values))}
    candidates.sort(key=lambda c: order[_key(c.parameters)])
    # On a tie the better of the other measure, then the smaller model.
    best = max(candidates, key=lambda c: (score(c), c.accuracy + c.robustness, -c.leaves))
    estimator = job.restore(best).set_params(n_jobs=n_jobs)
    return Tuning(candidates, best, estimator, criterion, weight)


@dataclass(frozen=True)
class _Job:
    """What all candidates share."""

    fixed: LargeSpreadClassifier
    X: Any
    y: Any
    X_valid: Any
    y_valid: Any
    early_stopping_rounds: int | None
    folder: Any
    feature_names: Sequence[str] | None

    def run(self, parameters: dict[str, Any], threads: int) -> Candidate:
        """Train and judge one candidate, and store it."""
        from sklearn.base import clone

        model = clone(self.fixed).set_params(**parameters, n_jobs=threads)
        started = time.monotonic()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the model is constant")
            model.fit(
                self.X,
                self.y,
                eval_set=(self.X_valid, self.y_valid),
                early_stopping_rounds=self.early_stopping_rounds,
                feature_names=self.feature_names,
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
        )
        place = self._place(parameters)
        if place is not None:
            _write(place, candidate)
        return candidate

    def find(self, parameters: dict[str, Any]) -> Candidate | None:
        """The candidate, if it is stored."""
        place = self._place(parameters)
        return None if place is None else _read(place, parameters)

    def _place(self, parameters: dict[str, Any]) -> Path | None:
        """Where the candidate is stored: a name made of its configuration and the data."""
        if self.folder is None:
            return None
        folder = Path(self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CarveError(f"{folder}: cannot make the folder: {error.strerror}") from None
        settings = {**self.fixed.get_params(), **parameters}
        settings = {k: v for k, v in settings.items() if k not in ("n_jobs", "verbose")}
        settings |= {"early_stopping_rounds": self.early_stopping_rounds, "format": _FORMAT}
        digest = hashlib.sha256(_key(settings).encode())
        digest.update(self._fingerprint.encode())
        return folder / f"candidate-{digest.hexdigest()[:24]}.json"

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for data in (self.X, self.y, self.X_valid, self.y_valid):
            array = np.ascontiguousarray(data)
            digest.update(f"{array.dtype} {array.shape}".encode())
            raw = array.tolist() if array.dtype.hasobject else None
            digest.update(repr(raw).encode() if raw is not None else array.view(np.uint8).data)
        names = getattr(self.X, "columns", self.feature_names)
        digest.update(repr(None if names is None else list(names)).encode())
        return digest.hexdigest()

    def restore(self, candidate: Candidate) -> LargeSpreadClassifier:
        """The fitted estimator of a candidate."""
        from sklearn.base import clone

        model: LargeSpreadClassifier = clone(self.fixed).set_params(**candidate.parameters)
        return model.restore(
            self.X, self.y, candidate.text, candidate.stopped_because, self.feature_names
        )


def _split(
    fixed: LargeSpreadClassifier, X: Any, y: Any, valid: tuple[Any, Any] | None, seed: int
) -> tuple[Any, Any, Any, Any]:
    """Training and validation data, checked here so that mistakes show before any work."""
    inputs.check_pair(fixed, X, y, reset=True)
    if valid is None:
        from sklearn.model_selection import train_test_split

        try:
            X, X_valid, y, y_valid = train_test_split(
                X, y, test_size=0.2, stratify=y, random_state=seed
            )
        except ValueError as error:
            raise DataError(f"cannot split off validation data: {error}") from None
        return X, y, X_valid, y_valid
    ((X_valid, y_valid),) = inputs.evaluation_pairs([valid])
    inputs.check_pair(fixed, X_valid, y_valid, what="valid")
    inputs.encode_labels(np.asarray(y_valid), np.unique(np.asarray(y)), "valid")
    return X, y, X_valid, y_valid


def _key(parameters: Mapping[str, Any]) -> str:
    """A text that differs wherever the parameters do; repr would shorten long arrays."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else repr(value)

    return json.dumps(parameters, sort_keys=True, default=plain)


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    import itertools

    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _grid(
    job: _Job, values: Mapping[str, Sequence[Any]], n_jobs: int | None
) -> Iterator[Candidate]:
    """All combinations: first those that are stored, then the others as they are finished."""
    from sklearn.utils.parallel import Parallel, delayed

    tried = []
    for parameters in _combinations(values):
        known = job.find(parameters)
        if known is None:
            tried.append(parameters)
        else:
            yield known
    cores = inputs.thread_count(n_jobs)
    workers = min(cores, len(tried))
    if workers <= 1:
        yield from (job.run(parameters, cores) for parameters in tried)
        return
    threads = max(1, cores // workers)
    # The largest first: they take longest, and the small ones fill the gaps.
    results = Parallel(n_jobs=workers, return_as="generator_unordered")(
        delayed(_run)(job, parameters, threads) for parameters in reversed(tried)
    )
    yield from results


def _run(job: _Job, parameters: dict[str, Any], threads: int) -> Candidate:
    return job.run(parameters, threads)


def _optuna(
    job: _Job,
    values: Mapping[str, Sequence[Any]],
    n_trials: int,
    score: Callable[[Candidate], float],
    seed: int,
    n_jobs: int | None,
) -> Iterator[Candidate]:
    """Combinations that Optuna proposes; a repeated one is found, not trained again."""
    try:
        import optuna
    except ImportError:
        raise CarveError("search='optuna' needs Optuna; pip install 'carvegbm[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    threads = inputs.thread_count(n_jobs)
    seen: dict[str, Candidate] = {}
    for _ in range(n_trials):
        trial = study.ask()
        parameters = {name: _suggest(trial, name, tried) for name, tried in values.items()}
        fresh = _key(parameters) not in seen
        if fresh:
            seen[_key(parameters)] = job.find(parameters) or job.run(parameters, threads)
        candidate = seen[_key(parameters)]
        study.tell(trial, score(candidate))
        if fresh:
            yield candidate


def _suggest(trial: Any, name: str, tried: Sequence[Any]) -> Any:
    """A value between the smallest and the largest of two or more numbers, else one of them."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in tried)
    if not numbers or len(tried) < 2:
        return trial.suggest_categorical(name, list(tried))
    low, high = min(tried), max(tried)
    by_ratio = low > 0 and high / low >= 4
    if all(isinstance(v, int) for v in tried):
        return trial.suggest_int(name, low, high, log=by_ratio)
    return trial.suggest_float(name, low, high, log=by_ratio)


def _read(place: Path, parameters: dict[str, Any]) -> Candidate | None:
    """The stored candidate, or None where it is missing or damaged."""
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
        text = place.with_suffix(".txt").read_text(encoding="utf-8")
        if record.pop("model") != hashlib.sha256(text.encode()).hexdigest():
            return None
        return Candidate(**{**record, "parameters": parameters, "text": text})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(place: Path, candidate: Candidate) -> None:
    """Model first, then the record that says it is complete."""
    record = {k: v for k, v in vars(candidate).items() if k != "text"}
    record["model"] = hashlib.sha256(candidate.text.encode()).hexdigest()
    with replacing(place.with_suffix(".txt")) as temporary:
        temporary.write_text(candidate.text, encoding="utf-8")
    with replacing(place) as temporary:
        temporary.write_text(json.dumps(record, default=repr) + "\n", encoding="utf-8")
