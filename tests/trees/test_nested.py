"""Trees as nested dicts: both ways, and what is not a tree."""

from __future__ import annotations

import math

import pytest

from carvegbm import ModelError
from carvegbm.trees import nested
from plain_trees import chain, ensemble, leaf, refused, split, stump

TREES = [
    split(0, 0.5, stump(1, -2.0, missing="left"), leaf(3.0), missing="right"),
    leaf(-0.0),
    split(2, math.inf, leaf(1e-300), stump(0, 5e-324)),
]


def test_trees_come_back_as_they_went():
    assert there_and_back(TREES) == TREES


def test_scores_per_class_come_back_as_lists():
    trees = [stump(0, 0.5, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), leaf([0.0, 0.0, 1.0])]
    assert there_and_back(trees) == trees


def test_subtree_used_twice_is_two_subtrees():
    twice = stump(1, 0.5)
    tree = split(0, 0.5, twice, twice)
    (again,) = ensemble(tree, n_features=2).to_trees()
    assert again == tree
    assert again["left"] is not again["right"]


def test_chain_of_any_length_comes_back():
    (tree,) = there_and_back([chain(5000)])
    for below in range(5000):
        assert tree["left"] == {"score": float(below)}
        tree = tree["right"]
    assert tree == {"score": 5000.0}


def cyclic():
    tree = stump(0, 0.5)
    tree["left"] = split(0, 0.1, tree, leaf(1.0))
    return tree


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        pytest.param(3, ["a node must be a dict", "3"], id="not a dict"),
        pytest.param(split(0, 0.5, leaf(1.0), None), ["a node must be a dict"], id="no child"),
        pytest.param({}, ["needs 'feature'"], id="empty"),
        pytest.param({"feature": 0, "threshold": 0.5, "left": leaf(1.0)}, ["'right'"], id="half"),
        pytest.param(
            {"feature": 0, "left": leaf(1.0), "right": leaf(1.0)}, ["'threshold'"], id="t"
        ),
        pytest.param(stump(0, "high"), ["'high'"], id="word as threshold"),
        pytest.param(stump(0, 10**400), ["a double holds", "1000", "…"], id="huge threshold"),
        pytest.param(stump(-1, 0.5), ["feature -1"], id="negative feature"),
        pytest.param(stump(0.5, 0.5), ["feature 0.5"], id="half a feature"),
        pytest.param(stump(2**31, 0.5), ["feature 2147483648"], id="huge feature"),
        pytest.param(stump(math.inf, 0.5), ["infinity"], id="infinite feature"),
        pytest.param(stump(0, 0.5, missing="up"), ["'missing'", "'up'"], id="missing"),
        pytest.param(leaf("much"), ["a score must be a number"], id="word as score"),
        pytest.param(leaf([[1.0], [2.0]]), ["a score must be a number"], id="nested scores"),
        pytest.param(cyclic(), ["descendant of itself"], id="cycle"),
    ],
)
def test_what_is_not_a_tree_is_refused_by_its_position(tree, words):
    with refused("tree 1", *words, kind=ModelError):
        nested.to_arrays([leaf(0.0), tree])


def test_leaves_with_different_numbers_of_scores_are_refused():
    with refused("tree 1", "2 scores", "3", kind=ModelError):
        nested.to_arrays([leaf([1.0, 2.0, 3.0]), leaf([1.0, 2.0])])


def there_and_back(trees):
    nodes, roots, scores, sets, by_set, _ = nested.to_arrays(trees)
    return nested.from_arrays(nodes, roots, scores, sets, by_set)
