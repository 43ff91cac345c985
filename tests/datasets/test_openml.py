"""Image sets from OpenML: scikit-learn's own code against a server that answers like OpenML."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import urllib.parse
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets._openml

from carvegbm import datasets
from carvegbm.errors import DataError
from datasets.small_files import write_idx
from plain_trees import refused

IDS = {"fmnist": 40996, "mnist": 554}


@pytest.fixture
def openml(server, monkeypatch):
    """Requests for OpenML go to the local server."""

    def redirected(request, *arguments, **named):
        path = urllib.parse.urlsplit(request.full_url).path
        headers = dict(request.header_items())
        return urllib.request.urlopen(
            urllib.request.Request(server.address + path, headers=headers), *arguments, **named
        )

    monkeypatch.setattr(sklearn.datasets._openml, "urlopen", redirected)
    return server


def publish(server, number: int, X: np.ndarray, y: np.ndarray, md5: str | None = None) -> None:
    names = [f"pixel{i + 1}" for i in range(X.shape[1])]
    nominal = "@ATTRIBUTE class {0,1,2,3,4,5,6,7,8,9}"
    kinds = [*(f"@ATTRIBUTE {name} REAL" for name in names), nominal]
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)]
    arff = "\n".join(["@RELATION images", *kinds, "@DATA", *lines, ""]).encode()
    flags = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
    features = [
        {"index": str(i), "name": name, "data_type": "numeric", "is_target": "false", **flags}
        for i, name in enumerate(names)
    ]
    features.append(
        {"index": str(len(names)), "name": "class", "data_type": "nominal", "is_target": "true"}
        | {"nominal_values": [str(i) for i in range(10)]}
        | flags
    )
    description = {
        "id": str(number),
        "name": "images",
        "version": "1",
        "description": "",
        "format": "ARFF",
        "status": "active",
        "file_id": str(number),
        "url": f"https://www.openml.org/data/v1/download/{number}/images.arff",
        "md5_checksum": md5 or hashlib.md5(arff).hexdigest(),
    }
    quality = [{"name": "NumberOfInstances", "value": str(len(y))}]
    api = "/api/v1/json/data"
    answers = {
        f"{api}/{number}": {"data_set_description": description},
        f"{api}/features/{number}": {"data_features": {"feature": features}},
        f"{api}/qualities/{number}": {"data_qualities": {"quality": quality}},
    }
    server.has |= {path: json.dumps(answer).encode() for path, answer in answers.items()}
    # Versions of scikit-learn differ in which of the two addresses they take the data from.
    server.has[f"/data/v1/download/{number}/images.arff"] = arff
    server.has[f"/data/v1/download/{number}"] = arff


@pytest.fixture
def small(openml, catalogued, tmp_path):
    """Both image sets are published in small; the same rows lie in a folder as idx files."""
    for name, place in (("fmnist", "fashion-mnist"), ("mnist", "mnist")):
        X, y = write_idx(tmp_path / "idx" / place)
        publish(openml, IDS[name], X, y)
        catalogued(name, rows=20, others=100)
    return tmp_path / "idx"


@pytest.mark.parametrize("name", ["fmnist", "mnist"])
def test_openml_gives_what_the_idx_files_give(name, small):
    local = datasets.load(name, folder=small, download=False)
    data = datasets.load(name)
    assert np.array_equal(data.X, local.X)
    assert np.array_equal(data.y, local.y)
    assert data.title == local.title
    assert data.source == f"https://www.openml.org/d/{IDS[name]}"


@pytest.mark.usefixtures("small")
def test_second_call_uses_the_cache_without_network(openml, cache: Path):
    first = datasets.load("mnist")
    asked = list(openml.asked)
    openml.has.clear()
    assert np.array_equal(datasets.load("mnist").X, first.X)
    assert openml.asked == asked
    assert {"mnist.npz", "mnist.npz.sha256"} <= set(os.listdir(cache))


@pytest.mark.usefixtures("small")
def test_cached_file_that_has_changed_is_removed(cache: Path):
    datasets.load("mnist")
    kept = cache / "mnist.npz"
    kept.write_bytes(kept.read_bytes() + b"x")
    with refused(str(kept), "removed", kind=DataError):
        datasets.load("mnist")
    assert len(datasets.load("mnist").y) == 20


def test_openml_s_checksum_is_compared(openml, catalogued, tmp_path, cache: Path):
    X, y = write_idx(tmp_path / "mnist")
    publish(openml, 554, X, y, md5="0" * 32)
    catalogued("mnist", rows=20, others=100)
    with refused("mnist", "openml.org/d/554", "md5", "CARVEGBM_DATA", kind=DataError):
        datasets.load("mnist")
    assert not (cache / "mnist.npz").exists()


def test_openml_that_is_down_is_named_with_the_remedy_and_without_warnings(
    monkeypatch, cache: Path, tmp_path
):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    def nobody(*_: object, **__: object) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{port}")

    monkeypatch.setattr(sklearn.datasets._openml, "urlopen", nobody)
    monkeypatch.setattr("time.sleep", lambda _: None)
    before = socket.getdefaulttimeout()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused("fmnist", "openml.org/d/40996", "refused", "fashion-mnist/", "CARVEGBM_DATA"):
            datasets.load("fmnist")
        with refused("fmnist", "openml.org/d/40996", "refused", f"folder {tmp_path}"):
            datasets.load("fmnist", folder=tmp_path)
    assert socket.getdefaulttimeout() == before
    assert not (cache / "fmnist.npz").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X[:90], y[:90]), ["(90, 784)", "(100, 784)"]),
        (lambda X, y: (X[:, :700], y), ["(100, 700)", "(100, 784)"]),
        (lambda X, y: (X, np.where(y == 2, 3, y)), ["10 rows of the two classes", "20"]),
        (lambda X, y: (X + 0.5, y), ["not whole numbers"]),
    ],
)
def test_other_data_than_the_published_is_refused_and_not_kept(
    change, words, openml, catalogued, tmp_path, cache: Path
):
    publish(openml, 554, *change(*write_idx(tmp_path / "mnist")))
    catalogued("mnist", rows=20, others=100)
    with refused("mnist", "openml.org/d/554", *words, "CARVEGBM_DATA", kind=DataError):
        datasets.load("mnist")
    assert not (cache / "mnist.npz").exists()


@pytest.mark.usefixtures("small")
def test_sign_of_life_is_shown_on_request_only(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws as if on a terminal
    datasets.load("mnist", progress=False)
    assert capsys.readouterr().err == ""
    datasets.load("fmnist", progress=True)
    assert "Fashion-MNIST" in capsys.readouterr().err
