"""The queues that a job reads, as the broker describes them."""

from __future__ import annotations

from datetime import datetime

from leveret.errors import ConfigError
from leveret.spark.broker_client import BrokerClient
from leveret.spark.jobs.job import SourceOptions, broker_settings
from leveret.spark.offsets import Offsets, Source
from leveret.spark.options import Selection, connection_options
from leveret.spark.source_lookup import STREAM, offsets_at, sources_of


def queues_of(options: SourceOptions) -> list[Source]:
    with BrokerClient(connection_options(broker_settings(options))) as broker:
        return sources_of(broker, selection_of(options))


def selection_of(options: SourceOptions) -> Selection:
    if options.queue is not None:
        return Selection("queue", options.queue)
    if options.super_stream is not None:
        return Selection("super_stream", options.super_stream)
    assert options.pattern is not None
    return Selection("pattern", options.pattern)


def streams_of(options: SourceOptions) -> list[Source]:
    """The streams to read; classic queues are refused."""
    known = queues_of(options)
    for one in known:
        if one.kind != STREAM:
            raise ConfigError(
                f"'{one.queue}' is a {one.kind} queue, which does not keep its messages: "
                "choose a stream (a queue declared with x-queue-type stream)"
            )
    return known


def has_classic(options: SourceOptions) -> bool:
    return any(one.kind != STREAM for one in queues_of(options))


def offsets_of(options: SourceOptions, streams: list[Source], moment: datetime) -> Offsets:
    """The offset of the first message of each stream that arrived at this time or later."""
    with BrokerClient(connection_options(broker_settings(options))) as broker:
        return offsets_at(broker, streams, "since or until", round(moment.timestamp() * 1000))
