"""Three servers of the engine for all tests that leave them running, and three for each test that does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cell_log import CellLog
from tests.support.nats_servers import NatsServers

Story = Callable[[CellLog], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with NatsServers(tmp_path_factory.mktemp("engine")) as started:
        started.start()
        yield started


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[NatsServers]:
    """For tests that kill them."""
    with NatsServers(tmp_path) as started:
        started.start()
        yield started


@pytest.fixture
def play(request: pytest.FixtureRequest) -> Play:
    """Run a story on the log of a cell that is the test's own."""

    def play(servers: NatsServers, story: Story, **options: int) -> None:
        async def run() -> None:
            async with CellLog(servers, request.node.originalname[:60], **options) as cell:
                await story(cell)

        asyncio.run(run())

    return play
