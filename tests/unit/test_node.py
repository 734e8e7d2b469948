"""What a node refuses to start with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapTopicPermission, BootstrapUser
from leveret.config import Settings
from leveret.errors import ConfigError, StoreError
from leveret.node import Node


def start(**settings: object) -> None:
    async def live() -> None:
        node = Node(Settings(amqp_port=0, http_port=None, stomp_port=None, **settings))  # type: ignore[arg-type]
        await node.start()
        await node.stop()

    asyncio.run(live())


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (Bootstrap(permissions=(BootstrapPermission("nobody"),)), "unknown user 'nobody'.*bootstrap.users"),
        (Bootstrap(permissions=(BootstrapPermission("guest", "nowhere"),)), "vhost 'nowhere'.*bootstrap.vhosts"),
        (Bootstrap(topic_permissions=(BootstrapTopicPermission("nobody"),)), "unknown user 'nobody'"),
    ],
)
def test_permissions_of_somebody_who_does_not_exist_are_refused_with_the_remedy(wanted: Bootstrap, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        start(bootstrap=wanted)


def test_permissions_of_a_declared_user_are_taken() -> None:
    start(bootstrap=Bootstrap(users=(BootstrapUser("ann", "pw"),), permissions=(BootstrapPermission("ann"),)))


def test_a_data_directory_that_cannot_be_made_is_refused_with_the_remedy(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(StoreError, match="set data_dir to another one"):
        start(data_dir=blocked / "data")
