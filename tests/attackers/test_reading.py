"""Columns of a table: numbers where all cells are numbers, else texts."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from carvegbm.attackers.reading import read_columns
from plain_trees import refused


def test_a_column_is_one_of_texts_if_one_cell_is(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("service,size,label,kind\nhttp,1,yes,a\n 7 ,?,no,?\n,1e3,no,a b\n")
    found = read_columns(path)
    assert found.names == ("service", "size", "kind")
    assert found.texts == {0: ["http", "7", None], 2: ["a", None, "a b"]}
    nothing = [math.nan] * 3
    np.testing.assert_array_equal(found.X.T, [nothing, [1, math.nan, 1000], nothing])


def test_a_table_of_numbers_is_what_it_was(tmp_path: Path) -> None:
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "data.npz", X=X, y=[0, 1, 0])
    found = read_columns(tmp_path / "data.npz")
    assert found.X.dtype == np.float32
    assert (found.names, found.texts) == (None, {})


def test_texts_without_a_header_go_by_position(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("0.5,tcp,1\n0.25,1_0,0\n")
    found = read_columns(tmp_path / "data.csv")
    assert found.names is None
    assert found.texts == {1: ["tcp", "1_0"]}
    assert found.X[:, 0].tolist() == [0.5, 0.25]


def test_the_label_column_is_taken_as_told(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("size,kind\n1,a\n2,b\n")
    assert read_columns(tmp_path / "data.csv", label="size").texts == {0: ["a", "b"]}
    assert read_columns(tmp_path / "data.csv", label="kind").texts == {}


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_parquet_has_texts_and_categories(tmp_path: Path, kind: str) -> None:
    columns = {"service": ["b", None, "a"], "size": [1, None, 3], "flag": [True, False, True]}
    frame = pd.DataFrame({**columns, "label": [0, 1, 0]}).astype({"service": kind})
    frame.to_parquet(tmp_path / "data.parquet")
    found = read_columns(tmp_path / "data.parquet")
    assert found.texts == {0: ["b", None, "a"]}
    np.testing.assert_array_equal(found.X[:, 1:], [[1, 1], [math.nan, 0], [3, 1]])


def test_what_is_neither_is_refused_by_name(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, day) for day in (1, 2)]
    frame = pd.DataFrame({"kind": ["a", "b"], "day": days, "label": [0, 1]})
    frame.to_parquet(tmp_path / "data.parquet")
    with refused("data.parquet", "'day'", "date", kind=cg.DataError):
        read_columns(tmp_path / "data.parquet")
    with refused("absent.csv: no such file", kind=cg.DataError):
        read_columns(tmp_path / "absent.csv")
    (tmp_path / "ragged.csv").write_text("a,b,label\n1,x,0\n1,0\n")
    with refused("ragged.csv", "line 3", kind=cg.DataError):
        read_columns(tmp_path / "ragged.csv")
