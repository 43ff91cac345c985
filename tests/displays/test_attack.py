"""What witnesses change: counted, measured and drawn as it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.sparse import csr_matrix

import carvegbm as cg
from drawn import NASTY, shown_texts
from plain_trees import ensemble, refused, stump

NAMES = ["age", NASTY, "sum"]
MODEL = ensemble(
    stump(0, 0.5),
    stump(1, 0.5, -0.4, 0.4),
    stump(2, 0.5, -0.1, 0.1),
    n_features=3,
    feature_names=NAMES,
)
X = np.random.default_rng(1).random((60, 3))
ATTACKER = cg.Attacker("inf", 0.2)


@pytest.fixture(name="found", scope="module")
def an_attack():
    return cg.attack(MODEL, X, MODEL.decide(X), ATTACKER)


def changes_of(found: cg.Attack, X: object) -> list:
    return cg.AttackDisplay(found, X).changes


def slowly(found: cg.Attack, X: np.ndarray) -> dict[int, list[float]]:
    moves: dict[int, list[float]] = {}
    for row in np.flatnonzero(found.success):
        for feature in range(X.shape[1]):
            if found.witnesses[row, feature] != X[row, feature]:
                change = found.witnesses[row, feature] - X[row, feature]
                moves.setdefault(feature, []).append(change)
    return moves


def test_changes_are_the_differences_between_witnesses_and_instances(found):
    display, want = cg.AttackDisplay(found, X), slowly(found, X)
    assert display.n_witnesses == np.count_nonzero(found.success) > 3
    assert {change.feature for change in display.changes} == set(want)
    for change in display.changes:
        sizes = np.array(want[change.feature])
        assert (change.up, change.down) == ((sizes > 0).sum(), (sizes < 0).sum())
        assert change.changed == len(sizes)
        far = np.abs(sizes)
        assert (change.smallest, change.median, change.largest) == (
            far.min(),
            np.median(far),
            far.max(),
        )
    counts = [change.changed for change in display.changes]
    assert counts == sorted(counts, reverse=True)


def test_bars_are_the_shares_of_witnesses(found, plt):
    display = found.plot(X)
    n = display.n_witnesses
    for way in ("up", "down"):
        widths = [bar.get_width() for bar in display.bars_[way]]
        shares = [getattr(change, way) / n for change in display.changes]
        assert widths == pytest.approx(shares)
    ends = [bar.get_x() for bar in display.bars_["down"]]
    assert ends == pytest.approx([change.up / n for change in display.changes])
    assert display.bars_["up"][0].get_hatch() != display.bars_["down"][0].get_hatch()
    assert plt.get_fignums() == [display.figure_.number]


@pytest.mark.usefixtures("plt")
def test_names_are_shown_as_they_are_with_how_far(found):
    texts = [text.strip() for text in shown_texts(found.plot(X, name="$t$").ax_)]
    assert {"age", NASTY, "$t$"} <= set(texts)
    assert any(text.startswith("by ") and "median" in text for text in texts)


def test_rounding_of_a_float32_model_is_no_change():
    xgboost = pytest.importorskip("xgboost")
    y = (X[:, 0] > 0.5).astype(int)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=1, n_jobs=1).fit(X, y)
    found = cg.attack(model, X, y, ATTACKER)
    assert found.success.any()
    used = set(cg.load(model).nodes["feature"].tolist())
    changed = {change.feature for change in changes_of(found, X)}
    assert {0} <= changed <= used


def test_sparse_instances_have_the_changes_of_dense_ones():
    dense = np.where(X < 0.4, 0.0, X)
    y = MODEL.decide(dense)
    found = cg.attack(MODEL, csr_matrix(dense), y, ATTACKER)
    want = changes_of(cg.attack(MODEL, dense, y, ATTACKER), dense)
    assert want
    for given in (csr_matrix(dense), dense):
        assert changes_of(found, given) == want
    dense_attack = cg.attack(MODEL, dense, y, ATTACKER)
    assert changes_of(dense_attack, csr_matrix(dense)) == want


def test_missing_values_are_not_changes():
    model = ensemble(stump(0, 0.5, missing="right"), stump(1, 0.5), n_features=2)
    rows = np.array([[np.nan, 0.45], [0.45, 0.45]])
    found = cg.attack(model, rows, model.decide(rows), ATTACKER)
    assert found.success.any()
    for change in changes_of(found, rows):
        assert np.isfinite(change.largest)


@pytest.mark.usefixtures("plt")
def test_categories_are_changed_to_others_and_not_up_or_down():
    rng = np.random.default_rng(0)
    colour = rng.choice(["blue", "green", "red"], 300)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "size": rng.random(300)})
    y = (colour == "red").astype(int)
    model = LGBMClassifier(
        n_estimators=3,
        min_child_samples=5,
        min_data_per_group=1,
        cat_smooth=0,
        verbose=-1,
        n_jobs=1,
    ).fit(frame, y)
    found = cg.attack(model, frame, y, cg.Attacker(0, 1))
    display = found.plot(frame)
    (of_colour,) = (c for c in display.changes if c.name == "colour")
    assert (of_colour.up, of_colour.down) == (0, 0)
    assert of_colour.other == display.n_witnesses > 0
    assert "another category" in shown_texts(display.ax_)


def test_what_cannot_be_drawn_is_refused_and_leaves_no_figure(found, plt):
    with refused("X", "(59, 3)", "(60, 3)"):
        found.plot(X[1:])
    with refused("Attack", "None"):
        cg.AttackDisplay.from_result(None, X=X)
    assert plt.get_fignums() == []
