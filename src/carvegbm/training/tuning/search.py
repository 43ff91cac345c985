"""Tuning: train trials, judge them on validation data, keep the best by a stated criterion.

Comes in: training and validation data, an attacker, values to try. Goes out: `Tuning`, a table of
all trials and the chosen one as a fitted estimator. Trials are trained in parallel; with a folder
to work in, a finished trial is never trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.errors import CarveError, DataError
from carvegbm.keeping.processes import in_processes
from carvegbm.training import inputs
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.parameters import check_clean_loss, check_max_crowding
from carvegbm.training.report import aligned, shown
from carvegbm.training.robust.settings import AUTO
from carvegbm.training.search import accuracy_floor
from carvegbm.training.tuning.stored_trials import key
from carvegbm.training.tuning.trial import Criterion, TuningTrial
from carvegbm.training.tuning.trials import Trials, Tunable

if TYPE_CHECKING:
    from carvegbm.displays import TrainingDisplay

__all__ = ["CERTIFIED_LEAVES", "CRITERIA", "LEAVES", "ROBUST_LEAVES", "Tuning", "tune"]

LEAVES = (16, 32, 64, 128, 256)
"""The paper's grid of `num_leaves`."""

CRITERIA = ("accuracy", "robustness", "tradeoff")

CERTIFIED_LEAVES = (8, 16, 32)
"""Sizes of tree for certified training: larger ones did worse for norms 0 and 1 on image data, and
about as well for norm inf."""

ROBUST_LEAVES = (8, 16, 32, 64)
"""Sizes of tree for robust training: small ones suit small tables."""

_ROUNDS, _PATIENCE, _CLEAN_LOSS = 500, 50, 0.01  # of large-spread training, where nothing is said
_DEFENDED = "certified=True or robust=True"


@dataclass(frozen=True)
class Tuning:
    """All trials, and the chosen one."""

    trials: list[TuningTrial]
    best: TuningTrial
    estimator: Tunable
    """Fitted: the best trial, with all that its `fit` set. Its `training_report_` speaks of this
    trial alone; the table of all trials is here."""
    criterion: Criterion
    weight: float
    floor: float | None = None
    """Robust and certified training: the smallest accuracy that was acceptable."""
    plain_accuracy: float | None = None
    """Robust and certified training: the accuracy of plain LightGBM."""

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        names = ["accuracy", "robustness", "trees", "leaves", "stopped_because", "seconds"]
        names += [] if self.best.refit is None else ["refit"]
        limits = {"floor": self.floor, "plain_accuracy": self.plain_accuracy}
        is_plain = self.best.refit is None and self.plain_accuracy is None
        return {
            "criterion": self.criterion,
            "weight": self.weight,
            **({} if is_plain else limits),
            "best": self.trials.index(self.best),
            "trials": [
                {**trial.parameters, "score": trial.score(self.criterion, self.weight)}
                | {name: getattr(trial, name) for name in names}
                for trial in self.trials
            ],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The table as text, a heading first; the best trial is marked."""
        names = list(self.trials[0].parameters)
        refit = [] if self.best.refit is None else ["refit"]
        titles = ("accuracy", "robustness", "trees", "stopped because", "seconds", "")
        table: list[tuple[str, ...]] = [(*names, *refit, *titles)]
        for t in self.trials:
            values = [shown(value) for value in t.parameters.values()]
            values += ["yes" if t.refit else "no"] * len(refit)
            numbers = (f"{t.accuracy:.4f}", f"{t.robustness:.4f}", str(t.trees))
            mark = "best" if t is self.best else ""
            table.append((*values, *numbers, t.stopped_because, f"{t.seconds:.1f}", mark))
        return table

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> TrainingDisplay:
        """Draw the trials, see `TrainingDisplay.from_report`."""
        from carvegbm.displays import TrainingDisplay

        return TrainingDisplay.from_report(self, name=name, ax=ax, **kwargs)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import training_html

        return training_html(self)

    def __str__(self) -> str:
        return "\n".join(aligned(self.rows()))


def tune(
    X: Any,
    y: Any,
    *,
    valid: tuple[Any, Any] | None = None,
    norm: int | float | str = "inf",
    budget: float = 0.01,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: Criterion | None = None,
    weight: float | None = None,
    n_estimators: int | None = None,
    early_stopping_rounds: int | Literal["auto"] | None = "auto",
    random_state: int = 0,
    n_jobs: int | None = None,
    folder: Any = None,
    search: Literal["grid", "optuna"] = "grid",
    n_trials: int | None = None,
    on_trial: Callable[[TuningTrial], object] | None = None,
    feature_names: Sequence[str] | None = None,
    categorical_feature: Any = AUTO,
    certified: bool = False,
    robust: bool = False,
    clean_loss: float | Literal["auto"] | None = "auto",
    **parameters: Any,
) -> Tuning:
    """Choose parameters of a `LargeSpreadClassifier`, or a `RobustClassifier`, on validation data.

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
        ``weight * accuracy + (1 - weight) * robustness``. Default: accuracy; with robust and
        certified training robustness.
    weight : float, default 0.5
        Of the trade-off; refused with another criterion.
    n_estimators, early_stopping_rounds, random_state, **parameters
        Of every trial; by default 500 rounds, and early stopping after 50 without a better value,
        with robust training 120 rounds and no early stopping.
    n_jobs : int, optional
        Cores to use, for trials in parallel; all by default.
    folder : path, optional
        Finished trials are stored there (a JSON file and a model file each) and found again
        by configuration and data, so that an interrupted run goes on where it stopped.
    search : {"grid", "optuna"}
        Try all combinations, or let Optuna propose `n_trials` (default 20) of them, one after the
        other (a list of two or more numbers then is a range). Needs ``carvegbm[optuna]``.
    on_trial : callable, optional
        Called with every trial as it is finished or found.
    feature_names : sequence of str, optional
        Names for the models where X is an array.
    categorical_feature : list of names or positions, default "auto"
        As for `fit`.
    certified : bool, default False
        Certified training: the default grid is ``{"num_leaves": (8, 16, 32)}``, every max_crowding
        is a trial of its own, and the criterion chooses among the trials whose accuracy is no
        more than `clean_loss` below that of plain LightGBM (the best `num_leaves`), or of the
        most accurate trial, where none gets that far.
    robust : bool, default False
        Robust training: the default grid is ``{"num_leaves": (8, 16, 32, 64)}``, and the criterion
        chooses among all trials, or those that `clean_loss` leaves. Each trial is a fit of
        `RobustClassifier`, which tries several models itself.
    clean_loss : float or None, default "auto"
        Of certified and robust training, as `max_crowding`: both are refused without them. "auto"
        is 0.01 for certified training, and None, any loss, for robust training.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = tune(
    ...     minmax_scale(X), y, budget=0.01, grid={"num_leaves": [4, 8]}, n_estimators=20, n_jobs=1
    ... )
    >>> [trial.parameters for trial in result.trials]
    [{'num_leaves': 4}, {'num_leaves': 8}]
    """
    if certified and robust:
        raise CarveError("certified and robust exclude each other; give one of them")
    if criterion is None:
        criterion = "robustness" if certified or robust else "accuracy"
    if criterion not in CRITERIA:
        raise CarveError(f"criterion must be accuracy, robustness or tradeoff, got {criterion!r}")
    if search not in ("grid", "optuna"):
        raise CarveError(f"search must be 'grid' or 'optuna', got {search!r}")
    given = {**parameters, **(grid or {})}
    if robust and "large_spread" in given:
        raise CarveError("large_spread has no meaning here: give certified=True instead of robust")
    for name, is_given, remedy, holds in (
        ("weight", weight is not None, "criterion='tradeoff'", criterion == "tradeoff"),
        ("n_trials", n_trials is not None, "search='optuna'", search == "optuna"),
        ("clean_loss", clean_loss not in (AUTO, _CLEAN_LOSS), _DEFENDED, certified or robust),
        ("max_crowding", "max_crowding" in given, _DEFENDED, certified or robust),
    ):
        if is_given and not holds:
            raise CarveError(f"{name} has no meaning without {remedy}")
    weight = 0.5 if weight is None else weight
    if not 0 <= weight <= 1:
        raise CarveError(f"weight must be from 0 to 1, got {weight!r}")
    n_trials = 20 if n_trials is None else inputs.whole_number("n_trials", n_trials)
    loss = _said(clean_loss, None if robust else _CLEAN_LOSS)
    patience = _said(early_stopping_rounds, None if robust else _PATIENCE)
    options = {"norm": norm, "budget": budget, "clean_loss": loss, **parameters}
    options |= {"random_state": random_state, "n_jobs": 1}
    fixed: Tunable
    if robust:
        fixed = RobustClassifier(n_estimators=n_estimators, **options)
    else:
        n_estimators = _ROUNDS if n_estimators is None else n_estimators
        fixed = LargeSpreadClassifier(n_estimators=n_estimators, certified=certified, **options)
    data = _split(fixed, X, y, valid, random_state)
    # Workers live on from one call to the next, in the directory of the first.
    folder = None if folder is None else Path(folder).absolute()
    runner = Trials(fixed, *data, patience, folder, feature_names, categorical_feature)
    values = _values_to_try(fixed, grid)
    plain = floor = None
    if (certified or robust) and check_clean_loss(loss) is not None:
        plain = runner.plain_accuracy(values.get("num_leaves", [fixed.num_leaves]), n_jobs)
        runner = replace(runner, plain=plain)

    def score(trial: TuningTrial) -> float:
        return trial.score(criterion, weight)

    def merit(trial: TuningTrial) -> float:
        """What guides Optuna: too inaccurate a trial is worse than any other."""
        if plain is not None and trial.accuracy < plain - (loss or 0.0):
            return trial.accuracy - 1
        return score(trial)

    if search == "optuna":
        found = _optuna(runner, values, n_trials, merit, n_jobs)
    else:
        found = _grid(runner, values, n_jobs)
    trials = []
    for trial in found:
        trials.append(trial)
        if on_trial is not None:
            on_trial(trial)
    order = {key(trial.parameters): i for i, trial in enumerate(trials)}
    if search == "grid":
        order = {key(tried): i for i, tried in enumerate(_combinations(values))}
    trials.sort(key=lambda trial: order[key(trial.parameters)])
    # On a tie the better of the other measure, then the smaller model.
    if plain is not None and loss is not None:
        floor = accuracy_floor(plain, max(trial.accuracy for trial in trials), loss)
    able = [trial for trial in trials if floor is None or trial.accuracy >= floor]
    best = max(able, key=lambda t: (score(t), t.accuracy + t.robustness, -t.leaves))
    estimator = runner.restore(best).set_params(n_jobs=n_jobs)
    return Tuning(trials, best, estimator, criterion, weight, floor, plain)


def _said(given: Any, otherwise: Any) -> Any:
    """A value, unless it is left to the kind of training."""
    return otherwise if isinstance(given, str) and given == AUTO else given


def _values_to_try(
    fixed: Tunable, grid: Mapping[str, Sequence[Any]] | None
) -> dict[str, list[Any]]:
    """The values of every parameter in the grid; of max_crowding too, in certified training."""
    is_robust = isinstance(fixed, RobustClassifier)
    certified = not is_robust and fixed.certified
    if grid is None:
        leaves = ROBUST_LEAVES if is_robust else CERTIFIED_LEAVES if certified else LEAVES
        grid = {"num_leaves": leaves}
    values = {name: _values(name, tried) for name, tried in grid.items()}
    if certified and "max_crowding" not in values:
        norm = Attacker(fixed.norm, fixed.budget).norm
        values["max_crowding"] = list(check_max_crowding(fixed.max_crowding, norm))
    for tried in values.get("max_crowding", []):
        check_max_crowding(tried, 1.0)
    if not all(values.values()):
        raise CarveError("every parameter of the grid needs at least one value")
    return values


def _values(name: str, tried: Any) -> list[Any]:
    if isinstance(tried, str) or not isinstance(tried, Iterable):
        raise CarveError(f"grid: {name} must be a list of values, got {tried!r}")
    return list(tried)


def _split(
    fixed: Tunable, X: Any, y: Any, valid: tuple[Any, Any] | None, seed: int
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


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    import itertools

    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _grid(
    runner: Trials, values: Mapping[str, Sequence[Any]], n_jobs: int | None
) -> Iterator[TuningTrial]:
    """All combinations: first those that are stored, then the others as they are finished."""
    left = []
    for parameters in _combinations(values):
        known = runner.find(parameters)
        if known is None:
            left.append(parameters)
        else:
            yield known
    cores = inputs.thread_count(n_jobs)
    workers = max(1, min(cores, len(left)))
    threads = max(1, cores // workers)
    if workers > 1:
        left.reverse()  # the largest first: they take longest, and the small ones fill the gaps
    yield from in_processes(runner.run, [(parameters, threads) for parameters in left], workers)


def _optuna(
    runner: Trials,
    values: Mapping[str, Sequence[Any]],
    n_trials: int,
    score: Callable[[TuningTrial], float],
    n_jobs: int | None,
) -> Iterator[TuningTrial]:
    """Combinations that Optuna proposes; a repeated one is found, not trained again."""
    try:
        import optuna
    except ImportError:
        raise CarveError("search='optuna' needs Optuna; pip install 'carvegbm[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=runner.fixed.random_state)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    threads = inputs.thread_count(n_jobs)
    seen: dict[str, TuningTrial] = {}
    for _ in range(n_trials):
        proposal = study.ask()
        parameters = {name: _suggest(proposal, name, tried) for name, tried in values.items()}
        fresh = key(parameters) not in seen
        if fresh:
            seen[key(parameters)] = runner.find(parameters) or runner.run(parameters, threads)
        trial = seen[key(parameters)]
        study.tell(proposal, score(trial))
        if fresh:
            yield trial


def _suggest(proposal: Any, name: str, tried: Sequence[Any]) -> Any:
    """A value between the smallest and the largest of two or more numbers, else one of them."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in tried)
    if not numbers or len(tried) < 2:
        return proposal.suggest_categorical(name, list(tried))
    low, high = min(tried), max(tried)
    by_ratio = low > 0 and high / low >= 4
    if all(isinstance(v, int) for v in tried):
        return proposal.suggest_int(name, low, high, log=by_ratio)
    return proposal.suggest_float(name, low, high, log=by_ratio)
