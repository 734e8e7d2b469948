"""A load on a sharded exchange of several cells, that checks the order in which messages of each key come first.

A publisher has at most one message of a key on its way: it sends the next number when the last one is confirmed, and
sends again what was nacked or lost with its connection. A consumer belongs to one cell. While each shard has one
consumer, the messages of a key must come first in the order of their numbers, whatever cells and shards they crossed.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle

import pika
from pika.exceptions import AMQPError

from leveret.wire.frames import decode_method
from leveret.wire.methods import BasicAck, BasicNack, BasicPublish, ConfirmSelect, ConfirmSelectOk
from leveret.wire.properties import Properties
from tests.support.cell_clients import CellClient
from tests.support.raw_client import RawClient, publish_bytes
from tests.support.sharded_cells import CELLS

PERSISTENT = Properties(delivery_mode=2)
PAUSE = 0.05  # seconds between two tries to connect


class FirstDeliveries:
    """What was confirmed, and what came. ``violations`` lists numbers that came before an earlier one."""

    def __init__(self) -> None:
        self.confirmed: dict[str, int] = {}
        self.violations: list[str] = []
        self.number = self.duplicates = 0
        self._latest: dict[str, int] = defaultdict(int)
        self._lock = threading.Condition()

    def delivered(self, key: str, number: int) -> None:
        with self._lock:
            latest = self._latest[key]
            if number <= latest:
                self.duplicates += 1
                return
            if number > latest + 1:
                self.violations.append(f"{key}: {number} after {latest}")
            self._latest[key] = number
            self.number += 1
            self._lock.notify_all()

    def await_number(self, number: int, seconds: float = 120.0) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: self.number >= number, seconds), (self.number, self.missing())

    def await_confirmed(self, seconds: float = 120.0) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self.missing(), seconds)

    def missing(self) -> dict[str, tuple[int, int]]:
        """Keys of which a confirmed message never came: the latest that came, and the latest confirmed."""
        return {
            key: (self._latest[key], number) for key, number in self.confirmed.items() if self._latest[key] < number
        }

    def check(self) -> None:
        assert not self.violations, self.violations[:10]
        assert not self.missing(), list(self.missing().items())[:10]


class SerialPublisher(threading.Thread):
    """Publishes ``rounds`` messages of each of its keys. It starts in the given cell, and goes on in any."""

    def __init__(
        self, urls: Sequence[str], cell: str, order: FirstDeliveries, keys: list[str], exchange: str = "orders"
    ) -> None:
        super().__init__(daemon=True)
        self._urls, self._cell, self._exchange = cycle(urls), cell, exchange
        self._order = order
        self._keys = keys
        self._allowed = threading.Semaphore(0)
        self._rounds = 0
        self.done = 0  # rounds
        self._progress = threading.Condition()
        self.reconnects = 0
        self.failure: BaseException | None = None

    def go_on(self, rounds: int) -> None:
        self._rounds += rounds
        self._allowed.release(rounds)

    def end_early(self) -> None:
        """After this round."""
        self._rounds = 0
        self.finish()

    def finish(self) -> None:
        self._allowed.release()
        self.join(60)
        assert not self.is_alive()
        assert self.failure is None, self.failure

    def await_rounds(self, seconds: float = 60.0) -> None:
        with self._progress:
            assert self._progress.wait_for(lambda: self.done >= self._rounds or self.failure is not None, seconds)
        assert self.failure is None, self.failure

    def run(self) -> None:
        try:
            self._client = self._open(self._cell)
            while self._allowed.acquire() and self.done < self._rounds:
                self._round(dict.fromkeys(self._keys, self.done + 1))
                with self._progress:
                    self.done += 1
                    self._progress.notify_all()
            self._client.cut()
        except BaseException as problem:
            self.failure = problem
            with self._progress:
                self._progress.notify_all()

    def _open(self, cell: str | None = None) -> RawClient:
        deadline = time.monotonic() + 90
        while True:
            try:
                client = RawClient.open(next(self._urls), timeout=60)
                assert client.start is not None
                if cell in (None, client.start.server_properties["cell"]):
                    client.call(ConfirmSelect(), ConfirmSelectOk)
                    self._published = 0
                    return client
                client.cut()
            except (OSError, AssertionError, EOFError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    def _round(self, left: dict[str, int]) -> None:
        """Until all of them are confirmed."""
        while left:
            try:
                left = self._try(left)
            except (OSError, AssertionError, EOFError):  # the connection is lost
                self._client.cut()
                self.reconnects += 1
                self._client = self._open()

    def _try(self, numbers: dict[str, int]) -> dict[str, int]:
        waiting = {self._published + place: key for place, key in enumerate(numbers, 1)}
        self._published += len(numbers)
        bodies = [(key, b"%s %d" % (key.encode(), number)) for key, number in numbers.items()]
        parts = [publish_bytes(BasicPublish(self._exchange, key), body, PERSISTENT) for key, body in bodies]
        self._client.send_bytes(b"".join(parts))
        nacked: dict[str, int] = {}
        while waiting:
            answer = decode_method(self._client.next_frame().payload)
            assert isinstance(answer, BasicAck | BasicNack), answer
            last, multiple = answer.delivery_tag, answer.multiple
            for tag in [tag for tag in waiting if tag == last or (multiple and tag < last)]:
                key = waiting.pop(tag)
                if isinstance(answer, BasicAck):
                    self._order.confirmed[key] = numbers[key]
                else:
                    nacked[key] = numbers[key]
        return nacked


class CellConsumer(threading.Thread):
    """Consumes from the pseudo-queue in one cell, and connects there again when the connection is lost. It connects
    first, and consumes when all ``together`` have."""

    def __init__(
        self,
        urls: Sequence[str],
        cell: str,
        order: FirstDeliveries,
        together: threading.Barrier,
        exchange: str = "orders",
    ) -> None:
        super().__init__(daemon=True)
        self._urls, self._cell, self._exchange = cycle(urls), cell, exchange
        self._order = order
        self._is_over = threading.Event()
        self._together: threading.Barrier | None = together
        self.start()

    def stop(self) -> None:
        self._is_over.set()

    def run(self) -> None:
        while not self._is_over.is_set():
            with suppress(AMQPError, OSError):
                client = CellClient(pika.BlockingConnection(pika.URLParameters(next(self._urls))))
                if client.cell == self._cell:
                    self._consume(client)
                client.connection.close()
            self._is_over.wait(PAUSE)

    def _consume(self, client: CellClient) -> None:
        client.channel.basic_qos(prefetch_count=20)
        if self._together is not None:
            self._together.wait(30)
            self._together = None
        client.channel.basic_consume(self._exchange, self._take)
        while not self._is_over.is_set():
            client.connection.process_data_events(0.1)

    def _take(self, channel: object, method: object, properties: object, body: bytes) -> None:
        key, number = body.split()
        self._order.delivered(key.decode(), int(number))
        channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]


class Load:
    """A publisher in each cell, and consumers in each cell, one for each shard. ``urls``: of nodes, each of which has
    all cells; connections are spread over them."""

    def __init__(self, urls: Sequence[str], exchange: str, keys: int = 40, cells: tuple[str, ...] = CELLS) -> None:
        self.urls, self.exchange = urls, exchange
        self._cells = cells
        self.order = FirstDeliveries()
        self.publishers = [
            SerialPublisher(urls, cell, self.order, [f"{cell}-{number}" for number in range(keys)], exchange=exchange)
            for cell in cells
        ]
        self.consumers: list[CellConsumer] = []
        for publisher in self.publishers:
            publisher.start()

    def publish(self, rounds: int) -> None:
        for publisher in self.publishers:
            publisher.go_on(rounds)

    def await_published(self) -> None:
        for publisher in self.publishers:
            publisher.await_rounds()

    def consume(self, number: int, cells: tuple[str, ...] = ()) -> None:
        """With so many more consumers in each cell."""
        cells = cells or self._cells
        together = threading.Barrier(len(cells) * number + 1)
        for cell in cells * number:
            self.consumers.append(CellConsumer(self.urls, cell, self.order, together, self.exchange))
        together.wait(30)

    def stop(self) -> None:
        for consumer in self.consumers:
            consumer.stop()
        for consumer in self.consumers:
            consumer.join(20)
