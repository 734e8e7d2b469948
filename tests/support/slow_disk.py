"""The disk of a running broker, held up: what waits for it, and what does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import leveret
from tests.support.peers import PATIENCE


class Working:
    """Something done in a thread of its own."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._ends: SimpleQueue[object] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            self._ends.put(work())
        except BaseException as problem:
            self._ends.put(problem)

    @property
    def is_over(self) -> bool:
        return not self._ends.empty()

    def result(self) -> object:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it waits for ever"
        return self._ends.get()


class SlowDisk:
    """Every sync of the broker's disk, and every change of its definitions, waits until it is let through."""

    def __init__(self, broker: leveret.Broker) -> None:
        self.asked = threading.Event()
        self.let = threading.Event()
        store = broker.node.store
        assert store is not None
        assert store.writer is not None
        definitions = store.writer._definitions
        store.disk.sync = self._slow(store.disk.sync)  # type: ignore[method-assign]
        definitions.apply = self._slow(definitions.apply)  # type: ignore[method-assign]

    def _slow(self, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def slow(argument: object) -> None:
            self.asked.set()
            self.let.wait(PATIENCE)
            real(argument)

        return slow


def hold_reader(broker: leveret.Broker) -> threading.Event:
    """The reader does nothing until the event is set."""
    let, held = threading.Event(), threading.Event()
    store = broker.node.store
    assert store is not None

    def wait() -> None:
        held.set()
        let.wait(PATIENCE)

    broker.call(lambda: store.in_worker(wait, lambda result: None))
    assert held.wait(PATIENCE)
    return let
