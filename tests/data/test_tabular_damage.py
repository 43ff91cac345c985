"""A damaged table is refused in one line; it is never read as other data than was written."""

from __future__ import annotations

import datetime
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from carvegbm.data.files import load_table
from carvegbm.errors import DataError

X = np.random.default_rng(0).random((30, 4))
y = np.arange(30) % 2
FILES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def packed(save: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, X=X, y=y)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


STORED, DEFLATED = packed(np.savez), packed(np.savez_compressed)
LINES = [
    f"{label} " + " ".join(f"{i + 1}:{v!r}" for i, v in enumerate(row.tolist()))
    for row, label in zip(X, y, strict=True)
]
GZIPPED = gzip.compress("\n".join(LINES).encode(), mtime=0)


def refusal(path: Path | str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load_table(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ── archives and arrays ──────────────────────────────────────────────────────────────────────


@FILES
@given(
    content=st.sampled_from([STORED, DEFLATED, GZIPPED]),
    place=st.floats(0, 1, exclude_max=True),
    flip=st.integers(1, 255),
)
@example(content=STORED, place=0.3, flip=1)  # within X
@example(content=STORED, place=0.85, flip=1)  # within y
def test_a_changed_byte_is_noticed_or_does_not_matter(
    tmp_path: Path, content: bytes, place: float, flip: int
) -> None:
    damaged = bytearray(content)
    damaged[int(place * len(content))] ^= flip
    path = tmp_path / "table"
    path.write_bytes(damaged)
    try:
        table = load_table(path)
    except DataError as error:
        message = str(error)
    else:
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.y, y)
        return
    assert "\n" not in message


@pytest.mark.parametrize("content", [STORED, DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("key", ["X", "y"])
def test_member_that_does_not_fit_its_checksum_is_refused(
    tmp_path: Path, content: bytes, key: str
) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        info = archive.getinfo(f"{key}.npy")
    damaged = bytearray(content)
    damaged[info.header_offset + 30 + len(info.filename) + info.compress_size - 3] ^= 1
    (tmp_path / "a.npz").write_bytes(damaged)
    assert "a.npz" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("left", [5, 60, 128, 500, -8, -1])
def test_truncated_array_is_refused(tmp_path: Path, left: int) -> None:
    (tmp_path / "X.npy").write_bytes(npy(X)[:left])
    (tmp_path / "y.npy").write_bytes(npy(y))
    assert "X.npy" in refusal(tmp_path / "X.npy")


@pytest.mark.parametrize("damage", ["truncated", "checksum"])
def test_damage_at_the_end_of_a_compressed_array_is_noticed(tmp_path: Path, damage: str) -> None:
    content = bytearray(gzip.compress(npy(X), mtime=0))
    if damage == "truncated":
        del content[-9:]
    else:
        content[-6] ^= 1
    (tmp_path / "X.npy.gz").write_bytes(content)
    (tmp_path / "y.npy").write_bytes(npy(y))
    assert "X.npy.gz" in refusal(f"{tmp_path / 'X.npy.gz'},{tmp_path / 'y.npy'}")


def test_parquet_page_that_does_not_fit_its_checksum_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{i}": X[:, i] for i in range(4)} | {"label": y}
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", **options)
    np.testing.assert_array_equal(load_table(tmp_path / "a.parquet").X, X)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[content.index(X[7, 2].tobytes())] ^= 1
    (tmp_path / "a.parquet").write_bytes(content)
    assert "damaged" in refusal(tmp_path / "a.parquet")


# ── values that are no numbers ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (np.array(["2024-01-01"] * 30, dtype="datetime64[D]"), "dates"),
        (np.arange(30).astype("timedelta64[s]"), "durations"),
        (np.full(30, 2**53 + 1), str(2**53 + 1)),
        (np.full(30, 1j), "complex"),
    ],
    ids=["dates", "durations", "beyond doubles", "complex"],
)
def test_array_of_other_values_is_refused(tmp_path: Path, values: Any, word: str) -> None:
    np.savez(tmp_path / "a.npz", X=np.stack([values, values], axis=1), y=y)
    assert word in refusal(tmp_path / "a.npz")


def test_parquet_column_of_other_values_is_refused_by_name(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for word, values in {
        "str": ["1", "2"],
        "categories": pyarrow.array(["a", "b"]).dictionary_encode(),
        "dates": [datetime.datetime(2024, 1, 1)] * 2,
        str(2**53 + 1): [2**53 + 1, None],
    }.items():
        table = pyarrow.table({"a": [0.5, 1.5], "b": values, "label": [0, 1]})
        parquet.write_table(table, tmp_path / "a.parquet")
        message = refusal(tmp_path / "a.parquet")
        assert "a.parquet, column 'b'," in message
        assert word in message


# ── LIBSVM ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n0 2147483648:1\n", "too large"),
        (f"1 {'9' * 5000}:1\n", "not LIBSVM text"),
        ("1 1:2\n0 2000000000:1\n", "index 2000000000 asks for more than 16777216 columns"),
        ("1 -1:2\n", "Invalid index -1"),
        ("1 1.5:2\n", "'1.5'"),
        ("1 1:1_0\n", "underscore"),
        ("1 1:2 1:3\n", "sorted and unique"),
        ("1 1:2:3\n", "'2:3'"),
        ("1 1:2\nnan 1:2\n", "the label of row 2 is nan"),
    ],
)
def test_libsvm_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a").write_text(text)
    assert message in refusal(tmp_path / "a")


def test_underscore_in_a_comment_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 1:2 # row_1\n0 2:3\n")
    assert load_table(tmp_path / "a").X.tolist() == [[2, 0], [0, 3]]
