"""Three servers of the engine for all tests that leave them running, and three for each module that does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.support.cell_log import CellLog
from tests.support.nats_servers import NatsServers

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
Story = Callable[[CellLog], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with NatsServers(tmp_path_factory.mktemp("engine")) as started:
        started.start()
        yield started


@pytest.fixture(scope="module")
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """For tests that kill them, and start them again."""
    with NatsServers(tmp_path_factory.mktemp("killed")) as started:
        started.start()
        yield started


@pytest.fixture
def play(request: pytest.FixtureRequest) -> Play:
    """Run a story on the log of a cell that is the test's own."""

    def play(servers: NatsServers, story: Story, **options: int) -> None:
        async def run() -> None:
            async with CellLog(servers, NOT_IN_NAMES.sub("_", request.node.name)[:60], **options) as cell:
                await story(cell)

        asyncio.run(run())

    return play
