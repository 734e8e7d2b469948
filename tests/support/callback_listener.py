"""A listener of a log whose methods a test replaces one by one."""

from __future__ import annotations

from collections.abc import Callable


class CallbackListener:
    def __init__(
        self,
        on_granted: Callable[[int], object] = lambda receipt: None,
        on_lost: Callable[[], object] = lambda: None,
    ) -> None:
        self.on_granted = on_granted
        self.on_early: Callable[[set[int]], object] = lambda receipts: None
        self.on_lost = on_lost
        self.is_awaiting = True

    def granted(self, receipt: int) -> None:
        self.on_granted(receipt)

    def granted_early(self, receipts: set[int]) -> None:
        self.on_early(receipts)

    def lost(self) -> None:
        self.on_lost()
