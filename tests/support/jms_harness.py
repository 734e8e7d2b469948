"""A JMS connection to a real broker, with a manual clock and a record of the acks that were sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import leveret
from leveret.client import Channel, Properties
from leveret.client.jms import AckMode, Connection, ConnectionFactory, Message, MessageConsumer, Queue, Session
from tests.support.manual_clock import ManualClock
from tests.support.peers import inside

PATIENCE = 60.0


class JmsHarness:
    """``channel`` is for operations outside of JMS."""

    def __init__(self, broker: leveret.Broker, connection: Connection, channel: Channel, clock: ManualClock) -> None:
        self.broker = broker
        self.connection = connection
        self.channel = channel
        self.clock = clock
        self.acks: list[tuple[str, list[bytes]]] = []  # type and bodies

    async def session(self, mode: AckMode = AckMode.AUTO) -> Session:
        session = await self.connection.create_session(mode)
        session.ack_listeners.append(
            lambda event: self.acks.append((event.type.name, [each.body for each in event.deliveries]))
        )
        return session

    async def consumer(self, mode: AckMode = AckMode.AUTO, queue: str = "q", **options: Any) -> MessageConsumer:
        """In a session of its own."""
        return await (await self.session(mode)).create_consumer(Queue(queue), **options)

    async def put(self, *bodies: str, queue: str = "q", **properties: Any) -> None:
        await self.channel.confirm_select()
        await self.channel.declare_queue(queue, durable=True)
        for body in bodies:
            await self.channel.publish(body.encode(), "", queue, Properties(**properties), mandatory=True)

    async def counts(self, session: Session, queue: str = "q") -> tuple[int, int]:
        """Ready and unacked, after everything that the session has sent."""
        await session.channel.declare_queue(queue, passive=True)
        found = inside(self.broker, queue)
        return self.broker.call(lambda: (found.ready, found.unacked))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until it holds; each tick has a round trip, so that the broker runs, too."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.channel.declare_exchange("amq.direct", passive=True)

    async def subscribed(self, count: int = 1, queue: str = "q") -> None:
        """Until the queue has so many consumers."""
        while (await self.channel.declare_queue(queue, passive=True)).consumer_count != count:
            pass

    async def cut(self) -> None:
        """The connection is lost, and back again, with everything on it."""
        back = asyncio.Event()
        listeners = self.connection.client.listeners
        listeners.append(lambda happening: back.set() if happening.kind == "reconnected" else None)
        self.connection.client._transport.abort()  # type: ignore[union-attr]
        await back.wait()

    async def bodies(self, consumer: MessageConsumer, count: int) -> list[bytes]:
        """The next so many messages, by receive()."""
        async with asyncio.timeout(PATIENCE):
            messages = [await consumer.receive() for _ in range(count)]
        return [body_of(message) for message in messages]


def body_of(message: Message | None) -> bytes:
    assert message is not None
    assert message.delivery is not None
    return message.delivery.body


def play(broker: leveret.Broker, scene: Callable[[JmsHarness], Awaitable[None]], uri: str = "", **options: Any) -> None:
    """``options`` are those of the factory. The connection is started."""

    async def run() -> None:
        clock = ManualClock()
        async with asyncio.timeout(PATIENCE):
            factory = ConnectionFactory(uri or broker.amqp_url, **options)
            factory.clock = clock
            async with await factory.create_connection() as connection:
                await connection.start()
                await scene(JmsHarness(broker, connection, await connection.client.channel(), clock))

    asyncio.run(run())
