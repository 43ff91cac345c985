"""Proofs of a report's verdicts: written, and checked by the checker that shares nothing with us.

Comes in: an attacker that was asked about, with witnesses. Goes out: a file of proofs, and what the
checker says of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from carvegbm.progress import Progress
from carvegbm.proofs.write import write_proof
from carvegbm.reports.asking import Answers, Asked
from carvegbm.reports.document import Subject
from carvegbm.storage.identity import sha256_of

__all__ = ["prove_and_check"]


def prove_and_check(
    path: Path, asked: Asked, answers: Answers, subject: Subject, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Write the proofs of an attacker, have them checked, and say what came of it.

    What is known comes twice: when the proofs are written, and when they are checked.
    """
    import carvegbm_check

    rows = answers.distances[asked.distance].rows
    counts = write_proof(
        path, asked.task, rows, asked.decisions, own_labels=subject.own_labels, progress=progress
    )
    content = path.read_bytes()
    known = {
        "file": path.name,
        "sha256": sha256_of([content]),
        "bytes": len(content),
        "proved": counts.proved,
        "unproved": counts.unproved,
        "checked": False,
        "said": "the check was interrupted",
    }
    yield known
    given: list[list[float]] = []
    for _, part in asked.task.problem.parts(rows):
        given += part.given.tolist()
    labels = None if subject.own_labels else subject.ensemble.classes[answers.labels].tolist()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.json"
        subject.ensemble.save(model)
        try:
            found = carvegbm_check.check(path, model, (given, labels), allow_trivial=True)
            checked, said = found.is_proved, found.summary()
        except carvegbm_check.RefusedError as error:
            checked, said = False, str(error)
    yield known | {"checked": checked, "said": said}
