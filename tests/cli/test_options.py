"""Every option of every command: its help, and one line for a value that it cannot have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

from carvegbm.cli.app import app
from carvegbm.cli.options import Matching, Norm, Option

COMMANDS = list(app.commands)


def bad_values() -> Iterator[tuple[str, str, str]]:
    """Command, option and a value that its type does not allow."""
    for name, command in app.commands.items():
        for option in command.params:
            if not isinstance(option, Option) or option.is_flag:
                continue
            values: list[str] = []
            if isinstance(option.type, click.IntRange):
                values = ["x", "1.5", ""]
                values += [] if option.type.min is None else [str(int(option.type.min) - 1)]
            elif option.type is click.FLOAT or isinstance(option.type, click.Choice | Matching):
                values = ["x", ""]
            elif isinstance(option.type, Norm):
                values = ["l2", "L1", "linf", "two", ""]
            yield from ((name, option.opts[-1], value) for value in values)


@pytest.mark.parametrize(("command", "option", "value"), bad_values())
def test_a_bad_value_is_one_line_that_names_the_option(
    refuses: Any, command: str, option: str, value: str
) -> None:
    arguments = {"check": ["proof", "model"], "convert": ["sample", "model.json"], "demo": []}
    words = [option] if not value.lower().startswith("l") else [option, f"write {value[1:]}"]
    given = [] if command == "reproduce" else arguments.get(command, ["sample"])
    refuses(command, *given, f"{option}={value}", words=words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--scale mean_radius=x", ["--scale mean_radius", "'x'"]),
        ("--scale mean_radius=", ["--scale mean_radius=", "FEATURE=VALUE"]),
        ("--scale mean_radius=1,mean_radius=2", ["--scale", "mean_radius twice"]),
        ("--scale 1 --scale 2", ["--scale", "twice"]),
        ("--scale radius=1", ["radius"]),
        ("--bounds mean_radius=3", ["--bounds mean_radius=3", "LO:HI"]),
        ("--bounds mean_radius=3:x", ["--bounds mean_radius", "'x'"]),
        ("--bounds mean_radius=3:1", ["mean_radius"]),
        ("--direction mean_radius", ["--direction mean_radius", "up"]),
        ("--direction mean_radius=left", ["--direction mean_radius", "'left'"]),
        ("--scale 2 --direction mean_radius=up", ["--direction", "--scale FEATURE=S"]),
        ("--step mean_radius=x", ["mean_radius", "'x'"]),
        ("--step 1 --step 2", ["--step", "twice"]),
        ("--features radius", ["radius"]),
        ("--label 1 --no-label", ["--label and --no-label"]),
    ],
)
def test_bad_values_by_feature_are_one_line(refuses: Any, options: str, words: list[str]) -> None:
    refuses("verify", "sample", "--budget", "1", *options.split(), words=words)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_short_and_complete(cli: Any, command: str) -> None:
    code, short, _ = cli(command, "--help")
    assert code == 0
    options = [p for p in app.commands[command].params if isinstance(p, Option)]
    assert len(re.findall(r"^  (?:-\w, )?--\w", short, re.M)) <= 15
    assert max(map(len, short.splitlines())) <= 80
    if any(option.rare for option in options):
        code, full, _ = cli(command, "--help-all")
        assert code == 0
        assert all(f"{option.opts[-1]}" in full for option in options)


@pytest.mark.parametrize("form", ["csv", "parquet", "npy", "npz"])
@pytest.mark.parametrize("command", ["verify", "attack", "radius"])
def test_without_labels_the_answers_of_the_model_count_as_correct(
    cli: Any, tmp_path: Path, model: str, data: str, command: str, form: str
) -> None:
    frame = pd.read_csv(data)
    X, path = frame.drop(columns="label"), tmp_path / f"rows.{form}"
    if form == "csv":
        X.to_csv(path, index=False)
    elif form == "parquet":
        X.to_parquet(path)
    elif form == "npy":
        np.save(path, X.to_numpy())
    else:
        np.savez(path, X=X.to_numpy())
    budget = [] if command == "radius" else ["--budget", "0.02"]
    code, out, err = cli(command, model, path, *budget, "--no-label", "--json")
    assert code == 0, err
    found = json.loads(out)
    if command == "verify":
        assert found["accuracy"] == 1
    elif command == "radius":
        assert min(found["radius"]) > 0
    else:
        assert set(found["status"]) <= {"robust", "fragile"}
