"""Who waits until all is settled is told of a failure that nobody asked for, and of no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leveret.client.confirms import MOST_KEPT, Confirms, Likeness
from leveret.client.errors import Closed, ConnectionLost, Nacked, Unroutable
from leveret.client.loop_thread import Answer
from leveret.client.messages import Returned
from leveret.client.unconfirmed import Unconfirmed

Complaint = dict[str, Any]


def added(confirms: Confirms, mandatory: Likeness | None = None) -> asyncio.Future[None]:
    future = confirms.new_future()
    confirms.track(future, mandatory)
    return future


def live(story: Callable[[Confirms], Awaitable[None]]) -> None:
    """Lives it through. The loop must have nothing to complain of."""
    complaints: list[Complaint] = []

    async def life() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(10):
            await story(Confirms(loop))
            await asyncio.sleep(0)

    asyncio.run(life())
    assert complaints == []


def refuse(confirms: Confirms, tag: int) -> None:
    confirms.settle(tag, multiple=False, is_taken=False)


def take(confirms: Confirms, tag: int) -> None:
    confirms.settle(tag, multiple=False, is_taken=True)


def test_a_failure_that_nobody_asked_for_is_told_once() -> None:
    async def story(confirms: Confirms) -> None:
        for _ in range(3):
            added(confirms)
        take(confirms, 1)
        refuse(confirms, 2)
        asyncio.get_running_loop().call_soon(take, confirms, 3)
        with pytest.raises(Nacked):
            await confirms.all_settled()
        await confirms.all_settled()
        added(confirms)
        take(confirms, 4)
        await confirms.all_settled()

    live(story)


def test_the_first_of_several_is_told() -> None:
    async def story(confirms: Confirms) -> None:
        added(confirms, (b"\0\x03key", b"\0\0", b"x"))
        added(confirms)
        confirms.returned(Returned(312, "NO_ROUTE", "", "key", b"\0\0", b"x"))
        confirms.settle(1, multiple=False, is_taken=True)
        refuse(confirms, 2)
        with pytest.raises(Unroutable):
            await confirms.all_settled()
        await confirms.all_settled()

    live(story)


def test_what_somebody_awaited_or_asked_for_is_not_told_again() -> None:
    async def story(confirms: Confirms) -> None:
        awaited, asked, gathered = (added(confirms) for _ in range(3))
        confirms.settle(3, multiple=True, is_taken=False)
        with pytest.raises(Nacked):
            await awaited
        assert isinstance(asked.exception(), Nacked)
        assert isinstance((await asyncio.gather(gathered, return_exceptions=True))[0], Nacked)
        await confirms.all_settled()

    live(story)


def test_what_somebody_is_about_to_hear_is_not_told_again() -> None:
    async def story(confirms: Confirms) -> None:
        async def publish() -> None:
            with pytest.raises(Nacked):
                await added(confirms)

        publishing = asyncio.create_task(publish())
        waiting = asyncio.create_task(confirms.all_settled())
        await asyncio.sleep(0)
        refuse(confirms, 1)
        await confirms.all_settled()  # nothing is open any more, and the publisher has not run yet
        await asyncio.gather(publishing, waiting)

    live(story)


def test_everybody_who_waits_until_all_is_settled_is_told() -> None:
    """Each of them may have sent what failed."""

    async def story(confirms: Confirms) -> None:
        added(confirms)
        waiting = [asyncio.create_task(confirms.all_settled()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        refuse(confirms, 1)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in outcomes] == [asyncio.CancelledError, Nacked, Nacked]

    live(story)


def test_a_failure_is_kept_if_the_only_one_who_waited_has_gone() -> None:
    async def story(confirms: Confirms) -> None:
        added(confirms)
        waiting = asyncio.create_task(confirms.all_settled())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        refuse(confirms, 1)
        with pytest.raises(Nacked):
            await confirms.all_settled()

    live(story)


def test_who_never_asks_fills_no_memory_and_hears_no_complaints() -> None:
    async def story(confirms: Confirms) -> None:
        for _ in range(3 * MOST_KEPT):
            added(confirms)
        confirms.settle(0, multiple=True, is_taken=False)
        assert len(confirms._failures._failed) == MOST_KEPT
        confirms.end(Closed("over"))

    live(story)


def test_a_failure_before_the_end_is_told_after_it() -> None:
    async def story(confirms: Confirms) -> None:
        added(confirms)
        refuse(confirms, 1)
        confirms.end(Closed("over"))
        await asyncio.sleep(0)
        with pytest.raises(Nacked):
            await confirms.all_settled()
        await confirms.all_settled()

    live(story)


def test_what_was_given_up_while_there_was_no_connection_is_told_though_more_was_sent_since() -> None:
    async def story(_: Confirms) -> None:
        loop = asyncio.get_running_loop()
        unconfirmed = Unconfirmed(loop)
        unconfirmed.keep(0, b"a", loop.create_future(), None)
        unconfirmed.end(ConnectionLost("no connection for too long"))
        unconfirmed.keep(1, b"b", loop.create_future(), None)
        await asyncio.sleep(0)
        unconfirmed.settle(0, multiple=True, is_taken=True)
        with pytest.raises(ConnectionLost, match="for too long"):
            await unconfirmed.all_settled()
        await unconfirmed.all_settled()

    live(story)


def test_what_a_thread_asked_for_or_waits_for_is_not_told_again() -> None:
    async def story(confirms: Confirms) -> None:
        answers: list[Answer[None]] = [Answer() for _ in range(3)]
        for answer in answers:
            confirms.track(answer)
        with pytest.raises(TimeoutError):
            answers[2].result(0)
        hearing = asyncio.get_running_loop().run_in_executor(None, answers[0].exception)
        confirms.settle(2, multiple=True, is_taken=False)
        assert isinstance(await hearing, Nacked)
        with pytest.raises(Nacked):
            answers[1].result()
        take(confirms, 3)
        await confirms.all_settled()
        answer = Answer[None]()
        confirms.track(answer)
        with pytest.raises(TimeoutError):
            answer.result(0)
        refuse(confirms, 4)
        with pytest.raises(Nacked):
            await confirms.all_settled()

    live(story)
