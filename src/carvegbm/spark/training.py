"""Training on Spark: one barrier stage, whose tasks are the members of a team.

Comes in: a plan, and a DataFrame. Goes out: the trained estimator. Spark runs the tasks of a
barrier stage all at once or not at all; each reads its partition, holds a port open (`Door`), and
hears of the others through Spark. A partition without rows has no part in it.

A row's number among all rows follows from its partition and its place there: trees are those that
one process grows from the rows in that order.

Whatever fails, fails the fit, once: a barrier stage that returns its rows to the driver is not run
again, and Spark ends all of its tasks when one is lost.
"""

from __future__ import annotations

import json
import pickle
import secrets
import socket
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from carvegbm.errors import CarveError, DataError
from carvegbm.parts.shipping import check_version
from carvegbm.spark.asking import mapped
from carvegbm.spark.columns import is_connect
from carvegbm.spark.failing import in_one_line
from carvegbm.spark.labelled import Chosen, Columns, Labelled, choose, read
from carvegbm.spark.partitions import named
from carvegbm.training import inputs
from carvegbm.training.teams.member import Plan, fit_share
from carvegbm.training.teams.sockets import Door, SocketTeam
from carvegbm.training.teams.team import ALONE, TeamError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["fit"]

_MODEL = "model binary"


@dataclass(frozen=True)
class _Work:
    """What every task is told."""

    version: str
    plan: bytes
    """Pickled, so that another version of carvegbm is noticed before it reads it."""
    chosen: Chosen
    secret: str


def fit(df: Any, plan: Plan, columns: Columns, num_workers: int | None) -> tuple[Any, Chosen]:
    """Train on executors; returns the estimator, and the columns that it was trained on."""
    from pyspark import cloudpickle

    rows, chosen = choose(df, columns)
    if num_workers is not None:
        rows = rows.repartition(inputs.whole_number("num_workers", num_workers))
    # Metrics may be functions that only cloudpickle can pickle.
    work = _Work(plan.version, cloudpickle.dumps(plan), chosen, secrets.token_hex(16))
    with in_one_line():
        found = _collected(mapped(rows, partial(_member, work), _MODEL, barrier=True))
    trained, warned = pickle.loads(found[0][0])
    for text in warned:
        warnings.warn(text, UserWarning, stacklevel=3)
    return trained, chosen


def _collected(trained: Any) -> Sequence[Any]:
    """What the tasks return."""
    found: Sequence[Any]
    if is_connect(trained):
        found = trained.collect()
    else:
        run = trained.rdd  # one query, whose partitions are counted and then computed
        _require_slots(run)
        found = run.collect()
    return found


def _require_slots(run: Any) -> None:
    """Refuse more tasks than can run at once; elsewhere than here, Spark waits for executors."""
    context = run.context
    if not context.master.startswith("local") or context.master.startswith("local-cluster"):
        return
    scala = context._jsc.sc()
    slots = scala.maxNumConcurrentTasks(scala.resourceProfileManager().resourceProfileFromId(0))
    wanted = run.getNumPartitions()
    if wanted > slots:
        raise CarveError(
            f"training wants {wanted} tasks at once, Spark has room for {slots}; give "
            f"num_workers={slots}"
        )


# ── what tasks do ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Note:
    """What a task tells the others before training."""

    host: str
    port: int
    train: int
    watch: int
    width: int
    labels: dict[str, list[str]]
    has_failed: bool


def _member(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One member's fit; the first one returns the estimator, in one row."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    number = context.partitionId()
    check_version(work.version)
    plan: Plan = pickle.loads(work.plan)
    rows, found = None, None
    failed: Exception | None = None
    with closing(_door(context)) as door:
        try:
            with named(number, 0):
                rows = _read(work.chosen, plan, batches)
        except CarveError as error:
            failed = error
        notes = _exchanged(context, _noted(context, door, rows, failed is not None))
        if not any(note.has_failed for note in notes):
            _check(work.chosen, notes)
            try:
                found = _fitted(work, plan, context, rows, notes, door)
            except Exception as error:
                failed = error
    yield from _outcome(context, found, failed)


def _read(chosen: Chosen, plan: Plan, batches: Iterable[pa.RecordBatch]) -> Labelled | None:
    """The partition's rows, checked as a whole, so that errors count them as the partition does."""
    from sklearn import clone

    rows = read(chosen, batches)
    if rows is not None:
        inputs.check_pair(clone(plan.estimator), rows.X, rows.y, reset=True)
        inputs.check_weight(rows.weight, len(rows.y), f"weight_col {chosen.weight!r}")
    return rows


def _door(context: Any) -> Door:
    """A door at the address by which Spark reaches this executor."""
    hosts = _hosts(context)
    own = hosts[context.partitionId()]
    address = str(socket.getaddrinfo(own, None, type=socket.SOCK_STREAM)[0][4][0])
    if len(set(hosts)) > 1 and ip_address(address.partition("%")[0]).is_loopback:
        # Some machines know their own name as one of the loopback, where no other could call.
        address = ""
    return Door(address)


def _hosts(context: Any) -> list[str]:
    """What Spark calls the machines of all tasks."""
    return [info.address.rpartition(":")[0].strip("[]") for info in context.getTaskInfos()]


def _noted(context: Any, door: Door, rows: Labelled | None, has_failed: bool) -> _Note:
    own, port = _hosts(context)[context.partitionId()], door.address[1]
    if rows is None:
        return _Note(own, port, 0, 0, 0, {}, has_failed)
    watch = int(rows.is_validation.sum())
    train = len(rows.y) - watch
    return _Note(own, port, train, watch, rows.width, rows.labels(), has_failed)


def _exchanged(context: Any, own: _Note) -> list[_Note]:
    """The notes of all tasks, by partition."""
    return [_Note(**json.loads(said)) for said in context.allGather(json.dumps(asdict(own)))]


def _check(chosen: Chosen, notes: Sequence[_Note]) -> None:
    """Refuse what no team could train on; all tasks see the same, and say the same."""
    if not any(note.train for note in notes):
        raise DataError("there are no training rows; every partition is empty")
    if chosen.validation is not None and not any(note.watch for note in notes):
        raise DataError(
            f"{chosen.validation!r} marks no row; mark some for validation, or leave "
            "validation_indicator_col out"
        )
    first = next(i for i, note in enumerate(notes) if note.width)
    for number, note in enumerate(notes):
        if note.watch and not note.train:
            raise DataError(
                f"partition {number} has validation rows and no training rows; spread the rows "
                "(num_workers does), or train with fewer workers"
            )
        if note.width and note.width != notes[first].width:
            raise DataError(
                f"{chosen.names[0]!r} has {notes[first].width} values in partition {first}, "
                f"{note.width} in partition {number}"
            )


def _fitted(
    work: _Work,
    plan: Plan,
    context: Any,
    rows: Labelled | None,
    notes: Sequence[_Note],
    door: Door,
) -> Any:
    """The estimator and what it warned of, of the first member; None of the others."""
    if rows is None:
        return None
    number, threads = context.partitionId(), context.cpus()
    members = [i for i, note in enumerate(notes) if note.train]
    known = {
        name: sorted({label for i in members for label in notes[i].labels[name]})
        for name in notes[number].labels
    }
    rows = rows.relabelled(known)
    train = [rows.part(number, is_validation=False)]
    watched = [] if work.chosen.validation is None else [[rows.part(number, is_validation=True)]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if len(members) == 1:
            trained = fit_share(plan, ALONE, train, watched, threads)
        else:
            rank = members.index(number)
            addresses = [(notes[i].host, notes[i].port) for i in members]
            with SocketTeam(rank, addresses, door, work.secret) as team:
                trained = fit_share(plan, team, train, watched, threads)
    if number != members[0]:
        return None
    return trained, sorted({str(w.message) for w in caught if w.category is UserWarning})


def _outcome(context: Any, found: Any, failed: Exception | None) -> Iterator[pa.RecordBatch]:
    """What a task returns, when all are through; of those that failed, the cause alone says so.

    A member that fails leaves the others without it. They would say so before it could say why.
    """
    import pyarrow as pa

    own = "" if failed is None else "left alone" if isinstance(failed, TeamError) else "cause"
    said = context.allGather(own)
    if failed is not None and (own == "cause" or "cause" not in said):
        raise _plain(failed, context.partitionId(), said)
    if found is not None and not any(said):
        content = pa.array([pickle.dumps(found, protocol=5)], pa.binary())
        yield pa.RecordBatch.from_arrays([content], names=["model"])


def _plain(error: Exception, number: int, said: Sequence[str]) -> Exception:
    """An error of ours as the driver knows it, with the partition that alone has it."""
    if not isinstance(error, CarveError):
        return error
    text = str(error)
    if isinstance(error, DataError):
        is_one_of_many = said.count("cause") == 1 and len(said) > 1
        prefix = f"partition {number}: " if is_one_of_many else ""
        return DataError(text if text.startswith("partition ") else prefix + text)
    return CarveError(text)
