"""All commands as one application; errors become one line on stderr and an exit code.

docs/command-line.md lists the exit codes.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from carvegbm.cli import (
    attack,
    attacker,
    check,
    convert,
    demo,
    explain,
    info,
    radius,
    report,
    reproduce,
    spread,
    train,
    tune,
    verify,
)
from carvegbm.cli.shared import output
from carvegbm.errors import CarveError
from carvegbm.storage.files import naming

__all__ = ["app", "run"]

app = typer.Typer(
    name="carvegbm",
    help="Exact robustness verification of tree ensembles.",
    epilog="Try it on the model and data that ship with the package: "
    "carvegbm verify sample --norm inf --budget 0.02",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    verify,
    check,
    attack,
    radius,
    report,
    explain,
    attacker,
    spread,
    info,
    convert,
    train,
    tune,
    demo,
    reproduce,
):
    command.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"carvegbm {version('carvegbm')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    try:
        code: Any = app(args=given or ["--help"], prog_name="carvegbm", standalone_mode=False)
        with naming("standard output"):
            sys.stdout.flush()
        if code == 130:  # typer returns this code for KeyboardInterrupt
            return _fail("interrupted", 130)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130)
    except output.Interrupted as interruption:
        return _fail(f"interrupted; {interruption}", 130)
    except BrokenPipeError:
        _forget_output()  # its reader has closed it
        return 2
    except CarveError as error:
        return _fail(str(error), 2)
    except OSError as error:
        if error.filename == "standard output":
            _forget_output()
        return _fail(output.reason(error), 2)
    except MemoryError:
        return _fail("out of memory; try fewer rows (--rows)", 2)
    except Exception as error:
        if hasattr(error, "format_message"):  # how the parser of the command line says "wrong use"
            return _fail(error.format_message(), 2)
        if _follows_interrupt(error):
            return _fail("interrupted", 130)
        traceback.print_exc()
        return _fail("this is a bug; please report it with the lines above", 2)


def _follows_interrupt(error: BaseException | None) -> bool:
    """Whether an error arose while KeyboardInterrupt was handled, as in a library's clean-up."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _forget_output() -> None:
    """Drop what standard output did not take: the interpreter must not fail flushing it either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line for people, without the place in the source that gave it."""
    output.note(f"carvegbm: warning: {' '.join(str(message).split())}")


def _fail(message: str, code: int) -> int:
    output.note(f"carvegbm: {' '.join(message.split())}")
    return code
