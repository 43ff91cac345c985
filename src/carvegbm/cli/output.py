"""Print tables for people, or one JSON document for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.errors import CarveError
from carvegbm.storage.files import naming
from carvegbm.storage.text import visible
from carvegbm.tables import text_table

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.model.ensemble import Ensemble


class Interrupted(BaseException):
    """A command was interrupted.

    The message says which files are kept, and which command continues the run. Not a
    KeyboardInterrupt: what cleans up after one must not catch it again.
    """


def with_progress(error: BaseException, progress: str) -> BaseException:
    """Return an error that ended a run, with what is kept of the run added to its message."""
    if isinstance(error, KeyboardInterrupt):
        return Interrupted(progress)
    if isinstance(error, OSError | CarveError):
        return CarveError(f"{reason(error)}; {progress}")
    return error


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; NaN and infinity become null."""
    say(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# ── tables ───────────────────────────────────────────────────────────────────────────────────


def print_table(title: str, rows: Sequence[tuple[str, ...]], align: str = "<>") -> None:
    """A table whose columns are aligned "<" left or ">" right; plain where no one looks."""
    rows = [tuple(map(visible, row)) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    needed = sum(widths) + 3 * len(widths)
    # Where a terminal is too narrow, it wraps long lines; rich would cut the cells.
    if sys.stdout.isatty() and needed <= get_terminal_size().columns:
        _print_rich(title, rows, align)
        return
    for line in (title, *text_table(rows, align, indent="  ")):
        say(line)


def _print_rich(title: str, rows: Sequence[tuple[str, ...]], align: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(visible(title)), title_justify="left", box=box.SIMPLE, show_header=False
    )
    for side in align:
        table.add_column(justify="right" if side == ">" else "left", no_wrap=side == ">")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row), style=_STYLES.get(row[0]))
    with naming("standard output"):
        Console().print(table)


_STYLES = {
    "robust": "green",
    "fragile": "red",
    "vulnerable": "yellow",
    "broken": "magenta",
    "unknown": "dim",
}


def say(text: str = "") -> None:
    """A line of what was asked for."""
    with naming("standard output"):
        print(visible(text))


def share(part: int, whole: int) -> str:
    """A percentage with one decimal."""
    return f"{100 * part / whole:.1f} %"


def robustness(lower: float, upper: float) -> str:
    """A share of which these bounds are known, in the paper's ± notation where they differ."""
    text = f"{50 * (lower + upper):.1f}"
    return f"{text} %" if lower == upper else f"{text} ± {50 * (upper - lower):.1f} %"


def number(value: float) -> str:
    """A number as people read it, six significant digits."""
    return f"{value:.6g}"


def reason(error: OSError | CarveError) -> str:
    """The file and what is wrong with it, where the error knows both."""
    if isinstance(error, CarveError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return where + (error.strerror or " ".join(map(str, error.args)))


def note(message: str) -> None:
    """One line for people, on stderr, so that stdout stays what was asked for."""
    print(visible(message), file=sys.stderr)


def model_title(model: str, ensemble: Ensemble) -> str:
    """A model in one line: its file and its size."""
    trees, features = counted(ensemble.n_trees, "tree"), counted(ensemble.n_features, "feature")
    return f"{model}: {ensemble.task}, {trees}, {features}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless it is one.

    Examples
    --------
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def judged(attacker: Attacker) -> str:
    """Return the end of a title: the attacker that a result is about."""
    return f", norm {attacker.norm}, budget {attacker.budget:g}"


def iterations(ensemble: Ensemble) -> dict[str, Any]:
    """The entry of a JSON document about the iterations of the model, if there is one."""
    used = ensemble.iterations
    return {} if used is None else {"iterations": used._asdict()}


def untouched(path: Path) -> str:
    """Return in words whether an output that was not written exists."""
    return f"{path} is unchanged" if path.exists() else f"{path} is not written"


def say_written(*paths: Path | None) -> None:
    """Say which files were written."""
    for path in paths:
        if path is not None:
            note(f"wrote {path}")
