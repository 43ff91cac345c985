"""The run: nothing finished is done twice, and an interrupted run ends as an uninterrupted one."""

from __future__ import annotations

import json
import re

import pytest

import carvegbm as cg
from carvegbm.errors import CarveError, DataError
from carvegbm.reproduce import cells as computing
from carvegbm.reproduce import models, page, running
from carvegbm.reproduce.models import Bench
from carvegbm.reproduce.plan import KINDS, QUICK, Cell, plan
from carvegbm.reproduce.store import Store
from carvegbm.training.estimators import LargeSpreadClassifier

CELLS = plan(QUICK, norms=["inf"])


class Training:
    """Counts the models that are trained, and can be cut off before one of them."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.stop_before = None
        for owner, name in ((models, "_fit_plain"), (LargeSpreadClassifier, "fit")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, train):
        def counted(*arguments, **options):
            if self.count == self.stop_before:
                raise KeyboardInterrupt
            trained = train(*arguments, **options)
            self.count += 1
            return trained

        return counted


@pytest.fixture(name="training")
def watch_training(monkeypatch):
    return Training(monkeypatch)


@pytest.fixture(autouse=True)
def without_drawing(monkeypatch):
    monkeypatch.setattr(page, "html", lambda cells: f"<p>{len(list(cells))} cells</p>")


def run(folder, cells=CELLS, **options):
    """Run with one thread; what was said."""
    store = Store(folder)
    said = []
    bench = Bench(store, download=False, threads=1)
    running.run(cells, store, bench, suite="quick", say=said.append, **options)
    return said


def timeless(value):
    """A cell without what differs from run to run."""
    if isinstance(value, dict):
        return {
            name: timeless(entry)
            for name, entry in value.items()
            if not name.endswith("seconds") and name != "machine"
        }
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def contents(folder):
    return {
        path.relative_to(folder): timeless(json.loads(path.read_text()))
        for path in sorted(folder.glob("cells/*/*.json"))
    }


@pytest.fixture(name="whole", scope="module")
def run_once(tmp_path_factory):
    """What an uninterrupted run leaves, and how many models it trains."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "html", lambda _: "")
        training = Training(patch)
        run(folder)
    return contents(folder), training.count


def test_a_run_computes_every_kind_of_cell(whole):
    cells, _ = whole
    assert len(cells) == len(CELLS)
    assert {cell["kind"] for cell in cells.values()} == set(KINDS)


def interrupt_at(monkeypatch, number):
    """Ctrl-C in the cell of this number."""
    compute, seen = computing.compute, []

    def interrupted(cell, bench):
        seen.append(cell)
        if len(seen) == number:
            raise KeyboardInterrupt
        return compute(cell, bench)

    monkeypatch.setattr(computing, "compute", interrupted)


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
    monkeypatch.setattr(computing, "compute", None)
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


# ── what a run says, and what it does with trouble ───────────────────────────────────────────


def test_the_report_is_written_also_after_an_interruption(tmp_path, monkeypatch):
    interrupt_at(monkeypatch, 3)
    store, said = Store(tmp_path), []
    bench = Bench(store, download=False, threads=1)
    with pytest.raises(KeyboardInterrupt):
        running.run(CELLS, store, bench, suite="quick", say=said.append)
    assert (tmp_path / "index.html").read_text() == "<p>2 cells</p>"
    assert "Breast cancer" in (tmp_path / "summary.md").read_text()
    assert said[-1] == (f"2 of {len(CELLS)} cells are kept; give the same command again to go on")


def test_the_page_shows_all_cells_of_the_suite_and_no_others(tmp_path):
    Store(tmp_path).keep("dataset", {"suite": "paper", "dataset": "mnist"}, {}, 1)
    run(tmp_path, plan(QUICK, only=["dataset", "digits"]))
    run(tmp_path, plan(QUICK, only=["dataset", "breast-cancer"]))
    assert (tmp_path / "index.html").read_text() == "<p>2 cells</p>"


def test_data_that_is_not_to_be_had_is_named_once_and_left_out(tmp_path, monkeypatch):
    from carvegbm import datasets

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

    monkeypatch.setitem(computing._KINDS, "plain", fail)
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
    assert said[-1] == f"wrote {tmp_path / 'summary.md'}"


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
    assert running.duration(seconds) == text


# ── what the cells hold ──────────────────────────────────────────────────────────────────────


def results(whole, kind, **wanted):
    return [
        cell["result"]
        for cell in whole[0].values()
        if cell["kind"] == kind and wanted.items() <= cell["configuration"].items()
    ]


def test_models_are_chosen_on_validation_data(whole):
    for criterion in ("accuracy", "robustness"):
        found = results(whole, "large-spread", criterion=criterion)
        assert found
        for result in found:
            name = f"validation_{criterion}"
            assert result[name] == max(c[name] for c in result["candidates"])
            assert result["robustness"] <= result["accuracy"]
            chosen = [c for c in result["candidates"] if c["num_leaves"] == result["num_leaves"]]
            assert chosen[0]["accuracy"] == result["accuracy"]


def test_a_curve_falls_from_the_accuracy_and_holds_the_robustness(whole):
    for model in ("plain", "large-spread", "certified"):
        (curve,) = results(whole, "curve", dataset="digits", model=model)
        assert curve["lower"] == sorted(curve["lower"], reverse=True)
        assert all(low <= high for low, high in zip(curve["lower"], curve["upper"], strict=True))
    (plain,) = results(whole, "curve", dataset="digits", model="plain")
    (robustness,) = results(whole, "plain-robustness", dataset="digits")
    at = plain["budgets"].index(0.04)
    assert [plain["lower"][at], plain["upper"][at]] == robustness["robustness"]
    assert plain["lower"][0] == robustness["accuracy"]


def test_gallery_images_fool_the_plain_model_within_the_distance(tmp_path, whole):
    run(tmp_path, [c for c in CELLS if c.kind == "plain" and c.dataset == "digits"])
    bench = Bench(Store(tmp_path), download=False, threads=1)
    setting = next(c.configuration for c in CELLS if c.kind == "gallery")
    model = bench.plain(setting).best.ensemble
    classes = bench.dataset("digits").classes
    (gallery,) = results(whole, "gallery")
    images = gallery["images"]
    assert [image["distance"] for image in images] == sorted(i["distance"] for i in images)
    assert len({image["label"] for image in images}) == 2
    for image in images:
        x = list(image["original"])
        z = list(x)
        for pixel, value in image["changed"]:
            z[pixel] = value
        assert image["label"] == classes[model.decide([x])[0]] != image["predicted"]
        assert max(abs(a - b) for a, b in zip(x, z, strict=True)) <= image["distance"] + 1e-4
        assert image["distance"] <= 0.04
        assert image["margin"] <= 0


def test_times_compare_models_of_the_same_size(whole):
    for result in results(whole, "time") + results(whole, "speed-up"):
        assert result["plain_trees"] == result["trees"]
        assert result["plain_leaves"] == pytest.approx(result["leaves"], rel=0.25)


def test_certified_training_takes_the_most_robust_model_that_is_accurate_enough(whole):
    found = results(whole, "certified")
    assert found
    for result in found:
        assert len(result["candidates"]) == 6  # two numbers of leaves, three of quietness
        floor = float(re.search(r"as accurate as (0\.\d+)", result["why"])[1])
        able = [c for c in result["candidates"] if c["validation_accuracy"] >= floor - 5e-5]
        best = max(c["validation_robustness"] for c in able)
        assert result["validation_robustness"] == best
        names = ("num_leaves", "quietness", "refit")
        chosen = [c for c in able if all(c[name] == result[name] for name in names)]
        assert chosen[0]["robustness"] == result["robustness"]


def test_certified_and_large_spread_models_are_large_spread(tmp_path, whole):
    bench = Bench(Store(tmp_path), download=False, threads=1)
    cell = next(c for c in CELLS if c.kind == "certified" and c.dataset == "digits")
    candidates = bench.certified(cell.configuration)
    assert all(
        cg.is_large_spread(c.ensemble, models.attacker_of(cell.configuration))
        for c in candidates.all
    )
    assert (
        candidates.best.num_leaves == results(whole, "certified", dataset="digits")[0]["num_leaves"]
    )
