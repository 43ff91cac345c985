"""One uninterrupted run for all tests that look at its outcome."""

from __future__ import annotations

import pytest

from carvegbm_experiments.report import page
from experiments.runs import Training, contents, run


@pytest.fixture(name="training")
def watch_training(monkeypatch):
    return Training(monkeypatch)


@pytest.fixture(name="whole", scope="session")
def run_once(tmp_path_factory):
    """What an uninterrupted run leaves, and how many models it trains."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "html", lambda _: "")
        training = Training(patch)
        run(folder)
    return contents(folder), training.count
