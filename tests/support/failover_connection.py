"""For tests of failover: one connection through a proxy that can cut it, and what is in the broker's queues then."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import leveret
from leveret.client import Channel, Connection, Consumer, Delivery
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, told

T = TypeVar("T")


class Line:
    """A failover: connection through a proxy that can cut it."""

    def __init__(self, proxy: ChaosProxy, connection: Connection, channel: Channel, kinds: list[str]) -> None:
        self.proxy = proxy
        self.connection = connection
        self.channel = channel
        self.kinds = kinds  # of what happened

    async def cut(self) -> None:
        """It is lost, and back again."""
        await told(self.connection, "reconnected", self.proxy.cut)


def play(broker: leveret.Broker, story: Callable[[Line], Coroutine[Any, Any, T]], options: str = "") -> T:
    async def work() -> T:
        async with (
            ChaosProxy(broker.amqp_url) as proxy,
            failing_over(proxy.url, options=options) as (connection, channel, kinds),
        ):
            return await story(Line(proxy, connection, channel, kinds))

    return run(work)


def bodies_in(broker: leveret.Broker, queue: str) -> list[bytes]:
    """What is in the queue, which is empty then."""
    vhost = broker.vhost()
    return [got.body for got in iter(lambda: vhost.get(queue, auto_ack=True), None)]


async def one_of(consumer: Consumer) -> Delivery:
    delivery = await consumer.next()
    assert delivery is not None
    return delivery


async def answered(channel: Channel) -> None:
    """The broker has done everything that the channel said before."""
    await channel.qos(100)
