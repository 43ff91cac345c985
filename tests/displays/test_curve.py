"""Robustness over budget: the curve drawn is the robustness that `verify` finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.totals import CurveTotals
from drawn import NASTY, radii, shown_texts
from plain_trees import ensemble, refused, stump

pytestmark = pytest.mark.usefixtures("plt")

INF = np.inf
MODEL = ensemble(stump(0, 0.5), stump(1, 0.25), n_features=2)
OTHER = ensemble(stump(0, 0.75), n_features=2)
X = np.random.default_rng(0).random((40, 2))
Y = (X[:, 0] > 0.6).astype(int)


def test_steps_are_the_robustness_at_every_budget():
    display = cg.RobustnessCurveDisplay.from_estimator(MODEL, X, Y, cg.Attacker("inf"))
    line = display.line_
    assert line.get_drawstyle() == "steps-post"
    budgets, shares = line.get_xdata(), line.get_ydata()
    for i in (0, 3, len(budgets) // 2, len(budgets) - 3):
        for budget in (budgets[i], (budgets[i] + budgets[i + 1]) / 2):
            found = cg.verify(MODEL, X, Y, cg.Attacker("inf", budget))
            assert found.robustness == (shares[i], shares[i])


def test_at_budget_0_robustness_is_accuracy():
    display = cg.RobustnessCurveDisplay.from_estimator(MODEL, X, Y, cg.Attacker(1))
    accuracy = np.mean(MODEL.decide(X) == Y)
    assert display.line_.get_xdata()[0] == 0
    assert display.line_.get_ydata()[0] == accuracy
    assert display.curves[0].accuracy == accuracy
    curve = cg.robustness_curve(MODEL, X, Y, cg.Attacker(1), budgets=[0.2, 0.1])
    drawn = curve.plot().line_
    assert drawn.get_xdata().tolist() == [0, 0.1, 0.2]
    assert drawn.get_ydata().tolist() == [accuracy, curve.lower[1], curve.lower[0]]


def test_band_goes_from_lower_to_upper_where_something_is_undecided():
    found = radii(0.1, 0.3, (0.2, INF), (0.2, 0.4))
    display = cg.RobustnessCurveDisplay.from_result(found)
    (curve,) = display.curves
    assert curve.budgets.tolist() == [0, 0.1, 0.2, 0.3, 0.4]
    assert curve.lower.tolist() == [1, 0.75, 0.25, 0, 0]
    assert curve.upper.tolist() == [1, 0.75, 0.75, 0.5, 0.25]
    (band,) = display.bands_
    corners = {tuple(np.round(corner, 12)) for corner in band.get_paths()[0].vertices}
    assert {(0.2, 0.25), (0.2, 0.75), (0.3, 0.0), (0.3, 0.5)} <= corners
    assert "not decided" in shown_texts(display.ax_)
    assert cg.RobustnessCurveDisplay.from_result(radii(0.1)).bands_ == [None]


@given(
    st.lists(
        st.tuples(st.floats(0, 10), st.one_of(st.just(0.0), st.floats(0, 10), st.just(INF))),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.floats(0.001, 20), max_size=5),
)
def test_curve_of_radii_is_the_share_beyond_each_budget(pairs, budgets):
    found = radii(*((low, low + more) for low, more in pairs))
    (exact,) = cg.RobustnessCurveDisplay(found).curves
    assert np.all(np.diff(exact.budgets) > 0)
    at_budgets = cg.RobustnessCurveDisplay(found, budgets=budgets).curves if budgets else ()
    for curve in (exact, *at_budgets):
        slow = CurveTotals.of(found.columns(), found.norm, tuple(curve.budgets.tolist()))
        want = cg.Curve.of(slow)
        np.testing.assert_array_equal(curve.lower, want.lower)
        np.testing.assert_array_equal(curve.upper, want.upper)
        assert curve.accuracy == want.accuracy


@pytest.mark.parametrize(
    ("found", "share"), [(radii(INF, INF), 1), (radii(0, 0), 0), (radii((0, INF)), 0)]
)
def test_curve_without_a_step_is_flat(found, share):
    display = cg.RobustnessCurveDisplay.from_result(found)
    assert set(display.line_.get_ydata()) == {share}
    assert display.line_.get_xdata()[-1] == 1
    display.figure_.canvas.draw()


def test_several_models_are_in_one_picture_told_apart_by_more_than_colour(plt):
    models = {"plain": MODEL, "robust": OTHER}
    found = {name: cg.radius(model, X, Y, cg.Attacker("inf")) for name, model in models.items()}
    display = cg.RobustnessCurveDisplay.from_result(found)
    first, second = display.lines_
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_xdata()[-1] == second.get_xdata()[-1]
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["plain", "robust"]
    assert len(plt.get_fignums()) == 1
    for line, model in zip(display.lines_, models.values(), strict=True):
        alone = cg.RobustnessCurveDisplay.from_estimator(model, X, Y, cg.Attacker("inf")).line_
        np.testing.assert_array_equal(alone.get_ydata()[:-1], line.get_ydata()[:-1])


def test_curves_join_those_that_are_on_an_ax_already(plt):
    one = cg.RobustnessCurveDisplay.from_result(radii(0.1, 0.2), name="one")
    two = cg.RobustnessCurveDisplay.from_result(radii(0.1, 5.0), name="two", ax=one.ax_)
    assert two.ax_ is one.ax_
    assert one.line_.get_color() != two.line_.get_color()
    two.figure_.canvas.draw()
    left, right = two.ax_.get_xlim()
    assert left == 0
    assert right >= 5
    assert [t.get_text() for t in two.ax_.get_legend().get_texts()] == ["one", "two"]
    assert len(plt.get_fignums()) == 1


def test_budgets_and_limits_are_those_asked_for():
    for attacker in (cg.Attacker("inf"), cg.Attacker("inf", 9)):
        display = cg.RobustnessCurveDisplay.from_estimator(
            MODEL, X, Y, attacker, budgets=iter([0.05, 0.1])
        )
        want = cg.robustness_curve(MODEL, X, Y, cg.Attacker("inf"), budgets=[0.05, 0.1])
        np.testing.assert_array_equal(display.curves[0].lower, want.lower)
    near = cg.RobustnessCurveDisplay.from_estimator(MODEL, X, Y, cg.Attacker("inf"), max_budget=0.1)
    exact = cg.RobustnessCurveDisplay.from_estimator(MODEL, X, Y, cg.Attacker("inf"))
    (curve,), (whole,) = near.curves, exact.curves
    assert curve.budgets[-1] == 0.1
    known = np.searchsorted(whole.budgets, curve.budgets, side="right") - 1
    np.testing.assert_array_equal(curve.lower, whole.lower[known])


def test_models_are_called_by_class_or_file_and_names_are_shown_as_they_are(sample_folder):
    display = cg.RobustnessCurveDisplay.from_estimator(MODEL, X, Y, cg.Attacker(1))
    assert display.names == ("Ensemble",)
    table = cg.load_table(sample_folder / "sample_data.csv")
    of_file = cg.RobustnessCurveDisplay.from_estimator(
        sample_folder / "sample_model.txt", table.X[:3], table.y[:3], cg.Attacker("inf")
    )
    assert of_file.names == ("sample_model",)
    nasty = cg.RobustnessCurveDisplay.from_result(radii(0.1), name=NASTY)
    (text,) = nasty.ax_.get_legend().get_texts()
    assert NASTY in [shown.strip() for shown in shown_texts(nasty.ax_)]
    assert text.get_text().strip() == NASTY.replace("$", r"\$")


def test_an_outlier_makes_the_axis_logarithmic_beyond_the_smallest_budgets():
    values = [0.01 * i for i in range(1, 30)]
    near = cg.RobustnessCurveDisplay.from_result(radii(*values))
    far = cg.RobustnessCurveDisplay.from_result(radii(*values, 500.0))
    assert (near.ax_.get_xscale(), far.ax_.get_xscale()) == ("linear", "symlog")
    assert far.ax_.get_xlim()[0] == 0
    place = far.ax_.transAxes.inverted().transform(far.ax_.transData.transform((0.29, 0)))[0]
    assert place > 0.2


def test_what_cannot_be_drawn_is_refused_and_leaves_no_figure(plt):
    with refused("Radius", "Curve", "0.5"):
        cg.RobustnessCurveDisplay.from_result(0.5)
    with refused("budgets", "Curve"):
        cg.RobustnessCurveDisplay(cg.RobustnessCurveDisplay(radii(1.0)).curves[0], budgets=[1])
    with refused("norm"):
        cg.RobustnessCurveDisplay.from_estimator(MODEL, X, Y)
    both = cg.RobustnessCurveDisplay({"a": radii(1.0), "b": radii(2.0)})
    with refused("name", "2"):
        both.plot(name="c")
    with refused("at least one"):
        cg.RobustnessCurveDisplay({})
    assert plt.get_fignums() == []


@pytest.mark.parametrize("norm", ["inf", 0])
def test_radii_that_were_sought_no_further_end_the_curve_and_do_not_lower_it(norm):
    stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    model = cg.Ensemble.from_trees([stump, {**stump, "feature": 1}], n_features=2)
    X, y = [[0.75, 9.0], [9.0, 9.0]], [1, 1]
    sought = 2 if norm == "inf" else 1
    radii = cg.radius(model, X, y, cg.Attacker(norm), max_budget=sought)
    (curve,) = cg.RobustnessCurveDisplay(radii).curves
    assert curve.budgets[-1] == sought
    assert curve.lower.tolist() == curve.upper.tolist()
    whole = cg.RobustnessCurveDisplay(cg.radius(model, X, y, cg.Attacker(norm))).curves[0]
    assert whole.lower[-1] == 0
