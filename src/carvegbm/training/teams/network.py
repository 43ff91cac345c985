"""LightGBM's data-parallel training, with its messages carried by a team.

LightGBM's tree learner "data" adds up histograms over machines through two functions that may be
given to it (LGBM_NetworkInitWithFunctions). Here these are the team's: there is one network, with
one way to notice that a member is gone, and sums are added up in the order of ranks. LightGBM keeps
the functions per thread, so that a thread that trains alone beside a team's is not concerned.

LightGBM cannot be told that its network failed: its functions return nothing, and an exception must
not cross it. So after a failure every message is answered with the member's own content, which is
well formed, until LightGBM returns; then the failure is raised and what was grown is thrown away.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from carvegbm.errors import CarveError
from carvegbm.training.teams.counting import Follower
from carvegbm.training.teams.share import Share
from carvegbm.training.teams.team import Buffer, TeamError

__all__ = ["Network"]

_Size = ctypes.c_int32
_Sizes = ctypes.POINTER(_Size)
_Reducer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, _Size)
_ReduceScatter = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,  # input
    _Size,  # its size
    ctypes.c_int,  # the size of what is added up
    _Sizes,  # where the blocks begin
    _Sizes,  # how long they are
    ctypes.c_int,  # how many
    ctypes.c_void_p,  # output: the sum of this member's block
    _Size,
    ctypes.POINTER(_Reducer),
)
_Gather = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, _Size, _Sizes, _Sizes, ctypes.c_int, ctypes.c_void_p, _Size
)


class Network:
    """What LightGBM calls to reach the other members."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self._team = share.team
        self._failure: BaseException | None = None
        self._follower: Follower | None = None
        self._added_up = False  # histograms: what is gathered next are splits
        self.reduce_scatter = _ReduceScatter(self._reduce_scatter)
        self.gather = _Gather(self._gather)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What LightGBM is told about it."""
        if self._team.is_alone:
            return {}
        return {"tree_learner": "data", "num_machines": self._team.size, "pre_partition": True}

    def forgotten(self, text: str) -> str:
        """LightGBM's text of a model without what it was told about the network."""
        if self._team.is_alone:
            return text
        alone = {
            "tree_learner: data": "tree_learner: serial",
            "pre_partition: 1": "pre_partition: 0",
        }
        alone[f"num_machines: {self._team.size}"] = "num_machines: 1"
        for told, usual in alone.items():
            text = text.replace(f"\n[{told}]\n", f"\n[{usual}]\n")
        return text

    @contextmanager
    def calling(self, follower: Follower | None = None) -> Iterator[None]:
        """While LightGBM works: raises what goes wrong meanwhile, in place of what it says.

        `follower` counts the leaves of the tree that it grows.
        """
        self._follower = follower
        if follower is not None:
            follower.begin()
        try:
            yield
        finally:
            self._follower, self._added_up = None, False
            if self._failure is not None:
                raise self._failure

    @contextmanager
    def joined(self) -> Iterator[None]:
        """LightGBM's calls in this thread concern all members."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While they do, let LightGBM do something that is no business of the team."""
        self._end()
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        team = self._team
        if team.is_alone:
            return
        from lightgbm.basic import _LIB

        code = _LIB.LGBM_NetworkInitWithFunctions(
            ctypes.c_int(team.size),
            ctypes.c_int(team.rank),
            ctypes.cast(self.reduce_scatter, ctypes.c_void_p),
            ctypes.cast(self.gather, ctypes.c_void_p),
        )
        if code != 0:
            raise CarveError(f"LightGBM refused the team: {_LIB.LGBM_GetLastError().decode()}")

    def _end(self) -> None:
        if not self._team.is_alone:
            from lightgbm.basic import _LIB

            _LIB.LGBM_NetworkFree()

    def _exchanged(self, parts: list[Buffer]) -> list[Buffer]:
        if self._failure is None:
            try:
                return list(self._team.exchange(parts))
            except BaseException as error:
                self._failure = error
        return [parts[self._team.rank]] * self._team.size

    def _reduce_scatter(
        self,
        given: int,
        _given_size: int,
        type_size: int,
        starts: Any,
        lengths: Any,
        n_blocks: int,
        output: int,
        _output_size: int,
        reducer: Any,
    ) -> None:
        blocks: list[Buffer] = [_view(given + starts[i], lengths[i]) for i in range(n_blocks)]
        length = lengths[self._team.rank]
        found = self._exchanged(blocks)
        if any(len(block) != length for block in found):
            self._failure = self._failure or TeamError("members are out of step; please report it")
            found = [blocks[self._team.rank]] * n_blocks
        self._added_up = True
        ctypes.memmove(output, _address(found[0]), length)
        for block in found[1:]:
            reducer[0](_address(block), output, type_size, length)

    def _gather(
        self,
        given: int,
        size: int,
        starts: Any,
        lengths: Any,
        n_blocks: int,
        output: int,
        _output_size: int,
    ) -> None:
        own = bytes(_view(given, size))  # LightGBM may gather in place
        blocks: Sequence[Buffer] = self._exchanged([own] * n_blocks)
        if self._follower is not None and self._added_up and self._failure is None:
            try:
                blocks = self._follower.corrected(blocks)
            except BaseException as error:
                self._failure = error
        self._added_up = False
        for i, block in enumerate(blocks):
            ctypes.memmove(output + starts[i], _address(block), min(lengths[i], len(block)))


def _view(address: int, length: int) -> memoryview:
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


def _address(block: Buffer) -> Any:
    """Where the bytes are; whoever asks keeps the block."""
    if isinstance(block, bytes):
        return block
    if len(block) == 0:
        return b""
    return ctypes.addressof(ctypes.c_char.from_buffer(block))
