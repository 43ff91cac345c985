"""Tables in Parquet files, read with pyarrow.

Comes in: an open file. Goes out: numbers, labels, names, and columns of texts where these are asked
for.
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from carvegbm.errors import DataError
from carvegbm.instances import text as _text
from carvegbm.instances.frames import frame_numbers

__all__ = ["read_parquet"]

_WORDS = ("string", "large_string", "string_view", "dictionary")


def read_parquet(name: str, file: IO[bytes], label: str | int | None, texts: bool) -> _text.Parts:
    """Features, labels, feature names, label name and texts, as `carvegbm.instances.text` does."""
    content = _content(name, file)
    places = [
        place
        for place, column in enumerate(content.column_names)
        if not column.startswith("__index_level_")
    ]
    names = [content.column_names[place] for place in places]
    at = _text.label_column(name, names, len(names), label)
    y = content.column(places.pop(at))
    label_name = names.pop(at)
    if y.null_count:
        raise DataError(f"{name}: column {label_name!r}: {y.null_count} labels are missing")
    wordy = [i for i, place in enumerate(places) if texts and _has_words(content.column(place))]
    numeric = [i for i in range(len(places)) if i not in wordy]
    numbers = content.select([places[i] for i in numeric])
    X = frame_numbers(numbers, [names[i] for i in numeric], name)
    if wordy:
        X, some = np.full((len(y), len(places)), np.nan), X
        X[:, numeric] = some
    found = {i: content.column(places[i]).to_pylist() for i in wordy}
    return X, np.array(y.to_pylist()), tuple(names), label_name, found


def _content(name: str, file: IO[bytes]) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f'{name}: reading Parquet needs pyarrow; pip install "carvegbm[parquet]"'
        ) from None
    # Pages carry checksums where the writer was asked for them; before version 13 none are read.
    options = {"page_checksum_verification": True}
    if int(pyarrow.__version__.split(".")[0]) < 13:
        options = {}
    try:
        return pyarrow.parquet.read_table(file, **options)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{name}: damaged Parquet file: {error}") from None


def _has_words(column: Any) -> bool:
    """Whether the values are texts, as they are or behind codes."""
    kind = getattr(column.type, "value_type", column.type)
    return str(kind) in _WORDS
