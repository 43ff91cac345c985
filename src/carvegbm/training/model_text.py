"""LightGBM's text format: from grown trees to a model that stock LightGBM loads.

Comes in: the text of a Booster trained on codes, and the grown trees. Goes out: the text of the
same model on real features. Numbers are written so that they read back as the same doubles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from carvegbm.training.grown import GrownTree
from carvegbm.training.thresholds import Candidates

__all__ = ["safe_names", "write_model"]


def write_model(
    template: str,
    trees: Sequence[GrownTree],
    candidates: Candidates,
    *,
    feature_names: Sequence[str],
    n_outputs: int,
    objective: str,
) -> str:
    """The model text of `trees`, which belong to outputs 0, 1, …, n_outputs - 1 in turn.

    Parameters
    ----------
    template : str
        Text of the Booster that grew the trees: header, parameters and the rest come from it.
    trees : sequence of GrownTree
    candidates : Candidates
    feature_names : sequence of str, see `safe_names`
    n_outputs : int
    objective : str
        As the header states it where the template has none, e.g. "multiclass num_class:3".
    """
    blocks = [_block(i, tree, candidates) for i, tree in enumerate(trees)]
    head, _, rest = template.partition("\n\n")
    header = dict(line.partition("=")[::2] for line in head.split("\n"))
    header.setdefault("objective", objective)
    header |= {
        "num_class": str(n_outputs),
        "num_tree_per_iteration": str(n_outputs),
        "feature_names": " ".join(feature_names),
        "feature_infos": " ".join(
            f"[{lower!r}:{upper!r}]" if lower < upper else "none"
            for lower, upper in zip(
                candidates.lower.tolist(), candidates.upper.tolist(), strict=True
            )
        ),
        "tree_sizes": " ".join(str(len(block)) for block in blocks),
    }
    order = ["tree", "version", "num_class", "num_tree_per_iteration", "label_index"]
    order += ["max_feature_idx", "objective"]
    keys = [*order, *(key for key in header if key not in order)]
    lines = [f"{key}={header[key]}" if header[key] else key for key in keys]
    uses = Counter(feature for tree in trees for feature in tree.feature.tolist())
    importances = "".join(f"{feature_names[f]}={count}\n" for f, count in uses.most_common())
    parameters = rest[rest.index("\nparameters:") :]
    parameters = re.sub(r"\[num_class: \d+\]", f"[num_class: {n_outputs}]", parameters)
    parameters = re.sub(
        r"\[objective: \w*\]", f"[objective: {header['objective'].split()[0]}]", parameters
    )
    return (
        "\n".join(lines)
        + "\n\n"
        + "".join(blocks)
        + f"end of trees\n\nfeature_importances:\n{importances}{parameters}"
    )


def _block(index: int, tree: GrownTree, candidates: Candidates) -> str:
    thresholds = (
        repr(float(candidates.values[feature][position]))
        for feature, position in zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True)
    )
    fields = {**tree.fields, "threshold": " ".join(thresholds)}
    return "\n".join([f"Tree={index}", *(f"{k}={v}" for k, v in fields.items()), "", "", ""])


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
