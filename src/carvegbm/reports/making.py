"""Report: everything about a model, rows and attackers on one page.

Comes in: a model, instances, labels, attackers. Goes out: a `Report`, which is written as a page
that needs nothing else (.html), or as the document that the page is made of (.json).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.engines import Settings
from carvegbm.errors import CarveError
from carvegbm.progress import Progress, progress_bar
from carvegbm.reports import given
from carvegbm.reports.asking import How, ask
from carvegbm.reports.document import document_of
from carvegbm.reports.proved import prove_and_check
from carvegbm.reports.result import FORMATS, Report, write
from carvegbm.reports.retraining import check_labels, measured
from carvegbm.storage.files import check_apart, check_output, finished_or_partial, partial_path
from carvegbm.storage.resume import check_unfinished

__all__ = ["SAMPLE", "TIMEOUT", "report"]

SAMPLE = 500
"""How many rows are judged unless more are asked for."""
TIMEOUT = 2.0
"""Seconds per row and question, unless more are given."""


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
    sample: int | None = SAMPLE,
    seed: int = 0,
    timeout: float = TIMEOUT,
    threads: int | None = None,
    proof: Any = None,
    retrain: bool = False,
    files: Mapping[str, Any] | None = None,
    progress: Progress = None,
) -> Report:
    """Judge a model against attackers, and say it on one page.

    The page has the answer first, then how far rows are from being flipped, where the model is
    weak, what attacks look like, what to do about it, and how all of it was decided. It is a file
    that needs no other, and no network.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
        A classifier.
    X : array (n, n_features)
    y : array (n,), optional
        Labels. Without them the model's own answers are right.
    attackers : Attacker, or several
    path : path, optional
        File to write, .html or .json; `Report.save` writes one later. If Ctrl-C ends the work
        early, the report goes to ``NAME.partial`` instead, and its `interrupted` is True.
    names : sequence of str, optional
        What features are called; by default what model or data call them.
    images : (height, width), optional
        Rows are grey images of that size, line by line, and shown as such.
    model_name, data_name : str, optional
        What the page calls them; by default their files, or what they are.
    sample : int or None, default 500
        If there are more rows, so many of them are drawn and judged, and the page says so. None:
        all rows.
    seed : int, default 0
        Of the draw.
    timeout : float, default 2
        Seconds per row for each question; what is not decided by then is unknown.
    threads : int, optional
        All cores by default.
    proof : path, optional
        Write proofs of all verdicts beside the page, check them, and say so; the path for one
        attacker, with "-2", "-3", … before its suffix for more. Needs all rows.
    retrain : bool, default False
        Measure what robust training would give, on a split of all rows; takes a while.
    files : mapping, optional
        The files that "model" and "data" were read from, for their SHA-256; known where `model` is
        a path.
    progress : bool or callable, optional
        As in `verify`; a bar per question.

    Returns
    -------
    Report

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> made = cg.report(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1), progress=False)
    >>> print(made)
    report on 2 rows: norm inf, budget 0.1: robustness 0.5000
    """
    begun, date = time.perf_counter(), datetime.now(timezone.utc)
    settings = Settings(timeout=timeout, threads=threads)
    against = given.attackers_of(attackers, y)
    target = None if path is None else check_output(path, FORMATS)
    unfinished = None if target is None else check_output(partial_path(target), None)
    if target is not None:
        check_unfinished(target)
    proofs = given.proof_paths(proof, len(against))
    read = given.files_read(model, files)
    check_apart(
        {
            "the report": target,
            "an unfinished report": unfinished,
            **{f"proof {i + 1}": p for i, p in enumerate(proofs)},
        },
        {f"the {what}": where for what, where in read.items()},
    )
    called = {"model": model_name, "data": data_name}
    subject = given.subject_of(
        model, read, called=called, names=names, images=images, own_labels=y is None
    )
    most, seed = given.checked_sample(sample), given.checked_seed(seed)
    if retrain:
        check_labels(y)
    if proofs and most is not None and (rows := given.rows_of(X)) > most:
        raise CarveError(
            f"proof is of all rows, and of {rows} rows a sample of {most} would be judged; "
            "give sample=None (--sample all), or leave out proof"
        )
    how = How(settings, most, seed, with_witnesses=bool(proofs), progress=progress)
    answers = ask(subject.ensemble, X, y, against, how)
    written: list[Any] = [None] * len(against)
    trained: list[Any] = [None] * len(against)
    training_begun = time.perf_counter()
    try:
        if not answers.interrupted:
            for place, (to, asked) in enumerate(zip(proofs, answers.asked, strict=False)):
                for known in prove_and_check(to, asked, answers, subject, progress):
                    written[place] = known
            training_begun = time.perf_counter()
        if retrain and not answers.interrupted:
            learned = measured(answers, X, y, seed=seed, timeout=timeout, threads=threads)
            with progress_bar(progress, len(against), "training robust models") as tick:
                for place, models in enumerate(learned):
                    trained[place] = models
                    if tick is not None:
                        tick(place + 1)
    except KeyboardInterrupt:
        answers = replace(answers, interrupted=True)
    times = {
        "date": date.isoformat(timespec="seconds"),
        "verify": [asked.seconds for asked in answers.asked],
        "slowest": [float(asked.verification.seconds.max()) for asked in answers.asked],
        "measure": [distance.seconds[0] for distance in answers.distances],
        "witnesses": [distance.seconds[1] for distance in answers.distances],
        "retraining": time.perf_counter() - training_begun if retrain else None,
        "seconds": time.perf_counter() - begun,
    }
    document = document_of(
        answers,
        subject,
        settings={"engine": "auto", "timeout": settings.timeout, "sample": most, "seed": seed},
        proofs=written,
        retraining=trained,
        times=times,
    )
    found = Report(document, tuple(asked.verification for asked in answers.asked))
    if target is not None:
        with finished_or_partial(target, not found.interrupted) as written_to:
            write(found, written_to, target.suffix)
    return found
