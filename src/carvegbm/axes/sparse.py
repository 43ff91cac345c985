"""Steps of an attacker in sparse rows: what is stored must be a multiple; what is left out is one.

Comes in: a translation, and rows as CSR. Goes out: the rows with the very multiples, or a
`DataError` that names the first value that is none, in whatever feature, tested or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from carvegbm.instances.sparse import Csr, row_of

if TYPE_CHECKING:
    from carvegbm.axes.translation import Translation

__all__ = ["on_lattice"]


def on_lattice(translation: Translation, csr: Csr) -> Csr:
    """CSR as `Translation.on_lattice` gives dense rows; the same object where nothing changes."""
    if not translation.lattices:
        return csr
    kind = np.full(csr.shape[1], -1, dtype=np.int32)
    for number, (_, features) in enumerate(translation.by_lattice):
        kind[features] = number
    exact = csr.data.astype(np.float64)
    of_entry = kind[csr.indices]
    wrong = np.zeros(len(exact), dtype=bool)
    for number, (lattice, _) in enumerate(translation.by_lattice):
        which = of_entry == number
        n = lattice.numbers(csr.data[which])
        wrong[which] = np.isinf(n)
        exact[which] = lattice.doubles(n)
    for entry in np.flatnonzero(wrong)[:1].tolist():
        row, feature = row_of(csr, entry), int(csr.indices[entry])
        raise translation.off_lattice(row, feature, csr.data[entry])
    return type(csr)((exact, csr.indices, csr.indptr), shape=csr.shape)
