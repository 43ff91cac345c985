"""One question to the checker: files are written where it looks for them, and it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm_check
from carvegbm.ensemble import Ensemble
from carvegbm.trees.categories import in_codes
from generators import Case
from oracle import Attacker
from proofs import by_hand


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
