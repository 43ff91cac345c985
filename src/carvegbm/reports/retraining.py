"""What robust training would give: measured on rows that no model was trained on.

Comes in: all rows and labels, and the attackers. Goes out: for each, accuracy and robustness of
three models on the same test rows: plain LightGBM and robust training, both fitted to the same
training rows, and the model that the report is about, which may have seen the test rows before.

New models get rows as the report's model reads them, and features by position: names that LightGBM
would refuse, and the types of a frame's columns, play no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.compact import compact_options
from carvegbm.engines import Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.problem import Problem, Rows
from carvegbm.queries import verify
from carvegbm.reports.asking import Answers, Asked
from carvegbm.reports.shares import interval
from carvegbm.verification import Verification

__all__ = ["check_labels", "measured"]

MOST_ROWS = 5000
"""Of more rows, so many are drawn: training is to take minutes."""
_LEAST_ROWS = 50
_TURNS = ("train", "test", "train", "valid", "train")
"""Where the rows of a class go, by turns."""
_THIS = "this model"


Indices = npt.NDArray[np.int64]


class _Split(NamedTuple):
    """Rows by what they are for."""

    train: Indices
    valid: Indices
    test: Indices


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
    """For every attacker in turn, what the models come to, or why nothing was trained."""
    from lightgbm.basic import LightGBMError

    settings = Settings(timeout=timeout, threads=threads)
    trials = _Trials(answers.distances[0].problem, X, y, seed, settings)
    for asked in answers.asked:
        try:
            yield trials.of(asked, answers.distances[asked.distance].problem.rows(X, y, threads))
        except (CarveError, LightGBMError) as error:
            yield {"refused": " ".join(str(error).split())}


class _Trials:
    """The rows, split, and the models that are fitted to them."""

    def __init__(self, problem: Problem, X: Any, y: Any, seed: int, settings: Settings) -> None:
        rows = problem.rows(X, y, settings.threads)
        assert rows.labels is not None
        self.ensemble, self.seed, self.settings = problem.ensemble, seed, settings
        self.given: Any = rows.given
        self.labels = problem.ensemble.classes[rows.labels]
        self.split = _split(self.labels, seed)
        self.plain: Any = None

    def of(self, asked: Asked, rows: Rows) -> dict[str, Any]:
        """What three models come to against an attacker; `rows` are all that there are."""
        attacker = _by_position(asked.task.problem)
        if self.plain is None:
            self.plain = _plain(*self._part("train"), **self._options())
        robust = _robust(attacker, self._part("train"), self._part("valid"), **self._options())
        test = self._part("test")
        lines = [
            _line(name, self._verified(model, test, attacker), model.booster_.num_trees())
            for name, model in (("plain LightGBM", self.plain), ("robust training", robust))
        ]
        own = decide(Task(asked.task.problem, self.settings), rows.take(self.split.test))
        lines.append(_line(_THIS, Verification.of(own, asked.task.problem), self.ensemble.n_trees))
        counts = {part: len(of) for part, of in self.split._asdict().items()}
        return {"rows": counts, "seed": self.seed, "models": lines}

    def _part(self, name: str) -> tuple[Any, Any]:
        some = getattr(self.split, name)
        return self.given[some], self.labels[some]

    def _options(self) -> dict[str, Any]:
        categorical = sorted(self.ensemble.categories) or "auto"
        return {"seed": self.seed, "threads": self.settings.threads, "categorical": categorical}

    def _verified(self, model: Any, test: tuple[Any, Any], attacker: Attacker) -> Verification:
        limits = {"timeout": self.settings.timeout, "threads": self.settings.threads}
        return verify(model, *test, attacker, progress=False, **limits)  # type: ignore[arg-type]


def _line(name: str, tested: Verification, trees: int) -> dict[str, Any]:
    robust, possible = (round(share * len(tested)) for share in tested.robustness)
    return {
        "name": name,
        "accuracy": tested.accuracy,
        "robustness": list(tested.robustness),
        "robust": robust,
        "interval": [interval(robust, len(tested))[0], interval(possible, len(tested))[1]],
        "trees": int(trees),
        "note": None if name != _THIS else "may have been trained on these rows",
    }


def _by_position(problem: Problem) -> Attacker:
    """The attacker with features by their positions, and categories by their codes."""
    limits, ensemble = problem.limits, problem.ensemble
    if limits.by_row:
        raise CarveError("every row has bounds of its own, which no model can be trained for")
    options = compact_options(limits, ensemble, np.arange(ensemble.n_features))
    if "categories" in options:
        options["categories"] = {f: list(codes) for f, codes in limits.categories.items()}
    return Attacker(problem.attacker.norm, problem.attacker.budget, **options)


def _split(labels: npt.NDArray[Any], seed: int) -> _Split:
    """60, 20 and 20 % of the rows of every class; of a small one, training has the most."""
    drawn = np.random.default_rng(seed).permutation(len(labels))[:MOST_ROWS]
    parts: dict[str, list[int]] = {part: [] for part in _Split._fields}
    seen: Counter[Any] = Counter()
    for row, label in zip(drawn.tolist(), labels[drawn].tolist(), strict=True):
        parts[_TURNS[seen[label] % len(_TURNS)]].append(row)
        seen[label] += 1
    return _Split(*(np.array(sorted(rows), dtype=np.int64) for rows in parts.values()))


def _plain(X: Any, y: Any, *, seed: int, threads: int | None, categorical: Any) -> Any:
    """LightGBM as it comes."""
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(random_state=seed, n_jobs=threads or 0, verbose=-1)
    return model.fit(X, y, categorical_feature=categorical)


def _robust(
    attacker: Attacker,
    train: tuple[Any, Any],
    valid: tuple[Any, Any],
    *,
    seed: int,
    threads: int | None,
    categorical: Any,
) -> Any:
    from carvegbm.training.estimators import RobustClassifier

    model = RobustClassifier(**attacker.arguments(), random_state=seed, n_jobs=threads)
    model.fit(*train, eval_set=[valid], categorical_feature=categorical)
    if model.stopped_because_ == "interrupted":  # fit returns what it has
        raise KeyboardInterrupt
    return model
