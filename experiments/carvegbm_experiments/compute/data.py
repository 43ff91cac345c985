"""The data of a run: loaded once, split, and tied to the results folder.

Comes in: a cell's configuration. Goes out: training, validation and test set. The cell of a data
set holds a fingerprint of all three; with other data the run is refused, because the finished
cells of the folder are not about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm import CarveError, DataError
from carvegbm.storage.identity import sha256_of
from carvegbm_experiments import datasets
from carvegbm_experiments.plan.cell import Configuration
from carvegbm_experiments.store.folder import Store

if TYPE_CHECKING:
    from carvegbm_experiments.datasets import Dataset, Split

__all__ = ["ChangedError", "Data", "Parts", "UnavailableError", "fingerprint"]

_AT_HAND = 2  # data sets kept in memory


class UnavailableError(CarveError):
    """A data set that is not to be had."""


class ChangedError(CarveError):
    """A data set that is not the one the finished cells were computed from."""


@dataclass(frozen=True, eq=False)
class Parts:
    """A split data set."""

    split: Split
    training: str
    """Digest of what models see: training and validation set."""
    fingerprint: str
    """Digest of all three sets."""


class Data:
    """The data sets at hand.

    Parameters
    ----------
    store : Store
    folder : path, optional
        As `datasets.load` takes it.
    download : bool
        Whether data may be downloaded.
    """

    def __init__(self, store: Store, folder: Any, download: bool) -> None:
        self._store, self.folder, self._download = store, folder, download
        self._loaded: dict[str, Dataset] = {}
        self._parts: dict[tuple[str, int], Parts] = {}

    def dataset(self, name: str, detail: Callable[[str], object]) -> Dataset:
        """The data set, or `UnavailableError`."""
        if name not in self._loaded:
            detail(f"loading {name}")
            try:
                self._loaded[name] = datasets.load(
                    name, folder=self.folder, download=self._download
                )
            except DataError as error:
                raise UnavailableError(str(error)) from None
            _forget(self._loaded)
        return self._loaded[name]

    def parts(self, setting: Configuration, detail: Callable[[str], object]) -> Parts:
        """The data set of a configuration, split; or `ChangedError`."""
        name, seed = setting["dataset"], setting["seed"]
        if (name, seed) not in self._parts:
            dataset = self.dataset(name, detail)
            split = dataset.split(seed=seed)
            if dataset.test_rows is not None:  # in an order of its own: mix it
                order = np.random.default_rng(seed).permutation(len(split.y_test))
                split = replace(split, X_test=split.X_test[order], y_test=split.y_test[order])
            training = fingerprint(split.X_train, split.y_train, split.X_valid, split.y_valid)
            parts = Parts(split, training, fingerprint(training, split.X_test, split.y_test))
            self._check(setting, parts)
            self._parts[name, seed] = parts
            _forget(self._parts)
        return self._parts[name, seed]

    def _check(self, setting: Configuration, parts: Parts) -> None:
        """Refuse data that the finished cells were not computed from.

        A cell without a fingerprint is given one, if its numbers of rows are right.
        """
        configuration = {name: setting[name] for name in ("suite", "dataset", "seed")}
        cell = self._store.find("dataset", configuration)
        if cell is None:
            return
        result, split = cell["result"], parts.split
        sizes = (len(split.y_train), len(split.y_valid), len(split.y_test))
        known = tuple(result.get(part) for part in ("train", "validation", "test"))
        if known != sizes or result.get("fingerprint", parts.fingerprint) != parts.fingerprint:
            raise ChangedError(
                f"{setting['dataset']}: not the data that the cells in {self._store.folder} were "
                "computed from; give another folder with --output, or the earlier data with --data"
            )
        if "fingerprint" not in result:
            whole = {**result, "fingerprint": parts.fingerprint}
            self._store.keep("dataset", configuration, whole, cell["seconds"])


def fingerprint(*parts: Any) -> str:
    """A text that is the same iff the parts (texts and arrays) are.

    Not `digest_of`: stored cells hold it, and have to fit their data ever after.
    """
    return sha256_of(piece for part in parts for piece in _pieces(part))


def _pieces(part: Any) -> Iterable[bytes | memoryview]:
    if isinstance(part, str):
        return [part.encode()]
    return [f"{part.dtype} {part.shape}".encode(), np.ascontiguousarray(part).view(np.uint8).data]


def _forget(kept: dict[Any, Any]) -> None:
    """Let go of what was loaded first."""
    while len(kept) > _AT_HAND:
        del kept[next(iter(kept))]
