"""A channel for work that may fail without harm to others: the broker closes a channel with its error."""

from __future__ import annotations

from typing import Any

from leveret.client.channel import Channel
from leveret.wire import methods as m


class SideChannel(Channel):
    async def do(self, method: m.Method, answer: type[m.Method]) -> Any:
        return await self._ask(method, answer)
