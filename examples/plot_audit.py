"""
An audit, from the model to a checked proof
===========================================

A bank has bought a model that stops fraudulent payments. How much does a
fraudster have to change to get a payment through? The vendor answers with a
file of proofs; the auditor, who trusts nobody, checks it with a program of one
file that shares nothing with the tool that wrote it. At the end stand
sentences that can be signed, and hashes of what they are about.
"""

# %%
# What the auditor is given
# -------------------------
#
# A model in a file, and held-out payments. Here both are made on the spot,
# from a small random machine; in an audit they come from outside.

# sphinx_gallery_thumbnail_number = 2
import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMClassifier
from sklearn.model_selection import train_test_split

import carvegbm as cg

names = [
    "amount",
    "hour",
    "account_age_days",
    "payments_24h",
    "new_device",
    "merchant_risk",
]
rng = np.random.default_rng(0)
n = 4000
fraud = rng.random(n) < 0.3


def by_kind(of_fraud, of_others):
    """One number for frauds, another for the rest."""
    return np.where(fraud, of_fraud, of_others)


X = np.column_stack(
    [
        np.round(np.exp(rng.normal(by_kind(5.2, 3.6), 0.9)), 2),
        np.round(rng.normal(by_kind(3, 14), by_kind(5, 4.5))) % 24,
        np.round(rng.gamma(1.2, by_kind(120, 600))),
        rng.poisson(by_kind(5, 1.8)),
        rng.random(n) < by_kind(0.6, 0.12),
        np.round(rng.beta(by_kind(3, 2), by_kind(3, 5)), 3),
    ]
).astype(float)
X_train, X_test, y_train, y_test = train_test_split(
    X, fraud.astype(int), random_state=0
)
model = LGBMClassifier(
    n_estimators=80, num_leaves=10, random_state=0, n_jobs=1, verbose=-1
)
model.fit(X_train, y_train, feature_name=names)

room = tempfile.TemporaryDirectory()  # gone at the end
folder = Path(room.name)
model.booster_.save_model(folder / "model.txt")
frauds = X_test[y_test == 1]  # only fraudsters attack
table = np.column_stack([frauds, np.ones(len(frauds))])
header = ",".join([*names, "label"])
np.savetxt(
    folder / "frauds.csv",
    table,
    "%.17g",
    delimiter=",",
    header=header,
    comments="",
)

given = cg.load(folder / "model.txt")
caught, alarms = given.decide(frauds), given.decide(X_test[y_test == 0])
print(
    f"{len(frauds)} held-out frauds, of which {caught.mean():.1%} are stopped"
)
print(f"{alarms.mean():.1%} of the other payments are stopped, too")

# %%
# The attacker, in writing
# ------------------------
#
# What a fraudster can do is a matter for people who know fraud, not for a
# tool. So it goes into a file that both sides can read and sign. Every line is
# a statement that one can disagree with.

terms = """\
norm = 1                 # costs add up
budget = 2               # units of effort per payment
# what is not among these is out of reach
features = ["amount", "hour", "account_age_days", "payments_24h"]

[scale]                  # what a unit of effort buys: [down, up]; 0: nothing
amount = [50, 0]         # ask for 50 less; asking for more makes no sense
hour = 6                 # wait, or hurry, by six hours
account_age_days = [0, 30]   # let the account rest for a month
payments_24h = [2, 0]    # two payments fewer on this day

[step]                   # amounts in cents, the others in whole numbers
amount = "1/100"
hour = 1
account_age_days = 1
payments_24h = 1

[bounds]
amount = [0.01, inf]
hour = [0, 23]
payments_24h = [0, inf]
"""
(folder / "attacker.toml").write_text(terms, encoding="utf-8")
attacker = cg.Attacker.from_file(folder / "attacker.toml")

# %%
# The answer, and the proof
# -------------------------
#
# ``proof`` writes down why every status is true: for a payment that can be
# changed to get through, the changed payment; for one that cannot, a bound on
# all changes at once.

frauds_file = cg.load_table(folder / "frauds.csv")
result = cg.verify(
    folder / "model.txt",
    frauds_file.X,
    frauds_file.y,
    attacker,
    proof=folder / "verdicts.proof",
)
result.plot(name="frauds, two units of effort")
plt.show()

# %%
# How much effort does it take? The *radius* is the least that gets a payment
# through. What can be had for two units is a matter of the terms; the whole
# picture says what other terms would have given.

effort = cg.radius(
    folder / "model.txt", frauds_file.X, frauds_file.y, attacker
)
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
effort.plot(ax)
ax.axvline(attacker.budget, color="black", linestyle=":")
ax.set_xlabel("effort that gets the payment through")
ax.set_ylabel("held-out frauds")
plt.show()

# %%
# The check
# ---------
#
# The auditor runs ``carvegbm_check.py``, on a machine of their own if they
# like. It is one file of plain Python that reads the model and the data itself
# and goes through the proof in whole numbers and fractions. It needs neither
# this package nor NumPy: ``-I`` and ``-S`` start Python without either in
# sight.

checker = importlib.util.find_spec("carvegbm_check").origin


def check(proof, model, data="frauds.csv"):
    """What the checker prints, and its exit code: 0 if all is proved."""
    command = [
        sys.executable,
        "-I",
        "-S",
        checker,
        "--quiet",
        proof,
        model,
        data,
    ]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8"
    )
    return (run.stdout + run.stderr).strip(), run.returncode


said, code = check("verdicts.proof", "model.txt")
print(said)
print("exit code", code)

# %%
# The report states every restriction of the attacker: features that it cannot
# change, scales down and up, steps, bounds. Compare them with the terms above,
# because a proof about a weaker fraudster would be a proof, too. ``--expect``
# does this for you.
#
# Could it be cheated?
# --------------------
#
# A proof belongs to one model. Change a leaf in the ninth digit, and it is
# refused. A damaged file is refused as well.

text = (folder / "model.txt").read_text()
line = next(
    line for line in text.splitlines() if line.startswith("leaf_value=")
)
first = line.split("=")[1].split()[0]
other = text.replace(first, repr(float(first) * (1 + 1e-9)), 1)
(folder / "other.txt").write_text(other)

damaged = bytearray((folder / "verdicts.proof").read_bytes())
damaged[len(damaged) // 2] ^= 1
(folder / "damaged.proof").write_bytes(damaged)

for proof, of in (
    ("verdicts.proof", "other.txt"),
    ("damaged.proof", "model.txt"),
):
    said, code = check(proof, of)
    print(f"{proof} with {of}: exit code {code}")
    print(textwrap.indent(textwrap.fill(said, 76), "  "))

# %%
# What can be said
# ----------------
#
# Sentences that follow from what was checked, and nothing else.

counts = result.counts
print(f"1. Of {len(result)} frauds, the model stops {result.right.sum()}.")
print(f"2. Of these, {counts['robust']} are stopped whatever is changed")
print(f"   within the terms. For {counts['fragile']}, a change is known")
print("   that is within the terms and gets them through.")
print(f"3. {counts['unknown']} are undecided.")
print("   An independent program checked all of it.")
print("4. This is about these files (SHA-256, first 16 digits):")
for name in ("model.txt", "frauds.csv", "attacker.toml", "verdicts.proof"):
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    print(f"     {digest[:16]}  {name}")

# %%
# A page for the committee
# ------------------------
#
# :func:`carvegbm.report` puts the same questions, and more of them, on one
# page that needs no network: the answer first, how far, where the model is
# weak, what attacks look like, and how it was decided. The proof is written
# and checked once more on the way.

page = cg.report(
    folder / "model.txt",
    frauds_file.X,
    frauds_file.y,
    [attacker, attacker.with_budget(4)],
    folder / "report.html",
    proof=folder / "report.proof",
    files={"data": folder / "frauds.csv"},
    progress=False,
)
print(textwrap.fill(str(page), 78))
print(f"report.html: {(folder / 'report.html').stat().st_size / 1024:.0f} kB")

# %%
# And what cannot be said: that payments of next year look like these, that the
# terms describe real fraudsters, or that a fraudster would find the change.
# The proof covers the model and the rows; whether they are the right ones is
# the part of an audit that remains.

room.cleanup()
