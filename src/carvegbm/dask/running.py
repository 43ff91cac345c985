"""Running: a fit on the workers of a Dask cluster, one member of a team on each.

Comes in: a plan, and Dask collections of rows. Goes out: the trained estimator. Partitions are
computed where Dask puts them and stay there; every worker that has training rows becomes a member,
which holds a port open (`Door`) from before the others hear of it until all have met.

A member that fails, or a worker that is lost, ends the fit: the others notice at once, and one
error says what happened.
"""

from __future__ import annotations

import secrets
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from carvegbm.dask.partitions import side_by_side
from carvegbm.errors import CarveError, DataError
from carvegbm.training.teams.member import Part, Plan, fit_share
from carvegbm.training.teams.sockets import Address, Door, SocketTeam
from carvegbm.training.teams.team import ALONE, TeamError

__all__ = ["Rows", "fit"]

_LOOK_EVERY = 1.0  # seconds between looks at who is still there
_LAST_WORDS = 5.0  # seconds for the other members to end, once one has
_FAILED = ("error", "cancelled", "lost")


@dataclass(frozen=True)
class Rows:
    """Dask collections of instances, labels and weights."""

    X: Any
    y: Any
    weight: Any = None


def fit(client: Any, plan: Plan, rows: Rows, sets: Sequence[Rows]) -> Any:
    """Train on the workers; returns the estimator that they trained together."""
    with client.as_current():  # which is not to be the one of another cluster
        return _fit(client, plan, rows, sets)


def _fit(client: Any, plan: Plan, rows: Rows, sets: Sequence[Rows]) -> Any:
    from distributed import Lock, wait

    futures = [_parts(client, each) for each in (rows, *sets)]
    everything = [future for group in futures for future in group]
    wait(everything)
    for future in everything:
        if future.status == "error":
            future.result()  # raises what went wrong
    train, *watched = futures
    lengths = client.gather(client.map(len, train))
    owners = _owners(client, everything)
    members = sorted({owners[f.key] for f, n in zip(train, lengths, strict=True) if n})
    if not members:
        raise DataError("there are no training rows; every partition is empty")
    # Who has no training rows is no member: what it has goes to one, in turn.
    ranks = {worker: rank for rank, worker in enumerate(members)}
    shares = [_by_rank(group, owners, ranks) for group in (train, *watched)]
    # Members of two fits would wait for each other's threads: fits take turns.
    with Lock("carvegbm: a fit"), _team(client, plan, members, shares) as tasks:
        return _results(client, tasks, members)[0]


def _parts(client: Any, rows: Rows) -> list[Any]:
    """Futures of `Part`, one per partition."""
    import dask

    delayed = [
        dask.delayed(_part, pure=False)(number, *columns)
        for number, columns in enumerate(side_by_side(rows.X, rows.y, rows.weight))
    ]
    found: list[Any] = client.compute(delayed)
    return found


def _part(number: int, X: Any, y: Any, weight: Any) -> Part:
    for what, given in (("y", y), ("sample_weight", weight)):
        if given is not None and len(given) != X.shape[0]:
            raise DataError(f"partition {number}: X has {X.shape[0]} rows, {what} {len(given)}")
    return Part(number, X, y, weight)


def _owners(client: Any, futures: Sequence[Any]) -> dict[Any, str]:
    """The worker that has each of the futures' results; of several, the first by address."""
    found = client.who_has(futures)
    missing = [key for key, workers in found.items() if not workers]
    if missing:
        raise CarveError("a worker was lost before training began; fit again")
    return {key: min(workers) for key, workers in found.items()}


def _by_rank(
    futures: Sequence[Any], owners: dict[Any, str], ranks: dict[str, int]
) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for number, future in enumerate(futures):
        found[ranks.get(owners[future.key], number % len(ranks))].append(future)
    return found


@contextmanager
def _team(
    client: Any, plan: Plan, members: Sequence[str], shares: Sequence[dict[int, list[Any]]]
) -> Iterator[list[Any]]:
    """The members' tasks; whatever happens, no connection and no port stays open behind them."""
    secret = secrets.token_hex(16)
    where = [
        {"workers": [worker], "allow_other_workers": False, "pure": False} for worker in members
    ]
    doors = [client.submit(_door, worker, **at) for worker, at in zip(members, where, strict=True)]
    tasks: list[Any] = []
    try:
        asked = [client.submit(_address, d, **at) for d, at in zip(doors, where, strict=True)]
        addresses = _results(client, asked, members)
        for rank, (door, at) in enumerate(zip(doors, where, strict=True)):
            own = [share.get(rank, []) for share in shares]
            tasks.append(
                client.submit(
                    _fit_member, plan, rank, addresses, secret, door, own, retries=0, **at
                )
            )
        yield tasks
    except BaseException:
        there = [worker for worker in members if worker in _workers(client)]
        if there:
            client.run(SocketTeam.stop, secret, workers=there, on_error="ignore")
        raise
    finally:
        client.cancel([*tasks, *doors], force=True)


def _workers(client: Any) -> set[str]:
    return set(client.scheduler_info(n_workers=-1)["workers"])


def _require(members: Sequence[str], client: Any) -> None:
    """Refuse to go on without a member's worker."""
    there = _workers(client)
    for worker in members:
        if worker not in there:
            raise CarveError(f"worker {worker} was lost in the middle of training; fit again")


def _results(client: Any, tasks: Sequence[Any], members: Sequence[str]) -> list[Any]:
    """What the members' tasks return, unless one fails or a worker is lost."""
    from distributed import wait

    while True:
        _require(members, client)
        if any(task.status in _FAILED for task in tasks):
            # Who fails takes the others along: the cause may come last.
            with suppress(TimeoutError):
                wait(tasks, timeout=_LAST_WORDS)
            _require(members, client)
            raise _worst([task for task in tasks if task.status in _FAILED])
        pending = [task for task in tasks if task.status == "pending"]
        if not pending:
            found: list[Any] = client.gather(list(tasks))
            return found
        try:
            wait(pending, timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
        except TimeoutError:
            continue


def _worst(failed: Sequence[Any]) -> BaseException:
    """The error that the others follow from: a member that lost another says only that."""
    errors = [task.exception() for task in failed if task.status == "error"]
    causes = [error for error in errors if not isinstance(error, TeamError)]
    found = (causes or errors or [CarveError("training was cancelled")])[0]
    assert isinstance(found, BaseException)
    return found


# ── what workers do ──────────────────────────────────────────────────────────────────────────


def _door(worker: str) -> Door:
    return Door(urlsplit(worker).hostname or "")


def _address(door: Door) -> Address:
    return door.address


def _fit_member(
    plan: Plan,
    rank: int,
    addresses: Sequence[Address],
    secret: str,
    door: Door,
    shares: Sequence[Sequence[Part]],
) -> Any:
    """One member's fit; the first one returns the estimator."""
    from distributed import get_worker

    train, *watched = shares
    worker, key = get_worker(), get_worker().get_current_task()
    threads = worker.state.nthreads
    if len(addresses) == 1:
        door.close()
        return fit_share(plan, ALONE, train, watched, threads)
    with _wanted(worker, key, secret), SocketTeam(rank, addresses, door, secret) as team:
        found = fit_share(plan, team, train, watched, threads)
    return found if rank == 0 else None


@contextmanager
def _wanted(worker: Any, key: Any, secret: str) -> Iterator[None]:
    """Stop this worker's members once nobody wants their result: the client may be gone."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_EVERY):
            task = worker.state.tasks.get(key)
            if task is None or task.state in ("cancelled", "released", "forgotten"):
                SocketTeam.stop(secret)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()
