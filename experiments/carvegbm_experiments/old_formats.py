"""Convert models in formats that carvegbm does not read: published models exist only in these.

- XGBoost's old binary format (up to version 3.0), of gbtree with binary:logistic or multi:softmax;
- XGBoost's JSON dump of trees, `dump_model(dump_format="json")`;
- LightGBM's `dump_model` JSON.

    python -m carvegbm_experiments.old_formats OLD NEW.json [--n-features N]

writes the JSON of `Ensemble.save`. A dump of XGBoost names neither objective nor base score: it is
read as a binary classifier with base margin 0 and the features up to the last one that is tested.
Damaged files are not diagnosed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg

__all__ = ["lightgbm_text", "load"]

_FLOAT32: dict[str, Any] = {"input_precision": "float32", "sum_precision": "float32"}
_LOGISTIC: dict[str, Any] = {
    "task": "binary",
    "link": "logistic",
    "tie": "negative",
    "compares": "probability",
}
_SOFTMAX: dict[str, Any] = {"task": "multiclass", "link": "softmax"}


def load(path: str | os.PathLike[str], *, n_features: int | None = None) -> cg.Ensemble:
    """Read a model in one of the old formats, or in any that `carvegbm.load` reads.

    `n_features` is for XGBoost's dumps, which do not name the number of features.
    """
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data.lstrip()[:1] == b"[":
        return _of_xgboost_dump(json.loads(data), n_features)
    if data.lstrip()[:1] == b"{" and "tree_info" in (document := json.loads(data)):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "model.txt")
            text.write_text(lightgbm_text(document), encoding="utf-8")
            return cg.load(text)
    start = 4 * data.startswith(b"binf")
    if data[start + 144 :].startswith((b"binary:", b"multi:", b"reg:", b"rank:", b"count:")):
        return _of_xgboost_binary(data, start)
    return cg.load(path)


# ── XGBoost ──────────────────────────────────────────────────────────────────────────────────


def _split(feature: int, condition: float, **rest: Any) -> dict[str, Any]:
    """A split that sends x left iff x < condition, in float32."""
    threshold = np.nextafter(np.float32(condition), np.float32(-np.inf))
    return {"feature": feature, "threshold": float(threshold), **rest}


def _of_xgboost_dump(document: list[Any], n_features: int | None) -> cg.Ensemble:
    features, has_rules = [-1], True

    def tree(node: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal has_rules
        if "leaf" in node:
            return {"score": float(np.float32(node["leaf"]))}
        children = {child["nodeid"]: child for child in node["children"]}
        feature = int(str(node["split"]).removeprefix("f"))
        features.append(feature)
        left, right = (tree(children[node[side]]) for side in ("yes", "no"))
        sides: dict[str, Any] = {"left": left, "right": right}
        if "missing" in node:
            sides["missing"] = "left" if node["missing"] == node["yes"] else "right"
        else:
            has_rules = False
        return _split(feature, node["split_condition"], **sides)

    trees = [tree(root) for root in document]
    return cg.Ensemble.from_trees(
        trees,
        n_features=1 + max(features) if n_features is None else n_features,
        absent="missing" if has_rules else "zero",
        **_LOGISTIC,
        **_FLOAT32,
    )


_NODE = np.dtype(
    [
        ("parent", "<i4"),
        ("left", "<i4"),
        ("right", "<i4"),
        ("feature", "<u4"),  # the highest bit: missing values go left
        ("value", "<f4"),  # a split's condition, a leaf's score
    ]
)


def _of_xgboost_binary(data: bytes, at: int) -> cg.Ensemble:
    """Read the memory image: header, names, parameters of the model, then tree by tree."""

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    def name() -> str:
        return take(*struct.unpack("<Q", take(8))).decode()

    base, n_features, n_classes, _, _, major = struct.unpack_from("<fIiiiI", take(136))
    objective, booster = name(), name()
    if booster != "gbtree" or not (
        objective in ("multi:softmax", "multi:softprob")
        or (objective == "binary:logistic" and major < 1)  # where base is the margin itself
    ):
        raise cg.ModelError(
            f"is an XGBoost {booster} with the objective {objective}; load it with XGBoost 3.0 or "
            "earlier and save it with save_model"
        )
    n_trees = struct.unpack_from("<i", take(160))[0]
    n_outputs = max(1, n_classes)
    nodes = []
    for _ in range(n_trees):
        n_nodes = struct.unpack_from("<2i", take(148))[1]
        nodes.append(np.frombuffer(take(_NODE.itemsize * n_nodes), _NODE).tolist())
        take(16 * n_nodes)  # statistics
    outputs = np.frombuffer(take(4 * n_trees), "<i4").tolist()

    def tree(part: list[Any], output: int, node: int = 0) -> dict[str, Any]:
        _, left, right, feature, value = part[node]
        if left < 0:
            scores = [0.0] * n_outputs
            scores[output] = value
            return {"score": value if n_outputs == 1 else scores}
        return _split(
            feature & 0x7FFFFFFF,
            value,
            left=tree(part, output, left),
            right=tree(part, output, right),
            missing="left" if feature >> 31 else "right",
        )

    kind = _LOGISTIC if n_outputs == 1 else _SOFTMAX
    if objective == "multi:softprob":
        kind = {**kind, "compares": "probability"}
    return cg.Ensemble.from_trees(
        [tree(part, output) for part, output in zip(nodes, outputs, strict=True)],
        n_features=n_features,
        base_score=[base] * n_outputs,
        absent="missing",
        **kind,
        **_FLOAT32,
    )


# ── LightGBM ─────────────────────────────────────────────────────────────────────────────────


def lightgbm_text(document: Mapping[str, Any]) -> str:
    """Return the text that `save_model` writes for the model of a `dump_model` document."""
    names, infos = document["feature_names"], document.get("feature_infos") or {}
    n_outputs = document.get("num_tree_per_iteration", document.get("num_class", 1))
    listed = [
        ":".join(map(str, infos[name]["values"])) if infos.get(name, {}).get("values") else "none"
        for name in names
    ]
    header = {
        "version": document.get("version", "v2"),
        "num_class": document.get("num_class", 1),
        "num_tree_per_iteration": n_outputs,
        "label_index": document.get("label_index", 0),
        "max_feature_idx": document["max_feature_idx"],
        "objective": document.get("objective"),
        "feature_names": " ".join(names),
        "feature_infos": " ".join(listed),
    }
    lines = ["tree", *(f"{key}={value}" for key, value in header.items() if value is not None)]
    if document.get("average_output"):
        lines.append("average_output")
    for number, info in enumerate(document["tree_info"]):
        lines += ["", f"Tree={number}", *_lightgbm_tree(info["tree_structure"]), ""]
    labels = json.dumps(document.get("pandas_categorical"))
    return "\n".join([*lines, "", "end of trees", "", f"pandas_categorical:{labels}", ""])


def _lightgbm_tree(root: Mapping[str, Any]) -> Iterator[str]:
    """Lines of a tree: inner nodes first, child ~i is leaf i."""
    feature: list[int] = []
    threshold: list[float] = []  # of a split by categories: the number of its set
    decision: list[int] = []
    children: list[list[int]] = []
    scores: list[float] = []
    boundaries, words = [0], list[int]()

    def add(node: Mapping[str, Any]) -> int:
        if "split_feature" not in node:
            scores.append(node["leaf_value"])
            return ~(len(scores) - 1)
        position, missing = len(feature), {"None": 0, "Zero": 1, "NaN": 2}
        by_set = node["decision_type"] == "=="
        feature.append(node["split_feature"])
        decision.append(
            by_set | 2 * bool(node.get("default_left")) | 4 * missing[node["missing_type"]]
        )
        if by_set:
            threshold.append(len(boundaries) - 1)
            codes = [int(code) for code in str(node["threshold"]).split("||")]
            bits = sum(1 << code for code in set(codes))
            words.extend(bits >> start & 0xFFFFFFFF for start in range(0, max(codes) + 1, 32))
            boundaries.append(len(words))
        else:
            threshold.append(node["threshold"])
        children.append([0, 0])
        children[position] = [add(node["left_child"]), add(node["right_child"])]
        return position

    add(root)
    fields: dict[str, Sequence[Any]] = {"leaf_value": scores}
    if feature:
        left, right = zip(*children, strict=True)
        fields |= {"split_feature": feature, "threshold": threshold, "decision_type": decision}
        fields |= {"left_child": left, "right_child": right}
    if words:
        fields |= {"cat_boundaries": boundaries, "cat_threshold": words}
    yield f"num_leaves={len(scores)}"
    yield f"num_cat={len(boundaries) - 1}"
    for key, values in fields.items():
        yield f"{key}={' '.join(map(repr, values))}"


def main() -> None:
    """Convert a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new", help="a name that ends in .json")
    parser.add_argument("--n-features", type=int, help="for XGBoost's dumps")
    given = parser.parse_args()
    load(given.old, n_features=given.n_features).save(given.new)


if __name__ == "__main__":
    main()
