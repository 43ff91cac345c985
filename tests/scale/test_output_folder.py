"""A folder of answers knows which are finished, and keeps nothing that is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import carvegbm as cg
from carvegbm.data.table import FileSchema
from carvegbm.scale.files import Part, answer_file
from carvegbm.scale.output_folder import NAME, OutputFolder
from carvegbm.scale.query import Query


@pytest.fixture
def asked(sample_folder: Path) -> tuple[Query, FileSchema]:
    ensemble = cg.load(sample_folder / "sample_model.txt")
    query = Query("verify", cg.Verifier(ensemble, cg.Attacker("inf", 0.02)))
    return query, FileSchema(ensemble)


@pytest.fixture
def data_path(sample_folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "some.csv"
    pd.read_csv(sample_folder / "sample_data.csv")[:5].to_csv(path, index=False)
    return path


def test_what_is_finished_is_no_rest_of_another(asked: Any, data_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = data_path.parent / "answers"
    names = ["a.parquet", ".a.parquet.b.parquet"]
    with OutputFolder.open(*asked, folder, "parquet", False) as finished:
        for part in (Part(str(data_path), folder / name) for name in names):
            assert finished.totals(part) is None
            finished.keep(part, answer_file(*asked, part))
        (folder / ".a.parquet.left").touch()
    assert sorted(os.listdir(folder)) == sorted([NAME, *names])


@pytest.mark.parametrize("is_there", [False, True])
def test_nothing_finished_leaves_nothing(asked: Any, data_path: Path, is_there: bool) -> None:
    folder = data_path.parent / "answers"
    if is_there:
        folder.mkdir()
    with OutputFolder.open(*asked, folder, "csv", False):
        pass
    assert folder.exists() == is_there
    assert not is_there or os.listdir(folder) == []
