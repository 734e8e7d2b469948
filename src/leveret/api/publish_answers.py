"""The answers of queues of other cells to a message that a request has published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leveret.delivery.receipts import Receipts
from leveret.errors import LeveretError
from leveret.http.awaited import awaited
from leveret.http.errors import BadRequest, Unconfirmed

ANSWER_SECONDS = 30.0  # that a publish waits for queues of other cells
UNCONFIRMED = (
    "a queue of another cell has not confirmed the message, since that cell is away or blocks publishers: look "
    "whether it has arrived (GET /api/queues/VHOST/QUEUE/messages) before you publish it again"
)


async def until_answered(receipts: Receipts) -> None:
    """Return when all have the message, or were deleted. Raises HttpError if one refuses it or does not answer."""

    def start(done: Callable[[LeveretError | None], None]) -> None:
        receipts.when_resolved(lambda: done(None))

    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await awaited(start)
    except TimeoutError:
        raise Unconfirmed(UNCONFIRMED) from None
    if receipts.is_unanswered:
        raise Unconfirmed(UNCONFIRMED)
    if receipts.refused and not receipts.unroutable:
        raise BadRequest("a queue that the message leads to is full and refuses it: consume from it, or retry later")
