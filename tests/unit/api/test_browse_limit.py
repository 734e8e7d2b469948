"""How many may look through queues at a time."""

from __future__ import annotations

import asyncio

import pytest

from leveret.api import browse_limit as look_places
from leveret.api.browse_limit import BrowseSlots
from leveret.http.errors import Busy


async def taken(places: BrowseSlots, began: asyncio.Event, leave: asyncio.Event) -> None:
    async with places.one("/"):
        began.set()
        await leave.wait()


def test_who_finds_no_place_waits_a_little_and_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_places, "MOST", 2)
    monkeypatch.setattr(look_places, "PATIENCE", 0.01)

    async def life() -> None:
        places, leave = BrowseSlots(), asyncio.Event()
        began = [asyncio.Event(), asyncio.Event()]
        looks = [asyncio.ensure_future(taken(places, each, leave)) for each in began]
        for each in began:
            await each.wait()
        with pytest.raises(Busy, match="2 browse requests are in progress"):
            async with places.one("/"):
                pytest.fail("there was no place")
        leave.set()
        await asyncio.gather(*looks)
        async with places.one("/"):
            pass

    asyncio.run(life())
    assert (Busy.status, Busy.headers) == (503, {"Retry-After": "1"})


def test_who_waits_gets_the_place_of_one_who_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_places, "MOST", 1)

    async def life() -> None:
        places, leave = BrowseSlots(), asyncio.Event()
        first, second = asyncio.Event(), asyncio.Event()
        looks = [asyncio.ensure_future(taken(places, first, leave))]
        await first.wait()
        looks.append(asyncio.ensure_future(taken(places, second, leave)))
        await asyncio.sleep(0)
        assert not second.is_set()
        leave.set()
        await second.wait()
        await asyncio.gather(*looks)

    asyncio.run(life())


def test_a_look_that_fails_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_places, "MOST", 1)

    async def life() -> None:
        places = BrowseSlots()
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with places.one("/"):
                    raise ZeroDivisionError

    asyncio.run(life())


def test_one_virtual_host_does_not_take_the_places_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """CWE-770: who waits in a full virtual host holds no place that another could have."""
    monkeypatch.setattr(look_places, "MOST", 2)
    monkeypatch.setattr(look_places, "MOST_OF_VHOST", 1)
    monkeypatch.setattr(look_places, "PATIENCE", 0.01)

    async def life() -> None:
        places, began, leave = BrowseSlots(), asyncio.Event(), asyncio.Event()
        look = asyncio.ensure_future(taken(places, began, leave))
        await began.wait()
        with pytest.raises(Busy, match="1 in one virtual host"):
            async with places.one("/"):
                pytest.fail("there was no place")
        async with places.one("another"):
            pass
        leave.set()
        await look

    asyncio.run(life())
