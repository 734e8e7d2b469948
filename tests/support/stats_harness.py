"""Statistics of a broker on a clock that stands still until it is moved."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import in_process_access
from leveret.broker.broker import Broker
from leveret.broker.local import LocalSession
from leveret.clock import FrozenClock
from leveret.queues.classic import ClassicQueue
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats
from leveret.store.memory_log import MemoryLog


class Harness:
    def __init__(self) -> None:
        self.broker = Broker(node_name="harness", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
        self.vhost = self.broker.add_vhost("/")
        self.session = LocalSession(in_process_access(self.vhost), lambda tag, delivered: None)
        self.stats = Stats(self.broker)

    def queue(self, name: str) -> ClassicQueue:
        return self.vhost.declare_queue(name)

    def publish(self, key: str, number: int = 1) -> None:
        for _ in range(number):
            self.session.publish("", key, b"x")
        self.broker.tick()

    def pass_by(self, seconds: float) -> None:
        self.broker.timers.advance(seconds, self.broker.tick)

    def of(self, queue: ClassicQueue, windows: Windows = NO_WINDOWS) -> dict[str, Any]:
        told: dict[str, Any] = self.stats.of_queue(queue, windows)
        return told

    def publish_rate(self, queue: ClassicQueue) -> float:
        return float(self.of(queue)["message_stats"]["publish_details"]["rate"])


def samples_of(detail: dict[str, Any]) -> list[int]:
    return [sample["sample"] for sample in detail["samples"]]
