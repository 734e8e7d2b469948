"""When a message that came back is tried again.

Either a list of delays, one for each retry (x-retry-delays; when the list is at its end the message is dead), or delays
that grow (x-retry-delay-min, -max, -multiplier, -jitter; RabbitMQ's x-delayed-retry-type, -min and -max grow by the
number of tries), with the queue's delivery limit as their end.
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
    """Times in seconds. ``failed``: what a consumer gave back or held too long waits; ``left``: so does what a consumer
    left behind when it went."""

    delays: tuple[float, ...] = ()
    shortest: float = 0.0
    longest: float = LONGEST
    multiplier: float | None = None  # None: the delay grows by the shortest with every try
    jitter: float = 0.0  # up to this part of a delay is taken off, by chance
    failed: bool = True
    left: bool = False

    @property
    def needs_limit(self) -> bool:
        """It has no end of its own."""
        return not self.delays

    def is_over(self, tries: int) -> bool:
        """Whether a message that failed so often is given up."""
        return bool(self.delays) and tries > len(self.delays)

    def delay(self, tries: int, chance: float) -> float:
        """How long a message waits that has failed ``tries`` times; ``chance`` is within 0..1."""
        if self.delays:
            delay = self.delays[min(tries, len(self.delays)) - 1]
        elif self.multiplier is None:
            delay = min(self.shortest * tries, self.longest)
        else:
            delay = min(self.shortest * self.multiplier ** min(tries - 1, 64), self.longest)
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
