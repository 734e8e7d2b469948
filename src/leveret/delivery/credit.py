"""Back-pressure between a publishing channel and the queues it publishes to, counted in messages.

A channel spends one credit for each queue a message goes to, and one for each replica of that queue. A queue gives
credit back when it has *handled* the message: a queue that stores in memory handles at once and is never asked to keep
books, so an account exists only with queues that take their time (replicas, a store that is behind). A channel that
owes one queue too much stops reading its publisher; it goes on when half of the debt is paid or the queue is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

DEBT_LIMIT = 2_000  # messages; with frames of 128 KiB the socket buffers add about as much again


class CreditLedger:
    """What one channel owes, by queue."""

    __slots__ = ("_block", "_limit", "_owed", "_stuck", "_unblock")

    def __init__(self, block: Callable[[], None], unblock: Callable[[], None], limit: int = DEBT_LIMIT) -> None:
        self._block = block
        self._unblock = unblock
        self._limit = limit
        self._owed: dict[Hashable, int] = {}
        self._stuck: set[Hashable] = set()

    @property
    def blocked(self) -> bool:
        return bool(self._stuck)

    def owed(self, queue: Hashable) -> int:
        return self._owed.get(queue, 0)

    def queues(self) -> list[Hashable]:
        return list(self._owed)

    def spend(self, queue: Hashable, credits: int) -> None:
        owed = self._owed[queue] = self._owed.get(queue, 0) + credits
        if owed >= self._limit and queue not in self._stuck:
            self._stuck.add(queue)
            if len(self._stuck) == 1:
                self._block()

    def grant(self, queue: Hashable, credits: int) -> None:
        owed = self._owed.get(queue, 0) - credits
        if owed > 0:
            self._owed[queue] = owed
        else:
            self._owed.pop(queue, None)
        if owed <= self._limit // 2:
            self._release(queue)

    def forget(self, queue: Hashable) -> None:
        """The queue is gone: what was owed to it holds nobody back."""
        self._owed.pop(queue, None)
        self._release(queue)

    def _release(self, queue: Hashable) -> None:
        if queue in self._stuck:
            self._stuck.remove(queue)
            if not self._stuck:
                self._unblock()
