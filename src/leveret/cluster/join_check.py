"""Whether a node can join a cell from this machine, for ``leveret cluster join``. Nothing is changed."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from leveret.cluster.cell_stream import CellStream, read_log
from leveret.cluster.engine import Engine, EngineConnection
from leveret.cluster.engine_checks import ServerFacts, check_engine
from leveret.cluster.lease import Lease
from leveret.cluster.link import LinkLost, LinkRefused, Peer
from leveret.cluster.log_faults import LogGone
from leveret.cluster.member_position import ask_position
from leveret.cluster.members import Member, Members
from leveret.cluster.node_settings import engine_options
from leveret.config import Settings
from leveret.errors import ClusterError
from leveret.store.replica_note import read_note

SECONDS = 10.0
COMMAND = "leveret cluster"  # in place of the name of a node


class JoinFacts(NamedTuple):
    """``servers``: those that were checked. ``leader``: empty if no node leads. ``unreachable``: members whose cluster
    port does not answer, and why."""

    exists: bool
    servers: tuple[ServerFacts, ...] = ()
    leader: str = ""
    members: tuple[Member, ...] = ()
    unreachable: dict[str, str] = {}  # never changed


async def survey_cell(settings: Settings) -> JoinFacts:
    """Raises ClusterError if the engine cannot be used."""
    options, stream = engine_options(settings), CellStream.of(settings.cell)
    engine = Engine(options, COMMAND)
    connection = await engine.connect_within(0)
    await connection.close()
    servers = await check_engine(options)
    facts, secret = await engine.perform(lambda connection: _read_cell(connection, stream), SECONDS)
    peer = Peer(stream.cell, COMMAND, secret)
    problems = await asyncio.gather(*(_problem(member, peer) for member in facts.members))
    unreachable = {member.node: text for member, text in zip(facts.members, problems, strict=True) if text}
    return facts._replace(servers=tuple(servers), unreachable=unreachable)


async def _read_cell(connection: EngineConnection, stream: CellStream) -> tuple[JoinFacts, bytes]:
    members = Members(stream)
    try:
        found = tuple(await members.all(connection))
    except ClusterError:  # the first node creates the bucket
        found = ()
    try:
        await read_log(connection, stream)
    except LogGone:
        if found:
            raise
        return JoinFacts(exists=False), b""
    held = await Lease(stream).read(connection)
    leader = "" if held is None or held.holder.is_released else held.holder.node
    return JoinFacts(True, (), leader, found), await members.secret(connection) if found else b""


async def _problem(member: Member, peer: Peer) -> str:
    try:
        await ask_position(member.address, peer)
    except ConnectionRefusedError:
        return "no process listens there"
    except (OSError, LinkLost, LinkRefused, msgspec.ValidationError) as problem:
        return str(problem) or type(problem).__name__
    return ""


def check_data_dir(settings: Settings) -> None:
    """Raises ClusterError if the data directory belongs to another cell."""
    assert settings.data_dir is not None
    note = read_note(settings.data_dir)
    if note is not None and note.cell != settings.cell:
        raise ClusterError(
            f"data directory {settings.data_dir} belongs to the cell {note.cell!r}, not to {settings.cell!r}: choose "
            "another with --data-dir, or correct the name of the cell"
        )


def check_leader(settings: Settings, cell: JoinFacts) -> None:
    """Raises ClusterError if the cell has no leader, or one that is not reachable: a new node copies its data."""
    if cell.exists and not cell.leader:
        raise ClusterError(f"the cell '{settings.cell}' has no leader to copy the data from: start its nodes first")
    if cell.leader in cell.unreachable:
        raise ClusterError(
            f"the cluster port of the leader '{cell.leader}' is not reachable from this machine: check "
            "--cluster-host and --advertised-host of that node, and the firewall"
        )
