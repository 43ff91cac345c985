"""Plot which features witnesses change, how often and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.rows import coded_rows
from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.displays.base import (
    SERIES,
    Display,
    hide_frame,
    legend_below,
    literal,
    merged,
    percent_axis,
    plain_number,
)
from carvegbm.displays.statistics import FeatureChange, feature_changes
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.model.categories import plain

if TYPE_CHECKING:
    from carvegbm.attack import Attack

__all__ = ["AttackDisplay"]

Floats = npt.NDArray[np.float64]

_KINDS = {
    "up": ("raised", SERIES[0], ""),
    "down": ("lowered", SERIES[4], "//"),
    "other": ("another category", SERIES[3], ".."),
}
_HEIGHT, _HEIGHT_PER_BAR = 1.3, 0.34  # inches


class AttackDisplay(Display):
    """Share of witnesses that change each feature, and by how much.

    Parameters
    ----------
    result : Attack
    X : array of shape (n_rows, n_features), frame or sparse matrix
        The rows that were attacked; an `Attack` holds the witnesses only.
    n_features : int, default 15
        Number of features to draw, the most frequently changed first.

    Attributes
    ----------
    ax_, figure_
        The Axes and Figure of the last plot.
    bars_ : dict
        Matplotlib's bars by kind of change: "up", "down", "other"; non-empty ones only.
    changes : list of FeatureChange
        What witnesses do to each feature that some witness changes, the most frequent first.
    n_witnesses : int

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, feature_names=["age"])
    >>> X = [[0.75], [5.0]]
    >>> display = cg.AttackDisplay(cg.attack(model, X, [1, 1], cg.Attacker("inf", 0.25)), X)
    >>> (change,) = display.changes
    >>> change.name, change.down, change.median
    ('age', 1, 0.25)
    >>> from matplotlib.figure import Figure
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()  # by default a new figure of pyplot
    'share of 1 witness that changes the feature'
    """

    bars_: dict[str, Any]

    def __init__(self, result: Attack, X: Any, *, n_features: int = 15) -> None:
        from carvegbm.attack import Attack

        if not isinstance(result, Attack):
            raise CarveError(f"an Attack is needed, got {shown(result)}; make one by attack")
        if not isinstance(n_features, int) or n_features < 1:
            raise CarveError(f"n_features must be >= 1, got {n_features!r}")
        x = _attacked_rows(result, X)
        if x.shape != result.witnesses.shape:
            raise DataError(
                f"X has shape {x.shape}, the attack was on {result.witnesses.shape}; give the "
                "instances that were attacked"
            )
        success = np.flatnonzero(result.success)
        features, sizes = _differences(result.witnesses[success], x[success])
        self.n_witnesses = len(success)
        self.changes = feature_changes(features, sizes, result.feature_names, result.categories)
        self._drawn = self.changes[:n_features]

    @classmethod
    def _of_model(
        cls, model: Any, X: Any, y: Any, attacker: Any, *, n_features: int = 15, **options: Any
    ) -> AttackDisplay:
        from carvegbm.queries import attack

        return cls(attack(model, X, y, attacker, **options), X, n_features=n_features)

    def _height(self) -> float:
        return _HEIGHT + _HEIGHT_PER_BAR * max(len(self._drawn), 2)

    def _draw(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        ax, n = self.ax_, self.n_witnesses
        self.bars_ = {}
        places = np.arange(len(self._drawn))
        ends = np.zeros(len(self._drawn))
        for kind, (label, colour, hatch) in _KINDS.items():
            shares = np.array([getattr(change, kind) / n for change in self._drawn])
            if shares.any():
                look = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.6}
                options = merged({**look, "height": 0.4, "label": label}, kwargs)
                self.bars_[kind] = ax.barh(places, shares, left=ends, **options)
                ends = ends + shares
        for place, change in enumerate(self._drawn):
            # Text above its bar leaves the whole width to the bars.
            text: dict[str, Any] = {"va": "bottom", "fontsize": "small"}
            text["transform"] = ax.get_yaxis_transform()
            ax.text(0, place - 0.2, literal(change.name), ha="left", **text)
            ax.text(1, place - 0.2, _sizes(change), ha="right", **text)
        hide_frame(ax)
        ax.set_ylim(max(len(self._drawn), 1) - 0.5, -0.8)
        ax.set_xlim(0, max(ends, default=1))
        percent_axis(ax.xaxis)
        subject = "1 witness that changes" if n == 1 else f"{n:,} witnesses that change"
        more = len(self.changes) - len(self._drawn)
        rest = f"\n({more:,} more feature{'s' * (more > 1)} changed less often)" if more else ""
        ax.set_xlabel(f"share of {subject} the feature{rest}")
        if self.bars_:
            legend_below(ax, list(self.bars_.values()), columns=3)
        else:
            why = "no witness: nothing was flipped" if n == 0 else "the witnesses change nothing"
            ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes)
        if name is not None:
            ax.set_title(literal(name, 80))


def _sizes(change: FeatureChange) -> str:
    """Return in words by how much a feature is changed."""
    if change.up + change.down == 0:
        return "another category"
    low, middle, high = map(plain_number, (change.smallest, change.median, change.largest))
    return f"by {low}" if low == high else f"by {low} to {high}, median {middle}"


def _differences(z: Any, x: Any) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return feature and z - x of every changed value; both may be sparse."""
    if not is_sparse(z):
        rows, features = np.nonzero((z != x) & ~np.isnan(x))
        return features, z[rows, features] - x[rows, features]
    stored = z.tocoo()
    before = np.asarray(as_csr(x)[stored.row, stored.col]).ravel().astype(np.float64)
    changed = (stored.data != before) & ~np.isnan(before)
    return stored.col[changed], (stored.data - before)[changed]


def _attacked_rows(attack: Attack, X: Any) -> Any:
    """Return X with columns and category codes as in the witnesses."""
    if is_sparse(attack.witnesses):
        if is_sparse(X):
            return as_csr(X)
        from scipy.sparse import csr_matrix

        return as_csr(csr_matrix(coded_rows(X, None, {}).rows))
    if is_sparse(X):
        return as_csr(X).toarray()
    n_features = attack.witnesses.shape[1]
    codes = {feature: _Codes(attack.categories.get(feature)) for feature in range(n_features)}
    return coded_rows(X, attack.feature_names, codes).rows


class _Codes:
    """Encoder from the labels of one feature to the numbers that witnesses hold."""

    gives_codes = True

    def __init__(self, labels: Mapping[int, Any] | None) -> None:
        self._codes = {label: float(code) for code, label in (labels or {}).items()}
        self._is_categorical = labels is not None

    def numbers(self, labels: Sequence[Any], rows: npt.NDArray[np.int64], where: str) -> Floats:
        """Return the code of each label, or the label itself if the feature is numeric."""
        if self._is_categorical:
            return np.array([self._codes.get(plain(label), -1.0) for label in labels])
        try:
            return np.array([float(label) for label in labels])
        except (TypeError, ValueError):
            raise DataError(f"{where} row {rows[0]}: {labels[0]!r} is no number") from None

    def check_numbers(self, where: str) -> None:
        """Accept numbers, which are codes already."""
