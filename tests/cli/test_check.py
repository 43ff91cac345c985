"""The command check: what the checker says, as a command of the package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import carvegbm as cg
import carvegbm_check
from oracle import Attacker
from proofs.asking import Asked
from proofs.by_hand import NOTHING, parts, record, witness


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A proof of two rows, a model and data."""
    tree = {"feature": 0, "threshold": 1.0, "left": {"score": 2.0}, "right": {"score": -1.0}}
    ensemble = cg.Ensemble.from_trees([tree], n_features=1, classes=["no", "yes"])
    question = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.0], [0.75]], [1, 1])
    robust = record(0, "robust", parts(({}, NOTHING)))
    assert question.check(robust, record(1, "fragile", witness({0: 1.125}))).is_proved
    (tmp_path / "data.csv").write_text("height,label\n0,yes\n0.75,yes\n")
    return [str(tmp_path / name) for name in ("a.proof", "model.json", "data.csv")]


def test_every_row_is_named_and_the_summary_ends_it(cli: Any, files: list[str]) -> None:
    code, summary, err = cli("check", *files, "--quiet")
    assert (code, err) == (0, "")
    assert "attacker:  norm 1, budget 0.5 (k): the moves, " in summary
    assert summary.endswith("checked:   1 robust, 1 fragile; robustness 1 / 2 = 50.00 %\n")
    assert cli("check", *files) == (
        0,
        f"row 0: robust: checked\nrow 1: fragile: checked\n{summary}",
        "",
    )


@pytest.fixture(params=["carvegbm check", "python -m carvegbm_check"])
def run_check(request: pytest.FixtureRequest, cli: Any, capsys: Any) -> Any:
    """Run the command or the stand-alone checker; returns exit code, stdout and stderr."""
    if request.param == "carvegbm check":
        return lambda *arguments: cli("check", *arguments)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = carvegbm_check.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def write_records(files: list[str], *records: bytes) -> None:
    question = Asked(
        Path(files[0]).parent, cg.load(files[1]), Attacker(1, 0.5), [[0.0], [0.75]], [1, 1]
    )
    question.check(*records)


ROBUST = parts(({}, NOTHING))


def test_the_exit_code_is_0_if_all_is_proved(run_check: Any, files: list[str]) -> None:
    assert run_check(*files)[0] == 0
    for claim in ("norm=1,budget=0.5", "norm=1,budget=0.1,rows=1,features=all,robustness=1"):
        code, out, err = run_check(*files, "--expect", claim)
        assert (code, err) == (0, "")
        assert " covered" in out
        assert "not covered" not in out


@pytest.mark.parametrize("claim", ["budget=0.6", "budget=0.5,robustness=0.6", "budget=0.5,rows=3"])
def test_the_exit_code_is_1_if_a_claim_is_not_covered(
    claim: str, run_check: Any, files: list[str]
) -> None:
    code, out, err = run_check(*files, "--expect", f"norm=1,{claim}")
    assert (code, err) == (1, "")
    assert " not covered: " in out


def test_the_exit_code_is_2_if_the_input_is_bad(
    run_check: Any, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "claim.json").write_text('{"norm": 1, "budget": 0.1, "budgets": 1}')
    for claim in ("norm=1", "norm=1,budget=x", "norm=1,budget=0.5,features=none", "claim.json"):
        path = str(tmp_path / claim) if claim.endswith("json") else claim
        code, out, err = run_check(*files, "--quiet", "--expect", path)
        assert (code, out) == (2, ""), claim
        assert err.count("\n") == 1
    none = str(tmp_path / "none.proof")
    code, out, err = run_check(none, *files[1:])
    assert (code, out) == (2, "")
    assert "none.proof: cannot be read: No such file or directory\n" in err


def test_the_exit_code_is_3_if_rows_are_undecided(run_check: Any, files: list[str]) -> None:
    write_records(files, record(0, "robust", ROBUST), bytes([1, 16 + 1]))
    code, out, _ = run_check(*files)
    assert code == 3
    assert "row 1: fragile: without a proof\n" in out
    assert "1 robust, 1 undecided; " in out


def test_the_exit_code_is_4_if_a_proof_is_wrong(run_check: Any, files: list[str]) -> None:
    """Whatever else: a row is undecided, and the claim is not covered."""
    write_records(files, bytes([0, 16]), record(1, "robust", ROBUST))
    code, out, _ = run_check(*files, "--expect", "norm=1,budget=9")
    assert code == 4
    assert "row 1: robust: part 0, case 0: the bound is -1, so an attack may win\n" in out
    assert "checked:   1 undecided, 1 wrong; " in out


def test_the_exit_code_is_130_if_interrupted(
    run_check: Any, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(carvegbm_check, "read_frame", interrupt)
    code, out, err = run_check(*files)
    assert (code, out) == (130, "")
    assert err.endswith(": interrupted\n")


def test_json_is_one_document_with_the_attacker(run_check: Any, files: list[str]) -> None:
    code, out, _ = run_check(*files, "--json", "--expect", "norm=1,budget=0.25,robustness=1")
    document = json.loads(out, parse_constant=pytest.fail)
    assert (code, document["exit_code"]) == (1, 1)
    assert cg.Attacker.from_dict(document["attacker"]) == cg.Attacker(1, 0.5)
    assert document["checked"] == {"0": "robust", "1": "fragile"}
    assert document["expected"]["budget"] == 0.25
    assert len(document["not_covered"]) == 1


def test_an_expectation_may_be_toml_with_a_claim_beside_it(
    cli: Any, files: list[str], tmp_path: Path
) -> None:
    claim = tmp_path / "claim.toml"
    claim.write_text("norm = 1\nbudget = 0.25\nfeatures = [0]\n[bounds]\n0 = [-inf, 9]\n")
    assert cli("check", *files, "--expect", claim)[0] == 0
    assert cli("check", *files, "--expect", f"{claim},robustness=1")[0] == 1


def test_a_lightgbm_text_with_text_categories_is_checked(cli: Any, tmp_path: Path) -> None:
    rows = [f"{proto},{i / 8},{int(proto == 'tcp')}" for proto in ("tcp", "udp") for i in range(30)]
    (tmp_path / "data.csv").write_text("proto,size,label\n" + "\n".join(rows))
    model, data, proof = (str(tmp_path / name) for name in ("m.txt", "data.csv", "a.proof"))
    trained = ["--norm", "0", "--budget", "1", "--categorical", "proto", "--trees", "2"]
    assert cli("train", data, *trained, "-q", "-o", model)[0] == 0
    assert "udp" in Path(model).read_text()
    narrowed = tmp_path / "attacker.toml"
    narrowed.write_text('norm = 0\nbudget = 1\n[categories]\nproto = ["udp"]\n')
    assert cli("verify", model, data, "--attacker", narrowed, "--proof", proof)[0] == 0
    code, out, err = cli("check", proof, model, data, "--quiet")
    assert (code, err) == (0, "")
    assert "proto: only to 1 of 2 categories: udp\n" in out


def test_without_labels_of_categories_the_command_is_named(
    refuses: Any, files: list[str], tmp_path: Path
) -> None:
    split = {"feature": 0, "categories": [1], "left": {"score": 1.0}, "right": {"score": -1.0}}
    model = tmp_path / "a model.json"
    codes = {0: {0: 0, 1: 1}}
    cg.Ensemble.from_trees([split], n_features=1, categories=codes, category_rule="truncate").save(
        model
    )
    (tmp_path / "data.csv").write_text("height,label\ntcp,yes\n")
    command = f"carvegbm convert '{model}' m.json"
    refuses("check", files[0], str(model), files[2], words=["'tcp' is not a number", command])


def test_files_that_do_not_belong_together_are_refused(
    refuses: Any, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("height,label\n0,yes\n0.5,yes\n")
    refuses("check", *files, words=["a.proof", "other data"])
    refuses("check", files[0], "sample", words=["a.proof", "another model"])
    refuses("check", files[1], *files[1:], words=["model.json", "no proof"])
    refuses("check", str(tmp_path / "none"), *files[1:], words=["none"])


def test_classes_and_label_are_those_of_verify(cli: Any, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("outcome,height\n7,0\n7,0.75\n")
    more = ["--label", "outcome", "--classes", "3,7"]
    assert cli("check", *files, *more)[0] == 0


@pytest.mark.parametrize("classes", ["3,7", "3.0,7.0e0"])
def test_labels_and_classes_that_are_numbers_are_compared_as_numbers(
    classes: str, run_check: Any, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("height,label\n0,7.0e+00\n0.75,07\n")
    code, _, err = run_check(*files, "--classes", classes)
    assert (code, err) == (0, "")


def test_exit_codes_are_documented_once(cli: Any) -> None:
    code, out, _ = cli("check", "--help")
    assert code == 0
    assert "docs/command-line.md" in out
    assert "Exit codes:" not in out


def test_data_of_other_kinds_are_read_for_the_checker(
    cli: Any, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "data.svm").write_text("7 1:0\n7 1:0.75\n")
    np.savez(tmp_path / "data.npz", X=[[0.0], [0.75]], y=["yes", "yes"])
    np.save(tmp_path / "X.npy", np.array([[0.0], [0.75]], dtype=np.float32))
    np.save(tmp_path / "y.npy", np.array(["yes", "yes"]))
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_matrix([[0.0], [0.75]]))
    np.save(tmp_path / "labels.npy", np.array(["yes", "yes"]))
    beside = str(tmp_path / "labels.npy")
    for name, more in [
        ("data.svm", ["--classes", "3,7"]),
        ("data.npz", []),
        ("X.npy", []),
        ("sparse.npz", ["--label", beside, "--absent", "zero"]),
    ]:
        code, out, _ = cli("check", *files[:2], str(tmp_path / name), "--quiet", *more)
        assert code == 0, name
        assert "1 robust, 1 fragile; " in out


def test_only_the_sample_has_data_of_its_own(refuses: Any, files: list[str]) -> None:
    refuses("check", *files[:2], words=["DATA is missing"])


def test_other_data_of_other_kinds_are_refused(
    refuses: Any, files: list[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", X=[[0.0], [0.5]], y=["yes", "yes"])
    refuses("check", *files[:2], str(tmp_path / "data.npz"), words=["a.proof", "other data"])


def test_the_checker_runs_alone_and_imports_nothing_of_the_package(files: list[str]) -> None:
    checker = Path(sys.modules["carvegbm_check"].__file__ or "")
    script = (
        "import runpy, sys; sys.argv = sys.argv[1:]\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end: code = end.code\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('carvegbm', 'numpy')), code)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(checker), *files, "--quiet"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("50.00 %\n[] 0\n")
