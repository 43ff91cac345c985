"""Write leaf scores into the JSON of an XGBoost model, as float32 numbers.

The result is a Booster whose raw predictions equal the ensemble's bit for bit. All but the leaf
scores stays as it is, base_score included; only the trees of a dart booster lose their weights,
which the scores contain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, ModelError
from carvegbm.readers import load
from carvegbm.training.data import some_rows
from carvegbm.training.refitting.rewriting import Rewriter, not_by_leaf

__all__ = ["XGBoostRewriter"]

Floats = npt.NDArray[np.float64]


class XGBoostRewriter(Rewriter):
    """Writes copies of an XGBoost model.

    Parameters
    ----------
    source : Booster, or bytes of a JSON file
    ensemble : Ensemble
        That was read from it.
    """

    def __init__(self, source: Any, ensemble: Ensemble) -> None:
        self._booster = _opened(source) if isinstance(source, bytes) else source
        config = json.loads(self._booster.save_config())
        super().__init__(ensemble, config["learner"]["objective"]["name"])

    def held(self, scores: Floats) -> Floats:
        """The scores as float32 numbers."""
        with np.errstate(over="ignore", under="ignore"):
            return scores.astype(np.float32).astype(np.float64)

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:
        """Return a Booster with these scores, checked on the rows of X."""
        import xgboost

        expected = self.ensemble.with_scores(scores)
        written = self._booster.copy()
        written.load_model(bytearray(self._rewritten(scores).encode()))
        if (used := self.ensemble.iterations) is not None:
            # A Booster predicts with all its trees, also those after the best iteration.
            written = written[: used.used]
        labels = None if expected.task == "regression" else expected.classes.tolist()
        if load(written, classes=labels) != expected:
            raise not_by_leaf()
        rows = X[some_rows(len(X))]
        matrix = xgboost.DMatrix(rows, feature_names=written.feature_names)
        margins = written.predict(matrix, output_margin=True).astype(np.float64)
        if not np.array_equal(margins, expected.raw_score(rows)):
            raise ModelError(
                "xgboost has other raw scores for the rewritten model than its trees; pass "
                "carvegbm.load(model)"
            )
        return written

    def _rewritten(self, scores: Floats) -> str:
        """The model's JSON with these scores."""
        document = json.loads(bytes(self._booster.save_raw("json")))
        booster = document["learner"]["gradient_booster"]
        weighted = booster
        if booster["name"] == "dart":
            booster = booster["gbtree"]
        model = booster["model"]
        weighted = weighted if "weight_drop" in weighted else model  # there since XGBoost 3.4
        if weights := weighted.get("weight_drop"):
            weights[: self.ensemble.n_trees] = [1.0] * self.ensemble.n_trees
        row = 0
        # An estimator that stopped early keeps trees that its ensemble does not count.
        trees = model["trees"][: self.ensemble.n_trees]
        for tree, output in zip(trees, model["tree_info"], strict=False):
            leaves = _leaves(tree)
            own = scores[row : row + len(leaves), output]
            if len(own) < len(leaves):
                raise not_by_leaf()
            for node, score in zip(leaves, own.astype(np.float32), strict=True):
                # The digits that XGBoost itself would write: the fewest that tell the number.
                tree["split_conditions"][node] = float(str(score))
            row += len(leaves)
        return json.dumps(document)


def _opened(data: bytes) -> Any:
    try:
        import xgboost
    except ImportError:
        raise CarveError(
            "a refitted XGBoost model needs xgboost; pip install xgboost, or pass "
            "carvegbm.load(model) for an Ensemble"
        ) from None
    try:
        return xgboost.Booster(model_file=bytearray(data))
    except xgboost.core.XGBoostError as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"xgboost cannot open the model ({reason}); pass carvegbm.load(model) for an Ensemble"
        ) from None


def _leaves(tree: Mapping[str, Any]) -> list[int]:
    """The leaves that a row can reach, in the order of the tree's nodes."""
    left, right = tree["left_children"], tree["right_children"]
    found, pending = [], [0]
    while pending:
        node = pending.pop()
        if left[node] < 0:
            found.append(node)
        else:
            pending += [left[node], right[node]]
    return sorted(found)
