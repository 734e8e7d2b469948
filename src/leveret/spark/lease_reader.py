"""Streaming queries over a classic queue: each batch is a lease.

A lease is a durable, numbered list of messages that the broker reserves for one consumer; requesting it again returns
the same list. The offset of the query is the number of the last lease: the batch after lease n is lease n+1, however
often it is planned, and a finished batch is acknowledged by committing its lease.

The consumer name must be the same after a restart, and Spark passes neither the id nor the checkpoint of the query to a
Python source. Therefore `consumerName` is required. It is part of the offset: a checkpoint with another name is
refused, and the listener can commit the lease.

Spark requests the lease after `start` only when all batches up to `start` are finished. They are committed then, which
includes the last batch of AvailableNow, for which Spark never calls `commit`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused, DataLoss, OptionError
from leveret.spark.fetch import Fetch, SlicePartition
from leveret.spark.idle_pause import IdlePause
from leveret.spark.options import SourceOptions
from leveret.spark.schema import Shape
from leveret.spark.source_lookup import rows_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

Offset = dict[str, str | int]
LARGEST_LEASE = 200_000
MOST_SLICES = 8


class LeaseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a classic queue lease by lease."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        _refuse_options_of_offsets(options)
        assert options.consumer is not None
        self._options = options
        self._consumer = options.consumer
        self._queue = options.selection.value
        self._fetch = Fetch(options.access, shape)
        self._initial: Offset | None = None
        self._remaining: _Remaining | None = None
        self._committed = 0
        self._idle = IdlePause()

    def initialOffset(self) -> Offset:
        """The last lease committed under this name; open leases of an earlier query are read again."""
        if self._initial is None:
            self._initial = self._offset(self._last_committed())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._options.max_rows is None else ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        with BrokerClient(self._options.access) as client:
            ready = sum(source.messages for source in sources_of(client, self._options.selection))
            rows = rows_of(client.get("leases", {"queue": self._queue, "consumer": self._consumer}), "leases")
        self._remaining = _Remaining(ready, {row["lease"] for row in rows})

    def latestOffset(self, start: Mapping[str, str | int], limit: ReadLimit) -> Offset:
        after = self._number(start)
        self.commit(start)
        if self._remaining is None:
            self._idle.wait()
        lease = self._next_lease(after, limit)
        self._idle.note(changed=lease != after)
        return self._offset(lease)

    def partitions(self, start: Mapping[str, str | int], end: Mapping[str, str | int]) -> Sequence[InputPartition]:
        count = self._options.min_partitions or min(os.cpu_count() or 1, MOST_SLICES)
        return [
            SlicePartition(self._queue, self._consumer, lease, index, count)
            for lease in range(self._number(start) + 1, self._number(end) + 1)
            for index in range(count)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SlicePartition)
        return self._fetch.slice(partition)

    def commit(self, end: Mapping[str, str | int]) -> None:
        through = self._number(end)
        if through > self._committed:
            with BrokerClient(self._options.access) as client:
                try:
                    commit_leases(client, self._queue, self._consumer, through)
                except BrokerRefused as refusal:
                    raise DataLoss(
                        f"the broker does not have the leases of the checkpoint: {refusal.reason}; "
                        "start with a new checkpointLocation"
                    ) from refusal
            self._committed = through

    def _next_lease(self, after: int, limit: ReadLimit) -> int:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else LARGEST_LEASE
        if self._remaining is not None:
            most = self._remaining.most(after + 1, most)
        if most == 0:
            return after
        wanted = {"consumer": self._consumer, "queue": self._queue, "after": after, "max_messages": most}
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        with BrokerClient(self._options.access) as client:
            answer = client.post("leases", wanted | ({"max_bytes": max_bytes} if max_bytes is not None else {}))
        lease, messages = _whole(answer["lease"]), _whole(answer["messages"])
        if self._remaining is not None:
            self._remaining.took(lease, messages)
        return lease

    def _last_committed(self) -> int:
        with BrokerClient(self._options.access) as client:
            answer = client.get("leases", {"queue": self._queue, "consumer": self._consumer})
        numbers = [
            row["committed"]
            for row in rows_of(answer, "consumers")
            if row["queue"] == self._queue and row["consumer"] == self._consumer
        ]
        return max(numbers, default=0)

    def _offset(self, lease: int) -> Offset:
        return {
            "consumer": self._consumer,
            "lease": lease,
            "queue": self._queue,
            "vhost": self._options.access.vhost,
        }

    def _number(self, offset: Mapping[str, str | int]) -> int:
        mine = self._offset(0)
        for name in ("consumer", "queue", "vhost"):
            if offset.get(name) != mine[name]:
                raise OptionError(
                    f"the checkpoint belongs to {name} '{offset.get(name)}', not '{mine[name]}'; "
                    "give the options it was made with, or a new checkpointLocation"
                )
        return _whole(offset["lease"])


class _Remaining:
    """The messages of an AvailableNow run that are not leased yet.

    Leases that were open at its start belong to it, but are not counted: their messages are no longer ready.
    """

    def __init__(self, ready: int, open_leases: set[int]) -> None:
        self._ready = ready
        self._open = open_leases

    def most(self, lease: int, limit: int) -> int:
        return limit if lease in self._open else min(limit, self._ready)

    def took(self, lease: int, messages: int) -> None:
        if lease not in self._open:
            self._ready -= messages


def commit_leases(client: BrokerClient, queue: str, consumer: str, through: int) -> None:
    """Commit the leases up to this number: their messages are removed from the queue. Idempotent."""
    if through > 0:
        client.post("leases/commit", {"consumer": consumer, "queue": queue, "through": through})


def _refuse_options_of_offsets(options: SourceOptions) -> None:
    kind = f"{options.selection} is a classic queue"
    if options.consumer is None:
        raise OptionError(
            f"option consumerName is missing: {kind}, and a restarted query finds its leases by that name; "
            'give .option("consumerName", ...), one name for each query'
        )
    if options.starting is not None:
        raise OptionError(
            f"option {options.starting.option} is not supported: {kind}, which is read from its head; remove it, "
            "or declare the queue with x-queue-type: stream"
        )
    if options.pinned:
        raise OptionError(f"option pinned is not supported: {kind}, which keeps its messages anyway; remove it")
    if options.routing_key_pattern is not None:
        raise OptionError(
            f"option routingKeyPattern is not supported: {kind}, and leased messages are removed from it; "
            "remove it and filter by the column routing_key"
        )


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
