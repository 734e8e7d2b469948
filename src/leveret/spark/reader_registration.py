"""Registers a query as the only reader of its consumer name, as long as its process runs.

Two queries with one name would commit each other's leases, and one of them would fail in the middle. So the second is
refused at its start. It must not be mistaken for a restart of the first after a crash: the broker removes a reader when
its process ends, and for the rare case that only a timeout shows this (a machine that is gone), a start that finds the
name in use waits until the other reader either renews its registration, and is running, or loses it.

A thread renews the registration, also during a long batch, while Spark does not call the source. For the first queue it
does so by requests that the broker keeps open, so that the end of the process is seen at once.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from leveret.errors import LeveretError
from leveret.http_client import BROKEN
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused, OptionError
from leveret.spark.options import Access

HOLD_SECONDS = 2  # of one request
LONGEST_WAIT = 10.0  # seconds: more than a registration outlives its process
PAUSE = 0.25  # seconds between two attempts
CONFLICT, NOT_FOUND = 409, 404
PATH = "leases/readers"


class ReaderRegistration:
    """One reader, on one or more queues. A copy in another process is not registered."""

    def __init__(self, access: Access, consumer: str) -> None:
        self._access = access
        self._consumer = consumer
        self.identifier = str(uuid4())
        self._queues: list[str] = []
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._error: OptionError | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return ReaderRegistration, (self._access, self._consumer)

    def hold(self, queues: Iterable[str]) -> None:
        """Register for these queues, if not done yet. Raises OptionError if another query is running."""
        if self._error is not None:
            raise self._error
        new = [queue for queue in queues if queue not in self._queues]
        if new:
            with BrokerClient(self._access) as client:
                for queue in new:
                    self._register_or_wait(client, queue)
            self._queues = [*self._queues, *new]
        if self._thread is None and self._queues:
            self._thread = threading.Thread(target=self._renew, name="spark-lease-reader", daemon=True)
            self._thread.start()

    def release(self) -> None:
        self._stopped.set()
        if self._thread is None:
            return
        access = replace(self._access, retry_seconds=0)
        with BrokerClient(access) as client, suppress(LeveretError, *BROKEN):
            for queue in self._queues:
                client.delete(PATH, {"queue": queue, "consumer": self._consumer, "reader": self.identifier})

    def _register_or_wait(self, client: BrokerClient, queue: str) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        requests: object = None
        while True:
            try:
                self._register(client, queue)
                return
            except BrokerRefused as refusal:
                if refusal.status != CONFLICT or "requests" not in refusal.answer:
                    raise
                requests = refusal.answer["requests"] if requests is None else requests
                if refusal.answer["requests"] != requests or time.monotonic() > deadline:
                    raise self._in_use(queue, refusal) from refusal
            time.sleep(PAUSE)

    def _register(self, client: BrokerClient, queue: str, seconds: int = 0) -> None:
        value = {"queue": queue, "consumer": self._consumer, "reader": self.identifier}
        client.post(PATH, {**value, "name": f"process {os.getpid()} on {platform.node()}", "wait": seconds})

    def _renew(self) -> None:
        with BrokerClient(self._access) as client:
            while not self._stopped.is_set() and self._error is None:
                first, *others = self._queues
                for queue in others:
                    self._renew_one(client, queue, 0)
                self._renew_one(client, first, HOLD_SECONDS)

    def _renew_one(self, client: BrokerClient, queue: str, seconds: int) -> None:
        try:
            self._register(client, queue, seconds)
        except BrokerRefused as refusal:
            if refusal.status == CONFLICT and "requests" in refusal.answer:
                self._error = self._in_use(queue, refusal)
            self._stopped.wait(HOLD_SECONDS)  # a deleted queue, for example: the reader finds out by itself
        except (LeveretError, *BROKEN):
            self._stopped.wait(PAUSE)

    def _in_use(self, queue: str, refusal: BrokerRefused) -> OptionError:
        since = datetime.fromtimestamp(float(str(refusal.answer["since"])), UTC).isoformat(timespec="seconds")
        return OptionError(
            f"consumerName '{self._consumer}' is in use on queue '{queue}' by a running query: "
            f"{refusal.answer['reader']}, since {since}; stop it, or give this query another consumerName"
        )
