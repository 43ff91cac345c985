"""A frame's columns find their features by name, however a library spells it, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.data.names import column_names, feature_named, order_of
from carvegbm.training.model import safe_names
from plain_trees import ensemble, refused, split, stump

pandas = pytest.importorskip("pandas")

NAMES = ["mean area", "age", "a_b"]
KEPT = ["mean_area", "age", "a_b"]  # as LightGBM writes them
ROWS = np.random.default_rng(0).normal(size=(40, 3))


def model(names=KEPT):
    tree = split(0, 0.0, stump(1, 0.5, 1.0, 2.0), stump(2, -0.5, 3.0, 4.0))
    return ensemble(tree, stump(1, 0.0, 0.25, 0.5), n_features=3, feature_names=names)


def frames(columns, rows=ROWS):
    """The same table as every kind of frame that is installed."""
    found = [pandas.DataFrame(rows, columns=columns)]
    pyarrow = pytest.importorskip("pyarrow")
    found.append(pyarrow.table(list(rows.T), names=columns))
    found.append(pyarrow.RecordBatch.from_arrays(list(map(pyarrow.array, rows.T)), names=columns))
    try:
        import polars
    except ImportError:
        return found
    return [*found, polars.DataFrame(rows, schema=columns)]


# ── whose column is it ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("names", [NAMES, KEPT])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_frame_in_any_order_and_spelling_says_what_the_array_says(names, order):
    expected = model().raw_score(ROWS)
    for X in frames([names[i] for i in order], ROWS[:, order]):
        np.testing.assert_array_equal(model().raw_score(X), expected)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "sklearn"])
def test_reordered_frame_is_decided_as_the_library_decides_the_frame_it_knows(kind):
    X = pandas.DataFrame(ROWS, columns=["mean area", "age", "größe"])
    y = (ROWS[:, 0] + 0.1 * ROWS[:, 1] > 0).astype(int)
    if kind == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        fitted = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1)
    elif kind == "xgboost":
        fitted = pytest.importorskip("xgboost").XGBClassifier(n_estimators=5)
    else:
        fitted = pytest.importorskip("sklearn.ensemble").RandomForestClassifier(n_estimators=5)
    fitted.fit(X, y)
    loaded = cg.load(fitted)
    np.testing.assert_array_equal(loaded.decide(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.decide(X.iloc[:, [2, 0, 1]]), fitted.predict(X))


def test_lightgbm_booster_and_file_take_the_original_spelling(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X = pandas.DataFrame(ROWS, columns=["mean area", "  age ", "a\tb"])
    data = lightgbm.Dataset(X, (ROWS[:, 0] > 0).astype(int))
    booster = lightgbm.train({"objective": "binary", "min_data_in_leaf": 1, "verbose": -1}, data, 3)
    booster.save_model(tmp_path / "model.txt")
    expected = booster.predict(X, raw_score=True)
    for source in (booster, tmp_path / "model.txt"):
        loaded = cg.load(source)
        np.testing.assert_array_equal(loaded.raw_score(X.iloc[:, ::-1]), expected)
        assert [loaded.feature_index(name) for name in X.columns] == [0, 1, 2]


def test_model_trained_here_takes_the_frame_it_was_trained_on():
    pytest.importorskip("lightgbm")
    X = pandas.DataFrame(ROWS, columns=["income [€]", "a, b", '"quoted"'])
    y = (ROWS[:, 0] > 0).astype(int)
    fitted = cg.LargeSpreadClassifier(budget=0.01, n_estimators=3, min_child_samples=2).fit(X, y)
    loaded = cg.load(fitted)
    np.testing.assert_array_equal(loaded.decide(X.iloc[:, [1, 2, 0]]), fitted.predict(X))


def test_columns_of_numbers_and_of_tuples_are_named_as_libraries_name_them():
    X = pandas.DataFrame(ROWS, columns=[7, 5, 6])
    np.testing.assert_array_equal(
        model(["5", "6", "7"]).raw_score(X), model().raw_score(ROWS[:, [1, 2, 0]])
    )
    tuples = pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", 1)])
    X = pandas.DataFrame(ROWS, columns=tuples)
    assert column_names(X) == ["a x", "a y", "b 1"]
    np.testing.assert_array_equal(
        model(["b 1", "a x", "a y"]).raw_score(X), model().raw_score(ROWS[:, [2, 0, 1]])
    )


def test_frame_that_fits_is_not_copied():
    X = pandas.DataFrame(ROWS, columns=NAMES, copy=False)
    assert np.shares_memory(model().check_data(X), ROWS)
    assert not np.shares_memory(model().check_data(X[NAMES[::-1]]), ROWS)


@pytest.mark.parametrize(
    "made_up", ["Column_{}", "f{}", "{}", "column_{}"], ids=["lgb", "xgb", "pandas", "polars"]
)
def test_made_up_names_are_no_names_in_a_model_or_in_a_frame(made_up):
    plain = [made_up.format(i) for i in range(3)]
    expected = model().raw_score(ROWS)
    for X in frames(["z", "y", "x"]):
        np.testing.assert_array_equal(model(plain).raw_score(X), expected)
    for X in frames(plain):
        np.testing.assert_array_equal(model().raw_score(X), expected)
        np.testing.assert_array_equal(model(None).raw_score(X), expected)
    for X in frames([plain[i] for i in (2, 0, 1)], ROWS[:, [2, 0, 1]]):
        np.testing.assert_array_equal(model(plain).raw_score(X), expected)


def test_frame_without_names_goes_by_position():
    np.testing.assert_array_equal(
        model().raw_score(pandas.DataFrame(ROWS)), model().raw_score(ROWS)
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["mean area", "weight", "a_b"], ["lacks 'age'", "unexpected 'weight'", "by position"]),
        (["mean area", "age", "a_b", "id"], ["unexpected 'id'"]),
        (["mean area", "age"], ["lacks 'a_b'"]),
        (["mean area", "mean_area", "age"], ["'mean area', 'mean_area'", "told apart"]),
        (["age", "age", "a_b"], ["'age', 'age'", "told apart"]),
        ([2, 1, 0], ["lacks", "'mean_area'", "'2'"]),
    ],
)
def test_names_that_do_not_fit_are_listed(columns, words):
    X = pandas.DataFrame(np.zeros((2, len(columns))), columns=columns)
    attacker = cg.Attacker("inf", 0.1)
    for use in (
        model().raw_score,
        model().decide,
        model().check_data,
        lambda X: cg.verify(model(), X, [0, 1], attacker),
    ):
        with refused(*words, kind=cg.DataError):
            use(X)


def test_only_a_few_of_many_names_are_listed():
    many = ensemble(stump(0, 0.5), n_features=100, feature_names=[f"x{i}" for i in range(100)])
    X = pandas.DataFrame(np.zeros((1, 100)), columns=[f"z{i}" for i in range(100)])
    with pytest.raises(cg.DataError) as caught:
        many.decide(X)
    assert "lacks 'x0', 'x1', 'x2'" in str(caught.value)
    assert ", … and has the unexpected 'z0', 'z1'" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_model_whose_names_agree_but_for_spelling_needs_them_spelled_out():
    names = ["a b", "a_b", "c"]
    expected = model().raw_score(ROWS)
    X = pandas.DataFrame(ROWS[:, [2, 1, 0]], columns=["c", "a_b", "a b"])
    np.testing.assert_array_equal(model(names).raw_score(X), expected)
    with refused("told apart", kind=cg.DataError):
        model(names).raw_score(pandas.DataFrame(ROWS, columns=["a b", "a:b", "c"]))
    assert [model(names).feature_index(name) for name in names] == [0, 1, 2]
    with refused("'a b', 'a_b'", "position", kind=cg.DataError):
        model(names).feature_index("a:b")


# ── laws ─────────────────────────────────────────────────────────────────────────────────────

words = st.text(st.sampled_from('ab01 _\t:,"é['), min_size=1, max_size=4)


@given(st.lists(words, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_names_in_any_order_find_themselves(names, random):
    shuffled = list(range(len(names)))
    random.shuffle(shuffled)
    columns = [names[i] for i in shuffled]
    if len(set(names)) < len(names):
        if columns != names:
            with pytest.raises(cg.DataError):
                order_of(columns, names, "X")
        return
    order = order_of(columns, names, "X") or list(range(len(names)))
    assert [columns[i] for i in order] == names


def as_lightgbm_writes(names):
    """What LightGBM makes of names, or None where it refuses them."""
    kept = [name.replace(" ", "_") for name in names]
    return kept if len(set(kept)) == len(kept) else None


@pytest.mark.parametrize("writes", [as_lightgbm_writes, safe_names])
@given(data=st.data())
def test_a_rewritten_name_finds_the_feature_it_came_from_or_is_refused(writes, data):
    names = data.draw(st.lists(words, min_size=1, max_size=5, unique=True))
    shuffled = data.draw(st.permutations(range(len(names))))
    kept = writes(names)
    if kept is None:
        return
    try:
        order = order_of([names[i] for i in shuffled], kept, "X")
    except cg.DataError:
        return
    order = range(len(names)) if order is None else order
    assert [shuffled[i] for i in order] == list(range(len(names)))


@given(st.lists(words, min_size=1, max_size=5, unique_by=lambda name: name.replace(" ", "_")))
def test_a_feature_is_found_by_its_original_name(names):
    kept = [name.replace(" ", "_") for name in names]
    for position, name in enumerate(names):
        try:
            found = feature_named(name, kept)
        except cg.DataError:
            continue  # another name may be meant
        assert found == position


def test_attacker_takes_the_original_spelling():
    attacker = cg.Attacker(
        "inf", 1.0, features=["mean area"], scale={"mean area": 2.0}, bounds={"mean area": (-1, 1)}
    )
    by_position = cg.Attacker("inf", 1.0, features=[0], scale={0: 2.0}, bounds={0: (-1, 1)})
    by_name, expected = attacker.limits(model()), by_position.limits(model())
    for field in ("scale", "changeable", "lower", "upper"):
        np.testing.assert_array_equal(getattr(by_name, field), getattr(expected, field))
    with refused("unknown feature 'height'", "mean_area, age", kind=cg.DataError):
        model().feature_index("height")
