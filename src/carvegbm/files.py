"""Results as files: written under a temporary name and renamed, so that none is ever half there."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from carvegbm.errors import CarveError

__all__ = ["check_output", "replacing", "save_result"]

_SUFFIXES = (".json", ".csv", ".parquet")


def check_output(path: Any, suffixes: tuple[str, ...] = _SUFFIXES) -> Path:
    """Refuse, before any work is done, a path that could not be written in the end."""
    target = Path(path)
    if target.suffix not in suffixes:
        raise CarveError(f"{target}: cannot tell the format; end the name in {_list(suffixes)}")
    if not target.parent.is_dir():
        raise CarveError(f"{target}: there is no folder {target.parent}; create it first")
    if target.is_dir():
        raise CarveError(f"{target} is a folder; give the name of a file")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise CarveError(f"cannot write {target}: {error.strerror}") from None
    if target.suffix == ".parquet":
        _pyarrow()
    return target


@contextmanager
def replacing(path: Any) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise CarveError(f"cannot write {target}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def save_result(
    path: Any, to_dict: Callable[[], dict[str, Any]], columns: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write a result as JSON (`to_dict`), or its per-instance columns as CSV or Parquet."""
    target = check_output(path)
    with replacing(target) as temporary:
        if target.suffix == ".json":
            text = json.dumps(to_dict(), allow_nan=False, indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")
        elif target.suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(["instance", *columns])
                rows = zip(*(column.tolist() for column in columns.values()), strict=True)
                writer.writerows([index, *row] for index, row in enumerate(rows))
        else:
            table = _pyarrow().table({name: column.tolist() for name, column in columns.items()})
            from pyarrow import parquet

            parquet.write_table(table, temporary)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise CarveError("Parquet needs pyarrow; pip install 'carvegbm[parquet]'") from None
    return pyarrow


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else names[0]
