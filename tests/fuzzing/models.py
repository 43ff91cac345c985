"""Formats of model files: documents of small models, how they are written, and what must hold."""

from __future__ import annotations

import json
import math
import pickle
import random
import re
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg
import carvegbm_check
from carvegbm.errors import CarveError
from carvegbm.proofs.content import model_hash
from fuzzing.mutations import (
    NotWrittenError,
    json_bytes,
    mutated,
    with_changed_bytes,
    with_changed_words,
)
from readers import small_models

MOST_FEATURES = 10_000  # of a model that rows are made for


class Format:
    """A format of model files: documents of small models, and how they are written."""

    def __init__(
        self,
        make: Callable[[], Iterator[Any]],
        write: Callable[[Any], bytes] = json_bytes,
        *,
        mutate: Callable[[Any, random.Random], Any] = mutated,
        is_read_by_checker: bool = False,
    ) -> None:
        self._make, self._write, self._mutate = make, write, mutate
        self._is_read_by_checker = is_read_by_checker

    @cached_property
    def documents(self) -> list[bytes]:
        """The documents, pickled."""
        return [pickle.dumps(document) for document in self._make()]

    def mutated(self, rng: random.Random) -> bytes:
        """The bytes of a mutated file."""
        while True:
            try:
                data = self._write(self._mutate(pickle.loads(rng.choice(self.documents)), rng))
            except (NotWrittenError, UnicodeEncodeError):
                continue
            return with_changed_bytes(data, rng) if rng.random() < 0.1 else data

    def check(self, rng: random.Random, path: Path) -> str:
        """Write a mutated file, load it and use the model."""
        path.write_bytes(self.mutated(rng))
        ensemble, result = loaded(path)
        if ensemble is not None and ensemble.n_features <= MOST_FEATURES:
            use(ensemble, path, thoroughly=rng.random() < 0.2)
        if self._is_read_by_checker:
            compare_with_checker(ensemble, path)
        return result


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
    pairs = [line.partition("=")[::2] for line in block.splitlines() if line]
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


def _catboost_documents() -> Iterator[Any]:
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
    message = onnx.ModelProto()
    try:
        return ParseDict(document, message, ignore_unknown_fields=True).SerializeToString()
    except (ParseError, AttributeError, SystemError, TypeError, ValueError) as error:
        raise NotWrittenError from error


def _ensemble_documents() -> Iterator[Any]:
    yield json.loads(small_models.ENSEMBLE_JSON)
    yield json.loads(small_models.CATEGORICAL_JSON)
    with tempfile.TemporaryDirectory() as folder:
        for model in _lightgbm_models():
            path = Path(folder) / "model.json"
            cg.load(model).save(path)
            yield json.loads(path.read_text())


def _catboost_binaries() -> Iterator[Any]:
    import catboost

    for document in _catboost_documents():
        model = catboost.CatBoost()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(json_bytes(document))
            model.load_model(str(path), format="json")
            model.save_model(str(path))
            yield path.read_bytes()


def _silva_documents() -> Iterator[Any]:
    lines = small_models.SILVA.decode().splitlines()
    yield [[_token(part) for part in line.split(" ")] for line in lines]


def _silva_bytes(document: Any) -> bytes:
    lines = [line if isinstance(line, list) else [line] for line in document]
    return "\n".join(" ".join(map(str, line)) for line in lines).encode()


# ── what must hold for a model file ──────────────────────────────────────────────────────────


def loaded(path: Path) -> tuple[cg.Ensemble | None, str]:
    """The ensemble, if the file is accepted, and the outcome."""
    try:
        return cg.load(path), "accepted"
    except cg.ModelError as error:
        check_message(str(error), path)
        return None, "refused: syntax" if _is_syntax(error) else "refused"


def check_message(message: str, path: Path) -> None:
    """One line of reasonable length that begins with the file."""
    assert message.startswith(f"{path}: "), message
    assert len(message.splitlines()) == 1, message
    assert len(message) < 1000, message
    assert "MemoryError" not in message, message


def use(ensemble: cg.Ensemble, path: Path, *, thoroughly: bool) -> None:
    """Compute scores; thoroughly: verify rows, and save and load the ensemble as well."""
    rows = np.random.default_rng(0).normal(size=(3, ensemble.n_features))
    rows[2, 1::2] = np.nan
    with _one_line_errors():
        assert np.isfinite(ensemble.raw_score(rows, threads=1)).all()
    if thoroughly:
        with _one_line_errors():
            attacker = cg.Attacker("inf", 0.1)
            cg.verify(ensemble, rows[:2], attacker=attacker, timeout=0.2, threads=1)
        saved = path.with_suffix(".json")
        with _one_line_errors():
            ensemble.save(saved)
            same = model_hash(cg.load(saved)) == model_hash(ensemble)
            assert same, "changes when saved and loaded"


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except CarveError as error:
        message = str(error)
        assert len(message.splitlines()) == 1, message


def compare_with_checker(ensemble: cg.Ensemble | None, path: Path) -> None:
    """The checker reads the same model from the file, or refuses it."""
    try:
        model = carvegbm_check.read_model(str(path), None)
    except carvegbm_check.RefusedError as error:
        check_message(str(error), path)
        return
    if ensemble is not None:
        assert model.content() == model_hash(ensemble), "the checker reads another model"


_SYNTAX = {
    *(("readers/__init__.py", name) for name in ("_bytes", "_unpacked", "_read_json")),
    *(("readers/__init__.py", name) for name in ("_read_file", "_xgboost_or_refuse")),
    *(("model/json.py", name) for name in ("parse", "_without_duplicates", "_refuse_constant")),
    *(("readers/lightgbm.py", name) for name in ("from_text", "_parsed")),
    *(("readers/xgboost.py", name) for name in ("take", "number", "length", "value")),
    *(("readers/xgboost.py", name) for name in ("container", "array", "object")),
    ("readers/onnx.py", "from_bytes"),
}


def _is_syntax(error: BaseException) -> bool:
    """Whether a file was refused before its content was looked at."""
    while error.__context__ is not None:
        error = error.__context__
    last = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "carvegbm" in frame.filename and frame.name != "require"
    ]
    if not last:
        return False
    file = "/".join(Path(last[-1].filename).parts[-2:])
    return (file, last[-1].name) in _SYNTAX


FORMATS = {
    "lightgbm-text": Format(_lightgbm_texts, lightgbm_bytes, is_read_by_checker=True),
    "xgboost-json": Format(_xgboost_documents, is_read_by_checker=True),
    "xgboost-ubj": Format(_xgboost_documents, small_models.ubjson),
    "catboost-json": Format(_catboost_documents),
    "catboost-binary": Format(_catboost_binaries, bytes, mutate=with_changed_words),
    "onnx": Format(_onnx_documents, _onnx_bytes),
    "ensemble-json": Format(_ensemble_documents, is_read_by_checker=True),
    "silva": Format(_silva_documents, _silva_bytes),
}
