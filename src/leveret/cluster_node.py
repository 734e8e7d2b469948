"""A node of a cell, as ``leveret serve --cluster`` runs it: the second composition root, around the first (node.py).

It follows the log of its cell, and relays clients to the leader; while it leads, it runs a broker on the same ports.
The cluster port is open all the time. If the cell is one of several, see also replicated_cell.py.

Length: like node.py, it shows in one place how a node of a cell is built from its parts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from leveret.broker.broker import Broker
from leveret.cluster.cell_member import CellMember, Identity
from leveret.cluster.cell_stream import CellStream, bucket_configuration, prepare_stream
from leveret.cluster.cell_summary import CellSummary, summary_of
from leveret.cluster.checkpoint_copy import CHECKPOINT, CheckpointService
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.engine import Engine, EngineConnection, end
from leveret.cluster.engine_checks import check_engine
from leveret.cluster.join_check import check_data_dir
from leveret.cluster.leader_watch import WATCH
from leveret.cluster.lease import LeaseHolder
from leveret.cluster.link import Peer
from leveret.cluster.log_faults import LogFault
from leveret.cluster.member_position import POSITION, PositionService
from leveret.cluster.members import Member, Members, cluster_secret
from leveret.cluster.membership import REMOVED, Membership, check_name
from leveret.cluster.node_settings import advertised_host, client_ports, engine_options
from leveret.cluster.relay import RELAY, Adopt, Relay, RelayService
from leveret.cluster.snapshot import SNAPSHOT, SnapshotService
from leveret.cluster.standby_requests import StandbyRequests
from leveret.cluster.status import ClusterStatus
from leveret.cluster.status_collector import StatusCollector
from leveret.cluster.succession import MOST_BEHIND
from leveret.config import Settings
from leveret.errors import ClusterError, ConfigError, LeveretError
from leveret.logs import get_log
from leveret.node import NO_ENVIRONMENT, Node, authority, import_http
from leveret.replicated_cell import ReplicatedCell
from leveret.replication.claims import Position
from leveret.replication.journal_replicator import JournalReplicator
from leveret.server.initial_definitions import ShowFirstLogin
from leveret.server.readiness import Readiness
from leveret.server.settings_reload import reloaded
from leveret.store.cell_file import read_cell
from leveret.store.replica_note import read_note
from leveret.store.store import Store
from leveret.version import VERSION

ENGINE_SECONDS = 30.0  # until the engine must answer, at the start; its elections take up to 9
TRY_AGAIN = 5.0  # seconds, when this node cannot follow
LOOK = 0.02
PATIENCE = 0.1  # seconds for clients to answer that their connection is closed, when this node stops leading


class ClusterNode:
    """``start`` returns when this node leads, or relays to a leader. ``endpoints`` are the URLs for clients."""

    def __init__(
        self,
        settings: Settings,
        *,
        environ: Mapping[str, str] = NO_ENVIRONMENT,
        show_first_login: ShowFirstLogin | None = None,
    ) -> None:
        if settings.data_dir is None:
            raise ConfigError("a node of a cell needs a data directory: set --data-dir")
        self.settings = settings
        self.endpoints: dict[str, str] = {}
        self.node: Node | None = None  # while this node leads
        self.broker: Broker | None = None  # the same, from the beginning of its start on
        self.member: CellMember | None = None
        self.trouble: str | None = None  # why this node cannot follow
        self._folder = settings.data_dir
        self._environ = environ
        self._show_first_login = show_first_login
        self._readiness = Readiness(environ)
        self._life = os.urandom(8).hex()
        self._entered: tuple[Engine, CellStream, Member, Peer] | None = None  # this node, as the others see it
        self._port: ClusterPort | None = None
        self._relay: Relay | None = None
        self._running: asyncio.Task[None] | None = None
        self._requests: asyncio.Task[None] | None = None
        self._membership: asyncio.Task[None] | None = None
        self._cells: ReplicatedCell | None = None  # if the cell is one of several
        self._stopping = asyncio.Event()
        self._is_removed = False  # from the cell
        self._was_ready = False
        self._log = get_log("cluster").bind(cell=settings.cell, node=settings.node_name)

    # ---- start

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        settings, options = self.settings, engine_options(self.settings)
        check_data_dir(settings)
        await check_engine(options)
        engine, stream = Engine(options, settings.node_name), CellStream.of(settings.cell)
        secret = await engine.perform(partial(self._prepare, stream, options.replicas), ENGINE_SECONDS)
        if settings.cells > 1:
            self._cells = ReplicatedCell(engine, settings, await engine.perform(cluster_secret, ENGINE_SECONDS))
        self.member = await self._join(engine, Peer(stream.cell, settings.node_name, secret), stream)
        self._running = asyncio.create_task(self._run(self.member))
        requests = StandbyRequests(self._folder, lambda: self.leads, lambda: self._leader.node if self._leader else "")
        self._requests = asyncio.create_task(requests.run())
        await self._wait_until_ready()
        await asyncio.get_running_loop().run_in_executor(None, import_http)
        self._readiness.ready(f"{self.role} of the cell {settings.cell}")
        self._readiness.feed_watchdog(asyncio.get_running_loop())

    async def _prepare(self, stream: CellStream, replicas: int, connection: EngineConnection) -> bytes:
        """What the cell needs in the engine; returns its secret."""
        await prepare_stream(connection, bucket_configuration(replicas))
        members, note = Members(stream), read_note(self._folder)
        if (note is None or note.is_blank) and not await members.log(connection):  # a new log would be another one
            await prepare_stream(connection, stream.configuration(replicas, self.settings.cluster_log_size))
        saved = read_cell(self._folder)
        return await members.secret(connection, b"" if saved is None else bytes.fromhex(saved.secret))

    async def _join(self, engine: Engine, peer: Peer, stream: CellStream) -> CellMember:
        self._relay = Relay(
            peer,
            self.settings,
            lambda: self._leader,
            self._leader_change,
            self.why_not_ready,
            shares_ports=self._cells is not None,
        )
        await self._open_ports(self._relay)
        identity = await self._open_cluster_port(peer)
        urls = self._advertised(identity.host)
        own = Member(peer.node, identity.host, identity.port, self._life, VERSION, urls)
        entered = await engine.perform(lambda connection: Members(stream).find(connection, own.node), ENGINE_SECONDS)
        await check_name(entered, own, peer)
        await engine.perform(lambda connection: Members(stream).enter(connection, own), ENGINE_SECONDS)
        self._entered = engine, stream, own, peer
        shared = b"" if self._cells is None else self._cells.peer.secret
        membership = Membership(engine, Members(stream), own, peer, self._folder, self._removed, shared)
        self._membership = asyncio.create_task(membership.run())
        return CellMember(engine, stream, self._folder, identity, lambda: LeadingBroker(self), secret=peer.secret)

    async def _open_ports(self, relay: Relay) -> None:
        """Free ports that are picked here stay those of this node."""
        ports = await relay.listen(client_ports(self.settings))
        picked: dict[str, Any] = {f"{scheme}_port": port for scheme, port in ports.items()}
        self.settings = replace(self.settings, **picked)
        self.endpoints = {
            scheme: f"{scheme}://{authority(self.settings.host[0], port)}" for scheme, port in ports.items()
        }

    async def _open_cluster_port(self, peer: Peer) -> Identity:
        settings = self.settings
        self._port = ClusterPort(
            peer,
            {
                WATCH: lambda link, request: self._member.beats.serve(link, request),
                RELAY: RelayService(self._adopters).serve,
                SNAPSHOT: SnapshotService(self._store, lambda: self._member.keep_note()).serve,
                CHECKPOINT: CheckpointService(self._store, lambda: self._member.position.epoch).serve,
                POSITION: PositionService(self._folder, settings.cluster_log_size, self._describe).serve,
            },
            *([] if self._cells is None else [(self._cells.peer, self._cells.services)]),
        )
        port = await self._port.listen(settings.cluster_host, settings.cluster_port)
        self.settings = replace(settings, cluster_port=port)
        return Identity(settings.node_name, self._life, advertised_host(settings), port)

    def _advertised(self, host: str) -> dict[str, str]:
        return {scheme: f"{scheme}://{authority(host, port)}" for scheme, port in client_ports(self.settings).items()}

    @property
    def _member(self) -> CellMember:
        if self.member is None:
            raise ClusterError("this node is starting")
        return self.member

    def _store(self) -> Store | None:
        return None if self.node is None else self.node.store

    def _adopters(self) -> dict[str, Adopt]:
        return {} if self.node is None else {scheme: each.adopt for scheme, each in self.node.adopters.items()}

    def _describe(self) -> tuple[Member, Position, bool, str]:
        """For a log that is founded again, and for a leader that this node has no link to."""
        if self._entered is None:
            raise ClusterError("this node is starting")
        member, trouble = self._member, self.trouble
        if not trouble and member.standby is None and member.leadership is None:
            trouble = "this node copies the leader's data" if member.copy.need else "this node does not follow"
        return self._entered[2], member.position, member.leadership is not None, trouble or ""

    def _removed(self) -> None:
        self._is_removed = True
        self.trouble = REMOVED
        self._log.error("this node does not follow any more", reason=REMOVED)
        self._member.stop()

    async def _run(self, member: CellMember) -> None:
        """A node that cannot follow stays, so that it can be asked why, and tries again. One that cannot start ends,
        unless it is the log that it cannot use: others may ask it for its data."""
        while not (self._is_stopping or self._is_removed):
            try:
                self.trouble = None
                if self._relay is not None:  # its ports may have been in use when this node stopped leading
                    await self._relay.listen(client_ports(self.settings))
                await member.run()
            except Exception as problem:  # such as a full disk: it may have space again later
                if not self._was_ready and not isinstance(problem, LogFault):
                    raise
                is_known = isinstance(problem, LeveretError | OSError)
                self.trouble = str(problem) if is_known else repr(problem)
                report = self._log.error if is_known else self._log.exception
                report("this node cannot follow", reason=self.trouble)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), TRY_AGAIN)

    async def _wait_until_ready(self) -> None:
        assert self._running is not None
        while not self.is_ready:
            if self._running.done():
                self._running.result()
            await asyncio.sleep(LOOK)
        self._was_ready = True

    # ---- state

    @property
    def _is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def leads(self) -> bool:
        return self.node is not None

    @property
    def role(self) -> str:
        return "leader" if self.leads else "standby"

    @property
    def is_ready(self) -> bool:
        """Whether clients are served here: this node leads, or there is a leader that it relays to."""
        return self.leads or (self.member is not None and self.member.leader is not None and not self.trouble)

    def why_not_ready(self) -> str:
        """For a probe of a standby, which needs no login: details are in the log. Empty if it is ready."""
        standby = None if self.member is None else self.member.standby
        if self.trouble:
            return "this node cannot follow the log of its cell: see its log"
        if standby is None:
            return "this node is starting, or is about to lead"
        if standby.behind is None or standby.behind > MOST_BEHIND:
            return "this node has not caught up with the log of its cell"
        return "" if self._leader is not None else "the cell has no leader"

    @property
    def _leader(self) -> LeaseHolder | None:
        return None if self.member is None else self.member.leader

    async def _leader_change(self) -> None:
        if self.member is None:
            await asyncio.sleep(LOOK)
        else:
            await self.member.leader_change()

    # ---- the broker of the leader

    def new_collector(self) -> StatusCollector:
        assert self._entered is not None
        engine, stream, own, peer = self._entered
        return StatusCollector(engine, stream, self._member, own, peer)

    async def hand_over(self, node: str) -> str:
        return await self._member.hand_over(node)

    async def begin_to_lead(self, replicator: JournalReplicator, cluster: LeadingCell) -> None:
        assert self._relay is not None
        node = Node(
            self.settings,
            show_first_login=self._show_first_login,
            readiness=Readiness(NO_ENVIRONMENT),
            environ=self._environ,
            cluster=cluster,
            before_listening=self._before_listening,
            shares_ports=self._cells is not None,
            is_first_cell=self._cells is None or self._cells.is_first,
        )
        assert node.store is not None
        node.store.replicator = replicator
        node.store.loaded, self._member.loaded = self._member.loaded, None
        node.broker.announced = {"cluster_name": self.settings.cell, "cluster_nodes": cluster.client_urls}
        if self._cells is not None:
            self._cells.begin(node, cluster)
        self.broker = node.broker
        try:
            await node.start()
            await self._be_a_cell()  # if the node has no port at all
        except BaseException:
            self.broker = None
            if self._cells is not None:
                await self._cells.finish()
            await self._relay_again()
            raise
        self.node = node

    async def _before_listening(self, scheme: str) -> None:
        """Until the relay closes its port, clients wait there."""
        assert self._relay is not None
        await self._be_a_cell()
        await self._relay.close_port(scheme)

    async def _be_a_cell(self) -> None:
        if self._cells is not None:
            assert self._entered is not None
            await self._cells.ready(self._entered[2].address, self._member.position.epoch, self._is_over)

    def _is_over(self) -> bool:
        led = self._member.leadership
        return self._is_stopping or led is None or led.replicator.is_stopped

    async def cells(self, own: LeadingCell) -> list[CellSummary]:
        return [summary_of(own.status())] if self._cells is None else await self._cells.summaries(own)

    async def hand_over_cell(self, cell: str, node: str) -> str:
        if cell == self.settings.cell:
            return await self.hand_over(node)
        if self._cells is None:
            raise ClusterError(f"there is no cell {cell!r}")
        return await self._cells.hand_over(cell, node)

    async def end_to_lead(self) -> None:
        node, self.node = self.node, None
        if node is not None:
            if self._cells is not None:
                await node.stop_listening(PATIENCE)
                await self._cells.finish()
            await node.stop(PATIENCE)
        self.broker = None
        await self._relay_again()

    async def _relay_again(self) -> None:
        if not self._is_stopping:
            assert self._relay is not None
            await self._relay.listen(client_ports(self.settings))

    # ---- stop

    async def stop(self) -> None:
        self._stopping.set()
        self._readiness.stopping()
        self._readiness.leave()
        if self._relay is not None:
            await self._relay.close_ports()
        if self._requests is not None:
            await end(self._requests)
        if self.member is not None:
            self.member.stop()
        if self._running is not None:
            await asyncio.wait((self._running,))
        if self._membership is not None:
            await end(self._membership)
        if self._relay is not None:
            await self._relay.close()
        if self._port is not None:
            self._port.close()
        self.endpoints.clear()

    # ---- for the command line

    async def reload(self, load: Callable[[], Settings]) -> None:
        """A standby keeps the settings for its relay, and for when it leads."""
        self._readiness.reloading()
        if self.node is not None:
            status = await self.node.reload(load)
            self.settings = self.node.settings
        else:
            status = await self._reload_standby(load)
        if self._relay is not None:
            self._relay.apply(self.settings)
        self._readiness.ready(f"{self.role} of the cell {self.settings.cell}, {status}")

    async def _reload_standby(self, load: Callable[[], Settings]) -> str:
        try:
            self.settings = await reloaded(self.settings, load)
        except ConfigError as problem:
            return f"settings not reloaded: {problem}"
        return "reloaded"

    @property
    def cell_facts(self) -> dict[str, str]:
        cell, leader = self.settings.cell, None if self.member is None else self.member.leader
        role = f"leader of the cell {cell}" if self.leads else f"standby of the cell {cell}"
        if leader is not None:
            role += f", epoch {leader.epoch}" if self.leads else f", leader {leader.node}; clients are relayed to it"
        return {"cell": role, "cluster": authority(self.settings.cluster_host[0], self.settings.cluster_port)}

    @property
    def recovered(self) -> Mapping[str, object]:
        return {} if self.node is None else self.node.recovered

    @property
    def message_memory(self) -> int:
        return 0 if self.node is None else self.node.message_memory

    @property
    def url_user(self) -> str:
        return "" if self.node is None else self.node.url_user


class LeadingBroker:
    """The LeaderNode of cluster/leadership.py: the broker, and what collects the state of the cell for it."""

    def __init__(self, owner: ClusterNode) -> None:
        self._owner = owner
        self._collecting: asyncio.Task[None] | None = None

    async def start(self, replicator: JournalReplicator) -> None:
        collector = self._owner.new_collector()
        self._collecting = asyncio.create_task(collector.run())
        try:
            await self._owner.begin_to_lead(replicator, LeadingCell(collector, self._owner))
        except BaseException:
            await end(self._collecting)
            raise

    async def stop(self) -> None:
        if self._collecting is not None:
            await end(self._collecting)
        await self._owner.end_to_lead()

    @property
    def checkpoint(self) -> int:
        node = self._owner.node
        newest = None if node is None or node.store is None else node.store.newest_checkpoint()
        return 0 if newest is None else newest[0]

    def take_checkpoint(self) -> bool:
        node = self._owner.node
        return node is not None and node.store is not None and node.store.checkpoints.take_now()

    def pause(self, reason: str) -> None:
        if self._owner.broker is not None:
            self._owner.broker.pause_deliveries(reason)

    def resume(self, until: float) -> None:
        if self._owner.broker is not None:
            self._owner.broker.resume_deliveries(until)


class LeadingCell:
    """The ClusterView of api/cluster_view.py."""

    def __init__(self, collector: StatusCollector, owner: ClusterNode) -> None:
        self.client_urls = collector.client_urls
        self._collector = collector
        self._owner = owner

    def status(self) -> ClusterStatus:
        return self._collector.status()

    async def hand_over(self, node: str) -> str:
        return await self._owner.hand_over(node)

    async def cells(self) -> list[CellSummary]:
        return await self._owner.cells(self)

    async def hand_over_cell(self, cell: str, node: str) -> str:
        return await self._owner.hand_over_cell(cell, node)
