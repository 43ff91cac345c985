"""An additive ensemble of regression trees as flat, immutable arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.data.names import feature_position
from carvegbm.data.rows import as_labels, check_threads
from carvegbm.data.sparse import places_of
from carvegbm.errors import DataError, ModelError
from carvegbm.model import categories as category_checks
from carvegbm.model import nodes as layout
from carvegbm.model.categories import Categories, CategoryRule, UnknownCategory, in_states
from carvegbm.model.decision import class_indices
from carvegbm.model.nodes import NODE, double, whole
from carvegbm.model.rows import checked_rows, raw_scores

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = [
    "Absent",
    "Compared",
    "Ensemble",
    "IterationRange",
    "Iterations",
    "Precision",
    "Task",
    "Tie",
    "fields_of",
]

Task = Literal["binary", "multiclass", "regression"]
Link = Literal["identity", "logistic", "softmax"]
Precision = Literal["float64", "float32"]
Tie = Literal["positive", "negative"]
Compared = Literal["raw", "probability"]
Absent = Literal["zero", "missing"]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]

IterationRange = int | Literal["best", "all"] | None
"""A number of iterations from the first one, "best" on the validation data, or "all".

None means those that the source's own `predict` uses.
"""


class Iterations(NamedTuple):
    """The boosting iterations of a model, of which an ensemble uses the first `used`."""

    used: int
    total: int
    best: int | None = None
    """Number of iterations that scored best on the validation data; None if it is not known."""

    @classmethod
    def chosen(cls, requested: IterationRange, total: int, best: int | None = None) -> Iterations:
        """Choose from `total` iterations; "best" is all of them if `best` is None."""
        if isinstance(requested, int):
            if requested > total:
                raise ModelError(
                    f"has {total} iterations; iteration_range (--trees) must be 'all', 'best' or "
                    f"1 to {total}, got {requested}"
                )
            return cls(requested, total, best)
        return cls(total if requested == "all" or best is None else min(best, total), total, best)

    @property
    def is_plain(self) -> bool:
        """Whether all iterations are used and no smaller number is known to be better."""
        return self.used == self.total and (self.best is None or self.best >= self.total)

    def __str__(self) -> str:
        best = "" if self.best is None else f" (the best are the first {self.best})"
        return f"{self.used} of {self.total} iterations{best}"

    @property
    def note(self) -> str:
        """One line about the iterations that are used, and how to choose others."""
        return f"uses {self}; choose with iteration_range= or --trees all|best|N"


class Ensemble:
    """An additive ensemble of regression trees.

    raw score of x = (base_score + sum over trees of the score of the leaf x falls into) / average

    Parameters
    ----------
    nodes : array of NODE
        All nodes of all trees; a tree's nodes are reached from its root and from nowhere else.
    roots : array of int, one per tree
    scores : array (n_leaves, n_outputs)
        A row per leaf; one output for binary and regression, one per class for multiclass.
    base_score : array (n_outputs,)
    n_features : int
    task : {"binary", "multiclass", "regression"}
        binary: positive class iff raw score >= threshold (> where the negative class wins ties).
        multiclass: the class with the largest raw score, the first if several are equal.
    threshold : float, default 0
        Decision threshold, in raw space; binary only.
    tie : {"positive", "negative"}
        The class at a raw score exactly on the threshold; binary only. Readers set what the source
        library's own `predict` does.
    classes : sequence, optional
        Labels by output; binary: (negative, positive). Default 0, 1, ….
    feature_names : sequence of str, optional
    link : {"identity", "logistic", "softmax"}
        probability = link(link_scale * raw score).
    link_scale : float, default 1
    average : int, default 1
        Averaged forests divide the sum by their number of trees.
    input_precision : {"float64", "float32"}
        "float32": the source library rounds inputs to float32 before it compares them; every
        threshold must then be a float32 number.
    sum_precision : {"float64", "float32"}
        The precision in which the source library adds up; affects `raw_score` and `decide` only.
        Verdicts rest on the exact sum.
    compares : {"raw", "probability"}
        What the source library's `predict` compares, rounded; affects `decide` only. Different raw
        scores whose rounded probabilities are equal are a tie if probabilities are compared.
    categories : mapping of int to mapping of int to label, optional
        Categorical features: a label (a text or a number) for the code (a whole number >= 0) of
        every category the model knows. A split on such a feature holds the number of a set in
        place of a threshold: x goes left iff its code is in the set, NaN by the rule `missing`.
    set_starts, set_codes : arrays of int, optional
        Set i is set_codes[set_starts[i] : set_starts[i + 1]]. Each is stored once, sorted.
    category_rule : {"label", "text", "truncate", "nonnegative"}
        How a number in a categorical column becomes a code, see `carvegbm.model.categories`.
    unknown_category : {"right", "missing"}
        How the rule "label" treats a value that is no label: as in no set, or as missing.
    absent : {"zero", "missing"}
        How the source library reads an absent entry of a sparse matrix.
    iterations : (used, total, best), optional
        The trees are those of the first `used` of the model's `total` boosting iterations; the
        first `best` scored best on the validation data (None: not known). Equality ignores this.
        None if all iterations are used and no smaller number is known to be better.

    Examples
    --------
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1.0}, "right": {"score": 1.0}}
    >>> ensemble = Ensemble.from_trees([stump], n_features=1)
    >>> ensemble.decide([[0.5], [0.6]])
    array([0, 1])
    """

    nodes: npt.NDArray[np.void]
    roots: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    base_score: npt.NDArray[np.float64]
    threshold: float
    tie: Tie
    n_features: int
    task: Task
    classes: npt.NDArray[Any]
    feature_names: tuple[str, ...] | None
    link: Link
    link_scale: float
    average: int
    input_precision: Precision
    sum_precision: Precision
    compares: Compared
    categories: Categories
    set_starts: npt.NDArray[np.int64]
    set_codes: npt.NDArray[np.int64]
    category_rule: CategoryRule
    unknown_category: UnknownCategory
    absent: Absent
    iterations: Iterations | None

    def __init__(
        self,
        nodes: npt.ArrayLike,
        roots: npt.ArrayLike,
        scores: npt.ArrayLike,
        *,
        n_features: int,
        task: Task,
        base_score: npt.ArrayLike = 0.0,
        threshold: float = 0.0,
        tie: Tie = "positive",
        classes: Sequence[Any] | npt.NDArray[Any] | None = None,
        feature_names: Sequence[str] | None = None,
        link: Link = "identity",
        link_scale: float = 1.0,
        average: int = 1,
        input_precision: Precision = "float64",
        sum_precision: Precision = "float64",
        compares: Compared = "raw",
        categories: Categories | None = None,
        set_starts: npt.ArrayLike | None = None,
        set_codes: npt.ArrayLike | None = None,
        category_rule: CategoryRule = "label",
        unknown_category: UnknownCategory = "right",
        absent: Absent = "zero",
        iterations: tuple[int, int, int | None] | None = None,
    ) -> None:
        score_rows = np.array(scores, dtype=np.float64, order="C")
        if score_rows.ndim == 1:
            score_rows = score_rows[:, None]
        n_outputs = score_rows.shape[1]
        base = np.array(base_score, dtype=np.float64)
        if base.size == 1:
            base = np.full(n_outputs, base.item())
        known = category_checks.check_categories(
            categories, whole(n_features, "n_features"), category_rule, input_precision
        )
        plain = layout.with_plain_leaves(np.array(nodes, dtype=NODE, order="C"))
        renumbered, (starts, codes) = category_checks.check_sets(
            plain, known, set_starts, set_codes
        )
        vars(self).update(
            nodes=renumbered,
            roots=np.array(roots, dtype=np.int32, order="C"),
            threshold=double(threshold, "threshold"),
            n_features=whole(n_features, "n_features"),
            feature_names=None if feature_names is None else tuple(feature_names),
            average=whole(average, "average"),
        )
        vars(self).update(scores=score_rows, base_score=base, link_scale=float(link_scale))
        vars(self).update(categories=known, set_starts=starts, set_codes=codes)
        vars(self).update(task=task, tie=tie, link=link, compares=compares, absent=absent)
        vars(self).update(input_precision=input_precision, sum_precision=sum_precision)
        vars(self).update(category_rule=category_rule, unknown_category=unknown_category)
        kept = None if iterations is None else Iterations(*iterations)
        vars(self).update(iterations=None if kept is None or kept.is_plain else kept)
        layout.check_arrays(self)
        if not known:  # so that equal ensembles have equal fields
            vars(self).update(category_rule="label", unknown_category="right")
        vars(self).update(classes=layout.class_labels(task, n_outputs, classes))
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Ensemble is immutable; cannot set {name!r}")

    # ── construction and conversion ──────────────────────────────────────────────────────────

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Mapping[str, Any]],
        *,
        n_features: int,
        threshold: float = 0.0,
        base_score: npt.ArrayLike = 0.0,
        task: Task | None = None,
        categories: Categories | None = None,
        **options: Any,
    ) -> Ensemble:
        """Build an ensemble from nested dicts.

        A tree is ``{"feature": f, "threshold": v, "left": …, "right": …}`` (optionally
        ``"missing": "left" | "right"``) or ``{"score": s}``, where s is a number, or a list with a
        number per class. ``{"feature": f, "categories": [0, 3], "left": …, "right": …}`` sends the
        codes it lists to the left. `options` are those of `Ensemble`. `task` defaults to
        "multiclass" when scores are lists and to "binary" otherwise, `categories` to the codes
        that the splits list.
        """
        arrays = layout.arrays_of_trees(trees)
        if categories is None:
            categories = {
                f: {code: code for code in sorted(arrays.listed[f])} for f in arrays.listed
            }
        else:
            rule = options.get("category_rule", "label")
            categories = category_checks.check_categories(
                categories, whole(n_features, "n_features"), rule
            )
        category_checks.check_kinds(arrays.by_threshold, arrays.listed, categories)
        starts, codes = category_checks.flat_sets(arrays.sets)
        base = np.atleast_1d(np.asarray(base_score, dtype=np.float64))
        width = arrays.scores.shape[1] if len(arrays.scores) else len(base)
        if task is None:
            task = "binary" if width == 1 else "multiclass"
        return cls(
            arrays.nodes,
            arrays.roots,
            arrays.scores.reshape(len(arrays.scores), width),
            n_features=n_features,
            task=task,
            threshold=threshold,
            base_score=base_score,
            categories=categories,
            set_starts=starts,
            set_codes=codes,
            **options,
        )

    def to_trees(self) -> list[dict[str, Any]]:
        """Return the trees as nested dicts, the inverse of `from_trees`."""
        return layout.nested_trees(self.nodes, self.roots, self.scores, self.sets, self.categories)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble as JSON, to a path that ends in .json.

        `carvegbm.load` returns an ensemble with the same fields, bit for bit. Other programs can
        read and write the format, too: docs/ensemble-json.md describes it.

        Examples
        --------
        >>> import carvegbm as cg, tempfile
        >>> ensemble = Ensemble.from_trees([{"score": 0.1}], n_features=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ensemble.save(folder + "/ensemble.json")
        ...     cg.load(folder + "/ensemble.json") == ensemble
        True
        """
        from carvegbm.model.json import write

        write(self, path)

    def with_scores(self, scores: npt.ArrayLike) -> Ensemble:
        """Return the same trees with other leaf scores, a row per leaf."""
        return Ensemble(**{**fields_of(self), "scores": scores})

    def with_classes(self, classes: Sequence[Any] | npt.NDArray[Any]) -> Ensemble:
        """Return the same trees with other labels, in the order of the outputs.

        Two labels make a regression ensemble binary: the second iff raw score >= 0.
        """
        task = "binary" if self.task == "regression" else self.task
        return Ensemble(**{**fields_of(self), "classes": classes, "task": task})

    def restricted(self, features: npt.NDArray[np.int64]) -> Ensemble:
        """Return the same trees over these features alone, which must include all tested ones."""
        places = places_of(features, self.n_features)
        nodes = self.nodes.copy()
        is_split = nodes["feature"] >= 0
        nodes["feature"][is_split] = places[nodes["feature"][is_split]]
        fields = {
            "nodes": nodes,
            "n_features": len(features),
            "feature_names": [self.feature_name(feature) for feature in features.tolist()],
            "categories": {int(places[f]): c for f, c in self.categories.items() if places[f] >= 0},
        }
        return Ensemble(**{**fields_of(self), **fields})

    # ── predictions ──────────────────────────────────────────────────────────────────────────

    def raw_score(self, X: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the raw score of each row of X: shape (n,), or (n, n_outputs) for multiclass.

        Equals the source library's own raw prediction.
        """
        found = checked_rows(self, X, True, check_threads(threads), sparse=True)
        return self.scores_of(found.rows, threads=threads)

    def scores_of(self, rows: Any, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the raw score of each row that `check_data` returned, or of CSR."""
        raw = raw_scores(self, rows, check_threads(threads))
        return raw[:, 0] if self.n_outputs == 1 else raw

    def decide(self, X: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[Any]:
        """Return the predicted label of each row of X; the raw score for regression.

        Equals the source library's own `predict`, ties and its rounding included.
        """
        return self.labels_of(self.raw_score(X, threads=threads))

    def labels_of(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return the label that each raw score predicts; the raw score itself for regression."""
        return raw if self.task == "regression" else self.classes[class_indices(self, raw)]

    # ── properties, checks of rows and labels ────────────────────────────────────────────────

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @property
    def n_outputs(self) -> int:
        """Scores per leaf."""
        return int(self.scores.shape[1])

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees together."""
        return len(self.scores)

    @cached_property
    def tree_of_node(self) -> npt.NDArray[np.int32]:
        """The tree of each node."""
        return layout.tree_of_node(self.nodes, self.roots)

    @cached_property
    def sets(self) -> list[list[int]]:
        """The codes of each set."""
        codes = self.set_codes.tolist()
        return [codes[a:b] for a, b in pairwise(self.set_starts.tolist())]

    def feature_name(self, feature: int) -> str:
        """Return the feature's name, or "feature 7" without names."""
        return self.feature_names[feature] if self.feature_names else f"feature {feature}"

    def feature_index(self, feature: int | str) -> int:
        """Return the position of a feature given by position or name, in any library's spelling."""
        return feature_position(feature, self.feature_names, self.n_features)

    @cached_property
    def cache(self) -> dict[str, Any]:
        """Results that other modules derived from the ensemble, by their own keys."""
        return {}

    @cached_property
    def core(self) -> _core.Ensemble:
        """The ensemble in the C++ core."""
        from carvegbm.model.core import core_of

        return core_of(self)

    def check_data(
        self, X: npt.ArrayLike, *, allow_infinite: bool = False, threads: int | None = None
    ) -> Rows:
        """Return X as a C-ordered array (rows, features) of float64 or float32.

        The columns of a frame are matched by name if the model and the frame have names.
        Categorical columns become codes, see `carvegbm.model.categories`. A memory-mapped array
        stays on disk; a sparse matrix becomes dense.

        Raises
        ------
        DataError
            Names or shape do not fit; a value is no number, is infinite (unless `allow_infinite`),
            or is NaN in a feature with a split that has no rule for it.
        """
        rows: Rows = checked_rows(self, X, allow_infinite, check_threads(threads)).rows
        return rows

    def states(self, rows: Rows) -> Rows:
        """Convert rows of codes, as `check_data` returns them, to the states that the core takes.

        The state of a code is its position among the codes of its feature, -1 for an unknown code,
        and NaN for NaN. Returns `rows` itself if there are no categorical features.
        """
        return in_states(self, rows)

    def check_labels(self, y: npt.ArrayLike, rows: int) -> npt.NDArray[np.int32]:
        """Return the position of each label among the classes; refuse unknown labels."""
        if self.task == "regression":
            raise DataError("a regression model has no classes; use output_range (in Python)")
        return as_labels(y, self.classes, rows)

    # ── identity ─────────────────────────────────────────────────────────────────────────────

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal, whatever the order of the nodes."""
        if not isinstance(other, Ensemble):
            return NotImplemented
        pairs = zip(_canonical(self), _canonical(other), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash((self.n_trees, self.n_leaves, self.n_features, self.task, self.threshold))

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {feature: dict(labels) for feature, labels in self.categories.items()}
        return _rebuild, ({**fields_of(self), "categories": plain},)

    def __repr__(self) -> str:
        parts = [
            self.task,
            f"{self.n_trees} trees",
            f"{self.n_leaves} leaves",
            f"{self.n_features} features",
        ]
        if self.categories:
            parts[-1] += f" ({len(self.categories)} categorical)"
        if self.task == "multiclass":
            parts.append(f"{len(self.classes)} classes")
        if self.input_precision == "float32":
            parts.append("float32 inputs")
        note = "" if self.iterations is None else f"; {self.iterations.note}"
        return f"<Ensemble: {', '.join(parts)}{note}>"

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import ensemble_html

        return ensemble_html(self)


_FIELDS = tuple(Ensemble.__annotations__)


def fields_of(ensemble: Ensemble) -> dict[str, Any]:
    """Return all fields by name: Ensemble(**fields_of(e)) == e."""
    return {name: getattr(ensemble, name) for name in _FIELDS}


def _rebuild(fields: dict[str, Any]) -> Ensemble:
    return Ensemble(**fields)


def _canonical(ensemble: Ensemble) -> tuple[Any, ...]:
    """Return all fields but `iterations`, with the nodes of each tree in preorder."""
    order = layout.depth_first(ensemble.nodes, ensemble.roots)
    nodes = ensemble.nodes[order]
    return (
        nodes["threshold"],
        nodes["feature"],
        nodes["missing"],
        ensemble.scores[nodes["left"][nodes["feature"] < 0]],
        np.flatnonzero(np.isin(order, ensemble.roots)),
        *(
            value
            for name, value in fields_of(ensemble).items()
            if name not in ("nodes", "roots", "scores", "iterations")
        ),
    )
