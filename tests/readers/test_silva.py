"""`.silva` forests: every tree votes."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from carvegbm import load
from carvegbm.errors import DataError

FOREST = """classifier-forest 2
classifier-decision-tree 3 2
0 1
SPLIT 0 0.5
SPLIT 2 -1e-3
LEAF 3 1
LEAF 2 2
LEAF 0 4
classifier-decision-tree 3 2
0 1
LEAF 1 5
"""


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "forest"
        path.write_text(text)
        return load(path, **options)

    return read_text


def test_every_tree_gives_a_vote_to_each_class_with_most_samples(read):
    forest = read(FOREST)
    assert (forest.n_trees, forest.n_features, forest.n_leaves) == (2, 3, 4)
    rows = [[0.5, 9, -1e-3], [0.5, 9, 0.0], [np.nextafter(0.5, 1), 9, -1.0]]
    assert forest.raw_score(rows).tolist() == [[1.0, 1.0], [1.0, 2.0], [0.0, 2.0]]
    assert forest.decide(rows).tolist() == [0, 1, 1]  # the first class on ties
    with pytest.raises(DataError, match="no rule for missing values"):
        forest.raw_score([[np.nan, 0, 0]])


def test_labels_are_numbers_where_they_can_be(read):
    assert read(FOREST).classes.tolist() == [0, 1]
    assert read(FOREST.replace("\n0 1\n", "\n-1 7\n")).classes.tolist() == [-1, 7]
    assert read(FOREST.replace("\n0 1\n", "\nno yes\n")).classes.tolist() == ["no", "yes"]
    assert read(FOREST, classes=["a", "b"]).classes.tolist() == ["a", "b"]


def test_published_forests_predict_their_images(shared_data):
    folder = shared_data / "models" / "LorenzoCazzaro_Verifiable-Learning"
    found = sorted(folder.glob("*.silva.gz"))
    assert len(found) == 32
    images = gzip.decompress((shared_data / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((shared_data / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784) / 255
    y = np.frombuffer(labels, np.uint8, offset=8)
    X, y = X[np.isin(y, [2, 6])], (y[np.isin(y, [2, 6])] == 6).astype(int)
    for path in found:
        forest = load(path)
        n_trees = int(
            path.name.split("_rand_" if "_rand_" in path.name else "_rf_")[-1].split("_")[0]
        )
        assert forest.n_trees == n_trees
        if path.name.startswith("mnist26"):
            assert (forest.decide(X) == y).mean() > 0.9, path.name
