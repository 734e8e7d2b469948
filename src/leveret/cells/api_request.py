"""Requests of the HTTP API that one cell has another one answer (docs/decisions/0058), and the replies to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from leveret.queues.declared_queue import HERE

Headers = Sequence[tuple[str, str]]


class ApiRequest(NamedTuple):
    """A request whose user is authenticated. ``path`` is percent-encoded. ``user`` is None for metrics that are read
    from localhost. ``homes``: the cells whose queues are listed, HERE for the one that answers."""

    method: str
    path: str
    query: str = ""
    headers: Headers = ()
    user: str | None = None
    homes: tuple[str, ...] = (HERE,)


class ApiReply(Protocol):
    """A reply whose status has arrived. Close it, whether or not all of its body was read."""

    status: int
    headers: Headers

    def pieces(self) -> AsyncIterator[bytes]:
        """The body. Raises CellUnreachable if it is cut off."""

    async def close(self) -> None: ...


class CellUnreachable(Exception):
    """The other cell does not answer, or not in time."""
