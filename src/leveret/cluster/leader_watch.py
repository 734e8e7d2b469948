"""How a standby learns at once that the leader's process has ended: by a link to the leader's cluster port.

The leader sends a beat twice a second, and the standby answers with its position. When a process ends, its system
closes its sockets: the link is lost, and connecting again is refused, or another life answers. That proves the death.
A link that is silent proves nothing by itself: the leader may be cut off from this node only. If its lease is not
renewed either, for most of the time that a lease lives, it counts as dead.

Nothing depends on these proofs but the time of a take-over: the fence is in the log. A proof may be wrong: a firewall
refuses connections too, and a wrong address may be that of another process. It is about one epoch. A life that leads
again in a later one was alive: from then on its lease counts, and nothing that this node finds at its address.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from leveret.cluster.lease import HeldLease, LeaseHolder
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.logs import LogInterval, get_log
from leveret.replication.claims import Position

WATCH = "watch"
BEAT = 0.5  # seconds between beats
SILENCE = 9.0  # seconds without a beat and without a renewed lease
PAUSE = 0.2
BETWEEN_LINES = 5.0  # seconds between two log lines about a lost link


class Beat(NamedTuple):
    """What the leader has told last. ``checkpoint``: its newest one, by the number of the segment that follows; 0 if it
    has none."""

    position: Position
    checkpoint: int = 0


class LeaderWatch:
    """Call ``look`` with each lease that was read; ``is_dead`` then judges its holder. ``wake`` is set when there is a
    reason to read the lease again before its time."""

    def __init__(self, peer: Peer, position: Callable[[], Position], checkpoint: Callable[[], int] = lambda: 0) -> None:
        """``position`` and ``checkpoint``: of this node, for its answers; see Beat."""
        self.wake = asyncio.Event()
        self.beat: Beat | None = None
        self._peer = peer
        self._position = position
        self._checkpoint = checkpoint
        self._held: HeldLease | None = None
        self._renewed = 0.0  # when the lease was seen to be renewed
        self._heard = 0.0
        self._dead: LeaseHolder | None = None  # its process has ended
        self._doubted: set[str] = set()  # lives that were found dead, and led again
        self._lines = LogInterval(BETWEEN_LINES)
        self._task: asyncio.Task[None] | None = None
        self._log = get_log("cluster").bind(cell=peer.cell)

    def look(self, held: HeldLease | None) -> None:
        now, before = asyncio.get_running_loop().time(), self._held
        self._held = held
        self._check_proof(held)
        if held is None or held.holder.is_released or held.holder.node == self._peer.node:
            self._end()
            return
        if before is None or before.revision != held.revision:
            self._renewed = now
        if before is None or before.holder.life != held.holder.life or self._task is None:
            self._end()
            self._heard = now
            self._task = asyncio.create_task(self._watch(held))

    def is_dead(self, held: HeldLease) -> bool:
        if self.has_ended(held.holder.life):
            return True
        now = asyncio.get_running_loop().time()
        return now - self._renewed > SILENCE and now - self._heard > SILENCE

    def has_ended(self, life: str) -> bool:
        """Whether the process with this life is known to have ended."""
        return self._dead is not None and life == self._dead.life

    def _check_proof(self, held: HeldLease | None) -> None:
        dead = self._dead
        if dead is not None and held is not None and held.holder.life == dead.life and held.holder.epoch > dead.epoch:
            self._log.error(
                "a leader that was reported as down is running",
                leader=dead.node,
                address=f"{dead.host} port {dead.port}",
                remedy="check its advertised host, and that firewalls let nodes reach each other's cluster ports",
            )
            self._dead = None
            self._doubted.add(dead.life)

    def close(self) -> None:
        self._held = None
        self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.beat = None

    async def _watch(self, held: HeldLease) -> None:
        life = held.holder.life
        while not self.has_ended(life):
            has_beaten = False
            try:
                link = await open_link((held.holder.host, held.holder.port), self._peer, WATCH)
                try:
                    while True:
                        self._take(await link.receive(), held.holder)
                        has_beaten = True
                        await link.send({"position": list(self._position()), "checkpoint": self._checkpoint()})
                finally:
                    link.close()
            except (ConnectionRefusedError, LinkLost, LinkRefused) as problem:
                if isinstance(problem, ConnectionRefusedError):
                    self._found_dead(held.holder, "its process has ended")
                if self._lines.is_due(asyncio.get_running_loop().time()):
                    self._log.info("link to the leader lost", leader=held.holder.node, reason=str(problem))
                self.wake.set()
                if not has_beaten:  # else connect at once: a process that has ended refuses
                    await asyncio.sleep(PAUSE)

    def _take(self, frame: Frame, leader: LeaseHolder) -> None:
        if frame.get("life") != leader.life:
            self._found_dead(leader, "its process was restarted")
            raise LinkLost("another process")
        self._heard = asyncio.get_running_loop().time()
        if not frame.get("leads"):
            self.wake.set()
        self.beat = Beat(Position(*frame["position"]), int(frame.get("checkpoint", 0)))

    def _found_dead(self, leader: LeaseHolder, reason: str) -> None:
        if leader.life not in self._doubted:
            self._log.warning("the leader has failed", reason=reason)
            self._dead = leader
            self.wake.set()


class StandbyReport(NamedTuple):
    position: Position
    at: float  # of the loop's clock
    checkpoint: int = 0  # the newest one that it has copied


class Beats:
    """The leader's side of all watches. ``reports`` has what standbys answered, by node; ``links`` counts the open
    links of each."""

    def __init__(self, life: str, describe: Callable[[], Frame]) -> None:
        """``describe``: the rest of a beat, from CellMember."""
        self.reports: dict[str, StandbyReport] = {}
        self.links: Counter[str] = Counter()
        self._life = life
        self._describe = describe
        self._now = asyncio.Event()

    def send_now(self) -> None:
        """This node does not lead any more: let standbys look at the lease."""
        now, self._now = self._now, asyncio.Event()
        now.set()

    async def serve(self, link: Link, request: Frame) -> None:
        await link.send({})
        node = str(request["node"])
        self.links[node] += 1
        try:
            await self._send_beats(link, node)
        finally:
            self.links[node] -= 1

    async def _send_beats(self, link: Link, node: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            waiting = self._now
            await link.send({"life": self._life, **self._describe()})
            answer = await link.receive()
            copied = int(answer.get("checkpoint", 0))
            self.reports[node] = StandbyReport(Position(*answer["position"]), loop.time(), copied)
            try:
                await asyncio.wait_for(waiting.wait(), BEAT)
            except TimeoutError:
                continue
