"""The Spark types of Avro schemas, and values through the codec, without Spark."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from leveret.errors import ConfigError
from leveret.schemas.schema import AVRO, JSON, PROTOBUF, Schema, checked_schema
from leveret.spark.avro_codec import AvroCodec
from leveret.spark.body_columns import DecodingError, error_of
from leveret.spark.errors import OptionError
from leveret.spark.jobs.registered_check import reason_of, refuse_unusable
from leveret.spark.protobuf_codec import ProtobufCodec
from leveret.spark.schema_registry import SchemaRegistry
from tests.support.proto_files import files

NOON = datetime(2031, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def logical(kind: str, name: str, **more: object) -> object:
    return {"type": kind, "logicalType": name, **more}


def record(**fields: object) -> str:
    rows = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": rows})


FIXED = {"type": "fixed", "name": "F", "size": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
INNER = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}
ROWS: list[tuple[object, str, object]] = [
    ("boolean", "boolean", True),
    ("int", "int", -7),
    ("long", "bigint", 1 << 40),
    ("float", "float", 0.5),
    ("double", "double", 0.1),
    ("bytes", "binary", b"\x00\xff"),
    ("string", "string", "é"),
    (FIXED, "binary", b"ab"),
    (ENUM, "string", "B"),
    (INNER, "struct<n:int>", {"n": 1}),
    ({"type": "array", "items": "int"}, "array<int>", [1, 2]),
    ({"type": "map", "values": "long"}, "map<string,bigint>", {"a": 1}),
    (["null", "string"], "string", None),
    (["null", INNER], "struct<n:int>", {"n": 2}),
    (["int", "long"], "bigint", 1 << 40),
    (["null", "float", "double"], "double", 0.1),
    (logical("int", "date"), "date", date(2031, 5, 1)),
    (logical("long", "timestamp-millis"), "timestamp", NOON),
    (logical("long", "timestamp-micros"), "timestamp", NOON),
    (logical("long", "local-timestamp-micros"), "timestamp_ntz", NOON.replace(tzinfo=None)),
    (logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)", Decimal("-12.34")),
    (logical("bytes", "decimal", precision=50, scale=2), "binary", b"\x01"),
    (logical("string", "uuid"), "string", "not a uuid"),
    (logical("int", "time-millis"), "int", 86_399_999),
    (logical("long", "timestamp-nanos"), "bigint", 1),
]


@pytest.mark.parametrize(("kind", "spark", "value"), ROWS, ids=[json.dumps(row[0])[:60] for row in ROWS])
def test_avro_types_and_values(kind: object, spark: str, value: object) -> None:
    codec = AvroCodec(checked_schema(AVRO, record(a=kind)))
    assert codec.type.simpleString() == f"struct<a:{spark}>"
    decoded = codec.decode(codec.encode({"a": value}), None)
    assert decoded == {"a": pytest.approx(value) if kind == "float" else value}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (record(a=["null", "int", "string"]), "the field a of the Avro schema is null or int or string"),
        (record(a=["null", "Order"]), "the field a of the Avro schema is recursive"),
        (record(a={"type": "array", "items": "Order"}), r"the field a\[\] of the Avro schema is recursive"),
    ],
)
def test_avro_types_that_spark_does_not_have(schema: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        _ = AvroCodec(Schema(AVRO, schema)).type


def test_avro_bytes_that_are_left_over_are_an_error() -> None:
    codec = AvroCodec(checked_schema(AVRO, record(a="int")))
    with pytest.raises(DecodingError, match="ends after 1 of 2 bytes"):
        codec.decode(b"\x02\x02", None)


class Registry(SchemaRegistry):
    """Has the schemas of a test, without a broker."""

    def __init__(self, *schemas: Schema) -> None:
        super().__init__()
        self._schemas = {schema.id: schema for schema in schemas}

    def by_id(self, id_: str) -> Schema | None:
        return self._schemas.get(id_)


@pytest.mark.parametrize(
    ("writer", "problem"),
    [
        (record(a="string"), "cannot be read with this schema"),
        (record(b="int"), "cannot be read with this schema"),
        (record(a="int").replace("Order", "Other"), "cannot be read with this schema"),
        (record(a={"type": "enum", "name": "E", "symbols": ["A", "A"]}), "the Avro schema cannot be used"),
        ("{", "the Avro schema cannot be used"),
    ],
)
def test_a_schema_of_a_message_that_cannot_be_used_is_an_error_of_its_body(writer: str, problem: str) -> None:
    reader, other = Schema(AVRO, record(a="int")), Schema(AVRO, writer)
    reason = error_of(AvroCodec(reader, Registry(other)), b"\x02", other.id)
    assert reason is not None
    assert problem in reason


def test_a_schema_that_no_body_can_be_read_with_is_refused_before_the_query() -> None:
    schema = Schema(AVRO, record(a={"type": "enum", "name": "E", "symbols": ["A", "A"]}))
    with pytest.raises(OptionError, match=r"symbols in an enum must be unique; correct the schema"):
        refuse_unusable(schema)
    with pytest.raises(OptionError, match="must be unique"):
        _ = AvroCodec(schema).type
    broken = Schema(PROTOBUF, files(Order=["Missing a = 1"]), "shop.Order")
    with pytest.raises(OptionError, match="the Protobuf schema cannot be used to read bodies"):
        refuse_unusable(broken)


def test_the_json_schema_of_a_message_may_have_types_that_cannot_be_checked() -> None:
    schema = Schema(JSON, "at TIME")
    reason = reason_of(Registry(schema), None, b"{}", schema.id)
    assert reason is not None
    assert "time(6), which JSON has no form for" in reason
    with pytest.raises(ConfigError, match="has no form for"):
        refuse_unusable(schema)


def nested(levels: int) -> bytes:
    """Of a record with a number and a record of the same kind, or null."""
    return b"\x02\x02" * levels + b"\x02\x00"


def test_bodies_that_are_nested_too_deeply() -> None:
    """The compiled fastavro ends the process: at 5,000 levels if it reads them, at 50,000 if it skips them."""
    recursive, flat = Schema(AVRO, record(a="int", n=["null", "Order"])), Schema(AVRO, record(a="int"))
    reading, skipping = AvroCodec(recursive), AvroCodec(flat, Registry(recursive))
    for codec, id_ in ((reading, None), (skipping, recursive.id)):
        assert error_of(codec, nested(50), id_) is None
        for levels in (5_000, 60_000):
            assert "recursion" in str(error_of(codec, nested(levels), id_))


PROTO = files(
    enums={"Kind": ["NONE", "SOME"]},
    Inner=["int32 n = 1"],
    Order=[
        *("int32 a = 1", "uint32 b = 2", "uint64 c = 3", "sint64 d = 4", "bool e = 5", "string f = 6", "bytes g = 7"),
        *("double h = 8", "Kind i = 9", "Inner j = 10", "repeated string k = 11", "map:string:int64 l = 12"),
        *(
            "google.protobuf.Timestamp m = 13",
            "optional int32 n = 14",
            "repeated Inner o = 15",
            "map:int32:Inner p = 16",
        ),
    ],
)
ORDER = {
    "a": -1,
    "b": 1 << 31,
    "c": Decimal(1 << 63),
    "d": -(1 << 40),
    "e": True,
    "f": "é",
    "g": b"\xff",
    "h": 0.1,
    "i": "SOME",
    "j": {"n": 1},
    "k": ["x", "y"],
    "l": {"a": 1},
    "m": NOON,
    "n": 0,
    "o": [{"n": 1}, {"n": 2}],
    "p": {7: {"n": 3}},
}
ORDER_TYPE = (
    "struct<a:int,b:bigint,c:decimal(20,0),d:bigint,e:boolean,f:string,g:binary,h:double,i:string,j:struct<n:int>,"
    "k:array<string>,l:map<string,bigint>,m:timestamp,n:int,o:array<struct<n:int>>,p:map<int,struct<n:int>>>"
)
UNSET = {
    "a": 0,
    "b": 0,
    "c": Decimal(0),
    "d": 0,
    "e": False,
    "f": "",
    "g": b"",
    "h": 0.0,
    "i": "NONE",
    "j": None,
    "k": [],
    "l": [],
    "m": None,
    "n": None,
    "o": [],
    "p": [],
}


def test_protobuf_types_and_values() -> None:
    codec = ProtobufCodec(checked_schema(PROTOBUF, PROTO, "shop.Order"))
    assert codec.type.simpleString() == ORDER_TYPE
    decoded = codec.decode(codec.encode(ORDER), None)
    assert decoded | {"l": dict(decoded["l"]), "p": dict(decoded["p"])} == ORDER
    assert codec.decode(codec.encode(dict.fromkeys(ORDER)), None) == UNSET
    assert codec.decode(b"\x48\x07", None)["i"] == "7"  # of an enum without this number
    for wrong, problem in (({"zz": 1}, "has no field 'zz'"), ({"i": "OTHER"}, "has no value 'OTHER'")):
        with pytest.raises(ValueError, match=problem):
            codec.encode(wrong)
    with pytest.raises(DecodingError, match=r"the body is not a shop.Order"):
        codec.decode(b"\xff", None)


def test_protobuf_schemas_that_are_too_complex_to_be_compared() -> None:
    """Each message nests the next one: the pairs of both schemas are more than are compared."""
    chain = {f"M{at}": [f"M{at + 1} a = 1"] for at in range(70)}
    first, second = (Schema(PROTOBUF, files(M70=[f"int32 {name} = 1"], **chain), "shop.M0") for name in ("a", "b"))
    reason = error_of(ProtobufCodec(first, Registry(second)), b"", second.id)
    assert reason is not None
    assert "too complex to be compared" in reason


def test_a_recursive_message_has_no_type() -> None:
    with pytest.raises(OptionError, match=r"shop.Order is recursive"):
        _ = ProtobufCodec(checked_schema(PROTOBUF, files(Order=["Order a = 1"]), "shop.Order")).type
