"""Files some rows at a time: together they are the file, whatever the size of a batch."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.data import libsvm
from carvegbm.data.csv import label_kind, label_values
from carvegbm.data.files import count_rows, known_length, load_table, read_batches
from carvegbm.data.rows import ObjectTable
from carvegbm.data.sparse import is_sparse
from carvegbm.data.table import ReadOptions
from carvegbm.errors import DataError

SIZES = [1, 2, 7, 1000]


def dense(X: Any) -> Any:
    if isinstance(X, ObjectTable):
        return X.to_numpy()
    return X.toarray() if is_sparse(X) else np.asarray(X)


def same(path: Path | str, way: ReadOptions, size: int) -> int:
    """Hold the batches to the whole table; how many there are."""
    whole = load_table(path, **vars(way))
    parts = list(read_batches(str(path), way, size))
    assert all(part.X.shape[0] <= size for part in parts)
    assert all(1 <= part.X.shape[0] <= size for part in parts)
    for part in parts:
        assert part.feature_names == whole.feature_names
        assert part.label_name == whole.label_name
        assert part.absent_is_zero == whole.absent_is_zero
        assert type(part.X) is type(whole.X) or isinstance(part.X, np.ndarray)
        assert part.y.dtype.kind == whole.y.dtype.kind
        if not isinstance(whole.X, ObjectTable):
            assert part.X.dtype == whole.X.dtype
    X, y = np.vstack([dense(part.X) for part in parts]), np.concatenate([p.y for p in parts])
    expected = dense(whole.X)
    if X.dtype == object:
        assert [[repr(cell) for cell in row] for row in X.tolist()] == [
            [repr(cell) for cell in row] for row in expected.tolist()
        ]
    else:
        np.testing.assert_array_equal(X, expected)
    assert y.tolist() == whole.y.tolist()
    return len(parts)


def text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


NUMBERS = [f"{i / 8},{-i},{i % 3}" for i in range(23)]
CSVS = {
    "plain": text(NUMBERS),
    "header": text(["a,b,label", *NUMBERS]),
    "byte order mark": "\ufeff" + text(["a,b,label", *NUMBERS]),
    "no end of the last line": text(["a,b,label", *NUMBERS]).rstrip("\n"),
    "blank lines": text(["", "a,b,label", "", *NUMBERS[:5], "", "  ", *NUMBERS[5:], ""]),
    "missing cells": text(["a,b,label", *(f",{i},1" if i % 3 else "?,NaN,0" for i in range(23))]),
    "quotes": text(["a,b,label", *(f'"{i}",{i},"yes, {i % 2}"' for i in range(23))]),
    "windows": text(["a;b;label\r", *(f"{i};{i}.5;x{i % 2}\r" for i in range(23))]),
    "spaces": text([f"{i}  {i} {i % 2}" for i in range(23)]),
    "label first": text(["y,a,b", *(f"{i % 2},{i},{i}" for i in range(23))]),
    "a float at the end": text(["a,label", *(f"{i},{i}" for i in range(22)), "22,0.5"]),
    "a float at the start": text(["a,label", "1,1.0", *(f"{i},{i % 2}" for i in range(22))]),
    "a word at the end": text(["a,label", *(f"{i},{i % 2:02}" for i in range(22)), "22,no"]),
    "a word at the start": text(["a,label", "1,no", *(f"{i},{i % 2}" for i in range(22))]),
    "a large label": text(["a,label", *(f"{i},{i}" for i in range(22)), f"22,{1 << 63}"]),
    "an underscore": text(["a,label", *(f"{i},1_{i % 2}" for i in range(22))]),
    "widths of strings": text(["a,label", *(f"{i},{'x' * (i + 1)}" for i in range(22))]),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CSVS)
def test_csv_is_the_same_in_batches(tmp_path: Path, case: str, size: int) -> None:
    path = tmp_path / "data.csv"
    path.write_text(CSVS[case], encoding="utf-8", newline="")
    same(path, ReadOptions(), size)
    packed = tmp_path / "data.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    same(packed, ReadOptions(), size)


@pytest.mark.parametrize("size", SIZES)
def test_columns_of_categories_are_the_same_in_batches(tmp_path: Path, size: int) -> None:
    rows = [f"{i},{'' if i % 5 == 0 else i if i < 9 else 'w' + str(i)},{i % 2}" for i in range(20)]
    path = tmp_path / "data.csv"
    path.write_text(text(["a,kind,label", *rows]))
    way = ReadOptions(categorical=lambda _: [1])
    same(path, way, size)
    frame = pd.DataFrame(
        {"a": range(20), "kind": [None if i % 5 == 0 else f"k{i % 3}" for i in range(20)]}
    )
    for kind in ("str", "category"):
        table = frame.astype({"kind": kind}).assign(label=[i % 2 for i in range(20)])
        table.to_parquet(tmp_path / "data.parquet", row_group_size=6)
        same(tmp_path / "data.parquet", way, size)


LIBSVMS = {
    "one-based": text([f"{i % 2} 1:{i} 3:{i / 4}" for i in range(23)]),
    "a zero at the end": text([*(f"{i % 2} 1:{i} 3:{i / 4}" for i in range(22)), "1 0:5"]),
    "comments": text(["# first", "", *(f"{i % 2} 2:{i} # {i}" for i in range(23)), "# last"]),
    "labels alone": text(["1 1:2", *(f"{i % 2}" for i in range(20))]),
    "a fraction at the end": text([*(f"{i % 2} 1:{i}" for i in range(22)), "0.5 1:2"]),
    "query": text([f"{i % 2} qid:{i} 1:{i}" for i in range(22)]),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", LIBSVMS)
def test_libsvm_is_the_same_in_batches(tmp_path: Path, case: str, size: int, sparse: bool) -> None:
    path = tmp_path / "data.libsvm"
    path.write_text(LIBSVMS[case])
    same(path, ReadOptions(n_features=6, sparse=sparse), size)
    same(path, ReadOptions(n_features=6, sparse=sparse, zero_based=True), size)
    packed = tmp_path / "data.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    same(packed, ReadOptions(n_features=6, sparse=sparse), size)


FRAMES: dict[str, Callable[[], Any]] = {
    "doubles": lambda: pa.table({"a": np.arange(23.0), "label": [i % 2 for i in range(23)]}),
    "singles": lambda: pa.table(
        {"a": pa.array(np.arange(23), pa.float32()), "b": pa.array([True] * 23), "y": ["x"] * 23}
    ),
    "nulls at the end": lambda: pa.table(
        {"a": pa.array([*range(20), None, 5, None], pa.int64()), "y": [0.5] * 23}
    ),
    "words": lambda: pa.table({"a": range(23), "y": [f"w{i}" for i in range(23)]}),
    "dictionary": lambda: pa.table(
        {"a": range(23), "y": pa.array([f"w{i % 3}" for i in range(23)]).dictionary_encode()}
    ),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", FRAMES)
@pytest.mark.parametrize("group", [4, 100])
def test_parquet_is_the_same_in_batches(tmp_path: Path, case: str, size: int, group: int) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(FRAMES[case](), path, row_group_size=group)
    same(path, ReadOptions(), size)


def test_the_index_of_a_frame_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]}, index=[7, 5, 6])
    frame.to_parquet(tmp_path / "data.parquet")
    assert same(tmp_path / "data.parquet", ReadOptions(), 2) == 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["<f8", "<f4", "<i8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_the_same_in_batches(tmp_path: Path, kind: str, order: str, size: int) -> None:
    X = np.asarray(np.arange(46).reshape(23, 2) % 5, dtype=kind, order=order)  # type: ignore[call-overload]
    y = np.arange(23) % 3
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    same(tmp_path / "X.npy", ReadOptions(), size)
    same(f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}", ReadOptions(), size)
    packed = tmp_path / "X.npy.gz"
    packed.write_bytes(gzip.compress((tmp_path / "X.npy").read_bytes()))
    same(packed, ReadOptions(label=str(tmp_path / "y.npy")), size)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    same(tmp_path / "data.npz", ReadOptions(), size)
    np.savez_compressed(tmp_path / "packed.npz", X=X, y=y, feature_names=["a", "b"])
    same(tmp_path / "packed.npz", ReadOptions(), size)


@pytest.mark.parametrize("size", SIZES)
def test_sparse_matrices_are_the_same_in_batches(tmp_path: Path, size: int) -> None:
    X = scipy.sparse.random(23, 5, density=0.3, format="csr", random_state=0)
    scipy.sparse.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", np.arange(23))
    same(tmp_path / "X.npz", ReadOptions(sparse=True), size)


def test_rows_that_store_few_values_may_be_more_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.libsvm"
    path.write_text(LIBSVMS["one-based"])

    def sizes(**way: Any) -> list[int]:
        return [
            len(part.y) for part in read_batches(str(path), ReadOptions(n_features=6, **way), 2, 10)
        ]

    assert sizes(sparse=True) == [10, 10, 3]
    assert max(sizes()) == 2
    monkeypatch.setattr(libsvm, "_BYTES_AT_ONCE", 20)  # two lines are more
    assert max(sizes(sparse=True)) == 2


@given(st.lists(st.sampled_from(["1", "02", "-3", "1.5", "1e3", "inf", "1_0", "x", "9" * 20])))
def test_the_kind_of_labels_is_that_of_all_of_them(labels: list[str]) -> None:
    kind = label_kind(labels)
    whole = label_values(labels)
    for cut in range(len(labels) + 1):
        parts = [label_values(part, kind) for part in (labels[:cut], labels[cut:]) if part]
        assert [v for part in parts for v in part.tolist()] == whole.tolist()


# ── lengths ──────────────────────────────────────────────────────────────────────────────────


def test_lengths(tmp_path: Path) -> None:
    files: dict[str, int | None] = {"X.npy": 23, "t.parquet": 23, "t.csv": None, "t.svm": None}
    files["t.npz"] = None
    np.save(tmp_path / "X.npy", np.zeros((23, 2)))
    np.savez(tmp_path / "t.npz", X=np.zeros((23, 2)), y=np.zeros(23))
    pq.write_table(FRAMES["doubles"](), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(CSVS["blank lines"])
    (tmp_path / "t.svm").write_text(LIBSVMS["comments"])
    for name, known in files.items():
        path = str(tmp_path / name)
        assert known_length(path, ReadOptions()) == known
        assert count_rows(path, ReadOptions(), 1000) == 23
        assert count_rows(path, ReadOptions(), 5) == 5


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────

MISTAKES = {
    "not a number": text(["a,b,label", *NUMBERS, "1,high,2"]),
    "a cell too many": text(["a,b,label", *NUMBERS, "1,2,3,4"]),
    "no label": text(["a,b,label", *NUMBERS, "1,2,"]),
    "beyond the features": text([*LIBSVMS["one-based"].splitlines(), "1 17:2"]),
    "infinite label": text([*LIBSVMS["one-based"].splitlines(), "inf 1:2"]),
    "empty": "",
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_those_of_the_whole_file(tmp_path: Path, case: str, size: int) -> None:
    path = tmp_path / "data.txt"
    path.write_text(MISTAKES[case])
    way = ReadOptions(n_features=6)
    with pytest.raises(DataError) as whole:
        load_table(path, **vars(way))
    with pytest.raises(DataError) as parts:
        list(read_batches(str(path), way, size))
    assert str(parts.value) == str(whole.value)


def test_index_zero_of_one_based_indices_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(LIBSVMS["a zero at the end"])
    with pytest.raises(DataError, match="index 0 occurs"):
        list(read_batches(str(path), ReadOptions(n_features=6, zero_based=False), 4))


def test_a_missing_label_in_parquet_names_its_row(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": range(9), "y": [1] * 7 + [None, 1]}), path)
    with pytest.raises(DataError, match="row 7: the label in column 'y' is missing"):
        list(read_batches(str(path), ReadOptions(), 3))


def test_labels_of_another_length_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((4, 2)))
    np.save(tmp_path / "y.npy", np.zeros(5))
    with pytest.raises(DataError, match=r"X has 4 rows, y has the shape \(5,\)"):
        list(read_batches(str(tmp_path / "X.npy"), ReadOptions(), 2))


@pytest.mark.parametrize("damage", [b"PAR1 and nothing", gzip.compress(b"a,b\n1,2\n" * 99)[:-30]])
def test_damaged_files_are_one_line(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "data").write_bytes(damage)
    with pytest.raises(DataError, match="damaged"):
        list(read_batches(str(tmp_path / "data"), ReadOptions(), 2))


def test_no_rows_are_no_batches(tmp_path: Path) -> None:
    pq.write_table(FRAMES["doubles"]().slice(0, 0), tmp_path / "data.parquet")
    (tmp_path / "data.csv").write_text("a,label\n")
    for name in ("data.parquet", "data.csv"):
        assert list(read_batches(str(tmp_path / name), ReadOptions(), 2)) == []


@pytest.mark.parametrize("suffix", ["csv", "libsvm", "parquet"])
def test_memory_is_that_of_a_batch(tmp_path: Path, suffix: str) -> None:
    """Six times the rows, the same memory of Python and NumPy."""

    def most(rows: int) -> int:
        path = tmp_path / f"{rows}.{suffix}"
        if suffix == "parquet":
            a = np.arange(rows, dtype=float)
            pq.write_table(
                pa.table({"a": a, "b": a, "label": [1] * rows}), path, row_group_size=999
            )
        elif suffix == "csv":
            path.write_text(text(["a,b,label", *(f"{i},{i},{i % 2}" for i in range(rows))]))
        else:
            path.write_text(text([f"{i % 2} 1:{i} 2:{i}" for i in range(rows)]))
        tracemalloc.start()
        assert (
            sum(len(part.y) for part in read_batches(str(path), ReadOptions(n_features=2), 100))
            == rows
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(200)  # what is imported is imported
    assert most(60_000) < 1.2 * most(10_000)
