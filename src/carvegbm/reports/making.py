"""Report: everything about a model, rows and attackers on one page.

Comes in: a model, instances, labels, attackers. Goes out: a `Report`, which is written as a page
that needs nothing else (.html), or as the document that the page is made of (.json).
"""

from __future__ import annotations

import hashlib
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

from carvegbm.attacker import Attacker, require_attacker
from carvegbm.engines import Settings
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, shown
from carvegbm.keeping.files import check_apart, check_output, naming, replacing
from carvegbm.progress import Progress, progress_bar
from carvegbm.readers import load
from carvegbm.reports.asking import ask
from carvegbm.reports.document import Subject, document_of
from carvegbm.reports.proved import prove_and_check
from carvegbm.reports.retraining import check_labels, measured
from carvegbm.verification import Verification

__all__ = ["FORMATS", "SAMPLE", "Report", "report"]

FORMATS = (".html", ".json")
"""What `Report.save` can write."""
SAMPLE = 500
"""How many rows are judged unless more are asked for."""
TIMEOUT = 2.0
"""Seconds per row and question, unless more are given."""
_SEEDS = 1 << 31
"""What LightGBM takes, with which retraining goes."""


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
        Where to write it, .html or .json; else `Report.save` does.
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
    against = _attackers(attackers, y)
    target = None if path is None else check_output(path, FORMATS)
    proofs = _proof_paths(proof, len(against))
    read = {what: where for what, where in (files or {}).items() if where is not None}
    if isinstance(model, str | os.PathLike):
        read.setdefault("model", model)
    check_apart(
        {"the report": target, **{f"proof {i + 1}": p for i, p in enumerate(proofs)}},
        {f"the {what}": where for what, where in read.items()},
    )
    ensemble = load(model)
    subject = Subject(
        ensemble,
        model_name or (Path(read["model"]).name if "model" in read else _described(model)),
        data_name or (Path(read["data"]).name if "data" in read else "data given in memory"),
        y is None,
        {what: _sha256(where) for what, where in read.items()},
        _names(names, ensemble),
        _image(images, ensemble),
    )
    most, seed = _checked_sample(sample), _checked_seed(seed)
    if retrain:
        check_labels(y)
    if proof is not None and most is not None and _length(X) > most:
        raise CarveError(
            f"proof is of all rows, and of {_length(X)} rows a sample of {most} would be judged; "
            "give sample=None (--sample all), or leave out proof"
        )
    answers = ask(
        ensemble,
        X,
        y,
        against,
        settings,
        most=most,
        seed=seed,
        with_witnesses=proof is not None,
        progress=progress,
    )
    written: list[Any] = [None] * len(against)
    trained: list[Any] = [None] * len(against)
    training_begun = time.perf_counter()
    try:
        if not answers.interrupted:
            for place, (to, case) in enumerate(zip(proofs, answers.cases, strict=False)):
                for known in prove_and_check(to, case, answers, subject, progress):
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
        "verify": [case.seconds for case in answers.cases],
        "slowest": [float(case.verification.seconds.max()) for case in answers.cases],
        "measure": [way.seconds[0] for way in answers.ways],
        "witnesses": [way.seconds[1] for way in answers.ways],
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
    found = Report(document, tuple(case.verification for case in answers.cases))
    if target is not None:
        found.save(target)
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report: the results behind it, and the document that the page is made of.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> made = cg.report(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1), progress=False)
    >>> made.verifications[0].status.tolist(), made.interrupted
    (['robust', 'fragile'], False)
    """

    document: Mapping[str, Any] = field(repr=False)
    verifications: tuple[Verification, ...]
    """One per attacker, of the rows that were judged."""

    @property
    def interrupted(self) -> bool:
        """Whether the work was cut short; rows that nobody looked at are unknown."""
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
        if target.suffix == ".html":
            text = self.html()
        else:
            text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"
        with replacing(target) as temporary:
            # Half of a surrogate pair, as in a name that is no UTF-8, is an escape in JSON.
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """The answers, as a notebook shows them."""
        return "".join(verification._repr_html_() for verification in self.verifications)

    def __str__(self) -> str:
        judged = self.document["data"]["judged"]
        found = [
            f"norm {v.attacker.norm}, budget {v.attacker.budget:g}: {v.summary()}"
            for v in self.verifications
        ]
        return f"report on {judged} row{'s' * (judged != 1)}: " + "; ".join(found)


# ── what was given ───────────────────────────────────────────────────────────────────────────


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
    if proof is None:
        return []
    path = Path(proof)
    rest = [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(2, count + 1)]
    return [check_output(target, None) for target in (path, *rest)]


def _names(names: Sequence[str] | None, ensemble: Ensemble) -> tuple[str, ...] | None:
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


def _image(size: Any, ensemble: Ensemble) -> tuple[int, int] | None:
    if size is None:
        return None
    try:
        height, width = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"images must be (height, width), got {shown(size)}") from None
    if height < 1 or width < 1 or height * width != ensemble.n_features:
        raise CarveError(
            f"images of {height} x {width} have {height * width} pixels, the model has "
            f"{ensemble.n_features} features; give the size that rows have"
        )
    return height, width


def _checked_sample(sample: Any) -> int | None:
    if sample is not None and (not _is_whole(sample) or sample < 1):
        raise CarveError(
            f"sample must be a whole number of rows from 1 on, or None, got {shown(sample)}"
        )
    return None if sample is None else int(sample)


def _checked_seed(seed: Any) -> int:
    if not _is_whole(seed) or not 0 <= seed < _SEEDS:
        raise CarveError(f"seed must be a whole number from 0 to 2**31 - 1, got {shown(seed)}")
    return int(seed)


def _is_whole(number: Any) -> bool:
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return is_integer or (isinstance(number, float) and number.is_integer())


def _length(X: Any) -> int:
    """The number of rows; 0 for what has none, which is refused where it is read."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0


def _described(model: Any) -> str:
    return type(model).__name__


def _sha256(path: Any) -> str:
    with naming(path), open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
