"""What displays share: text, axes, and what is said where matplotlib is missing."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.displays.base import literal
from carvegbm.statuses import COLOURS, INKS
from drawn import ATTACKER, radii, verification
from plain_trees import ensemble, refused, stump

MODEL = ensemble(stump(0, 0.5))
DISPLAYS = {
    "Verification.plot": lambda: verification(["robust"]).plot(),
    "Radius.plot": lambda: radii(1.0).plot(),
    "Curve.plot": lambda: cg.robustness_curve(
        MODEL, [[0.1]], [0], cg.Attacker(1), budgets=[0.1]
    ).plot(),
    "Attack.plot": lambda: cg.attack(MODEL, [[0.1]], [0], ATTACKER).plot([[0.1]]),
    "from_estimator": lambda: cg.RobustnessCurveDisplay.from_estimator(
        "no such file", [[0.1]], [0], cg.Attacker(1)
    ),
}


@pytest.mark.parametrize("way", DISPLAYS)
def test_without_matplotlib_one_line_says_what_to_install(way, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused("Display.", "matplotlib", "pip install 'carvegbm[plot]'"):
        DISPLAYS[way]()


def test_displays_are_there_without_matplotlib():
    code = (
        "import sys, carvegbm as cg; cg.RobustnessCurveDisplay; cg.Attacker(1, 1)._repr_html_();"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["$x$", r"\$x\$", "a$", "x_1^2", r"\frac{1}{2}", "100 %", "∞"])
def test_matplotlib_sees_a_name_and_no_formula(name):
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    plain, is_math = Text()._preprocess_math(literal(name))
    assert (plain, is_math) == (name, False)


# ── colours ──────────────────────────────────────────────────────────────────────────────────

# How colours look without one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1), in
# linear RGB.
SIGHTS = {
    "all cones": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(lab) @ np.cbrt(np.array(cones) @ np.clip(rgb, 0, 1))


def contrast(one: str, other: str) -> float:
    low, high = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
def test_statuses_are_told_apart_with_any_sight(sight):
    seen = [oklab(np.array(SIGHTS[sight]) @ linear(colour)) for colour in COLOURS.values()]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.15


def test_statuses_are_seen_on_light_and_dark_paper_and_hold_text():
    for status, colour in COLOURS.items():
        assert contrast(colour, "#ffffff") > 1.85
        assert contrast(colour, "#14181c") > 1.85
        assert contrast(colour, INKS[status]) >= 4.5
