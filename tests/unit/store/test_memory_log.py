"""The log that keeps nothing grants every receipt at once."""

from __future__ import annotations

from leveret.store.log import GRANTED, Placement
from leveret.store.memory_log import MemoryLog
from tests.support.spies import messages


def test_every_receipt_is_granted_at_once() -> None:
    log = MemoryLog()
    assert log.append(messages(b"a"), [Placement(1, 0, 1, 1)]) == GRANTED
    log.settle(1, 0, 1, 1)
    log.forget(1)
    log.flush()
    assert log.promise() == GRANTED
    assert log.issued == GRANTED
    log.listener.granted(5)
