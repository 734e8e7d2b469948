"""Who waits for the next message gets it, whoever else waits or gave up."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from leveret.client.channel import Channel
from leveret.client.consumers import Consumer
from leveret.client.errors import Cancelled, Closed
from leveret.client.messages import Delivery


class NoChannel:
    is_closed = False

    def __init__(self) -> None:
        self.nacked: list[int] = []

    def nack(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        assert requeue
        assert not multiple
        self.nacked.append(tag)


def consumer_of(channel: NoChannel) -> Consumer:
    return Consumer(cast(Channel, channel), "queue", None, no_ack=False)


def message(consumer: Consumer, number: int) -> Delivery:
    return Delivery(consumer.channel, "tag", number, False, "", "key", b"\0\0", b"")


async def number_of(consumer: Consumer, timeout: float | None = None) -> int | None:
    delivery = await consumer.next(timeout)
    return None if delivery is None else delivery.delivery_tag


def test_a_wait_that_timed_out_harms_no_later_one() -> None:
    async def live() -> None:
        consumer = consumer_of(NoChannel())
        assert await consumer.next(0) is None
        waiting = asyncio.create_task(number_of(consumer))
        await asyncio.sleep(0)
        consumer.take(message(consumer, 1))
        assert await waiting == 1

    asyncio.run(live())


def test_each_message_wakes_one_of_many_who_wait() -> None:
    async def live() -> None:
        consumer = consumer_of(NoChannel())

        async def take_two() -> list[int | None]:
            return [await number_of(consumer), await number_of(consumer)]

        takers = [asyncio.create_task(take_two()) for _ in range(3)]
        for number in range(6):
            await asyncio.sleep(0)
            consumer.take(message(consumer, number))
        async with asyncio.timeout(5):
            taken = await asyncio.gather(*takers)
        assert sorted(number for each in taken for number in each if number is not None) == list(range(6))

    asyncio.run(live())


def test_who_was_woken_and_leaves_wakes_another() -> None:
    async def live() -> None:
        consumer = consumer_of(NoChannel())
        leaving, staying = (asyncio.create_task(number_of(consumer)) for _ in range(2))
        await asyncio.sleep(0)
        consumer.take(message(consumer, 1))
        leaving.cancel()
        async with asyncio.timeout(5):
            assert await staying == 1

    asyncio.run(live())


def test_the_end_comes_after_what_came_before_it_and_to_everybody() -> None:
    async def live() -> None:
        consumer = consumer_of(NoChannel())
        told: list[Exception] = []
        consumer.on_end = told.append
        waiting = [asyncio.create_task(number_of(consumer)) for _ in range(2)]
        await asyncio.sleep(0)
        problem = Cancelled("its queue is gone")
        consumer.take(message(consumer, 1))
        consumer.end(problem)
        consumer.end(Closed("too late to be the reason"))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert sorted(map(str, outcomes)) == ["1", "its queue is gone"]
        assert told == [problem]
        with pytest.raises(Cancelled):
            await consumer.next()

    asyncio.run(live())


def test_an_iteration_ends_with_the_consumer_and_raises_what_else_ends_it() -> None:
    async def live(problem: Exception) -> list[int]:
        consumer = consumer_of(NoChannel())
        consumer.take(message(consumer, 1))
        consumer.end(problem)
        return [each.delivery_tag async for each in consumer]

    assert asyncio.run(live(Closed("cancelled by us"))) == [1]
    with pytest.raises(Cancelled):
        asyncio.run(live(Cancelled("by the broker")))


def test_what_was_not_taken_is_given_back_in_its_order() -> None:
    channel = NoChannel()
    consumer = consumer_of(channel)
    for number in (1, 2):
        consumer.take(message(consumer, number))
    consumer.give_back()
    assert channel.nacked == [1, 2]
    assert not consumer.waiting


def test_who_asks_again_and_again_in_vain_leaves_nothing_behind() -> None:
    async def live() -> None:
        consumer = consumer_of(NoChannel())
        for _ in range(20):
            assert await consumer.next(0) is None
        assert len(consumer._sleepers) == 0

    asyncio.run(live())


def test_an_end_that_is_told_often_does_not_grow() -> None:
    """The error is one object: each raise would add to its traceback, and keep what it points to."""

    async def live() -> None:
        consumer = consumer_of(NoChannel())
        problem = Closed("over")
        consumer.end(problem)
        depths = set()
        for _ in range(5):
            with pytest.raises(Closed) as told:
                await consumer.next()
            depths.add(len(told.traceback))
        assert len(depths) == 1

    asyncio.run(live())
