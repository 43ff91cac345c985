"""Result files: written under a temporary name and renamed, so that a file is whole or absent.

A symbolic link stays one: its target is written. Only a finished result takes the name that the
user gave; what an interrupted run keeps goes to `NAME.partial` beside it.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from carvegbm.errors import CarveError

__all__ = [
    "RESULTS",
    "check_apart",
    "check_output",
    "finished_or_partial",
    "is_unfinished",
    "naming",
    "partial_path",
    "replacing",
    "save_result",
]

_UNFINISHED = (b"tree\nversion=", b'<!doctype html>\n<html lang="en">', b'{"report": ')
"""How the models and reports begin that an interrupted run leaves."""

RESULTS = (".json", ".csv", ".parquet")
"""How the name of a result's file may end."""


def check_output(path: Any, suffixes: tuple[str, ...] | None = RESULTS) -> Path:
    """Refuse, before any work is done, a path that could not be written in the end.

    With None for `suffixes` a name may end as it likes.
    """
    target = Path(path)
    if suffixes is not None and target.suffix not in suffixes:
        raise CarveError(f"{target}: cannot tell the format; end the name in {_list(suffixes)}")
    written = _written(target)
    if not written.parent.is_dir():
        raise CarveError(f"{target}: there is no folder {written.parent}; create it first")
    if target.is_dir():
        raise CarveError(f"{target} is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise CarveError(f"{target} is not a file that can be replaced; give another name")
    try:  # under the name it will be written under: one may be too long
        tempfile.NamedTemporaryFile(prefix=f".{written.name}.", dir=written.parent).close()
    except OSError as error:
        raise CarveError(f"cannot write {target}: {error.strerror}") from None
    if suffixes is not None and target.suffix == ".parquet":
        _pyarrow()
    return target


def check_apart(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Refuse, before any work is done, to write a file that is read, or one file twice.

    Both are paths by what a user calls them, or None. Two paths are one file also if links lead
    from one to the other.
    """
    given = {name: path for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        for other, taken in given.items():
            if _is_one_file(path, taken):
                raise CarveError(
                    f"{name} {path} would overwrite {other} {taken}; give another name"
                )
        given[name] = path


def _is_one_file(one: Any, other: Any) -> bool:
    try:
        return bool(os.path.samefile(one, other))
    except OSError:  # one of them is not there yet
        return len({os.path.normcase(os.path.realpath(path)) for path in (one, other)}) == 1


@contextmanager
def naming(path: Any, *aliases: Any) -> Iterator[None]:
    """An OSError from the block names `path` if it names no file, or one of the aliases."""
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
    """Whether the file is empty, or begins as an unfinished model or report does."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(max(map(len, _UNFINISHED)))
    return not beginning or beginning.startswith(_UNFINISHED)


def _written(path: Path) -> Path:
    """The file that is written: the target of a symbolic link, else the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def replacing(path: Any) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` when the block ends without an exception.

    If `path` is a symbolic link, its target is replaced, and the link stays.

    After an exception the temporary file is removed; an OSError names `path`. A process that is
    killed leaves the temporary file, `.NAME.` and eight random digits, which nothing reads.
    """
    target = Path(path)
    written = _written(target)
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
            table = _pyarrow().table(dict(columns))
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
