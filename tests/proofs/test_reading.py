"""What the checker reads: the same model, rows and labels as the package, to the bit."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import carvegbm as cg
import carvegbm_check as checker
import oracle
from carvegbm.model.categories import in_codes
from generators import make_case
from kinds import make_kind
from proofs import by_hand
from readers import small_models


def assert_same(path: Path, rows: Any, classes: list[Any] | None = None) -> None:
    """Content, exact raw scores and decisions of the checker's model are the package's."""
    ensemble, model = cg.load(path, classes=classes), checker.read_model(str(path), classes)
    assert model.content() == by_hand.model_content(ensemble)
    fields = {"norm": 0, "budget": (1.0).hex()}
    given = in_codes(ensemble, np.asarray(rows, dtype=float)).tolist()
    question = checker.Problem(model, checker.Attacker(fields, model), given)
    trees = oracle.in_units(ensemble)
    for row, source in zip(given, np.asarray(rows, dtype=float).tolist(), strict=True):
        raw = exact_raw_score(question, row)
        assert raw == oracle.raw_score_in_units(ensemble, trees, source)
        assert question.decide(question.places(row)) == oracle.decide(ensemble, raw)


def exact_raw_score(question: checker.Problem, row: list[float]) -> list[Fraction]:
    """By the leaf of each tree that lies in the cells of the row."""
    cells = question.places(row)
    sums = [Fraction(score) for score in question.model.base]
    for nodes, splits in zip(question.model.trees, question.trees, strict=True):
        place = 0
        while len(nodes[place]) == 5:
            axis, mask, *children = splits[place]
            place = children[not mask >> cells[axis] & 1]
        sums = [total + Fraction(nodes[place][0].get(o, 0.0)) for o, total in enumerate(sums)]
    return [total / question.model.average for total in sums]


def near_thresholds(ensemble: cg.Ensemble, seed: int, count: int = 60) -> Any:
    """Rows on and beside thresholds, near 0, and with holes where the model has a rule for them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, ensemble.n_features))
    for feature in range(ensemble.n_features):
        own = ensemble.nodes[ensemble.nodes["feature"] == feature]
        odd = [0.0, -0.0, 1e-35, -1e-35, 5e-324, 1e-30, -1e-30, 3.7, -0.5, 1e9]
        if feature not in ensemble.categories:
            cuts = own["threshold"][np.isfinite(own["threshold"])]
            odd += [*cuts, *np.nextafter(cuts, np.inf), *np.nextafter(cuts, -np.inf)]
        else:
            odd += [float(code) for code in ensemble.categories[feature]]
        if (own["missing"] >= 0).all():
            odd.append(math.nan)
        some = rng.random(count) < 0.7
        rows[some, feature] = rng.choice(odd, size=int(some.sum()))
    return rows


def data(seed: int, n_classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5)).round(2)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[rng.random(X.shape) < 0.15] = 0.0
    y = np.nansum(X[:, :2], axis=1) * 2 + rng.normal(size=300)
    return X, np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))


LIGHTGBM = {
    "binary": {},
    "multiclass": {"n_classes": 3},
    "one against all": {"n_classes": 3, "objective": "multiclassova"},
    "missing is zero": {"use_missing": False},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "forest": {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "cross entropy": {"objective": "cross_entropy"},
}


@pytest.mark.parametrize("setting", LIGHTGBM)
@pytest.mark.parametrize("seed", range(3))
def test_lightgbm_text_is_read_as_the_package_reads_it(
    setting: str, seed: int, tmp_path: Path
) -> None:
    options = dict(LIGHTGBM[setting])
    n_classes = options.pop("n_classes", 2)
    X, y = data(seed, n_classes)
    parameters = {"objective": "binary" if n_classes == 2 else "multiclass", "num_leaves": 12}
    parameters |= {"num_class": n_classes} if n_classes > 2 else {}
    parameters |= {"verbose": -1, "num_threads": 1, "seed": seed, "min_data_in_leaf": 3, **options}
    booster = lgb.train(parameters, lgb.Dataset(X, y), num_boost_round=12)
    booster.save_model(tmp_path / "model.txt")
    assert_same(tmp_path / "model.txt", near_thresholds(cg.load(tmp_path / "model.txt"), seed))


def test_zero_against_its_threshold_must_be_converted(tmp_path: Path) -> None:
    """Zeros go to the default side, whatever the threshold: only an Ensemble says it."""
    X, y = data(1)
    parameters = {"objective": "binary", "zero_as_missing": True, "verbose": -1, "num_threads": 1}
    booster = lgb.train(parameters, lgb.Dataset(X, y), num_boost_round=10)
    booster.save_model(tmp_path / "model.txt")
    with pytest.raises(checker.RefusedError, match="carvegbm convert"):
        checker.read_model(str(tmp_path / "model.txt"), None)
    ensemble = cg.load(tmp_path / "model.txt")
    ensemble.save(tmp_path / "model.json")
    assert_same(tmp_path / "model.json", near_thresholds(ensemble, 2))


def test_lines_after_the_blank_line_that_ends_a_tree_are_refused(tmp_path: Path) -> None:
    """LightGBM ignores them, and where sizes of trees are missing takes them for the next tree."""
    X, y = data(1)
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 3}
    text = lgb.train(parameters, lgb.Dataset(X, y), num_boost_round=1).model_to_string()
    head, blank, rest = text.partition("\n\n\nend of trees")
    more = "\n\nleaf_value=5 5 5"
    size = re.search(r"tree_sizes=(\d+)", head)
    assert size is not None
    head = head.replace(size[0], f"tree_sizes={int(size[1]) + len(more)}")
    path = tmp_path / "model.txt"
    path.write_text(head + more + blank + rest)
    assert lgb.Booster(model_file=path).predict(X, raw_score=True).max() < 5
    with pytest.raises(cg.ModelError, match="tree 0 is not up to 22 lines"):
        cg.load(path)
    with pytest.raises(checker.RefusedError, match="lines that LightGBM would read differently"):
        checker.read_model(str(path), None)


@pytest.mark.parametrize(("was", "now"), [("leaf_value=", "leaf_value=1_"), (":1\n", ":-1\n")])
def test_numbers_that_lightgbm_does_not_read_are_refused(
    was: str, now: str, tmp_path: Path
) -> None:
    X, y = data(1)
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1}
    text = lgb.train(parameters, lgb.Dataset(X, y), num_boost_round=1).model_to_string()
    assert was in text
    text = re.sub("tree_sizes=.*\n", "", text)  # it would contradict the change
    (tmp_path / "model.txt").write_text(text.replace(was, now, 1))
    with pytest.raises(checker.RefusedError, match="does not read"):
        checker.read_model(str(tmp_path / "model.txt"), None)


XGBOOST = {
    "binary": {"objective": "binary:logistic"},
    "base score": {"objective": "binary:logistic", "base_score": 0.3},
    "hinge": {"objective": "binary:hinge"},
    "raw": {"objective": "binary:logitraw"},
    "multiclass": {"objective": "multi:softprob", "num_class": 3},
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5},
    "parallel": {"objective": "multi:softmax", "num_class": 3, "num_parallel_tree": 2},
}


@pytest.mark.parametrize("setting", XGBOOST)
@pytest.mark.parametrize("seed", range(2))
def test_xgboost_json_is_read_as_the_package_reads_it(
    setting: str, seed: int, tmp_path: Path
) -> None:
    options = XGBOOST[setting]
    X, y = data(seed, options.get("num_class", 2))
    parameters = {"max_depth": 4, "nthread": 1, "seed": seed, **options}
    booster = xgb.train(parameters, xgb.DMatrix(X, y), num_boost_round=8)
    booster.save_model(tmp_path / "model.json")
    ensemble = cg.load(tmp_path / "model.json")
    assert_same(tmp_path / "model.json", near_thresholds(ensemble, seed))


@pytest.mark.parametrize("library", ["LightGBM", "XGBoost"])
@pytest.mark.parametrize("seed", range(2))
def test_categorical_splits_are_read_as_the_package_reads_them(
    library: str, seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 4))
    X[:, 1], X[:, 3] = rng.integers(0, 40, 500), rng.integers(0, 3, 500)
    y = ((X[:, 1] % 3 == 1) ^ (X[:, 0] > 0) ^ (X[:, 3] == 2)).astype(int)
    X[rng.random(X.shape) < 0.1] = np.nan
    if library == "LightGBM":
        parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 3}
        parameters["min_data_per_group"] = 3
        table = lgb.Dataset(X, y, categorical_feature=[1, 3])
        path = tmp_path / "model.txt"
        lgb.train(parameters, table, num_boost_round=8).save_model(path)
    else:
        kinds = ["q", "c", "q", "c"]
        table = xgb.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
        path = tmp_path / "model.json"
        parameters = {"objective": "binary:logistic", "nthread": 1, "max_cat_to_onehot": 2}
        xgb.train(parameters, table, num_boost_round=8).save_model(path)
    ensemble = cg.load(path)
    assert ensemble.categories
    assert_same(path, near_thresholds(ensemble, seed))


@pytest.mark.parametrize("name", ["LIGHTGBM", "XGBOOST_JSON", "ENSEMBLE_JSON"])
def test_small_models_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(getattr(small_models, name))
    ensemble = cg.load(path)
    if ensemble.task != "regression":
        assert_same(path, near_thresholds(ensemble, 1))


def test_ensemble_json_is_read_as_the_package_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for seed in range(40):
        task = "binary" if seed % 2 else "multiclass"
        ensemble = make_case(seed, 1, "any", task).ensemble
        ensemble.save(path)
        assert_same(path, near_thresholds(ensemble, seed, 10))
        case = make_kind(seed, 0, "categories", "any", task)
        case.ensemble.save(path)
        assert_same(path, [case.x])


def test_labels_of_every_type_are_in_version_two(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(small_models.CATEGORICAL_JSON)
    model = checker.read_model(str(path), None)
    assert model.content() == by_hand.model_content(cg.load(path))
    assert model.categories == {f: dict(c) for f, c in cg.load(path).categories.items()}


def test_two_classes_make_a_classifier_of_a_regression_model(tmp_path: Path) -> None:
    X, y = data(0)
    parameters = {"objective": "regression", "verbose": -1, "num_threads": 1}
    path = tmp_path / "model.txt"
    lgb.train(parameters, lgb.Dataset(X, y), num_boost_round=3).save_model(path)
    with pytest.raises(checker.RefusedError, match="regression"):
        checker.read_model(str(path), None)
    assert_same(path, near_thresholds(cg.load(path), 0), [0, 1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (small_models.LIGHTGBM.replace(b"is_linear=0", b"is_linear=1"), "linear"),
        (small_models.LIGHTGBM.partition(b"end of trees")[0], "damaged"),
        (b"{}", "convert"),
        (b"[]", "convert"),
        (b"\x80\x04", "model"),
        (b"{" * 5000, "damaged"),
        (b'{"format": "carvegbm-ensemble", "version": 3}', "version 3"),
        (b'{"format": "carvegbm-ensemble", "version": 1}', "damaged"),
        (json.dumps({"learner": 1}).encode(), "damaged"),
        (small_models.CATBOOST_JSON, "convert"),
        (small_models.XGBOOST_JSON.replace(b'"num_target": "1"', b'"num_target": "2"'), "targets"),
    ],
)
def test_models_that_cannot_be_read_are_refused_in_one_line(
    text: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "model").write_bytes(text)
    with pytest.raises(checker.RefusedError, match=words) as error:
        checker.read_model(str(tmp_path / "model"), None)
    assert "\n" not in str(error.value)


def test_every_damage_of_an_ensemble_is_refused_or_another_model(tmp_path: Path) -> None:
    """A byte that changed is an error, or it changes the content; nothing else is raised."""
    path = tmp_path / "model.json"
    path.write_bytes(small_models.ENSEMBLE_JSON)
    content = checker.read_model(str(path), None).content()
    text = small_models.ENSEMBLE_JSON
    others = 0
    for place in range(len(text)):
        changed = bytearray(text)
        changed[place] ^= 1 + place % 7
        path.write_bytes(bytes(changed))
        with contextlib.suppress(checker.RefusedError):
            others += checker.read_model(str(path), None).content() != content
    assert others > 0


# ── data ─────────────────────────────────────────────────────────────────────────────────────

STUMPS = [
    {
        "feature": f,
        "threshold": 0.5,
        "missing": "left",
        "left": {"score": 1},
        "right": {"score": -1},
    }
    for f in range(3)
]


def three_features(folder: Path, **fields: Any) -> tuple[cg.Ensemble, checker.Model]:
    ensemble = cg.Ensemble.from_trees(STUMPS, n_features=3, **fields)
    ensemble.save(folder / "three.json")
    return ensemble, checker.read_model(str(folder / "three.json"), None)


def assert_reads(path: Path, model: checker.Model, label: str | None = None) -> None:
    from carvegbm import load_table

    table = load_table(path, label=label, n_features=3).ordered_as(model.names)
    rows, names, _ = checker.read_csv(str(path), model, label)
    assert names is not None
    np.testing.assert_array_equal(np.array(rows), np.asarray(table.X, dtype=float))
    places = checker.places_of(names, model.classes)
    assert [model.classes[place] for place in places] == table.y.tolist()


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a,b,c,label\n1,2,3,0\n0.1,,NaN,1\n", None),
        ("c,label,b,a\n1,1,3,0\n0.1,0,?,1\n", None),
        ("1,2,3,0\n-4e-3,NA,3,1\n", None),
        ("1;2;3;0\n4;5;6;1\n", None),
        ("1 2 3 0\n4 5 6 1\n", None),
        ("a,b,kind,c\n1,2,1,0\n4,5,0,1\n", "kind"),
        ("1,0,2,3\n4,1,5,6\n", "1"),
        ("1,2,0,3\n4,5,1,6\n", "-2"),
        ('"a","b","c","label"\n1,2,"3",0\n\n1,2,3,1\n', None),
        ("0,1,2,label\n1,2,3,0\n4,5,6,1\n", None),
        ("\ufeffa\tb\tc\ty\r\n1\t2\t3\t0\r\n", None),
    ],
)
def test_csv_is_read_as_the_package_reads_it(text: str, label: str | None, tmp_path: Path) -> None:
    _, model = three_features(tmp_path, feature_names=["a", "b", "c"])
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert_reads(path, model, label)


def test_words_are_labels_where_the_classes_are(tmp_path: Path) -> None:
    _, model = three_features(tmp_path, classes=["no", "yes"])
    (tmp_path / "data.csv").write_text("1,2,3,yes\n4,5,6,no\n")
    assert_reads(tmp_path / "data.csv", model)
    (tmp_path / "data.csv").write_text("1,2,3,yes\n4,5,6,maybe\n")
    _, names, _ = checker.read_csv(str(tmp_path / "data.csv"), model, None)
    with pytest.raises(checker.RefusedError, match="'maybe'"):
        checker.places_of(names or [], model.classes)


@pytest.mark.parametrize("text", ["1,2,0\n", "1,2,3,4,0\n", "1,x,3,0\n", "", "1,2,3,0\n1,2\n"])
def test_data_that_do_not_fit_are_refused_in_one_line(text: str, tmp_path: Path) -> None:
    _, model = three_features(tmp_path)
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(checker.RefusedError, match=r"data\.csv") as error:
        checker.read_csv(str(tmp_path / "data.csv"), model, None)
    assert "\n" not in str(error.value)


def test_gzip_is_seen_through(tmp_path: Path) -> None:
    _, model = three_features(tmp_path)
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"1,2,3,0\n4,5,6,1\n"))
    assert_reads(tmp_path / "data.csv.gz", model)


def test_columns_of_other_names_are_refused_unless_they_are_made_up(tmp_path: Path) -> None:
    _, model = three_features(tmp_path, feature_names=["a", "b", "c"])
    (tmp_path / "data.csv").write_text("b,A,c,label\n1,2,3,0\n")
    with pytest.raises(checker.RefusedError, match="check A, a"):
        checker.read_csv(str(tmp_path / "data.csv"), model, None)
    (tmp_path / "data.csv").write_text("f0,f1,f2,label\n1,2,3,0\n")
    assert_reads(tmp_path / "data.csv", model)


@pytest.mark.parametrize("names", [[(4, 1), (7, "1"), (9, True)], [(7, "1"), (4, 1.0)]])
def test_of_equal_names_the_first_counts(names: list[tuple[int, Any]]) -> None:
    keys = checker.Keys(names)
    assert keys.of("1") == names[0][0]
    assert keys.of("1e0") == 4
    assert keys.of("True") == (9 if len(names) == 3 else -1)
    assert keys.of("nan") == keys.of("2") == -1


def test_categories_by_label_become_codes(tmp_path: Path) -> None:
    split = {"feature": 0, "categories": [1], "left": {"score": 1.0}, "right": {"score": -1.0}}
    ensemble = cg.Ensemble.from_trees(
        [split], n_features=1, categories={0: {0: "a", 1: "b", 5: "c"}}, category_rule="truncate"
    )
    ensemble.save(tmp_path / "m.json")
    (tmp_path / "data.csv").write_text("kind,label\na,0\nb,1\nc,0\nd,0\n")
    model = checker.read_model(str(tmp_path / "m.json"), None)
    rows, _, _ = checker.read_csv(str(tmp_path / "data.csv"), model, None)
    assert rows == [[0.0], [1.0], [5.0], [-1.0]]
