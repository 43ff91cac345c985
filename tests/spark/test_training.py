"""What tasks of Spark train together is what one process trains on the same rows."""

from __future__ import annotations

import doctest
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg

pytest.importorskip("pyspark")
cgs = pytest.importorskip("carvegbm.spark")

from carvegbm.spark import training  # noqa: E402
from carvegbm.spark.failing import in_one_line  # noqa: E402
from child_processes import wait_until  # noqa: E402

FEATURES = ["a", "b", "c", "d"]
ROWS = 300
FREE = {"min_child_samples": 1, "min_child_weight": 0, "n_jobs": 1, "n_estimators": 10}
"""Where these forbid splits, LightGBM in a team looks again at features that it gives up alone."""
INF = {"norm": "inf", "budget": 0.02}


def problem(classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    X = np.round(rng.normal(size=(ROWS, 4)), 2)
    scores = X[:, :classes] + 0.7 * X[:, 1 : classes + 1] ** 2
    y = (scores + rng.normal(0, 0.4, scores.shape)).argmax(axis=1)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def by_partition(part: Callable[[int], int]) -> np.ndarray:
    """Rows in the order that their partitions give them."""
    return np.array(sorted(range(ROWS), key=lambda i: (part(i), i)))


def uneven(i: int) -> int:
    return int(i % 3 == 0)


@pytest.fixture(scope="module")
def spread(spark: Any) -> Callable[..., Any]:
    """Two partitions of a problem's rows, each in the order of ids."""

    def make(X: np.ndarray, y: np.ndarray, part: Callable[[int], int]) -> Any:
        hashed = (2, 1)  # which Spark's hashes bring to partitions 0 and 1
        table = [
            (
                i,
                hashed[part(i)],
                *(None if v != v else v for v in x),
                label,
                0.5 + i % 4,
                i % 7 == 3,
            )
            for i, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True))
        ]
        kind = "string" if y.dtype.kind in "OU" else "int"
        columns = ", ".join(f"{name} double" for name in FEATURES)
        schema = f"id int, part int, {columns}, label {kind}, w double, v boolean"
        df = spark.createDataFrame(table, schema)
        return df.repartition(2, "part").sortWithinPartitions("id")

    return make


def on_spark(**parameters: Any) -> Any:
    return cgs.SparkLargeSpreadClassifier(
        **{"features_col": FEATURES, "num_workers": None, **FREE, **parameters}
    )


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=FEATURES)


def text(model: Any) -> str:
    return model.booster_.model_to_string()


@pytest.mark.parametrize(
    "attacker", [INF, {"norm": 0, "budget": 1, "num_leaves": 3}], ids=["inf", "0"]
)
def test_trees_are_those_of_one_process(spread: Any, attacker: Any) -> None:
    X, y = problem(2)
    model = on_spark(**attacker).fit(spread(X, y, uneven))
    order = by_partition(uneven)
    alone = cg.LargeSpreadClassifier(**FREE, **attacker).fit(frame(X[order]), y[order])
    assert text(model) == text(alone)
    assert model.classes_.tolist() == alone.classes_.tolist()
    assert model.n_iter_ == alone.n_iter_ >= 3
    assert model.to_local().get_params() == alone.get_params()


def test_a_model_of_three_classes_is_that_of_one_process_and_so_are_its_answers(
    spread: Any,
) -> None:
    X, y = problem(3)
    y = np.array(["no", "yes", "perhaps"])[y]
    df = spread(X, y, uneven)
    attacker = {"norm": 1, "budget": 0.05}
    model = on_spark(**attacker).fit(df)
    order = by_partition(uneven)
    local = cg.LargeSpreadClassifier(**FREE, **attacker).fit(frame(X[order]), y[order])
    assert text(model) == text(local)
    known = local.verify(frame(X), y)

    found = pickle.loads(pickle.dumps(model)).transform(df)
    assert found.columns == [*df.columns, "prediction", "probability"]
    rows = sorted(found.collect(), key=lambda row: row.id)
    assert [row.prediction for row in rows] == local.predict(frame(X)).tolist()
    assert [row.probability for row in rows] == local.predict_proba(frame(X)).tolist()

    verified = sorted(model.verify(df).collect(), key=lambda row: row.id)
    assert [row.status for row in verified] == known.status.tolist()
    assert model.robust_score(df) == local.robust_score(frame(X), y)
    with pytest.raises(cg.CarveError, match=r"has a column 'prediction'.* let prediction_col and"):
        model.transform(found)


def test_robust_training_is_that_of_one_process(spread: Any) -> None:
    X, y = problem(2)
    options = {"n_estimators": 3, "random_state": 0, "n_jobs": 1, **INF}
    estimator = cgs.SparkRobustClassifier(features_col=FEATURES, num_workers=None, **options)
    model = estimator.fit(spread(X, y, uneven))
    order = by_partition(uneven)
    assert text(model) == text(cg.RobustClassifier(**options).fit(frame(X[order]), y[order]))


def test_a_partition_may_lack_a_class(spread: Any) -> None:
    X, y = problem(2)

    def part(i: int) -> int:
        return int(y[i])

    model = on_spark(**INF).fit(spread(X, y, part))
    order = by_partition(part)
    assert text(model) == text(
        cg.LargeSpreadClassifier(**FREE, **INF).fit(frame(X[order]), y[order])
    )


def test_a_partition_without_rows_has_no_part_in_it(spread: Any) -> None:
    X, y = problem(2)
    model = on_spark(**INF).fit(spread(X, y, lambda _: 1))
    assert text(model) == text(cg.LargeSpreadClassifier(**FREE, **INF).fit(frame(X), y))


def test_validation_rows_stop_training_and_weights_count(spread: Any) -> None:
    X, y = problem(2)
    options = {**INF, "n_estimators": 60, "learning_rate": 0.4}
    asked = {"eval_metric": ["auc", "robustness"], "early_stopping_rounds": 3, "eval_names": ["v"]}
    estimator = on_spark(weight_col="w", validation_indicator_col="v", **options)
    model = estimator.fit(spread(X, y, uneven), **asked)
    order = by_partition(uneven)
    weight, marked = 0.5 + order % 4, order % 7 == 3
    train, watched = order[~marked], order[marked]
    alone = cg.LargeSpreadClassifier(**{**FREE, **options}).fit(
        frame(X[train]),
        y[train],
        weight[~marked],
        eval_set=[(frame(X[watched]), y[watched])],
        eval_sample_weight=[weight[marked]],
        **asked,
    )
    assert model.stopped_because_ == "early stopping"
    assert model.evals_result_ == alone.evals_result_
    assert text(model) == text(alone)


def test_texts_are_categories(spread: Any) -> None:
    X, y = problem(2)
    names = np.array(["red", "green", None, "blue"], dtype=object)
    colours = names[(2 * y + np.arange(ROWS) % 2) % 4]
    df = spread(X, y, uneven).selectExpr(
        "*", "element_at(array('red', 'green', null, 'blue'), 2 * label + id % 2 + 1) as colour"
    )
    model = on_spark(**INF, features_col=["a", "colour"]).fit(df)
    order = by_partition(uneven)
    given = pd.DataFrame({"a": X[:, 0], "colour": pd.Categorical(colours)})
    alone = cg.LargeSpreadClassifier(**FREE, **INF).fit(given.iloc[order], y[order])
    assert model.ensemble_.categories == alone.ensemble_.categories != {}
    assert text(model) == text(alone)
    found = sorted(model.transform(df).collect(), key=lambda row: row.id)
    assert [row.prediction for row in found] == alone.predict(given).tolist()


@pytest.mark.parametrize("name", [name for name in cgs.__all__ if name.startswith("Spark")])
def test_the_example_runs(
    name: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are spread over two workers there."""
    monkeypatch.chdir(tmp_path)
    df = spark.range(200).selectExpr("id", "id / 200 as a", "id >= 100 as label")
    names = {"df": df} | {name: getattr(cgs, name) for name in cgs.__all__}
    text = names[name].__doc__.replace("# doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(text, names, "example", None, None)
    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))


def test_one_column_may_hold_all_features(spread: Any) -> None:
    X, y = problem(2)
    df = spread(X, y, uneven).selectExpr("id", "array(a, b, c, d) as features", "label")
    estimator = cgs.SparkLargeSpreadClassifier(num_workers=None, **FREE, **INF)
    model = estimator.fit(df, feature_names=FEATURES)
    order = by_partition(uneven)
    alone = cg.LargeSpreadClassifier(**FREE, **INF)
    assert text(model) == text(alone.fit(X[order], y[order], feature_names=FEATURES))
    rows = sorted(model.transform(df).collect(), key=lambda row: row.id)
    assert [row.prediction for row in rows] == alone.predict(X).tolist()


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────


def test_a_bad_value_names_its_partition_and_row(spread: Any) -> None:
    X, y = problem(2)
    X[3 * 17, 2] = np.inf
    with pytest.raises(cg.DataError, match=r"^partition 1: X row 17, feature 'c' is infinity"):
        on_spark(validation_indicator_col="v", **INF).fit(spread(X, y, uneven))


def listens(process: int) -> bool:
    """Whether a process has a port open."""
    try:
        links = [os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()]
    except FileNotFoundError:
        return False
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    open_ones = {f"socket:[{line.split()[9]}]" for line in lines if line.split()[3] == "0A"}
    return bool(open_ones & set(links))


def test_a_member_that_is_killed_ends_the_fit_and_leaves_no_port(
    spread: Any, tmp_path: Path
) -> None:
    folder = str(tmp_path)

    def deadly(_y: Any, _p: Any) -> tuple[str, float, bool]:
        from pyspark import BarrierTaskContext

        number = BarrierTaskContext.get().partitionId()
        Path(folder, str(number)).write_text(str(os.getpid()))
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return "deadly", 0.0, True

    df = spread(*problem(2), uneven)
    with pytest.raises(cg.CarveError, match=r"^partition 1: its task was lost in the middle of"):
        on_spark(validation_indicator_col="v", **INF).fit(df, eval_metric=deadly)
    members = [int((tmp_path / name).read_text()) for name in ("0", "1")]
    assert not any(map(listens, members))
    # It is gone once whoever forked it has looked.
    wait_until(lambda: not Path(f"/proc/{members[1]}").exists())


class Alone:
    """A task that hears of nobody but those whose words are given."""

    def __init__(self, *others: str) -> None:
        self.others = others

    def allGather(self, own: str) -> list[str]:  # noqa: N802
        return [own, *self.others]

    def partitionId(self) -> int:  # noqa: N802
        return 0

    def cpus(self) -> int:
        return 3


def note(train: int, watch: int = 0, width: int = 2) -> Any:
    return training._Note("host", 1, train, watch, width if train + watch else 0, {}, False)


@pytest.mark.parametrize(
    ("failed", "others", "raised"),
    [
        (cg.DataError("X row 3"), ["left alone"], "^partition 0: X row 3$"),
        (cg.DataError("partition 0: X row 3"), [""], "^partition 0: X row 3$"),
        (cg.DataError("y has one class only"), ["cause"], "^y has one class only$"),
        (training.TeamError("member 1 left"), ["left alone"], "^member 1 left$"),
        (training.TeamError("member 1 left"), ["cause"], None),
        (ZeroDivisionError("division"), ["left alone"], "^division$"),
        (None, ["cause"], None),
    ],
)
def test_only_the_cause_is_raised(failed: Any, others: list[str], raised: str | None) -> None:
    if raised is None:
        assert list(training._outcome(Alone(*others), None, failed)) == []
        return
    kind = type(failed) if not isinstance(failed, training.TeamError) else cg.CarveError
    with pytest.raises(kind, match=raised):
        list(training._outcome(Alone(*others), None, failed))


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ([note(0), note(0)], "there are no training rows"),
        ([note(3), note(0)], "'v' marks no row; mark some"),
        ([note(3), note(0, 2)], "partition 1 has validation rows and no training rows"),
        ([note(0), note(3, 2), note(3, 1, 4)], "'x' has 2 values in partition 1, 4 in partition 2"),
    ],
)
def test_what_no_team_can_train_on_is_refused(notes: Any, words: str) -> None:
    chosen = training.Chosen(("x",), True, "label", None, None, "v")
    with pytest.raises(cg.DataError, match=f"^{words}"):
        training._check(chosen, notes)


def test_another_version_on_executors_is_noticed_before_it_reads_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark import BarrierTaskContext

    monkeypatch.setattr(BarrierTaskContext, "get", Alone)
    work = training._Work("0.0.7", b"what no other version can read", None, "")
    with pytest.raises(cg.CarveError, match=r"was asked by carvegbm 0\.0\.7; install the same"):
        next(training._member(work, iter(())))


def test_threads_are_those_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(training, "fit_share", lambda *given: asked.append(given[-1]))
    rows = training.Labelled(np.zeros((2, 1)), np.arange(2), None, np.zeros(2, dtype=bool))
    chosen = training.Chosen(("x",), True, "label", None, None, None)
    work = training._Work(cg.__version__, b"", chosen, "")
    training._fitted(work, None, Alone(), rows, [note(2)], None)
    assert asked == [Alone().cpus()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features_col": ["e"]}, "features_col: df has no column 'e'"),
        ({"features_col": []}, "features_col names no column"),
        ({"features_col": 3}, "^features_col must be a column's name or a list of them, got 3$"),
        ({"features_col": ["a", "label"]}, "column 'label' is named twice"),
        ({"label_col": "labels"}, "label_col: df has no column 'labels'; .* did you mean 'label'"),
        ({"weight_col": "t"}, "column 't' holds date, weights must be numbers; cast it first"),
        ({"validation_indicator_col": "w"}, "column 'w' holds double, what marks validation rows"),
        ({"features_col": "t"}, "column 't' holds date, features must be numbers, or texts"),
        ({"num_workers": 0}, "num_workers must be a whole number >= 1, got 0"),
        ({"num_workers": 3}, "training wants 3 tasks at once, Spark has room for 2; give num_w"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_once(spark: Any, options: Any, words: str) -> None:
    df = spark.range(9).selectExpr(
        "id as a", "1.0D as w", "id > 3 as label", "id > 5 as v", "current_date() as t"
    )
    with pytest.raises(cg.CarveError, match=words):
        on_spark(**{"features_col": ["a"], **INF, **options}).fit(df)


def test_what_is_watched_needs_validation_rows(few: Any) -> None:
    with pytest.raises(cg.CarveError, match=r"^eval_metric needs validation_indicator_col"):
        on_spark(**INF).fit(few, eval_metric="auc")
    with pytest.raises(cg.CarveError, match="df must be a Spark DataFrame, got 'list'"):
        on_spark(**INF).fit([[1.0]])


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("[SPARK-24819]: Barrier execution mode does not", "Spark has no room for so many tasks"),
        ("[SPARK-24820][SPARK-24821]: Barrier execution", "Spark cannot train on these partitions"),
        ("[SPARK-24942]: Barrier execution mode", "training needs all of its tasks at once"),
        (
            "barrier task ResultTask(5, 1) finished unsuccessfully.\nExecutorLostFailure (executor "
            "0 exited) Reason: Command exited with code 137\n\tat org",
            r"partition 1: its task was lost in the middle of training \(ExecutorLostFailure",
        ),
    ],
)
def test_what_spark_says_of_barriers_is_told_in_one_line(told: str, line: str) -> None:
    with pytest.raises(cg.CarveError, match=f"^{line}"), in_one_line():
        raise RuntimeError(f"Job aborted: {told}")


def test_what_verifies_does_not_import_what_trains() -> None:
    program = "import sys, carvegbm.spark; assert not {'sklearn', 'lightgbm'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_parameters_are_those_of_the_local_estimator_and_columns() -> None:
    from sklearn import clone

    estimator = clone(cgs.SparkRobustClassifier(norm=1, budget=0.3, features=[0], num_workers=4))
    assert estimator.get_params()["features"] == [0]
    assert estimator.set_params(num_workers=2, budget=0.5).get_params()["budget"] == 0.5
    assert (estimator.num_workers, estimator.features_col) == (2, "features")
    assert repr(estimator) == "SparkRobustClassifier(budget=0.5, features=[0], norm=1)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hasattr(estimator, "booster_")
