"""Fingerprints: the same for the same values, another for anything else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from carvegbm.model.ensemble import _FIELDS, fields_of
from carvegbm.storage.identity import digest_of, sha256_of
from plain_trees import ensemble, leaf, split, stump

DIFFERENT = [
    None,
    "None",
    True,
    1,
    1.0,
    "1",
    0.0,
    -0.0,
    float("nan"),
    Fraction(1, 2),
    Fraction(1, 3),
    Fraction(1),
    "1/2",
    "",
    b"",
    b"1",
    [],
    {},
    set(),
    {1, 2},
    {1, (1, 2)},
    [1],
    [[1]],
    [1, 2],
    [[1], 2],
    [1, [2]],
    ["ab", "c"],
    ["a", "bc"],
    {1: 2},
    {"1": 2},
    {2: 1},
    np.array([1, 2]),
    np.array([1, 2], dtype=np.int32),
    np.array([1.0, 2.0]),
    np.array([1.0, 2.0], dtype=np.float32),
    np.array([[1.0, 2.0]]),
    np.array([[1.0], [2.0]]),
    np.array([1, 2], dtype=object),
    np.array(["1", "2"]),
    np.array([(1, 2)], dtype=[("a", "<i4"), ("b", "<i4")]),
    np.array([(1, 2)], dtype=[("b", "<i4"), ("a", "<i4")]),
    np.arange(10_000),
    np.where(np.arange(10_000) == 5_000, 0, np.arange(10_000)),
    pd.Series([1, 2]),
    pd.Series([1, 2], index=["a", "b"]),
    pd.DataFrame({"a": [1, 2]}),
    pd.DataFrame({"b": [1, 2]}),
    ensemble(stump(0, 0.5)),
]


def test_different_values_have_different_fingerprints():
    for one, other in combinations(DIFFERENT, 2):
        assert digest_of(one) != digest_of(other), (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((1, 2), [1, 2]),
        pytest.param({1, "a", 2.5}, frozenset([2.5, "a", 1]), id="sets"),
        (np.float64(0.1), 0.1),
        (np.array([[1.0, 2.0], [3.0, 4.0]]).T, np.array([[1.0, 3.0], [2.0, 4.0]])),
        (np.arange(6)[::2], np.array([0, 2, 4])),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2]}, index=[5, 6])),
        (ensemble(stump(0, 0.5)), ensemble(stump(0, 0.5))),
    ],
    ids=str,
)
def test_the_same_values_have_the_same_fingerprint(one, other):
    assert digest_of(one) == digest_of(other)


CHANGES = {
    "nodes": ensemble(stump(0, 0.25), n_features=2),
    "scores": ensemble(stump(0, 0.5, -1.0, 2.0), n_features=2),
    "base_score": ensemble(stump(0, 0.5), n_features=2, base_score=1.0),
    "threshold": ensemble(stump(0, 0.5), n_features=2, threshold=1.0),
    "n_features": ensemble(stump(0, 0.5), n_features=3),
    "task": ensemble(stump(0, 0.5), n_features=2, task="regression"),
    "classes": ensemble(stump(0, 0.5), n_features=2, classes=["0", "1"]),
    "feature_names": ensemble(stump(0, 0.5), n_features=2, feature_names=["a", "b"]),
    "link": ensemble(stump(0, 0.5), n_features=2, link="logistic"),
    "link_scale": ensemble(stump(0, 0.5), n_features=2, link_scale=2.0),
    "average": ensemble(stump(0, 0.5), n_features=2, average=2),
    "input_precision": ensemble(stump(0, 0.5), n_features=2, input_precision="float32"),
    "sum_precision": ensemble(stump(0, 0.5), n_features=2, sum_precision="float32"),
    "absent": ensemble(stump(0, 0.5), n_features=2, absent="missing"),
    "missing": ensemble(stump(0, 0.5, missing="left"), n_features=2),
    "roots": ensemble(stump(0, 0.5), leaf(0.0), n_features=2),
    "deeper": ensemble(split(0, 0.5, leaf(-1.0), stump(1, 0.5)), n_features=2),
}


def test_every_field_of_an_ensemble_tells():
    models = {"none": ensemble(stump(0, 0.5), n_features=2), **CHANGES}
    for one, other in combinations(models, 2):
        assert digest_of(models[one]) != digest_of(models[other]), (one, other)
    assert list(fields_of(models["none"])) == list(_FIELDS)
    swapped = ensemble(stump(0, 0.5), n_features=2, feature_names=["b", "a"])
    assert digest_of(swapped) != digest_of(CHANGES["feature_names"])


def test_fingerprint_is_that_of_another_process_unless_the_kind_is_unknown():
    program = (
        "from carvegbm.storage.identity import digest_of\n"
        "print(digest_of({'a': [1, 'x', None], 'b': 0.1}), digest_of(len))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert printed[0] == digest_of({"b": 0.1, "a": [1, "x", None]})
    assert printed[1] != digest_of(len)
    assert digest_of(len) == digest_of(len)


def test_bytes_have_the_digest_that_everyone_computes():
    assert sha256_of([]) == hashlib.sha256().hexdigest()
    pieces = [b"one", memoryview(b"two"), b""]
    assert sha256_of(pieces) == hashlib.sha256(b"onetwo").hexdigest()
