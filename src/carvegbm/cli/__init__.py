"""The command line: `carvegbm COMMAND …`.

This module imports only what is quick to load, so that Ctrl-C is handled while the rest is loaded.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # importing typing takes longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code; 130 after Ctrl-C.

    While a command runs, Ctrl-C and SIGTERM both raise KeyboardInterrupt, so that temporary files
    and worker processes are removed. Before and after that there is nothing to remove: the process
    ends at once. After SIGTERM the exit code is 143.
    """
    code: int | None = None
    received: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        if code is None:
            os.write(2, b"carvegbm: interrupted\n")
        os._exit(128 + number if code is None else code)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        import threading

        # A library's thread may fail when worker processes end, and would print a traceback.
        threading.excepthook = lambda _: None
        raise KeyboardInterrupt

    handled = [
        number
        for number, default in (
            (signal.SIGINT, signal.default_int_handler),  # else the caller has it ignored: nohup
            (signal.SIGTERM, signal.SIG_DFL),
        )
        if signal.getsignal(number) == default
    ]
    _handle(handled, leave)
    from carvegbm.cli.app import run

    try:
        _handle(handled, interrupt)
        code = run()
        _handle(handled, leave)
    except BaseException:
        if not received:
            raise
        # A second signal, or an import that turned KeyboardInterrupt into another error.
        leave(received[0], None)
    if received and code == 130:
        code = 128 + received[0]
    raise SystemExit(code)


def _handle(
    signals: list[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> None:
    for number in signals:
        try:
            signal.signal(number, handler)
        except ValueError:  # not in the main thread
            return
