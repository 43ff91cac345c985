"""The models of a run: trained once, kept in the results folder, found again.

Comes in: a cell's configuration. Goes out: data, and `Candidates`, the models that were trained
for it with their figures on the validation data, and which of them is chosen there. Candidates
are trained in parallel; one that is finished is kept even if the run is interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.fingerprint import digest_of
from carvegbm.readers import load
from carvegbm.reproduce.data import ChangedError, Data, Parts, UnavailableError
from carvegbm.reproduce.store import Store, key, read_json, write_json

if TYPE_CHECKING:
    from carvegbm.datasets import Dataset, Split

__all__ = [
    "Bench",
    "Candidate",
    "Candidates",
    "ChangedError",
    "Earlier",
    "UnavailableError",
    "attacker_of",
]

Settings = Mapping[str, Any]


@dataclass
class Earlier:
    """Seconds that earlier runs spent on what this one found: models, and rows."""

    training: float = 0.0
    rows: float = 0.0


@dataclass(frozen=True, eq=False)
class Candidate:
    """One trained model."""

    num_leaves: int
    ensemble: Ensemble
    seconds: float
    validation_accuracy: float
    validation_robustness: float | None = None
    quietness: float | None = None
    refit: bool | None = None
    """Whether certified training refitted the scores; None: it was not certified."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The models trained for one configuration; `best` is chosen on the validation data."""

    all: list[Candidate]
    best: Candidate
    floor: float | None = None
    """Certified training: the smallest accuracy that was acceptable."""
    plain_accuracy: float | None = None
    """Certified training: the accuracy of plain LightGBM."""


class Bench:
    """Data and models at hand while cells are computed.

    Parameters
    ----------
    store : Store
    data : path, optional
        Folder of the data sets, as `carvegbm.datasets.load` takes it.
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
        from carvegbm.training.inputs import thread_count

        self.store = store
        self.threads = thread_count(threads)
        self.detail = detail
        self.earlier = Earlier()
        self._data = Data(store, data, download)

    # ── data ─────────────────────────────────────────────────────────────────────────────────

    def dataset(self, name: str) -> Dataset:
        """The data set, or `UnavailableError`."""
        return self._data.dataset(name, self.detail)

    def split(self, setting: Settings) -> Split:
        """Training, validation and test set of the configuration."""
        return self._parts(setting).split

    def fingerprint(self, setting: Settings) -> str:
        """A text that is the same iff training, validation and test set are."""
        return self._parts(setting).fingerprint

    def _parts(self, setting: Settings) -> Parts:
        return self._data.parts(setting, self.detail)

    # ── models ───────────────────────────────────────────────────────────────────────────────

    def plain(self, setting: Settings) -> Candidates:
        """Plain LightGBM, tuned on validation accuracy; the smaller model on a tie."""
        shared = _training(setting) | {"early_stopping": setting["early_stopping"]}
        grid = [{**shared, "num_leaves": leaves} for leaves in setting["leaves"]]
        found = self._trained(setting, grid)
        best = max(found, key=lambda c: (c.validation_accuracy, -c.ensemble.n_leaves))
        return Candidates(found, best)

    def plain_like(self, setting: Settings, model: Ensemble) -> Ensemble:
        """A plain model with as many trees as another, and as many leaves in all.

        Trees that ran out of thresholds have fewer leaves than they might, and norm 0 runs out of
        features before it has many trees; the plain model is as small.
        """
        trees = max(1, model.n_trees)
        num_leaves = max(2, round(model.n_leaves / trees))
        size = {"trees": trees, "num_leaves": num_leaves, "early_stopping": None}
        settings = _training(setting) | size
        return self._trained(setting, [settings])[0].ensemble

    def large_spread(self, setting: Settings, criterion: str = "accuracy") -> Candidates:
        """Large-spread models, tuned by a criterion; both criteria share their candidates."""
        return self._tuned(setting, criterion, {})

    def certified(self, setting: Settings) -> Candidates:
        """Models from certified training: the most robust of those that are accurate enough."""
        names = ("quietness", "clean_loss")
        options = {"certified": True, **{name: setting[name] for name in names}}
        return self._tuned(setting, "robustness", options)

    def _tuned(self, setting: Settings, criterion: str, options: dict[str, Any]) -> Candidates:
        from carvegbm.training.tuning import Candidate as Tried
        from carvegbm.training.tuning import tune

        split = self.split(setting)
        kind = "certified" if options else "large-spread"
        folder = self.store.models / kind / setting["dataset"]
        known = _stamps(folder)
        finished: list[Tried] = []

        def report(candidate: Tried) -> None:
            finished.append(candidate)
            self.detail(f"{len(finished)} models")

        tuning = tune(
            split.X_train,
            split.y_train,
            valid=(split.X_valid, split.y_valid),
            norm=setting["norm"],
            budget=setting["budget"],
            grid={"num_leaves": setting.get("leaves") or [setting["num_leaves"]]},
            criterion="robustness" if criterion == "robustness" else "accuracy",
            n_estimators=setting["trees"],
            early_stopping_rounds=setting.get("early_stopping"),
            random_state=setting["seed"],
            n_jobs=self.threads,
            folder=folder,
            on_candidate=report,
            learning_rate=setting["learning_rate"],
            min_child_samples=setting["min_child_samples"],
            **options,
        )
        # Those that are stored are reported before any other.
        found_again = finished[: len(finished) - len(_stamps(folder) - known)]
        self._count(found_again, len(finished))
        found = [
            Candidate(
                num_leaves=tried.parameters["num_leaves"],
                ensemble=_ensemble(tried.text, split),
                seconds=tried.seconds,
                validation_accuracy=tried.accuracy,
                validation_robustness=tried.robustness,
                quietness=tried.parameters.get("quietness"),
                refit=tried.refit,
            )
            for tried in tuning.candidates
        ]
        best = found[tuning.candidates.index(tuning.best)]
        return Candidates(found, best, tuning.floor, tuning.plain_accuracy)

    def _trained(self, setting: Settings, grid: Sequence[Settings]) -> list[Candidate]:
        """A plain model per entry of the grid: found in the folder, or trained and kept there."""
        parts = self._parts(setting)
        split, digest = parts.split, parts.training
        folder = self.store.models / "plain" / setting["dataset"]
        paths = [folder / f"{key({**settings, 'data': digest})}.json" for settings in grid]
        found = [_read(path, split) for path in paths]
        left = [i for i, candidate in enumerate(found) if candidate is None]
        self._count([candidate for candidate in found if candidate is not None], len(grid))
        workers = max(1, min(self.threads, len(left)))
        # The largest first: they take longest, and the small ones fill the gaps.
        jobs = [
            partial(_train, split, grid[i], paths[i], self.threads // workers)
            for i in reversed(left)
        ]
        done = len(grid) - len(left)
        for _ in _parallel(jobs, workers):
            done += 1
            self.detail(f"{done} of {len(grid)} models")
        for i in left:
            found[i] = _read(paths[i], split)
        if None in found:
            raise CarveError(f"{folder}: a model that was just written cannot be read")
        return [candidate for candidate in found if candidate is not None]

    def _count(self, found_again: Sequence[Any], total: int) -> None:
        """Count the time of candidates an earlier run trained, so many of them at once."""
        seconds = sum(candidate.seconds for candidate in found_again)
        self.earlier.training += seconds / max(1, min(self.threads, total))


def attacker_of(setting: Settings) -> Attacker:
    """The attacker of a configuration."""
    return Attacker(setting["norm"], setting["budget"])


def _training(setting: Settings) -> dict[str, Any]:
    names = ("seed", "trees", "learning_rate", "min_child_samples")
    return {name: setting[name] for name in names}


def _parallel(jobs: Sequence[Callable[[], None]], workers: int) -> Any:
    """Do the jobs; yields as each is finished."""
    if workers == 1:
        return (job() for job in jobs)
    from sklearn.utils.parallel import Parallel, delayed

    return Parallel(n_jobs=workers, return_as="generator_unordered")(delayed(job)() for job in jobs)


def _train(split: Split, settings: Settings, path: Path, threads: int) -> None:
    """Train a plain model and keep it."""
    started = time.monotonic()
    record = _fit_plain(split, settings, threads)
    record["seconds"] = round(time.monotonic() - started, 3)
    write_json(path, {**record, "digest": digest_of(record)})


def _read(path: Path, split: Split) -> Candidate | None:
    """A trained model, or None where it is missing or damaged."""
    record = read_json(path)
    try:
        if record is None or record.pop("digest") != digest_of(record):
            return None
        return Candidate(ensemble=_ensemble(record.pop("text"), split), **record)
    except (KeyError, TypeError, AttributeError):
        return None


def _fit_plain(split: Split, settings: Settings, threads: int) -> dict[str, Any]:
    import lightgbm

    parameters = {
        "objective": "binary",
        "num_leaves": settings["num_leaves"],
        "learning_rate": settings["learning_rate"],
        "min_child_samples": settings["min_child_samples"],
        "seed": settings["seed"],
        "num_threads": threads,
        "deterministic": True,
        "force_col_wise": True,
        "verbose": -1,
    }
    rows = lightgbm.Dataset(split.X_train, split.y_train, params={"verbose": -1})
    watch: dict[str, Any] = {}
    rounds = settings["early_stopping"]
    if rounds is not None:
        watch["valid_sets"] = [rows.create_valid(split.X_valid, split.y_valid)]
        watch["callbacks"] = [lightgbm.early_stopping(rounds, verbose=False)]
    booster = lightgbm.train(parameters, rows, settings["trees"], **watch)
    text = booster.model_to_string(num_iteration=booster.best_iteration or -1)
    decided = _ensemble(text, split).decide(split.X_valid, threads=threads)
    return {
        "num_leaves": settings["num_leaves"],
        "validation_accuracy": float(np.mean(decided == split.y_valid)),
        "text": text,
    }


def _ensemble(text: str, split: Split) -> Ensemble:
    import lightgbm

    return load(lightgbm.Booster(model_str=text), classes=np.unique(split.y_train).tolist())


def _stamps(folder: Path) -> set[tuple[str, int]]:
    """The stored candidates, and when each was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in folder.glob("candidate-*.json")}
