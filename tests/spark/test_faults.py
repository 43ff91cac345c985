"""What goes wrong is told in one line, by whoever notices first, and what is lost is done again."""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import carvegbm as cg
from carvegbm.scale.query import PickledQuery
from child_processes import end_of_work

pytest.importorskip("pyspark")
cgs = pytest.importorskip("carvegbm.spark")

ATTACKER = cg.Attacker("inf", 0.1)


def refused(*words: str, kind: type[Exception] = cg.CarveError) -> Any:
    return pytest.raises(kind, match=".*".join(words))


# ── on executors ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def batches_of_ten(spark: Any) -> Any:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "10")
    yield
    spark.conf.set(name, before)


def in_four(spark: Any, odd: int, value: Any, kind: str = "double") -> Any:
    """A hundred rows in four partitions, of which one holds the value."""
    return spark.range(0, 100, 1, 4).selectExpr(
        "id", f"cast(if(id = {odd}, {value}, 0.25) as {kind}) as a"
    )


def error_of(df: Any) -> str:
    """The line of ours in the error that Spark raises for an action on a DataFrame."""
    with pytest.raises(Exception, match=r"carvegbm\.errors") as caught:
        df.collect()
    return re.findall(r"^carvegbm\.errors\.\w+: (.+)$", str(caught.value), re.M)[-1]


@pytest.mark.usefixtures("batches_of_ten")
def test_a_bad_value_is_named_by_partition_and_row(spark: Any, stump: cg.Ensemble) -> None:
    bad = in_four(spark, 67, "double('infinity')")
    words = "partition 2: X row 17, a: value inf; distances from infinity have no meaning; clip it"
    assert error_of(cgs.verify(bad, stump, ATTACKER)) == words
    assert error_of(cgs.radius(bad, stump, ATTACKER)) == words


@pytest.mark.parametrize(
    ("label", "words"), [("null", "the label is null; leave the row out"), ("7", "unknown label 7")]
)
def test_a_label_that_is_null_or_unknown_is_named(
    few: Any, stump: cg.Ensemble, label: str, words: str
) -> None:
    df = few.selectExpr("id", "a", f"{label} as label").repartition(1)
    found = error_of(cgs.verify(df, stump, ATTACKER, label="label"))
    assert found.startswith(f"partition 0: y row 0: {words}")


@pytest.mark.parametrize(
    ("array", "words"), [("null", "'x' is null"), ("array(1.0D, 2.0D)", "'x' has 2 values")]
)
def test_an_array_of_another_length_is_named(
    few: Any, stump: cg.Ensemble, array: str, words: str
) -> None:
    df = few.selectExpr("id", f"if(id = 1, {array}, array(a)) as x").repartition(1).sort("id")
    found = error_of(cgs.verify(df, stump, ATTACKER, features="x"))
    assert found.startswith(f"partition 0: X row 1: {words}, the model has 1 features")


def test_another_version_on_executors_is_noticed(
    few: Any, stump: cg.Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cg, "__version__", "0.0.7")
    found = error_of(cgs.verify(few, stump, ATTACKER, label="label"))
    assert "a query from carvegbm 0.0.7; install the same version" in found


class Noted:
    """A question that leaves a note of every process that opens it, each time."""

    def __init__(self, question: Any, notes: Path) -> None:
        self.content, self.notes = pickle.dumps(question), str(notes)

    def __reduce__(self) -> Any:
        note = f"open({self.notes!r}, 'a').write(str(__import__('os').getpid()) + '\\n')"
        return eval, (f"({note}, __import__('pickle').loads({self.content!r}))[1]",)


def test_the_model_is_opened_once_in_a_process(
    spark: Any, stump: cg.Ensemble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes, ship = tmp_path / "notes", PickledQuery.of
    monkeypatch.setattr(PickledQuery, "of", lambda question: ship(Noted(question, notes)))
    df = in_four(spark, -1, "0").repartition(8)
    out = cgs.verify(df, stump, ATTACKER)
    assert out.count() == 100
    assert len(out.collect()) == 100
    processes = notes.read_text().split()
    assert len(processes) == len(set(processes))
    assert len(processes) < 8  # of sixteen tasks


@pytest.mark.usefixtures("java")
def test_a_killed_executor_changes_nothing(tmp_path: Path) -> None:
    program = Path(__file__).with_name("killed.py")
    code, out, err = end_of_work([sys.executable, str(program), str(tmp_path)])
    assert code == 0, err[-2000:]
    told = json.loads(out.splitlines()[-1])
    assert told["killed"]
    assert told["executors"] >= 2
    assert told["found"] == told["known"]


# ── on the driver ────────────────────────────────────────────────────────────────────────────


def test_two_columns_of_one_name_are_refused(few: Any, stump: cg.Ensemble) -> None:
    remedy = "rename it with df.withColumnRenamed, or give keep=.* without it"
    out = cgs.verify(few, stump, ATTACKER)
    with refused("df has a column 'status', and so has the answer; ", remedy):
        cgs.verify(out, stump, ATTACKER)
    with refused("df has a column 'Margin', "):  # to Spark these are the same
        cgs.verify(few.withColumnRenamed("id", "Margin"), stump, ATTACKER)
    assert cgs.verify(out, stump, ATTACKER, keep=["id"]).columns[:2] == ["id", "status"]
    twice = few.join(few.select("id", "label"), few.id == few.id)
    with refused("df has several columns called 'id'; rename them first"):
        cgs.verify(twice, stump, ATTACKER)


def test_columns_that_differ_only_in_case_are_one_name_if_they_are_to_spark(
    spark: Any, few: Any, stump: cg.Ensemble
) -> None:
    name, df = "spark.sql.caseSensitive", few.toDF("A", "a", "label")
    words = "df has several columns called 'a', to Spark 'A', 'a' are one name; rename them with"
    with refused(words, kind=cg.DataError):
        cgs.verify(df, stump, ATTACKER, keep="label")
    with refused("df has several columns called 'A', to Spark", kind=cg.DataError):
        cgs.verify(df, stump, ATTACKER)
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        found = cgs.verify(df, stump, ATTACKER, label="label").collect()
    finally:
        spark.conf.set(name, before)
    assert sorted((row["A"], row["a"]) for row in found) == [(0, 0.1), (1, 0.45)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": ["b"]}, "features: df has no column 'b'; it has 'id', 'a', 'label'"),
        ({"label": "lable"}, "label: df has no column 'lable'; .* did you mean 'label'"),
        ({"keep": ["x"]}, "keep: df has no column 'x'"),
        ({"features": 3}, "^features must be a column's name or a list of them, got 3$"),
        ({"keep": 3}, "^keep must be a column's name or a list of them, got 3$"),
        ({"features": ["a", "id"]}, "features names 2 columns, the model has 1 features"),
        ({"features": ["id"]}, "features lacks 'a' and has the unexpected 'id'; name the columns"),
        ({"timeout": 0}, "timeout must be > 0, got 0"),
        ({"method": "fast"}, "method must be one of efficient, basic, got 'fast'"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    few: Any, stump: cg.Ensemble, options: dict[str, Any], words: str
) -> None:
    with refused(words):
        cgs.verify(few, stump, ATTACKER, **options)


def test_columns_that_are_no_numbers_are_refused_at_once(few: Any, stump: cg.Ensemble) -> None:
    for of, words in (("'x'", "holds string"), ("current_date()", "holds date")):
        with refused(f"column 'a' {words}, a must be numbers; cast it first"):
            cgs.verify(few.selectExpr("id", f"{of} as a"), stump, ATTACKER)
    with refused("column 'a' holds array<string>; features must be arrays of numbers"):
        cgs.verify(few.selectExpr("array('x') as a"), stump, ATTACKER, features="a")


def test_labels_in_arrays_are_refused_at_once(few: Any, stump: cg.Ensemble) -> None:
    df = few.selectExpr("a", "array(label) as label")
    with refused("^column 'label' holds array<int>, labels must be .* texts; cast it first$"):
        cgs.verify(df, stump, ATTACKER, label="label")


def test_an_ensemble_that_is_not_large_spread_is_refused_at_once(
    few: Any, planted: Callable[..., Any]
) -> None:
    df = few.selectExpr("id", "array(a, a, a, a) as x")
    with pytest.raises(cg.NotLargeSpreadError):
        cgs.verify(df, planted(1), ATTACKER, features="x", engine="large-spread")


def test_a_model_without_names_needs_features(few: Any, planted: Callable[..., Any]) -> None:
    with refused("the model does not name its features; give features="):
        cgs.verify(few, planted(1), ATTACKER)


def test_what_is_no_dataframe_of_spark_is_refused(few: Any, stump: cg.Ensemble) -> None:
    with refused("df must be a Spark DataFrame, got 'list'"):
        cgs.verify([[0.1]], stump, ATTACKER)
    with refused("attacker is missing"):
        cgs.verify(few, stump, None)


def test_local_workers_run_in_the_drivers_python_unless_another_is_configured(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from carvegbm.spark.query import _map

    def python(_: Any) -> Iterator[Any]:
        import sys

        import pyarrow as pa

        yield pa.RecordBatch.from_arrays([pa.array([sys.executable])], names=["python"])

    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    (found,) = _map(spark.range(0, 1, 1, 1), python, "python string").collect()
    assert found.python == sys.executable
    assert spark.sparkContext.pythonExec == "python3"  # other functions keep theirs
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "absent")
    with refused("the executors' Python, absent, cannot be started; install .* PYSPARK_PYTHON"):
        _map(spark.range(1), python, "python string")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_workers_without_carvegbm_are_refused_at_once_in_one_line(
    spark: Any,
    few: Any,
    stump: cg.Ensemble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['carvegbm'] = None\n")
    python = tmp_path / "python"
    path, command = shlex.quote(str(tmp_path)), shlex.quote(sys.executable)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={path}:$PYTHONPATH exec {command} "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    line = f"^the executors' Python, {re.escape(sys.executable)}, has no carvegbm; install "
    with pytest.raises(cg.CarveError, match=line + r"[^\n]* PYSPARK_PYTHON [^\n]*$"):
        cgs.verify(few, stump, ATTACKER)


def test_without_pyspark_the_import_fails_in_one_line() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import carvegbm
try:
    from carvegbm import spark
except ImportError as error:
    assert isinstance(error, carvegbm.CarveError)
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "carvegbm.spark needs pyspark; pip install 'carvegbm[spark]'\n"


def test_importing_carvegbm_does_not_import_pyspark() -> None:
    program = "import sys, carvegbm; assert 'pyspark' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
