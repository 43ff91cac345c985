"""What robust training would give: measured on rows that no model was trained on.

Comes in: all rows and labels, and the attackers. Goes out: for each, accuracy and robustness of
three models on the same test rows: plain LightGBM and robust training, both fitted to the same
training rows, and the model that the report is about, which may have seen the test rows before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.instances.columns import column_names, feature_position
from carvegbm.reports.asking import Answers
from carvegbm.verification import Verification, verify

__all__ = ["check_labels", "measured"]

MOST_ROWS = 5000
"""Of more rows, so many are drawn: training is to take minutes."""
_LEAST_ROWS = 50
_TURNS = ("train", "test", "train", "valid", "train")
"""Where the rows of a class go, by turns."""
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
    if np.ndim(y) != 1:
        return  # is refused where rows are read
    counts = Counter(np.asarray(y).tolist())
    if len(counts) < 2:
        raise CarveError(f"retrain needs two classes, all labels are {next(iter(counts), None)!r}")
    if sum(counts.values()) < _LEAST_ROWS:
        raise CarveError(
            f"retrain needs {_LEAST_ROWS} rows to split, got {sum(counts.values())}; give more, or "
            "leave it out"
        )
    if max(counts.values()) <= _TURNS.index("valid"):
        raise CarveError("retrain needs a class of 4 rows or more to split; leave it out")


def measured(
    answers: Answers, X: Any, y: Any, *, seed: int, timeout: float, threads: int | None
) -> Iterator[dict[str, Any] | None]:
    """For every attacker in turn, what the models come to."""
    ensemble = answers.ways[0].problem.ensemble
    split = _split(X, y, seed)
    plain = _plain(split, ensemble, seed, threads)
    for case in answers.cases:
        if case.attacker.limits(ensemble).by_row:
            yield None  # bounds of its own for every row: no attacker on other rows
            continue
        attacker = case.attacker
        if column_names(X) is None:  # then only the report's model knows what features are called
            attacker = _by_position(attacker, ensemble)
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
        yield {"rows": rows, "seed": seed, "models": lines}


def _line(name: str, tested: Verification, trees: int) -> dict[str, Any]:
    return {
        "name": name,
        "accuracy": tested.accuracy,
        "robustness": list(tested.robustness),
        "trees": int(trees),
        "note": None if name != _THIS else "may have been trained on these rows",
    }


def _by_position(attacker: Attacker, ensemble: Ensemble) -> Attacker:
    """The attacker with features by their positions."""

    def position(feature: Any) -> int:
        return feature_position(feature, ensemble.feature_names, ensemble.n_features)

    given = attacker.arguments()
    for name, value in given.items():
        if isinstance(value, Mapping):
            given[name] = {position(feature): entry for feature, entry in value.items()}
        elif name == "features" and not all(isinstance(entry, bool) for entry in value):
            given[name] = [position(feature) for feature in value]
        elif name == "one_hot":
            given[name] = [[position(feature) for feature in group] for group in value]
    return Attacker(**given)


def _split(X: Any, y: Any, seed: int) -> _Split:
    """60, 20 and 20 % of the rows of every class; of a small one, training has the most."""
    labels = np.asarray(y)
    drawn = np.random.default_rng(seed).permutation(len(labels))[:MOST_ROWS]
    parts: dict[str, list[int]] = {part: [] for part in _Split._fields}
    seen: Counter[Any] = Counter()
    for row, label in zip(drawn.tolist(), labels[drawn].tolist(), strict=True):
        parts[_TURNS[seen[label] % len(_TURNS)]].append(row)
        seen[label] += 1
    return _Split(*((_taken(X, sorted(rows)), labels[sorted(rows)]) for rows in parts.values()))


def _taken(X: Any, rows: list[int]) -> Any:
    """Some rows, as what X is."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if hasattr(X, "take") and column_names(X) is not None:
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


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
