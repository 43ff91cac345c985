"""`.silva` text files of the verifier SILVA: a decision tree or a forest that votes.

Comes in: the text. Goes out: a multiclass `Ensemble` whose raw score counts votes: every tree gives
one vote to the class with most samples in the leaf (to each of them, if several have most).

The text is a sequence of words: ``classifier-forest N``, then N times
``classifier-decision-tree FEATURES CLASSES``, the class labels, and the nodes depth first, left
child before right, as ``SPLIT feature threshold`` (x <= threshold goes left, in doubles) or
``LEAF count …``. There is no rule for missing values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes
from carvegbm.readers.trees import Tree, assemble

__all__ = ["from_text"]

_FOREST, _TREE = "classifier-forest", "classifier-decision-tree"


def from_text(text: str, classes: Classes) -> Ensemble:
    """Read the text of a file."""
    words = _Words(text)
    n_trees = words.count() if words.next() == _FOREST else None
    trees: list[Tree] = []
    shape: tuple[int, list[str]] | None = None
    for index in range(1 if n_trees is None else n_trees):
        if (index or n_trees is not None) and words.next() != _TREE:
            raise ModelError(f"tree {index} does not begin with {_TREE!r}; the file is damaged")
        n_features, n_classes = words.count(), words.count()
        found = n_features, [words.next() for _ in range(n_classes)]
        if shape is not None and found != shape:
            raise ModelError(f"tree {index} has other features or classes than the first one")
        shape = found
        trees.append(_tree(index, words, n_features, n_classes))
    if shape is None:
        raise ModelError(
            "is a forest of no trees, which has no classes; there is nothing to verify"
        )
    if words.rest():
        raise ModelError(f"goes on after tree {len(trees) - 1}; the file is damaged")
    return assemble(
        trees,
        n_outputs=len(shape[1]),
        n_features=shape[0],
        task="multiclass",
        classes=_labels(shape[1]) if classes is None else classes,
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
        if kind == "SPLIT":
            feature, threshold = words.count(), words.number()
            if feature >= n_features:
                raise ModelError(
                    f"tree {index} tests feature {feature}, it has {n_features}; it is damaged"
                )
            rows.append((feature, threshold, position + 1, -1))
            waiting.append(position)
            votes.append(none)
        elif kind == "LEAF":
            counts = [words.count() for _ in range(n_classes)]
            rows.append((-1, 0.0, -1, -1))
            votes.append([float(count == max(counts)) for count in counts])
        elif kind == "LEAF_LOGARITHMIC":
            raise ModelError(
                f"tree {index} has logarithmic leaves, which do not vote; export LEAF counts"
            )
        else:
            raise ModelError(f"tree {index} has a node {kind[:40]!r}; the file is damaged")
    feature_, threshold_, left, right = (np.array(column) for column in zip(*rows, strict=True))
    return Tree(
        feature_, threshold_, left, right, np.full(len(rows), -1), np.array(votes, dtype=np.float64)
    )


class _Words:
    """The words of the text, one after the other."""

    def __init__(self, text: str) -> None:
        self.words: Iterator[str] = iter(text.split())

    def next(self) -> str:
        word = next(self.words, None)
        if word is None:
            raise ModelError("ends within a tree; the file is truncated")
        return word

    def rest(self) -> bool:
        return next(self.words, None) is not None

    def count(self) -> int:
        word = self.next()
        if not (word.isascii() and word.isdigit()) or len(word) > 9:
            raise ModelError(f"{word[:40]!r} stands where a count should; the file is damaged")
        return int(word)

    def number(self) -> float:
        word = self.next()
        try:
            return float(word.replace("_", "?"))
        except ValueError:
            raise ModelError(f"{word[:40]!r} stands where a number should; it is damaged") from None


def _labels(words: list[str]) -> list[Any]:
    """Labels as integers if all are, as in data files, else as they are written."""
    try:
        return [int(word) for word in words]
    except ValueError:
        return list(words)
