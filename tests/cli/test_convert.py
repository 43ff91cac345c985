"""The command convert: a model of any format as JSON that is a model for every other command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import carvegbm as cg
from carvegbm.storage.identity import digest_of
from readers import small_models


@pytest.fixture
def model(sample_folder: Path) -> Path:
    return sample_folder / "sample_model.txt"


@pytest.mark.parametrize("name", sorted(small_models.ALL))
def test_model_of_any_format_is_the_same_after_conversion(
    cli: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "model").write_bytes(small_models.ALL[name])
    code, out, err = cli("convert", tmp_path / "model", tmp_path / "e.json")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'e.json'}: ")
    one, other = cg.load(tmp_path / "model"), cg.load(tmp_path / "e.json")
    assert digest_of(one) == digest_of(other)


def test_converted_model_has_the_same_verdicts(cli: Any, tmp_path: Path) -> None:
    assert cli("convert", "sample", tmp_path / "e.json")[0] == 0
    options = ["sample", "--norm", "inf", "--budget", "0.02", "--threads", "1", "--json"]
    first, second = (
        json.loads(cli("verify", model, *options)[1]) for model in ("sample", tmp_path / "e.json")
    )
    assert first["status"] == second["status"]


def test_what_cannot_be_written_is_refused_before_the_model_is_read(
    refuses: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "carvegbm.cli.shared.inputs.Reading.load_model", lambda *_: pytest.fail("it is read")
    )
    shutil.copy(model, tmp_path / "model.json")
    before = (tmp_path / "model.json").read_bytes()
    refuses("convert", model, tmp_path / "e.txt", words=["e.txt", "end the name in .json"])
    refuses("convert", model, tmp_path / "none" / "e.json", words=["there is no folder"])
    refuses(
        *("convert", tmp_path / "model.json", tmp_path / "model.json"),
        words=["FILE", "would overwrite MODEL"],
    )
    assert (tmp_path / "model.json").read_bytes() == before


def test_model_that_cannot_be_read_leaves_no_file(refuses: Any, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("tree\n")
    refuses("convert", tmp_path / "model", tmp_path / "e.json", words=[str(tmp_path / "model")])
    assert not (tmp_path / "e.json").exists()
