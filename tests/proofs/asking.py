"""Proofs for the checker, of rows that a test chooses and of random cases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg
import carvegbm_check
import oracle
from answers import TIMEOUT
from asking import question
from carvegbm.model.categories import in_codes
from carvegbm.model.ensemble import Ensemble
from carvegbm.problem import Problem
from generators import Case, make_case
from kinds import TURNS, make_kind
from oracle import Attacker
from proofs import by_hand

NO_LIMIT = "none"


def in_code_space(ensemble: Any, rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return in_codes(ensemble, np.array(rows, dtype=float)).tolist()


class Asked:
    """Proofs about some rows of an ensemble, in a folder."""

    def __init__(
        self,
        folder: Path,
        ensemble: Ensemble,
        attacker: Attacker,
        rows: Sequence[Sequence[float]],
        labels: Sequence[int],
    ) -> None:
        self.folder, self.ensemble, self.attacker = folder, ensemble, attacker
        self.rows, self.labels = in_code_space(ensemble, rows), list(labels)
        self.head = by_hand.header(ensemble, self.rows, self.labels, attacker)
        ensemble.save(folder / "model.json")

    def check(
        self, *records: bytes, count: int | None = None, **options: Any
    ) -> carvegbm_check.Report:
        """What the checker says of these records."""
        return self.check_bytes(by_hand.file_of(self.head, records, count), **options)

    def check_bytes(self, data: bytes, **options: Any) -> carvegbm_check.Report:
        (self.folder / "a.proof").write_bytes(data)
        names = [self.ensemble.classes[label] for label in self.labels]
        return carvegbm_check.check(
            self.folder / "a.proof",
            self.folder / "model.json",
            (self.rows, names),
            **{"allow_trivial": True, **options},
        )

    def what_is_wrong(self, *records: bytes) -> str:
        """What the checker says of the one row that is not proved."""
        report = self.check(*records)
        assert not report.is_proved
        (wrong,) = report.wrong.values()
        return wrong


def asked(folder: Path, case: Case) -> Asked:
    return Asked(folder, case.ensemble, case.attacker, [case.x], [case.label])


# ── random cases ─────────────────────────────────────────────────────────────────────────────


def make_any(seed: int, norm: float, limit: str, situation: str, task: str) -> Case:
    """A case whose attacker has limits of a kind, or no special ones."""
    if limit == NO_LIMIT:
        return make_case(seed, norm, situation, task)
    return make_kind(seed, norm, limit, situation, task)


def check_proof(case: Case) -> str:
    """The right status, proved by a file that the checker accepts, whichever engine decided."""
    expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
    model, X, y, attacker = question(case)
    ensemble = cg.load(model)
    rows = np.asarray(Problem(ensemble, attacker).rows(X, y).given, dtype=np.float64)
    with tempfile.TemporaryDirectory() as folder:
        saved, proof = Path(folder) / "model.json", Path(folder) / "verdicts.proof"
        ensemble.save(saved)
        for engine in ("auto", "search"):
            result = cg.verify(
                ensemble, X, y, attacker, engine=engine, timeout=TIMEOUT, threads=1, proof=proof
            )
            assert result.status.tolist() == [expected], f"{engine}: {result.status} {expected}"
            report = carvegbm_check.check(
                proof, saved, (rows.tolist(), list(y)), allow_trivial=True
            )
            assert report.is_proved, f"{engine}: {report}"
            assert report.checked == {0: expected}, f"{engine}: {report.checked} {expected}"
        # The attacker in the checker's document is the same one.
        rebuilt = cg.Attacker.from_dict(report.document()["attacker"])
        cg.verify(ensemble, X, y, rebuilt, timeout=TIMEOUT, threads=1, proof=proof)
        report = carvegbm_check.check(
            proof, saved, (rows.tolist(), list(y)), expect=attacker.to_dict(), allow_trivial=True
        )
        assert report.is_proved, report
        assert cg.Attacker.from_dict(report.document()["attacker"]) == rebuilt
    return expected


def arguments(seeds: range, norm: float, limit: str) -> Iterator[tuple[int, float, str, str, str]]:
    """Arguments of `make_any` for some seeds: situations and tasks take turns."""
    for seed in seeds:
        situation, task = TURNS[seed % len(TURNS)]
        yield seed, norm, limit, situation, "binary" if task == "regression" else task
