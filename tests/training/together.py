"""A team whose members are threads of one process, over real sockets; training is the same."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from carvegbm.training.estimator import Told
from carvegbm.training.evaluation import Asked
from carvegbm.training.teams.share import Share
from carvegbm.training.teams.sockets import Door, SocketTeam
from carvegbm.training.teams.team import ALONE, Team, TeamError


def run_team(size: int, work: Callable[[Team], Any]) -> list[Any]:
    """What `work` returns to every member; the first error that is not about another member."""
    if size == 1:
        return [work(ALONE)]
    doors = [Door("127.0.0.1") for _ in range(size)]
    addresses, secret = [door.address for door in doors], secrets.token_hex()
    found: list[Any] = [None] * size
    errors: list[BaseException] = []

    def member(rank: int) -> None:
        try:
            with SocketTeam(rank, addresses, doors[rank], secret, patience=60) as team:
                found[rank] = work(team)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((e for e in errors if not isinstance(e, TeamError)), errors[0])
    return found


def spread_out(n_rows: int, size: int, random: np.random.Generator) -> list[list[int]]:
    """Lengths of parts that make up all rows, and which parts every member has; none has none."""
    n_parts = size + int(random.integers(0, 2 * size))
    cuts = np.sort(random.choice(np.arange(1, n_rows), n_parts - 1, replace=False))
    lengths = np.diff([0, *cuts, n_rows]).tolist()
    owners = random.permutation([*range(size), *random.integers(0, size, n_parts - size)])
    return [lengths, *([part for part in range(n_parts) if owners[part] == r] for r in range(size))]


def fit_together(
    make: Callable[[], Any],
    train: Sequence[Any],
    valid: Sequence[Any] | None = None,
    *,
    size: int,
    random: np.random.Generator,
    told: Mapping[str, Any] | None = None,
    **asked: Any,
) -> list[Any]:
    """The estimators that the members of a team trained together; rows are spread at random."""
    X, y, *weight = train
    lengths, *owned = spread_out(len(y), size, random)
    if valid is not None:
        valid_lengths, *valid_owned = spread_out(len(valid[1]), size, random)

    def work(team: Team) -> Any:
        share = Share.of_parts(team, lengths, owned[team.rank])
        here = share.positions
        rows = (X[here], y[here], weight[0][here] if weight else None)
        given: dict[str, Any] = dict(asked)
        if valid is not None:
            own = Share.of_parts(team, valid_lengths, valid_owned[team.rank])
            pair = valid[0][own.positions], valid[1][own.positions]
            given |= {"eval_set": [pair], "shares": [own]}
        return make()._fit_share(rows, share, Asked(**given), Told(**(told or {})))

    return run_team(size, work)
