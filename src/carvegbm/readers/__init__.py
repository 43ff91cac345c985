"""Read models: `load` converts files and fitted models of other libraries to an `Ensemble`.

A file is recognised by its content, never by its name. An object is recognised by the package of
its class, so that no library is imported that the user has not imported already.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from typing import Any

import numpy as np

from carvegbm.errors import ModelError, shown
from carvegbm.model import json as ensemble_json
from carvegbm.model.ensemble import Ensemble, IterationRange
from carvegbm.readers import catboost, lightgbm, onnx, silva, sklearn, xgboost
from carvegbm.readers.common import Classes

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
_BOOSTED = {
    "lightgbm": lightgbm.from_estimator,
    "xgboost": xgboost.from_estimator,
    "catboost": catboost.from_estimator,
}
_UNPACKED = 1 << 26  # bytes of any gzipped file
_RATIO = 100  # bytes per byte of a larger one
_LONG = 600  # most characters of a message
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)
"""Exceptions by which readers meet damaged content."""


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
    requested = _checked_range(iteration_range)
    trained = getattr(source, "ensemble_", source)  # an estimator of carvegbm
    is_file = isinstance(source, str | os.PathLike)
    family = "" if is_file or isinstance(trained, Ensemble) else _family_of(source)
    name = os.fsdecode(source) if is_file else type(source).__name__
    try:
        if isinstance(trained, Ensemble):
            _refuse_range(requested)
            ensemble = trained if classes is None else trained.with_classes(classes)
        elif is_file:
            ensemble = _read_file(name, classes, n_features, requested)
        else:
            ensemble = _read_object(family, source, classes, n_features, requested)
        if n_features not in (None, ensemble.n_features):
            raise ModelError(f"has {ensemble.n_features} features, not n_features={n_features}")
        return ensemble
    except ModelError as error:
        raise ModelError(_one_line(name, str(error))) from None
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ModelError(_one_line(name, f"the model is damaged ({what[:200]})")) from error


def _checked_range(given: Any) -> IterationRange:
    """Check `iteration_range`: None, "best", "all", N, or (0, N)."""
    requested = given
    if isinstance(requested, tuple | list) and len(requested) == 2 and requested[0] == 0:
        requested = requested[1]
    if requested is None or (isinstance(requested, str) and requested in ("best", "all")):
        return requested  # type: ignore[return-value]
    is_whole = isinstance(requested, int | np.integer) and not isinstance(requested, bool)
    if not is_whole or requested < 1:
        raise ModelError(
            "iteration_range must be 'best', 'all', a whole number N >= 1, or (0, N), "
            f"got {shown(given)}"
        )
    return int(requested)


def _refuse_range(requested: IterationRange) -> None:
    """Refuse a choice of iterations for a model that stores none."""
    if requested not in (None, "best"):
        raise ModelError(
            f"has no iterations to choose from; leave out iteration_range (--trees) {requested}"
        )


def _family_of(source: Any) -> str:
    """Return the package of an object's class, or of an ancestor of it."""
    packages = {ancestor.__module__.split(".")[0] for ancestor in type(source).__mro__}
    for family in (*_BOOSTED, "onnx", "sklearn"):
        if family in packages:
            return family
    raise ModelError(
        f"cannot read a model from {type(source).__module__}.{type(source).__qualname__}; pass a "
        "path, or a LightGBM, XGBoost, CatBoost, scikit-learn or ONNX model"
    )


def _read_object(
    family: str, source: Any, classes: Classes, n_features: int | None, requested: IterationRange
) -> Ensemble:
    if family in _BOOSTED:
        return _BOOSTED[family](source, classes, requested)
    _refuse_range(requested)
    if family == "onnx":
        return onnx.from_model(source, classes, n_features)
    return sklearn.from_estimator(source, classes)


def _read_file(
    name: str, classes: Classes, n_features: int | None, requested: IterationRange
) -> Ensemble:
    data = _bytes(name)
    start = data[:512].lstrip()
    if xgboost.is_ubjson(data):
        return _xgboost_or_refuse(xgboost.decode_ubjson(data), classes, requested)
    if start[:1] in (b"{", b"["):
        return _read_json(data.decode("utf-8"), classes, requested)
    if start.startswith(_LIGHTGBM_TEXT):
        return lightgbm.from_text(data.decode("utf-8").lstrip(), classes, requested)
    if start.startswith((b"classifier-forest", b"classifier-decision-tree")):
        _refuse_range(requested)
        return silva.from_text(data.decode("utf-8"), classes)
    if catboost.is_binary(data):
        return catboost.from_binary(data, classes, requested)
    if _is_xgboost_binary(data):
        raise ModelError(f"has XGBoost's old binary format, which is not read; {_REMEDY}")
    if onnx.is_model(data):
        _refuse_range(requested)
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


def _read_json(text: str, classes: Classes, requested: IterationRange) -> Ensemble:
    document = ensemble_json.parse(text)
    if isinstance(document, list):
        raise ModelError(f"is JSON, but not a model; if it is an XGBoost dump of trees: {_REMEDY}")
    if isinstance(document, dict) and sum(map(bool, map(document.keys().__and__, _KEYS))) > 1:
        raise ModelError("has the fields of several formats; programs may read different models")
    if ensemble_json.is_ensemble(document):
        _refuse_range(requested)
        return ensemble_json.from_document(document, classes)
    if "tree_info" in document:
        raise ModelError(f"is what LightGBM's dump_model returns, which is not read; {_REMEDY}")
    if catboost.is_document(document):
        return catboost.from_document(document, classes, requested)
    return _xgboost_or_refuse(document, classes, requested)


def _xgboost_or_refuse(document: Any, classes: Classes, requested: IterationRange) -> Ensemble:
    if not isinstance(document, dict) or not document.keys() & {"learner", "Model"}:
        raise ModelError(f"is JSON, but not a model that can be read; pass {_FORMATS}")
    return xgboost.from_document(document, classes, requested)


def lightgbm_text(name: str) -> str | None:
    """Return the text of a LightGBM model file, also a gzipped one; None for any other file."""
    data = _bytes(name).lstrip()
    return data.decode("utf-8") if data.startswith(_LIGHTGBM_TEXT) else None


def xgboost_json(name: str) -> bytes | None:
    """Return the content of an XGBoost JSON file, also a gzipped one; None for any other file."""
    data = _bytes(name)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(document, dict) and "learner" in document else None


def _is_pickle(data: bytes) -> bool:
    """Return whether the bytes begin as `pickle` writes them, or `joblib` when it compresses."""
    if data[:1] == b"x":
        try:
            data = zlib.decompressobj().decompress(data, 64)
        except zlib.error:
            return False
    return data.startswith((b"\x80", b"ccopy_reg\n", b"ccopyreg\n"))


def _is_xgboost_binary(data: bytes) -> bool:
    """Return whether an objective follows the header of XGBoost's old format."""
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


def _one_line(name: str, message: str) -> str:
    """Join name and message in one line, and cut the middle of a long message."""
    if len(message) > _LONG:
        message = f"{message[: _LONG // 2]} … {message[-_LONG // 2 :]}"
    return " ".join(f"{name}: {message}".splitlines())
