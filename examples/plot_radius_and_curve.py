"""
How far is safe: radius and robustness curve
============================================

Whether an answer can be flipped depends on the budget, and often nobody knows
the budget. Then ask the other way round: how much does it take? The *radius*
of a row is the smallest budget that flips it, and the *robustness curve* of a
model is what all radii together look like.
"""

# %%
# A radius can be seen
# --------------------
#
# Two features, so that everything can be drawn: two half moons, and a plain
# LightGBM model. Its trees cut the plane into boxes.

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMClassifier
from matplotlib.patches import Polygon
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import train_test_split

import carvegbm as cg

X, y = make_moons(500, noise=0.25, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=200, random_state=0
)
quiet = {"random_state": 0, "n_jobs": 1, "verbose": -1}
moons = LGBMClassifier(n_estimators=100, num_leaves=15, **quiet).fit(
    X_train, y_train
)

radii = {
    norm: cg.radius(moons, X_test, y_test, cg.Attacker(norm))
    for norm in ("inf", 1)
}
for radius in radii.values():
    print(radius)

# %%
# All points within a budget of x form a square for norm inf, where every
# feature may move by the budget, and a diamond for norm 1, where moves add up.
# With the radius as the budget they just touch the other colour. A star marks
# where: the *witness*, from :func:`carvegbm.attack`.

corners = {
    "inf": np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]),
    1: np.array([[-1, 0], [0, -1], [1, 0], [0, 1]]),
}
titles = {
    "inf": "norm inf: each move ≤ budget",
    1: "norm 1: sum of moves ≤ budget",
}
colours = np.array(["#d55e00", "#0072b2"])

# Right rows that are not too near to one another, to keep the drawing clear.
shown = []
for row in np.flatnonzero((radii[1].radius > 0.15) & (radii[1].radius < 0.8)):
    if all(
        np.abs(X_test[row] - X_test[other]).max() > 0.75 for other in shown
    ):
        shown.append(row)

across, up = np.meshgrid(
    np.linspace(-1.8, 2.8, 460), np.linspace(-1.5, 2, 350)
)
regions = moons.predict(np.column_stack([across.ravel(), up.ravel()])).reshape(
    across.shape
)

fig, axes = plt.subplots(
    1, 2, figsize=(10, 4.3), sharey=True, layout="constrained"
)
for ax, (norm, radius) in zip(axes, radii.items(), strict=True):
    ax.contourf(
        across,
        up,
        regions,
        levels=[-0.5, 0.5, 1.5],
        colors=["#f9dcc9", "#c9e1f1"],
    )
    ax.scatter(*X_test.T, s=7, c=colours[y_test], alpha=0.35, linewidth=0)
    for row in shown:
        x, far = X_test[row], radius.radius[row]
        ax.add_patch(
            Polygon(x + far * corners[norm], fill=False, edgecolor="#1f2328")
        )
        ax.plot(
            *x,
            "o",
            color=colours[y_test[row]],
            markeredgecolor="black",
            markersize=6,
        )
        found = cg.attack(moons, [x], [y_test[row]], cg.Attacker(norm, far))
        ax.plot(*found.witnesses[0], "*", color="black", markersize=8)
    ax.set(
        title=titles[norm], aspect="equal", xlim=(-1.8, 2.8), ylim=(-1.5, 2)
    )
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Exact to the last bit
# ---------------------
#
# The radius is not a search up to some precision. At the radius the row flips;
# at the largest double below it, it provably does not.

row = shown[0]
radius = radii["inf"].radius[row]
for budget in (radius, np.nextafter(radius, 0)):
    result = cg.verify(
        moons, X_test[[row]], y_test[[row]], cg.Attacker("inf", budget)
    )
    print(f"budget {budget:.17f}: {result.status[0]}")

# %%
# From radii to a curve
# ---------------------
#
# A row is robust against a budget if its radius is larger. So the share of
# radii beyond a budget is the robustness at that budget, and the curve is a
# picture of all radii. :func:`carvegbm.robustness_curve` needs one pass over
# the rows for any number of budgets.

budgets = np.linspace(0, 1, 11)
curve = cg.robustness_curve(
    moons, X_test, y_test, cg.Attacker("inf"), budgets=budgets
)
print(curve)

# %%
# Where the radii are there already, they can be drawn as they are: in a
# histogram, or as the curve with every one of its steps. The dots are the
# budgets of the table above.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
radii["inf"].plot(axes[0])
cg.RobustnessCurveDisplay.from_result(radii["inf"], ax=axes[1])
axes[1].plot(curve.budgets, curve.lower, "o", color="#d55e00")
plt.show()

# %%
# Several models in one picture
# -----------------------------
#
# Now thirty features: the breast cancer data, in units of their standard
# deviations. Three models: plain LightGBM; robust training for norm inf and a
# budget of 0.3; and certified large-spread training for norm inf and 0.1, a
# restricted kind of model that can be verified in microseconds. Training makes
# its choices on validation rows; the curves are those of test rows.

data = load_breast_cancer()
X_train, X_rest, y_train, y_rest = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)
deviation = X_train.std(axis=0)
X_train, X_rest = X_train / deviation, X_rest / deviation
X_valid, X_test, y_valid, y_test = train_test_split(
    X_rest, y_rest, test_size=0.6, stratify=y_rest, random_state=0
)

plain = LGBMClassifier(n_estimators=60, num_leaves=15, **quiet).fit(
    X_train, y_train
)
robust = cg.RobustClassifier(norm="inf", budget=0.3, random_state=0, n_jobs=1)
spread = cg.LargeSpreadClassifier(
    norm="inf", budget=0.1, certified=True, random_state=0, n_jobs=1
)
for model in (robust, spread):
    model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)])
models = {"plain": plain, "robust": robust, "large-spread, certified": spread}

questions = {
    "inf": (1, "every feature, by deviations"),
    1: (4, "deviations in all"),
    0: (5, "features, at will"),
}
fig, axes = plt.subplots(
    1, 3, figsize=(11, 4), sharey=True, layout="constrained"
)
for ax, (norm, (largest, unit)) in zip(axes, questions.items(), strict=True):
    cg.RobustnessCurveDisplay.from_result(
        {
            name: cg.radius(model, X_test, y_test, cg.Attacker(norm))
            for name, model in models.items()
        },
        ax=ax,
    )
    ax.set(
        title=f"norm {norm}",
        xlabel=f"budget: {unit}",
        ylabel="",
        xlim=(0, largest),
    )
    if ax is not axes[0]:
        ax.get_legend().remove()
axes[0].set_ylabel("robustness on test rows")
plt.show()

# %%
# At budget 0 every curve starts at the accuracy. No model is best everywhere:
# the robust one is where it was trained to be, against small changes of
# everything at once. Against few and large changes the large-spread one does
# better here, though nobody asked it to.
#
# What this does not show: that the order is the same on other data. There are
# 171 test rows; a difference of one or two percent is two or three of them.
