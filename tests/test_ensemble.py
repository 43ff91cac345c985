"""The ensemble: what it computes, what it is equal to, and what it refuses."""

from __future__ import annotations

import copy
import math
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.data.rows import check_threads
from carvegbm.model.nodes import NODE
from plain_trees import chain, ensemble, leaf, refused, split, stump

TREES = [
    split(0, 0.5, stump(1, 0.25, -3.0, 2.0), leaf(1.0)),
    stump(1, 0.75, 0.5, -0.5),
    leaf(0.125),
]


def example(**options):
    return ensemble(*TREES, n_features=2, **options)


# ── what it computes ─────────────────────────────────────────────────────────────────────────


def test_raw_score_is_base_plus_one_leaf_per_tree():
    X = [[0.5, 0.25], [0.5, 0.26], [0.6, 0.0], [0.6, 0.76]]
    assert example(base_score=10.0).raw_score(X).tolist() == [7.625, 12.625, 11.625, 10.625]


def test_averaged_ensemble_divides_base_and_leaves():
    averaged = ensemble(leaf(1.0), leaf(2.0), base_score=6.0, average=3, task="regression")
    assert averaged.raw_score([[0.0]]).tolist() == [3.0]


@pytest.mark.parametrize("threshold", [0.1, -0.1, 0.0, -0.0, 5e-324, 1e300])
def test_value_goes_left_up_to_the_threshold_and_right_from_the_next_float_on(threshold):
    model = ensemble(stump(0, threshold))
    below, above = math.nextafter(threshold, -math.inf), math.nextafter(threshold, math.inf)
    assert model.raw_score([[below], [threshold], [above]]).tolist() == [-1, -1, 1]


def test_both_zeros_are_the_same_number():
    assert ensemble(stump(0, -0.0)).raw_score([[0.0], [-0.0]]).tolist() == [-1, -1]


def test_infinite_thresholds_and_values_are_ordinary_to_raw_score():
    X = [[-math.inf], [0.0], [math.inf]]
    assert ensemble(stump(0, math.inf)).raw_score(X).tolist() == [-1, -1, -1]
    assert ensemble(stump(0, -math.inf)).raw_score(X).tolist() == [-1, 1, 1]
    assert ensemble(stump(0, 0.5)).raw_score(X).tolist() == [-1, -1, 1]


def test_missing_value_follows_the_rule_of_each_split():
    model = ensemble(
        stump(0, 0.5, 1.0, 2.0, missing="left"), stump(0, 0.5, 10.0, 20.0, missing="right")
    )
    assert model.raw_score([[math.nan]]).tolist() == [21.0]


def test_float32_model_rounds_its_inputs():
    t = float(np.float32(0.1))
    model = ensemble(stump(0, t), input_precision="float32")
    nearest = [math.nextafter(t, 1), 0.1, float(np.nextafter(np.float32(t), np.float32(1)))]
    assert model.raw_score([[x] for x in nearest]).tolist() == [-1, -1, 1]
    assert ensemble(stump(0, t)).raw_score([[nearest[0]]]).tolist() == [1]


def test_float32_sums_round_after_every_tree():
    trees = [leaf(2.0**24), leaf(1.0), leaf(1.0)]
    assert ensemble(*trees).raw_score([[0.0]]).tolist() == [2.0**24 + 2]
    assert ensemble(*trees, sum_precision="float32").raw_score([[0.0]]).tolist() == [2.0**24]


def test_raw_score_has_a_column_per_class_or_none():
    X = np.zeros((4, 1))
    assert ensemble(stump(0, 0.5)).raw_score(X).shape == (4,)
    assert ensemble(stump(0, 0.5), task="regression").raw_score(X).shape == (4,)
    three = ensemble(stump(0, 0.5, [1, 2, 3], [3, 2, 1]))
    assert three.raw_score(X).tolist() == [[1, 2, 3]] * 4


def test_rows_may_come_in_any_shape_of_numbers():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    pandas = pytest.importorskip("pandas")
    rows = np.array([[0, 1], [1, 0], [1, 1]])
    expected = example().raw_score(rows.astype(np.float64)).tolist()
    for X in (
        rows,
        rows.tolist(),
        rows.astype(np.float32),
        rows.astype(bool),
        np.asfortranarray(rows.astype(np.float64)),
        np.repeat(rows, 2, axis=0)[::2].astype(np.float64),
        scipy_sparse.csr_matrix(rows),
        pandas.DataFrame(rows),
    ):
        assert example().raw_score(X).tolist() == expected


def test_number_of_threads_makes_no_difference():
    X = np.random.default_rng(0).random((5000, 2))
    one = example().raw_score(X, threads=1)
    np.testing.assert_array_equal(one, example().raw_score(X, threads=2))
    np.testing.assert_array_equal(one, example().raw_score(X))


def test_decision_at_the_threshold_is_positive():
    model = ensemble(stump(0, 0.5), threshold=1.0, classes=["no", "yes"])
    assert model.decide([[0.5], [0.6]]).tolist() == ["no", "yes"]
    above = ensemble(stump(0, 0.5), threshold=math.nextafter(1.0, 2.0))
    assert above.decide([[0.6]]).tolist() == [0]


def test_first_of_several_best_classes_is_decided():
    model = ensemble(leaf([0.0, 2.0, 2.0]), classes=[30, 20, 10])
    assert model.decide([[0.0]]).tolist() == [20]


def test_regression_decides_on_the_raw_score():
    model = ensemble(stump(0, 0.5, 1.5, 2.5), task="regression")
    assert model.decide([[0.0], [1.0]]).tolist() == [1.5, 2.5]


def test_ensemble_without_trees_is_its_base_score():
    model = ensemble(n_features=3, base_score=-2.0)
    assert (model.n_trees, model.n_leaves) == (0, 0)
    assert model.to_trees() == []
    assert model.raw_score(np.zeros((2, 3))).tolist() == [-2, -2]
    assert model.decide(np.zeros((2, 3))).tolist() == [0, 0]
    assert ensemble(base_score=[1.0, 3.0, 2.0]).decide([[0.0]]).tolist() == [1]


def test_ensemble_without_features_is_constant():
    model = ensemble(leaf(2.0), n_features=0)
    assert model.decide(np.zeros((2, 0))).tolist() == [1, 1]
    assert cg.verify(model, np.zeros((1, 0)), [1], cg.Attacker(0, 1)).status.tolist() == ["robust"]


def test_chain_of_100_000_splits_is_scored_and_verified():
    model = ensemble(chain(100_000), base_score=-50_000.0)
    assert (model.n_leaves, model.core.depth) == (100_001, 100_000)
    X = [[0.5], [50_000.0], [50_000.5], [1e6]]
    assert model.raw_score(X).tolist() == [-50_000, -1, 0, 50_000]
    for norm in (0, 1, 2, "inf"):
        result = cg.verify(model, X[:2], [0, 0], cg.Attacker(norm, 1))
        assert result.status.tolist() == ["fragile" if norm == 0 else "robust", "fragile"]
    assert cg.radius(model, [[49_990.0]], [0], cg.Attacker(1)).radius.tolist() == [
        math.nextafter(50_000.0, 1e6) - 49_990.0
    ]
    assert pickle.loads(pickle.dumps(model)) == model


# ── what it is ───────────────────────────────────────────────────────────────────────────────


def test_repr_says_what_it_is():
    assert repr(example()) == "<Ensemble: binary, 3 trees, 6 leaves, 2 features>"
    three = ensemble(leaf([1, 2, 3]), input_precision="float32")
    assert (
        repr(three)
        == "<Ensemble: multiclass, 1 trees, 1 leaves, 1 features, 3 classes, float32 inputs>"
    )


def test_nothing_about_an_ensemble_can_be_changed():
    model = example()
    with pytest.raises(AttributeError, match="immutable"):
        model.threshold = 1.0
    for array in (model.nodes, model.roots, model.scores, model.base_score, model.classes):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_arrays_it_is_made_from_may_be_changed_afterwards():
    model = example()
    nodes, scores = model.nodes.copy(), model.scores.copy()
    made = cg.Ensemble(nodes, model.roots, scores, n_features=2, task="binary")
    nodes["threshold"], scores[:] = 7.0, 7.0
    assert made == model


def test_copies_are_equal_and_compute_the_same():
    model = example(base_score=0.5, classes=["a", "b"], feature_names=["x", "y"], link="logistic")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert other == model
        assert other.feature_names == ("x", "y")
        assert other.decide([[0.0, 0.0]]).tolist() == ["a"]
        assert not other.scores.flags.writeable


def test_equality_does_not_depend_on_the_layout_of_the_nodes():
    model = example()
    rng = np.random.default_rng(3)
    place, row = rng.permutation(len(model.nodes)), rng.permutation(model.n_leaves)
    nodes, scores = np.zeros_like(model.nodes), np.zeros_like(model.scores)
    for position, node in enumerate(model.nodes):
        moved = node.copy()
        if node["feature"] < 0:
            moved["left"] = row[node["left"]]
            scores[row[node["left"]]] = model.scores[node["left"]]
        else:
            moved["left"], moved["right"] = place[node["left"]], place[node["right"]]
        nodes[place[position]] = moved
    shuffled = cg.Ensemble(nodes, place[model.roots], scores, n_features=2, task="binary")
    assert not np.array_equal(shuffled.nodes, model.nodes)
    assert shuffled == model
    assert hash(shuffled) == hash(model)
    X = rng.random((100, 2))
    np.testing.assert_array_equal(shuffled.raw_score(X), model.raw_score(X))
    assert shuffled.to_trees() == model.to_trees()


@pytest.mark.parametrize(
    "change",
    [
        {"base_score": 0.5},
        {"threshold": 0.5},
        {"task": "regression"},
        {"classes": [1, 0]},
        {"classes": ["0", "1"]},
        {"feature_names": ["a", "b"]},
        {"link": "logistic"},
        {"link_scale": 2.0},
        {"average": 3},
        {"input_precision": "float32"},
        {"sum_precision": "float32"},
        {"absent": "missing"},
        {"n_features": 3},
    ],
    ids=str,
)
def test_ensembles_that_differ_in_anything_are_not_equal(change):
    assert cg.Ensemble.from_trees(TREES, **{"n_features": 2} | change) != example()


@pytest.mark.parametrize(
    "trees",
    [
        TREES[:2],
        TREES[::-1],
        [stump(1, 0.75, 0.5, -0.5), *TREES[1:]],
        [TREES[0], stump(1, 0.75, 0.5, -0.25), TREES[2]],
        [TREES[0], stump(1, 0.5, 0.5, -0.5), TREES[2]],
        [TREES[0], stump(0, 0.75, 0.5, -0.5), TREES[2]],
        [TREES[0], stump(1, 0.75, 0.5, -0.5, missing="left"), TREES[2]],
    ],
    ids=["fewer", "order", "shape", "score", "threshold", "feature", "missing"],
)
def test_ensembles_with_other_trees_are_not_equal(trees):
    assert ensemble(*trees, n_features=2) != example()


def test_ensemble_is_not_equal_to_something_else():
    assert example() != TREES


def test_every_node_knows_its_tree():
    model = example()
    assert sorted(model.tree_of_node.tolist()) == [0] * 5 + [1] * 3 + [2]
    assert model.tree_of_node[model.roots].tolist() == [0, 1, 2]


def test_features_are_found_by_name_and_position():
    named = example(feature_names=["age", "height"])
    assert (named.feature_index("height"), named.feature_index(np.int64(0))) == (1, 0)
    assert (named.feature_name(1), example().feature_name(1)) == ("height", "feature 1")
    for feature, word in (("weight", "age, height"), (2, "feature 2"), (-1, "feature -1")):
        with refused(str(feature), word, kind=cg.DataError):
            named.feature_index(feature)
    with refused("'age'", kind=cg.DataError):
        example().feature_index("age")


# ── what it refuses ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "ranking"}, ["task", "'ranking'"]),
        ({"task": "multiclass"}, ["multiclass", "at least two scores"]),
        ({"n_features": -1}, ["n_features", "-1"]),
        ({"n_features": 2**31}, ["n_features", "2147483648"]),
        ({"n_features": 1}, ["feature 1", "1 features"]),
        ({"average": 0}, ["average", "0"]),
        ({"feature_names": ["a"]}, ["1 feature names", "2 features"]),
        ({"feature_names": ["a", 1]}, ["feature's name", "text", "got 1"]),
        ({"task": ["binary"]}, ["task", "['binary']"]),
        ({"threshold": math.nan}, ["threshold", "nan"]),
        ({"threshold": math.inf}, ["threshold", "inf"]),
        ({"base_score": math.inf}, ["base scores", "finite"]),
        ({"base_score": math.nan}, ["base scores", "finite"]),
        ({"base_score": [1.0, 2.0]}, ["base_score", "2"]),
        ({"classes": [0]}, ["classes", "2 different labels", "[0]"]),
        ({"classes": ["a", "b", "c"]}, ["classes", "2 different labels"]),
        ({"classes": [1, 1]}, ["classes", "2 different labels", "[1, 1]"]),
        ({"classes": np.array(["a", 1], dtype=object)}, ["classes", "sorted", "['a', 1]"]),
        ({"link": "probit"}, ["link", "'probit'"]),
        ({"link_scale": 0.0}, ["link_scale", "0.0"]),
        ({"input_precision": "float16"}, ["input_precision", "'float16'"]),
        ({"sum_precision": "double"}, ["sum_precision", "'double'"]),
        ({"absent": "nan"}, ["absent must be zero or missing", "'nan'"]),
    ],
    ids=str,
)
def test_options_that_make_no_ensemble_are_refused(options, words):
    with refused(*words, kind=cg.ModelError):
        cg.Ensemble.from_trees(TREES, **{"n_features": 2} | options)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (stump(0, math.nan), ["threshold NaN"]),
        (leaf(math.inf), ["leaf", "finite"]),
        (leaf(math.nan), ["leaf", "finite"]),
    ],
    ids=["threshold", "infinite", "nan"],
)
def test_numbers_that_cannot_be_compared_or_added_are_refused(tree, words):
    with refused(*words, kind=cg.ModelError):
        ensemble(tree)


def test_float32_model_needs_float32_thresholds():
    with refused("float32 thresholds", kind=cg.ModelError):
        ensemble(stump(0, 0.1), input_precision="float32")


def test_binary_model_has_one_score_per_leaf():
    with refused("binary", "one score", "2", kind=cg.ModelError):
        ensemble(leaf([1.0, 2.0]), task="binary")


def nodes(*rows):
    """Rows of (feature, left, right); the threshold is 0.5."""
    return np.array([(0.5, feature, left, right, -1) for feature, left, right in rows], dtype=NODE)


A, B, C = (-1, 0, -1), (-1, 1, -1), (-1, 2, -1)  # the leaves of rows 0, 1 and 2


@pytest.mark.parametrize(
    ("rows", "roots", "scores", "words"),
    [
        pytest.param(
            [(0, 1, 1), A], [0], 1, ["shared", "2 references", "node 1"], id="both are one"
        ),
        pytest.param([A], [0, 0], 1, ["shared", "2 references", "node 0"], id="two trees are one"),
        pytest.param([(0, 1, 2), (0, 3, 3), A, B], [0], 2, ["shared", "node 3"], id="below"),
        pytest.param([(0, 1, 0), A], [0], 1, ["cyclic", "2 references", "node 0"], id="own child"),
        pytest.param(
            [A, (0, 2, 3), (0, 1, 4), B, C], [0], 3, ["cyclic", "no root", "node 1"], id="cycle"
        ),
        pytest.param([(0, 1, 3), A, B], [0], 2, ["missing", "node 3 of 3"], id="beyond the end"),
        pytest.param([(0, 1, -2), A, B], [0], 2, ["missing", "node -2 of 3"], id="before all"),
        pytest.param([A], [1], 1, ["missing", "node 1 of 1"], id="root beyond the end"),
        pytest.param([A, B], [0], 2, ["missing", "0 references", "node 1"], id="leaf of no tree"),
        pytest.param([(0, 1, 2), A, A], [0], 1, ["row of its own"], id="shared scores"),
        pytest.param([(0, 1, 2), A, B], [0], 3, ["row of its own"], id="scores of no leaf"),
        pytest.param([(0, 1, 2), A, C], [0], 2, ["row of its own"], id="scores beyond the end"),
    ],
)
def test_nodes_that_are_not_trees_are_refused(rows, roots, scores, words):
    with refused(*words, kind=cg.ModelError):
        cg.Ensemble(nodes(*rows), roots, np.zeros(scores), n_features=1, task="binary")


def test_rule_for_missing_values_is_left_right_or_none():
    rows = nodes((0, 1, 2), A, B)
    rows["missing"][0] = 7
    with refused("missing values", "7", "-1 for no rule", kind=cg.ModelError):
        cg.Ensemble(rows, [0], np.zeros(2), n_features=1, task="binary")


def test_what_means_nothing_at_a_leaf_makes_no_difference():
    plain = ensemble(stump(0, 0.5))
    odd = plain.nodes.copy()
    leaf = odd["feature"] < 0
    odd["threshold"][leaf], odd["feature"][leaf] = math.nan, -5
    odd["right"][leaf], odd["missing"][leaf] = 99, 1
    same = cg.Ensemble(odd, plain.roots, plain.scores, n_features=1, task="binary")
    assert same == plain
    assert same.nodes.tobytes() == plain.nodes.tobytes()


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", math.nan, 2**40, [1]])
def test_threads_are_a_whole_number_from_one(threads):
    with refused("threads", repr(threads)):
        example().raw_score([[0.0, 0.0]], threads=threads)
    assert (check_threads(None), check_threads(np.int64(3))) == (0, 3)


# ── data ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[1.0, 2.0, 3.0]], ["3 columns", "2 features"]),
        ([[1.0]], ["1 columns", "2 features"]),
        (np.zeros((0, 2)), ["no rows"]),
        ([1.0, 2.0], ["two dimensions", "1"]),
        (np.zeros((1, 2, 1)), ["two dimensions", "3"]),
        ([["a", "b"]], ["must be numbers"]),
        ([[1.0, 2.0], [3.0]], ["must be numbers"]),
        ([[10**400, 0]], ["must be numbers"]),
        ([[1j, 0.0]], ["must be numbers", "complex"]),
        ([[0.0, 0.0], [0.0, math.nan]], ["row 1", "height", "nan", "missing"]),
        ([[0.0, None]], ["row 0", "height", "nan", "missing"]),
    ],
    ids=[
        "wide",
        "narrow",
        "empty",
        "flat",
        "deep",
        "words",
        "ragged",
        "huge",
        "complex",
        "nan",
        "none",
    ],
)
def test_rows_that_do_not_fit_are_refused(X, words):
    model = example(feature_names=["age", "height"])
    for use in (model.check_data, model.raw_score, model.decide):
        with refused(*words, kind=cg.DataError):
            use(X)


@settings(max_examples=30, deadline=None)
@given(
    places=st.sets(st.tuples(st.integers(0, 5999), st.integers(0, 399)), max_size=4),
    threads=st.sampled_from([None, 1, 2, 5]),
    kind=st.sampled_from([np.float64, np.float32]),
)
def test_first_bad_value_is_found_whoever_looks_first(places, threads, kind):
    model = ensemble(stump(7, 0.5), stump(9, 0.5, missing="left"), n_features=400)
    X = np.zeros((6000, 400), dtype=kind)
    for row, column in places:
        X[row, column] = math.nan if (row + column) % 2 and column == 7 else math.inf
    X[::7, 9] = math.nan  # which the model has a rule for
    bad = [(row, column) for row, column in sorted(places) if not (column == 9 and row % 7 == 0)]
    if not bad:
        model.check_data(X, threads=threads)
        return
    row, column = bad[0]
    with refused(f"X row {row}, feature {column}:", kind=cg.DataError):
        model.check_data(X, threads=threads)


def test_other_threads_run_while_values_are_looked_at():
    try:
        X = np.zeros((1 << 28, 2))  # never written, so it takes no memory
    except MemoryError:
        pytest.skip("the system does not promise so much memory")
    ticks, stop = [0], threading.Event()

    def count():
        while not stop.wait(0.001):
            ticks[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        before = ticks[0]
        assert example().core.first_bad_value(X, False, 1) is None
        after = ticks[0]
    finally:
        stop.set()
        counter.join()
    assert after - before > 3


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_distances_from_infinity_are_refused(value):
    X, attacker = [[0.0, 0.0], [value, 0.0]], cg.Attacker("inf", 0.1)
    for use in (
        example().check_data,
        lambda X: cg.verify(example(), X, [0, 1], attacker),
        lambda X: cg.attack(example(), X, [0, 1], attacker),
        lambda X: cg.radius(example(), X, [0, 1], cg.Attacker(1)),
        lambda X: cg.output_range(example(), X, attacker),
    ):
        with refused("row 1", "feature 0", str(value), kind=cg.DataError):
            use(X)


def test_missing_value_in_a_feature_that_no_split_tests_is_no_matter():
    model = ensemble(stump(0, 0.5), n_features=2)
    assert model.decide([[0.0, math.nan]]).tolist() == [0]
    attacker = cg.Attacker(0, 2)
    assert cg.verify(model, [[0.0, math.nan]], [0], attacker).status.tolist() == ["fragile"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_mapped_rows_are_not_copied(tmp_path, dtype):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((50, 2)).astype(dtype))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(example().check_data(X), X)
    np.testing.assert_array_equal(example().raw_score(X), example().raw_score(np.array(X)))


@pytest.mark.parametrize(
    ("classes", "y", "indices"),
    [
        (None, [1, 0, 1], [1, 0, 1]),
        (None, [True, False, True], [1, 0, 1]),
        (None, [1.0, 0.0, 1.0], [1, 0, 1]),
        ([1, -1], [-1, 1, -1], [1, 0, 1]),
        (["no", "yes"], ["yes", "no", "yes"], [1, 0, 1]),
        (["yes", "no"], np.array(["yes", "no", "yes"], dtype=object), [0, 1, 0]),
        ([0.5, 0.25], [0.25, 0.5, 0.25], [1, 0, 1]),
    ],
)
def test_labels_become_positions_among_the_classes(classes, y, indices):
    found = example(classes=classes).check_labels(y, 3)
    assert found.tolist() == indices
    assert found.dtype == np.int32


@pytest.mark.parametrize(
    ("classes", "y", "words"),
    [
        (None, [0, 2], ["unknown label 2", "row 1", "0, 1", "classes="]),
        (None, [0, -1], ["unknown label -1", "row 1"]),
        (None, [0, 0.5], ["unknown label 0.5", "row 1"]),
        (None, [0, math.nan], ["unknown label nan", "row 1"]),
        (None, ["0", "1"], ["unknown label '0'", "row 0", "are 0, 1"]),
        (None, [None, 1], ["unknown label None", "row 0"]),
        (["no", "yes"], ["no", "maybe"], ["unknown label 'maybe'", "row 1", "'no', 'yes'"]),
        (["no", "yes"], [0, 1], ["unknown label 0", "row 0", "'no', 'yes'"]),
        (None, [0], ["one label per row", "2 rows"]),
        (None, [[0], [1]], ["one label per row", "(2, 1)", "np.ravel(y)"]),
        (None, [[0], [1, 2]], ["one label per row"]),
        (None, 0, ["one label per row"]),
    ],
)
def test_labels_that_the_model_does_not_know_are_refused(classes, y, words):
    with refused(*words, kind=cg.DataError):
        example(classes=classes).check_labels(y, 2)


def test_regression_has_no_labels():
    with refused("regression", "output_range", kind=cg.DataError):
        example(task="regression").check_labels([0.0], 1)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"average": 2.9}, "average"),
        ({"n_features": 1.9}, "n_features"),
        ({"n_features": "1"}, "n_features"),
        ({"threshold": 2**53 + 1}, "threshold"),
        ({"threshold": "0.5"}, "threshold"),
    ],
    ids=repr,
)
def test_numbers_that_would_be_rounded_are_refused(options, word):
    given = {"n_features": 1, **options}
    with pytest.raises(cg.ModelError, match=f"{word} must be"):
        cg.Ensemble.from_trees([{"score": 1.0}], **given)


@pytest.mark.parametrize("number", ["0.5", 2**53 + 1], ids=repr)
def test_texts_and_whole_numbers_beyond_doubles_are_no_thresholds_or_scores(number):
    fine = {"score": 1.0}
    for tree in (
        {"feature": 0, "threshold": number, "left": fine, "right": fine},
        {"score": number},
        {"score": [number, 1.0]},
    ):
        with pytest.raises(cg.ModelError):
            cg.Ensemble.from_trees([tree], n_features=1)
