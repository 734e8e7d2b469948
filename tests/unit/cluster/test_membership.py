"""Two nodes with one name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.link import Peer
from leveret.cluster.member_position import POSITION, PositionService
from leveret.cluster.members import Member
from leveret.cluster.membership import check_name
from leveret.errors import ConfigError
from leveret.replication.claims import Position

PEER = Peer("orders", "ann", b"secret")
OWN = Member("ann", "127.0.0.1", 1, "own life", "1.0")


@dataclass
class Running:
    """A node that answers on the port of the entry."""

    node: str
    life: str

    async def check(self, folder: Path) -> None:
        member = Member(self.node, "127.0.0.1", 0, self.life, "1.0")
        service = PositionService(folder, 0, lambda: (member, Position(), False, ""))
        port = ClusterPort(PEER, {POSITION: service.serve})
        number = await port.listen(("127.0.0.1",), 0)
        try:
            await check_name(Member("ann", "127.0.0.1", number, "other life", "1.0"), OWN, PEER)
        finally:
            port.close()
            await asyncio.sleep(0)


def test_a_name_that_is_used_by_a_running_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another node with the name 'ann' runs at"):
        asyncio.run(Running("ann", "other life").check(tmp_path))


@pytest.mark.parametrize(
    "running", [Running("ann", "own life"), Running("bob", "life of bob")], ids=["this process", "another node"]
)
def test_an_address_that_has_another_user_now_is_no_obstacle(tmp_path: Path, running: Running) -> None:
    asyncio.run(running.check(tmp_path))


@pytest.mark.parametrize("port", [1, 2], ids=["same address", "nothing there"])
def test_a_former_run_is_no_obstacle(port: int) -> None:
    asyncio.run(check_name(Member("ann", "127.0.0.1", port, "former life", "1.0"), OWN, PEER))


def test_a_new_name_is_no_obstacle() -> None:
    asyncio.run(check_name(None, OWN, PEER))
