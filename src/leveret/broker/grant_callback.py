"""A callback for the moment a write is durable, or is known never to be."""

from __future__ import annotations

from collections.abc import Callable


class GrantCallback:
    """Waits for a receipt (broker/registry.py: AwaitsReceipt)."""

    __slots__ = ("_call", "_lost", "_receipt")

    def __init__(self, receipt: int, call: Callable[[], None], lost: Callable[[], None]) -> None:
        self._receipt = receipt
        self._call = call
        self._lost = lost

    def granted(self, receipt: int) -> bool:
        if receipt < self._receipt:
            return True
        self._call()
        return False

    def granted_early(self, receipts: set[int]) -> None:
        pass  # the grant of all follows soon

    def lost(self) -> None:
        self._lost()
