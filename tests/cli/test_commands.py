"""The command line: what it answers, what it writes, and how it refuses."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.data.files import load_table

SAMPLE = ["verify", "sample", "--norm", "inf", "--budget", "0.02", "--threads", "1"]


# ── the happy paths ──────────────────────────────────────────────────────────────────────────


def expected(model: str, data: str, **attacker: Any) -> Any:
    table = load_table(data)
    return cg.verify(cg.load(model), table.X, table.y, cg.Attacker(**attacker), threads=1)


def test_verify_prints_the_counts_and_no_colour_without_a_terminal(
    cli: Any, model: str, data: str
) -> None:
    code, out, err = cli(*SAMPLE)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    result = expected(model, data, norm="inf", budget=0.02)
    for status, count in result.counts.items():
        if status != "unknown":
            assert re.search(rf"{status} +{count} ", out), out
    assert f"{100 * result.accuracy:.1f} %" in out
    assert f"{100 * result.robustness[0]:.1f} %" in out


@pytest.mark.parametrize("norm", ["inf", "1", "2", "3"])
def test_json_is_one_document_that_agrees_with_the_api(
    cli: Any, model: str, data: str, norm: str
) -> None:
    code, out, err = cli("verify", model, data, "--norm", norm, "--budget", "0.02", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out, parse_constant=pytest.fail)
    result = expected(model, data, norm=float(norm), budget=0.02)
    assert document["status"] == result.status.tolist()
    assert document["accuracy"] == result.accuracy


def test_sample_has_every_kind_of_instance(cli: Any) -> None:
    document = json.loads(cli(*SAMPLE, "--json")[1])
    assert {"robust", "fragile", "vulnerable"} <= set(document["status"])


def test_rows_takes_the_first_instances(cli: Any) -> None:
    whole = json.loads(cli(*SAMPLE, "--json")[1])
    part = json.loads(cli(*SAMPLE, "--json", "--rows", "7")[1])
    assert part["status"] == whole["status"][:7]


def test_single_instance_works(cli: Any) -> None:
    code, out, _ = cli(*SAMPLE, "--rows", "1")
    assert code == 0
    assert "1 instance" in out


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_output_file_holds_the_statuses(cli: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"result.{suffix}"
    code, _, _ = cli(*SAMPLE, "--output", path)
    assert code == 0
    statuses = json.loads(cli(*SAMPLE, "--json")[1])["status"]
    if suffix == "json":
        assert json.loads(path.read_text())["status"] == statuses
    elif suffix == "csv":
        with path.open() as file:
            assert [row["status"] for row in csv.DictReader(file)] == statuses
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(path).column("status").to_pylist() == statuses
    assert os.listdir(tmp_path) == [path.name]


def test_witnesses_are_within_budget_and_flip_lightgbm(
    cli: Any, model: str, data: str, tmp_path: Path
) -> None:
    code, _, _ = cli(*SAMPLE, "--witnesses", tmp_path / "witnesses.npz")
    assert code == 0
    found = np.load(tmp_path / "witnesses.npz")
    table = load_table(data)
    flipped = found["success"]
    assert flipped.any()
    assert np.isnan(found["X"][~flipped]).all()
    assert (np.abs(found["X"] - table.X)[flipped] <= np.nextafter(0.02, 1)).all()
    booster = lgb.Booster(model_file=model)
    sure = flipped & ~found["borderline"]
    before = booster.predict(table.X[sure], raw_score=True) >= 0
    after = booster.predict(found["X"][sure], raw_score=True) >= 0
    assert (before != after).all()


def test_attack_succeeds_exactly_on_fragile_and_broken_instances(cli: Any, tmp_path: Path) -> None:
    status = np.array(json.loads(cli(*SAMPLE, "--json")[1])["status"])
    code, out, _ = cli(
        "attack", "sample", "--budget", "0.02", "--json", "--output", tmp_path / "a.npz"
    )
    assert code == 0
    success = np.array(json.loads(out)["success"])
    np.testing.assert_array_equal(success, np.isin(status, ["fragile", "broken"]))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["success"], success)
    code, out, _ = cli("attack", "sample", "--budget", "0.02")
    assert re.search(rf"flipped +{success.sum()} ", out)


def test_radius_tells_what_lies_beyond_its_limit_from_what_is_wrong_already(cli: Any) -> None:
    code, out, _ = cli("radius", "sample", "--norm", "inf", "--max-budget", "0.02")
    assert code == 0
    status = json.loads(cli("verify", "sample", "--budget", "0.02", "--json")[1])["status"]
    wrong = status.count("vulnerable") + status.count("broken")
    assert re.search(rf"wrong already +{wrong}\b", out)
    assert re.search(rf"beyond --max-budget +{status.count('robust')}\b", out)
    assert "not decided" not in out
    smallest = re.search(r"smallest radius of the others +([\d.e-]+)", out)
    assert smallest is not None
    assert 0 < float(smallest.group(1)) <= 0.02


def test_radius_agrees_with_verify(cli: Any, tmp_path: Path) -> None:
    code, out, _ = cli("radius", "sample", "--json", "--output", tmp_path / "radius.csv")
    assert code == 0
    radius = [float(value) if value is not None else np.nan for value in json.loads(out)["radius"]]
    status = json.loads(cli(*SAMPLE, "--json")[1])["status"]
    for r, s in zip(radius, status, strict=True):
        assert (r == 0) == (s in ("vulnerable", "broken"))
        if s == "fragile":
            assert 0 < r <= 0.02
        if s == "robust":
            assert not r <= 0.02
    with (tmp_path / "radius.csv").open() as file:
        written = [float(row["radius"] or "nan") for row in csv.DictReader(file)]
    np.testing.assert_array_equal(written, radius)
    code, out, _ = cli("radius", "sample", "--norm", "1")
    assert code == 0
    assert "median" in out


def test_spread_and_info(cli: Any, model: str) -> None:
    code, out, _ = cli("spread", "sample", "--norm", "inf", "--budget", "0.02", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["spread"] == cg.spread(cg.load(model))
    assert document["large_spread"] is True
    assert (
        json.loads(cli("spread", model, "--budget", "0.03", "--json")[1])["large_spread"] is False
    )
    assert "0.045" in cli("spread", "sample")[1]
    document = json.loads(cli("info", "sample", "--json")[1])
    assert (document["trees"], document["features"], document["task"]) == (40, 30, "binary")
    assert "40 trees" in cli("info", "sample")[1]


def test_attacker_options_reach_the_attacker(cli: Any, model: str, data: str) -> None:
    def statuses(*options: str) -> list[str]:
        code, out, err = cli("verify", model, data, *options, "--json")
        assert code == 0, err
        status: list[str] = json.loads(out)["status"]
        return status

    plain = statuses("--budget", "0.02")
    halved = statuses("--budget", "0.04", "--scale", "0.5")
    assert halved == plain
    assert halved == statuses("--budget", "0.04", "--scale", ",".join(["0.5"] * 30))
    only = statuses("--budget", "0.02", "--features", "worst_radius,0")
    both = {"norm": "inf", "budget": 0.02}
    assert only == expected(model, data, **both, features=["worst_radius", 0]).status.tolist()
    assert only != plain
    bounded = statuses("--budget", "0.02", "--bounds", "0,1")
    assert bounded == expected(model, data, **both, bounds=(0, 1)).status.tolist()


def test_bounds_and_scale_from_files(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bounds.txt").write_text("0 1\n" * 30)
    np.save(tmp_path / "scale.npy", np.full(30, 0.5))
    from_files = cli(
        *["verify", "sample", "--budget", "0.04", "--json"],
        *["--bounds", tmp_path / "bounds.txt", "--scale", tmp_path / "scale.npy"],
    )
    inline = cli(*SAMPLE, "--bounds", "0,1", "--json")
    assert json.loads(from_files[1])["status"] == json.loads(inline[1])["status"]


def test_grid_of_no_decimals_is_a_grid(cli: Any, refuses: Any, model: str, data: str) -> None:
    arguments = ["verify", "sample", "--norm", "1", "--budget", "0.02"]
    code, out, err = cli(*arguments, "--json", "--grid", "0")
    assert (code, err) == (0, "")
    table = load_table(data)
    attacker = cg.Attacker(1, 0.02)
    result = cg.verify(cg.load(model), table.X, table.y, attacker, grid=0, threads=1)
    assert json.loads(out)["status"] == result.status.tolist()
    for grid in ("-1", "0.5", "x"):
        refuses(*arguments, "--grid", grid, words=["--grid", grid])


def test_worst_margins_are_there_for_who_asks(cli: Any) -> None:
    arguments = ["verify", "sample", "--norm", "1", "--budget", "0.02", "--json"]
    quick, exact = (json.loads(cli(*arguments, *more)[1]) for more in ([], ["--exact-margin"]))
    assert quick["status"] == exact["status"]
    assert None in quick["worst_margin"]
    assert None not in exact["worst_margin"]


def test_basic_method_and_grid(cli: Any) -> None:
    exact = json.loads(cli(*SAMPLE, "--json")[1])["status"]
    assert json.loads(cli(*SAMPLE, "--json", "--method", "basic")[1])["status"] == exact
    arguments = ["verify", "sample", "--norm", "1", "--budget", "0.02", "--json"]
    exact = json.loads(cli(*arguments)[1])["status"]
    rough = json.loads(cli(*arguments, "--grid", "2")[1])["status"]
    assert all(e == "robust" for e, r in zip(exact, rough, strict=True) if r == "robust")


@pytest.fixture
def data_files(data: str, tmp_path: Path) -> dict[str, str]:
    """The sample's data in every format."""
    table = load_table(data)
    X, y = table.X, table.y
    lines = [",".join(map(repr, [*row, int(c)])) for row, c in zip(X.tolist(), y, strict=True)]
    (tmp_path / "plain.csv").write_text("\n".join(lines))
    (tmp_path / "tabs").write_text("\n".join(lines).replace(",", "\t"))
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(Path(data).read_bytes()))
    pairs = [" ".join(f"{i + 1}:{v!r}" for i, v in enumerate(row) if v) for row in X.tolist()]
    svm = "".join(f"{c} {row}\n" for c, row in zip(y, pairs, strict=True))
    (tmp_path / "data.svm").write_text(svm)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    order = [29, *range(29)]
    shuffled = {table.feature_names[i]: X[:, i] for i in order} if table.feature_names else {}
    pyarrow = pytest.importorskip("pyarrow")
    content = pyarrow.table({**shuffled, "label": y})
    pytest.importorskip("pyarrow.parquet").write_table(content, tmp_path / "data.parquet")
    names = ["plain.csv", "tabs", "packed.csv.gz", "data.svm", "data.npz", "X.npy", "data.parquet"]
    files = {name: str(tmp_path / name) for name in names}
    return files | {"pair": f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}"}


def test_every_data_format_gives_the_same_answer(
    cli: Any, model: str, data_files: dict[str, str]
) -> None:
    reference = json.loads(cli(*SAMPLE, "--json")[1])["status"]
    for name, path in data_files.items():
        code, out, err = cli("verify", model, path, "--budget", "0.02", "--json")
        assert code == 0, (name, err)
        assert json.loads(out)["status"] == reference, name


def test_model_is_recognised_by_content(cli: Any, model: str, data: str, tmp_path: Path) -> None:
    shutil.copy(model, tmp_path / "weights.bin")
    code, out, _ = cli("verify", tmp_path / "weights.bin", data, "--budget", "0.02", "--json")
    assert code == 0
    assert json.loads(out)["status"] == json.loads(cli(*SAMPLE, "--json")[1])["status"]


def test_classes_rename_the_labels(cli: Any, model: str, data: str, tmp_path: Path) -> None:
    text = re.sub(r",0$", ",malignant", Path(data).read_text(), flags=re.M)
    text = re.sub(r",1$", ",benign", text, flags=re.M)
    (tmp_path / "words.csv").write_text(text)
    arguments = ["verify", model, tmp_path / "words.csv", "--budget", "0.02", "--json"]
    code, out, _ = cli(*arguments, "--classes", "malignant,benign")
    assert code == 0
    assert json.loads(out)["status"] == json.loads(cli(*SAMPLE, "--json")[1])["status"]


def test_model_without_trees_and_tree_of_one_leaf_are_constant(cli: Any, tmp_path: Path) -> None:
    X = np.linspace(0, 1, 60).reshape(-1, 1)
    data = lgb.Dataset(X, X[:, 0] > 0.5)
    one_leaf = lgb.train({"objective": "binary", "min_data": 100, "verbosity": -1}, data, 1)
    one_leaf.save_model(tmp_path / "leaf.txt")
    text = (tmp_path / "leaf.txt").read_text()
    head, tail = text.partition("Tree=0")[0], text[text.index("end of trees") :]
    (tmp_path / "none.txt").write_text(re.sub("tree_sizes=.*", "tree_sizes=", head) + tail)
    (tmp_path / "two.csv").write_text("0.1,0\n0.9,1\n")
    for name, trees in (("leaf.txt", 1), ("none.txt", 0)):
        assert json.loads(cli("info", tmp_path / name, "--json")[1])["trees"] == trees
        arguments = ["verify", tmp_path / name, tmp_path / "two.csv", "--budget", "0.4"]
        code, out, err = cli(*arguments, "--json")
        assert code == 0, err
        assert sorted(json.loads(out)["status"]) == ["robust", "vulnerable"]


# ── refusals: exit code 2 and one line ───────────────────────────────────────────────────────


def test_missing_and_empty_files(refuses: Any, model: str, data: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    absent = str(tmp_path / "absent")
    refuses("verify", absent, data, "--budget", "1", words=[absent])
    refuses("verify", model, absent, "--budget", "1", words=[absent, "no such file"])
    refuses("verify", tmp_path / "empty", data, "--budget", "1", words=["empty"])
    refuses("verify", model, tmp_path / "empty", "--budget", "1", words=["empty file"])
    refuses("verify", tmp_path, data, "--budget", "1", words=[str(tmp_path)])
    (tmp_path / "folder").mkdir()
    folder = tmp_path / "folder"
    refuses("verify", model, folder, "--budget", "1", words=["the folder has no files"])
    refuses("verify", model, "--budget", "1", words=["DATA"])
    refuses("info", absent, words=[absent])
    refuses("spread", absent, words=[absent])
    refuses("radius", model, absent, words=[absent])
    refuses("attack", model, absent, "--budget", "1", words=[absent])


def test_truncated_model(refuses: Any, model: str, data: str, tmp_path: Path) -> None:
    text = Path(model).read_text()
    for share in (0.02, 0.3, 0.9):
        (tmp_path / "cut.txt").write_text(text[: int(len(text) * share)])
        refuses("verify", tmp_path / "cut.txt", data, "--budget", "0.01", words=["cut.txt"])


def test_model_that_is_none(refuses: Any, data: str) -> None:
    refuses("verify", data, data, "--budget", "0.01", words=["sample_data.csv"])


def edited(data: str, path: Path, line: int, edit: Any) -> Path:
    lines = Path(data).read_text().splitlines()
    lines[line] = ",".join(edit(lines[line].split(",")))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_wrong_column_count(refuses: Any, model: str, tmp_path: Path) -> None:
    (tmp_path / "narrow.csv").write_text("1,2,0\n")
    refuses(
        *["verify", model, tmp_path / "narrow.csv", "--budget", "0.01"],
        words=["2 columns", "30 features"],
    )


def test_columns_that_the_model_does_not_know(refuses: Any, model: str, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b,label\n1,2,0\n")
    refuses(
        *["verify", model, tmp_path / "other.csv", "--budget", "0.01"],
        words=["other.csv lacks 'mean_radius', ", ", … and has the unexpected 'a', 'b'", "names"],
    )


def test_ragged_row(refuses: Any, model: str, data: str, tmp_path: Path) -> None:
    path = edited(data, tmp_path / "a.csv", 4, lambda cells: cells[:-1])
    refuses("verify", model, path, "--budget", "0.01", words=["line 5", "30 cells"])


def test_non_numeric_cell_has_its_row_and_column(
    refuses: Any, model: str, data: str, tmp_path: Path
) -> None:
    path = edited(data, tmp_path / "a.csv", 4, lambda cells: [cells[0], "big", *cells[2:]])
    words = [str(path), "line 5", "column 2", "mean_texture", "'big'"]
    refuses("verify", model, path, "--budget", "0.01", words=words)


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_nan_and_infinity_where_the_model_has_no_rule(
    refuses: Any, tmp_path: Path, value: str
) -> None:
    tree = "classifier-decision-tree 2 2 no yes SPLIT 1 0.5 LEAF 3 0 LEAF 0 3"
    (tmp_path / "model.silva").write_text(tree)
    (tmp_path / "a.csv").write_text(f"1,1,yes\n1,0,no\n1,{value},no\n")
    arguments = [tmp_path / "model.silva", tmp_path / "a.csv"]
    for command in (["verify", *arguments, "--budget", "0.1"], ["radius", *arguments]):
        refuses(*command, words=["row 2", "feature 1", value])


def test_unknown_label(refuses: Any, model: str, data: str, tmp_path: Path) -> None:
    path = edited(data, tmp_path / "a.csv", 4, lambda cells: [*cells[:-1], "7"])
    refuses("verify", model, path, "--budget", "0.01", words=["label", "7"])
    refuses("radius", model, path, words=["label", "7"])
    refuses(*SAMPLE, "--label", "colour", words=["'colour'", "mean_radius"])


@pytest.mark.parametrize("budget", ["-0.1", "nan", "x"])
def test_bad_budget(refuses: Any, model: str, data: str, budget: str) -> None:
    refuses("verify", model, data, "--budget", budget, words=["budget", budget])
    refuses("attack", model, data, "--budget", budget, words=["budget", budget])


@pytest.mark.parametrize("norm", ["0.5", "-1", "nan", "two"])
def test_bad_norm(refuses: Any, model: str, data: str, norm: str) -> None:
    refuses("verify", model, data, "--norm", norm, "--budget", "1", words=["norm", norm])
    refuses("radius", model, data, "--norm", norm, words=["norm", norm])


def test_fractional_budget_with_norm_0_says_what_it_means(
    refuses: Any, model: str, data: str
) -> None:
    refuses("verify", model, data, "--norm", "0", "--budget", "1.5", words=["1.5", "1"])


def test_not_large_spread(refuses: Any, cli: Any) -> None:
    arguments = ["verify", "sample", "--budget", "0.03"]
    refuses(*arguments, "--engine", "large-spread", words=["0.0225"])
    refuses(*arguments, "--on-violation", "raise", words=["0.0225"])
    code, out, _ = cli(*arguments, "--on-violation", "unknown")
    assert code == 0
    assert "unknown" in out


def test_model_with_categories_is_described_converted_and_verified(
    cli: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(300, 2)).astype(float)
    y = np.isin(X[:, 0], [1, 4]).astype(int)
    data = lgb.Dataset(X, y, categorical_feature=[0], feature_name=["colour", "size"])
    options = {"objective": "binary", "verbosity": -1, "min_data_per_group": 1, "cat_smooth": 0}
    lgb.train(options, data, 30).save_model(tmp_path / "cat.txt")
    code, out, _ = cli("info", tmp_path / "cat.txt")
    assert code == 0
    assert "colour (6)" in out
    code, out, _ = cli("info", tmp_path / "cat.txt", "--json")
    assert json.loads(out)["categorical"] == {"colour": 6}
    assert cli("convert", tmp_path / "cat.txt", tmp_path / "cat.json")[0] == 0
    (tmp_path / "a.csv").write_text("colour,size,label\n1,2,1\n2,2,0\n")
    for model in ("cat.txt", "cat.json"):
        verify = ["verify", tmp_path / model, tmp_path / "a.csv", "--json"]
        for budget, robust in (("0.5", 2), ("1", 0)):
            code, out, _ = cli(*verify, "--norm", "inf", "--budget", budget)
            assert code == 0
            assert json.loads(out)["counts"]["robust"] == robust


def test_a_model_with_categorical_splits_is_verified(cli: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 5, 200), rng.random(200)])
    y = (X[:, 0] % 2 == 0).astype(int)
    data = lgb.Dataset(X, y, categorical_feature=[0])
    options = {"objective": "binary", "verbosity": -1, "min_data_per_group": 1, "cat_smooth": 0}
    lgb.train(options, data, 3).save_model(tmp_path / "cat.txt")
    np.savez(tmp_path / "data.npz", X=X, y=y)
    for norm, status in (("inf", "robust"), ("0", "fragile")):
        attacker = ["--norm", norm, "--budget", "0.5" if norm == "inf" else "1"]
        verify = ["verify", tmp_path / "cat.txt", tmp_path / "data.npz", *attacker, "--json"]
        code, out, _ = cli(*verify)
        assert code == 0
        assert json.loads(out)["status"] == [status] * 200


def test_data_without_rows(refuses: Any, model: str, data: str, tmp_path: Path) -> None:
    header = Path(data).read_text().splitlines()[0]
    (tmp_path / "a.csv").write_text(header + "\n")
    refuses("verify", model, tmp_path / "a.csv", "--budget", "0.01", words=["no rows"])


def test_bad_attacker_options(refuses: Any) -> None:
    refuses(*SAMPLE, "--scale", "-1", words=["scale", "-1"])
    refuses(*SAMPLE, "--scale", "1,2", words=["scale", "30"])
    refuses(*SAMPLE, "--scale", "x", words=["--scale x"])
    refuses(*SAMPLE, "--features", "colour", words=["colour"])
    refuses(*SAMPLE, "--features", "99", words=["99"])
    refuses(*SAMPLE, "--bounds", "1,0", words=["bounds"])
    refuses(*SAMPLE, "--bounds", "0.4,0.6", words=["bounds"])
    refuses(*SAMPLE, "--bounds", "1,2,3", words=["--bounds"])
    refuses(*SAMPLE, "--classes", "a", words=["classes"])


def test_wrong_use(refuses: Any) -> None:
    refuses("verify", words=["MODEL"])
    refuses("verify", "sample", words=["--budget"])
    refuses("verify", "sample", "--budget", "1", "--colour", words=["--colour"])
    refuses("unheard", words=["unheard"])
    refuses(*SAMPLE, "--rows", "0", words=["--rows", "0"])
    refuses(*SAMPLE, "--threads", "-1", words=["--threads", "-1"])
    refuses(*SAMPLE, "--method", "guess", words=["guess", "efficient"])


# ── files appear whole, or not at all ────────────────────────────────────────────────────────


def test_output_is_refused_before_the_work_begins(
    refuses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cg, "verify", lambda *_, **__: pytest.fail("the work has begun"))
    absent = tmp_path / "absent"
    refuses(*SAMPLE, "--output", absent / "r.json", words=[str(absent), "there is no folder"])
    refuses(*SAMPLE, "--witnesses", absent / "r.npz", words=[str(absent), "there is no folder"])
    refuses(*SAMPLE, "--output", tmp_path / "r.xls", words=["r.xls", ".json, .csv or .parquet"])
    (tmp_path / "folder.json" / "r.csv").mkdir(parents=True)
    refuses(*SAMPLE, "--output", tmp_path / "folder.json", words=["folder.json is not empty"])


def test_failed_write_leaves_nothing_behind_and_keeps_what_was_there(
    refuses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *_: object, **__: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    (tmp_path / "r.json").write_text("earlier")
    monkeypatch.setattr(Path, "write_text", fail)
    for arguments, target in (
        ([*SAMPLE, "--output"], "r.json"),
        (["radius", "sample", "--output"], "radius.json"),
    ):
        path = tmp_path / target
        refuses(*arguments, path, words=[f"{path}: No space left on device"])
    monkeypatch.setattr(np, "savez_compressed", lambda file, **_: fail(Path(file.name)))
    for arguments in ([*SAMPLE, "--witnesses"], ["attack", *SAMPLE[1:], "--output"]):
        path = tmp_path / "r.npz"
        refuses(*arguments, path, words=[f"{path}: No space left on device"])
    # What is decided is in the resume file; there is nothing else.
    assert sorted(os.listdir(tmp_path)) == ["r.json", "r.json.partial"]
    assert (tmp_path / "r.json").read_text() == "earlier"
