"""What tests of displays share: matplotlib without a screen, and what it has open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def plt() -> Iterator[Any]:
    """Matplotlib's pyplot with nothing open, before and after."""
    matplotlib = pytest.importorskip("matplotlib")
    import matplotlib.pyplot as pyplot

    before = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    pyplot.close("all")
    yield pyplot
    pyplot.close("all")
    pyplot.switch_backend(before)
