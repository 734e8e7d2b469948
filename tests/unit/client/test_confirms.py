"""Which publishes a confirm stands for, and which one a returned message was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.confirms import Confirms, Likeness
from leveret.client.errors import Closed, Nacked, Unroutable
from leveret.client.messages import Returned


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def confirms(loop: asyncio.AbstractEventLoop) -> Confirms:
    return Confirms(loop)


def added(confirms: Confirms, mandatory: Likeness | None = None) -> asyncio.Future[None]:
    future = confirms.new_future()
    confirms.track(future, mandatory)
    return future


def fates(futures: list[asyncio.Future[None]]) -> str:
    """One letter each: a for acked, n for nacked, u for unroutable, . for open."""
    return "".join(
        "." if not one.done() else {Nacked: "n", Unroutable: "u", type(None): "a"}[type(one.exception())]
        for one in futures
    )


def test_a_confirm_settles_its_message_and_with_multiple_all_before_it(confirms: Confirms) -> None:
    futures = [added(confirms) for _ in range(6)]
    confirms.settle(2, multiple=False, is_taken=True)
    assert fates(futures) == ".a...."
    confirms.settle(4, multiple=True, is_taken=False)
    assert fates(futures) == "nann.."
    confirms.settle(0, multiple=True, is_taken=True)  # 0: all there are
    assert fates(futures) == "nannaa"
    assert confirms.open == 0


def test_confirms_of_what_is_settled_or_was_never_published_change_nothing(confirms: Confirms) -> None:
    futures = [added(confirms) for _ in range(3)]
    confirms.settle(1, multiple=False, is_taken=True)
    confirms.settle(1, multiple=False, is_taken=False)
    confirms.settle(9, multiple=False, is_taken=False)
    assert fates(futures) == "a.."
    assert confirms.open == 2


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=20))
def test_any_order_of_confirms_settles_as_a_list_would(said: list[tuple[int, bool, bool]]) -> None:
    loop = asyncio.new_event_loop()
    confirms = Confirms(loop)
    futures = [added(confirms) for _ in range(10)]
    model = ["."] * 10
    for tag, multiple, is_taken in said:
        confirms.settle(tag, multiple=multiple, is_taken=is_taken)
        for place in range(0 if multiple else tag - 1, min(tag, 10)):
            if model[place] == ".":
                model[place] = "a" if is_taken else "n"
    assert fates(futures) == "".join(model)
    assert confirms.open == model.count(".")
    loop.close()


PLAIN = b"\0\0"


def like(body: bytes, head: bytes = PLAIN) -> Likeness:
    return b"\0\x03key", head, body


def came_back(body: bytes, head: bytes = PLAIN) -> Returned:
    return Returned(312, "NO_ROUTE", "", "key", head, body)


def test_a_returned_message_is_the_oldest_open_one_like_it(confirms: Confirms) -> None:
    bodies = [b"x", b"y", b"x"]
    futures = [added(confirms, like(body)) for body in bodies]
    confirms.returned(came_back(b"x"))
    assert fates(futures) == "u.."
    confirms.settle(1, multiple=False, is_taken=True)  # the confirm that follows a return
    confirms.returned(came_back(b"x"))
    confirms.settle(3, multiple=True, is_taken=True)
    assert fates(futures) == "uau"
    confirms.returned(came_back(b"y"))
    assert fates(futures) == "uau"


def test_what_is_confirmed_cannot_come_back(confirms: Confirms) -> None:
    futures = [added(confirms, like(b"x")) for _ in range(4)]
    confirms.settle(1, multiple=True, is_taken=True)
    confirms.settle(2, multiple=False, is_taken=True)
    confirms.settle(4, multiple=False, is_taken=True)
    confirms.returned(came_back(b"x"))
    confirms.returned(came_back(b"x"))
    assert fates(futures) == "aaua"


def test_a_returned_message_is_the_one_with_its_properties(confirms: Confirms) -> None:
    """A headers exchange may know a queue for the one and none for the other."""
    futures = [added(confirms, like(b"x", head)) for head in (b"green", b"red", b"blue")]
    confirms.returned(came_back(b"x", b"red"))
    assert fates(futures) == ".u."


def test_a_message_whose_properties_the_broker_changed_is_not_taken_for_safe(confirms: Confirms) -> None:
    futures = [added(confirms, like(body, b"mine")) for body in (b"x", b"y", b"y")]
    confirms.returned(came_back(b"y", b"with a header of the broker's"))
    assert fates(futures) == ".u."


def test_who_gave_up_a_message_does_not_leave_its_return_to_the_next_one(confirms: Confirms) -> None:
    given_up, waiting = added(confirms, like(b"x")), added(confirms, like(b"x"))
    given_up.cancel()
    confirms.returned(came_back(b"x"))
    assert not waiting.done()


@pytest.mark.parametrize("is_returned", [False, True], ids=["confirmed", "returned"])
def test_many_mandatory_messages_cost_no_more_each_than_few(loop: asyncio.AbstractEventLoop, is_returned: bool) -> None:
    """Each of them stands first as its turn comes: nobody walks over those that have gone."""
    looks = 0

    class Counted(Confirms):
        __slots__ = ()

        def _is_open(self, tag: int) -> bool:
            nonlocal looks
            looks += 1
            return super()._is_open(tag)

    confirms = Counted(loop)
    futures = [added(confirms, like(b"x")) for _ in range(20_000)]
    for tag in range(1, 20_001):
        if is_returned:
            confirms.returned(came_back(b"x"))
        else:
            confirms.settle(tag, multiple=True, is_taken=True)
            assert len(confirms._mandatory) == 20_000 - tag
    assert set(fates(futures)) == ({"u"} if is_returned else {"a"})
    assert looks == (20_000 if is_returned else 0)


def test_the_end_reaches_everybody(confirms: Confirms, loop: asyncio.AbstractEventLoop) -> None:
    problem = Closed("over")
    future = added(confirms)

    async def wait_for_all() -> None:
        loop.call_soon(confirms.end, problem)
        await confirms.all_settled()

    with pytest.raises(Closed):
        loop.run_until_complete(wait_for_all())
    assert future.exception() is problem
    assert confirms.open == 0


def test_all_settled_waits_for_the_last(confirms: Confirms, loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(3):
        added(confirms)
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
    added(confirms)
    confirms.end(Closed("over"))
    with pytest.raises(Closed):
        loop.run_until_complete(confirms.all_settled())


def test_an_end_without_anything_open_is_no_problem(loop: asyncio.AbstractEventLoop, confirms: Confirms) -> None:
    added(confirms)
    confirms.settle(1, multiple=False, is_taken=True)
    confirms.end(Closed("over"))
    loop.run_until_complete(confirms.all_settled())
