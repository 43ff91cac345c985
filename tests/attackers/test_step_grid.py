"""The multiples of a step beside bounds and thresholds, against their definition in fractions."""

from fractions import Fraction

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.attackers.encoding import CoreEncoding, StepGrid

STEPS = ["1", "1/255", "1/10", "7/3", "2147483647/2147483646", "1/2147483647", "2147483647"]


def _around(lattice: StepGrid, rng: np.random.Generator) -> np.ndarray:
    """Multiples near and far, their neighbours, and what lies between and beyond."""
    far = 2.0 ** rng.uniform(0, np.log2(lattice.end), 60)
    n = np.rint(rng.choice([-1, 1], 60) * far).clip(-lattice.end, lattice.end)
    z = lattice.values(np.concatenate([n, [lattice.end, -lattice.end, 0, 1, -1]]))
    beside = [np.nextafter(z, np.inf), np.nextafter(z, -np.inf), z + float(lattice.step) / 2]
    return np.concatenate([z, *beside, [np.inf, -np.inf, 1e308, -1e308, 5e-324]])


@pytest.mark.parametrize("is_float32", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_last_and_first_multiples_are_beside_their_ends(step, is_float32):
    lattice = StepGrid(Fraction(step), is_float32=is_float32)
    ends = _around(lattice, np.random.default_rng(0))
    last_left, (first, last) = lattice.last_left(ends), lattice.within(ends, ends)
    for read, found in ((lattice.values, last_left), (lattice.doubles, last)):
        assert ((read(found) <= ends) | (found == -lattice.end - 1)).all()
        assert ((read(found + 1) > ends) | (found == lattice.end)).all()
    assert ((lattice.doubles(first) >= ends) | (first == lattice.end + 1)).all()
    assert ((lattice.doubles(first - 1) < ends) | (first == -lattice.end)).all()


def test_features_with_the_same_step_are_asked_together():
    model = cg.Ensemble.from_trees([{"score": 0.0}], n_features=5)
    steps = {0: "1/255", 1: 1, 3: "2/510", 4: 1.0}
    translation = CoreEncoding(model, cg.Attacker(1, 1, step=steps).limits(model))
    found = {str(lattice.step): those.tolist() for lattice, those in translation.features_of_grid}
    assert found == {"1/255": [0, 3], "1": [1, 4]}


def test_the_first_row_off_the_lattice_is_named():
    model = cg.Ensemble.from_trees([{"score": 0.0}], n_features=3)
    X = np.zeros((400_000, 3))
    X[399_999, 0] = X[300_000, 2] = X[300_001, 1] = 0.5
    with pytest.raises(cg.DataError, match=r"X row 300000, feature 2: value 0\.5 is no multiple"):
        cg.verify(model, X, None, cg.Attacker(1, 1, step=1))
