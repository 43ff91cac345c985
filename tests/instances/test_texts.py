"""Columns of texts in tables: taken where they are asked for, refused otherwise."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from carvegbm.errors import DataError
from carvegbm.instances.tabular import load_table
from plain_trees import refused

ROWS = "service,size,label,kind\nhttp,1,yes,a\n 7 ,2,no,?\n, 3,no,a b\n"


@pytest.fixture(params=["plain", "packed"], name="path")
def a_file(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    text = ROWS.encode()
    path.write_bytes(text if request.param == "plain" else gzip.compress(text))
    return path


def test_a_column_with_a_text_is_one_of_texts_from_its_first_row_on(path: Path) -> None:
    table = load_table(path, texts=True)
    assert table.texts == {0: ["http", "7", None], 2: ["a", None, "a b"]}
    np.testing.assert_array_equal(table.X[:, 1], [1, 2, 3])
    assert np.isnan(table.X[:, [0, 2]]).all()
    assert table.y.tolist() == ["yes", "no", "no"]
    assert table.feature_names == ("service", "size", "kind")
    assert table.by_label


def test_texts_are_refused_unless_they_are_asked_for(path: Path) -> None:
    with refused("line 2, column 1 (service)", "'http' is not a number", kind=DataError):
        load_table(path)


def test_texts_without_a_header_go_by_position(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text('0.5;"a;b";1\n0.25;c;0\n')
    table = load_table(tmp_path / "data.csv", texts=True)
    assert table.texts == {1: ["a;b", "c"]}
    assert table.X[:, 0].tolist() == [0.5, 0.25]


def test_texts_follow_their_columns_and_rows(path: Path) -> None:
    table = load_table(path, texts=True).ordered_as(["kind", "service", "size"]).head(2)
    assert table.texts == {0: ["a", None], 1: ["http", "7"]}
    np.testing.assert_array_equal(table.X[:, 2], [1, 2])


def test_a_table_of_numbers_has_no_texts(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b,label\n1,?,0\n2,nan,1\n")
    table = load_table(tmp_path / "data.csv", texts=True)
    assert table.texts == {}
    np.testing.assert_array_equal(table.X, [[1, math.nan], [2, math.nan]])


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_parquet_has_texts_and_categories(tmp_path: Path, kind: str) -> None:
    frame = pd.DataFrame({"service": ["b", None, "a"], "size": [1, 2, 3], "label": [0, 1, 0]})
    frame.astype({"service": kind}).to_parquet(tmp_path / "data.parquet")
    table = load_table(tmp_path / "data.parquet", texts=True)
    assert table.texts == {0: ["b", None, "a"]}
    np.testing.assert_array_equal(table.X, [[math.nan, 1], [math.nan, 2], [math.nan, 3]])
    with refused("data.parquet", "service", kind=DataError):
        load_table(tmp_path / "data.parquet")


def test_arrays_hold_codes(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.zeros((2, 1)), y=np.zeros(2))
    assert not load_table(tmp_path / "data.npz").by_label
