"""What tests of the command line share: the sample's files by name."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def model(sample_folder: Path) -> str:
    return str(sample_folder / "sample_model.txt")


@pytest.fixture
def data(sample_folder: Path) -> str:
    return str(sample_folder / "sample_data.csv")
