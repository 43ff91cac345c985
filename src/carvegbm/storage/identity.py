"""Digests that tie stored answers to everything they depend on.

    digest_of(a) == digest_of(b)   iff   a and b are the same values of the same types

Each value is hashed with its type and size, so 1 and "1", [[1], 2] and [1, [2]], and equal numbers
in float32 and float64 all differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.model.ensemble import Ensemble, fields_of

if TYPE_CHECKING:
    from carvegbm.problem import Problem

__all__ = ["digest_of", "identity_of", "sha256_of"]

_THIS_PROCESS = uuid4().hex
_CATEGORY_FIELDS = {
    *("categories", "set_starts", "set_codes", "category_rule", "unknown_category"),
}

Piece = bytes | memoryview


def digest_of(value: Any) -> str:
    """Return the digest of a value, 64 hexadecimal digits.

    A value of an unknown type, such as a function, has a digest that no other process computes.

    Examples
    --------
    >>> digest_of({"norm": 1, "rows": [1, 2]}) == digest_of({"rows": [1, 2], "norm": 1})
    True
    >>> digest_of([1, "2"]) == digest_of([1, 2])
    False
    """
    pieces = _pieces(value)
    return sha256_of(part for piece in pieces for part in (len(piece).to_bytes(8, "little"), piece))


def identity_of(command: str, problem: Problem, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what answers depend on beside the rows, by names that tell a user what differs."""
    from carvegbm import __version__

    attacker = [problem.attacker.norm, problem.attacker.budget, vars(problem.limits)]
    return {
        "command": command,
        "version of carvegbm": __version__,
        "model": digest_of(problem.ensemble),
        "attacker": digest_of(attacker),
        "settings": digest_of({n: v for n, v in settings.items() if n != "threads"}),
    }


def sha256_of(pieces: Iterable[Piece]) -> str:
    """Return the SHA-256 of the concatenated pieces.

    Examples
    --------
    >>> sha256_of([b"a", b"bc"]) == sha256_of([b"abc"])
    True
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> list[Piece]:
    """Return the type of a value and its content as bytes."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return [type(value).__name__.encode(), repr(value).encode("utf-8", "backslashreplace")]
    if isinstance(value, bytes):
        return [b"bytes", value]
    if isinstance(value, Fraction):
        return [b"fraction", str(value).encode()]
    if isinstance(value, np.ndarray):
        kind = f"array {value.dtype.str} {value.shape}".encode()
        if value.dtype.names is not None:  # by field: there may be gaps between them
            return [kind, *_pieces({name: value[name] for name in value.dtype.names})]
        if value.dtype.hasobject:
            return [kind, *_pieces(value.tolist())]
        return [kind, np.ascontiguousarray(value).reshape(-1).view(np.uint8).data]
    if isinstance(value, list | tuple):
        return [b"list", *(digest_of(item).encode() for item in value)]
    if isinstance(value, set | frozenset):
        return [b"set", *sorted(digest_of(item).encode() for item in value)]
    if isinstance(value, Mapping):
        pairs = (digest_of(key) + digest_of(item) for key, item in value.items())
        return [b"mapping", *(pair.encode() for pair in sorted(pairs))]
    if isinstance(value, Ensemble):
        fields = fields_of(value)
        # Results depend on the trees, not on how many iterations were trained; and without
        # categories, the rules for them have no effect.
        unused = {"iterations"} | (set() if value.categories else _CATEGORY_FIELDS)
        return [b"ensemble", *_pieces({n: fields[n] for n in fields.keys() - unused})]
    if is_sparse(value):
        csr = as_csr(value)
        lengths = np.diff(csr.indptr).astype(np.int64)
        content = [list(csr.shape), csr.data, csr.indices.astype(np.int64), lengths]
        return [b"sparse", *_pieces(content)]
    if hasattr(value, "to_numpy"):  # a frame or a series
        names = list(getattr(value, "columns", getattr(value, "index", [])))
        return [b"table", *_pieces([names, value.to_numpy()])]
    return [b"unknown", f"{_THIS_PROCESS} {id(value)} {value!r}".encode()]
