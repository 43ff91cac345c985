"""Who answers parts: whoever it is, the answers are the same, and every part is there once."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from carvegbm.data.table import FileSchema
from carvegbm.errors import CarveError
from carvegbm.parts import runners
from carvegbm.parts.files import Part
from carvegbm.parts.questions import Verify
from carvegbm.parts.runners import Here, OnDask

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as found:
        yield found


@pytest.fixture
def asked(sample_folder: Path) -> tuple[Verify, FileSchema]:
    ensemble = cg.load(sample_folder / "sample_model.txt")
    return Verify.of(ensemble, cg.Attacker("inf", 0.02)), FileSchema(ensemble)


def parts(sample_folder: Path, folder: Path, count: int, times: int = 1) -> list[Part]:
    frame = pd.read_csv(sample_folder / "sample_data.csv")
    folder.mkdir()
    made = []
    for i in range(count):
        path = folder / f"part-{i}.parquet"
        pd.concat([frame[i * 10 : i * 10 + 30]] * times).to_parquet(path)
        made.append(Part(str(path), folder / f"answers-{i}.parquet"))
    return made


def answers(part: Part) -> pd.DataFrame:
    assert part.target is not None
    return pd.read_parquet(part.target).drop(columns="seconds")


def run(runner: Any, asked: tuple[Verify, FileSchema], given: list[Part]) -> dict[str, Any]:
    told: list[int] = []
    found = {
        part.path: {**totals.to_dict(), "engines": totals.engines}
        for part, totals in runner.run(*asked, given, told.append)
    }
    assert sum(told) == sum(totals["instances"] for totals in found.values())
    return found


def test_dask_gives_what_this_process_gives(
    cluster: Any, asked: Any, sample_folder: Path, tmp_path: Path
) -> None:
    given = parts(sample_folder, tmp_path / "data", 5)
    here = run(Here(1), asked, given)
    expected = [answers(part) for part in given]
    for part in given:
        assert part.target is not None
        part.target.unlink()
    assert run(OnDask(cluster.scheduler_address), asked, given) == here
    for part, frame in zip(given, expected, strict=True):
        pd.testing.assert_frame_equal(answers(part), frame)


def test_a_worker_that_is_killed_costs_nothing(
    cluster: Any, asked: Any, sample_folder: Path, tmp_path: Path
) -> None:
    """Whenever that is: its parts are answered by others, and every part is there once."""
    question, matching = asked
    exact = Verify.of(question.problem.ensemble, cg.Attacker(2, 0.02), exact_margin=True)
    given = parts(sample_folder, tmp_path / "data", 6, times=300)
    with distributed.Client(cluster.scheduler_address) as client:
        before = set(client.run(os.getpid).values())

    def kill() -> None:
        time.sleep(0.3)
        os.kill(min(before), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = run(OnDask(cluster.scheduler_address), (exact, matching), given)
    killer.join()
    assert found == run(Here(), (exact, matching), given)
    assert sorted(path.name for path in (tmp_path / "data").glob("answers*")) == [
        f"answers-{i}.parquet" for i in range(6)
    ]
    with distributed.Client(cluster.scheduler_address) as client:
        client.wait_for_workers(2, timeout=30)
        assert set(client.run(os.getpid).values()) != before


def test_an_error_on_a_worker_is_one_line(
    cluster: Any, asked: Any, sample_folder: Path, tmp_path: Path
) -> None:
    given = parts(sample_folder, tmp_path / "data", 2)
    frame = pd.read_parquet(given[1].path)
    frame.iloc[17, -1] = 7
    frame.to_parquet(given[1].path)
    with pytest.raises(CarveError, match=r"part-1.parquet row 17: unknown label 7"):
        run(OnDask(cluster.scheduler_address), asked, given)
    assert given[1].target is not None
    assert not given[1].target.exists()
    elsewhere = [Part(given[0].path, Path("/nowhere/answers.parquet"))]
    with pytest.raises(CarveError, match=r"no folder /nowhere on worker .* all workers share"):
        run(OnDask(cluster.scheduler_address), asked, elsewhere)


def test_an_error_with_more_than_a_message_comes_back(
    cluster: Any, asked: Any, sample_folder: Path, tmp_path: Path
) -> None:
    question, matching = asked
    wide = cg.Attacker("inf", 0.5)
    strict = Verify.of(question.problem.ensemble, wide, on_violation="raise")
    with pytest.raises(CarveError, match="not large-spread"):
        run(
            OnDask(cluster.scheduler_address),
            (strict, matching),
            parts(sample_folder, tmp_path / "data", 1),
        )


def test_another_version_on_the_workers_is_noticed(
    cluster: Any,
    asked: Any,
    sample_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Old:
        @staticmethod
        def of(question: Any) -> Any:
            return replace(shipped.of(question), version="0.0.1")

    shipped = runners.Shipped
    monkeypatch.setattr(runners, "Shipped", Old)
    with pytest.raises(CarveError, match=r"was asked by carvegbm 0\.0\.1; install the same"):
        run(OnDask(cluster.scheduler_address), asked, parts(sample_folder, tmp_path / "data", 1))


class _Does:
    """What calls a function when it is opened, in whichever process."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._called = function, arguments

    def absolute(self) -> Any:
        return self

    def __reduce__(self) -> Any:
        return self._called


def test_a_worker_without_what_it_takes_is_one_line(
    cluster: Any, asked: Any, sample_folder: Path, tmp_path: Path
) -> None:
    broken: Any = (asked[0], _Does(importlib.import_module, "not_installed_there"))
    with pytest.raises(CarveError, match=r"not_installed_there.*install the same carvegbm"):
        run(OnDask(cluster.scheduler_address), broken, parts(sample_folder, tmp_path / "data", 1))


def test_a_part_over_which_workers_die_is_given_up(
    asked: Any, sample_folder: Path, tmp_path: Path
) -> None:
    deadly: Any = (asked[0], _Does(os._exit, 1))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as own,
        pytest.raises(CarveError, match=r"part-0.parquet: 1 worker died over it"),
    ):
        run(OnDask(own.scheduler_address), deadly, parts(sample_folder, tmp_path / "data", 1))


@pytest.mark.parametrize(
    ("workers", "count", "threads"), [([8, 8], 2, 8), ([8, 8], 5, 3), ([8, 8], 99, 1), ([], 1, 1)]
)
def test_threads_are_shared_out(workers: list[int], count: int, threads: int) -> None:
    class Client:
        def nthreads(self) -> dict[int, int]:
            return dict(enumerate(workers))

    runner = OnDask("tcp://there:8786")
    if not workers:
        with pytest.warns(UserWarning, match="no workers at tcp://there:8786 yet"):
            assert runner._threads(Client(), count) == threads
    else:
        assert runner._threads(Client(), count) == threads
    assert OnDask("tcp://there:8786", 3)._threads(Client(), count) == 3


def test_paths_of_two_files_are_both_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.zeros((1, 1)))
    assert Part("X.npy,y.npy").absolute().path == f"{tmp_path}/X.npy,{tmp_path}/y.npy"
    assert Part("X.npy", Path("a.csv")).absolute() == Part(f"{tmp_path}/X.npy", tmp_path / "a.csv")
