"""Fingerprints: digests by which a stored result is tied to all that it depends on.

Comes in: numbers, fractions, texts, bytes, arrays, frames, ensembles, and lists, sets and mappings
of them; or bytes as they are. Goes out: 64 hexadecimal digits.

    digest_of(a) == digest_of(b)   iff   a and b are the same values of the same kinds

Every value is fed with its kind and its size, so that no two different ones are fed alike: 1 and
"1", [[1], 2] and [1, [2]], and the same numbers as float32 and float64 all differ.

`sha256_of` is the digest underneath, for what must be the SHA-256 that others compute: a published
checksum, the seal of a line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.ensemble import Ensemble, fields_of

__all__ = ["digest_of", "sha256_of"]

_THIS_PROCESS = uuid4().hex
_OF_CATEGORIES = {"categories", "set_starts", "set_codes", "category_rule", "unknown_category"}


def digest_of(value: Any) -> str:
    """The fingerprint of a value.

    A value of a kind that is not known here (a function, say) has one that no other process
    finds: what depends on it is computed again rather than taken from something else.

    Examples
    --------
    >>> digest_of({"norm": 1, "rows": [1, 2]}) == digest_of({"rows": [1, 2], "norm": 1})
    True
    >>> digest_of([1, "2"]) == digest_of([1, 2])
    False
    """
    return sha256_of(part for piece in _pieces(value) for part in (_size_of(piece), piece))


def sha256_of(pieces: Iterable[bytes | memoryview]) -> str:
    """SHA-256 of the pieces one after the other, wherever one ends and the next begins.

    Examples
    --------
    >>> sha256_of([b"a", b"bc"]) == sha256_of([b"abc"])
    True
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _size_of(piece: bytes | memoryview) -> bytes:
    return len(piece).to_bytes(8, "little")


def _pieces(value: Any) -> Iterable[bytes | memoryview]:
    if isinstance(value, Ensemble):
        fields = fields_of(value)
        del fields["iterations"]  # the trees are what a result depends on
        # As results were stored before there were such fields, where these say nothing.
        if not value.categories:
            fields = {name: fields[name] for name in fields.keys() - _OF_CATEGORIES}
        if value.absent == "zero":
            del fields["absent"]
        return [b"ensemble", digest_of(fields).encode()]
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        shown = np.where(mask, np.zeros(1, dtype=value.dtype), np.asarray(value))
        return [b"masked", digest_of(shown).encode(), digest_of(mask).encode()]
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if is_sparse(value):
        csr = as_csr(value)
        parts = [
            list(csr.shape),
            csr.data,
            csr.indices.astype(np.int64),
            np.diff(csr.indptr).astype(np.int64),
        ]
        return [b"sparse", digest_of(parts).encode()]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return [type(value).__name__.encode(), repr(value).encode("utf-8", "backslashreplace")]
    if isinstance(value, bytes):
        return [b"bytes", value]
    if isinstance(value, Fraction):
        return [b"fraction", str(value).encode()]
    if isinstance(value, set | frozenset):
        return [b"set", *sorted(digest_of(item).encode() for item in value)]
    if isinstance(value, Mapping):
        pairs = (digest_of(key) + digest_of(item) for key, item in value.items())
        return [b"mapping", *(pair.encode() for pair in sorted(pairs))]
    if isinstance(value, list | tuple):
        return [b"list", *(digest_of(item).encode() for item in value)]
    if hasattr(value, "to_numpy"):  # a frame or a series
        names = list(getattr(value, "columns", getattr(value, "index", [])))
        return [b"table", digest_of(names).encode(), digest_of(value.to_numpy()).encode()]
    return [b"unknown", f"{_THIS_PROCESS} {id(value)} {value!r}".encode()]


def _of_array(array: npt.NDArray[Any]) -> Iterable[bytes | memoryview]:
    head = f"array {array.dtype.str} {array.shape}".encode()
    if array.dtype.names is not None:  # field by field: there may be gaps between them
        columns = {name: array[name] for name in array.dtype.names}
        return [head, digest_of(columns).encode()]
    if array.dtype.hasobject:
        return [head, digest_of(array.tolist()).encode()]
    return [head, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data]
