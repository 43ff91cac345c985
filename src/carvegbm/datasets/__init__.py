"""The datasets of the evaluation, prepared as the paper prepares them.

In the order of the work: `catalogue` says what there is, `folder` (with `idx`) looks for it in a
local folder, `download`, `openml` and `cache` bring it from elsewhere, `builtin` takes it from
scikit-learn, and `preparing` turns whatever came into a `Dataset` scaled to [0, 1].
"""

from __future__ import annotations

import os
from pathlib import Path

from carvegbm.datasets.catalogue import CATALOGUE, Entry
from carvegbm.datasets.preparing import Dataset, Published, Split, prepare
from carvegbm.errors import DataError
from carvegbm.progress import Progress

__all__ = ["NAMES", "Dataset", "Split", "load"]

NAMES = tuple(CATALOGUE)
"""What `load` can load."""


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: Progress = None,
) -> Dataset:
    """Load a dataset: from a local folder where it is there, else from where it is published.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    folder : path, optional
        A folder with the files; default: the environment variable CARVEGBM_DATA. What may lie in
        it is described in docs/datasets.md. The sets that scikit-learn brings need none.
    download : bool
        Whether what the folder does not hold may be downloaded. Downloads are kept in the folder
        CARVEGBM_CACHE names, by default the user's cache, and what is there is not downloaded.
    progress : None, bool or function
        None shows a bar if standard error is a terminal, False shows none; a function is called
        with the number of bytes received.

    Returns
    -------
    Dataset
        With X scaled to [0, 1] and y 0 or 1.

    Raises
    ------
    DataError
        The dataset is unknown, not to be had, or damaged; the message says what to do.

    Examples
    --------
    >>> from carvegbm import datasets
    >>> data = datasets.load("digits")
    >>> data.title, data.X.shape, data.classes
    ('Digits 3 vs 8', (357, 64), ('3', '8'))
    >>> [len(rows) for rows in data.split(seed=0).y]
    [196, 53, 108]
    """
    try:
        entry = CATALOGUE[name]
    except (KeyError, TypeError):
        raise DataError(f"no dataset is called {name!r}; there are {', '.join(NAMES)}") from None
    return prepare(entry, _rows(entry, folder, download, progress))


def _rows(
    entry: Entry, given: str | os.PathLike[str] | None, download: bool, progress: Progress
) -> Published:
    """The rows as they are published, from the nearest place that has them."""
    if entry.kind == "sklearn":
        from carvegbm.datasets.builtin import built_in

        return built_in(entry)
    from carvegbm.datasets.folder import find, remedy

    place = _folder(given)
    found = find(entry, place) if place is not None else None
    if found is not None:
        return found
    advice = remedy(entry, place)
    if entry.openml is not None and download:
        from carvegbm.datasets.openml import fetch

        return fetch(entry, advice, progress)
    if entry.url is not None and download:
        from carvegbm.datasets.download import fetch as fetch_file

        return fetch_file(entry, advice, progress)
    where = f"is not in {place}" if place is not None else "needs a local folder"
    why = "" if entry.local_only else ", and downloading is off"
    raise DataError(f"{entry.name}: {where}{why}; {advice}")


def _folder(given: str | os.PathLike[str] | None) -> Path | None:
    """The folder to look in, which must exist if one is named."""
    name = os.environ.get("CARVEGBM_DATA", "") if given is None else os.fspath(given)
    if given is None and not name:
        return None
    place = Path(name).expanduser()
    if not place.is_dir():
        says = "CARVEGBM_DATA names " if given is None else ""
        kind = "a file" if place.exists() else "a folder that does not exist"
        raise DataError(f"{says}{str(place)!r}: {kind}; give the folder that holds the datasets")
    return place
