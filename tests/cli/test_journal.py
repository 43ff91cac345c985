"""The journal: what is decided survives on disk, digit for digit, and only for its own run."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli.journal import Journal, fingerprint
from plain_trees import ensemble, hard, leaf, refused, stump

MODEL = ensemble(stump(0, 0.5))
X, Y = np.array([[0.1], [0.45]]), np.array([0, 0])
ATTACKER = cg.Attacker("inf", 0.1)
SETTINGS = {"engine": "auto", "timeout": 10.0}
QUESTION = (MODEL, X, Y, ATTACKER, SETTINGS)


def test_what_is_restored_is_what_was_added(tmp_path):
    case = hard(16)
    parts = [
        cg.verify(MODEL, X, Y, ATTACKER),
        cg.verify(case.ensemble, [case.x], [1], case.attacker, engine="milp", timeout=1e-3),
        cg.verify(MODEL, X, [1, 1], ATTACKER, engine="search"),
    ]
    assert np.isinf(parts[1].worst_margin_lower).any()
    parts[2] = replace(parts[2], margin=np.array([np.nan, 0.1 + 0.2]))
    journal = Journal(tmp_path / "r.json", "digest", 5, resume=False)
    for part in parts:
        journal.add(part)
    again = Journal(tmp_path / "r.json", "digest", 5, resume=True)
    assert again.restore(ATTACKER) == 5
    for field in fields(cg.Verification):
        if field.name != "attacker":
            one, other = (getattr(j.finish(), field.name) for j in (journal, again))
            np.testing.assert_array_equal(one, other)
            assert one.dtype.kind == other.dtype.kind


def test_journal_goes_when_it_is_discarded(tmp_path):
    journal = Journal(tmp_path / "r.json", "digest", 5, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["r.json.partial"]
    journal.discard()
    journal.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("digest", "rows"), [("other", 5), ("digest", 6)])
def test_journal_belongs_to_one_run(tmp_path, digest, rows):
    Journal(tmp_path / "r.json", "digest", 5, resume=False)
    with refused("r.json.partial", "another run"):
        Journal(tmp_path / "r.json", digest, rows, resume=True)


def test_damaged_line_and_all_after_it_are_forgotten_for_good(tmp_path):
    path = tmp_path / "r.json.partial"
    journal = Journal(tmp_path / "r.json", "digest", 6, resume=False)
    for _ in range(3):
        journal.add(cg.verify(MODEL, X, Y, ATTACKER))
    lines = path.read_text().splitlines()
    lines[2] = lines[2][:50]
    path.write_text("\n".join(lines) + "\n")
    for _ in range(2):
        again = Journal(tmp_path / "r.json", "digest", 6, resume=True)
        assert again.restore(ATTACKER) == 2
    assert path.read_text().splitlines() == lines[:2]
    again.add(cg.verify(MODEL, X, Y, ATTACKER))
    assert [len(json.loads(line)["status"]) for line in path.read_text().splitlines()[1:]] == [2, 2]


def test_fingerprint_is_that_of_equal_questions():
    again = (
        ensemble(stump(0, 0.5)),
        X.copy(),
        Y.tolist(),
        cg.Attacker(np.inf, 0.1),
        dict(SETTINGS),
    )
    assert fingerprint(*again) == fingerprint(*QUESTION)


@pytest.mark.parametrize(
    ("position", "other"),
    [
        (0, ensemble(stump(0, 0.25))),
        (0, ensemble(stump(0, 0.5, -1.0, 2.0))),
        (0, ensemble(stump(0, 0.5), leaf(0.0))),
        (0, ensemble(stump(0, 0.5), base_score=1.0)),
        (0, ensemble(stump(0, 0.5), threshold=1.0)),
        (0, ensemble(stump(0, 0.5), average=2)),
        (0, ensemble(stump(0, 0.5), input_precision="float32")),
        (0, ensemble(stump(0, 0.5), classes=[1, 0])),
        (1, np.array([[0.1], [0.46]])),
        (2, np.array([0, 1])),
        (3, cg.Attacker("inf", 0.2)),
        (3, cg.Attacker(1, 0.1)),
        (3, cg.Attacker("inf", 0.1, bounds=(0, 1))),
        (3, cg.Attacker("inf", 0.1, features=[0])),
        (3, cg.Attacker("inf", 0.1, scale=2)),
        (4, {"engine": "search", "timeout": 10.0}),
        (4, {"engine": "auto", "timeout": 9.0}),
    ],
)
def test_fingerprint_tells_questions_apart(position, other):
    question = list(QUESTION)
    question[position] = other
    assert fingerprint(*question) != fingerprint(*QUESTION)
