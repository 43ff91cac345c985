"""A file answered block by block has the answers of the whole file."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import carvegbm as cg
from carvegbm.cli.inputs import load_inputs
from carvegbm.data.table import FileSchema
from carvegbm.errors import CarveError, DataError
from carvegbm.scale import files
from carvegbm.scale.files import Part, answer_file
from carvegbm.scale.query import Query

SIZES = [1, 7, 1000]
ATTACKER = cg.Attacker("inf", 0.3)
QUERIES = {
    "verify": lambda model: Query("verify", cg.Verifier(model, ATTACKER, exact_margin=True)),
    "attack": lambda model: Query("attack", cg.Verifier(model, ATTACKER)),
    "radius": lambda model: Query("radius", cg.Verifier(model, cg.Attacker(1)), max_budget=0.5),
}
ROWS = 23


def verification(model: Any, attacker: cg.Attacker = ATTACKER) -> Query:
    return Query("verify", cg.Verifier(model, attacker))


def verified(model: cg.Ensemble, part: Part, size: int, attacker: Any = ATTACKER) -> Any:
    query = Query("verify", cg.Verifier(model, attacker))
    return answer_file(query, FileSchema(model), part, size=size)


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(ROWS, 3)), 2)
    X[::5, 1] = 0
    return X, (X[:, 0] - X[:, 2] > 0).astype(int)


X, Y = numbers()


@pytest.fixture
def model(tmp_path: Path) -> str:
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 2}
    names = ["wide", "high", "deep"]
    booster = lgb.train(parameters, lgb.Dataset(X, Y, feature_name=names), 5)
    booster.save_model(tmp_path / "model.txt")
    return str(tmp_path / "model.txt")


@pytest.fixture
def words(tmp_path: Path) -> str:
    """A model that splits on categories."""
    rng = np.random.default_rng(1)
    frame = categories(rng)
    parameters = {
        "objective": "binary",
        "verbose": -1,
        "num_threads": 1,
        "min_data_in_leaf": 2,
        "min_data_per_group": 1,
        "cat_smooth": 0.1,
        "cat_l2": 0.1,
    }
    labels = frame.pop("label")
    booster = lgb.train(parameters, lgb.Dataset(frame.astype({"kind": "category"}), labels), 5)
    booster.save_model(tmp_path / "words.txt")
    return str(tmp_path / "words.txt")


def categories(rng: np.random.Generator) -> pd.DataFrame:
    kind = rng.choice(["ftp", "http", "80"], size=ROWS)
    size = np.round(rng.normal(size=ROWS), 1)
    return pd.DataFrame({"kind": kind, "size": size, "label": (kind == "ftp") | (size > 0.5)})


def written(folder: Path, form: str) -> str:
    """The numbers above in a file of that form, columns in another order where they have names."""
    frame = pd.DataFrame({"deep": X[:, 2], "label": Y, "wide": X[:, 0], "high": X[:, 1]})
    path = folder / f"data.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "csv.gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    elif form == "parquet":
        frame.to_parquet(path, row_group_size=5)
    elif form == "npz":
        np.savez(path, X=X, y=Y)
    elif form == "libsvm":
        dump_svmlight_file(X, Y, str(path), zero_based=False)
    elif form == "npy":
        path = folder / "X.npy"
        np.save(path, X)
        np.save(folder / "y.npy", Y)
    else:
        path = folder / "X.npz"
        sparse.save_npz(path, sparse.csr_matrix(X))
        np.save(folder / "y.npy", Y)
    return str(path)


def read_back(target: Path) -> dict[str, Any]:
    if target.suffix == ".parquet":
        return {name: column.to_numpy() for name, column in pd.read_parquet(target).items()}
    with target.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    assert columns.pop("instance") == [str(i) for i in range(len(rows))]
    return columns


def same(found: dict[str, Any], expected: dict[str, Any], kinds: dict[str, type]) -> None:
    assert list(found) == list(expected) == list(kinds)
    for name in kinds:
        if name == "seconds":
            continue
        if isinstance(found[name], list):  # text
            assert found[name] == ["" if v is None else str(v) for v in expected[name].tolist()]
        elif kinds[name] is float:
            np.testing.assert_array_equal(found[name], expected[name])
        else:
            assert [None if v is None or v != v else v for v in found[name].tolist()] == [
                v if v is None or kinds[name] is not object else str(v)
                for v in expected[name].tolist()
            ]


def hold(model: str, path: str, name: str, target: Path, size: int, **reading: Any) -> None:
    """Compare answers by blocks with answers about all rows at once."""
    options = dict.fromkeys(
        ("label", "classes", "n_features", "zero_based", "rows", "absent", "trees")
    )
    options |= {"model": model, "data": path, "no_label": False, **reading}
    given = load_inputs(SimpleNamespace(**options))
    query = QUERIES[name](given.model)
    expected = query.answer(given.X, given.y)
    answered: list[int] = []
    matching = FileSchema(given.model, reading.get("label"), absent=reading.get("absent"))
    totals = answer_file(
        query, matching, Part(path, target), size=size, on_progress=answered.append
    )
    same(read_back(target), expected, query.kinds())
    whole = query.totals(expected).to_dict()
    assert totals.to_dict() == whole
    assert sum(answered) == ROWS


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "npz", "npy", "libsvm", "save_npz"])
@pytest.mark.parametrize("name", QUERIES)
def test_every_format_gives_the_answers_of_the_whole_file(
    model: str, tmp_path: Path, form: str, size: int, name: str
) -> None:
    path, target = written(tmp_path, form), tmp_path / "answers.parquet"
    if name == "attack" and form == "save_npz":
        with pytest.raises(CarveError, match="give dense rows"):
            hold(model, path, name, target, size)
    else:
        hold(model, path, name, target, size)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_answers_as_csv(model: str, tmp_path: Path, name: str, form: str) -> None:
    hold(model, written(tmp_path, form), name, tmp_path / "answers.csv", 4)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("name", QUERIES)
def test_labels_of_categories(words: str, tmp_path: Path, form: str, name: str) -> None:
    frame = categories(np.random.default_rng(2)).astype({"label": int})
    frame.loc[3, "kind"] = None
    path = tmp_path / f"data.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    for size in SIZES:
        hold(words, str(path), name, tmp_path / "answers.parquet", size)


@pytest.mark.parametrize("absent", [None, "zero", "missing"])
@pytest.mark.parametrize("form", ["libsvm", "save_npz"])
def test_what_is_left_out_is_what_it_is_for_the_whole_file(
    tmp_path: Path, form: str, absent: str | None
) -> None:
    xgboost = pytest.importorskip("xgboost")
    xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, Y).save_model(tmp_path / "model.json")
    path = written(tmp_path, form)
    for size in (3, 1000):
        target = tmp_path / "answers.parquet"
        hold(str(tmp_path / "model.json"), path, "verify", target, size, absent=absent)


def test_labels_that_are_numbers_in_some_batches_only(model: str, tmp_path: Path) -> None:
    """Labels are words if one of them is, so that "01" is not 1 in the batches without it."""
    path = tmp_path / "data.csv"
    rows = [f"{x[0]},{x[1]},{x[2]},{'no' if y else '01'}" for x, y in zip(X, Y, strict=True)]
    order = np.argsort(Y, kind="stable")
    lines = ["wide,high,deep,label", *(rows[i] for i in order)]
    path.write_text("\n".join(lines) + "\n")
    ensemble = cg.load(model, classes=["01", "no"])
    expected = cg.verify(ensemble, X[order], ensemble.classes[Y[order]], ATTACKER)
    for size in (1, 7):
        part = Part(str(path), tmp_path / "answers.parquet")
        verified(ensemble, part, size=size)
        found = read_back(tmp_path / "answers.parquet")
        assert found["status"].tolist() == expected.status.tolist()


def test_steps_within_a_batch_change_nothing(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_FIRST_ROWS", 2)
    for seconds in (0.0, 1.0):
        monkeypatch.setattr(files, "_SECONDS", seconds)
        hold(model, written(tmp_path, "csv"), "attack", tmp_path / "answers.parquet", 10)


def test_only_the_first_rows(model: str, tmp_path: Path) -> None:
    ensemble, path = cg.load(model), written(tmp_path, "csv")
    for rows, size in ((5, 2), (4, 2), (1, 100), (ROWS, 7)):
        part = Part(path, tmp_path / "answers.parquet", rows)
        totals = verified(ensemble, part, size=size)
        assert totals.instances == rows == len(pd.read_parquet(tmp_path / "answers.parquet"))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_without_rows_has_answers_without_rows(
    model: str, tmp_path: Path, suffix: str
) -> None:
    (tmp_path / "data.csv").write_text("wide,high,deep,label\n")
    ensemble, target = cg.load(model), tmp_path / f"answers.{suffix}"
    question = Query("attack", cg.Verifier(ensemble, ATTACKER))
    totals = answer_file(question, FileSchema(ensemble), Part(str(tmp_path / "data.csv"), target))
    assert totals.instances == 0
    found = read_back(target)
    assert list(found) == list(question.kinds())
    assert all(len(column) == 0 for column in found.values())


def test_no_more_rows_than_a_batch_are_held(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are read, until their answers are written; counted, whatever the file."""
    held: list[int] = []
    ensemble = cg.load(model)
    tables = files.read_batches

    def counted(*arguments: Any) -> Any:
        for table in tables(*arguments):
            held.append(table.X.shape[0])
            yield table
            held.append(-table.X.shape[0])

    monkeypatch.setattr(files, "read_batches", counted)
    for form in ("csv", "parquet", "libsvm", "npy"):
        held.clear()
        part = Part(written(tmp_path, form), tmp_path / "answers.parquet")
        verified(ensemble, part, size=4)
        assert max(np.cumsum(held)) == 4
        assert sum(number for number in held if number > 0) == ROWS


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────


def refused(model: str, path: str, size: int, attacker: cg.Attacker = ATTACKER) -> str:
    ensemble, target = cg.load(model), Path(path).with_name("answers.parquet")
    with pytest.raises(CarveError) as caught:
        verified(ensemble, Part(path, target), size=size, attacker=attacker)
    assert not list(target.parent.glob("*answers*"))  # nothing half-written is left
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("size", SIZES)
def test_an_unknown_label_names_file_and_row(model: str, tmp_path: Path, size: int) -> None:
    path = tmp_path / "data.csv"
    lines = ["wide,high,deep,label", *(f"{i},0,0,{7 if i in (17, 19) else 1}" for i in range(23))]
    path.write_text("\n".join(lines))
    assert refused(model, str(path), size).startswith(
        f"{path} row 17: unknown label 7; the model's classes are 0, 1;"
    )


@pytest.mark.parametrize("size", SIZES)
def test_an_error_about_a_row_has_file_row_and_column(
    model: str, tmp_path: Path, size: int
) -> None:
    attacker = cg.Attacker("inf", 0.1, bounds=(-100, 16.5))
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["wide,high,deep,label", *(f"0,{i},0,1" for i in range(23))]))
    query = Query("verify", cg.Verifier(model, attacker))
    with pytest.raises(DataError, match="row 17, high: value 17") as caught:
        answer_file(query, FileSchema(cg.load(model)), Part(str(path)), size=size)
    error = caught.value
    assert (error.file, error.row, error.column) == (str(path), 17, "high")


def test_a_value_that_is_no_number_names_file_and_line(model: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["wide,high,deep,label", *["0,0,0,1"] * 9, "0,x,0,1"]))
    message = refused(model, str(path), 4)
    assert message == f"{path}: line 11, column 2 (high): 'x' is not a number"


def test_what_concerns_no_row_names_the_file(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.zeros((9, 5)), y=np.zeros(9, dtype=int))
    message = refused(model, str(tmp_path / "data.npz"), 4)
    assert message.startswith(f"{tmp_path / 'data.npz'}: X has 5 columns")


def test_an_answer_that_cannot_be_written_leaves_nothing(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Query, "totals", fail)
    ensemble, folder = cg.load(model), tmp_path / "out"
    folder.mkdir()
    part = Part(written(tmp_path, "csv"), folder / "answers.parquet")
    with pytest.raises(OSError, match="No space"):
        answer_file(verification(ensemble), FileSchema(ensemble), part)
    assert list(folder.iterdir()) == []
