"""
XGBoost and scikit-learn: the same questions
============================================

A tree is a tree. Models of XGBoost and scikit-learn are asked the same
questions as those of LightGBM, and the answers are about the model *as its
library runs it*, down to the number format it reads and to what it says on a
tie.
"""

# %%
# Six models, one table
# ---------------------
#
# All on the same half of the breast cancer data, none of them tuned. XGBoost
# is optional here: where it is not installed, the rest of this page is the
# same.

import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split

import carvegbm as cg

try:
    from xgboost import XGBClassifier
except ImportError:
    XGBClassifier = None

data = load_breast_cancer()
X_train, X_test, y_train, y_test = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)
models = {
    "LightGBM": LGBMClassifier(
        n_estimators=50, num_leaves=8, random_state=0, n_jobs=1, verbose=-1
    ),
    "HistGradientBoosting": HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=8, random_state=0
    ),
    "GradientBoosting": GradientBoostingClassifier(
        n_estimators=50, random_state=0
    ),
    "RandomForest": RandomForestClassifier(n_estimators=50, random_state=0),
    "ExtraTrees": ExtraTreesClassifier(n_estimators=50, random_state=0),
}
if XGBClassifier is not None:
    models["XGBoost"] = XGBClassifier(
        n_estimators=50, max_depth=3, random_state=0, n_jobs=1
    )

print(f"{'':21} trees  leaves  scores  inputs")
for name, model in models.items():
    trees = cg.load(model.fit(X_train, y_train))
    size = f"{trees.n_trees:5}  {trees.n_leaves:6}  {trees.n_outputs:6}"
    print(f"{name:21} {size}  {trees.input_precision}")

# %%
# Nothing has to be converted or exported: ``cg.verify`` takes the fitted
# estimator (or a file, where the library writes one). The table shows what was
# read: forests have a score per class, and some models read their inputs as
# float32, which will matter below.
#
# The same attackers for all of them, in units of standard deviations:

deviation = X_train.std(axis=0)
attackers = {
    "every feature by 0.1": cg.Attacker("inf", 0.1, scale=deviation),
    "0.5 in all": cg.Attacker(1, 0.5, scale=deviation),
    "one feature at will": cg.Attacker(0, 1),
    "two features at will": cg.Attacker(0, 2),
}
results = {
    (name, who): cg.verify(model, X_test, y_test, attacker)
    for name, model in models.items()
    for who, attacker in attackers.items()
}
print(
    sum(result.counts["unknown"] for result in results.values()),
    "verdicts are unknown",
)

# %%

marks = dict(zip(attackers, "osD^", strict=True))
inks = dict(
    zip(attackers, ("#0072b2", "#009e73", "#e69f00", "#d55e00"), strict=True)
)
names = sorted(
    models, key=lambda name: results[name, "two features at will"].robustness
)
fig, ax = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
for height, name in enumerate(names):
    shares = [results[name, who].robustness[0] for who in attackers]
    accuracy = results[name, "0.5 in all"].accuracy
    ax.plot(
        [min(shares), accuracy],
        [height, height],
        color="#d0d7de",
        linewidth=3,
        zorder=1,
    )
    ax.plot(
        accuracy, height, "|", color="black", markersize=16, markeredgewidth=2
    )
    for who, share in zip(attackers, shares, strict=True):
        ax.plot(share, height, marks[who], color=inks[who], markersize=8)
ax.plot(
    [],
    [],
    "|",
    color="black",
    markersize=12,
    markeredgewidth=2,
    label="nobody (accuracy)",
)
for who in attackers:
    ax.plot([], [], marks[who], color=inks[who], label=who)
ax.set_yticks(range(len(names)), names)
ax.set(
    xlim=(0, 1.01),
    xlabel="test rows that stay right, whatever the attacker does",
)
ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
ax.grid(axis="x", alpha=0.3)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(left=False)
fig.legend(loc="outside upper center", ncols=3, frameon=False)
plt.show()

# %%
# Without an attack there is little between these models. With one there is a
# lot, and accuracy does not tell which is which. (This is one split of one set
# of data: it is no ranking of libraries.)
#
# Does the library agree?
# -----------------------
#
# Every witness goes back to the library that the model came from.

for name, model in models.items():
    found = cg.attack(model, X_test, y_test, attackers["every feature by 0.1"])
    sent = found.witnesses[found.success]
    flipped = model.predict(sent) != model.predict(X_test[found.success])
    print(
        f"{name:21} flips {flipped.sum():2} of {len(sent):2} witnesses, "
        f"{found.borderline.sum()} borderline"
    )

# %%
# What *borderline* means
# -----------------------
#
# The forest has fifty trees whose leaves are pure, so that they can be split
# 25 to 25. Then the sum of all trees is exactly on the threshold, and what the
# answer is depends on the library: scikit- learn names the first class. The
# verdict follows it, and the mark says that rounding or another order of
# summation might tip such a witness over. Whoever needs a witness that does
# not hang on this can leave them out.

forest = models["RandomForest"]
found = cg.attack(forest, X_test, y_test, attackers["every feature by 0.1"])
for row in np.flatnonzero(found.borderline):
    votes = forest.predict_proba(found.witnesses[[row]])[0]
    before, after = forest.predict([X_test[row], found.witnesses[row]])
    print(f"row {row:3}: probabilities {votes}, answer {before} → {after}")

# %%
# Numbers that the model cannot see
# ---------------------------------
#
# XGBoost reads its inputs as float32 and goes left if x < threshold. So there
# are numbers below the threshold that it takes for the threshold itself. An
# attack that is computed in double precision steps right into this gap. Here
# is a tree with a single split, and a row just right of it.

if XGBClassifier is not None:
    stump = XGBClassifier(n_estimators=1, max_depth=1, random_state=0).fit(
        X_train, y_train
    )
    split = cg.load(stump).to_trees()[0]
    feature = split["feature"]
    largest_left = np.float32(
        split["threshold"]
    )  # of the float32 numbers that go left
    threshold = np.nextafter(largest_left, np.float32(np.inf))
    x = X_test[0].copy()
    for text, value in (
        ("the threshold", float(threshold)),
        ("the double below", np.nextafter(float(threshold), 0)),
        ("the float32 below", float(largest_left)),
    ):
        x[feature] = value
        print(f"{text:18} {value:.17g}  XGBoost says {stump.predict([x])[0]}")

# %%
# The double below the threshold is smaller, and changes nothing. Here the
# attacker knows that: against a float32 model it moves on float32 numbers, and
# what it costs is still measured from the row as it was given, exactly.

for name, model in models.items():
    precision = cg.load(model).input_precision
    found = cg.attack(model, X_test, y_test, attackers["every feature by 0.1"])
    moved = found.witnesses != X_test
    values = found.witnesses[moved & found.success[:, None]]
    exact = np.mean(values == values.astype(np.float32).astype(float))
    print(
        f"{name:21} reads {precision}; {exact:4.0%} of the changes are float32"
    )

# %%
# What this does not show: models behind a pipeline. A scaler in front of the
# trees changes what a budget means; attack the model in the units that it
# sees, or give ``scale``.
