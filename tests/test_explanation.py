"""Explanations: every statement about one instance, recomputed in exact rationals."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import carvegbm as cg
import oracle
from answers import check_margin
from asking import attacker_of, without_budget
from carvegbm.explanation.text import blocks_of, number_pair
from categorical_trees import choice
from generators import NORMS, make_case
from kinds import LIMITS, make_kind
from plain_trees import ensemble, hard, leaf, refused, split, stump
from random_trees import LARGEST_BUDGET, SMALLEST_BUDGET

TIMEOUT = 30.0
NO_TIME = 1e-9

# ── against the slow truth ───────────────────────────────────────────────────────────────────


def with_features_of(row, other, features):
    """The row, with some features as in the other."""
    return [other[f] if f in features else value for f, value in enumerate(row)]


def decides_for(case, row):
    return oracle.decide(case.ensemble, oracle.raw_score(case.ensemble, row))


def ways(model, row):
    """Per tree: the splits on the way and the side that was taken, and the scores of the leaf."""
    looked_at = [oracle.seen(model, feature, value) for feature, value in enumerate(row)]
    found = []
    for tree in model.to_trees():
        way = []
        while "score" not in tree:
            value = looked_at[tree["feature"]]
            if math.isnan(value):
                side = tree["missing"]
            else:
                side = "left" if oracle.goes_left(tree, value) else "right"
            way.append((tree["feature"], tree.get("threshold"), side))
            tree = tree[side]
        scores = tree["score"] if isinstance(tree["score"], list) else [tree["score"]]
        found.append((way, scores))
    return found


def check_explanation(case):
    """All that an explanation says; what kind it is."""
    model, x, label = case.ensemble, case.x, case.label
    names = model.classes.tolist()
    options = without_budget(case)
    found = cg.explain(model, [x], [names[label]], timeout=TIMEOUT, threads=1, **options)
    raw = oracle.raw_score(model, x)
    assert found.answer == names[oracle.decide(model, raw)]
    assert found.right == (found.answer == names[label])
    check_margin(found.margin, oracle.margin(model, raw, label))
    assert found.scores == tuple(map(float, raw))
    np.testing.assert_array_equal(found.instance, x)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["row"] == 0
    assert str(found).startswith("row 0\n")
    radius = oracle.radius(model, x, label, case.attacker)
    if radius == 0 or radius > LARGEST_BUDGET:
        assert found.witness is None
        assert found.radius == (0 if radius == 0 else math.inf)
        return "wrong" if radius == 0 else "none"
    assert found.lower <= radius <= found.upper
    assert found.is_exact or radius < SMALLEST_BUDGET
    if radius >= SMALLEST_BUDGET:  # a witness is asked for with no less
        assert found.distance == radius
    check_witness(case, found)
    check_trees(case, found)
    return "witness"


def check_witness(case, found):
    """Within reach, a flip, and no change can be taken back."""
    model, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    z = found.witness.tolist()
    assert oracle.allowed(model, x, z, attacker._replace(budget=found.distance))
    assert decides_for(case, z) != label
    assert found.witness_answer == model.classes.tolist()[decides_for(case, z)]
    check_margin(found.witness_margin, oracle.margin(model, oracle.raw_score(model, z), label))
    if not found.borderline:
        assert model.decide([z])[0] != model.classes[label]
    changed = [f for f, (a, b) in enumerate(zip(x, z, strict=True)) if a != b and a == a]
    assert sorted(f for change in found.changes for f in change.features) == changed
    for change in found.changes:
        without = with_features_of(z, x, change.features)
        assert decides_for(case, without) == label, f"{change} is not needed"
        pairs = zip(ways(model, z), ways(model, without), strict=True)
        assert change.trees == sum(with_it[0] != without_it[0] for with_it, without_it in pairs)
        alone = with_features_of(x, z, change.features)
        assert change.alone == (decides_for(case, alone) != label)
        cost = oracle.distance(x, alone, attacker, model)
        assert change.distance == oracle.smallest_budget(cost, attacker.norm)
        check_change(model, change, x, z)


def check_change(model, change, x, z):
    """Before and after as people call them, and the thresholds between them."""
    feature = change.features[0]
    if change.kind == "one-hot":
        was, becomes = change.features
        assert (x[was], z[was], x[becomes], z[becomes]) == (1, 0, 0, 1)
        assert (change.before, change.after) == tuple(map(model.feature_name, change.features))
        return
    assert change.name == model.feature_name(feature)
    looked_at = [oracle.seen(model, feature, row[feature]) for row in (x, z)]
    if change.kind == "category":
        known = model.categories[feature]
        assert [change.before, change.after] == [known.get(int(code)) for code in looked_at]
        return
    assert (change.before, change.after) == (x[feature], z[feature])
    low, high = sorted(looked_at)
    every = {t for tree in model.to_trees() for t in oracle.thresholds(tree, feature)}
    crossed = sorted(t for t in every if low <= t < high)
    assert list(change.thresholds) == (crossed if looked_at[0] == low else crossed[::-1])


def check_trees(case, found):
    """Leaves and what they take, tree by tree; together exactly what the margin loses."""
    model, label = case.ensemble, case.label
    x, z = case.x, found.witness.tolist()
    before, after = (oracle.margin(model, oracle.raw_score(model, row), label) for row in (x, z))
    total = sum((tree.contribution for tree in found.trees), Fraction(0))
    assert before - after == total - found.lead
    assert found.lead >= 0
    outputs, signs = [0], [1 if label == 1 else -1]
    if model.task == "multiclass":
        names = model.classes.tolist()
        outputs, signs = [label, names.index(found.rival)], [1, -1]
    else:
        assert found.lead == 0
    told = {tree.tree: tree for tree in found.trees}
    for number, (here, there) in enumerate(zip(ways(model, x), ways(model, z), strict=True)):
        assert (number in told) == (here[0] != there[0])
        if number not in told:
            continue
        tree = told[number]
        assert list(tree.before) == [here[1][output] for output in outputs]
        assert list(tree.after) == [there[1][output] for output in outputs]
        lost = sum(
            sign * (Fraction(b) - Fraction(a))
            for sign, b, a in zip(signs, tree.before, tree.after, strict=True)
        )
        assert tree.contribution == lost / model.average
        check_crossed(model, tree, there[0], x)
    assert len(found.trees) + found.unchanged_trees == model.n_trees
    contributions = [tree.contribution for tree in found.trees]
    assert contributions == sorted(contributions, reverse=True)


def check_crossed(model, tree, way, x):
    """The splits of the way that send x to the other side, from the root on."""
    other_side = []
    node = model.to_trees()[tree.tree]
    for feature, threshold, side in way:
        value = oracle.seen(model, feature, x[feature])
        if not math.isnan(value) and oracle.goes_left(node, value) != (side == "left"):
            other_side.append((model.feature_name(feature), threshold, side))
        node = node[side]
    assert [(s.feature, s.threshold, s.side) for s in tree.crossed] == other_side
    assert other_side


def agrees(make, *arguments):
    try:
        return check_explanation(make(*arguments))
    except Exception as error:
        raise AssertionError(f"check_explanation({make.__name__}{arguments}): {error}") from error


@pytest.mark.parametrize("norm", NORMS)
def test_every_statement_agrees_with_the_oracle(norm):
    said = [
        agrees(make_case, seed, norm, kind, task)
        for seed in range(6)
        for kind in ("random", "edge", "any", "any edge", "knapsack")
        for task in ("binary", "multiclass")
    ]
    assert set(said) == {"witness", "wrong", "none"}
    assert said.count("witness") > 20


@pytest.mark.parametrize("limit", LIMITS)
def test_every_statement_agrees_with_the_oracle_whatever_the_limits(limit):
    said = [
        agrees(make_kind, seed, norm, limit, situation, task)
        for seed, norm in enumerate(NORMS)
        for situation in ("any", "any edge")
        for task in ("binary", "multiclass")
    ]
    assert said.count("witness") > 4


@given(
    seed=st.integers(0, 2**31),
    norm=st.sampled_from(NORMS),
    limit=st.sampled_from(LIMITS),
    task=st.sampled_from(["binary", "multiclass"]),
)
def test_any_seed_agrees_with_the_oracle(seed, norm, limit, task):
    agrees(make_kind, seed, norm, limit, "any", task)


@pytest.mark.parametrize("norm", NORMS)
def test_the_status_is_that_of_verify(norm):
    seen = set()
    for seed in range(40):
        case = make_case(seed, norm, "any edge")
        y = [case.ensemble.classes[case.label]]
        found = cg.explain(case.ensemble, [case.x], y, attacker_of(case), threads=1)
        assert found.status == oracle.status(case.ensemble, case.x, case.label, case.attacker)
        assert found.attacker == attacker_of(case)
        seen.add(found.status)
    assert seen >= {"robust", "fragile", "vulnerable"}


# ── against the libraries ────────────────────────────────────────────────────────────────────


def fitted(name, X, y):
    """A model of a library."""
    if name == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMClassifier(n_estimators=12, num_leaves=7, n_jobs=1, verbose=-1)
    elif name == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1)
    else:
        module = pytest.importorskip("sklearn.ensemble")
        model = getattr(module, name)(max_depth=3, random_state=0)
        if hasattr(model, "n_estimators"):
            model.set_params(n_estimators=12)
    return model.fit(X, y)


LIBRARIES = [
    "lightgbm",
    "xgboost",
    "RandomForestClassifier",
    "GradientBoostingClassifier",
    "HistGradientBoostingClassifier",
]


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("data", ["breast_cancer", "iris"])
def test_the_witness_flips_the_library_and_no_change_of_it_can_go(name, data):
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    model = fitted(name, X[::2], y[::2])
    own = cg.load(model)
    sure = 0
    for row in range(1, len(X), len(X) // 8):
        for norm in (1, "inf"):
            found = cg.explain(own, X, y, row=row, norm=norm, threads=1)
            assert found.answer == model.predict(X[row : row + 1])[0]
            if found.witness is None or found.borderline:
                continue
            sure += 1
            assert found.distance == found.radius
            assert model.predict(found.witness[None])[0] == found.witness_answer != y[row]
            for change in found.changes:
                back = found.witness.copy()
                back[list(change.features)] = X[row][list(change.features)]
                assert own.decide([back])[0] == y[row]
    assert sure > 6


# ── what can happen to an instance ───────────────────────────────────────────────────────────

# Of the two features both must move, or the second one far.
BOTH = ensemble(
    stump(0, 0.5, 0.0, 2.0),
    stump(1, 0.25, 0.0, 2.0),
    stump(1, -9.0, 0.0, 3.0),
    n_features=2,
    base_score=-4.5,
    feature_names=["a", "b"],
    classes=["ham", "spam"],
)


def test_an_instance_that_is_wrong_already_says_so():
    found = cg.explain(BOTH, [1.0, 1.0], "ham", norm="inf")
    assert (found.radius, found.lower, found.upper, found.right) == (0, 0, 0, False)
    assert found.witness is None
    assert found.changes == found.trees == ()
    assert "answer  spam: wrong" in str(found)
    against = cg.explain(BOTH, [1.0, 1.0], "ham", cg.Attacker("inf", 20))
    assert against.status == "broken"
    assert "broken: wrong, and can be flipped" in str(against)


def test_an_instance_that_no_budget_flips_says_so():
    found = cg.explain(ensemble(leaf(1.0), n_features=3), [0, 0, 0], 1, norm=2)
    assert found.radius == found.lower == math.inf
    assert found.witness is None
    assert found.to_dict()["radius"] is None
    assert "no budget flips" in str(found)
    closed = cg.explain(BOTH, [1.0, 1.0], norm=1, features=[])
    assert closed.radius == math.inf


def test_without_a_label_the_own_answer_is_right():
    found = cg.explain(BOTH, [1.0, 1.0], norm=0)
    assert (found.label, found.answer, found.is_own, found.right) == ("spam", "spam", True, True)
    assert "none was given" in str(found)
    assert "none was given" not in str(cg.explain(BOTH, [1.0, 1.0], "spam", norm=0))


def test_where_time_runs_out_the_bounds_are_told_and_no_more():
    case = hard(16, norm=0)
    y = case.ensemble.decide([case.x])
    options = {"norm": 0, "bounds": (0, 1), "engine": "search"}
    found = cg.explain(case.ensemble, case.x, y[0], timeout=NO_TIME, **options)
    assert math.isnan(found.radius)
    assert not found.is_exact
    assert found.lower <= case.fewest <= found.upper
    assert found.to_dict()["radius"] is None
    assert "time ran out" in str(found)
    if found.witness is not None:
        assert case.ensemble.decide([found.witness])[0] != y[0]
        assert "nearest" not in str(found)


@given(lower=st.floats(0, 1e99), upper=st.floats(0, 1e99))
def test_bounds_are_rounded_outward(lower, upper):
    lower, upper = sorted([lower, upper])
    model = ensemble(stump(0, 0.5))
    told = replace(cg.explain(model, [0.0], norm=1), radius=math.nan, lower=lower, upper=upper)
    ends = re.search(r"radius  between (\S+) and (\S+), norm 1: time ran out", str(told))
    assert float(ends.group(1)) <= lower <= upper <= float(ends.group(2))


def test_a_status_that_is_not_decided_in_time_is_unknown():
    case = hard(16)
    y = case.ensemble.decide([case.x])
    found = cg.explain(case.ensemble, case.x, y[0], case.attacker, engine="search", timeout=NO_TIME)
    assert found.status == "unknown"
    assert "unknown: not decided" in str(found)


def test_a_tie_is_told():
    model = ensemble(stump(0, 0.5, -1.0, 0.0), tie="negative", base_score=0.0)
    flat = ensemble(stump(0, 0.5, 0.0, -1.0), tie="positive", base_score=0.0)
    assert cg.explain(model, [0.0], norm=1).radius == math.inf
    found = cg.explain(flat, [1.0], norm=1)
    assert (found.answer, found.witness_answer, found.witness_margin) == (0, 1, 0.0)
    assert "at a tie, which 1 wins" in str(found)
    assert found.borderline
    assert "borderline" in str(found)


def test_what_would_be_enough_alone_is_told():
    # Greedily neither of the two can be taken back, but the first alone is a flip, too.
    trap = split(0, 0.5, leaf(1.0), split(1, 0.5, leaf(-1.0), leaf(-1.0)))
    found = cg.explain(ensemble(trap, n_features=2), [0.0, 0.0], norm=1)
    assert [(change.name, change.alone) for change in found.changes] == [("feature 0", True)]
    assert "enough alone, without the others: feature 0" in str(found)
    pair = ensemble(stump(0, 0.5, 0.0, 2.0), stump(1, 0.5, 0.0, 2.0), n_features=2, base_score=-1)
    found = cg.explain(pair, [1.0, 1.0], norm="inf")
    assert [change.alone for change in found.changes] == [False, False]
    assert "enough alone, without the others: none" in str(found)


def test_categories_go_by_their_labels():
    tree = choice(0, [0, 2], leaf(-1.0), leaf(1.0))
    known = {0: {0: "red", 1: "green", 2: "blue"}}
    model = ensemble(tree, feature_names=["colour"], categories=known)
    found = cg.explain(model, [0.0], norm=0, categories={"colour": ["green"]})
    (change,) = found.changes
    assert (change.kind, change.before, change.after) == ("category", "red", "green")
    assert found.witness.tolist() == [1.0]
    (told,) = found.trees
    assert told.crossed[0].categories == ("red", "blue")
    assert "colour not in {red, blue}" in str(found)
    unknown = cg.explain(model, [7.0], norm=0, categories={"colour": ["red"]})
    assert unknown.changes[0].before is None
    assert "unknown category" in str(unknown)


def test_many_classes_tell_rivals_and_the_lead():
    # Before, 1 is the best rival of 0; the witness is for 2.
    model = ensemble(
        stump(0, 0.5, [5.0, 3.0, 1.0], [4.0, 0.0, 6.0]),
        leaf([0.5, 0.5, 0.0]),
        classes=["a", "b", "c"],
    )
    found = cg.explain(model, [0.0], "a", norm="inf")
    assert (found.answer, found.witness_answer) == ("a", "c")
    assert (found.first_rival, found.rival, found.lead) == ("b", "c", Fraction(5, 2))
    assert (found.margin, found.witness_margin) == (2.0, -1.5)
    (tree,) = found.trees
    assert (tree.before, tree.after, tree.contribution) == ((5.0, 1.0), (4.0, 6.0), 6)
    assert found.margin - found.witness_margin == tree.contribution - found.lead
    assert found.to_dict()["scores"] == {"a": 5.5, "b": 3.5, "c": 1.0}
    assert "b was ahead" in str(found)


def test_sparse_instances_give_the_same_explanation_as_dense_ones():
    for seed in range(12):
        case = make_case(seed, 1, "any")
        if np.isnan(case.x).any():
            continue
        label = [case.ensemble.classes[case.label]]
        options = without_budget(case)
        one = cg.explain(case.ensemble, [case.x], label, **options)
        other = cg.explain(case.ensemble, sparse.csr_matrix([case.x]), label, **options)
        assert (other.radius, other.margin) == (one.radius, one.margin)
        assert (other.changes, other.trees) == (one.changes, one.trees)
        if one.witness is not None:
            np.testing.assert_array_equal(other.witness.toarray()[0], one.witness)
        stored = other.to_dict()["instance"]
        assert stored == {str(f): v for f, v in enumerate(case.x) if v != 0}


# ── how it is asked ──────────────────────────────────────────────────────────────────────────

X = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, -10.0]])
Y = ["spam", "ham", "ham"]


def test_rows_are_counted_from_0_and_one_row_may_stand_alone():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, ::-1], columns=["b", "a"])
    for number in range(3):
        found = cg.explain(BOTH, X, Y, row=number, norm=1)
        assert found.row == number
        assert found.label == Y[number]
        same = [
            cg.explain(BOTH, X[number], Y[number], norm=1),
            cg.explain(BOTH, X[number].tolist(), Y[number], norm=1),
            cg.explain(BOTH, X[number : number + 1], Y[number : number + 1], norm=1),
            cg.explain(BOTH, frame, Y, row=np.int64(number), norm=1),
            cg.explain(BOTH, frame.iloc[number], Y[number], norm=1),
        ]
        for other in same:
            assert other.changes == found.changes
            assert other.instance.tolist() == X[number].tolist()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (3, ["row 3", "3 rows", "0 to 2"]),
        (-1, ["row -1"]),
        (None, ["3 rows", "row=…"]),
        (1.0, ["row must be a whole number", "1.0"]),
        ("1", ["row must be a whole number", "'1'"]),
        (True, ["row must be a whole number", "True"]),
    ],
)
def test_a_bad_row_is_refused(row, words):
    with refused(*words):
        cg.explain(BOTH, X, Y, row=row, norm=1)


def test_what_other_functions_refuse_is_refused():
    with refused("norm is missing"):
        cg.explain(BOTH, X, Y, row=0)
    with refused("norm is given", "drop one"):
        cg.explain(BOTH, X, Y, cg.Attacker(1, 2), row=0, norm=1)
    with refused("y is an Attacker"):
        cg.explain(BOTH, X, cg.Attacker(1, 2), row=0)
    with refused("y row 1: unknown label 'eggs'"):
        cg.explain(BOTH, X, ["spam", "eggs", "ham"], row=0, norm=1)
    with refused("X row 2", "infinity"):
        cg.explain(BOTH, [[1, 1], [0, 0], [1, math.inf]], Y, row=0, norm=1)
    with refused("regression", "output_range"):
        cg.explain(ensemble(leaf(1.0), task="regression"), [0.0], norm=1)


# ── the text ─────────────────────────────────────────────────────────────────────────────────


@given(
    one=st.floats(allow_nan=False, allow_infinity=False),
    other=st.floats(allow_nan=False, allow_infinity=False),
)
def test_before_and_after_never_look_the_same(one, other):
    texts = number_pair(one, other)
    assert one == other or texts[0] != texts[1]
    assert all(
        float(text) == pytest.approx(value, rel=1e-5)
        for text, value in zip(texts, (one, other), strict=True)
    )


def test_a_change_by_one_float_shows_in_the_text():
    model = ensemble(stump(0, 0.5))
    text = str(cg.explain(model, [0.5], norm=1))
    assert "0.5000000000000001" in text
    assert "> 0.5" in text
    assert "+1.11022e-16" in text


def test_names_cannot_steer_a_terminal():
    odd = ["<b>\x1b[31m", "\u202eevil\n\x9b2J"]
    both = stump(0, 0.5), stump(1, 0.5)
    names = {"feature_names": odd, "classes": ["\a", "\x1b]0;x"]}
    model = ensemble(*both, n_features=2, base_score=-1, **names)
    found = cg.explain(model, [0.0, 0.0], norm=1)
    text = str(found)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert r"<b>\u001b[31m" in text
    assert "<b>" not in found._repr_html_()
    assert r"\u202eevil\n\u009b2J" in text


def test_many_trees_are_shown_as_one_line_and_still_add_up():
    model = ensemble(*(stump(0, 0.5, -1.0 - i, 1.0) for i in range(30)))
    found = cg.explain(model, [1.0], norm=1)
    (_, _, trees) = blocks_of(found, trees=5)
    assert [row[0] for row in trees.rows] == [
        "tree",
        "29",
        "28",
        "27",
        "26",
        "25",
        "25 others",
        "all",
    ]
    shown = [float(row[3]) for row in trees.rows[1:]]
    assert sum(shown[:-1]) == shown[-1] == float(found.witness_margin - found.margin)


def test_a_value_just_above_a_threshold_does_not_look_like_the_threshold():
    stump = {"feature": 0, "threshold": 0.6875, "left": {"score": -1}, "right": {"score": 1}}
    model = cg.Ensemble.from_trees([stump], n_features=1)
    line = str(cg.explain(model, [0.125], norm=1)).splitlines()[8]
    assert line.split() == ["feature", "0", "0.125", "0.6875…", "+0.5625", ">", "0.6875"]
    assert "0.6875…" not in str(cg.explain(model, [0.75], norm=1))
    below = cg.Ensemble.from_trees([{**stump, "threshold": -0.3}], n_features=1)
    assert " -0.29999999999999993 " in str(cg.explain(below, [-0.5], norm=1))
