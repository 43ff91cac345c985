"""`.cbm` files, which only the library can read: it does so in a process of its own.

Comes in: the bytes of a file. Goes out: what the library writes as JSON, parsed.

The library believes what a `.cbm` file says of sizes and places, and a damaged one may crash it.
Here that ends the other process, and is one line.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from carvegbm.errors import ModelError

__all__ = ["document_of", "is_binary"]

_MAGIC = b"CBM1"
# Runs in an empty folder, so that nothing is imported from where the user happens to be.
_PROGRAM = """
import sys
import catboost
model = catboost.CatBoost()
for step, call in (
    ("read it", lambda: model.load_model("model.cbm")),
    ("write it as JSON", lambda: model.save_model("model.json", format="json")),
):
    try:
        call()
    except catboost.CatBoostError as error:
        with open("error.txt", "w", encoding="utf-8") as told:
            told.write(f"catboost cannot {step} ({str(error)[:200]})")
        sys.exit(1)
"""


def is_binary(data: bytes) -> bool:
    """Whether the bytes are a `.cbm` file."""
    return data.startswith(_MAGIC)


def document_of(data: bytes) -> Any:
    """The model as the library writes it as JSON; its numbers are shortest decimals."""
    if importlib.util.find_spec("catboost") is None:
        raise ModelError(
            "is a binary CatBoost model, which only catboost can read; pip install "
            "'carvegbm[catboost]', or save the model with format='json'"
        )
    places = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.cbm").write_bytes(data)
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": places},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if ended.returncode == 0:
            return json.loads((folder / "model.json").read_text(encoding="utf-8"))
        told = folder / "error.txt"
        why = told.read_text(encoding="utf-8") if told.exists() else "catboost crashed at it"
        raise ModelError(f"{why}; it is damaged, or has text or embedding features")
