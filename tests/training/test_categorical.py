"""Training on categorical features: at most one tree splits by them if a change is affordable."""

from __future__ import annotations

import itertools

import lightgbm
import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from training import problems
from training.estimators import classifier

CATEGORICAL = [2, 3, 4]
EVERY = [np.nan, -2.0, -1.0, -0.5, 0.0, 0.9, 3.7, 1e9, 2.0**31, *map(float, range(42))]
"""Values of a categorical column: missing, negative, fractional, huge, all known, some unseen."""

LETTERS = list("abcdefg")
WORDS = ["low", "middle", "high"]


def frame(X):
    """The same rows with labels for codes in two columns."""
    codes = X.astype(int)
    return pd.DataFrame(
        {
            "size": X[:, 0],
            "weight": X[:, 1],
            "colour": pd.Categorical.from_codes(codes[:, 2], WORDS),
            "sort": pd.Categorical.from_codes(codes[:, 3], LETTERS),
        }
    )


def trees_of(ensemble, feature):
    return set(ensemble.tree_of_node[ensemble.nodes["feature"] == feature].tolist())


def odd_rows():
    some = np.array([0.1, 0.7])
    return np.array(
        [
            [a, 0.5, b, c, d]
            for a in some
            for b, c, d in itertools.product(EVERY[:12], EVERY[:18], EVERY[::4])
        ]
    )


@pytest.mark.parametrize(
    ("attacker", "most_trees"),
    [
        ({"norm": "inf", "budget": 0.01}, None),
        ({"norm": "inf", "budget": 1.0}, 1),
        ({"norm": 1, "budget": 0.5}, None),
        ({"norm": 1, "budget": 0.5, "scale": {2: 2.0, 3: 1.9, 4: 8.0}}, {2: 1, 3: None, 4: 1}),
        ({"norm": 2, "budget": 1.5}, 1),
        ({"norm": 0, "budget": 0}, None),
        ({"norm": 0, "budget": 1}, 1),
        ({"norm": 0, "budget": 1, "features": [0, 1, 3]}, {2: None, 3: 1, 4: None}),
        ({"norm": 0, "budget": 2, "categories": {3: [5]}}, 1),
        ({"norm": 0, "budget": 2, "categories": {3: []}}, {2: 1, 3: None, 4: 1}),
    ],
)
def test_one_tree_splits_by_categories_that_the_attacker_can_exchange(attacker, most_trees):
    X, y = problems.with_categories()
    model = classifier(**attacker, min_data_per_group=5, cat_smooth=2)
    model.fit(X, y, categorical_feature=CATEGORICAL)
    ensemble = model.ensemble_
    assert list(ensemble.categories) == CATEGORICAL
    assert cg.is_large_spread(model.booster_, model.attacker_)
    for feature in CATEGORICAL:
        most = most_trees.get(feature) if isinstance(most_trees, dict) else most_trees
        n_trees = len(trees_of(ensemble, feature))
        assert n_trees == 1 if most == 1 else n_trees > 1


@pytest.mark.parametrize("attacker", [("inf", 0.01), (0, 2)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_lightgbm_says_the_same_of_every_category_and_of_none(attacker, n_classes):
    X, y = problems.with_categories()
    X[::7, 3] = np.nan
    X[::5, 0] = np.nan
    y = y if n_classes == 2 else y + (X[:, 1] > 0.7)
    norm, budget = attacker
    model = classifier(norm=norm, budget=budget, min_data_per_group=5, cat_smooth=2)
    model.fit(X, y, categorical_feature=CATEGORICAL)
    assert cg.load(model.booster_) == model.ensemble_
    theirs = lightgbm.Booster(model_str=model.booster_.model_to_string())
    for rows in (X, odd_rows()):
        raw = model.ensemble_.raw_score(rows)
        assert np.array_equal(theirs.predict(rows, raw_score=True), raw)
        assert np.array_equal(model.predict(rows), model.ensemble_.decide(rows))


def test_columns_of_categories_are_categorical_features():
    X, y = problems.with_categories()
    model = classifier(min_data_per_group=5, cat_smooth=2).fit(frame(X), y)
    labels = {2: dict(enumerate(WORDS)), 3: dict(enumerate(LETTERS))}
    assert {f: dict(own) for f, own in model.ensemble_.categories.items()} == labels
    assert cg.load(model.booster_) == model.ensemble_
    same = classifier(min_data_per_group=5, cat_smooth=2).fit(
        X[:, :4], y, categorical_feature=[2, 3], feature_names=["size", "weight", "colour", "sort"]
    )
    assert np.array_equal(model.decision_function(frame(X)), same.decision_function(X[:, :4]))
    assert np.array_equal(
        model.booster_.predict(frame(X), raw_score=True), model.decision_function(frame(X))
    )


@pytest.mark.parametrize("name", ["polars", "pyarrow"])
def test_categories_of_other_frames_than_those_of_pandas_are_refused(name):
    library = pytest.importorskip(name)
    X, y = problems.with_categories()
    given = library.DataFrame(frame(X)) if name == "polars" else library.table(frame(X))
    with pytest.raises(ValueError, match="categor"):
        classifier().fit(given, y)
    model = classifier(min_data_per_group=5, cat_smooth=2).fit(frame(X), y)
    with pytest.raises(cg.DataError, match=r"X.to_pandas\(\)"):
        model.predict(given)


def test_labels_are_mapped_as_lightgbm_maps_them():
    X, y = problems.with_categories()
    train = frame(X)
    model = classifier(min_data_per_group=5, cat_smooth=2).fit(train, y)
    other = train.assign(
        colour=pd.Categorical(["high", "purple", None] * 200, ["purple", "high"]),
        sort=train["sort"].cat.remove_unused_categories().cat.reorder_categories(LETTERS[::-1]),
    )
    theirs = model.booster_.predict(other, raw_score=True)
    assert np.array_equal(model.decision_function(other), theirs)
    texts = other.astype({"colour": object, "sort": object})
    assert np.array_equal(model.decision_function(texts), theirs)


def test_ordered_categories_are_numbers_as_in_lightgbm():
    X, y = problems.with_categories()
    train = frame(X)
    train["colour"] = train["colour"].cat.as_ordered()
    model = classifier().fit(train, y)
    assert list(model.ensemble_.categories) == [3]
    assert np.array_equal(
        model.booster_.predict(train, raw_score=True), model.decision_function(train)
    )


def test_the_estimator_says_of_an_unknown_category_what_verify_says():
    service = np.random.default_rng(0).choice(["dns", "ftp", "http", "smtp"], 200)
    X = pd.DataFrame({"size": np.linspace(0, 1, 200), "service": pd.Categorical(service)})
    y = np.isin(service, ["dns", "http"]).astype(int)
    attacker = {"norm": 0, "budget": 1, "features": ["service"]}
    model = classifier(**attacker, n_estimators=2, min_data_per_group=5, cat_smooth=2).fit(X, y)
    rows = X[:3].assign(service=pd.Categorical(["http", "gopher", None]))
    own = model.predict(rows)
    expected = cg.verify(model.booster_, rows, own, model.attacker_).status.tolist()
    assert model.verify(rows, own).status.tolist() == expected == ["fragile", "fragile", "robust"]
    assert model.attack(rows, own).success.tolist() == [True, True, False]


def test_named_columns_are_categorical_and_no_others():
    X, y = problems.with_categories()
    train = frame(X).assign(port=X[:, 4])
    model = classifier().fit(train, y, categorical_feature=["sort", "port"])
    assert list(model.ensemble_.categories) == [3, 4]
    assert model.ensemble_.categories[3][1] == "b"
    assert model.ensemble_.categories[4][39] == 39
    none = classifier().fit(train, y, categorical_feature=[])
    assert not none.ensemble_.categories


def test_a_feature_of_few_categories_is_split_one_by_one_as_in_lightgbm():
    """One tree at budget 0 is plain LightGBM's, for features of any number of categories."""
    X, y = problems.with_categories(900)
    options = {"num_leaves": 8, "min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": 2}
    for columns in ([2], [3], [4], [2, 3, 4]):
        for most in (2, 4, 8):
            chosen = X[:, columns]
            given = {**options, "max_cat_to_onehot": most, "n_jobs": 1, "n_estimators": 1}
            categorical = list(range(len(columns)))
            model = classifier(budget=0, **given).fit(chosen, y, categorical_feature=categorical)
            plain = lightgbm.LGBMClassifier(**given, verbosity=-1)
            plain.fit(chosen, y, categorical_feature=categorical)
            ours, theirs = (m.booster_.predict(chosen, raw_score=True) for m in (model, plain))
            assert ours == pytest.approx(theirs, rel=1e-9)


def test_rare_categories_go_with_the_unseen():
    X, y = problems.with_categories()
    X[:2, 3] = 6000
    model = classifier(min_data_per_group=5, cat_smooth=2).fit(X, y, categorical_feature=[3])
    assert 6000 in model.ensemble_.categories[3]
    unseen = np.array(X[:20])
    unseen[:, 3] = 77
    rare = np.array(unseen)
    rare[:, 3] = 6000
    assert np.array_equal(model.decision_function(rare), model.decision_function(unseen))


def test_certified_training_takes_categories():
    X, _ = problems.with_categories(900)
    y = (np.isin(X[:, 3], [1, 5]) ^ (X[:, 0] > 0.6)).astype(int)
    model = classifier(
        norm="inf", budget=0.02, certified=True, random_state=0, min_data_per_group=5
    )
    model.fit(X[:600], y[:600], categorical_feature=CATEGORICAL)
    assert cg.is_large_spread(model.ensemble_, model.attacker_)
    assert model.robust_score(X[600:], y[600:]) > 0.6
    rows = odd_rows()
    assert np.array_equal(
        model.booster_.predict(rows, raw_score=True), model.ensemble_.raw_score(rows)
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda X, _: classifier().fit(X * 1e8, np.arange(600) % 2, categorical_feature=[4]),
            "feature 4 has the category .* number the categories 0, 1, 2",
        ),
        (lambda X, m: m.predict(frame(X).assign(sort=X[:, 3])), "'sort', held categories"),
        (
            lambda X, _: classifier().fit(frame(X).assign(sort=pd.cut(X[:, 0], 3)), X[:, 2]),
            "'sort', has the category .* by texts or numbers",
        ),
        (
            lambda X, _: classifier(categories={"sort": ["zebra"]}).fit(frame(X), X[:, 2] > 1),
            "sort: unknown category 'zebra'",
        ),
    ],
)
def test_bad_categories_are_refused_in_one_line(spoil, message):
    X, y = problems.with_categories()
    model = classifier().fit(frame(X), y)
    with pytest.raises(cg.CarveError, match=message) as caught:
        spoil(X, model)
    assert "\n" not in str(caught.value)
