"""Check a carvegbm that was installed from a wheel: it answers, proves, reports and trains.

    python tools/check_installed.py

Needs nothing of the sources: run it with the Python of an environment that has the wheel and its
dependencies alone. `.ci/run` does so where no compiler can be called, cibuildwheel for every wheel
(pyproject.toml).
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

import carvegbm as cg

COUNTS = {"robust": 150, "fragile": 8, "vulnerable": 3, "broken": 10, "unknown": 0}


def main() -> None:
    package = Path(cg.__file__).parent
    assert package.is_relative_to(sysconfig.get_path("platlib")), f"{package} is not installed"
    assert cg.__version__ == importlib.metadata.version("carvegbm")
    model, data = (package / "data" / name for name in ("sample_model.txt", "sample_data.csv"))
    command = Path(sysconfig.get_path("scripts")) / "carvegbm"
    question = ["--norm", "inf", "--budget", "0.02"]
    with tempfile.TemporaryDirectory() as folder:
        proof = str(Path(folder) / "sample.proof")
        told = run(str(command), "verify", "sample", *question, "--json", "--proof", proof)
        assert json.loads(told)["counts"] == COUNTS, told
        checked = run(
            sys.executable, "-m", "carvegbm_check", "--json", proof, str(model), str(data)
        )
        statuses = Counter(json.loads(checked)["checked"].values())
        assert all(statuses[status] == count for status, count in COUNTS.items()), statuses
        page = Path(folder) / "sample.html"
        run(str(command), "report", "sample", *question, "--output", str(page))
        assert page.read_text("utf-8").startswith("<!doctype html>")

    table = cg.load_table(data)
    attacker = cg.Attacker(norm="inf", budget=0.02)
    found = cg.attack(cg.load(model), table.X, table.y, attacker)
    assert int(found.success.sum()) == COUNTS["fragile"] + COUNTS["broken"]
    robust = cg.RobustClassifier(norm="inf", budget=0.02, n_estimators=5, random_state=0)
    robust.fit(table.X, table.y)
    assert robust.robust_score(table.X, table.y) > 0.8
    print(f"carvegbm {cg.__version__} in {package}: answers, proves, reports and trains")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
