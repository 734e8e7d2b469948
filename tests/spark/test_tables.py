"""Messages into Delta, Iceberg and PostgreSQL tables on a real Spark: schemas, refused messages, repeated batches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from leveret.errors import ConfigError
from leveret.schemas.schema import AVRO, PROTOBUF, Schema, checked_schema
from leveret.spark.avro_codec import AvroCodec
from leveret.spark.jobs import lake, replay, to_jdbc
from leveret.spark.jobs.running_job import JobFailed, Running
from leveret.spark.protobuf_codec import ProtobufCodec
from leveret.spark.tables.iceberg import catalog_of
from tests.support.management_api import ManagementApi
from tests.support.postgres_server import PASSWORD, PostgresServer
from tests.support.proto_files import files
from tests.support.spark_broker import SparkBroker

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "tables.md").read_text()
PATIENCE = 90.0
ORDER = "id BIGINT NOT NULL, total DOUBLE, tags ARRAY<STRING>"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


def ended(running: Running) -> str:
    """How the rows of the first query add up."""
    assert running.wait(PATIENCE), "the job is still running"
    return str(running.report().accounts[0])


def read_table(options: lake.LakeOptions) -> pa.Table:
    if options.format == "delta":
        return DeltaTable(options.table).to_pyarrow_table()
    name, catalog = catalog_of(options.table, None)
    return catalog.load_table(name).scan().to_arrow()


def shown_in_the_guide(options: lake.LakeOptions) -> Any:
    """What the code of the guide reads, from this table."""
    [block] = [
        block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if options.format in block.lower()
    ]
    warehouse = options.table.rpartition("/")[0]
    names: dict[str, Any] = {}
    exec(block.replace("/data/warehouse", warehouse).replace("/data/lake/orders", options.table), names)  # noqa: S102
    return names["orders"]


def refused_exchange(broker: SparkBroker) -> tuple[str, str]:
    exchange, queue = broker.name("bad"), broker.queue("bad")
    broker.channel.exchange_declare(exchange, "fanout", durable=True)
    broker.channel.queue_bind(queue, exchange)
    return exchange, queue


def orders(*ids: int, **more: Any) -> list[str]:
    return [json.dumps({"id": id_, "total": id_ / 2, "tags": ["a"], **more}) for id_ in ids]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_lake_writes_fields_and_grows_with_the_schema(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, format_: str
) -> None:
    stream = broker.stream("orders", [*orders(*range(6)), "no json", *orders(6)])
    exchange, bad = refused_exchange(broker)
    options = lake.LakeOptions(
        endpoint=broker.endpoint,
        queue=stream,
        table=f"{tmp_path}/ware/shop.orders",
        format=format_,
        schema=ORDER,
        partition_by="date,queue",
        dead_letter_exchange=exchange,
        compact_every=3,
        max_per_batch=3,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    running = lake.start(spark, options)
    assert ended(running) == "rows of lake: 8 in = 7 out + 0 duplicates + 0 filtered + 1 refused + 0 late"
    assert broker.bodies(bad) == [b"no json"]
    # The schema has a new field, and another query with it goes on where the first one was.
    broker.publish(stream, orders(7, 8, note="new"))
    wider = replace(options, schema=f"{ORDER}, note STRING", dead_letter_exchange=None, compact_every=0)
    assert "2 in = 2 out" in ended(lake.start(spark, wider))
    rows = sorted(read_table(options).to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["total"], row["tags"], row["note"]) for row in rows] == [
        (id_, id_ / 2, ["a"], "new" if id_ > 6 else None) for id_ in range(9)
    ]
    assert {row["queue"] for row in rows} == {stream}
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert len(shown_in_the_guide(options)) == 9
    # Rows of the table are messages again: JSON without nulls, each once although a slice is repeated.
    options_of_replay = replay.ReplayOptions(
        endpoint=broker.endpoint,
        table=options.table,
        format=format_,
        where="id % 2 = 0",
        since="2020-01-01",
        exchange=exchange,
        routing_key="again",
        slice=4,
        checkpoint=str(tmp_path / "replay"),
    )
    account = ended(replay.start(spark, options_of_replay))
    assert account == "rows of replay: 9 in = 5 out + 0 duplicates + 4 filtered + 0 refused + 0 late"
    plan = tmp_path / "replay" / "replay.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"done": 1}))
    ended(replay.start(spark, options_of_replay))
    published = sorted((json.loads(body) for body in broker.bodies(bad)), key=lambda row: row["id"])
    assert [(row["id"], row["tags"], row.get("note")) for row in published] == [
        (id_, ["a"], "new" if id_ > 6 else None) for id_ in range(0, 9, 2)
    ]
    with pytest.raises(ConfigError, match="--pattern: the table has no column queue"):
        replay.is_chosen(replace(options_of_replay, pattern="x"), ["id"])
    with pytest.raises(ConfigError, match="column total is double, not bigint"):
        lake.start(spark, replace(wider, schema="id BIGINT, total BIGINT"))
    # Without an exchange for it, a bad message stops the pipeline before anything of its batch is written.
    broker.publish(stream, [*orders(9), "no json"])
    with pytest.raises(
        JobFailed, match=f"message 11 of {stream} does not match the schema: the body is no JSON.*set --dead"
    ):
        ended(lake.start(spark, wider))
    assert read_table(options).num_rows == 9


def registered(broker: SparkBroker, name: str, kind: str, *, has_note: bool) -> Schema:
    """A version of a schema in the registry of the broker: an order with an id, and perhaps a note."""
    message = "shop.Order" if kind == PROTOBUF else ""
    if kind == PROTOBUF:
        text = files(Order=["int64 id = 1", *(["optional string note = 2"] if has_note else [])])
    else:
        note = {"name": "note", "type": ["null", "string"], "default": None}
        fields = [{"name": "id", "type": "long"}, *([note] if has_note else [])]
        text = json.dumps({"type": "record", "name": "Order", "fields": fields})
    version = {"type": kind, "schema": text} | ({"message": message} if message else {})
    status, answer = ManagementApi(broker.endpoint).put(f"schemas/%2F/{name}", version)
    assert status == 201, answer
    return checked_schema(kind, text, message)


@pytest.mark.parametrize(("kind", "codec"), [(AVRO, AvroCodec), (PROTOBUF, ProtobufCodec)])
def test_lake_follows_a_schema_of_the_registry(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, kind: str, codec: type[AvroCodec | ProtobufCodec]
) -> None:
    queue, (exchange, bad) = broker.queue(kind), refused_exchange(broker)
    name = broker.name("order")
    options = lake.LakeOptions(
        endpoint=broker.endpoint,
        queue=queue,
        table=str(tmp_path / "table"),
        schema_name=name,
        keep="routing_key",
        dead_letter_exchange=exchange,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    with pytest.raises(ConfigError, match=f"--schema-name {name}: "):
        lake.start(spark, options)
    for has_note, row, refused in ((False, {"id": 1}, [b"\xff" * 20]), (True, {"id": 2, "note": "new"}, [])):
        schema = registered(broker, name, kind, has_note=has_note)
        broker.publish(queue, [codec(schema).encode(row), *refused], headers={"x-schema-id": schema.id})
        assert f"= 1 out + 0 duplicates + 0 filtered + {len(refused)} refused" in ended(lake.start(spark, options))
        assert broker.bodies(bad) == refused
    rows = sorted(read_table(options).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"routing_key": queue, "id": 1, "note": None}, {"routing_key": queue, "id": 2, "note": "new"}]


def test_lake_keeps_whole_messages_of_a_classic_queue_once(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = broker.queue("work")
    broker.publish(queue, [f"m{number}" for number in range(10)], headers={"k": "v"})
    options = lake.LakeOptions(
        endpoint=broker.endpoint,
        queue=queue,
        table=str(tmp_path / "table"),
        max_per_batch=4,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    commit = lake.LakeWriter.write

    def fail_after_commit(self: lake.LakeWriter, *batch: Any) -> Any:
        counts = commit(self, *batch)
        if batch[-1] == 1:
            raise JobFailed("as if the driver was lost here")
        return counts

    with monkeypatch.context() as patch:
        patch.setattr(lake.LakeWriter, "write", fail_after_commit)
        with pytest.raises(JobFailed, match="as if the driver was lost here"):
            ended(lake.start(spark, options))
    # The batch is repeated and recognised: nothing of it is read again.
    assert "2 in = 2 out" in ended(lake.start(spark, options))
    rows = read_table(options).to_pylist()
    assert sorted(row["body"] for row in rows) == [f"m{number}".encode() for number in range(10)]
    assert {tuple(row["headers"]) for row in rows} == {(("k", "v"),)}
    assert {row["properties"]["delivery_mode"] for row in rows} == {2}
    assert broker.bodies(queue) == []
    broker.channel.queue_bind(queue, "amq.direct", queue)
    # Its files are a folder of Parquet files too; messages keep their routing key, headers and properties.
    options_of_replay = replay.ReplayOptions(
        endpoint=broker.endpoint,
        table=options.table,
        format="parquet",
        exchange="amq.direct",
        queue=queue,
        checkpoint=str(tmp_path / "replay"),
    )
    assert "10 in = 10 out" in ended(replay.start(spark, options_of_replay))
    frame, properties, _ = broker.channel.basic_get(queue, auto_ack=True)
    assert (frame.routing_key, properties.headers, properties.delivery_mode) == (queue, {"k": "v"}, 2)
    assert len(broker.bodies(queue)) == 9


def test_to_jdbc_keeps_the_newest_row_of_a_key(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, server: PostgresServer
) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    stream = broker.stream("orders", [*orders(1, 2, 1), '{"id": 3, "at": "2031-05-01T12:00:00.123456+02:00"}'])
    exchange, bad = refused_exchange(broker)
    options = to_jdbc.ToJdbcOptions(
        endpoint=broker.endpoint,
        queue=stream,
        database=server.conninfo,
        database_credentials_file=str(tmp_path / "password"),
        table="orders",
        key="id",
        schema=f"{ORDER}, at TIMESTAMP, raw BINARY, price DECIMAL(10,2), ok BOOLEAN",
        keep="offset",
        max_per_batch=4,
        dead_letter_exchange=exchange,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    broker.publish(stream, [r'{"id": 4, "tags": ["\u0000"]}', '{"total": 1}'])
    broker.publish(stream, ['{"id": 2, "total": -1, "raw": "AAH/", "price": 1.25, "ok": true, "tags": ["\\\\u0000"]}'])
    account = ended(to_jdbc.start(spark, options))
    assert account == "rows of to-jdbc: 7 in = 4 out + 1 duplicates + 0 filtered + 2 refused + 0 late"
    found = server.rows(
        "SELECT id, \"offset\", total, tags, at AT TIME ZONE 'UTC' || '', encode(raw, 'hex'), price || '', ok "
        "FROM orders ORDER BY id"
    )
    assert found == [
        (1, 2, 0.5, ["a"], None, None, None, None),
        (2, 6, -1.0, ["\\u0000"], None, "0001ff", "1.25", True),
        (3, 3, None, None, "2031-05-01 10:00:00.123456", None, None, None),
    ]
    assert sorted(broker.bodies(bad)) == [rb'{"id": 4, "tags": ["\u0000"]}', b'{"total": 1}']
    assert server.rows("SELECT batch FROM leveret_batches") == [(1,)]
    for wrong, text in (
        ({"key": "number"}, "column number is neither in the schema nor in --keep"),
        ({"database": "host=db password=x"}, "--database has a password"),
        ({"keep": "colour"}, "--keep colour: a message has body"),
    ):
        with pytest.raises(ConfigError, match=text):
            to_jdbc.start(spark, replace(options, **wrong))
