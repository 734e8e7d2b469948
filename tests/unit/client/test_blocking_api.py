"""Methods and attributes of blocking objects that are derived from asyncio objects."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from leveret.client.blocking_api import BlockingObject, CoreAttribute, blocking, blocking_factory, signature_of
from leveret.client.errors import Closed
from leveret.client.loop_thread import LoopThread


class Part:
    is_closed = False

    async def close(self) -> None:
        raise Closed("its connection is closed")


class Core:
    def __init__(self) -> None:
        self.is_closed = False
        self.size = 1
        self.calls: list[tuple[object, ...]] = []

    async def add(self, first: int, *, second: int = 2) -> int:
        """The sum."""
        self.calls.append((first, second))
        return first + second

    async def create_part(self, name: str = "") -> Part:
        return Part()

    async def close(self) -> None:
        self.is_closed = True


class LoudCore(Core):
    async def add(self, first: int, *, second: int = 2) -> int:
        return 100 * await super().add(first, second=second)


class Piece(BlockingObject[Part]):
    def __init__(self, owner: Whole, core: Part) -> None:
        super().__init__(core, owner.loop_thread)
        self.owner = owner


class Whole(BlockingObject[Core]):
    is_refusing = False
    size = CoreAttribute[int]("How large it is.")
    limit = CoreAttribute[int](is_writable=True)
    add = blocking(Core.add)
    create_part = blocking_factory(Core.create_part, Piece)

    @signature_of(Core.add)
    def add_twice(self, *args: int, **kwargs: int) -> int:
        return 2 * self.call(self.core.add(*args, **kwargs))

    def refuse_closed(self) -> None:
        if self.is_refusing:
            raise Closed("it is closed")


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread.take()
    yield thread
    thread.release()


def test_a_derived_method_calls_the_core_with_its_arguments(loop_thread: LoopThread) -> None:
    whole = Whole(Core(), loop_thread)
    assert (whole.add(1), whole.add(1, second=5)) == (3, 6)
    assert whole.core.calls == [(1, 2), (1, 5)]
    assert Whole(LoudCore(), loop_thread).add(1) == 300  # a subclass of the core may override it


def test_signature_and_docstring_are_those_of_the_coroutine_function() -> None:
    for method in (Whole.add, Whole.add_twice):
        assert inspect.signature(method) == inspect.signature(Core.add)
        assert method.__doc__ == "The sum."
    assert Whole.add.__name__ == "add"
    assert Whole.add_twice.__name__ == "add_twice"


def test_a_closed_object_refuses_before_the_core_is_called(loop_thread: LoopThread) -> None:
    whole = Whole(Core(), loop_thread)
    whole.is_refusing = True
    for call in (lambda: whole.add(1), lambda: whole.create_part("x")):
        with pytest.raises(Closed):
            call()
    assert whole.core.calls == []


def test_a_factory_wraps_the_result(loop_thread: LoopThread) -> None:
    whole = Whole(Core(), loop_thread)
    with whole.create_part("x") as part:
        assert isinstance(part, Piece)
        assert part.owner is whole
    assert not part.is_closed  # its connection was closed already: that is no error


def test_attributes_are_those_of_the_core(loop_thread: LoopThread) -> None:
    whole = Whole(Core(), loop_thread)
    assert whole.size == 1
    with pytest.raises(AttributeError, match="'size' of Whole can be read only"):
        whole.size = 2
    whole.limit = 7
    assert whole.core.limit == 7  # type: ignore[attr-defined]
    assert inspect.getdoc(Whole.__dict__["size"]) == "How large it is."
