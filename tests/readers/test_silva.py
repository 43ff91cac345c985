"""`.silva` forests: every tree votes."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from carvegbm import load
from carvegbm.errors import DataError, ModelError

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


def test_one_tree_alone_is_a_forest_of_one(read):
    tree = read("classifier-decision-tree 1 3 a b c SPLIT 0 1.5 LEAF 0 2 1 LEAF 1 0 0")
    assert tree.decide([[1.5], [1.6]]).tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FOREST[:-10], "truncated"),
        (FOREST + "LEAF 1 2", "goes on after tree 1"),
        (FOREST.replace("SPLIT 2", "SPLIT 3"), "tree 0 tests feature 3, it has 3"),
        (FOREST.replace("SPLIT 2", "SPLIT -2"), "'-2' stands where a count should"),
        (FOREST.replace("-1e-3", "low"), "'low' stands where a number should"),
        (FOREST.replace("-1e-3", "nan"), "NaN"),
        (FOREST.replace("LEAF 3", "LEAF_LOGARITHMIC 3"), "tree 0 has logarithmic leaves.*; export"),
        (FOREST.replace("LEAF 3", "TWIG 3"), "tree 0 has a node 'TWIG'"),
        (FOREST.replace("forest 2", "forest 3"), "truncated"),
        (FOREST.replace("forest 2", "forest 0"), "forest of no trees"),
        (FOREST.replace("3 2\n0 1\nLEAF", "4 2\n0 1\nLEAF"), "tree 1 has other features"),
        (FOREST.replace("0 1\n", "0 0\n"), "classes must be 2 different labels"),
        ("classifier-forest 1 classifier-decision-tree 1 1 a LEAF 1", "at least two scores"),
        ("classifier-forest 99999999999", "stands where a count should"),
    ],
)
def test_broken_files_are_refused_with_one_line(read, tmp_path, text, message):
    with pytest.raises(ModelError, match=message) as caught:
        read(text)
    assert str(caught.value).startswith(str(tmp_path / "forest") + ": ")
    assert "\n" not in str(caught.value)


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
