"""The explanation of one row: the row, its witness by feature, its score by tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.data.sparse import Csr, is_sparse
from carvegbm.results import OfModel, plain_column

__all__ = ["ChangedFeature", "ChangedTree", "CrossedSplit", "Explanation"]

Row = npt.NDArray[np.float64] | Csr


@dataclass(frozen=True)
class ChangedFeature:
    """One change that a witness needs: of a feature, or of a one-hot group as a whole."""

    name: str
    features: tuple[int, ...]
    """Position of the feature; of a group, of its members that were 1 before and after."""
    kind: Literal["number", "category", "one-hot"]
    before: Any
    """A number, the label of a category (None: unknown to the model), or the name of the member of
    the group that is 1."""
    after: Any
    distance: float
    """The smallest budget that allows this change alone."""
    alone: bool
    """Whether this change flips the answer without the others."""
    thresholds: tuple[float, ...] = ()
    """Of numbers: the thresholds of the model between before and after, in this order."""
    trees: int = 0
    """Number of trees in which the witness would reach another leaf without this change."""

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, and the change of a number."""
        lists = {"features": list(self.features), "thresholds": list(self.thresholds)}
        found = {**vars(self), **lists}
        if self.kind == "number":
            found["change"] = float(Fraction(self.after) - Fraction(self.before))
        return found


@dataclass(frozen=True)
class CrossedSplit:
    """A split that sends the witness to the other side than the row."""

    feature: str
    threshold: float | None
    """None if the split tests categories."""
    categories: tuple[Any, ...] | None
    """Labels of the categories that go left; None if there is a threshold."""
    side: Literal["left", "right"]
    """The witness's side: left iff its value <= threshold, or its category is listed."""

    def to_dict(self) -> dict[str, Any]:
        """The feature, its threshold or categories, and the side, as plain values."""
        test: dict[str, Any] = {"threshold": self.threshold}
        if self.categories is not None:
            test = {"categories": list(self.categories)}
        return {"feature": self.feature, **test, "side": self.side}


@dataclass(frozen=True)
class ChangedTree:
    """A tree in which the witness reaches another leaf than the row."""

    tree: int
    before: tuple[float, ...]
    """Score of the row's leaf; for many classes: the scores of the label and of the rival."""
    after: tuple[float, ...]
    """Score of the witness's leaf, in the same form."""
    contribution: Fraction
    """Exact loss of margin by the change of leaf; may be negative."""
    crossed: tuple[CrossedSplit, ...]
    """The splits on the witness's path that send the row to the other side, from the root on."""

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values; the contribution is rounded, the leaf scores are not."""
        return {
            "tree": self.tree,
            "before": list(self.before),
            "after": list(self.after),
            "contribution": float(self.contribution),
            "crossed": [split.to_dict() for split in self.crossed],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(OfModel):
    """One row: the model's answer, how far the row is from a flip, and why.

    With many classes, the margin is the score of the label less that of the best rival. The best
    rival of the witness (`rival`) may differ from that of the row (`first_rival`), so that

        margin - witness_margin = sum of all contributions - lead

    exactly, where lead is by how much `first_rival` was ahead of `rival` for the row; 0 if they
    are the same class, and with two classes.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.explain(model, [0.75], 1, cg.Attacker("inf", 0.1))
    >>> found
    <Explanation: row 0, right, radius 0.25, robust, 1 change>
    >>> print(found)
    row 0
      label   1
      answer  1: right
      margin  1
      radius  0.25, norm inf
      status  robust: right, and stays right
              against Attacker(norm=inf, budget=0.1)
    <BLANKLINE>
    nearest witness: answer 0, distance 0.25, 1 change
      feature    before  after  change  crosses
      feature 0    0.75    0.5   -0.25  ≤ 0.5
      undo any one change, and the answer is 1 again
      enough alone, without the others: feature 0
    <BLANKLINE>
    leaves: 1 of 1 tree with another one
      tree  before  after  margin  crosses
         0       1     -1      -2  feature 0 ≤ 0.5
       all                     -2  from 1 to -1
    """

    row: int
    """Number of the row, counted from 0."""
    label: Any
    """The right answer."""
    is_own: bool
    """No label was given: the model's own answer counts as right."""
    answer: Any
    """The model's answer: the class that the exact sum of leaf scores decides for."""
    margin: float
    """How far the raw score is on the right side of the decision threshold."""
    scores: tuple[float, ...]
    """The raw score, or one per class."""
    radius: float
    """The smallest budget that flips the answer: 0 if it is wrong already, infinite if none does,
    NaN where it was not decided in time."""
    lower: float
    """lower <= radius"""
    upper: float
    """radius <= upper"""
    attacker: Attacker
    """Its budget is 0 if none was given."""
    status: str | None
    """Status against the attacker, as from `verify`; None if no budget was given."""
    instance: Row
    """The row as given, in numbers; in CSR if it was sparse."""
    witness: Row | None = None
    """The nearest row with another answer; None if there is none, if the answer is wrong already,
    or if none was found in time."""
    distance: float = math.nan
    """The smallest budget that allows the witness: the radius, if that is known and a valid budget
    (1e-100 or more)."""
    witness_answer: Any = None
    witness_margin: float = math.nan
    witness_scores: tuple[float, ...] = ()
    borderline: bool = False
    """Whether the witness is closer to the decision threshold than the source library's rounding:
    it flips the exact sum, and the library's own answer may differ."""
    changes: tuple[ChangedFeature, ...] = ()
    """The changes of the witness; without any one of them the answer does not flip."""
    trees: tuple[ChangedTree, ...] = ()
    """The trees whose leaf changes, the largest loss of margin first."""
    unchanged_trees: int = 0
    rival: Any = None
    """With many classes: the best class other than the label, for the witness."""
    first_rival: Any = None
    """The same for the row."""
    lead: Fraction = Fraction(0)
    """By how much the first rival's score exceeds that of the rival, for the row."""
    classes: tuple[Any, ...] = ()
    feature_names: tuple[str, ...] | None = None

    @property
    def right(self) -> bool:
        """Whether the model's answer is the label."""
        return bool(self.answer == self.label)

    @property
    def is_exact(self) -> bool:
        """Whether the radius is known."""
        return not math.isnan(self.radius)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; NaN and infinity become None."""
        found: dict[str, Any] = self._of_model() | {
            "row": self.row,
            "label": self.label,
            "own_label": self.is_own,
            "answer": self.answer,
            "right": self.right,
            "margin": self.margin,
            "scores": self._by_class(self.scores),
            "radius": _finite(self.radius),
            "lower": _finite(self.lower),
            "upper": _finite(self.upper),
            "attacker": self.attacker.to_dict(),
            "status": self.status,
            "instance": _plain_row(self.instance),
        }
        if self.status is None:
            del found["attacker"]["budget"]
        if self.rival is not None:
            found |= {"rival": self.rival, "first_rival": self.first_rival}
        if self.witness is None:
            return found | {"witness": None}
        return found | {
            "witness": {
                "answer": self.witness_answer,
                "margin": self.witness_margin,
                "scores": self._by_class(self.witness_scores),
                "distance": self.distance,
                "borderline": self.borderline,
                "changes": [change.to_dict() for change in self.changes],
                "values": _plain_row(self.witness),
            },
            "trees": [tree.to_dict() for tree in self.trees],
            "unchanged_trees": self.unchanged_trees,
            "lead": float(self.lead),
        }

    def _by_class(self, scores: tuple[float, ...]) -> Any:
        """The raw score, or a mapping from the classes to theirs."""
        if len(scores) == 1:
            return scores[0]
        return {str(name): score for name, score in zip(self.classes, scores, strict=True)}

    def _text(self) -> str:
        from carvegbm.explanation.text import as_text

        return as_text(self)

    def __repr__(self) -> str:
        from carvegbm.explanation.text import in_short

        return f"<Explanation: {in_short(self)}{self._in_short}>"

    def _repr_html_(self) -> str:
        return f'<pre style="font-family: monospace">{escape(str(self))}</pre>'


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _plain_row(row: Row) -> list[Any] | Mapping[str, Any]:
    """The values of a row; of a sparse row the stored ones by position."""
    if is_sparse(row):
        stored = plain_column(np.asarray(row.data, dtype=np.float64))
        return dict(zip(map(str, row.indices.tolist()), stored, strict=True))
    return plain_column(np.asarray(row))
