"""Shipping: a question as bytes, which another process opens once, if it is of the same version.

Comes in: a question. Goes out: `Shipped`, which any process of the same carvegbm can open; however
many parts ask it there, the question, and all that is prepared for it, is made once.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from carvegbm.errors import CarveError

__all__ = ["Shipped", "check_version"]

_MOST_OPEN = 4
"""Questions that a process keeps open; the one that was not asked for the longest time goes."""

_open: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Shipped:
    """A pickled question; `token` is its content's hash."""

    token: str
    version: str
    content: bytes

    @classmethod
    def of(cls, question: Any) -> Shipped:
        """The question, ready to travel."""
        from carvegbm import __version__

        content = pickle.dumps(question, protocol=5)
        return cls(sha256(content).hexdigest(), __version__, content)

    def opened(self) -> Any:
        """The question; the same object whenever this process opens the same content.

        Raises `CarveError` where this process has another version of carvegbm.
        """
        check_version(self.version)
        with _lock:
            if self.token not in _open:
                _open[self.token] = pickle.loads(self.content)
            _open.move_to_end(self.token)
            while len(_open) > _MOST_OPEN:
                _open.popitem(last=False)
            return _open[self.token]


def check_version(theirs: str) -> None:
    """Refuse work from another version of carvegbm: its answers might be others."""
    import platform

    from carvegbm import __version__

    if theirs != __version__:
        raise CarveError(
            f"carvegbm {__version__} on {platform.node()} was asked by carvegbm {theirs}; install "
            "the same version on all machines"
        )
