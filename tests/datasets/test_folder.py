"""Datasets in a local folder: every layout that docs/datasets.md promises, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pytest

from carvegbm import datasets
from carvegbm.errors import DataError
from datasets.small_files import idx_bytes, images, libsvm_text, write_idx
from plain_trees import refused

WEBSPAM = "webspam_wc_normalized_unigram.svm"


def local(name, folder):
    return datasets.load(name, folder=folder, download=False)


# ── Images ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "place", "labels"),
    [
        ("fmnist", "fashion-mnist", (0, 3)),
        ("fmnist", "fmnist", (0, 3)),
        ("fmnist", "FashionMNIST/raw", (0, 3)),
        ("mnist", "mnist", (2, 6)),
        ("mnist", "MNIST/raw", (2, 6)),
    ],
)
def test_idx_files_give_both_parts_two_classes_and_pixels_over_255(
    name, place, labels, packed, tmp_path
):
    X, y = write_idx(tmp_path / place, packed)
    data = local(name, tmp_path)
    keep = np.isin(y, labels)
    assert np.array_equal(data.X, X[keep] / 255)
    assert np.array_equal(data.y, y[keep] == labels[1])
    assert data.classes == tuple(map(str, labels))
    assert data.image_shape == (28, 28)
    assert "idx" in data.source


def test_only_the_folder_s_name_tells_the_two_image_sets_apart(tmp_path):
    write_idx(tmp_path / "mnist")
    assert len(local("mnist", tmp_path / "mnist").y) == 20
    with refused("fmnist", "is not in", kind=DataError):
        local("fmnist", tmp_path / "mnist")
    write_idx(tmp_path / "data")
    with refused("mnist", "is not in", kind=DataError):
        local("mnist", tmp_path / "data")


def test_source_says_how_much_of_the_set_is_there_and_not_where_it_lies(tmp_path):
    write_idx(tmp_path / "mnist")
    source = local("mnist", tmp_path).source
    assert "20 of 13,866 rows" in source
    assert str(tmp_path) not in source


def test_incomplete_image_set_is_refused_and_not_replaced_by_a_download(tmp_path):
    write_idx(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with refused("mnist", "lacks t10k-labels-idx1-ubyte", "all four", kind=DataError):
        datasets.load("mnist", folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["not an idx file"]),
        (b"\x89PNG and more of that, long enough", ["not an idx file"]),
        (b"\x1f\x8b\x08 not gzip after all", ["damaged"]),
        (gzip.compress(idx_bytes(np.zeros((5, 28, 28))), mtime=0)[:-9], ["damaged"]),
        (idx_bytes(np.zeros((5, 28, 28)))[:-1], ["3,919", "3,920"]),
        (idx_bytes(np.zeros((5, 28, 28))) + b"x", ["3,921", "3,920"]),
        (idx_bytes(np.zeros(5)), ["not an idx file"]),
        (idx_bytes(np.zeros((5, 28, 28, 1))), ["4 dimensions", "3 are needed"]),
        (idx_bytes(np.zeros((40, 8, 8))), ["8 × 8", "784"]),
        (idx_bytes(images(39)[0]), ["40 labels for 39 images"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_damaged_idx_file_is_refused_by_name(content, words, tmp_path):
    write_idx(tmp_path / "mnist", packed=False)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(content)
    with refused("t10k-", *words, kind=DataError):
        local("mnist", tmp_path)


@pytest.mark.parametrize("place", ["fmnist.npz", "tabular/fashion-mnist.npz"])
@pytest.mark.parametrize("kind", ["bytes", "scaled", "text labels"])
def test_npz_gives_the_same_as_idx_files(place, kind, tmp_path):
    X, y = write_idx(tmp_path / "idx" / "fashion-mnist")
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    np.savez(path, X=X / 255 if kind == "scaled" else X, y=y.astype(str) if "text" in kind else y)
    expected = local("fmnist", tmp_path / "idx")
    data = local("fmnist", tmp_path)
    assert np.array_equal(data.X, expected.X)
    assert np.array_equal(data.y, expected.y)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: {"X": X, "labels": y}, ["X and y"]),
        (lambda X, y: {"X": X.reshape(-1, 28, 28), "y": y}, ["(100, 28, 28)", "reshape"]),
        (lambda X, y: {"X": X[:, :700], "y": y}, ["700 features", "784"]),
        (lambda X, y: {"X": X * 2.0, "y": y}, ["510", "0 to 255"]),
        (lambda X, y: {"X": X - 1.0, "y": y}, ["-1", "0 to 255"]),
        (lambda X, y: {"X": np.where(X == 255, np.nan, X), "y": y}, ["not finite"]),
        (lambda X, y: {"X": X, "y": y % 3}, ["no row with the label 6"]),
        (lambda X, y: {"X": X, "y": np.where(y == 2, "two", "six")}, ["not numbers"]),
    ],
)
def test_npz_that_is_not_the_image_set_is_refused(change, words, tmp_path):
    X, y = write_idx(tmp_path / "elsewhere")
    np.savez(tmp_path / "mnist.npz", **change(X, y))
    with refused("mnist", *words, kind=DataError):
        local("mnist", tmp_path)


# ── Webspam ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["", "webspam", "tabular"])
@pytest.mark.parametrize(
    ("ending", "pack"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_webspam_is_read_from_every_packing_with_columns_from_0_to_1(place, ending, pack, tmp_path):
    text, X, y = libsvm_text()
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / (WEBSPAM + ending)).write_bytes(pack(text.encode()))
    data = local("webspam", tmp_path)
    assert data.X.shape == (60, 254)
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1)
    assert np.array_equal(data.X, (X - low) / span)
    assert np.array_equal(data.y, y == 1)
    assert data.classes == ("-1", "+1")
    assert "60 of 350,000 rows" in data.source


def test_webspam_has_its_254_columns_even_if_the_last_ones_are_all_0(tmp_path):
    (tmp_path / WEBSPAM).write_text("+1 3:0.5\n-1 3:0.25\n")
    data = local("webspam", tmp_path)
    assert data.X.shape == (2, 254)
    assert data.X[:, 2].tolist() == [1, 0]
    assert data.X.sum() == 1


@pytest.mark.parametrize(
    ("ending", "content", "words"),
    [
        ("", b"+1 1:0.5\n-1 300:0.5\n", ["300 columns", "254", "unigram"]),
        ("", b"+1 0:0.5\n-1 3:0.5\n", ["index 0"]),
        ("", b"+1 1:0.5\n2 3:0.5\n", ["label 2", "-1 and 1"]),
        ("", b"+1 1:0.5\n+1 3:0.5\n", ["no row with the label -1"]),
        ("", b"", ["empty"]),
        (".xz", lzma.compress(b"+1 1:0.5\n-1 1:x\n"), ["line 2", "1:x"]),
        (".xz", lzma.compress(b"+1 1:0.5\n" * 99)[:-20], ["damaged", "get it again"]),
        (".xz", b"<html>", ["damaged", "get it again"]),
        (".bz2", b"<html>", ["damaged", "get it again"]),
        (".bz2", bz2.compress(b"+1 1:0.5\n" * 99)[:-20], ["damaged", "get it again"]),
        (".gz", gzip.compress(b"+1 1:0.5\n" * 99, mtime=0)[:-20], ["damaged"]),
    ],
)
def test_webspam_file_that_is_none_is_refused_by_name(ending, content, words, tmp_path):
    (tmp_path / (WEBSPAM + ending)).write_bytes(content)
    with refused(WEBSPAM + ending, *words, kind=DataError):
        local("webspam", tmp_path)


# ── Sets with a test part of their own ───────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["nsl_kdd.npz", "tabular/nsl_kdd.npz"])
def test_parts_are_joined_scaled_over_all_rows_and_the_test_part_is_kept(place, tmp_path):
    random = np.random.default_rng(0)
    X = random.integers(0, 10**9, (130, 41)).astype(np.float32)
    X[:, 7] = 3
    y = np.arange(130) % 2
    names = np.array([f"f{i}" for i in range(41)])
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    parts = {"X_train": X[:100], "y_train": y[:100], "X_test": X[100:], "y_test": y[100:]}
    np.savez(path, feature_names=names, **parts)
    data = local("nsl-kdd", tmp_path)
    assert data.feature_names == tuple(names)
    assert data.test_rows == 30
    assert (data.X[:, 7] == 0).all()
    varying = np.delete(data.X, 7, axis=1)
    assert (varying.min(axis=0) == 0).all()
    assert (varying.max(axis=0) == 1).all()
    split = data.split(0)
    assert np.array_equal(split.X_test, data.X[100:])
    assert np.array_equal(split.y_test, y[100:])
    assert [len(part) for part in split.y] == [79, 21, 30]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X_test": np.zeros((4, 14))}, ["15 columns", "14"]),
        ({"y_test": np.zeros(3)}, ["4 rows"]),
        ({"X_train": np.zeros((6, 15)), "y_train": np.arange(6)}, ["label 2", "0 and 1"]),
        ({"y_train": None}, ["y_train"]),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, words, tmp_path):
    parts = {
        "X_train": np.zeros((6, 15)),
        "y_train": np.arange(6) % 2,
        "X_test": np.zeros((4, 15)),
        "y_test": np.arange(4) % 2,
    } | change
    path = tmp_path / "social_honeypot_twitter.npz"
    np.savez(path, **{name: part for name, part in parts.items() if part is not None})
    with refused(*words, kind=DataError):
        local("social-honeypot", tmp_path)


def test_file_that_cannot_be_read_is_refused_in_one_line(tmp_path):
    path = tmp_path / "nsl_kdd.npz"
    path.write_bytes(b"PK\x03\x04 not a zip file")
    with refused("nsl_kdd.npz", "damaged", kind=DataError):
        local("nsl-kdd", tmp_path)
