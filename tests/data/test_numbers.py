"""Every value that is verified is the value that was given; what is no number is refused."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import carvegbm as cg
from carvegbm.data.rows import as_rows, first_where
from plain_trees import ensemble, refused, stump

MODEL = ensemble(stump(0, 0.5), stump(1, 0.5, missing="left"), n_features=2)
DATE = np.datetime64("2024-01-01")


def rows(X):
    return MODEL.check_data(X).tolist()


# ── what is read ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1, 2], [3, 4]], dtype=">f8"),
        np.array([[1, 2], [3, 4]], dtype=">f4"),
        np.array([[1, 2], [3, 4]], dtype=">i4"),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=np.uint64),
        np.array([[1, 0, 2], [3, 0, 4]], dtype=float)[:, ::2],
        np.array([[1, 3], [2, 4]], dtype=float).T,
        np.array([[1, 2], [3, 4]]).view(np.matrix),
        np.array([[1, np.float32(2)], [3, np.uint8(4)]], dtype=object),
    ],
    ids=lambda X: f"{type(X).__name__} {X.dtype}",
)
def test_every_layout_and_precision_is_the_same_numbers(X):
    assert rows(X) == [[1, 2], [3, 4]]


def test_sparse_matrix_is_its_dense_one_explicit_zeros_and_all():
    sparse = pytest.importorskip("scipy.sparse")
    stored = sparse.csr_matrix(([0.0, 2.0], [0, 1], [0, 1, 2]), shape=(2, 2))
    assert stored.nnz == 2
    assert rows(stored) == [[0, 0], [0, 2]]


def test_masked_arrays_are_refused():
    hidden = np.ma.MaskedArray(np.ones((2, 2)), mask=[[0, 1], [0, 0]])
    for X in (hidden, [hidden[0], hidden[1]]):
        with refused("X is a masked array", kind=cg.DataError):
            MODEL.check_data(X)
    with refused("y is a masked array", kind=cg.DataError):
        MODEL.check_labels(np.ma.MaskedArray([0, 1], mask=[0, 1]), 2)


@pytest.mark.parametrize("label", [None, math.nan, "c", 1, ["a"]])
def test_label_that_is_missing_or_unknown_is_refused_where_it_stands(label):
    named = MODEL.with_classes(["a", "b"])
    y = np.array(["a", "b", None], dtype=object)
    y[2] = label
    with refused("unknown label", "row 2", kind=cg.DataError):
        named.check_labels(y, 3)
    assert named.check_labels(np.array(["b", "a"], dtype=object), 2).tolist() == [1, 0]


def test_labels_may_be_dates():
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    assert MODEL.with_classes(days).check_labels(days[::-1], 2).tolist() == [1, 0]


def test_null_of_any_frame_is_missing():
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"a": [1, 2], "b": [None, 1]}
    for kind in ("Int64", "Float64", "UInt8", "int64[pyarrow]", "double[pyarrow]", object):
        found = MODEL.check_data(pandas.DataFrame(columns, dtype=kind))
        np.testing.assert_array_equal(found, [[1, math.nan], [2, 1]])
    flags = pandas.DataFrame({"a": [True, False], "b": [None, True]}, dtype="boolean")
    np.testing.assert_array_equal(MODEL.check_data(flags), [[1, math.nan], [0, 1]])
    for kind in (pyarrow.int64(), pyarrow.float32(), pyarrow.uint8()):
        table = pyarrow.table({name: pyarrow.array(v, kind) for name, v in columns.items()})
        np.testing.assert_array_equal(MODEL.check_data(table), [[1, math.nan], [2, 1]])


def test_null_of_a_polars_frame_is_missing():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [True, False], "b": [None, 3]})
    np.testing.assert_array_equal(MODEL.check_data(frame), [[1, math.nan], [0, 3]])


def test_frame_of_several_types_keeps_every_number():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [2**53, -(2**60)], "b": np.float32([0.1, 0.2])})
    assert rows(frame) == [[2**53, np.float32(0.1)], [-(2**60), np.float32(0.2)]]
    flags = pandas.DataFrame({"a": [True, False], "b": [0.5, 1.5]})
    assert rows(flags) == [[1, 0.5], [0, 1.5]]


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.array([[DATE, DATE]]), ["dates", "datetime64"]),
        (np.array([[DATE - DATE, DATE - DATE]]), ["durations", "timedelta64"]),
        ([[datetime.date(2024, 1, 1), 1.0]], ["date objects"]),
        ([[datetime.timedelta(1), 1.0]], ["timedelta objects"]),
        (np.array([[DATE - DATE, 1]], dtype=object), ["timedelta64 objects"]),
        ([["1.5", "2"]], ["text"]),
        (np.array([[b"1", b"2"]]), ["text"]),
        (np.array([["1.5", 2.0]], dtype=object), ["str objects"]),
        (np.array([[np.ones(1), 2.0]], dtype=object), ["ndarray objects"]),
        (np.array([[1j, 2]]), ["complex"]),
        (np.zeros(2, dtype=[("a", float), ("b", float)]), ["two dimensions"]),
        (np.float64(1.0), ["two dimensions", "0"]),
        ({"a": [1.0], "b": [2.0]}, ["two dimensions"]),
        ([[2**53 + 1, 0]], [str(2**53 + 1), "double"]),
        (np.array([[0, -(2**63) + 1]]), [str(-(2**63) + 1)]),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), [str(2**64 - 1)]),
        (np.array([[0, 2**63 - 1], [1, 1]]), [str(2**63 - 1)]),
        (np.array([[2**53 + 1, 0.5]], dtype=object), [str(2**53 + 1)]),
        (np.array([[10**5000, 0.5]], dtype=object), ["beyond 1e30"]),
    ],
)
def test_what_is_no_number_of_ours_is_refused_in_one_line(X, words):
    with refused("X", *words, kind=cg.DataError):
        MODEL.check_data(X)


def test_column_that_is_no_number_is_refused_by_name():
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    cases = {
        "dates": pandas.to_datetime(["2024-01-01", "2024-01-02"]),
        "durations": pandas.to_timedelta([1, 2], unit="D"),
        "categories": pandas.Categorical([3, 4]),
        "str": ["1", "2"],
        "Timestamp": pandas.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("UTC"),
        "9007199254740993": [2**53 + 1, 0],
    }
    for word, values in cases.items():
        for other in ([0.5, 0.5], values):
            frame = pandas.DataFrame({"a": other, "b": values})
            with refused("X", "column", word, kind=cg.DataError):
                MODEL.check_data(frame)
    tables = {
        "categories": pyarrow.array([3, 4]).dictionary_encode(),
        "str": pyarrow.array(["1", "2"]),
        "dates": pyarrow.array([datetime.datetime(2024, 1, 1)] * 2),
        "9007199254740993": pyarrow.array([2**53 + 1, None]),
    }
    for word, values in tables.items():
        with refused("X", "column 'b'", word, kind=cg.DataError):
            MODEL.check_data(pyarrow.table({"a": [0.5, 0.5], "b": values}))


def test_values_are_looked_at_a_part_at_a_time():
    seen = []

    def nothing(part):
        seen.append(part.size)
        return np.zeros(part.shape, dtype=bool)

    for shape in ((5, 1 << 20), (1 << 20, 5), (3, 0), (0, 3)):
        assert first_where(np.broadcast_to(0.0, shape), nothing) is None
    assert max(seen) <= 1 << 20
    wide = np.zeros((3, 1 << 20))
    wide[2, 1] = wide[1, 7] = 1
    assert first_where(wide, lambda part: part > 0) == (1, 7)


# ── laws ─────────────────────────────────────────────────────────────────────────────────────


@given(
    hnp.arrays(
        st.sampled_from([np.int64, np.uint64, np.int32, np.float16, np.float32]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=3),
        elements=None,
    )
)
def test_numbers_are_kept_exactly_or_refused(X):
    model = ensemble(stump(0, 0.5, missing="left"), n_features=X.shape[1])
    kept = [np.isnan(v) or _exactly(v) == _exactly(np.float64(v)) for v in X.ravel()]
    if not all(kept):
        with pytest.raises(cg.DataError, match="double"):
            model.check_data(X, allow_infinite=True)
        return
    for value, found in zip(X.ravel(), model.check_data(X, allow_infinite=True).flat, strict=True):
        assert (np.isnan(value) and np.isnan(found)) or _exactly(value) == _exactly(found)


def _exactly(value):
    """The number as a whole one or as a ratio, whatever its type."""
    if isinstance(value, np.integer):
        return int(value), 1
    return value if np.isinf(value) else value.as_integer_ratio()


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "int64[pyarrow]", "uint64[pyarrow]"])
def test_a_whole_number_beside_a_null_is_not_rounded_unseen(kind):
    frame = pd.DataFrame({"a": pd.array([2**53 + 1, None], dtype=kind)})
    with refused("9007199254740993", "'a'"):
        as_rows(frame)
    fine = pd.DataFrame({"a": pd.array([2**53 + 2, None], dtype=kind)})
    np.testing.assert_array_equal(as_rows(fine), [[2.0**53 + 2], [np.nan]])
