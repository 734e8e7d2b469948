"""A node's own entry among the members of its cell, and its copy of what all members know.

The copy (store/cell_file.py) is for the case that the engine loses the bucket: a member enters itself again, and a cell
can be founded again. A node whose entry was deleted has been removed from the cell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable
from leveret.cluster.link import LinkLost, LinkRefused, Peer
from leveret.cluster.member_position import ask_position
from leveret.cluster.members import Member, Members, cluster_secret
from leveret.errors import ClusterError, ConfigError
from leveret.logs import get_log
from leveret.store.cell_file import CellFile, read_cell, write_cell

LOOK_EVERY = 5.0  # seconds
NAME_SECONDS = 2.0  # for a node of the same name to answer
REMOVED = "this node was removed from the cell: stop it. When it is started again, it joins again"


async def check_name(entered: Member | None, own: Member, peer: Peer) -> None:
    """``entered``: the member with the name of this node. Raises ConfigError if that is another node, and runs."""
    if entered is None or entered.address == own.address:
        return
    try:
        async with asyncio.timeout(NAME_SECONDS):
            found = await ask_position(entered.address, peer)
    except (OSError, LinkLost, LinkRefused, msgspec.ValidationError):
        return  # a former run
    if found.member.node == own.node and found.member.life != own.life:
        raise ConfigError(
            f"another node with the name {own.node!r} runs at {entered.host} port {entered.port}: choose another name "
            "with --node-name, for each node of the cell one of its own"
        )


class Membership:
    """``await run()`` until this node is removed, which calls ``removed``, or until it is cancelled.
    ``cluster_secret``: if the cell is one of several."""

    def __init__(
        self,
        engine: Engine,
        members: Members,
        own: Member,
        peer: Peer,
        folder: Path,
        removed: Callable[[], None],
        cluster_secret: bytes = b"",
    ) -> None:
        self._engine = engine
        self._members = members
        self._own = own
        self._peer = peer
        self._folder = folder
        self._removed = removed
        self._cluster_secret = cluster_secret
        self._known: list[Member] | None = None  # as last written
        self._log = get_log("cluster").bind(cell=peer.cell, node=peer.node)

    async def run(self) -> None:
        while True:
            try:
                connection = await self._engine.connect()
                try:
                    while await self._look(connection):
                        await asyncio.sleep(LOOK_EVERY)
                    return
                finally:
                    await connection.close()
            except (EngineUnavailable, ClusterError, OSError) as problem:
                self._log.debug("members of the cell are not known", reason=str(problem))
                await asyncio.sleep(LOOK_EVERY)

    async def _look(self, connection: EngineConnection) -> bool:
        """Whether this node still is a member."""
        found = await self._members.all(connection)
        if self._own.node not in {member.node for member in found}:
            if await self._members.was_removed(connection, self._own.node):
                self._log.warning("removed from the cell")
                self._removed()
                return False
            self._log.info("the engine has lost this member, entering again")
            if await self._members.secret(connection, self._peer.secret) != self._peer.secret:
                self._log.error("the cell has a new secret", remedy="restart this node")
            if self._cluster_secret:
                await self._restore_cluster_secret(connection)
            await self._members.enter(connection, self._own)
            found.append(self._own)
        found += await self._enter_lost(connection, {member.node for member in found})
        if found != self._known:
            rows = [msgspec.to_builtins(member) for member in found]
            cell = CellFile(self._peer.cell, self._peer.secret.hex(), rows)
            await asyncio.get_running_loop().run_in_executor(None, write_cell, self._folder, cell)
            self._known = found
        return True

    async def _restore_cluster_secret(self, connection: EngineConnection) -> None:
        if await cluster_secret(connection, self._cluster_secret) != self._cluster_secret:
            self._log.error("the cells have a new secret", remedy="restart this node")

    async def _enter_lost(self, connection: EngineConnection, found: set[str]) -> list[Member]:
        """Members that the engine has lost, entered again: a new log must not begin before they were asked."""
        known = self._saved() if self._known is None else self._known
        lost = [member for member in known if member.node not in found]
        lost = [member for member in lost if not await self._members.was_removed(connection, member.node)]
        for member in lost:
            await self._members.enter(connection, member, is_new=True)
        return lost

    def _saved(self) -> list[Member]:
        """As this node noted them in a previous run; none if another version of Leveret did."""
        saved = read_cell(self._folder)
        if saved is None or saved.cell != self._peer.cell:
            return []
        try:
            return [msgspec.convert(row, Member) for row in saved.members]
        except msgspec.ValidationError as problem:
            self._log.warning("members of the cell cannot be read from cell.json", reason=str(problem))
            return []
