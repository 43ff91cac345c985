"""An ensemble as JSON: all of it comes back to the bit, and nothing else is taken for one."""

from __future__ import annotations

import copy
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
from carvegbm.ensemble import NODE, fields_of
from carvegbm.fingerprint import digest_of
from conftest import REPOSITORY
from generators import MIX, NORMS, make_case
from plain_trees import chain, ensemble, leaf, refused, split, stump
from readers import small_models

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
    attacker = cg.Attacker(**case.attacker._asdict())
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
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def odd_ensembles(draw: st.DrawFn) -> cg.Ensemble:
    """Ensembles of any shape, numbers, names and options, with nodes in any order."""
    n_features, n_outputs = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2, 3]))
    narrow = draw(st.booleans())
    rule = st.sampled_from([{}, {"missing": "left"}, {"missing": "right"}])

    def tree(depth: int) -> dict[str, Any]:
        if depth == 0 or draw(st.booleans()):
            scores = [draw(NUMBERS) for _ in range(n_outputs)]
            return leaf(scores if n_outputs > 1 else scores[0])
        threshold = draw(st.floats(width=32, allow_nan=False) if narrow else THRESHOLDS)
        sides = tree(depth - 1), tree(depth - 1)
        return split(draw(st.integers(0, n_features - 1)), threshold, *sides, **draw(rule))

    task = "multiclass" if n_outputs > 1 else draw(st.sampled_from(["binary", "regression"]))
    compares = draw(st.sampled_from(["raw", "probability"]))
    n_labels = max(2, n_outputs)
    labels = draw(
        st.none()
        | st.lists(TEXT, min_size=n_labels, max_size=n_labels)
        | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n_labels, max_size=n_labels)
        | st.lists(st.floats(), min_size=n_labels, max_size=n_labels)
    )
    if labels is not None and len(np.unique(np.array(labels))) < n_labels:
        labels = None
    model = cg.Ensemble.from_trees(
        [tree(3) for _ in range(draw(st.integers(0, 4)))],
        n_features=n_features,
        task=task,
        base_score=[draw(NUMBERS) for _ in range(n_outputs)],
        threshold=0.0 if compares == "probability" else draw(NUMBERS),
        tie=draw(st.sampled_from(["positive", "negative"])),
        classes=None if labels is None else np.array(labels),
        feature_names=draw(st.none() | st.lists(TEXT, min_size=n_features, max_size=n_features)),
        link=draw(st.sampled_from(["logistic", "softmax"])) if compares != "raw" else "identity",
        link_scale=draw(st.floats(5e-324, 1e300)),
        average=draw(st.integers(1, 2**20)),
        input_precision="float32" if narrow else "float64",
        sum_precision=draw(st.sampled_from(["float32", "float64"])),
        compares=compares,
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


def test_numpy_scalars_among_objects_come_back_as_the_values_they_are(tmp_path):
    for labels in ([np.int32(3), 4], [np.float32(0.1), 1], [np.str_("a"), "b"], [np.True_, 7]):
        model = ensemble(leaf(1.0), classes=np.array(labels, dtype=object))
        again = saved(model, tmp_path)
        assert again.classes.dtype == object
        assert again == model
        assert digest_of(again) == digest_of(model)


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (np.array([b"no", b"yes"]), "'|S3'"),
        (np.array(["2001-01-01", "2002-02-02"], dtype="datetime64[D]"), "M8[D]"),
        (np.array([1, 2], dtype=np.longdouble), "f"),
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
    with refused("class", word, "name", kind=cg.ModelError):
        ensemble(leaf(1.0), classes=labels).save(tmp_path / "ensemble.json")
    assert list(tmp_path.iterdir()) == []


def test_deep_trees_come_back(tmp_path):
    model = ensemble(chain(100_000))
    assert_same_fields(model, saved(model, tmp_path))
    assert gc.isenabled()


def test_ensemble_without_trees_comes_back(tmp_path):
    for options in ({}, {"base_score": [1.0, -0.0, 5e-324]}, {"n_features": 0}):
        model = ensemble(**{"n_features": 3, **options})
        assert_same_fields(model, saved(model, tmp_path))


def test_labels_given_to_load_replace_those_in_the_file(tmp_path):
    ensemble(stump(0, 0.5)).save(tmp_path / "e.json")
    named = cg.load(tmp_path / "e.json", classes=["no", "yes"], n_features=1)
    assert named.decide([[1.0]]).tolist() == ["yes"]
    with refused("has 1 features, not n_features=2", kind=cg.ModelError):
        cg.load(tmp_path / "e.json", n_features=2)
    ensemble(stump(0, 0.5), task="regression").save(tmp_path / "e.json")
    assert cg.load(tmp_path / "e.json", classes=[-1, 1]).task == "binary"


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


def test_names_are_written_as_they_are_read_by_people(tmp_path):
    ensemble(leaf(1.0), feature_names=["größe"]).save(tmp_path / "e.json")
    assert '"feature_names": ["größe"]' in (tmp_path / "e.json").read_text("utf-8")
    with refused("feature name", "'\\udc80'", "Unicode", kind=cg.ModelError):
        ensemble(leaf(1.0), feature_names=["\udc80"]).save(tmp_path / "e.json")
    assert cg.load(tmp_path / "e.json").feature_names == ("größe",)  # the earlier file is there


def test_every_field_of_an_ensemble_has_a_place_in_the_file_and_on_the_page(tmp_path):
    model = ensemble(stump(0, 0.5, missing="left"))
    model.save(tmp_path / "e.json")
    document = json.loads((tmp_path / "e.json").read_text())
    assert set(fields_of(model)) - {"scores"} == set(document) - {
        "format",
        "version",
        "class_dtype",
    }
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE, re.M)
    described = set(re.findall(r"\w+", " ".join(rows)))
    keys = {key for node in document["nodes"] for key in node}
    assert set(document) | keys == described


def test_example_on_the_page_is_an_ensemble(tmp_path):
    (text,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "given").write_text(text)
    model = cg.load(tmp_path / "given")
    model.save(tmp_path / "e.json")
    assert (tmp_path / "e.json").read_text() == text


def test_path_that_cannot_be_written_is_refused_in_one_line(tmp_path, unwritable):
    model = ensemble(leaf(1.0))
    with refused("ensemble.txt", "end the name in .json"):
        model.save(tmp_path / "ensemble.txt")
    with refused("there is no folder"):
        model.save(tmp_path / "none" / "e.json")
    with refused(str(unwritable)):
        model.save(unwritable / "e.json")
    assert list(tmp_path.glob("*.*")) == []


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


def test_reader_on_the_page_knows_missing_values_and_float32(tmp_path):
    third = float(np.float32(1 / 3))
    model = ensemble(
        stump(0, third, 2.0**24, 1.0, missing="right"),
        stump(1, math.inf, 1.0, 3.0, missing="left"),
        leaf(1.0),
        n_features=2,
        input_precision="float32",
        sum_precision="float32",
        average=3,
    )
    model.save(tmp_path / "e.json")
    document = json.loads((tmp_path / "e.json").read_text("utf-8"))
    for x in ([1 / 3, 0.0], [0.34, math.inf], [math.nan, math.nan], [-1.0, math.nan]):
        assert page_reader()(document, x) == model.raw_score([x]).tolist()


# ── what is refused ──────────────────────────────────────────────────────────────────────────

SMALL = json.loads(small_models.ENSEMBLE_JSON)


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The small ensemble with what is at `path` replaced, or removed if the value is ...."""
    document = copy.deepcopy(SMALL)
    *above, last = path
    inner = document
    for key in above:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return document


SPLIT, LEAF = ("nodes", 0), ("nodes", 2)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("version",), 2, ["version 2", "version 1 is read", "update carvegbm"]),
        (("version",), "1", ["version '1'"]),
        (("version",), True, ["version True"]),
        (("version",), ..., ["version None"]),
        (("colour",), "green", ["unknown field 'colour'", "remove it"]),
        *(((name,), ..., [f"lacks the field '{name}'"]) for name in SMALL if name not in
          ("format", "version")),
        (("task",), "ranking", ["task", "'ranking'"]),
        (("task",), 7, ["task is 7, not a text"]),
        (("task",), "regression", ["regression", "['no', 'yes']", "make them []"]),
        (("task",), "multiclass", ["at least two scores"]),
        (("tie",), None, ["tie is None, not a text"]),
        (("tie",), "both", ["tie must be positive or negative, got 'both'"]),
        (("link",), [], ["link is [], not a text"]),
        (("compares",), "odds", ["compares must be raw or probability, got 'odds'"]),
        (("input_precision",), "float16", ["input_precision must be", "'float16'"]),
        (("sum_precision",), "x" * 900, ["sum_precision must be", "…"]),
        (("average",), 1.0, ["average is 1.0, not a whole number"]),
        (("average",), True, ["average is True, not a whole number"]),
        (("average",), 0, ["average must be >= 1"]),
        (("n_features",), 1, ["node 0: feature is 1, not one of the 1 features"]),
        (("n_features",), 3, ["2 feature names for 3 features"]),
        (("n_features",), -1, ["node 0: feature is 1"]),
        (("n_features",), "2", ["n_features is '2', not a whole number"]),
        (("feature_names",), ["a"], ["1 feature names for 2 features"]),
        (("feature_names",), ["a", 1], ["feature_names[1] is 1, not a text"]),
        (("feature_names",), "ab", ["feature_names is 'ab', not a list"]),
        (("feature_names",), ["a", "\ud800"], ["feature name '\\ud800'", "Unicode"]),
        (("threshold",), "0", ["threshold is '0', not a finite number"]),
        (("threshold",), "Infinity", ["threshold is 'Infinity', not a finite number"]),
        (("threshold",), 2**53 + 1, ["threshold must be a number that a double holds"]),
        (("link_scale",), 0, ["link_scale must be > 0 and finite, got 0.0"]),
        (("link_scale",), False, ["link_scale is False, not a finite number"]),
        (("base_score",), 0.5, ["base_score is 0.5, not a list"]),
        (("base_score",), [None], ["base_score[0] is None, not a finite number"]),
        (("base_score",), [0.5, 0.5], ["node 2: scores is [1.5], not a list of 2 numbers"]),
        (("base_score",), [], ["node 2: scores is [1.5], not a list of 0 numbers"]),
        (("classes",), "ny", ["classes is 'ny', not a list"]),
        (("classes",), ["no"], ["classes must be 2 different labels, got ['no']"]),
        (("classes",), ["no", "no"], ["classes must be 2 different labels"]),
        (("classes",), ["no", 1], ["the class 1 is not what", "'U'"]),
        (("classes",), ["no", None], ["the class None"]),
        (("classes",), ["no", "perhaps"], ["['no', 'perhaps'] do not fit class_dtype '<U3'"]),
        (("class_dtype",), "<i8", ["the class 'no' is not what", "'i'"]),
        (("class_dtype",), "<f8", ["classes[0] is 'no', not a finite number", '"NaN"']),
        (("class_dtype",), "<U9999999", ["class_dtype is '<U9999999'"]),
        (("class_dtype",), "|V8", ["class_dtype is '|V8'"]),
        (("class_dtype",), None, ["class_dtype is None"]),
        (("roots",), 0, ["roots is 0, not a list"]),
        (("roots",), [0, 6], ["roots[1] is 6, not one of the 6 nodes"]),
        (("roots",), [0, -1], ["roots[1] is -1"]),
        (("roots",), [0, 5.0], ["roots[1] is 5.0"]),
        (("roots",), [0], ["0 ways lead to node 5"]),
        (("roots",), [0, 1], ["2 ways lead to node 1"]),
        (("roots",), [], ["0 ways lead to node 0"]),
        (("nodes",), {}, ["nodes is {}, not a list"]),
        (("nodes",), [], ["roots[0] is 0, not one of the 0 nodes"]),
        (SPLIT, 7, ["node 0 is 7", "a split has"]),
        (SPLIT, {}, ["node 0 is {}", "a leaf has"]),
        ((*SPLIT, "gain"), 0.5, ["node 0 is", "'gain'", "a split has"]),
        ((*SPLIT, "left"), ..., ["node 0 is", "a split has"]),
        ((*SPLIT, "left"), 6, ["node 0: left is 6, not one of the 6 nodes"]),
        ((*SPLIT, "left"), 10**30, ["node 0: left is 1000"]),
        ((*SPLIT, "left"), True, ["node 0: left is True"]),
        ((*SPLIT, "left"), 0, ["2 ways lead to node 0", "cyclic"]),
        ((*SPLIT, "right"), 1, ["2 ways lead to node 1", "shared"]),
        ((*SPLIT, "right"), None, ["node 0: right is None"]),
        ((*SPLIT, "right"), -1, ["node 0: right is -1"]),
        ((*SPLIT, "feature"), 2, ["node 0: feature is 2, not one of the 2 features"]),
        ((*SPLIT, "feature"), -1, ["node 0: feature is -1"]),
        ((*SPLIT, "feature"), 1.0, ["node 0: feature is 1.0"]),
        ((*SPLIT, "feature"), "b", ["node 0: feature is 'b'"]),
        ((*SPLIT, "threshold"), "NaN", ["node 0: threshold is 'NaN'", '"-Infinity"']),
        ((*SPLIT, "threshold"), None, ["node 0: threshold is None"]),
        ((*SPLIT, "threshold"), True, ["node 0: threshold is True"]),
        ((*SPLIT, "threshold"), 2**53 + 1, ["node 0: threshold must be a number that a double"]),
        ((*SPLIT, "missing"), "up", ["node 0: missing is 'up', not left or right"]),
        ((*SPLIT, "missing"), None, ["node 0: missing is None", "leave it out"]),
        ((*SPLIT, "missing"), {}, ["node 0: missing is {}"]),
        ((*LEAF, "leaf"), 4, ["node 2: leaf is 4, not one of the 4 leaves"]),
        ((*LEAF, "leaf"), 1, ["row of its own", "3 different rows"]),
        ((*LEAF, "leaf"), None, ["node 2: leaf is None"]),
        ((*LEAF, "scores"), 1.5, ["node 2: scores is 1.5, not a list of 1 numbers"]),
        ((*LEAF, "scores"), [], ["node 2: scores is [], not a list of 1 numbers"]),
        ((*LEAF, "scores"), ["1.5"], ["node 2: a score is '1.5', not a finite number"]),
        ((*LEAF, "scores"), ["Infinity"], ["node 2: a score is 'Infinity'"]),
        ((*LEAF, "scores"), [1e301], ["1e300"]),
        ((*LEAF, "feature"), 0, ["node 2 is", "a split has"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_in_one_line(path, value, words, tmp_path):
    file = tmp_path / "model"
    file.write_text(json.dumps(changed(path, value)))
    with refused(f"{file}: ", *words, kind=cg.ModelError):
        cg.load(file)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"tie"', '"tie": "positive", "tie"', ["'tie' twice"]),
        ('"feature": 1', '"feature": 1, "feature": 0', ["'feature' twice"]),
        ('"-Infinity"', "-Infinity", ["the word -Infinity", 'write it as "-Infinity"']),
        ('"threshold": 0.5', '"threshold": NaN', ["the word NaN"]),
        ('"threshold": 0.5', '"threshold": 1e999', ["node 0: threshold is inf"]),
        ('"threshold": 0.5', '"threshold": 0.5,,', ["is not JSON from line 20 on"]),
        ('"carvegbm-ensemble"', '"carvegbm-ensembles"', ["is JSON, but not a model"]),
        ('"carvegbm-ensemble"', "[]", ["is JSON, but not a model", "Ensemble.save"]),
    ],
)
def test_what_is_no_plain_json_of_this_format_is_refused(old, new, words, tmp_path):
    text = small_models.ENSEMBLE_JSON.decode()
    assert old in text
    (tmp_path / "model").write_text(text.replace(old, new, 1))
    with refused(*words, kind=cg.ModelError):
        cg.load(tmp_path / "model")


ANY_JSON = st.recursive(
    st.sampled_from([None, True, -1, 0, 1, 5, 2**31, 2**70, 0.5, 1e308, "", "left", "NaN", "<i8"])
    | st.sampled_from([[], {}, [1.5], {"leaf": 1, "scores": [0.5]}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(WITH_A_FOLDER, max_examples=max(400, settings().max_examples))
@given(data=st.data())
def test_document_with_anything_anywhere_is_an_ensemble_or_one_line(data, tmp_path):
    document = copy.deepcopy(SMALL)
    for _ in range(data.draw(st.integers(1, 3))):
        inner: Any = document
        while True:
            keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
            key = data.draw(st.sampled_from(keys))
            if (
                not isinstance(inner[key], dict | list)
                or not inner[key]
                or data.draw(st.booleans())
            ):
                break
            inner = inner[key]
        inner[key] = copy.deepcopy(data.draw(ANY_JSON))
    file = tmp_path / "model"
    file.write_text(json.dumps(document))
    try:
        model = cg.load(file)
    except cg.ModelError as error:
        message = str(error)
        assert "\n" not in message
        assert "the model is damaged (" not in message  # the reader names what is wrong
        assert len(message) < len(str(file)) + 400
    else:
        assert_same_fields(saved(model, tmp_path), model)


def test_cycle_apart_from_all_roots_is_refused(tmp_path):
    document = copy.deepcopy(SMALL)
    document["nodes"] += [
        {"feature": 0, "threshold": 0.5, "left": 7, "right": 8},
        {"feature": 0, "threshold": 0.5, "left": 6, "right": 9},
        {"leaf": 4, "scores": [0.0]},
        {"leaf": 5, "scores": [0.0]},
    ]
    (tmp_path / "model").write_text(json.dumps(document))
    with refused("no root leads to node 6", "cyclic", kind=cg.ModelError):
        cg.load(tmp_path / "model")


def test_collection_of_garbage_goes_on_after_a_refusal(tmp_path):
    (tmp_path / "model").write_bytes(small_models.ENSEMBLE_JSON.replace(b'"roots"', b'"tie"'))
    with refused("'tie' twice", kind=cg.ModelError):
        cg.load(tmp_path / "model")
    assert gc.isenabled()


def test_small_ensemble_of_the_other_tests_is_what_save_writes(tmp_path):
    (tmp_path / "model").write_bytes(small_models.ENSEMBLE_JSON)
    model = cg.load(tmp_path / "model")
    assert model.nodes.dtype == NODE
    model.save(tmp_path / "e.json")
    assert (tmp_path / "e.json").read_bytes() == small_models.ENSEMBLE_JSON.replace(
        b"-1e-3", b"-0.001"
    )
