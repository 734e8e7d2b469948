"""leveret.client against RabbitMQ, beside Leveret: each test sees the same with both, unless its name says otherwise.

Queues are exclusive, or named by the test alone: the broker may be one that others use, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest

from leveret.client import (
    Cancelled,
    Channel,
    Connection,
    Delivery,
    Nacked,
    Properties,
    Returned,
    Unroutable,
)
from leveret.client.confirms import Confirms
from leveret.errors import NotAllowed
from tests.support.client_scenarios import live
from tests.support.failover_client import taken

Play = Callable[[Channel], Coroutine[Any, Any, object]]


def on_channel(url: str, play: Play) -> None:
    async def story(connection: Connection) -> None:
        await play(await connection.channel())

    live(url, story)


async def new_queue(channel: Channel, *bodies: bytes, **options: Any) -> str:
    name = (await channel.declare_queue(exclusive=True, **options)).queue
    for body in bodies:
        channel.send(body, "", name)
    return name


async def body_of(consumer: Any) -> bytes:
    delivery: Delivery | None = await consumer.next(10)
    assert delivery is not None
    return delivery.body


# ---- the connection


def test_what_is_agreed_on_with_rabbitmq(rabbitmq_url: str) -> None:
    async def story(connection: Connection) -> None:
        assert connection.server_properties["product"] == "RabbitMQ"
        assert (connection.channel_max, connection.frame_max, connection.heartbeat) == (2047, 8192, 7)

    live(f"{rabbitmq_url}?frame_max=8192&heartbeat=7", story)


@pytest.mark.feature("S3-09", "S3-10")
def test_heartbeats_keep_a_connection_without_work(rabbitmq_url: str) -> None:
    """Ours are sent, and RabbitMQ's are heard: else it would be dead after two intervals."""

    async def story(connection: Connection) -> None:
        kinds: list[str] = []
        enough = asyncio.Event()

        def heard(happening: Any) -> None:
            kinds.append(happening.kind)
            if len(kinds) == 3:
                enough.set()

        connection.listeners.append(heard)
        await enough.wait()
        assert kinds == ["keep-alive sent"] * 3
        assert not connection.is_closed

    live(f"{rabbitmq_url}?heartbeat=1", story)


def test_a_secret_is_renewed(url: str) -> None:
    async def story(connection: Connection) -> None:
        await connection.update_secret("guest", "it was about to expire")
        await new_queue(await connection.channel())

    live(url, story)


def test_as_many_channels_as_were_agreed_on(url: str) -> None:
    async def story(connection: Connection) -> None:
        first, *_ = await asyncio.gather(*(connection.channel() for _ in range(3)))
        with pytest.raises(NotAllowed, match="all 3 channels"):
            await connection.channel()
        await first.close()
        assert (await connection.channel()).number == first.number

    live(f"{url}?channel_max=3", story)


# ---- exchanges and queues


@pytest.mark.feature("S4-04")
def test_exchanges(url: str) -> None:
    async def play(channel: Channel) -> None:
        first, second = uuid4().hex, uuid4().hex
        await channel.declare_exchange(first, "fanout", auto_delete=True)
        await channel.declare_exchange(first, "fanout", passive=True)
        await channel.declare_exchange(second, "topic", durable=True, internal=True, arguments={"x-mine": 1})
        queue = await new_queue(channel)
        await channel.bind_queue(queue, second, "a.*", {"also": "mine"})
        await channel.bind_exchange(second, first)
        await channel.confirm_select()
        await channel.publish(b"through both", first, "a.b")
        assert await channel.get(queue, no_ack=True) is not None
        await channel.unbind_queue(queue, second, "a.*", {"also": "mine"})
        await channel.publish(b"not to the queue", first, "a.b")
        await channel.bind_queue(queue, second, "#")
        await channel.unbind_exchange(second, first)  # the last binding: the first is gone with it
        assert await channel.get(queue) is None
        await channel.delete_exchange(second)
        await channel.delete_exchange(first)

    on_channel(url, play)


@pytest.mark.feature("S4-04")
def test_queues(url: str) -> None:
    async def play(channel: Channel) -> None:
        made = await channel.declare_queue(exclusive=True, auto_delete=True, arguments={"x-max-length": 10})
        assert made.queue.startswith("amq.gen-")
        await channel.confirm_select()
        for _ in range(3):
            await channel.publish(b"x", "", made.queue)
        assert (await channel.declare_queue(made.queue, passive=True)).message_count == 3
        assert await channel.purge_queue(made.queue) == 3
        await channel.publish(b"x", "", made.queue)
        assert await channel.delete_queue(made.queue, if_unused=True) == 1

    on_channel(url, play)


# ---- publishing


def test_confirms_of_many_messages_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the broker acks each or many together, every message gets its own confirm."""
    said: list[tuple[int, bool]] = []
    settle = Confirms.settle

    def spied(self: Confirms, tag: int, *, multiple: bool, is_taken: bool) -> None:
        said.append((tag, multiple))
        settle(self, tag, multiple=multiple, is_taken=is_taken)

    monkeypatch.setattr(Confirms, "settle", spied)

    async def play(channel: Channel) -> None:
        queue = await new_queue(channel, durable=True)
        await channel.confirm_select()
        kept = Properties(delivery_mode=2)
        confirms = [channel.send(b"%d" % number, "", queue, kept) for number in range(2_000)]
        assert channel.confirms is not None
        await channel.confirms.all_settled()
        assert [each.result() for each in confirms if each is not None] == [None] * 2_000
        assert (await channel.declare_queue(queue, passive=True)).message_count == 2_000
        assert any(multiple for _, multiple in said)

    on_channel(url, play)


def test_what_the_broker_does_not_take_is_nacked_and_what_nobody_wants_comes_back(url: str) -> None:
    async def play(channel: Channel) -> None:
        limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await new_queue(channel, arguments=limits)
        await channel.confirm_select()
        await channel.publish(b"fits", "", queue, mandatory=True)
        with pytest.raises(Nacked):
            await channel.publish(b"does not", "", queue)
        with pytest.raises(Unroutable) as nobody:
            await channel.publish(b"body", "amq.direct", "no such key", Properties(type="t"), mandatory=True)
        assert (nobody.value.returned.reply_code, nobody.value.returned.reply_text) == (312, "NO_ROUTE")
        assert (nobody.value.returned.body, nobody.value.returned.properties.type) == (b"body", "t")

    on_channel(url, play)


def test_a_message_that_comes_back_is_known_by_its_headers(url: str) -> None:
    async def play(channel: Channel) -> None:
        await channel.confirm_select()
        exchange, queue = f"colours-{uuid4().hex}", await new_queue(channel)
        await channel.declare_exchange(exchange, "headers", auto_delete=True)
        await channel.bind_queue(queue, exchange, arguments={"x-match": "all", "colour": "green"})
        sent = [
            channel.send(
                b"paint",
                exchange,
                "",
                Properties(headers={"colour": colour, "n": 1, "parts": [1.5, None]}),
                mandatory=True,
            )
            for colour in ("green", "red", "green", "red", "blue")
        ]
        outcomes = await asyncio.gather(*(each for each in sent if each is not None), return_exceptions=True)
        assert [type(each) for each in outcomes] == [type(None), Unroutable, type(None), Unroutable, Unroutable]
        colours = [each.returned.headers["colour"] for each in outcomes if isinstance(each, Unroutable)]
        assert colours == ["red", "red", "blue"]

    on_channel(url, play)


def test_without_confirms_what_comes_back_is_told_to_a_function(url: str) -> None:
    async def play(channel: Channel) -> None:
        returned: list[Returned] = []
        channel.on_return = returned.append
        await channel.publish(b"1", "", "nowhere", mandatory=True)
        await channel.qos(1)
        assert [(each.body, each.routing_key) for each in returned] == [(b"1", "nowhere")]

    on_channel(url, play)


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 8176, 300_000])
def test_bodies_of_any_size_go_and_come(url: str, size: int) -> None:
    """None at all, a whole frame, a byte more, many frames."""

    async def play(channel: Channel) -> None:
        queue = await new_queue(channel)
        body = bytes(range(256)) * (size // 256 + 1)
        for _ in range(2):
            channel.send(body[:size], "", queue)
        fetched = await channel.get(queue, no_ack=True)
        assert fetched is not None
        assert fetched.body == body[:size]
        assert await body_of(await channel.consume(queue)) == body[:size]

    on_channel(f"{url}?frame_max=4096", play)


@pytest.mark.feature("S4-04")
def test_transactions(url: str) -> None:
    async def play(channel: Channel) -> None:
        queue = await new_queue(channel, b"old")
        await channel.select_transactions()
        first = await channel.get(queue)
        assert first is not None
        first.ack()
        channel.send(b"never", "", queue)
        await channel.rollback()
        channel.send(b"new", "", queue)
        first.ack()
        await channel.commit()
        assert (await channel.declare_queue(queue, passive=True)).message_count == 1
        second = await channel.get(queue)
        assert second is not None
        assert second.body == b"new"

    on_channel(url, play)


# ---- consuming


@pytest.mark.feature("S4-04")
def test_messages_are_taken_given_back_and_dropped(url: str) -> None:
    async def play(channel: Channel) -> None:
        queue = await new_queue(channel, b"1", b"2", b"3")
        first, second = await channel.get(queue), await channel.get(queue)
        assert first is not None
        assert second is not None
        assert (first.body, first.left, first.redelivered) == (b"1", 2, False)
        second.nack(multiple=True, requeue=True)
        await channel.qos(1)
        consumer = await channel.consume(queue, tag="mine")
        assert consumer.tag == "mine"
        one = await consumer.next()
        assert one is not None
        assert (one.body, one.redelivered, one.consumer_tag) == (b"1", True, "mine")
        assert await consumer.next(0.02) is None, "the prefetch is 1"
        await channel.recover()
        again = await consumer.next()
        assert again is not None
        assert again.body == b"1"
        again.reject()
        two = await consumer.next()
        assert two is not None
        two.nack(requeue=False)
        assert await taken(consumer, 1) == [b"3"]
        await consumer.cancel()
        assert await channel.get(queue) is None

    on_channel(url, play)


@pytest.mark.parametrize("is_coroutine", [False, True], ids=["function", "coroutine function"])
def test_a_callback_gets_each_message(url: str, is_coroutine: bool) -> None:
    async def play(channel: Channel) -> None:
        queue = await new_queue(channel, b"1", b"2", b"3")
        got: list[bytes] = []
        all_came = asyncio.Event()

        def take(delivery: Delivery) -> None:
            got.append(delivery.body)
            delivery.ack()
            if len(got) == 3:
                all_came.set()

        async def take_later(delivery: Delivery) -> None:
            take(delivery)

        consumer = await channel.consume(queue, take_later if is_coroutine else take)
        await all_came.wait()
        await channel.cancel(consumer.tag)
        assert got == [b"1", b"2", b"3"]
        assert await channel.get(queue) is None

    on_channel(url, play)


def test_a_consumer_is_iterated_and_asked(url: str) -> None:
    async def play(channel: Channel) -> None:
        queue = await new_queue(channel, b"1", b"2")
        async with await channel.consume(queue, no_ack=True) as consumer:
            async for delivery in consumer:
                assert delivery.body == b"1"
                break
            assert await body_of(consumer) == b"2"
            assert await consumer.next(0.02) is None
        assert (await channel.declare_queue(queue, passive=True)).consumer_count == 0

    on_channel(url, play)


def test_what_was_not_taken_goes_back_with_the_consumer(url: str) -> None:
    async def play(channel: Channel) -> None:
        queue = await new_queue(channel, *(b"%d" % number for number in range(10)))
        consumer = await channel.consume(queue)
        assert await body_of(consumer) == b"0"
        await consumer.cancel()
        fetched = await channel.get(queue)
        assert fetched is not None
        assert (fetched.body, fetched.left) == (b"1", 8)

    on_channel(url, play)


def test_a_consumer_whose_queue_is_deleted_learns_it(url: str) -> None:
    async def story(connection: Connection) -> None:
        channel, other = await connection.channel(), await connection.channel()
        queue = await new_queue(channel)
        asked, iterated = await channel.consume(queue, tag="asked"), await channel.consume(queue, tag="iterated")
        waiting = asyncio.ensure_future(asked.next())
        await other.delete_queue(queue)
        with pytest.raises(Cancelled, match="cancelled consumer 'asked'"):
            await waiting
        with pytest.raises(Cancelled, match="cancelled consumer 'iterated'"):
            await anext(iterated)
        await new_queue(channel)  # the channel lives

    live(url, story)
