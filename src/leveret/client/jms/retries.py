"""Messages of one consumer that wait for their redelivery.

By default they are put at the front of the consumer's queue at once, and the queue pauses until the delay is over, so
that the order is preserved. With ``non_blocking`` each waits outside of the queue, and is put at its front later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from leveret.client.jms.clock import Clock, Timer
from leveret.client.jms.policies import RedeliveryPolicy
from leveret.client.jms.unsettled import Dispatch


class Retries:
    """``put_first`` puts messages at the front of the queue, ``go_on`` is called when a pause is over."""

    def __init__(
        self,
        policy: RedeliveryPolicy,
        clock: Clock,
        put_first: Callable[[Sequence[Dispatch]], None],
        go_on: Callable[[], None],
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._put_first = put_first
        self._go_on = go_on
        self._timers: set[Timer] = set()
        self._pauses = 0  # number of current pauses
        self.away: dict[Dispatch, None] = {}  # waiting outside of the queue, in their order

    def add(self, entries: Sequence[Dispatch]) -> None:
        """Their ``redeliveries`` are counted already."""
        if self._policy.non_blocking:
            for entry in entries:
                self.away[entry] = None
                self._after(self._policy.delay(entry.redeliveries), partial(self._return, entry))
            return
        self._put_first(entries)
        self._pauses += 1
        self._after(max(self._policy.delay(entry.redeliveries) for entry in entries), self._resume)

    @property
    def is_pausing(self) -> bool:
        return self._pauses > 0

    def forget_settled(self) -> None:
        self.away = {entry: None for entry in self.away if not entry.is_settled}

    def cancel(self) -> None:
        """The consumer is closed: no more attempts."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _after(self, delay: float, work: Callable[[], None]) -> None:
        if delay <= 0:
            work()
            return

        def fire() -> None:
            self._timers.discard(timer)
            work()

        timer = self._clock.call_later(delay, fire)
        self._timers.add(timer)

    def _return(self, entry: Dispatch) -> None:
        if entry in self.away:
            del self.away[entry]
            self._put_first([entry])
            self._go_on()

    def _resume(self) -> None:
        self._pauses -= 1
        self._go_on()
