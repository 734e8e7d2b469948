"""Calls from other threads, and callbacks of consumers in a thread of their own.

A future gets the result of a call once everything that the call wrote is durable. The event loop does not wait for
callbacks, and callbacks do not wait for the loop.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from leveret.broker.broker import Broker
from leveret.broker.local import Delivered, LocalSession
from leveret.errors import BrokerStopped, StoreError
from leveret.logs import get_log

T = TypeVar("T")
LOST = "storage was not confirmed: the disk failed, or the broker stopped before it answered; start it again"
Callback = Callable[[Delivered], None]
Work = tuple[LocalSession, Callback, Delivered, Callable[[], None]]
PATIENCE = 1.0  # seconds that stop() waits for a callback that is running


class Alarm(Exception):
    """Publishers are blocked."""


def fill(answer: Future[T], function: Callable[[], T], broker: Broker) -> None:
    issued = broker.log.issued
    try:
        result = function()
    except BaseException as problem:  # noqa: BLE001 - it is passed to the caller
        answer.set_exception(problem)
        return
    if broker.log.issued == issued:
        answer.set_result(result)
    else:
        broker.when_granted(lambda: answer.set_result(result), lost=lambda: answer.set_exception(StoreError(LOST)))


def when_calm(broker: Broker, calm: Future[None]) -> None:
    if not broker.alarms:
        calm.set_result(None)
        return

    def alarm_changed(name: str, facts: Mapping[str, object]) -> None:
        if not broker.alarms:
            unsubscribe()
            calm.set_result(None)

    unsubscribe = broker.events.subscribe(alarm_changed)


class CallbackThread:
    """Runs callbacks one at a time and in order; started when the first one is needed."""

    def __init__(self) -> None:
        self.is_open = True
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._log = get_log("embedded")

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="leveret-callbacks", daemon=True)
            self._thread.start()

    def is_current(self) -> bool:
        """Whether the caller is a callback."""
        return threading.current_thread() is self._thread

    def put(self, session: LocalSession, callback: Callback, delivered: Delivered, done: Callable[[], None]) -> None:
        """``done`` is called after the callback, whether that returned or raised."""
        self._work.put((session, callback, delivered, done))

    def _run(self) -> None:
        while (work := self._work.get()) is not None and self.is_open:
            session, callback, delivered, done = work
            if session.is_open:  # else its messages were requeued when it was closed
                self._call(callback, delivered)
            with suppress(BrokerStopped):
                done()

    def _call(self, callback: Callback, delivered: Delivered) -> None:
        try:
            callback(delivered)
        except Exception:  # noqa: BLE001 - code of the application may raise anything, and the other callbacks must run
            if self.is_open:  # else the callback most likely called a broker that is being stopped
                self._log.exception(
                    "consumer callback failed, message stays unacknowledged", consumer=delivered.consumer_tag
                )

    def stop(self) -> None:
        self.is_open = False
        self._work.put(None)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(PATIENCE)
