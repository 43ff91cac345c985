"""Tables are read as they are written, whatever the format, and every mistake has a place."""

from __future__ import annotations

import builtins
import gzip
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.data.files import load_table
from carvegbm.errors import DataError
from plain_trees import refused

X = np.array([[0.5, 1.0, -2.0], [math.nan, 2.5, 1e-300]])
HEADER_CSV = "width,height,depth,label\n0.5,1,-2,1\n,2.5,1e-300,0\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_reads(path: Path | str, y: list[Any] | None = None, **options: Any) -> None:
    table = load_table(path, **options)
    np.testing.assert_array_equal(table.X, X)
    assert table.y.tolist() == ([1, 0] if y is None else y)


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────


def test_csv_with_a_header_gives_names_and_takes_the_label_by_its_name(tmp_path: Path) -> None:
    table = load_table(write(tmp_path / "a.csv", HEADER_CSV))
    np.testing.assert_array_equal(table.X, X)
    assert table.X.dtype == np.float64
    assert table.y.tolist() == [1, 0]
    assert table.y.dtype.kind == "i"
    assert table.feature_names == ("width", "height", "depth")
    assert table.label_name == "label"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", ", "])
def test_csv_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    assert_reads(write(tmp_path / "a.txt", HEADER_CSV.replace(",", delimiter)))


def test_runs_of_spaces_separate_cells(tmp_path: Path) -> None:
    assert_reads(write(tmp_path / "a.txt", "  0.5  1 -2   1\n nan 2.5 1e-300 0\n"))


@pytest.mark.parametrize("label", ["Label", "TARGET", "class", "y"])
def test_usual_label_names_are_found_anywhere(tmp_path: Path, label: str) -> None:
    text = f"width,{label},height,depth\n0.5,1,1,-2\n,0,2.5,1e-300\n"
    assert_reads(write(tmp_path / "a.csv", text))


def test_without_a_header_the_last_column_is_the_label(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "0.5,1,-2,1\n,2.5,1e-300,0\n")
    assert_reads(path)
    assert load_table(path).feature_names is None


@pytest.mark.parametrize("label", [1, "1", -3, "-3"])
def test_label_column_by_position(tmp_path: Path, label: str | int) -> None:
    assert_reads(write(tmp_path / "a.csv", "0.5,1,1,-2\n,0,2.5,1e-300\n"), label=label)


def test_label_column_by_name(tmp_path: Path) -> None:
    text = "width,height,outcome,depth\n0.5,1,1,-2\n,2.5,0,1e-300\n"
    assert_reads(write(tmp_path / "a.csv", text), label="outcome")


def test_string_labels_survive_with_and_without_header(tmp_path: Path) -> None:
    rows = "0.5,1,-2,setosa\n,2.5,1e-300,none\n"
    assert_reads(write(tmp_path / "a.csv", rows), y=["setosa", "none"])
    assert_reads(write(tmp_path / "b.csv", "a,b,c,label\n" + rows), y=["setosa", "none"])


def test_no_first_row_is_lost_when_a_string_label_looks_like_a_column_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "0.5,1,-2,y\n,2.5,1e-300,n\n")
    assert_reads(path, y=["y", "n"])


def test_header_of_numbers_as_pandas_writes_it(tmp_path: Path) -> None:
    assert_reads(write(tmp_path / "a.csv", "0,1,2,label\n0.5,1,-2,1\n,2.5,1e-300,0\n"))


def test_quotes_blank_lines_carriage_returns_and_byte_order_mark(tmp_path: Path) -> None:
    text = '\ufeff"width","height, total",depth,label\r\n0.5,"1",-2,1\r\n\r\n,2.5,1e-300,0\r\n'
    path = write(tmp_path / "a.csv", text)
    assert_reads(path)
    assert load_table(path).feature_names == ("width", "height, total", "depth")


@pytest.mark.parametrize("cell", ["", "nan", "NaN", "NA", "?", "  "])
def test_missing_cells_are_nan(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path / "a.csv", f"a,b,label\n1,{cell},0\n")
    assert math.isnan(load_table(path).X[0, 1])


def test_long_file_is_read_whole(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 4))
    lines = "\n".join(",".join(map(repr, row)) + f",{i % 3}" for i, row in enumerate(rows.tolist()))
    table = load_table(write(tmp_path / "a.csv", lines))
    np.testing.assert_array_equal(table.X, rows)
    assert table.y.tolist() == [i % 3 for i in range(500)]


@given(st.lists(st.tuples(*[st.floats(allow_infinity=False)] * 3), min_size=1, max_size=5))
def test_every_double_survives_csv(tmp_path_factory: Any, rows: list[tuple[float, ...]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text("".join(f"{a!r};{b!r};{c!r};0\n" for a, b, c in rows))
    np.testing.assert_array_equal(load_table(path).X, np.array(rows))


# ── LIBSVM ───────────────────────────────────────────────────────────────────────────────────


def test_libsvm_one_based_takes_its_width_from_the_caller(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "+1 1:0.5 3:2 # note\n-1 2:1e-300\n\n")
    table = load_table(path, n_features=4)
    assert table.X.tolist() == [[0.5, 0, 2, 0], [0, 1e-300, 0, 0]]
    assert table.y.tolist() == [1, -1]
    assert load_table(path).X.shape == (2, 3)


def test_libsvm_with_an_index_0_is_zero_based(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "1 0:0.5 2:2\n2.5 1:3\n")
    table = load_table(path, n_features=3)
    assert table.X.tolist() == [[0.5, 0, 2], [0, 3, 0]]
    assert table.y.tolist() == [1.0, 2.5]


def test_libsvm_can_be_told_to_be_zero_based(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "1 1:0.5\n")
    assert load_table(path, n_features=2, zero_based=True).X.tolist() == [[0, 0.5]]
    assert load_table(path, n_features=2).X.tolist() == [[0.5, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n0 1:x\n", "rows 1 and later: not LIBSVM text: could not convert"),
        ("1 1:2\n1 2:3 1:4\n", "sorted"),
        ("1 1:2 9:1\n", "index 9 is beyond the model's 4 features"),
        ("1 0:2 4:1\n", "index 4 is beyond the model's 4 features"),
    ],
)
def test_libsvm_mistakes_have_a_place(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "a.svm", text)
    with pytest.raises(DataError) as caught:
        load_table(path, n_features=4)
    assert message in one_line(caught.value)


# ── NumPy and Parquet ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("names", [("X", "y"), ("X_test", "y_test")])
def test_npz_pairs(tmp_path: Path, names: tuple[str, str]) -> None:
    np.savez_compressed(tmp_path / "a.npz", **{names[0]: X, names[1]: [1, 0], "other": 3})
    assert_reads(tmp_path / "a.npz")


def test_npz_label_names_the_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=[5, 5], z=[1, 0], X7=X + 1, y7=[2, 2])
    assert_reads(tmp_path / "a.npz", label="z")
    assert load_table(tmp_path / "a.npz", label="y7").X[0, 0] == 1.5


def test_npy_arrays_stay_on_disk(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.asfortranarray(X), y=np.array(["p", "n"]))
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", [1, 0])
    assert isinstance(load_table(tmp_path / "X.npy").X, np.memmap)
    assert_reads(tmp_path / "a.npz", y=["p", "n"])
    assert load_table(tmp_path / "X.npy").X.dtype == np.float32


def test_npy_labels_beside_named_or_after_a_comma(tmp_path: Path) -> None:
    np.save(tmp_path / "X_test.npy", X)
    np.save(tmp_path / "y_test.npy", [[1], [0]])
    np.save(tmp_path / "other.npy", [0, 1])
    assert_reads(tmp_path / "X_test.npy")
    assert_reads(tmp_path / "X_test.npy", y=[0, 1], label=str(tmp_path / "other.npy"))
    assert_reads(f"{tmp_path / 'X_test.npy'},{tmp_path / 'other.npy'}", y=[0, 1])


def test_integers_become_doubles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.array([[1, 2]], dtype=np.uint8), y=[0])
    table = load_table(tmp_path / "a.npz")
    assert table.X.dtype == np.float64
    assert table.X.tolist() == [[1, 2]]


def parquet(path: Path, **columns: Any) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    return path


def test_parquet(tmp_path: Path) -> None:
    columns = {"width": [0.5, None], "class": ["a", "b"], "height": [1, 2.5], "depth": X[:, 2]}
    path = parquet(tmp_path / "a", **columns)
    assert_reads(path, y=["a", "b"])
    assert load_table(path).feature_names == ("width", "height", "depth")


def test_parquet_float_labels_are_not_rounded(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a", width=[1.0], label=[1.5])
    assert load_table(path).y.tolist() == [1.5]


def test_parquet_with_text_in_a_feature_names_the_column(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a", colour=["red"], label=[1])
    with pytest.raises(DataError, match="column 'colour', must be numbers, it holds str objects"):
        load_table(path)


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", b"PAR1" + bytes(20))
    real = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DataError, match=r"needs pyarrow; pip install"):
        load_table(path)


# ── compression, names, mistakes ─────────────────────────────────────────────────────────────


def test_gzip_is_transparent_and_names_do_not_matter(tmp_path: Path) -> None:
    assert_reads(write(tmp_path / "a.bin", gzip.compress(HEADER_CSV.encode(), mtime=0)))
    svm = write(tmp_path / "b", gzip.compress(b"1 1:0.5 2:1 3:-2\n0 1:nan 2:2.5 3:1e-300\n"))
    assert_reads(svm)
    np.savez(tmp_path / "c.npz", X=X, y=[1, 0])
    assert_reads(write(tmp_path / "c", gzip.compress((tmp_path / "c.npz").read_bytes())))


def test_columns_follow_the_models_names(tmp_path: Path) -> None:
    table = load_table(write(tmp_path / "a.csv", "big b,a,label\n2,1,0\n"))
    assert table.ordered_as(("a", "big_b")).X.tolist() == [[1, 2]]
    assert table.ordered_as(None).X.tolist() == [[2, 1]]
    assert table.ordered_as(("Column_0", "Column_1")).X.tolist() == [[2, 1]]


def test_columns_that_do_not_fit_the_models_names_are_refused(tmp_path: Path) -> None:
    table = load_table(write(tmp_path / "a.csv", "big b,a,label\n2,1,0\n"))
    for names in (("a", "c"), ("a",), ("a", "big_b", "c")):
        with pytest.raises(DataError, match=r"a.csv (lacks 'c'|has the unexpected 'big b')"):
            table.ordered_as(names, "a.csv")


def test_header_of_numbers_goes_by_position(tmp_path: Path) -> None:
    table = load_table(write(tmp_path / "a.csv", "0,1,label\n2,1,0\n"))
    assert table.feature_names == ("0", "1")
    assert table.ordered_as(("a", "b")).X.tolist() == [[2, 1]]


def npy(array: npt.ArrayLike) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def one_line(error: DataError) -> str:
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"\n \n", "empty file"),
        (gzip.compress(b"", mtime=0), "empty file"),
        (gzip.compress(HEADER_CSV.encode(), mtime=0)[:-12], "damaged file"),
        (b"\x7fELF\0\0\0\0", "not a table"),
        (b"a,b,label\n1,\xff,0\n", "not UTF-8 text"),
        (b"a,b,label\n", "has no rows"),
        (b"1\n2\n", "has 1 column; features and a label are needed"),
        (b"a,b,label\n1,2,0\n1,red,0\n", "line 3, column 2 (b): 'red' is not a number"),
        (b"1,2,0\n1,1_0,0\n", "line 2, column 2: '1_0' is not a number"),
        (b"label,a,b\n1,2,0\n1,2,x\n", "line 3, column 3 (b): 'x' is not a number"),
        (b"a,b,label\n1,2,0\n\n1,2\n", "line 4 has 2 cells, line 1 has 3"),
        (b"mean a,mean b,label\n1,2\n", "line 2 has 2 cells, line 1 has 3"),
        (b"a,b,label\n1,2,\n", "line 2, column 3: the label is missing"),
        (b"PK\x03\x04 and so on", "damaged file"),
        (b"\x93NUMPY", "no labels beside it"),
    ],
)
def test_mistakes_are_named_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path / "data", content)
    with pytest.raises(DataError) as caught:
        load_table(path)
    assert one_line(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("colour", "no column is called 'colour'; the columns are width, height, depth, label"),
        ("7", "label column 7 is not in 0…3"),
        (-5, "label column -5 is not in 0…3"),
    ],
)
def test_unknown_label_column_lists_what_is_there(
    tmp_path: Path, label: str | int, message: str
) -> None:
    path = write(tmp_path / "a.csv", HEADER_CSV)
    with pytest.raises(DataError) as caught:
        load_table(path, label=label)
    assert message in one_line(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"data": X}, "holds the arrays data; X and y, or X_test and y_test, are needed"),
        ({"X": X, "y": [1]}, "X has 2 rows, y has the shape (1,)"),
        ({"X": X[0], "y": [1, 0, 1]}, "reshape it to (rows, features)"),
        ({"X": X.astype(str), "y": [1, 0]}, "X must be numbers, it holds text"),
        ({"X": X, "y": np.array([1, None])}, "Object arrays"),
        ({"X": np.empty((0, 3)), "y": np.empty(0)}, "has no rows"),
    ],
)
def test_npz_mistakes(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    with pytest.raises(DataError) as caught:
        load_table(tmp_path / "a.npz")
    assert message in one_line(caught.value)


def test_missing_folder_and_truncated_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load_table(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="is a folder"):
        load_table(tmp_path)
    write(tmp_path / "X.npy", npy(X)[:-8])
    write(tmp_path / "y.npy", npy([1, 0]))
    with pytest.raises(DataError, match="not a readable array"):
        load_table(tmp_path / "X.npy")
    with pytest.raises(DataError, match=r"absent\.npy: no such file"):
        load_table(f"{tmp_path / 'X.npy'},{tmp_path / 'absent.npy'}")


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, X=X, y=[1, 0])
    return buffer.getvalue()


SEEDS = [
    b"",
    HEADER_CSV.encode(),
    b"1 1:0.5 2:1\n0 2:2\n",
    gzip.compress(HEADER_CSV.encode(), mtime=0),
    npy(X),
    npz(),
    b"PAR1",
]


@given(st.sampled_from(SEEDS), st.integers(0, 400), st.integers(0, 40), st.binary(max_size=20))
def test_damaged_files_cause_nothing_but_a_data_error(
    tmp_path_factory: Any, seed: bytes, start: int, length: int, inserted: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "X"
    path.write_bytes(seed[:start] + inserted + seed[start + length :])
    write(path.with_name("y"), npy([1, 0]))
    try:
        load_table(path, n_features=3)
    except DataError as error:
        one_line(error)


def test_a_feature_taken_for_the_label_is_pointed_out(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("outcome,age,mean area\n0,1.0,2.0\n1,3.0,4.0\n")
    with refused("'mean area' was taken for the label", "--label", "'outcome'"):
        load_table(path).ordered_as(["age", "mean_area"], "data.csv")


def test_a_column_without_a_name_may_be_an_index(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(",age,label\n0,1.0,0\n1,3.0,1\n")
    with refused("unexpected ''", "index=False"):
        load_table(path).ordered_as(["age"], "data.csv")


@pytest.mark.parametrize(
    ("text", "chosen", "words"),
    [
        ("a,b,label\n1,x,0\n2,y,1\n", [-1], ["feature -1", "0…1"]),
        ("a,b,label\n1,x,0\n2,y,1\n", [2], ["feature 2", "0…1"]),
        ("1,2,0\n3,4,1\n", [2], ["feature 2", "0…1"]),
        ("1,2,0\n3,4,1\n", [-1], ["feature -1"]),
        ("1 1:3 2:4\n0 1:5\n", [0], ["numbers", "CSV or Parquet"]),
    ],
)
def test_categorical_features_that_cannot_be_are_refused(tmp_path, text, chosen, words):
    path = tmp_path / "data.txt"
    path.write_text(text)
    with refused(str(path), *words, kind=DataError):
        load_table(path, categorical=chosen)
