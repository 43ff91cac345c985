"""The journal of a verification: what is decided survives on disk, digit for digit."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli.shared.kept import Kept, Question
from carvegbm.engines import Decisions, Settings, decide
from carvegbm.keeping.journal import Journal
from carvegbm.keeping.sealed import next_line, read_sealed
from carvegbm.problem import Problem
from plain_trees import ensemble, hard, leaf, refused, stump

MODEL = ensemble(stump(0, 0.5))
X, Y = np.array([[0.1], [0.45]] * 3), np.array([0, 0] * 3)
ATTACKER = cg.Attacker("inf", 0.1)
SETTINGS = Settings("auto", 10.0)
QUESTION = Question(Problem(MODEL, ATTACKER), X, Y, SETTINGS)


def decisions(question=QUESTION):
    return decide(question.task, question.problem.rows(question.X, question.y))


FOUND = decisions()
PARTS = [np.array([0, 1]), np.array([5, 2]), np.array([3, 4])]


@pytest.fixture
def output(tmp_path):
    return tmp_path / "r.json"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.json.partial"


def opened(output, question=QUESTION, resume=True, kept=None):
    kept = Kept(question) if kept is None else kept
    return Journal.opened(output, question.identity(), resume, kept.take)


def keep(output, *parts, question=QUESTION, found=FOUND, resume=False):
    """A run that was interrupted after these rows."""
    with opened(output, question, resume) as journal:
        for rows in parts:
            journal.append(Kept(question).record(rows, found.take(rows)))


def resumed(output, question=QUESTION):
    """What a run that goes on takes over."""
    kept = Kept(question)
    with opened(output, question, kept=kept):
        return kept


def test_what_is_restored_is_what_was_added(output):
    case = hard(16)
    rows = [case.x] * 4
    for witness, settings in (
        (False, Settings("auto", 1e-3)),
        (True, Settings("search")),
        (True, Settings("auto")),
    ):
        question = Question(
            Problem(case.ensemble, case.attacker), np.array(rows), np.array([1, 0] * 2),
            settings, witness,
        )  # fmt: skip
        found = decisions(question)
        found["margin"][1] = np.nan
        found["margin"][2] = 0.1 + 0.2
        keep(output, np.array([2, 0]), np.array([3]), question=question, found=found)
        kept = resumed(output, question)
        assert kept.done.tolist() == [True, False, True, True]
        again = kept.joined(np.array([1]), found.take(np.array([1])))
        assert ("witness" in again) == witness
        for name, column in again.columns.items():
            np.testing.assert_array_equal(column, found[name])
            assert column.dtype == found[name].dtype
        output.with_name("r.json.partial").unlink()


def test_witnesses_are_restored_and_kept_rows_alone_are_a_result(output):
    question = replace(QUESTION, witness=True)
    found = decisions(question)
    assert np.isfinite(found["witness"]).any()
    assert np.isnan(found["witness"]).any()
    keep(output, *PARTS, question=question, found=found)
    again = resumed(output, question).joined(np.array([], dtype=np.int64), None)
    for name, column in again.columns.items():
        np.testing.assert_array_equal(column, found[name])


def test_journal_goes_when_it_is_discarded(tmp_path, output):
    with opened(output, resume=False) as journal:
        assert os.listdir(tmp_path) == ["r.json.partial"]
        journal.discard()
        journal.discard()
        assert os.listdir(tmp_path) == []


def test_journal_that_was_put_in_its_place_is_not_discarded(output, path):
    with opened(output, resume=False) as journal:
        path.unlink()
        path.write_text("another's")
        journal.discard()
    assert path.read_text() == "another's"


# ── one run at a time ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("resume", [False, True])
def test_second_run_is_told_who_has_the_journal_and_harms_nothing(output, path, resume):
    keep(output, PARTS[0])
    with opened(output) as first:
        before = path.read_bytes()
        who = rf"process {os.getpid()} on \S+ since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
        with (
            pytest.raises(cg.CarveError, match=f"in use by {who}.*wait"),
            opened(output, resume=resume),
        ):
            pytest.fail("two are in")
        assert path.read_bytes() == before
        first.append(Kept(QUESTION).record(PARTS[1], FOUND.take(PARTS[1])))
    assert resumed(output).done.sum() == 4


def test_journal_of_a_run_that_is_over_is_free(output):
    keep(output, PARTS[0])
    for _ in range(3):
        assert resumed(output).done.sum() == 2


# ── damage ───────────────────────────────────────────────────────────────────────────────────


def test_line_that_was_cut_off_is_dropped_for_good(output, path):
    keep(output, *PARTS[:2])
    data = path.read_bytes()
    for cut in (1, 2, 50):
        path.write_bytes(data[:-cut])
        assert resumed(output).done.sum() == 2
        keep(output, PARTS[1], resume=True)
        assert resumed(output).done.sum() == 4


def another_letter(line):
    """One character of what is coded in the line is another."""
    place = line.index(b'"margin": "') + 12
    return line[:place] + (b"B" if line[place : place + 1] == b"A" else b"A") + line[place + 1 :]


LINE_DAMAGE = {
    "cut short": lambda lines: [*lines[:2], lines[2][:50], *lines[3:]],
    "another letter": lambda lines: [*lines[:2], another_letter(lines[2]), *lines[3:]],
    "another name": lambda lines: [line.replace(b"right", b"wrong") for line in lines],
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
    keep(output, *PARTS)
    lines = path.read_bytes().split(b"\n")[:-1]
    damaged = LINE_DAMAGE[damage](lines)
    assert damaged != lines
    path.write_bytes(b"\n".join(damaged) + b"\n")
    before = path.read_bytes()
    with refused(str(path), "damaged", "delete it"):
        resumed(output)
    assert path.read_bytes() == before


def forged(path, *changes):
    """The journal with other records in place of those of its rows, sealed as they should be."""
    records = read_sealed(path.read_bytes()).records
    blocks = [i for i, record in enumerate(records) if "rows" in record]
    for position, change in zip(blocks, changes, strict=True):
        records[position] = change(records[position])
    seal, data = "", b""
    for record in records:
        line, seal = next_line(seal, record)
        data += line
    path.write_bytes(data)


def of_rows(*rows):
    """The rows of another record."""
    some = np.array(rows, dtype=np.int64)
    return Kept(QUESTION).record(some, FOUND.take(some % len(X)))


def with_column(name, values, kind):
    found = Decisions({**FOUND.take(PARTS[1]).columns, name: np.array(values, dtype=kind)})
    return Kept(QUESTION).record(PARTS[1], found)


def with_text(name, text):
    return lambda record: {**record, "columns": {**record["columns"], name: text}}


FORGERIES = {
    "rows twice": lambda _: of_rows(0, 2),
    "a row twice": lambda _: of_rows(2, 2),
    "too many rows": lambda _: of_rows(2, 6),
    "a row before the first": lambda _: of_rows(2, -1),
    "no rows": lambda _: of_rows(),
    "half a row": lambda record: {**record, "rows": record["rows"][:4]},
    "rows that are none": lambda record: {**record, "rows": [2, 5]},
    "a column less": lambda record: {
        **record, "columns": {k: v for k, v in record["columns"].items() if k != "right"}
    },
    "a column more": with_text("colour", "AAAA"),
    "a short column": lambda _: with_column("margin", [0.5], float),
    "an unknown status": lambda _: with_column("status", [0, 5], np.uint8),
    "an unknown engine": lambda _: with_column("engine", [1, 4], np.uint8),
    "a status against right": lambda _: with_column("right", [False, False], bool),
    "neither true nor false": with_text("right", "AgI="),
    "what is no code": with_text("margin", "&&&&"),
    "a number": with_text("margin", 5),
    "no columns": lambda record: {**record, "columns": None},
    "more than columns": lambda record: {**record, "note": "hello"},
    "something else": lambda _: {"note": "hello"},
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_rows_that_cannot_be_are_refused_however_well_sealed(output, path, forgery):
    keep(output, *PARTS[:2])
    forged(path, lambda record: record, lambda record: record)
    assert resumed(output).done.sum() == 4
    forged(path, lambda record: record, FORGERIES[forgery])
    before = path.read_bytes()
    with refused(str(path), "damaged", "line 4", "delete it"):
        resumed(output)
    assert path.read_bytes() == before


def test_witness_more_or_less_is_refused(output, path):
    question = replace(QUESTION, witness=True)
    found = decisions(question)
    for text in ("", "AAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAA=="):
        keep(output, PARTS[0], question=question, found=found)
        forged(path, with_text("witness", text))
        if text == "AAAAAAAAAAA=":  # one is right
            assert resumed(output, question).done.sum() == 2
        else:
            with refused(str(path), "damaged"):
                resumed(output, question)
        path.unlink()


# ── another question ─────────────────────────────────────────────────────────────────────────


def test_journal_belongs_to_one_question_and_says_what_differs(output, path):
    keep(output, PARTS[0])
    before = path.read_bytes()
    other = replace(QUESTION, problem=Problem(MODEL, cg.Attacker("inf", 0.2)), y=1 - Y)
    with refused(str(path), "another run", "(other labels, attacker)", "delete it"):
        resumed(output, other)
    assert path.read_bytes() == before


def test_journal_of_another_version_is_not_continued(output, monkeypatch):
    keep(output, PARTS[0])
    monkeypatch.setattr(cg, "__version__", "0.0.1")
    with refused("another run", "other version of carvegbm"):
        resumed(output)


def test_equal_questions_have_one_identity():
    again = Question(
        Problem(ensemble(stump(0, 0.5)), cg.Attacker(np.inf, 0.1)), X.copy(), Y.copy(),
        Settings(timeout=10.0, threads=1),
    )  # fmt: skip
    assert again.identity() == QUESTION.identity()


def asked(**parts):
    """The question, with something else in place of a part."""
    model = parts.pop("model", MODEL)
    attacker = parts.pop("attacker", ATTACKER)
    return replace(QUESTION, problem=Problem(model, attacker), **parts)


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
def test_other_questions_have_another_identity(part, other):
    assert asked(**{part: other}).identity() != QUESTION.identity()


def test_every_limit_of_the_attacker_is_part_of_the_question():
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


def test_names_that_were_swapped_are_another_question_also_for_the_attacker():
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
    with opened(output, resume=False) as journal:
        journal.append(Kept(QUESTION).record(PARTS[0], FOUND.take(PARTS[0])))
        before = path.read_bytes()
        journal._file = Full(journal._file, room)
        with pytest.raises(OSError, match="No space left") as caught:
            journal.append(Kept(QUESTION).record(PARTS[1], FOUND.take(PARTS[1])))
        assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert resumed(output).done.sum() == 2


def test_journal_that_cannot_even_begin_is_not_left(tmp_path, output, monkeypatch):
    import carvegbm.keeping.journal as module

    real = module.open_locked
    monkeypatch.setattr(module, "open_locked", lambda path: FullFile(real(path), 10))
    with (
        pytest.raises(OSError, match="No space left") as caught,
        opened(output, resume=False),
    ):
        pytest.fail("it has begun")
    assert caught.value.filename == str(tmp_path / "r.json.partial")
    assert os.listdir(tmp_path) == []


class FullFile(Full):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


# ── the result ───────────────────────────────────────────────────────────────────────────────


def taken(question=QUESTION, found=FOUND, parts=PARTS):
    """What a run holds that has taken over these rows, one of them twice if it is named twice."""
    kept = Kept(question)
    for rows in parts:
        kept.parts.append((rows, found.take(rows)))
        kept.done[rows] = True
    return kept


def test_result_has_every_row_once():
    none = np.array([], dtype=np.int64)
    assert len(taken().joined(none, None)) == 6
    assert len(taken(parts=PARTS[:2]).joined(PARTS[2], FOUND.take(PARTS[2]))) == 6
    for parts in (PARTS[:2], [*PARTS, PARTS[0]], [*PARTS[:2], np.array([3])]):
        with refused("of 6 rows"):
            taken(parts=parts).joined(none, None)
    with refused("of 6 rows"):
        Kept(QUESTION).joined(np.arange(5), FOUND.take(np.arange(5)))


def test_result_holds_nothing_that_cannot_be():
    for name, value in (("status", 5), ("right", False)):
        columns = {key: column.copy() for key, column in FOUND.columns.items()}
        columns[name][1] = value
        with refused("cannot be"):
            Kept(QUESTION).joined(np.arange(6), Decisions(columns))


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
