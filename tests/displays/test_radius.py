"""Histograms of radii: every row is counted once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from drawn import radii
from plain_trees import ensemble, refused, stump

pytestmark = pytest.mark.usefixtures("plt")

INF = np.inf
SOME = radii(0, 0, 0.1, 0.2, 0.2, 0.9, INF, (0.3, INF), (0.1, 0.5), (0.4, INF))


def heights(display: cg.RadiusDisplay, kind: str) -> list[float]:
    return [bar.get_height() for bar in display.bars_[kind]]


def test_bars_of_finite_radii_stand_where_these_are():
    display = SOME.plot(bins=[0, 0.15, 0.5, 1])
    bars = display.bars_["finite"]
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [
        (0, 0.15),
        (0.15, pytest.approx(0.35)),
        (0.5, 0.5),
    ]
    assert heights(display, "finite") == [1, 2, 1]


def test_bars_of_other_radii_stand_beside_the_scale():
    display = SOME.plot()
    assert display.counts() == {"wrong": 2, "finite": 4, "infinite": 1, "undecided": 3}
    for group, count in display.counts().items():
        assert sum(heights(display, group)) == count
    wrong, infinite, undecided = (
        display.bars_[kind][0] for kind in ("wrong", "infinite", "undecided")
    )
    finite = display.bars_["finite"]
    right_end = finite[-1].get_x() + finite[-1].get_width()
    assert wrong.get_x() + wrong.get_width() <= finite[0].get_x()
    assert right_end <= infinite.get_x()
    assert infinite.get_x() + infinite.get_width() <= undecided.get_x()


@given(
    st.lists(
        st.one_of(st.sampled_from([0.0, INF]), st.floats(1e-300, 1e100)), min_size=1, max_size=30
    )
)
def test_every_radius_is_in_one_bar(values):
    display = cg.RadiusDisplay(radii(*values))
    counts, edges = display.histogram()
    assert sum(display.counts().values()) == len(values)
    assert counts.sum() == display.counts()["finite"]
    assert np.all(np.diff(edges) > 0)


def test_an_outlier_makes_the_axis_logarithmic_and_leaves_the_others_their_bars():
    values = [0.01 * i for i in range(1, 30)]
    assert radii(*values).plot().ax_.get_xscale() == "linear"
    display = radii(0, *values, 500.0, INF).plot()
    assert display.ax_.get_xscale() == "log"
    bars = display.bars_["finite"]
    assert sum(heights(display, "finite")) == 30
    assert sum(bar.get_height() > 0 for bar in bars) > 4
    assert display.bars_["wrong"][0].get_x() > 0
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert display.bars_["infinite"][0].get_x() > max(ends) >= 500
    counted = radii(*[1, 2, 3] * 9, 400, norm=0).plot()
    assert counted.ax_.get_xscale() == "log"
    assert heights(counted, "finite")[0] == 9


def test_whole_radii_are_in_the_middle_of_their_bars():
    display = radii(0, 1, 1, 2, 4, norm=0).plot()
    bars = display.bars_["finite"]
    middles = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in bars}
    assert middles == {1: 2, 2: 1, 3: 0, 4: 1}
    labels = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert {"1", "2", "3", "4"} <= set(labels)


@pytest.mark.parametrize(
    ("found", "kind"),
    [(radii(INF, INF), "infinite"), (radii((0.1, INF)), "undecided"), (radii(0), "wrong")],
)
def test_one_kind_alone_is_one_bar(found, kind):
    display = found.plot()
    assert set(display.bars_) == {kind}
    assert heights(display, kind) == [len(found)]
    display.figure_.canvas.draw()


def test_estimator_is_measured_and_drawn():
    model = ensemble(stump(0, 0.5))
    display = cg.RadiusDisplay.from_estimator(model, [[0.25], [0.75]], [0, 0], cg.Attacker("inf"))
    assert display.counts() == {"wrong": 1, "finite": 1, "infinite": 0, "undecided": 0}


def test_what_cannot_be_drawn_is_refused_and_leaves_no_figure(plt):
    with refused("Radius", "[1]"):
        cg.RadiusDisplay.from_result([1])
    with pytest.raises(ValueError, match="bins"):
        SOME.plot(bins=-3)
    assert plt.get_fignums() == []
