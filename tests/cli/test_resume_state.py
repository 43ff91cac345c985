"""The resume file of a verification: decisions are restored digit for digit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli.running import Query, ResumeState
from carvegbm.engines import Settings, decide
from carvegbm.problem import Problem
from plain_trees import ensemble, hard, leaf, refused, stump

MODEL = ensemble(stump(0, 0.5))
X, Y = np.array([[0.1], [0.45]] * 3), np.array([0, 0] * 3)
ATTACKER = cg.Attacker("inf", 0.1)
SETTINGS = Settings("auto", 10.0)
QUERY = Query(Problem(MODEL, ATTACKER), X, Y, SETTINGS)


def decisions(query=QUERY):
    return decide(query.task, query.problem.rows(query.X, query.y))


FOUND = decisions()
PARTS = [np.array([0, 1]), np.array([5, 2]), np.array([3, 4])]
NONE = np.array([], dtype=np.int64)


def restored(*parts, query=QUERY, found=FOUND):
    """The state of a run that resumes after these rows."""
    state = ResumeState(query)
    for rows in parts:
        state.add_block(ResumeState(query).to_block(rows, found.take(rows)))
    return state


def test_what_is_restored_is_what_was_added():
    case = hard(16)
    rows = [case.x] * 4
    for witness, settings in (
        (False, Settings("search", 1e-3)),
        (True, Settings("search")),
        (True, Settings("auto")),
    ):
        query = Query(
            Problem(case.ensemble, case.attacker), np.array(rows), np.array([1, 0] * 2),
            settings, witness,
        )  # fmt: skip
        found = decisions(query)
        found["margin"][1] = np.nan
        found["margin"][2] = 0.1 + 0.2
        state = restored(np.array([2, 0]), np.array([3]), query=query, found=found)
        assert state.done.tolist() == [True, False, True, True]
        again = state.joined(np.array([1]), found.take(np.array([1])))
        assert ("witness" in again) == witness
        for name, column in again.columns.items():
            np.testing.assert_array_equal(column, found[name])
            assert column.dtype == found[name].dtype


def test_witnesses_are_restored_and_kept_rows_alone_are_a_result():
    query = replace(QUERY, witness=True)
    found = decisions(query)
    assert np.isfinite(found["witness"]).any()
    assert np.isnan(found["witness"]).any()
    again = restored(*PARTS, query=query, found=found).joined(NONE, None)
    for name, column in again.columns.items():
        np.testing.assert_array_equal(column, found[name])


def test_result_has_every_row_once():
    assert len(restored(*PARTS).joined(NONE, None)) == 6
    assert len(restored(*PARTS[:2]).joined(PARTS[2], FOUND.take(PARTS[2]))) == 6
    for parts in (PARTS[:2], [*PARTS, PARTS[0]], [*PARTS[:2], np.array([3])]):
        with refused("of 6 rows"):
            restored(*parts).joined(NONE, None)
    with refused("of 6 rows"):
        restored().joined(np.arange(5), FOUND.take(np.arange(5)))


# ── another query ────────────────────────────────────────────────────────────────────────────


def test_another_version_is_another_run(monkeypatch):
    before = QUERY.identity()
    monkeypatch.setattr(cg, "__version__", "0.0.1")
    assert QUERY.identity() != before


def test_equal_queries_have_one_identity():
    again = Query(
        Problem(ensemble(stump(0, 0.5)), cg.Attacker(np.inf, 0.1)), X.copy(), Y.copy(),
        Settings(timeout=10.0, threads=1),
    )  # fmt: skip
    assert again.identity() == QUERY.identity()


def asked(**parts):
    """The query, with something else in place of a part."""
    model = parts.pop("model", MODEL)
    attacker = parts.pop("attacker", ATTACKER)
    return replace(QUERY, problem=Problem(model, attacker), **parts)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("model", ensemble(stump(0, 0.25))),
        ("model", ensemble(stump(0, 0.5, -1.0, 2.0))),
        ("model", ensemble(stump(0, 0.5), leaf(0.0))),
        ("model", ensemble(stump(0, 0.5), base_score=1.0)),
        ("model", ensemble(stump(0, 0.5), threshold=1.0)),
        ("model", ensemble(stump(0, 0.5), average=2)),
        ("model", ensemble(stump(0, 0.5), input_precision="float32")),
        ("model", ensemble(stump(0, 0.5), classes=[1, 0])),
        ("model", ensemble(stump(0, 0.5), feature_names=["a"])),
        ("model", ensemble(stump(0, 0.5), link="logistic")),
        ("X", np.where(X == 0.45, 0.46, X)),
        ("X", X.astype(np.float32)),
        ("X", np.hstack([X, X])),
        ("X", X[::-1]),
        ("y", 1 - Y),
        ("y", Y.astype(float)),
        ("y", Y.astype(str)),
        ("attacker", cg.Attacker("inf", 0.2)),
        ("attacker", cg.Attacker(1, 0.1)),
        ("attacker", cg.Attacker("inf", 0.1, bounds=(0, 1))),
        ("attacker", cg.Attacker("inf", 0.1, features=[])),
        ("attacker", cg.Attacker("inf", 0.1, scale=2)),
        ("attacker", cg.Attacker("inf", 0.1, scale={0: (0, 1)})),
        ("attacker", cg.Attacker("inf", 0.1, scale={0: (1, 0)})),
        ("attacker", cg.Attacker("inf", 0.1, step="1/20")),
        ("attacker", cg.Attacker("inf", 0.1, bounds=(X - 1, X + 1))),
        ("settings", Settings("search")),
        ("settings", Settings(timeout=9.0)),
        ("settings", Settings(method="basic")),
        ("settings", Settings(grid=3)),
        ("settings", Settings(on_violation="unknown")),
        ("witness", True),
    ],
)
def test_other_queries_have_another_identity(part, other):
    assert asked(**{part: other}).identity() != QUERY.identity()


def test_every_limit_of_the_attacker_is_part_of_the_query():
    model = ensemble(
        stump(0, 0.5), n_features=4, categories={1: {0: "ftp", 1: "http"}}, feature_names="abcd"
    )
    wide, every = np.hstack([X, X, X, X]), cg.Attacker("inf", 0.1)
    limits = [
        {},
        {"step": {"a": "1/20"}},
        {"step": {"a": "1/40"}},
        {"categories": {"b": ["ftp"]}},
        {"categories": {"b": ["http"]}},
        {"one_hot": [["c", "d"]]},
        {"one_hot": [["d", "c"]], "scale": {"a": (1, 2)}},
        {"one_hot": [["c", "d"]], "scale": {"a": (2, 1)}},
        {"bounds": (wide - 1, wide + 1)},
        {"bounds": (wide - 1, wide + 2)},
    ]
    found = [
        asked(X=wide, model=model, attacker=cg.Attacker("inf", 0.1, **given)).identity()
        for given in limits
    ]
    assert len({document["attacker"] for document in found}) == len(limits)
    assert found[0] == asked(X=wide, model=model, attacker=every).identity()


def test_names_that_were_swapped_are_another_query_also_for_the_attacker():
    one, other = (
        asked(
            X=np.hstack([X, X]),
            model=ensemble(stump(0, 0.5), n_features=2, feature_names=names),
            attacker=cg.Attacker("inf", 0.1, features=["a"]),
        ).identity()
        for names in (["a", "b"], ["b", "a"])
    )
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {"model", "attacker"}


def test_error_at_the_end_says_that_rows_are_kept(cli, refuses, tmp_path, monkeypatch):
    from carvegbm.verification import Verification

    def fail(*_):
        raise cg.CarveError("cannot write it")

    out = tmp_path / "r.json"
    monkeypatch.setattr(Verification, "save", fail)
    arguments = ["verify", "sample", "--budget", "0.02", "--output", out]
    refuses(*arguments, words=["cannot write it; 171 of 171 rows are kept", "--resume"])
    monkeypatch.undo()
    assert cli(*arguments, "--resume")[0] == 0
