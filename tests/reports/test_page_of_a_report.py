"""The numbers on a page, recomputed from the raw results in the document beside it.

Nothing that the document says of all rows together is looked at: statuses, radii and witnesses of
single rows are, and what the page's tables say must follow from them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pytest
from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer, load_wine

import carvegbm as cg
from carvegbm.statuses import STATUSES
from carvegbm.storage.text import percent
from outlines import Outline

ATTACKERS = [cg.Attacker("inf", 0.3), cg.Attacker(1, 2.0), cg.Attacker(0, 1)]


@pytest.fixture(scope="module", params=[load_wine, load_breast_cancer])
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outline, dict[str, Any]]:
    X, y = request.param(return_X_y=True)
    model = LGBMClassifier(n_estimators=12, num_leaves=7, verbose=-1, random_state=0)
    model.fit(X[::2], y[::2])
    folder = tmp_path_factory.mktemp("report")
    report = cg.report(model, X, y, ATTACKERS, folder / "report.html", sample=150, progress=False)
    report.save(folder / "report.json")
    page, document = ((folder / f"report.{of}").read_text("utf-8") for of in ("html", "json"))
    return Outline(page), json.loads(document)


def test_shares_and_counts_follow_from_the_statuses(
    made: tuple[Outline, dict[str, Any]],
) -> None:
    page, document = made
    labels, right = document["rows"]["label"], document["rows"]["right"]
    for place, entry in enumerate(document["attackers"], 1):
        header, *lines = page.tables[f"classes-{place}"]
        shown = [status for status in STATUSES if status in entry["status"]]
        assert header == ["Class", "rows", "accuracy", "robustness", *shown]
        for line in lines:
            here = [i for i, label in enumerate(labels) if line[0] in ("all", str(label))]
            counts = Counter(entry["status"][i] for i in here)
            assert line[1:] == [
                str(len(here)),
                percent(sum(right[i] for i in here) / len(here)),
                percent(counts["robust"] / len(here)),
                *(str(counts[status]) for status in shown),
            ]
        assert len(lines) == 1 + len(set(labels))
        robust = entry["status"].count("robust")
        told = f"{robust} of them ({percent(robust / len(labels))} of all) stay right"
        assert robust == 0 or told in " ".join(page.text.split())


def test_histograms_and_curves_follow_from_the_radii(
    made: tuple[Outline, dict[str, Any]],
) -> None:
    page, document = made
    for place, distance in enumerate(document["distances"], 1):
        radii = [math.inf if r is None else r for r in distance["radius"]["lower"]]
        assert distance["radius"]["lower"] == distance["radius"]["upper"]
        bars = page.tables[f"far-{place}-radii"][1:]
        assert sum(int(bar[1]) for bar in bars) == sum(0 < r < math.inf for r in radii)
        for budget, share in page.tables[f"far-{place}-curve"][1:]:
            told = float(budget.replace(",", "").replace("−", "-"))
            assert share == percent(sum(r > told for r in radii) / len(radii)), budget


def test_weak_features_and_first_rows_follow_from_the_witnesses(
    made: tuple[Outline, dict[str, Any]],
) -> None:
    page, document = made
    for place, distance in enumerate(document["distances"], 1):
        asked = [e["budget"] for e in document["attackers"] if e["distance"] == place - 1]
        within = [w for w in distance["witnesses"] if w["distance"] <= max(asked)]
        counts = Counter(change["name"] for w in within for change in w["changes"])
        alone = Counter(w["changes"][0]["name"] for w in within if len(w["changes"]) == 1)
        for name, rows, share, only, *_ in page.tables[f"weak-{place}-features"][1:]:
            assert (int(rows), int(only)) == (counts[name], alone[name])
            assert share == percent(counts[name] / len(within))
        numbers = document["rows"]["number"]
        distances = {f"{numbers[w['row']]:,}": w["distance"] for w in distance["witnesses"]}
        firsts = [distances[line[0]] for line in page.tables[f"weak-{place}-first"][1:]]
        assert firsts == sorted(distances.values())[: len(firsts)]
        assert len(firsts) == min(10, len(distances))
