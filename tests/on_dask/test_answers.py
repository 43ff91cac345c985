"""Answers about partitions are those about all rows at once, row by row, and so are the totals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.data.files import load_table
from carvegbm.scale.query import Query
from carvegbm.totals import CurveTotals, Totals
from categorical_trees import choice
from plain_trees import ensemble, leaf, split, stump

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
cgd = pytest.importorskip("carvegbm.dask")

ATTACKER = cg.Attacker("inf", 0.3)
ROWS = 60
CUTS = (17, 1, 0, 30, 0, 12)
"""Rows per partition, of ROWS."""


def random_model(seed: int, outputs: int = 1, **options: Any) -> cg.Ensemble:
    """Trees that share features, with thresholds on a lattice, and a rule for missing values."""
    rng = np.random.default_rng(seed)

    def tree(depth: int) -> dict[str, Any]:
        if depth == 0:
            scores = rng.integers(-8, 9, outputs) / 4
            return leaf(scores.tolist() if outputs > 1 else float(scores[0]))
        sides = tree(depth - 1), tree(depth - 1)
        side = str(rng.choice(["left", "right"]))
        return split(int(rng.integers(3)), float(rng.integers(8)) / 4, *sides, missing=side)

    return ensemble(
        *(tree(2) for _ in range(5)), n_features=3, base_score=np.zeros(outputs), **options
    )


def random_rows(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    X = rng.integers(0, 17, (ROWS, 3)) / 8
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def labels_of(model: cg.Ensemble, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 2]).choice(model.classes, ROWS)


def in_partitions(frame: Any) -> Any:
    """A Dask DataFrame of these rows in CUTS, whose divisions nobody knows."""
    ends = np.cumsum(CUTS)
    parts = [frame.iloc[end - count : end] for end, count in zip(ends, CUTS, strict=True)]
    return dd.from_map(lambda number: parts[number], range(len(parts)), meta=frame.iloc[:0])


def query(name: str, model: Any, attacker: cg.Attacker) -> Query:
    return Query(name, cg.Verifier(model, attacker))


def assert_same(found: Any, totals: Totals, query: Query, X: Any, y: Any = None) -> None:
    """The columns are those of one process, but for the time that they took; so are the totals."""
    wanted = query.answer(X, y, threads=1)
    assert list(found.columns) == list(wanted)
    for name, column in wanted.items():
        if name != "seconds":
            np.testing.assert_array_equal(found[name].to_numpy(), column, err_msg=name)
    same = {**wanted, "seconds": found["seconds"].to_numpy()} if "seconds" in wanted else wanted
    assert totals == query.totals(same)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("outputs", [1, 3])
def test_two_processes_answer_as_one_does(outputs: int) -> None:
    model, X = random_model(outputs, outputs), random_rows(outputs)
    y = labels_of(model, outputs)
    frame = in_partitions(pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y))
    dX, dy = frame[["a", "b", "c"]], frame["label"]
    results = {
        query("verify", model, ATTACKER): cgd.verify(model, dX, dy, ATTACKER),
        query("attack", model, ATTACKER): cgd.attack(model, dX, dy, ATTACKER),
        query("radius", model, ATTACKER): cgd.radius(model, dX, dy, ATTACKER),
    }
    for asked, result in results.items():
        found, totals = dask.compute(result.answers, result.totals)
        assert_same(found, totals, asked, X, y)
        assert found.index.tolist() == list(range(ROWS))
    if outputs == 1:
        result = cgd.output_range(model, dX, ATTACKER)
        found, totals = dask.compute(result.ranges, result.totals)
        assert_same(found, totals, query("output_range", model, ATTACKER), X)


@pytest.mark.usefixtures("client")
def test_sample_in_an_array_of_many_chunks(sample_folder: Path) -> None:
    table = load_table(sample_folder / "sample_data.csv")
    model, attacker = cg.load(sample_folder / "sample_model.txt"), cg.Attacker("inf", 0.02)
    X = da.from_array(table.X.astype(np.float64), chunks=(23, 7))
    result = cgd.verify(model, X, da.from_array(table.y, chunks=23), attacker)
    found, totals = dask.compute(result.statuses, result.totals)
    assert_same(found, totals, query("verify", model, attacker), table.X, table.y)
    assert found.index.tolist() == list(range(len(table.X)))
    assert totals.to_dict() == cg.verify(model, table.X, table.y, attacker).totals()


@pytest.mark.usefixtures("client")
def test_curve_is_the_one_of_all_rows() -> None:
    model, X = random_model(7), random_rows(7)
    y, budgets = labels_of(model, 7), [0.0, 0.1, 0.25, 1.0]
    arrays = da.from_array(X, chunks=(CUTS, 3)), da.from_array(y, chunks=(CUTS,))
    curve = cgd.robustness_curve(model, *arrays, cg.Attacker(1), budgets=budgets)
    wanted = cg.robustness_curve(model, X, y, cg.Attacker(1), budgets=budgets)
    assert curve.compute().to_dict() == wanted.to_dict()
    assert isinstance(curve.summary(), CurveTotals)


def test_model_judges_rows_without_labels_itself() -> None:
    model, X = random_model(3), random_rows(3)
    result = cgd.verify(model, da.from_array(X, chunks=(CUTS, 3)), attacker=ATTACKER)
    found, totals = dask.compute(result.statuses, result.totals)
    assert_same(found, totals, query("verify", model, ATTACKER), X)
    assert totals.accuracy == 1


# ── whatever Dask holds ──────────────────────────────────────────────────────────────────────


def as_series(y: Any) -> Any:
    return in_partitions(pd.Series(y, name="label").to_frame())["label"]


LABELS = {
    "series": as_series,
    "frame": lambda y: as_series(y).to_frame(),
    "array": lambda y: da.from_array(y, chunks=(CUTS,)),
    "column": lambda y: da.from_array(y[:, None], chunks=(CUTS, 1)),
    "unknown chunks": lambda y: as_series(y).to_dask_array(),
}
INSTANCES = {
    "frame": lambda X: in_partitions(pd.DataFrame(X)),
    "float32": lambda X: da.from_array(X.astype(np.float32), chunks=(CUTS, 2)),
    "unknown chunks": lambda X: in_partitions(pd.DataFrame(X)).to_dask_array(),
}


@pytest.mark.parametrize("instances", INSTANCES)
@pytest.mark.parametrize("labels", LABELS)
def test_any_kind_of_instances_goes_with_any_kind_of_labels(instances: str, labels: str) -> None:
    model, X = random_model(5), random_rows(5)
    y = labels_of(model, 5)
    dX, dy = INSTANCES[instances](X), LABELS[labels](y)
    result = cgd.verify(model, dX, dy, ATTACKER)
    found, totals = dask.compute(result.statuses, result.totals, scheduler="sync")
    assert_same(found, totals, query("verify", model, ATTACKER), X, y)
    assert found.dtypes.to_dict() == result.statuses._meta.dtypes.to_dict()


def test_one_partition_is_enough() -> None:
    model, X = random_model(6), random_rows(6)
    result = cgd.verify(model, dd.from_pandas(pd.DataFrame(X)), attacker=ATTACKER)
    found, totals = dask.compute(result.statuses, result.totals)
    assert_same(found, totals, query("verify", model, ATTACKER), X)


def protocols(model_labels: dict[int, Any]) -> cg.Ensemble:
    return ensemble(
        choice(0, [0, 2], leaf(-1.0), leaf(1.0), missing="left"),
        stump(1, 0.5, -0.5, 0.5, missing="left"),
        n_features=2,
        feature_names=["protocol", "load"],
        categories={0: model_labels},
    )


@pytest.mark.parametrize("kind", ["category", "str"])
def test_categories_go_by_their_labels(kind: str, tmp_path: Path) -> None:
    model = protocols({0: "ftp", 1: "http", 2: "smtp"})
    names = ["ftp", "http", "smtp", None, "ftp", "http"] * 10
    frame = pd.DataFrame({"load": np.linspace(0, 1, ROWS), "protocol": names})
    frame["protocol"] = frame["protocol"].astype(kind)
    attacker = cg.Attacker(0, 1)
    result = cgd.attack(model, in_partitions(frame), attacker=attacker)
    found, totals = dask.compute(result.witnesses, result.totals)
    assert_same(found, totals, query("attack", model, attacker), frame)
    assert found.dtypes.to_dict() == result.witnesses._meta.dtypes.to_dict()
    assert set(found["witness protocol"].dropna()) >= {"http", "ftp"}
    assert result.write(tmp_path / "out") == totals
    written = pd.read_parquet(tmp_path / "out")["witness protocol"]
    assert written.dropna().tolist() == found["witness protocol"].dropna().tolist()


def test_labels_of_several_types_are_written_as_text(tmp_path: Path) -> None:
    model = protocols({0: 21, 1: "http", 2: "smtp"})
    frame = pd.DataFrame({"protocol": pd.Categorical([21, "http"] * 30), "load": 0.25})
    result = cgd.attack(model, in_partitions(frame), attacker=cg.Attacker(0, 1))
    result.write(tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out")["witness protocol"]
    assert written.tolist() == [
        str(label) for label in result.witnesses.compute()["witness protocol"]
    ]


def test_totals_say_which_iterations_of_the_model_they_are_about() -> None:
    model = random_model(7, iterations=(5, 9, 5))
    dX, dy = in_partitions(pd.DataFrame(random_rows(7))), as_series(labels_of(model, 7))
    for result in (
        cgd.verify(model, dX, dy, ATTACKER),
        cgd.attack(model, dX, dy, ATTACKER),
        cgd.radius(model, dX, dy, cg.Attacker(1)),
        cgd.output_range(model, dX, ATTACKER),
    ):
        totals = result.totals.compute(scheduler="sync")
        assert totals.to_dict()["iterations"] == {"used": 5, "total": 9, "best": 5}
        assert "5 of 9 iterations" in str(totals)
    curve = cgd.robustness_curve(model, dX, dy, cg.Attacker(1), budgets=[0.1])
    with dask.config.set(scheduler="sync"):
        assert "5 of 9 iterations" in str(curve.compute())
