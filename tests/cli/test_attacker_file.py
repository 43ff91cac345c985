"""--attacker FILE: an attacker in TOML or JSON, beside the options of the command line."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli import inputs
from carvegbm.cli.verify import verify
from conftest import REPOSITORY

KINDS = ("python", "toml")
SAMPLE = ["verify", "sample", "--threads", "1", "--json"]
FULL = """
# What the attacker of a network monitor can do.
norm = 1
budget = 30
features = ["src_bytes", "count", "service", "home_own", "home_rent", 9]
one_hot = [["home_own", "home_rent"]]

[scale]
src_bytes = [0, 100]    # may only grow
count = [5, 1]
9 = 2.5                 # a feature by its position
"9.5" = 3               # … by a name with a dot
'"9"' = 4               # … by a name that looks like a position

[step]
src_bytes = 1
count = "1/2"

[categories]
service = ["http", "ftp", 3]

[bounds]
count = [0, 511]
9 = [-inf, 7.5]
"""


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(text: str, name: str = "attacker.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def attacker_of(*options: object) -> cg.Attacker:
    """The attacker that options of a command describe."""
    context = verify.make_context("verify", ["sample", *map(str, options)])
    return inputs.attacker(SimpleNamespace(**context.params))


def test_a_file_says_all_that_an_attacker_can(file: Any) -> None:
    expected = cg.Attacker(
        1,
        30,
        features=["src_bytes", "count", "service", "home_own", "home_rent", 9],
        scale={"src_bytes": (0, 100), "count": (5, 1), 9: 2.5, "9.5": 3, "9": 4},
        step={"src_bytes": 1, "count": Fraction(1, 2)},
        categories={"service": ["http", "ftp", 3]},
        one_hot=[["home_own", "home_rent"]],
        bounds={"count": (0, 511), 9: (-np.inf, 7.5)},
    )
    assert cg.Attacker.from_file(file(FULL)) == expected
    assert attacker_of("--attacker", file(FULL)) == expected
    again = file(json.dumps(expected.to_dict()), "attacker.json")
    assert cg.Attacker.from_file(again) == expected


def test_the_page_on_attackers_has_one_attacker_in_python_and_in_toml(file: Any) -> None:
    page = (REPOSITORY / "docs" / "attackers.md").read_text(encoding="utf-8")
    python, toml = (re.search(rf"^```{kind}\n(.*?)^```", page, re.M | re.S) for kind in KINDS)
    assert python is not None
    assert toml is not None
    names: dict[str, Any] = {"cg": cg}
    exec(python[1], names)
    assert cg.Attacker.from_file(file(toml[1])) == names["attacker"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("norm = 1\nbudget = 0.05", ["--norm", "1", "--budget", "0.05"]),
        ('norm = "inf"\nbudget = 0.02', ["--budget", "0.02"]),
        ("norm = inf\nbudget = 0.02", ["--budget", "0.02"]),
        ("budget = 0.02\nscale = 2", ["--budget", "0.02", "--scale", "2"]),
        ("norm = 0\nbudget = 1\nfeatures = [0, 3]", ["--norm", "0", "--budget", "1",
                                                   "--features", "0,3"]),
        ("norm = 2\nbudget = 0.1\nbounds = [0, 1]", ["--norm", "2", "--budget", "0.1",
                                                  "--bounds", "0,1"]),
        ('{"norm": 1, "budget": 0.05}', ["--norm", "1", "--budget", "0.05"]),
        ("\ufeffbudget = 0.02", ["--budget", "0.02"]),
    ],
)  # fmt: skip
def test_a_file_says_what_the_options_say(cli: Any, file: Any, text: str, options: Any) -> None:
    code, out, err = cli(*SAMPLE, "--attacker", file(text))
    assert (code, err) == (0, "")
    expected, found = (
        {name: value for name, value in json.loads(text).items() if name != "seconds"}
        for text in (cli(*SAMPLE, *options)[1], out)
    )
    assert found == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("norm = 1\nbudget = 5", "--norm 2", (2, 5)),
        ("norm = 1\nbudget = 5", "--budget 7", (1, 7)),
        ("norm = 1\nbudget = 5", "--norm inf --budget 7", ("inf", 7)),
        ("", "--norm 0 --budget 7", (0, 7)),
        ("", "--budget 7", ("inf", 7)),
    ],
)
def test_norm_and_budget_of_the_command_line_override_those_of_the_file(
    file: Any, text: str, options: str, expected: Any
) -> None:
    found = attacker_of("--attacker", file(text + "\nstep = 1"), *options.split())
    assert found == cg.Attacker(*expected, step=1)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        (
            "--scale 2 --features 0,a --bounds 0,9",
            {"scale": 2, "features": [0, "a"], "bounds": (0, 9)},
        ),
        ("--scale a=2,3=0.5 --scale b=4", {"scale": {"a": 2, 3: 0.5, "b": 4}}),
        ("--direction a=up,b=down", {"scale": {"a": (0, 1), "b": (1, 0)}}),
        ("--scale a=5,c=2 --direction a=up", {"scale": {"a": (0, 5), "c": 2}}),
        ("--bounds a=0:120,b=:3", {"bounds": {"a": (0, 120), "b": (-np.inf, 3)}}),
        ("--step a=0.01,b=1/255", {"step": {"a": Fraction(1, 100), "b": Fraction(1, 255)}}),
        ("--step 2", {"step": 2}),
    ],
)
def test_options_state_limits_by_feature(options: str, limits: dict[str, Any]) -> None:
    assert attacker_of("--budget", 1, *options.split()) == cg.Attacker("inf", 1, **limits)


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("scale", "2", "scale = 2"),
        ("features", "0", "features = [0]"),
        ("bounds", "0,1", "bounds = {0 = [0, 1]}"),
    ],
)
def test_a_limit_in_both_places_is_refused(
    refuses: Any, file: Any, option: str, value: str, line: str
) -> None:
    path = file(f"budget = 1\n{line}")
    words = [f"--{option} is given, and {option} in {path}", "drop one"]
    refuses(*SAMPLE, "--attacker", path, f"--{option}", value, words=words)


COMMANDS = [
    ["verify", "sample"],
    ["attack", "sample"],
    ["radius", "sample"],
    ["spread", "sample"],
    ["train", "DATA", "-o", "model.txt"],
    ["tune", "DATA", "-o", "model.txt"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("budget = 1\nsteps = 1", ["unknown key 'steps'", "did you mean step?"]),
        ("budget = 1\nnorms = 2", ["unknown key 'norms'", "did you mean norm?"]),
        ("budget = 1\ncolour = 2", ["unknown key 'colour'", "it may have norm, budget"]),
        ("budget = 1\n[scale]\na.b = 2", ["scale of a is a table", "a.b", "quotes"]),
        ("budget = = 1", ["not TOML", "line 1"]),
        ('{"budget": 1, "budget": 2}', ["not JSON", "'budget'", "twice"]),
        ('{"budget": 1', ["not JSON", "line 1"]),
        ("[" * 100_000, ["not TOML"]),
        ('{"scale":' * 100_000, ["not an attacker", "too deep"]),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_file_that_is_no_attacker_is_refused_by_every_command(
    refuses: Any, file: Any, data: str, command: Any, text: str, words: Any, monkeypatch: Any
) -> None:
    path = file(text)
    monkeypatch.chdir(path.parent)
    arguments = [data if word == "DATA" else word for word in command]
    refuses(*arguments, "--attacker", path, words=[str(path), *words])
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("budget = -1", ["budget", "-1"]),
        ('budget = "much"', ["budget", "'much'"]),
        ("norm = 0.5\nbudget = 1", ["norm", "0.5"]),
        ("budget = 1\nstep = 0", ["step", "> 0"]),
        ("budget = 1\nstep = {a = 2024-01-01}", ["step of a", "2024"]),
        ("budget = 1\nscale = {a = [1, 2, 3]}", ["scale of a", "pair (down, up)"]),
        ("budget = 1\nscale = {a = true}\nbounds = 3", ["bounds", "pair", "3"]),
        ('budget = 1\nfeatures = "a"', ["features", "list", "'a'"]),
        ("budget = 1\nbounds = {a = [1, 0]}", ["bounds of a", "lower <= upper"]),
        ('budget = 1\ncategories = {a = "http"}', ["categories of a", "list"]),
        ('budget = 1\none_hot = ["a", "b"]', ["one_hot", "list of groups"]),
        ('budget = 1\none_hot = [["a", "b"]]\nstep = {a = 1}', ["step of a", "one-hot group"]),
    ],
    ids=range(12),
)  # fmt: skip
def test_an_attacker_that_cannot_be_is_refused_by_every_command(
    refuses: Any, file: Any, data: str, command: Any, text: str, words: Any, monkeypatch: Any
) -> None:
    path = file(text)
    monkeypatch.chdir(path.parent)
    arguments = [data if word == "DATA" else word for word in command]
    refuses(*arguments, "--attacker", path, words=[str(path), *words])
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_budget_must_be_given_somewhere_where_it_is_needed(
    cli: Any, refuses: Any, file: Any, data: str, command: Any, tmp_path: Path
) -> None:
    path = file("norm = 1")
    arguments = [data if word == "DATA" else tmp_path / word if "." in word else word
                 for word in command]  # fmt: skip
    if command[0] in ("radius", "spread"):
        assert cli(*arguments, "--attacker", path)[0] == 0
        return
    words = ["budget is missing", "--budget", f"write budget = K into {path}"]
    refuses(*arguments, "--attacker", path, words=words)


def test_a_file_that_cannot_be_read_is_named(refuses: Any, tmp_path: Path) -> None:
    def refused(path: Path, *words: str) -> None:
        refuses(*SAMPLE, "--attacker", path, words=[str(path), *words])

    refused(tmp_path / "absent.toml", "no such file")
    refused(tmp_path, "is a folder")
    (tmp_path / "latin.toml").write_bytes("norm = 1 # größer".encode("latin-1"))
    refused(tmp_path / "latin.toml", "not UTF-8", "save it as UTF-8")
    refuses("verify", "sample", words=["budget is missing", "--budget"])


def test_what_does_not_fit_the_model_is_refused_by_name(refuses: Any, file: Any) -> None:
    for text, words in (
        ("step = {colour = 1}", ["unknown feature 'colour'"]),
        ("step = {99 = 1}", ["feature 99"]),
        ("categories = {0 = [1]}", ["categories of", "no categorical split"]),
        ("features = [0]\none_hot = [[0, 1]]", ["without", "one-hot group"]),
    ):
        refuses(*SAMPLE, "--attacker", file(f"budget = 0.1\n{text}"), words=words)


def test_the_file_is_never_overwritten(refuses: Any, file: Any, data: str) -> None:
    path = file('{"budget": 0.02}', "attacker.json")
    words = ["--output", "would overwrite --attacker", str(path)]
    refuses("verify", "sample", "--attacker", path, "--output", path, words=words)
    refuses("attack", "sample", "--attacker", path, "--output", path, words=words)
    refuses("radius", "sample", "--attacker", path, "--output", path, words=words)
    refuses("train", data, "--attacker", path, "-o", path, words=words)
    refuses("tune", data, "--attacker", path, "-o", path, words=words)


def test_radius_takes_all_but_the_budget(cli: Any, file: Any) -> None:
    radius = ["radius", "sample", "--rows", "20", "--json"]
    path = file("norm = 1\nbudget = 0.001\nfeatures = [0, 1, 2]")
    found = json.loads(cli(*radius, "--attacker", path)[1])
    expected = json.loads(cli(*radius, "--norm", "1", "--features", "0,1,2")[1])
    assert found["radius"] == expected["radius"]
    assert "norm 1" in cli(*radius[:-1], "--attacker", path)[1]


def test_spread_is_asked_about_the_attacker_of_the_file(cli: Any, file: Any) -> None:
    path = file("norm = 1\nbudget = 0.02\nfeatures = [0]")
    found = json.loads(cli("spread", "sample", "--attacker", path, "--json")[1])
    assert (found["norm"], found["budget"], found["large_spread"]) == ("1", 0.02, True)
    path = file("norm = 1\nscale = {0 = [0, 1]}")
    assert "large-spread for budgets up to" in cli("spread", "sample", "--attacker", path)[1]
    assert "large-spread for budgets below" in cli("spread", "sample")[1]


@pytest.mark.parametrize("command", ["train", "tune"])
def test_training_is_told_of_the_attacker_of_the_file(
    cli: Any, file: Any, data: str, command: str, tmp_path: Path, monkeypatch: Any
) -> None:
    from carvegbm.training.estimators import LargeSpreadClassifier

    seen = []

    def stop(self: Any, *_: Any, **__: Any) -> Any:
        seen.append(self.get_params())
        raise cg.CarveError("seen")

    monkeypatch.setattr(LargeSpreadClassifier, "fit", stop)
    text = 'norm = 1\nbudget = 5\none_hot = [[0, 1]]\nscale = {2 = [0, 3]}\nstep = {2 = "1/2"}'
    options = ["--budget", "7", "-o", tmp_path / "model.txt", "--threads", "1"]
    code, _, err = cli(command, data, "--attacker", file(text), *options)
    assert (code, err) == (2, "carvegbm: seen\n")
    told = {name: seen[0][name] for name in ("norm", "budget", "one_hot", "scale", "step")}
    assert told == {
        "norm": 1,
        "budget": 7.0,
        "one_hot": [[0, 1]],
        "scale": {2: [0, 3]},
        "step": {2: "1/2"},
    }
