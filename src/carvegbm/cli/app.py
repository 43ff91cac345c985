"""All commands as one application; errors become one line on stderr and an exit code.

docs/command-line.md lists the exit codes.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import click

from carvegbm.cli import attacker, demo, models, output, report, reproduce, train, verify
from carvegbm.cli.options import HELP, HELP_NAMES
from carvegbm.errors import CarveError
from carvegbm.storage.files import naming

__all__ = ["app", "run"]


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"carvegbm {version('carvegbm')}")
        ctx.exit()


class _Group(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_help_option(self, _ctx: click.Context) -> click.Option:
        return HELP

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            sentences = (
                (name, str(it.help).split("\n\n")[0]) for name, it in self.commands.items()
            )
            formatter.write_dl(list(sentences))


app = _Group(
    "carvegbm",
    help="Exact robustness verification of tree ensembles.",
    epilog="Try it on the model and data that ship with the package: "
    "carvegbm verify sample --norm inf --budget 0.02",
    context_settings=HELP_NAMES,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version.",
        )
    ],
)
for command in (
    verify.verify,
    models.check,
    verify.attack,
    verify.radius,
    report.report,
    verify.explain,
    attacker.attacker,
    models.spread,
    models.info,
    models.convert,
    train.train,
    train.tune,
    demo.demo,
    reproduce.reproduce,
):
    app.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    try:
        code = _invoke(given or ["--help"])
        with naming("standard output"):
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except output.Interrupted as interruption:
        return _fail(f"interrupted; {interruption}", 130)
    except BrokenPipeError:
        _forget_output()  # its reader has closed it
        return 1
    except CarveError as error:
        return _fail(str(error), 2)
    except click.ClickException as error:  # wrong use
        return _fail(error.format_message(), 2)
    except OSError as error:
        if error.filename == "standard output":
            _forget_output()
        return _fail(output.reason(error), 2)
    except MemoryError:
        return _fail("out of memory; try fewer rows (--rows)", 2)
    except Exception as error:
        if _follows_interrupt(error):
            return _fail("interrupted", 130)
        traceback.print_exc()
        return _fail("this is a bug; please report it with the lines above", 2)


def _invoke(arguments: list[str]) -> int:
    # `app.main` would print an empty line on Ctrl-C, and has exit codes of its own.
    try:
        with app.make_context("carvegbm", arguments) as context:
            code: Any = app.invoke(context)
    except click.exceptions.Exit as end:
        code = end.exit_code
    return code if isinstance(code, int) else 0


def _follows_interrupt(error: BaseException | None) -> bool:
    """Whether an error arose while KeyboardInterrupt was handled, as in a library's clean-up."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _forget_output() -> None:
    """Drop what standard output did not take: the interpreter must not fail flushing it either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without the place in the source that gave it."""
    output.note(f"carvegbm: warning: {' '.join(str(message).split())}")


def _fail(message: str, code: int) -> int:
    output.note(f"carvegbm: {' '.join(message.split())}")
    return code
