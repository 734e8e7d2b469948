"""A leader without answers of the engine stops delivering and blocks publishers, and resumes when answers return."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.client import Channel, Consumer, Happening, Properties, connect
from leveret.errors import AmqpError
from tests.support.cell_log import until
from tests.support.cell_node import Cell, CellNode
from tests.support.nats_servers import NatsServers

QUEUE = "jobs"
PERSISTENT = Properties(delivery_mode=2)
BACKLOG = 3000  # messages: the queue is never empty, and only the pause ends deliveries
WORK = 0.005  # seconds for each message
PUBLISH_EVERY = 0.01  # seconds: a connection is blocked when it publishes


def started(cell: Cell) -> Iterator[Cell]:
    try:
        cell.start()
        yield cell
    finally:
        cell.end()
    assert not cell.tracebacks()


@pytest.fixture
def node(own_servers: NatsServers, tmp_path: Path, places: tuple[int, int]) -> Iterator[CellNode]:
    """The only one of its cell."""
    for cell in started(Cell(tmp_path, own_servers, "pause_{}_{}".format(*places), nodes=1)):
        yield cell.leader()


@pytest.fixture
def cell(servers: NatsServers, tmp_path: Path) -> Iterator[Cell]:
    yield from started(Cell(tmp_path, servers, "stopped"))


class Traffic:
    """A publisher and a consumer, with the times of what happens to them."""

    def __init__(self, url: str) -> None:
        self.sent: list[bytes] = []
        self.confirmed: list[bytes] = []
        self.delivered: list[tuple[float, bytes]] = []
        self.blocked: list[tuple[float, str]] = []
        self.unblocked: list[float] = []
        self._url = url
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._publishes: list[asyncio.Task[None]] = []

    def _happened(self, happening: Happening) -> None:
        now = asyncio.get_running_loop().time()
        if happening.kind == "blocked":
            self.blocked.append((now, happening.text))
        elif happening.kind == "unblocked":
            self.unblocked.append(now)

    async def __aenter__(self) -> Traffic:
        self._publisher = await connect(self._url, listeners=[self._happened])
        self._consumer = await connect(self._url)
        channel = await self._publisher.channel()
        await channel.declare_queue(QUEUE, durable=True)
        await channel.confirm_select()
        await asyncio.gather(*(self._publish(channel) for _ in range(BACKLOG)))
        receiving = await self._consumer.channel()
        await receiving.qos(5)
        consumer = await receiving.consume(QUEUE)
        self._tasks = [
            asyncio.create_task(self._publish_on(channel)),
            asyncio.create_task(self._consume(receiving, consumer)),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._tasks, *self._publishes):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._publishes, return_exceptions=True)
        await self._publisher.close()
        await self._consumer.close()

    async def _publish(self, channel: Channel) -> None:
        body = b"%d" % len(self.sent)
        self.sent.append(body)
        await channel.publish(body, "", QUEUE, PERSISTENT)
        self.confirmed.append(body)

    async def _publish_on(self, channel: Channel) -> None:
        while not self._is_over:
            self._publishes.append(asyncio.create_task(self._publish(channel)))
            await asyncio.sleep(PUBLISH_EVERY)

    async def _consume(self, channel: Channel, consumer: Consumer) -> None:
        async for message in consumer:
            self.delivered.append((asyncio.get_running_loop().time(), message.body))
            if not self._is_over:
                await asyncio.sleep(WORK)
            channel.ack(message.delivery_tag)

    async def more(self) -> None:
        """Messages are delivered and confirmed."""
        delivered, confirmed = len(self.delivered) + 50, len(self.confirmed) + 20
        await until(lambda: len(self.delivered) > delivered and len(self.confirmed) > confirmed)

    async def finish(self) -> None:
        """Until all that was sent is confirmed and delivered."""
        self._is_over = True
        await self._tasks[0]
        await asyncio.wait_for(asyncio.gather(*self._publishes), 60)
        await until(lambda: len(self.delivered) >= len(self.sent))

    def delivered_between(self, begin: float, end: float) -> list[bytes]:
        return [body for when, body in self.delivered if begin < when < end]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("places", [(0, 1), (0, 2), (1, 2)])
def test_deliveries_pause_while_the_engine_has_no_majority(
    own_servers: NatsServers, node: CellNode, places: tuple[int, int]
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with Traffic(node.url) as traffic:
            await traffic.more()
            for place in places:
                own_servers.signal(place, signal.SIGSTOP)
            cut = loop.time()
            try:
                await until(lambda: bool(traffic.blocked))
                paused, reason = traffic.blocked[0]
                confirmed = len(traffic.confirmed)
                assert reason == "the replicated log does not answer"
                assert 0.5 < paused - cut < 8.0  # long before the lease is over
                await asyncio.sleep(3)  # in which nothing may happen
            finally:
                for place in places:
                    own_servers.signal(place, signal.SIGCONT)
            assert len(traffic.confirmed) == confirmed
            await until(lambda: bool(traffic.unblocked))
            assert traffic.delivered_between(paused + 1, traffic.unblocked[0] - 1) == []
            await traffic.more()
            await traffic.finish()
            assert [body for _, body in traffic.delivered] == traffic.sent

    asyncio.run(story())
    assert "stepping down" not in node.log()


@pytest.mark.timeout(400)
def test_a_leader_that_was_stopped_delivers_nothing_more(cell: Cell) -> None:
    """Acks and fetches that arrived meanwhile are the first that it handles when it continues."""

    async def story() -> None:
        old = await asyncio.to_thread(cell.leader)
        consuming, fetching = await connect(old.url), await connect(old.url)
        channel, fetches = await consuming.channel(), await fetching.channel()
        await channel.declare_queue(QUEUE, durable=True)
        await channel.confirm_select()
        for body in (b"1", b"2", b"3"):
            await channel.publish(body, "", QUEUE, PERSISTENT)
        await channel.qos(1)
        consumer = await channel.consume(QUEUE)
        first = await consumer.next(60)
        assert first is not None
        old.signal(signal.SIGSTOP)
        channel.ack(first.delivery_tag)
        fetched = asyncio.create_task(fetches.get(QUEUE))
        new = await asyncio.to_thread(cell.leader, but=old)
        async with await connect(new.url) as other:
            receiving = await other.channel()
            bodies = []
            while (message := await receiving.get(QUEUE)) is not None:
                bodies.append(message.body)
                receiving.ack(message.delivery_tag)
            assert bodies == [b"1", b"2", b"3"]
        old.signal(signal.SIGCONT)
        with pytest.raises(AmqpError):  # the connection is closed
            await consumer.next(60)
        with pytest.raises(AmqpError):
            await fetched
        old.wait_for("stepping down")
        for connection in (consuming, fetching):
            await connection.close()

    asyncio.run(story())
