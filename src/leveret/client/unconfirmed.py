"""Unconfirmed publishes of a recovering channel, with their frames, so that they can be sent again.

The broker numbers the publishes of a channel from 1 without gaps. On a new connection the numbers start again:
``unsettled`` returns what is still unconfirmed, in the order of publishing, and its first gets number 1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from leveret.client.confirms import NOT_TAKEN, Confirms, Likeness, Settled, place_of
from leveret.client.errors import Nacked, Unroutable
from leveret.client.messages import Returned


@dataclass(slots=True, eq=False)
class Publication:
    stamp: int  # increases with each publish
    frames: bytes
    confirm: Settled | None  # None: the application does not use confirms
    is_settled: bool = False
    is_returned: bool = False

    def succeed(self) -> None:
        if self.confirm is not None and not self.is_returned and not self.confirm.done():
            self.confirm.set_result(None)

    def is_open(self) -> bool:
        return not self.is_settled


class Unconfirmed(Confirms):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._number = 1  # of the first in _line
        self._line: deque[Publication] = deque()
        self._returnable: deque[tuple[Publication, Likeness]] = deque()  # the mandatory ones of _line

    def keep(self, stamp: int, frames: bytes, confirm: Settled | None, likeness: Likeness | None) -> None:
        publication = Publication(stamp, frames, confirm)
        self._line.append(publication)
        if likeness is not None:
            self._returnable.append((publication, likeness))
        self._lost = None  # the earlier ones failed one by one
        self.open += 1

    def unsettled(self) -> list[Publication]:
        """The publishes to be sent again, numbered from 1, without those that were returned."""
        for each in self._line:
            if each.is_returned:
                self._leave(each)
        self._line = deque(each for each in self._line if not each.is_settled)
        self._number = 1
        self._resolve_if_quiet()
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
        while self._returnable and self._returnable[0][0].is_settled:
            self._returnable.popleft()
        self._resolve_if_quiet()

    def _answer(self, publication: Publication, *, is_taken: bool) -> None:
        if publication.is_settled:  # out of order, before
            return
        self._leave(publication)
        if is_taken:
            publication.succeed()
        else:
            self._fail(publication, Nacked(NOT_TAKEN))

    def _fail(self, publication: Publication, problem: Exception) -> None:
        """A returned message has failed already, although a publisher to several brokers may still wait."""
        if publication.confirm is not None and not publication.is_returned:
            self.fail(publication.confirm, problem)

    def _leave(self, publication: Publication) -> None:
        if not publication.is_settled:
            publication.is_settled = True
            self.open -= 1

    def returned(self, message: Returned) -> None:
        place = place_of(message, self._returnable, Publication.is_open)
        if place is not None:
            publication, _ = self._returnable[place]
            del self._returnable[place]
            self._fail(publication, Unroutable(message))
            publication.is_returned = True

    def end(self, problem: Exception) -> None:
        """Nothing is sent again."""
        line, self._line, self._returnable = self._line, deque(), deque()
        for each in line:
            self._fail(each, problem)
        super().end(problem)
