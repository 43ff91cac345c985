"""Robust training: trials are grown, refitted and proven, and one of them is chosen.

Comes in: an ensemble to be trained, with validation rows. Goes out: the chosen model, and a report
of every trial.

    many rows   scout every way of growing with one member; grow the best with all members, as it
                is and refitted with every leaf_l2; the validation rows choose, and where these were
                split off from the training rows, the chosen plan is trained on all of them
    few rows    every plan is tried by cross-validation, and trained on all rows
    norms 0, 1, 2, … with many rows: certified large-spread training is tried, too

The choice is the largest proven robustness, among the trials whose accuracy is no more than
`clean_loss` below plain LightGBM's, or below the most accurate of them, where none reaches it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

from carvegbm.training.dataset import Dataset
from carvegbm.training.model import GBDTModel
from carvegbm.training.report import TrainingReport, Trial, shown
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.grounds import (
    SomeGround,
    SomeMenu,
    SomePlan,
    ground_for,
    menu_for,
)
from carvegbm.training.robust.judging import is_better, mean
from carvegbm.training.robust.rival import has_rival, with_rival
from carvegbm.training.robust.settings import RobustSettings
from carvegbm.training.search import accuracy_floor, describe_choice, plain_accuracy_of
from carvegbm.training.spec import FitResult

__all__ = ["FEW_ROWS", "RobustJob"]

FEW_ROWS = 2000
"""With fewer rows, trials are compared by cross-validation."""


@dataclass
class RobustJob:
    """One run of robust training.

    Attributes
    ----------
    boosting : Boosting
        What is to be trained; its first evaluation set holds the validation rows.
    settings : RobustSettings
    plain_accuracy : float or None
        Accuracy of plain LightGBM on the validation rows; by cross-validation, once trials are
        judged so, unless `is_given`.
    is_given : bool
        Whether the accuracy is a user's, and not to be measured again.
    tell : callable (str) -> object
        Called with a line per trial.
    """

    boosting: Boosting
    settings: RobustSettings
    plain_accuracy: float | None = None
    is_given: bool = False
    tell: Callable[[str], object] = lambda _: None
    _found: list[tuple[Trial, SomePlan, SomeGround]] = field(default_factory=list, init=False)

    def run(self) -> tuple[TrainingReport, FitResult]:
        """Train and judge the trials, and choose one; an interrupt ends it early."""
        interrupted = False
        few_rows = self._few_rows
        try:
            if few_rows:
                self._try_by_folds()
            else:
                self._try_on_validation_rows()
        except KeyboardInterrupt:
            if not self._found:
                raise
            interrupted = True
        chosen, plan, ground = self._choice()
        assert isinstance(chosen.model, GBDTModel)
        written = replace(
            chosen, model=chosen.model.with_counts(ground.train.X, self.boosting.threads)
        )
        trials = [written if trial is chosen else trial for trial, _, _ in self._found]
        report = self._report(trials, written)
        boosted = self._boosted(written, plan, ground, interrupted)
        if interrupted or self._few_rows:
            return report, boosted
        self._found.clear()  # what follows needs memory, and none of the rows as they were coded
        del ground
        try:
            if has_rival(self.boosting):
                given = self.boosting, self.settings
                report, boosted = with_rival(report, boosted, *given)
            stops = boosted.stopped_because == "interrupted"
            if self.settings.split_off and report.chosen is written and not stops:
                report, boosted = self._trained_on_all_rows(report, boosted, plan)
        except KeyboardInterrupt:
            boosted = replace(boosted, stopped_because="interrupted")
        return report, boosted

    # ── trials ───────────────────────────────────────────────────────────────────────────────

    def _try_on_validation_rows(self) -> None:
        ground = self._ground(self.boosting.data, self._valid)
        scouts = list(self._menu.scouts())
        best = scouts[0]
        if len(scouts) > 1:
            for plan in scouts:
                self._try(ground, plan, "scout")
            best = self._choice()[1]
        tried = [plan for _, plan, _ in self._found]
        for plan in self._menu.grown_as(best):
            if plan not in tried:
                self._try(ground, plan)

    def _try(self, ground: SomeGround, plan: SomePlan, note: str = "") -> None:
        """Train a model, prove what can be proven of it, and keep it."""
        started = time.monotonic()
        interrupted = False
        try:
            grown = ground.grow(plan)
        except KeyboardInterrupt:
            unfinished = ground.unfinished(plan)
            if self._found or unfinished is None:
                raise
            grown, note, interrupted = unfinished, "unfinished", True
        model = ground.model(plan, grown)
        measures = ground.measures(plan, grown, model)
        trial = _trial(plan, model, measures, time.monotonic() - started, note)
        self._keep(trial, plan, ground)
        if interrupted:
            raise KeyboardInterrupt

    def _try_by_folds(self) -> None:
        """Try every plan on all folds, and train it on all rows."""
        rows = self.boosting.data.concat(self._valid)
        plans = list(self._menu.small())
        found: list[list[Mapping[str, float]]] = [[] for _ in plans]
        n_trees, seconds = [0] * len(plans), [0.0] * len(plans)
        seed = int(self.boosting.parameters.get("seed", 0))
        plain: list[float] = []
        for train, valid in rows.folds(seed, self._stratify):
            ground = self._ground(train, valid)
            if self.settings.clean_loss is not None and not self.is_given:
                plain.append(self._plain_accuracy_of(train, valid))
            for i, plan in enumerate(plans):
                started = time.monotonic()
                grown = ground.grow(plan)
                found[i].append(ground.measures(plan, grown, ground.model(plan, grown)))
                n_trees[i] += len(grown.trees)
                seconds[i] += time.monotonic() - started
        if plain:
            self.plain_accuracy = sum(plain) / len(plain)
        whole = self._ground(rows, None)
        for i, plan in enumerate(plans):
            started = time.monotonic()
            as_long = replace(plan, rounds=self._n_rounds(plan, n_trees[i] / len(found[i])))
            model = whole.model(plan, whole.grow(as_long))
            taken = seconds[i] + time.monotonic() - started
            self._keep(_trial(plan, model, mean(found[i]), taken), plan, whole)

    def _trained_on_all_rows(
        self, report: TrainingReport, boosted: FitResult, plan: SomePlan
    ) -> tuple[TrainingReport, FitResult]:
        """The chosen plan once more, on the rows that it was chosen by, too."""
        self.tell("training the chosen one on all rows")
        ground = self._ground(self.boosting.data.concat(self._valid), None)
        # There are no rows left that could say when to stop: the number of rounds is known by now.
        plan = replace(plan, rounds=self._n_rounds(plan, boosted.model.ensemble.n_trees))
        model = ground.model(plan, ground.grow(plan))
        model = model.with_counts(ground.train.X, self.boosting.threads)
        n_trees, n_leaves = model.ensemble.n_trees, model.ensemble.n_leaves
        chosen = replace(report.chosen, model=model, trees=n_trees, leaves=n_leaves)
        trials = [chosen if trial is report.chosen else trial for trial in report.trials]
        why = f"{report.why}; then trained on all rows"
        return replace(report, trials=trials, chosen=chosen, why=why), replace(
            boosted, model=model, best_iteration=self._best_round(chosen, plan)
        )

    def _plain_accuracy_of(self, train: Dataset, valid: Dataset) -> float:
        boosting = self.boosting
        return plain_accuracy_of(
            train,
            valid,
            boosting.parameters,
            n_rounds=boosting.n_rounds,
            early_stopping_rounds=None,
            threads=boosting.threads,
        )

    def _keep(self, trial: Trial, plan: SomePlan, ground: SomeGround) -> None:
        self._found.append((trial, plan, ground))
        tried = ", ".join(f"{name} {shown(value)}" for name, value in trial.parameters.items())
        reached = ", ".join(f"{name} {value:.4f}" for name, value in trial.measures.items())
        self.tell(f"{tried}: {reached}")

    # ── choice ───────────────────────────────────────────────────────────────────────────────

    def _choice(self) -> tuple[Trial, SomePlan, SomeGround]:
        """The best trial so far of those that are accurate enough."""
        floor = self._floor
        best = None
        for each in self._found:
            trial = each[0]
            if floor is not None and trial.accuracy < floor:
                continue
            if best is None or is_better(trial, best[0]):
                best = each
        assert best is not None
        return best

    @property
    def _floor(self) -> float | None:
        if self.plain_accuracy is None or self.settings.clean_loss is None:
            return None
        return accuracy_floor(self.plain_accuracy, max(self._accuracies), self.settings.clean_loss)

    @property
    def _accuracies(self) -> list[float]:
        return [t.accuracy for t, _, _ in self._found]

    def _report(self, trials: Sequence[Trial], chosen: Trial) -> TrainingReport:
        why = describe_choice(chosen, trials, self._floor, self.plain_accuracy)
        if self._few_rows:
            why = f"{why}, by cross-validation"
        return TrainingReport(trials, chosen, why, self._floor, self.plain_accuracy)

    def _boosted(
        self, chosen: Trial, plan: SomePlan, ground: SomeGround, interrupted: bool
    ) -> FitResult:
        losses, end = ground.history(plan)
        rounds = self._best_round(chosen, plan)
        known = ground.valid is not None and len(losses) > 0
        name = self._valid.name
        assert isinstance(chosen.model, GBDTModel)
        return FitResult(
            model=chosen.model,
            stopped_because="interrupted" if interrupted else end,
            best_iteration=rounds,
            best_score=losses[min(rounds, len(losses)) - 1] if known and rounds else None,
            evals_result={name: {"worst_loss": losses}} if known else {},
        )

    def _best_round(self, trial: Trial, plan: SomePlan) -> int:
        """Rounds of every member of a trial; 0 for a constant."""
        return 0 if trial.leaves == trial.trees else self._n_rounds(plan, trial.trees)

    def _n_rounds(self, plan: SomePlan, n_trees: float) -> int:
        """Rounds of every member, the mean rounded up, where there are so many trees."""
        return max(1, ceil(n_trees / (plan.members * self.boosting.kind.n_outputs)))

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def _ground(self, train: Dataset, valid: Dataset | None) -> SomeGround:
        patience = self.settings.early_stopping_rounds
        return ground_for(self.boosting, self._menu, train, valid, patience)

    @cached_property
    def _menu(self) -> SomeMenu:
        return menu_for(self.boosting, self.settings, self._few_rows)

    @cached_property
    def _few_rows(self) -> bool:
        n_rows = len(self.boosting.data) + len(self._valid)
        if not self.settings.split_off or n_rows >= FEW_ROWS:
            return False
        return self.boosting.data.concat(self._valid).has_rows_for_folds(self._stratify)

    @property
    def _stratify(self) -> bool:
        return self.boosting.kind.task != "regression"

    @property
    def _valid(self) -> Dataset:
        return self.boosting.evaluation.sets[0]


def _trial(
    plan: SomePlan,
    model: GBDTModel,
    measures: Mapping[str, float],
    seconds: float,
    note: str = "",
) -> Trial:
    """A model that was trained by a plan."""
    return Trial(
        measures=measures,
        parameters=plan.parameters(),
        trees=model.ensemble.n_trees,
        leaves=model.ensemble.n_leaves,
        seconds=round(seconds, 3),
        note=note,
        model=model,
    )
