"""A first attacker from data: what is claimed holds in every row, and what is written is read."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import carvegbm as cg
from carvegbm.attackers.suggest import Suggestion, read_table, suggest
from plain_trees import ensemble, leaf, refused

ROWS = 60


def one_hot(states: Any, n: int) -> Any:
    return (np.asarray(states)[:, None] == np.arange(n)).astype(float)


@pytest.fixture(name="rng")
def a_generator() -> np.random.Generator:
    return np.random.default_rng(0)


# ── steps and ranges ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0, 3, 511], Fraction(1)),
        ([-2, math.nan, 7], Fraction(1)),
        ([0, 1, 0], Fraction(1)),
        ([0, 0.5, 1], None),
        ([1, 2, math.nextafter(3, 4)], None),
        ([0, 1 / 255, 254 / 255], Fraction(1, 255)),
        ([0, 2 * math.nextafter(1 / 255, 1), 1], None),
        (np.arange(256, dtype=np.float32) / np.float32(255), Fraction(1, 255)),
        ((np.arange(256) / 255).astype(np.float32), Fraction(1, 255)),
        ((np.arange(256) / 255).astype(np.float32).astype(np.float64), None),
        ([1e16, 2e16], None),
        ([math.inf, 1], None),
        ([math.nan, math.nan], None),
    ],
    ids=range(13),
)
def test_a_step_is_found_iff_every_value_is_a_multiple_of_it(values, step):
    X = np.asarray(values)[:, None]
    assert suggest(X).step == ({} if step is None else {0: step})


def test_ranges_are_the_lowest_and_highest_values_that_are_there():
    X = np.array([[3.0, math.nan, -0.0], [1.5, math.nan, 0.0]])
    found = suggest(X)
    assert found.bounds == {0: (1.5, 3.0), 2: (0.0, 0.0)}
    assert str(found.bounds[2]) == "(0.0, 0.0)"


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 5)),
        elements=st.sampled_from([0, 1, 2, 0.5, 1 / 255, -3, math.nan]),
    )
)
def test_what_is_found_holds_in_every_row(X):  # fmt: skip
    found = suggest(X)
    for feature, (low, high) in found.bounds.items():
        column = X[:, feature]
        assert low == np.nanmin(column)
        assert high == np.nanmax(column)
    for feature, step in found.step.items():
        for value in X[~np.isnan(X[:, feature]), feature].tolist():
            times = round(Fraction(value) / step)
            assert value == times * step.numerator / step.denominator
    for group in found.one_hot:
        assert np.isin(X[:, group], [0, 1]).all()
        assert (X[:, group].sum(axis=1) == 1).all()
    members = [feature for group in found.one_hot for feature in group]
    assert len(members) == len(set(members))


def test_rows_are_looked_at_block_by_block(monkeypatch, rng):
    X = np.column_stack([one_hot(rng.integers(0, 3, ROWS), 3), np.arange(ROWS) / 2])
    whole = suggest(X)
    monkeypatch.setattr("carvegbm.attackers.suggest._VALUES_AT_ONCE", 12)
    assert suggest(X) == whole
    assert whole.one_hot == [[0, 1, 2]]


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


def test_groups_are_found_by_name_wherever_their_columns_stand(rng):
    home, job = one_hot(rng.integers(0, 2, ROWS), 2), one_hot(rng.integers(0, 3, ROWS), 3)
    X = np.column_stack([home[:, 0], job[:, 0], rng.random(ROWS), home[:, 1], job[:, 1:]])
    names = ["home_own", "job=a", "age", "home_rent", "job=b", "job=c"]
    assert suggest(X, names).one_hot == [[0, 3], [1, 4, 5]]
    assert suggest(X).one_hot == []


def test_the_names_of_covtype_tell_its_two_groups(rng):
    area, soil = one_hot(rng.integers(0, 4, ROWS), 4), one_hot(rng.integers(0, 12, ROWS), 12)
    X = np.column_stack([rng.random(ROWS), area, soil])
    names = ["Elevation", *(f"Wilderness_Area{i}" for i in range(1, 5))]
    names += [f"Soil_Type{i}" for i in range(1, 13)]
    groups = [list(range(1, 5)), list(range(5, 17))]
    assert suggest(X, names).one_hot == groups


def test_a_category_that_no_row_has_belongs_to_the_group_that_its_name_tells(rng):
    X = np.column_stack([one_hot(rng.integers(0, 2, ROWS), 2), np.zeros(ROWS)])
    assert suggest(X, ["job_a", "job_b", "job_c"]).one_hot == [[0, 1, 2]]
    assert suggest(X, ["job_a", "job_b", "flag"]).one_hot == [[0, 1]]
    assert suggest(X).one_hot == [[0, 1]]


def test_a_longer_beginning_is_tried_before_a_shorter_one(rng):
    kind, type_ = one_hot(rng.integers(0, 2, ROWS), 2), one_hot(rng.integers(0, 3, ROWS), 3)
    names = ["job_kind_x", "job_kind_y", "job_type_a", "job_type_b", "job_type_c"]
    assert suggest(np.column_stack([kind, type_]), names).one_hot == [[0, 1], [2, 3, 4]]


def test_neighbours_are_a_group_without_names(rng):
    X = np.column_stack([rng.random(ROWS), one_hot(rng.integers(0, 4, ROWS), 4)])
    assert suggest(X).one_hot == [[1, 2, 3, 4]]
    assert suggest(X[:20]).one_hot == []  # so few rows may sum to 1 by chance
    two = np.column_stack([one_hot(rng.integers(0, 2, ROWS), 2), one_hot(range(ROWS), ROWS)[:, :2]])
    assert suggest(two).one_hot == [[0, 1]]


@pytest.mark.parametrize("wrong", [(0, 0), (1, 1), (0.5, 0.5), (math.nan, 1), (2, -1)], ids=repr)
def test_one_row_that_does_not_fit_is_enough_to_claim_no_group(wrong, rng):
    X = one_hot(rng.integers(0, 2, ROWS), 2)
    assert suggest(X, ["home_own", "home_rent"]).one_hot == [[0, 1]]
    X[-1] = wrong
    assert suggest(X, ["home_own", "home_rent"]).one_hot == []
    assert suggest(X).one_hot == []


def test_a_column_of_ones_is_no_group():
    X = np.column_stack([np.ones(ROWS), np.zeros(ROWS)])
    assert suggest(X, ["home_own", "home_rent"]).one_hot == []
    assert suggest(X).one_hot == []


def test_texts_are_categories():
    X = np.array([[math.nan, 1.0], [math.nan, 2.0], [math.nan, 2.0]])
    found = suggest(X, ["service", "age"], {0: ["smtp", None, "http"]})
    assert found.categories == {0: ["http", "smtp"]}
    assert found.bounds == {1: (1.0, 2.0)}
    assert found.step == {1: 1}


# ── as a file ────────────────────────────────────────────────────────────────────────────────

NAMES = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
    | st.sampled_from(["home_own", "home_rent", "0", "1", '"2"', "a.b", "x = 1 # y", "\x7f", "\\"]),
    min_size=4,
    max_size=4,
)
VALUES = st.sampled_from([0.0, 1.0, 0.1, -2.5, 1e300, 5e-324, 2.0**60, math.inf, math.nan])


@given(
    X=arrays.arrays(np.float64, (30, 4), elements=VALUES),
    states=arrays.arrays(np.int64, 30, elements=st.integers(0, 1)),
    names=st.none() | NAMES,
    labels=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=30, max_size=30),
    attacker=st.tuples(st.sampled_from([1, 2, math.inf]), st.floats(1e-9, 1e9)),
    data=st.data(),
)
def test_what_is_written_is_read_as_the_same_attacker(
    tmp_path_factory, X, states, names, labels, attacker, data
):
    X[:, :2] = data.draw(st.sampled_from([X[:, :2], one_hot(states, 2)]))
    found = suggest(X, names, data.draw(st.sampled_from([{}, {3: labels}])))
    arguments = found.arguments(names, *attacker)
    path = tmp_path_factory.mktemp("found") / "attacker.toml"
    path.write_text(found.to_toml(arguments, "data\n.csv"), encoding="utf-8")
    expected = cg.Attacker(**{key: value for key, value in arguments.items() if value != {}})
    assert cg.Attacker.from_file(path) == expected


def test_the_attacker_that_is_found_fits_a_model_of_these_features(rng):
    X = np.column_stack([one_hot(rng.integers(0, 3, ROWS), 3), np.arange(ROWS), rng.random(ROWS)])
    for names in (None, ["job_a", "job_b", "job_c", "count", "share"], list("01234")):
        model = ensemble(leaf(0.0), n_features=5, feature_names=names)
        found = cg.Attacker(**suggest(X, names).arguments(names, 1, 2)).limits(model)
        assert found.one_hot == ((0, 1, 2),)
        assert found.step == {3: 1}
        assert found.upper[3:].tolist() == X.max(axis=0)[3:].tolist()


def test_names_that_are_numbers_in_order_are_positions_and_others_are_not():
    one = Suggestion(2, step={1: Fraction(1)})
    assert one.arguments(["0", "1"], 0, 1)["step"] == {1: 1}
    assert one.arguments(["1", "0"], 0, 1)["step"] == {"0": 1}
    assert one.arguments(["a", "a"], 0, 1)["step"] == {1: 1}
    assert '"\\"0\\"" = 1' in one.to_toml(one.arguments(["1", "0"], 0, 1), "data.csv")


def test_the_file_says_in_words_what_was_found(tmp_path: Path, rng):
    X = np.column_stack([
        one_hot(rng.integers(0, 2, ROWS), 2), np.arange(ROWS) % 7, np.arange(ROWS) / 255,
        rng.random(ROWS), np.full(ROWS, 3), np.full(ROWS, math.nan), np.full(ROWS, math.nan),
    ])  # fmt: skip
    names = ["home_own", "home_rent", "count", "grey", "share", "three", "empty", "service"]
    services = [f"service number {i % 40}" for i in range(ROWS)]
    found = suggest(X, names, {7: services})
    text = found.to_toml(found.arguments(names, 1, 30.5), "data.csv")
    assert text.startswith("# An attacker suggested from data.csv: ")
    for line in (
        "norm = 1  # ",
        "budget = 30.5",
        '    "home_own",   # one of 2 columns, one-hot',
        '    "count",      # whole numbers, 0 to 6',
        '    "grey",       # multiples of 1/255, 0 to 0.2313',
        '    "three",      # always 3',
        '    "empty",      # without a value',
        '    "service",    # 40 categories',
        '    ["home_own", "home_rent"],',
        'grey = "1/255"',
        "count = [0, 6]",
    ):
        assert f"\n{line}" in text
    assert max(map(len, text.splitlines())) <= 100
    path = tmp_path / "attacker.toml"
    path.write_text(text)
    assert cg.Attacker.from_file(path).categories["service"] == tuple(sorted(set(services)))


# ── files with text ──────────────────────────────────────────────────────────────────────────


def test_a_column_is_one_of_texts_if_one_cell_is(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("service,size,label,kind\nhttp,1,yes,a\n 7 ,?,no,?\n,1e3,no,a b\n")
    found = read_table(path)
    assert found.names == ("service", "size", "kind")
    assert found.texts == {0: ["http", "7", None], 2: ["a", None, "a b"]}
    nothing = [math.nan] * 3
    np.testing.assert_array_equal(found.X.T, [nothing, [1, math.nan, 1000], nothing])


def test_a_table_of_numbers_is_what_it_was(tmp_path: Path) -> None:
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "data.npz", X=X, y=[0, 1, 0])
    found = read_table(tmp_path / "data.npz")
    assert found.X.dtype == np.float32
    assert (found.names, found.texts) == (None, {})


def test_texts_without_a_header_go_by_position(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("0.5,tcp,1\n0.25,1_0,0\n")
    found = read_table(tmp_path / "data.csv")
    assert found.names is None
    assert found.texts == {1: ["tcp", "1_0"]}
    assert found.X[:, 0].tolist() == [0.5, 0.25]


def test_the_label_column_is_taken_as_told(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("size,kind\n1,a\n2,b\n")
    assert read_table(tmp_path / "data.csv", label="size").texts == {0: ["a", "b"]}
    assert read_table(tmp_path / "data.csv", label="kind").texts == {}


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_parquet_has_texts_and_categories(tmp_path: Path, kind: str) -> None:
    columns = {"service": ["b", None, "a"], "size": [1, None, 3], "flag": [True, False, True]}
    frame = pd.DataFrame({**columns, "label": [0, 1, 0]}).astype({"service": kind})
    frame.to_parquet(tmp_path / "data.parquet")
    found = read_table(tmp_path / "data.parquet")
    assert found.texts == {0: ["b", None, "a"]}
    np.testing.assert_array_equal(found.X[:, 1:], [[1, 1], [math.nan, 0], [3, 1]])


def test_what_is_neither_is_refused_by_name(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, day) for day in (1, 2)]
    frame = pd.DataFrame({"kind": ["a", "b"], "day": days, "label": [0, 1]})
    frame.to_parquet(tmp_path / "data.parquet")
    with refused("data.parquet", "'day'", "date", kind=cg.DataError):
        read_table(tmp_path / "data.parquet")
    with refused("absent.csv: no such file", kind=cg.DataError):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "ragged.csv").write_text("a,b,label\n1,x,0\n1,0\n")
    with refused("ragged.csv", "line 3", kind=cg.DataError):
        read_table(tmp_path / "ragged.csv")
