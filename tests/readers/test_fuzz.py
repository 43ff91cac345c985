"""Mutated model files: an ensemble or one line, never another exception or a crash."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carvegbm import load
from carvegbm.errors import DataError, ModelError
from readers import small_models

TOKENS = [
    *(b"-1", b"0", b"1", b"2", b"1.5", b"9999999999", b"9" * 40, b"1e999", b"nan", b"-inf", b"_"),
    *(b"null", b"true", b"[]", b"{}", b'""', b'"x"', b"[[1]]", b"[1,2]", b'{"a":1}', b"{", b"]"),
    *(b",", b"=", b"\n", b" ", b'"', b"\xff", b"\x00", b"\x80", b"$", b"#", b"L", b"N"),
    *(b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"Tree=2\n", b"end of trees\n", b"LEAF 1 1 "),
]
PART = re.compile(rb'-?\d+(?:\.\d+)?|"[^"]*"|\[[^\[\]]*\]|\w+')


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A small model file after a few cuts, copies, insertions and replacements."""
    content = small_models.ALL[draw(st.sampled_from(sorted(small_models.ALL)))]
    for _ in range(draw(st.integers(1, 4))):
        if not content:
            break
        start = draw(st.integers(0, len(content) - 1))
        end = min(len(content), start + draw(st.sampled_from([1, 1, 2, 4, 8, 40])))
        kind = draw(st.sampled_from(["cut", "copy", "byte", "insert", "replace", "truncate"]))
        if kind == "cut":
            content = content[:start] + content[end:]
        elif kind == "copy":
            content = content[:end] + content[start:end] + content[end:]
        elif kind == "byte":
            content = content[:start] + draw(st.binary(min_size=1, max_size=4)) + content[end:]
        elif kind == "insert":
            content = content[:start] + draw(st.sampled_from(TOKENS)) + content[start:]
        elif kind == "replace":
            if part := PART.search(content, start):
                token = draw(st.sampled_from(TOKENS))
                content = content[: part.start()] + token + content[part.end() :]
        elif kind == "truncate":
            content = content[:start]
    if draw(st.integers(0, 30)) == 0:
        packed = bytearray(gzip.compress(content))
        packed[draw(st.integers(0, len(packed) - 1))] = draw(st.integers(0, 255))
        content = bytes(packed)
    return content


@settings(
    max_examples=max(600, settings().max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=mutated())
def test_a_mutated_file_is_an_ensemble_or_one_line(content, tmp_path):
    check(content, tmp_path / "model")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from([b"", b"tree\n", b"{", b"[", b"{L", b"binf", b"classifier-forest "]),
    rest=st.binary(max_size=300),
)
def test_garbage_is_refused_with_one_line(start, rest, tmp_path):
    check(start + rest, tmp_path / "model")


def check(content, path):
    path.write_bytes(content)
    try:
        ensemble, message = load(path), None
    except ModelError as error:
        ensemble, message = None, str(error)
    if ensemble is None:
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        assert len(message) < len(str(path)) + 400
        return
    if ensemble.n_features < 1000:
        try:
            raw = ensemble.raw_score(np.zeros((2, ensemble.n_features)))
        except DataError:
            return
        assert np.isfinite(raw).all()


@pytest.mark.parametrize(
    "content",
    [
        # A count beyond the file: nothing of that size may be allocated.
        small_models.SILVA.replace(b"3 2\n", b"3 999999999\n"),
        small_models.XGBOOST_JSON.replace(b'"num_class": "0"', b'"num_class": "1048576"'),
        # A negative feature, once taken for a leaf.
        small_models.LIGHTGBM.replace(b"split_feature=0 2", b"split_feature=0 -2"),
        # Whole numbers that no float can hold.
        small_models.XGBOOST_DUMP.replace(b"-0.5", b"9" * 400),
        small_models.LIGHTGBM_JSON.replace(b"-1.5", b"9" * 400),
        # Numbers where lists belong.
        small_models.XGBOOST_JSON.replace(b"[0, 0, 0]", b"7"),
        small_models.XGBOOST_JSON.replace(b'["a", "b"]', b"7"),
        # A name of the objective that is no text.
        small_models.XGBOOST_BINARY.replace(b"binary:logistic", b"binary:\xff\xffgistic"),
        # Numbers and widths beyond what is held.
        small_models.ENSEMBLE_JSON.replace(b"0.125", b"9" * 400),
        small_models.ENSEMBLE_JSON.replace(b"<U3", b"<U9999999"),
        # A key that is no text.
        small_models.XGBOOST_UBJSON.replace(b"attributes", b"attri\xffutes"),
    ],
)
def test_what_the_fuzzer_found(content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelError, match=r"^((?!the model is damaged).)*$"):
        load(tmp_path / "model")
