"""XGBoost's JSON dump of trees (`Booster.dump_model(..., dump_format="json")`).

Comes in: a list of trees as nested dicts. Goes out: an `Ensemble`.

A dump holds less than a model: no objective, no base_score, no number of features, and not which
class a tree counts for. So the base margin is 0, the model is binary (with more than two `classes`
it is refused), and its features are those up to the last one a split tests.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes, number, refuse_split
from carvegbm.readers.trees import Tree, assemble
from carvegbm.readers.xgboost import translate

__all__ = ["from_dump"]


def from_dump(document: list[Any], classes: Classes, n_features: int | None = None) -> Ensemble:
    """Read a dump; feature N is called "fN" or N in it."""
    if classes is not None and len(classes) > 2:
        raise ModelError(
            f"is a dump, which does not say which of {len(classes)} classes a tree counts for; "
            "save the model with save_model instead"
        )
    trees = [_tree(index, root) for index, root in enumerate(document)]
    has_rules = all((tree.missing[tree.feature >= 0] >= 0).all() for tree in trees)
    used = 1 + max((int(tree.feature.max()) for tree in trees), default=-1)
    if n_features is not None and n_features < used:
        raise ModelError(f"tests feature {used - 1}; n_features must be at least {used}")
    return assemble(
        trees,
        n_outputs=1,
        n_features=used if n_features is None else n_features,
        task="binary",
        link="logistic",
        tie="negative",
        compares="probability",
        classes=classes,
        input_precision="float32",
        sum_precision="float32",
        absent="missing" if has_rules else "zero",
    )


def _tree(index: int, root: Any) -> Tree:
    left: list[int] = []
    right: list[int] = []
    feature: list[int] = []
    value: list[float] = []  # a split's condition, a leaf's score
    missing: list[int] = []
    pending: list[tuple[Any, int, list[int]]] = [(root, -1, left)]
    while pending:
        node, parent, side = pending.pop()
        if not isinstance(node, dict):
            raise ModelError(f"tree {index}: a node must be a dict; the file is damaged")
        position = len(left)
        if parent >= 0:
            side[parent] = position
        left.append(-1)
        right.append(-1)
        if "leaf" in node:
            feature.append(-1)
            value.append(number(node["leaf"], f"tree {index}: leaf"))
            missing.append(-1)
            continue
        feature.append(_feature(index, node.get("split")))
        if isinstance(node.get("split_condition"), list):
            refuse_split(index, str(node["split"]), "save the model with save_model instead")
        value.append(number(node.get("split_condition"), f"tree {index}: split_condition"))
        yes, no = _children(index, node)
        missing.append(-1 if "missing" not in node else int(node["missing"] == node["yes"]))
        pending.append((no, position, right))
        pending.append((yes, position, left))
    children = np.array(left), np.array(right)
    tree = translate(index, *children, np.array(feature), np.array(value), np.array(missing))
    return replace(tree, missing=np.array(missing))  # a dump may have no rule


def _children(index: int, node: dict[str, Any]) -> tuple[Any, Any]:
    """The children for "yes" (x < condition) and "no"."""
    children = node.get("children")
    found = {}
    if isinstance(children, list) and all(isinstance(child, dict) for child in children):
        found = {str(child.get("nodeid")): child for child in children}
    yes, no = (found.get(str(node.get(side))) for side in ("yes", "no"))
    if yes is None or no is None or yes is no:
        raise ModelError(f"tree {index}: a split lacks a child; the file is damaged")
    return yes, no


def _feature(index: int, name: Any) -> int:
    match = re.fullmatch(r"f?(\d{1,10})", str(name), re.ASCII)
    if match is None:
        raise ModelError(
            f"tree {index} calls a feature {str(name)[:40]!r}, and a dump does not say which "
            "column that is; save the model with save_model instead"
        )
    return int(match[1])
