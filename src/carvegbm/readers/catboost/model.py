"""CatBoost models: JSON files, and through the library `.cbm` files and objects.

Comes in: the parsed document of ``save_model(path, format="json")``, which needs no library; or
what the library turns into one. Goes out: an `Ensemble` whose raw score equals
``predict(X, prediction_type="RawFormulaVal")`` bit for bit: scale times the sum of doubles in the
order of the trees, then the bias.

- Inputs are float32 and x goes right iff x > border, so a border is a threshold as it stands.
- The bias is added last, so it is a last tree of one leaf wherever it is not zero.
- A scale other than 1 (`set_scale_and_bias`) multiplies every leaf. The raw score is the library's
  where the scale is a power of two, and equals it up to rounding elsewhere.
- NaN goes left, but right where the training data had NaN and took it for the largest number
  (``nan_mode="Max"``). `nan_mode` "Forbidden" concerns training only: `predict` sends NaN left.
- A one-hot split is a split by a set of one category. Every categorical feature may take all the
  categories that the file lists, which does not say whose they are: an attacker's `categories`
  narrow it down. A split by target statistics (CTR) is refused.
- Two classes: the second iff raw > log(p / (1 − p)), p the model's probability threshold. Several
  classes: the first with the largest raw score, also where every class has a loss of its own.
- Losses whose prediction is an increasing function of the raw score (Poisson, Tweedie) and those
  that rank are regression on the raw score: ranges of outputs are in raw space.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.catboost.binary import document_of
from carvegbm.readers.catboost.trees import Splits, translate
from carvegbm.readers.checks import Classes, count, number, numbers, refuse_override
from carvegbm.readers.trees import Tree, assemble
from carvegbm.trees.iterations import IterationRange, Iterations

__all__ = ["from_binary", "from_document", "from_estimator", "is_document"]

_MULTICLASS = {"MultiClass": "softmax", "MultiClassOneVsAll": "logistic"}
_BINARY = ("Logloss", "CrossEntropy", "Focal")


def is_document(document: Mapping[str, Any]) -> bool:
    """Whether a JSON document is a model as CatBoost writes it."""
    return "features_info" in document and bool(document.keys() & {"oblivious_trees", "trees"})


def from_estimator(
    model: Any, classes: Classes, iteration_range: IterationRange = None
) -> Ensemble:
    """Read a fitted CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker."""
    if not hasattr(model, "save_model"):
        raise ModelError(
            f"is a catboost.{type(model).__name__}, not a model; pass a fitted CatBoostClassifier, "
            "CatBoostRegressor or CatBoost"
        )
    refuse_override(model, "catboost", ("predict", "predict_proba", "save_model"))
    if not model.is_fitted():
        raise ModelError("the model is not fitted; call fit first")
    return from_document(_document(model), classes, iteration_range)


def from_binary(data: bytes, classes: Classes, iteration_range: IterationRange = None) -> Ensemble:
    """Read the content of a `.cbm` file."""
    return from_document(document_of(data), classes, iteration_range)


def _document(model: Any) -> Any:
    """What the library writes as JSON; its numbers are shortest decimals, so nothing is lost."""
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except catboost.CatBoostError as error:
            raise ModelError(
                f"catboost cannot write it as JSON ({str(error)[:200]}); train it without text "
                "and embedding features"
            ) from None
        return json.loads(path.read_text(encoding="utf-8"))


def from_document(
    document: Any, classes: Classes, iteration_range: IterationRange = None
) -> Ensemble:
    """Read the content of a JSON file."""
    info = document.get("features_info")
    if not isinstance(info, dict):
        raise ModelError("features_info must be a dict; the file is damaged")
    splits = Splits.of(info)
    trees = translate(document, splits)
    best = _best(document.get("model_info"), len(trees))
    iterations = Iterations.chosen(iteration_range or "all", len(trees), best)
    trees = trees[: iterations.used]
    scale, bias = _scale_and_bias(document.get("scale_and_bias"))
    n_outputs = trees[0].score.shape[1] if trees else len(bias)
    for index, tree in enumerate(trees):
        if tree.score.shape[1] != n_outputs:
            raise ModelError(
                f"tree {index} has {tree.score.shape[1]} scores per leaf, tree 0 has {n_outputs}; "
                "the file is damaged"
            )
    if len(bias) == 1:
        bias = np.full(n_outputs, bias[0])
    if len(bias) != n_outputs:
        raise ModelError(
            f"the bias has {len(bias)} values for {n_outputs} outputs; the file is damaged"
        )
    scaled = [replace(tree, score=_times(scale, tree.score)) for tree in trees]
    if bias.any():
        scaled.append(replace(Tree.leaf(0.0), score=bias[None, :]))
    fields = _task(document.get("model_info"), n_outputs)
    return assemble(
        scaled,
        n_outputs=n_outputs,
        n_features=splits.n_features,
        feature_names=splits.names,
        classes=fields.pop("classes", None) if classes is None else classes,
        input_precision="float32",
        categories=splits.categories,
        category_rule="text",
        iterations=iterations,
        **{name: value for name, value in fields.items() if name != "classes"},
    )


def _best(model_info: Any, total: int) -> int | None:
    """How many of the trees were best on the validation data, if the model says so.

    CatBoost drops the others, unless it was trained with use_best_model=False.
    """
    text = model_info.get("training") if isinstance(model_info, dict) else None
    if text is None:
        return None
    metrics = json.loads(text).get("metrics", {})
    if "best_iteration" not in metrics:
        return None
    best = count(metrics, "best_iteration") + 1
    return best if best <= total else None  # the model was cut after training


def _times(scale: float, score: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):  # what leaves the range is refused later
        return score if scale == 1 else scale * score


def _scale_and_bias(given: Any) -> tuple[float, npt.NDArray[np.float64]]:
    """[scale, [bias, …]], or [scale, 0] as older versions write it, or nothing at all."""
    if given is None:
        return 1.0, np.zeros(1)
    if not isinstance(given, list) or len(given) != 2:
        raise ModelError(
            f"scale_and_bias must be a pair, got {str(given)[:40]!r}; the file is damaged"
        )
    bias = given[1] if isinstance(given[1], list) else [given[1]]
    if bias is not given[1] and bias != [0]:
        raise ModelError(
            f"the bias is {str(given[1])[:40]!r}, not a list, and CatBoost takes that for 0; the "
            "file is damaged"
        )
    return number(given[0], "scale"), numbers(bias, None, "the bias")


def _task(model_info: Any, n_outputs: int) -> dict[str, Any]:
    """What the model decides, and how: fields of `Ensemble`."""
    info = model_info if isinstance(model_info, dict) else {}
    loss = _nested(_nested(info.get("params")).get("loss_function")).get("type")
    labels = _nested(info.get("class_params") or info.get("multiclass_params"))
    if n_outputs > 1:
        if loss not in _MULTICLASS:
            raise ModelError(
                f"predicts {n_outputs} numbers at once (loss function {str(loss)[:60]!r}), which "
                "are not scores of classes; train a model per target"
            )
        fields: dict[str, Any] = {"task": "multiclass", "link": _MULTICLASS[loss]}
    elif labels or loss in _BINARY:
        fields = {"task": "binary", "link": "logistic", "tie": "negative"}
        fields["threshold"] = _logit(info.get("binclass_probability_threshold", 0.5))
    else:
        return {"task": "regression"}
    return fields | {"classes": _labels(labels, n_outputs)}


def _labels(params: Mapping[str, Any], n_outputs: int) -> list[Any] | None:
    """The label of every output; several may be named that no training row had."""
    n_classes = max(2, n_outputs)
    names, order = params.get("class_names") or [], params.get("class_to_label") or []
    if not isinstance(names, list) or not isinstance(order, list):
        raise ModelError("class_names and class_to_label must be lists; the file is damaged")
    places = [count({"class_to_label": place}, "class_to_label") for place in order]
    if places != sorted(set(places)) or (n_outputs == 1 and places not in ([], [0, 1])):
        raise ModelError(  # CatBoost writes no other order, and ignores this one
            f"class_to_label is {str(order)[:40]}, not 0, 1, … in ascending order; it is damaged"
        )
    if len(order) != n_classes:
        order = list(range(n_classes))
    if not names:
        return [count({"class_to_label": place}, "class_to_label") for place in order]
    if not all(isinstance(place, int) and 0 <= place < len(names) for place in order):
        raise ModelError(
            f"class_names names {len(names)} classes, the model has {n_classes}; it is damaged"
        )
    if not all(isinstance(name, str | int | float) for name in names):
        raise ModelError("class_names must be texts or numbers; the file is damaged")
    return [
        float(names[place]) if params.get("class_label_type") == "Float" else names[place]
        for place in order
    ]


def _logit(given: Any) -> float:
    """The raw score of a probability, as CatBoost computes it."""
    try:
        probability = float(given)
    except (TypeError, ValueError):
        probability = math.nan
    if not 0 < probability < 1:
        raise ModelError(
            f"binclass_probability_threshold is {str(given)[:40]!r}, so that one class always "
            "wins; set_probability_threshold to a number between 0 and 1"
        )
    try:
        return -math.log(1 / probability - 1)
    except (OverflowError, ValueError):
        return math.copysign(math.inf, probability - 0.5)


def _nested(given: Any) -> Mapping[str, Any]:
    """A part of the model's information: a dict, or in older files its text as JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    return given if isinstance(given, dict) else {}
