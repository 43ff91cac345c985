"""`load` recognises files by content and objects by package, and refuses anything else."""

from __future__ import annotations

import gzip
import subprocess
import sys

import numpy as np
import pytest

from carvegbm import Ensemble, load
from carvegbm.errors import ModelError
from readers import small_models

STUMP = {"feature": 0, "threshold": 0.5, "left": {"score": -1.0}, "right": {"score": 1.0}}
X = np.array([[-0.5, 0.5, 0.0], [-0.4, 0.8, 2.0], [np.nan, np.nan, np.nan]])


@pytest.fixture
def write(tmp_path):
    def write_bytes(content):
        path = tmp_path / "model"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_bytes


def refusal(path, **options):
    with pytest.raises(ModelError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_an_ensemble_is_returned_as_it_is():
    ensemble = Ensemble.from_trees([STUMP], n_features=1)
    assert load(ensemble) is ensemble
    assert load(ensemble, n_features=1) is ensemble


def test_classes_name_the_outputs_of_an_ensemble_and_leave_it_alone():
    ensemble = Ensemble.from_trees([STUMP], n_features=1, threshold=0.5)
    named = load(ensemble, classes=["no", "yes"])
    assert named.decide([[0.0], [1.0]]).tolist() == ["no", "yes"]
    assert named.threshold == 0.5
    assert ensemble.classes.tolist() == [0, 1]
    assert named == Ensemble.from_trees([STUMP], n_features=1, threshold=0.5, classes=["no", "yes"])


def test_classes_and_n_features_that_do_not_fit_an_ensemble_are_refused():
    three = {**STUMP, "left": {"score": [1, 2, 3]}, "right": {"score": [3, 2, 1]}}
    for tree, classes in ((STUMP, "abc"), (STUMP, [1, 1]), (three, [1, 2])):
        ensemble = Ensemble.from_trees([tree], n_features=1)
        with pytest.raises(ModelError, match=r"Ensemble: classes must be . different labels"):
            load(ensemble, classes=list(classes))
        with pytest.raises(ModelError, match="Ensemble: has 1 features, not n_features=2"):
            load(ensemble, n_features=2)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LightGBM text", [[0.001, 0.125], [-0.25, 0.125], [-0.25, 0.125]]),
        ("XGBoost JSON", [-0.25, 0.25, -0.25]),
        ("XGBoost UBJSON", [-0.25, 0.25, -0.25]),
        ("CatBoost JSON of other trees", [-0.75, 1.25, 1.25]),
        ("Ensemble JSON", [-0.125, 1.875, -0.125]),
    ],
)
def test_files_are_recognised_by_content(name, expected, packed, write):
    content = small_models.ALL[name]
    ensemble = load(write(gzip.compress(content) if packed else content))
    base = {"XGBoost JSON": 0.3, "XGBoost UBJSON": 0.3}.get(name)
    logit = np.log(base / (1 - base)) if base else 0.0
    raw = ensemble.raw_score(X[:, : ensemble.n_features])
    np.testing.assert_allclose(raw, np.array(expected) + logit, rtol=1e-6)


def test_no_library_is_needed_to_read_its_files(tmp_path):
    for number, content in enumerate(small_models.ALL.values()):
        (tmp_path / f"{number:02}").write_bytes(content)
    code = (
        "import sys\n"
        "for name in ('lightgbm', 'sklearn', 'xgboost', 'catboost'): sys.modules[name] = None\n"
        "from carvegbm import load\n"
        "print(*(load(path).n_trees for path in sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2", "1", "1", "2", "2", "2", "2", "1"]


@pytest.mark.parametrize("name", small_models.ALL)
def test_every_truncation_is_refused_or_harmless(name, write):
    content = small_models.ALL[name]
    whole = load(write(content))
    step = max(1, len(content) // 60)
    for size in range(0, len(content) - 1, step):
        try:
            assert load(write(content[:size])) == whole  # only what follows the trees is lost
        except ModelError:
            assert refusal(write(content[:size]))


def test_missing_empty_and_unreadable_files(tmp_path, write):
    assert refusal(tmp_path / "absent") == "no such file"
    assert refusal(str(tmp_path / "absent")) == "no such file"
    assert refusal(tmp_path).startswith("cannot be read")
    assert refusal(write(b"")) == "the file is empty"
    assert refusal(write(b" \n\n")) == "the file is empty"
    assert refusal(write(gzip.compress(b""))) == "the file is empty"
    assert "damaged" in refusal(write(gzip.compress(small_models.SILVA)[:-9]))
    broken = bytearray(gzip.compress(small_models.LIGHTGBM))
    broken[30] ^= 255
    assert "damaged" in refusal(write(bytes(broken)))


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        b"\x00\x01\x02",
        b"a,b,c\n1,2,3\n",
        b"PK\x03\x04",
        b"\xff\xfe\x00",
        b"binf",
        b"x" * 999,
    ],
)
def test_anything_else_is_refused_with_what_can_be_read(content, write):
    assert refusal(write(content))


def test_objects_of_other_kinds_are_refused_by_name():
    for source in (42, None, [1, 2], {"learner": {}}, np.zeros(3)):
        with pytest.raises(ModelError, match=f"cannot read a model from .*{type(source).__name__}"):
            load(source)


def test_the_old_binary_format_of_xgboost_is_refused_with_the_remedy(write):
    for start in (b"", b"binf"):
        file = write(start + bytes(136 + 8) + b"binary:logistic" + bytes(64))
        assert "old binary format, which is not read; save the model with" in refusal(file)
