"""--trees: which boosting iterations of a model the commands use, and what they say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import early_stopped

pytest.importorskip("xgboost")

JSON_COMMANDS = {
    "verify": ["--budget", "0.02"],
    "attack": ["--budget", "0.02"],
    "radius": [],
    "explain": ["--row", "1"],
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The early-stopped estimator of the file m.json; data.csv holds rows for it."""
    monkeypatch.chdir(tmp_path)
    fitted = early_stopped.xgboost_classifier()
    fitted.save_model("m.json")
    X, y = early_stopped.rows(seed=1, n=30)
    pd.DataFrame(X, columns=list("abcd")).assign(label=y).to_csv("data.csv", index=False)
    return fitted


def counts(model: Any) -> tuple[int, int]:
    return model.best_iteration + 1, model.get_booster().num_boosted_rounds()


def note(used: int, model: Any) -> str:
    best, total = counts(model)
    return (
        f"m.json uses {used} of {total} iterations (the best are the first {best}); choose with "
        "iteration_range= or --trees all|best|N\n"
    )


@pytest.mark.parametrize("command", JSON_COMMANDS)
@pytest.mark.parametrize("asked", [None, "best", "all", "3"])
def test_every_command_says_once_how_many_iterations_it_uses(
    cli: Any, model: Any, command: str, asked: str | None
) -> None:
    best, total = counts(model)
    used = {None: best, "best": best, "all": total, "3": 3}[asked]
    trees = [] if asked is None else ["--trees", asked]
    options = [*JSON_COMMANDS[command], *trees]
    code, out, err = cli(command, "m.json", "data.csv", *options, "--json")
    assert (code, err) == (0, note(used, model))
    assert json.loads(out)["iterations"] == {"used": used, "total": total, "best": best}


def test_verify_counts_the_rows_that_the_estimator_itself_decides_right(
    cli: Any, model: Any
) -> None:
    X, y = early_stopped.rows(seed=1, n=30)
    _, out, _ = cli("verify", "m.json", "data.csv", "--budget", "0", "--json")
    assert json.loads(out)["accuracy"] == pytest.approx(np.mean(model.predict(X) == y))


def test_info_spread_and_convert_say_it_and_convert_writes_these_trees(
    cli: Any, model: Any
) -> None:
    best, total = counts(model)
    for command in (["info", "m.json"], ["spread", "m.json"], ["convert", "m.json", "c.json"]):
        code, out, err = cli(*command, "--trees", "all", "--json")
        assert (code, err) == (0, note(total, model))
        assert json.loads(out)["iterations"]["used"] == total
    assert f"{best} of {total} iterations" in cli("info", "m.json")[1]
    assert cli("convert", "m.json", "c.json")[0] == 0
    code, out, err = cli("info", "c.json", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["trees"] == best


def test_a_report_says_it_on_the_page_and_in_the_document(cli: Any, model: Any) -> None:
    best, total = counts(model)
    for name in ("r.html", "r.json"):
        code, _, err = cli("report", "m.json", "data.csv", "--budget", "0.02", "-o", name)
        assert (code, err) == (0, note(best, model) + f"wrote {name}\n")
    assert f"{best} of {total} iterations" in Path("r.html").read_text("utf-8")
    written = json.loads(Path("r.json").read_text("utf-8"))["model"]["iterations"]
    assert written == {"used": best, "total": total, "best": best}


def test_answers_of_several_files_say_it_and_go_on_with_the_same_trees_only(
    cli: Any, model: Any
) -> None:
    best, total = counts(model)
    Path("more.csv").write_bytes(Path("data.csv").read_bytes())
    command = ("verify", "m.json", "data.csv", "more.csv", "--budget", "0.02", "-o", "answers/")
    code, out, err = cli(*command, "--json")
    assert (code, err) == (0, note(best, model))
    assert json.loads(out)["iterations"] == {"used": best, "total": total, "best": best}
    code, again, err = cli(*command, "--json", "--resume", "--trees", str(best))
    assert code == 0
    assert err == note(best, model) + "resuming after 2 of 2 files\n"
    assert again == out
    code, _, err = cli(*command, "--resume", "--trees", "all")
    assert code == 2
    assert "belongs to another run (other model)" in err.splitlines()[-1]


def test_a_proof_is_checked_with_the_trees_that_it_is_about(cli: Any, model: Any) -> None:
    asked = ("m.json", "data.csv", "--budget", "0.02")
    for trees in ("best", "all", "3"):
        assert cli("verify", *asked, "--proof", "p", "--trees", trees)[0] == 0
        for other in ("best", "all", "3"):
            code, out, _ = cli("check", "p", "m.json", "data.csv", "--quiet", "--trees", other)
            assert code == (0 if other == trees else 2)
            if other == trees:
                best, total = counts(model)
                used = {"best": best, "all": total}.get(trees, 3)
                assert f"{used} of {total} iterations (the best are the first {best})" in out
    assert cli("verify", *asked, "--proof", "p")[0] == 0
    assert cli("check", "p", "m.json", "data.csv", "--quiet")[0] == 0


@pytest.mark.parametrize("asked", ["0", "-1", "first", "1.5", "", "9" * 5000])
def test_other_choices_are_refused(refuses: Any, asked: str) -> None:
    refuses("info", "sample", "--trees", asked, words=["--trees"])


def test_more_iterations_than_there_are_are_refused(refuses: Any) -> None:
    refuses("verify", "sample", "--budget", "1", "--trees", "41", words=["--trees", "1 to 40"])
