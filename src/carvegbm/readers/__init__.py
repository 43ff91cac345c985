"""Model readers: whatever the user has, an `Ensemble` comes out.

A file is recognised by its content, never by its name. An object is recognised by the package its
class comes from, so that no library is imported that the user has not imported already.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers import (
    catboost,
    ensemble_json,
    lightgbm,
    onnx,
    silva,
    sklearn,
    xgboost,
)
from carvegbm.readers.checks import Classes
from carvegbm.readers.ubjson import decode, is_ubjson
from carvegbm.trees.iterations import IterationRange, checked_range, refuse_range

__all__ = ["lightgbm_text", "load", "xgboost_json"]

_FORMATS = (
    "LightGBM text, XGBoost JSON or UBJSON, CatBoost JSON or .cbm, ONNX, a .silva forest, or JSON "
    "that Ensemble.save wrote"
)
_REMEDY = (
    "save the model with save_model, or convert the file with old_formats of carvegbm-experiments"
)
_LIGHTGBM_TEXT = (b"tree\n", b"tree\r\n")
_KEYS = [{"format", "roots"}, {"learner", "Model"}, {"tree_info"}, {"features_info"}]
"""Top-level fields that identify each JSON format."""
_UNPACKED = 1 << 26  # bytes of any gzipped file
_RATIO = 100  # bytes per byte of a larger one
_LONG = 600  # characters of a message
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


def load(
    source: Any,
    *,
    classes: Classes = None,
    n_features: int | None = None,
    iteration_range: int | str | tuple[int, int] | None = None,
) -> Ensemble:
    """Read a model.

    Parameters
    ----------
    source : path, Booster, estimator or Ensemble
        A file (also gzipped): LightGBM text; XGBoost JSON or UBJSON; CatBoost JSON or `.cbm`; ONNX;
        a `.silva` forest; JSON that `Ensemble.save` wrote. Or a LightGBM or XGBoost Booster or
        estimator, a CatBoost model, an ONNX ModelProto, or a scikit-learn tree, forest,
        GradientBoosting or HistGradientBoosting estimator. An Ensemble is returned as it is, or
        with the `classes` given.
    classes : sequence, optional
        The class labels, in the order of the model's outputs; default: those of the estimator, or
        0, 1, …. Two labels make a classifier of a model with one output and no objective that says
        so (a custom objective, a regression on -1 and 1): the second class iff raw score >= 0.
    n_features : int, optional
        The number of columns of the data, for ONNX models that do not name it; any other model must
        have as many.
    iteration_range : "best", "all", int or (0, int), optional
        Which boosting iterations of a LightGBM, XGBoost or CatBoost model to use: those up to the
        best one on the validation data, all, or the first N. By default those that the model's own
        `predict` uses; for a file, those that its library's estimator uses. If some are not used,
        or if fewer are known to be better, `repr` and every result say so.

    Returns
    -------
    Ensemble
        Its raw score equals the source library's own raw prediction.

    Raises
    ------
    ModelError
        The model cannot be read, or cannot be represented exactly (linear leaves, a feature that is
        a number here and a category there, …): one line that names the file, the tree and the
        feature.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> load(DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"]))
    <Ensemble: multiclass, 1 trees, 2 leaves, 1 features, 2 classes, float32 inputs>
    """
    chosen = checked_range(iteration_range)
    trained = getattr(source, "ensemble_", source)  # our own estimators carry theirs
    name = type(source).__name__
    read: Callable[[], Ensemble]
    if isinstance(trained, Ensemble):
        read = partial(_relabelled, trained, classes, chosen)
    elif isinstance(source, (str, os.PathLike)):
        name = os.fsdecode(source)
        read = partial(_read_file, name, classes, n_features, chosen)
    else:
        read = partial(_read_object, _reader_of(source), source, classes, n_features, chosen)
    try:
        ensemble = read()
        if n_features not in (None, ensemble.n_features):
            raise ModelError(f"has {ensemble.n_features} features, not n_features={n_features}")
        return ensemble
    except ModelError as error:
        raise ModelError(_one_line(name, str(error))) from None
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ModelError(_one_line(name, f"the model is damaged ({what[:200]})")) from error


def _relabelled(ensemble: Ensemble, classes: Classes, chosen: IterationRange) -> Ensemble:
    refuse_range(chosen)
    return ensemble if classes is None else ensemble.with_classes(classes)


def _reader_of(source: Any) -> Callable[..., Ensemble]:
    packages = {ancestor.__module__.split(".")[0] for ancestor in type(source).__mro__}
    if "lightgbm" in packages:
        return lightgbm.from_estimator
    if "xgboost" in packages:
        return xgboost.from_estimator
    if "catboost" in packages:
        return catboost.from_estimator
    if "onnx" in packages:
        return onnx.from_model
    if "sklearn" in packages:
        return sklearn.from_estimator
    raise ModelError(
        f"cannot read a model from {type(source).__module__}.{type(source).__qualname__}; pass a "
        "path, or a LightGBM, XGBoost, CatBoost, scikit-learn or ONNX model"
    )


def _read_object(
    reader: Callable[..., Ensemble],
    source: Any,
    classes: Classes,
    n_features: int | None,
    chosen: IterationRange,
) -> Ensemble:
    if reader in (onnx.from_model, sklearn.from_estimator):
        refuse_range(chosen)
        return reader(source, classes, *([n_features] if reader is onnx.from_model else []))
    return reader(source, classes, chosen)


def _read_file(
    name: str, classes: Classes, n_features: int | None, chosen: IterationRange
) -> Ensemble:
    data = _bytes(name)
    start = data[:512].lstrip()
    if is_ubjson(data):
        return _xgboost_or_refuse(decode(data), classes, chosen)
    if start[:1] in (b"{", b"["):
        return _read_json(_text(data), classes, chosen)
    if start.startswith(_LIGHTGBM_TEXT):
        return lightgbm.from_text(_text(data).lstrip(), classes, chosen)
    if start.startswith((b"classifier-forest", b"classifier-decision-tree")):
        refuse_range(chosen)
        return silva.from_text(_text(data), classes)
    if catboost.is_binary(data):
        return catboost.from_binary(data, classes, chosen)
    if _is_xgboost_binary(data):
        raise ModelError(f"has XGBoost's old binary format, which is not read; {_REMEDY}")
    if onnx.is_model(data):
        refuse_range(chosen)
        return onnx.from_bytes(data, classes, n_features)
    if _is_pickle(data):
        raise ModelError(
            "is a pickle, which may run any code when it is opened; "
            "load it yourself and pass the estimator"
        )
    if start.startswith((b"booster[", b"0:[", b"0:leaf")):
        raise ModelError(
            "is an XGBoost dump as text, which rounds its numbers; save the model with save_model"
        )
    raise ModelError(f"is not a model that can be read; pass {_FORMATS}")


def lightgbm_text(name: str) -> str | None:
    """The text of a LightGBM model file, also of a gzipped one; None for a file of another kind."""
    data = _bytes(name).lstrip()
    return _text(data) if data.startswith(_LIGHTGBM_TEXT) else None


def xgboost_json(name: str) -> bytes | None:
    """Return the content of an XGBoost JSON file, also a gzipped one; None for any other file."""
    data = _bytes(name)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(document, dict) and "learner" in document else None


def _is_pickle(data: bytes) -> bool:
    """Whether the bytes begin as `pickle` writes them, or as `joblib` does when it compresses."""
    if data[:1] == b"x":
        try:
            data = zlib.decompressobj().decompress(data, 64)
        except zlib.error:
            return False
    return data.startswith((b"\x80", b"ccopy_reg\n", b"ccopyreg\n"))


def _is_xgboost_binary(data: bytes) -> bool:
    """Whether the name of an objective stands behind the header of XGBoost's old format."""
    kinds = (b"binary:", b"count:", b"multi:", b"rank:", b"reg:", b"survival:")
    return data.startswith(b"binf") or data[144:160].startswith(kinds)


def _bytes(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            data = file.read()
        if data[:2] == b"\x1f\x8b":
            data = _unpacked(data)
    except FileNotFoundError:
        raise ModelError("no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ModelError(f"cannot be unpacked ({error}); the file is damaged") from None
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from None
    if not data.strip():
        raise ModelError("the file is empty")
    return data


def _unpacked(data: bytes) -> bytes:
    """Return the content of a gzipped file; refuse a small file that unpacks to too much."""
    most = max(_UNPACKED, _RATIO * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise ModelError(f"unpacks to more than {most >> 20} MB; unpack it and pass that file")
    return found


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"byte {error.start} is not UTF-8 text; the file is damaged") from None


def _read_json(text: str, classes: Classes, chosen: IterationRange) -> Ensemble:
    try:
        document = ensemble_json.parse(text)
    except ModelError:
        raise
    except json.JSONDecodeError as error:
        raise ModelError(
            f"is not JSON from line {error.lineno} on ({error.msg}); the file is damaged"
        ) from None
    except RecursionError:
        raise ModelError("is nested too deeply to be read; save it in another format") from None
    except ValueError:  # a whole number of thousands of digits
        raise ModelError("holds a number beyond all bounds; the file is damaged") from None
    if isinstance(document, list):
        raise ModelError(f"is JSON, but not a model; if it is an XGBoost dump of trees: {_REMEDY}")
    if isinstance(document, dict) and sum(map(bool, map(document.keys().__and__, _KEYS))) > 1:
        raise ModelError("has the fields of several formats; programs may read different models")
    if ensemble_json.is_ensemble(document):
        refuse_range(chosen)
        return ensemble_json.from_document(document, classes)
    if "tree_info" in document:
        raise ModelError(f"is what LightGBM's dump_model returns, which is not read; {_REMEDY}")
    if catboost.is_document(document):
        return catboost.from_document(document, classes, chosen)
    return _xgboost_or_refuse(document, classes, chosen)


def _xgboost_or_refuse(document: Any, classes: Classes, chosen: IterationRange) -> Ensemble:
    if not isinstance(document, dict) or not document.keys() & {"learner", "Model"}:
        raise ModelError(f"is JSON, but not a model that can be read; pass {_FORMATS}")
    return xgboost.from_document(document, classes, chosen)


def _one_line(name: str, message: str) -> str:
    """Join name and message in one line; shorten a long message to its beginning and end."""
    if len(message) > _LONG:
        message = f"{message[: _LONG // 2]} … {message[-_LONG // 2 :]}"
    return " ".join(f"{name}: {message}".splitlines())
