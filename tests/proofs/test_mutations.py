"""Proofs, models, data and attackers that were tampered with: nothing false is ever accepted.

Every file here is sealed anew after it was changed, with the right hashes: the rules alone stand
between a false statement and its acceptance. What is accepted must be true, which the oracle says.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
import carvegbm_check
import oracle
from asking import question
from carvegbm.errors import CarveError
from carvegbm.problem import Problem
from carvegbm.proofs.content import data_hash, model_hash
from carvegbm.proofs.write import attacker_of
from kinds import NORMS
from proofs import by_hand
from proofs.asking import arguments, make_any

CASES = 20  # per norm
CHANGES = 16  # of the bytes of each proof; the model, the row and the budget are changed besides
STATUSES = carvegbm_check.STATUSES


def mutated(payload: bytes, rng: random.Random) -> bytes:
    """Records with a byte changed, put in, or left out; at times several."""
    found = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(found))
        what = rng.randrange(5)
        if what == 0:
            found[place] = (found[place] + rng.choice((-1, 1))) % 256
        elif what == 1:
            found[place] ^= 1 << rng.randrange(8)
        elif what == 2:
            found.insert(place, rng.choice((0, 1, 2, rng.randrange(256))))
        elif what == 3 and len(found) > 1:
            del found[place]
        else:
            found[1] = rng.randrange(4)  # the status
    return bytes(found)


class Statement:
    """What a file says of one row of one model, and whether the checker believes it."""

    def __init__(self, folder: Path, ensemble: Any, case: Any, attacker: Any) -> None:
        self.folder, self.ensemble, self.case, self.attacker = folder, ensemble, case, attacker

    def accepted(self, payload: bytes) -> str | None:
        """The status that the checker takes for proved, if any."""
        model, proof = self.folder / "model.json", self.folder / "a.proof"
        self.ensemble.save(model)
        problem = Problem(self.ensemble, self.attacker)
        label = self.ensemble.classes[self.case.label]
        try:
            rows = problem.rows([self.case.x], [label])
        except CarveError:  # a row next to the bounds was moved across them
            return None
        head = {
            "model": model_hash(self.ensemble),
            "data": data_hash([(rows.given, rows.labels)]),
            "attacker": attacker_of(problem),
            "labels": "given",
            "rows": 1,
            "written_by": "test",
        }
        proof.write_bytes(by_hand.file_of(head, [payload]))
        given = np.asarray(rows.given, dtype=np.float64).tolist()
        try:
            report = carvegbm_check.check(proof, model, (given, [label]), allow_trivial=True)
        except carvegbm_check.RefusedError:
            return None
        return report.checked.get(0) if report.is_proved else None

    def truth(self) -> str:
        """The status that the row has."""
        case = self.case
        return oracle.status(self.ensemble, case.x, case.label, case.attacker)


def changed_model(ensemble: Any, folder: Path, rng: random.Random) -> Any:
    """The same with one leaf score, or one threshold, next to what it was, or far from it."""
    path = folder / "changed.json"
    ensemble.save(path)
    document = json.loads(path.read_text())
    node = rng.choice(document["nodes"] or [{}])
    far = rng.random() < 0.5
    if "scores" in node:
        value = float(node["scores"][0])
        node["scores"][0] = (
            value + rng.choice((-1, 1)) if far else math.nextafter(value, rng.choice((-9e99, 9e99)))
        )
    elif "threshold" in node:
        node["threshold"] = float(node["threshold"]) + rng.choice((-0.5, 0.5))
    path.write_text(json.dumps(document))
    try:
        return cg.load(path)
    except CarveError:  # no such threshold in float32
        return ensemble


@pytest.mark.parametrize("norm", NORMS)
def test_what_is_accepted_is_true(norm: float, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for given in arguments(range(500, 500 + CASES), norm, "none"):
        rng = random.Random(repr(given))
        case = make_any(*given)
        model, X, y, attacker = question(case)
        ensemble = cg.load(model)
        proof = tmp_path / "given.proof"
        cg.verify(ensemble, X, y, attacker, threads=1, proof=proof)
        _, blocks, _ = carvegbm_check.read_frame(proof.read_bytes())
        (record,) = carvegbm_check.records_of(blocks)
        payload = record.data
        statement = Statement(tmp_path, ensemble, case, attacker)
        truth = statement.truth()
        assert statement.accepted(payload) == truth
        for _ in range(CHANGES):
            status = statement.accepted(mutated(payload, rng))
            counts["refused" if status is None else "accepted"] += 1
            assert status in (None, truth), given
        others = [(changed_model(ensemble, tmp_path, rng), case) for _ in range(4)]
        moved = [math.nextafter(v, rng.choice((-9e99, 9e99))) for v in case.x]
        others.append((ensemble, replace(case, x=moved)))
        for other, asked in others:
            changed = Statement(tmp_path, other, asked, attacker)
            status = changed.accepted(payload)
            counts["other refused" if status is None else "other accepted"] += 1
            assert status is None or status == changed.truth(), given
    assert counts["refused"] > CASES * CHANGES / 2
    assert counts["other refused"] > CASES / 4
