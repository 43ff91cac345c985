"""The command explain: one instance in the terminal, and how it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy import sparse

import carvegbm as cg
from carvegbm.data.files import load_table
from conftest import REPOSITORY
from plain_trees import ensemble, leaf, split, stump

ROW = ["explain", "sample", "--row", "5", "--norm", "inf", "--threads", "1"]
ODD = ["<b>bold\x1b[31m", "\u202eevil\x9b2J"]


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    """Save an ensemble and its instances; the arguments that name them."""

    def save(model: cg.Ensemble, text: str, name: str = "data.csv") -> list[str]:
        model.save(tmp_path / "model.json")
        (tmp_path / name).write_text(text, encoding="utf-8")
        return ["explain", str(tmp_path / "model.json"), str(tmp_path / name)]

    return save


# ── what it shows ────────────────────────────────────────────────────────────────────────────


def test_the_text_holds_what_python_says(cli: Any, model: str, data: str) -> None:
    code, out, err = cli(*ROW)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    table = load_table(data)
    found = cg.explain(model, table.X, table.y, row=5, norm="inf")
    assert out.startswith("row 5 of sample\n")
    assert re.search(rf"margin +{found.margin:.6g}\n", out)
    assert re.search(rf"radius +{found.radius:.6g}, norm inf\n", out)
    assert len(found.changes) > 1
    for change in found.changes:
        before, after = f"{change.before:.6g}", f"{change.after:.6g}"
        assert re.search(rf"{change.name} +{before} +{after}…? +[+-]", out)
    assert f"leaves: {len(found.trees)} of {cg.load(model).n_trees} trees" in out
    assert f"{found.unchanged_trees} others" in out
    assert "status" not in out


def test_json_holds_every_digit_and_its_witness_flips_lightgbm(
    cli: Any, model: str, data: str
) -> None:
    booster, table = lgb.Booster(model_file=model), load_table(data)
    flipped = 0
    for row in range(0, 60, 7):
        code, out, _ = cli("explain", model, data, "--row", row, "--norm", "2", "--json")
        assert code == 0
        told = json.loads(out, parse_constant=pytest.fail)
        assert (told["model"], told["data"], told["row"]) == (model, data, row)
        assert told["instance"] == table.X[row].tolist()
        before = booster.predict([told["instance"]], raw_score=True)[0] > 0
        assert told["answer"] == before
        if told["witness"] is None or told["witness"]["borderline"]:
            continue
        after = booster.predict([told["witness"]["values"]], raw_score=True)[0] > 0
        assert after == told["witness"]["answer"] != before
        assert told["witness"]["distance"] == told["radius"]
        flipped += 1
    assert flipped > 4


def test_a_budget_adds_the_status_of_verify(cli: Any, tmp_path: Path) -> None:
    verified = json.loads(cli("verify", "sample", "--budget", "0.02", "--json")[1])["status"]
    file = tmp_path / "attacker.toml"
    file.write_text('norm = "inf"\nbudget = 0.02\n')
    for row in range(12):
        for more in (["--budget", "0.02"], ["--attacker", file]):
            told = json.loads(cli("explain", "sample", "--row", row, *more, "--json")[1])
            assert told["status"] == verified[row]
            assert told["attacker"]["budget"] == 0.02
    assert f"{verified[0]}: " in cli("explain", "sample", "--row", "0", "--budget", "0.02")[1]


def test_limits_of_the_attacker_are_kept(cli: Any, saved: Any, tmp_path: Path) -> None:
    two = ["worst_concave_points", "worst_symmetry"]
    file = tmp_path / "attacker.json"
    file.write_text(json.dumps({"features": two}))
    for limit in (["--features", ",".join(two)], ["--attacker", file]):
        told = json.loads(cli(*ROW, *limit, "--json")[1])
        assert told["status"] is None
        assert [change["name"] for change in told["witness"]["changes"]] == two
    wide = json.loads(cli(*ROW, "--scale", "2", "--json")[1])
    plain = json.loads(cli(*ROW, "--json")[1])
    assert wide["radius"] == pytest.approx(plain["radius"] / 2)
    given = [*saved(ensemble(stump(0, 0.5)), "x,label\n0,0\n"), "--row", "0", "--bounds"]
    assert json.loads(cli(*given, "0,0.6", "--json")[1])["witness"]["values"] > [0.5]
    assert json.loads(cli(*given, "0,0.5", "--json")[1])["witness"] is None


def test_fewer_trees_are_shown_if_asked_for(cli: Any) -> None:
    whole, part = cli(*ROW)[1], cli(*ROW, "--show-trees", "1")[1]
    changed = int(re.search(r"leaves: (\d+) of", whole).group(1))  # type: ignore[union-attr]
    assert whole.count("\n") - part.count("\n") == changed - 2
    assert f"{changed - 1} others" in part
    assert whole.splitlines()[-1].split() == part.splitlines()[-1].split()


@pytest.mark.parametrize("columns", [20, 60, 300])
def test_a_terminal_of_any_width_shows_all_of_it(
    cli: Any, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    plain = cli(*ROW)[1]
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, shown, _ = cli(*ROW)
    assert code == 0
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).split() == plain.split()
    assert columns < 300 or shown != plain


def test_the_page_shows_what_the_command_prints(cli: Any) -> None:
    page = (REPOSITORY / "docs" / "command-line.md").read_text("utf-8")
    ((line, shown),) = re.findall(
        r"^```\ncarvegbm (explain sample.*)\n```\n\n```text\n(.*?)^```", page, re.M | re.S
    )
    assert cli(*line.split()) == (0, shown, "")


# ── what can happen to an instance ───────────────────────────────────────────────────────────


def test_a_wrong_answer_and_one_that_nothing_flips(cli: Any, saved: Any) -> None:
    given = saved(ensemble(leaf(1.0)), "x,label\n0,0\n0,1\n")
    code, out, _ = cli(*given, "--row", "0")
    assert code == 0
    assert "answer  1: wrong" in out
    assert "witness" not in out
    code, out, _ = cli(*given, "--row", "1")
    assert code == 0
    assert "no budget flips the answer" in out


def test_many_classes_name_the_rival(cli: Any, saved: Any) -> None:
    model = ensemble(stump(0, 0.5, [5.0, 3.0, 1.0], [4.0, 0.0, 6.0]), classes=["a", "b", "c"])
    given = saved(model, "x,label\n0,a\n")
    out = cli(*given, "--row", "0")[1]
    assert "answer c" in out
    assert "scores of a less those of c" in out
    assert "b was ahead" in out
    told = json.loads(cli(*given, "--row", "0", "--json")[1])
    assert (told["rival"], told["first_rival"], told["lead"]) == ("c", "b", 2.0)


def test_categories_and_groups_go_by_name(cli: Any, saved: Any, tmp_path: Path) -> None:
    choose = {"feature": 0, "categories": [0, 2], "left": leaf(-1.0), "right": leaf(1.0)}
    known = {0: {0: "red", 1: "green", 2: "blue"}}
    model = ensemble(choose, feature_names=["colour"], categories=known)
    out = cli(*saved(model, "colour,label\nblue,0\n"), "--row", "0", "--norm", "0")[1]
    assert re.search(r"colour +blue +green", out)
    assert "colour not in {red, blue}" in out
    names = ["kind=a", "kind=b"]
    hot = ensemble(stump(1, 0.5), n_features=2, feature_names=names)
    (tmp_path / "hot.json").write_text(json.dumps({"norm": 1, "one_hot": [names]}))
    given = saved(hot, "kind=a,kind=b,label\n1,0,0\n")
    out = cli(*given, "--row", "0", "--attacker", tmp_path / "hot.json")[1]
    assert re.search(r"kind +kind=a +kind=b", out)


def test_missing_values_and_sparse_data(cli: Any, saved: Any, tmp_path: Path) -> None:
    model = ensemble(
        split(0, 0.5, leaf(3.0), stump(1, 0.5, -1.0, 5.0), missing="right"), n_features=2
    )
    told = json.loads(cli(*saved(model, "a,b,label\n,0,0\n"), "--row", "0", "--json")[1])
    assert told["instance"] == [None, 0.0]
    assert [change["features"] for change in told["witness"]["changes"]] == [[1]]
    given = saved(model, "0 1:1\n1 2:7\n", "data.libsvm")
    told = json.loads(cli(*given, "--row", "0", "--json")[1])
    assert [change["features"] for change in told["witness"]["changes"]] == [[0]]
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix([[1.0, 0.0]]))
    np.save(tmp_path / "y.npy", [0])
    code, out, err = cli("explain", given[1], tmp_path / "X.npz", "--row", "0", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["instance"] == {"0": 1.0}


def test_names_cannot_steer_the_terminal(cli: Any, saved: Any) -> None:
    model = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2, base_score=-1, feature_names=ODD)
    given = saved(model, "0,0,0\n")
    code, out, _ = cli(*given, "--row", "0")
    assert code == 0
    assert all(character.isprintable() or character == "\n" for character in out)
    assert "<b>bold\\u001b[31m" in out


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("100000", ["row 100000", "rows", "counted from 0"]),
        ("-1", ["--row", "-1", "whole number"]),
        ("x", ["--row", "'x'", "whole number"]),
        ("1.5", ["--row", "'1.5'", "whole number"]),
        ("", ["--row", "whole number"]),
    ],
)
def test_a_bad_row_is_refused_in_one_line(refuses: Any, row: str, words: list[str]) -> None:
    refuses("explain", "sample", "--row", row, words=words)


def test_other_bad_input_is_refused_in_one_line(refuses: Any, saved: Any, tmp_path: Path) -> None:
    refuses("explain", "sample", words=["--row is missing", "--row N"])
    refuses("explain", "nothing.txt", "sample", "--row", "0", words=["nothing.txt"])
    refuses(*ROW, "--norm", "-1", words=["norm must be"])
    refuses(*ROW, "--budget", "-1", words=["budget must be >= 0"])
    refuses(*ROW, "--features", "no_such", words=["no_such"])
    refuses(*ROW, "--show-trees", "-2", words=["--show-trees", "whole number"])
    refuses(*ROW, "--attacker", tmp_path / "gone.toml", words=["gone.toml"])
    given = saved(ensemble(leaf(1.0), task="regression"), "x,label\n0,1.5\n")
    refuses(*given, "--row", "0", words=["regression", "output_range"])
