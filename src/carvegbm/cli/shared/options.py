"""The arguments and options the commands share, and how their text becomes values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import typer

from carvegbm.errors import CarveError, DataError
from carvegbm.storage.files import naming


def number(text: str) -> float:
    """A number that an option is given."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a whole number of at least 1")
    return int(text)


def whole(text: str | int) -> int:
    """A whole number that an option is given, or has by default."""
    if not str(text).isdecimal():
        raise typer.BadParameter(f"{text!r} is not a whole number of at least 0")
    return int(text)


def integer(text: str | int) -> int:
    """An integer that an option is given, or has by default."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number, got {text!r}") from None


def _trees(text: str) -> str:
    if text not in ("all", "best") and not (text.isdecimal() and int(text) > 0):
        raise typer.BadParameter(f"must be all, best or a whole number >= 1, got {text!r}")
    return text


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="LightGBM, XGBoost, CatBoost, ONNX, .silva or carvegbm JSON file, or the word sample.",
        show_default=False,
    ),
]
Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, LIBSVM, .npz, .npy or Parquet file with labels, or the word sample.",
        show_default=False,
    ),
]
DataFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, LIBSVM, .npz, .npy or Parquet file with labels, or the word sample; several of "
        "them, a folder or a pattern ('part-*.parquet') are gone through file by file.",
        show_default=False,
    ),
]
AttackerFile = Annotated[
    Path | None,
    typer.Option(
        "--attacker",
        metavar="FILE",
        help="The attacker, as TOML or JSON; --norm and --budget override its own.",
    ),
]
Norm = Annotated[
    str | None,
    typer.Option(metavar="P", help="Norm of the attacker: 0, 1, 2, …, inf; default inf."),
]
Budget = Annotated[
    float | None,
    typer.Option(metavar="K", parser=number, help="Budget of the attacker; needed."),
]
OptionalBudget = Annotated[
    float | None,
    typer.Option(metavar="K", parser=number, help="Is the model large-spread for this budget?"),
]
MaxBudget = Annotated[
    float | None, typer.Option(metavar="K", parser=number, help="Look no further than this.")
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Label column by name or position (0 first, -1 last)."),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="The data's labels in the order of the model's outputs, e.g. -1,1."
    ),
]
NFeatures = Annotated[
    int | None,
    typer.Option(
        metavar="N", parser=_count, help="Number of features, for an ONNX model that lacks it."
    ),
]
Trees = Annotated[
    str | None,
    typer.Option(
        "--trees",
        metavar="all|best|N",
        parser=_trees,
        help="Boosting iterations of the model to use: all, those up to the best one of early "
        "stopping, or the first N; by default those that its library's estimator uses.",
    ),
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="Where LIBSVM indices start; by default at 0 iff index 0 occurs.",
        show_default=False,
    ),
]
Absent = Annotated[
    Literal["zero", "missing"] | None,
    typer.Option(
        help="What LIBSVM text and sparse matrices leave out; by default zero in the text, and in "
        "a matrix what the model's library takes it for.",
    ),
]
RowCount = Annotated[
    int | None, typer.Option(metavar="N", parser=_count, help="Take only the first N instances.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="Unit of distance: one number, one per feature separated by commas, or a file.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(metavar="F,G", help="Only these features may be changed, by name or position."),
]
Bounds = Annotated[
    str | None,
    typer.Option(
        metavar="LO,HI",
        help="Changed values stay within these bounds: two numbers, or a file with a line "
        "'lo hi' per feature.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", parser=_count, help="Threads to use; by default all cores."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE|FOLDER/",
        help="Write the result: .json, .csv or .parquet; or a folder, with a file per file of "
        "DATA, which need not fit into memory then.",
    ),
]
Form = Annotated[
    Literal["parquet", "csv"] | None,
    typer.Option("--format", help="Of the files in the folder --output; by default parquet."),
]
Witnesses = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npz", help="Write the witnesses and their distances."),
]
Proof = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write proofs of all statuses, for carvegbm check or anyone else."
    ),
]
Method = Annotated[
    Literal["efficient", "basic"], typer.Option(help="Algorithm; both give the same answers.")
]
Grid = Annotated[
    int | None,
    typer.Option(
        metavar="L",
        parser=whole,
        help="Conservative mode: round costs to L decimals, never optimistic.",
    ),
]
ExactMargin = Annotated[
    bool,
    typer.Option(
        "--exact-margin",
        help="Find worst margins, and not only their signs; takes longer.",
    ),
]
OnViolation = Annotated[
    Literal["raise", "unknown"] | None,
    typer.Option(
        help="Use the large-spread engine only; if the model is not large-spread: stop, or say "
        "unknown for the rows concerned."
    ),
]
Engine = Annotated[
    Literal["auto", "large-spread", "search"],
    typer.Option(help="Who decides; auto takes the fastest that can."),
]
Timeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", parser=number, help="Time limit per instance."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the interrupted run that --output began.")
]
ResumeFolder = Annotated[
    bool,
    typer.Option("--resume", help="Continue the interrupted run that --output FOLDER/ began."),
]


def norm(text: str | None) -> float | str | None:
    """The norm as a number where it is one; `Attacker` judges it."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def names(text: str | None) -> list[Any] | None:
    """Labels separated by commas, as numbers where all of them are."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    for kind in (int, float):
        try:
            return [kind(part) for part in parts]
        except ValueError:
            continue
    return list(parts)


def features(text: str | None) -> list[int | str] | None:
    """Features by position or by name, as `Attacker` takes them."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if part.isdecimal() else part for part in parts]


def is_numbers(text: str) -> bool:
    """Whether the text is numbers separated by commas, and not the name of a file of them."""
    try:
        return bool([float(part) for part in text.split(",")])
    except ValueError:
        return False


def numbers(text: str, option: str) -> npt.NDArray[np.float64]:
    """Numbers separated by commas, or those in a text or .npy file."""
    if is_numbers(text):
        return np.array([float(part) for part in text.split(",")])
    if not Path(text).is_file():
        raise DataError(f"{option} {text}: neither numbers separated by commas nor a file")
    try:
        with naming(text), open(text, "rb") as file:
            is_npy = file.read(6) == b"\x93NUMPY"
        if is_npy:
            return np.asarray(np.load(text, allow_pickle=False), dtype=np.float64)
        with naming(text):
            content = Path(text).read_text(encoding="utf-8-sig")
        content = content.replace(",", " ").replace(";", " ")
        return np.loadtxt(content.splitlines(), dtype=np.float64)
    except CarveError:
        raise
    except ValueError as error:
        raise DataError(f"{option} {text}: {error}") from None


def scale(text: str | None) -> float | npt.NDArray[np.float64] | None:
    """One number for all features, or one per feature."""
    if text is None:
        return None
    values = numbers(text, "--scale")
    return float(values.reshape(-1)[0]) if values.size == 1 else values


def bounds(text: str | None) -> tuple[Any, Any] | None:
    """Lowest and highest value: two numbers, or two arrays with one per feature."""
    if text is None:
        return None
    values = numbers(text, "--bounds")
    if values.shape == (2,):
        return float(values[0]), float(values[1])
    if values.ndim != 2 or values.shape[1] != 2:
        raise DataError(f"--bounds {text}: give LO,HI, or a file with a line 'lo hi' per feature")
    return values[:, 0], values[:, 1]
