"""Data sets: where they come from, how they are scaled and split, and what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from carvegbm import DataError
from carvegbm_experiments import datasets


@pytest.fixture(autouse=True)
def without_data(monkeypatch, tmp_path):
    monkeypatch.delenv("CARVEGBM_DATA", raising=False)
    monkeypatch.setenv("CARVEGBM_CACHE", str(tmp_path / "cache"))


def idx(values):
    header = bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes()
    return header + values.astype(np.uint8).tobytes()


def write_images(folder, packed=True):
    """The four files of an image set, 60 and 40 rows with labels 0, 1, … 9, 0, …; all pixels."""
    folder.mkdir(parents=True)
    rng, pixels = np.random.default_rng(0), []
    for part, rows in (("train", 60), ("t10k", 40)):
        pixels.append(rng.integers(0, 256, (rows, 28, 28)))
        for name, values in (("images-idx3", pixels[-1]), ("labels-idx1", np.arange(rows) % 10)):
            path = folder / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(values)) if packed else idx(values))
    return np.concatenate(pixels).reshape(100, -1)


def download(name, content, monkeypatch):
    """Let pooch find files with this content at any address; return the addresses it is asked."""
    pooch, asked = pytest.importorskip("pooch"), []

    def retrieve(url, known_hash, path, **_):
        asked.append((url, known_hash, str(path)))
        return str(content(url))

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return datasets.load(name), asked


@pytest.mark.parametrize(
    ("name", "shape", "ones"), [("breast-cancer", (569, 30), 357), ("digits", (357, 64), 174)]
)
def test_built_in_sets_lie_in_0_to_1_and_have_two_classes(name, shape, ones):
    data = datasets.load(name, download=False)
    assert data.X.shape == shape
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert (data.y.sum(), set(data.y)) == (ones, {0, 1})


@pytest.mark.parametrize("packed", [True, False])
def test_images_are_the_two_classes_divided_by_255(packed, tmp_path, monkeypatch):
    pixels = write_images(tmp_path / "mnist", packed)
    labels = np.concatenate([np.arange(60), np.arange(40)]) % 10
    kept = np.isin(labels, [2, 6])
    monkeypatch.setenv("CARVEGBM_DATA", str(tmp_path))
    for data in (datasets.load("mnist"), datasets.load("mnist", folder=tmp_path / "mnist")):
        np.testing.assert_array_equal(data.X, pixels[kept] / 255)
        np.testing.assert_array_equal(data.y, labels[kept] == 6)
        assert data.source.endswith("(20 of 13,866 rows)")


def test_image_sets_are_told_apart_by_their_folders(tmp_path):
    write_images(tmp_path / "fashion-mnist")
    assert len(datasets.load("fmnist", folder=tmp_path, download=False).y) == 20
    with pytest.raises(DataError, match="the four idx files of mnist"):
        datasets.load("mnist", folder=tmp_path, download=False)


def test_parts_keep_their_own_test_set(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((100, 41)) * np.arange(41)  # the first column has one value
    y = np.arange(100) % 2
    (tmp_path / "tabular").mkdir()
    np.savez(
        tmp_path / "tabular" / "nsl_kdd.npz",
        X_train=X[:70], y_train=y[:70], X_test=X[70:], y_test=y[70:],
    )  # fmt: skip
    data = datasets.load("nsl-kdd", folder=tmp_path)
    assert (data.X[:, 0] == 0).all()
    assert (data.X[:, 1:].min(axis=0) == 0).all()
    assert (data.X[:, 1:].max(axis=0) == 1).all()
    split = data.split(0)
    np.testing.assert_array_equal(split.X_test, data.X[70:])
    assert (len(split.y_train), len(split.y_valid)) == (55, 15)


def test_webspam_is_read_from_libsvm_with_all_its_columns(tmp_path):
    path = tmp_path / "webspam_wc_normalized_unigram.svm.gz"
    path.write_bytes(gzip.compress(b"-1 1:0.5 3:1\n+1 2:0.25\n"))
    data = datasets.load("webspam", folder=tmp_path)
    assert data.X.shape == (2, 254)
    assert data.X[:, :4].tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]
    assert data.y.tolist() == [0, 1]


def test_splits_are_stratified_and_repeat():
    data = datasets.load("digits")
    one, again, other = data.split(3), data.split(3), data.split(4)
    assert [len(rows) for rows in (one.y_train, one.y_valid, one.y_test)] == [196, 53, 108]
    for rows in (one.y_train, one.y_valid, one.y_test):
        assert abs(rows.mean() - data.y.mean()) < 0.01
    np.testing.assert_array_equal(one.X_test, again.X_test)
    assert not np.array_equal(one.X_test, other.X_test)


def test_what_is_not_in_the_folder_is_downloaded_into_the_cache(tmp_path, monkeypatch):
    pixels = write_images(tmp_path / "server")
    data, asked = download(
        "fmnist", lambda url: tmp_path / "server" / url.rpartition("/")[2], monkeypatch
    )
    assert len(asked) == 4
    assert all(known.startswith("md5:") for _, known, _ in asked)
    assert {path for *_, path in asked} == {str(tmp_path / "cache")}
    assert np.isin(np.rint(data.X * 255), pixels).all()


def test_download_that_fails_is_one_line_with_a_remedy(monkeypatch):
    def fail(_):
        raise OSError("no\nroute")

    with pytest.raises(DataError, match=r"webspam: cannot download https://.*no route; put") as one:
        download("webspam", fail, monkeypatch)
    assert "\n" not in str(one.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fmnist", "the four idx files of fashion-mnist"),
        ("webspam", "webspam_wc_normalized_unigram.svm"),
        ("nsl-kdd", "nsl_kdd.npz"),
        ("cifar", "no data set is called 'cifar'; there are fmnist"),
    ],
)
def test_missing_set_is_refused_with_what_to_put_where(name, words, tmp_path):
    with pytest.raises(DataError, match=words):
        datasets.load(name, folder=tmp_path, download=False)


def test_damaged_files_are_refused(tmp_path):
    write_images(tmp_path / "mnist", packed=False)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte"
    whole = path.read_bytes()
    for content, words in ((whole[:-1], "truncated"), (b"PNG" + whole, "not an idx file")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            datasets.load("mnist", folder=tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="all four idx files are needed"):
        datasets.load("mnist", folder=tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        datasets.load("mnist", folder=tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "rows", "ones"), [("fmnist", 14_000, 7_000), ("mnist", 13_866, 6_876)]
)
def test_published_image_sets_have_the_sizes_of_the_paper(name, rows, ones, shared_data):
    data = datasets.load(name, folder=shared_data, download=False)
    assert (data.X.shape, data.y.sum()) == ((rows, 784), ones)
