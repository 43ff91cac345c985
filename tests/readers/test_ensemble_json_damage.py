"""JSON that is no ensemble of the documented format: one line names what is wrong with it."""

from __future__ import annotations

import copy
import gc
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.storage.identity import digest_of
from plain_trees import refused
from readers import small_models

SMALL = json.loads(small_models.ENSEMBLE_JSON)


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The small ensemble with what is at `path` replaced, or removed if the value is ...."""
    return small_models.replaced(SMALL, path, value)


SPLIT, LEAF = ("nodes", 0), ("nodes", 2)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("version",), 3, ["version 3", "versions 1 and 2 are read", "update carvegbm"]),
        (("version",), 2, ["lacks the field 'categories'"]),
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
        (("absent",), "nan", ["absent must be zero or missing, got 'nan'"]),
        (("absent",), 0, ["absent"]),
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


CATEGORICAL = json.loads(small_models.CATEGORICAL_JSON)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("version",), 1, ["unknown field 'categories'"]),
        (("categories",), ..., ["lacks the field 'categories'"]),
        (("category_rule",), 1, ["category_rule is 1, not a text"]),
        (("category_rule",), "round", ["category_rule must be", "'round'"]),
        (("unknown_category",), None, ["unknown_category is None"]),
        (("categories",), {}, ["categories is {}, not a list"]),
        (("categories",), [], ["categories is []", "version 1"]),
        (("categories", 0), 7, ["categories[0] is 7"]),
        (("categories", 0, "labels"), ..., ["categories[0] is", "codes and labels"]),
        (("categories", 0, "feature"), 2, ["categories[0]: feature is 2", "2 features"]),
        (("categories", 0, "feature"), True, ["categories[0]: feature is True"]),
        (("categories", 0, "feature"), 1, ["feature 1 is categorical", "threshold"]),
        (("categories", 0, "codes"), "ab", ["categories[0]: codes is 'ab', not a list"]),
        (("categories", 0, "codes"), [0, 0, 3], ["categories[0]: codes", "does not ascend"]),
        (("categories", 0, "codes"), [-1, 0, 3], ["categories[0]: codes[0] is -1"]),
        (("categories", 0, "codes"), [0, 1, 1 << 31], ["categories[0]: codes[2] is 2147483648"]),
        (("categories", 0, "codes"), [0, 1, 1 << 24], ["feature 0", "code 16777216"]),
        (("categories", 0, "codes"), [0, 1, 3.0], ["categories[0]: codes[2] is 3.0"]),
        (("categories", 0, "codes"), [0, 1], ["2 codes and 3 labels"]),
        (("categories", 0, "codes"), [0, 1, 2], ["feature 0", "lists the code 3"]),
        (("categories", 0, "labels"), ["a", None, 1], ["the category None"]),
        (("categories", 0, "labels"), ["a", "a", 1], ["feature 0", "one label"]),
        (("nodes", 0, "categories"), 0, ["node 0: categories is 0, not a list"]),
        (("nodes", 0, "categories"), [3, 0], ["node 0: categories", "does not ascend"]),
        (("nodes", 0, "categories"), ["a"], ["node 0: categories[0] is 'a'"]),
        (("nodes", 0, "categories"), [0, 2], ["feature 0", "lists the code 2"]),
        (("nodes", 0, "feature"), 1, ["feature 1", "not in categories"]),
        (("nodes", 0, "threshold"), 0.5, ["node 0 is", "a split has"]),
        (("nodes", 1, "feature"), 0, ["feature 0 is categorical", "threshold"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_categories_is_named_in_one_line(path, value, words, tmp_path):
    file = tmp_path / "model"
    file.write_text(json.dumps(small_models.replaced(CATEGORICAL, path, value)))
    with refused(f"{file}: ", *words, kind=cg.ModelError):
        cg.load(file)


def test_feature_that_is_listed_twice_is_refused(tmp_path):
    document = copy.deepcopy(CATEGORICAL)
    document["categories"] *= 2
    (tmp_path / "model").write_text(json.dumps(document))
    with refused("categories[1]: feature is 0", "each once", kind=cg.ModelError):
        cg.load(tmp_path / "model")


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


@settings(
    max_examples=max(400, settings().max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_document_with_anything_anywhere_is_an_ensemble_or_one_line(data, tmp_path):
    document = copy.deepcopy(data.draw(st.sampled_from([SMALL, CATEGORICAL])))
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
        model.save(tmp_path / "again.json")
        assert digest_of(cg.load(tmp_path / "again.json")) == digest_of(model)


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
