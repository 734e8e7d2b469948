"""No response is sent before a change is as durable as promised: endpoints that change something wait here."""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.errors import LeveretError, StoreError
from leveret.http.awaited import awaited

LOST = "the change may not be stored: the disk failed, or the broker stopped first; restart the broker and check"


async def wait_until_durable(broker: Broker, receipt: int | None = None) -> None:
    """Return when all changes so far, or those up to this receipt, are durable. Raises StoreError if that fails.

    The changes take effect first: the broker is woken for a tick."""

    def start(done: Callable[[LeveretError | None], None]) -> None:
        broker.wake()
        broker.when_granted(lambda: done(None), lost=lambda: done(StoreError(LOST)), receipt=receipt)

    await awaited(start)
