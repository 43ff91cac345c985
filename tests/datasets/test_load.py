"""Which dataset comes from where, and what a user reads when it does not come."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from carvegbm import datasets
from carvegbm.errors import DataError
from datasets.small_files import write_idx
from plain_trees import refused


def test_names_are_the_sets_of_the_paper_and_the_stand_ins():
    assert datasets.NAMES == (
        "fmnist",
        "mnist",
        "webspam",
        "breast-cancer",
        "digits",
        "nsl-kdd",
        "social-honeypot",
    )


@pytest.mark.parametrize(
    ("name", "shape", "ones", "image_shape"),
    [("breast-cancer", (569, 30), 357, None), ("digits", (357, 64), 174, (8, 8))],
)
def test_built_in_sets_need_neither_folder_nor_network(name, shape, ones, image_shape):
    data = datasets.load(name, download=False)
    assert data.name == name
    assert data.X.shape == shape
    assert data.X.dtype == np.float64
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert data.y.dtype == np.int64
    assert data.y.sum() == ones
    assert set(data.y) == {0, 1}
    assert data.image_shape == image_shape
    assert (data.feature_names is None) == (image_shape is not None)
    with pytest.raises(FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]


def test_digits_are_pixels_divided_by_their_full_scale():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    data = datasets.load("digits")
    assert np.array_equal(data.X, X[(y == 3) | (y == 8)] / 16)
    assert np.array_equal(data.y, y[(y == 3) | (y == 8)] == 8)


def test_breast_cancer_has_every_column_from_0_to_1():
    data = datasets.load("breast-cancer")
    assert (data.X.min(axis=0) == 0).all()
    assert (data.X.max(axis=0) == 1).all()
    assert data.classes == ("malignant", "benign")
    assert data.feature_names[0] == "mean radius"


def test_folder_is_taken_from_the_environment_unless_it_is_given(tmp_path, monkeypatch):
    write_idx(tmp_path / "data" / "mnist")
    monkeypatch.setenv("CARVEGBM_DATA", str(tmp_path / "data"))
    assert len(datasets.load("mnist", download=False).y) == 20
    (tmp_path / "empty").mkdir()
    with refused("mnist", str(tmp_path / "empty"), kind=DataError):
        datasets.load("mnist", folder=tmp_path / "empty", download=False)


def test_unknown_name_is_refused_with_the_known_ones():
    for name in ("cifar", None, ["mnist"]):
        with refused(repr(name), "fmnist, mnist, webspam", kind=DataError):
            datasets.load(name)  # type: ignore[arg-type]


def test_folder_that_is_none_is_refused_even_if_a_download_could_help(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with refused("absent", "does not exist", kind=DataError):
        datasets.load("mnist", folder=tmp_path / "absent")
    with refused("file", "a file", kind=DataError):
        datasets.load("mnist", folder=tmp_path / "file")
    monkeypatch.setenv("CARVEGBM_DATA", str(tmp_path / "absent"))
    with refused("CARVEGBM_DATA", "absent", "does not exist", kind=DataError):
        datasets.load("mnist")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fmnist", ["four idx files", "fashion-mnist/", "downloading is off"]),
        ("mnist", ["four idx files", "mnist/", "downloading is off"]),
        ("webspam", ["webspam_wc_normalized_unigram.svm", "downloading is off"]),
        ("nsl-kdd", ["nsl_kdd.npz"]),
        ("social-honeypot", ["social_honeypot_twitter.npz"]),
    ],
)
def test_missing_set_says_what_to_put_where(name, words, tmp_path):
    with refused(name, "CARVEGBM_DATA", *words, kind=DataError):
        datasets.load(name, download=False)
    with refused(name, str(tmp_path), *words, kind=DataError):
        datasets.load(name, folder=tmp_path, download=False)


@pytest.mark.parametrize("name", ["nsl-kdd", "social-honeypot"])
def test_set_that_nobody_publishes_is_refused_without_a_word_about_downloading(name):
    with pytest.raises(DataError, match="needs a local folder") as caught:
        datasets.load(name)
    assert "download" not in str(caught.value)


def test_nothing_is_written_when_nothing_is_downloaded(cache: Path):
    datasets.load("digits")
    with pytest.raises(DataError):
        datasets.load("webspam", download=False)
    assert not cache.exists()


def test_import_brings_no_heavy_library():
    program = "import sys, carvegbm.datasets; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "carvegbm.datasets" in done.stdout
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert not roots & {"sklearn", "scipy", "lightgbm", "xgboost", "pandas", "rich", "matplotlib"}
