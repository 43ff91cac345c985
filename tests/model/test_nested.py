"""Nested trees: `Ensemble.from_trees` and `to_trees` are inverse; anything else is refused."""

from __future__ import annotations

import math

import pytest

from carvegbm import ModelError
from plain_trees import chain, ensemble, leaf, refused, split, stump

TREES = [
    split(0, 0.5, stump(1, -2.0, missing="left"), leaf(3.0), missing="right"),
    leaf(-0.0),
    split(2, math.inf, leaf(1e-300), stump(0, 5e-324)),
]


@pytest.mark.parametrize(
    "trees", [TREES, [stump(0, 0.5, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), leaf([0.0, 0.0, 1.0])]]
)
def test_from_trees_and_to_trees_are_inverse(trees):
    assert ensemble(*trees, n_features=3).to_trees() == trees


def test_subtree_used_twice_becomes_two_subtrees():
    twice = stump(1, 0.5)
    tree = split(0, 0.5, twice, twice)
    (again,) = ensemble(tree, n_features=2).to_trees()
    assert again == tree
    assert again["left"] is not again["right"]


def test_long_chains_are_converted():
    (tree,) = ensemble(chain(5000)).to_trees()
    for below in range(5000):
        assert tree["left"] == {"score": float(below)}
        tree = tree["right"]
    assert tree == {"score": 5000.0}


def cyclic():
    tree = stump(0, 0.5)
    tree["left"] = split(0, 0.1, tree, leaf(1.0))
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        3,
        split(0, 0.5, leaf(1.0), None),
        {},
        {"feature": 0, "threshold": 0.5, "left": leaf(1.0)},
        {"feature": 0, "left": leaf(1.0), "right": leaf(1.0)},
        *(stump(0, threshold) for threshold in ("high", 10**400)),
        *(stump(feature, 0.5) for feature in (-1, 0.5, 2**31, math.inf)),
        stump(0, 0.5, missing="up"),
        leaf("much"),
        leaf([[1.0], [2.0]]),
        leaf([1.0, 2.0]),
        cyclic(),
    ],
    ids=lambda tree: str(tree)[:60],
)
def test_invalid_tree_is_refused_by_its_position(tree):
    with refused("tree 1", kind=ModelError):
        ensemble(leaf(0.0), tree)
