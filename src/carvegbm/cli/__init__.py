"""The command line: `carvegbm COMMAND …`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    try:
        from carvegbm.cli.app import run

        raise SystemExit(run(arguments))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
