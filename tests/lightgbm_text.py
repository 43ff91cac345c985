"""Writes a small ensemble as a LightGBM text model, so that LightGBM itself can judge witnesses."""

from __future__ import annotations

from typing import Any

from oracle import Tree

_MISSING_NAN = 8  # decision_type: bits 2 and 3 hold the missing type, 2 is NaN
_DEFAULT_LEFT = 2


def lightgbm_text(ensemble: Any) -> str:
    """The model of a binary or multiclass float64 ensemble without averaging.

    The base score and the decision threshold become trees of one leaf (so that LightGBM decides at
    0), and a tree with a score per class one tree per class: one leaf where all its scores are 0.
    """
    n_outputs = ensemble.n_outputs
    trees: list[Tree] = [{"score": ensemble.base_score.tolist()}]
    trees += [{"score": [-ensemble.threshold] * n_outputs}, *ensemble.to_trees()]
    names = [f"Column_{feature}" for feature in range(ensemble.n_features)]
    header = [
        "tree",
        "version=v4",
        f"num_class={n_outputs}",
        f"num_tree_per_iteration={n_outputs}",
        "label_index=0",
        f"max_feature_idx={ensemble.n_features - 1}",
        "objective="
        + ("binary sigmoid:1" if n_outputs == 1 else f"multiclass num_class:{n_outputs}"),
        "feature_names=" + " ".join(names),
        "feature_infos=" + " ".join(["[-1e+308:1e+308]"] * len(names)),
    ]
    blocks = [
        _block(index * n_outputs + output, tree, output)
        for index, tree in enumerate(trees)
        for output in range(n_outputs)
    ]
    sizes = "tree_sizes=" + " ".join(str(len(block)) for block in blocks)
    return "\n".join([*header, sizes, "", ""]) + "".join(blocks) + "end of trees\n"


def _block(index: int, tree: Tree, output: int) -> str:
    splits: list[Tree] = []
    leaves: list[float] = []

    def number(node: Tree) -> int:
        """Position of a split, or ~position of a leaf; children are numbered after their parent."""
        if "score" in node:
            score = node["score"]
            leaves.append(score[output] if isinstance(score, list) else score)
            return ~(len(leaves) - 1)
        position = len(splits)
        splits.append(node)
        children.append((0, 0))
        children[position] = (number(node["left"]), number(node["right"]))
        return position

    children: list[tuple[int, int]] = []
    number(tree)
    if not any(leaves):
        splits, children, leaves = [], [], [0.0]
    zeros = [0] * len(splits)
    rows = {
        "num_leaves": [len(leaves)],
        "num_cat": [0],
        "split_feature": [node["feature"] for node in splits],
        "split_gain": zeros,
        "threshold": [repr(float(node["threshold"])) for node in splits],
        "decision_type": [_decision_type(node) for node in splits],
        "left_child": [left for left, _ in children],
        "right_child": [right for _, right in children],
        "leaf_value": [repr(float(leaf)) for leaf in leaves],
        "leaf_weight": [1] * len(leaves),
        "leaf_count": [1] * len(leaves),
        "internal_value": zeros,
        "internal_weight": zeros,
        "internal_count": zeros,
        "is_linear": [0],
        "shrinkage": [1],
    }
    lines = [f"Tree={index}"]
    lines += [f"{key}=" + " ".join(map(str, values)) for key, values in rows.items()]
    return "\n".join(lines) + "\n\n\n"


def _decision_type(node: Tree) -> int:
    if "missing" not in node:
        return 0
    return _MISSING_NAN + (_DEFAULT_LEFT if node["missing"] == "left" else 0)
