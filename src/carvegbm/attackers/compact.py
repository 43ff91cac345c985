"""An attacker over the features that matter, for instances that are sparse.

Comes in: an attacker's limits for an ensemble, and the features that are kept. Goes out: the
options of the attacker of the ensemble over these features.

Nothing is lost if all features are kept that splits test, and all members of one-hot groups. Let z
be in reach of x: then x with z's values of these features has z's raw score and is in reach,
because a feature that stays costs nothing, in every norm, and is within its bounds, which is
checked for all features before. So every status, margin, radius and range is the same, and a
witness is x with the changes of a witness of the compact problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.instances.sparse import places_of

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble
    from carvegbm.limits import Limits

__all__ = ["compact_options"]

Positions = npt.NDArray[np.int64]


def compact_options(limits: Limits, ensemble: Ensemble, features: Positions) -> dict[str, Any]:
    """The options of the attacker over these features, by their new positions.

    Limits(ensemble, options) restricted to the features = Limits(compact ensemble, these options).
    """
    places = places_of(features, ensemble.n_features)
    changeable = np.ones(ensemble.n_features, dtype=bool)
    if len(limits.changeable):
        changeable = limits.changeable.astype(bool)
    changeable[[f for f in ensemble.categories if f not in limits.categories]] = False
    options: dict[str, Any] = {
        "step": {int(places[f]): step for f, step in limits.step.items() if places[f] >= 0},
        # By label, because a label wins over a code that looks like it.
        "categories": {
            int(places[f]): [ensemble.categories[f][code] for code in codes]
            for f, codes in limits.categories.items()
            if places[f] >= 0
        },
        "one_hot": [places[list(group)].tolist() for group in limits.one_hot],
    }
    options = {name: option for name, option in options.items() if option}
    if not changeable[features].all():
        options["features"] = np.flatnonzero(changeable[features]).tolist()
    if len(limits.scale):
        up = limits.scale_up if len(limits.scale_up) else limits.scale
        pairs = zip(limits.scale[features].tolist(), up[features].tolist(), strict=True)
        options["scale"] = {
            place: (down, up) if down != up else down for place, (down, up) in enumerate(pairs)
        }
    if len(limits.lower) and len(features):
        options["bounds"] = (limits.lower[..., features], limits.upper[..., features])
    return options
