"""When two ensembles are one, however their nodes are laid out, and what one is in a line.

Comes in: ensembles, and the names of their fields. Goes out: whether they are equal; one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.trees import nested

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["are_equal", "described"]

_LAID_OUT = ("nodes", "roots", "scores")
_IGNORED = ("iterations",)  # of the model that the trees were taken from


def are_equal(one: Ensemble, other: Ensemble, fields: Iterable[str]) -> bool:
    """Whether all fields agree, with the nodes of every tree in depth-first order."""
    rest = [name for name in fields if name not in _LAID_OUT + _IGNORED]
    pairs = zip(_canonical(one, rest), _canonical(other, rest), strict=True)
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)


def _canonical(ensemble: Ensemble, rest: Iterable[str]) -> tuple[Any, ...]:
    order = nested.depth_first(ensemble.nodes, ensemble.roots)
    nodes = ensemble.nodes[order]
    is_leaf = nodes["feature"] < 0
    return (
        nodes["threshold"],
        nodes["feature"],
        nodes["missing"],
        ensemble.scores[nodes["left"][is_leaf]],
        np.flatnonzero(np.isin(order, ensemble.roots)),
        *(getattr(ensemble, name) for name in rest),
    )


def described(ensemble: Ensemble) -> str:
    """What an ensemble is, in one line."""
    parts = [
        ensemble.task,
        f"{ensemble.n_trees} trees",
        f"{ensemble.n_leaves} leaves",
        f"{ensemble.n_features} features",
    ]
    if ensemble.categories:
        parts[-1] += f" ({len(ensemble.categories)} categorical)"
    if ensemble.task == "multiclass":
        parts.append(f"{len(ensemble.classes)} classes")
    if ensemble.input_precision == "float32":
        parts.append("float32 inputs")
    note = "" if ensemble.iterations is None else f"; {ensemble.iterations.note}"
    return f"<Ensemble: {', '.join(parts)}{note}>"
