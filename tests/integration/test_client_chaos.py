"""Thousands of messages through connections that are cut again and again: each reaches the application once."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from random import Random

import pytest

import leveret
from leveret.client import Connection, Delivery, connect
from tests.support.chaos_proxy import ChaosProxy

MESSAGES = 10_000
CUTS = 50
OPEN = 400  # publishes without a confirm
IN_HAND = 20  # messages that the application has and has not acked
SEED = 20_260_701
SECONDS = 50.0
QUICK = "initialReconnectDelay=1&maxReconnectDelay=20"


def plan(random: Random) -> list[int]:
    """Half of the cuts: from within the handshake to behind a few hundred messages."""
    return [random.randint(300, 40_000) for _ in range(CUTS // 2)]


async def publish_all(connection: Connection) -> None:
    channel = await connection.channel()
    await channel.declare_queue("orders", durable=True)
    await channel.confirm_select()
    confirms = channel.confirms
    assert confirms is not None
    for number in range(MESSAGES):
        confirm = channel.send(b"%d" % number, routing_key="orders")
        if confirms.open > OPEN:
            assert confirm is not None
            await confirm
    await confirms.all_settled()


async def consume_all(connection: Connection, seen: Counter[int]) -> None:
    channel = await connection.channel()
    await channel.declare_queue("orders", durable=True)
    await channel.qos(100)
    consumer = await channel.consume("orders")
    in_hand: deque[Delivery] = deque()  # acked a little later, so that cuts find some
    async for delivery in consumer:
        seen[int(delivery.body)] += 1
        in_hand.append(delivery)
        while len(in_hand) > IN_HAND or (in_hand and len(seen) == MESSAGES):
            in_hand.popleft().ack()
        if len(seen) == MESSAGES:
            break
    await consumer.cancel()
    assert await channel.get("orders") is None


@pytest.mark.feature("S3-08")
def test_ten_thousand_messages_and_fifty_cuts_each_reaches_the_application_once(
    leveret_broker: leveret.Broker,
) -> None:
    """Unconfirmed publishes are sent again, redelivered messages fall to the audit."""
    random = Random(SEED)
    seen: Counter[int] = Counter()

    async def work() -> tuple[int, int]:
        url = leveret_broker.amqp_url
        async with (
            asyncio.timeout(SECONDS),
            ChaosProxy(url, cut_plan=plan(random)) as publishing,
            ChaosProxy(url, cut_plan=plan(random)) as consuming,
            await connect(f"failover:({publishing.url})?{QUICK}") as publisher,
            await connect(f"failover:({consuming.url})?{QUICK}") as subscriber,
        ):
            await asyncio.gather(publish_all(publisher), consume_all(subscriber, seen))
            return publishing.cuts, consuming.cuts

    assert asyncio.run(work()) == (CUTS // 2, CUTS // 2)
    assert len(seen) == MESSAGES
    assert {number: times for number, times in seen.items() if times != 1} == {}
