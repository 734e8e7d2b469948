"""Follows a queue by browsing it over HTTP: messages stay in the queue, and no delivery is counted.

Each request continues behind the position that the response before it returned, so that a long queue is not read again.
Messages that are consumed between two requests are not seen; ``missed`` counts them by the gaps between the positions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from leveret.cli.api_client import Api, Row

PAGE = 200  # messages per request; the broker limits their bytes
INTERVAL = 0.5  # seconds between two requests, once the queue has been read to its end
WHOLE = 1 << 30  # bytes of a body: no limit

Position = dict[str, int]  # the last sequence in each lane


class QueueBrowser:
    """The messages of a queue, from its head on, with at most ``truncate`` bytes of each body."""

    def __init__(self, api: Api, vhost: str, queue: str, truncate: int = WHOLE) -> None:
        self.shown = 0  # messages
        self.missed = 0  # messages that left the queue between two requests
        self._api = api
        self._path = ("queues", vhost, queue, "messages")
        self._truncate = truncate
        self._position = ""

    def pages(self, most: int | None, follows: bool) -> Iterator[list[Row]]:
        """At most ``most`` messages; without ``follows``, up to the end of the queue."""
        while most is None or self.shown < most:
            found = self._next(PAGE if most is None else min(PAGE, most - self.shown))
            rows: list[Row] = found["messages"]
            self.shown += len(rows)
            yield rows
            if found["is_complete"] and not follows:
                return
            if found["is_complete"]:
                time.sleep(INTERVAL)

    def _next(self, limit: int) -> Row:
        query = {"limit": limit, "truncate": self._truncate, "after": self._position or None}
        found: Row = self._api.get(*self._path, query=query).value
        before, now = _parsed(self._position), _parsed(found["position"])
        if before.keys() == now.keys():
            self.missed += max(sum(now.values()) - sum(before.values()) - found["looked_at"], 0)
        self._position = found["position"]
        return found


def _parsed(position: str) -> Position:
    places = [id_.rpartition("-") for id_ in position.split(",") if id_]
    return {lane: int(sequence) for lane, _, sequence in places}
