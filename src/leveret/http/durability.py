"""Nothing is answered before it is as durable as promised: whoever changed something waits here for the log."""

from __future__ import annotations

import asyncio

from leveret.broker.broker import Broker
from leveret.errors import StoreError

LOST = "not known to be stored: the disk failed, or the broker stopped before it answered; start it again and look"


async def settled(broker: Broker, receipt: int | None = None) -> None:
    """Returns when all that was changed so far, or up to this receipt, is durable; StoreError if it never will be.

    What was changed has its effect first: the broker is given a turn."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(problem: StoreError | None) -> None:
        if answer.done():
            return  # the client has gone
        if problem is None:
            answer.set_result(None)
        else:
            answer.set_exception(problem)

    broker.wake()
    broker.when_granted(lambda: settle(None), lost=lambda: settle(StoreError(LOST)), receipt=receipt)
    await answer
