"""How a case is put to the product: models, instances, labels and attackers as it takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

import carvegbm as cg
import oracle
from carvegbm.attackers.encoding import CoreEncoding
from generators import Case


def options_of(
    attacker: oracle.Attacker, ensemble: Any = None, rows: int | None = None
) -> dict[str, Any]:
    """The keywords of the same attacker, but for those that it leaves at their defaults.

    Categories go by their labels, if the ensemble is there to tell them; bounds are arrays with
    that many `rows`, if a number of rows is given.
    """
    given = {name: value for name, value in attacker._asdict().items() if value is not None}
    if any(isinstance(scale, tuple) for scale in attacker.scale or ()):
        given["scale"] = dict(enumerate(given["scale"]))
    if attacker.categories is not None and ensemble is not None:
        given["categories"] = {
            feature: [ensemble.categories[feature][code] for code in codes]
            for feature, codes in attacker.categories.items()
        }
    if attacker.bounds is not None and rows is not None:
        given["bounds"] = tuple(np.tile(np.array(side), (rows, 1)) for side in attacker.bounds)
    return given


def product_attacker(
    attacker: oracle.Attacker, ensemble: Any = None, rows: int | None = None
) -> cg.Attacker:
    """The same attacker, as the product takes it."""
    return cg.Attacker(**options_of(attacker, ensemble, rows))


def core_attacker(attacker: cg.Attacker, ensemble: cg.Ensemble) -> Any:
    """The core's attacker, with the limits that the attacker has for this ensemble."""
    return CoreEncoding(ensemble, attacker.limits(ensemble)).core_attacker(attacker)


def attacker_of(case: Case, rows: int = 1) -> cg.Attacker:
    """The attacker of a case on that many instances, as the product takes it."""
    return product_attacker(case.attacker, case.ensemble, rows if case.rowwise else None)


def without_budget(case: Case, rows: int = 1) -> dict[str, Any]:
    """The keywords of a case's attacker without its budget."""
    options = options_of(case.attacker, case.ensemble, rows if case.rowwise else None)
    del options["budget"]
    return options


def searching(case: Case, rows: int = 1) -> cg.Attacker:
    """The attacker of a case without a budget, for queries that search one."""
    return cg.Attacker(**without_budget(case, rows))


def question(case: Case) -> tuple[Any, ...]:
    """Model, X, y and attacker, as the product takes them."""
    labels = [case.ensemble.classes[case.label]]
    return case.ensemble, [case.x], labels, attacker_of(case)
