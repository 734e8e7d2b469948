"""Metrics of the lag of stream consumers.

RabbitMQ has one metric for this, the highest lag of each stream. Leveret also has one for each consumer.
"""

from __future__ import annotations

from collections.abc import Iterator

from leveret.broker.broker import Broker
from leveret.queues.stream import StreamQueue
from leveret.stats.metric_families import Labels, ObjectFamily, object_families
from leveret.stats.stream_lag import Reader, kept_offsets, largest_lag, readers_of

READERS = "stream_consumer_metrics"  # a group of RabbitMQ
OTHER_READERS: Labels = (("vhost", ""), ("queue", ""), ("reader", ""))

Lag = int
Vhosts = frozenset[str] | None


OF_STREAMS: list[ObjectFamily[Lag]] = object_families(READERS, {"stream_consumer_max_offset_lag": lambda lag: lag})
OF_READERS: list[ObjectFamily[Lag]] = object_families(READERS, {"stream_reader_lag": lambda lag: lag})


def lags_of_streams(broker: Broker, vhosts: Vhosts) -> Iterator[tuple[Lag, Labels]]:
    """The highest lag of each stream that has a consumer or a stored offset."""
    for queue, labels, readers in _read_streams(broker, vhosts):
        lag = largest_lag(readers)
        if lag is not None and queue.alive:
            yield lag, labels


def lags_of_readers(broker: Broker, vhosts: Vhosts) -> Iterator[tuple[Lag, Labels]]:
    """The lag of each consumer, labelled by its name or else by its connection and tag."""
    for _, labels, readers in _read_streams(broker, vhosts):
        lags = {each.label: each.lag for each in readers if each.lag is not None}
        for label, lag in lags.items():
            yield lag, (*labels, ("reader", label))


def _read_streams(broker: Broker, vhosts: Vhosts) -> Iterator[tuple[StreamQueue, Labels, list[Reader]]]:
    for vhost in list(broker.vhosts.values()):
        if vhosts is not None and vhost.name not in vhosts:
            continue
        kept = kept_offsets(vhost)
        for queue in list(vhost.queues.values()):
            stream = queue.stream
            if stream is not None and (len(stream.readers) or queue.name in kept):
                yield stream, (("vhost", vhost.name), ("queue", queue.name)), list(readers_of(stream, kept))
