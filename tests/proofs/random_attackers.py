"""Random attackers of a small model with odd feature names, text categories and a one-hot group.

`random_options` draws the options of `Attacker` in the form that the checker's JSON document has;
`strengthened` returns them with one option that permits more, for each option where there is one.
`check_document` and `check_expectation` are the properties, by seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import carvegbm as cg
import carvegbm_check
from carvegbm.problem import Problem

NAMES = ["src bytes", "7", '"count"', "a.b", "-3", "proto", "service", "own", "rent"]
NUMBERS, CATEGORIES, GROUP = NAMES[:5], {"proto": ["icmp", "tcp", "udp"]}, NAMES[7:]
CATEGORIES["service"] = ["80", "ftp", "http", "é"]
ROWS = [
    [0.0, 0.0, 0.0, 0.0, 0.0, "tcp", "80", 1.0, 0.0],
    [0.0, math.nan, 0.0, 0.0, 0.0, "udp", "é", 0.0, 1.0],
    [0.0, 0.0, 0.0, math.nan, 0.0, "icmp", "gopher", 1.0, 0.0],
]
OWN = {"labels": "own"}
Options = dict[str, Any]


def model(*, named: bool = True) -> cg.Ensemble:
    """A stump for each feature."""
    leaves = {"left": {"score": 0.5}, "right": {"score": -0.25}, "missing": "left"}
    trees: list[dict[str, Any]] = [
        {"feature": f, "categories": [1], **leaves}
        if name in CATEGORIES
        else {"feature": f, "threshold": 0.25, **leaves}
        for f, name in enumerate(NAMES)
    ]
    return cg.Ensemble.from_trees(
        trees,
        n_features=len(NAMES),
        feature_names=NAMES if named else None,
        categories={NAMES.index(f): dict(enumerate(own)) for f, own in CATEGORIES.items()},
    )


def chance(rng: np.random.Generator, share: float) -> bool:
    return bool(rng.random() < share)


def random_options(rng: np.random.Generator) -> Options:
    """The options of an attacker that can change each feature that it names."""
    norm = [0, 1, 2, 3, "inf"][rng.integers(5)]
    budget = float(rng.integers(1, 5)) if norm == 0 else float(rng.integers(16, 64)) / 4
    found: Options = {"norm": norm, "budget": budget}
    free = [name for name in NAMES if chance(rng, 0.8)]
    free = [name for name in free if name not in GROUP] + (GROUP if "own" in free else [])
    if len(free) < len(NAMES):
        found["features"] = free
    scales = {name: _scale(rng) for name in free if name in NUMBERS and chance(rng, 0.5)}
    scales |= {name: 1.5 for name in free if name in CATEGORIES and chance(rng, 0.5)}
    if "own" in free and chance(rng, 0.5):
        scales |= dict.fromkeys(GROUP, 0.75)
    steps = ["1/255", "1/10", 1, "3/4"]
    found |= {
        "scale": scales,
        "step": {
            name: steps[rng.integers(4)] for name in free if name in NUMBERS and chance(rng, 0.4)
        },
        "categories": {
            name: [label for label in own if chance(rng, 0.6)]
            for name, own in CATEGORIES.items()
            if name in free
        },
        "one_hot": [GROUP] if "own" in free else [],
    }
    numeric = [name for name in NAMES if name not in CATEGORIES]
    if chance(rng, 0.3):
        found["bounds"] = tuple(
            np.array([[_bound(rng, name, sign) for name in NAMES] for _ in ROWS])
            for sign in (-1, 1)
        )
    else:
        bounded = [name for name in numeric if chance(rng, 0.4)]
        pairs = {name: tuple(_bound(rng, name, sign) for sign in (-1, 1)) for name in bounded}
        found["bounds"] = {
            name: pair for name, pair in pairs.items() if pair != (-math.inf, math.inf)
        }
    return {key: value for key, value in found.items() if key in ("norm", "budget") or len(value)}


def _scale(rng: np.random.Generator) -> float | tuple[float, float]:
    a, b = (float(rng.integers(4, 13)) / 3 for _ in range(2))
    return [a, (a, b), (0.0, b), (a, 0.0)][rng.integers(4)] if a != b else 1 / 3


def _bound(rng: np.random.Generator, name: str, sign: int) -> float:
    if name in CATEGORIES or chance(rng, 0.3):
        return sign * math.inf
    return max(sign, 0) + sign * float(rng.integers(0, 4)) / 3


def strengthened(rng: np.random.Generator, given: Options) -> Iterator[tuple[str, Options]]:
    """The same options with one that permits more, each with its name."""
    free = given.get("features", NAMES)
    one = 1.0 if given["norm"] == 0 else math.ulp(given["budget"])
    yield "budget", given | {"budget": given["budget"] + one}
    closed = [name for name in NAMES if name not in free]
    if closed:
        added = closed[rng.integers(len(closed))]
        more = [*free, *(GROUP if added in GROUP else [added])]
        groups = {"one_hot": [GROUP]} if added in GROUP else {}
        yield "features", given | {"features": more} | groups
    numbers = [name for name in NUMBERS if name in free]
    if numbers:
        name, end = numbers[rng.integers(len(numbers))], int(rng.integers(2))
        scale = given.get("scale", {}).get(name, 1.0)
        pair = list(scale) if isinstance(scale, tuple) else [scale, scale]
        pair[end] = math.nextafter(pair[end], math.inf) if pair[end] else 0.5
        yield "scale", given | {"scale": given.get("scale", {}) | {name: tuple(pair)}}
    for name, labels in given.get("categories", {}).items():
        others = [label for label in CATEGORIES[name] if label not in labels]
        if others:
            more = [*labels, others[rng.integers(len(others))]]
            yield "categories", given | {"categories": given["categories"] | {name: more}}
    for name, step in given.get("step", {}).items():
        if given["norm"] != 0:  # finer steps have a shorter range
            finer = f"{step}/2" if isinstance(step, int) else f"{step}0"
            yield "step", given | {"step": given["step"] | {name: finer}}
    yield from _wider(rng, given, free)


def _wider(
    rng: np.random.Generator, given: Options, free: list[str]
) -> Iterator[tuple[str, Options]]:
    """Bounds of which one end is farther away."""
    bounds, end = given.get("bounds", {}), int(rng.integers(2))
    away = (-math.inf, math.inf)[end]
    if isinstance(bounds, dict):
        for name in (name for name in bounds if name in free and math.isfinite(bounds[name][end])):
            pair = list(bounds[name])
            pair[end] = math.nextafter(pair[end], away)
            yield "bounds", given | {"bounds": bounds | {name: tuple(pair)}}
        return
    columns = [f for f, name in enumerate(NAMES) if name in free]
    places = [(r, f) for r in range(len(ROWS)) for f in columns if np.isfinite(bounds[end][r, f])]
    if places:
        place, wider = places[rng.integers(len(places))], [side.copy() for side in bounds]
        wider[end][place] = math.nextafter(wider[end][place], away)
        yield "bounds of a row", given | {"bounds": tuple(wider)}


class Proof:
    """A proof that `carvegbm.verify` wrote for an attacker, with its model and rows."""

    def __init__(self, folder: Path, options: Options, *, named: bool = True) -> None:
        ensemble, self.attacker = model(named=named), cg.Attacker(**options)
        X = np.array(ROWS, dtype=object)
        self.files = folder / "a.proof", folder / "model.json"
        cg.verify(ensemble, X, attacker=self.attacker, proof=self.files[0], threads=1)
        ensemble.save(self.files[1])
        given = Problem(ensemble, self.attacker).rows(X, None).given
        self.rows = np.asarray(given, dtype=np.float64).tolist()

    def check(self, expect: dict[str, Any] | None = None) -> carvegbm_check.Report:
        return carvegbm_check.check(
            *self.files, (self.rows, None), expect=expect, allow_trivial=True
        )


def check_document(seed: int, folder: Path) -> None:
    """The attacker can be rebuilt from the checker's JSON document alone."""
    proof = Proof(folder, random_options(np.random.default_rng(seed)))
    text = json.dumps(proof.check().document(), allow_nan=False)
    assert cg.Attacker.from_dict(json.loads(text)["attacker"]) == proof.attacker, seed


def check_expectation(seed: int, folder: Path) -> set[str]:
    """A proof covers its own attacker and each weaker one, and no stronger one.

    Returns the options in which one was stronger.
    """
    rng = np.random.default_rng(seed)
    options = random_options(rng)
    proof, expected = Proof(folder, options), cg.Attacker(**options).to_dict() | OWN
    report = proof.check(expected)
    assert report.exit_code == 0, (seed, report.not_covered)
    assert proof.check(report.document()["attacker"] | OWN).exit_code == 0, seed
    stronger = list(strengthened(rng, options))
    for kind, more in stronger:
        assert proof.check(cg.Attacker(**more).to_dict() | OWN).exit_code == 1, (seed, kind)
    for (kind, more), (_, other) in pairwise([*stronger, stronger[0]]):
        proof = Proof(folder, more)
        report = proof.check(expected)
        assert report.exit_code == 0, (seed, kind, report.not_covered)
        if other is not more:  # stronger in another option
            assert proof.check(cg.Attacker(**other).to_dict() | OWN).exit_code == 1, (seed, kind)
    return {kind for kind, _ in stronger}
