"""Training on a cluster of two worker processes: the model of one process, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn import clone
from sklearn.exceptions import NotFittedError

import carvegbm as cg
from carvegbm.errors import CarveError, DataError
from child_processes import wait_until

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
cloudpickle = pytest.importorskip("cloudpickle")
cgd = pytest.importorskip("carvegbm.dask")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests

FREE = {"min_child_samples": 1, "min_child_weight": 0, "n_jobs": 1}


def rows(n, classes=2, seed=0):
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(n, 8)), 2)
    scores = X[:, :classes] + X[:, 1 : classes + 1] ** 2 + random.normal(0, 0.4, (n, classes))
    return X, np.array(["no", "yes", "maybe"])[scores.argmax(axis=1)]


def text(model):
    return model.booster_.model_to_string()


@pytest.mark.parametrize(("norm", "classes"), [("inf", 2), (1, 3), (0, 2)])
def test_the_model_is_that_of_one_process(client, norm, classes):
    X, y = rows(1200, classes)
    chunks = (100, 700, 0, 400)
    dX, dy = da.from_array(X, chunks=(chunks, 8)), da.from_array(y, chunks=(chunks,))
    parameters = {"norm": norm, "budget": 0.02 if norm else 1, "n_estimators": 12, **FREE}
    model = cgd.DaskLargeSpreadClassifier(client=client, **parameters)
    assert model.fit(dX, dy) is model
    alone = cg.LargeSpreadClassifier(**parameters).fit(X, y)
    assert text(model) == text(alone)
    local = model.to_local()
    assert isinstance(local, cg.LargeSpreadClassifier)
    assert local.get_params() == alone.get_params()
    assert model.predict(dX).compute().tolist() == alone.predict(X).tolist()
    assert np.array_equal(model.predict_proba(dX).compute(), alone.predict_proba(X))
    assert np.array_equal(model.decision_function(dX).compute(), alone.decision_function(X))
    assert (
        model.verify(dX, dy).statuses["status"].compute().tolist()
        == alone.verify(X, y).status.tolist()
    )
    assert model.score(dX, dy) == alone.score(X, y)
    assert model.robust_score(dX, dy) == alone.robust_score(X, y)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("Robust", {"n_members": 1, "pull": 1e-3, "n_estimators": 6}),
        (
            "LargeSpread",
            {"certified": True, "quietness": None, "clean_loss": None, "n_estimators": 6},
        ),
    ],
)
def test_robust_and_certified_models_are_those_of_one_process(client, kind, parameters):
    X, y = rows(900)
    parameters = {**parameters, "budget": 0.05, "random_state": 0, **FREE}
    dX, dy = da.from_array(X, chunks=(250, 8)), da.from_array(y, chunks=250)
    model = getattr(cgd, f"Dask{kind}Classifier")(client=client, **parameters).fit(dX, dy)
    alone = getattr(cg, f"{kind}Classifier")(**parameters).fit(X, y)
    assert text(model) == text(alone)
    assert model.training_report_.why == alone.training_report_.why


def test_frames_weights_and_evaluation_sets(client):
    X, y = rows(900)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    frame["x"] = pd.Categorical(np.where(X[:, 3] > 0, "left", "right"))
    frame["label"], frame["w"] = y, np.linspace(0.5, 2, len(y))
    valid = frame[600:].reset_index(drop=True)
    frame = frame[:600]
    ddf, dvalid = dd.from_pandas(frame, npartitions=3), dd.from_pandas(valid, npartitions=2)
    features = [*"abcdefgh", "x"]
    parameters = {"budget": 0.02, "n_estimators": 40, "learning_rate": 0.4, **FREE}
    watched = {
        "eval_metric": ["auc", "robustness"],
        "early_stopping_rounds": 3,
        "eval_names": ["v"],
    }
    model = cgd.DaskLargeSpreadClassifier(client=client, **parameters).fit(
        ddf[features],
        ddf["label"],
        ddf["w"],
        eval_set=[(dvalid[features], dvalid["label"])],
        eval_sample_weight=[dvalid["w"]],
        **watched,
    )
    alone = cg.LargeSpreadClassifier(**parameters).fit(
        frame[features],
        frame["label"],
        frame["w"],
        eval_set=[(valid[features], valid["label"])],
        eval_sample_weight=[valid["w"]],
        **watched,
    )
    assert text(model) == text(alone)
    assert model.evals_result_ == alone.evals_result_
    assert model.stopped_because_ == "early stopping"
    found = model.predict(ddf[features]).compute()
    assert found.index.equals(frame.index)
    assert found.tolist() == alone.predict(frame[features]).tolist()
    shares = model.predict_proba(ddf[features]).compute()
    assert shares.columns.tolist() == ["no", "yes"]


def test_parameters_as_scikit_learn_has_them(client):
    model = cgd.DaskLargeSpreadClassifier(client=client, budget=0.1, extra_trees=True)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(budget=0.2, client=None).get_params()["budget"] == 0.2
    with pytest.raises(NotFittedError, match="call fit first"):
        model.to_local()
    with pytest.raises(AttributeError):
        _ = model.booster_


def test_bad_values_name_partition_and_row(client):
    X, y = rows(400)
    X[317, 2] = np.inf
    model = cgd.DaskLargeSpreadClassifier(client=client)
    with pytest.raises(DataError, match=r"^partition 3: X row 17, feature 2 is infinity"):
        model.fit(da.from_array(X, chunks=(100, 8)), da.from_array(y, chunks=100))
    X[317, 2] = 0
    with pytest.raises(DataError, match="y has one class only"):
        model.fit(da.from_array(X, chunks=(100, 8)), da.from_array(y[:1].repeat(400), chunks=100))
    with pytest.raises(CarveError, match="num_leaves"):
        cgd.DaskLargeSpreadClassifier(client=client, num_leaves=-3).fit(
            da.from_array(X, chunks=(100, 8)), da.from_array(y, chunks=100)
        )
    with pytest.raises(DataError, match="X has 4 partitions, y has 2"):
        model.fit(da.from_array(X, chunks=(100, 8)), da.from_array(y, chunks=200))
    assert not any(client.run(open_teams).values())


def test_another_version_on_the_workers_is_noticed(client, monkeypatch):
    monkeypatch.setattr(cg, "__version__", "9.9.9")
    X, y = rows(100)
    with pytest.raises(CarveError, match=r"was asked by carvegbm 9\.9\.9"):
        cgd.DaskLargeSpreadClassifier(client=client).fit(
            da.from_array(X, chunks=(50, 8)), da.from_array(y, chunks=50)
        )


def open_teams():
    from carvegbm.training.teams.sockets import SocketTeam

    return sum(map(len, SocketTeam._open.values()))


def die_soon():
    """This worker process is killed in the middle of a training that takes long."""
    import threading

    def wait_and_die():
        while not open_teams():
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait_and_die, daemon=True).start()


def test_a_worker_that_is_killed_ends_the_training_in_one_line(client):
    client.wait_for_workers(2, timeout=30)
    X, y = rows(20_000)
    dX, dy = da.from_array(X, chunks=(5_000, 8)), da.from_array(y, chunks=5_000)
    first = sorted(client.scheduler_info()["workers"])[0]
    client.run(die_soon, workers=[first])
    endless = {"features": [], "n_estimators": 100_000}  # nothing is closed
    model = cgd.DaskLargeSpreadClassifier(client=client, **endless)
    with pytest.raises(CarveError, match=r"was lost in the middle of training|left the training"):
        model.fit(dX, dy)
    client.wait_for_workers(2, timeout=30)
    wait_until(lambda: not any(client.run(open_teams).values()))
    model = cgd.DaskLargeSpreadClassifier(client=client, n_estimators=3).fit(dX, dy)
    assert model.n_iter_ == 3


ENDLESS = """
import sys
import dask.array as da, numpy as np
from distributed import Client
from carvegbm import dask as cgd

X = np.random.default_rng(0).normal(size=(4000, 4))
dX, dy = da.from_array(X, chunks=(1000, 4)), da.from_array(X[:, 0] > 0, chunks=1000)
with Client(sys.argv[1]) as client:
    cgd.DaskLargeSpreadClassifier(features=[], n_estimators=100_000).fit(dX, dy)
"""


def test_workers_stop_when_the_client_is_killed(client):
    client.wait_for_workers(2, timeout=30)
    address = client.scheduler_info()["address"]
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, address])
    try:
        wait_until(lambda: sum(client.run(open_teams).values()) == 2)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(client.run(open_teams).values()))
