"""`.silva` text files of the verifier SILVA: a decision tree or a forest that votes.

The raw score counts votes: every tree gives one vote to the class with most samples in the leaf (to
each of them, if several have most).

The text is a sequence of words: ``classifier-forest N``, then N times
``classifier-decision-tree FEATURES CLASSES``, the class labels, and the nodes in preorder, left
before right, as ``SPLIT feature threshold`` (x <= threshold goes left, in doubles) or
``LEAF count …``. There is no rule for missing values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from carvegbm.errors import ModelError
from carvegbm.model.ensemble import Ensemble
from carvegbm.readers.common import Classes, Tree, assemble, require

__all__ = ["from_text"]

_FOREST, _TREE = "classifier-forest", "classifier-decision-tree"


def from_text(text: str, classes: Classes) -> Ensemble:
    """Read the text of a file."""
    words = _Words(text)
    is_forest = words.next() == _FOREST
    n_trees = words.count() if is_forest else 1
    trees: list[Tree] = []
    shape: tuple[int, list[str]] | None = None
    for index in range(n_trees):
        begins = words.next() == _TREE if is_forest else True
        require(begins, f"tree {index} does not begin with {_TREE!r}")
        n_features, n_classes = words.count(), words.count()
        found = n_features, [words.next() for _ in range(n_classes)]
        require(shape in (None, found), f"tree {index} has other features or classes than tree 0")
        shape = found
        trees.append(_tree(index, words, n_features, n_classes))
    if shape is None:
        raise ModelError(
            "is a forest of no trees, which has no classes; there is nothing to verify"
        )
    require(words.at == len(words.words), f"the text continues after tree {len(trees) - 1}")
    labels: list[Any] = shape[1]
    if all(word.removeprefix("-").isdecimal() for word in labels):
        labels = [int(word) for word in labels]
    return assemble(
        trees,
        n_outputs=len(labels),
        n_features=shape[0],
        task="multiclass",
        classes=labels if classes is None else classes,
    )


def _tree(index: int, words: _Words, n_features: int, n_classes: int) -> Tree:
    rows: list[tuple[int, float, int, int]] = []
    votes: list[list[float]] = []
    none = [0.0] * n_classes
    waiting: list[int] = []  # splits whose right child is still to come, the innermost last
    while not rows or waiting:
        position = len(rows)
        if rows and rows[-1][0] < 0:  # after a leaf comes the right child of the innermost split
            above = waiting.pop()
            rows[above] = (*rows[above][:3], position)
        kind = words.next()
        if kind == "LEAF_LOGARITHMIC":
            raise ModelError(
                f"tree {index} has logarithmic leaves, which do not vote; export LEAF counts"
            )
        require(kind in ("SPLIT", "LEAF"), f"tree {index} has a node {kind[:40]!r}")
        if kind == "SPLIT":
            feature, threshold = words.count(), float(words.next().replace("_", "?"))
            require(feature < n_features, f"tree {index} tests feature {feature} of {n_features}")
            rows.append((feature, threshold, position + 1, -1))
            waiting.append(position)
            votes.append(none)
        else:
            counts = [words.count() for _ in range(n_classes)]
            rows.append((-1, 0.0, -1, -1))
            votes.append([float(count == max(counts)) for count in counts])
    features, thresholds, left, right = (np.array(column) for column in zip(*rows, strict=True))
    return Tree(
        features, thresholds, left, right, np.full(len(rows), -1), np.array(votes, dtype=np.float64)
    )


class _Words:
    """The words of a text, read one after the other."""

    def __init__(self, text: str) -> None:
        self.words = text.split()
        self.at = 0

    def next(self) -> str:
        require(self.at < len(self.words), "the text ends within a tree")
        self.at += 1
        return self.words[self.at - 1]

    def count(self) -> int:
        word = self.next()
        is_count = word.isascii() and word.isdigit() and len(word) <= 9
        require(is_count, f"{word[:40]!r} in place of a count")
        return int(word)
