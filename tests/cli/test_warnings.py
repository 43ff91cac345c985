"""Rows that are valid and probably not what was meant: one line says so, and only then."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from categorical_trees import choice
from plain_trees import ensemble, leaf, stump

NAMES = ["area", "ratio", "service"]
SERVICES = {0: "ftp", 1: "http", 2: "smtp"}
MODEL = ensemble(
    stump(0, 500.0),
    stump(1, 0.5),
    choice(2, [0, 2], leaf(-1.0), leaf(1.0), missing="left"),
    n_features=3,
    feature_names=NAMES,
    categories={2: SERVICES},
)
ATTACKER = cg.Attacker("inf", 0.1, features=["ratio", "service"])


def rows(n: int = 40, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.random(n), "ratio": rng.random(n)})
    frame["service"] = rng.choice(list(SERVICES.values()), n)
    return frame.assign(**columns)


def warnings_of(asked: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asked()
    return [str(warning.message) for warning in caught]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MODEL.save("model.json")
    for name, frame in {
        "good.csv": rows(),
        "unknown.csv": rows(service="gopher"),
        "unscaled.csv": rows(area=np.linspace(0, 3000, 40)),
    }.items():
        frame.assign(label=np.arange(40) % 2).to_csv(name, index=False)


# ── unknown categories ───────────────────────────────────────────────────────────────────────

QUERIES = {
    "verify": lambda X: cg.verify(MODEL, X, attacker=ATTACKER),
    "attack": lambda X: cg.attack(MODEL, X, attacker=ATTACKER),
    "radius": lambda X: cg.radius(MODEL, X, attacker=cg.Attacker(1)),
    "robustness_curve": lambda X: cg.robustness_curve(MODEL, X, attacker=ATTACKER, budgets=[0.1]),
    "output_range": lambda X: cg.output_range(MODEL, X, ATTACKER),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_column_without_any_known_category_is_named_once(query: str) -> None:
    (line,) = warnings_of(lambda: QUERIES[query](rows(service="gopher")))
    assert "\n" not in line
    assert "service" in line
    assert "'ftp', 'http', 'smtp'" in line
    codes = rows(service=17.0).to_numpy(dtype=float)
    assert len(warnings_of(lambda: QUERIES[query](codes))) == 1


def test_no_warning_if_some_category_is_known_or_all_are_missing_or_there_is_one_row() -> None:
    half = ["gopher"] * 39 + ["http"]
    for X in (
        rows(),
        rows(service=half),
        rows(service=None),
        rows(1, service="gopher"),
        rows(3000, service=["gopher"] * 2999 + ["ftp"]),
    ):
        assert warnings_of(lambda X=X: QUERIES["verify"](X)) == []


def test_categories_that_count_as_missing_are_noticed_too() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = rows()[["ratio", "service"]], np.arange(40) % 2
    X["service"] = X["service"].astype("category")
    model = HistGradientBoostingClassifier(
        max_iter=5, min_samples_leaf=2, categorical_features="from_dtype"
    ).fit(X, (X["service"] == "http") ^ (y == 0))
    attacker = cg.Attacker("inf", 0.1)
    assert warnings_of(lambda: cg.verify(model, X, attacker=attacker)) == []
    other = X.assign(service=pd.Categorical(["gopher"] * 40))
    (line,) = warnings_of(lambda: cg.verify(model, other, attacker=attacker))
    assert "service" in line


def test_the_warning_points_at_the_line_that_asks() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for query in QUERIES.values():
            query(rows(service="gopher"))
    assert [warning.filename for warning in caught] == [__file__] * len(QUERIES)


# ── the command line ─────────────────────────────────────────────────────────────────────────

COMMANDS = {
    "verify": ["--budget", "0.1"],
    "attack": ["--budget", "0.1"],
    "radius": ["--norm", "1"],
    "report": ["--budget", "0.1", "--budget", "0.2", "--json"],
    "explain": ["--row", "0"],
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_warns_in_one_line_of_unknown_categories_or_unscaled_columns(
    cli: Any, command: str
) -> None:
    options = COMMANDS[command]
    assert cli(command, "model.json", "good.csv", *options)[2] == ""
    _, _, err = cli(command, "model.json", "unscaled.csv", *options)
    assert err.startswith("carvegbm: warning: one budget for all columns, but area spans about")
    assert "ratio" in err
    assert "--scale" in err
    assert err.count("\n") == 1
    scaled = cli(command, "model.json", "unscaled.csv", *options, "--scale", "1000,1,1")
    assert scaled[2] == ""
    _, _, err = cli(command, "model.json", "unknown.csv", *options)
    assert err.startswith("carvegbm: warning: no value of column service is a category")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("files")
def test_a_run_over_several_files_warns_once(cli: Any) -> None:
    for name, words in {"unknown.csv": "column service", "unscaled.csv": "one budget"}.items():
        for number in range(3):
            Path(f"part-{number}.csv").write_bytes(Path(name).read_bytes())
        code, _, err = cli("verify", "model.json", "part-*.csv", "--budget", "0.1")
        assert code == 0
        assert err.startswith("carvegbm: warning: ")
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "options",
    [
        ["--norm", "0", "--budget", "1"],
        ["--budget", "0.1", "--features", "ratio"],
        ["--budget", "0.1", "--rows", "5"],
    ],
    ids=["norm 0", "one column", "few rows"],
)
def test_nothing_is_said_of_scales_that_do_not_matter(cli: Any, options: list[str]) -> None:
    assert cli("verify", "model.json", "unscaled.csv", *options)[2] == ""


@pytest.mark.parametrize(
    ("ranges", "warns"),
    [
        ([1, 1, 1], False),
        ([1, 0.001, 0], False),  # within [0, 1]: rare values of scaled columns
        ([255, 255, 40], False),
        ([5, 60, 1], False),
        ([90, 70_000, 1], True),
        ([2000, 150, 0.2], True),
        ([1e300, 1, 1], True),
        ([3000, 3000, 3000], False),
    ],
    ids=repr,
)
def test_training_warns_of_columns_that_differ_by_orders_of_magnitude(
    cli: Any, tmp_path: Path, ranges: list[float], warns: bool
) -> None:
    X = np.linspace(0, 1, 40)[:, None] * np.array(ranges)
    frame = pd.DataFrame(X, columns=NAMES).assign(label=np.arange(40) % 2)
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = ["train", tmp_path / "data.csv", "--budget", "0.01", "--trees", "2", "--quiet"]
    _, _, err = cli(*command, "-o", tmp_path / "model.txt")
    assert ("one budget for all columns" in err) == warns
    _, _, err = cli(*command, "-o", tmp_path / "model.txt", "--scale", "1,2,3")
    assert "one budget" not in err


@pytest.mark.parametrize("widest", [1.0, 3000.0])
def test_training_warns_of_unscaled_columns_beside_categorical_ones(
    cli: Any, tmp_path: Path, widest: float
) -> None:
    frame = rows(area=np.linspace(0, widest, 40)).assign(label=np.arange(40) % 2)
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = ["train", tmp_path / "data.csv", "--categorical", "service", "--budget", "0.01"]
    _, _, err = cli(*command, "--trees", "2", "-q", "-o", tmp_path / "model.txt")
    warned = [line for line in err.splitlines() if "one budget for all columns" in line]
    assert len(warned) == (widest > 1)
    assert all("area spans about 3e+03 and ratio" in line for line in warned)


def test_the_sample_gives_no_warning(cli: Any) -> None:
    for command, options in COMMANDS.items():
        assert cli(command, "sample", *options)[2] == ""


def test_sparse_rows_are_compared_as_they_are(cli: Any, tmp_path: Path) -> None:
    ensemble(stump(0, 500.0), stump(1, 0.5), n_features=2).save(tmp_path / "model.json")
    lines = [f"{n % 2} 1:{n * 50} 2:{n / 40}\n" for n in range(40)]
    (tmp_path / "data.svm").write_text("".join(lines))
    command = ["verify", tmp_path / "model.json", tmp_path / "data.svm", "--one-based"]
    assert "feature 0 spans about 2e+03" in cli(*command, "--budget", "0.1")[2]
