"""Labels of categories in frames: the codes that the source library makes of them."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import carvegbm as cg
from carvegbm.data.rows import as_rows
from categorical_trees import choice
from plain_trees import ensemble, leaf, refused, stump

xgboost = pytest.importorskip("xgboost")

ROWS = 300


def data(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A frame with categories that are texts and numbers, missing ones among them."""
    rng = np.random.default_rng(seed)
    service = rng.choice(["http", "ftp", "smtp", "dns"], ROWS).astype(object)
    port = rng.choice([80, 21, 25], ROWS)
    count = rng.normal(size=ROWS)
    y = ((service == "http") ^ (port == 21) ^ (count > 0.3)).astype(int)
    service[rng.random(ROWS) < 0.05] = None
    frame = {"service": pd.Categorical(service), "count": count, "port": pd.Categorical(port)}
    return pd.DataFrame(frame), y


FRAME, Y = data()


class Own:
    """A fitted model with its own raw prediction."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "lightgbm":
            self.model: Any = lightgbm.LGBMClassifier(
                n_estimators=8,
                min_child_samples=2,
                min_data_per_group=1,
                cat_smooth=0,
                cat_l2=0,
                verbose=-1,
                n_jobs=1,
            )
        elif name == "xgboost":
            self.model = xgboost.XGBClassifier(
                n_estimators=8, max_cat_to_onehot=1, enable_categorical=True, n_jobs=1
            )
        else:
            self.model = HistGradientBoostingClassifier(
                max_iter=8, categorical_features="from_dtype", min_samples_leaf=3
            )
        self.model.fit(FRAME, Y)
        self.ensemble = cg.load(self.model)

    def raw(self, X: pd.DataFrame) -> np.ndarray:
        if self.name == "lightgbm":
            return self.model.predict(X, raw_score=True)
        if self.name == "xgboost":
            return self.model.predict(X, output_margin=True)
        return self.model.decision_function(X)


@pytest.fixture(scope="module", params=["lightgbm", "xgboost", "sklearn"])
def own(request) -> Own:
    return Own(request.param)


class Stream:
    """Speaks Arrow, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested)


def chunked(frame: pd.DataFrame) -> pa.Table:
    """A table whose chunks have dictionaries of their own."""
    parts = [frame[:100], frame[100:]]
    for i, part in enumerate(parts):
        columns = {
            n: c.cat.remove_unused_categories() for n, c in part.select_dtypes("category").items()
        }
        columns["service"] = columns["service"].cat.set_categories(
            sorted(set(part.service.dropna()), reverse=i == 0)
        )
        parts[i] = part.assign(**columns)
    return pa.concat_tables([pa.Table.from_pandas(part, preserve_index=False) for part in parts])


SPELLINGS = {
    "as it is": lambda f: f,
    "columns in another order": lambda f: f[["port", "service", "count"]],
    "categories in another order": lambda f: f.assign(
        service=f.service.cat.reorder_categories(["smtp", "http", "ftp", "dns"])
    ),
    "categories that no row has": lambda f: f.assign(
        service=f.service.cat.add_categories(["never"])
    ),
    "objects": lambda f: f.assign(service=f.service.astype(object), port=f.port.astype(object)),
    "text": lambda f: f.assign(service=f.service.astype("string")),
    "arrow types in pandas": lambda f: pa.Table.from_pandas(f).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "pyarrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
    "pyarrow in chunks": chunked,
    "pyarrow text": lambda f: pa.table(
        {
            "service": pa.array(f.service.astype(object), pa.string(), from_pandas=True),
            "port": pa.array(f.port.tolist()).dictionary_encode(),
            "count": f["count"].to_numpy(),
        }
    ),
    "record batch": lambda f: pa.Table.from_pandas(f, preserve_index=False).to_batches()[0],
    "stream": lambda f: Stream(pa.Table.from_pandas(f, preserve_index=False)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_labels_are_what_the_source_library_takes_them_for(own, spelling):
    X = SPELLINGS[spelling](FRAME)
    np.testing.assert_array_equal(own.ensemble.raw_score(X), own.raw(FRAME))


@pytest.mark.parametrize("kind", ["Categorical", "Enum", "String"])
def test_labels_of_polars_are_read(kind):
    polars = pytest.importorskip("polars")
    model = ensemble(
        choice(1, [1], leaf(-1.0), leaf(1.0)), n_features=2, categories={1: {0: "a", 1: "b"}}
    )
    dtype = polars.Enum(["b", "a"]) if kind == "Enum" else getattr(polars, kind)
    X = polars.DataFrame({"x": [1.0, 2.0], "c": polars.Series(["a", "b"], dtype=dtype)})
    assert model.raw_score(X).tolist() == [1, -1]


def test_unseen_label_is_what_the_source_library_takes_it_for(own):
    X = FRAME.assign(service=FRAME.service.cat.rename_categories({"dns": "whois"}))
    if own.name == "xgboost":
        with pytest.raises(xgboost.core.XGBoostError, match="not in the training set"):
            own.raw(X)
        row = int(np.argmax(X.service == "whois"))
        words = "service", f"row {row}", "unknown category 'whois'", "'dns', 'ftp'"
        with refused(*words, kind=cg.DataError):
            own.ensemble.raw_score(X)
    else:
        np.testing.assert_array_equal(own.ensemble.raw_score(X), own.raw(X))


def test_codes_in_an_array_are_what_the_source_library_takes_them_for(own):
    codes = FRAME.apply(lambda c: c.cat.codes if c.dtype == "category" else c).to_numpy(float)
    codes[codes == -1] = np.nan
    if own.name == "sklearn":
        codes[:, 2] = FRAME.port.astype(float)  # whose labels are numbers
    np.testing.assert_array_equal(own.ensemble.raw_score(codes), own.raw(FRAME))


def test_numbers_that_may_be_labels_and_may_be_codes_are_refused(own):
    X = FRAME.assign(port=FRAME.port.astype(int))
    if own.name == "sklearn":  # which looks them up
        np.testing.assert_array_equal(own.ensemble.raw_score(X), own.raw(FRAME))
        return
    words = "column 'port'", "labels 21, 25, 80 or their codes", "give it as categories"
    with refused(*words, kind=cg.DataError):
        own.ensemble.raw_score(X)
    with pytest.raises((ValueError, xgboost.core.XGBoostError)):
        own.raw(X)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": pd.Categorical(["a"] * ROWS)}, ["'count'", "must be numbers", "categories"]),
        ({"count": ["a"] * ROWS}, ["'count'", "must be numbers"]),
        ({"service": pd.Categorical([7] * ROWS)}, ["row 0", "category 7", "which are texts"]),
        ({"port": pd.Categorical(["x"] * ROWS)}, ["row 0", "'x'", "21, 25, 80", "are numbers"]),
        ({"service": [["http"]] * ROWS}, ["'service'", "texts or numbers", "lists"]),
        ({"service": pd.date_range("2024", periods=ROWS)}, ["'service'", "dates"]),
    ],
    ids=str,
)
def test_column_that_cannot_be_the_feature_is_refused(own, change, words):
    X = FRAME.assign(**change)
    with refused(*words, kind=cg.DataError) as caught:
        own.ensemble.raw_score(X)
    del caught


def test_labels_may_stand_in_an_array_of_objects_or_in_lists():
    model = ensemble(
        choice(1, [1], leaf(-1.0), leaf(1.0)), n_features=2, categories={1: {0: "a", 1: "b"}}
    )
    rows = [[0.5, "a"], [1.5, "b"], [2.5, "c"]]
    assert model.raw_score(rows).tolist() == [1, -1, 1]
    assert model.raw_score(np.array(rows, dtype=object)).tolist() == [1, -1, 1]
    with refused("column '0'", "must be numbers", kind=cg.DataError):
        model.raw_score([["a", "a"]])


def test_texts_and_numbers_are_one_where_the_library_says_so():
    """As to CatBoost, which knows categories by their texts, and takes any other for a new one."""
    model = ensemble(
        choice(0, [3], leaf(-1.0), leaf(1.0)),
        n_features=1,
        categories={0: {3: 3, 5: 5}},
        category_rule="text",
    )
    for labels in (["3", "5", "new"], [3, 5, 9], pd.Categorical(["3", "5", "-1"])):
        assert model.raw_score(pd.DataFrame({"c": labels})).tolist() == [-1, 1, 1]


# ── precision ────────────────────────────────────────────────────────────────────────────────


def single_frames() -> dict[str, Any]:
    numbers = {"a": np.array([0.1, 0.2], dtype=np.float32), "b": np.array([1, 2], dtype=np.int16)}
    frame = pd.DataFrame({**numbers, "c": [True, False]})
    return {
        "pandas": pd.DataFrame({"a": numbers["a"], "b": numbers["a"]}),
        "pandas with small integers": frame,
        "pyarrow": pa.Table.from_pandas(frame),
        "pyarrow with nulls": pa.table({"a": pa.array([0.1, None], pa.float32())}),
    }


@pytest.mark.parametrize("kind", single_frames())
def test_float32_stays_float32(kind):
    rows = as_rows(single_frames()[kind])
    assert rows.dtype == np.float32
    assert rows[0, 0] == np.float32(0.1)


def test_what_does_not_fit_into_float32_is_double():
    single = np.array([0.1, 0.2], dtype=np.float32)
    for other in (np.array([1, 2**24 + 1]), np.array([0.1, 0.2])):
        rows = as_rows(pd.DataFrame({"a": single, "b": other}))
        assert rows.dtype == np.float64
        np.testing.assert_array_equal(rows, np.column_stack([single, other]))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_array_of_floats_is_not_copied(kind):
    X = np.ones((5, 2), dtype=kind)
    for precision in ("float32", "float64"):
        model = ensemble(stump(1, 0.5), n_features=2, input_precision=precision)
        assert model.check_data(X) is X


def test_codes_keep_a_frame_of_float32_single_unless_they_are_too_large():
    for code, kind in ((5, np.float32), (2**24 + 1, np.float64)):
        model = ensemble(
            choice(1, [code], leaf(-1.0), leaf(1.0)),
            n_features=2,
            categories={1: {code: "a"}},
            category_rule="truncate",
        )
        X = pd.DataFrame({"x": np.array([1.0], dtype=np.float32), "c": pd.Categorical(["a"])})
        rows = model.check_data(X)
        assert rows.dtype == kind
        assert rows[0, 1] == code


# ── witnesses ────────────────────────────────────────────────────────────────────────────────


def test_witnesses_flip_the_source_model_when_they_go_back_to_it(own):
    attacker = cg.Attacker(0, 1, features=["service", "port"])
    found = cg.attack(own.model, FRAME, None, attacker)
    some = found.success & ~found.borderline
    assert some.sum() > 50
    told = found.to_frame()[some]
    back = pd.DataFrame({name: told[f"witness {name}"].to_numpy() for name in FRAME.columns})
    for name in ("service", "port"):
        kind = FRAME[name].cat.categories.dtype
        labels = back[name].dropna().astype(kind).reindex(back.index)
        back[name] = pd.Categorical(labels, categories=FRAME[name].cat.categories)
    assert (own.model.predict(back) != own.model.predict(FRAME[some])).all()
    own_raw, back_raw = own.ensemble.raw_score(FRAME[some]), own.raw(back)
    assert ((own_raw > 0) != (back_raw > 0)).all()
    np.testing.assert_array_equal(own.ensemble.raw_score(found.witnesses[some]), back_raw)


def test_witness_of_looked_up_numbers_is_what_the_library_takes():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.choice([3.0, 5.0, 9.0], ROWS), rng.normal(size=ROWS)])
    y = ((X[:, 0] == 5) ^ (X[:, 1] > 0)).astype(int)
    model = HistGradientBoostingClassifier(max_iter=8, categorical_features=[0]).fit(X, y)
    X[:20, 0] = 7  # which it does not know
    found = cg.attack(model, X, None, cg.Attacker(0, 1))
    some = found.success & ~found.borderline
    assert some[:20].any()
    assert (model.predict(found.witnesses[some]) != model.predict(X[some])).all()
    changed = (found.witnesses[some] != X[some]).sum(axis=1)
    assert set(changed) == {1}


def test_the_index_of_a_pandas_frame_is_no_feature_of_an_arrow_table():
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(FRAME, Y)
    shuffled = FRAME.sample(frac=1, random_state=0)
    table = pa.Table.from_pandas(shuffled)
    assert "__index_level_0__" in table.column_names
    np.testing.assert_array_equal(cg.load(model).decide(table), cg.load(model).decide(shuffled))
    of_index = cg.Ensemble.from_trees(
        [stump(0, 0.5, -1.0, 1.0)], n_features=1, feature_names=["__index_level_0__"]
    )
    assert as_rows(table.select(["__index_level_0__"]), of_index.feature_names).shape == (ROWS, 1)
