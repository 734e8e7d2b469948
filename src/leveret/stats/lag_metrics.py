"""Metrics of the lag of stream consumers and Spark queries.

RabbitMQ has one metric for this, the highest lag of each stream. Leveret also has one for each consumer and query.
"""

from __future__ import annotations

from collections.abc import Iterator

from leveret.broker.broker import Broker
from leveret.pipeline.spark_queries import SparkQueries, SparkQuery
from leveret.pipeline.spark_query_view import name_of, number_of, vhosts_of
from leveret.queues.stream import StreamQueue
from leveret.stats.metric_families import Labels, ObjectFamily, Value, object_families
from leveret.stats.stream_lag import Reader, kept_offsets, largest_lag, readers_of

READERS, QUERIES = "stream_consumer_metrics", "spark_query_metrics"  # groups; the first is RabbitMQ's
OTHER_READERS: Labels = (("vhost", ""), ("queue", ""), ("reader", ""))
OTHER_QUERIES: Labels = (("vhost", ""), ("user", ""), ("query", ""), ("query_id", ""))

Lag = int
Vhosts = frozenset[str] | None


def _lag(query: SparkQuery) -> Value:
    return number_of(query.report.get("lag")) or 0


def _rate(query: SparkQuery) -> Value:
    return number_of(query.report.get("rows_per_second")) or 0


OF_STREAMS: list[ObjectFamily[Lag]] = object_families(READERS, {"stream_consumer_max_offset_lag": lambda lag: lag})
OF_READERS: list[ObjectFamily[Lag]] = object_families(READERS, {"stream_reader_lag": lambda lag: lag})
OF_SPARK_QUERIES: list[ObjectFamily[SparkQuery]] = object_families(
    QUERIES, {"spark_query_lag": _lag, "spark_query_rows_per_second": _rate}
)


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


def lags_of_queries(broker: Broker, queries: SparkQueries, vhosts: Vhosts) -> Iterator[tuple[SparkQuery, Labels]]:
    """The Spark queries that report a lag; queries over other sources than Leveret do not."""
    for query in queries.known():
        vhost = next(iter(vhosts_of(broker, query)), "")
        if number_of(query.report.get("lag")) is None or (vhosts is not None and vhost not in vhosts):
            continue
        yield (
            query,
            (("vhost", vhost), ("user", query.user), ("query", name_of(query)), ("query_id", str(query.report["id"]))),
        )
