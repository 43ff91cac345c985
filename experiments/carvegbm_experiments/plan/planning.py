"""What a run consists of: the cells of a suite, in the order they are computed.

Comes in: a suite (the paper's evaluation, or a quick one on built-in data) and what the user wants
of it. Goes out: a list of `Cell`s, each with its whole configuration, the cells it builds on and a
rough cost. Cheap kinds come first, so that a page exists early; cells whose result is a time come
last, when nothing else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from carvegbm import CarveError
from carvegbm_experiments.plan.attackers import Study
from carvegbm_experiments.plan.cell import KINDS, TIMED, Cell
from carvegbm_experiments.plan.robust import PROTOCOLS, Row
from carvegbm_experiments.plan.suites import QUICK, Suite

__all__ = ["plan"]

_CURVE_STEPS = 10  # up to the budget a model was trained for, and as many twice beyond it

_SIZES = {"webspam": 12.0, "nsl-kdd": 0.6, "social-honeypot": 0.1}  # work, where an image set has 1
_LARGE = 5.0
_COSTS = {
    "dataset": 2.0,
    "plain": 70.0,
    "gallery": 4.0,
    "plain-robustness": 2.0,
    "large-spread": 75.0,
    "curve": 15.0,
    "certified": 120.0,
    "robust": 30.0,
    "attackers": 8.0,
    "time": 20.0,
    "speed-up": 20.0,
}
_ROBUST_COSTS = {"mnist-ten": 8.0, "fmnist-ten": 8.0, "cod-rna": 4.0, "ijcnn1": 2.0, "nsl-kdd": 3.0}
_QUICK_COST = 0.01  # of a full one, in every kind


def plan(
    suite: Suite,
    *,
    only: Sequence[str] | None = None,
    norms: Sequence[str] | None = None,
    rows: int | None = None,
    timeout: float | None = None,
    seed: int = 0,
) -> list[Cell]:
    """The cells of a suite, in the order of the work.

    Parameters
    ----------
    suite : Suite
    only : sequence of str, optional
        Data sets, kinds of cells and protocols of robust training to keep; what a cell needs is
        kept with it.
    norms : sequence of str, optional
        Norms to keep.
    rows, timeout : optional
        Test rows for the general engines, and seconds for each; default: the suite's.
    seed : int, default 0
        Of splitting and training.

    Examples
    --------
    >>> [cell.title for cell in plan(QUICK, only=["breast-cancer"])][:3]
    ['dataset breast-cancer', 'plain breast-cancer', \
'plain-robustness breast-cancer norm inf budget 0.01']
    """
    wanted = _Wanted(suite, only)
    allowed = _known("--norms", norms, suite.norms)
    cells = _Cells(suite, suite.rows if rows is None else rows, timeout or suite.timeout, seed)
    found: dict[tuple[str, str], Cell] = {}

    def add(cell: Cell) -> None:
        for needed in cell.needs:
            add(needed)
        found.setdefault(cell.key, cell)

    for dataset in wanted.datasets:
        for cell in (*cells.of(dataset), *cells.robust(dataset), *cells.attackers(dataset)):
            if cell in wanted and cell.configuration.get("norm", allowed[0]) in allowed:
                add(cell)
    return sorted(found.values(), key=_order(suite))


class _Wanted:
    """Data sets, kinds and protocols that are asked for; all of those of which none is named."""

    def __init__(self, suite: Suite, only: Sequence[str] | None) -> None:
        protocols = [name for name in PROTOCOLS if name in {row.protocol for row in suite.robust}]
        names = _known("--only", only, (*suite.names, *KINDS, *protocols))
        kinds = [kind for kind in KINDS if kind in names]
        chosen = [name for name in protocols if name in names]
        if chosen and not kinds and only is not None:
            kinds = ["robust"]
        self._protocols = chosen or protocols
        self.datasets = [name for name in suite.names if name in names] or suite.names
        self._kinds = kinds or KINDS

    def __contains__(self, cell: Cell) -> bool:
        protocol = cell.configuration.get("protocol")
        return cell.kind in self._kinds and protocol in (None, *self._protocols)


def _known(option: str, given: Sequence[str] | None, known: Sequence[str]) -> Sequence[str]:
    """The names given, which must be known; all where the option is not used."""
    if given is None:
        return known
    for name in given or [""]:
        if name not in known:
            raise CarveError(f"{option} {name}: no such name; choose from {', '.join(known)}")
    return given


def _order(suite: Suite) -> Callable[[Cell], tuple[Any, ...]]:
    def place(cell: Cell) -> tuple[Any, ...]:
        timed = cell.kind in TIMED
        # Much data waits for little data, except for what everything starts from.
        large = _SIZES.get(cell.dataset, 1.0) > _LARGE and cell.kind != "dataset"
        own = KINDS.index(cell.kind)
        after = max([own, *(KINDS.index(needed.kind) for needed in cell.needs)])
        named = cell.configuration.get("protocol")
        protocol = list(PROTOCOLS).index(named) if named else 0
        return timed, large, after, own < after, protocol, suite.names.index(cell.dataset)

    return place


class _Cells:
    """Makes the cells of one suite under the user's settings."""

    def __init__(self, suite: Suite, rows: int, timeout: float, seed: int) -> None:
        self.suite, self.rows, self.timeout, self.seed = suite, rows, timeout, seed

    def of(self, dataset: str) -> Iterable[Cell]:
        """All cells of the paper's evaluation about one data set."""
        suite = self.suite
        if dataset not in suite.datasets:
            return
        yield self._cell("dataset", dataset, {})
        yield self._plain(dataset)
        full = suite.attackers.get(dataset, ())
        for attacker in (*full, *suite.few.get(dataset, ())):
            yield self._plain_robustness(dataset, attacker)
        for attacker in (*full, *suite.few.get(dataset, ()), *suite.extras.get(dataset, ())):
            yield self._large_spread(dataset, attacker)
            if attacker in full:
                yield self._large_spread(dataset, attacker, "robustness")
            yield self._certified(dataset, attacker)
        for attacker in suite.curves.get(dataset, ()):
            yield from self._curves(dataset, attacker)
        for attacker in suite.galleries.get(dataset, ()):
            yield self._gallery(dataset, attacker)
        for attacker in full:
            yield self._time(dataset, attacker)
        for attacker in suite.speed_ups.get(dataset, ()):
            for trees in suite.speed_up_trees:
                yield self._speed_up(dataset, attacker, trees)

    def robust(self, dataset: str) -> Iterable[Cell]:
        """All cells of robust training about one data set."""
        for row in self.suite.robust:
            if row.dataset == dataset:
                for model in PROTOCOLS[row.protocol].models:
                    yield self._robust(row, model)

    def attackers(self, dataset: str) -> Iterable[Cell]:
        """All cells about attackers as people have them, and one data set."""
        for study in self.suite.studies:
            if study.dataset == dataset:
                for attacker in study.attackers:
                    for model in study.parameters:
                        yield from self._attackers(study, attacker, model)

    def _cell(
        self,
        kind: str,
        dataset: str,
        settings: Mapping[str, Any],
        needs: tuple[Cell, ...] = (),
        cost: float = 1.0,
    ) -> Cell:
        common = {"suite": self.suite.name, "dataset": dataset, "seed": self.seed}
        size = _QUICK_COST if self.suite is QUICK else _SIZES.get(dataset, 1.0)
        return Cell(kind, {**common, **settings}, _COSTS[kind] * size * cost, needs)

    def _training(self) -> dict[str, Any]:
        return {
            "leaves": list(self.suite.leaves),
            "trees": self.suite.trees,
            "early_stopping": self.suite.early_stopping,
            "learning_rate": self.suite.learning_rate,
            "min_child_samples": self.suite.min_child_samples,
        }

    def _certified_training(self, dataset: str, attacker: tuple[str, float]) -> dict[str, Any]:
        suite = self.suite
        extra = attacker in suite.extras.get(dataset, ())
        return {
            **self._training(),
            "leaves": list(suite.certified_leaves),
            "quietness": list(suite.quietness),
            "clean_loss": suite.extra_clean_loss if extra else suite.clean_loss,
        }

    def _general(self) -> dict[str, Any]:
        return {"rows": self.rows, "timeout": self.timeout, "engine": "auto"}

    def _plain(self, dataset: str) -> Cell:
        return self._cell("plain", dataset, self._training())

    def _plain_robustness(self, dataset: str, attacker: tuple[str, float]) -> Cell:
        settings = {**_named(attacker), **self._training(), **self._general()}
        cost = self.rows / 500 * {"inf": 0.3, "1": 0.5, "2": 0.5, "0": 1.0}[attacker[0]]
        return self._cell("plain-robustness", dataset, settings, (self._plain(dataset),), cost)

    def _large_spread(
        self, dataset: str, attacker: tuple[str, float], criterion: str = "accuracy"
    ) -> Cell:
        settings = {**_named(attacker), **self._training(), "criterion": criterion}
        if criterion == "accuracy":
            return self._cell("large-spread", dataset, settings)
        # The trials are those of the other criterion; only the choice is made anew.
        needs = (self._large_spread(dataset, attacker),)
        return self._cell("large-spread", dataset, settings, needs, cost=0.02)

    def _certified(self, dataset: str, attacker: tuple[str, float]) -> Cell:
        training = self._certified_training(dataset, attacker)
        settings = {**_named(attacker), **training, "criterion": "robustness"}
        # Quietness means nothing to norm 0: so many trials less.
        cost = 1 / len(self.suite.quietness) if attacker[0] == "0" else 1.0
        return self._cell("certified", dataset, settings, cost=cost)

    def _robust(self, row: Row, model: str) -> Cell:
        protocol = PROTOCOLS[row.protocol]
        parameters = {**protocol.parameters.get(model, {})}
        if self.suite is QUICK or model == "robust":
            parameters |= row.parameters
        if row.clean_loss is not None and model in ("certified", "robust"):
            parameters["clean_loss"] = row.clean_loss
        settings = {
            **_named((row.norm, row.budget)),
            "protocol": row.protocol,
            "division": protocol.division,
            "inner": row.inner,
            "model": model,
            "parameters": parameters,
            "timeout": protocol.timeout,
        }
        if row.copies:  # a cell without keeps the name that it is stored under
            settings["copies"] = row.copies
        folds = 5 if protocol.division == "folds" else 1
        norm = {"inf": 1.0}.get(row.norm, 4.0)
        cost = _ROBUST_COSTS.get(row.dataset, 1.0) * folds * norm
        return self._cell("robust", row.dataset, settings, cost=cost)

    def _attackers(self, study: Study, attacker: tuple[str, float], model: str) -> Iterable[Cell]:
        norm = attacker[0]
        for trained, met in study.meetings(model):
            settings = {
                **_named(attacker),
                "limits": met,
                "options": study.allowed(met, norm),
                "model": model,
                "parameters": study.trained_with(model, attacker),
                "rows": study.rows,
                "timeout": study.timeout,
            }
            if trained is not None:
                settings |= {"trained": trained, "training": study.allowed(trained, norm)}
            yield self._cell("attackers", study.dataset, settings)

    def _curves(self, dataset: str, attacker: tuple[str, float]) -> Iterable[Cell]:
        budget = attacker[1]
        steps = range(3 * _CURVE_STEPS + 1)
        shared = {
            **_named(attacker),
            "budgets": [round(budget * step / _CURVE_STEPS, 12) for step in steps],
            "rows": self.rows,
            "timeout": self.suite.curve_timeout,
        }
        models = {
            "plain": (self._training(), self._plain(dataset)),
            "large-spread": (self._training(), self._large_spread(dataset, attacker)),
            "certified": (
                self._certified_training(dataset, attacker),
                self._certified(dataset, attacker),
            ),
        }
        for model, (training, needed) in models.items():
            settings = {**shared, **training, "model": model}
            yield self._cell("curve", dataset, settings, (needed,), self.rows / 500)

    def _gallery(self, dataset: str, attacker: tuple[str, float]) -> Cell:
        settings = {
            **_named(attacker),
            **self._training(),
            "rows": self.suite.gallery_rows,
            "timeout": self.suite.curve_timeout,
            "images": self.suite.images,
        }
        return self._cell("gallery", dataset, settings, (self._plain(dataset),))

    def _time(self, dataset: str, attacker: tuple[str, float]) -> Cell:
        settings = {**_named(attacker), **self._training(), **self._general()}
        needs = (self._large_spread(dataset, attacker),)
        return self._cell("time", dataset, settings, needs, self.rows / 500)

    def _speed_up(self, dataset: str, attacker: tuple[str, float], trees: int) -> Cell:
        suite = self.suite
        settings = {
            **_named(attacker),
            "trees": trees,
            "num_leaves": suite.speed_up_leaves,
            "learning_rate": suite.learning_rate,
            "min_child_samples": suite.min_child_samples,
            "rows": suite.speed_up_rows,
            "milp_rows": suite.milp_rows,
            "timeout": suite.speed_up_timeout,
        }
        return self._cell("speed-up", dataset, settings, cost=2 * trees / max(suite.speed_up_trees))


def _named(attacker: tuple[str, float]) -> dict[str, Any]:
    return {"norm": attacker[0], "budget": attacker[1]}
