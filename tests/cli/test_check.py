"""The command check: what the checker says, as a command of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import carvegbm as cg
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


def test_a_wrong_proof_ends_with_4(cli: Any, files: list[str], tmp_path: Path) -> None:
    ensemble = cg.load(files[1])
    question = Asked(tmp_path, ensemble, Attacker(1, 0.5), [[0.0], [0.75]], [1, 1])
    question.check(*(record(row, "robust", parts(({}, NOTHING))) for row in range(2)))
    code, out, _ = cli("check", *files)
    assert code == 4
    assert "row 1: robust: part 0, case 0: the bound is -1, so an attack may win\n" in out
    assert "checked:   1 robust, 1 wrong; " in out


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
        [sys.executable, "-I", "-c", script, str(checker), *files, "--quiet"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("50.00 %\n[] 0\n")
