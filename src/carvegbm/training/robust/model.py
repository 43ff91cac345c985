"""Models of the robust grower's trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from carvegbm.training.binning import BinMapper
from carvegbm.training.model import GBDTModel, GrownTree, ModelSpec, header_of, stored_scores
from carvegbm.training.robust.growing import Grown, GrowthSettings

__all__ = ["model_of", "template_of"]


def model_of(grown: Grown, spec: ModelSpec, header: str, bins: BinMapper) -> GBDTModel:
    """Return the model of grown trees; a constant if there are none."""
    folded = grown.folded()
    trees = [
        GrownTree.from_coded(tree, stored_scores(values), bins)
        for tree, values in zip(folded.trees, folded.values, strict=True)
    ] or [GrownTree.constant(float(bias), 0) for bias in grown.bias]
    return GBDTModel(trees, spec, header, bins)


def template_of(
    parameters: Mapping[str, Any], settings: GrowthSettings, n_features: int, n_rounds: int
) -> str:
    """Return the header of models grown with these settings."""
    objective = {
        name: parameters[name] for name in ("objective", "num_class") if name in parameters
    }
    named = {name: value for name, value in asdict(settings).items() if name != "ordered"}
    return header_of({**named, **objective}, n_features, n_rounds, settings.bagging_freq)
