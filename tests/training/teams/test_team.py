"""What members of a team do together, over real sockets; and what happens when one leaves."""

from __future__ import annotations

import math
import socket
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.training.teams import sockets
from carvegbm.training.teams.exact import exact_sum
from carvegbm.training.teams.share import Share
from carvegbm.training.teams.sockets import Door, SocketTeam
from carvegbm.training.teams.team import ALONE, TeamError
from training.together import run_team, spread_out


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30))
def test_exact_sums_are_those_of_the_rationals(numbers):
    assert exact_sum(np.array(numbers)) == sum(map(Fraction, numbers), Fraction(0))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_everyone_gathers_the_values_of_all_by_rank(size):
    assert (
        run_team(size, lambda team: team.gather(team.rank**2))
        == [[r**2 for r in range(size)]] * size
    )


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("length", [0, 1, 7, 1 << 18])
def test_sums_of_arrays_are_the_same_for_all_members(size, length):
    found = run_team(size, lambda team: team.sum(np.arange(length) * (team.rank + 1)))
    for own in found:
        assert np.array_equal(own, np.arange(length) * (size * (size + 1) // 2))


def test_large_messages_both_ways_at_once_do_not_block():
    message = bytes(1 << 24)
    found = run_team(3, lambda team: [len(part) for part in team.exchange([message] * 3)])
    assert found == [[1 << 24] * 3] * 3


@pytest.mark.parametrize("seed", range(20))
def test_shares_number_rows_as_one_process_does(seed):
    random = np.random.default_rng(seed)
    n, size = int(random.integers(4, 60)), int(random.integers(1, 4))
    lengths, *owned = spread_out(n, size, random)
    values = random.random(n)
    wanted = np.sort(random.choice(n, int(random.integers(1, n)), replace=False))

    def work(team):
        share = Share.of_parts(team, lengths, owned[team.rank])
        here, part = share.part(wanted)
        mine = values[share.positions]
        both = share.followed_by(part)
        return (
            share.everyone(mine),
            part.everyone(mine[here]),
            share.sum(mine),
            share.mean(mine),
            share.rate(mine > 0.5),
            both.everyone(np.concatenate([mine, mine[here]])),
        )

    for all_of, some, total, mean, rate, twice in run_team(size, work):
        assert np.array_equal(all_of, values)
        assert np.array_equal(some, values[wanted])
        assert np.array_equal(twice, np.concatenate([values, values[wanted]]))
        assert total == math.fsum(values)
        assert mean == float(sum(map(Fraction, values)) / n)
        assert rate == np.mean(values > 0.5)


def test_a_member_that_fails_ends_the_others_at_once_and_closes_its_ports():
    seen = []

    def work(team):
        team.gather(0)
        if team.rank == 1:
            raise RuntimeError("out of paper")
        try:
            team.gather(1)
        except TeamError as error:
            seen.append(str(error))
            raise

    started = time.monotonic()
    with pytest.raises(RuntimeError, match="out of paper"):
        run_team(3, work)
    assert time.monotonic() - started < 10
    assert len(seen) == 2
    assert any("member 1 of 3" in message for message in seen)  # the other may see the one's end
    assert not SocketTeam._open


def test_a_team_can_be_stopped_from_outside():
    doors = [Door("127.0.0.1") for _ in range(2)]
    addresses, errors = [door.address for door in doors], []
    met, ended = threading.Barrier(3), threading.Event()

    def member(rank):
        with SocketTeam(rank, addresses, doors[rank], "secret", patience=30) as team:
            met.wait()
            if rank == 1:
                ended.wait(30)  # and says nothing meanwhile
                return
            try:
                team.gather(0)
            except TeamError as error:
                errors.append(error)
                ended.set()

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    met.wait()
    SocketTeam.stop("secret")
    assert ended.wait(10)
    for thread in threads:
        thread.join(10)
    assert len(errors) == 1


def test_a_member_that_waits_for_others_can_be_stopped():
    door, errors = Door("127.0.0.1"), []

    def wait():
        try:
            SocketTeam(0, [door.address, ("127.0.0.1", 1)], door, "lonely")
        except TeamError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    while "lonely" not in SocketTeam._open:
        time.sleep(0.01)
    SocketTeam.stop("lonely")
    thread.join(10)
    assert errors == ["the training was stopped"]
    assert not SocketTeam._open


def test_a_silent_member_is_given_up():
    doors = [Door("127.0.0.1") for _ in range(2)]
    addresses, errors = [door.address for door in doors], []
    done = threading.Event()

    def member(rank):
        with SocketTeam(rank, addresses, doors[rank], "s", patience=0.3) as team:
            if rank == 1:
                done.wait(10)
                return
            try:
                team.gather(0)
            except TeamError as error:
                errors.append(str(error))
            done.set()

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert errors == [
        f"member 1 of 2 (127.0.0.1:{addresses[1][1]}) sent nothing for 0.3 s; it hangs"
    ]


def test_strangers_are_turned_away_and_hold_nobody_up():
    doors = [Door("127.0.0.1") for _ in range(2)]
    addresses = [door.address for door in doors]
    silent = [socket.create_connection(addresses[0]) for _ in range(15)]
    stranger = socket.create_connection(addresses[0])
    stranger.sendall(b"\x05\x00\x01\x00\x00\x00wrong")
    shy = socket.create_connection(addresses[0])
    shy.close()

    def member(rank, found=[None, None]):  # noqa: B006
        with SocketTeam(rank, addresses, doors[rank], "right") as team:
            found[rank] = team.gather(rank)
        return found

    thread = threading.Thread(target=member, args=(1,))
    thread.start()
    assert member(0)[0] == [0, 1]
    thread.join(10)
    for one in (stranger, *silent):
        one.close()


def test_a_member_that_never_calls_is_named(monkeypatch):
    monkeypatch.setattr(sockets, "_CALLING", 0.3)
    door = Door("127.0.0.1")
    with pytest.raises(TeamError, match=r"member 1 of 2 \(127.0.0.1:1\) did not call within 0.3 s"):
        SocketTeam(0, [door.address, ("127.0.0.1", 1)], door, "secret")
    with pytest.raises(TeamError, match=r"member 0 of 2 \(127.0.0.1:1\) cannot be reached"):
        SocketTeam(1, [("127.0.0.1", 1), ("127.0.0.1", 2)], Door("127.0.0.1"), "secret")


def test_a_door_holds_its_port_until_it_is_closed():
    door = Door("127.0.0.1")
    other = socket.socket()
    with pytest.raises(OSError, match="in use"):
        other.bind(door.address)
    door.close()
    other.bind(door.address)
    other.close()


def test_alone_nothing_is_sent():
    assert ALONE.gather("x") == ["x"]
    assert ALONE.sum(np.arange(3)).tolist() == [0, 1, 2]
    share = Share.alone(3)
    assert share.everyone(np.arange(3)).tolist() == [0, 1, 2]
