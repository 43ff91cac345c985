"""Tuning: train candidates, judge them on validation data, keep the best by a stated criterion.

Comes in: training and validation data, an attacker, values to try. Goes out: `Tuning`, a table of
all candidates and the chosen one as a fitted estimator. Candidates are trained in parallel; with
a folder to work in, a finished candidate is never trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.errors import CarveError, DataError
from carvegbm.training import inputs
from carvegbm.training.certified import accuracy_floor, check_clean_loss, check_quietness
from carvegbm.training.estimators import LargeSpreadClassifier
from carvegbm.training.reporting import aligned, shown
from carvegbm.training.trials import Candidate, Criterion, Trials, key

__all__ = ["CERTIFIED_LEAVES", "CRITERIA", "LEAVES", "Candidate", "Tuning", "tune"]

LEAVES = (16, 32, 64, 128, 256)
"""The paper's grid of `num_leaves`."""

CRITERIA = ("accuracy", "robustness", "tradeoff")

CERTIFIED_LEAVES = (8, 16, 32)
"""Sizes of tree for certified training: larger ones did worse for norms 0 and 1 on image data, and
about as well for norm inf."""


@dataclass(frozen=True)
class Tuning:
    """All candidates, and the chosen one."""

    candidates: list[Candidate]
    best: Candidate
    estimator: LargeSpreadClassifier
    """Fitted: the best candidate, with all that its `fit` set. Its `training_report_` speaks of
    this candidate alone; the table of all candidates is here."""
    criterion: Criterion
    weight: float
    floor: float | None = None
    """Certified training: the smallest accuracy that was acceptable."""
    plain_accuracy: float | None = None
    """Certified training: the accuracy of plain LightGBM."""

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        names = ["accuracy", "robustness", "trees", "leaves", "stopped_because", "seconds"]
        certified = {"floor": self.floor, "plain_accuracy": self.plain_accuracy}
        if self.best.refit is None:
            certified = {}
        else:
            names.append("refit")
        return {
            "criterion": self.criterion,
            "weight": self.weight,
            **certified,
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
        refit = [] if self.best.refit is None else ["refit"]
        titles = ("accuracy", "robustness", "trees", "stopped because", "seconds", "")
        table: list[tuple[str, ...]] = [(*names, *refit, *titles)]
        for c in self.candidates:
            values = [shown(value) for value in c.parameters.values()]
            values += ["yes" if c.refit else "no"] * len(refit)
            numbers = (f"{c.accuracy:.4f}", f"{c.robustness:.4f}", str(c.trees))
            mark = "best" if c is self.best else ""
            table.append((*values, *numbers, c.stopped_because, f"{c.seconds:.1f}", mark))
        return table

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
    n_estimators: int = 500,
    early_stopping_rounds: int | None = 50,
    random_state: int = 0,
    n_jobs: int | None = None,
    folder: Any = None,
    search: Literal["grid", "optuna"] = "grid",
    n_trials: int | None = None,
    on_candidate: Callable[[Candidate], object] | None = None,
    feature_names: Sequence[str] | None = None,
    certified: bool = False,
    clean_loss: float | None = 0.01,
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
        ``weight * accuracy + (1 - weight) * robustness``. Default: accuracy; with certified
        training robustness.
    weight : float, default 0.5
        Of the trade-off; refused with another criterion.
    n_estimators, early_stopping_rounds, random_state, **parameters
        Of every candidate.
    n_jobs : int, optional
        Cores to use, for candidates in parallel; all by default.
    folder : path, optional
        Finished candidates are stored there (a JSON file and a model file each) and found again
        by configuration and data, so that an interrupted run goes on where it stopped.
    search : {"grid", "optuna"}
        Try all combinations, or let Optuna propose `n_trials` (default 20) of them, one after the
        other (a list of two or more numbers then is a range). Needs ``carvegbm[optuna]``.
    on_candidate : callable, optional
        Called with every candidate as it is finished or found.
    feature_names : sequence of str, optional
        Names for the models where X is an array.
    certified : bool, default False
        Certified training: the default grid is ``{"num_leaves": (8, 16, 32)}``, every quietness
        is a candidate of its own, and the criterion chooses among the candidates whose accuracy
        is no more than `clean_loss` below that of plain LightGBM (the best `num_leaves`), or of
        the most accurate candidate, where none gets that far.
    clean_loss : float or None, default 0.01
        Of certified training, as `quietness`: both are refused without it.

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
    if criterion is None:
        criterion = "robustness" if certified else "accuracy"
    if criterion not in CRITERIA:
        raise CarveError(f"criterion must be accuracy, robustness or tradeoff, got {criterion!r}")
    if search not in ("grid", "optuna"):
        raise CarveError(f"search must be 'grid' or 'optuna', got {search!r}")
    given = {**parameters, **(grid or {})}
    for name, is_given, remedy, holds in (
        ("weight", weight is not None, "criterion='tradeoff'", criterion == "tradeoff"),
        ("n_trials", n_trials is not None, "search='optuna'", search == "optuna"),
        ("clean_loss", clean_loss != 0.01, "certified=True", certified),
        ("quietness", "quietness" in given, "certified=True", certified),
    ):
        if is_given and not holds:
            raise CarveError(f"{name} has no meaning without {remedy}")
    weight = 0.5 if weight is None else weight
    if not 0 <= weight <= 1:
        raise CarveError(f"weight must be from 0 to 1, got {weight!r}")
    n_trials = 20 if n_trials is None else inputs.whole_number("n_trials", n_trials)
    options = {"norm": norm, "budget": budget, "n_estimators": n_estimators, **parameters}
    options |= {"certified": certified, "clean_loss": clean_loss}
    fixed = LargeSpreadClassifier(**options, random_state=random_state, n_jobs=1)
    data = _split(fixed, X, y, valid, random_state)
    # Workers live on from one call to the next, in the directory of the first.
    folder = None if folder is None else Path(folder).absolute()
    trials = Trials(fixed, *data, early_stopping_rounds, folder, feature_names)
    if grid is None:
        grid = {"num_leaves": CERTIFIED_LEAVES if certified else LEAVES}
    values = {name: _values(name, tried) for name, tried in grid.items()}
    if certified and "quietness" not in values:
        values["quietness"] = list(check_quietness(fixed.quietness, Attacker(norm, budget).norm))
    for tried in values.get("quietness", []):
        check_quietness(tried, 1.0)
    if not all(values.values()):
        raise CarveError("every parameter of the grid needs at least one value")
    plain = floor = None
    if certified and check_clean_loss(clean_loss) is not None:
        plain = trials.plain_accuracy(values.get("num_leaves", [fixed.num_leaves]), n_jobs)
        trials = replace(trials, plain=plain)

    def score(candidate: Candidate) -> float:
        return candidate.score(criterion, weight)

    def merit(candidate: Candidate) -> float:
        """What guides Optuna: too inaccurate a candidate is worse than any other."""
        if plain is not None and candidate.accuracy < plain - (clean_loss or 0.0):
            return candidate.accuracy - 1
        return score(candidate)

    if search == "optuna":
        found = _optuna(trials, values, n_trials, merit, random_state, n_jobs)
    else:
        found = _grid(trials, values, n_jobs)
    candidates = []
    for candidate in found:
        candidates.append(candidate)
        if on_candidate is not None:
            on_candidate(candidate)
    order = {key(c.parameters): i for i, c in enumerate(candidates)}
    if search == "grid":
        order = {key(tried): i for i, tried in enumerate(_combinations(values))}
    candidates.sort(key=lambda c: order[key(c.parameters)])
    # On a tie the better of the other measure, then the smaller model.
    if plain is not None and clean_loss is not None:
        floor = accuracy_floor(plain, max(c.accuracy for c in candidates), clean_loss)
    able = [c for c in candidates if floor is None or c.accuracy >= floor]
    best = max(able, key=lambda c: (score(c), c.accuracy + c.robustness, -c.leaves))
    estimator = trials.restore(best).set_params(n_jobs=n_jobs)
    return Tuning(candidates, best, estimator, criterion, weight, floor, plain)


def _values(name: str, tried: Any) -> list[Any]:
    if isinstance(tried, str) or not isinstance(tried, Iterable):
        raise CarveError(f"grid: {name} must be a list of values, got {tried!r}")
    return list(tried)


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


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    import itertools

    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _grid(
    trials: Trials, values: Mapping[str, Sequence[Any]], n_jobs: int | None
) -> Iterator[Candidate]:
    """All combinations: first those that are stored, then the others as they are finished."""
    from sklearn.utils.parallel import Parallel, delayed

    tried = []
    for parameters in _combinations(values):
        known = trials.find(parameters)
        if known is None:
            tried.append(parameters)
        else:
            yield known
    cores = inputs.thread_count(n_jobs)
    workers = min(cores, len(tried))
    if workers <= 1:
        yield from (trials.run(parameters, cores) for parameters in tried)
        return
    threads = max(1, cores // workers)
    # The largest first: they take longest, and the small ones fill the gaps.
    results = Parallel(n_jobs=workers, return_as="generator_unordered")(
        delayed(_run)(trials, parameters, threads) for parameters in reversed(tried)
    )
    yield from results


def _run(trials: Trials, parameters: dict[str, Any], threads: int) -> Candidate:
    return trials.run(parameters, threads)


def _optuna(
    trials: Trials,
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
        fresh = key(parameters) not in seen
        if fresh:
            seen[key(parameters)] = trials.find(parameters) or trials.run(parameters, threads)
        candidate = seen[key(parameters)]
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
