"""Which publishes a confirm stands for, and which one a returned message was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.arrivals import Returned
from leveret.client.confirms import Confirms
from leveret.client.errors import Closed, Nacked, Unroutable


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def confirms(loop: asyncio.AbstractEventLoop) -> Confirms:
    return Confirms(loop)


def fates(futures: list[asyncio.Future[None]]) -> str:
    """One letter each: a for acked, n for nacked, u for unroutable, . for open."""
    return "".join(
        "." if not one.done() else {Nacked: "n", Unroutable: "u", type(None): "a"}[type(one.exception())]
        for one in futures
    )


def test_a_confirm_settles_its_message_and_with_multiple_all_before_it(confirms: Confirms) -> None:
    futures = [confirms.add() for _ in range(6)]
    confirms.settle(2, multiple=False, is_taken=True)
    assert fates(futures) == ".a...."
    confirms.settle(4, multiple=True, is_taken=False)
    assert fates(futures) == "nann.."
    confirms.settle(0, multiple=True, is_taken=True)  # 0: all there are
    assert fates(futures) == "nannaa"
    assert confirms.open == 0


def test_confirms_of_what_is_settled_or_was_never_published_change_nothing(confirms: Confirms) -> None:
    futures = [confirms.add() for _ in range(3)]
    confirms.settle(1, multiple=False, is_taken=True)
    confirms.settle(1, multiple=False, is_taken=False)
    confirms.settle(9, multiple=False, is_taken=False)
    assert fates(futures) == "a.."
    assert confirms.open == 2


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=20))
def test_any_order_of_confirms_settles_as_a_list_would(said: list[tuple[int, bool, bool]]) -> None:
    loop = asyncio.new_event_loop()
    confirms = Confirms(loop)
    futures = [confirms.add() for _ in range(10)]
    model = ["."] * 10
    for tag, multiple, is_taken in said:
        confirms.settle(tag, multiple=multiple, is_taken=is_taken)
        for place in range(0 if multiple else tag - 1, min(tag, 10)):
            if model[place] == ".":
                model[place] = "a" if is_taken else "n"
    assert fates(futures) == "".join(model)
    assert confirms.open == model.count(".")
    loop.close()


def came_back(body: bytes) -> Returned:
    return Returned(312, "NO_ROUTE", "", "key", b"\0\0", body)


def test_a_returned_message_is_the_oldest_open_one_like_it(confirms: Confirms) -> None:
    bodies = [b"x", b"y", b"x"]
    futures = [confirms.add(("", "key", body)) for body in bodies]
    assert confirms.returned(came_back(b"x"))
    assert fates(futures) == "u.."
    confirms.settle(1, multiple=False, is_taken=True)  # the confirm that follows a return
    assert confirms.returned(came_back(b"x"))
    confirms.settle(3, multiple=True, is_taken=True)
    assert fates(futures) == "uau"
    assert not confirms.returned(came_back(b"y"))


def test_what_is_confirmed_cannot_come_back(confirms: Confirms) -> None:
    futures = [confirms.add(("", "key", b"x")) for _ in range(3)]
    confirms.settle(1, multiple=True, is_taken=True)
    confirms.settle(2, multiple=False, is_taken=True)
    assert confirms.returned(came_back(b"x"))
    assert fates(futures) == "aau"


def test_the_end_reaches_everybody(confirms: Confirms, loop: asyncio.AbstractEventLoop) -> None:
    problem = Closed("over")
    future = confirms.add()

    async def wait_for_all() -> None:
        loop.call_soon(confirms.end, problem)
        await confirms.all_settled()

    with pytest.raises(Closed):
        loop.run_until_complete(wait_for_all())
    assert future.exception() is problem
    assert confirms.open == 0


def test_all_settled_waits_for_the_last(confirms: Confirms, loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(3):
        confirms.add()
    order: list[str] = []

    def settle(tag: int) -> None:
        order.append(f"confirm {tag}")
        confirms.settle(tag, multiple=False, is_taken=True)

    async def wait_for_all() -> None:
        for tag in (3, 1, 2):
            loop.call_soon(settle, tag)
        await confirms.all_settled()
        order.append("all settled")

    loop.run_until_complete(wait_for_all())
    assert order == ["confirm 3", "confirm 1", "confirm 2", "all settled"]


def test_who_asks_whether_all_is_settled_after_the_end_is_told_of_what_was_not(
    loop: asyncio.AbstractEventLoop, confirms: Confirms
) -> None:
    confirms.add()
    confirms.end(Closed("over"))
    with pytest.raises(Closed):
        loop.run_until_complete(confirms.all_settled())


def test_an_end_without_anything_open_is_no_problem(loop: asyncio.AbstractEventLoop, confirms: Confirms) -> None:
    confirms.add()
    confirms.settle(1, multiple=False, is_taken=True)
    confirms.end(Closed("over"))
    loop.run_until_complete(confirms.all_settled())
