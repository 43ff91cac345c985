"""The models of a run: trained once, kept in the results folder, found again.

Comes in: a cell's configuration. Goes out: data, and `Trials`, the models that were trained for it
and which of them is chosen. Models are trained in parallel; one that is finished is kept even if
the run is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import joblib

import carvegbm as cg
from carvegbm.processes import in_processes
from carvegbm.training.params import check_max_crowding
from carvegbm.training.search import accuracy_floor
from carvegbm_experiments.compute import large_spread, plain
from carvegbm_experiments.compute.data import Data, Parts
from carvegbm_experiments.compute.frames import framed
from carvegbm_experiments.compute.robust_data import Part, divide
from carvegbm_experiments.compute.trials import Trial, Trials
from carvegbm_experiments.plan.cell import Configuration, key
from carvegbm_experiments.store.folder import Store

if TYPE_CHECKING:
    from carvegbm_experiments.datasets import Dataset, Split

__all__ = ["Bench", "Earlier", "attacker_of"]


@dataclass
class Earlier:
    """Seconds that earlier runs spent on what this one found: models, and rows."""

    training: float = 0.0
    rows: float = 0.0


class Bench:
    """Data and models at hand while cells are computed.

    Parameters
    ----------
    store : Store
    data : path, optional
        Folder of the data sets, as `datasets.load` takes it.
    download : bool
        Whether data may be downloaded.
    threads : int, optional
        All cores by default.
    detail : callable, optional
        Told in a few words what is going on.

    Attributes
    ----------
    earlier : Earlier
        Counts on; whoever wants to know about one cell puts a new one in its place.
    """

    def __init__(
        self,
        store: Store,
        *,
        data: Any = None,
        download: bool = True,
        threads: int | None = None,
        detail: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.store = store
        self.threads = threads or joblib.cpu_count()
        self.detail = detail
        self.earlier = Earlier()
        self._data = Data(store, data, download)
        self._frames: tuple[tuple[str, int, int], Part] | None = None

    # ── data ─────────────────────────────────────────────────────────────────────────────────

    def dataset(self, name: str) -> Dataset:
        """The data set, or `UnavailableError`."""
        return self._data.dataset(name, self.detail)

    def split(self, setting: Configuration) -> Split:
        """Training, validation and test set of the configuration."""
        return self._parts(setting).split

    def fingerprint(self, setting: Configuration) -> str:
        """A text that is the same iff training, validation and test set are."""
        return self._parts(setting).fingerprint

    def parts(self, setting: Configuration) -> Iterable[Part]:
        """The rows of robust training, as the protocol of the configuration divides them."""
        if setting["division"] != "split":
            given = setting["dataset"], self._data.folder, setting["division"]
            copies = setting.get("copies", 0)
            return divide(*given, inner=setting["inner"], copies=copies, seed=setting["seed"])
        split = self.split(setting)
        test, valid = (split.X_test, split.y_test), (split.X_valid, split.y_valid)
        return [Part(split.X_train, split.y_train, *test, *valid)]

    def framed(self, dataset: str, rows: int, seed: int) -> Part:
        """A table as people train on it, with at most so many test rows; the last is kept."""
        if self._frames is None or self._frames[0] != (dataset, rows, seed):
            self.detail(f"loading {dataset}")
            part = framed(dataset, self._data.folder, rows, seed)
            self._frames = (dataset, rows, seed), part
        return self._frames[1]

    def _parts(self, setting: Configuration) -> Parts:
        return self._data.parts(setting, self.detail)

    # ── models ───────────────────────────────────────────────────────────────────────────────

    def plain(self, setting: Configuration) -> Trials:
        """Plain LightGBM, tuned on validation accuracy; the smaller model on a tie."""
        shared = _training(setting) | {"early_stopping": setting["early_stopping"]}
        grid = [{**shared, "num_leaves": leaves} for leaves in setting["leaves"]]
        found = self._trained(setting, grid, "plain", plain.train)
        best = max(found, key=lambda c: (c.validation_accuracy, -c.ensemble.n_leaves))
        return Trials(found, best)

    def plain_like(self, setting: Configuration, model: cg.Ensemble) -> cg.Ensemble:
        """A plain model with as many trees as another, and as many leaves in all.

        Trees that ran out of thresholds have fewer leaves than they might, and norm 0 runs out of
        features before it has many trees; the plain model is as small.
        """
        trees = max(1, model.n_trees)
        num_leaves = max(2, round(model.n_leaves / trees))
        size = {"trees": trees, "num_leaves": num_leaves, "early_stopping": None}
        settings = _training(setting) | size
        return self._trained(setting, [settings], "plain", plain.train)[0].ensemble

    def large_spread(self, setting: Configuration, criterion: str = "accuracy") -> Trials:
        """Large-spread models, tuned by a criterion; both criteria share their trials."""
        return self._tuned(setting, criterion, {})

    def certified(self, setting: Configuration) -> Trials:
        """Models from certified training: the most robust of those that are accurate enough."""
        # Stored cells call max_crowding "quietness".
        options = {"certified": True, "quietness": setting["quietness"]}
        options["clean_loss"] = setting["clean_loss"]
        return self._tuned(setting, "robustness", options)

    def _tuned(self, setting: Configuration, criterion: str, options: Mapping[str, Any]) -> Trials:
        grid = [
            {
                **_training(setting),
                **{name: setting[name] for name in ("norm", "budget")},
                "early_stopping": setting.get("early_stopping"),
                **options,
                "num_leaves": leaves,
            }
            for leaves in setting.get("leaves") or [setting["num_leaves"]]
        ]
        plain_accuracy = floor = None
        if options:
            norm = cg.Attacker(setting["norm"], setting["budget"]).norm
            tried = check_max_crowding(options["quietness"], norm)
            if options["clean_loss"] is not None:
                self.detail("training plain LightGBM")
                plain_accuracy = large_spread.plain_accuracy(
                    self.split(setting), grid, self.threads
                )
            own = {"plain_accuracy": plain_accuracy}
            grid = [{**each, **own, "quietness": value} for each in grid for value in tried]
        kind = "certified" if options else "large-spread"
        trials = self._trained(setting, grid, kind, large_spread.train)
        if plain_accuracy is not None:
            reached = max(trial.validation_accuracy for trial in trials)
            floor = accuracy_floor(plain_accuracy, reached, options["clean_loss"])
        able = [t for t in trials if floor is None or t.validation_accuracy >= floor]

        def rank(trial: Trial) -> tuple[float, float, int]:
            accuracy, robustness = trial.validation_accuracy, trial.validation_robustness or 0.0
            score = robustness if criterion == "robustness" else accuracy
            return score, accuracy + robustness, -trial.ensemble.n_leaves

        return Trials(trials, max(able, key=rank), floor, plain_accuracy)

    def _trained(
        self,
        setting: Configuration,
        grid: Sequence[Configuration],
        kind: str,
        train: Callable[..., None],
    ) -> list[Trial]:
        """A model per entry of the grid: found in the folder, or trained and kept there."""
        parts = self._parts(setting)
        split, digest = parts.split, parts.training
        folder = self.store.models / kind / setting["dataset"]
        paths = [folder / f"{key({**settings, 'data': digest})}.json" for settings in grid]
        found = [plain.find(path, split) for path in paths]
        left = [i for i, trial in enumerate(found) if trial is None]
        self._count([trial for trial in found if trial is not None], len(grid))
        workers = max(1, min(self.threads, len(left)))
        # The largest first: they take longest, and the small ones fill the gaps.
        calls = [(split, grid[i], paths[i], self.threads // workers) for i in reversed(left)]
        done = len(grid) - len(left)
        for _ in in_processes(train, calls, workers):
            done += 1
            self.detail(f"{done} of {len(grid)} models")
        for i in left:
            found[i] = plain.find(paths[i], split)
        if None in found:
            raise cg.CarveError(f"{folder}: a model that was just written cannot be read")
        return [trial for trial in found if trial is not None]

    def _count(self, found_again: Sequence[Any], total: int) -> None:
        """Count the time of models an earlier run trained, so many of them at once."""
        seconds = sum(found.seconds for found in found_again)
        self.earlier.training += seconds / max(1, min(self.threads, total))


def attacker_of(setting: Configuration) -> cg.Attacker:
    """The attacker of a configuration."""
    return cg.Attacker(setting["norm"], setting["budget"])


def _training(setting: Configuration) -> dict[str, Any]:
    names = ("seed", "trees", "learning_rate", "min_child_samples")
    return {name: setting[name] for name in names}
