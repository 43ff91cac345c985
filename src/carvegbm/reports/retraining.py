"""What robust training would give: measured on rows that no model was trained on.

Comes in: all rows and labels, and the attackers. Goes out: for each, accuracy and robustness of
three models on the same test rows: plain LightGBM and robust training, both fitted to the same
training rows, and the model that the report is about, which may have seen the test rows before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.progress import Progress, progress_bar
from carvegbm.reports.asking import Answers
from carvegbm.verification import Verification, verify

__all__ = ["check_labels", "measured"]

MOST_ROWS = 5000
"""Of more rows, so many are drawn: training is to take minutes."""
_LEAST_ROWS = 50
_THIS = "this model"


class _Split(NamedTuple):
    """Rows of features and labels, by what they are for."""

    train: tuple[Any, Any]
    valid: tuple[Any, Any]
    test: tuple[Any, Any]


def check_labels(y: Any) -> None:
    """Refuse, before any work is done, labels that nothing can be trained on."""
    if y is None:
        raise CarveError("retrain needs labels, and none are given; leave it out")
    counts = Counter(np.asarray(y).tolist())
    if len(counts) < 2:
        raise CarveError(f"retrain needs two classes, all labels are {next(iter(counts), None)!r}")
    if sum(counts.values()) < _LEAST_ROWS:
        raise CarveError(
            f"retrain needs {_LEAST_ROWS} rows to split, got {sum(counts.values())}; give more, or "
            "leave it out"
        )


def measured(
    answers: Answers,
    X: Any,
    y: Any,
    *,
    seed: int,
    timeout: float,
    threads: int | None,
    progress: Progress,
) -> list[dict[str, Any] | None]:
    """For every attacker, what the models come to."""
    ensemble = answers.ways[0].problem.ensemble
    split = _split(X, y, seed)
    attackers = [case.attacker for case in answers.cases]
    plain = _plain(split, ensemble, seed, threads)
    found: list[dict[str, Any] | None] = []
    with progress_bar(progress, len(attackers), "training robust models") as tick:
        for number, attacker in enumerate(attackers):
            if attacker.limits(ensemble).by_row:
                found.append(None)  # bounds of its own for every row: no attacker on other rows
                continue
            robust = _robust(attacker, split, ensemble, seed, threads)
            models = (("plain LightGBM", plain), ("robust training", robust), (_THIS, None))
            lines = []
            for name, model in models:
                tested = verify(
                    ensemble if model is None else model,
                    *split.test,
                    attacker,
                    timeout=timeout,
                    threads=threads,
                    progress=False,
                )
                trees = ensemble.n_trees if model is None else model.booster_.num_trees()
                lines.append(_line(name, tested, trees))
            rows = {part: len(split[i][1]) for i, part in enumerate(split._fields)}
            found.append({"rows": rows, "seed": seed, "models": lines})
            if tick is not None:
                tick(number + 1)
    return found


def _line(name: str, tested: Verification, trees: int) -> dict[str, Any]:
    return {
        "name": name,
        "accuracy": tested.accuracy,
        "robustness": list(tested.robustness),
        "trees": int(trees),
        "note": None if name != _THIS else "may have been trained on these rows",
    }


def _split(X: Any, y: Any, seed: int) -> _Split:
    """60, 20 and 20 % of the rows, with the classes in proportion where they are large enough."""
    from sklearn.model_selection import train_test_split

    def parted(rows: Any, labels: Any, **sizes: int) -> Sequence[Any]:
        smallest = min(Counter(np.asarray(labels).tolist()).values())
        several = smallest >= 2 and all(size >= 10 for size in sizes.values())
        stratify = labels if several else None
        found: Sequence[Any] = train_test_split(
            rows, labels, random_state=seed, stratify=stratify, **sizes
        )
        return found

    labels, rows = np.asarray(y), X if hasattr(X, "shape") else np.asarray(X)
    if len(labels) > MOST_ROWS:
        rows, _, labels, _ = parted(rows, labels, train_size=MOST_ROWS, test_size=1 + 9)
    fifth = len(labels) // 5
    rest, test, rest_y, test_y = parted(rows, labels, test_size=fifth)
    train, valid, train_y, valid_y = parted(rest, rest_y, test_size=fifth)
    return _Split((train, train_y), (valid, valid_y), (test, test_y))


def _plain(split: _Split, ensemble: Ensemble, seed: int, threads: int | None) -> Any:
    """LightGBM as it comes."""
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(random_state=seed, n_jobs=threads or 0, verbose=-1)
    return model.fit(*split.train, **_categorical(ensemble, split))


def _robust(
    attacker: Attacker, split: _Split, ensemble: Ensemble, seed: int, threads: int | None
) -> Any:
    from carvegbm.training.estimators import RobustClassifier

    model = RobustClassifier(**attacker.arguments(), random_state=seed, n_jobs=threads)
    return model.fit(*split.train, eval_set=[split.valid], **_categorical(ensemble, split))


def _categorical(ensemble: Ensemble, split: _Split) -> dict[str, Any]:
    """Which columns hold categories, where the columns do not tell by their types."""
    if not ensemble.categories or hasattr(split.train[0], "columns"):
        return {}
    return {"categorical_feature": list(ensemble.categories)}
