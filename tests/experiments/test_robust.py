"""Robust training beside published results: rows as the protocols divide them, models kept."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm_experiments.compute import robust as computing
from carvegbm_experiments.compute.data import UnavailableError
from carvegbm_experiments.compute.models import Bench
from carvegbm_experiments.compute.robust_data import Part, _published, _with_copies, divide
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import PAPER, QUICK
from carvegbm_experiments.report import page
from carvegbm_experiments.store.folder import Store
from experiments.runs import contents, run


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("CARVEGBM_DATA", raising=False)
    monkeypatch.setattr(page, "html", lambda _: "")
    _published.cache_clear()


def table(folder, name, **arrays):
    """An .npz file as the data folder has them."""
    (folder / "tabular").mkdir(exist_ok=True)
    np.savez(folder / "tabular" / f"{name}.npz", **arrays)


@pytest.fixture(name="data")
def make_data(tmp_path):
    """A folder with a table that brings a test set, one with folds and one with neither."""
    random = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    X, y = random.integers(-3, 40, (100, 3)).astype(np.float32), np.arange(100) % 2
    parts = {"X_train": X, "y_train": y, "X_test": X[:30] + 50, "y_test": y[:30]}
    table(folder, "diabetes_pima", **parts)
    apart = random.random((50, 4)) * 0.1 + 0.9 * y[:50, None]
    table(folder, "ionosphere", X=apart, y=y[:50], fold=np.arange(50) % 5)
    table(folder, "wine", X=random.random((60, 11)), y=y[:60], fold=np.arange(60) % 5)
    table(folder, "spambase", X=random.random((9000, 2)) * 7, y=np.arange(9000) % 2)
    return folder


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def test_an_official_test_set_has_no_say_in_scaling_and_is_kept_whole(data):
    (part,) = divide("diabetes", data, "official")
    assert (len(part.X_train), len(part.X_valid), len(part.X_test)) == (80, 20, 30)
    training = np.concatenate([part.X_train, part.X_valid])
    assert (training.min(), training.max()) == (0, 1)
    assert part.X_test.min() > 1  # as far off as it was
    assert part.y_valid.mean() == 0.5


def test_rows_that_training_is_to_choose_by_itself_are_left_in(data):
    (part,) = divide("diabetes", data, "official", inner=True)
    assert part.X_valid is None
    assert len(part.X_train) == 100


def test_published_folds_are_taken_as_they_are(data):
    arrays = np.load(data / "tabular" / "ionosphere.npz")
    parts = list(divide("ionosphere", data, "folds", inner=True))
    assert len(parts) == 5
    for number, part in enumerate(parts):
        np.testing.assert_array_equal(part.X_test, arrays["X"][arrays["fold"] == number])
        np.testing.assert_array_equal(part.X_train, arrays["X"][arrays["fold"] != number])


def test_where_no_folds_are_published_every_row_is_tested_once(data):
    parts = list(divide("diabetes", data, "folds", inner=True))
    assert [len(part.X_test) for part in parts] == [26] * 5
    whole = np.concatenate([part.X_test for part in parts])
    assert (whole.min(), whole.max()) == (0, 1)  # the table was scaled as a whole
    assert [float(part.y_test.mean()) for part in parts] == [0.5] * 5


def test_a_held_out_test_set_is_of_bounded_size_and_within_the_training_rows(data):
    (part,) = divide("spambase", data, "held-out")
    assert len(part.X_test) == 2700
    (part,) = divide("diabetes", data, "held-out")
    assert (part.X_test.min(), part.X_test.max()) == (1, 1)


def test_a_column_that_is_predicted_is_no_feature(data):
    arrays = np.load(data / "tabular" / "wine.npz")
    part = next(iter(divide("wine-alcohol", data, "folds")))
    assert part.X_test.shape[1] == 10
    np.testing.assert_array_equal(part.y_test, arrays["X"][arrays["fold"] == 0, 10])


def test_the_same_seed_divides_in_the_same_way(data):
    one, two, other = (next(iter(divide("diabetes", data, "official", seed=s))) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.X_valid, two.X_valid)
    assert not np.array_equal(one.X_valid, other.X_valid)


@pytest.mark.parametrize("name", ["cod-rna", "mnist-2-6"])
def test_data_that_is_not_there_is_named_with_a_remedy(data, name):
    for folder in (data, None):
        with pytest.raises(UnavailableError, match=f"^{name}: .* put "):
            next(iter(divide(name, folder, "official")))


def test_images_are_divided_as_published(shared_data):
    (part,) = divide("mnist-2-6", shared_data, "official")
    assert (len(part.X_train) + len(part.X_valid), len(part.X_test)) == (11_876, 1_990)
    assert set(np.unique(part.y_test)) == {2, 6}
    assert (part.X_test.min(), part.X_test.max()) == (0, 1)


def test_copies_are_shifted_by_a_pixel_each_in_another_direction():
    image = np.arange(1.0, 10).reshape(3, 3)
    down = np.array([[0, 0, 0], [1, 2, 3], [4, 5, 6]])
    right = np.array([[0, 1, 2], [0, 4, 5], [0, 7, 8]])
    shifts = {
        tuple(shift.ravel())
        for shift in (
            down,
            right,
            np.array([[4, 5, 6], [7, 8, 9], [0, 0, 0]]),
            np.array([[2, 3, 0], [5, 6, 0], [8, 9, 0]]),
        )
    }
    rows = np.tile(image.ravel(), (20, 1))
    labels = np.arange(20)
    part = _with_copies(Part(rows, labels, rows[:2], labels[:2]), 2, seed=0)
    assert np.array_equal(part.X_train[:20], rows)
    assert np.array_equal(part.y_train, np.tile(labels, 3))
    assert np.array_equal(part.X_test, rows[:2])
    one, two = (list(map(tuple, part.X_train[start : start + 20])) for start in (20, 40))
    assert {*one} == {*two} == shifts
    assert all(a != b for a, b in zip(one, two, strict=True))


# ── cells ────────────────────────────────────────────────────────────────────────────────────

ROBUST = plan(QUICK, only=["robust"])


def test_a_published_row_is_computed_from_a_folder(tmp_path, data):
    (cell,) = plan(PAPER, only=["G", "ionosphere"])
    store = Store(tmp_path / "results")
    result = computing.robust(cell, Bench(store, data=data, download=False, threads=1))
    assert (result["rows"], len(result["folds"])) == (50, 5)
    lower, upper = result["robustness"]
    assert lower == upper == result["accuracy"] == 1  # the classes are far apart
    mean = np.mean([fold["accuracy"] for fold in result["folds"]])
    assert result["accuracy"] == pytest.approx(mean)
    assert result["trees"] <= 100


def test_what_is_proved_in_a_cell_is_what_verify_proves_of_the_stored_model(tmp_path):
    cell = next(c for c in ROBUST if c.dataset == "digits" and "robust" in c.title.split()[-2:])
    bench = Bench(Store(tmp_path), download=False, threads=1)
    result = computing.robust(cell, bench)
    (path,) = tmp_path.glob("models/robust/digits/*.json")
    record = computing.read_record(path)
    (part,) = bench.parts(cell.configuration)
    model = computing._ensemble(record["text"], part, regression=False)
    found = cg.verify(model, part.X_test, part.y_test, cg.Attacker("inf", 0.04), progress=False)
    assert result["robustness"] == list(found.robustness)
    assert result["accuracy"] == found.accuracy
    assert (result["trees"], result["leaves"]) == (model.n_trees, model.n_leaves)


def test_an_interrupted_cell_trains_no_model_again(tmp_path, monkeypatch):
    run(tmp_path / "whole", ROBUST)
    trained = []
    train = computing._train

    def counted(*arguments):
        if len(trained) == 3:
            trained.append(None)
            raise KeyboardInterrupt
        trained.append(arguments[0]["model"])
        return train(*arguments)

    monkeypatch.setattr(computing, "_train", counted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", ROBUST)
    run(tmp_path / "cut", ROBUST)
    assert len(trained) - 1 == 2 + 3 * 5  # models of the digits, and five folds of three kinds
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_an_interrupted_cell_verifies_no_block_again(tmp_path, monkeypatch):
    cells = [c for c in ROBUST if c.dataset == "digits"]
    run(tmp_path / "whole", cells)
    monkeypatch.setattr(computing, "_BLOCK", 20)
    verify, seen = cg.verify, []

    def counted(model, X, *arguments, **options):
        seen.append(len(X))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return verify(model, X, *arguments, **options)

    monkeypatch.setattr(cg, "verify", counted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", cells)
    assert seen == [20, 20, 20]
    run(tmp_path / "cut", cells)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    right = [cell["result"]["accuracy"] * 108 for cell in contents(tmp_path / "cut").values()]
    assert sum(seen) - 20 == round(sum(right))  # rows that are wrong need no proof
