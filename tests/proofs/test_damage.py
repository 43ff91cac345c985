"""Damaged, cut, foreign and hostile files: one line that says so, and never a verdict."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
import carvegbm_check
from carvegbm.model.ensemble import Ensemble
from carvegbm_check import RefusedError, Report, main
from oracle import Attacker
from plain_trees import ensemble, stump
from proofs import by_hand
from proofs.asking import Asked
from proofs.by_hand import NOTHING, cut_below, file_of, parts, record, witness

TREE = {"feature": 0, "threshold": 1.0, "left": {"score": 2.0}, "right": {"score": -1.0}}


@pytest.fixture
def question(tmp_path: Path) -> Asked:
    ensemble = Ensemble.from_trees([TREE], n_features=1)
    return Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.0], [0.75]], [1, 1])


RIGHT = (record(0, "robust", parts(({}, NOTHING))), record(1, "fragile", witness({0: 1.125})))


def refusal(question: Asked, data: bytes) -> str:
    with pytest.raises(RefusedError) as error:
        question.check_bytes(data)
    message = str(error.value)
    assert "\n" not in message
    assert "a.proof" in message
    return message


def sealed(data: bytes) -> bytes:
    """The bytes with the checksum that belongs to them."""
    return data + hashlib.sha256(data).digest()


def test_a_file_that_ends_early_is_refused_wherever_it_ends(question: Asked) -> None:
    data = file_of(question.head, RIGHT)
    assert question.check_bytes(data).is_proved
    for end in range(len(data)):
        refusal(question, data[:end])


def test_every_change_of_a_byte_is_noticed(question: Asked) -> None:
    data = file_of(question.head, RIGHT)
    for place in range(len(data)):
        for change in (1, 128, 255):
            changed = bytearray(data)
            changed[place] ^= change
            refusal(question, bytes(changed))


def test_bytes_at_the_end_are_noticed(question: Asked) -> None:
    refusal(question, file_of(question.head, RIGHT) + b"\0")
    body = file_of(question.head, RIGHT)[:-32]
    assert "after its end" in refusal(question, sealed(body + b"\0"))


def test_a_file_cut_anywhere_and_sealed_again_is_refused(question: Asked) -> None:
    body = file_of(question.head, RIGHT)[:-32]
    for end in range(len(body)):
        refusal(question, sealed(body[:end]))


def test_a_changed_byte_that_is_sealed_again_proves_nothing_false(question: Asked) -> None:
    """It is refused, or not proved, or it says the same: both statuses are what they are."""
    body = file_of(question.head, RIGHT)[:-32]
    for place in range(len(body)):
        changed = bytearray(body)
        changed[place] ^= 1 << place % 8
        try:
            report = question.check_bytes(sealed(bytes(changed)))
        except RefusedError:
            continue
        assert report.header["attacker"] != question.head["attacker"] or (
            report.checked.items() <= {0: "robust", 1: "fragile"}.items()
        )


def test_records_changed_in_every_byte_prove_nothing_false(question: Asked) -> None:
    records = b"".join(RIGHT)
    for place in range(len(records)):
        for change in range(1, 256):
            changed = bytearray(records)
            changed[place] ^= change
            try:
                report = question.check_bytes(file_of(question.head, [bytes(changed)], 2))
            except RefusedError:
                continue
            assert report.checked.items() <= {0: "robust", 1: "fragile"}.items()


@pytest.mark.parametrize(
    "data", [b"", b"c", b"tree\nversion=v4\n", b"carvegbm proof 2\n", b"\0" * 99]
)
def test_another_file_is_no_proof(question: Asked, data: bytes) -> None:
    refusal(question, data)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 3},
        {"rows": -1},
        {"rows": True},
        {"rows": 10**30},
        {"labels": "none"},
        {"model": 5},
        {"attacker": []},
        {"more": 1},
    ],
)
def test_a_header_must_be_what_it_should_be(question: Asked, change: dict[str, Any]) -> None:
    refusal(question, file_of(question.head | change, RIGHT))


@pytest.mark.parametrize(
    "change",
    [
        {"norm": "2"},
        {"norm": 1.5},
        {"norm": 1.0},
        {"norm": True},
        {"norm": -1},
        {"norm": 10**9},
        {"norm": None},
        {"budget": 0.5},
        {"budget": "inf"},
        {"budget": "nan"},
        {"budget": "-0x1.0000000000000p-1"},
        {"budgets": "0x1.0000000000000p-1"},
        {"features": [1]},
        {"features": [-1]},
        {"features": [0.5]},
        {"features": [False]},
        {"features": 0},
        {"up": {"7": "0x1.0000000000000p+0"}},
        {"up": {"0": 1}},
        {"up": {"0": "0x1.0000000000000p+0", "00": "0x1.0000000000000p+1"}},
        {"step": {"0": "1/0"}},
        {"step": {"0": "-1"}},
        {"step": {"0": "1e999999999"}},
        {"step": {"0": [1]}},
        {"categories": {"0": [1]}},
        {"one_hot": [[0, 0]]},
        {"one_hot": [0]},
        {"lower": []},
        {"features": ""},
        {"features": {}},
        {"features": [0, 0]},
        {"features": [True]},
        {"one_hot": {}},
        {"categories": []},
        {"step": []},
        {"row_bounds": 0},
        {"upper": {"0": "nan"}},
    ],
)
def test_an_attacker_must_be_what_it_should_be(question: Asked, change: dict[str, Any]) -> None:
    question.head["attacker"] |= change
    refusal(question, file_of(question.head, RIGHT))


def test_a_header_that_is_no_json_is_refused(question: Asked) -> None:
    for text in (b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"rows": 1, "rows": 1}'):
        data = b"carvegbm proof 1\n" + struct.pack("<I", len(text)) + text
        refusal(question, sealed(data + struct.pack("<IQ", 0, 0)))


def with_block(question: Asked, packed: bytes) -> bytes:
    text = json.dumps(question.head).encode()
    data = b"carvegbm proof 1\n" + struct.pack("<I", len(text)) + text
    data += struct.pack("<II", len(packed), zlib.crc32(packed)) + packed
    return sealed(data + struct.pack("<IQ", 0, 2))


def test_a_block_that_unpacks_to_far_too_much_is_refused(question: Asked) -> None:
    maker = zlib.compressobj(9)
    packed = b"".join(maker.compress(bytes(1 << 24)) for _ in range(10)) + maker.flush()
    assert len(packed) < 200_000
    assert "block" in refusal(question, with_block(question, packed))
    dense = zlib.compress(bytes(100_000), 9)  # within the largest block, but of very few bytes
    assert "block" in refusal(question, with_block(question, dense))


def test_rows_whose_records_are_all_alike_have_a_proof_that_is_read(tmp_path: Path) -> None:
    n = 4000
    model = ensemble(stump(0, 0.5), n_features=1)
    cg.verify(model, np.zeros((n, 1)), np.zeros(n), cg.Attacker(1, 0.1), proof=tmp_path / "p")
    model.save(tmp_path / "m.json")
    rows = ([[0.0]] * n, [0] * n)
    assert carvegbm_check.check(tmp_path / "p", tmp_path / "m.json", rows).is_proved


@pytest.mark.parametrize("packed", [b"?", zlib.compress(b"".join(RIGHT))[:-1], b"x\x9c"])
def test_a_block_that_is_none_is_refused(question: Asked, packed: bytes) -> None:
    refusal(question, with_block(question, packed))


def test_a_second_stream_in_a_block_is_refused(question: Asked) -> None:
    packed = zlib.compress(b"".join(RIGHT))
    refusal(question, with_block(question, packed + packed))


HUGE = b"\xff" * 9 + b"\1"


@pytest.mark.parametrize(
    "rest",
    [
        HUGE,  # parts
        b"\1" + HUGE,  # weights
        b"\1\0\0\0\0" + HUGE,  # axes
        b"\1\0\0\0\0\1\0" + HUGE,  # trees
        b"\1\0\0\0\0\1\0\1\0" + HUGE,  # pairs
        b"\1\0\0" + HUGE + b"\0\0",  # shift
        b"\1\0\2\0" + HUGE,  # states
        b"\1\0" + b"\1\0\0" * 100_000,  # cuts without end
        b"\1\0\0" + b"\xff" * 100_000,  # a number without end
        b"\1\0\4",  # a case of no kind
        b"\1\0\0\0\0\1\0\1\0" + by_hand.varint(1 << 23) + bytes(1 << 24),  # many pairs
        b"\1\0\0\0\0\1\0" + by_hand.varint(1 << 23) + b"\1\0" * (1 << 23),  # many trees
        b"\1" + by_hand.varint(1 << 23) + bytes(1 << 24),  # many weights
    ],
    ids=len,
)
def test_huge_counts_are_refused(question: Asked, rest: bytes) -> None:
    refusal(question, file_of(question.head, [b"\0\0" + rest], 2))


def test_cases_may_be_deep_but_not_without_end(question: Asked) -> None:
    def deep(n: int) -> Report:
        case = b"\1\0\0" * n + NOTHING * (n + 1)
        return question.check(record(0, "robust", parts(({}, case))), RIGHT[1])

    assert deep(4095).is_proved
    assert "nested too deeply" in deep(4096).wrong[0]
    assert cut_below(0, 0, NOTHING, NOTHING) == b"\1\0\0" + NOTHING + NOTHING


@pytest.mark.parametrize("cell", [1 << 40, 1 << 70])
def test_cells_far_away_take_no_room(question: Asked, cell: int) -> None:
    for pairs in ([(cell, 1), (0, 1)], [(0, 1), (cell, 1), (1, 1)], [(cell, 1)]):
        case = by_hand.bound(0, 0, {(0, 0): pairs})
        assert not question.check(record(0, "robust", parts(({}, case))), RIGHT[1]).is_proved


def test_a_witness_names_a_feature_once_and_ends_its_record(question: Asked) -> None:
    twice = b"\2" + witness({0: 9.0})[1:] + witness({0: 1.125})[1:]
    assert "twice" in question.check(RIGHT[0], record(1, "fragile", twice)).wrong[1]
    assert "after its end" in question.check(RIGHT[0], RIGHT[1] + b"\0").wrong[1]


def test_what_only_the_file_claims_is_said(question: Asked) -> None:
    """Own labels, some of the rows, and bounds of a row are the file's word."""
    question.head |= {"labels": "own"}
    assert "the model's own decisions count as correct" in str(question.check(*RIGHT))
    question.head |= by_hand.header(
        question.ensemble, question.rows[:1], question.labels[:1], question.attacker
    )
    assert "rows:      the first 1 of 2\n" in str(question.check(RIGHT[0]))
    question.head["rows"] = 0
    with pytest.raises(RefusedError, match="0 rows"):
        question.check()


def test_bounds_of_a_row_are_said(tmp_path: Path) -> None:
    ensemble = Ensemble.from_trees([TREE], n_features=1)
    question = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.75]], [1])
    question.head["attacker"]["row_bounds"] = True
    bounded = record(0, "robust", parts(({}, NOTHING)), ([0.5], [1.0]))
    lines: list[str] = []
    assert question.check(bounded, on_row=lines.append).is_proved
    assert lines == ["row 0: robust: checked, with feature 0 between 0.5 and 1"]


def test_own_labels_of_a_row_that_cannot_be_are_refused(tmp_path: Path) -> None:
    ensemble = Ensemble.from_trees([TREE, {**TREE, "feature": 1}], n_features=2)
    question = Asked(tmp_path, ensemble, Attacker(0, 1), [[1.0, 1.0]], [1])
    question.head |= {"labels": "own"}
    question.head["attacker"]["one_hot"] = [[0, 1]]
    with pytest.raises(RefusedError, match="one-hot"):
        question.check(RIGHT[0])


def test_a_reader_that_goes_away_is_no_crash(question: Asked, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("f,label\n0,1\n0.75,1\n")
    question.check(*RIGHT)
    files = [str(tmp_path / name) for name in ("a.proof", "model.json", "data.csv")]
    program = [sys.executable, carvegbm_check.__file__, *files]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(program, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, "")


def test_the_command_says_what_it_found(
    question: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.csv").write_text("f,label\n0,1\n0.75,1\n")
    files = [str(tmp_path / name) for name in ("a.proof", "model.json", "data.csv")]
    question.check(*RIGHT)
    summary = "checked:   1 robust, 1 fragile; robustness 1 / 2 = 50.00 %\n"
    assert main(files) == 0
    out = capsys.readouterr().out
    assert out.startswith("row 0: robust: checked\nrow 1: fragile: checked\nproof: ")
    assert out.endswith(summary)
    assert main([*files, "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("proof: ")
    question.check(RIGHT[0])
    assert main(files) == 4
    assert "row 1: there is no record of it\n" in capsys.readouterr().out
    (tmp_path / "a.proof").write_bytes(b"?")
    assert main(files) == 2
    assert capsys.readouterr().err.startswith("carvegbm_check: ")
    assert main([str(tmp_path / "none"), *files[1:]]) == 2
    assert "No such file" in capsys.readouterr().err


def test_by_hand_and_the_page_agree_on_numbers() -> None:
    assert [by_hand.varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\1", b"\xac\2"]
    assert [by_hand.signed(n) for n in (0, -1, 1, -64)] == [b"\0", b"\1", b"\2", b"\x7f"]


def test_categories_that_the_model_does_not_know_cannot_be_chosen(tmp_path: Path) -> None:
    split = {"feature": 0, "categories": [1], "left": {"score": 1.0}, "right": {"score": -1.0}}
    known = {0: {0: "a", 1: "b"}}
    ensemble = Ensemble.from_trees([split], n_features=1, categories=known)
    question = Asked(tmp_path, ensemble, Attacker(0, 1), [[1.0]], [1])
    question.rows = [[1.0]]
    question.head = by_hand.header(ensemble, question.rows, [1], question.attacker)
    question.head["attacker"]["categories"] = {"0": [0]}
    assert question.check(record(0, "fragile", witness({0: 0.0}))).is_proved
    question.head["attacker"]["categories"] = {"0": [99]}
    with pytest.raises(RefusedError, match="contradict"):
        question.check(record(0, "fragile", witness({0: 99.0})))


def test_bounds_of_a_category_do_not_count(tmp_path: Path) -> None:
    split = {"feature": 0, "categories": [1], "left": {"score": 1.0}, "right": {"score": -1.0}}
    ensemble = Ensemble.from_trees([split], n_features=1, categories={0: {0: "a", 1: "b", 2: "c"}})
    question = Asked(tmp_path, ensemble, Attacker(0, 1), [[1.0]], [1])
    question.rows = [[1.0]]
    question.head = by_hand.header(ensemble, question.rows, [1], question.attacker)
    question.head["attacker"] |= {"categories": {"0": [0, 2]}, "upper": {"0": (1.0).hex()}}
    assert question.check(record(0, "fragile", witness({0: 2.0}))).is_proved
    assert not question.check(record(0, "robust", parts(({}, NOTHING)))).is_proved


def test_rows_have_as_many_values_as_there_are_features(question: Asked) -> None:
    question.rows[0].append(1.0)
    question.head["data"] = by_hand.data_content(question.rows, question.labels)
    with pytest.raises(RefusedError, match="1 features"):
        question.check(*RIGHT)


@pytest.mark.parametrize(
    "limit",
    [
        {"down": {"0": "0.9"}},
        {"upper": {"0": "0x2p0"}},
        {"budget": "0.5"},
        {"row_bounds": 1},
        {"row_bounds": "yes"},
    ],
    ids=str,
)
def test_numbers_of_an_attacker_have_one_spelling(question: Asked, limit: dict[str, Any]) -> None:
    """What is printed and what is checked are one: no "0.9" that stands for 9 / 16."""
    question.head["attacker"] |= limit
    with pytest.raises(RefusedError):
        question.check(*RIGHT)


def test_limits_are_printed_as_numbers(question: Asked) -> None:
    lower, upper = (-math.inf).hex(), (1.25).hex()
    question.head["attacker"] |= {"up": {"0": (1.0).hex()}, "down": {"0": (0.75).hex()}}
    question.head["attacker"] |= {"lower": {"0": lower}, "upper": {"0": upper}}
    text = str(question.check(*RIGHT))
    assert "scale 0.75 down and 1 up: 1 feature: feature 0\n" in text
    assert "between -inf and 1.25: 1 feature: feature 0\n" in text
