"""The journal: what is decided survives on disk, digit for digit, and only for its own run."""

from __future__ import annotations

import os
import re
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli.journal import Journal, Question, whole
from carvegbm.sealed import next_line, read_sealed
from plain_trees import ensemble, hard, leaf, refused, stump

MODEL = ensemble(stump(0, 0.5))
X, Y = np.array([[0.1], [0.45]] * 3), np.array([0, 0] * 3)
ATTACKER = cg.Attacker("inf", 0.1)
QUESTION = Question(MODEL, X, Y, ATTACKER, {"engine": "auto", "timeout": 10.0})
PART = cg.verify(MODEL, X[:2], Y[:2], ATTACKER)


@pytest.fixture
def output(tmp_path):
    return tmp_path / "r.json"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.json.partial"


def keep(output, *parts, question=QUESTION):
    """A run that was interrupted after these blocks."""
    with Journal.opened(output, question, resume=False) as journal:
        for part in parts:
            journal.add(part)


def resumed(output, question=QUESTION):
    with Journal.opened(output, question, resume=True) as journal:
        return journal.parts


def test_what_is_restored_is_what_was_added(output):
    case = hard(16)
    parts = [
        PART,
        cg.verify(case.ensemble, [case.x], [1], case.attacker, engine="milp", timeout=1e-3),
        cg.verify(MODEL, X[:2], [1, 1], ATTACKER, engine="search"),
    ]
    assert np.isinf(parts[1].worst_margin_lower).any()
    parts[2] = replace(parts[2], margin=np.array([np.nan, 0.1 + 0.2]))
    keep(output, *parts)
    again = resumed(output)
    assert [len(part) for part in again] == [2, 1, 2]
    for field, (one, other) in product(fields(cg.Verification), zip(parts, again, strict=True)):
        if field.name != "attacker":
            before, after = getattr(one, field.name), getattr(other, field.name)
            np.testing.assert_array_equal(before, after)
            assert before.dtype == after.dtype


def test_journal_goes_when_it_is_discarded(tmp_path, output):
    with Journal.opened(output, QUESTION, resume=False) as journal:
        assert os.listdir(tmp_path) == ["r.json.partial"]
        journal.discard()
        journal.discard()
        assert os.listdir(tmp_path) == []


def test_journal_that_was_put_in_its_place_is_not_discarded(output, path):
    with Journal.opened(output, QUESTION, resume=False) as journal:
        path.unlink()
        path.write_text("another's")
        journal.discard()
    assert path.read_text() == "another's"


# ── one run at a time ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("resume", [False, True])
def test_second_run_is_told_who_has_the_journal_and_harms_nothing(output, path, resume):
    keep(output, PART)
    with Journal.opened(output, QUESTION, resume=True) as first:
        before = path.read_bytes()
        who = rf"process {os.getpid()} on \S+ since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
        with (
            pytest.raises(cg.CarveError, match=f"in use by {who}.*wait"),
            Journal.opened(output, QUESTION, resume=resume),
        ):
            pytest.fail("two are in")
        assert path.read_bytes() == before
        first.add(PART)
    assert len(resumed(output)) == 2


def test_journal_of_a_run_that_is_over_is_free(output):
    keep(output, PART)
    for _ in range(3):
        assert len(resumed(output)) == 1


# ── damage ───────────────────────────────────────────────────────────────────────────────────


def test_line_that_was_cut_off_is_dropped_for_good(output, path):
    keep(output, PART, PART)
    data = path.read_bytes()
    for cut in (1, 2, 50):
        path.write_bytes(data[:-cut])
        assert len(resumed(output)) == 1
        with Journal.opened(output, QUESTION, resume=True) as journal:
            journal.add(PART)
        assert len(resumed(output)) == 2


def another_digit(match):
    return b"2" if match[0] == b"1" else b"1"


LINE_DAMAGE = {
    "cut short": lambda lines: [*lines[:2], lines[2][:50], *lines[3:]],
    "another digit": lambda lines: [
        *lines[:2], re.sub(rb"\d(?=\.\d)", another_digit, lines[2], count=1), *lines[3:],
    ],
    "another status": lambda lines: [line.replace(b"fragile", b"robust") for line in lines],
    "removed": lambda lines: [*lines[:2], *lines[3:]],
    "doubled": lambda lines: [*lines[:3], *lines[2:]],
    "swapped": lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
    "empty": lambda lines: [*lines[:3], b"", *lines[3:]],
    "last": lambda lines: [*lines[:-1], lines[-1][:-1]],
    "header": lambda lines: [lines[0][:-1], *lines[1:]],
    "without header": lambda lines: lines[1:],
    "a word": lambda lines: [*lines, b"something"],
    "zeros": lambda lines: [*lines, bytes(100)],
}  # fmt: skip


@pytest.mark.parametrize("damage", LINE_DAMAGE)
def test_damaged_journal_is_refused_as_a_whole_and_left_alone(output, path, damage):
    keep(output, PART, replace(PART, margin=PART.margin + 1), PART)
    lines = path.read_bytes().split(b"\n")[:-1]
    damaged = LINE_DAMAGE[damage](lines)
    assert damaged != lines
    path.write_bytes(b"\n".join(damaged) + b"\n")
    before = path.read_bytes()
    with refused(str(path), "damaged", "delete it"):
        resumed(output)
    assert path.read_bytes() == before


def forged(path, *changes):
    """The journal with other records in place of those of its blocks, sealed as they should be."""
    records = read_sealed(path.read_bytes()).records
    blocks = [i for i, record in enumerate(records) if "start" in record]
    for position, change in zip(blocks, changes, strict=True):
        records[position] = change(records[position])
    seal, data = "", b""
    for record in records:
        line, seal = next_line(seal, record)
        data += line
    path.write_bytes(data)


def with_column(name, values):
    return lambda record: {**record, "columns": {**record["columns"], name: values}}


FORGERIES = {
    "rows twice": lambda record: {**record, "start": 0, "stop": 2},
    "a gap": lambda record: {**record, "start": 3, "stop": 5},
    "too many rows": lambda record: {**record, "stop": 4 + len(X)},
    "no rows": lambda record: {**record, "stop": 2},
    "a column less": lambda record: {
        **record, "columns": {k: v for k, v in record["columns"].items() if k != "right"}
    },
    "a column more": with_column("colour", ["red", "green"]),
    "a short column": with_column("margin", [0.5]),
    "an unknown status": with_column("status", ["robust", "sturdy"]),
    "a status against right": with_column("right", [False, False]),
    "words for numbers": with_column("margin", ["0.5", "0.5"]),
    "numbers for truth": with_column("right", [1, 1]),
    "no columns": lambda record: {**record, "columns": None},
    "no kinds": lambda record: {**record, "kinds": {}},
    "an unknown kind": lambda record: {**record, "kinds": dict.fromkeys(record["kinds"], "?!")},
    "something else": lambda _: {"note": "hello"},
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_rows_that_cannot_be_are_refused_however_well_sealed(output, path, forgery):
    keep(output, PART, PART)
    forged(path, lambda record: record, lambda record: record)
    assert len(resumed(output)) == 2
    forged(path, lambda record: record, FORGERIES[forgery])
    with refused(str(path), "damaged", "rows from 2 on", "delete it"):
        resumed(output)


def test_result_has_every_row_once():
    assert len(whole([PART] * 3, QUESTION)) == 6
    for parts in ([PART] * 2, [PART] * 4, [PART, PART, cg.verify(MODEL, X[:1], Y[:1], ATTACKER)]):
        with refused("of 6 rows"):
            whole(parts, QUESTION)


def test_result_holds_nothing_that_cannot_be():
    for change in ({"status": np.array(["robust", "sturdy"])}, {"right": np.array([True, False])}):
        with refused("cannot be"):
            whole([PART, PART, replace(PART, **change)], QUESTION)


# ── another question ─────────────────────────────────────────────────────────────────────────


def test_journal_belongs_to_one_question_and_says_what_differs(output, path):
    keep(output, PART)
    before = path.read_bytes()
    other = replace(QUESTION, attacker=cg.Attacker("inf", 0.2), y=1 - Y)
    with refused(str(path), "another run", "(other labels, attacker)", "delete it"):
        resumed(output, other)
    assert path.read_bytes() == before


def test_journal_of_another_version_is_not_continued(output, monkeypatch):
    keep(output, PART)
    monkeypatch.setattr(cg, "__version__", "0.0.1")
    with refused("another run", "other version of carvegbm"):
        resumed(output)


def test_equal_questions_have_one_identity():
    again = Question(
        ensemble(stump(0, 0.5)), X.copy(), Y.copy(), cg.Attacker(np.inf, 0.1),
        {"timeout": 10.0, "engine": "auto"},
    )  # fmt: skip
    assert again.identity() == QUESTION.identity()


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
        ("settings", {"engine": "search", "timeout": 10.0}),
        ("settings", {"engine": "auto", "timeout": 9.0}),
        ("settings", {"engine": "auto"}),
    ],
)
def test_other_questions_have_another_identity(part, other):
    assert replace(QUESTION, **{part: other}).identity() != QUESTION.identity()


def test_names_that_were_swapped_are_another_question_also_for_the_attacker():
    one, other = (
        replace(
            QUESTION,
            model=ensemble(stump(0, 0.5), n_features=2, feature_names=names),
            attacker=cg.Attacker("inf", 0.1, features=["a"]),
        ).identity()
        for names in (["a", "b"], ["b", "a"])
    )
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {"model", "attacker"}


# ── a disk that is full ──────────────────────────────────────────────────────────────────────


class Full:
    """A file on a disk with room for so many bytes more."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        if self._room == 0:
            raise OSError(28, "No space left on device")
        written = self._file.write(bytes(data[: self._room]))
        self._room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 100])
def test_block_that_does_not_fit_on_the_disk_leaves_whole_lines(output, path, room):
    with Journal.opened(output, QUESTION, resume=False) as journal:
        journal.add(PART)
        before = path.read_bytes()
        journal._file = Full(journal._file, room)
        with pytest.raises(OSError, match="No space left") as caught:
            journal.add(PART)
        assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert len(resumed(output)) == 1


def test_journal_that_cannot_even_begin_is_not_left(tmp_path, output, monkeypatch):
    import carvegbm.cli.journal as module

    opened = module.open_locked
    monkeypatch.setattr(module, "open_locked", lambda path: opened_full(opened, path))
    with (
        pytest.raises(OSError, match="No space left") as caught,
        Journal.opened(output, QUESTION, resume=False),
    ):
        pytest.fail("it has begun")
    assert caught.value.filename == str(tmp_path / "r.json.partial")
    assert os.listdir(tmp_path) == []


class FullFile(Full):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def opened_full(opened, path):
    return FullFile(opened(path), 10)
