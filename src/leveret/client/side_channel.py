"""A channel for work that may fail without harm to others: the broker closes a channel with its error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from leveret.client.channel import Channel, Then
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.recovering_connection import RecoveringConnection


class SideChannel(Channel):
    connection: RecoveringConnection

    def __init__(self, connection: RecoveringConnection, number: int) -> None:
        super().__init__(connection, number)
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, problem: Exception) -> None:
        super().end(problem)
        if not self._gone.done():
            self._gone.set_result(None)

    async def until_gone(self) -> None:
        """Until its number can be used by another one."""
        await asyncio.shield(self._gone)

    def _ask_now(self, method: m.Method, *answers: type[m.Method], then: Then = None) -> asyncio.Future[Any]:
        self.connection.refuse_fallen()
        return super()._ask_now(method, *answers, then=then)

    async def do(self, method: m.Method, answer: type[m.Method]) -> Any:
        return await self._ask(method, answer)
