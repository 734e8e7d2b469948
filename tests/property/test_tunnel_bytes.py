"""S3-03: whatever requests and answers of a tunnel are lost, doubled or late, both streams arrive as they were sent."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.http.errors import Conflict
from leveret.http.tunnels import Tunnel

Fate = Literal["well", "request lost", "answer lost", "doubled"]
FATES: st.SearchStrategy[Fate] = st.sampled_from(["well", "request lost", "answer lost", "doubled"])
STEPS = st.lists(st.tuples(st.sampled_from(["up", "down"]), st.binary(max_size=8), FATES), max_size=40)


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard = b""

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass


class Peer:
    """The client's side in a few lines: it counts what it knows to have arrived."""

    def __init__(self) -> None:
        self.inside = Echo()
        self.tunnel = Tunnel(self.inside, {}, lambda: None)
        self.waiting, self.sent, self.got = b"", 0, b""
        self.late: list[tuple[int, bytes]] = []  # requests that the network may still bring a second time

    async def up(self, fate: Fate) -> None:
        piece = self.waiting[:5]
        if fate == "request lost":
            return
        await self.tunnel.take(self.sent, piece)
        if fate == "doubled":
            await self.tunnel.take(self.sent, piece)
            self.late.append((self.sent, piece))
        if fate != "answer lost":
            self.sent += len(piece)
            self.waiting = self.waiting[len(piece) :]

    async def down(self, fate: Fate) -> None:
        if fate == "request lost":
            return
        at = len(self.got)
        data = await self.tunnel.give(at, lambda: True)
        if fate == "doubled":
            assert await self.tunnel.give(at, lambda: True) == data
        if fate != "answer lost":
            self.got += data

    async def bring_late_ones(self) -> None:
        for at, piece in self.late:
            await self.tunnel.take(at, piece)
        if self.got:
            try:
                await self.tunnel.give(0, lambda: True)
            except Conflict:
                return
            assert not self.tunnel._acknowledged  # nothing was forgotten yet, so the question was a fair one


@given(steps=STEPS)
@settings(deadline=None)
@pytest.mark.feature("S3-03")
def test_both_ways_of_a_tunnel_are_streams(steps: list[tuple[str, bytes, Fate]]) -> None:
    async def run() -> None:
        peer, said_up, said_down = Peer(), b"", b""
        for way, data, fate in steps:
            if way == "up":
                said_up += data
                peer.waiting += data
                await peer.up(fate)
            else:
                said_down += data
                peer.tunnel.write(data)
                await peer.down(fate)
        await peer.bring_late_ones()
        while peer.waiting:
            await peer.up("well")
        while len(peer.got) < len(said_down):
            await peer.down("well")
        assert (peer.inside.heard, peer.got) == (said_up, said_down)

    asyncio.run(run())
