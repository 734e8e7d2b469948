"""Every ready pipeline once, from a real broker through Spark and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from pyspark.sql import DataFrame, SparkSession

from leveret.errors import ConfigError
from leveret.spark.jobs import archive, audit, dead_letters, dedup, replay, route, schema_check, traffic
from leveret.spark.jobs.accounting import Account, Counts, counted
from leveret.spark.jobs.messages import outgoing, publish, read_stream
from leveret.spark.jobs.running_job import JobFailed, Queries, Report, Running
from tests.support.spark_broker import SparkBroker

PATIENCE = 90.0  # seconds for one job


def ended(running: Running) -> Report:
    assert running.wait(PATIENCE), "the job is still running"
    return running.report()


def fanout(broker: SparkBroker, stem: str) -> tuple[str, str]:
    """An exchange, and a queue that gets all of it."""
    exchange, queue = broker.name(stem), broker.queue(stem)
    broker.channel.exchange_declare(exchange, "fanout", durable=True)
    broker.channel.queue_bind(queue, exchange)
    return exchange, queue


def send(broker: SparkBroker, queue: str, body: str, **properties: Any) -> None:
    broker.channel.basic_publish("", queue, body.encode(), pika.BasicProperties(delivery_mode=2, **properties))


def taken(broker: SparkBroker, queue: str) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Routing key, body and headers of all that is in the queue."""
    found = []
    while True:
        frame, properties, body = broker.channel.basic_get(queue, auto_ack=True)
        if frame is None:
            return found
        found.append((frame.routing_key, body.decode(), properties.headers or {}))


def test_archive_of_a_stream_is_whole_and_audit_proves_it(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    stream = broker.stream("kept", [f"m{number}" for number in range(50)])
    path = str(tmp_path / "archive")
    options = archive.ArchiveOptions(endpoint=broker.endpoint, queue=stream, path=path, max_per_batch=20)
    running = archive.start(spark, options)
    assert ended(running).accounts == (Account("archive", Counts(read=50, out=50)),)
    assert isinstance(running, Queries)
    assert [query.name for query in running.queries] == ["archive"]
    assert running.progress().rows == 50
    assert running.progress().batches == 3
    assert running.progress().lag == 0
    broker.publish(stream, ["m50", "m51"])
    ended(archive.start(spark, options))
    rows = archive.read_archive(spark, path).orderBy("offset").collect()
    assert [bytes(row.body).decode() for row in rows] == [f"m{number}" for number in range(52)]
    assert {row.queue for row in rows} == {stream}

    asked = audit.AuditOptions(endpoint=broker.endpoint, queue=stream, path=path, bodies=True)
    good = audit.start(spark, asked).report()
    assert good.is_good, good
    assert good.rows == ((stream, "0 to 51", "0 to 51", 52, 0, 0, 0),)
    assert good.accounts == (Account("audit", Counts(read=52, out=52)),)

    [lost] = archive.read_archive(spark, path).where("offset = 51").select("_metadata.file_path").collect()
    Path(urlsplit(lost.file_path).path).unlink()
    bad = audit.start(spark, asked).report()
    assert not bad.is_good
    assert bad.lines[0] == f"missing: {stream}, offsets 50 to 51 (2)"


def test_archive_takes_the_messages_of_a_classic_queue(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    queue = broker.queue("work", ["a", "b", "c"])
    path = str(tmp_path / "archive")
    options = archive.ArchiveOptions(endpoint=broker.endpoint, queue=queue, path=path)
    running = archive.start(spark, options)
    ended(running)
    assert sorted(bytes(row.body) for row in archive.read_archive(spark, path).collect()) == [b"a", b"b", b"c"]
    assert broker.bodies(queue) == []
    assert running.progress().lag == 0
    # Without its checkpoint, Spark's file sink would skip the batch, and the message would be acknowledged.
    broker.publish(queue, ["d"])
    with pytest.raises(ConfigError, match=r"results of batches up to 0, and the checkpoint .*/new is new: use the"):
        ended(archive.start(spark, replace(options, checkpoint=str(tmp_path / "new"))))
    assert broker.bodies(queue) == [b"d"]


def test_audit_is_for_streams(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    queue = broker.queue("work")
    with pytest.raises(ConfigError, match="choose a stream"):
        audit.start(spark, audit.AuditOptions(endpoint=broker.endpoint, queue=queue, path=str(tmp_path)))


def test_traffic_arrives_as_files_and_as_messages(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("seen", ["12345"] * 10)
    exchange, results = fanout(broker, "traffic")
    options = traffic.TrafficOptions(
        endpoint=broker.endpoint,
        queue=stream,
        path=str(tmp_path / "traffic"),
        exchange=exchange,
        window="1 second",
        late="0 seconds",
    )
    assert ended(traffic.start(spark, options)).accounts == (Account("traffic", Counts(read=10, out=10)),)
    # The newest window is open until a message of a later second comes.
    at_first = newest_second(spark, broker, stream)
    while newest_second(spark, broker, stream) == at_first:
        broker.publish(stream, ["x"])
    ended(traffic.start(spark, options))
    closed = traffic.read_traffic(spark, options.path)
    written = closed.where("bytes = 5 * messages").agg({"messages": "sum"}).collect()[0][0]
    assert written is not None
    assert written >= 10
    told = [json.loads(body) for _, body, _ in taken(broker, results)]
    assert sum(window["messages"] for window in told) >= 10
    assert len(told) == spark.read.parquet(options.path).count()
    assert {window["queue"] for window in told} == {stream}
    with pytest.raises(ConfigError, match=r"results of batches up to \d, and the checkpoint .*/new is new: use the"):
        traffic.start(spark, replace(options, checkpoint=str(tmp_path / "new")))


def newest_second(spark: SparkSession, broker: SparkBroker, queue: str) -> object:
    messages = spark.read.format("leveret").options(endpoint=broker.endpoint, queue=queue).load()
    return messages.selectExpr("max(date_trunc('second', timestamp))").collect()[0][0]


def rejected(broker: SparkBroker, stem: str, bodies: list[str]) -> tuple[str, str]:
    """A queue of work whose messages were refused, and the queue in which they are now."""
    dead = broker.queue("dead")
    work = broker.queue(stem, bodies, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    while True:
        frame, _, _ = broker.channel.basic_get(work)
        if frame is None:
            return work, dead
        broker.channel.basic_reject(frame.delivery_tag, requeue=False)


def test_dead_letters_are_told_and_chosen_ones_go_back(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    work, dead = rejected(broker, "work", ["a", "b", "c"])
    options = dead_letters.DeadLettersOptions(endpoint=broker.endpoint, queue=dead)
    report = dead_letters.start(spark, options).report()
    assert [row[:6] for row in report.rows] == [("rejected", work, "", work, 3, 3)]
    assert report.accounts == (Account("dead-letters", Counts(read=3, out=3)),)
    nothing = dead_letters.start(spark, replace(options, queue=broker.queue("empty"))).report()
    assert nothing.accounts == (Account("dead-letters", Counts()),)

    back = dead_letters.DeadLettersOptions(
        endpoint=broker.endpoint,
        queue=dead,
        redrive="reason = 'rejected' AND cast(body as string) <> 'b'",
        checkpoint=str(tmp_path / "back"),
    )
    assert ended(dead_letters.start(spark, back)).accounts[0].counts == Counts(read=3, out=2, filtered=1)
    again = taken(broker, work)
    assert sorted(body for _, body, _ in again) == ["a", "c"]
    assert all(headers == {"x-redriven": "1"} for _, _, headers in again)
    [(key, body, headers)] = taken(broker, dead)
    assert (key, body) == (dead, "b")
    assert json.loads(headers["x-death"])[0]["reason"] == "rejected"


def test_replay_of_an_archive_goes_on_where_it_was(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("old", [f"{number:02}" for number in range(30)])
    path = str(tmp_path / "archive")
    ended(archive.start(spark, archive.ArchiveOptions(endpoint=broker.endpoint, queue=stream, path=path)))
    exchange, queue = fanout(broker, "again")
    options = replay.ReplayOptions(
        endpoint=broker.endpoint,
        archive=path,
        exchange=exchange,
        checkpoint=str(tmp_path / "replay"),
        slice=10,
        where="cast(body as string) <> '07'",
    )
    running = replay.start(spark, options)
    report = ended(running)
    assert report.lines == ("29 messages published in 3 slices",)
    assert report.accounts == (Account("replay", Counts(read=30, out=29, filtered=1)),)
    assert running.progress().lag == 0

    # As if it had been killed before it could note the last two slices: the broker has them already.
    plan = json.loads((tmp_path / "replay" / "replay.json").read_text())
    (tmp_path / "replay" / "replay.json").write_text(json.dumps(plan | {"done": 1}))
    ended(replay.start(spark, options))
    assert [body for _, body, _ in taken(broker, queue)] == [f"{number:02}" for number in range(30) if number != 7]

    with pytest.raises(ConfigError, match="has the checkpoint of a replay with --where"):
        replay.start(spark, replay.ReplayOptions(**(vars(options) | {"where": None})))


def test_replay_of_a_stream_keeps_to_its_rate(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("old", [str(number) for number in range(6)])
    exchange, queue = fanout(broker, "again")
    options = replay.ReplayOptions(
        endpoint=broker.endpoint,
        queue=stream,
        exchange=exchange,
        routing_key="replayed",
        checkpoint=str(tmp_path / "replay"),
        since="2020-01-01",
        rate=2,
    )
    running = replay.start(spark, options)
    ended(running)
    assert running.progress().batches == 2  # of four and of two: two seconds' worth at a time
    assert [(key, body) for key, body, _ in taken(broker, queue)] == [("replayed", str(n)) for n in range(6)]
    # Another replay with its transaction would publish nothing, and report six messages.
    used = json.loads((tmp_path / "replay" / "replay.json").read_text())["transaction"]
    again = replace(options, checkpoint=str(tmp_path / "again"), transaction_id=used)
    with pytest.raises(ConfigError, match=f"--transaction-id {used} has batches up to 1, and .*again has no check"):
        ended(replay.start(spark, again))


def test_replay_of_a_time_without_messages_publishes_nothing(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    stream = broker.stream("old", ["a"])
    exchange, queue = fanout(broker, "again")
    checkpoint = str(tmp_path / "replay")
    options = replay.ReplayOptions(
        endpoint=broker.endpoint, queue=stream, exchange=exchange, checkpoint=checkpoint, until="2020-01-01T00:00:00"
    )
    assert ended(replay.start(spark, options)).lines == ("0 messages published in 0 slices",)
    assert taken(broker, queue) == []


def test_dedup_passes_each_message_on_once(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    queue = broker.queue("doubled")
    for body, id_ in [("a", "1"), ("again", "1"), ("b", "2"), ("no id", None), ("no id", None)]:
        send(broker, queue, body, message_id=id_)
    exchange, once = fanout(broker, "once")
    options = dedup.DedupOptions(
        endpoint=broker.endpoint, queue=queue, exchange=exchange, checkpoint=str(tmp_path / "dedup")
    )
    assert ended(dedup.start(spark, options)).accounts[0].counts == Counts(read=5, out=4, duplicates=1)
    send(broker, queue, "later", message_id="2")
    assert ended(dedup.start(spark, options)).accounts[0].counts == Counts(read=1, duplicates=1)
    bodies = sorted(body for _, body, _ in taken(broker, once))
    assert len(bodies) == 4
    assert bodies.count("no id") == 2
    assert "b" in bodies


def test_route_publishes_with_the_key_of_its_rules(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("orders", ['{"amount": 500}', '{"amount": 5}'])
    exchange, routed = fanout(broker, "routed")
    options = route.RouteOptions(
        endpoint=broker.endpoint,
        queue=stream,
        exchange=exchange,
        checkpoint=str(tmp_path / "route"),
        rule=("amount > 100 => big",),
        schema="amount DOUBLE",
        otherwise="small",
    )
    assert ended(route.start(spark, options)).accounts[0].counts == Counts(read=2, out=2)
    assert sorted(key for key, _, _ in taken(broker, routed)) == ["big", "small"]


def test_schema_check_divides_good_from_bad(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    queue = broker.queue("mixed", ['{"id": "1"}', "bad", '{"no": "id"}'])
    good, fits = fanout(broker, "good")
    bad, does_not = fanout(broker, "bad")
    options = schema_check.SchemaCheckOptions(
        endpoint=broker.endpoint,
        queue=queue,
        exchange=good,
        dead_letter_exchange=bad,
        schema="id STRING NOT NULL",
        checkpoint=str(tmp_path / "check"),
    )
    assert ended(schema_check.start(spark, options)).accounts[0].counts == Counts(read=3, out=1, refused=2)
    assert [body for _, body, _ in taken(broker, fits)] == ['{"id": "1"}']
    assert {body: headers["x-schema-error"] for _, body, headers in taken(broker, does_not)} == {
        "bad": "the body is no JSON",
        '{"no": "id"}': "the field id is missing",
    }


def test_a_continuous_job_goes_on_until_it_is_stopped(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("live", ["a"])
    exchange, queue = fanout(broker, "live")
    options = dedup.DedupOptions(
        endpoint=broker.endpoint,
        queue=stream,
        exchange=exchange,
        checkpoint=str(tmp_path / "live"),
        continuous=True,
        interval="200 milliseconds",
        by="body",
    )
    running = dedup.start(spark, options)
    for number in range(2):
        while running.progress().rows <= number:
            assert not running.wait(0.1)
        broker.publish(stream, [f"more {number}"])
    while running.progress().rows < 3:
        assert not running.wait(0.1)
    running.stop()
    assert running.wait(PATIENCE)
    assert sorted(broker.bodies(queue)) == [b"a", b"more 0", b"more 1"]


def test_a_job_that_fails_says_why_in_one_line(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("lost", ["a"])
    options = dedup.DedupOptions(
        endpoint=broker.endpoint, queue=stream, exchange="nowhere", checkpoint=str(tmp_path / "lost")
    )
    with pytest.raises(JobFailed, match="no exchange 'nowhere'") as failed:
        ended(dedup.start(spark, options))
    assert "\n" not in str(failed.value)


def test_a_batch_that_does_not_add_up_fails_the_job(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    """Route with a filter of its own, as a bug would be; and a function of foreachBatch that records what it wrote."""
    stream = broker.stream("leaky", ["a", "b", "c", "d"])
    exchange, _ = fanout(broker, "leaky")
    options = route.RouteOptions(
        endpoint=broker.endpoint,
        queue=stream,
        exchange=exchange,
        checkpoint=str(tmp_path / "leaky"),
        rule=("offset = 0 => first",),
        drop=True,
    )
    messages = read_stream(spark, options, "leaky")
    leaky = counted(outgoing(route.routed(spark, messages, options).where("offset <> 0")))
    expected = r"leaky in batch 0 do not add up: 4 in = 0 out \+ 0 duplicates \+ 3 filtered \+ 0 refused \+ 0 late\."
    with pytest.raises(JobFailed, match=expected):
        ended(Queries(publish(leaky, options, "leaky")))

    recorded: dict[int, Counts] = {}

    def write(batch: DataFrame, number: int) -> None:
        rows = len(batch.collect())
        recorded[number] = Counts(out=rows - number, late=0)

    def start() -> Queries:
        query = messages.writeStream.foreachBatch(write).queryName("own").trigger(availableNow=True)
        return Queries(query.option("checkpointLocation", str(tmp_path / "own")).start(), recorded={"own": recorded})

    assert ended(start()).accounts == (Account("own", Counts(read=4, out=4)),)
    broker.publish(stream, ["e"])
    with pytest.raises(JobFailed, match="own in batch 1 do not add up: 1 in = 0 out"):
        ended(start())


def test_batches_that_cannot_be_counted_fail_the_job(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    """Spark drops the progress of all but the last batches: what is left adds up, also after a restart."""
    stream = broker.stream("many", ["a"])
    options = archive.ArchiveOptions(endpoint=broker.endpoint, queue=stream, path=str(tmp_path / "kept"))
    assert ended(archive.start(spark, options)).accounts == (Account("archive", Counts(read=1, out=1)),)
    broker.publish(stream, ["b", "c", "d"])
    kept = "spark.sql.streaming.numRecentProgressUpdates"
    spark.conf.set(kept, "2")
    try:
        running = archive.start(spark, replace(options, max_per_batch=1))
        assert isinstance(running, Queries)
        assert running.queries[0].awaitTermination(90)  # without a look at its progress
    finally:
        spark.conf.unset(kept)
    with pytest.raises(JobFailed, match="2 batches of archive could not be counted"):
        running.report()
