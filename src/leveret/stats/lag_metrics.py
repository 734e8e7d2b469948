"""How far those are behind who read streams, and Spark queries: families for metrics.py.

RabbitMQ has one metric for this, the largest lag of each stream. Ours name each reader and each query.
"""

from __future__ import annotations

from collections.abc import Iterator

from leveret.broker.broker import Broker
from leveret.pipeline.spark_queries import SparkQueries, SparkQuery
from leveret.pipeline.spark_query_view import name_of, number_of, vhosts_of
from leveret.queues.stream import StreamQueue
from leveret.stats.metric_families import GAUGE, Family, Labels, ObjectFamily, Value
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


OF_STREAMS: list[ObjectFamily[Lag]] = [
    ObjectFamily(
        READERS,
        Family("stream_consumer_max_offset_lag", GAUGE, "How far the reader is behind that is furthest behind"),
        lambda lag: lag,
    )
]
OF_READERS: list[ObjectFamily[Lag]] = [
    ObjectFamily(READERS, Family("stream_reader_lag", GAUGE, "Messages that a reader has yet to read"), lambda lag: lag)
]
OF_SPARK_QUERIES: list[ObjectFamily[SparkQuery]] = [
    ObjectFamily(QUERIES, Family("spark_query_lag", GAUGE, "Messages that a query has yet to read"), _lag),
    ObjectFamily(QUERIES, Family("spark_query_rows_per_second", GAUGE, "Rows that a query gets done"), _rate),
]


def lags_of_streams(broker: Broker, vhosts: Vhosts) -> Iterator[tuple[Lag, Labels]]:
    """Of those that somebody reads."""
    for queue, labels, readers in _read_streams(broker, vhosts):
        lag = largest_lag(readers)
        if lag is not None and queue.alive:
            yield lag, labels


def lags_of_readers(broker: Broker, vhosts: Vhosts) -> Iterator[tuple[Lag, Labels]]:
    """Readers of one stream that have no name are told apart by what else is known of them."""
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
            if isinstance(queue, StreamQueue) and (len(queue.readers) or queue.name in kept):
                yield queue, (("vhost", vhost.name), ("queue", queue.name)), list(readers_of(queue, kept))


def told_lags(broker: Broker, queries: SparkQueries, vhosts: Vhosts) -> Iterator[tuple[SparkQuery, Labels]]:
    """Queries over sources of others have no lag."""
    for query in queries.known():
        vhost = next(iter(vhosts_of(broker, query)), "")
        if number_of(query.report.get("lag")) is None or (vhosts is not None and vhost not in vhosts):
            continue
        yield (
            query,
            (("vhost", vhost), ("user", query.user), ("query", name_of(query)), ("query_id", str(query.report["id"]))),
        )
