"""Browsers look into a queue, and leave it as it was."""

from __future__ import annotations

import pytest

import leveret
from leveret.client.jms import AckMode, IllegalState, InvalidDestination, InvalidSelector, Queue, Topic
from leveret.client.jms.browser import QueueBrowser
from tests.support.jms_harness import JmsHarness, play


async def browsed(browser: QueueBrowser) -> list[bytes]:
    return [message.delivery.body async for message in browser if message.delivery is not None]


def test_a_browser_sees_all_messages_in_order_and_takes_none(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("1", "2", "3")
        session = await world.session()
        async with await session.create_browser(Queue("q")) as browser:
            assert await browsed(browser) == [b"1", b"2", b"3"]
            assert await world.counts(session) == (3, 0)  # given back as soon as all were seen
            await world.put("4")
            assert await browsed(browser) == [b"1", b"2", b"3", b"4"]
        with pytest.raises(IllegalState, match="closed"):
            await browser.next()
        assert await world.bodies(await world.consumer(), 4) == [b"1", b"2", b"3", b"4"]

    play(leveret_broker, scene)


def test_a_browser_selects(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("red", headers={"colour": "red"})
        await world.put("blue", headers={"colour": "blue"})
        await world.put("none")
        session = await world.session()
        async with await session.create_browser(Queue("q"), "colour = 'blue'") as browser:
            assert await browsed(browser) == [b"blue"]
        with pytest.raises(InvalidSelector):
            await session.create_browser(Queue("q"), "colour =")

    play(leveret_broker, scene)


def test_a_browser_holds_no_more_than_its_limit_and_sees_nothing_that_came_later(
    leveret_broker: leveret.Broker,
) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("1", "2", "3")
        session = await world.session()
        assert await browsed(await session.create_browser(Queue("q"), limit=2)) == [b"1", b"2"]
        browser = await session.create_browser(Queue("q"))
        first = await browser.next()
        assert first is not None
        await world.put("late")
        assert await browsed(browser) == [b"2", b"3"]

    play(leveret_broker, scene)


def test_what_a_browser_holds_is_back_when_it_or_its_session_is_closed(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("1", "2")
        session, other = await world.session(), await world.session(AckMode.SESSION_TRANSACTED)
        browser = await session.create_browser(Queue("q"))
        await browser.next()
        assert await world.counts(other) == (1, 1)
        await browser.close()
        assert await world.counts(other) == (2, 0)
        await (await session.create_browser(Queue("q"))).next()
        await session.close()
        assert await world.counts(other) == (2, 0)

    play(leveret_broker, scene)


def test_a_queue_that_is_not_there_yet_is_empty_and_a_topic_cannot_be_browsed(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        assert await browsed(await session.create_browser(Queue("new"))) == []
        with pytest.raises(InvalidDestination, match="only queues can be browsed"):
            await session.create_browser(Topic("t"))

    play(leveret_broker, scene)
