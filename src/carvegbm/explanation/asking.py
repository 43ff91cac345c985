"""How an explanation is made: the radius, the nearest witness, and the ways of both through trees.

Comes in: a model, instances, one of which is meant, and an attacker. Goes out: an `Explanation`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.data.sparse import changed_rows, is_sparse
from carvegbm.engines import EngineName, Settings, Task, decide
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.explanation.features import Moved
from carvegbm.explanation.paths import Crossing, Splits, answer, as_read, exact_scores, runner_up
from carvegbm.explanation.result import ChangedTree, CrossedSplit, Explanation
from carvegbm.minimal import MinimalWitness, minimal_witnesses
from carvegbm.problem import Problem, Rows
from carvegbm.radius import Radius
from carvegbm.results import plain_labels
from carvegbm.statuses import named
from carvegbm.trees.labels import as_given

__all__ = ["explain"]

Floats = npt.NDArray[np.float64]


def explain(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    row: int | None = None,
    norm: int | float | str | None = None,
    scale: Any = None,
    features: Any = None,
    bounds: Any = None,
    step: Any = None,
    categories: Any = None,
    one_hot: Any = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> Explanation:
    """Explain one instance: its radius, its nearest witness feature by feature, its score by trees.

    The witness is minimal in two ways: its distance is the radius, and none of its changes can be
    taken back without losing the flip. What the leaf of every tree takes from the margin adds up
    exactly to what the margin loses.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : array (n, n_features) or (n_features,)
    y : array (n,) or a label, optional
        Without it, the model's own answer is right.
    attacker : Attacker, optional
        Its norm and limits are those of distances; the status is against it with its budget.
    row : int, optional
        Which instance of X, counted from 0; needed if there is more than one.
    norm, scale, features, bounds, step, categories, one_hot
        Those of `Attacker`, in place of one.
    engine, timeout, threads
        As in `radius`; `timeout` is for the radius, and again for the witness.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import carvegbm as cg
    >>> trees = [
    ...     {"feature": f, "threshold": t, "left": {"score": 0}, "right": {"score": 2}}
    ...     for f, t in ((0, 0.5), (1, 0.25), (1, 9.5))
    ... ]
    >>> model = cg.Ensemble.from_trees(trees, n_features=2, base_score=-3, feature_names=["a", "b"])
    >>> found = cg.explain(model, [1.0, 1.0], norm=1)
    >>> found.answer, found.margin, found.radius
    (1, 1.0, 0.5)
    >>> [(change.name, change.before, change.after) for change in found.changes]
    [('a', 1.0, 0.5)]
    >>> [(tree.tree, int(tree.contribution)) for tree in found.trees], found.unchanged_trees
    ([(0, 2)], 2)
    """
    settings = Settings(engine, timeout, threads)
    kind = _searching(
        attacker,
        y,
        norm=norm,
        scale=scale,
        features=features,
        bounds=bounds,
        step=step,
        categories=categories,
        one_hot=one_hot,
    )
    problem = Problem(model, kind)
    rows = problem.rows(*_as_table(X, y), threads)
    at = _checked_row(row, len(rows))
    one = rows.take(np.array([at]))
    task = Task(problem.with_budget(problem.unlimited_budget), settings, asks="radius")
    measured = decide(task, one)
    radii = Radius.of(measured, problem, None)
    nearest = minimal_witnesses(problem, one, radii, settings, progress=False).witnesses
    status = None if attacker is None else _status(problem, attacker, one, radii, settings)
    return _Telling(problem, one, settings.threads).explanation(
        nearest[0] if nearest else None,
        row=at,
        is_own=y is None,
        attacker=kind if attacker is None else attacker,
        status=status,
        radius=float(radii.radius[0]),
        lower=float(radii.lower[0]),
        upper=float(radii.upper[0]),
    )


def _searching(attacker: Attacker | None, y: Any, **options: Any) -> Attacker:
    """Return the attacker, or one with these options, for a search of its budget."""
    given = {name: value for name, value in options.items() if value is not None}
    if attacker is None and not isinstance(y, Attacker):
        if "norm" not in given:
            raise CarveError("norm is missing; give norm=…, or an Attacker after X and y")
        return Attacker(budget=0, **given)
    attacker = require_attacker(attacker, y)
    if given:
        raise CarveError(
            f"{next(iter(given))} is given, and an attacker that has its own; drop one of them"
        )
    return attacker.with_budget(0)


def _as_table(X: Any, y: Any) -> tuple[Any, Any]:
    """X with two dimensions and y with one, where they are those of one instance."""
    if hasattr(X, "to_frame") and getattr(X, "ndim", 0) == 1:  # a row of a frame
        X = X.to_frame().T
    elif isinstance(X, list | tuple):
        is_row = len(X) > 0 and (np.isscalar(X[0]) or X[0] is None)
        X = [X] if is_row else X
    elif isinstance(X, np.ndarray) and X.ndim == 1:
        X = X[None]
    return X, [y] if y is not None and np.ndim(y) == 0 else y


def _checked_row(row: Any, count: int) -> int:
    if row is None:
        if count > 1:
            raise DataError(f"X has {count} rows; say which one with row=…, counted from 0")
        return 0
    if isinstance(row, bool | np.bool_) or not isinstance(row, int | np.integer):
        raise DataError(f"row must be a whole number, counted from 0, got {shown(row)}")
    if not 0 <= row < count:
        rows = f"{count} row{'s' * (count != 1)}"
        raise DataError(f"row {row} is not there: X has {rows}, counted from 0 to {count - 1}")
    return int(row)


def _status(
    problem: Problem, attacker: Attacker, one: Rows, radii: Radius, settings: Settings
) -> str:
    """Against the attacker: by the radius, where it tells; else an engine is asked."""
    budget, lower, upper = attacker.budget, float(radii.lower[0]), float(radii.upper[0])
    if upper > 0 and budget < lower:
        return "robust"
    if upper > 0 and upper <= budget:
        return "fragile"
    decided = decide(Task(problem.with_budget(budget), settings), one)
    return str(named(decided.status)[0])


class _Telling:
    """One instance and its problem, which is the compact one where the instance is sparse."""

    def __init__(self, whole: Problem, one: Rows, threads: int | None) -> None:
        ((_, self.problem, self.part),) = whole.dense(one)
        self.whole, self.one, self.threads = whole, one, threads
        self.ensemble = self.problem.ensemble
        is_compact = self.problem is not whole
        n = whole.ensemble.n_features
        self.features = whole.compact[1].chosen if is_compact else np.arange(n)
        assert self.part.labels is not None
        self.label = int(self.part.labels[0])
        self.names: list[Any] = plain_labels(self.ensemble.classes)
        self.x = np.asarray(self.part.given[0], dtype=np.float64)

    def explanation(self, witness: MinimalWitness | None, **known: Any) -> Explanation:
        """All that there is to tell."""
        moved = Moved(self.problem, self.part, self.features, self.x, witness)
        splits, x = Splits(self.ensemble), as_read(self.ensemble, self.x)
        before, after = (exact_scores(self.ensemble, splits.leaves(row)) for row in (x, moved.read))
        told: dict[str, Any] = {
            "label": self.names[self.label],
            "answer": self.names[answer(self.ensemble, before)],
            "margin": float(self.problem.unattacked(self.part, self.threads).margin[0]),
            "scores": tuple(map(float, before)),
            "instance": self._instance(),
            "classes": tuple(self.names),
            "feature_names": self.whole.ensemble.feature_names,
            "iterations": self.whole.ensemble.iterations,
        }
        rival = None
        if self.ensemble.task == "multiclass":
            first, rival = runner_up(before, self.label), runner_up(after, self.label)
            told |= {"first_rival": self.names[first], "rival": self.names[rival]}
            told["lead"] = before[first] - before[rival]
        if witness is not None:
            trees = self._trees(splits, x, moved.read, rival)
            told |= {
                "witness": self._witness(told["instance"], witness),
                "distance": witness.distance,
                "witness_answer": self.names[answer(self.ensemble, after)],
                "witness_margin": witness.margin,
                "witness_scores": tuple(map(float, after)),
                "borderline": witness.borderline,
                "changes": moved.changes(splits, self.threads),
                "trees": trees,
                "unchanged_trees": self.ensemble.n_trees - len(trees),
            }
        return Explanation(**told, **known)

    def _instance(self) -> Any:
        """As it was given, as numbers."""
        if self.one.is_sparse:
            return self.one.X
        given = self.one.given
        return np.array(as_given(self.ensemble, given, given, self.one.source)[0], dtype=np.float64)

    def _witness(self, instance: Any, witness: MinimalWitness) -> Any:
        """The instance with all changes."""
        columns = np.array([change.feature for change in witness.changes], dtype=np.int64)
        values = np.array([change.after for change in witness.changes])
        if is_sparse(instance):
            return changed_rows(instance, np.zeros(len(columns), dtype=np.int64), columns, values)
        z = instance.copy()
        z[columns] = values
        return z

    def _trees(
        self, splits: Splits, x: Floats, z: Floats, rival: int | None
    ) -> tuple[ChangedTree, ...]:
        """The trees whose leaf changes; what takes most from the margin comes first."""
        # How the margin grows with scores: with that of the label, against that of the rival.
        signs = {0: 2 * self.label - 1} if rival is None else {self.label: 1, rival: -1}
        leaves = np.stack([splits.leaves(x), splits.leaves(z)])
        scores = self.ensemble.scores[:, list(signs)]
        found = []
        for tree in np.flatnonzero(leaves[0] != leaves[1]).tolist():
            before, after = (tuple(scores[leaf].tolist()) for leaf in leaves[:, tree])
            lost = [
                sign * (Fraction(old) - Fraction(new))
                for sign, old, new in zip(signs.values(), before, after, strict=True)
            ]
            found.append(
                ChangedTree(
                    tree=tree,
                    before=before,
                    after=after,
                    contribution=sum(lost, Fraction(0)) / self.ensemble.average,
                    crossed=tuple(self._crossed(splits, at) for at in splits.crossings(tree, x, z)),
                )
            )
        return tuple(sorted(found, key=lambda changed: (-changed.contribution, changed.tree)))

    def _crossed(self, splits: Splits, at: Crossing) -> CrossedSplit:
        """A split by name, with labels."""
        labels = self.ensemble.categories.get(at.feature)
        return CrossedSplit(
            self.ensemble.feature_name(at.feature),
            at.number if labels is None else None,
            None if labels is None else tuple(map(labels.get, splits.sets[int(at.number)])),
            "left" if at.is_left else "right",
        )
