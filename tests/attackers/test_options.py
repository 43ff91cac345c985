"""Directions, steps, categories, one-hot groups, bounds per instance: every form, and none else."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from plain_trees import ensemble, refused, stump

NAMES = ["bytes", "count", "own", "rent", "service"]
PLAIN = ensemble(stump(0, 0.5), n_features=5, feature_names=NAMES)
SERVICES = {0: "ftp", 1: "http", 2: "smtp"}
GROUP = [["own", "rent"]]


def knowing(**categories: dict[int, Any]) -> cg.Ensemble:
    """The same features, some of them categorical: codes and their labels by name."""
    known = {NAMES.index(name): labels for name, labels in categories.items()}
    return ensemble(stump(0, 0.5), n_features=5, feature_names=NAMES, categories=known)


def limits(model: cg.Ensemble = PLAIN, **options: Any) -> Any:
    return cg.Attacker(1, 30, **options).limits(model)


# ── directions ───────────────────────────────────────────────────────────────────────────────


def test_a_pair_of_scales_is_down_and_up():
    found = limits(scale={"bytes": (0, 100), "count": (5, 1), "own": 3})
    assert found.scale.tolist() == [0, 5, 3, 1, 1]
    assert found.scale_up.tolist() == [100, 1, 3, 1, 1]
    assert len(found.changeable) == 0


@pytest.mark.parametrize("pair", [(2, 2), [2, 2], np.array([2.0, 2.0])], ids=repr)
def test_a_pair_of_equal_scales_is_one_scale(pair):
    found = limits(scale={"bytes": pair})
    assert found.scale.tolist() == [2, 1, 1, 1, 1]
    assert len(found.scale_up) == 0
    assert cg.Attacker(1, 1, scale={"bytes": pair}) == cg.Attacker(1, 1, scale={"bytes": 2})


def test_a_feature_with_both_directions_closed_cannot_be_changed():
    assert limits(scale={"bytes": (0, 0)}).changeable.tolist() == [0, 1, 1, 1, 1]
    both = limits(scale={"bytes": (0, 0)}, features=["bytes", "count"], step={"bytes": 1})
    assert both.changeable.tolist() == [0, 1, 0, 0, 0]
    assert both.step == {}


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ({"bytes": (0, -1)}, ["scale of bytes", "-1.0"]),
        ({"bytes": (math.inf, 1)}, ["scale of bytes", "inf"]),
        ({"bytes": (1, math.nan)}, ["scale", "NaN"]),
        ({"bytes": (1, 2, 3)}, ["scale of bytes", "pair (down, up)", "(1, 2, 3)"]),
        ({"bytes": ("1", 2)}, ["scale", "'1'"]),
        ({"bytes": 0}, ["scale of bytes", "> 0", "pair (down, up)"]),
        ((0, 100), ["scale of feature 0", "> 0", "pair (down, up)"]),
        ([(0, 1), (1, 1)], ["scale", "one per feature"]),
    ],
    ids=repr,
)
def test_other_pairs_of_scales_are_refused(scale, words):
    with refused(*words):
        cg.Attacker(1, 1, scale=scale)


# ── steps ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float64(0.25), Fraction(1, 4)),
        (np.int64(3), Fraction(3)),
        (np.array(2), Fraction(2)),
        (Fraction(1, 255), Fraction(1, 255)),
        (Decimal("0.3"), Fraction(3, 10)),
        ("1/255", Fraction(1, 255)),
        ("0.5", Fraction(1, 2)),
        (1e-7, Fraction(1, 10**7)),
        (2**31, Fraction(2**31)),
    ],
    ids=repr,
)
def test_a_step_is_the_fraction_its_user_wrote(step, found):
    assert cg.Attacker(1, 1, step=step).step == found
    assert cg.Attacker(1, 1, step={"count": step}).step == {"count": found}
    assert limits(step=step).step == dict.fromkeys(range(5), found)


def test_steps_are_for_all_features_per_feature_or_by_name():
    assert limits(step=[1, 2, 3, 4, "1/5"]).step[4] == Fraction(1, 5)
    assert limits(step=iter([1, 2, 3, 4, 5])).step[4] == 5
    assert limits(step=np.arange(1, 6)).step[1] == 2
    assert limits(step={"count": 2, 0: 0.5}).step == {1: 2, 0: Fraction(1, 2)}
    assert limits(step=pd.Series({"count": 2})).step == {1: 2}
    assert limits(step={}).step == {}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (0, ["step", "> 0", "0"]),
        (-1, ["step", "> 0", "-1"]),
        ({"count": "-1/2"}, ["step of count", "'-1/2'"]),
        ("1/0", ["step", "'1/0'"]),
        ("one", ["step", "'one'"]),
        (math.nan, ["step", "nan"]),
        (math.inf, ["step", "inf"]),
        (True, ["step", "True"]),
        (1j, ["step", "1j"]),
        (b"1", ["step", "b'1'"]),
        ({1, 2}, ["step"]),
        ([1, None], ["step of feature 1", "None"]),
        ([[1], [2]], ["step of feature 0", "[1]"]),
        (2**31 + 1, ["step", "2^31", "2147483649"]),
        ("1e1000000000", ["step", "2^31", "1e1000000000"]),
        (Decimal("1e-1000000000"), ["step", "2^31", "fewer digits"]),
        ("0e1000000000", ["step", "> 0"]),
        (0.123456789012, ["step", "2^31", "fewer digits"]),
        ({0.5: 1}, ["0.5"]),
    ],
    ids=repr,
)
def test_other_steps_are_refused(step, words):
    with refused(*words):
        cg.Attacker(1, 1, step=step)


def test_steps_that_do_not_fit_the_model_are_refused():
    with refused("step", "one per feature (5)", "1/3"):
        limits(step=[1, "1/3"])
    with refused("unknown feature 'size'"):
        limits(step={"size": 1})
    with refused("step names bytes twice"):
        limits(step={"bytes": 1, 0: 1})


def test_a_step_of_a_feature_that_cannot_be_changed_asks_nothing_of_it():
    assert limits(step={"bytes": 1, "count": 1}, features=["count"]).step == {1: 1}


# ── categories ───────────────────────────────────────────────────────────────────────────────


def test_all_known_categories_may_be_chosen_by_default():
    assert limits(knowing(service=SERVICES)).categories == {4: (0, 1, 2)}
    only = limits(knowing(service=SERVICES, count={3: 3, 7: 7}), features=["count"])
    assert only.categories == {1: (3, 7)}
    assert limits().categories == {}


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (["smtp", "http"], (1, 2)),
        (["smtp", "smtp", 2], (2,)),
        ({"ftp"}, (0,)),
        (np.array(["ftp", "smtp"]), (0, 2)),
        ([np.int64(1), 2.0], (1, 2)),
    ],
    ids=repr,
)
def test_categories_are_labels_or_codes(given, codes):
    for shape in (given, iter(given)):
        found = limits(knowing(service=SERVICES), categories={"service": shape})
        assert found.categories == {4: codes}


def test_a_number_is_the_text_that_spells_it_before_it_is_a_code():
    ports = knowing(service={0: "1", 1: "10", 2: "2", 3: "0.5"})
    assert limits(ports, categories={"service": [1, 2.0]}).categories == {4: (0, 2)}
    assert limits(ports, categories={"service": [0, 0.5]}).categories == {4: (0, 3)}
    with refused("categories of service: unknown category 7; the model knows '1', '10', '2'"):
        limits(ports, categories={"service": [7]})


def test_a_label_wins_over_a_code():
    crossed = knowing(service={0: 1, 1: 0, 5: 7})
    assert limits(crossed, categories={"service": [0]}).categories == {4: (1,)}
    assert limits(crossed, categories={"service": [5, 7]}).categories == {4: (5,)}


def test_a_feature_that_may_be_changed_to_nothing_stays():
    assert limits(knowing(service=SERVICES), categories={"service": []}).categories == {}


@pytest.mark.parametrize(
    ("categories", "words"),
    [
        ({"service": ["telnet"]}, ["categories of service", "'telnet'", "'ftp', 'http', 'smtp'"]),
        ({"service": [3]}, ["categories of service", "unknown category 3"]),
        ({"service": ["htp"]}, ["unknown category 'htp'", "did you mean 'http'?"]),
        ({"service": ["1"]}, ["categories of service", "'1'"]),
        ({"service": [True]}, ["categories of service", "True"]),
        ({"count": [1]}, ["categories of count", "no categorical split"]),
        ({"size": [1]}, ["unknown feature 'size'"]),
        ({"service": ["ftp"], 4: ["ftp"]}, ["categories names service twice"]),
    ],
    ids=repr,
)
def test_categories_that_the_model_does_not_know_are_refused(categories, words):
    with refused(*words):
        limits(knowing(service=SERVICES), categories=categories)


@pytest.mark.parametrize(
    ("categories", "words"),
    [
        (["http"], ["categories must be a mapping", "['http']"]),
        ("service", ["categories must be a mapping"]),
        ({"service": "http"}, ["categories of service", "list", "'http'"]),
        ({"service": 3}, ["categories of service", "list", "3"]),
        ({"service": {"http": 1}}, ["categories of service", "list"]),
        ({"service": [None]}, ["categories of service", "None"]),
        ({"service": [math.nan]}, ["categories of service", "nan"]),
        ({"service": [["http"]]}, ["categories of service", "['http']"]),
    ],
    ids=repr,
)
def test_other_categories_are_refused(categories, words):
    with refused(*words):
        cg.Attacker(1, 1, categories=categories)


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("one_hot", [GROUP, [(2, 3)], np.array([[2, 3]]), (["own", 3],)], ids=repr)
def test_a_group_is_a_list_of_names_or_positions(one_hot):
    for shape in (one_hot, map(iter, one_hot)):
        assert limits(one_hot=shape).one_hot == ((2, 3),)


def test_a_group_that_cannot_be_changed_asks_nothing_of_the_data():
    assert limits(one_hot=GROUP, features=["bytes"]).one_hot == ()
    assert limits(one_hot=GROUP, features=["own", "rent"]).one_hot == ((2, 3),)
    assert limits(one_hot=[]).one_hot == ()


@pytest.mark.parametrize(
    ("one_hot", "words"),
    [
        (["own", "rent"], ["list of groups", "['own', 'rent']"]),
        ("own", ["list of groups", "'own'"]),
        ({"own": "rent"}, ["list of groups"]),
        (3, ["list of groups", "3"]),
        ([["own"]], ["at least two", "['own']"]),
        ([[]], ["at least two", "[]"]),
        ([["own", "own"]], ["one_hot names own twice"]),
        ([["own", "rent"], ["rent", "bytes"]], ["one_hot names rent twice"]),
        ([["own", 0.5]], ["0.5"]),
    ],
    ids=repr,
)
def test_other_groups_are_refused(one_hot, words):
    with refused(*words):
        cg.Attacker(1, 1, one_hot=one_hot)


def test_a_feature_in_two_groups_is_found_by_name_and_position():
    with refused("one_hot names own twice"):
        limits(one_hot=[["own", "rent"], [2, 0]])
    with refused("unknown feature 'lease'"):
        limits(one_hot=[["own", "lease"]])


# ── contradictions ───────────────────────────────────────────────────────────────────────────

CONTRADICTIONS = [
    ({"step": {"service": 1}}, ["step of service", "categorical"]),
    ({"bounds": {"service": (0, 1)}}, ["bounds of service", "categorical", "categories"]),
    ({"scale": {"service": (0, 1)}}, ["scale of service", "categorical", "one number"]),
    ({"step": {"own": 1}, "one_hot": GROUP}, ["step of own", "one-hot group"]),
    ({"scale": {"rent": (1, 2)}, "one_hot": GROUP}, ["scale of rent", "one-hot", "one number"]),
    ({"one_hot": [["own", "service"]]}, ["one_hot: service is categorical"]),
    ({"features": ["own"], "one_hot": GROUP}, ["features lists own without rent", "or none"]),
    ({"features": ["rent"], "one_hot": GROUP}, ["features lists rent without own"]),
    ({"scale": {"own": 2}, "one_hot": GROUP}, ["scale of own and rent differ (2, 1)", "same"]),
    ({"scale": [1, 1, 1, 3, 1], "one_hot": GROUP}, ["scale of own and rent differ (1, 3)"]),
]


@pytest.mark.parametrize(("options", "words"), CONTRADICTIONS, ids=repr)
def test_contradictions_are_refused_by_name(options, words):
    with refused(*words):
        limits(knowing(service=SERVICES), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": {"own": 1}, "one_hot": GROUP}, ["step of own"]),
        ({"step": {2: 1}, "one_hot": [[2, 3]]}, ["step of feature 2"]),
        ({"scale": {"own": (1, 2)}, "one_hot": GROUP}, ["scale of own"]),
        ({"categories": {"own": [1]}, "one_hot": GROUP}, ["one_hot: own is categorical"]),
        ({"categories": {"own": [1]}, "step": {"own": 1}}, ["step of own: it is categorical"]),
        ({"categories": {"own": [1]}, "bounds": {"own": (0, 1)}}, ["bounds of own"]),
    ],
    ids=repr,
)
def test_contradictions_that_show_without_a_model_are_refused_at_once(options, words):
    with refused(*words):
        cg.Attacker(1, 1, **options)


def test_contradictions_are_found_however_features_are_named():
    for options in (
        {"step": {2: 1}, "one_hot": GROUP},
        {"scale": {2: (1, 2)}, "one_hot": GROUP},
        {"features": [2], "one_hot": GROUP},
    ):
        attacker = cg.Attacker(1, 1, **options)
        with refused("own"):
            attacker.limits(PLAIN)


def test_options_for_all_features_leave_finite_ones_alone():
    model = knowing(service=SERVICES)
    found = limits(model, step=1, bounds=(0, 9), one_hot=GROUP)
    assert found.step == {0: 1, 1: 1}
    assert found.lower.tolist() == [0, 0, 0, 0, -math.inf]
    assert found.upper.tolist() == [9, 9, 9, 9, math.inf]
    by_row = limits(model, bounds=(np.zeros((2, 5)), 9))
    assert by_row.lower[:, 4].tolist() == [-math.inf] * 2
    assert by_row.upper[:, 4].tolist() == [math.inf] * 2


def test_bounds_can_keep_a_group_out_of_a_state():
    found = limits(one_hot=GROUP, bounds={"own": (0, 0)})
    assert (found.lower[2], found.upper[2]) == (0, 0)


# ── Series and frames ────────────────────────────────────────────────────────────────────────

FRAME = pd.DataFrame({"count": [1.0, 5.0, 3.0], "bytes": [10.0, 20.0, 90.0]}, index=[7, 8, 9])


def test_statistics_of_a_frame_are_scales_and_bounds_by_name():
    std = limits(scale=FRAME.std()).scale
    assert std.tolist() == [FRAME["bytes"].std(), FRAME["count"].std(), 1, 1, 1]
    found = limits(bounds=(FRAME.min(), FRAME.max()))
    assert found.lower.tolist() == [10, 1, -math.inf, -math.inf, -math.inf]
    assert found.upper.tolist() == [90, 5, math.inf, math.inf, math.inf]
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(FRAME.to_dict("list"))
    assert limits(scale=frame.std()).scale.tolist() == pytest.approx(std.tolist(), rel=1e-15)
    assert limits(bounds=(frame.min(), frame.max())).upper.tolist() == found.upper.tolist()


def test_a_series_without_names_is_the_list_of_its_values():
    numbers = [1.0, 2.0, 3.0, 4.0, 5.0]
    series = pd.Series(numbers)
    assert cg.Attacker(1, 1, scale=series) == cg.Attacker(1, 1, scale=numbers)
    assert cg.Attacker(1, 1, bounds=(series, 9)) == cg.Attacker(1, 1, bounds=(numbers, 9))
    assert cg.Attacker(1, 1, bounds=(0, series)) == cg.Attacker(1, 1, bounds=(0, numbers))
    with refused("scale", "one per feature (5)"):
        limits(scale=pd.Series([1.0, 2.0]))


def test_a_series_whose_labels_are_numbers_goes_by_its_labels():
    """Sorting it changes nothing: only a default index stands for positions."""
    series = pd.Series([10.0, 1.0], index=[1, 0])
    assert cg.Attacker(1, 1, scale=series) == cg.Attacker(1, 1, scale=series.sort_index())
    assert cg.Attacker(1, 1, scale=series) == cg.Attacker(1, 1, scale={"0": 1.0, "1": 10.0})


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (None, 2),
        (["Column_0", "Column_1", "Column_2"], 2),
        (["f0", "f1", "f2"], 2),
        (["0", "1", "2"], 2),
        (["2", "5", "7"], 0),
    ],
)
def test_integer_labels_are_positions_where_the_model_has_no_names(names, place):
    """Labels as `X.drop(columns=0).std()` has them; names of the model come first."""
    trees = [{"feature": 0, "threshold": 0.5, "left": {"score": 1.0}, "right": {"score": -1.0}}]
    model = cg.Ensemble.from_trees(trees, n_features=3, feature_names=names)
    series = pd.Series([10.0], index=[2])
    for attacker in (cg.Attacker(1, 1, scale=series),):
        assert attacker.limits(model).scale.tolist() == [
            10.0 if f == place else 1.0 for f in range(3)
        ]
    with pytest.raises(cg.DataError, match=r"feature '?9'?"):
        cg.Attacker(1, 1, scale=pd.Series([1.0], index=[9])).limits(model)


@pytest.mark.parametrize("kind", [pd.Series, np.array, list], ids=["series", "array", "list"])
def test_bounds_by_feature_may_have_a_number_per_row(kind):
    ends = kind([0.0, 1.0, 2.0]), kind([5.0, 5.0, 5.0])
    found = limits(bounds={"bytes": ends, "count": (0, 9)})
    assert found.by_row
    assert found.lower[:, :3].tolist() == [[row, 0, -math.inf] for row in range(3)]
    assert found.upper[:, :3].tolist() == [[5, 9, math.inf]] * 3
    one_end = limits(bounds={"count": (0, kind([1.0, 2.0]))})
    assert one_end.upper[:, 1].tolist() == [1, 2]


def test_frames_of_bounds_go_by_the_names_of_their_columns():
    found = limits(bounds=(FRAME - 1, FRAME + 1))
    assert found.lower[:, :3].tolist() == [
        [low - 1, count - 1, -math.inf] for count, low in FRAME.to_numpy().tolist()
    ]
    every = pd.DataFrame(np.zeros((2, 5)))  # columns 0, 1, …: the model's
    assert limits(bounds=(every, every + 1)).upper.tolist() == [[1] * 5] * 2


def test_verdicts_with_bounds_of_series_are_those_with_arrays():
    X = np.array([[0.45, 0, 0, 1, 0], [0.45, 0, 0, 1, 0]])
    series = pd.Series([0.45, 0.4]), pd.Series([0.47, 0.9])
    attacker = cg.Attacker("inf", 0.1, bounds={"bytes": series})
    assert cg.verify(PLAIN, X, [0, 0], attacker).status.tolist() == ["robust", "fragile"]
    copy.deepcopy(attacker)
    assert pickle.loads(pickle.dumps(attacker)) == attacker
    assert attacker != cg.Attacker("inf", 0.1, bounds={"bytes": (0.4, 0.9)})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": {"count": (pd.Series([1.0, math.nan]), 9)}},
         ["bounds of count in row 1", "NaN"]),
        ({"bounds": {"count": (pd.Series([1.0, 5.0]), pd.Series([2.0, 4.0]))}},
         ["bounds of count in row 1", "(5.0, 4.0)"]),
        ({"bounds": {"count": ([1.0, 2.0], 9), "bytes": ([1.0], 9)}},
         ["the same number of rows", "2 of count", "1 of bytes"]),
        ({"bounds": {"count": (pd.Series(["a"]), 9)}}, ["bounds of count"]),
        ({"bounds": {"count": (FRAME, 9)}}, ["bounds of count", "a number per row"]),
        ({"bounds": {"count": ("x", 9)}}, ["bounds of count must be a number"]),
        ({"bounds": {"count": (pd.Series([1.0, 2.0]), pd.Series([3.0, 4.0], index=[1, 0]))}},
         ["bounds of count", "different indices"]),
        ({"bounds": (FRAME - 1, FRAME[::-1] + 1)}, ["bounds", "two frames", "align them"]),
        ({"bounds": {"count": (pd.Series([1.0, 2.0]), 9),
                     "bytes": (0, pd.Series([3.0, 4.0], index=[1, 0]))}},
         ["bounds of count and bytes", "different indices"]),
        ({"scale": FRAME.std().to_frame()}, ["scale must be one number"]),
        ({"scale": pd.Series({"count": 0.0})}, ["scale of count must be > 0", "constant"]),
        ({"scale": pd.Series([1.0, 2.0], index=["count", "count"])}, ["no label twice"]),
        ({"scale": pd.Series({"count": math.nan})}, ["scale of count", "NaN"]),
    ],
)  # fmt: skip
def test_other_series_are_refused_by_the_name_of_the_feature(options, words):
    with refused(*words):
        cg.Attacker(1, 1, **options)


# ── bounds per instance ──────────────────────────────────────────────────────────────────────

LOWER, UPPER = np.zeros((3, 5)), np.arange(15.0).reshape(3, 5)


@pytest.mark.parametrize(
    ("bounds", "lower", "upper"),
    [
        ((LOWER, UPPER), LOWER, UPPER),
        ((LOWER.tolist(), UPPER.tolist()), LOWER, UPPER),
        ((0, UPPER), LOWER, UPPER),
        ((-np.ones(5), UPPER), LOWER - 1, UPPER),
        ((LOWER.astype(np.float32), math.inf), LOWER, np.full((3, 5), math.inf)),
        ((list(LOWER), 3), LOWER, LOWER + 3),
    ],
    ids=["arrays", "lists", "number", "row", "infinite", "rows"],
)
def test_bounds_may_have_a_row_per_instance(bounds, lower, upper):
    found = limits(bounds=bounds)
    assert found.by_row
    np.testing.assert_array_equal(found.lower, lower)
    np.testing.assert_array_equal(found.upper, upper)


def test_bounds_by_row_are_copied_and_read_only():
    given = UPPER.copy()
    attacker = cg.Attacker(1, 1, bounds=(LOWER, given))
    given[0, 0] = 99
    assert attacker.bounds[1][0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        attacker.bounds[0][0, 0] = 1


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((UPPER, LOWER), ["bounds of feature 1 in row 0", "lower <= upper", "(1.0, 0.0)"]),
        ((LOWER, np.full((3, 5), math.nan)), ["upper bound of feature 0 in row 0", "NaN", "inf"]),
        ((LOWER, np.zeros((2, 5))), ["bounds by row", "3x5 and 2x5"]),
        ((LOWER, np.zeros(4)), ["bounds by row", "3x5 and 4"]),
        ((LOWER, np.zeros((1, 5))), ["bounds by row", "3x5 and 1x5"]),
        ((np.zeros((0, 5)), 1), ["lower bound by row", "numbers"]),
        (([[0, 1], [2]], 9), ["lower bound by row", "[[0, 1], [2]]"]),
        (([["0", "1"]], 9), ["lower bound by row"]),
        (pd.DataFrame(LOWER), ["pair", "one frame"]),
        ((np.zeros((1, 2, 3)), 9), ["lower bound"]),
        ((math.inf, math.inf), ["lower <= upper", "(inf, inf)"]),
        (({"a": -math.inf}, {"a": -math.inf}), ["bounds of a", "(-inf, -inf)"]),
    ],
    ids=range(12),
)
def test_other_bounds_by_row_are_refused(bounds, words):
    with refused(*words):
        cg.Attacker(1, 1, bounds=bounds)


def test_bounds_by_row_must_have_the_columns_of_the_model():
    with refused("bounds by row have 4 columns", "5 features"):
        limits(bounds=(np.zeros((3, 4)), 1))


def test_every_instance_is_held_against_its_own_bounds():
    attacker = cg.Attacker(1, 1, bounds=(LOWER, UPPER))
    attacker.limits(PLAIN).check_rows(PLAIN, UPPER)
    outside = UPPER.copy()
    outside[1, 2] += 0.5
    with refused("X row 1, own", "7.5", "[0.0, 7.0]", kind=cg.DataError):
        attacker.limits(PLAIN).check_rows(PLAIN, outside)
    with refused("bounds have 3 rows, X has 2", "row of bounds per row of X", kind=cg.DataError):
        attacker.limits(PLAIN).check_rows(PLAIN, UPPER[:2])


def test_the_first_row_out_of_its_own_bounds_is_named_however_far_down_it_is():
    X = np.zeros((10_000, 5))
    X[9_000, 1] = math.nextafter(1, 2)
    with refused("row 9000", "count", kind=cg.DataError):
        cg.Attacker(1, 1, bounds=(np.zeros_like(X), 1)).limits(PLAIN).check_rows(PLAIN, X)


# ── what it is ───────────────────────────────────────────────────────────────────────────────

EVERYTHING: dict[str, Any] = {
    "scale": {"bytes": (0, 100), "count": 5},
    "features": ["bytes", "count", "own", "rent", "service"],
    "bounds": {"count": (0, math.inf)},
    "step": {"bytes": 1, "count": "1/2"},
    "categories": {"service": ["smtp", "ftp"]},
    "one_hot": GROUP,
}


@pytest.mark.parametrize("option", [*EVERYTHING, "rows"])
def test_attackers_differ_when_any_option_differs(option):
    one = cg.Attacker(1, 30, **EVERYTHING)
    if option == "rows":
        changed = {**EVERYTHING, "bounds": (LOWER, UPPER)}
        assert cg.Attacker(1, 30, **changed) == cg.Attacker(1, 30, **copy.deepcopy(changed))
        upper = UPPER + (np.arange(15).reshape(3, 5) == 7)
        assert cg.Attacker(1, 30, **changed) != cg.Attacker(1, 30, bounds=(LOWER, upper))
    else:
        changed = {name: value for name, value in EVERYTHING.items() if name != option}
    other = cg.Attacker(1, 30, **changed)
    assert one == cg.Attacker(1, 30, **EVERYTHING)
    assert one != other
    assert other != one
    assert not one.has_limits_of(other)
    assert one.has_limits_of(one.with_budget(9))


@pytest.mark.parametrize("bounds", [{"count": (0, math.inf)}, (LOWER, UPPER)], ids=["name", "row"])
def test_all_options_survive_copying_pickling_and_another_budget(bounds):
    attacker = cg.Attacker(1, 30, **{**EVERYTHING, "bounds": bounds})
    model = knowing(service=SERVICES)
    expected = vars(attacker.limits(model))
    for other in (pickle.loads(pickle.dumps(attacker)), copy.deepcopy(attacker)):
        assert other == attacker
        assert hash(other) == hash(attacker)
        np.testing.assert_equal(vars(other.limits(model)), expected)
    dearer = attacker.with_budget(31)
    assert dearer.budget == 31
    assert dearer.with_budget(30) == attacker
    with refused("budget"):
        attacker.with_budget(-1)


def test_repr_names_every_option():
    assert repr(cg.Attacker(1, 30, **EVERYTHING)) == (
        "Attacker(norm=1, budget=30, scale={'bytes': (0.0, 100.0), 'count': 5.0}, "
        "features=('bytes', 'count', 'own', 'rent', 'service'), bounds={'count': (0.0, inf)}, "
        "step={'bytes': 1, 'count': '1/2'}, categories={'service': ('ftp', 'smtp')}, "
        "one_hot=(('own', 'rent'),))"
    )
    assert repr(cg.Attacker(1, 1, bounds=(LOWER, UPPER), step=1)) == (
        "Attacker(norm=1, budget=1, bounds=(<3 x 5>, <3 x 5>), step=1)"
    )


def test_nothing_given_leaves_limits_empty():
    found = limits()
    for name in ("scale", "scale_up", "changeable", "lower", "upper"):
        assert getattr(found, name).shape == (0,)
    assert (found.step, found.categories, found.one_hot) == ({}, {}, ())
    assert not found.by_row


@pytest.mark.parametrize("option", ["bounds", "step", "categories"])
def test_limits_of_no_feature_are_no_limits(option):
    assert cg.Attacker(1, 1, **{option: {}}) == cg.Attacker(1, 1)
