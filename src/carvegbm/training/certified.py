"""Certified training: quiet thresholds, robust refit, and the choice between candidates.

Comes in: training and validation rows, and a way to grow large-spread trees. Goes out: the chosen
model, and a report of every candidate.

    scout   every quietness with a few rounds, refitted: which one suits the data and the budget?
    grow    the best of them with all rounds, refitted
    choose  the largest proven robustness on the validation rows, among all models so far whose
            accuracy there is no more than `clean_loss` below plain LightGBM's, or below the most
            accurate of them, where none is as accurate as plain LightGBM
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.readers import load
from carvegbm.training.boosting import Boosted, Rows
from carvegbm.training.closing import ClosingRule
from carvegbm.training.descent import Labelled, Settings
from carvegbm.training.inputs import blank_ensemble
from carvegbm.training.lightgbm_c import refusal
from carvegbm.training.quiet import crowding
from carvegbm.training.refit import refit_ensemble, with_scores
from carvegbm.training.reporting import aligned, shown
from carvegbm.training.thresholds import Candidates
from carvegbm.verification import Verification, verify

__all__ = [
    "Job",
    "Trained",
    "TrainingReport",
    "accuracy_floor",
    "check_clean_loss",
    "check_quietness",
    "plain_accuracy_of",
    "reason",
]

_SCOUT_ROUNDS = 20
_SCOUT = Settings(steps=50, patience=20)


@dataclass(frozen=True)
class Trained:
    """A candidate, judged on the validation rows."""

    num_leaves: int
    quietness: float | None
    scout: bool
    refit: bool
    accuracy: float
    robustness: float
    trees: int
    leaves: int
    seconds: float
    text: str = field(repr=False)
    """The model, as LightGBM writes it."""


@dataclass(frozen=True)
class TrainingReport:
    """Every candidate that certified training tried, what was chosen, and why.

    Attributes
    ----------
    candidates : list of Trained
        In the order they were trained; accuracy and robustness are those on validation data.
    chosen : Trained
    why : str
        A sentence.
    floor : float or None
        The smallest accuracy that was acceptable; None: any.
    plain_accuracy : float or None
        Accuracy of plain LightGBM on the validation data, where it was trained.
    """

    candidates: list[Trained]
    chosen: Trained
    why: str
    floor: float | None
    plain_accuracy: float | None

    def to_dict(self, texts: bool = False) -> dict[str, Any]:
        """The report as plain values, without the models' texts unless asked for."""
        names = [part.name for part in fields(Trained) if texts or part.name != "text"]
        return {
            "chosen": self.candidates.index(self.chosen),
            "why": self.why,
            "floor": self.floor,
            "plain_accuracy": self.plain_accuracy,
            "candidates": [{name: getattr(c, name) for name in names} for c in self.candidates],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingReport:
        """The report that ``to_dict(texts=True)`` wrote."""
        candidates = [Trained(**candidate) for candidate in values["candidates"]]
        return cls(
            candidates,
            candidates[values["chosen"]],
            values["why"],
            values["floor"],
            values["plain_accuracy"],
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The report as a table of text, a heading first; the chosen candidate is marked."""
        table: list[tuple[str, ...]] = [
            ("quietness", "leaves", "trees", "refit", "accuracy", "robustness", "seconds", "")
        ]
        for c in self.candidates:
            what = "chosen" if c is self.chosen else "scout" if c.scout else ""
            table.append(
                (
                    shown(c.quietness),
                    str(c.num_leaves),
                    str(c.trees),
                    "yes" if c.refit else "no",
                    f"{c.accuracy:.4f}",
                    f"{c.robustness:.4f}",
                    f"{c.seconds:.1f}",
                    what,
                )
            )
        return table

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), self.why])


@dataclass
class Job:
    """One run of certified training.

    Attributes
    ----------
    rows, valid : Rows
        With encoded labels.
    attacker : Attacker
    candidates : Candidates
        All thresholds of the training rows.
    grow : callable (candidates, rounds) -> Boosted
        Trains a large-spread model; `rounds` None means all of them, watched and stopped early.
    write : callable (Boosted) -> str
        The model's text.
    num_leaves : int
    quietness : sequence of float or None
    plain_accuracy : float or None
        Accuracy of plain LightGBM on the validation rows.
    clean_loss : float or None
        How far below it a model may be; None: accuracy does not count.
    classes : array
    threads : int
    tell : callable (str) -> object
        Called with a line per candidate.
    """

    rows: Rows
    valid: Rows
    attacker: Attacker
    candidates: Candidates
    grow: Callable[[Candidates, int | None], Boosted]
    write: Callable[[Boosted], str]
    num_leaves: int
    quietness: Sequence[float | None]
    plain_accuracy: float | None
    clean_loss: float | None
    classes: npt.NDArray[Any]
    threads: int
    tell: Callable[[str], object]
    interrupted: bool = field(default=False, init=False)
    _reached: float = field(default=0.0, init=False)  # the best accuracy so far
    _boosted: dict[int, Boosted] = field(default_factory=dict, init=False)

    def run(self) -> TrainingReport:
        """Train and judge the candidates, and choose one; an interrupt ends it early."""
        found: list[Trained] = []
        try:
            for candidate in self._candidates(found):
                found.append(candidate)  # noqa: PERF402  an interrupt keeps what is there
        except KeyboardInterrupt:
            if not found:
                raise
            self.interrupted = True
        floor = self._floor(self._reached)
        chosen = _choose(found, floor)
        accuracies = [c.accuracy for c in found]
        why = reason(chosen.robustness, accuracies, floor, self.plain_accuracy, self._reached)
        return TrainingReport(found, chosen, why, floor, self.plain_accuracy)

    def _candidates(self, found: Sequence[Trained]) -> Iterator[Trained]:
        """Scouts, then the best of them grown; `found` holds what came so far."""
        best = self.quietness[0]
        if len(self.quietness) > 1:
            for quietness in self.quietness:
                yield from self._train(quietness, scout=True)
            # Scouts are small: none of them need be as accurate as a grown model.
            best = _choose(found, self._floor(self._reached)).quietness
        yield from self._train(best, scout=False)

    def outcome(self, candidate: Trained) -> Boosted:
        """How a candidate's trees were grown."""
        return self._boosted[id(candidate)]

    def _floor(self, reached: float) -> float | None:
        """The smallest acceptable accuracy: what no model reaches is not asked of a refit."""
        if self.plain_accuracy is None or self.clean_loss is None:
            return None
        return accuracy_floor(self.plain_accuracy, reached, self.clean_loss)

    def _train(self, quietness: float | None, scout: bool) -> Iterator[Trained]:
        """A candidate as boosting leaves it, then the same refitted."""
        started = time.monotonic()
        boosted = self.grow(self._quiet(quietness), _SCOUT_ROUNDS if scout else None)
        text = self.write(boosted)
        booster, ensemble = self._read(text)
        proven = verify(
            ensemble,
            self.valid.X,
            self.classes[self.valid.labels],
            self.attacker,
            threads=self.threads,
            progress=False,
        )

        def judged(refit: bool, result: Verification, text: str) -> Trained:
            candidate = Trained(
                num_leaves=self.num_leaves,
                quietness=quietness,
                scout=scout,
                refit=refit,
                accuracy=result.accuracy,
                robustness=float(result.robustness[0]),
                trees=ensemble.n_trees,
                leaves=ensemble.n_leaves,
                seconds=round(time.monotonic() - started, 3),
                text=text,
            )
            self._boosted[id(candidate)] = boosted
            self._reached = max(self._reached, candidate.accuracy)
            self.tell(
                f"quietness {shown(quietness)}, {ensemble.n_trees} trees"
                f"{', refitted' if refit else ''}: "
                f"accuracy {candidate.accuracy:.4f}, robustness {candidate.robustness:.4f}"
            )
            return candidate

        yield judged(False, proven, text)
        if boosted.stopped_because == "interrupted":
            raise KeyboardInterrupt
        result = refit_ensemble(
            ensemble,
            self.attacker,
            *self._labelled,
            _SCOUT if scout else Settings(),
            start=proven,
            floor=self._floor(proven.accuracy if scout else self._reached),
            threads=self.threads,
        )
        if result.changed:
            better = with_scores(booster, ensemble, result.ensemble.scores)
            yield judged(True, result.end, better.model_to_string())
        if result.descent.interrupted:
            raise KeyboardInterrupt

    def _read(self, text: str) -> tuple[Any, Ensemble]:
        import lightgbm

        booster = lightgbm.Booster(model_str=text)
        return booster, load(booster, classes=self.classes)

    @cached_property
    def _labelled(self) -> tuple[Labelled, Labelled]:
        """Training and validation rows, as the refit takes them."""
        train, valid = (
            Labelled(np.ascontiguousarray(rows.X), rows.labels.astype(np.int32), rows.weight)
            for rows in (self.rows, self.valid)
        )
        return train, valid

    def _quiet(self, quietness: float | None) -> Candidates:
        """The thresholds that are not too crowded."""
        if quietness is None:
            return self.candidates
        return self.candidates.keeping([share <= quietness for share in self._crowding])

    @cached_property
    def _crowding(self) -> list[npt.NDArray[np.float64]]:
        rule = ClosingRule.against(self.attacker, blank_ensemble(self.candidates.n_features))
        return crowding(self.candidates, self.rows, rule, self.threads)


def reason(
    robustness: float,
    accuracies: Sequence[float],
    floor: float | None,
    plain_accuracy: float | None,
    reached: float | None = None,
) -> str:
    """Why a model of this robustness was chosen among candidates of these accuracies.

    `reached` is the best of them, to be named where it is less than plain LightGBM's accuracy.
    """
    best = f"the largest proven robustness on validation data, {robustness:.4f}, of"
    if floor is None:
        return f"{best} {len(accuracies)} candidates"
    limit = f"{floor:.4f}"
    if plain_accuracy is not None and reached is not None and reached < plain_accuracy:
        limit += (
            f" (the most accurate candidate has {reached:.4f}, plain LightGBM {plain_accuracy:.4f})"
        )
    elif plain_accuracy is not None:
        limit += f" (plain LightGBM has {plain_accuracy:.4f})"
    able = sum(accuracy >= floor for accuracy in accuracies)
    able_ones = f"the {able} of {len(accuracies)} candidates"
    return f"{best} {able_ones} that are at least as accurate as {limit}"


def _choose(found: Sequence[Trained], floor: float | None) -> Trained:
    """The most robust candidate that is accurate enough; there always is one."""
    able = [c for c in found if floor is None or c.accuracy >= floor]
    return max(able, key=lambda c: (c.robustness, c.accuracy, not c.scout, -c.leaves))


def accuracy_floor(goal: float, reached: float, clean_loss: float) -> float:
    """The smallest acceptable accuracy: `clean_loss` below the goal, or below what was reached.

    Accuracies are quotients of counts; the slack keeps rounding from telling equal ones apart.
    """
    return min(goal, reached) - clean_loss - 1e-9


def check_quietness(given: Any, norm: float) -> tuple[float | None, ...]:
    """Values of quietness to try: one, or several in a sequence; none applies to norm 0."""
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values = tuple(given) if several else (given,)
    for value in values:
        if value is not None and not (_is_number(value) and 0 < value <= 1):
            raise CarveError(f"quietness must be None or a share in (0, 1], got {value!r}")
    if not values:
        raise CarveError("quietness must hold at least one value; None closes no threshold")
    numbers = (None if value is None else float(value) for value in values)
    return (None,) if norm == 0 else tuple(dict.fromkeys(numbers))


def check_clean_loss(given: Any) -> float | None:
    """Accuracy that may be given up: None for all of it."""
    if given is not None and not (_is_number(given) and 0 <= given <= 1):
        raise CarveError(f"clean_loss must be None or from 0 to 1, got {given!r}")
    return None if given is None else float(given)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real)


def plain_accuracy_of(
    rows: Rows,
    valid: Rows,
    parameters: Mapping[str, Any],
    *,
    n_rounds: int,
    early_stopping_rounds: int | None,
    threads: int,
) -> float:
    """Accuracy of plain LightGBM on the validation rows, trained with the same parameters."""
    import lightgbm

    data = lightgbm.Dataset(rows.X, rows.labels, weight=rows.weight)
    held_out = lightgbm.Dataset(valid.X, valid.labels, reference=data)
    stop = [] if early_stopping_rounds is None else [early_stopping_rounds]
    try:
        booster = lightgbm.train(
            {**parameters, "num_threads": threads, "verbosity": -1},
            data,
            n_rounds,
            valid_sets=[held_out] if stop else None,
            callbacks=[
                lightgbm.early_stopping(n, first_metric_only=True, verbose=False) for n in stop
            ],
        )
    except lightgbm.basic.LightGBMError as error:
        raise refusal(str(error)) from None
    raw = np.asarray(booster.predict(valid.X, raw_score=True, num_threads=threads))
    chosen = (raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(axis=1)
    return float((chosen == valid.labels).mean())
