"""LightGBM's C interface, as far as training needs it: a Dataset of codes and a Booster on it.

`CodeTable` is a Dataset that is never marked as finished. LightGBM's streaming interface
(LGBM_DatasetPushRowsByCSR) writes into the bins of such a Dataset, and a Booster that builds its
histograms column by column reads the bins anew for every tree. So the cells of closed thresholds
are overwritten between rounds, and one Booster trains all trees: no Dataset is built twice, no
score is computed twice. Four things make this exact, and this file takes care of them:

- bins are ours: code c is bin c, by a sample that holds every code once (`bins`);
- at least 17 bins per feature, because LightGBM packs fewer into half bytes when it finishes a
  Dataset, and this one never is;
- codes only ever grow when they are overwritten: LightGBM does not write bin 0;
- histograms by column (force_col_wise), no bundles: row-wise histograms work on a copy.

No interface of LightGBM promises any of it, so `agreement` checks what came of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from lightgbm.basic import _LIB

from carvegbm.errors import CarveError
from carvegbm.training.growing.bins import FEWEST_BINS, Special

__all__ = ["CodeTable", "RawBooster", "disagreement", "parameter_text", "refusal"]

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
_ROWS_AT_ONCE = 1 << 14
_CELLS_AT_ONCE = 1 << 23  # bounds the memory a merge needs for a moment


def parameter_text(parameters: Mapping[str, Any]) -> str:
    """Parameters as LightGBM's C interface takes them."""

    def text(value: Any) -> str:
        if isinstance(value, bool | np.bool_):
            return str(bool(value)).lower()
        if isinstance(value, list | tuple | set | np.ndarray):
            return ",".join(
                f"[{text(item)}]" if isinstance(item, list | tuple | set) else text(item)
                for item in value
            )
        return str(value)

    return " ".join(f"{name}={text(value)}" for name, value in parameters.items())


def _call(name: str, *arguments: Any) -> None:
    if getattr(_LIB, name)(*arguments) != 0:
        raise refusal(_LIB.LGBM_GetLastError().decode("utf-8"))


def refusal(message: str) -> CarveError:
    """LightGBM's own error as one line, without the place in its source."""
    reason = message.split("\n")[0].split(" at /")[0]
    return CarveError(f"LightGBM refused to train: {reason}")


def disagreement(what: str) -> CarveError:
    """An error where LightGBM says `what`, which it could not if it saw the rows given to it."""
    from lightgbm import __version__

    return CarveError(
        f"LightGBM {__version__} {what}: it did not train on the rows it was given; train with "
        "another version of LightGBM"
    )


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


_ALL_PLAIN = Special()


class CodeTable:
    """Rows of codes that LightGBM trains on and that can be merged between rounds.

    Parameters
    ----------
    codes : array (n, d), column-major
        Kept, and overwritten by `merge`.
    n_codes : sequence of int
        Number of different codes per feature; a feature with one is left out of training.
    threads : int
    special : Special
        Features whose codes are not all numbers in order.
    """

    def __init__(
        self,
        codes: npt.NDArray[Any],
        n_codes: Sequence[int],
        threads: int,
        special: Special = _ALL_PLAIN,
    ) -> None:
        self.codes = codes
        self.special = special
        self._handle = ctypes.c_void_p()
        samples = [special.sample(feature, n) for feature, n in enumerate(n_codes)]
        most = max([FEWEST_BINS, *(len(sample) + 1 for sample in samples)])
        places = np.arange(most, dtype=np.int32)
        counts = np.array([len(sample) for sample in samples], dtype=np.int32)
        columns = (ctypes.c_void_p * len(samples))(*[sample.ctypes.data for sample in samples])
        indices = (ctypes.c_void_p * len(samples))(*[places.ctypes.data] * len(samples))
        parameters = {
            **_TABLE_PARAMETERS,
            **special.parameters,
            "max_bin": most,
            "num_threads": threads,
        }
        _call(
            "LGBM_DatasetCreateFromSampledColumn",
            columns,
            indices,
            ctypes.c_int32(len(samples)),
            _pointer(counts),
            ctypes.c_int32(most),
            ctypes.c_int32(len(codes)),
            ctypes.c_int64(len(codes)),
            ctypes.c_char_p(parameter_text(parameters).encode()),
            ctypes.byref(self._handle),
        )
        _call("LGBM_DatasetSetWaitForManualFinish", self._handle, ctypes.c_int(1))
        for first in range(0, len(codes), _ROWS_AT_ONCE):
            rows = np.ascontiguousarray(codes[first : first + _ROWS_AT_ONCE], dtype=np.float32)
            for feature, code in special.not_numbers(n_codes).items():
                rows[rows[:, feature] == code, feature] = np.nan
            _call(
                "LGBM_DatasetPushRows",
                self._handle,
                _pointer(rows),
                ctypes.c_int(_FLOAT32),
                ctypes.c_int32(rows.shape[0]),
                ctypes.c_int32(rows.shape[1]),
                ctypes.c_int32(first),
            )

    @property
    def handle(self) -> ctypes.c_void_p:
        """LightGBM's handle of the Dataset."""
        return self._handle

    def set_field(self, name: str, values: npt.ArrayLike) -> None:
        """Set "label" or "weight", one number per row."""
        self._set_field(name, np.ascontiguousarray(values, dtype=np.float32), _FLOAT32)

    @contextmanager
    def starting_from(self, raw: npt.NDArray[np.float64]) -> Iterator[None]:
        """Boosters made meanwhile start from these raw scores; older ones do not see them."""
        self._set_field("init_score", np.ascontiguousarray(raw), _FLOAT64)
        try:
            yield
        finally:
            self._set_field("init_score", np.empty(0), _FLOAT64)

    def _set_field(self, name: str, array: npt.NDArray[Any], kind: int) -> None:
        _call(
            "LGBM_DatasetSetField",
            self._handle,
            ctypes.c_char_p(name.encode()),
            _pointer(array) if len(array) else None,
            ctypes.c_int(len(array)),
            ctypes.c_int(kind),
        )

    def merge(self, merged: Mapping[int, npt.NDArray[np.integer[Any]]]) -> None:
        """Replace code c of feature f by merged[f][c] >= c, for every feature f given."""
        if not merged:
            return
        rows_at_once = max(1, _CELLS_AT_ONCE // len(merged))
        for first in range(0, len(self.codes), rows_at_once):
            self._merge_rows(merged, first, self.codes[first : first + rows_at_once])

    def _merge_rows(
        self,
        merged: Mapping[int, npt.NDArray[np.integer[Any]]],
        first: int,
        codes: npt.NDArray[Any],
    ) -> None:
        """Merge the rows `codes` of the table, which begin at row `first`."""
        from scipy import sparse

        rows: list[npt.NDArray[np.int64]] = []
        values: list[npt.NDArray[Any]] = []
        features = sorted(merged)
        for feature in features:
            column = codes[:, feature]
            moves = merged[feature] != np.arange(len(merged[feature]))
            moved = np.flatnonzero(moves[column])
            new = merged[feature].astype(codes.dtype)[column[moved]]
            column[moved] = new
            rows.append(moved)
            values.append(new)
        ends = np.cumsum([0, *(len(r) for r in rows)])
        if ends[-1] == 0:
            return
        by_row = sparse.csc_matrix(
            (
                np.concatenate(values).astype(np.float32),
                np.concatenate(rows).astype(np.int32),
                ends.astype(np.int32),
            ),
            shape=(len(codes), len(features)),
        ).tocsr()
        columns = np.array(features, dtype=np.int32)[by_row.indices]
        _call(
            "LGBM_DatasetPushRowsByCSR",
            self._handle,
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
        if getattr(self, "_handle", None):
            _LIB.LGBM_DatasetFree(self._handle)


class RawBooster:
    """A LightGBM Booster on a `CodeTable`; its thresholds are codes.

    Parameters
    ----------
    table : CodeTable
        Must outlive the booster, which keeps it.
    parameters : mapping
    """

    def __init__(self, table: CodeTable, parameters: Mapping[str, Any]) -> None:
        self._table = table
        self._handle = ctypes.c_void_p()
        self._buffer = ctypes.create_string_buffer(1 << 20)
        _call(
            "LGBM_BoosterCreate", table.handle, self._told(parameters), ctypes.byref(self._handle)
        )

    def _told(self, parameters: Mapping[str, Any]) -> ctypes.c_char_p:
        others = {**_TABLE_PARAMETERS, **self._table.special.parameters}
        return ctypes.c_char_p(parameter_text({**parameters, **others}).encode())

    def reset(self, parameters: Mapping[str, Any]) -> None:
        """Change learning parameters for the rounds to come."""
        _call("LGBM_BoosterResetParameter", self._handle, self._told(parameters))

    def grow(
        self,
        gradients: npt.NDArray[np.float32] | None = None,
        hessians: npt.NDArray[np.float32] | None = None,
    ) -> bool:
        """Grow one tree, on the objective's gradients or on those given; False: no split left."""
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
        """Number of trees, a constant one of a failed first round included."""
        count = ctypes.c_int(0)
        _call("LGBM_BoosterNumberOfTotalModel", self._handle, ctypes.byref(count))
        return count.value

    def training_scores(self) -> npt.NDArray[np.float64]:
        """What LightGBM has as score of every row, by its own bins.

        Of one output, and as its objective converts it: a probability, an exponential, ….
        """
        scores = np.empty(len(self._table.codes))
        length = ctypes.c_int64(0)
        first = ctypes.c_int(0)  # of the data LightGBM keeps scores of: the training data
        _call("LGBM_BoosterGetNumPredict", self._handle, first, ctypes.byref(length))
        if length.value != len(scores):
            raise disagreement(f"has {length.value} scores for {len(scores)} training rows")
        _call(
            "LGBM_BoosterGetPredict",
            self._handle,
            first,
            ctypes.byref(length),
            _pointer(scores),
        )
        return scores

    def text(self, first_tree: int = 0, n_trees: int = -1) -> str:
        """The model text with `n_trees` trees from `first_tree` on."""
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
