"""What the ready pipelines do with messages, on DataFrames without a broker."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from leveret.errors import ConfigError
from leveret.spark.jobs import archive, audit, dead_letters, dedup, route, schema_check, traffic
from leveret.spark.jobs.messages import outgoing, own_headers, with_header
from leveret.spark.jobs.traffic_windows import INTERNAL, by_window, merged, with_percentiles
from leveret.spark.offsets import Source
from leveret.spark.schema import SCHEMA, SINK_COLUMNS, refuse_unless_publishable
from tests.support.message_frames import NOON, frame, message


def test_archive_folders_are_by_the_hour_of_arrival_in_utc(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        rows = archive.by_arrival(frame(spark, message(after=-1), message(), message(after=12 * 3600))).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [(row.date, row.hour) for row in rows] == [
        (date(2031, 5, 1), 11),
        (date(2031, 5, 1), 12),
        (date(2031, 5, 2), 0),
    ]


@pytest.mark.parametrize("names", [["17", "18"], ["sharding: orders - leveret@host - 0", "a/b=c"]])
def test_an_archive_gives_back_names_of_queues_as_they_are(
    spark: SparkSession, tmp_path: Path, names: list[str]
) -> None:
    messages = frame(spark, *(message(queue=name, offset=at) for at, name in enumerate(names)))
    archive.by_arrival(messages).write.partitionBy(*archive.FOLDERS).parquet(str(tmp_path / "kept"))
    rows = archive.read_archive(spark, str(tmp_path / "kept")).orderBy("offset").collect()
    assert [row.queue for row in rows] == names
    assert rows[0].date == date(2031, 5, 1)


def traffic_options(**options: object) -> traffic.TrafficOptions:
    return traffic.TrafficOptions(queue="q", path="/nowhere", **options)  # type: ignore[arg-type]


def windows_of(messages: DataFrame, options: traffic.TrafficOptions) -> DataFrame:
    """The windows of all messages, computed in two parts that are merged."""
    measured = traffic.measured(messages, options)
    slide = options.slide or options.window
    parts = [measured.where("size % 2 = 0"), measured.where("size % 2 = 1")]
    first, second = (by_window(part, options.groups(), options.window, slide) for part in parts)
    return with_percentiles(merged(first.unionByName(second), options.groups()), options.groups())


def test_traffic_counts_sizes_and_latencies_by_window(spark: SparkSession) -> None:
    sent = {"timestamp": NOON}
    messages = frame(
        spark,
        *(message(b"x" * size, after=2, properties=sent) for size in range(1, 101)),
        message(b"late", after=61),
        message(b"other", after=1, routing_key="other"),
    )
    rows = windows_of(messages, traffic_options()).orderBy("window_start", "routing_key").collect()
    first, other, second = rows
    assert (first.messages, first.bytes, first.size_p50, first.size_p95, first.size_p99) == (100, 5050, 50, 95, 99)
    assert (first.latency_ms_p50, first.latency_ms_p99) == (2000, 2000)
    assert (first.exchange, first.routing_key, first.queue) == ("orders", "key", "q")
    assert first.window_end - first.window_start == timedelta(minutes=1)
    assert (other.routing_key, other.messages, other.latency_ms_p50) == ("other", 1, None)
    assert second.window_start - first.window_start == timedelta(minutes=1)


def test_traffic_takes_the_time_of_sending_from_a_header(spark: SparkSession) -> None:
    sent = str(int(NOON.timestamp() * 1000) + 250)
    messages = frame(spark, message(after=1, headers={"sent": sent}), message(after=1, headers={"sent": "soon"}))
    options = traffic_options(sent_header="sent", by="queue")
    [row] = windows_of(messages, options).collect()
    assert (row.messages, row.latency_ms_p50, row.latency_ms_p99) == (2, 750, 750)
    assert "exchange" not in row
    assert "headers" in traffic.columns_for(options)
    assert "headers" not in traffic.columns_for(traffic_options())


def test_traffic_results_are_messages(spark: SparkSession) -> None:
    options = traffic_options()
    results = traffic.as_messages(windows_of(frame(spark, message(b"12345")), options).drop(*INTERNAL))
    refuse_unless_publishable(results.schema)
    [row] = results.collect()
    told = json.loads(row.body)
    assert (told["messages"], told["bytes"], told["routing_key"]) == (1, 5, "key")
    assert row.properties.content_type == "application/json"


def test_windows_of_a_table_have_every_message(spark: SparkSession, tmp_path: Path) -> None:
    """As in a declarative project. A stream, whose late messages Spark would drop, is refused."""
    frame(spark, message(b"12345"), message(b"1", after=90)).write.parquet(str(tmp_path / "in"))
    rows = traffic.counted(spark.read.parquet(str(tmp_path / "in")), traffic_options()).orderBy("window_start")
    found = [(row.messages, row.bytes, row.size_p50) for row in rows.collect()]
    assert found == [(1, 5, 5), (1, 1, 1)]
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    written = traffic.counted(stream, traffic_options()).writeStream.format("noop")
    with pytest.raises(AnalysisException, match="without watermark"):
        written.option("checkpointLocation", str(tmp_path / "checkpoint")).start()


def test_late_is_what_happens_or_as_before_a_time() -> None:
    assert (traffic_options().late, traffic_options().lateness) == ("count", "10 seconds")
    before = traffic_options(late="2 minutes")
    assert (before.late, before.lateness) == ("count", "2 minutes")
    assert replace(before, late="drop").lateness == "2 minutes"
    with pytest.raises(ConfigError, match="invalid --late 'never': choose one of count, side, drop"):
        traffic_options(late="never")
    for half in ({"late": "side"}, {"late_path": "/late"}):
        with pytest.raises(ConfigError, match="--late side and --late-path belong together"):
            traffic_options(**half)


def test_a_group_that_traffic_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--by is 'body': it can be one or more of exchange"):
        traffic_options(by="body")


def dead(reason: str, queue: str, exchange: str, key: str, count: int = 1) -> dict[str, object]:
    return {"count": count, "reason": reason, "queue": queue, "time": 1, "exchange": exchange, "routing-keys": [key]}


def letter(*deaths: dict[str, object], **columns: object) -> dict[str, object]:
    headers = {"x-death": json.dumps(deaths), "x-first-death-queue": "q", "own": "1"}
    return message(**({"headers": headers, "queue": "dead"} | columns))  # type: ignore[arg-type]


def test_dead_letters_are_counted_by_cause(spark: SparkSession) -> None:
    letters = frame(
        spark,
        letter(dead("rejected", "work", "orders", "eu", count=3)),
        letter(dead("expired", "work", "orders", "eu"), dead("rejected", "work", "orders", "eu")),
        message(queue="dead"),
    )
    rows = dead_letters.by_cause(dead_letters.with_deaths(letters)).orderBy("reason").collect()
    assert [(row.reason, row.died_in, row.from_exchange, row.from_key, row.messages, row.deaths) for row in rows] == [
        (None, None, None, None, 1, 0),
        ("expired", "work", "orders", "eu", 1, 1),
        ("rejected", "work", "orders", "eu", 2, 4),
    ]


def test_chosen_dead_letters_go_to_their_origin_and_the_others_stay(spark: SparkSession) -> None:
    letters = frame(
        spark,
        letter(dead("rejected", "work", "orders", "eu"), body=b"a"),
        letter(dead("expired", "work", "orders", "us"), body=b"b"),
        letter(dead("rejected", "work", "", "work"), body=b"c"),
        message(b"d", queue="dead"),
    )
    story = dead_letters.with_deaths(letters).withColumn("goes_back", dead_letters.chosen("reason = 'rejected'"))
    sent = dead_letters.to_origin(story)
    refuse_unless_publishable(sent.schema)
    rows = {bytes(row.body): row for row in sent.collect()}
    assert {body: (row.exchange, row.routing_key) for body, row in rows.items()} == {
        b"a": ("orders", "eu"),
        b"b": ("", "dead"),
        b"c": ("", "work"),
        b"d": ("", "dead"),
    }
    assert rows[b"a"].headers == {"own": "1", "x-redriven": "1"}
    assert "x-death" in rows[b"b"].headers


def test_a_second_way_back_is_counted(spark: SparkSession) -> None:
    deaths = json.dumps([dead("rejected", "work", "orders", "eu")])
    again = message(headers={"x-death": deaths, "x-redriven": "4"})
    story = dead_letters.with_deaths(frame(spark, again)).withColumn("goes_back", dead_letters.chosen("redriven < 5"))
    assert dead_letters.to_origin(story).collect()[0].headers == {"x-redriven": "5"}


def dedup_options(**options: object) -> dedup.DedupOptions:
    return dedup.DedupOptions(queue="q", exchange="e", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by", "kept"),
    [("message-id", [0, 2, 3, 4]), ("body", [0, 3, 4]), ("header:id", [0, 1, 2, 3])],
)
def test_dedup_knows_messages_by(spark: SparkSession, by: str, kept: list[int]) -> None:
    messages = frame(
        spark,
        message(b"a", offset=0, properties={"message_id": "1"}, headers={"id": "x"}),
        message(b"a", offset=1, properties={"message_id": "1"}, headers={"id": "y"}),
        message(b"a", offset=2, properties={"message_id": "2"}),
        message(b"b", offset=3),
        message(b"c", offset=4, headers={"id": "x"}),
    )
    known = messages.coalesce(1).withColumn("identity", dedup.identity(by))
    assert sorted(row.offset for row in known.dropDuplicates(["identity"]).collect()) == kept


def test_a_way_to_know_messages_that_is_none_is_refused() -> None:
    for by in ("id", "header:", "header"):
        with pytest.raises(ConfigError, match=r"it can be message-id, body or header:NAME"):
            dedup_options(by=by)


def route_options(*rules: str, **options: object) -> route.RouteOptions:
    return route.RouteOptions(queue="q", exchange="e", rule=rules, **options)  # type: ignore[arg-type]


def keys(spark: SparkSession, options: route.RouteOptions, *bodies: str) -> list[str]:
    messages = frame(spark, *(message(body, offset=at) for at, body in enumerate(bodies)))
    return [row.routing_key for row in route.routed(spark, messages, options).orderBy("offset").collect()]


def test_the_first_rule_that_holds_gives_the_key(spark: SparkSession) -> None:
    rules = ("amount >= 100 => big.{country}", "amount > 10 => middle.{upper(country)}-{cast(amount as int)}")
    options = route_options(*rules, schema="amount DOUBLE, country STRING, queue STRING")
    bodies = [json.dumps({"amount": amount, "country": "de"}) for amount in (100, 50, 1)]
    assert keys(spark, options, *bodies, "no json") == ["big.de", "middle.DE-50", "key", "key"]


def test_what_no_rule_takes_gets_another_key_or_is_left_out(spark: SparkSession) -> None:
    bodies = ("yes", "no")
    rule = "cast(body as string) = 'yes' => found"
    assert keys(spark, route_options(rule, otherwise="rest"), *bodies) == ["found", "rest"]
    assert keys(spark, route_options(rule, drop=True), *bodies) == ["found"]


def test_a_field_with_the_name_of_a_column_is_in_value(spark: SparkSession) -> None:
    options = route_options("true => {queue}.{value.queue}", schema="queue STRING")
    assert keys(spark, options, '{"queue": "inner"}') == ["q.inner"]


def test_rules_see_the_columns_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "customers.csv"
    table.write_text("customer,region\n7,eu\n8,us\n")
    options = route_options(
        "region IS NOT NULL => to.{region}", schema="customer INT", table=str(table), on="customer", otherwise="unknown"
    )
    bodies = [json.dumps({"customer": number}) for number in (7, 8, 9)]
    assert keys(spark, options, *bodies) == ["to.eu", "to.us", "unknown"]


def test_a_table_with_several_rows_for_a_key_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "customers.csv"
    table.write_text("customer,region,tier\n7,eu,a\n8,us,a\n7,us,b\n8,eu,b\n8,asia,c\n,x,\n,y,\n")
    options = route_options("true => {region}", schema="customer INT, region STRING", table=str(table), on="customer")
    expected = r"customers\.csv has several rows for the same customer: customer 8 \(3 rows\), customer 7 \(2 rows\)\."
    with pytest.raises(ConfigError, match=expected):
        keys(spark, options, '{"customer": 9}')
    both = replace(options, on="customer, region", rule=("true => {tier}",))
    assert keys(spark, both, '{"customer": 7, "region": "us"}', '{"customer": 9}') == ["b", "key"]
    with pytest.raises(ConfigError, match=r"--on is 'nobody', but .* has the columns customer, region, tier"):
        keys(spark, replace(options, on="nobody"), "{}")


@pytest.mark.parametrize("text", ["amount > 100", "=> big", "amount > 100 =>"])
def test_a_rule_without_its_halves_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r'write a condition, => and a key, as "amount > 100 => big"'):
        route_options(text)


def test_options_of_route_that_do_not_fit_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="--rule is missing"):
        route_options()
    with pytest.raises(ConfigError, match="--table and --on belong together"):
        route_options("true => a", table="x.csv")
    with pytest.raises(ConfigError, match="--routing-key would replace"):
        route_options("true => a", routing_key="b")
    with pytest.raises(ConfigError, match=r"must end in \.csv, \.json, \.parquet, \.orc"):
        route.table_of(spark, "customers.xlsx")


DDL = "id STRING NOT NULL, amount DOUBLE, at TIMESTAMP, lines ARRAY<STRUCT<sku: STRING, n: INT>>"
BODIES = {
    '{"id": "1", "amount": 2.5, "more": true}': None,
    '{"id": "1", "lines": [{"sku": "a", "n": 1}]}': None,
    '{"id": "1", "amount": null}': None,
    "no json": "the body is no JSON",
    "": "the body is no JSON",
    "[1, 2]": "the body is no JSON object",
    '"text"': "the body is no JSON object",
    '{"amount": 1}': "the field id is missing",
    '{"id": null}': "the field id is missing",
    '{"id": "1", "amount": "much"}': "the field amount is not double",
    '{"id": "1", "at": "someday"}': "the field at is not timestamp",
    '{"id": "1", "lines": [{"sku": "a", "n": "one"}]}': "a part of the body has another type than in the schema",
}


STRICTLY = BODIES | {
    '{"id": "1", "lines": [{"sku": "a", "n": "one"}]}': "the field lines[0].n is not int",
    '{"id": "10", "amount": 1} trailing': "the body has text after the JSON",
    '{"id": 10}': "the field id is not string",
    '{"id": "1", "id": "2"}': "the field id appears twice",
    '\ufeff{"id": "1"}': "the body starts with a byte order mark",
}


def test_a_body_that_does_not_fit_is_told_why(spark: SparkSession) -> None:
    schema = schema_check.schema_of(DDL)
    lenient = schema_check.with_reason(frame(spark, *(message(body) for body in BODIES)), schema)
    assert {bytes(row.body).decode(): row.reason for row in lenient.collect()} == BODIES
    strict = schema_check.with_strict_reason(frame(spark, *(message(body) for body in STRICTLY)), schema)
    assert {bytes(row.body).decode(): row.reason for row in strict.collect()} == STRICTLY


def test_only_the_bad_get_the_reason_as_a_header(spark: SparkSession) -> None:
    messages = frame(spark, message('{"id": "1"}', headers={"a": "b"}), message("bad", headers={"a": "b"}))
    options = schema_check.SchemaCheckOptions(queue="q", exchange="good", dead_letter_exchange="bad", schema=DDL)
    sent = schema_check.divided(messages, options)
    refuse_unless_publishable(sent.schema)
    assert [(row.exchange, row.headers) for row in sent.collect()] == [
        ("good", {"a": "b"}),
        ("bad", {"a": "b", "x-schema-error": "the body is no JSON"}),
    ]


def test_a_schema_that_is_none_is_refused(spark: SparkSession) -> None:
    for ddl in ("", "int", "id NUMBERISH"):
        with pytest.raises(ConfigError, match=r"list fields with their types"):
            schema_check.schema_of(ddl)


def test_what_goes_out_keeps_its_properties_but_not_its_past(spark: SparkSession) -> None:
    headers = {"CC": '["a"]', "x-death": "[]", "x-last-death-queue": "q", "x-mine": "1"}
    messages = frame(spark, message(headers=headers, properties={"user_id": "joe", "message_id": "7"}))
    sent = outgoing(messages)
    refuse_unless_publishable(sent.schema)
    assert set(sent.columns) <= set(SINK_COLUMNS)
    [row] = sent.collect()
    assert row.headers == {"x-mine": "1"}
    assert row.properties.message_id == "7"
    assert "user_id" not in row.properties


def test_a_header_is_replaced_and_left_out_where_it_is_null(spark: SparkSession) -> None:
    messages = frame(spark, message(b"1", headers={"n": "old", "a": "b"}), message(headers={"n": "old"}))
    number = messages.withColumn("number", messages.body.cast("string").try_cast("int").cast("string"))
    rows = number.select(with_header(own_headers(), "n", number.number).alias("headers")).collect()
    assert [row.headers for row in rows] == [{"a": "b", "n": "1"}, {}]


def stream(queue: str, first: int, next_: int) -> Source:
    return Source(queue, "stream", 0, first, next_, next_ - first, 0)


def copies(spark: SparkSession, **offsets: list[int]) -> audit.DataFrame:
    rows = [message(queue=queue, offset=offset) for queue, kept in offsets.items() for offset in kept]
    return audit.copies_of(frame(spark, *rows), [*offsets])


def test_audit_finds_holes_copies_and_edges(spark: SparkSession) -> None:
    found = copies(spark, a=[3, 4, 7, 8, 8], b=[0, 1])
    kept = audit.kept_of(found)
    assert kept == {"a": audit.Kept(3, 9, 5 - 1, 1), "b": audit.Kept(0, 2, 2, 0)}
    assert audit.inner_gaps(found) == [audit.Gap("a", 5, 7)]
    known = stream("a", 0, 12)
    assert audit.edges(known, kept["a"], 0) == [audit.Gap("a", 0, 3), audit.Gap("a", 9, 12)]
    assert audit.edges(known, kept["a"], 3) == [audit.Gap("a", 0, 3)]
    assert audit.edges(stream("b", 1, 2), kept["b"], 0) == []


def test_audit_sees_what_retention_took_before_it_was_archived() -> None:
    behind = audit.edges(stream("a", 20, 25), audit.Kept(0, 10, 10, 0), 0)
    assert sorted(behind) == [audit.Gap("a", 10, 20), audit.Gap("a", 20, 25)]
    assert audit.edges(stream("a", 20, 25), audit.Kept(0, 10, 10, 0), 100) == [audit.Gap("a", 10, 20)]


def test_audit_of_an_archive_without_a_stream_lists_all_of_it() -> None:
    assert audit.edges(stream("a", 2, 6), None, 0) == [audit.Gap("a", 2, 6)]
    assert audit.edges(stream("a", 6, 6), None, 0) == []


def test_the_report_of_an_audit_is_bad_if_anything_is_wrong() -> None:
    known, kept = stream("a", 0, 3), {"a": audit.Kept(0, 3, 3, 0)}
    good = audit.report_of([known], kept, [], {})
    assert good.is_good
    assert good.rows == (("a", "0 to 2", "0 to 2", 3, 0, 0, 0),)
    assert not audit.report_of([known], {"a": audit.Kept(0, 3, 3, 1)}, [], {}).is_good
    assert not audit.report_of([known], kept, [], {"a": 1}).is_good
    bad = audit.report_of([known], {"a": audit.Kept(0, 3, 2, 0)}, [audit.Gap("a", 1, 2)], {})
    assert not bad.is_good
    assert "missing: a, offsets 1 to 1 (1)" in bad.lines
