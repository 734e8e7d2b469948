"""What a queue should do, written down as simply as possible: a message is ready, unacked or settled.

A ModelQueue knows nothing of lanes, spans, heaps or bursts. Given what the clients did and what they received, it
checks whether that is possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

NEVER = float("inf")


@dataclass(eq=False)
class ModelMessage:
    body: bytes
    size: int  # of its content
    order: tuple[int, int]  # higher priority first, then in order of arrival
    deadline: float = NEVER
    redelivered: bool = False


@dataclass(eq=False)
class ModelConsumer:
    """``prefetch`` 0 is unlimited. ``held`` counts its own unacked messages."""

    tag: str
    prefetch: int
    no_ack: bool
    held: int = 0

    def room(self) -> int:
        if self.no_ack or not self.prefetch:
            return 1 << 60
        return max(0, self.prefetch - self.held)


@dataclass(eq=False)
class ModelQueue:
    name: str
    max_priority: int = 0
    ttl: float = NEVER
    ready: list[ModelMessage] = field(default_factory=list)
    unacked: set[ModelMessage] = field(default_factory=set)
    consumers: list[ModelConsumer] = field(default_factory=list)
    alive: bool = True
    arrivals: int = 0

    def publish(self, body: bytes, size: int, priority: int, expiration: float, now: float) -> None:
        self.arrivals += 1
        order = (-min(priority, self.max_priority), self.arrivals)
        self.ready.append(ModelMessage(body, size, order, now + min(expiration, self.ttl)))

    def give_back(self, messages: Iterable[ModelMessage], now: float) -> None:
        """To their places, marked; those whose time is up meanwhile are never seen again."""
        for message in messages:
            self.unacked.discard(message)
            message.redelivered = True
            if self.alive and message.deadline > now:
                self.ready.append(message)

    def forget(self, message: ModelMessage) -> None:
        self.unacked.discard(message)

    def take_first(self) -> ModelMessage:
        self.ready.sort(key=lambda message: message.order)
        return self.ready.pop(0)

    def deliver(self, heard: dict[str, list[tuple[bytes, bool]]], now: float) -> dict[bytes, ModelMessage]:
        """Check what each consumer received (bodies and redelivered flags) against what was due; by body, what went."""
        self.ready.sort(key=lambda message: message.order)
        rooms = {consumer.tag: consumer.room() for consumer in self.consumers}
        number = min(len(self.ready), sum(rooms.values()))
        due, self.ready = self.ready[:number], self.ready[number:]
        went = {message.body: message for message in due}
        place = {message.body: index for index, message in enumerate(due)}
        told = [body for given in heard.values() for body, _ in given]
        assert sorted(told) == sorted(went), f"{self.name}: due {sorted(went)}, heard {sorted(told)}"
        for tag, given in heard.items():
            assert len(given) <= rooms[tag], f"{tag} was given more than it had room for"
            places = [place[body] for body, _ in given]
            assert places == sorted(places), f"{tag} heard {given} out of order"
            for body, redelivered in given:
                assert redelivered == went[body].redelivered, f"redelivered flag of {body!r}"
        if number and all(room >= number for room in rooms.values()):
            shares = [len(heard.get(tag, ())) for tag in rooms]
            assert max(shares) - min(shares) <= 1, f"turns were not taken: {shares}"
        self.bury(now)
        return went

    def bury(self, now: float) -> None:
        self.ready = [message for message in self.ready if message.deadline > now]

    def die(self) -> None:
        self.alive = False
        self.ready.clear()
        self.unacked.clear()
        self.consumers.clear()

    @property
    def bytes(self) -> int:
        return sum(message.size for message in self.ready) + sum(message.size for message in self.unacked)
