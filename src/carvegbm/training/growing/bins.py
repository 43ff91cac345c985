"""Bins: what makes LightGBM give every code of a feature a bin of its own.

Comes in: which features have codes that are not all numbers in order. Goes out: a sample of values
per feature from which LightGBM makes the bins, what it is told about these features, and the codes
that are NaN to it: that of missing values, and code 0 of a categorical feature, see `categories`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FEWEST_BINS", "Special"]

FEWEST_BINS = 17
"""LightGBM packs fewer into half bytes, see `lightgbm_c`."""


@dataclass(frozen=True)
class Special:
    """Features whose codes are not all numbers in order.

    Attributes
    ----------
    missing : set of features
        Their last code stands for missing values.
    categorical : set of features
        Their codes from 1 on are categories, which have no order; code 0 is none of them.
    most_one_by_one : int
        LightGBM's max_cat_to_onehot: with fewer categories than this, a split singles one out.
    """

    missing: frozenset[int] = frozenset()
    categorical: frozenset[int] = frozenset()
    most_one_by_one: int = 4

    @property
    def parameters(self) -> dict[str, Any]:
        """What LightGBM is told about them."""
        told: dict[str, Any] = {"use_missing": True} if self.missing else {}
        if self.categorical:
            told["categorical_feature"] = sorted(self.categorical)
            told["max_cat_to_onehot"] = self._most_bins
        return told

    @property
    def _most_bins(self) -> int:
        """The most bins of a feature whose categories are singled out.

        LightGBM tells these features by their number of bins, which `FEWEST_BINS` raises; so the
        others are given more bins than this.
        """
        return max(FEWEST_BINS + 1, self.most_one_by_one + 2)

    def not_numbers(self, n_codes: Sequence[int]) -> dict[int, int]:
        """Per feature, the code that is NaN to LightGBM."""
        found = {feature: n_codes[feature] - 1 for feature in self.missing}
        return {**found, **dict.fromkeys(self.categorical, 0)}

    def sample(self, feature: int, n_codes: int) -> npt.NDArray[np.float64]:
        """Values that make LightGBM give every code a bin of its own; it counts a zero more.

        Of categories LightGBM may leave out the rarest, which is one that nobody has: the others
        are there twice.
        """
        if n_codes <= 1:
            return np.empty(0)
        if feature in self.categorical:
            is_small = n_codes <= self.most_one_by_one
            n_bins = max(n_codes + 1, FEWEST_BINS if is_small else self._most_bins + 1)
            own, others = np.arange(1.0, n_codes), np.arange(float(n_codes), n_bins)
            return np.concatenate([np.repeat(own, 2), others])
        if feature in self.missing:
            return np.append(np.arange(1.0, max(FEWEST_BINS, n_codes - 1)), np.nan)
        return np.arange(1.0, max(FEWEST_BINS, n_codes))
