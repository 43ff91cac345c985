"""Mutations of the structure of model files and proofs, and what must hold for every mutated file.

A format has documents (nested dicts and lists) of a few small models, and writes a document as the
bytes of a file. `Format.mutated` changes counts, indices, signs, types, fields and arrays of one,
and sometimes bytes. The outcome of a file is one of `OUTCOMES`; anything else that `cg.load`, or a
function of the loaded model, does is an error. `readers/test_fuzz.py` checks a sample and
`tools/campaigns.py fuzz` a large number of files.
"""

from __future__ import annotations

import json
import math
import pickle
import random
import re
import traceback
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg
from carvegbm.errors import CarveError
from readers import small_models

OUTCOMES = ("accepted", "refused", "refused: syntax")
MOST_FEATURES = 10_000  # of a model that rows are made for

# ── mutations of any document ────────────────────────────────────────────────────────────────

WHOLE = [-1, -2, 0, 1, 2, 3, 7, 31, 32, 255, 256, 65_536, 1 << 24, (1 << 24) + 1, 10**6, 10**9]
WHOLE += [(1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 32, (1 << 53) + 1, 1 << 63, 10**18, 10**40]
REAL = [0.0, -0.0, 0.5, -1.5, 1e-35, 1.0000000180025095e-35, 5e-324, 1e-45, 3.4028235e38, 1e39]
REAL += [1.7e308, -1.7e308, 1e300, math.inf, -math.inf, math.nan]
ODD = [None, True, False, 0, 1, -1, 0.5, math.nan, "", "x", "1", [], {}, [0], [[1]], {"a": 1}]


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in a document, as its container and its key."""
    stack = [document]
    while stack:
        container = stack.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], dict | list):
                stack.append(container[key])


def mutated(document: Any, rng: random.Random) -> Any:
    """Change a document in one to four places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        container, key = _place(document, rng)
        value = container[key]
        what = rng.random()
        if what < 0.5:
            container[key] = _other(value, container, document, rng)
        elif what < 0.6:
            del container[key]
        elif what < 0.7:
            other, there = _place(document if rng.random() < 0.5 else container, rng)
            container[key], other[there] = other[there], value
        elif what < 0.8:
            other, there = _place(document, rng)
            container[key] = pickle.loads(pickle.dumps(other[there]))
        elif what < 0.9:
            container[key] = rng.choice(ODD)
        elif isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), value)
        else:  # the field once more, see `json_bytes`, or under another name
            container[rng.choice((f"{key}\0", f"{key}x", str(key)[:-1]))] = value
        if not document:
            break
    return document


def _place(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """A value: any with the same probability, or one found by a descent, which favours fields."""
    if rng.random() < 0.4:
        return rng.choice(list(places(document)))
    container = document
    while True:
        key = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
        value = container[key]
        if not value or not isinstance(value, dict | list) or rng.random() < 0.1:
            return container, key
        container = value


def _other(value: Any, container: Any, document: Any, rng: random.Random) -> Any:
    """A value of the same type, mostly."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value - 1, value + 1, -value, ~value, 2 * value]
        near += [rng.randrange(-2, len(container) + 2), rng.choice(WHOLE), rng.choice(WHOLE)]
        return rng.choice([*near, rng.choice(REAL)])
    if isinstance(value, float):
        near = [-value, 2 * value, value + 1, math.nextafter(value, math.inf)]
        return rng.choice([*near, rng.choice(REAL), rng.choice(REAL), rng.choice(WHOLE)])
    if isinstance(value, str):
        if re.fullmatch(r"-?\d+", value):
            return str(_other(int(value), container, document, rng))
        at = rng.randrange(len(value) + 1)
        odd = rng.choice(['"', "\n", " ", "=", "\u0001", "é", "\ud800", "\U0001f600", "x" * 300])
        return rng.choice(
            [value[:at], value[at:], value[:at] + odd + value[at:], value * 2, "", odd]
        )
    if isinstance(value, list) and value:
        some = rng.randrange(len(value) + 1)
        return rng.choice([value[:some], value[some:], value[::-1], value * 2, [value], value[:1]])
    return rng.choice(ODD)


def with_changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change, remove or repeat a few bytes."""
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(data) + 1)
        end = start + rng.choice((0, 1, 2, 8, 40))
        new = rng.choice((b"", data[start:end] * 2, rng.randbytes(rng.randint(1, 4))))
        data = data[:start] + new + data[end:]
    return data


def json_bytes(document: Any) -> bytes:
    """Write JSON; a name that ends with a null character is written without it."""
    return json.dumps(document).replace('\\u0000"', '"').encode()


# ── formats of models ────────────────────────────────────────────────────────────────────────


class Format:
    """A format of model files: documents of small models, and how they are written."""

    def __init__(
        self, make: Callable[[], Iterator[Any]], write: Callable[[Any], bytes] = json_bytes
    ) -> None:
        self._make, self._write = make, write

    @cached_property
    def documents(self) -> list[bytes]:
        """The documents, pickled."""
        return [pickle.dumps(document) for document in self._make()]

    def mutated(self, rng: random.Random) -> bytes:
        """The bytes of a mutated file."""
        while True:
            document = mutated(pickle.loads(rng.choice(self.documents)), rng)
            try:
                data = self._write(document)
            except _NOT_WRITTEN:
                continue
            return with_changed_bytes(data, rng) if rng.random() < 0.1 else data

    def check(self, rng: random.Random, path: Path) -> str:
        """Write a mutated file and check it; returns its outcome."""
        path.write_bytes(self.mutated(rng))
        return outcome(path)


class _NotWrittenError(ValueError):
    """The format cannot say this."""


_NOT_WRITTEN = (_NotWrittenError, UnicodeEncodeError)


def _lightgbm_models() -> Iterator[Any]:
    import lightgbm
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).round(2)
    X[:, 1] *= rng.random(120) < 0.6
    y = X[:, 0] + (X[:, 1] > 0) - X[:, 2] * (X[:, 0] > 0)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    codes = X.copy()
    codes[:, 0] = rng.integers(0, 40, 120)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["d"] = pd.Categorical(np.array(["red", "blue", "green", "pink"])[rng.integers(0, 4, 120)])
    shared = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 3}
    shared |= {"min_data_in_bin": 1, "deterministic": True}
    shared |= {"cat_smooth": 0.1, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    settings: list[tuple[dict[str, Any], Any, Any]] = [
        ({"objective": "binary"}, gaps, y > 0),
        ({"objective": "binary", "zero_as_missing": True}, X, y > 0),
        ({"objective": "regression"}, codes, y + (codes[:, 0] > 9)),
        ({"objective": "multiclass", "num_class": 3}, gaps, np.digitize(y, [-0.5, 0.5])),
        ({"objective": "binary", "boosting": "dart", "drop_rate": 0.9}, X, y > 0),
        ({"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
         X, y > 0),
        ({"objective": "binary"}, frame, (y > 0) ^ (frame["d"] == "red")),
    ]  # fmt: skip
    for options, rows, target in settings:
        categories = [0] if rows is codes else "auto"
        dataset = lightgbm.Dataset(rows, np.asarray(target, float), categorical_feature=categories)
        yield lightgbm.train({**shared, **options}, dataset, 2)


def _lightgbm_texts() -> Iterator[Any]:
    yield lightgbm_document(small_models.LIGHTGBM.decode())
    for booster in _lightgbm_models():
        yield lightgbm_document(booster.model_to_string())


def lightgbm_document(text: str) -> dict[str, Any]:
    """A LightGBM text: fields of the header and of every tree, and labels of categories."""
    body, _, tail = text.partition("\nend of trees")
    head, *trees = re.split(r"\n+(?=Tree=)", body)
    labels = re.search(r"^pandas_categorical:(.*)$", tail, re.M)
    document = {"head": _fields(head), "trees": [_fields(tree) for tree in trees]}
    del document["head"]["tree_sizes"]  # or any mutation of a tree would contradict it
    return document | {"labels": json.loads(labels[1]) if labels else None}


def _fields(block: str) -> dict[str, list[Any]]:
    pairs = [line.partition("=")[::2] for line in block.splitlines()]
    return {key: [_token(part) for part in value.split(" ")] for key, value in pairs}


def _token(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def lightgbm_bytes(document: Any) -> bytes:
    """Write a LightGBM text."""
    lines = [_lines(document.get("head")), ""]
    trees = document.get("trees")
    for tree in trees if isinstance(trees, list) else [trees]:
        lines += [_lines(tree), "", ""]
    lines += ["end of trees", "", f"pandas_categorical:{json.dumps(document.get('labels'))}", ""]
    return "\n".join(lines).encode()


def _lines(fields: Any) -> str:
    if not isinstance(fields, dict):
        return str(fields)
    found = []
    for key, tokens in fields.items():
        value = " ".join(map(str, tokens)) if isinstance(tokens, list) else str(tokens)
        found.append(key if key in ("tree", "average_output") else f"{key}={value}")
    return "\n".join(found).replace("\0", "")


def _lightgbm_dumps() -> Iterator[Any]:
    yield json.loads(small_models.LIGHTGBM_JSON)
    for booster in _lightgbm_models():
        yield booster.dump_model()


def _xgboost_documents() -> Iterator[Any]:
    import pandas as pd
    import xgboost

    yield json.loads(small_models.XGBOOST_JSON)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).round(2)
    y = X[:, 0] + (X[:, 1] > 0) - X[:, 2] * (X[:, 0] > 0)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["d"] = pd.Categorical(np.array(["red", "blue", "green", "pink"])[rng.integers(0, 4, 120)])
    classes = np.digitize(y, [-0.5, 0.5])
    settings: list[tuple[dict[str, Any], Any, Any]] = [
        ({"objective": "binary:logistic"}, gaps, y > 0),
        ({"objective": "multi:softprob", "num_class": 3}, X, classes),
        ({"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.9}, X, y > 0),
        ({"objective": "reg:squarederror", "num_parallel_tree": 2, "subsample": 0.5}, X, y),
        ({"objective": "binary:logistic", "max_cat_to_onehot": 1},
         frame, (y > 0) ^ (frame["d"] == "red")),
    ]  # fmt: skip
    for options, rows, target in settings:
        matrix = xgboost.DMatrix(rows, np.asarray(target, dtype=float), enable_categorical=True)
        shared = {"max_depth": 2, "nthread": 1, "seed": 0, "min_child_weight": 0}
        booster = xgboost.train({**shared, **options}, matrix, 2)
        if options["objective"] == "multi:softprob":
            booster.set_attr(best_iteration="0")
        yield json.loads(booster.save_raw("json"))


def _ubjson(document: Any) -> bytes:
    return small_models.ubjson(document)


def _catboost_documents() -> Iterator[Any]:
    import tempfile

    import catboost

    yield small_models.CATBOOST_DOCUMENT
    yield json.loads(small_models.CATBOOST_TREES_JSON)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).round(2)
    y = X[:, 0] + (X[:, 1] > 0) - X[:, 2] * (X[:, 0] > 0)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    rows = np.array(X, dtype=object)
    rows[:, 0] = np.array(["red", "blue", "3"])[rng.integers(0, 3, 120)]
    classes = np.array(["no", "yes", "maybe"])[np.digitize(y, [-0.5, 0.5])]
    settings: list[tuple[dict[str, Any], Any, Any, Any]] = [
        ({"loss_function": "Logloss", "nan_mode": "Max"}, gaps, (y > 0).astype(int), None),
        ({"loss_function": "MultiClass"}, X, classes, None),
        ({"loss_function": "RMSE", "grow_policy": "Lossguide"}, gaps, y, None),
        ({"loss_function": "RMSE", "one_hot_max_size": 9}, rows, y + (rows[:, 0] == "red"), [0]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for options, given, target, categories in settings:
            shared = {"iterations": 2, "depth": 2, "thread_count": 1, "verbose": False}
            pool = catboost.Pool(given, target, cat_features=categories)
            model = catboost.CatBoost({**shared, "allow_writing_files": False, **options})
            model.fit(pool)
            path = Path(folder) / "model.json"
            model.save_model(str(path), format="json", pool=pool)
            document = json.loads(path.read_text())
            info = document["model_info"]
            loss = {"loss_function": info["params"]["loss_function"]}
            kept = {key: info[key] for key in info.keys() & {"class_params"}}
            yield document | {"model_info": kept | {"params": loss}}


def _onnx_documents() -> Iterator[Any]:
    from google.protobuf.json_format import MessageToDict

    from readers import onnx_models

    for place, setting in enumerate(onnx_models.ALL):
        yield MessageToDict(onnx_models.SETTINGS[setting](place).model)


def _onnx_bytes(document: Any) -> bytes:
    import onnx
    from google.protobuf.json_format import ParseDict, ParseError

    stack = [document]
    while stack:
        container = stack.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            value = container[key]
            if isinstance(value, float) and not math.isfinite(value):  # as its JSON has them
                container[key] = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
            elif isinstance(value, dict | list):
                stack.append(value)
    try:
        return ParseDict(
            document, onnx.ModelProto(), ignore_unknown_fields=True
        ).SerializeToString()
    except (ParseError, AttributeError, TypeError, ValueError) as error:
        raise _NotWrittenError from error


def _ensemble_documents() -> Iterator[Any]:
    import tempfile

    yield json.loads(small_models.ENSEMBLE_JSON)
    yield json.loads(small_models.CATEGORICAL_JSON)
    with tempfile.TemporaryDirectory() as folder:
        for model in _lightgbm_models():
            path = Path(folder) / "model.json"
            cg.load(model).save(path)
            yield json.loads(path.read_text())


FORMATS = {
    "lightgbm-text": Format(_lightgbm_texts, lightgbm_bytes),
    "lightgbm-json": Format(_lightgbm_dumps),
    "xgboost-json": Format(_xgboost_documents),
    "xgboost-ubj": Format(_xgboost_documents, _ubjson),
    "catboost-json": Format(_catboost_documents),
    "onnx": Format(_onnx_documents, _onnx_bytes),
    "ensemble-json": Format(_ensemble_documents),
}


# ── what must hold for a model file ──────────────────────────────────────────────────────────


def outcome(path: Path) -> str:
    """Load a file and use the model; an AssertionError or any other exception is a finding."""
    try:
        ensemble = cg.load(path)
    except cg.ModelError as error:
        check_message(str(error), path)
        return "refused: syntax" if _is_syntax(error) else "refused"
    if ensemble.n_features > MOST_FEATURES:
        return "accepted"
    rows = np.random.default_rng(0).normal(size=(3, ensemble.n_features))
    rows[2, 1::2] = np.nan
    for use in (_score, _verify):
        try:
            use(ensemble, rows)
        except CarveError as error:
            message = str(error)
            assert "\n" not in message, message
    return "accepted"


def check_message(message: str, path: Path) -> None:
    """One line of reasonable length that begins with the file."""
    assert message.startswith(f"{path}: "), message
    assert "\n" not in message, message
    assert len(message) < len(str(path)) + 400, message
    assert "MemoryError" not in message, message


def _score(ensemble: cg.Ensemble, rows: np.ndarray) -> None:
    assert np.isfinite(ensemble.raw_score(rows, threads=1)).all()


def _verify(ensemble: cg.Ensemble, rows: np.ndarray) -> None:
    attacker = cg.Attacker("inf", 0.1)
    cg.verify(ensemble, rows[:2], attacker=attacker, timeout=0.2, threads=1)


_SYNTAX = {
    *(("readers/__init__.py", name) for name in ("_bytes", "_unpacked", "_text", "_read_json")),
    *(("readers/__init__.py", name) for name in ("_read_file", "_xgboost_or_refuse")),
    *(("readers/ensemble_json.py", name) for name in ("_without_doubles", "_refuse_constant")),
    ("readers/lightgbm.py", "from_text"),
    ("readers/lightgbm.py", "_split"),
    ("onnx/model.py", "from_bytes"),
}


def _is_syntax(error: BaseException) -> bool:
    """Whether a file was refused before its content was looked at."""
    while error.__context__ is not None:
        error = error.__context__
    last = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "carvegbm" in frame.filename
    ]
    if not last:
        return False
    file = "/".join(Path(last[-1].filename).parts[-2:])
    return file.endswith("ubjson.py") or (file, last[-1].name) in _SYNTAX
