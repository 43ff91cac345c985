"""The published sets themselves, where they lie beside the repository."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from carvegbm import datasets


@pytest.mark.parametrize(
    ("name", "rows", "ones", "sizes"),
    [
        ("fmnist", 14_000, 7_000, [7_700, 2_100, 4_200]),
        ("mnist", 13_866, 6_876, [7_626, 2_080, 4_160]),
    ],
)
def test_image_sets_have_the_paper_s_sizes(name, rows, ones, sizes, shared_data):
    data = datasets.load(name, folder=shared_data, download=False)
    assert data.X.shape == (rows, 784)
    assert data.y.sum() == ones
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert np.array_equal(np.rint(data.X * 255) / 255, data.X)
    assert "rows" not in data.source  # all of them
    split = data.split(0)
    assert [len(part) for part in split.y] == sizes
    for part in split.y:
        assert abs(part.mean() - ones / rows) < 1e-3


@pytest.mark.parametrize(
    ("name", "shape", "sizes"),
    [
        ("nsl-kdd", (148_517, 41), [98_979, 26_994, 22_544]),
        ("social-honeypot", (40_000, 15), [28_286, 7_714, 4_000]),
    ],
)
def test_stand_ins_keep_their_own_test_set(name, shape, sizes, shared_data):
    data = datasets.load(name, folder=shared_data, download=False)
    assert data.X.shape == shape
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert len(data.feature_names) == shape[1]
    split = data.split(0)
    assert [len(part) for part in split.y] == sizes
    assert np.array_equal(split.y_test, data.y[-sizes[-1] :])
    assert "local file" in data.source


def test_webspam_s_sample_comes_through_the_loader(shared_data, tmp_path):
    with np.load(shared_data / "tabular" / "webspam_unigram_samples.npz") as sample:
        X, y = sample["X500"].astype(np.float64), sample["y500"]
    lines = (
        f"{'+1' if label else '-1'} " + " ".join(f"{i + 1}:{row[i]!r}" for i in np.flatnonzero(row))
        for row, label in zip(X.tolist(), y, strict=True)
    )
    path = tmp_path / "webspam_wc_normalized_unigram.svm.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    data = datasets.load("webspam", folder=tmp_path, download=False)
    assert data.X.shape == (500, 254)
    assert np.array_equal(data.y, y)
    low, high = X.min(axis=0), X.max(axis=0)
    assert np.array_equal(data.X, (X - low) / np.where(high > low, high - low, 1))
    assert [len(part) for part in data.split(0).y] == [275, 75, 150]
