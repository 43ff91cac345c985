"""A model on its way from grown trees to LightGBM: an ensemble, and what its text consists of.

Comes in: grown trees. Goes out: an `Ensemble` at once, for whoever judges the model; LightGBM's
text and a Booster when they are asked for, which is once, for a model that was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble, Task
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes
from carvegbm.readers.lightgbm import from_text
from carvegbm.readers.trees import Tree, assemble
from carvegbm.training.data import some_rows
from carvegbm.training.growing.grown import GrownTree
from carvegbm.training.growing.model_text import (
    category_info,
    objective_of,
    range_info,
    write_model,
)
from carvegbm.training.growing.thresholds import ZERO_ZONE, Candidates
from carvegbm.training.inputs import blank_ensemble

__all__ = ["GrownModel", "Kind", "writable"]

Floats = npt.NDArray[np.float64]

# How LightGBM's own `predict` gets from raw scores to labels, as its reader knows it.
_LINKS: dict[Task, dict[str, Any]] = {
    "binary": {"link": "logistic", "tie": "negative", "compares": "probability"},
    "multiclass": {"link": "softmax", "compares": "probability"},
    "regression": {},
}


@dataclass(frozen=True)
class Kind:
    """What a model is to say, and of what.

    Attributes
    ----------
    task : {"binary", "multiclass", "regression"}
    n_outputs : int
        Number of classes for multiclass, else 1.
    feature_names : sequence of str
        As LightGBM's text can hold them, see `safe_names`.
    classes : array, optional
        Labels in the order of the outputs; None for regression.
    categories : mapping
        Of categorical features: the label of every category that was seen, by its code.
    labels : sequence of sequences
        Of every column of the training frame that held categories, see `write_model`.
    """

    task: Task
    n_outputs: int
    feature_names: Sequence[str]
    classes: Classes = None
    categories: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)
    labels: Sequence[Sequence[Any]] = ()

    def blank(self) -> Ensemble:
        """An ensemble that knows these features and nothing else."""
        return blank_ensemble(len(self.feature_names), self.feature_names, self.categories)

    def ensemble(self, trees: Sequence[Tree], link_scale: float = 1.0) -> Ensemble:
        """The ensemble that a reader would find in the model's text."""
        fields = dict(_LINKS[self.task])
        if self.task == "binary":
            fields["link_scale"] = link_scale
        return assemble(
            trees,
            n_outputs=self.n_outputs,
            n_features=len(self.feature_names),
            task=self.task,
            classes=self.classes,
            feature_names=self.feature_names,
            categories=self.categories,
            category_rule="truncate",
            **fields,
        )


@dataclass(frozen=True, eq=False)
class GrownModel:
    """A trained model: `ensemble`, and LightGBM's text and Booster of the same trees.

    Attributes
    ----------
    trees : sequence of GrownTree
        Of outputs 0, 1, … in turn.
    kind : Kind
    template : str
        Text of the Booster that grew the trees, see `write_model`.
    infos : sequence of str
        What the text says of the values of every feature in training.
    """

    trees: Sequence[GrownTree]
    kind: Kind
    template: str
    infos: Sequence[str]

    @classmethod
    def of(
        cls, trees: Sequence[GrownTree], kind: Kind, template: str, candidates: Candidates
    ) -> GrownModel:
        """The model of trees that split at these candidates."""
        ranges = zip(candidates.lower.tolist(), candidates.upper.tolist(), strict=True)
        infos = [range_info(lowest, highest) for lowest, highest in ranges]
        for feature, labels in kind.categories.items():
            infos[feature] = category_info(labels)
        return cls(trees, kind, template, infos)

    @cached_property
    def ensemble(self) -> Ensemble:
        """The model's trees and scores."""
        n_outputs = self.kind.n_outputs
        return self.kind.ensemble(
            [tree.as_tree(index % n_outputs) for index, tree in enumerate(self.trees)],
            link_scale=_sigmoid(objective_of(self.template)),
        )

    def with_scores(self, scores: Floats) -> GrownModel:
        """The same trees with other scores, a row per leaf and a column per output."""
        trees, done = [], 0
        for index, tree in enumerate(self.trees):
            own = scores[done : done + tree.n_leaves, index % self.kind.n_outputs]
            trees.append(tree.with_values(own))
            done += tree.n_leaves
        return replace(self, trees=trees)

    def text(self) -> str:
        """LightGBM's text of the model."""
        kind = self.kind
        names, infos = kind.feature_names, self.infos
        return write_model(self.template, self.trees, names, infos, kind.n_outputs, kind.labels)

    def booster(self, X: Any) -> Any:
        """Return LightGBM's Booster of the model; its raw scores on rows of X are checked."""
        import lightgbm

        text = self.text()
        self._check(text)
        booster = lightgbm.Booster(model_str=text)
        rows = X[some_rows(X.shape[0])]
        theirs = booster.predict(rows, raw_score=True, num_threads=1)
        if not np.array_equal(theirs, self.ensemble.raw_score(rows, threads=1)):
            raise ModelError(
                f"LightGBM {lightgbm.__version__} has other raw scores than the trees that were "
                "written for it; train with another version of LightGBM"
            )
        return booster

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrownModel) and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.text())

    def _check(self, text: str) -> None:
        """Refuse a text that does not hold the ensemble."""
        found = from_text(text, self.kind.classes)
        theirs, ours = (
            {feature: sorted(known) for feature, known in each.categories.items()}
            for each in (found, self.kind)
        )
        # The text has labels of columns, and does not say of which: a reader may know codes only.
        kind = replace(self.kind, categories=found.categories)
        if theirs != ours or found != replace(self, kind=kind).ensemble:
            raise ModelError(
                "the text written for LightGBM does not hold the trees that were grown; train with "
                "another version of LightGBM"
            )


def writable(scores: Floats) -> Floats:
    """Scores as a LightGBM model holds them: what is as good as 0 to LightGBM is 0."""
    return np.where(np.abs(scores) <= ZERO_ZONE, 0.0, scores)


def _sigmoid(objective: str) -> float:
    """The scale of raw scores, rounded as LightGBM's text has it."""
    for option in objective.split():
        if option.startswith("sigmoid:"):
            return float(option.partition(":")[2])
    return 1.0
