"""The data of a run: cells belong to the data they were computed from, and rows to their model."""

from __future__ import annotations

import dataclasses

import pytest

import carvegbm as cg
from carvegbm import CarveError
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import QUICK
from carvegbm_experiments.report import page
from carvegbm_experiments.store.folder import Store
from experiments.runs import contents, run


@pytest.fixture(autouse=True)
def without_drawing(monkeypatch):
    monkeypatch.setattr(page, "html", lambda cells: f"<p>{len(list(cells))} cells</p>")


@pytest.fixture(name="other_digits")
def change_the_data(monkeypatch):
    """Call it, and one test row of the digits is another."""
    from carvegbm_experiments import datasets

    load = datasets.load

    def changed(name, **options):
        data = load(name, **options)
        X = data.X.copy()
        X[::7] = X[::7, ::-1]
        return dataclasses.replace(data, X=X)

    return lambda: monkeypatch.setattr(datasets, "load", changed)


def test_other_data_under_finished_cells_is_refused_in_one_line(tmp_path, other_digits):
    cells = plan(QUICK, only=["digits", "dataset", "plain"])
    run(tmp_path, [c for c in cells if c.kind == "dataset"])
    other_digits()
    with pytest.raises(CarveError, match="digits: not the data") as refused:
        run(tmp_path, cells)
    message = str(refused.value)
    assert str(tmp_path) in message
    assert "--output" in message
    assert "\n" not in message
    assert len(contents(tmp_path)) == 1
    run(tmp_path / "another", cells)


def test_a_cell_without_a_fingerprint_is_given_one_in_silence(tmp_path):
    cells = plan(QUICK, only=["digits", "dataset", "plain"])
    run(tmp_path, cells)
    store, configuration = Store(tmp_path), cells[0].configuration
    before = store.find("dataset", configuration)
    bare = {k: v for k, v in before["result"].items() if k != "fingerprint"}
    store.keep("dataset", configuration, bare, before["seconds"])
    store.path("plain", cells[1].configuration).unlink()
    said = run(tmp_path, cells)
    assert said[0].startswith("1 of 2 cells are there")
    assert store.find("dataset", configuration)["result"] == before["result"]
    store.keep("dataset", configuration, {**bare, "train": 1}, 1.0)
    store.path("plain", cells[1].configuration).unlink()
    with pytest.raises(CarveError, match="digits: not the data"):
        run(tmp_path, cells)


def test_unfinished_rows_of_another_model_are_not_taken(tmp_path, monkeypatch, other_digits):
    cells = plan(QUICK, norms=["inf"], only=["digits", "plain-robustness"])
    verify, asked = cg.verify, []

    def counted(model, X, *arguments, **options):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(len(X))
        return verify(model, X, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(cg, "verify", counted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, cells)  # one call for the plain cell, two blocks
    assert len(list(tmp_path.glob("models/unfinished/*"))) == 1
    other_digits()
    seen = []
    monkeypatch.setattr(
        cg, "verify", lambda m, X, *a, **o: (seen.append(len(X)), verify(m, X, *a, **o))[1]
    )
    run(tmp_path, [cells[1]])
    assert sum(seen) == 100
    assert not list(tmp_path.glob("models/unfinished/*"))


def test_unfinished_rows_of_another_version_are_not_taken(tmp_path, monkeypatch):
    cells = plan(QUICK, norms=["inf"], only=["digits", "plain-robustness"])
    verify, asked = cg.verify, []

    def counted(model, X, *arguments, **options):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(len(X))
        return verify(model, X, *arguments, **options)

    monkeypatch.setattr(cg, "verify", counted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cells)
    monkeypatch.setattr(cg, "__version__", "0.0.1")
    again = []
    monkeypatch.setattr(
        cg, "verify", lambda m, X, *a, **o: (again.append(len(X)), verify(m, X, *a, **o))[1]
    )
    run(tmp_path, cells)
    assert sum(again) == 100
