"""Did LightGBM grow its trees on the rows that we think it did? Checked after training.

Training overwrites the bins of a LightGBM Dataset between rounds (`lightgbm_c`), which works in
the versions it is tested with, and which no interface of LightGBM promises. A version in which it
does not work must bring an error, never another model. So two things that LightGBM says are
compared with what the trees say of the training rows themselves:

    leaf counts   of the first and the last tree grown. LightGBM's number of rows in a leaf is the
                  number of training rows that the tree sends there; where a tree is grown on a
                  sample of the rows, which LightGBM does not reveal, it is at most that number.
    scores        of up to 1000 training rows. LightGBM keeps a score per row, in the sample or
                  not, by its own bins and from all trees: it is the sum of the trees' leaf values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.data import Labelled, some_rows
from carvegbm.training.growing.grown import GrownTree
from carvegbm.training.growing.lightgbm_c import disagreement
from carvegbm.training.growing.model_text import objective_of
from carvegbm.training.growing.rounds import Rounds

__all__ = ["check_counts", "check_scores"]

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-9  # of a conversion, relative; a row in another leaf is off by far more
_LOGARITHMS = ("poisson", "gamma", "tweedie")


def check_counts(grower: Rounds, rows: Labelled) -> None:
    """Refuse a first or last tree whose leaves hold other rows than LightGBM counted."""
    X = rows.X.tocsc() if hasattr(rows.X, "tocsc") else rows.X
    split = [i for i, tree in enumerate(grower.trees) if tree.n_leaves > 1]
    for index in sorted({*split[:1], *split[-1:]}):
        tree = grower.trees[index]
        theirs, ours = tree.counts, tree.count(X)
        wrong = theirs > ours if grower.samples_rows else theirs != ours
        if wrong.any():
            leaf = int(wrong.argmax())
            raise disagreement(
                f"counts {theirs[leaf]} rows in leaf {leaf} of tree {index}, the training data "
                f"have {ours[leaf]} there"
            )


def check_scores(grower: Rounds, X: Any) -> None:
    """Refuse trees that add up to other scores than LightGBM has."""
    if not grower.trees:  # the model will be the constant that LightGBM starts from
        return
    rows = some_rows(X.shape[0])
    theirs = grower.booster.training_scores()[rows]
    raw = _sum(grower.trees, X[rows])
    ours = _converted(raw, objective_of(grower.template()), grower.parameters.get("sigmoid", 1.0))
    wrong = ~np.isclose(theirs, ours, rtol=_ROUNDING, atol=0)
    if wrong.any():
        at = int(wrong.argmax())
        raise disagreement(
            f"has the score {theirs[at]:.17g} for training row {rows[at]}, the trees have "
            f"{ours[at]:.17g}"
        )


def _sum(trees: list[GrownTree], rows: Any) -> Floats:
    """The sum of the trees' leaf values per row, added up in the order of the trees."""
    X = rows.toarray() if hasattr(rows, "toarray") else rows
    raw = np.zeros(len(X))
    for tree in trees:
        tree.add_values_to(raw, X)
    return raw


def _converted(raw: Floats, objective: str, sigmoid: float) -> Floats:
    """What LightGBM makes of raw scores with the objective that its text names."""
    name, *options = objective.split() or [""]
    with np.errstate(over="ignore"):
        if name == "binary":
            return np.asarray(1 / (1 + np.exp(-float(sigmoid) * raw)))
        if name in _LOGARITHMS:
            return np.exp(raw)
    return np.sign(raw) * raw**2 if "sqrt" in options else raw
