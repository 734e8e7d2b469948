"""Random faults of a cell and its engine under load, with a history that is checked at the end.

    outcome = asyncio.run(FaultRun(cell, servers, Random(seed)).run(60))
    outcome.report.violations, outcome.gaps

Each fault is healed before the next: what was killed is started again, and messages are confirmed again.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from statistics import median
from typing import NamedTuple
from urllib.request import Request, urlopen

from tests.support.cell_load import AUTHORIZATION, PARKED, CellLoad
from tests.support.cell_node import Cell, CellNode, until
from tests.support.nats_servers import NatsServers
from tests.support.operation_history import Report

HEAL_SECONDS = 60.0
CONFIRMS = 30  # after a fault, before it counts as healed


class Faults:
    """Each method makes one fault and starts again what it ended. They block."""

    def __init__(self, cell: Cell, servers: NatsServers, random: Random) -> None:
        self._cell = cell
        self._servers = servers
        self._random = random

    def kill_leader(self) -> None:
        leader = self._cell.leader(HEAL_SECONDS)
        leader.kill()
        self._cell.leader(HEAL_SECONDS)
        self._start(leader)

    def kill_leader_twice(self) -> None:
        """The second one while it takes over, or right after: on a busy machine that is over before it is noticed."""
        first = self._cell.leader(HEAL_SECONDS)
        first.kill()
        second = until(self._successor, HEAL_SECONDS, self._cell.logs)
        second.kill()
        self._start(first)
        self._start(second)

    def _successor(self) -> CellNode | None:
        return next((node for node in self._cell.nodes if node.has_claimed or node.leads), None)

    def kill_standby(self) -> None:
        standby = self._random.choice(self._cell.standbys())
        standby.kill()
        self._start(standby)

    def terminate_leader(self) -> None:
        leader = self._cell.leader(HEAL_SECONDS)
        leader.signal(signal.SIGTERM)
        leader.wait()
        self._start(leader)

    def hand_over(self) -> None:
        """By the leader, which goes on as a standby."""
        leader = self._cell.leader(HEAL_SECONDS)
        request = Request(f"{leader.http_url}/api/cluster/handover", b"{}", {"Authorization": AUTHORIZATION})
        urlopen(request, timeout=HEAL_SECONDS).close()
        self._cell.leader(HEAL_SECONDS, but=leader)

    def stop_leader(self) -> None:
        """SIGSTOP until another node leads, and SIGCONT."""
        leader = self._cell.leader(HEAL_SECONDS)
        leader.signal(signal.SIGSTOP)
        try:
            self._cell.leader(HEAL_SECONDS, but=leader)
            self._wait(0.0, 2.0)
        finally:
            leader.signal(signal.SIGCONT)
        until(lambda: not leader.leads, HEAL_SECONDS, self._cell.logs)

    def kill_server(self) -> None:
        self._kill_servers(self._random.randrange(self._servers.number))

    def kill_engine_leader(self) -> None:
        self._kill_servers(self.engine_leader())

    def kill_two_servers(self) -> None:
        self._kill_servers(*self._random.sample(range(self._servers.number), 2))

    def kill_all_servers(self) -> None:
        self._kill_servers(*range(self._servers.number))

    def kill_both_leaders(self) -> None:
        """The machine of the leader, which has a server of the engine too."""
        place, leader = self.engine_leader(), self._cell.leader(HEAL_SECONDS)
        self._servers.kill(place)
        leader.kill()
        self._wait(0.5, 4.0)
        self._servers.start(place)
        self._start(leader)

    def restart_all_nodes(self) -> None:
        """One after the other, in good order."""
        for node in self._cell.nodes:
            node.signal(signal.SIGTERM)
            node.wait()
            self._start(node)

    def restart_all_servers(self) -> None:
        """One after the other; each has all data again before the next."""
        for place in range(self._servers.number):
            self._servers.signal(place, signal.SIGTERM)
            self._servers.kill(place)
            self._servers.start(place)
            until(partial(self._servers.is_healthy, place), HEAL_SECONDS, lambda: "a server is not healthy")

    def _kill_servers(self, *places: int) -> None:
        for place in places:
            self._servers.kill(place)
        self._wait(0.0, 4.0)
        self._servers.start(*places)

    def engine_leader(self) -> int:
        """The server that leads the stream of the cell."""
        return until(self._find_engine_leader, HEAL_SECONDS, lambda: "the stream has no leader")[0]

    def _find_engine_leader(self) -> tuple[int] | None:
        for url in self._servers.monitoring:
            try:
                with urlopen(f"{url}/jsz?accounts=true&streams=true", timeout=10) as answer:
                    found = json.load(answer)
            except (OSError, ValueError):
                continue
            for account in found.get("account_details", ()):
                for stream in account.get("stream_detail", ()):
                    leader = stream.get("cluster", {}).get("leader")
                    if stream["name"] == f"LEVERET_{self._cell.name}" and leader:
                        return (self._servers.place_of(leader),)
        return None

    def _start(self, node: CellNode) -> None:
        node.start()
        until(lambda: is_listening(node) or not node.is_running, HEAL_SECONDS, self._cell.logs)
        assert node.is_running, node.log()[-2000:]

    def _wait(self, least: float, most: float) -> None:
        """How long a fault lasts is a part of it."""
        time.sleep(self._random.uniform(least, most))


def is_listening(node: CellNode) -> bool:
    try:
        socket.create_connection((node.host, node.port), timeout=10).close()
    except OSError:
        return False
    return True


ALL = (
    Faults.kill_leader,
    Faults.kill_leader_twice,
    Faults.kill_standby,
    Faults.terminate_leader,
    Faults.hand_over,
    Faults.stop_leader,
    Faults.kill_server,
    Faults.kill_engine_leader,
    Faults.kill_two_servers,
    Faults.kill_all_servers,
    Faults.kill_both_leaders,
)
Fault = Callable[[Faults], None]


class Made(NamedTuple):
    """A fault that was made."""

    name: str
    at: float
    healed_at: float


class RunOutcome(NamedTuple):
    report: Report
    gaps: dict[str, list[float]]  # seconds without confirms, by fault
    errors: list[str]  # of connections

    def __str__(self) -> str:
        lines = [f"{'fault':<20}  number  gap p50  gap max"]
        for name, gaps in sorted(self.gaps.items()):
            lines.append(f"{name:<20}  {len(gaps):>6}  {median(gaps):>6.2f}s  {max(gaps):>6.2f}s")
        return "\n".join([*lines, f"{len(self.errors):,} connections lost", str(self.report)])


class FaultRun:
    def __init__(self, cell: Cell, servers: NatsServers, random: Random, *, rate: float = 150.0) -> None:
        self._random = random
        self._faults = Faults(cell, servers, random)
        self.load = CellLoad(cell.nodes, Random(random.randrange(1 << 32)), rate=rate)

    async def run(
        self, seconds: float, kinds: Sequence[Fault] = ALL, notify: Callable[[str], None] = lambda text: None
    ) -> RunOutcome:
        """Random faults for so long, each kind at least once per round, in a random order."""
        await self.load.start()
        await self.load.more(CONFIRMS, HEAL_SECONDS)
        deadline, made, left = time.monotonic() + seconds, list[Made](), list[Fault]()
        while time.monotonic() < deadline:
            left = left or self._random.sample(list(kinds), len(kinds))
            made.append(await self.make(left.pop()))
            notify(f"{len(made)}: {made[-1].name}, healed after {made[-1].healed_at - made[-1].at:.1f} s")
        return await self.finish(made)

    async def make(self, fault: Fault) -> Made:
        await asyncio.sleep(self._random.uniform(0.2, 1.0))
        begun = time.monotonic()
        await asyncio.to_thread(fault, self._faults)
        await self.load.more(CONFIRMS, HEAL_SECONDS)
        return Made(fault.__name__, begun, time.monotonic())

    async def finish(self, made: Sequence[Made]) -> RunOutcome:
        await self.load.stop()
        await self.load.drain()
        history = self.load.history
        return RunOutcome(history.check(), gaps_of(made, history.confirm_times(PARKED)), self.load.errors)


def gaps_of(made: Sequence[Made], confirms: Sequence[float]) -> dict[str, list[float]]:
    """The longest time between two confirms during each fault."""
    gaps: dict[str, list[float]] = {}
    for fault in made:
        first = max(bisect_right(confirms, fault.at) - 1, 0)
        last = bisect_left(confirms, fault.healed_at) + 1
        longest = max((late - early for early, late in pairwise(confirms[first:last])), default=0.0)
        gaps.setdefault(fault.name, []).append(longest)
    return gaps
