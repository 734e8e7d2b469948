"""When a message that was returned is redelivered.

Either by a list of delays, one for each retry (x-retry-delays; after the last one the message is dead-lettered or
dropped), or by growing delays (x-retry-delay-min, -max, -multiplier, -jitter; RabbitMQ's x-delayed-retry-type, -min and
-max grow with the delivery count), limited by the delivery limit of the queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from leveret.errors import PreconditionFailed
from leveret.queues.argument_kinds import Arguments, list_of_milliseconds, milliseconds, number, one_of

MOST_DELAYS = 100
LONGEST = 365 * 86400.0
TYPES = ("disabled", "all", "failed", "returned")


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Times in seconds. ``failed``: messages that were nacked or timed out are delayed; ``left``: so are messages of a
    consumer that was closed."""

    delays: tuple[float, ...] = ()
    shortest: float = 0.0
    longest: float = LONGEST
    multiplier: float | None = None  # None: the delay grows by the shortest one with each delivery
    jitter: float = 0.0  # a random part of a delay, up to this, is subtracted
    failed: bool = True
    left: bool = False

    @property
    def needs_limit(self) -> bool:
        """The plan itself does not limit the recount."""
        return not self.delays

    def is_over(self, count: int) -> bool:
        """Whether a message with this delivery count is not retried any more."""
        return bool(self.delays) and count > len(self.delays)

    def delay(self, count: int, chance: float) -> float:
        """The delay of a message with this delivery count; ``chance`` is a random number within 0..1."""
        if self.delays:
            delay = self.delays[min(count, len(self.delays)) - 1]
        elif self.multiplier is None:
            delay = min(self.shortest * count, self.longest)
        else:
            delay = min(self.shortest * self.multiplier ** min(count - 1, 64), self.longest)
        return delay * (1.0 - self.jitter * chance)

    @staticmethod
    def of(arguments: Arguments) -> RetryPlan | None:
        delays = list_of_milliseconds(arguments, "x-retry-delays", MOST_DELAYS)
        shortest = milliseconds(arguments, "x-retry-delay-min", smallest=1)
        longest = milliseconds(arguments, "x-retry-delay-max", smallest=1)
        multiplier = number(arguments, "x-retry-multiplier", 1, 1000)
        jitter = number(arguments, "x-retry-jitter", 0, 1) or 0.0
        if delays is not None:
            if shortest is not None:
                raise PreconditionFailed("invalid args 'x-retry-delays' and 'x-retry-delay-min': give one of the two")
            return RetryPlan(delays=delays, jitter=jitter)
        if shortest is not None:
            _check_order(shortest, longest, "x-retry-delay")
            return RetryPlan(shortest=shortest, longest=longest or LONGEST, multiplier=multiplier or 2.0, jitter=jitter)
        return _as_rabbitmq(arguments)


def _check_order(shortest: float, longest: float | None, name: str) -> None:
    if longest is not None and longest < shortest:
        raise PreconditionFailed(f"invalid arg '{name}-max': it is below '{name}-min'")


def _as_rabbitmq(arguments: Arguments) -> RetryPlan | None:
    kind = one_of(arguments, "x-delayed-retry-type", TYPES)
    shortest = milliseconds(arguments, "x-delayed-retry-min", smallest=1)
    longest = milliseconds(arguments, "x-delayed-retry-max", smallest=1)
    if kind == "disabled" or (kind is None and shortest is None):
        return None
    if shortest is None:
        raise PreconditionFailed(f"invalid arg 'x-delayed-retry-type': '{kind}' needs 'x-delayed-retry-min'")
    _check_order(shortest, longest, "x-delayed-retry")
    kind = kind or "all"
    failed, left = kind in ("all", "failed"), kind in ("all", "returned")
    return RetryPlan(shortest=shortest, longest=longest or LONGEST, failed=failed, left=left)
