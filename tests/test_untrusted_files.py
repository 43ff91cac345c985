"""Files from strangers: none of them runs code, or opens another file (see SECURITY.md)."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import carvegbm as cg
import carvegbm_check
from carvegbm.cli.app import run
from carvegbm.data.files import load_table
from carvegbm.errors import CarveError, DataError, ModelError
from carvegbm.readers.xgboost import decode_ubjson
from readers import small_models


class Trap:
    """Whoever unpickles it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.fixture
def sprung(tmp_path: Path) -> Path:
    """Where a folder is once a `Trap` was opened."""
    return tmp_path / "sprung"


def test_the_trap_works(sprung: Path) -> None:
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists()


def pickled(trap: Trap, kind: str) -> bytes:
    if kind.startswith("protocol"):
        return pickle.dumps(trap, int(kind[-1]))
    if kind == "object array":
        buffer = io.BytesIO()
        np.save(buffer, np.array([trap], dtype=object), allow_pickle=True)
        return buffer.getvalue()
    if kind == "zlib":
        return zlib.compress(pickle.dumps(trap))
    buffer = io.BytesIO()
    joblib.dump(trap, buffer)
    return buffer.getvalue()


KINDS = ["protocol 0", "protocol 2", "protocol 5", "joblib", "zlib", "object array"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_pickle_is_opened_whatever_it_is_given_for(
    kind: str, sprung: Path, tmp_path: Path, sample_folder: Path
) -> None:
    trap = tmp_path / "trap"
    trap.write_bytes(pickled(Trap(sprung), kind))
    model, data = (str(sample_folder / f"sample_{name}") for name in ("model.txt", "data.csv"))
    budget = ["--norm", "inf", "--budget", "0.02"]
    for arguments in (
        ["verify", str(trap), data, *budget],
        ["verify", model, str(trap), *budget],
        ["verify", model, data, *budget, "--scale", str(trap)],
        ["verify", model, data, "--attacker", str(trap)],
        ["check", str(trap), model, data],
        ["info", str(trap)],
        ["convert", str(trap), str(tmp_path / "model.json")],
        ["train", str(trap), *budget],
    ):
        assert run(arguments) != 0, arguments
    with pytest.raises(ModelError):
        cg.load(trap)
    with pytest.raises(DataError):
        load_table(trap)
    with pytest.raises(CarveError):
        cg.Attacker.from_file(trap)
    with pytest.raises(carvegbm_check.RefusedError):
        carvegbm_check.check(str(trap), model, data)
    assert not sprung.exists()


def test_objects_in_an_archive_are_not_opened(sprung: Path, tmp_path: Path) -> None:
    traps = np.array([[Trap(sprung)]], dtype=object)
    for name, arrays in (
        ("x", {"X": traps, "y": [1]}),
        ("y", {"X": [[1.0]], "y": traps[0]}),
        ("names", {"X": [[1.0]], "y": [1], "feature_names": traps[0]}),
        ("sparse", dict.fromkeys(("format", "shape", "data", "indices", "indptr"), traps[0])),
    ):
        for save in (np.savez, np.savez_compressed):
            save(tmp_path / f"{name}.npz", **arrays)
            with pytest.raises(DataError, match="object"):
                load_table(tmp_path / f"{name}.npz")
    assert not sprung.exists()


def test_types_in_a_parquet_file_are_not_opened(sprung: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    kind = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Trap(sprung), 0),
    }
    schema = pa.schema([pa.field("a", pa.float64(), metadata=kind), ("y", pa.int64())])
    parquet.write_table(pa.table([[0.5], [1]], schema=schema), tmp_path / "data.parquet")
    try:
        load_table(tmp_path / "data.parquet")
    except DataError as error:
        assert "\n" not in str(error)  # noqa: PT017 - whether it is read is pyarrow's business
    assert not sprung.exists()


def test_a_pyarrow_that_opens_such_types_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"a": [0.5], "y": [1]}), tmp_path / "data.parquet")
    monkeypatch.setattr(pa, "__version__", "14.0.0")
    with pytest.raises(DataError, match=r"pyarrow 14\.0\.0 runs code .*; pip install"):
        load_table(tmp_path / "data.parquet")
    for version in ("14.0.1", "25.1.0.dev12+g1a2b3c"):
        monkeypatch.setattr(pa, "__version__", version)
        assert load_table(tmp_path / "data.parquet").y.tolist() == [1]


@pytest.mark.parametrize("place", [None, "numbers.bin", "../numbers.bin"])
def test_an_onnx_model_reads_no_other_file(
    place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = pytest.importorskip("onnx")
    from readers import onnx_graphs

    stump = {"feature": 0, "mode": "BRANCH_LEQ", "value": 0.5, "true": {0: -1.0}, "false": {0: 1.0}}
    made = onnx_graphs.regressor([stump], n_features=1, double=True)
    node = made.graph.node[0]
    tensors = [a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
    made.graph.initializer.add(name="one", data_type=onnx.TensorProto.FLOAT, dims=[1])
    for tensor in (*tensors, made.graph.initializer[0]):
        tensor.ClearField("double_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        if place is not None:
            tensor.external_data.add(key="location", value=place)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for folder in (".", ".."):
        Path(folder, "numbers.bin").write_bytes(struct.pack("<4d", *[0.25] * 4))
    Path("model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match="is in another file; save the model as one file"):
        cg.load("model.onnx")


def test_a_ubjson_file_holds_no_more_than_its_bytes() -> None:
    """Arrays of constants would take 20 times a million places from these few bytes."""
    content = b"{i\x01a[" + b"[$Z#l\x00\x0f\x42\x40" * 20 + b" " * 1_000_000 + b"]}"
    with pytest.raises(ModelError, match="elements do not fit into the file"):
        decode_ubjson(content)


WATCHED = """
import sys
import carvegbm as cg

watching, seen = False, []

def watch(event, arguments):
    if watching and event.partition(".")[0] in (
        "compile", "exec", "import", "open", "os", "pickle", "socket", "subprocess"
    ):
        seen.append((event, *map(str, arguments)))

sys.addaudithook(watch)
for path in sys.argv[1:]:
    cg.load(path)  # imports what it needs
    watching, seen = True, []
    cg.load(path)
    watching = False
    assert [entry[:2] for entry in seen] == [("open", path)], (path, seen)
"""


def test_reading_a_model_opens_its_file_and_does_nothing_else(tmp_path: Path) -> None:
    paths = []
    for number, content in enumerate(small_models.ALL.values()):
        paths.append(str(tmp_path / f"model{number}"))
        Path(paths[-1]).write_bytes(content)
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED, *paths], stderr=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
