"""Bodies as columns, on real Spark: Avro, Protobuf and JSON, with schemas of arguments and of the registry."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pika
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from leveret.schemas.schema import AVRO, PROTOBUF, checked_schema
from leveret.spark.avro_codec import AvroCodec
from leveret.spark.errors import BrokerRefused, OptionError
from leveret.spark.formats import (
    SchemaRegistry,
    from_avro,
    from_json,
    from_protobuf,
    from_schema,
    to_avro,
    to_protobuf,
)
from leveret.spark.jobs import schema_check
from leveret.spark.protobuf_codec import ProtobufCodec
from tests.support.management_api import ManagementApi
from tests.support.message_frames import frame, message
from tests.support.proto_files import files
from tests.support.spark_broker import SparkBroker

NOON = datetime(2031, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
FIELDS: list[dict[str, object]] = [
    {"name": "id", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "lines", "type": {"type": "array", "items": LINE}},
    {"name": "tags", "type": {"type": "map", "values": "long"}},
]


def avro(*more: dict[str, object]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [*FIELDS, *more]})


ORDER = {
    "id": "1",
    "at": NOON,
    "day": date(2031, 5, 1),
    "total": Decimal("12.50"),
    "lines": [{"sku": "a", "n": 2}],
    "tags": {"x": 1},
}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "a", "type": "int"}, {"name": "inner", "type": ["null", "Tree"]}],
}
NO_SCHEMA = "0123456789abcdef"
PROTO = files(Order=["string id = 1", "uint64 n = 2", "repeated string tags = 3", "google.protobuf.Timestamp at = 4"])


def test_avro_and_protobuf_to_columns_and_back(spark: SparkSession) -> None:
    codec = AvroCodec(checked_schema(AVRO, avro()))
    too_large = codec.encode(ORDER | {"total": Decimal("1.00")}).replace(b"\x02\x64", b"\x08\x7f\xff\xff\xff")
    bodies = [codec.encode(ORDER), b"", codec.encode(ORDER) + b"!", too_large, codec.encode(ORDER | {"day": None})]
    messages = frame(spark, *(message(body, offset=at) for at, body in enumerate(bodies))).withColumn(
        "body", F.when(F.col("offset") < 5, F.col("body"))
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")  # must not move timestamps
    try:
        read = messages.withColumn("decoded", from_avro("body", avro())).orderBy("offset")
        rows = [
            (row.decoded.value and row.decoded.value.asDict(recursive=True), row.decoded.error)
            for row in read.collect()
        ]
        micros = read.where("offset = 0").select(F.unix_micros("decoded.value.at").alias("at")).collect()[0].at
        again = read.where("decoded.error IS NULL").select(to_avro("decoded.value", avro()).alias("body")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert micros == round(NOON.timestamp() * 1_000_000)
    naive = ORDER | {"at": rows[0][0]["at"]}  # local time of this machine
    assert [value for value, _ in rows] == [naive, None, None, None, naive | {"day": None}]
    errors = [error for _, error in rows]
    assert errors[0] is errors[4] is None
    assert errors[1].startswith("EOFError")
    assert "ends after" in errors[2]
    assert "precision" in errors[3].lower()
    assert [bytes(row.body) for row in again] == [bodies[0], bodies[4]]

    schema = checked_schema(PROTOBUF, PROTO, "shop.Order")
    body = ProtobufCodec(schema).encode({"id": "1", "n": (1 << 64) - 1, "tags": ["a"], "at": NOON})
    read = frame(spark, message(body), message(b"\xff")).select(from_protobuf("body", schema).alias("decoded"))
    good, bad = read.collect()
    assert good.decoded.value.n == Decimal((1 << 64) - 1)
    assert (good.decoded.value.id, good.decoded.value.tags, good.decoded.error) == ("1", ["a"], None)
    assert bad.decoded.value is None
    assert "not a shop.Order" in bad.decoded.error
    back = read.limit(1).select(to_protobuf("decoded.value", PROTO, "shop.Order").alias("body")).collect()
    assert bytes(back[0].body) == body


def test_errors_can_fail_the_query(spark: SparkSession) -> None:
    bad = frame(spark, message(b"bad"))
    with pytest.raises(PySparkException, match="a body of 3 bytes cannot be decoded"):
        bad.select(from_avro("body", avro(), on_error="raise")).collect()
    with pytest.raises(Exception, match="the body is no JSON"):  # Py4J's, if Spark folds the query
        bad.select(from_json("body", "id STRING", on_error="raise")).collect()
    with pytest.raises(OptionError, match="on_error is 'ignore'"):
        from_avro("body", avro(), on_error="ignore")
    with pytest.raises(OptionError, match="without a registry"):
        from_avro("body", avro(), id=F.lit("1"))


def test_json_to_columns(spark: SparkSession) -> None:
    bodies = ['{"id": "1", "n": 2, "at": "2031-05-01T12:00:00Z"}', "bad", '{"id": 1}', '{"id": "1"} trailing', "{}"]
    bodies.append(r'{"\ud800": 1, "\ud800": 2}')  # Arrow refuses a lone surrogate
    bodies.append('{"id": "1", "at": "2031-W18-4T12:00:00Z"}')  # ISO 8601 that Spark cannot read: not a silent null
    messages = frame(spark, *(message(body) for body in bodies))
    decoded = from_json("body", "id STRING NOT NULL, n INT, at TIMESTAMP")
    rows = [row.decoded for row in messages.select(decoded.alias("decoded")).collect()]
    week = rows.pop()
    assert (week.value, week.error) == (None, "a part of the body has another type than in the schema")
    assert [row.value and (row.value.id, row.value.n) for row in rows] == [("1", 2), None, None, None, None, None]
    assert rows[0].value.at.timestamp() == NOON.replace(microsecond=0).timestamp()
    assert [row.error for row in rows] == [
        *(None, "the body is no JSON", "the field id is not string", "the body has text after the JSON"),
        "the field id is missing",
        r"the field \ud800 appears twice",
    ]


def test_the_schema_that_each_message_refers_to(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    """Two versions of an Avro schema, references in a header and in the content type, and all that can be wrong."""
    admin = ManagementApi(broker.endpoint)
    name, note = broker.name("orders"), {"name": "note", "type": "string", "default": "-"}
    ids = [admin.put(f"schemas/%2F/{name}", {"schema": text})[1]["id"] for text in (avro(), avro(note))]
    tree = admin.put(f"schemas/%2F/{name}-tree", {"schema": json.dumps(TREE)})[1]["id"]
    fields = admin.put(f"schemas/%2F/{name}-json", {"type": "json", "schema": "id STRING NOT NULL"})[1]["id"]
    old, new = (AvroCodec(checked_schema(AVRO, text)) for text in (avro(), avro(note)))
    stream, good, bad = broker.stream("registered"), broker.queue("good"), broker.queue("bad")
    sent: list[tuple[bytes, dict[str, str], str | None]] = [
        (old.encode(ORDER | {"id": "a"}), {"x-schema-id": ids[0]}, None),
        (new.encode(ORDER | {"id": "b", "note": "new"}), {}, f"avro/binary; schema={ids[1]}"),
        (new.encode(ORDER | {"id": "c", "note": "none"}), {}, "avro/binary"),
        (new.encode(ORDER | {"id": "d", "note": "none"}), {"x-schema-id": NO_SCHEMA}, None),
        (b'{"id": "e"}', {"x-schema-id": fields}, "application/json"),
        (b'{"id": 1}', {}, f'application/json; charset=utf-8; schema="{fields}"'),
        (b"\x02\x02\x02\x00", {"x-schema-id": tree}, None),
        (b"\x02\x02" * 5_000 + b"\x02\x00", {"x-schema-id": tree}, None),
    ]
    for body, headers, kind in sent:
        properties = pika.BasicProperties(headers=dict(headers), content_type=kind)
        broker.channel.basic_publish("", stream, body, properties, mandatory=True)

    registry = SchemaRegistry(endpoint=broker.endpoint)
    options = {"endpoint": broker.endpoint, "queue": stream, "includeHeaders": "true"}
    messages = spark.read.format("leveret").options(**options).load()
    decoded = messages.select("offset", from_schema("body", registry.schema(name), registry=registry).alias("decoded"))
    rows = [row.decoded for row in decoded.orderBy("offset").collect()]
    assert [row.value and (row.value.id, row.value.note) for row in rows] == [
        *(("a", "-"), ("b", "new"), ("c", "none"), None, None, None, None, None)
    ]
    unlike = "the body cannot be read with this schema: "
    assert all(row.error.startswith(unlike) for row in rows[6:])
    assert [row.error for row in rows[3:6]] == [
        f"schema ID '{NO_SCHEMA}' is unknown: add the schema, or correct the publisher",
        *[f"schema ID '{fields}' is a schema of type json, not avro"] * 2,
    ]
    assert registry.schema(f"{name}:1").id == ids[0]
    with pytest.raises(BrokerRefused, match="has no version 7"):
        registry.schema(f"{name}:7")

    broker.channel.queue_bind(bad, "amq.fanout")
    unknown, no_reference = f"schema ID '{NO_SCHEMA}' is unknown", "the message refers to no schema"
    other = f"schema ID '{fields}' is a schema of type json, not avro"
    for how, passed, reasons in (
        (
            {"schema_from_message": True},
            [0, 1, 4, 6],
            [no_reference, unknown, "the field id is not string", "RecursionError: "],
        ),
        (
            {"schema_name": f"{name}:2"},
            [0, 1, 2],
            [f"{unknown}: add the schema, or correct the publisher", other, other, unlike, unlike],
        ),
    ):
        place = broker.name("checked")
        broker.channel.queue_bind(good, "amq.direct", place)
        settings = {"endpoint": broker.endpoint, "queue": stream, "checkpoint": str(tmp_path / place), **how}
        targets = {"exchange": "amq.direct", "routing_key": place, "dead_letter_exchange": "amq.fanout"}
        checked = schema_check.SchemaCheckOptions(**settings, **targets)  # type: ignore[arg-type]
        assert schema_check.start(spark, checked).wait(120)
        assert broker.bodies(good) == [sent[at][0] for at in passed]
        told = []
        while (got := broker.channel.basic_get(bad, auto_ack=True))[0] is not None:
            told.append(got[1].headers["x-schema-error"])
        assert [text[: len(reason)] for text, reason in zip(told, reasons, strict=True)] == reasons
