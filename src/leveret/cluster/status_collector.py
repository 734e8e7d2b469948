"""The state of a cell, collected by its leader: from the engine every two seconds, from this process when it is asked.

A server of the engine is reachable if the leader of the stream has heard from it; while the stream has no leader, if
its monitoring port answers.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from leveret.cluster.cell_member import CellMember
from leveret.cluster.cell_stream import NANOSECONDS, CellStream
from leveret.cluster.engine import Engine, EngineConnection, EngineRefusal, EngineUnavailable
from leveret.cluster.engine_checks import ServerFacts, read_facts
from leveret.cluster.history import History, TakeOvers
from leveret.cluster.link import LinkLost, LinkRefused, Peer
from leveret.cluster.member_position import ask_position
from leveret.cluster.members import Member, Members
from leveret.cluster.status import (
    DOWN,
    LEADER,
    STANDBY,
    ClusterStatus,
    EngineServer,
    Lag,
    LagSamples,
    LogStatus,
    MemberStatus,
    TakeOver,
)
from leveret.errors import ClusterError
from leveret.logs import LogInterval, get_log
from leveret.replication.claims import Position
from leveret.wire.fields import FieldValue

REFRESH = 2.0  # seconds
SAMPLE = 0.5
BETWEEN_FACTS = 30.0  # seconds between two reads of the servers' monitoring ports, while the engine answers
CONNECTED = 3.0  # seconds since the last report of a standby
HEARD = 5.0  # seconds since the stream's leader has heard from another server
ASK_SECONDS = 1.5  # for a member that is not connected
OVERDUE = 3.0  # seconds that the engine may owe an answer
BETWEEN_WARNINGS = 60.0


class StatusCollector:
    """For one leader epoch. ``await run()`` until it is cancelled; ``status`` at any time."""

    def __init__(self, engine: Engine, stream: CellStream, member: CellMember, own: Member, peer: Peer) -> None:
        """``member`` leads. ``own``: this node, as it entered itself; ``peer``: the same, for links."""
        assert member.leadership is not None
        self._engine = engine
        self._stream = stream
        self._member = member
        self._own = own
        self._peer = peer
        self._leadership = member.leadership
        self._epoch = self._leadership.position.epoch
        self._since = time.time()
        self._members = Members(stream)
        self._history = History(stream)
        self._samples = LagSamples()
        self._known_members: list[Member] = [own]
        self.client_urls: list[
            FieldValue
        ] = []  # AMQP ports of all members; updated in place, empty until they are read
        self._take_overs = TakeOvers()
        self._info: dict[str, Any] | None = None  # of the stream
        self._is_answering = True
        self._facts: dict[str, ServerFacts] = {}  # by monitoring address, as last read
        self._problems: dict[str, str] = {}  # of members that are not connected
        self._silent: set[str] = set()  # monitoring addresses that did not answer
        self._facts_at = -BETWEEN_FACTS
        self._warnings = LogInterval(BETWEEN_WARNINGS)
        self._log = get_log("cluster").bind(cell=stream.cell)

    # ---- collect

    async def run(self) -> None:
        connection: EngineConnection | None = None
        tasks = [asyncio.create_task(job) for job in (self._sample(), self._ask_unconnected())]
        try:
            while True:
                try:
                    if connection is None:
                        connection = await self._engine.connect()
                    await self._refresh(connection)
                    self._is_answering = True
                except (EngineUnavailable, EngineRefusal, ClusterError) as problem:
                    self._is_answering = False
                    self._facts_at = -BETWEEN_FACTS
                    if self._warnings.is_due(asyncio.get_running_loop().time()):
                        self._log.warning("the state of the cell cannot be read", reason=str(problem))
                    if connection is not None:
                        await connection.close()
                        connection = None
                await self._read_facts()
                await self._pause()
        finally:
            for task in tasks:
                task.cancel()
            if connection is not None:
                await connection.close()

    async def _sample(self) -> None:
        while True:
            self._take_sample()
            await asyncio.sleep(SAMPLE)

    def _take_sample(self) -> None:
        led = self._leadership
        self._samples.add(led.position.sequence, led.granted_bytes, asyncio.get_running_loop().time())

    async def _ask_unconnected(self) -> None:
        """Members that cannot follow stay, so that they can be asked why."""
        while True:
            missing = [each for each in self._members_with_own() if not self._is_connected(each.node)]
            answers = await asyncio.gather(*(self._problem_of(each) for each in missing))
            self._problems = {each.node: answer for each, answer in zip(missing, answers, strict=True)}
            await asyncio.sleep(REFRESH)

    async def _problem_of(self, member: Member) -> str:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return (await ask_position(member.address, self._peer)).trouble
        except ConnectionRefusedError:
            return f"no process listens on {member.host} port {member.port}"
        except TimeoutError:
            return f"{member.host} port {member.port} does not answer"
        except (LinkLost, LinkRefused, msgspec.ValidationError) as problem:
            return str(problem)

    async def _pause(self) -> None:
        """Until the next refresh; the take-over is recorded as soon as it is complete."""
        if self._own_take_over is not None:
            await asyncio.sleep(REFRESH)
            return
        try:
            await asyncio.wait_for(self._member.leads.wait(), REFRESH)
        except TimeoutError:
            return

    async def _refresh(self, connection: EngineConnection) -> None:
        try:
            self._info = await connection.request(f"$JS.API.STREAM.INFO.{self._stream.name}")
        except EngineUnavailable:
            self._info = None
            raise
        self._known_members = await self._members.all(connection)
        self.client_urls[:] = [url for each in self._known_members for url in amqp_urls(each)]
        own = self._own_take_over
        if own is None:
            self._take_overs = await self._history.read(connection)
        elif not self._take_overs.has(own.epoch):
            self._take_overs = await self._history.add(connection, own)

    @property
    def _own_take_over(self) -> TakeOver | None:
        """None until this node leads in this epoch."""
        noted = self._member.take_over
        return noted if noted is not None and noted.epoch == self._epoch else None

    async def _read_facts(self) -> None:
        """Versions and names of the servers, over their monitoring ports."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._facts_at < BETWEEN_FACTS:
            return
        self._facts_at = loop.time()
        urls = self._engine.options.monitoring_urls
        answers = await asyncio.gather(
            *(loop.run_in_executor(None, read_facts, url, self._engine.options.login) for url in urls),
            return_exceptions=True,
        )
        for url, answer in zip(urls, answers, strict=True):
            if isinstance(answer, ServerFacts):
                self._facts[url] = answer
                self._silent.discard(url)
            else:
                self._silent.add(url)

    # ---- what is known

    def status(self) -> ClusterStatus:
        self._take_sample()
        noted = self._own_take_over
        return ClusterStatus(
            cell=self._stream.cell,
            leader=self._own.node,
            epoch=self._epoch,
            leader_since=self._since if noted is None else noted.at,
            is_answering=self._is_answering and not self._is_overdue,
            members=tuple(self._member_status(each) for each in self._members_with_own()),
            engine=tuple(self._servers()),
            log=None if self._info is None else _log_status(self._info),
            take_overs=self._take_overs.newest,
            totals=self._take_overs.totals,
        )

    @property
    def _is_overdue(self) -> bool:
        return asyncio.get_running_loop().time() - self._leadership.answered_at > OVERDUE

    def _members_with_own(self) -> list[Member]:
        others = [each for each in self._known_members if each.node != self._own.node]
        return sorted([*others, self._own], key=lambda member: member.node)

    def _member_status(self, member: Member) -> MemberStatus:
        if member.node == self._own.node:
            return self._reported(_entry(member, LEADER, True), self._leadership.position, Lag(0, 0, 0.0), 0.0)
        is_connected = self._is_connected(member.node)
        entry = _entry(member, STANDBY if self._member.beats.links[member.node] > 0 else DOWN, is_connected)
        if not is_connected:
            entry = entry._replace(problem=self._problems.get(member.node, ""))
        report = self._member.beats.reports.get(member.node)
        if report is None:
            return entry
        now = asyncio.get_running_loop().time()
        lag = self._samples.lag(report.position.sequence, report.at if is_connected else now, self._record_size)
        return self._reported(entry, report.position, lag, now - report.at)

    def _is_connected(self, node: str) -> bool:
        beats, now = self._member.beats, asyncio.get_running_loop().time()
        report = beats.reports.get(node)
        is_new = report is not None and now - report.at <= CONNECTED
        return node == self._own.node or (beats.links[node] > 0 and is_new)

    def _reported(self, entry: MemberStatus, position: Position, lag: Lag, age: float) -> MemberStatus:
        return entry._replace(
            epoch=position.epoch,
            batch=position.batch,
            lag_records=lag.records,
            lag_bytes=lag.bytes,
            lag_seconds=lag.seconds,
            last_seen=time.time() - age,
        )

    @property
    def _record_size(self) -> float:
        """The mean of the records in the log, in bytes."""
        if self._info is None:
            return 0.0
        state = self._info["state"]
        return float(state["bytes"] / max(state["messages"], 1))

    def _servers(self) -> list[EngineServer]:
        by_name = {facts.name: facts for facts in self._facts.values()}
        cluster = None if self._info is None else self._info.get("cluster")
        if cluster is None:  # no answer, or a single server
            is_found = self._info is not None
            return [
                EngineServer(facts.name, url, _version(facts), url not in self._silent, is_found, is_found, 0)
                for url, facts in self._facts.items()
            ]
        leader = cluster.get("leader", "")
        servers = [_server(leader, by_name.get(leader), is_leader=True)] if leader else []
        servers += [_server(each["name"], by_name.get(each["name"]), each) for each in cluster.get("replicas") or ()]
        return sorted(servers, key=lambda server: server.name)


def _entry(member: Member, role: str, is_connected: bool) -> MemberStatus:
    return MemberStatus(
        member.node, role, member.host, member.port, member.endpoints, member.version, is_connected=is_connected
    )


def _server(
    name: str, facts: ServerFacts | None, replica: dict[str, Any] | None = None, *, is_leader: bool = False
) -> EngineServer:
    replica = replica or {}
    is_heard = not replica.get("offline", False) and replica.get("active", 0) < HEARD * NANOSECONDS
    return EngineServer(
        name,
        "" if facts is None else facts.url,
        "" if facts is None else _version(facts),
        is_heard,
        is_leader,
        is_leader or bool(replica.get("current")),
        int(replica.get("lag", 0)),
    )


def _version(facts: ServerFacts) -> str:
    return ".".join(map(str, facts.version))


def _log_status(info: dict[str, Any]) -> LogStatus:
    state, config = info["state"], info["config"]
    return LogStatus(
        state["first_seq"], state["last_seq"], state["bytes"], config["max_bytes"], config.get("num_replicas", 1)
    )


def amqp_urls(member: Member) -> list[str]:
    return [url for scheme, url in member.endpoints.items() if scheme in ("amqp", "amqps")]
