"""The ensemble: an additive ensemble of regression trees as flat, immutable arrays.

Comes in: arrays from a reader, or nested dicts (`Ensemble.from_trees`).
Goes out: raw scores, decisions, and the arrays the engines in the core work on.
Knows nothing about model formats or attackers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.data.names import feature_position
from carvegbm.data.rows import as_labels, check_threads
from carvegbm.errors import DataError
from carvegbm.trees import nested, sets
from carvegbm.trees.categories import in_states
from carvegbm.trees.checking import checked_rows
from carvegbm.trees.compact import raw_scores
from carvegbm.trees.identity import are_equal, described
from carvegbm.trees.iterations import Iterations
from carvegbm.trees.link import class_indices
from carvegbm.trees.nested import NODE
from carvegbm.trees.sets import Categories, CategoryRule, Sets, UnknownCategory
from carvegbm.trees.wellformed import check_trees, double, labels_of, whole, with_plain_leaves

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["NODE", "Absent", "Compared", "Ensemble", "Precision", "Task", "Tie", "fields_of"]

Task = Literal["binary", "multiclass", "regression"]
Link = Literal["identity", "logistic", "softmax"]
Precision = Literal["float64", "float32"]
Tie = Literal["positive", "negative"]
Compared = Literal["raw", "probability"]
Absent = Literal["zero", "missing"]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]


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
        multiclass: the class with the largest raw score, the first of several.
    threshold : float, default 0
        Decision threshold, in raw space; binary only.
    tie : {"positive", "negative"}
        Who wins at a raw score exactly on the threshold; binary only. Readers say what the source
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
        The precision in which the source library adds up; concerns `raw_score` and `decide` only.
        Verdicts rest on the exact sum.
    compares : {"raw", "probability"}
        What the source library's `predict` compares, rounded; concerns `decide` only. Raw scores
        that differ by less than probabilities can show are a tie to a library that compares these.
    categories : mapping of int to mapping of int to label, optional
        Categorical features: a label (a text or a number) for the code (a whole number >= 0) of
        every category the model knows. A split on such a feature holds the number of a set in
        place of a threshold: left iff the code is in it; NaN goes where `missing` says.
    set_starts, set_codes : arrays of int, optional
        Set i is set_codes[set_starts[i] : set_starts[i + 1]]. They are kept once each, sorted.
    category_rule : {"label", "text", "truncate", "nonnegative"}
        How a number in a categorical column becomes a code, see `carvegbm.trees.categories`.
    unknown_category : {"right", "missing"}
        What a value that is no label is, by the rule "label": in no set, or a missing value.
    absent : {"zero", "missing"}
        What the source library takes an entry for that a sparse matrix leaves out.
    iterations : (used, total, best), optional
        The trees are those of the first `used` of the model's `total` boosting iterations; the
        first `best` scored best on the validation data (None: not known). Equality ignores this.
        None if all iterations are used, and no smaller number is known to be better.

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
        known = sets.kept_categories(
            categories, whole(n_features, "n_features"), category_rule, input_precision
        )
        plain = with_plain_leaves(np.array(nodes, dtype=NODE, order="C"))
        renumbered, listed = sets.kept_sets(plain, known, set_starts, set_codes)
        vars(self).update(
            nodes=renumbered,
            roots=np.array(roots, dtype=np.int32, order="C"),
            threshold=double(threshold, "threshold"),
            n_features=whole(n_features, "n_features"),
            feature_names=None if feature_names is None else tuple(feature_names),
            average=whole(average, "average"),
        )
        vars(self).update(scores=score_rows, base_score=base, link_scale=float(link_scale))
        vars(self).update(categories=known, set_starts=listed.starts, set_codes=listed.codes)
        vars(self).update(task=task, tie=tie, link=link, compares=compares, absent=absent)
        vars(self).update(input_precision=input_precision, sum_precision=sum_precision)
        vars(self).update(category_rule=category_rule, unknown_category=unknown_category)
        kept = None if iterations is None else Iterations(*iterations)
        vars(self).update(iterations=None if kept is None or kept.is_plain else kept)
        check_trees(self)
        if not known:  # nothing to say about what is not there
            vars(self).update(category_rule="label", unknown_category="right")
        vars(self).update(classes=labels_of(task, n_outputs, classes))
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Ensemble is immutable; cannot set {name!r}")

    # ── construction, and ways out and back ──────────────────────────────────────────────────

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
        if categories is not None:
            rule = options.get("category_rule", "label")
            categories = sets.kept_categories(categories, whole(n_features, "n_features"), rule)
        fields = nested.fields_of_trees(trees, categories)
        scores = fields.pop("scores")
        base = np.atleast_1d(np.asarray(base_score, dtype=np.float64))
        width = scores.shape[1] if len(scores) else len(base)
        if task is None:
            task = "binary" if width == 1 else "multiclass"
        return cls(
            scores=scores.reshape(len(scores), width),
            n_features=n_features,
            task=task,
            threshold=threshold,
            base_score=base_score,
            **fields,
            **options,
        )

    def to_trees(self) -> list[dict[str, Any]]:
        """Return the trees as nested dicts, the inverse of `from_trees`."""
        lists = Sets(self.set_starts, self.set_codes).lists()
        return nested.from_arrays(self.nodes, self.roots, self.scores, lists, self.categories)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble as JSON, to a path that ends in .json.

        `carvegbm.load` gives an ensemble back whose fields are all equal to the bit. The format is
        for other programs, too: docs/ensemble-json.md describes it.

        Examples
        --------
        >>> import carvegbm as cg, tempfile
        >>> ensemble = Ensemble.from_trees([{"score": 0.1}], n_features=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ensemble.save(folder + "/ensemble.json")
        ...     cg.load(folder + "/ensemble.json") == ensemble
        True
        """
        from carvegbm.trees.ensemble_json import write

        write(self, path)

    def with_scores(self, scores: npt.ArrayLike) -> Ensemble:
        """The same trees with other leaf scores, a row per leaf."""
        return Ensemble(**{**fields_of(self), "scores": scores})

    def with_classes(self, classes: Sequence[Any] | npt.NDArray[Any]) -> Ensemble:
        """The same trees with other labels, in the order of the outputs.

        Two labels turn a regression ensemble into a binary one: the second iff raw score >= 0.
        """
        task = "binary" if self.task == "regression" else self.task
        return Ensemble(**{**fields_of(self), "classes": classes, "task": task})

    # ── what the ensemble computes ───────────────────────────────────────────────────────────

    def raw_score(self, X: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Raw score per row of X: shape (n,), or (n, n_outputs) for multiclass.

        Equals the source library's own raw prediction.
        """
        found = checked_rows(self, X, True, check_threads(threads), sparse=True)
        return self.scores_of(found.rows, threads=threads)

    def scores_of(self, rows: Any, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Raw score per row, of rows as `check_data` returns them, or of CSR."""
        raw = raw_scores(self, rows, check_threads(threads))
        return raw[:, 0] if self.n_outputs == 1 else raw

    def decide(self, X: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[Any]:
        """Predicted label per row of X; the raw score for regression.

        Equals the source library's own `predict`, ties and its rounding included.
        """
        return self.labels_of(self.raw_score(X, threads=threads))

    def labels_of(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Predicted label per row of raw scores; these themselves for regression."""
        return raw if self.task == "regression" else self.classes[class_indices(self, raw)]

    # ── what others need to know ─────────────────────────────────────────────────────────────

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
        """The tree each node belongs to."""
        return nested.owners(self.nodes, self.roots)

    def feature_name(self, feature: int) -> str:
        """The feature's name, or "feature 7" where it has none."""
        return self.feature_names[feature] if self.feature_names else f"feature {feature}"

    def feature_index(self, feature: int | str) -> int:
        """Position of a feature given by position, or by name as the model or its data spell it."""
        return feature_position(feature, self.feature_names, self.n_features)

    @cached_property
    def known(self) -> dict[str, Any]:
        """What others found out about the ensemble and would like to keep; it never changes."""
        return {}

    @cached_property
    def core(self) -> _core.Ensemble:
        """The same ensemble, as the C++ core holds it."""
        from carvegbm.trees.core import core_of

        return core_of(self)

    def check_data(
        self, X: npt.ArrayLike, *, allow_infinite: bool = False, threads: int | None = None
    ) -> Rows:
        """X as a C-ordered two-dimensional array of float64 or float32 with the right columns.

        The columns of a frame are taken by name where the model and the frame have names.
        Categorical columns hold codes, see `carvegbm.trees.categories`.
        Raises `DataError` for names that do not fit, for a wrong shape, for what is no number, for
        infinite values unless `allow_infinite`, and for NaN in a feature whose splits have no rule
        for it. A memory-mapped array stays on disk; a sparse matrix becomes dense.
        """
        rows: Rows = checked_rows(self, X, allow_infinite, check_threads(threads)).rows
        return rows

    def states(self, rows: Rows) -> Rows:
        """Rows as `check_data` returns them, as the core takes them.

        A code in a categorical column becomes its position among the codes of its feature, or -1
        if it is none of them; NaN stays. The same object where there is no such column.
        """
        return in_states(self, rows)

    def check_labels(self, y: npt.ArrayLike, rows: int) -> npt.NDArray[np.int32]:
        """y as class indices.

        Raises `DataError` for a label that is not one of the model's classes.
        """
        if self.task == "regression":
            raise DataError("a regression model has no classes; ask output_range (in Python)")
        return as_labels(y, self.classes, rows)

    # ── identity ─────────────────────────────────────────────────────────────────────────────

    def __eq__(self, other: object) -> bool:
        """Two ensembles are equal iff they are the same trees, however their nodes are laid out."""
        if not isinstance(other, Ensemble):
            return NotImplemented
        return are_equal(self, other, _FIELDS)

    def __hash__(self) -> int:
        return hash((self.n_trees, self.n_leaves, self.n_features, self.task, self.threshold))

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {feature: dict(labels) for feature, labels in self.categories.items()}
        return _rebuild, ({**fields_of(self), "categories": plain},)

    def __repr__(self) -> str:
        return described(self)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import ensemble_html

        return ensemble_html(self)


_FIELDS = tuple(Ensemble.__annotations__)


def fields_of(ensemble: Ensemble) -> dict[str, Any]:
    """All that an ensemble consists of, by name: Ensemble(**fields_of(e)) == e."""
    return {name: getattr(ensemble, name) for name in _FIELDS}


def _rebuild(fields: dict[str, Any]) -> Ensemble:
    return Ensemble(**fields)
