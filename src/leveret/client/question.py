"""What is asked on one connection after the other, until a broker has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.client.errors import Interrupted
from leveret.errors import LeveretError

if TYPE_CHECKING:
    from leveret.client.recovering_channel import RecoveringChannel


class Question:
    """``once`` asks; ``stamp`` says where it stands among everything else that the channel has to say."""

    __slots__ = ("once", "result", "stamp")

    def __init__(self, stamp: int, once: Callable[[], asyncio.Future[Any]]) -> None:
        self.stamp = stamp
        self.once = once
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, answer: asyncio.Future[Any]) -> None:
        problem = answer.exception()
        if isinstance(problem, Exception):
            self.fail(problem)
        elif not self.result.done():  # the caller may have been cancelled
            self.result.set_result(answer.result())

    def fail(self, problem: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(problem)
            self.result.exception()  # the caller may never retrieve it


class Questions:
    """Of one channel. Those wait that were asked while there was no connection, or whose connection was lost."""

    __slots__ = ("_channel", "_waiting")

    def __init__(self, channel: RecoveringChannel) -> None:
        self._channel = channel
        self._waiting: list[Question] = []

    def put(self, question: Question) -> None:
        if not self._channel.is_live:
            self._waiting.append(question)
        else:
            self.put_now(question)

    def put_now(self, question: Question) -> None:
        try:
            answer = question.once()
        except Interrupted:
            self._waiting.append(question)
        except LeveretError as problem:  # this broker takes smaller frames than the one for which it was asked
            question.fail(problem)
        else:
            answer.add_done_callback(lambda answer: self._answered(question, answer))

    def _answered(self, question: Question, answer: asyncio.Future[Any]) -> None:
        if isinstance(answer.exception(), Interrupted) and not self._channel.is_closed:
            self.put(question)
        else:
            question.settle(answer)

    def taken(self) -> list[Question]:
        """Those that wait; they do not any more."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def drop(self, problem: Exception) -> None:
        for question in self.taken():
            question.fail(problem)
