"""LightGBM's text format: from grown trees to a model that stock LightGBM loads.

Comes in: the text of a Booster trained on codes, and the grown trees. Goes out: the text of the
same model on real features. Numbers are written so that they read back as the same doubles.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from carvegbm.training.growing.grown import GrownTree

__all__ = ["category_info", "objective_of", "range_info", "safe_names", "write_model"]


def write_model(
    template: str,
    trees: Sequence[GrownTree],
    feature_names: Sequence[str],
    infos: Sequence[str],
    n_outputs: int,
    labels: Sequence[Sequence[Any]] = (),
) -> str:
    """The model text of `trees`, which belong to outputs 0, 1, …, n_outputs - 1 in turn.

    Parameters
    ----------
    template : str
        Text of the Booster that grew the trees: header, parameters and the rest come from it.
    trees : sequence of GrownTree
    feature_names : sequence of str, see `safe_names`
    infos : sequence of str
        The values of every feature in training, see `range_info` and `category_info`.
    n_outputs : int
    labels : sequence of sequences
        Of every column of the training frame that held categories, in the order of the columns.
    """
    blocks = [_block(i, tree) for i, tree in enumerate(trees)]
    header = _header(template)
    header.setdefault("objective", f"multiclass num_class:{n_outputs}")
    header |= {
        "num_class": str(n_outputs),
        "num_tree_per_iteration": str(n_outputs),
        "feature_names": " ".join(feature_names),
        "feature_infos": " ".join(infos),
        "tree_sizes": " ".join(str(len(block)) for block in blocks),
    }
    order = ["tree", "version", "num_class", "num_tree_per_iteration", "label_index"]
    order += ["max_feature_idx", "objective"]
    keys = [*order, *(key for key in header if key not in order)]
    lines = [f"{key}={header[key]}" if header[key] else key for key in keys]
    uses = Counter(feature for tree in trees for feature in tree.feature.tolist())
    importances = "".join(f"{feature_names[f]}={count}\n" for f, count in uses.most_common())
    parameters = template[template.index("\nparameters:") :]
    parameters = re.sub(r"\[num_class: \d+\]", f"[num_class: {n_outputs}]", parameters)
    parameters = re.sub(
        r"\[objective: \w*\]", f"[objective: {header['objective'].split()[0]}]", parameters
    )
    return (
        "\n".join(lines)
        + "\n\n"
        + "".join(blocks)
        + f"end of trees\n\nfeature_importances:\n{importances}{parameters}"
        + (f"\npandas_categorical:{json.dumps([list(own) for own in labels])}\n" if labels else "")
    )


def range_info(lowest: float, highest: float) -> str:
    """What the text says of the values of a feature: their range, if it has more than one.

    Examples
    --------
    >>> range_info(0.0, 1.5), range_info(2.0, 2.0)
    ('[0.0:1.5]', 'none')
    """
    return f"[{lowest!r}:{highest!r}]" if lowest < highest else "none"


def category_info(categories: Iterable[int]) -> str:
    """What the text says of the values of a categorical feature; -1 stands for all others.

    Examples
    --------
    >>> category_info([0, 3])
    '-1:0:3'
    """
    return ":".join(map(str, [-1, *categories]))


def objective_of(template: str) -> str:
    """The objective of a model text with its options, such as "binary sigmoid:1"; "" for none."""
    return _header(template).get("objective", "")


def _header(template: str) -> dict[str, str]:
    head = template.partition("\n\n")[0]
    return dict(line.partition("=")[::2] for line in head.split("\n"))


def _block(index: int, tree: GrownTree) -> str:
    lines = (f"{key}={value}" for key, value in tree.lines().items())
    return "\n".join([f"Tree={index}", *lines, "", "", ""])


def safe_names(names: Sequence[str]) -> list[str]:
    """Feature names as LightGBM's text can hold them.

    Spaces and the characters that structure JSON become underscores; a name that is taken gets
    its position appended.

    Examples
    --------
    >>> safe_names(["age", "income [€]", "income (€)"])
    ['age', 'income__€_', 'income_(€)']
    """
    safe: list[str] = []
    taken: set[str] = set()
    for position, name in enumerate(names):
        plain = re.sub(r'[\s",:\[\]{}]', "_", str(name)) or f"Column_{position}"
        while plain in taken:
            plain = f"{plain}_{position}"
        taken.add(plain)
        safe.append(plain)
    return safe
