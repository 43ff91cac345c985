"""Bars of verifications: what is drawn is what was proved."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.statuses import COLOURS, HATCHES, STATUSES
from drawn import ATTACKER, NASTY, shown_texts, verification
from plain_trees import ensemble, refused, stump

pytestmark = pytest.mark.usefixtures("plt")

MIXED = ["robust"] * 5 + ["fragile"] * 2 + ["broken", "vulnerable", "unknown"]


def test_segments_are_the_shares_and_accuracy_parts_right_from_wrong(plt):
    result = verification(MIXED)
    display = result.plot()
    (bars,) = display.bars_
    for status in STATUSES:
        assert bars[status].get_width() == pytest.approx(result.counts[status] / 10)
        assert bars[status].get_facecolor()[:3] == plt.matplotlib.colors.to_rgb(COLOURS[status])
        assert (bars[status].get_hatch() or "") == HATCHES[status]
    for status in ("robust", "fragile", "unknown"):
        assert bars[status].get_x() + bars[status].get_width() <= result.accuracy + 1e-12
    for status in ("broken", "vulnerable"):
        assert bars[status].get_x() >= result.accuracy - 1e-12
    (mark,) = display.accuracy_.get_segments()
    assert mark[:, 0].tolist() == [result.accuracy] * 2


def test_robustness_lies_between_the_ends_of_what_is_unknown():
    result = verification(MIXED)
    display = result.plot()
    unknown = display.bars_[0]["unknown"]
    ends = (unknown.get_x(), unknown.get_x() + unknown.get_width())
    assert ends == pytest.approx(result.robustness)
    assert display.intervals_[0].get_xdata() == pytest.approx(result.robustness)
    assert "accuracy 80.0 %, robustness 50.0 % to 60.0 %" in shown_texts(display.ax_)


def test_unknown_and_wrong_instances_cannot_be_robust():
    display = verification(["robust", "unknown", "unknown"], open_and_wrong=[2]).plot()
    bars = display.bars_[0]
    assert bars["unknown"].get_x() == pytest.approx(1 / 3)
    assert bars["unknown and wrong"].get_x() == pytest.approx(2 / 3)
    only_wrong = verification(["robust", "unknown"], open_and_wrong=[1]).plot()
    assert set(only_wrong.bars_[0]) == {"robust", "unknown and wrong"}
    assert only_wrong.intervals_ == []


def test_several_verifications_are_a_bar_each():
    one, other = verification(["robust"] * 3 + ["fragile"]), verification(["fragile"] * 4)
    display = cg.VerificationDisplay.from_result({"plain": one, "robust": other})
    assert [bars["fragile"].get_width() for bars in display.bars_] == [0.25, 1]
    assert {"plain", "robust"} <= set(shown_texts(display.ax_))
    assert display.ax_.get_xlabel() == "share of 4 instances; norm inf, budget 0.1"
    places = [bars["fragile"].get_y() for bars in display.bars_]
    assert places[0] < places[1]
    assert display.ax_.yaxis_inverted()


def test_ten_classes_are_ten_bars_under_that_of_all():
    statuses = np.random.default_rng(0).choice(STATUSES, 200)
    result, y = verification(statuses.tolist()), np.arange(200) % 10
    display = result.plot(y=y)
    assert display.names == ("all", *map(str, range(10)))
    for label in range(10):
        bars, of_class = display.bars_[1 + label], statuses[y == label]
        for status in set(of_class):
            width = np.mean(of_class == status)
            assert bars[status].get_width() == pytest.approx(width)
    height = display.figure_.get_figheight()
    assert height > 2 * verification(["robust"]).plot().figure_.get_figheight()


def test_a_name_is_shown_as_it_is():
    display = verification(["robust"]).plot(name=NASTY)
    assert NASTY in [text.strip() for text in shown_texts(display.ax_)]
    by_class = verification(["robust", "fragile"]).plot(y=["$a$", "b$"])
    assert {"$a$", "b$"} <= set(shown_texts(by_class.ax_))


def test_a_given_ax_is_drawn_on_and_no_figure_is_opened(plt):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    display = verification(MIXED).plot(ax)
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    assert plt.get_fignums() == []


def test_estimator_is_verified_and_drawn():
    model = ensemble(stump(0, 0.5))
    X, y = [[0.1], [0.45], [0.9]], [0, 0, 0]
    display = cg.VerificationDisplay.from_estimator(model, X, y, ATTACKER, by_class=True)
    assert display.totals[0].counts == cg.verify(model, X, y, ATTACKER).counts
    assert display.names == ("all", "0")
    with refused("by_class", "y"):
        cg.VerificationDisplay.from_estimator(model, X, attacker=ATTACKER, by_class=True)


def test_totals_of_parts_are_drawn_too():
    result = verification(MIXED)
    display = cg.VerificationDisplay.from_result([result._totals.plus(result._totals)])
    assert display.ax_.get_xlabel() == "share of 20 instances"
    with refused("y", "totals"):
        cg.VerificationDisplay.from_result(result._totals, y=[0] * 10)


def test_what_cannot_be_drawn_is_refused_in_one_line_and_leaves_no_figure(plt):
    result = verification(["robust"])
    assert cg.VerificationDisplay(result).names == ("norm inf, budget 0.1",)
    with refused("Verification", "0.3"):
        cg.VerificationDisplay.from_result(0.3)
    with refused("y", "(2,)"):
        result.plot(y=[0, 1])
    with refused("name", "2"):
        cg.VerificationDisplay([result, result]).plot(name="both")
    with refused("at least one"):
        cg.VerificationDisplay.from_result({})
    with refused("ax", "list"):
        result.plot([1])
    with refused("no instances"):
        verification([]).plot()
    assert plt.get_fignums() == []
