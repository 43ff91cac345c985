"""What goes wrong on a worker: it dies, it has another version, its rows are bad."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from plain_trees import ensemble, refused, stump

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
cgd = pytest.importorskip("carvegbm.dask")

ATTACKER = cg.Attacker("inf", 0.1)
MODEL = ensemble(stump(0, 0.5), stump(1, 0.25, -0.5, 0.5), n_features=2, feature_names=["a", "b"])
PARTITIONS, ROWS = 30, 20


def slow(begun: Path) -> Any:
    """Partitions that take a while, and note in a folder that they were begun, and by whom."""

    def part(number: int) -> Any:
        (begun / f"{number} {os.getpid()}").touch()
        time.sleep(0.05)
        rng = np.random.default_rng(number)
        frame = pd.DataFrame(rng.random((ROWS, 2)), columns=["a", "b"])
        return frame.assign(label=rng.integers(0, 2, ROWS)).set_index(frame.index + number * ROWS)

    return dd.from_map(part, range(PARTITIONS), meta=part(0).iloc[:0])


def test_a_worker_that_is_killed_changes_nothing(client: Any, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    frame = slow(begun)
    result = cgd.verify(MODEL, frame[["a", "b"]], frame["label"], ATTACKER)
    whole = frame.compute(scheduler="sync")
    for mark in begun.iterdir():
        mark.unlink()
    victim = next(iter(client.run(os.getpid).values()))
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(result.write, tmp_path / "statuses")
        while sum(mark.name.endswith(f" {victim}") for mark in begun.iterdir()) < 4:
            assert not written.done()
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        totals = written.result(timeout=30)
    begun_twice = len(list(begun.iterdir())) - PARTITIONS
    assert begun_twice > 0
    found = pd.read_parquet(tmp_path / "statuses").sort_index()
    wanted = cg.verify(MODEL, whole[["a", "b"]], whole["label"], ATTACKER)
    assert found.index.tolist() == list(range(PARTITIONS * ROWS))
    assert found["status"].tolist() == wanted.status.tolist()
    np.testing.assert_array_equal(found["worst_margin"], wanted.worst_margin)
    assert totals.to_dict() == wanted.totals()


def test_another_version_on_a_worker_is_noticed(client: Any) -> None:
    def call_it(version: str) -> str:
        import carvegbm

        before, carvegbm.__version__ = carvegbm.__version__, version
        return before

    X = da.zeros((6, 2), chunks=(1, 2))
    (before, *_) = client.run(call_it, "0.0.1").values()
    try:
        with refused(
            "carvegbm 0.0.1 on", f"a query from carvegbm {before}; install the same version"
        ):
            cgd.verify(MODEL, X, attacker=ATTACKER).summary()
    finally:
        client.run(call_it, before)
    assert cgd.verify(MODEL, X, attacker=ATTACKER).summary().instances == 6


@pytest.mark.usefixtures("client")
def test_errors_name_the_partition_and_the_row_in_it() -> None:
    X, y = np.zeros((40, 2)), np.zeros(40)
    bad, unknown = X.copy(), y.copy()
    bad[37, 1], unknown[12] = np.inf, 7
    rows, labels = (da.from_array(one, chunks=10) for one in (X, y))
    with refused("partition 3: X row 7, b: value inf", kind=cg.DataError):
        cgd.verify(MODEL, da.from_array(bad, chunks=10), labels, ATTACKER).summary()
    with refused("partition 1: y row 2: unknown label 7.0", kind=cg.DataError):
        cgd.radius(MODEL, rows, da.from_array(unknown, chunks=10), cg.Attacker(1)).radii.compute()
    frame = dd.from_map(lambda n: pd.Series(np.zeros(n)), [10, 10, 9, 11], meta=pd.Series([0.0]))
    with refused("partition", "X has 10 rows, y has", kind=cg.DataError):
        cgd.attack(MODEL, rows, frame, ATTACKER).witnesses.compute()


@pytest.mark.usefixtures("client")
def test_every_engine_works_in_a_worker() -> None:
    X = da.from_array(np.random.default_rng(0).random((12, 2)), chunks=(5, 2))
    found = [
        cgd.verify(MODEL, X, attacker=ATTACKER, engine=engine).summary()
        for engine in ("large-spread", "search")
    ]
    assert found[0].counts == found[1].counts
    assert [totals.engines[name] for totals, name in zip(found, found[0].engines, strict=True)] == [
        12,
        12,
    ]
