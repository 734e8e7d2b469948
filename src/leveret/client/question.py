"""Something that is asked on one connection after the other, until a broker has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


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
        elif not self.result.done():  # whoever asked may have gone
            self.result.set_result(answer.result())

    def fail(self, problem: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(problem)
            self.result.exception()  # not everybody who asks looks
