"""Calls from other threads: a future gets the result once what the call wrote is durable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from leveret.broker.broker import Broker
from leveret.errors import StoreError

T = TypeVar("T")


class Alarm(Exception):
    """Publishers are blocked."""


class Waiter:
    """Waits for a receipt (broker/registry.py: AwaitsReceipt)."""

    def __init__(self, receipt: int, answer: Callable[[], None], refuse: Callable[[BaseException], None]) -> None:
        self._receipt = receipt
        self._answer = answer
        self._refuse = refuse

    def granted(self, receipt: int) -> bool:
        if receipt < self._receipt:
            return True
        self._answer()
        return False

    def granted_early(self, receipts: set[int]) -> None:
        pass  # granted() follows soon

    def lost(self) -> None:
        self._refuse(
            StoreError(
                "not known to be stored: the disk failed, or the broker stopped before it answered; start it again"
            )
        )


def fill(answer: Future[T], function: Callable[[], T], broker: Broker) -> None:
    issued = broker.log.issued
    try:
        result = function()
    except BaseException as problem:  # noqa: BLE001 - it is passed to the caller
        answer.set_exception(problem)
        return
    receipt = broker.log.issued
    if receipt == issued or receipt <= broker.last_granted:
        answer.set_result(result)
    else:
        broker.awaiting[Waiter(receipt, lambda: answer.set_result(result), answer.set_exception)] = None


def when_calm(broker: Broker, calm: Future[None]) -> None:
    if not broker.alarms:
        calm.set_result(None)
        return

    def alarm_changed(name: str, facts: Mapping[str, object]) -> None:
        if not broker.alarms:
            unsubscribe()
            calm.set_result(None)

    unsubscribe = broker.events.subscribe(alarm_changed)
