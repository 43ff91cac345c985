"""scikit-learn: what a node may hold that is not known here is refused, not overlooked."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import ensemble as forests
from sklearn import tree as trees
from sklearn.preprocessing import StandardScaler

from carvegbm import load
from carvegbm.errors import ModelError
from readers.conftest import classes_of
from readers.test_sklearn import MANY, data


class FakeTree:
    """A tree of a scikit-learn to come: as the real one, with more in its nodes."""

    def __init__(self, real, fields=(), state=(), **attributes):
        self.real, self.fields, self.state = real, dict(fields), dict(state)
        self.__dict__.update(attributes)

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __getstate__(self):
        state = self.real.__getstate__()
        return {**state, **self.state, "nodes": widened(state["nodes"], self.fields)}


def widened(nodes, fields):
    kinds = [(name, nodes.dtype[name]) for name in nodes.dtype.names]
    more = [(name, value.dtype, value.shape[1:]) for name, value in fields.items()]
    wide = np.zeros(len(nodes), dtype=kinds + more)
    for name in nodes.dtype.names:
        wide[name] = nodes[name]
    for name, value in fields.items():
        wide[name] = value
    return wide


def fitted_with(make_fake):
    """One estimator per family whose trees are fakes; the third tree where there are several."""
    X, y = data()
    for model in (
        trees.DecisionTreeRegressor(max_depth=3),
        forests.RandomForestClassifier(**MANY),
        forests.ExtraTreesRegressor(**MANY),
        forests.GradientBoostingRegressor(**MANY),
    ):
        model.fit(X, classes_of(y, 3))
        members = np.ravel(getattr(model, "estimators_", model))
        member = members[min(2, len(members) - 1)]
        member.tree_ = make_fake(member.tree_)
        yield model, X


def some(kind, size, *shape):
    values = np.zeros((size, *shape), dtype=kind)
    values.reshape(size, -1)[size // 2, -1] = 1
    return values


@pytest.mark.parametrize("kind", [np.uint8, np.float64, "V16"])
def test_unknown_field_of_a_node_is_refused_by_name_unless_it_is_empty(kind):
    def full(tree):
        values = np.zeros(tree.node_count, dtype=kind)
        values.view(np.uint8)[-1] = 1
        return FakeTree(tree, {"goes_elsewhere": values})

    for model, _ in fitted_with(full):
        with pytest.raises(ModelError, match=r"tree [02] has the unknown field 'goes_elsewhere'"):
            load(model)

    def empty(tree):
        return FakeTree(tree, {"goes_elsewhere": np.zeros(tree.node_count, dtype=kind)})

    for model, X in fitted_with(empty):
        assert load(model).raw_score(X).shape[0] == len(X)


def test_unknown_state_of_a_tree_is_refused_by_name():
    for model, _ in fitted_with(
        lambda tree: FakeTree(tree, state={"projections": np.ones((3, 2))})
    ):
        with pytest.raises(ModelError, match=r"tree [02] has the unknown field 'projections'"):
            load(model)
    for model, X in fitted_with(lambda tree: FakeTree(tree, state={"more": None})):
        assert load(model).raw_score(X).shape[0] == len(X)


def test_set_of_categories_in_place_of_a_threshold_is_refused():
    def shared(tree):
        return {"split_value": some(np.uint32, tree.node_count, 8)}

    numeric = np.full(5, -1)
    for model, X in fitted_with(lambda tree: FakeTree(tree, shared(tree), n_categories=numeric)):
        assert load(model).raw_score(X).shape[0] == len(X)

    def categorical(tree):
        counts = np.full(5, -1)
        counts[tree.feature[0]] = 4
        return FakeTree(tree, shared(tree), n_categories=counts)

    for model, _ in fitted_with(categorical):
        with pytest.raises(ModelError, match=r"tree [02] has a categorical split on feature '\d'"):
            load(model)
    for model, _ in fitted_with(lambda tree: FakeTree(tree, shared(tree))):
        with pytest.raises(ModelError, match="does not say which of its splits are categorical"):
            load(model)


def test_inputs_that_the_estimator_changes_first_are_refused():
    for name, value, message in (
        ("_preprocessor", StandardScaler(), "_preprocessor"),
        ("is_categorical_", np.array([0, 1, 0, 0, 0], dtype=bool), "feature '1' as categorical"),
    ):
        for model, _ in fitted_with(lambda tree: tree):
            setattr(model, name, value)
            with pytest.raises(ModelError, match=message):
                load(model)
    X, y = data()
    model = forests.HistGradientBoostingRegressor(max_iter=2).fit(X, y)
    model._preprocessor = StandardScaler()
    with pytest.raises(ModelError, match="changes its inputs"):
        load(model)


def test_unknown_field_of_histogram_boosting_is_refused_by_name_unless_it_is_empty():
    X, y = data()
    model = forests.HistGradientBoostingRegressor(max_iter=3).fit(X, y)
    predictor = model._predictors[2][0]
    expected, nodes = load(model).raw_score(X), predictor.nodes
    predictor.nodes = widened(nodes, {"tilt": np.zeros(len(nodes))})
    np.testing.assert_array_equal(load(model).raw_score(X), expected)
    predictor.nodes = widened(nodes, {"tilt": np.linspace(0, 1, len(nodes))})
    with pytest.raises(ModelError, match="tree 2 has the unknown field 'tilt'"):
        load(model)
    predictor.nodes, predictor.rotation = nodes, np.eye(5)
    with pytest.raises(ModelError, match="tree 2 has the unknown field 'rotation'"):
        load(model)
