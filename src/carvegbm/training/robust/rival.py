"""The rival: certified large-spread training, where it may do better than robust training.

Against norms other than inf, features share a budget. What a large-spread ensemble loses in
thresholds it then gains in proofs: no feature is of use to the attacker in two trees at once. Which
of the two does better is for the validation rows to say.

Comes in: the report of robust training. Goes out: the better of both, and a report of both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import isinf

from carvegbm.training.large_spread.trainer import (
    MAX_CROWDING,
    Certified,
    LargeSpreadTrainer,
)
from carvegbm.training.model import GBDTModel
from carvegbm.training.parameters import check_max_crowding
from carvegbm.training.report import TrainingReport
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.judging import is_better
from carvegbm.training.robust.settings import RobustSettings
from carvegbm.training.search import search
from carvegbm.training.spec import FitResult

__all__ = ["has_rival", "with_rival"]


def has_rival(boosting: Boosting) -> bool:
    """Whether there is a rival: for classes, and norms other than inf."""
    return boosting.kind.task != "regression" and not isinf(boosting.attacker.norm)


def with_rival(
    report: TrainingReport,
    boosted: FitResult,
    boosting: Boosting,
    settings: RobustSettings,
) -> tuple[TrainingReport, FitResult]:
    """The better of robust training's choice and its rival's."""
    max_crowding = check_max_crowding(settings.max_crowding or MAX_CROWDING, boosting.attacker.norm)
    plain, clean_loss = report.plain_accuracy, settings.clean_loss
    trainer = LargeSpreadTrainer(boosting.spec, Certified(max_crowding, plain, clean_loss))
    theirs, their_boosted = search(
        [trainer],
        boosting.data,
        boosting.evaluation.sets[0],
        plain_accuracy=plain,
        clean_loss=clean_loss,
    )
    if their_boosted.stopped_because == "interrupted":
        boosted = replace(boosted, stopped_because="interrupted")
    trials = [*report.trials, *theirs.trials]
    able = report.floor is None or theirs.chosen.measures["accuracy"] >= report.floor
    if not (able and is_better(theirs.chosen, report.chosen)):
        tried = f"the {len(theirs.trials)} trials of certified large-spread training"
        why = f"{report.why}; {tried} did no better"
        return replace(report, trials=trials, why=why), boosted
    share = theirs.chosen.measures["robustness"]
    why = (
        f"the largest proven robustness on validation data, {share:.4f}, is that of certified "
        f"large-spread training; robust training reached {report.chosen.measures['robustness']:.4f}"
    )
    model = _of_any_threads(their_boosted.model)
    chosen = replace(theirs.chosen, model=model)
    trials = [chosen if trial is theirs.chosen else trial for trial in trials]
    better = replace(report, trials=trials, chosen=chosen, why=why)
    return better, replace(their_boosted, model=model)


def _of_any_threads(model: GBDTModel) -> GBDTModel:
    """The same model; its text, LightGBM's own, does not say how many threads grew it."""
    header = re.sub(r"\[num_threads: \d+\]", "[num_threads: 1]", model.header)
    return replace(model, header=header)
