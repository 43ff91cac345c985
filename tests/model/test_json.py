"""An ensemble as JSON: all of it comes back to the bit, and nothing else is taken for one."""

from __future__ import annotations

import gc
import gzip
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carvegbm as cg
from asking import product_attacker
from carvegbm.model.ensemble import fields_of
from carvegbm.storage.identity import digest_of
from categorical_trees import choice, random_ensemble, random_rows
from conftest import REPOSITORY
from generators import MIX, NORMS, make_case
from plain_trees import chain, ensemble, leaf, refused, split, stump

PAGE = (REPOSITORY / "docs" / "ensemble-json.md").read_text("utf-8")
WITH_A_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_same_fields(one: cg.Ensemble, other: cg.Ensemble) -> None:
    """Equal to the bit and of the same types."""
    for name, mine in fields_of(one).items():
        theirs = fields_of(other)[name]
        assert type(mine) is type(theirs), name
        if isinstance(mine, np.ndarray) and not mine.dtype.hasobject:
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), name
            assert mine.tobytes() == theirs.tobytes(), name
        elif isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype
            assert [(type(x), x) for x in mine] == [(type(x), x) for x in theirs]
        else:
            assert repr(mine) == repr(theirs), name
    assert digest_of(one) == digest_of(other)


def saved(model: cg.Ensemble, folder: Any) -> cg.Ensemble:
    model.save(folder / "ensemble.json")
    return cg.load(folder / "ensemble.json")


# ── there and back ───────────────────────────────────────────────────────────────────────────


@WITH_A_FOLDER
@given(
    seed=st.integers(0, 10**6), norm=st.sampled_from(NORMS), mix=st.sampled_from(sorted(set(MIX)))
)
def test_fields_fingerprint_and_verdicts_come_back(seed, norm, mix, tmp_path):
    case = make_case(seed, norm, *mix)
    again = saved(case.ensemble, tmp_path)
    assert_same_fields(case.ensemble, again)
    attacker = product_attacker(case.attacker)
    both = case.ensemble, again
    if again.task == "regression":
        one, other = (cg.output_range(model, [case.x], attacker) for model in both)
        names = ["lowest", "highest"]
    else:
        y = [again.classes[case.label]]
        one, other = (cg.verify(model, [case.x], y, attacker) for model in both)
        names = ["status", "worst_margin_lower", "worst_margin_upper"]
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


NUMBERS = st.floats(-1e280, 1e280) | st.sampled_from([-0.0, 5e-324, -5e-324, 2.0**-1022, 0.1, 1e22])
THRESHOLDS = st.floats(allow_nan=False) | NUMBERS
TEXT = st.text(max_size=6)
NAMES = TEXT | st.integers(-(2**63), 2**64 - 1) | st.booleans()


def labels(width: int) -> st.SearchStrategy[list[Any]]:
    """Labels of categories; numbers among them as wide as what the ensemble reads."""
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=width)
    return st.lists(NAMES | numbers, unique=True, max_size=4)


@st.composite
def odd_ensembles(draw: st.DrawFn) -> cg.Ensemble:
    """Ensembles of any shape, numbers, names and options, with nodes in any order."""
    n_features, n_outputs = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2, 3]))
    narrow = draw(st.booleans())
    codes = st.lists(st.integers(0, 2**24 - 1), unique=True, max_size=4)
    categories = {
        feature: dict(zip(draw(codes), draw(labels(32 if narrow else 64)), strict=False))
        for feature in range(n_features)
        if draw(st.booleans())
    }
    category_rule = draw(st.sampled_from(["label", "text", "truncate", "nonnegative"]))
    rule = st.sampled_from([{}, {"missing": "left"}, {"missing": "right"}])

    def tree(depth: int) -> dict[str, Any]:
        if depth == 0 or draw(st.booleans()):
            scores = [draw(NUMBERS) for _ in range(n_outputs)]
            return leaf(scores if n_outputs > 1 else scores[0])
        threshold = draw(st.floats(width=32, allow_nan=False) if narrow else THRESHOLDS)
        sides = tree(depth - 1), tree(depth - 1)
        feature = draw(st.integers(0, n_features - 1))
        if feature in categories:
            known = list(categories[feature])
            listed = draw(st.lists(st.sampled_from(known))) if known else []
            return choice(feature, listed, *sides, **draw(rule))
        return split(feature, threshold, *sides, **draw(rule))

    task = "multiclass" if n_outputs > 1 else draw(st.sampled_from(["binary", "regression"]))
    compares = draw(st.sampled_from(["raw", "probability"]))
    n_labels = max(2, n_outputs)
    classes = draw(
        st.none()
        | st.lists(TEXT, min_size=n_labels, max_size=n_labels)
        | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n_labels, max_size=n_labels)
        | st.lists(st.floats(), min_size=n_labels, max_size=n_labels)
    )
    if classes is not None and len(np.unique(np.array(classes))) < n_labels:
        classes = None
    model = cg.Ensemble.from_trees(
        [tree(3) for _ in range(draw(st.integers(0, 4)))],
        n_features=n_features,
        task=task,
        base_score=[draw(NUMBERS) for _ in range(n_outputs)],
        threshold=0.0 if compares == "probability" else draw(NUMBERS),
        tie=draw(st.sampled_from(["positive", "negative"])),
        classes=None if classes is None else np.array(classes),
        feature_names=draw(st.none() | st.lists(TEXT, min_size=n_features, max_size=n_features)),
        link=draw(st.sampled_from(["logistic", "softmax"])) if compares != "raw" else "identity",
        link_scale=draw(st.floats(5e-324, 1e300)),
        average=draw(st.integers(1, 2**20)),
        input_precision="float32" if narrow else "float64",
        sum_precision=draw(st.sampled_from(["float32", "float64"])),
        compares=compares,
        absent=draw(st.sampled_from(["zero", "missing"])),
        categories=categories,
        category_rule=category_rule,
        unknown_category=draw(st.sampled_from(["right", "missing"]))
        if category_rule == "label"
        else "right",
    )
    return shuffled(model, draw(st.integers(0, 99)))


def shuffled(model: cg.Ensemble, seed: int) -> cg.Ensemble:
    """The same trees, laid out otherwise."""
    rng = np.random.default_rng(seed)
    place, row = rng.permutation(len(model.nodes)), rng.permutation(model.n_leaves)
    nodes, scores = np.zeros_like(model.nodes), np.zeros_like(model.scores)
    for position, node in enumerate(model.nodes.copy()):
        if node["feature"] < 0:
            scores[row[node["left"]]] = model.scores[node["left"]]
            node["left"] = row[node["left"]]
        else:
            node["left"], node["right"] = place[node["left"]], place[node["right"]]
        nodes[place[position]] = node
    fields = {"nodes": nodes, "roots": place[model.roots], "scores": scores}
    return cg.Ensemble(**{**fields_of(model), **fields})


@settings(WITH_A_FOLDER, max_examples=max(200, settings().max_examples))
@given(model=odd_ensembles())
def test_every_number_name_label_and_layout_comes_back(model, tmp_path):
    assert_same_fields(model, saved(model, tmp_path))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1]),
        np.array([-7, 2**63 - 1]),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([-128, 127], dtype=np.int8),
        np.array([1, 2], dtype=">i4"),
        np.array([False, True]),
        np.array([0.1, -0.0]),
        np.array([math.nan, math.inf]),
        np.array([-math.inf, 1.0], dtype=np.float32),
        np.array([0.1, 0.2], dtype=np.float32),
        np.array([0.1, 0.2], dtype=np.float16),
        np.array(["no", "yes"]),
        np.array(["a", "b"], dtype="<U9"),
        np.array(["", 'quo"te\\']),
        np.array(["NaN", "größe 😀 \u2028\x00x"]),
        np.array(["no", "yes"], dtype=object),
        np.array([True, 2], dtype=object),
        np.array([1, 2.5], dtype=object),
        np.array([1.0, 2], dtype=object),
        np.array([-(2**63), 2**64 - 1], dtype=object),
    ],
    ids=repr,
)
def test_class_labels_come_back_with_their_dtype(labels, tmp_path):
    assert_same_fields(ensemble(leaf(1.0), classes=labels), saved_with(labels, tmp_path))


def saved_with(labels: Any, folder: Any) -> cg.Ensemble:
    return saved(ensemble(leaf(1.0), classes=labels), folder)


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (np.array([b"no", b"yes"]), "'|S3'"),
        (np.array(["2001-01-01", "2002-02-02"], dtype="datetime64[D]"), "M8[D]"),
        (np.array([1j, 2.0]), "<c16"),
        (np.array([10**30, 1], dtype=object), str(10**30)),
        (np.array([math.inf, 1.0], dtype=object), "inf"),
        (np.array([b"no", b"yes"], dtype=object), "b'no'"),
        (np.array(["\ud800", "yes"]), "'\\ud800'"),
        (np.array(["\ud83d\ude00", "yes"]), "surrogate"),
        (np.array(["a", "b"], dtype="<U9000000"), "<U9000000"),
    ],
    ids=ascii,
)
def test_labels_that_would_not_come_back_are_refused(labels, word, tmp_path):
    with refused("class", word, kind=cg.ModelError):
        ensemble(leaf(1.0), classes=labels).save(tmp_path / "ensemble.json")
    assert list(tmp_path.iterdir()) == []


def test_deep_trees_come_back(tmp_path):
    model = ensemble(chain(100_000))
    assert_same_fields(model, saved(model, tmp_path))
    assert gc.isenabled()


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def test_file_is_strict_json_with_a_line_per_node(tmp_path):
    model = ensemble(stump(0, math.inf), stump(1, 0.1, missing="left"), n_features=2)
    model.save(tmp_path / "e.json")
    text = (tmp_path / "e.json").read_text("utf-8")
    document = json.loads(text, parse_constant=pytest.fail)
    assert [json.loads(line.rstrip(",")) for line in text.splitlines() if "left" in line] == [
        {"feature": 0, "threshold": "Infinity", "left": 1, "right": 2},
        {"feature": 1, "threshold": 0.1, "left": 4, "right": 5, "missing": "left"},
    ]
    assert document["nodes"][5] == {"leaf": 3, "scores": [1.0]}
    assert len(document["nodes"]) == 6


def test_file_is_read_however_another_program_writes_the_same_document(tmp_path):
    model = ensemble(stump(0, 2.0, missing="right"), stump(0, -math.inf), base_score=3.0)
    model.save(tmp_path / "e.json")
    document = json.loads((tmp_path / "e.json").read_text())
    compact = json.dumps(document, sort_keys=True, separators=(",", ":"))
    whole = re.sub(r"(-?\d+)\.0\b", r"\1", json.dumps(document, indent=4))
    assert whole.count(".") == 0
    for text in (compact, whole):
        (tmp_path / "other").write_bytes(gzip.compress(text.encode()))
        assert_same_fields(cg.load(tmp_path / "other"), model)


def test_every_field_of_an_ensemble_has_a_place_in_the_file_and_on_the_page(tmp_path):
    model = ensemble(
        stump(0, 0.5, missing="left"),
        choice(1, [0], leaf(1.0), leaf(2.0)),
        n_features=2,
        absent="missing",
    )
    model.save(tmp_path / "e.json")
    document = json.loads((tmp_path / "e.json").read_text())
    kept_otherwise = {"scores", "set_starts", "set_codes"}
    of_the_source = {"iterations"}  # the file holds only the trees that are used
    assert set(fields_of(model)) - kept_otherwise - of_the_source == set(document) - {
        "format",
        "version",
        "class_dtype",
    }
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE, re.M)
    described = set(re.findall(r"\w+", " ".join(rows)))
    keys = {key for node in document["nodes"] + document["categories"] for key in node}
    assert set(document) | keys == described


def test_example_on_the_page_is_an_ensemble(tmp_path):
    (text,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "given").write_text(text)
    model = cg.load(tmp_path / "given")
    model.save(tmp_path / "e.json")
    assert (tmp_path / "e.json").read_text() == text


# ── the reader on the page ───────────────────────────────────────────────────────────────────


def page_reader() -> Any:
    (program,) = re.findall(r"^```python\n(import ctypes.*?)^```", PAGE, re.M | re.S)
    assert len([line for line in program.splitlines() if line.strip()]) <= 25
    imported = set(re.findall(r"^import (\w+)|^from (\w+)", program, re.M))
    assert imported == {("ctypes", ""), ("json", "")}
    names: dict[str, Any] = {}
    exec(program, names)
    return names["raw_score"]


@WITH_A_FOLDER
@given(
    seed=st.integers(0, 10**6), norm=st.sampled_from(NORMS), mix=st.sampled_from(sorted(set(MIX)))
)
def test_reader_on_the_page_computes_the_raw_score_to_the_bit(seed, norm, mix, tmp_path):
    case = make_case(seed, norm, *mix)
    case.ensemble.save(tmp_path / "e.json")
    document = json.loads((tmp_path / "e.json").read_text("utf-8"))
    expected = np.atleast_2d(case.ensemble.raw_score([case.x]))
    assert page_reader()(document, case.x) == expected.ravel().tolist()


@WITH_A_FOLDER
@given(seed=st.integers(0, 10**6))
def test_reader_on_the_page_knows_categories(seed, tmp_path):
    model = random_ensemble(seed)
    model.save(tmp_path / "e.json")
    document = json.loads((tmp_path / "e.json").read_text("utf-8"))
    rows = random_rows(model, seed)
    for x, expected in zip(model.check_data(rows), model.raw_score(rows), strict=True):
        assert page_reader()(document, x.tolist()) == np.atleast_1d(expected).tolist()
