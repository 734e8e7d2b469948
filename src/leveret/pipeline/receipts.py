"""Nothing is answered before it is as durable as promised: whoever wrote something waits here for the log."""

from __future__ import annotations

import asyncio

from leveret.broker.broker import Broker
from leveret.errors import StoreError

LOST = "not known to be stored: the disk failed, or the broker stopped before it answered; start it again"


class _Waiter:
    """Somebody who waits for a receipt (broker/registry.py: AwaitsReceipt)."""

    __slots__ = ("_answer", "_receipt")

    def __init__(self, receipt: int, answer: asyncio.Future[None]) -> None:
        self._receipt = receipt
        self._answer = answer

    def granted(self, receipt: int) -> bool:
        if receipt < self._receipt and not self._answer.done():
            return True
        if not self._answer.done():
            self._answer.set_result(None)
        return False

    def granted_early(self, receipts: set[int]) -> None:
        pass  # the grant of all follows soon

    def lost(self) -> None:
        if not self._answer.done():
            self._answer.set_exception(StoreError(LOST))


async def all_granted(broker: Broker) -> None:
    """Returns when all that was recorded, appended or promised so far is durable; StoreError if it never will be."""
    receipt = broker.log.issued
    broker.wake()
    if receipt <= broker.last_granted:
        return
    if broker.is_lost:
        raise StoreError(LOST)
    answer = asyncio.get_running_loop().create_future()
    broker.awaiting[_Waiter(receipt, answer)] = None
    await answer
