"""
A plain model and its attacks
=============================

A model that is right on 95 % of the test data can still hang by a thread. Here
is a plain LightGBM model of the kind that everyone trains. We ask how far its
answers can be trusted if the measurements are a little off, look at the
changes that break them, and send these back to LightGBM itself.
"""

# %%
# The model
# ---------
#
# The breast cancer data of scikit-learn: thirty measurements of cell nuclei,
# and whether the tumour is malignant (0) or benign (1). Nothing about this
# model is special.

# sphinx_gallery_thumbnail_number = 2
import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import carvegbm as cg

data = load_breast_cancer()
names = [name.replace(" ", "_") for name in data.feature_names]
X_train, X_test, y_train, y_test = train_test_split(
    data.data, data.target, test_size=0.4, stratify=data.target, random_state=0
)
parameters = {
    "objective": "binary",
    "num_leaves": 15,
    "seed": 0,
    "num_threads": 1,
    "verbose": -1,
}
model = lgb.train(
    parameters, lgb.Dataset(X_train, y_train, feature_name=names), 100
)


def answers(rows):
    """What LightGBM itself says."""
    return (model.predict(rows) > 0.5).astype(int)


accuracy = np.mean(answers(X_test) == y_test)
print(f"right on {accuracy:.1%} of {len(X_test)} test rows")

# %%
# Who may change what
# -------------------
#
# An attacker has a norm and a budget. Thirty features in thirty units need a
# common measure first: ``scale`` says what a unit of the budget is worth in
# each of them, here the standard deviation of the training data. So "every
# feature by 0.1" may change *every* measurement, but by no more than a tenth
# of a standard deviation; "0.5 in all" has half a deviation to share among
# them; and "one feature at will" may set *any one* measurement to any value.
#
# Call it an attacker or call it a careless laboratory: the question is the
# same, which changed rows exist.

deviation = X_train.std(axis=0)
attackers = {
    "every feature by 0.05": cg.Attacker("inf", 0.05, scale=deviation),
    "every feature by 0.1": cg.Attacker("inf", 0.1, scale=deviation),
    "0.5 in all": cg.Attacker(1, 0.5, scale=deviation),
    "one feature at will": cg.Attacker(0, 1),
    "two features at will": cg.Attacker(0, 2),
}
results = {
    name: cg.verify(model, X_test, y_test, who)
    for name, who in attackers.items()
}

for name, result in results.items():
    print(f"{name:22}{result.summary()}, {result.counts['unknown']} unknown")

# %%
# These numbers are proved, not estimated: ``robust`` says that *no* change
# within the budget flips the row, of more possible ones than could ever be
# tried.

cg.VerificationDisplay.from_result(results)
plt.show()

# %%
# Two features at will are enough for more than half of the rows: no surprise,
# as these two may take values that no cell ever had.
# :class:`carvegbm.Attacker` takes ``bounds`` for that, and much more.
#
# The changes that do it
# ----------------------
#
# For every row that can be flipped, :func:`carvegbm.attack` gives a *witness*:
# the changed row. Let us take the attacker with a tenth of a deviation, and
# the fragile row that the model was most sure of.

found = cg.attack(model, X_test, y_test, attackers["every feature by 0.1"])
fragile = np.flatnonzero(found.status == "fragile")
before, after = (
    model.predict(X_test[fragile]),
    model.predict(found.witnesses[fragile]),
)

surest = np.argmax(np.abs(before - 0.5))
row = fragile[surest]
print(f"row {row}, {data.target_names[y_test[row]]}: LightGBM's probability")
print(
    f"of benign is {before[surest]:.3f}, for its witness {after[surest]:.3f}"
)

# %%
# That witness was free to use the whole budget. What is the *least* that flips
# this row? :func:`carvegbm.explain` finds the nearest witness, and takes it
# apart: which features it changes, and what each tree makes of it. None of its
# changes can be taken back without losing the flip. (``print(told)`` has all
# of it in words, and so has the command ``carvegbm explain``.)

told = cg.explain(
    model, X_test, y_test, attackers["every feature by 0.1"], row=row
)
print(f"radius {told.radius:.4f}; {len(told.changes)} features are changed,")
print(
    f"and {len(told.trees)} of {model.num_trees()} trees end in another leaf"
)

# %%

changes = sorted(told.changes, key=lambda change: change.distance)
moves = [
    np.sign(change.after - change.before) * change.distance
    for change in changes
]
heights = range(len(changes))
fig, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.2), width_ratios=[3, 2], layout="constrained"
)
left.axvspan(-told.radius, told.radius, color="#eef1f4", zorder=0)
left.hlines(heights, 0, moves, color="#c0462d", linewidth=2)
left.plot(moves, heights, "o", color="#c0462d")
left.axvline(0, color="#59636e", linewidth=0.8)
for height, change in zip(heights, changes, strict=True):
    text = f"{change.before:.5g} → {change.after:.5g}"
    left.text(
        1.2 * told.radius,
        height,
        text,
        va="center",
        family="monospace",
        fontsize=9,
    )
left.set_yticks(heights, [change.name for change in changes])
left.set(
    xlim=(-1.1 * told.radius, 2.4 * told.radius),
    xticks=[-0.05, 0, 0.05],
    xlabel="change in standard deviations; the radius is shaded",
    title="What changes",
)
left.spines[["top", "right", "left"]].set_visible(False)
left.tick_params(left=False)

taken = np.sort([float(tree.contribution) for tree in told.trees])[::-1]
margins = told.margin - np.cumsum([0, *taken])
right.step(range(len(margins)), margins, where="post", color="#c0462d")
right.axhline(0, color="#59636e", linewidth=0.8)
right.set(
    xlabel="trees that end in another leaf",
    ylabel="margin: right above 0, wrong below",
    title="What it does, tree by tree",
)
right.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# No value is remarkable, and no tree is to blame: many small steps over
# thresholds that happened to be near add up. A move up ends at the next double
# above a threshold, a move down on the threshold itself.
#
# Do not take our word for it
# ---------------------------
#
# A witness can be checked without this package. Is it within the budget, and
# does LightGBM's own ``predict`` change its mind? (The distance is checked
# here in floating point, so up to a rounding; inside it is compared as a
# fraction.) A witness that flips the exact sum by less than the library's
# rounding is marked ``borderline``.

far = np.abs(found.witnesses - X_test)[fragile] / deviation
flipped = answers(found.witnesses[fragile]) != answers(X_test[fragile])
print(
    f"{flipped.sum()} of {len(fragile)} witnesses flip LightGBM's own predict"
)
print(f"the largest change is {far.max():.6f} deviations")
print(f"{found.borderline.sum()} are borderline")

# %%
# Would trying have found them?
# -----------------------------
#
# The usual way to test a model is to shake its inputs. Here every fragile row
# gets 20,000 random changes within the same budget.

rng = np.random.default_rng(0)
tries = 20_000
hits = []
for row in fragile:
    noise = rng.uniform(-0.1, 0.1, size=(tries, X_test.shape[1])) * deviation
    hits.append(int(np.sum(answers(X_test[row] + noise) != y_test[row])))
hits = np.sort(hits)[::-1]

fig, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
places = np.arange(len(hits))
ax.bar(
    places,
    np.maximum(hits, 1) / tries,
    color=np.where(hits > 0, "#3d82e0", "none"),
)
for place in places[hits == 0]:
    ax.text(place, 1.2 / tries, "none", ha="center", color="#c0462d")
ax.set_yscale("log")
ax.set(
    ylim=(1 / tries, 1),
    xticks=[],
    xlabel="fragile rows, each with a witness",
    ylabel=f"share of {tries:,} random changes\nthat flip the row",
    title=f"Random changes miss {sum(hits == 0)} of {len(hits)} fragile rows",
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# For some rows every second change will do, and shaking is enough. For others
# the changes that matter are so rare that it finds none; and where it finds
# none, it cannot say whether there is one. An exact answer can: all other
# right rows were proved to have none.
#
# What this does not show: that anyone can change these measurements, or that a
# tenth of a deviation is the right amount. That is for you to say. The answers
# are about these rows and this model only.
