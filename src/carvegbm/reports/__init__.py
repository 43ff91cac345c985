"""Reports: a model, rows and attackers on one page that people read.

The function `carvegbm.report` runs the queries (`query`), turns their results into a document of
plain values (`document`, `statistics`), and renders the document as a page (`page`, `sentences`,
`charts`, `formats`, `templates`). The page knows nothing but the document.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.engines import Settings
from carvegbm.errors import CarveError, shown
from carvegbm.model.ensemble import Ensemble
from carvegbm.progress import Progress
from carvegbm.readers import load
from carvegbm.reports.document import Names, document_of
from carvegbm.reports.query import prove, run_queries
from carvegbm.storage.files import (
    check_apart,
    check_output,
    finished_or_partial,
    naming,
    partial_path,
    replacing,
)
from carvegbm.storage.identity import sha256_of
from carvegbm.storage.resume import check_unfinished
from carvegbm.verification import Verification

__all__ = ["FORMATS", "Report", "report"]

FORMATS = (".html", ".json")
"""Suffixes of the files that `Report.save` writes."""

_LARGEST_SEED = (1 << 31) - 1


def report(
    model: Any,
    X: Any,
    y: npt.ArrayLike | None = None,
    attackers: Attacker | Iterable[Attacker] | None = None,
    path: Any = None,
    *,
    names: Sequence[str] | None = None,
    images: tuple[int, int] | None = None,
    model_name: str | None = None,
    data_name: str | None = None,
    sample: int | None = 500,
    seed: int = 0,
    timeout: float = 2.0,
    threads: int | None = None,
    proof: Any = None,
    files: Mapping[str, Any] | None = None,
    progress: Progress = None,
) -> Report:
    """Analyse a model against attackers and describe the results on one page.

    The page states the answer first, then how far rows are from being flipped, where the model is
    weak, what attacks look like, what to do about it, and how all of it was decided. It is one file
    that needs no other file and no network.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
        A classifier.
    X : array (n, n_features)
    y : array (n,), optional
        Labels. Without them the model's own answers count as right.
    attackers : Attacker, or several
    path : path, optional
        File to write, .html or .json; `Report.save` writes one later. If Ctrl-C ends the work
        early, the report is written to ``NAME.partial`` instead, and its `interrupted` is True.
    names : sequence of str, optional
        Names of the features; by default those of the model or the data.
    images : (height, width), optional
        Rows are grey images of that size, line by line, and shown as images.
    model_name, data_name : str, optional
        Names on the page; by default the file names, or the type of the model.
    sample : int or None, default 500
        Analyse a random sample of this many rows if there are more; None means all rows.
    seed : int, default 0
        Seed of the sample.
    timeout : float, default 2
        Seconds per row and query; a row not decided by then is unknown.
    threads : int, optional
        All cores by default.
    proof : path, optional
        Write proofs of all verdicts to this file, check them, and state the outcome on the page.
        For further attackers, "-2", "-3", … is added to the name. Needs all rows.
    files : mapping, optional
        The files that "model" and "data" were read from, for their SHA-256; known where `model` is
        a path.
    progress : bool or callable, optional
        As in `verify`; one bar per query.

    Returns
    -------
    Report

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.report(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1), progress=False)
    >>> print(found)
    report on 2 rows: norm inf, budget 0.1: robustness 0.5000
    """
    begun, date = time.perf_counter(), datetime.now(timezone.utc)
    settings = Settings(timeout=timeout, threads=threads)
    against = _attackers(attackers, y)
    target = None if path is None else check_output(path, FORMATS)
    unfinished = None if target is None else check_output(partial_path(target), None)
    if target is not None:
        check_unfinished(target)
    proofs = _proof_paths(proof, len(against))
    read = {what: where for what, where in (files or {}).items() if where is not None}
    if isinstance(model, str | os.PathLike):
        read.setdefault("model", model)
    check_apart(
        {
            "the report": target,
            "an unfinished report": unfinished,
            **{f"proof {i + 1}": path for i, path in enumerate(proofs)},
        },
        {f"the {what}": where for what, where in read.items()},
    )
    ensemble = load(model)
    defaults = {"model": type(model).__name__, "data": "data given in memory"}
    defaults |= {what: Path(where).name for what, where in read.items()}
    subject = Names(
        ensemble,
        model_name or defaults["model"],
        data_name or defaults["data"],
        y is None,
        {what: _file_hash(where) for what, where in read.items()},
        _feature_names(names, ensemble),
        _image_size(images, ensemble),
    )
    if sample is not None:
        sample = _whole("sample", sample, 1, None)
    seed = _whole("seed", seed, 0, _LARGEST_SEED)
    results = run_queries(
        ensemble,
        X,
        y,
        against,
        settings,
        sample=sample,
        seed=seed,
        with_proofs=bool(proofs),
        progress=progress,
    )
    written: list[Any] = [None] * len(against)
    try:
        for place, file in enumerate([] if results.interrupted else proofs):
            result = results.attackers[place]
            for entry in prove(file, result, results, subject.own_labels, progress):
                written[place] = entry
    except KeyboardInterrupt:
        results = replace(results, interrupted=True)
    document = document_of(
        results,
        subject,
        settings={"engine": "auto", "timeout": settings.timeout, "sample": sample, "seed": seed},
        proofs=written,
        times={
            "date": date.isoformat(timespec="seconds"),
            "verify": [one.seconds for one in results.attackers],
            "slowest": [float(one.verification.seconds.max()) for one in results.attackers],
            "measure": [distance.seconds[0] for distance in results.distances],
            "witnesses": [distance.seconds[1] for distance in results.distances],
            "seconds": time.perf_counter() - begun,
        },
    )
    found = Report(document, tuple(one.verification for one in results.attackers))
    if target is not None:
        with finished_or_partial(target, not found.interrupted) as file:
            _write(found, file, target.suffix)
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report: the verifications behind it, and the document that the page is rendered from.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.report(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1), progress=False)
    >>> found.verifications[0].status.tolist(), found.interrupted
    (['robust', 'fragile'], False)
    """

    document: Mapping[str, Any] = field(repr=False)
    verifications: tuple[Verification, ...]
    """One per attacker, of the rows that were analysed."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the work early; rows that were not reached are unknown."""
        return bool(self.document["interrupted"])

    def to_dict(self) -> dict[str, Any]:
        """The document, ready for JSON; docs/reports.md describes it."""
        return dict(self.document)

    def html(self) -> str:
        """The page."""
        from carvegbm.reports.page import html

        return html(self.document)

    def save(self, path: Any) -> None:
        """Write the page (.html) or its document (.json); never half a file."""
        target = check_output(path, FORMATS)
        _write(self, target, target.suffix)

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        return "".join(verification._repr_html_() for verification in self.verifications)

    def __str__(self) -> str:
        rows = self.document["data"]["judged"]
        found = [
            f"norm {v.attacker.norm}, budget {v.attacker.budget:g}: {v.summary()}"
            for v in self.verifications
        ]
        found += [v.note for v in self.verifications[:1] if v.note]
        return f"report on {rows} row{'s' * (rows != 1)}: " + "; ".join(found)


def _write(report: Report, path: Path, suffix: str) -> None:
    """Write a report in the format of `suffix`, whatever the name of the file."""
    if suffix == ".html":
        text = report.html()
    else:
        text = json.dumps(report.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        # Half of a surrogate pair, as in a name that is no UTF-8, becomes an escape in JSON.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


# ── checks of the arguments ──────────────────────────────────────────────────────────────────


def _attackers(given: Any, y: Any) -> list[Attacker]:
    if given is None or isinstance(given, Attacker):
        return [require_attacker(given, y)]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise CarveError(f"attackers must be an Attacker or several, got {shown(given)}")
    found = [require_attacker(attacker) for attacker in given]
    if not found:
        raise CarveError("attackers must name at least one attacker")
    return found


def _proof_paths(proof: Any, count: int) -> list[Path]:
    """The file of each attacker's proofs; empty if no proof was requested."""
    if proof is None:
        return []
    path = Path(proof)
    rest = [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(2, count + 1)]
    return [check_output(target, None) for target in (path, *rest)]


def _feature_names(names: Any, ensemble: Ensemble) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, Iterable):
        raise CarveError(f"names must be one per feature, got {shown(names)}")
    found = tuple(map(str, names))
    if len(found) != ensemble.n_features:
        raise CarveError(
            f"names has {len(found)} entries, the model has {ensemble.n_features} features; give "
            "one per feature"
        )
    return found


def _image_size(size: Any, ensemble: Ensemble) -> tuple[int, int] | None:
    if size is None:
        return None
    try:
        height, width = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"images must be (height, width), got {shown(size)}") from None
    if height < 1 or width < 1 or height * width != ensemble.n_features:
        raise CarveError(
            f"images of {height} x {width} have {height * width} pixels, the model has "
            f"{ensemble.n_features} features; give the size of the rows"
        )
    return height, width


def _whole(name: str, value: Any, low: int, high: int | None) -> int:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    is_whole |= isinstance(value, float) and value.is_integer()
    if not is_whole or value < low or (high is not None and value > high):
        end = ">= 1, or None" if high is None else f"from {low} to 2**31 - 1"
        raise CarveError(f"{name} must be a whole number {end}, got {shown(value)}")
    return int(value)


def _file_hash(path: Any) -> str:
    with naming(path), open(path, "rb") as file:
        return sha256_of(iter(lambda: file.read(1 << 20), b""))
