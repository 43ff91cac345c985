"""Output files: written under a temporary name and renamed, so that they are whole or absent.

Only a finished result gets the name the user gave; what an interrupted run leaves is written to
`NAME.partial` beside it. If the name is a symbolic link, its target is written.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from carvegbm.errors import CarveError

__all__ = [
    "RESULTS",
    "check_apart",
    "check_output",
    "csv_writer",
    "finished_or_partial",
    "is_unfinished",
    "make_folder",
    "naming",
    "partial_path",
    "replacing",
    "save_result",
]

Columns = Mapping[str, npt.NDArray[Any]]

RESULTS = (".json", ".csv", ".parquet")
"""Suffixes of result files."""

_UNFINISHED = (b"tree\nversion=", b'<!doctype html>\n<html lang="en">', b'{"report": ')
"""How the models and reports begin that an interrupted run leaves."""


def check_output(path: Any, suffixes: tuple[str, ...] | None = RESULTS) -> Path:
    """Return the path; raise CarveError if it could not be written. None allows any suffix."""
    target = Path(path)
    if suffixes is not None and target.suffix not in suffixes:
        choices = " or ".join(", ".join(suffixes).rsplit(", ", 1))
        raise CarveError(f"{target}: cannot tell the format; end the name in {choices}")
    written = _link_target(target)
    if not written.parent.is_dir():
        raise CarveError(f"{target}: there is no folder {written.parent}; create it first")
    if target.is_dir():
        raise CarveError(f"{target} is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise CarveError(f"{target} is not a file that can be replaced; give another name")
    try:  # a name of the length that `replacing` uses, which may be too long
        tempfile.NamedTemporaryFile(prefix=f".{written.name}.", dir=written.parent).close()
    except OSError as error:
        raise CarveError(f"cannot write {target}: {error.strerror}") from None
    if suffixes is not None and target.suffix == ".parquet":
        _pyarrow()
    return target


def check_apart(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Raise CarveError if an output is an input, or two outputs are one file, also through links.

    Both map option names to paths or None.
    """
    given = {name: path for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        for other, taken in given.items():
            if _is_same_file(path, taken):
                raise CarveError(
                    f"{name} {path} would overwrite {other} {taken}; give another name"
                )
        given[name] = path


def _is_same_file(one: Any, other: Any) -> bool:
    try:
        return bool(os.path.samefile(one, other))
    except OSError:  # one of them does not exist yet
        return bool(os.path.realpath(one) == os.path.realpath(other))


@contextmanager
def naming(path: Any, *aliases: Any) -> Iterator[None]:
    """Set the file name of an OSError from the block to `path` if it has none, or an alias."""
    try:
        yield
    except OSError as error:
        of_network = isinstance(error, ConnectionError | TimeoutError)
        if not of_network and error.filename in (None, *map(str, aliases)):
            error.filename = str(path)
        raise


def partial_path(output: Path) -> Path:
    """Return `NAME.partial`: where a run that writes NAME keeps its unfinished work."""
    return output.with_name(output.name + ".partial")


@contextmanager
def finished_or_partial(output: Path, finished: bool) -> Iterator[Path]:
    """Yield the path to write a result to: `output`, or its `NAME.partial` if it is unfinished.

    Once a finished result is written, the `NAME.partial` of an earlier run is removed; a file of
    that name that carvegbm did not write stays.
    """
    if not finished:
        yield partial_path(output)
        return
    yield output
    if is_unfinished(partial_path(output)):
        partial_path(output).unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Return whether the file is empty, or begins as an unfinished model or report does."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(max(map(len, _UNFINISHED)))
    return not beginning or beginning.startswith(_UNFINISHED)


def _link_target(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def replacing(path: Any) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` when the block ends without an exception.

    After an exception the temporary file is removed; an OSError names `path`. A process that is
    killed leaves the temporary file, `.NAME.` and eight random digits, which nothing reads.
    """
    target = Path(path)
    written = _link_target(target)
    temporary = written.with_name(f".{written.name}.{secrets.token_hex(4)}")
    try:
        try:
            temporary.touch(exist_ok=False)
        except OSError as error:
            raise CarveError(f"cannot write {target}: {error.strerror}") from None
        with naming(target, temporary):
            yield temporary
            temporary.replace(written)
    finally:
        with suppress(OSError):
            temporary.unlink()


def make_folder(folder: Path) -> None:
    """Create a folder and its parents unless they exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CarveError(f"{folder}: cannot make the folder: {error.strerror}") from None


@contextmanager
def csv_writer(path: Path, names: Iterable[str]) -> Iterator[Callable[[Columns], None]]:
    """Yield a function that appends columns of these names, as rows numbered from 0."""
    names = list(names)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["instance", *names])
        index = itertools.count()

        def write(columns: Columns) -> None:
            rows = zip(*(columns[name].tolist() for name in names), strict=True)
            writer.writerows([next(index), *row] for row in rows)

        yield write


def save_result(path: Any, to_dict: Callable[[], dict[str, Any]], columns: Columns) -> None:
    """Write a result as JSON (`to_dict`), or its per-row columns as CSV or Parquet."""
    target = check_output(path)
    with replacing(target) as temporary:
        if target.suffix == ".json":
            text = json.dumps(to_dict(), allow_nan=False, indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")
        elif target.suffix == ".csv":
            with csv_writer(temporary, columns) as write:
                write(columns)
        else:
            table = _pyarrow().table(dict(columns))
            from pyarrow import parquet

            parquet.write_table(table, temporary)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise CarveError("Parquet needs pyarrow; pip install 'carvegbm[parquet]'") from None
    return pyarrow
