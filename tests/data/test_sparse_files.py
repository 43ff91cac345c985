"""Sparse matrices in files, and columns of labels: read as they were written, or refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import carvegbm as cg
from carvegbm.data.files import files_of, load_table
from plain_trees import ensemble, refused, stump

X = sparse.csr_matrix(np.array([[0.5, 0, 0, -2], [0, 0, 1e-300, 0], [0, 0, 0, 0]]))
Y = np.array(["a", "b", "a"])


def saved(folder: Path, matrix: Any = X, name: str = "X_test.npz", **more: Any) -> Path:
    path = folder / name
    if not more:
        sparse.save_npz(path, matrix)
        return path
    sparse.save_npz(folder / "plain.npz", matrix)
    np.savez(path, **np.load(folder / "plain.npz"), **more)
    return path


def assert_reads(path: Any, **options: Any) -> None:
    table = load_table(path, sparse=True, **options)
    assert table.X.format == "csr"
    assert table.X.nnz == X.nnz
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    assert table.y.tolist() == Y.tolist()
    dense = load_table(path, **options)
    np.testing.assert_array_equal(dense.X, X.toarray())


# ── SciPy ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("make", ["matrix", "array"])
def test_every_format_that_scipy_saves_is_read(tmp_path, kind, make):
    np.save(tmp_path / "y_test.npy", Y)
    matrix = getattr(sparse, f"{kind}_{make}")(X)
    path = saved(tmp_path, matrix)
    table = load_table(path, sparse=True)
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    assert table.y.tolist() == Y.tolist()


def test_labels_are_beside_the_matrix_or_in_it_or_named(tmp_path):
    np.save(tmp_path / "y_test.npy", Y)
    assert_reads(saved(tmp_path))
    assert files_of(tmp_path / "X_test.npz") == [
        str(tmp_path / "X_test.npz"),
        str(tmp_path / "y_test.npy"),
    ]
    np.save(tmp_path / "labels.npy", Y)
    other = saved(tmp_path, name="matrix.npz")
    assert_reads(other, label=str(tmp_path / "labels.npy"))
    assert_reads(f"{other},{tmp_path / 'labels.npy'}")
    within = saved(tmp_path, name="both.npz", y=Y)
    assert_reads(within)
    assert files_of(within) == [str(within)]
    assert_reads(saved(tmp_path, name="named.npz", truth=Y), label="truth")


def test_matrix_may_be_compressed_and_name_its_features(tmp_path):
    path = saved(tmp_path, y=Y, feature_names=["a", "b", "c", "d"])
    packed = tmp_path / "X.npz.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    table = load_table(packed, sparse=True).ordered_as(["d", "a", "b", "c"])
    assert table.feature_names == ("d", "a", "b", "c")
    np.testing.assert_array_equal(table.X.toarray(), X.toarray()[:, [3, 0, 1, 2]])
    assert table.head(2).X.shape == (2, 4)


def test_float32_stays_float32_in_a_matrix(tmp_path):
    path = saved(tmp_path, X.astype(np.float32), y=Y)
    assert load_table(path, sparse=True).X.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": np.array([0, 9, 2], np.int32)}, ["damaged", "< 4"]),
        ({"indices": np.array([0, -1, 2], np.int32)}, ["damaged"]),
        ({"indptr": np.array([0, 2, 1, 3], np.int32)}, ["damaged"]),
        ({"indptr": np.array([0, 2], np.int32)}, ["damaged"]),
        ({"data": np.array(["a", "b", "c"])}, ["X.npz"]),
        ({"format": np.array(b"lol")}, ["lol"]),
        ({"y": Y[:2]}, ["X has 3 rows, y has the shape (2,)"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_matrix_that_cannot_be_is_refused(tmp_path, change, words):
    parts = dict(np.load(saved(tmp_path, y=Y)))
    path = tmp_path / "X.npz"
    np.savez(path, **parts | change)
    with refused(*words, kind=cg.DataError):
        load_table(path, sparse=True)


def test_matrix_without_labels_is_refused(tmp_path):
    with refused("no labels beside it", "LABELS.npy", kind=cg.DataError):
        load_table(saved(tmp_path))
    sparse.save_npz(tmp_path / "y_test.npz", X)
    with refused("y_test.npz", "must be in a .npy file", kind=cg.DataError):
        load_table(tmp_path / "X_test.npz")


def test_saved_witnesses_are_a_matrix_for_scipy(tmp_path):
    model = ensemble(stump(3, 0.5), n_features=4)
    rows = sparse.csr_matrix(np.array([[1, 0, 0, 0.45], [2.0, 0, 0, 3.0], [0, 0, 0, 0.55]]))
    found = cg.attack(model, rows, None, cg.Attacker("inf", 0.1))
    found.save(tmp_path / "z.npz")
    again = sparse.load_npz(tmp_path / "z.npz")
    np.testing.assert_array_equal(again.toarray(), found.witnesses.toarray())


def test_frame_of_sparse_witnesses_has_the_features_that_they_store():
    model = ensemble(stump(3, 0.5), n_features=10**6)
    data, columns = np.array([1.0, 0.45, 3.0]), np.array([70, 3, 3])
    rows = sparse.csr_matrix((data, (np.array([0, 0, 1]), columns)), shape=(2, 10**6))
    frame = cg.attack(model, rows, None, cg.Attacker("inf", 0.1)).to_frame()
    assert frame.columns[-2:].tolist() == ["witness 3", "witness 70"]
    assert frame["witness 70"][0] == 1
    assert frame[["witness 3", "witness 70"]].iloc[1].isna().all()


# ── LIBSVM ───────────────────────────────────────────────────────────────────────────────────


def test_libsvm_stays_sparse_where_that_is_asked_for(tmp_path):
    path = tmp_path / "data.libsvm"
    path.write_text("1 1:0.5 4:-2\n0 3:1e-300\n1\n")
    table = load_table(path, sparse=True, n_features=4)
    assert table.absent_is_zero
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    np.testing.assert_array_equal(load_table(path, n_features=4).X, X.toarray())


def test_libsvm_indices_may_go_far_in_a_sparse_matrix(tmp_path):
    path = tmp_path / "data.libsvm"
    path.write_text("1 1:0.5 2000000000:-2\n")
    assert load_table(path, sparse=True).X.shape == (1, 2 * 10**9)
    with refused("more than 16777216 columns", kind=cg.DataError):
        load_table(path)


# ── columns of labels ────────────────────────────────────────────────────────────────────────

CSV = "service,bytes,port,label\nhttp,0.5,80,x\n, 2,21,y\nft_p,1e3,80,x\n"


@pytest.mark.parametrize("categorical", [["service", "port"], [0, 2], [0, "port"]], ids=str)
def test_columns_of_labels_are_kept_as_they_stand(tmp_path, categorical):
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    table = load_table(path, categorical=categorical)
    assert table.X.columns == table.feature_names == ("service", "bytes", "port")
    assert table.X.column(0).tolist() == ["http", None, "ft_p"]
    assert table.X.column(1).tolist() == [0.5, 2, 1000]
    assert table.X.column(2).tolist() == ["80", "21", "80"]
    assert table.X[1:].shape == (2, 3)


def test_columns_of_labels_are_counted_where_they_have_no_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(CSV.partition("\n")[2])
    table = load_table(path, categorical=[0])
    assert table.feature_names is None
    assert table.X.column(0).tolist() == ["http", None, "ft_p"]
    with refused("a.csv", "unknown feature 'service'", kind=cg.DataError):
        load_table(path, categorical=["service"])


def test_text_in_another_column_is_still_refused_where_it_stands(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(CSV.replace("1e3", "many"))
    with refused("line 4, column 2 (bytes)", "'many' is not a number", kind=cg.DataError):
        load_table(path, categorical=["service", "port"])
    with refused("line 2, column 1 (service)", "'http' is not a number", kind=cg.DataError):
        load_table(path)


@pytest.mark.parametrize("kind", ["object", "category"])
def test_parquet_has_columns_of_labels(tmp_path, kind):
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"service": ["http", None], "bytes": [1.5, 2], "port": [80, 21]})
    frame["service"] = frame["service"].astype(kind)
    frame.assign(label=[0, 1]).to_parquet(path)
    table = load_table(path, categorical=["port", "service"])
    assert table.X.column(0).tolist() == ["http", None]
    assert table.X.column(2).tolist() == [80, 21]
    assert table.X.column(1).dtype == np.float64
    with refused("column 'service'", "must be numbers", kind=cg.DataError):
        load_table(path)
