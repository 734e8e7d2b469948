"""A slow, obvious model of one queue: limits, deaths, delivery limits, retries, ack timeouts, and its dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"


@dataclass(eq=False)
class Kept:
    """A message in the model."""

    body: bytes
    priority: int
    deadline: float
    persistent: bool
    order: int
    tries: int = 0
    until: float = 0.0  # waits for a retry until then
    is_new: bool = True  # not yet offered to a consumer


@dataclass(eq=False)
class Holding:
    """An unacknowledged message."""

    message: Kept
    until: float  # then it is taken back
    is_consumers: bool
    tries: int  # before this delivery


@dataclass(frozen=True)
class Rules:
    """What the arguments of the queue ask for; times in seconds."""

    ttl: float | None = None
    lanes: int = 1
    max_length: int | None = None
    overflow: str = "drop-head"
    body_size: int = 0  # not 0: all bodies are so large, and bytes are limited instead of messages
    delivery_limit: int | None = None
    delays: tuple[float, ...] = ()
    timeout: float | None = None
    has_exchange: bool = True

    def arguments(self) -> dict[str, object]:
        table: dict[str, object] = {}
        if self.ttl is not None:
            table["x-message-ttl"] = int(self.ttl * 1000)
        if self.lanes > 1:
            table["x-max-priority"] = self.lanes - 1
        if self.max_length is not None:
            name = "x-max-length-bytes" if self.body_size else "x-max-length"
            table[name] = self.max_length * (self.body_size or 1)
            table["x-overflow"] = self.overflow
        if self.delivery_limit is not None:
            table["x-delivery-limit"] = self.delivery_limit
        if self.delays:
            table["x-retry-delays"] = [int(delay * 1000) for delay in self.delays]
        if self.timeout is not None:
            table["x-consumer-timeout"] = int(self.timeout * 1000)
        if self.has_exchange:
            table |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        return table


@dataclass(eq=False)
class OptionsModel:
    rules: Rules
    now: float = 0.0
    ready: list[Kept] = field(default_factory=list)
    waiting: list[Kept] = field(default_factory=list)
    held: list[Holding] = field(default_factory=list)
    dead: list[tuple[bytes, str, bool]] = field(default_factory=list)  # body, reason, persistent
    prefetch: int | None = None  # of the one consumer, if it is there
    delivered: list[Holding] = field(default_factory=list)  # to the consumer, until the test checks
    _orders: int = 0

    # ---- what clients do

    def publish(self, body: bytes, priority: int, seconds: float | None, persistent: bool) -> bool:
        """Whether it was taken; ``settle`` follows after the last of a run."""
        message = Kept(body, min(priority, self.rules.lanes - 1), self._deadline(seconds), persistent, self._orders)
        self._orders += 1
        if self.rules.max_length is not None and self.rules.overflow != "drop-head":
            if len(self.ready) >= self.rules.max_length:
                self.settle()
            if len(self.ready) >= self.rules.max_length:
                if self.rules.overflow == "reject-publish-dlx":
                    self._bury(message, MAXLEN)
                return False
        self.ready.append(message)
        return True

    def _deadline(self, seconds: float | None) -> float:
        return self.now + min(inf if each is None else each for each in (seconds, self.rules.ttl))

    def get(self) -> Holding | None:
        self.settle()
        return self._hand_out(is_consumers=False) if self.ready else None

    def _hand_out(self, *, is_consumers: bool) -> Holding:
        first = self._first()
        self.ready.remove(first)
        first.is_new = False
        timeout = self.rules.timeout
        holding = Holding(first, inf if timeout is None else self.now + timeout, is_consumers, first.tries)
        self.held.append(holding)
        return holding

    def ack(self, holding: Holding) -> None:
        self.held.remove(holding)
        self.settle()

    def refuse(self, holding: Holding, *, requeue: bool) -> None:
        self.held.remove(holding)
        if requeue:
            self._give_back(holding.message, tried=True)
        else:
            self._bury(holding.message, REJECTED)
        self.settle()

    def consume(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self.settle()

    def cancel(self) -> None:
        """What the consumer holds stays with it."""
        self.prefetch = None

    def leave(self) -> None:
        """The clients with unacknowledged messages disconnect without a close, and so does the consumer."""
        self.prefetch = None
        held, self.held = self.held, []
        for holding in held:
            self._give_back(holding.message, tried=False)
        self.settle()

    def _give_back(self, message: Kept, *, tried: bool) -> None:
        message.tries += 1
        limit, delays = self.rules.delivery_limit, self.rules.delays
        if (limit is not None and message.tries > limit) or (tried and delays and message.tries > len(delays)):
            self._bury(message, DELIVERY_LIMIT)
        elif tried and delays:
            message.until = min(self.now + delays[message.tries - 1], message.deadline)
            self.waiting.append(message)
        else:
            self.ready.append(message)

    def purge(self) -> int:
        self.settle()
        number = len(self.ready)
        self.ready.clear()
        return number

    # ---- time

    def advance(self, seconds: float) -> None:
        target = self.now + seconds
        while True:
            moments = [each.deadline for each in self.ready] + [each.until for each in (*self.waiting, *self.held)]
            soonest = min(moments, default=inf)
            if soonest > target:
                break
            self.now = max(self.now, soonest)
            self._wake()
        self.now = target
        self.settle()

    def _wake(self) -> None:
        for holding in [each for each in self.held if each.until <= self.now]:
            self.held.remove(holding)
            self._give_back(holding.message, tried=True)
        for message in [each for each in self.waiting if each.until <= self.now]:
            self.waiting.remove(message)
            self.ready.append(message)
        self.settle()

    # ---- restarts

    def end(self, seconds: float, *, cleanly: bool) -> None:
        """A restart; the next run begins ``seconds`` later."""
        if cleanly:
            self.leave()
        self.ready += [holding.message for holding in self.held]
        self.held = []
        self.prefetch = None
        self.now += seconds
        self.ready = [each for each in self.ready if each.persistent]
        self.waiting = [each for each in self.waiting if each.persistent]
        self.dead = [each for each in self.dead if each[2]]
        self._wake()

    # ---- the rules

    def _first(self) -> Kept:
        return min(self.ready, key=lambda each: (-each.priority, each.order))

    def _bury(self, message: Kept, reason: str) -> None:
        if self.rules.has_exchange:
            self.dead.append((message.body, reason, message.persistent))

    def _bury_expired(self) -> None:
        for message in [each for each in self.ready if each.deadline <= self.now and not each.is_new]:
            self.ready.remove(message)
            self._bury(message, EXPIRED)

    def _deliver(self) -> None:
        while self.prefetch is not None and self.ready:
            if sum(each.is_consumers for each in self.held) >= self.prefetch:
                return
            self.delivered.append(self._hand_out(is_consumers=True))

    def settle(self) -> None:
        """Age, then the consumer, then the limit, then what was to be delivered at once or never."""
        self._bury_expired()
        self._deliver()
        length = self.rules.max_length
        while self.rules.overflow == "drop-head" and length is not None and len(self.ready) > length:
            first = self._first()
            self.ready.remove(first)
            self._bury(first, MAXLEN)
        for message in self.ready:
            message.is_new = False
        self._bury_expired()
