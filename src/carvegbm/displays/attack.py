"""Attacks as bars: which features witnesses change, how often, and by how much.

Comes in: an attack and the instances it was asked about. Goes out: a bar per feature, the ones that
are changed most often first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from carvegbm.displays import drawing
from carvegbm.displays.changes import Changes, FeatureChange, changes_of
from carvegbm.errors import CarveError, shown

if TYPE_CHECKING:
    from carvegbm.attack import Attack
    from carvegbm.attackers.attacker import Attacker

__all__ = ["AttackDisplay"]

_WAYS = {
    "up": ("raised", drawing.SERIES[0], ""),
    "down": ("lowered", drawing.SERIES[4], "//"),
    "other": ("another category", drawing.SERIES[3], ".."),
}
_HEIGHT, _PER_BAR = 1.3, 0.34  # inches
_FEATURES = 15


class AttackDisplay:
    """Which features witnesses change.

    Parameters
    ----------
    changes : Changes
        `witnesses`, how many there are; `features`, what they change, the most frequent first.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    bars_ : dict
        Matplotlib's bars by "up", "down" and "other", those that there are.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, feature_names=["age"])
    >>> X = [[0.75], [5.0]]
    >>> found = cg.attack(model, X, [1, 1], cg.Attacker("inf", 0.25))
    >>> cg.AttackDisplay.of(found, X).changes.features[0].name
    'age'
    """

    ax_: Any
    figure_: Any
    bars_: dict[str, Any]

    def __init__(self, *, changes: Changes) -> None:
        self.changes = changes

    @classmethod
    def of(cls, attack: Attack, X: Any) -> AttackDisplay:
        """The display of an attack on the instances X, not drawn yet."""
        from carvegbm.attack import Attack

        if not isinstance(attack, Attack):
            raise CarveError(f"an Attack is needed, got {shown(attack)}; make one by attack")
        return cls(changes=changes_of(attack, X))

    @classmethod
    def from_attack(
        cls,
        attack: Attack,
        X: Any,
        *,
        n_features: int = _FEATURES,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> AttackDisplay:
        """Draw what the witnesses of an attack change.

        Parameters
        ----------
        attack : Attack
        X : array (n, n_features), frame or sparse matrix
            The instances that were attacked: an attack holds the witnesses alone.
        n_features : int, default 15
            Features to show.
        name : str, optional
            The title of the picture.
        ax : matplotlib's Axes, optional
            Where to draw; by default in a new figure.
        kwargs
            For matplotlib's `barh`.

        Examples
        --------
        >>> import carvegbm as cg
        >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
        >>> model = cg.Ensemble.from_trees([stump], n_features=1)
        >>> found = cg.attack(model, [[0.75]], [1], cg.Attacker("inf", 0.25))
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()  # by default pyplot makes one, which a notebook shows
        >>> cg.AttackDisplay.from_attack(found, [[0.75]], ax=ax).ax_.get_xlabel()
        'share of 1 witness that changes the feature'
        """
        return cls.of(attack, X).plot(ax, n_features=n_features, name=name, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        attacker: Attacker | None = None,
        *,
        n_features: int = _FEATURES,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> AttackDisplay:
        """Attack a model and draw what is changed; `options` are those of `attack`."""
        from carvegbm.queries import attack

        drawing.check_drawable(f"{cls.__name__}.from_estimator", ax)
        found = attack(estimator, X, y, attacker, **options)
        return cls.from_attack(found, X, n_features=n_features, name=name, ax=ax)

    def plot(
        self,
        ax: Any = None,
        *,
        n_features: int = _FEATURES,
        name: str | None = None,
        **kwargs: Any,
    ) -> AttackDisplay:
        """Draw; the parameters are those of `from_attack`."""
        if not isinstance(n_features, int) or n_features < 1:
            raise CarveError(f"n_features must be a whole number >= 1, got {n_features!r}")
        drawn = self.changes.features[:n_features]
        height = _HEIGHT + _PER_BAR * max(len(drawn), 2)
        what = f"{type(self).__name__}.plot"
        self.ax_, self.figure_ = ax, _ = drawing.axes_for(what, ax, height=height)
        self.bars_ = {}
        handles = []
        count = max(self.changes.witnesses, 1)
        starts = [0.0] * len(drawn)
        for way, (label, colour, hatch) in _WAYS.items():
            shares = [getattr(change, way) / count for change in drawn]
            if not any(shares):
                continue
            look = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.6}
            look["height"] = 0.4
            self.bars_[way] = ax.barh(
                range(len(drawn)), shares, left=starts, label=label, **drawing.merged(look, kwargs)
            )
            starts = [start + share for start, share in zip(starts, shares, strict=True)]
            handles.append(self.bars_[way])
        self._label(drawn, max(starts, default=0.0), handles)
        if name is not None:
            ax.set_title(drawing.literal(name, 80))
        return self

    def _label(self, drawn: tuple[FeatureChange, ...], longest: float, handles: list[Any]) -> None:
        ax, n = self.ax_, self.changes.witnesses
        for place, change in enumerate(drawn):
            # Above its bar: a long name takes no room from the bars.
            above: dict[str, Any] = {"va": "bottom", "fontsize": "small"}
            above["transform"] = ax.get_yaxis_transform()
            ax.text(0, place - 0.2, drawing.literal(change.name), ha="left", **above)
            ax.text(1, place - 0.2, _how_far(change), ha="right", **above)
        ax.set_yticks([])
        ax.set_ylim(max(len(drawn), 1) - 0.5, -0.8)
        ax.set_xlim(0, longest or 1)
        drawing.percent_axis(ax.xaxis)
        words = "1 witness that changes" if n == 1 else f"{n:,} witnesses that change"
        more = len(self.changes.features) - len(drawn)
        rest = f"\n({more:,} more feature{'s' * (more > 1)} changed less often)" if more else ""
        ax.set_xlabel(f"share of {words} the feature{rest}")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        if handles:
            drawing.legend_below(ax, handles, columns=3)
        else:
            text = "no witness: nothing was flipped" if n == 0 else "the witnesses change nothing"
            ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)


def _how_far(change: FeatureChange) -> str:
    """By how much a feature is changed, in words."""
    if not change.up + change.down:
        return "another category"
    low, middle, high = map(drawing.plain_number, (change.smallest, change.median, change.largest))
    if low == high:
        return f"by {low}"
    return f"by {low} to {high}, median {middle}"
