"""What the publisher of a fanout hears of brokers that agree, refuse, or come too late."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client.errors import ConnectionLost, Nacked
from leveret.client.fanout import Ballot


def ballot_of(needed: int, asked: int) -> tuple[Ballot, asyncio.Future[None], list[str]]:
    confirm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    over: list[str] = []
    return Ballot(confirm, lambda: over.append("over"), needed=needed, asked=asked), confirm, over


def test_as_many_as_are_needed_decide() -> None:
    async def live() -> None:
        ballot, confirm, over = ballot_of(needed=2, asked=3)
        ballot.set_result(None)
        ballot.set_exception(Nacked("full"))
        assert not ballot.done()
        ballot.set_result(None)
        assert ballot.done()
        await confirm
        assert over == ["over"]

    asyncio.run(live())


def test_all_who_refuse_are_told_once() -> None:
    async def live() -> None:
        ballot, confirm, over = ballot_of(needed=2, asked=2)
        for _ in range(2):
            ballot.set_exception(ConnectionLost("away"))
        with pytest.raises(ConnectionLost):
            await confirm
        assert over == ["over"]

    asyncio.run(live())


def test_a_publisher_that_has_gone_does_not_keep_its_message_open() -> None:
    """all_settled() counts it until the brokers have answered, and no longer."""

    async def live() -> None:
        ballot, confirm, over = ballot_of(needed=1, asked=2)
        confirm.cancel()
        assert not ballot.done()
        ballot.set_result(None)
        assert over == ["over"]
        assert ballot.done()

    asyncio.run(live())
