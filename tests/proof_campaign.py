"""Every verdict has a proof, and every proof is checked: in numbers.

    python tests/proof_campaign.py --limit steps --norm 2 --cases 20000

verifies a random case, writes the proof, and has it checked by `carvegbm_check` from the files. It
prints counts and, at the first verdict that is not proved, the arguments of `make_kind` (or of
`make_case`, with `--limit none`) that reproduce it. Half of the cases sit on boundaries.
`proofs/test_proved_verdicts.py` runs a small sample of the same.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import carvegbm as cg
import carvegbm_check
import oracle
from answers import TIMEOUT, parser_of, run
from asking import question
from carvegbm.problem import Problem
from generators import Case, make_case
from kinds import LIMITS, NORMS, TURNS, make_kind

NO_LIMIT = "none"
Arguments = tuple[int, float, str, str, str]


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


def arguments(seeds: range, norm: float, limit: str) -> Iterator[Arguments]:
    """The cases of some seeds: situations and tasks take turns."""
    for seed in seeds:
        situation, task = TURNS[seed % len(TURNS)]
        yield seed, norm, limit, situation, "binary" if task == "regression" else task


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--limit", choices=[NO_LIMIT, *LIMITS], action="append")
    given = parser.parse_args()
    agree = True
    for limit in given.limit or [NO_LIMIT, *LIMITS]:
        for norm in NORMS if given.norm is None else map(float, given.norm):
            seeds = range(given.first, given.first + given.cases)
            cases = arguments(seeds, norm, limit)
            title = f"proofs, {limit}, norm {norm}"
            agree &= run(title, check_proof, cases, make=make_any, keep_going=given.keep_going)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
