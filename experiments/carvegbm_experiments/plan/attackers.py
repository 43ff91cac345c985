"""Attackers as people have them: who they are, on which data, against which models.

Facts only; `planning` makes cells of them. A `Study` is a data set with two kinds of attacker: the
real one, with its directions, steps, categories and groups, and its `twin`, the nearest that can be
said without one of these. What an attacker may do is written as `Attacker.from_dict` takes it.

NSL-KDD: rows are connections, columns what a monitor saw of them. An attacker pads and repeats: it
can send and ask for more bytes, stay longer, and open more connections, but not unsend them, and
what it does comes in whole numbers. A unit of cost is a second, 100 bytes or a connection. Window
counters end at 511 and 255. For L0 it may also use another service, one of the TCP services that
normal traffic of the training set uses at least a hundred times, and end a connection in another
way, of those that its originator decides: close it (SF), reset it (RSTO, RSTOS0) or send SYN and
FIN (SH). Rates over windows stay as they are, and so does the protocol; so the attacker is a little
stronger than a real one where another service would need another protocol. The twin moves the same
counters both ways, by any amount.

Covertype: rows are cells of forest, columns come from maps; the attacker is an error of mapping.
One unit is 5 m of elevation, 5 degrees of aspect, a degree of slope, 15 m of distance, 5 m of
vertical distance, 2 levels of hillshade, or another area or soil type: one of 4 and one of 40
columns is 1, the others are 0. For L0, one of what is not computed from elevations may be anything:
area, soil type, distance to roads and to fire points. The twin knows no groups: every column is 0
or 1 on its own.

Images: grey levels are multiples of 1/255 (1/16 for the digits). The twin takes them for real
numbers, as the paper does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["COVERTYPE_COLUMNS", "NORMAL", "PLAIN", "QUICK_STUDIES", "STUDIES", "Study"]

Options = Mapping[str, Any]
Parameters = Mapping[str, Any]

PLAIN = ("lightgbm", "xgboost", "catboost")
"""Models that know no attacker."""

NORMAL = 0
"""Of NSL-KDD's two classes: the one that an attack wants to be taken for."""


@dataclass(frozen=True)
class Study:
    """A data set, its attackers, and the models they meet.

    Attributes
    ----------
    dataset : str
    real, twin : str
        What the two kinds of attacker are called.
    options : dict
        By kind of attacker and norm: what it may do; "" stands for norms that are not named.
    attackers : tuple of (norm, budget)
    parameters : dict
        By model: what it is trained with. Of a list, the value with the largest validation
        accuracy is chosen.
    special : dict
        By norm and budget: parameters of large-spread models that differ.
    rows : int
        At most so many test rows are judged, with every class in its share.
    timeout : float
        Seconds per test row.
    """

    dataset: str
    real: str
    twin: str
    options: Mapping[str, Mapping[str, Options]]
    attackers: tuple[tuple[str, float], ...]
    parameters: Mapping[str, Parameters]
    special: Mapping[tuple[str, float], Parameters] = field(default_factory=dict)
    rows: int = 2000
    timeout: float = 2.0

    def allowed(self, kind: str, norm: str) -> Options:
        """What an attacker of a kind may do."""
        options = self.options[kind]
        return options.get(norm, options.get("", {}))

    def trained_with(self, model: str, attacker: tuple[str, float]) -> Parameters:
        """What a model is trained with."""
        special = self.special.get(attacker, {}) if model == "large-spread" else {}
        return {**self.parameters[model], **special}

    def meetings(self, model: str) -> tuple[tuple[str | None, str], ...]:
        """Whom a model is trained for (None: nobody), and whom it is verified against."""
        if model in PLAIN:
            return (None, self.real), (None, self.twin)
        if model == "robust":
            return ((self.real, self.real),)
        return (self.real, self.real), (self.twin, self.real), (self.twin, self.twin)


# ── NSL-KDD ──────────────────────────────────────────────────────────────────────────────────

_UNITS = {
    "duration": 1,
    "src_bytes": 100,
    "dst_bytes": 100,
    "count": 1,
    "srv_count": 1,
    "dst_host_count": 1,
    "dst_host_srv_count": 1,
}
_LARGEST = {"count": 511, "srv_count": 511, "dst_host_count": 255, "dst_host_srv_count": 255}
_RANGES = {name: [0, _LARGEST.get(name)] for name in _UNITS}
_UP = {
    "scale": {name: [0, unit] for name, unit in _UNITS.items()},
    "step": dict.fromkeys(_UNITS, 1),
    "bounds": _RANGES,
}
_EITHER_WAY = {"scale": _UNITS, "bounds": _RANGES}
_SWITCH = {
    "features": [*_UNITS, "service", "flag"],
    "categories": {
        "service": [
            *("http", "smtp", "ftp_data", "other", "private", "ftp"),
            *("telnet", "finger", "auth", "IRC", "pop_3"),
        ],
        "flag": ["SF", "RSTO", "RSTOS0", "SH"],
    },
}

_NSL_KDD = Study(
    dataset="nsl-kdd",
    real="raise",
    twin="either way",
    options={
        "raise": {"": {**_UP, "features": [*_UNITS]}, "0": {**_UP, **_SWITCH}},
        "either way": {
            "": {**_EITHER_WAY, "features": [*_UNITS]},
            "0": {**_EITHER_WAY, **_SWITCH},
        },
    },
    attackers=(("inf", 1), ("inf", 10), ("1", 10), ("1", 100), ("0", 1), ("0", 2)),
    parameters={
        "lightgbm": {"n_estimators": 300, "num_leaves": [16, 64], "early_stopping": 30},
        "xgboost": {"n_estimators": 300, "max_leaves": [16, 64], "early_stopping": 30},
        "catboost": {"n_estimators": 300, "depth": [4, 6], "early_stopping": 30},
        "large-spread": {"n_estimators": 300, "num_leaves": [16, 64], "early_stopping": 30},
        "robust": {"n_estimators": 120, "clean_loss": 0.01},
    },
)

# ── Covertype ────────────────────────────────────────────────────────────────────────────────

_MAPPED = {
    "elevation": 5,
    "aspect": 5,
    "slope": 1,
    "to_hydrology": 15,
    "above_hydrology": 5,
    "to_roads": 15,
    "shade_at_9": 2,
    "shade_at_noon": 2,
    "shade_at_15": 2,
    "to_fire_points": 15,
}
_AREAS = [f"area_{number}" for number in range(1, 5)]
_SOILS = [f"soil_{number}" for number in range(1, 41)]
COVERTYPE_COLUMNS = (*_MAPPED, *_AREAS, *_SOILS)
"""In the order of the data."""

_MEASURED = {"scale": _MAPPED, "step": dict.fromkeys(_MAPPED, 1)}
_ON_THEIR_OWN = {
    "scale": _MAPPED,
    "step": dict.fromkeys(COVERTYPE_COLUMNS, 1),
    "bounds": {name: [0, 1] for name in (*_AREAS, *_SOILS)},
}
_NOT_FROM_ELEVATIONS = {"features": ["to_roads", "to_fire_points", *_AREAS, *_SOILS]}

_COVTYPE = Study(
    dataset="covtype",
    real="groups",
    twin="columns",
    options={
        "groups": {
            "": {**_MEASURED, "one_hot": [_AREAS, _SOILS]},
            "0": {**_MEASURED, "one_hot": [_AREAS, _SOILS], **_NOT_FROM_ELEVATIONS},
        },
        "columns": {"": _ON_THEIR_OWN, "0": {**_ON_THEIR_OWN, **_NOT_FROM_ELEVATIONS}},
    },
    attackers=(("inf", 0.5), ("inf", 1), ("1", 1), ("1", 2), ("0", 1)),
    parameters={
        "lightgbm": {"n_estimators": 300, "num_leaves": [16, 64], "early_stopping": 30},
        "xgboost": {"n_estimators": 300, "max_leaves": [16, 64], "early_stopping": 30},
        "large-spread": {"n_estimators": 300, "num_leaves": [16, 64], "early_stopping": 30},
        "robust": {"n_estimators": 24, "clean_loss": 0.04},
    },
    rows=1000,
)

# ── images ───────────────────────────────────────────────────────────────────────────────────


def _pixels(dataset: str, step: str, **study: Any) -> Study:
    options: dict[str, dict[str, Options]] = {"levels": {"": {"step": step}}, "reals": {"": {}}}
    return Study(dataset, "levels", "reals", options, **study)


_TABLE_2: Parameters = {"n_estimators": 500, "num_leaves": 16, "early_stopping": 50}
_FMNIST = _pixels(
    "fmnist",
    "1/255",
    attackers=(
        *(("inf", 0.005), ("inf", 0.01), ("inf", 0.015)),
        *(("1", 0.05), ("1", 0.1), ("1", 0.15)),
    ),
    parameters={"lightgbm": _TABLE_2, "large-spread": _TABLE_2},
    # As tuning chose for Table 2.
    special={("inf", 0.005): {"num_leaves": 128}},
    rows=4200,
)

STUDIES = (_NSL_KDD, _COVTYPE, _FMNIST)
"""Every study, in the order of the tables."""

_LITTLE: Parameters = {"n_estimators": 10, "num_leaves": 4, "early_stopping": 5}
QUICK_STUDIES = (
    _pixels(
        "digits",
        "1/16",
        attackers=(("inf", 0.1),),
        parameters={"lightgbm": _LITTLE, "large-spread": _LITTLE},
        rows=100,
    ),
)
"""A little of it on data that comes with scikit-learn."""
