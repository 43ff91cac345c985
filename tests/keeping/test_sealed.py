"""Sealed lines: what is read is what was written, or it is known not to be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from carvegbm.keeping.sealed import next_line, read_sealed


def lines_of(records):
    lines, seal = [], ""
    for record in records:
        line, seal = next_line(seal, record)
        lines.append(line)
    return lines, seal


RECORDS = [{"row": i, "text": "x\ny ü", "value": [0.1 + 0.2, None]} for i in range(4)]
LINES, SEAL = lines_of(RECORDS)
DATA = b"".join(LINES)


def test_what_was_written_is_read():
    found = read_sealed(DATA)
    assert (found.records, found.seal, found.size) == (RECORDS, SEAL, len(DATA))
    assert found.damaged is None
    assert read_sealed(b"").records == []


@given(st.integers(0, len(DATA)))
def test_file_that_was_cut_off_holds_its_whole_lines(size):
    found = read_sealed(DATA[:size])
    assert found.damaged is None
    assert found.records == RECORDS[: DATA[:size].count(b"\n")]
    assert found.size == sum(map(len, LINES[: len(found.records)]))
    assert next_line(found.seal, {"row": 9}) == next_line(lines_of(found.records)[1], {"row": 9})


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_byte_that_was_changed_is_noticed(position, change):
    changed = bytearray(DATA)
    changed[position] ^= change
    found = read_sealed(bytes(changed))
    line = DATA[:position].count(b"\n")
    assert found.records == RECORDS[:line]
    last_end = position == len(DATA) - 1  # the last line lacks its end now
    assert found.damaged == (None if last_end else line + 1)


@given(st.lists(st.integers(0, 3), max_size=6))
def test_lines_in_another_order_are_noticed(order):
    found = read_sealed(b"".join(LINES[i] for i in order))
    fit = 0
    while fit < len(order) and order[fit] == fit:
        fit += 1
    assert found.records == RECORDS[:fit]
    assert found.damaged == (None if fit == len(order) else fit + 1)


def test_lines_of_two_writers_do_not_mix():
    other, _ = lines_of([*RECORDS[:2], {"row": 2, "text": "of another"}, RECORDS[3]])
    found = read_sealed(b"".join([*LINES[:3], other[2], LINES[3]]))
    assert (found.records, found.damaged) == (RECORDS[:3], 4)
