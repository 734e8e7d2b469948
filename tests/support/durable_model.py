"""What a queue on disk should do, on top of queue_model.py: what comes back after which end, and how it is marked.

A message is *certain* once its publish was confirmed, and until its settling may have reached the disk. A crash brings
back all that is certain, perhaps more of what was published or was settled shortly before, and nothing else. Times are
wall times: they continue while no broker runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.queue_model import ModelMessage, ModelQueue


@dataclass(eq=False)
class DurableMessage(ModelMessage):
    persistent: bool = False
    is_confirmed: bool = False


@dataclass(eq=False)
class DurableQueue(ModelQueue):
    is_durable: bool = True
    settled: list[ModelMessage] = field(default_factory=list)  # not known to have left the disk

    def put(self, message: DurableMessage) -> None:
        self.arrivals += 1
        message.order = (-min(-message.order[0], self.max_priority), self.arrivals)
        self.ready.append(message)

    # ---- leaving

    def forget(self, message: ModelMessage) -> None:
        super().forget(message)
        self.settled.append(message)

    def bury(self, now: float) -> None:
        self.settled += [message for message in self.ready if message.deadline <= now]
        super().bury(now)

    def purge(self) -> None:
        self.settled += self.ready
        self.ready.clear()

    def on_disk(self) -> None:
        """All that happened so far is on disk."""
        self.settled.clear()

    # ---- deliveries

    def hear(self, heard: dict[str, list[tuple[bytes, bool]]], now: float, complete: bool) -> dict[bytes, ModelMessage]:
        """Consumers must have received the front of the queue; all that is due if ``complete``. By body, what went."""
        if complete:
            return self.deliver(heard, now)
        self.bury(now)
        self.ready.sort(key=lambda message: message.order)
        told = [pair for given in heard.values() for pair in given]
        due, self.ready = self.ready[: len(told)], self.ready[len(told) :]
        went = {message.body: message for message in due}
        assert sorted(body for body, _ in told) == sorted(went), f"{self.name}: front {list(went)}, heard {told}"
        for body, redelivered in told:
            assert redelivered == went[body].redelivered, f"redelivered flag of {body!r}"
        place = {message.body: index for index, message in enumerate(due)}
        for given in heard.values():
            places = [place[body] for body, _ in given]
            assert places == sorted(places), f"heard {given} out of order"
        return went

    # ---- restarts

    def stop(self) -> None:
        """A clean stop: what was out comes back marked, and transient messages are gone."""
        for message in self.unacked:
            message.redelivered = True
        self._keep([*self.ready, *self.unacked])

    def crash(self, found: list[bytes], now: float) -> None:
        """``found`` is what the next run has on disk, in order."""
        if not self.is_durable:
            self._keep([])
            return
        living = [each for each in [*self.ready, *self.unacked] if each.deadline > now and _lasts(each)]
        possible = [*living, *[each for each in self.settled if each.deadline > now and _lasts(each)]]
        possible.sort(key=lambda message: message.order)
        certain = {each.body for each in living if each.is_confirmed}  # type: ignore[attr-defined]
        assert certain <= set(found), f"{self.name}: lost {sorted(certain - set(found))}"
        expected = [each for each in possible if each.body in found]
        assert [each.body for each in expected] == found, f"{self.name}: another order, or what nobody published"
        for message in expected:
            message.redelivered = True
        self._keep(expected)

    def _keep(self, messages: Iterable[ModelMessage]) -> None:
        kept = [each for each in messages if _lasts(each)] if self.is_durable else []
        self.ready = sorted(kept, key=lambda message: message.order)
        self.unacked = set()
        self.settled = []
        self.consumers = []


def _lasts(message: ModelMessage) -> bool:
    assert isinstance(message, DurableMessage)
    return message.persistent
