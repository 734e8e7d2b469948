"""The best that a user of RabbitMQ can do for Spark today: a Python data source that consumes with pika.

As fast as pika allows: an asynchronous connection without a call per message into the IO loop, a tuned prefetch, one
acknowledgement for many messages, Arrow batches, one partition per consumer. A batch of the query is a number of
messages, chosen on the driver; each consumer takes its share of it. From a classic queue a share is what comes first,
from a stream queue it is a range of offsets.

It does less than the source of Leveret: four columns instead of ten, and no guarantee after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pika
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

SCHEMA = "body binary, routing_key string, exchange string, redelivered boolean"
ARROW = pa.schema(
    [("body", pa.binary()), ("routing_key", pa.string()), ("exchange", pa.string()), ("redelivered", pa.bool_())]
)
ROWS = 10_000  # of an Arrow batch
PREFETCH = 1_000
ACK_EVERY = 250
SILENCE_SECONDS = 30


@dataclass(slots=True)
class Share(InputPartition):
    """What one consumer reads: so many messages of a queue, for a stream from an offset on."""

    queue: str
    first: int
    number: int


class PikaSource(DataSource):
    """Options: port, queues (comma list), kind (classic or stream), consumers (per queue), rowsPerBatch."""

    @classmethod
    def name(cls) -> str:
        return "rabbitmq-pika"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PikaReader(dict(self.options))


class PikaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of messages read from each queue so far."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self._port = int(given["port"])
        self._queues = given["queues"].split(",")
        self._is_stream = given["kind"] == "stream"
        self._consumers = 1 if self._is_stream else int(given.get("consumers", "2"))
        self._most = int(given["rowsperbatch"])
        self._goal: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return dict.fromkeys(self._queues, 0)

    def prepareForTriggerAvailableNow(self) -> None:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port)) as connection:
            channel = connection.channel()
            self._goal = {
                queue: channel.queue_declare(queue, durable=True, passive=True).method.message_count
                for queue in self._queues
            }

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        if self._goal is None:
            self.prepareForTriggerAvailableNow()
        assert self._goal is not None
        if isinstance(limit, ReadAllAvailable):
            return self._goal
        share = self._most // len(self._queues)
        return {queue: min(start[queue] + share, self._goal[queue]) for queue in self._queues}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Share]:
        shares = []
        for queue in self._queues:
            number, parts = end[queue] - start[queue], self._consumers
            cuts = [number * part // parts for part in range(parts + 1)]
            pairs = pairwise(cuts)
            shares += [Share(queue, start[queue] + low, high - low) for low, high in pairs if high > low]
        return shares

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Share)
        return Consumer(self._port, partition, is_stream=self._is_stream).batches()

    def commit(self, end: dict[str, int]) -> None:
        """Classic queues remove messages by acknowledgements, streams never do."""


class Consumer:
    """One connection that takes a share. The IO loop runs until a batch is full, and goes on once it is handed over."""

    def __init__(self, port: int, share: Share, *, is_stream: bool) -> None:
        self._share = share
        self._arguments = {"x-stream-offset": share.first} if is_stream else None
        self._left = share.number
        self._rows: list[tuple[bytes, str, str, bool]] = []
        self._problem: BaseException | str | None = None
        self._channel: Any = None
        self._connection = pika.SelectConnection(
            pika.ConnectionParameters("127.0.0.1", port),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _, problem: self._fail(problem),
            on_close_callback=lambda _, problem: self._closed(problem),
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        loop = self._connection.ioloop
        while self._left:
            watch = loop.call_later(SILENCE_SECONDS, self._fall_silent)
            loop.start()
            loop.remove_timeout(watch)
            if self._problem is not None:
                raise RuntimeError(f"queue '{self._share.queue}': {self._problem}, {self._left} messages are missing")
            rows, self._rows = self._rows, []
            columns = zip(*rows, strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, t) for c, t in zip(columns, ARROW.types, strict=True)], schema=ARROW
            )
        self._connection.close()
        loop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, problem: self._closed(problem))
        channel.basic_qos(prefetch_count=PREFETCH, callback=self._limited)

    def _limited(self, _: object) -> None:
        self._channel.basic_consume(self._share.queue, self._took, arguments=self._arguments)

    def _took(self, channel: Any, method: Any, _: object, body: bytes) -> None:
        if not self._left:
            return  # was on its way; closing gives it back
        rows = self._rows
        rows.append((body, method.routing_key, method.exchange, method.redelivered))
        self._left -= 1
        if not method.delivery_tag % ACK_EVERY or not self._left:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(rows) == ROWS or not self._left:
            self._connection.ioloop.stop()

    def _fall_silent(self) -> None:
        self._fail(f"no {ROWS} messages in {SILENCE_SECONDS} s")

    def _closed(self, problem: BaseException) -> None:
        if self._left:
            self._fail(problem)
        elif self._connection.is_closed:
            self._connection.ioloop.stop()

    def _fail(self, problem: BaseException | str) -> None:
        self._problem = problem
        self._connection.ioloop.stop()
