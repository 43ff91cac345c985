"""carvegbm attacker: a first attacker from data, which --attacker takes as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import carvegbm as cg

SERVICES = ["ftp", "http", "smtp"]


@pytest.fixture(scope="module", name="traffic")
def a_frame() -> pd.DataFrame:
    """Network connections: a counter, a share, a category by text, a one-hot group, a label."""
    rng = np.random.default_rng(0)
    n = 300
    own = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "src_bytes": rng.integers(0, 500, n),
            "share": rng.random(n).round(3),
            "service": rng.choice(SERVICES, n),
            "home_own": own,
            "home_rent": 1 - own,
        }
    )
    score = frame["src_bytes"] / 250 + (frame["service"] == "ftp") + own * frame["share"]
    return frame.assign(label=(score > score.median()).astype(int))


@pytest.fixture(name="files")
def a_model_and_its_data(traffic: pd.DataFrame, tmp_path: Path) -> tuple[Path, Path]:
    """LightGBM's model of the traffic, and the traffic as CSV, with texts."""
    X = traffic.drop(columns="label").astype({"service": "category"})
    data = lgb.Dataset(X, traffic["label"])
    settings = {"objective": "binary", "num_leaves": 4, "verbose": -1, "min_data_per_group": 5}
    lgb.train({**settings, "cat_smooth": 1}, data, 6).save_model(tmp_path / "model.txt")
    traffic.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "model.txt", tmp_path / "data.csv"


def test_what_is_found_in_a_table_is_printed_as_toml(cli: Any, files: Any, tmp_path: Path) -> None:
    code, out, err = cli("attacker", files[1])
    assert (code, err) == (0, "")
    assert f"# An attacker suggested from {files[1]}" in out
    (tmp_path / "attacker.toml").write_text(out)
    traffic = pd.read_csv(files[1])
    assert cg.Attacker.from_file(tmp_path / "attacker.toml") == cg.Attacker(
        0,
        1,
        features=["src_bytes", "share", "service", "home_own", "home_rent"],
        step={"src_bytes": 1},
        bounds={f: (traffic[f].min(), traffic[f].max()) for f in ("src_bytes", "share")},
        categories={"service": SERVICES},
        one_hot=[["home_own", "home_rent"]],
    )


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_every_command_takes_what_was_written(
    cli: Any, files: Any, tmp_path: Path, suffix: str
) -> None:
    model, data = files
    path = tmp_path / f"attacker.{suffix}"
    code, out, err = cli("attacker", data, "-o", path)
    assert (code, out, err) == (0, "", f"wrote {path}\n")
    for command in (["verify", model, data], ["attack", model, data], ["spread", model]):
        code, out, err = cli(*command, "--attacker", path, "--json")
        assert (code, err) == (0, ""), command
    code, out, _ = cli("radius", model, data, "--attacker", path, "--rows", "20", "--json")
    assert code == 0
    assert set(json.loads(out)["radius"]) <= {0, 1, 2, 3, 4, 5}


def test_a_verdict_from_files_is_that_of_the_matrix_of_codes(
    cli: Any, files: Any, traffic: pd.DataFrame, tmp_path: Path
) -> None:
    model, data = files
    path = tmp_path / "attacker.toml"
    path.write_text(
        'norm = 1\nbudget = 30\nfeatures = ["src_bytes", "service", "home_own", "home_rent"]\n'
        'one_hot = [["home_own", "home_rent"]]\nstep = {src_bytes = 1}\n'
        'scale = {src_bytes = [0, 2], service = 0.1}\ncategories = {service = ["http", "smtp"]}\n'
    )
    code, out, err = cli("verify", model, data, "--attacker", path, "--json", "--threads", "1")
    assert (code, err) == (0, "")
    codes = traffic["service"].map(SERVICES.index)
    X = traffic.drop(columns="label").assign(service=codes).to_numpy(dtype=float)
    expected = cg.verify(model, X, traffic["label"], cg.Attacker.from_file(path), threads=1)
    assert json.loads(out)["status"] == expected.status.tolist()
    assert {"robust", "fragile"} <= set(expected.status)


def test_norm_and_budget_are_written_as_given(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "attacker.toml"
    for norm, budget in (("inf", "0.25"), ("2", "3")):
        assert cli("attacker", "sample", "--norm", norm, "--budget", budget, "-o", path)[0] == 0
        found = cg.Attacker.from_file(path)
        assert (found.norm, found.budget) == (float(norm), float(budget))
        path.unlink()


def test_json_is_one_document(cli: Any, files: Any) -> None:
    code, out, err = cli("attacker", files[1], "--json")
    assert (code, err) == (0, "")
    found = cg.Attacker.from_dict(json.loads(out, parse_constant=pytest.fail))
    assert found.one_hot == (("home_own", "home_rent"),)


def test_arrays_without_names_go_by_position(cli: Any, tmp_path: Path) -> None:
    X = np.column_stack([np.eye(3)[np.arange(60) % 3], np.arange(60) / 255])
    np.savez(tmp_path / "data.npz", X=X.astype(np.float32), y=np.arange(60) % 2)
    document = json.loads(cli("attacker", tmp_path / "data.npz", "--json")[1])
    assert document["one_hot"] == [[0, 1, 2]]
    assert document["step"] == {"3": "1/255"}
    assert document["features"] == [0, 1, 2, 3]


def test_parquet_tells_texts_and_categories(
    cli: Any, traffic: pd.DataFrame, files: Any, tmp_path: Path
) -> None:
    for kind in ("category", "string", "object"):
        path = tmp_path / f"{kind}.parquet"
        traffic.astype({"service": kind}).to_parquet(path)
        document = json.loads(cli("attacker", path, "--json")[1])
        assert document["categories"] == {"service": SERVICES}
        verify = ["verify", files[0], "--budget", "0.1", "--json", "--rows", "50"]
        found, expected = (json.loads(cli(*verify, data)[1]) for data in (path, files[1]))
        assert found["status"] == expected["status"]


def test_bad_input_is_one_line(refuses: Any, tmp_path: Path) -> None:
    refuses("attacker", words=["DATA"])
    refuses("attacker", tmp_path / "absent.csv", words=["absent.csv", "no such file"])
    refuses("attacker", "sample", "-o", tmp_path / "a.csv", words=["a.csv", ".toml or .json"])
    refuses("attacker", "sample", "-o", tmp_path / "b" / "a.toml", words=["no folder"])
    refuses("attacker", "sample", "--norm", "two", words=["norm", "'two'"])
    refuses("attacker", "sample", "--budget", "-1", words=["budget", "-1"])
    refuses("attacker", "sample", "--label", "colour", words=["colour"])


def test_a_file_that_may_have_been_edited_is_not_replaced(refuses: Any, tmp_path: Path) -> None:
    path = tmp_path / "attacker.toml"
    path.write_text("precious")
    refuses("attacker", "sample", "-o", path, words=[str(path), "there already", "another name"])
    assert path.read_text() == "precious"


def test_a_label_that_was_guessed_is_named(
    cli: Any, refuses: Any, traffic: pd.DataFrame, files: Any, tmp_path: Path
) -> None:
    path = tmp_path / "unlabelled.csv"
    traffic.drop(columns="label").to_csv(path, index=False)
    code, out, err = cli("attacker", path)
    assert (code, err) == (
        0, "'home_rent' is taken for the label; give --label if it is another\n",
    )  # fmt: skip
    assert "home_rent" not in out
    words = ["unlabelled.csv lacks 'home_rent'", "was taken for the label", "--label"]
    refuses("verify", files[0], path, "--budget", "1", words=words)
