"""A team over TCP: every member has a connection to every other.

A member first holds a `Door`: a port that the operating system chose, open from then on, so that
nobody else can take it. Once all addresses are known, `SocketTeam` connects: a member calls those
of lower rank, and is called by those of higher rank; callers show the run's secret. A member that
dies closes its connections, which the others notice at once; a machine that vanishes is noticed
after `VANISHED` seconds, and one that hangs after `patience` seconds.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from carvegbm.training.teams.team import Buffer, Team, TeamError

__all__ = ["VANISHED", "Address", "Door", "SocketTeam"]

Address = tuple[str, int]

VANISHED = 40
"""Seconds after which a silent machine is asked whether it is still there, and found not to be."""

_PATIENCE = 3600.0
_CALLING = 120.0  # seconds within which all members must have met
_GREETING = 10.0  # seconds between two bytes of a caller, before it is taken for a stranger
_LOOK_EVERY = 0.1  # seconds between looks at whether the training was stopped meanwhile
_HEADER = struct.Struct("<q")
_PIECE = 1 << 20
_LONGEST = 1 << 40  # bytes of a message


class Door:
    """A port of this machine that is held open until a team takes it over."""

    def __init__(self, host: str = "") -> None:
        """`host`: the address by which other members reach this machine."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.bind((host, 0))
            self._socket.listen(128)
        except OSError:
            self._socket.close()
            raise
        self.address: Address = self._socket.getsockname()[:2]

    def accept(self, seconds: float) -> socket.socket:
        """The next caller, within so many seconds."""
        self._socket.settimeout(seconds)
        return self._socket.accept()[0]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()

    def __del__(self) -> None:
        self.close()


class SocketTeam(Team):
    """Members that are connected by sockets; a context, which closes the connections.

    Parameters
    ----------
    rank : int
    addresses : sequence of (host, port)
        Of the doors of all members, by rank.
    door : Door
        This member's own; it is closed once all have met.
    secret : str
        Shown by every member to those it calls: nobody else joins.
    patience : float
        Seconds without a byte from any member before the team is given up.
    """

    _open: ClassVar[dict[str, list[SocketTeam]]] = {}

    def __init__(
        self,
        rank: int,
        addresses: Sequence[Address],
        door: Door,
        secret: str,
        patience: float = _PATIENCE,
    ) -> None:
        self.rank, self.size = rank, len(addresses)
        self._addresses = [f"{host}:{port}" for host, port in addresses]
        self._patience = patience
        self._secret = secret
        self._peers: dict[int, socket.socket] = {}
        self._is_stopped = False
        self._open.setdefault(secret, []).append(self)
        try:
            self._meet(addresses, door)
        except BaseException:
            self.close()
            raise
        finally:
            door.close()

    def __enter__(self) -> SocketTeam:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections; the other members notice."""
        for peer in self._peers.values():
            peer.close()
        teams = self._open.get(self._secret, [])
        if self in teams:
            teams.remove(self)
        if not teams:
            self._open.pop(self._secret, None)

    @classmethod
    def stop(cls, secret: str) -> None:
        """End the connections of this process's members of a team, whatever they are doing."""
        for team in list(cls._open.get(secret, [])):
            team._is_stopped = True
            for peer in team._peers.values():
                try:
                    peer.shutdown(socket.SHUT_RDWR)
                except OSError:  # it is closed already
                    continue

    # ── meeting ──────────────────────────────────────────────────────────────────────────────

    def _meet(self, addresses: Sequence[Address], door: Door) -> None:
        deadline = time.monotonic() + _CALLING
        for other in range(self.rank):
            self._peers[other] = self._call(other, addresses[other], deadline)
        self._be_called(door, deadline)
        for peer in self._peers.values():
            _set_options(peer)

    def _call(self, other: int, address: Address, deadline: float) -> socket.socket:
        try:
            found = socket.create_connection(address, max(0.01, deadline - time.monotonic()))
            secret = self._secret.encode()
            found.sendall(struct.pack("<HI", len(secret), self.rank) + secret)
            return found
        except OSError as error:
            raise TeamError(f"{self._named(other)} cannot be reached: {error}") from None

    def _be_called(self, door: Door, deadline: float) -> None:
        """Wait for the members of higher rank; strangers are greeted beside them, and forgotten."""
        while len(self._peers) < self.size - 1:
            if self._is_stopped:
                raise TeamError("the training was stopped")
            if time.monotonic() > deadline:
                missing = min(set(range(self.rank + 1, self.size)) - {*self._peers})
                raise TeamError(
                    f"{self._named(missing)} did not call within {_CALLING:g} s; is its worker "
                    "busy, and can the machines reach each other on any port?"
                )
            try:
                caller = door.accept(_LOOK_EVERY)
            except TimeoutError:
                continue
            threading.Thread(target=self._greet, args=(caller,), daemon=True).start()

    def _greet(self, caller: socket.socket) -> None:
        """Take a caller for a member, if it shows the secret at once; else hang up."""
        caller.settimeout(_GREETING)
        try:
            length, rank = struct.unpack("<HI", _receive(caller, 6))
            shown = _receive(caller, min(length, 1024))
        except (OSError, EOFError):
            caller.close()
            return
        is_member = hmac.compare_digest(shown, self._secret.encode())
        if is_member and self.rank < rank < self.size and rank not in self._peers:
            self._peers[rank] = caller
        else:
            caller.close()

    def _named(self, other: int) -> str:
        return f"member {other} of {self.size} ({self._addresses[other]})"

    # ── exchanging ───────────────────────────────────────────────────────────────────────────

    def exchange(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Send parts[r] to member r, and return what every member sent here, by rank."""
        found: list[Buffer] = [b""] * self.size
        found[self.rank] = parts[self.rank]
        talks = {
            other: _Talk(peer, memoryview(parts[other]).cast("B"))
            for other, peer in self._peers.items()
        }
        with selectors.DefaultSelector() as selector:
            for other, talk in talks.items():
                selector.register(talk.peer, talk.wants(), other)
            while selector.get_map():
                ready = selector.select(self._patience)
                if not ready:
                    silent = next(iter(selector.get_map().values())).data
                    raise TeamError(
                        f"{self._named(silent)} sent nothing for {self._patience:g} s; it hangs"
                    )
                for key, events in ready:
                    talk = talks[key.data]
                    try:
                        talk.go_on(events)
                    except BlockingIOError:  # the system was mistaken
                        continue
                    except (OSError, EOFError) as error:
                        why = str(error) or "it hung up"
                        raise TeamError(
                            f"{self._named(key.data)} left the training: {why}"
                        ) from None
                    if talk.wants():
                        selector.modify(talk.peer, talk.wants(), key.data)
                    else:
                        selector.unregister(talk.peer)
        for other, talk in talks.items():
            found[other] = talk.received
        return found


class _Talk:
    """One part on its way to a peer, and one on its way from it."""

    def __init__(self, peer: socket.socket, part: memoryview) -> None:
        self.peer = peer
        self._out = [memoryview(_HEADER.pack(len(part))), part]
        self._header, self._have = bytearray(_HEADER.size), 0
        self._length: int | None = None
        self.received = bytearray()

    def wants(self) -> int:
        """What to wait for: to read, to write, both, or 0 when all is done."""
        reads = self._length is None or self._have < self._length
        return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self._out else 0)

    def go_on(self, events: int) -> None:
        if events & selectors.EVENT_WRITE and self._out:
            sent = self.peer.send(self._out[0][:_PIECE])
            self._out[0] = self._out[0][sent:]
            while self._out and len(self._out[0]) == 0:
                del self._out[0]
        if events & selectors.EVENT_READ:
            self._read()

    def _read(self) -> None:
        target = self._header if self._length is None else self.received
        count = self.peer.recv_into(memoryview(target)[self._have :])
        if count == 0:
            raise EOFError
        self._have += count
        if self._length is None and self._have == _HEADER.size:
            (self._length,) = _HEADER.unpack(self._header)
            if not 0 <= self._length <= _LONGEST:
                raise EOFError(f"a message of {self._length} bytes")
            self.received, self._have = bytearray(self._length), 0


def _set_options(peer: socket.socket) -> None:
    """Send at once, and notice a machine that vanishes without a word."""
    peer.setblocking(False)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    asking = {"TCP_KEEPIDLE": VANISHED // 4, "TCP_KEEPINTVL": VANISHED // 4, "TCP_KEEPCNT": 3}
    asking["TCP_USER_TIMEOUT"] = 1000 * VANISHED  # of bytes that nobody has received
    for name, value in asking.items():
        if hasattr(socket, name):  # not all systems have all of them
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _receive(peer: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = peer.recv(length - len(found))
        if not more:
            raise EOFError
        found += more
    return found
