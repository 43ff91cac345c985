"""A call plans and computes nothing; its plan asks every partition once, and ships one model."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.scale.query import PickledQuery, Query
from plain_trees import ensemble, refused, stump

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
cgd = pytest.importorskip("carvegbm.dask")

ATTACKER = cg.Attacker("inf", 0.1)
MODEL = ensemble(stump(0, 0.5), stump(1, 2.5, -0.5, 0.5), n_features=2, feature_names=["a", "b"])
ROWS = pd.DataFrame({"a": [0.1, 0.45, 0.9], "b": [1.0, 2.45, 3.0], "label": [0, 0, 1]})


def counted(calls: list[int], partitions: int = 5) -> Any:
    """A frame that notes the number of every partition that it makes."""

    def part(number: int) -> Any:
        calls.append(number)
        return ROWS

    return dd.from_map(part, range(partitions), meta=ROWS.iloc[:0])


@pytest.fixture(autouse=True)
def _in_this_process() -> Any:
    with dask.config.set(scheduler="sync"):
        yield


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    calls: list[int] = []
    frame = counted(calls)
    X, y = frame[["a", "b"]], frame["label"]
    results = [
        cgd.verify(MODEL, X, y, ATTACKER),
        cgd.attack(MODEL, X, y, ATTACKER),
        cgd.radius(MODEL, X, y, cg.Attacker(1)),
        cgd.robustness_curve(MODEL, X, y, cg.Attacker(1), budgets=[0.1]),
        cgd.output_range(MODEL, X, ATTACKER),
    ]
    for result in results:
        repr((result, result.answers, result.totals))
    assert calls == []


def test_answers_and_totals_ask_every_partition_once(tmp_path: Path) -> None:
    calls: list[int] = []
    frame = counted(calls)
    result = cgd.verify(MODEL, frame[["a", "b"]], frame["label"], ATTACKER)
    statuses, totals = dask.compute(result.statuses, result.totals)
    assert sorted(calls) == [0, 1, 2, 3, 4]
    assert statuses["status"].value_counts().to_dict() == {"robust": 10, "fragile": 5}
    assert totals.counts["robust"] == 10
    calls.clear()
    again = result.write(tmp_path / "statuses")
    assert sorted(calls) == [0, 1, 2, 3, 4]
    assert again.counts == totals.counts
    assert len(pd.read_parquet(tmp_path / "statuses")) == 15
    calls.clear()
    kept = result.persist()
    assert sorted(calls) == [0, 1, 2, 3, 4]
    assert kept.summary().counts == totals.counts
    assert len(kept.statuses.compute()) == 15
    assert sorted(calls) == [0, 1, 2, 3, 4]


def test_one_partition_of_the_answers_asks_that_one() -> None:
    calls: list[int] = []
    frame = counted(calls)
    result = cgd.verify(MODEL, frame[["a", "b"]], frame["label"], ATTACKER)
    assert len(result.statuses.partitions[3].compute()) == 3
    assert calls == [3]


def test_model_is_in_the_graph_once_however_many_partitions_there_are() -> None:
    rng = np.random.default_rng(0)
    trees = [stump(0, float(t), *rng.normal(size=2)) for t in rng.random(20_000)]
    model = ensemble(*trees)
    content = len(PickledQuery.of(Query("verify", cg.Verifier(model, ATTACKER))).content)
    X = da.zeros((1000, 1), chunks=1)
    result = cgd.verify(model, X, attacker=ATTACKER)
    size = len(pickle.dumps(dict(result.totals.__dask_graph__())))
    assert content > 1_000_000
    assert size < content + 1_000_000


def test_totals_are_added_up_in_a_tree_and_are_one_small_value() -> None:
    result = cgd.verify(MODEL, da.zeros((1000, 2), chunks=(1, 2)), attacker=ATTACKER)
    sums = [task for key, task in result.totals.__dask_graph__().items() if "totals" in str(key)]
    assert len(sums) > 1000
    assert max(len(task.dependencies) for task in sums) <= 16
    assert len(result.totals.__dask_keys__()) == 1
    assert len(pickle.dumps(result.summary())) < 2000
    assert result.summary().instances == 1000


def test_only_the_columns_that_are_asked_about_are_read() -> None:
    read: list[list[str]] = []
    whole = ROWS.assign(unused="x")

    def part(number: int, columns: list[str] | None = None) -> Any:  # noqa: ARG001
        read.append(sorted(columns or whole.columns))
        return whole if columns is None else whole[columns]

    frame = dd.from_map(part, range(3), meta=whole.iloc[:0])
    cgd.verify(MODEL, frame[["b", "a"]], frame["label"], ATTACKER).summary()
    assert read == [["a", "b", "label"]] * 3


def test_small_files_are_not_joined_to_larger_partitions(tmp_path: Path) -> None:
    parts = dd.from_pandas(pd.concat([ROWS] * 8), npartitions=8, sort=False)
    parts.to_parquet(tmp_path / "rows")
    frame = dd.read_parquet(tmp_path / "rows", filesystem="arrow")
    result = cgd.verify(MODEL, frame[["a", "b"]], frame["label"], ATTACKER)
    assert len([key for key in result.totals.__dask_graph__() if "read" in str(key)]) == 8
    statuses, totals = dask.compute(result.statuses, result.totals)
    assert result.statuses.npartitions == 8
    assert len(statuses) == totals.instances == 24


def test_index_and_divisions_are_those_of_the_instances() -> None:
    frame = ROWS.set_index(pd.Index([10, 20, 30], name="id"))
    X = dd.from_pandas(frame, npartitions=2)
    statuses = cgd.verify(MODEL, X[["a", "b"]], X["label"], ATTACKER).statuses
    assert statuses.divisions == X.divisions
    assert statuses.index.name == "id"
    assert statuses.compute().index.tolist() == [10, 20, 30]
    assert statuses.loc[20].compute()["status"].tolist() == ["fragile"]


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


def test_what_does_not_fit_is_refused_before_anything_is_computed() -> None:
    calls: list[int] = []
    frame = counted(calls)
    X, y = frame[["a", "b"]], frame["label"]
    array = da.zeros((6, 2), chunks=(2, 2))
    with refused("X has 5 partitions, y has 1; cut both alike"):
        cgd.verify(MODEL, X, y.repartition(npartitions=1), ATTACKER)
    with refused("partition 1: X has 2 rows, y has 3"):
        cgd.verify(MODEL, array, da.zeros(6, chunks=((2, 3, 1),)), ATTACKER)
    with refused("X must be a Dask DataFrame or Array, got DataFrame"):
        cgd.verify(MODEL, ROWS[["a", "b"]], attacker=ATTACKER)
    with refused("y must be a Dask Series", "got ndarray"):
        cgd.verify(MODEL, array, np.zeros(6), ATTACKER)
    with refused("X lacks 'b' and has the unexpected 'label'"):
        cgd.verify(MODEL, frame[["a", "label"]], y, ATTACKER)
    with refused("X has 3 columns, the model has 2 features"):
        cgd.verify(MODEL, da.zeros((6, 3)), attacker=ATTACKER)
    with refused("y must be one value per row, got 2 columns"):
        cgd.verify(MODEL, X, frame[["label", "a"]], ATTACKER)
    with refused("attacker is missing"):
        cgd.verify(MODEL, X, y)
    with refused("y is an Attacker"):
        cgd.verify(MODEL, X, ATTACKER)
    with refused("threads must be a whole number >= 1, got 0"):
        cgd.verify(MODEL, X, y, ATTACKER, threads=0)
    with refused("bounds with a row per row"):
        cgd.verify(MODEL, X, y, cg.Attacker("inf", 1, bounds=(np.zeros((15, 2)), 1)))
    close = ensemble(stump(0, 0.5), stump(0, 0.55), n_features=2)
    with pytest.raises(cg.NotLargeSpreadError):
        cgd.verify(close, array, attacker=ATTACKER, engine="large-spread")
    assert calls == []


def test_answers_are_not_written_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "part.7.parquet").write_text("of an earlier run")
    result = cgd.verify(MODEL, da.zeros((6, 2)), attacker=ATTACKER)
    with refused("exists; write to a folder that is empty or new"):
        result.write(tmp_path)


def test_no_rows_at_all_are_refused() -> None:
    with refused("there are no rows"):
        cgd.verify(MODEL, da.zeros((0, 2)), attacker=ATTACKER).summary()


def test_without_dask_one_line_says_what_to_install() -> None:
    program = (
        "import sys\n"
        "sys.modules['dask'] = None\n"
        "import carvegbm\n"
        "try:\n"
        "    from carvegbm import dask\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, carvegbm.CarveError)\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "carvegbm.dask needs dask; pip install 'carvegbm[dask]'\n", done.stderr
