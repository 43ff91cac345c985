"""The results folder: a finished cell is found again, whatever is not whole counts as absent."""

from __future__ import annotations

import json
import time

import pytest

from carvegbm import CarveError
from carvegbm_experiments.plan.cell import key
from carvegbm_experiments.store.folder import Store
from carvegbm_experiments.store.records import write_json

SETTING = {"suite": "quick", "dataset": "digits", "norm": "inf", "budget": 0.04, "leaves": [4, 8]}
RESULT = {"accuracy": 0.9, "robustness": [0.5, 0.75], "spread": None}


@pytest.fixture(name="store")
def make_store(tmp_path):
    return Store(tmp_path / "results")


def test_a_kept_cell_is_found_again_by_its_configuration(store):
    written = store.keep("plain-robustness", SETTING, RESULT, 12.3456)
    assert store.find("plain-robustness", SETTING) == written
    assert store.find("plain-robustness", dict(reversed(SETTING.items()))) == written
    assert written["result"] == RESULT
    assert written["configuration"] == SETTING
    assert (written["format"], written["seconds"]) == (1, 12.346)
    assert set(written["machine"]) == {"cpu", "cores", "python", "lightgbm", "finished"}


def test_the_file_is_named_by_kind_and_configuration(store):
    store.keep("curve", SETTING, RESULT, 1)
    (path,) = (store.folder / "cells").rglob("*.json")
    assert path.parent.name == "curve"
    assert path.name == f"quick-digits-inf-0.04-{key(SETTING)}.json"
    assert json.loads(path.read_text())["kind"] == "curve"


@pytest.mark.parametrize(
    "change", [{"budget": 0.05}, {"leaves": [4]}, {"rows": 10}, {"dataset": "mnist"}]
)
def test_another_configuration_is_another_cell(store, change):
    store.keep("plain", SETTING, RESULT, 1)
    assert store.find("plain", {**SETTING, **change}) is None
    assert store.find("large-spread", SETTING) is None


DAMAGE = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "not json": lambda _: "accuracy 0.9",
    "a list": lambda _: "[1, 2]",
    "another format": lambda text: text.replace('"format": 1', '"format": 2'),
    "no result": lambda text: text.replace('"result"', '"outcome"'),
    "no number of seconds": lambda text: text.replace('"seconds": 1', '"seconds": "1"'),
    "edited configuration": lambda text: text.replace("0.04", "0.05"),
    "another kind": lambda text: text.replace('"plain"', '"curve"'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_counts_as_absent_and_is_replaced(store, damage):
    store.keep("plain", SETTING, RESULT, 1)
    path = store.path("plain", SETTING)
    whole = path.read_text()
    path.write_text(DAMAGE[damage](whole))
    assert path.read_text() != whole
    assert store.find("plain", SETTING) is None
    assert store.cells() == []
    store.keep("plain", SETTING, RESULT, 1)
    assert store.find("plain", SETTING)["result"] == RESULT


def test_bytes_that_are_not_text_count_as_absent(store):
    store.keep("plain", SETTING, RESULT, 1)
    store.path("plain", SETTING).write_bytes(b"\xff\xfe\x00")
    assert store.find("plain", SETTING) is None


def test_a_write_that_fails_leaves_the_old_file(store):
    store.keep("plain", SETTING, RESULT, 1)
    with pytest.raises(ValueError, match="JSON compliant"):
        store.keep("plain", SETTING, {"accuracy": float("nan")}, 1)
    assert store.find("plain", SETTING)["result"] == RESULT
    assert len(list(store.path("plain", SETTING).parent.iterdir())) == 1


def test_cells_are_listed_by_suite(store):
    store.keep("plain", SETTING, RESULT, 1)
    store.keep("plain", {**SETTING, "suite": "paper"}, RESULT, 1)
    assert len(store.cells()) == 2
    (cell,) = store.cells("paper")
    assert cell["configuration"]["suite"] == "paper"


def test_models_are_left_out_of_version_control(store):
    assert (store.models / ".gitignore").read_text() == "*\n"


def test_a_folder_that_cannot_be_made_is_one_line(unwritable):
    with pytest.raises(CarveError, match="cannot make the folder"):
        Store(unwritable / "results").keep("plain", SETTING, RESULT, 1)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


class Squares:
    """Squares of row numbers, and a record of what was asked for."""

    def __init__(self, stop_at=None):
        self.asked = []
        self.stop_at = stop_at

    def __call__(self, start, stop):
        if start == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append((start, stop))
        return {"square": [row**2 for row in range(start, stop)], "blocks": [1]}


def by_rows(store, compute, name="square", setting=SETTING):
    return store.by_rows("curve", setting, name, 10, 4, compute)[0]


def test_interrupted_rows_go_on_after_the_last_whole_block(store):
    with pytest.raises(KeyboardInterrupt):
        by_rows(store, Squares(stop_at=8))
    again = Squares()
    assert by_rows(store, again) == {"square": [i**2 for i in range(10)], "blocks": [1, 1, 1]}
    assert again.asked == [(8, 10)]


@pytest.mark.parametrize("cut", [1, 30, -1])
def test_blocks_that_are_not_whole_are_computed_again(store, cut):
    with pytest.raises(KeyboardInterrupt):
        by_rows(store, Squares(stop_at=8))
    (path,) = store.models.glob("unfinished/*")
    content = path.read_bytes()
    path.write_bytes(content[:-cut] if cut > 0 else content + b"\x05")
    again = Squares()
    assert by_rows(store, again)["square"] == [i**2 for i in range(10)]
    assert again.asked[0] == ((4, 8) if cut > 0 else (8, 10))
    nothing = Squares()
    assert by_rows(store, nothing)["square"] == [i**2 for i in range(10)]
    assert nothing.asked == []


def test_the_second_of_two_at_once_is_refused(store):
    def first(start, stop):
        with pytest.raises(CarveError, match="in use by another process"):
            by_rows(store, Squares())
        return Squares()(start, stop)

    assert by_rows(store, first)["square"] == [i**2 for i in range(10)]


def test_rows_that_are_found_say_how_long_they_took(store, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) ** 2)
    with pytest.raises(KeyboardInterrupt):
        by_rows(store, Squares(stop_at=8))  # 1 - 0 and 9 - 4 seconds
    _, earlier = store.by_rows("curve", SETTING, "square", 10, 4, Squares())
    assert earlier == 6
    _, earlier = store.by_rows("curve", SETTING, "cube", 10, 4, Squares())
    assert earlier == 0


def test_rows_of_another_cell_or_name_are_not_taken(store):
    by_rows(store, Squares())
    for options in ({"name": "cube"}, {"setting": {**SETTING, "rows": 3}}):
        other = Squares()
        by_rows(store, other, **options)
        assert other.asked[0] == (0, 4)


def test_a_finished_cell_leaves_no_unfinished_rows(store):
    by_rows(store, Squares())
    by_rows(store, Squares(), setting={**SETTING, "rows": 3})
    store.keep("curve", SETTING, RESULT, 1)
    (left,) = store.models.glob("unfinished/*")
    assert key(SETTING) not in left.name


def test_a_document_has_an_entry_per_line(tmp_path):
    document = {"text": "naïve", "numbers": list(range(5)), "nothing": None}
    write_json(tmp_path / "new" / "file.json", document)
    text = (tmp_path / "new" / "file.json").read_text()
    assert json.loads(text) == document
    assert text.count("\n") == len(document) + 2
