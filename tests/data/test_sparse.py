"""Sparse instances: every answer is that of the dense matrix, which is never made."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import carvegbm as cg
from asking import attacker_of
from carvegbm.data import sparse as own
from carvegbm.data.rows import as_rows
from categorical_trees import choice
from kinds import LIMITS, TURNS, make_kind
from plain_trees import ensemble, leaf, refused, split, stump

NORMS = (0, 1, 2, 3, math.inf)
TASKS = ("binary", "multiclass", "regression")


class Stubborn(sparse.csr_matrix):
    """A matrix that cannot be made dense as a whole."""

    def toarray(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("made dense")

    todense = __array__ = toarray


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of two or three rows."""
    monkeypatch.setattr(own, "NUMBERS_AT_ONCE", 20)


def random_model(rng: np.random.Generator, task: str, n_features: int = 30) -> cg.Ensemble:
    """A few trees over a few of many features."""
    outputs = 3 if task == "multiclass" else 1
    tested = rng.choice(n_features, 6, replace=False)
    precision = str(rng.choice(["float64", "float32"]))

    def tree(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.15:
            scores = (rng.integers(-8, 9, outputs) / 4).tolist()
            return leaf(scores if outputs > 1 else scores[0])
        rule = {"missing": str(rng.choice(["left", "right"]))}
        cut = float(rng.integers(-8, 9)) / 8
        return split(int(rng.choice(tested)), cut, tree(depth - 1), tree(depth - 1), **rule)

    return ensemble(
        *(tree(3) for _ in range(rng.integers(1, 5))),
        n_features=n_features,
        task=task,
        base_score=[0.0] * outputs,
        input_precision=precision,
        link="logistic" if task == "binary" else "identity",
        absent=str(rng.choice(["zero", "missing"])),
    )


def random_rows(rng: np.random.Generator, model: cg.Ensemble, count: int = 12) -> Any:
    """The rows as CSR, with explicit zeros and NaN, and as the array that the model sees."""
    stored = rng.random((count, model.n_features)) < 0.3
    values = rng.integers(-10, 11, stored.shape) / 8
    values[rng.random(stored.shape) < 0.05] = math.nan
    absent = 0.0 if model.absent == "zero" else math.nan
    ends = np.concatenate([[0], stored.sum(axis=1).cumsum()])
    csr = Stubborn((values[stored], np.nonzero(stored)[1], ends), shape=stored.shape)
    return csr, np.where(stored, values, absent)


def random_attacker(rng: np.random.Generator, norm: float, n_features: int) -> cg.Attacker:
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["scale"] = rng.choice([0.5, 1.0, 2.0], n_features)
    if rng.random() < 0.5:
        options["features"] = np.flatnonzero(rng.random(n_features) < 0.7)
    if rng.random() < 0.5:
        options["bounds"] = (-2 * np.ones(n_features), 1.5)
    budget = float(rng.integers(0, 4)) if norm == 0 else float(rng.integers(0, 6)) / 8
    return cg.Attacker(norm, budget, **options)


def assert_same(one: cg.Result, other: cg.Result) -> None:
    for name, column in one.columns().items():
        if name != "seconds":
            np.testing.assert_array_equal(column, other.columns()[name], err_msg=name)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.usefixtures("small_blocks")
def test_every_question_has_the_answer_of_the_dense_matrix(norm, task):
    for seed in range(12):
        rng = np.random.default_rng([seed, int(min(norm, 9)), TASKS.index(task)])
        model = random_model(rng, task)
        csr, X = random_rows(rng, model)
        attacker = random_attacker(rng, norm, model.n_features)
        np.testing.assert_array_equal(model.raw_score(csr), model.raw_score(X))
        if task != "multiclass":
            assert_same(cg.output_range(model, X, attacker), cg.output_range(model, csr, attacker))
            questions = (cg.stability, {"c": 0.5}), (cg.high_confidence, {"q": 0.6})
            for question, level in questions[: 1 + (task == "binary")]:
                expected = question(model, X, attacker, **level)
                assert question(model, csr, attacker, **level).tolist() == expected.tolist()
        if task == "regression":
            continue
        assert model.decide(csr).tolist() == model.decide(X).tolist()
        y = None if seed % 2 else rng.integers(0, len(model.classes), len(X))
        assert_same(cg.verify(model, X, y, attacker), cg.verify(model, csr, y, attacker))
        searching = cg.Attacker(norm, scale=attacker.scale, bounds=attacker.bounds)
        assert_same(*(cg.radius(model, rows, y, searching) for rows in (X, csr)))
        dense, found = cg.attack(model, X, y, attacker), cg.attack(model, csr, y, attacker)
        assert_same(dense, found)
        assert_witnesses_are_those_of(dense, found, csr, model)


def assert_witnesses_are_those_of(
    dense: cg.Attack, found: cg.Attack, csr: Any, model: cg.Ensemble
) -> None:
    """The same points; what is stored stays stored, and rows without a witness are empty."""
    assert found.witnesses.shape == csr.shape
    assert isinstance(found.witnesses, sparse.csr_matrix)
    absent = 0.0 if model.absent == "zero" else math.nan
    for row, success in enumerate(found.success.tolist()):
        z = found.witnesses[row]
        if not success:
            assert z.nnz == 0
            continue
        point = np.full(csr.shape[1], absent)
        point[z.indices] = z.data
        np.testing.assert_array_equal(point, dense.witnesses[row])
        assert set(csr[row].indices) <= set(z.indices)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("norm", NORMS)
def test_every_kind_of_limit_is_heeded_as_in_the_dense_matrix(norm, limit, monkeypatch):
    """Half of the cases are on a boundary."""
    monkeypatch.setattr(own, "NUMBERS_AT_ONCE", 1)
    for seed in range(6):
        case = make_kind(seed, norm, limit, *TURNS[seed % len(TURNS)])
        model, attacker = case.ensemble, attacker_of(case)
        X = np.array([case.x], dtype=np.float64)
        csr = Stubborn(X)
        if model.task == "regression":
            assert_same(cg.output_range(model, X, attacker), cg.output_range(model, csr, attacker))
            continue
        y = [model.classes[case.label]]
        dense, found = cg.attack(model, X, y, attacker), cg.attack(model, csr, y, attacker)
        assert_same(dense, found)
        assert_witnesses_are_those_of(dense, found, csr, model)
        assert_same(cg.verify(model, X, y, attacker), cg.verify(model, csr, y, attacker))


# ── limits, in features that are tested and in others ────────────────────────────────────────

GROUPED = ensemble(
    stump(2, 0.5),
    stump(5, 0.5, -2.0, 2.0),
    choice(7, [0, 2], leaf(-0.5), leaf(0.5), missing="left"),
    n_features=12,
    categories={7: {0: 4.0, 1: 5.0, 2: 6.0}, 8: {0: 0, 3: 1}},
    unknown_category="missing",
)
"""Feature 2 alone is tested of the group 1, 2, 3; feature 8 is categorical, and never tested."""


def grouped_rows(rng: np.random.Generator) -> np.ndarray:
    X = np.zeros((10, 12))
    X[np.arange(10), rng.integers(1, 4, 10)] = 1
    X[:, 5] = rng.integers(0, 5, 10) / 4
    X[:, 7] = rng.choice([4.0, 5.0, 6.0, 9.0, math.nan], 10)
    X[:, 11] = rng.integers(0, 3, 10)
    return X


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.usefixtures("small_blocks")
def test_limits_together_are_heeded_as_in_the_dense_matrix(norm):
    for seed in range(6):
        rng = np.random.default_rng([seed, int(min(norm, 9))])
        X = grouped_rows(rng)
        centre = np.nan_to_num(X)
        lower = centre - rng.integers(0, 3, X.shape) / 2
        upper = centre + rng.integers(0, 3, X.shape) / 2
        lower[:, 1:4], upper[:, 1:4] = 0, rng.random((10, 3)) < 0.7
        upper[:, 1:4] = np.maximum(upper[:, 1:4], X[:, 1:4])
        attacker = cg.Attacker(
            norm,
            float(rng.integers(0, 3)),
            scale={5: (0.5, 2.0), 7: 2.0, 11: (0, 1)},
            features=[1, 2, 3, 5, 7, 8, 10, 11],
            bounds=(lower, upper) if seed % 2 else None,
            step={5: "1/4", 11: 1},
            categories={7: [4.0, 6.0]},
            one_hot=[[3, 1, 2]],
        )
        csr = Stubborn(X)
        dense, found = (cg.attack(GROUPED, rows, None, attacker) for rows in (X, csr))
        assert_same(dense, found)
        assert_witnesses_are_those_of(dense, found, csr, GROUPED)
        options = {name: getattr(attacker, name) for name in ("step", "one_hot", "bounds")}
        searching = cg.Attacker(norm, **options)
        radii = (cg.radius(GROUPED, rows, attacker=searching) for rows in (X, csr))
        assert_same(*radii)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((7, 11), 1.5, ["X row 7, feature 11: value 1.5", "no multiple", "step 1"]),
        ((7, 5), 0.3, ["X row 7, feature 5: value 0.3", "step 1/4"]),
        ((7, 1), 1.0, ["X row 7", "feature 3, feature 1, feature 2", "exactly one", "1, 1, 0"]),
        ((7, 3), 0.5, ["X row 7", "one-hot group", "0.5, 0, 0"]),
        ((7, 10), 3.0, ["X row 7, feature 10: value 3.0", "[0.0, 2.0]"]),
    ],
    ids=str,
)
@pytest.mark.usefixtures("small_blocks")
def test_instance_that_the_attacker_cannot_meet_is_refused_by_row(place, value, words):
    X = np.zeros((9, 12))
    X[:, 3] = 1
    bounds, step = {10: (0, 2)}, {5: "1/4", 11: 1}
    attacker = cg.Attacker(1, 1, step=step, bounds=bounds, one_hot=[[3, 1, 2]])
    cg.verify(GROUPED, Stubborn(X), None, attacker)
    X[place] = value
    for rows in (X, Stubborn(X)):
        with refused(*words, kind=cg.DataError):
            cg.verify(GROUPED, rows, None, attacker)


@pytest.mark.parametrize("place", [(1, 0), (2, 3)])
def test_bounds_by_row_hold_for_what_is_left_out(place):
    X = np.zeros((4, 5))
    lower, upper = np.full(X.shape, -1.0), np.ones(X.shape)
    lower[place] = 0.5
    attacker = cg.Attacker("inf", 0.1, bounds=(lower, upper))
    row, column = place
    words = f"X row {row}, feature {column}: value 0.0", "[0.5, 1.0]"
    for rows in (X, Stubborn(X)):
        with refused(*words, kind=cg.DataError):
            cg.verify(MODEL, rows, None, attacker)
    with refused("bounds have 4 rows, X has 3", kind=cg.DataError):
        cg.verify(MODEL, Stubborn(X[:3]), None, attacker)


def test_curve_is_that_of_the_dense_matrix():
    rng = np.random.default_rng(3)
    model = random_model(rng, "binary")
    csr, X = random_rows(rng, model, 40)
    one = cg.robustness_curve(model, X, attacker=cg.Attacker(1), budgets=[0.1, 0.5])
    assert_same(one, cg.robustness_curve(model, csr, attacker=cg.Attacker(1), budgets=[0.1, 0.5]))


@pytest.mark.parametrize("engine", ["large-spread", "search"])
def test_every_engine_takes_sparse_rows(engine):
    model = ensemble(stump(4, 0.5), stump(7, 0.25), n_features=9)
    X = np.zeros((4, 9))
    X[:, 4], X[1:, 7] = [0, 0.45, 0.9, 2], 0.3
    attacker = cg.Attacker("inf", 0.1)
    found = cg.verify(model, sparse.csr_array(X), None, attacker, engine=engine)
    assert found.status.tolist() == cg.verify(model, X, None, attacker).status.tolist()
    assert set(found.engine) == {engine}


def test_progress_counts_the_rows_of_all_blocks(monkeypatch):
    monkeypatch.setattr(own, "NUMBERS_AT_ONCE", 3)
    told: list[int] = []
    model = ensemble(stump(4, 0.5), n_features=9)
    attacker = cg.Attacker("inf", 0.1)
    cg.verify(model, sparse.eye(9, format="csr"), None, attacker, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 9


def test_condition_is_that_of_the_models_own_features():
    model = ensemble(stump(4, 0.5), stump(7, 0.5), stump(7, 0.6), n_features=9)
    X, attacker = sparse.eye(9, format="csr"), cg.Attacker("inf", 0.1)
    with pytest.raises(cg.NotLargeSpreadError, match="feature 7") as caught:
        cg.verify(model, X, None, attacker, engine="large-spread")
    assert caught.value.feature == 7


@pytest.mark.parametrize("trees", [[], [leaf(1.0)]])
def test_ensemble_without_splits_is_asked_like_any_other(trees):
    model = ensemble(*trees, n_features=5)
    found = cg.attack(model, sparse.eye(5, format="csr"), None, cg.Attacker(0, 2))
    assert found.status.tolist() == ["robust"] * 5
    assert found.witnesses.shape == (5, 5)
    assert found.witnesses.nnz == 0


# ── formats and numbers ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("make", ["matrix", "array"])
def test_every_format_becomes_csr(kind, make):
    X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]])
    given = getattr(sparse, f"{kind}_{make}")(X)
    found = as_rows(given, sparse=True)
    assert found.format == "csr"
    np.testing.assert_array_equal(found.toarray(), X)
    np.testing.assert_array_equal(as_rows(given), X)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_csr_of_floats_is_not_copied(kind):
    given = sparse.csr_matrix(np.eye(3, dtype=kind))
    assert as_rows(given, sparse=True) is given
    assert as_rows(given).dtype == kind


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int64])
def test_numbers_of_other_kinds_are_doubles(kind):
    found = as_rows(sparse.csr_matrix(np.eye(3, dtype=kind)), sparse=True)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray(), np.eye(3))


def test_entries_given_twice_are_added_up_and_what_was_given_stays():
    data, indices, ends = np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3])
    given = sparse.csr_matrix((data, indices, ends), shape=(1, 3))
    assert as_rows(given, sparse=True).toarray().tolist() == [[2, 0, 5]]
    assert given.data.tolist() == [1, 2, 4]
    assert given.indices.tolist() == [2, 0, 2]


def test_room_that_belongs_to_no_row_is_not_looked_at():
    given = sparse.csr_matrix(np.eye(3))
    given.data, given.indices = np.append(given.data, np.inf), np.append(given.indices, 99)
    assert as_rows(given, sparse=True).toarray().tolist() == np.eye(3).tolist()
    assert len(given.data) == 4


MODEL = ensemble(stump(1, 0.5), stump(3, 0.5, missing="left"), n_features=5)
NARROW = ensemble(stump(1, 0.5, missing="left"), n_features=5, input_precision="float32")
MISSING = ensemble(stump(1, 0.5), stump(3, 0.5, missing="left"), n_features=5, absent="missing")


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e39, 7.0])
@pytest.mark.parametrize("column", range(5))
@pytest.mark.parametrize("model", [MODEL, NARROW], ids=["float64", "float32"])
def test_bad_value_is_refused_as_in_the_dense_matrix(model, column, value):
    X = np.zeros((3, 5))
    X[2, column], X[1, 4] = value, 9.0
    attacker = cg.Attacker("inf", 0.1, bounds={column: (-1, 1), 4: (-10, 10)})
    told = []
    for rows in (X, Stubborn(X)):
        try:
            told.append(cg.verify(model, rows, None, attacker).status.tolist())
        except cg.DataError as error:
            told.append(str(error))
    assert told[0] == told[1]


def test_zero_that_is_left_out_lies_outside_bounds_too():
    X = sparse.csr_matrix(np.array([[0.5, 1.0, 0.5], [0.5, 0.0, 0.5]]))
    model = ensemble(stump(0, 0.5), n_features=3)
    with refused("X row 1, feature 1: value 0.0", "[0.5, 2.0]", kind=cg.DataError):
        cg.verify(model, X, None, cg.Attacker("inf", 0.1, bounds={1: (0.5, 2)}))


def test_missing_entry_needs_a_rule():
    X = sparse.csr_matrix(np.array([[0, 1.0, 0, 0, 0], [0, 0, 0, 1.0, 0]]))
    with refused("X row 1, feature 1: value nan", "impute it", kind=cg.DataError):
        MISSING.raw_score(X)
    assert MISSING.raw_score(X[:1]).tolist() == [0]


def damaged(**parts: Any) -> Any:
    matrix = sparse.csr_matrix(np.eye(5))
    for name, values in parts.items():
        setattr(matrix, name, np.array(values, dtype=np.int32))
    return matrix


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (damaged(indices=[0, 1, 2, 3, 5]), ["damaged", "a column is not in 0…4"]),
        (damaged(indices=[0, 1, 2, 3, -1]), ["damaged", "a column is not in 0…4"]),
        (damaged(indptr=[0, 2, 1, 3, 4, 5]), ["damaged", "rows do not follow"]),
        (damaged(indptr=[0, 1, 2, 3, 4, 9]), ["damaged", "rows do not follow"]),
        (sparse.eye(3, 4, format="csr"), ["X has 4 columns, the model has 5 features"]),
        (sparse.csr_matrix((0, 5)), ["X has no rows"]),
        (sparse.csr_matrix(np.eye(5) * 1j), ["X must be numbers", "complex"]),
        (sparse.csr_matrix(np.eye(5, dtype=np.int64) * (2**53 + 1)), ["9007199254740993"]),
        pytest.param(
            sparse.coo_array(np.ones(5)),
            ["two dimensions", "got 1"],
            marks=pytest.mark.skipif(
                sparse.coo_array(np.ones(5)).ndim == 2, reason="none in SciPy"
            ),
        ),
    ],
    ids=range(9),
)
def test_matrix_that_cannot_be_read_is_refused(X, words):
    with refused(*words, kind=cg.DataError):
        cg.verify(MODEL, X, None, cg.Attacker("inf", 0.1))


# ── size ─────────────────────────────────────────────────────────────────────────────────────

LARGE = """
import resource
import numpy as np
from scipy import sparse
import carvegbm as cg

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

rng = np.random.default_rng(0)
n, d, each = 20_000, 1_000_000, 50
indices = np.sort(rng.integers(0, d, (n, each)), axis=1).astype(np.int32)
indices[:, :5] = np.arange(0, 50, 10)  # some that are tested
X = sparse.csr_matrix((rng.random(n * each), indices.ravel(), np.arange(n + 1) * each), (n, d))
tested = np.concatenate([np.arange(0, 50, 10), rng.integers(0, d, 995)])
trees = [
    {"feature": int(f), "threshold": 0.5, "left": {"score": -1.0}, "right": {"score": 1.0}}
    for f in tested
]
model = cg.Ensemble.from_trees(trees, n_features=d, base_score=993.5)
cg.verify(model, X[:10], None, cg.Attacker("inf", 0.01), threads=2)
before = peak()
found = cg.verify(model, X, None, cg.Attacker("inf", 0.01), threads=2)
assert set(found.status) == {"robust", "fragile"}, set(found.status)
print(peak() - before)
"""


@pytest.mark.slow
def test_a_million_columns_need_the_memory_of_those_that_are_tested():
    """Dense: 160 GB; the thousand columns that are tested: 160 MB, a block of them less."""
    run = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 400


def test_bounds_by_row_do_no_harm_where_no_split_tests_a_feature():
    model = cg.Ensemble.from_trees([{"score": 1.0}], n_features=3)
    X = sparse.csr_matrix(np.array([[1.0, 0.0, 2.0]]))
    attacker = cg.Attacker(1, 1, bounds=(X.toarray() - 1, X.toarray() + 1))
    assert cg.verify(model, X, [1], attacker).status.tolist() == ["robust"]
