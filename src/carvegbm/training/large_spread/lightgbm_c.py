"""LightGBM's C interface: a Dataset of codes that is overwritten between rounds, and a Booster.

`CodeTable` is a Dataset that is never marked as finished. LightGBM's streaming interface
(LGBM_DatasetPushRowsByCSR) writes into the bins of such a Dataset, and a Booster that builds its
histograms column by column reads the bins anew for every tree. Overwriting the codes of closed
thresholds between rounds therefore lets one Booster train all trees. This is exact because

- code c is bin c: the sample that LightGBM makes bins from holds every code once;
- every feature has at least 17 bins: LightGBM packs fewer into half bytes when it finishes a
  Dataset, and this one never is;
- codes only grow when they are overwritten: LightGBM does not write bin 0;
- histograms are built by column (force_col_wise), without bundles: row-wise ones use a copy.

LightGBM does not document any of it, so `check_scores` compares its scores with those of the trees.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from lightgbm.basic import _LIB, _param_dict_to_str

from carvegbm.errors import CarveError
from carvegbm.model.ensemble import Ensemble
from carvegbm.training.dataset import spaced_rows
from carvegbm.training.model import objective_of

__all__ = ["BinLayout", "CodeTable", "RawBooster", "check_scores", "disagreement", "refusal"]

Floats = npt.NDArray[np.float64]

_FLOAT32, _FLOAT64, _INT32 = 0, 1, 2
_TABLE_PARAMETERS: dict[str, Any] = {
    "enable_bundle": False,
    "feature_pre_filter": False,
    "force_col_wise": True,
    "is_enable_sparse": False,
    "min_data_in_bin": 1,
    "use_missing": False,
    "verbosity": -1,
}
_MIN_BINS = 17
_PUSHED_ROWS = 1 << 14
_MERGED_CELLS = 1 << 23  # per block; bounds the memory of a merge
_TOLERANCE = 1e-9  # relative, of the objective's conversion; a row in another leaf is off by more
_LOG_OBJECTIVES = ("poisson", "gamma", "tweedie")


def refusal(message: str) -> CarveError:
    """Return LightGBM's error as one line, without its source location."""
    reason = message.split("\n")[0].split(" at /")[0]
    return CarveError(f"LightGBM refused to train: {reason}")


def disagreement(what: str) -> CarveError:
    """Return the error for results that LightGBM cannot have if it saw the rows given to it."""
    from lightgbm import __version__

    return CarveError(
        f"LightGBM {__version__} {what}: it did not train on the rows it was given; train with "
        "another version of LightGBM"
    )


def _call(name: str, *arguments: Any) -> None:
    if getattr(_LIB, name)(*arguments) != 0:
        raise refusal(_LIB.LGBM_GetLastError().decode("utf-8"))


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@dataclass(frozen=True)
class BinLayout:
    """How LightGBM has to bin the codes of every feature.

    Attributes
    ----------
    n_codes : sequence of int
        Number of codes per feature; a feature with one code is left out of training.
    missing : set of features
        Their last code stands for missing values, which LightGBM gets as NaN.
    categorical : set of features
        Their codes from 1 on are categories without an order; code 0 is none of them (NaN).
    max_cat_to_onehot : int
        As in LightGBM: with fewer categories, a split singles one out.
    """

    n_codes: Sequence[int]
    missing: frozenset[int] = frozenset()
    categorical: frozenset[int] = frozenset()
    max_cat_to_onehot: int = 4

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the Dataset and the Booster."""
        found = {**_TABLE_PARAMETERS, "use_missing": bool(self.missing)}
        if self.categorical:
            found["categorical_feature"] = sorted(self.categorical)
            found["max_cat_to_onehot"] = self._most_onehot_bins
        return found

    @property
    def _most_onehot_bins(self) -> int:
        """The most bins of a feature whose categories are singled out.

        LightGBM tells these features by their number of bins, which `_MIN_BINS` raises; the other
        categorical features are given more bins than this.
        """
        return max(_MIN_BINS + 1, self.max_cat_to_onehot + 2)

    def sample(self, feature: int) -> Floats:
        """Return values from which LightGBM makes one bin per code; it adds a zero itself.

        LightGBM may leave out the rarest category: real ones occur twice, a dummy once.
        """
        n_codes = self.n_codes[feature]
        if n_codes <= 1:
            return np.empty(0)
        if feature in self.categorical:
            is_small = n_codes <= self.max_cat_to_onehot
            n_bins = max(n_codes + 1, _MIN_BINS if is_small else self._most_onehot_bins + 1)
            real, dummies = np.arange(1.0, n_codes), np.arange(float(n_codes), n_bins)
            return np.concatenate([np.repeat(real, 2), dummies])
        if feature in self.missing:
            return np.append(np.arange(1.0, max(_MIN_BINS, n_codes - 1)), np.nan)
        return np.arange(1.0, max(_MIN_BINS, n_codes))


class CodeTable:
    """Rows of codes that LightGBM trains on and that can be merged between rounds.

    Parameters
    ----------
    codes : array (n, d), column-major
        Kept, and overwritten by `merge`.
    layout : BinLayout
    threads : int
    """

    def __init__(self, codes: npt.NDArray[Any], layout: BinLayout, threads: int) -> None:
        self.codes = codes
        self.parameters = layout.parameters
        self.handle = ctypes.c_void_p()
        samples = [layout.sample(feature) for feature in range(len(layout.n_codes))]
        most = max([_MIN_BINS, *(len(sample) + 1 for sample in samples)])
        places = np.arange(most, dtype=np.int32)
        counts = np.array([len(sample) for sample in samples], dtype=np.int32)
        columns = (ctypes.c_void_p * len(samples))(*[sample.ctypes.data for sample in samples])
        indices = (ctypes.c_void_p * len(samples))(*[places.ctypes.data] * len(samples))
        parameters = {**self.parameters, "max_bin": most, "num_threads": threads}
        _call(
            "LGBM_DatasetCreateFromSampledColumn",
            columns,
            indices,
            ctypes.c_int32(len(samples)),
            _pointer(counts),
            ctypes.c_int32(most),
            ctypes.c_int32(len(codes)),
            ctypes.c_int64(len(codes)),
            ctypes.c_char_p(_param_dict_to_str(parameters).encode()),
            ctypes.byref(self.handle),
        )
        _call("LGBM_DatasetSetWaitForManualFinish", self.handle, ctypes.c_int(1))
        for first in range(0, len(codes), _PUSHED_ROWS):
            rows = np.ascontiguousarray(codes[first : first + _PUSHED_ROWS], dtype=np.float32)
            for feature in layout.missing:
                rows[rows[:, feature] == layout.n_codes[feature] - 1, feature] = np.nan
            for feature in layout.categorical:
                rows[rows[:, feature] == 0, feature] = np.nan
            _call(
                "LGBM_DatasetPushRows",
                self.handle,
                _pointer(rows),
                ctypes.c_int(_FLOAT32),
                ctypes.c_int32(rows.shape[0]),
                ctypes.c_int32(rows.shape[1]),
                ctypes.c_int32(first),
            )

    def set_field(self, name: str, values: npt.ArrayLike) -> None:
        """Set "label", "weight" or "init_score": one number per row, or none."""
        is_double = name == "init_score"
        array = np.ascontiguousarray(values, dtype=np.float64 if is_double else np.float32)
        _call(
            "LGBM_DatasetSetField",
            self.handle,
            ctypes.c_char_p(name.encode()),
            _pointer(array) if len(array) else None,
            ctypes.c_int(len(array)),
            ctypes.c_int(_FLOAT64 if is_double else _FLOAT32),
        )

    def merge(self, merged: Mapping[int, npt.NDArray[np.integer[Any]]]) -> None:
        """Replace code c of feature f by merged[f][c] >= c, for every feature f given."""
        from scipy import sparse

        features = np.array(sorted(merged), dtype=np.int32)
        n_rows = max(1, _MERGED_CELLS // max(1, len(features)))
        for first in range(0, len(self.codes) if merged else 0, n_rows):
            codes = self.codes[first : first + n_rows]
            rows: list[npt.NDArray[np.int64]] = []
            values: list[npt.NDArray[Any]] = []
            for feature in features:
                column, new = codes[:, feature], merged[feature].astype(codes.dtype)
                moved = np.flatnonzero((new != np.arange(len(new)))[column])
                column[moved] = new[column[moved]]
                rows.append(moved)
                values.append(column[moved])
            ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
            if ends[-1] == 0:
                continue
            data = np.concatenate(values).astype(np.float32)
            indices = np.concatenate(rows).astype(np.int32)
            shape = len(codes), len(features)
            by_row = sparse.csc_matrix((data, indices, ends), shape=shape).tocsr()
            columns = features[by_row.indices]
            _call(
                "LGBM_DatasetPushRowsByCSR",
                self.handle,
                _pointer(by_row.indptr),
                ctypes.c_int(_INT32),
                _pointer(columns),
                _pointer(by_row.data),
                ctypes.c_int(_FLOAT32),
                ctypes.c_int64(len(by_row.indptr)),
                ctypes.c_int64(len(by_row.data)),
                ctypes.c_int64(self.codes.shape[1]),
                ctypes.c_int64(first),
            )

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            _LIB.LGBM_DatasetFree(self.handle)


class RawBooster:
    """A LightGBM Booster on a `CodeTable`; its thresholds are codes.

    Parameters
    ----------
    table : CodeTable
        Kept alive as long as the booster.
    parameters : mapping
    """

    def __init__(self, table: CodeTable, parameters: Mapping[str, Any]) -> None:
        self._table = table
        self._handle = ctypes.c_void_p()
        self._buffer = ctypes.create_string_buffer(1 << 20)
        _call(
            "LGBM_BoosterCreate", table.handle, self._text(parameters), ctypes.byref(self._handle)
        )

    def _text(self, parameters: Mapping[str, Any]) -> ctypes.c_char_p:
        return ctypes.c_char_p(
            _param_dict_to_str({**parameters, **self._table.parameters}).encode()
        )

    def reset(self, parameters: Mapping[str, Any]) -> None:
        """Change learning parameters for the next rounds."""
        _call("LGBM_BoosterResetParameter", self._handle, self._text(parameters))

    def grow(
        self,
        gradients: npt.NDArray[np.float32] | None = None,
        hessians: npt.NDArray[np.float32] | None = None,
    ) -> bool:
        """Grow a tree, on the objective's gradients or those given; return False if none splits."""
        finished = ctypes.c_int(0)
        if gradients is None or hessians is None:
            _call("LGBM_BoosterUpdateOneIter", self._handle, ctypes.byref(finished))
        else:
            _call(
                "LGBM_BoosterUpdateOneIterCustom",
                self._handle,
                _pointer(gradients),
                _pointer(hessians),
                ctypes.byref(finished),
            )
        return finished.value == 0

    @property
    def n_trees(self) -> int:
        """Number of trees, including the constant one of a first round without a split."""
        count = ctypes.c_int(0)
        _call("LGBM_BoosterNumberOfTotalModel", self._handle, ctypes.byref(count))
        return count.value

    def training_scores(self) -> Floats:
        """Return LightGBM's score of every training row, converted by its objective."""
        scores = np.empty(len(self._table.codes))
        length = ctypes.c_int64(0)
        training = ctypes.c_int(0)
        _call("LGBM_BoosterGetNumPredict", self._handle, training, ctypes.byref(length))
        if length.value != len(scores):
            raise disagreement(f"has {length.value} scores for {len(scores)} training rows")
        _call(
            "LGBM_BoosterGetPredict",
            self._handle,
            training,
            ctypes.byref(length),
            _pointer(scores),
        )
        return scores

    def text(self, first_tree: int = 0, n_trees: int = -1) -> str:
        """Return the model text with `n_trees` trees from `first_tree` on."""
        length = ctypes.c_int64(0)
        while True:
            _call(
                "LGBM_BoosterSaveModelToString",
                self._handle,
                ctypes.c_int(first_tree),
                ctypes.c_int(n_trees),
                ctypes.c_int(0),
                ctypes.c_int64(len(self._buffer)),
                ctypes.byref(length),
                self._buffer,
            )
            if length.value <= len(self._buffer):
                return self._buffer.value.decode("utf-8")
            self._buffer = ctypes.create_string_buffer(length.value)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            _LIB.LGBM_BoosterFree(self._handle)


def check_scores(booster: RawBooster, ensemble: Ensemble, X: Any, sigmoid: float = 1.0) -> None:
    """Raise an error unless LightGBM's scores of up to 1000 training rows are the ensemble's.

    LightGBM keeps a score per row by its own bins and from all trees: a version in which codes are
    not overwritten as expected must bring an error, never another model.

    Parameters
    ----------
    ensemble : Ensemble
        One output: the sum of all trees that the booster grew.
    """
    rows = spaced_rows(X.shape[0])
    theirs = booster.training_scores()[rows]
    raw = ensemble.raw_score(X[rows], threads=1)
    objective, *options = objective_of(booster.text(0, 1)).split() or [""]
    with np.errstate(over="ignore"):
        if objective == "binary":
            raw = 1 / (1 + np.exp(-float(sigmoid) * raw))
        elif objective in _LOG_OBJECTIVES:
            raw = np.exp(raw)
        elif "sqrt" in options:
            raw = np.sign(raw) * raw**2
    wrong = ~np.isclose(theirs, raw, rtol=_TOLERANCE, atol=0)
    if wrong.any():
        at = int(wrong.argmax())
        raise disagreement(
            f"has the score {theirs[at]:.17g} for training row {rows[at]}, the trees have "
            f"{raw[at]:.17g}"
        )
