"""Verdicts on rows as a cell holds them: one letter each, a run of the same as its length.

r: robust, f: fragile, u: unknown, w: wrong already. Tables compare two attackers row by row.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

__all__ = ["read_verdicts", "stored_verdicts"]


def stored_verdicts(letters: Iterable[str]) -> str:
    """Runs of letters, each behind its length.

    >>> stored_verdicts("rrrrfrw")
    '4r1f1r1w'
    """
    return "".join(f"{len(list(run))}{letter}" for letter, run in itertools.groupby(letters))


def read_verdicts(stored: str) -> str:
    """A letter per row again.

    >>> read_verdicts("4r1f1r1w")
    'rrrrfrw'
    """
    return "".join(int(length) * letter for length, letter in re.findall(r"(\d+)(\D)", stored))
