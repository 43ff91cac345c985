"""The command reproduce: the paper's evaluation, which is a package of its own.

It lives in `experiments/`, with its options, and is imported when the command is called; where it
is not installed, one line says how to install it.
"""

from __future__ import annotations

from typing import Any

import typer

from carvegbm.errors import CarveError


def add_to(app: typer.Typer) -> None:
    """Register the command, which hands on whatever stands behind its name, --help included."""
    app.command(
        "reproduce",
        add_help_option=False,
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": [],
        },
    )(reproduce)


def reproduce(context: typer.Context) -> Any:
    """Repeat the paper's evaluation on this machine: tables, figures, and a page that shows them.

    Needs the experiments: pip install ./experiments.
    """
    try:
        from carvegbm_experiments.command import run
    except ModuleNotFoundError as error:
        if error.name != "carvegbm_experiments":
            raise
        raise CarveError(
            "reproduce needs the experiments, which are not installed; in a copy of carvegbm's "
            "repository: pip install ./experiments"
        ) from None
    return run(context.args, context.command_path)
