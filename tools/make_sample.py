"""Make the sample that ships with the package: a large-spread LightGBM model and test rows.

    python tools/make_sample.py

writes src/carvegbm/data/sample_model.txt and sample_data.csv from scikit-learn's breast cancer
data, scaled to [0, 1]. The model is large-spread by construction: LightGBM grows one tree per
round on integer codes of the thresholds still allowed, and after every round the thresholds
within `SPREAD` of those just used are taken from the other trees.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

SPREAD = 0.045  # thresholds of two trees on one feature are farther apart than this
ROUNDS = 40
PARAMETERS = {
    "objective": "binary",
    "learning_rate": 0.2,
    "num_leaves": 6,
    "min_data_in_leaf": 5,
    "min_data_in_bin": 1,
    "max_bin": 1023,
    "boost_from_average": False,
    "enable_bundle": False,
    "feature_pre_filter": False,
    "use_missing": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 0,
    "verbosity": -1,
}
FOLDER = Path(__file__).resolve().parent.parent / "src" / "carvegbm" / "data"

Floats = npt.NDArray[np.float64]


def main() -> None:
    X, y, names = scaled_data()
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    booster = train_large_spread(X_train, y_train, names)
    FOLDER.mkdir(exist_ok=True)
    booster.save_model(FOLDER / "sample_model.txt")
    with (FOLDER / "sample_data.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "label"])
        rows = zip(X_test.tolist(), y_test.tolist(), strict=True)
        writer.writerows([*row, label] for row, label in rows)
    predicted = booster.predict(X_test, raw_score=True) >= 0
    print(f"{booster.num_trees()} trees, accuracy {np.mean(predicted == y_test):.4f}")


def scaled_data() -> tuple[Floats, npt.NDArray[np.int64], list[str]]:
    """Columns in [0, 1] with four decimals; 1 is a benign tumour, 0 a malignant one."""
    bunch = load_breast_cancer()
    lowest, highest = bunch.data.min(axis=0), bunch.data.max(axis=0)
    X = np.round((bunch.data - lowest) / (highest - lowest), 4)
    return X, bunch.target, [str(name).replace(" ", "_") for name in bunch.feature_names]


def train_large_spread(X: Floats, y: npt.NDArray[np.int64], names: list[str]) -> lgb.Booster:
    allowed = [midpoints(column) for column in X.T]
    raw = np.zeros(len(X))
    trees: list[str] = []
    for _ in range(ROUNDS):
        # x <= allowed[f][i]  iff  code <= i: a split on codes is a split on thresholds.
        codes = np.column_stack(
            [
                np.searchsorted(cuts, column, side="left")
                for cuts, column in zip(allowed, X.T, strict=True)
            ]
        ).astype(np.float64)
        data = lgb.Dataset(codes, y, init_score=raw, feature_name=names)
        booster = lgb.train(PARAMETERS, data, num_boost_round=1)
        text = booster.model_to_string()
        if "num_leaves=1\n" in text:  # no split is left
            break
        raw += booster.predict(codes, raw_score=True)
        tree, used = translate(text, allowed)
        trees.append(tree)
        for feature, threshold in used:
            cuts = allowed[feature]
            allowed[feature] = cuts[np.abs(cuts - threshold) > SPREAD]
    ranges = " ".join(f"[{column.min():g}:{column.max():g}]" for column in X.T)
    header = re.sub(r"feature_infos=.*", f"feature_infos={ranges}", text.partition("Tree=0")[0])
    header = re.sub(r"tree_sizes=.*\n", "", header)
    blocks = [f"Tree={i}\n{tree}\n\n\n" for i, tree in enumerate(trees)]
    tail = text[text.index("end of trees") :]
    return lgb.Booster(model_str=header + "".join(blocks) + tail)


def midpoints(column: Floats) -> Floats:
    values = np.unique(column)
    return (values[:-1] + values[1:]) / 2


def translate(text: str, allowed: list[Floats]) -> tuple[str, list[tuple[int, float]]]:
    """The model's one tree with thresholds in place of codes, and the thresholds it uses."""
    tree = text[text.index("Tree=0\n") + len("Tree=0\n") : text.index("end of trees")].strip()
    features = [int(f) for f in re.search(r"split_feature=(.*)", tree)[1].split()]
    codes = [int(float(c)) for c in re.search(r"threshold=(.*)", tree)[1].split()]
    used = [(f, float(allowed[f][code])) for f, code in zip(features, codes, strict=True)]
    thresholds = " ".join(repr(threshold) for _, threshold in used)
    return re.sub(r"threshold=.*", f"threshold={thresholds}", tree), used


if __name__ == "__main__":
    main()
