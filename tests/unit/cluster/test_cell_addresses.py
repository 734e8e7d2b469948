"""Where other cells are: how a caller waits for another address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from leveret.cluster.cell_addresses import ReportedAddresses

HERE, THERE = ("127.0.0.1", 1), ("127.0.0.1", 2)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


def test_an_address_is_known_when_it_is_reported() -> None:
    async def story() -> None:
        addresses = ReportedAddresses(c1=HERE)
        assert (addresses.of("c1"), addresses.of("c2")) == (HERE, None)
        waiting = asyncio.create_task(addresses.changed("c2", None))
        await asyncio.sleep(0)
        addresses.reported({"c3": THERE})
        await asyncio.sleep(0)
        assert not waiting.done()
        addresses.reported({"c2": THERE})
        await waiting
        assert addresses.of("c2") == THERE

    run(story)


def test_a_caller_that_tries_again_waits_for_a_limited_time() -> None:
    async def story() -> None:
        addresses = ReportedAddresses(c1=HERE)
        await addresses.changed("c1", HERE, 0.01)
        await addresses.changed("c1", THERE)  # it is another one already
        assert addresses.of("c1") == HERE

    run(story)
