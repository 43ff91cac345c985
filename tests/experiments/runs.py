"""Runs for tests: the quick suite with one thread, and what is left of it."""

from __future__ import annotations

import json

from carvegbm.training.estimators import LargeSpreadClassifier
from carvegbm_experiments import running
from carvegbm_experiments.compute import plain
from carvegbm_experiments.compute.models import Bench
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import QUICK
from carvegbm_experiments.store.folder import Store

CELLS = plan(QUICK, norms=["inf"])


class Training:
    """Counts the models that are trained, and can be cut off before one of them."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.stop_before = None
        for owner, name in ((plain, "_fit"), (LargeSpreadClassifier, "fit")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, train):
        def counted(*arguments, **options):
            if self.count == self.stop_before:
                raise KeyboardInterrupt
            trained = train(*arguments, **options)
            self.count += 1
            return trained

        return counted


def run(folder, cells=CELLS, **options):
    """Run with one thread; what was said."""
    store = Store(folder)
    said = []
    bench = Bench(store, download=False, threads=1)
    running.run(cells, store, bench, suite="quick", say=said.append, **options)
    return said


def timeless(value):
    """A cell without what differs from run to run."""
    if isinstance(value, dict):
        return {
            name: timeless(entry)
            for name, entry in value.items()
            if not name.endswith("seconds") and name != "machine"
        }
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def contents(folder):
    return {
        path.relative_to(folder): timeless(json.loads(path.read_text()))
        for path in sorted(folder.glob("cells/*/*.json"))
    }
