"""What people read: shares that are what they say, text that hides nothing."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.storage.text import on_one_line, percent, percent_interval, visible


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_share_is_all_or_nothing_only_if_it_is(part: int, whole: int) -> None:
    part = min(part, whole)
    shown = percent(part, whole)
    assert (shown == "100 %") == (part == whole)
    assert (shown == "0 %") == (part == 0)


def test_intervals_are_rounded_outward():
    rng = np.random.default_rng(0)
    for n in (3, 7, 1000, 12345):
        robust, open_ = rng.integers(0, n // 2, 2)
        lower, upper = robust / n, (robust + open_ + 1) / n
        low, high = (
            float(end.removesuffix(" %")) for end in percent_interval(lower, upper).split(" to ")
        )
        assert low <= 100 * lower + 1e-6
        assert high >= 100 * upper - 1e-6
        assert high - low <= 100 * (upper - lower) + 0.2


@pytest.mark.parametrize("kind", ["Cc", "Cs", "Zl", "Zp"])
def test_no_character_of_these_kinds_is_left_but_lines_and_tabs(kind):
    given = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c) == kind)
    left = {c for c in visible(given) if unicodedata.category(c) == kind}
    assert left <= {"\n", "\t"}
    assert {c for c in on_one_line(given) if unicodedata.category(c) == kind} == set()


def test_marks_that_turn_the_direction_of_writing_are_spelled_out():
    turned = [c for c in map(chr, range(0x10000)) if unicodedata.bidirectional(c) in TURNS]
    assert len(turned) >= 9
    assert all(visible(c) == f"\\u{ord(c):04x}" for c in turned)


TURNS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


def test_a_json_document_says_the_same_after_it():
    said = {"na\u202eme": ["\x1b[31m", "zwei\nZeilen", "\ufeff", "plain"]}
    assert json.loads(visible(json.dumps(said, ensure_ascii=False))) == said
