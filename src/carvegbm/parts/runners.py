"""Who answers the parts: this process, or the workers of a Dask cluster.

Comes in: a question, the way from files to rows of its model, and parts. Goes out: every part with
its totals, as they are finished. A part is written under a temporary name and renamed when it is
whole, so that a worker that dies, and another that does its work again, leave one file.
"""

from __future__ import annotations

import platform
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from carvegbm.data.table import FileSchema
from carvegbm.errors import CarveError, DataError
from carvegbm.parts.files import Part, Tell, answer_part
from carvegbm.parts.questions import Question
from carvegbm.parts.shipping import Shipped
from carvegbm.totals import Totals

__all__ = ["Here", "OnDask", "Runner"]

Answered = Iterator[tuple[Part, Totals]]


class Runner(Protocol):
    """Who answers parts."""

    @property
    def is_late(self) -> bool:
        """Whether a part that was cancelled may still be written when `run` has ended."""
        ...

    def run(
        self, question: Question, matching: FileSchema, parts: Sequence[Part], tell: Tell
    ) -> Answered:
        """Every part with its totals, in the order in which they are finished."""
        ...


@dataclass(frozen=True)
class Here:
    """In this process, one part after the other."""

    threads: int | None = None
    """By default all cores."""

    @property
    def is_late(self) -> bool:
        """Never: who runs a part ends with it."""
        return False

    def run(
        self, question: Question, matching: FileSchema, parts: Sequence[Part], tell: Tell
    ) -> Answered:
        """Every part with its totals, in their order."""
        for part in parts:
            yield part, answer_part(question, matching, part, threads=self.threads, tell=tell)


@dataclass(frozen=True)
class OnDask:
    """The workers of a Dask cluster, a task per part.

    Attributes
    ----------
    address : str
        Of the scheduler, or the word local: a worker process per core, for as long as it takes.
    threads : int or None
        Of one task; of the word local the number of processes. By default as many threads as the
        cluster has, shared out among the parts.
    """

    address: str
    threads: int | None = None

    def __post_init__(self) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise CarveError("--dask needs Dask; pip install 'carvegbm[dask]'") from None

    @property
    def is_late(self) -> bool:
        """On a cluster of others: a task that has begun runs to its end."""
        return self.address != "local"

    def run(
        self, question: Question, matching: FileSchema, parts: Sequence[Part], tell: Tell
    ) -> Answered:
        """Every part with its totals, as they come; the others are cancelled if one fails."""
        from distributed import as_completed

        with self._client() as client:
            threads = self._threads(client, len(parts))
            # A task that holds the question: where a worker is lost, it is there again.
            shipped = Shipped.of((question, matching.absolute()))
            asked = client.submit(_itself, shipped, pure=False)
            futures = {
                client.submit(_on_worker, asked, part.absolute(), threads, pure=False): part
                for part in parts
            }
            try:
                for future in as_completed(list(futures)):
                    part = futures.pop(future)
                    with _in_one_line(part.path):
                        totals = future.result()
                    tell(totals.instances)
                    yield part, totals
            finally:
                with suppress(Exception):  # the scheduler may be what is lost
                    client.cancel([*futures, asked])

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import logging

        from distributed import Client, LocalCluster
        from joblib import cpu_count

        if self.address == "local":
            with _deaf_to_interrupts():
                cluster = LocalCluster(
                    n_workers=self.threads or cpu_count(),
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                )
            with cluster, Client(cluster) as client:
                yield client
            return
        try:
            client = Client(self.address, timeout="20s")
        except (OSError, ValueError, TypeError) as error:
            said = " ".join(str(error).split())
            raise CarveError(
                f"--dask {self.address}: no scheduler answers ({said}); give the address that "
                "`dask scheduler` prints, or local"
            ) from None
        with client:
            yield client

    def _threads(self, client: Any, parts: int) -> int:
        """Of one task: a worker runs as many tasks at once as it has threads."""
        if self.address == "local":
            return 1
        if self.threads is not None:
            return self.threads
        there: list[int] = list(client.nthreads().values())
        if not there:
            warnings.warn(
                f"no workers at {self.address} yet; waiting for some to come", stacklevel=2
            )
        return max(1, min(max(there, default=1), sum(there) // parts))


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Threads and processes that are started here get no Ctrl-C: who started them ends them.

    One that comes meanwhile arrives when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # which would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _itself(shipped: Shipped) -> Shipped:
    return shipped


def _on_worker(shipped: Shipped, part: Part, threads: int) -> Totals:
    """What a worker does; errors come back as one line each, whatever else they carry."""
    try:
        question, matching = shipped.opened()
        folder = None if part.target is None else part.target.parent
        for what, path in (("DATA", Path(part.path).parent), ("--output", folder)):
            if path is not None and not path.is_dir():
                raise DataError(
                    f"{what}: there is no folder {path} on worker {platform.node()}; give one that "
                    "all workers share"
                )
        return answer_part(question, matching, part, threads=threads)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        raise CarveError(f"{named}{error.strerror or error}") from None
    except CarveError as error:
        raise CarveError(str(error)) from None


@contextmanager
def _in_one_line(path: str) -> Iterator[None]:
    """What can go wrong with a task but our own errors."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        died = error.allowed_failures + 1
        raise CarveError(
            f"{path}: {died} worker{'s' * (died != 1)} died over it, the last was "
            f"{error.last_worker.address}; see its log, it may lack memory"
        ) from None
    except CancelledError:
        raise CarveError(f"{path}: cancelled on the cluster, or its scheduler is gone") from None
    except ImportError as error:
        raise CarveError(
            f"a worker has not what it takes ({error}); install the same carvegbm on all machines"
        ) from None
