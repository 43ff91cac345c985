"""The commands train and tune, as a user types them."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli.app import run
from carvegbm.training.large_spread.rounds import SingleOutputRounds
from carvegbm.training.robust.trainer import Growth
from training import problems


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, X, y, names=None):
    names = names or [f"f{i}" for i in range(X.shape[1])]
    lines = [",".join([*names, "label"])]
    rows = zip(X.tolist(), y, strict=True)
    lines += [",".join([*map(repr, row), str(label)]) for row, label in rows]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(name="files")
def make_files(tmp_path):
    X, y = problems.two_classes(300)
    write(tmp_path / "data.csv", X[:200], y[:200])
    write(tmp_path / "valid.csv", X[200:], y[200:])
    return X, y


TRAIN = ["train", "data.csv", "--budget", "0.02", "--threads", "1", "--trees", "20"]
ROBUST = ["--robust", "-p", "leaf_l2=0.001", "-p", "n_members=1", "-p", "min_child_samples=5"]
TUNE = ["tune", "data.csv", "--budget", "0.02", "--threads", "1", "--trees", "5"]


def test_train_writes_a_large_spread_lightgbm_model(files, tmp_path, capsys):
    X, y = files
    options = ["--num-leaves", "6", "--valid", "valid.csv", "-p", "min_data_in_leaf=5", "--json"]
    assert run([*TRAIN, *options, "-o", "m.txt"]) == 0
    document = json.loads(capsys.readouterr().out)
    booster = lightgbm.Booster(model_file=tmp_path / "m.txt")
    assert booster.feature_name()[0] == "f0"
    assert booster.num_trees() == document["trees"] == 20
    result = cg.verify("m.txt", X[200:], y[200:], cg.Attacker("inf", 0.02))
    assert document["validation accuracy"] == result.accuracy
    assert document["validation robustness"] == result.robustness[0]


@pytest.mark.usefixtures("files")
def test_train_splits_validation_data_off_for_early_stopping(capsys):
    assert run([*TRAIN, "--early-stopping", "5", "--learning-rate", "1.5"]) == 0
    captured = capsys.readouterr()
    assert "validation accuracy" in captured.out
    assert "trained on 160 rows" in captured.out
    assert "stopped after" in captured.err


def test_train_says_how_to_name_labels_that_a_model_file_cannot_hold(tmp_path, capsys):
    X, y = problems.three_classes(200)
    write(tmp_path / "data.csv", X, np.array(["low", "mid", "top"])[y])
    assert run([*TRAIN, "--quiet"]) == 0
    assert "--classes low,mid,top" in capsys.readouterr().err
    verify = ["verify", "model.txt", "data.csv", "--budget", "0.02", "--classes", "low,mid,top"]
    assert run(verify) == 0


def test_train_regression(tmp_path, capsys):
    X, y = problems.numbers(200)
    write(tmp_path / "data.csv", X, y.tolist())
    assert run([*TRAIN, "--task", "regression", "--early-stopping", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["validation R²"] > 0.5


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("method", ["plain", "certified", "robust"])
def test_tune_writes_the_best_of_several(tmp_path, capsys, method):
    command = ["tune", "data.csv", "--budget", "0.02", "--leaves", "3,6", "--trees", "15"]
    command += ["--criterion", "robustness", "--threads", "1", "-o", "best.txt"]
    command += ["--valid", "valid.csv", *{"plain": ["-p", "min_child_samples=5"]}.get(method, [])]
    command += {"certified": ["--certified"], "robust": ROBUST}.get(method, [])
    assert run(command) == 0
    captured = capsys.readouterr()
    assert "the largest robustness on validation data" in captured.out
    assert len(captured.err.splitlines()) == 2
    before = (tmp_path / "best.txt").read_text()
    assert run([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["criterion"] == "robustness"
    assert [trial["num_leaves"] for trial in document["trials"]] == [3, 6]
    best = document["trials"][document["chosen"]]
    assert best["robustness"] == max(trial["robustness"] for trial in document["trials"])
    assert (tmp_path / "best.txt").read_text() == before


def test_certified_training_shows_its_trials_and_writes_the_chosen_one(files, capsys):
    X, y = files
    command = [*TRAIN, "--certified", "--max-crowding", "0.2,none", "--clean-loss", "0.3"]
    command += ["--num-leaves", "6", "--valid", "valid.csv", "-p", "min_data_in_leaf=5"]
    assert run([*command, "--json", "-o", "m.txt"]) == 0
    document = json.loads(capsys.readouterr().out)
    report = document["training report"]
    assert {c["max_crowding"] for c in report["trials"]} == {0.2, None}
    chosen = report["trials"][report["chosen"]]
    result = cg.verify("m.txt", X[200:], y[200:], cg.Attacker("inf", 0.02))
    assert result.robustness[0] == chosen["robustness"] == document["validation robustness"]
    assert run([*command, "-q", "-o", "m.txt"]) == 0
    captured = capsys.readouterr()
    assert "chosen" in captured.out
    assert captured.err == ""


def test_robust_training_shows_its_trials_and_writes_the_chosen_one(files, capsys):
    X, y = files
    command = [*TRAIN, *ROBUST, "--max-crowding", "none", "--num-leaves", "6"]
    command += ["--valid", "valid.csv"]
    assert run([*command, "--json", "-o", "m.txt"]) == 0
    document = json.loads(capsys.readouterr().out)
    report = document["training report"]
    chosen = report["trials"][report["chosen"]]
    result = cg.verify("m.txt", X[200:], y[200:], cg.Attacker("inf", 0.02))
    assert result.robustness[0] == chosen["robustness"] == document["validation robustness"]
    assert result.accuracy == chosen["accuracy"] == document["validation accuracy"]
    assert lightgbm.Booster(model_file="m.txt").num_trees() == document["trees"]
    assert run([*command, "-q", "-o", "m.txt"]) == 0
    captured = capsys.readouterr()
    assert "chosen" in captured.out
    assert captured.err == ""


@pytest.mark.usefixtures("files")
def test_robust_training_splits_validation_data_off_as_fit_does(capsys):
    assert run([*TRAIN, *ROBUST, "--num-leaves", "6", "--json"]) == 0
    chosen = json.loads(capsys.readouterr().out)
    table = cg.load_table("data.csv")
    given = {"budget": 0.02, "n_estimators": 20, "num_leaves": 6, "min_child_samples": 5}
    given |= {"leaf_l2": 0.001, "n_members": 1, "random_state": 0, "n_jobs": 1}
    model = cg.RobustClassifier(**given)
    model.fit(table.X, table.y, feature_names=table.feature_names)
    assert cg.load("model.txt") == model.ensemble_
    assert chosen["validation robustness"] == model.training_report_.chosen.robustness


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("options", "grower", "method"),
    [
        ([], SingleOutputRounds, "grow"),
        (["--certified"], SingleOutputRounds, "grow"),
        (ROBUST, Growth, "round"),
    ],
    ids=["large-spread", "certified", "robust"],
)
def test_ctrl_c_keeps_the_finished_model_and_writes_the_unfinished_one_beside_it(
    tmp_path, ctrl_c_at, capsys, options, grower, method
):
    finished, unfinished = tmp_path / "m.txt", tmp_path / "m.txt.partial"
    command = [*TRAIN, *options, "--valid", "valid.csv", "-q", "-o", "m.txt"]
    assert run(command) == 0
    before = finished.read_bytes()
    assert capsys.readouterr().err == ""
    with ctrl_c_at(grower, method, 5):
        assert run(command) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("carvegbm: interrupted; m.txt.partial holds an unfinished model of ")
    assert "m.txt is unchanged" in line
    assert finished.read_bytes() == before
    assert lightgbm.Booster(model_file=unfinished).num_trees() > 0
    assert run(command) == 0
    assert finished.read_bytes() == before
    assert not unfinished.exists()


@pytest.mark.usefixtures("files")
def test_a_file_beside_the_output_that_is_not_ours_survives_training(tmp_path, capsys):
    precious = tmp_path / "m.txt.partial"
    precious.write_text("precious")
    assert run([*TRAIN, "-q", "-o", "m.txt"]) == 2
    assert "m.txt.partial is not an unfinished result" in capsys.readouterr().err
    assert precious.read_text() == "precious"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("option", ["--trees", "--num-leaves", "--early-stopping", "--seed"])
def test_an_integer_option_names_the_value_that_is_none(capsys, option):
    assert run([*TRAIN, option, "all", "-o", "m.txt"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option in line
    assert "'all'" in line
    assert "whole number" in line


def test_robust_training_of_a_regressor(tmp_path, capsys):
    X, y = problems.numbers(200)
    write(tmp_path / "data.csv", X, y.tolist())
    command = [*TRAIN, *ROBUST, "--task", "regression", "--json"]
    assert run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert 0 < document["validation error"] < document["validation worst error"]
    assert document["training report"]["trials"]


@pytest.mark.usefixtures("files")
def test_an_interrupted_tuning_keeps_the_best_finished_model(tmp_path, monkeypatch, capsys):
    fit = cg.LargeSpreadClassifier.fit

    def interrupted(self, *arguments, **options):
        if self.num_leaves == 6:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    command = ["tune", "data.csv", "--budget", "0.02", "--leaves", "3,6", "--trees", "5"]
    command += ["--threads", "1", "-q", "-o", "best.txt"]
    (tmp_path / "best.txt").write_text("earlier")
    with monkeypatch.context() as patch:
        patch.setattr(cg.LargeSpreadClassifier, "fit", interrupted)
        assert run(command) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert "best.txt.partial holds the best of 1 finished model; best.txt is unchanged" in line
    assert (tmp_path / "best.txt").read_text() == "earlier"
    assert lightgbm.Booster(model_file=tmp_path / "best.txt.partial").num_trees() == 5
    assert run(command) == 0
    assert lightgbm.Booster(model_file=tmp_path / "best.txt").num_trees() == 5
    assert not (tmp_path / "best.txt.partial").exists()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TRAIN, "-p", "num_leafs=3"], "no parameter 'num_leafs'; did you mean num_leaves?"),
        ([*TRAIN, "-p", "boosting=dart"], "boosting must be 'gbdt'"),
        ([*TRAIN, "-p", "nonsense"], "write NAME=VALUE"),
        ([*TRAIN, "-p", "learning_rate=1"], "--param learning_rate has an option of its own"),
        ([*TRAIN, "-p", "lambda_l1=1", "-p", "lambda_l1=2"], "--param lambda_l1 is given twice"),
        ([*TRAIN, "-o", "nowhere/m.txt"], "no folder nowhere"),
        ([*TRAIN, "--norm", "0.5"], "norm must be"),
        ([*TRAIN, "--valid", "missing.csv"], "missing.csv: no such file"),
        (["train", "empty.csv", "--budget", "1"], "empty.csv"),
        (["train", "nan.csv", "--budget", "1", "--categorical", "c"], "unknown feature 'c'"),
        (["train", "one.csv", "--budget", "1"], "one class only"),
        (["train", "words.csv", "--budget", "1"], "name it with --categorical"),
        (["tune", "data.csv", "--budget", "1", "--leaves", "a"], "--leaves a"),
        ([*TRAIN, "--metric", "auc"], "--metric auc needs validation data; add --valid DATA"),
        ([*TRAIN, "--max-crowding", "0.1"], "--max-crowding has no meaning without --certified"),
        ([*TRAIN, "--clean-loss", "0.1"], "--clean-loss has no meaning without --certified"),
        ([*TRAIN, "--certified", "--max-crowding", "much"], "--max-crowding much: write shares"),
        ([*TRAIN, "--certified", "--max-crowding", "0"], "max_crowding must be None or a number"),
        (
            [*TRAIN, "--certified", "--clean-loss", "2"],
            "clean_loss must be None or a number",
        ),
        (
            [*TRAIN, "--certified", "--task", "regression"],
            "certified=True has no meaning",
        ),
        ([*TRAIN, "--robust", "--certified"], "--robust and --certified exclude each other"),
        ([*TUNE, "--robust", "--certified"], "--robust and --certified exclude each other"),
        ([*TRAIN, "--robust", "--metric", "auc"], "--metric auc has no meaning with --robust"),
        ([*TRAIN, "--robust", "-p", "path_smooth=1"], "path_smooth cannot be honoured: robust"),
        ([*TRAIN, "--robust", "-p", "min_data_in_leaf=5"], "it is called min_child_samples here"),
        ([*TRAIN, "--robust", "--max-crowding", "0"], "max_crowding must be None or a number"),
        (
            [*TRAIN, "--robust", "--clean-loss", "2"],
            "clean_loss must be None or a number",
        ),
        ([*TRAIN, "--robust", "-p", "leaf_l2=a"], "leaf_l2 must be a number >= 0, got 'a'"),
        ([*TRAIN, "--valid", "few.csv"], "few.csv has 2 features, the training data have"),
        (["train", "once.csv", "--budget", "1", "--certified"], "label 7 occurs once"),
        (["tune", "data.csv", "--budget", "1", "--leaves", "1"], "num_leaves must be"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, arguments, message):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "nan.csv").write_text("a,b,label\n,1,0\n2,3,1\n")
    (tmp_path / "one.csv").write_text("a,b,label\n0,1,0\n2,3,0\n")
    (tmp_path / "words.csv").write_text("a,b,label\ntcp,1,0\nudp,3,1\n")
    (tmp_path / "few.csv").write_text("a,b,label\n0,1,0\n2,3,1\n")
    (tmp_path / "once.csv").write_text("a,b,label\n" + "0,1,0\n2,3,1\n" * 9 + "4,5,7\n")
    before = set(tmp_path.iterdir())
    assert run(arguments) == 2
    assert set(tmp_path.iterdir()) == before
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("carvegbm: ")
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["train", "tune"])
def test_a_model_at_the_default_path_is_not_replaced_unasked(
    command, refuses, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.txt").write_text("precious")
    refuses(command, "data.csv", "--budget", "0.01", words=["model.txt", "already", "-o"])
    assert (tmp_path / "model.txt").read_text() == "precious"


@pytest.mark.parametrize("method", [[], ["--certified"], ["--robust"]], ids=str)
def test_columns_of_categories_and_empty_cells_are_trained_on(tmp_path, method):
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], 300)
    ports = rng.choice([22, 80, 443], 300)
    lines = ["size,colour,port,label"]
    for i, (colour, port) in enumerate(zip(colours.tolist(), ports.tolist(), strict=True)):
        size = "" if i % 7 == 0 else f"{rng.random():.3f}"
        name = "" if i % 11 == 0 else colour
        lines.append(f"{size},{name},{port},{int((colour == 'red') ^ (port == 22))}")
    (tmp_path / "kinds.csv").write_text("\n".join(lines) + "\n")
    options = ["--categorical", "colour,port", "--valid", "kinds.csv", "--trees", "10", "-q"]
    arguments = ["train", "kinds.csv", "--budget", "0.02", "--threads", "1", *options, *method]
    assert run([*arguments, "-o", "m.txt"]) == 0
    model = cg.load("m.txt")
    labels = {f: sorted(map(str, own.values())) for f, own in model.categories.items()}
    assert labels == {1: ["blue", "green", "red"], 2: ["22", "443", "80"]}
    assert run(["verify", "m.txt", "kinds.csv", "--budget", "0.02", "--output", "v.json"]) == 0
    assert json.loads((tmp_path / "v.json").read_text())["accuracy"] > 0.9


def test_tuning_takes_categories(tmp_path):
    X, y = problems.with_categories(200)
    write(tmp_path / "data.csv", X, y)
    arguments = [*TUNE, "--leaves", "4,6", "--categorical", "f2,3", "-o", "best.txt"]
    assert run(arguments) == 0
    assert set(cg.load("best.txt").categories) <= {2, 3}
    assert run(arguments) == 0
