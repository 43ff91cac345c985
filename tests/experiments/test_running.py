"""The run: nothing finished is done twice, and an interrupted run ends as an uninterrupted one."""

from __future__ import annotations

import json
import time

import pytest

import carvegbm as cg
from carvegbm import CarveError, DataError
from carvegbm.training.estimators import LargeSpreadClassifier
from carvegbm_experiments import running
from carvegbm_experiments.compute import kinds, plain, verdicts
from carvegbm_experiments.compute.models import Bench
from carvegbm_experiments.plan.cell import KINDS, Cell
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import QUICK
from carvegbm_experiments.report import page
from carvegbm_experiments.report.tables.table import long_duration
from carvegbm_experiments.store.folder import Store
from experiments.runs import CELLS, contents, run


@pytest.fixture(autouse=True)
def without_drawing(monkeypatch):
    monkeypatch.setattr(page, "html", lambda cells: f"<p>{len(list(cells))} cells</p>")


def test_a_run_computes_every_kind_of_cell(whole):
    cells, _ = whole
    assert len(cells) == len(CELLS)
    assert {cell["kind"] for cell in cells.values()} == set(KINDS)


def interrupt_at(monkeypatch, number):
    """Ctrl-C in the cell of this number."""
    compute, seen = kinds.compute, []

    def interrupted(cell, bench):
        seen.append(cell)
        if len(seen) == number:
            raise KeyboardInterrupt
        return compute(cell, bench)

    monkeypatch.setattr(kinds, "compute", interrupted)


@pytest.mark.parametrize("number", [1, len(CELLS) // 2, len(CELLS)])
def test_a_run_interrupted_in_a_cell_ends_as_an_uninterrupted_one(
    tmp_path, monkeypatch, training, whole, number
):
    with monkeypatch.context() as patch:
        interrupt_at(patch, number)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    assert len(contents(tmp_path)) == number - 1
    said = run(tmp_path)
    assert said[0].startswith(f"{number - 1} of {len(CELLS)} cells are there; about ")
    assert contents(tmp_path) == whole[0]
    assert training.count == whole[1]


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_model_that_is_trained_is_not_trained_again(tmp_path, training, whole, part):
    training.stop_before = int(part * whole[1])
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    training.stop_before = None
    run(tmp_path)
    assert contents(tmp_path) == whole[0]
    assert training.count == whole[1]


@pytest.mark.parametrize("kind", ["plain-robustness", "curve", "speed-up"])
def test_rows_that_are_verified_are_not_verified_again(tmp_path, monkeypatch, whole, kind):
    cells = plan(QUICK, only=[kind, "digits"], norms=["inf"])
    asked = []
    by_rows = Store.by_rows

    def watched(self, kind, setting, name, rows, _, compute):
        def counted(start, stop):
            if len(asked) == 2:
                raise KeyboardInterrupt
            asked.append((key(kind, setting, name), start))
            return compute(start, stop)

        return by_rows(self, kind, setting, name, rows, 2, counted)

    def key(kind, setting, name):
        name = name.split("-")[0]
        return kind, setting.get("model"), setting.get("trees"), name

    monkeypatch.setattr(Store, "by_rows", watched)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cells)
    asked.insert(0, None)  # past the two that are cut off after
    asked.insert(0, None)
    run(tmp_path, cells)
    blocks = asked[2:]
    assert len(set(blocks)) == len(blocks) > 3
    for path, cell in contents(tmp_path).items():
        assert cell == whole[0][path]


def test_a_second_run_computes_nothing(tmp_path, monkeypatch):
    cells = plan(QUICK, only=["breast-cancer", "dataset", "plain"])
    run(tmp_path, cells)
    monkeypatch.setattr(kinds, "compute", None)
    said = run(tmp_path, cells)
    assert said[0] == "2 of 2 cells are there"
    assert len(said) == 2


def test_a_damaged_cell_is_computed_again(tmp_path):
    cells = plan(QUICK, only=["dataset"])
    run(tmp_path, cells)
    before = contents(tmp_path)
    path = tmp_path / next(iter(before))
    path.write_text(path.read_text()[:40])
    assert run(tmp_path, cells)[0].startswith("1 of 2 cells are there")
    assert contents(tmp_path) == before


def test_a_model_whose_figures_were_changed_is_trained_again(tmp_path):
    """Else another of the plain models would be the most accurate one."""
    cells = plan(QUICK, only=["breast-cancer", "plain"])
    run(tmp_path, cells)
    before = contents(tmp_path)
    for path in tmp_path.glob("models/plain/*/*.json"):
        record = json.loads(path.read_text())
        changed = {**record, "validation_accuracy": 1 - record["validation_accuracy"]}
        path.write_text(json.dumps(changed))
    Store(tmp_path).path("plain", cells[-1].configuration).unlink()
    run(tmp_path, cells)
    assert contents(tmp_path) == before


def test_deleted_models_are_trained_again_and_are_the_same(tmp_path, whole):
    import shutil

    cells = plan(QUICK, only=["breast-cancer"])
    run(tmp_path, [cell for cell in cells if cell.kind in ("plain", "large-spread")])
    shutil.rmtree(tmp_path / "models")
    run(tmp_path, cells)
    for path, cell in contents(tmp_path).items():
        assert cell == whole[0][path]


def test_several_threads_give_the_same_cells(tmp_path, whole):
    store = Store(tmp_path)
    cells = plan(QUICK, only=["digits", "plain", "large-spread", "curve"], norms=["inf"])
    bench = Bench(store, download=False, threads=2)
    running.run(cells, store, bench, suite="quick")
    found = contents(tmp_path)
    assert len(found) == len(cells)
    assert found == {path: cell for path, cell in whole[0].items() if path in found}


class Slow:
    """A clock that every training and every block of rows puts forward by a thousand seconds."""

    def __init__(self, monkeypatch):
        self.late = 0
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + self.late)

    def after(self, work):
        def worked(*arguments, **options):
            done = work(*arguments, **options)
            self.late += 1000
            return done

        return worked


WORK = ((plain, "_fit"), (LargeSpreadClassifier, "fit"), (cg, "radius"))


def interrupted(when, work):
    def worked(*arguments, **options):
        if when():
            raise KeyboardInterrupt
        return work(*arguments, **options)

    return worked


@pytest.mark.parametrize("cut", [False, True])
def test_the_seconds_of_a_cell_hold_what_an_interrupted_run_spent_on_it(tmp_path, monkeypatch, cut):
    clock = Slow(monkeypatch)
    for owner, name in WORK:
        monkeypatch.setattr(owner, name, clock.after(getattr(owner, name)))
    kinds = ("plain", "large-spread", "certified", "curve")
    cells = [c for c in CELLS if c.dataset == "digits" and c.kind in kinds]
    monkeypatch.setattr(verdicts, "_BLOCK", 20)
    while cut:  # after every piece of work
        before = clock.late

        def too_late(before=before):
            return clock.late > before

        with monkeypatch.context() as patch:
            for owner, name in WORK:
                patch.setattr(owner, name, interrupted(too_late, getattr(owner, name)))
            try:
                run(tmp_path, cells)
            except KeyboardInterrupt:
                continue
        break
    if not cut:
        run(tmp_path, cells)
    store = Store(tmp_path)
    thousands = {
        c.title: round(store.find(c.kind, c.configuration)["seconds"] / 1000) for c in cells
    }
    assert thousands == {
        "plain digits": 2,
        "large-spread digits norm inf budget 0.04 by accuracy": 2,
        "large-spread digits norm inf budget 0.04 by robustness": 0,
        "certified digits norm inf budget 0.04": 6,
        **{
            f"curve digits norm inf budget 0.04 of the {model} model": 5
            for model in ("plain", "large-spread", "certified")
        },
    }


# ── what a run says, and what it does with trouble ───────────────────────────────────────────


def test_the_report_is_written_also_after_an_interruption(tmp_path, monkeypatch):
    interrupt_at(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt, match=f"^2 of {len(CELLS)} cells are kept; "):
        run(tmp_path)
    assert (tmp_path / "index.html").read_text() == "<p>2 cells</p>"
    assert "Breast cancer" in (tmp_path / "results.md").read_text()


def test_the_page_shows_all_cells_of_the_suite_and_no_others(tmp_path):
    Store(tmp_path).keep("dataset", {"suite": "paper", "dataset": "mnist"}, {}, 1)
    run(tmp_path, plan(QUICK, only=["dataset", "digits"]))
    run(tmp_path, plan(QUICK, only=["dataset", "breast-cancer"]))
    assert (tmp_path / "index.html").read_text() == "<p>2 cells</p>"


def test_data_that_is_not_to_be_had_is_named_once_and_left_out(tmp_path, monkeypatch):
    from carvegbm_experiments import datasets

    load = datasets.load

    def only_cancer(name, **options):
        if name != "breast-cancer":
            raise DataError(f"{name}: nowhere; look elsewhere")
        return load(name, **options)

    monkeypatch.setattr(datasets, "load", only_cancer)
    cells = plan(QUICK, only=["dataset", "plain"])
    said = run(tmp_path, cells)
    assert [line for line in said if "digits" in line] == [
        "digits: nowhere; look elsewhere; 2 cells of digits are left out"
    ]
    assert any(line.startswith("[2/2] plain breast-cancer: accuracy 0.") for line in said)
    with pytest.raises(CarveError, match="digits: nowhere"):
        run(tmp_path, plan(QUICK, only=["digits"]))


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    def fail(*_):
        raise DataError("no luck")

    monkeypatch.setitem(kinds._KINDS, "plain", fail)
    with pytest.raises(CarveError, match="2 cells, the first of them plain digits: no luck"):
        run(tmp_path, plan(QUICK, only=["dataset", "plain"]))
    assert len(contents(tmp_path)) == 2
    assert (tmp_path / "index.html").exists()


def test_a_page_that_cannot_be_drawn_is_said_in_one_line(tmp_path, monkeypatch):
    def fail(_):
        raise CarveError("needs matplotlib; pip install 'carvegbm[plot]'")

    monkeypatch.setattr(page, "html", fail)
    said = run(tmp_path, plan(QUICK, only=["dataset"]))
    assert said[-2] == "no page: needs matplotlib; pip install 'carvegbm[plot]'"
    assert said[-1] == f"wrote {tmp_path / 'results.md'}"


def cell(kind, dataset, cost):
    return Cell(kind, {"dataset": dataset, "cost": cost}, cost)


def test_the_time_left_follows_what_finished_cells_of_the_kind_took():
    cells = [cell("plain", "a", 10), cell("plain", "a", 30), cell("plain", "b", 5)]
    cells.append(cell("curve", "a", 7))
    rough = running.Estimate(cells, {})
    assert rough.left(cells) == 52
    measured = running.Estimate(cells, {cells[0].key: 1.0})
    assert [measured.seconds(c) for c in cells[1:]] == pytest.approx([3, 0.5, 7])
    measured.add(cells[2], 5.0)
    assert [measured.seconds(c) for c in cells[1:]] == pytest.approx([3, 5, 7])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (99, "99 s"), (100, "2 min"),
     (5_900, "98 min"), (6_000, "1 h 40 min"), (86_400, "24 h 0 min")],
)  # fmt: skip
def test_a_duration_as_people_say_it(seconds, text):
    assert long_duration(seconds) == text
