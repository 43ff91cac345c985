"""When two ensembles are one: the same trees, however their nodes are laid out.

Comes in: an `Ensemble` and the names of its fields. Goes out: values that are equal iff the
ensembles are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.trees import nested

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["are_equal"]

_LAID_OUT = ("nodes", "roots", "scores")


def are_equal(one: Ensemble, other: Ensemble, fields: Iterable[str]) -> bool:
    """Whether all fields agree, with the nodes of every tree in depth-first order."""
    rest = [name for name in fields if name not in _LAID_OUT]
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
