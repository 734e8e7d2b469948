"""Streaming queries over classic queues: each batch is a lease of each queue that has messages.

A lease is a durable, numbered list of messages that the broker reserves for one consumer; requesting it again returns
the same list. The offset of the query is the number of the last lease of each queue: the batch after lease n is lease
n+1, however often it is planned, and a finished batch is acknowledged by committing its leases. A queue that appears
later is in the end of one batch before it is read by the next one, as with streams (spark/offsets.py).

The consumer name must be the same after a restart, and Spark passes neither the id nor the checkpoint of the query to a
Python source. Therefore `consumerName` is required. It is part of the offset: a checkpoint with another name is
refused, and the listener can commit the lease. A second query with the name is refused
(spark/reader_registration.py).

Spark requests the lease after `start` only when all batches up to `start` are finished. They are committed then, which
includes the last batch of AvailableNow, for which Spark never calls `commit`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from leveret.spark.lease_offsets import JsonOffset, LeaseOffsets, Leases
from leveret.spark.minimum_batch import MinimumBatch
from leveret.spark.offsets import Source, shares, vanished_lease
from leveret.spark.options import SourceOptions
from leveret.spark.reader_registration import ReaderRegistration
from leveret.spark.shape import Shape
from leveret.spark.source_lookup import rows_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

NOT_FOUND = 404
LARGEST_LEASE = 200_000
MOST_SLICES = 8


class LeaseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads classic queues lease by lease."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        _refuse_options_of_offsets(options)
        assert options.consumer is not None
        self._options = options
        self._consumer = options.consumer
        only = options.selection.value if options.selection.parameter == "queue" else None
        self._offsets = LeaseOffsets(options.consumer, options.access.vhost, only)
        self._fetch = Fetch(options.access, shape)
        self._registration = ReaderRegistration(options.access, options.consumer)
        self._minimum = MinimumBatch(options.min_rows, options.longest_delay)
        self._initial: JsonOffset | None = None
        self._open: dict[str, set[int]] | None = None  # leases that a predecessor left behind
        self._remaining: Leases | None = None  # with AvailableNow: messages to be leased
        self._committed: Leases = {}
        self._ready: JsonOffset | None = None
        self._leased: dict[str, JsonOffset] = {}  # the latest lease of each queue, and the number of its messages
        self._idle = IdlePause()

    def initialOffset(self) -> JsonOffset:
        """The last lease committed under this name; open leases of an earlier query are read again."""
        if self._initial is None:
            queues = self._sources()
            committed = self._last_committed()
            self._initial = self._offsets.json_of({queue: committed.get(queue, 0) for queue in queues})
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._options.max_rows is None else ReadMaxRows(self._options.max_rows)

    def reportLatestOffset(self) -> JsonOffset | None:
        """Leases have no latest number; `latestOffset` in Spark's progress has the messages that are ready instead, and
        those of the leases of the batch, which its rows are checked against (spark/progress.py)."""
        return None if self._ready is None else self._ready | {"leased": self._leased}

    def prepareForTriggerAvailableNow(self) -> None:
        self._remaining = {queue: source.messages for queue, source in self._sources().items()}

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> JsonOffset:
        done = self._offsets.leases_of(start)
        if self._remaining is None:
            self._idle.wait()
        sources = self._sources()
        self._refuse_vanished(done, sources)
        self.commit(start)
        end = self._end_of_batch(done, sources, limit)
        self._idle.note(changed=end != done)
        return self._offsets.json_of(end)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        first, last = self._offsets.leases_of(start), self._offsets.leases_of(end)
        sources = self._sources()
        leases = [
            (queue, lease)
            for queue, stop in last.items()
            for lease in range(first.get(queue, stop) + 1, stop + 1)  # a queue that is not in the start has none
        ]
        tasks = self._options.min_partitions or min(os.cpu_count() or 1, MOST_SLICES)
        count = max(-(-tasks // max(len(leases), 1)), 1)
        return [
            self._slice(sources.get(queue), queue, lease, index, count)
            for queue, lease in leases
            for index in range(count)
        ]

    def _slice(self, source: Source | None, queue: str, lease: int, index: int, count: int) -> SlicePartition:
        number, home = (0, None) if source is None else (source.partition, source.home)
        return SlicePartition(queue, self._consumer, lease, index, count, home, number)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SlicePartition)
        return self._fetch.slice(partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        for queue, through in self._offsets.leases_of(end).items():
            if through > self._committed.get(queue, 0):
                self._commit(queue, through)
                self._committed[queue] = through

    def stop(self) -> None:
        self._registration.release()

    def _commit(self, queue: str, through: int) -> None:
        with BrokerClient(self._options.access) as client:
            try:
                commit_leases(client, queue, self._consumer, through)
            except BrokerRefused as refusal:
                if refusal.status == NOT_FOUND and not self._options.fail_on_data_loss:
                    return
                raise DataLoss(
                    f"the broker does not have the leases of the checkpoint: {refusal.reason}; "
                    "start with a new checkpointLocation"
                ) from refusal

    def _refuse_vanished(self, done: Leases, sources: Mapping[str, Source]) -> None:
        vanished = sorted(done.keys() - sources.keys())
        if vanished and self._options.fail_on_data_loss:
            raise vanished_lease(vanished[0], done[vanished[0]])

    def _end_of_batch(self, done: Leases, sources: Mapping[str, Source], limit: ReadLimit) -> Leases:
        new = sources.keys() - done.keys()
        if self._remaining is not None:
            new &= self._remaining.keys()
        committed = self._last_committed() if new else {}
        end = done | {queue: committed.get(queue, 0) for queue in new}  # read by the next batch
        old = {queue: source for queue, source in sources.items() if queue in done}
        for queue, most in self._wanted(done, old, limit).items():
            end[queue] = self._take(queue, done[queue], most, limit, len(old))
        return end

    def _wanted(self, done: Leases, sources: Mapping[str, Source], limit: ReadLimit) -> Leases:
        """The largest number of messages to lease from each queue; an open lease is repeated as it is."""
        largest = limit.max_rows if isinstance(limit, ReadMaxRows) else LARGEST_LEASE
        left = self._remaining
        ready = {
            queue: source.messages if left is None else min(source.messages, left.get(queue, 0))
            for queue, source in sources.items()
        }
        again = {queue: largest for queue in sources if done[queue] + 1 in self._open_leases().get(queue, ())}
        if left is None and not again and not self._minimum.is_reached(sum(ready.values())):
            return {}
        fair = shares(ready, largest) if isinstance(limit, ReadMaxRows) else ready
        return {queue: min(count, largest) for queue, count in fair.items() if count} | again

    def _take(self, queue: str, after: int, most: int, limit: ReadLimit, queues: int) -> int:
        wanted: dict[str, object] = {"consumer": self._consumer, "queue": queue, "after": after, "max_messages": most}
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        if max_bytes is not None:
            wanted["max_bytes"] = max(max_bytes // queues, 1)
        with BrokerClient(self._options.access) as client:
            answer = client.post("leases", wanted | {"reader": self._registration.identifier})
        lease, messages = _whole(answer["lease"]), _whole(answer["messages"])
        self._leased[queue] = {"lease": lease, "messages": messages}
        if self._remaining is not None and lease not in self._open_leases().get(queue, ()):
            self._remaining[queue] -= messages
        return lease

    def _sources(self) -> dict[str, Source]:
        """The queues of the query by name, for which it is registered from now on."""
        try:
            with BrokerClient(self._options.access) as client:
                found = {source.queue: source for source in sources_of(client, self._options.selection)}
        except BrokerRefused as refusal:
            if refusal.status != NOT_FOUND or self._options.selection.parameter == "queue":
                raise
            found = {}
        self._ready = {
            "ready": {queue: {"messages": each.messages, "bytes": each.bytes} for queue, each in found.items()}
        }
        self._registration.hold(found)
        return found

    def _open_leases(self) -> dict[str, set[int]]:
        if self._open is None:
            self._open = {}
            with BrokerClient(self._options.access) as client:
                for row in rows_of(client.get("leases", self._filter()), "leases"):
                    self._open.setdefault(row["queue"], set()).add(row["lease"])
        return self._open

    def _last_committed(self) -> Leases:
        with BrokerClient(self._options.access) as client:
            rows = rows_of(client.get("leases", self._filter()), "consumers")
        return {row["queue"]: row["committed"] for row in rows}

    def _filter(self) -> dict[str, str]:
        only = self._offsets.queue
        return {"consumer": self._consumer} | ({} if only is None else {"queue": only})


def commit_leases(client: BrokerClient, queue: str, consumer: str, through: int) -> None:
    """Commit the leases up to this number: their messages are removed from the queue. Idempotent."""
    if through > 0:
        client.post("leases/commit", {"consumer": consumer, "queue": queue, "through": through})


def _refuse_options_of_offsets(options: SourceOptions) -> None:
    kind = f"{options.selection} is a classic queue"
    if options.selection.parameter != "queue":
        kind = f"the queues of {options.selection} are classic queues"
    if options.consumer is None:
        raise OptionError(
            f"option consumerName is missing: {kind}, and a restarted query finds its leases by that name; "
            'give .option("consumerName", ...), one name for each query'
        )
    if options.starting is not None:
        raise OptionError(
            f"option {options.starting.option} is not supported: {kind}, read from the head; remove it, "
            "or declare the queue with x-queue-type: stream"
        )
    if options.pinned:
        raise OptionError(f"option pinned is not supported: {kind}, where messages are kept anyway; remove it")
    if options.routing_key_pattern is not None:
        raise OptionError(
            f"option routingKeyPattern is not supported: {kind}, and leased messages are removed; "
            "remove it and filter by the column routing_key"
        )


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
