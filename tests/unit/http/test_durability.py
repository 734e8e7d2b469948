"""Whoever wrote something waits until it is granted, and learns when it never will be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from leveret.broker.broker import Broker
from leveret.clock import FrozenClock
from leveret.errors import StoreError
from leveret.http.durability import wait_until_durable
from leveret.store.memory_log import MemoryLog
from tests.support.spies import SpyLoop


def broker_with(issued: int) -> Broker:
    log = MemoryLog()
    broker = Broker(node_name="n", clock=FrozenClock(), log=log, memory_high_watermark=1 << 30)
    log.issued = issued
    return broker


async def is_waiting(waiting: Awaitable[None]) -> bool:
    await asyncio.sleep(0)
    return not asyncio.ensure_future(waiting).done()


def test_nothing_written_is_nothing_to_wait_for() -> None:
    asyncio.run(wait_until_durable(broker_with(0)))


def test_the_answer_comes_with_the_grant_of_all_that_was_written() -> None:
    async def live() -> None:
        broker = broker_with(5)
        loop = SpyLoop()
        broker.attach(loop)
        waiting = asyncio.ensure_future(wait_until_durable(broker))
        assert await is_waiting(waiting)
        assert loop.wakes
        broker.granted(4)
        assert await is_waiting(waiting)
        broker.granted(5)
        await waiting
        assert not broker.awaiting
        await wait_until_durable(broker)

    asyncio.run(live())


def test_a_lost_store_is_told_to_those_who_wait_and_those_who_come() -> None:
    async def live() -> None:
        broker = broker_with(5)
        waiting = asyncio.ensure_future(wait_until_durable(broker))
        assert await is_waiting(waiting)
        broker.lost()
        for each in (waiting, wait_until_durable(broker)):
            with pytest.raises(StoreError, match="the change may not be stored"):
                await each

    asyncio.run(live())


def test_who_gave_up_is_forgotten() -> None:
    async def live() -> None:
        broker = broker_with(5)
        waiting = asyncio.ensure_future(wait_until_durable(broker))
        assert await is_waiting(waiting)
        waiting.cancel()
        await asyncio.wait({waiting})
        broker.granted(5)
        assert not broker.awaiting

    asyncio.run(live())
