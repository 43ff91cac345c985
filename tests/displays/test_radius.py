"""Radii as bars and as a distribution: every instance is somewhere, once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from drawn import NASTY, radii, shown_texts
from plain_trees import ensemble, refused, stump

pytestmark = pytest.mark.usefixtures("plt")

INF = np.inf
SOME = radii(0, 0, 0.1, 0.2, 0.2, 0.9, INF, (0.3, INF), (0.1, 0.5), (0.4, INF))


def heights(display: cg.RadiusDisplay, kind: str) -> list[float]:
    return [bar.get_height() for bar in display.bars_[kind]]


def test_bars_count_what_is_wrong_finite_infinite_and_undecided():
    display = SOME.plot()
    assert display.counts() == {"wrong": 2, "finite": 4, "infinite": 1, "undecided": 3}
    assert heights(display, "wrong") == [2]
    assert sum(heights(display, "finite")) == 4
    assert heights(display, "infinite") == [1]
    assert heights(display, "undecided") == [3]


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
    display = cg.RadiusDisplay.of(radii(*values))
    counts, edges = display.histogram()
    assert sum(display.counts().values()) == len(values)
    assert counts.sum() == display.counts()["finite"]
    assert np.all(np.diff(edges) > 0)


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
    cumulative = found.plot(kind="cumulative")
    cumulative.figure_.canvas.draw()


def test_one_finite_radius_is_one_bar_of_height_one():
    display = radii(0.25).plot()
    assert sum(heights(display, "finite")) == 1


def test_cumulative_share_is_that_of_radii_up_to_the_budget():
    display = SOME.plot(kind="cumulative")
    budgets, shares = display.line_.get_xdata(), display.line_.get_ydata()
    for budget, share in zip(budgets, shares, strict=True):
        assert share == pytest.approx(np.mean(SOME.upper <= budget))
    assert display.line_.get_drawstyle() == "steps-post"
    assert display.band_ is not None
    assert radii(0.1, 0.2).plot(kind="cumulative").band_ is None


def test_radii_of_several_models_are_drawn_on_one_ax():
    first = radii(0.1, 0.2).plot(kind="cumulative", name="plain")
    second = radii(0.3, 0.9).plot(first.ax_, kind="cumulative", name="robust")
    assert second.ax_ is first.ax_
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts == ["plain", "robust"]
    assert second.ax_.get_xlim()[1] >= 0.9


def test_axes_say_what_they_measure_and_names_are_shown_as_they_are():
    display = SOME.plot(name=NASTY)
    assert display.ax_.get_xlabel() == "radius (norm inf)"
    assert display.ax_.get_ylabel() == "number of instances"
    texts = [text.strip() for text in shown_texts(display.ax_)]
    assert NASTY in texts
    assert {"wrong\n(0)", "none\n(∞)", "not\ndecided"} <= set(texts)


def test_estimator_is_measured_and_drawn():
    model = ensemble(stump(0, 0.5))
    display = cg.RadiusDisplay.from_estimator(model, [[0.25], [0.75]], [0, 0], cg.Attacker("inf"))
    assert display.counts() == {"wrong": 1, "finite": 1, "infinite": 0, "undecided": 0}


def test_what_cannot_be_drawn_is_refused_and_leaves_no_figure(plt):
    with refused("kind", "'pie'"):
        SOME.plot(kind="pie")
    with refused("Radius", "[1]"):
        cg.RadiusDisplay.from_radii([1])
    with pytest.raises(ValueError, match="bins"):
        SOME.plot(bins=-3)
    assert plt.get_fignums() == []
