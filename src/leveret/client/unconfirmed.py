"""What was published and is not confirmed, with its frames, so that it can be sent again on another connection.

The broker numbers what it is sent on a channel from 1 without gaps. With a new connection the numbers begin anew:
``unsettled`` gives what is still open, in the order of publishing, and the first of it gets the number 1.
"""

from __future__ import annotations

import asyncio
from collections import deque

from leveret.client.arrivals import Returned
from leveret.client.confirms import NOT_TAKEN, Confirms, Likeness, Settled
from leveret.client.errors import Nacked, Unroutable


class Publication:
    __slots__ = ("confirm", "frames", "is_returned", "is_settled", "likeness", "stamp")

    def __init__(self, stamp: int, frames: bytes, confirm: Settled | None, likeness: Likeness | None) -> None:
        self.stamp = stamp  # grows from one to the next
        self.frames = frames
        self.confirm = confirm  # None: nobody asked, and it is sent again all the same
        self.likeness = likeness  # of a mandatory message
        self.is_settled = False
        self.is_returned = False

    def succeed(self) -> None:
        if self.confirm is not None and not self.confirm.done():
            self.confirm.set_result(None)

    def fail(self, problem: Exception) -> None:
        if self.confirm is not None and not self.confirm.done():
            self.confirm.set_exception(problem)
            self.confirm.exception()  # not everybody who publishes waits for each confirm


class Unconfirmed(Confirms):
    __slots__ = ("_line", "_number")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._number = 1  # of the first in the line
        self._line: deque[Publication] = deque()

    def keep(self, stamp: int, frames: bytes, confirm: Settled | None, likeness: Likeness | None) -> None:
        self._line.append(Publication(stamp, frames, confirm, likeness))
        self._lost = None  # of those before, who were told
        self.open += 1

    def unsettled(self) -> list[Publication]:
        """What is to be sent again, numbered from 1. What came back to its publisher is not."""
        for each in self._line:
            if each.is_returned:
                self._leave(each)
        self._line = deque(each for each in self._line if not each.is_settled)
        self._number = 1
        self._tell_if_quiet()
        return list(self._line)

    def settle(self, tag: int, *, multiple: bool, is_taken: bool) -> None:
        line, place = self._line, tag - self._number
        if multiple:
            for _ in range(len(line) if tag == 0 else min(place + 1, len(line))):
                self._answer(line.popleft(), is_taken=is_taken)
                self._number += 1
        elif 0 <= place < len(line):
            self._answer(line[place], is_taken=is_taken)
            while line and line[0].is_settled:
                line.popleft()
                self._number += 1
        self._tell_if_quiet()

    def _answer(self, publication: Publication, *, is_taken: bool) -> None:
        self._leave(publication)
        if is_taken:
            publication.succeed()
        else:
            publication.fail(Nacked(NOT_TAKEN))

    def _leave(self, publication: Publication) -> None:
        if not publication.is_settled:
            publication.is_settled = True
            self.open -= 1

    def returned(self, message: Returned) -> bool:
        likeness = (message.exchange, message.routing_key, message.body)
        for each in self._line:
            if each.likeness == likeness and not each.is_returned and not each.is_settled:
                each.is_returned = True
                is_awaited = each.confirm is not None and not each.confirm.done()
                each.fail(Unroutable(message))
                return is_awaited
        return False

    def end(self, problem: Exception) -> None:
        """Nobody will send it again."""
        line, self._line = self._line, deque()
        for each in line:
            each.fail(problem)
        super().end(problem)
