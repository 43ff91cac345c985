"""Attack: a concrete example for every instance that can be flipped, checked exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker, require_attacker
from carvegbm.engines import STATUSES, Engine, OnViolation, Settings, decide
from carvegbm.link import class_indices, may_round_to_a_tie
from carvegbm.progress import Progress, progress_bar
from carvegbm.readers import load

__all__ = ["Attack", "attack"]


def attack(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    engine: Engine = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> Attack:
    """Find, for every instance, an example within the budget that flips the model's decision.

    Where there is one, it is found; where none is found, there is none (or the status is
    "unknown"). The parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.attack(model, [[0.1], [0.75]], [0, 1], cg.Attacker("inf", 0.25))
    >>> found.success.tolist(), found.examples.tolist(), found.distance.tolist()
    ([False, True], [[nan], [0.5]], [nan, 0.25])
    """
    require_attacker(attacker)
    settings = Settings(engine, timeout, threads, on_violation)
    ensemble = load(model)
    rows = ensemble.check_data(X)
    labels = ensemble.check_labels(y, len(rows))
    attacker.check_instances(ensemble, rows)
    with progress_bar(progress, len(rows), "attacking") as tick:
        found = decide(ensemble, attacker, rows, labels, settings, witness=True, tick=tick)
    assert found.example is not None
    assert found.distance is not None
    names = np.array(STATUSES)[found.status]
    success = (names == "fragile") | (names == "broken")
    borderline = np.zeros(len(rows), dtype=bool)
    if success.any():
        raw = ensemble.raw_score(found.example[success])
        kept = (class_indices(ensemble, raw) == labels[success]) == found.right[success]
        borderline[success] = kept | may_round_to_a_tie(ensemble, raw)
    return Attack(
        success,
        found.example,
        found.distance,
        names,
        borderline,
        attacker,
        ensemble.feature_names,
    )


@dataclass(frozen=True, eq=False)
class Attack:
    """What the attacker can do, per instance."""

    success: npt.NDArray[np.bool_]
    """The decision can be flipped: the instance is fragile, or broken."""
    examples: npt.NDArray[np.float64]
    """The witnesses, a row per instance; NaN where there is none. Columns stand in the order of the
    model's features, whatever that of a frame was; see `feature_names`."""
    distance: npt.NDArray[np.float64]
    """The smallest budget that affords the witness; NaN where there is none."""
    status: npt.NDArray[np.str_]
    """As `verify` gives it."""
    borderline: npt.NDArray[np.bool_]
    """The witness is closer to the decision threshold than the source library's rounding, of the
    raw score or of its probability: it flips the exact sum, and the library's own label may
    differ."""
    attacker: Attacker = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    """The columns of the witnesses, where the model names its features."""

    def __len__(self) -> int:
        return len(self.success)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the examples as plain values, ready for JSON; NaN becomes None."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": len(self),
            "successes": int(np.count_nonzero(self.success)),
            "success": self.success.tolist(),
            "distance": [None if d != d else d for d in self.distance.tolist()],
            "status": self.status.tolist(),
            "borderline": self.borderline.tolist(),
        }

    def __str__(self) -> str:
        found = int(np.count_nonzero(self.success))
        return f"{found} of {len(self)} instances can be flipped by {self.attacker!r}"
