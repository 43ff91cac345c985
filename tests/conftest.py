"""Fixtures that all tests share, ids that do not vary, and Ctrl-C where the caller ignores it.

HYPOTHESIS_PROFILE=thorough runs many more examples than the default profile "ci".
CARVEGBM_REQUIRE_ALL=1 makes a test fail that would be skipped because a package, Java or a browser
is missing; `.ci/run` sets it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough",
    max_examples=5_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

REPOSITORY = Path(__file__).resolve().parent.parent
INSTALLABLE = re.compile("could not import|no Chromium|needs Java")
"""Found in the reason of a skip if an installation would let the test run."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Apply CARVEGBM_REQUIRE_ALL to a test."""
    _require((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Apply CARVEGBM_REQUIRE_ALL to a module of tests."""
    _require((yield).get_result())


def _require(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CARVEGBM_REQUIRE_ALL") != "1" or not report.skipped:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if INSTALLABLE.search(reason):
        report.outcome = "failed"
        report.longrepr = f"CARVEGBM_REQUIRE_ALL=1 allows no skip for this reason: {reason}"


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name binary parameters by argument and position.

    Compressed bytes may differ from run to run and between versions of zlib, and workers of xdist
    must collect the same ids.
    """
    return argname if isinstance(val, bytes) and not val.isascii() else None


@pytest.fixture(scope="session", autouse=True)
def _default_interrupt() -> Iterator[None]:
    """Handle SIGINT as usual, in tests and their child processes, even if pytest ignores it.

    Under nohup, and as a background job of a shell script, pytest starts with SIGINT ignored, and
    child processes inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c_at() -> Callable[[type, str, int], AbstractContextManager[None]]:
    """Press Ctrl-C in a call of a method, the first being number 0, within a `with` block."""

    @contextmanager
    def pressing(owner: type, method: str, number: int) -> Iterator[None]:
        original, calls = getattr(owner, method), count()

        def called(*arguments: Any) -> Any:
            if next(calls) == number:
                signal.raise_signal(signal.SIGINT)
            return original(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, method, called)
            yield

    return pressing


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository; tests that need it skip without it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("there is no shared/data beside the repository")
    return folder


@pytest.fixture(scope="session")
def sample_folder() -> Path:
    """The folder of the model and the data that ship with the package."""
    return REPOSITORY / "src" / "carvegbm" / "data"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command; returns its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        from carvegbm.cli.app import run

        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def refuses(cli: Any) -> Any:
    """Assert that a command ends with exit code 2 and one line that contains all the words."""

    def check(*arguments: object, words: list[str]) -> None:
        code, out, err = cli(*arguments)
        assert code == 2, (out, err)
        assert out == ""
        assert err.startswith("carvegbm: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        for word in words:
            assert word in err

    return check


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nobody can create a file, not even root."""
    if os.geteuid() == 0:
        folder = Path("/proc")
        if not folder.is_dir():
            pytest.skip("root may write anywhere here")
        yield folder
        return
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    yield folder
    folder.chmod(0o700)
