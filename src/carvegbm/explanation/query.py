"""Explain one row: its radius, its nearest witness by feature, and its score by tree."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.data.sparse import changed_rows, is_sparse
from carvegbm.engines import EngineName, Settings, Task, decide
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.explanation.result import ChangedFeature, ChangedTree, CrossedSplit, Explanation
from carvegbm.minimal import MinimalWitness, minimal_witnesses
from carvegbm.model.categories import FeatureLabels, as_given, in_codes
from carvegbm.problem import Problem, Rows
from carvegbm.radius import Radius
from carvegbm.results import plain_labels
from carvegbm.statuses import named

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["explain"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_UNKNOWN_CATEGORY = -1.0


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
    """Explain one row: its radius, its nearest witness feature by feature, its score by trees.

    The witness is minimal in two ways: its distance is the radius, and none of its changes can be
    undone without losing the flip. What the leaf of every tree takes from the margin adds up
    exactly to what the margin loses.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : array (n, n_features) or (n_features,)
    y : array (n,) or a label, optional
        Without it, the model's own answer counts as right.
    attacker : Attacker, optional
        Its norm and limits are those of distances; the status is against it with its budget.
    row : int, optional
        Which row of X, counted from 0; needed if there is more than one.
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
    at = _row_number(row, len(rows))
    one = rows.take(np.array([at]))
    task = Task(problem.with_budget(problem.unlimited_budget), settings, asks="radius")
    radii = Radius.of(decide(task, one), problem)
    nearest = minimal_witnesses(problem, one, radii, settings, progress=False).witnesses
    status = None
    if attacker is not None and attacker.has_budget:
        status = _status(problem, attacker, one, radii, settings)
    return _Explainer(problem, one, nearest[0] if nearest else None, threads).explanation(
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
    """X with two dimensions and y with one, where they are one row and one label."""
    if hasattr(X, "to_frame") and getattr(X, "ndim", 0) == 1:  # a row of a frame
        X = X.to_frame().T
    elif isinstance(X, list | tuple):
        is_row = len(X) > 0 and (np.isscalar(X[0]) or X[0] is None)
        X = [X] if is_row else X
    elif isinstance(X, np.ndarray) and X.ndim == 1:
        X = X[None]
    return X, [y] if y is not None and np.ndim(y) == 0 else y


def _row_number(row: Any, count: int) -> int:
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
    """The status against the attacker: by the radius if that decides it, else by verification."""
    budget, lower, upper = attacker.budget, float(radii.lower[0]), float(radii.upper[0])
    if upper > 0 and budget < lower:
        return "robust"
    if upper > 0 and upper <= budget:
        return "fragile"
    return str(named(decide(Task(problem.with_budget(budget), settings), one).status)[0])


class _Trees:
    """Routes rows through the trees of an ensemble; rows are values as `read` returns them."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble, self.nodes = ensemble, ensemble.nodes
        self.roots: Indices = ensemble.roots.astype(np.int64)
        self.sets = ensemble.sets
        self.is_categorical = np.zeros(ensemble.n_features + 1, dtype=bool)
        self.is_categorical[list(ensemble.categories)] = True

    def read(self, row: npt.NDArray[np.floating]) -> Floats:
        """Values as splits compare them: in the model's precision, categories as codes.

        An unknown category is -1, a missing value NaN.
        """
        with np.errstate(over="ignore"):
            found = row.astype(np.dtype(self.ensemble.input_precision)).astype(np.float64)
        if self.ensemble.categories:
            states = self.ensemble.states(np.asarray(row, dtype=np.float64)[None])[0]
            for feature, labels in self.ensemble.categories.items():
                state = float(states[feature])
                if np.isnan(state):
                    found[feature] = np.nan
                else:
                    codes = list(labels)
                    found[feature] = codes[int(state)] if state >= 0 else _UNKNOWN_CATEGORY
        return found

    def leaves(self, row: Floats) -> Indices:
        """The leaf of each tree that the row reaches, as a row of `Ensemble.scores`."""
        at = self.roots.copy()
        features = self.nodes["feature"]
        while len(inner := np.flatnonzero(features[at] >= 0)):
            nodes = self.nodes[at[inner]]
            at[inner] = np.where(self._goes_left(nodes, row), nodes["left"], nodes["right"])
        return np.asarray(self.nodes["left"][at], dtype=np.int64)

    def scores(self, row: Floats) -> tuple[Fraction, ...]:
        """(base score + sum of leaf scores) / average per output, exactly."""
        rows = [self.ensemble.base_score.tolist(), *self.ensemble.scores[self.leaves(row)].tolist()]
        return tuple(
            sum(map(Fraction, column), Fraction(0)) / self.ensemble.average
            for column in zip(*rows, strict=True)
        )

    def crossed(self, tree: int, x: Floats, z: Floats) -> tuple[CrossedSplit, ...]:
        """The splits on z's path through a tree that send x to the other side."""
        found, at = [], int(self.roots[tree])
        while self.nodes["feature"][at] >= 0:
            node = self.nodes[at : at + 1]
            is_left = bool(self._goes_left(node, z)[0])
            threshold, feature, left, right, _ = node[0].tolist()
            if is_left != self._goes_left(node, x)[0]:
                labels = self.ensemble.categories.get(feature)
                found.append(
                    CrossedSplit(
                        self.ensemble.feature_name(feature),
                        threshold if labels is None else None,
                        None
                        if labels is None
                        else tuple(map(labels.get, self.sets[int(threshold)])),
                        "left" if is_left else "right",
                    )
                )
            at = left if is_left else right
        return tuple(found)

    def _goes_left(self, nodes: npt.NDArray[np.void], row: Floats) -> npt.NDArray[np.bool_]:
        values = row[nodes["feature"]]
        left = np.asarray(values <= nodes["threshold"])
        for i in np.flatnonzero(self.is_categorical[nodes["feature"]]).tolist():
            left[i] = values[i] in self.sets[int(nodes["threshold"][i])]
        is_missing = np.isnan(values)
        left[is_missing] = nodes["missing"][is_missing] == 1
        return left


def _answer(ensemble: Ensemble, scores: Sequence[Fraction]) -> int:
    """Index of the class that exact scores decide for."""
    if ensemble.task == "multiclass":
        return list(scores).index(max(scores))
    above = scores[0] - Fraction(ensemble.threshold)
    return int(above > 0 or (above == 0 and ensemble.tie == "positive"))


def _runner_up(scores: Sequence[Fraction], label: int) -> int:
    """Index of the best class other than `label`, the first of several."""
    others = [position for position in range(len(scores)) if position != label]
    return max(others, key=lambda position: scores[position])


class _Explainer:
    """One row x and its witness z, None if there is none.

    A sparse row is explained in the compact problem, whose features are `features` of the whole.
    """

    def __init__(
        self, whole: Problem, one: Rows, witness: MinimalWitness | None, threads: int | None
    ) -> None:
        ((_, self.problem, self.part),) = whole.dense(one)
        self.whole, self.one, self.witness, self.threads = whole, one, witness, threads
        self.ensemble = self.problem.ensemble
        self.features = np.arange(whole.ensemble.n_features)
        if self.problem is not whole:
            self.features = whole.compact[1].chosen
        assert self.part.labels is not None
        self.label = int(self.part.labels[0])
        changes = () if witness is None else witness.changes
        places = np.searchsorted(self.features, [change.feature for change in changes]).tolist()
        self.changes = dict(zip(places, changes, strict=True))
        self.given: Floats = np.asarray(self.part.given[0], dtype=np.float64)
        self.trees = _Trees(self.ensemble)
        self.x = self.trees.read(self.given)
        self.z = self.trees.read(self._changed(places))

    def explanation(self, **known: Any) -> Explanation:
        """The explanation; `known` are the fields that need no trees."""
        names: list[Any] = plain_labels(self.ensemble.classes)
        before, after = self.trees.scores(self.x), self.trees.scores(self.z)
        instance = self._instance()
        found: dict[str, Any] = {
            "label": names[self.label],
            "answer": names[_answer(self.ensemble, before)],
            "margin": float(self.problem.unattacked(self.part, self.threads).margin[0]),
            "scores": tuple(map(float, before)),
            "instance": instance,
            "classes": tuple(names),
            "feature_names": self.whole.ensemble.feature_names,
            "iterations": self.whole.ensemble.iterations,
        }
        # How the margin grows with the scores: the label's, against the rival's.
        signs = {0: 2 * self.label - 1}
        if self.ensemble.task == "multiclass":
            first, rival = _runner_up(before, self.label), _runner_up(after, self.label)
            found |= {"first_rival": names[first], "rival": names[rival]}
            found["lead"] = before[first] - before[rival]
            signs = {self.label: 1, rival: -1}
        if self.witness is not None:
            trees = self._changed_trees(signs)
            found |= {
                "witness": self._witness(instance),
                "distance": self.witness.distance,
                "witness_answer": names[_answer(self.ensemble, after)],
                "witness_margin": self.witness.margin,
                "witness_scores": tuple(map(float, after)),
                "borderline": self.witness.borderline,
                "changes": self._changed_features(),
                "trees": trees,
                "unchanged_trees": self.ensemble.n_trees - len(trees),
            }
        return Explanation(**found, **known)

    def _instance(self) -> Any:
        """The row as given, in numbers."""
        if self.one.is_sparse:
            return self.one.X
        given = self.one.given
        return np.array(as_given(self.ensemble, given, given, self.one.source)[0], dtype=np.float64)

    def _witness(self, instance: Any) -> Any:
        """The row with all changes."""
        changes = self.changes.values()
        columns = np.array([change.feature for change in changes], dtype=np.int64)
        values = np.array([change.after for change in changes])
        if is_sparse(instance):
            return changed_rows(instance, np.zeros(len(columns), dtype=np.int64), columns, values)
        z = instance.copy()
        z[columns] = values
        return z

    def _changed(self, places: list[int]) -> Floats:
        """The row with some of the changes, in code space."""
        z: Floats = self.given.copy()
        by_label = set()
        for place in places:
            z[place] = self.changes[place].after
            is_category = place in self.ensemble.categories
            if is_category and not FeatureLabels(self.ensemble, place).gives_codes:
                by_label.add(place)
        if by_label:
            encoded = self.ensemble.categories.keys() - by_label
            z = np.array(in_codes(self.ensemble, z[None], encoded)[0], dtype=np.float64)
        return z

    # ── features ─────────────────────────────────────────────────────────────────────────────

    def _changed_features(self) -> tuple[ChangedFeature, ...]:
        """The changes in the order of the features; of a one-hot group, as one change."""
        group_of = {f: i for i, group in enumerate(self.problem.limits.one_hot) for f in group}
        parts: dict[tuple[bool, int], list[int]] = {}
        for place in self.changes:
            key = (True, group_of[place]) if place in group_of else (False, place)
            parts.setdefault(key, []).append(place)
        leaves = self.trees.leaves(self.z)
        found = []
        for part in parts.values():
            places = sorted(part, key=lambda place: -self.changes[place].before)
            undone = self.z.copy()
            undone[places] = self.x[places]
            flips, distance = self._alone(places)
            found.append(
                ChangedFeature(
                    features=tuple(int(self.features[place]) for place in places),
                    distance=distance,
                    alone=flips,
                    trees=int(np.sum(self.trees.leaves(undone) != leaves)),
                    **self._description(places),
                )
            )
        return tuple(found)

    def _alone(self, places: list[int]) -> tuple[bool, float]:
        """Whether these changes flip the answer alone, and the smallest budget they need."""
        there = self.problem.encoding.encode(self._changed(places)[None])
        there = np.ascontiguousarray(there, dtype=np.float64)
        before = np.asarray(self.part.X[0], dtype=np.float64)
        decided = self.problem.unattacked(Rows(there, there, self.part.labels), self.threads)
        distance = self.problem.core_attacker.distance(before, there[0])
        return not bool(decided.right[0]), float(distance)

    def _description(self, places: list[int]) -> dict[str, Any]:
        """Name, kind, and values before and after; of a number also the thresholds crossed."""
        name, place = self.ensemble.feature_name, places[0]
        if len(places) > 1:
            was, becomes = places
            group = next(group for group in self.problem.limits.one_hot if was in group)
            return {
                "name": _group_name([name(member) for member in group]),
                "kind": "one-hot",
                "before": name(was),
                "after": name(becomes),
            }
        x, z = float(self.x[place]), float(self.z[place])
        if place in self.ensemble.categories:
            labels = self.ensemble.categories[place]
            before, after = labels.get(int(x)), labels.get(int(z))
            return {"name": name(place), "kind": "category", "before": before, "after": after}
        nodes = self.ensemble.nodes
        thresholds = np.unique(nodes["threshold"][nodes["feature"] == place])
        crossed = thresholds[(thresholds >= min(x, z)) & (thresholds < max(x, z))].tolist()
        return {
            "name": name(place),
            "kind": "number",
            "before": self.changes[place].before,
            "after": self.changes[place].after,
            "thresholds": tuple(crossed if x < z else reversed(crossed)),
        }

    # ── trees ────────────────────────────────────────────────────────────────────────────────

    def _changed_trees(self, signs: dict[int, int]) -> tuple[ChangedTree, ...]:
        """The trees whose leaf changes, the largest loss of margin first."""
        leaves = np.stack([self.trees.leaves(self.x), self.trees.leaves(self.z)])
        scores = self.ensemble.scores[:, list(signs)]
        found = []
        for tree in np.flatnonzero(leaves[0] != leaves[1]).tolist():
            before, after = (tuple(scores[leaf].tolist()) for leaf in leaves[:, tree])
            lost = [
                sign * (Fraction(old) - Fraction(new))
                for sign, old, new in zip(signs.values(), before, after, strict=True)
            ]
            contribution = sum(lost, Fraction(0)) / self.ensemble.average
            crossed = self.trees.crossed(tree, self.x, self.z)
            found.append(ChangedTree(tree, before, after, contribution, crossed))
        return tuple(sorted(found, key=lambda changed: (-changed.contribution, changed.tree)))


def _group_name(names: list[str]) -> str:
    """The common beginning of the names of a one-hot group, or all names."""
    shortest = min(map(len, names))
    same = 0
    while same < shortest and len({name[same] for name in names}) == 1:
        same += 1
    start = names[0][:same].rstrip(" _=:.-")
    return start if start and start != "feature" else "/".join(names)
