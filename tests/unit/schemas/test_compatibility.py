"""Which schema may follow another: one row of a table for each rule."""

from __future__ import annotations

import json

import pytest

from leveret.schemas.errors import SchemaError
from leveret.schemas.schema import AVRO, JSON, PROTOBUF, Schema, checked_schema, incompatibilities, unreadable
from tests.support.proto_files import files


def record(*fields: object, name: str = "shop.Order", **more: object) -> object:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: object, **more: object) -> object:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: object) -> object:
    return {"type": "enum", "name": "Kind", "symbols": list(symbols), **more}


def decimal(precision: int, scale: int) -> object:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def rooted(a: object) -> object:
    return record(field("a", a), field("b", "n.S"))


# In the trial of x.W, which fails, n.S is found compatible only because x.W is assumed to be.
INNER = field("s", record(field("w", {"type": "array", "items": "x.W"}), name="n.S"))
TRIED = rooted([record(INNER, field("bad", "int"), name="x.W"), record(name="y.W")])
WRITTEN = rooted(record(INNER, name="x.W"))
TREE = record(field("next", ["null", "Node"]), field("n", "int"), name="Node")
LONG_TREE = record(field("next", ["null", "Node"]), field("n", "long"), name="Node")
AVRO_ROWS: list[tuple[str, object, object, str]] = [
    # name, reader, writer, a part of the problem
    ("the same", record(field("a", "int")), record(field("a", "int")), ""),
    ("a field with a default is new", record(field("a", "int", default=1)), record(), ""),
    ("a field without a default is new", record(field("a", "int")), record(), "a: the field is missing"),
    ("a field is gone", record(), record(field("a", "int")), ""),
    ("an alias", record(field("b", "int", aliases=["a"])), record(field("a", "int")), ""),
    ("int as long", "long", "int", ""),
    ("int as double", "double", "int", ""),
    ("long as float", "float", "long", ""),
    ("long as int", "int", "long", "long cannot be read as int"),
    ("float as double", "double", "float", ""),
    ("double as float", "float", "double", "double cannot be read as float"),
    ("string as bytes", "bytes", "string", ""),
    ("bytes as string", "string", "bytes", ""),
    ("boolean as int", "int", "boolean", "boolean cannot be read as int"),
    ("nullable now", ["null", "int"], "int", ""),
    ("nullable and wider", ["null", "long"], "int", ""),
    ("not nullable any more", "int", ["null", "int"], "null cannot be read as int"),
    ("a branch is gone", ["null", "int"], ["null", "int", "string"], "string cannot be read as null or int"),
    ("a branch is new", ["null", "int", "string"], ["null", "int"], ""),
    ("a symbol is new", enum("A", "B"), enum("A"), ""),
    ("a symbol is gone", enum("A"), enum("A", "B"), "lacks the symbol B"),
    ("a symbol is gone, with a default", enum("A", default="A"), enum("A", "B"), ""),
    ("items wider", {"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ""),
    ("items narrower", {"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "[]: long cannot"),
    ("values narrower", {"type": "map", "values": "int"}, {"type": "map", "values": "long"}, "[]: long cannot"),
    ("array as map", {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "array cannot be read"),
    ("fixed of another size", *({"type": "fixed", "name": "F", "size": n} for n in (2, 4)), "from 4 to 2"),
    ("another scale", decimal(10, 2), decimal(10, 3), "decimal(10, 3) cannot be read as decimal(10, 2)"),
    ("another name", record(name="a.Bill"), record(), "record shop.Order cannot be read as record a.Bill"),
    ("another namespace", record(name="other.Order"), record(), ""),
    ("renamed with an alias", record(name="shop.Bill", aliases=["Order"]), record(), ""),
    ("recursive, wider", LONG_TREE, TREE, ""),
    ("recursive, narrower", TREE, LONG_TREE, "n: long cannot be read as int"),
    ("a failed trial of a recursive type", TRIED, WRITTEN, "bad: the field is missing"),
    ("nested", record(field("a", record(field("b", "int"), name="In"))), record(field("a", record(name="In"))), "a.b:"),
]


@pytest.mark.parametrize(("reader", "writer", "problem"), [row[1:] for row in AVRO_ROWS], ids=[r[0] for r in AVRO_ROWS])
def test_avro(reader: object, writer: object, problem: str) -> None:
    new, before = (checked_schema(AVRO, json.dumps(each)) for each in (reader, writer))
    found = unreadable(new, before)
    assert bool(found) == bool(problem)
    assert problem in "; ".join(found)


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        (["int32 a = 1"], ["int32 b = 1"], ""),
        (["int32 a = 1", "string b = 2"], ["int32 a = 1"], ""),
        ([], ["int32 a = 1"], ""),
        (["int64 a = 1"], ["int32 a = 1"], ""),
        (["int32 a = 1"], ["int64 a = 1"], "a: field 1 was int64 and cannot be read as int32"),
        (["uint64 a = 1"], ["uint32 a = 1"], ""),
        (["uint32 a = 1"], ["int32 a = 1"], "field 1 was int32"),
        (["sint32 a = 1"], ["int32 a = 1"], "field 1 was int32"),
        (["bytes a = 1"], ["string a = 1"], ""),
        (["string a = 1"], ["bytes a = 1"], "field 1 was bytes"),
        (["double a = 1"], ["float a = 1"], "field 1 was float"),
        (["int32 a = 1"], ["Kind a = 1"], ""),
        (["Kind a = 1"], ["int32 a = 1"], "field 1 was int32 and cannot be read as shop.Kind"),
        (["repeated int32 a = 1"], ["int32 a = 1"], "field 1 was int32 and cannot be read as repeated int32"),
        (["Inner a = 1"], ["Inner a = 1"], ""),
        (["Inner a = 1"], ["Other a = 1"], "a.n: field 1 was string and cannot be read as int32"),
        (["Inner a = 1"], ["string a = 1"], "field 1 was string"),
        (["Order a = 1"], ["Order a = 1"], ""),
        (["map:string:int64 a = 1"], ["map:string:int32 a = 1"], ""),
    ],
)
def test_protobuf(reader: list[str], writer: list[str], problem: str) -> None:
    inner = {"Inner": ["int32 n = 1"], "Other": ["string n = 1"], "enums": {"Kind": ["A", "B"]}}
    new, before = (
        checked_schema(PROTOBUF, files(**inner, Order=fields), "shop.Order")  # type: ignore[arg-type]
        for fields in (reader, writer)
    )
    found = unreadable(new, before)
    assert bool(found) == bool(problem)
    assert problem in "; ".join(found)


def test_a_required_field_of_protobuf_is_never_new() -> None:
    old = checked_schema(PROTOBUF, files(syntax="proto2", Order=["optional int32 b = 2"]), "shop.Order")
    for fields in (["required int32 a = 1"], ["required int32 b = 2"]):
        new = checked_schema(PROTOBUF, files(syntax="proto2", Order=fields), "shop.Order")
        assert "the field is required" in unreadable(new, old)[0]
        assert unreadable(old, new) == []


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        ("a INT, b STRING", "a INT", ""),
        ("a INT, b STRING NOT NULL", "a INT", "b: the field is NOT NULL"),
        ("a INT NOT NULL", "a INT", "a: the field is NOT NULL"),
        ("a INT", "a INT NOT NULL, b STRING NOT NULL", ""),
        ("a BIGINT", "a integer", ""),
        ("a INT", "a BIGINT", "a: bigint cannot be read as int"),
        ("a DOUBLE", "a FLOAT", ""),
        ("a DOUBLE", "a BIGINT", "a: bigint cannot be read as double"),
        ("a DECIMAL(20,0)", "a BIGINT", ""),
        ("a DECIMAL(12,2)", "a DECIMAL(10,2)", ""),
        ("a DECIMAL(12,4)", "a DECIMAL(10,1)", "decimal(10,1) cannot be read as decimal(12,4)"),
        ("a DECIMAL", "a DECIMAL(10)", ""),
        ("a STRING", "a VARCHAR(10)", ""),
        ("a VARCHAR(5)", "a VARCHAR(10)", "a: varchar(10) cannot be read as varchar(5)"),
        ("a STRING", "a INT", "a: int cannot be read as string"),
        ("a VARIANT", "a INT", ""),
        ("a ARRAY<BIGINT>", "a ARRAY<INT>", ""),
        ("a ARRAY<STRUCT<b: INT>>", "a ARRAY<STRUCT<b: STRING>>", "a[].b: string cannot be read as int"),
        ("a MAP<STRING, INT>", "a MAP<STRING, BIGINT>", "a[]: bigint"),
        ("a STRUCT<b: INT, c: INT>", "a STRUCT<b: INT>", ""),
        ("`a b` TIMESTAMP COMMENT 'when, or <so>'", "`a b` TIMESTAMP", ""),
        ("`not` INT", "`not` INT", ""),
    ],
)
def test_fields_of_json(reader: str, writer: str, problem: str) -> None:
    found = unreadable(checked_schema(JSON, reader), checked_schema(JSON, writer))
    assert bool(found) == bool(problem)
    assert problem in "; ".join(found)


def test_modes() -> None:
    old, new = Schema(JSON, "a INT"), Schema(JSON, "a INT, b INT NOT NULL")
    wider = Schema(JSON, "a BIGINT")
    assert [bool(incompatibilities(new, old, mode)) for mode in ("backward", "forward", "full", "none")] == [
        *(True, False, True, False)
    ]
    assert [bool(incompatibilities(wider, old, mode)) for mode in ("backward", "forward", "full", "none")] == [
        *(False, True, True, False)
    ]
    assert "type changed from json to avro" in incompatibilities(Schema(AVRO, '"int"'), old, "backward")[0]


INVALID: list[tuple[str, str, str, str]] = [
    (AVRO, "{", "", "is not JSON"),
    (AVRO, "[" * 100_000, "", "at most 65536"),
    (AVRO, "[" * 60_000, "", "is not JSON"),
    (AVRO, "1", "", "is not an Avro type"),
    (AVRO, '"Order"', "", "'Order' is unknown"),
    (AVRO, "[]", "", "union"),
    (AVRO, '["int", "int"]', "", "list each type once"),
    (AVRO, '["int", ["null"]]', "", "no other union"),
    (AVRO, '{"type": "array"}', "", "missing 'items'"),
    (AVRO, '{"type": "record", "name": "A"}', "", "missing its list of 'fields'"),
    (AVRO, '{"type": "record", "fields": []}', "", "missing 'name'"),
    (AVRO, '{"type": "record", "name": "A b", "fields": []}', "", "is invalid"),
    (AVRO, '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int", "default": "x"}]}', "", "default"),
    (AVRO, '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}, 7]}', "", "give 'name'"),
    (AVRO, json.dumps(record(field("a", "int"), field("a", "int"))), "", "has a field twice"),
    (AVRO, '[{"type":"fixed","name":"A","size":1},{"type":"fixed","name":"A","size":1}]', "", "defined twice"),
    (AVRO, '{"type": "enum", "name": "A", "symbols": []}', "", "needs symbols"),
    (AVRO, '{"type": "fixed", "name": "A", "size": "1"}', "", "whole number"),
    (AVRO, json.dumps(record(name="n" * 1_001)), "", "at most 1000 of them"),
    (AVRO, '{"type": "int", "doc": "\\ud800"}', "", "not Unicode"),
    (AVRO, '"int\ud800"', "", "not Unicode"),
    (AVRO, '{"type": "int", "note": NaN}', "", "not JSON"),
    (AVRO, '{"type": "int", "note": [' + "1e15," * 13_000 + "1]}", "", "has 247025 bytes"),
    (AVRO, '{"type": "array", "items": ' * 40 + '"int"' + "}" * 40, "", "deeper than 32"),
    (JSON, "", "", "instead of the name of a field"),
    (JSON, "a", "", "instead of a type"),
    (JSON, "a INTT", "", "'intt' is unknown"),
    (JSON, "a INT b INT", "", "instead of a comma"),
    (JSON, "a INT, A INT", "", "a field twice"),
    (JSON, "a ARRAY<INT", "", "instead of '>'"),
    (JSON, "a DECIMAL(1,2,3)", "", "at most 2"),
    (JSON, "a ; b", "", "unexpected character"),
    (JSON, "a ARRAY INT", "", "instead of '<'"),
    (JSON, "a " + "ARRAY<" * 40 + "INT" + ">" * 40, "", "deeper than 32"),
    (JSON, "a INT", "shop.Order", "only there"),
    (JSON, "id INT, at TIME", "", "the field at has the DDL type TIME, which JSON has no form for"),
    (JSON, "a STRUCT<b: ARRAY<TIME>>", "", "the field b has the DDL type TIME"),
    (JSON, "a MAP<INT, STRING>", "", "the field a is a map whose keys are int"),
    (JSON, "a MAP<STRING, MAP<DATE, INT>>", "", "whose keys are date"),
    (PROTOBUF, "AA==", "", "name the message"),
    (PROTOBUF, "?", "A", "not base64"),
    (PROTOBUF, "////", "A", "not a FileDescriptorSet"),
    (PROTOBUF, "CgUK", "A", "not a FileDescriptorSet"),
    (PROTOBUF, files(Order=["int32 a = 1"]), "Order", "it defines google.protobuf.Timestamp, shop.Order"),
    (PROTOBUF, files(**{"A" * 1_000: []}), "A", "longer than 1000 characters"),
    (PROTOBUF, files(Order=["Missing a = 1"]), "shop.Order", "--include_imports"),
    ("xml", "<a/>", "", "choose one of avro, protobuf, json"),
]


@pytest.mark.parametrize(("kind", "text", "message", "problem"), INVALID, ids=[row[3] for row in INVALID])
def test_an_invalid_schema_is_refused_with_the_reason(kind: str, text: str, message: str, problem: str) -> None:
    with pytest.raises(SchemaError) as refused:
        checked_schema(kind, text, message)
    assert problem in str(refused.value)


def test_stored_fields_that_have_no_form_in_json_can_be_compared() -> None:
    assert unreadable(Schema(JSON, "at TIME, m MAP<INT, INT>"), Schema(JSON, "at TIME, m MAP<INT, INT>")) == []


def test_keys_of_maps_are_texts() -> None:
    assert checked_schema(JSON, "a MAP<STRING, INT>, b MAP<VARCHAR(3), MAP<CHAR(2), VARIANT>>")


def test_comparing_takes_a_bounded_number_of_steps() -> None:
    branches = [record(name=f"R{number}") for number in range(800)]
    many = Schema(AVRO, json.dumps(branches))
    with pytest.raises(SchemaError, match="too complex"):
        unreadable(many, Schema(AVRO, json.dumps(branches[::-1])))
    deep: list[object] = [record(name="R0")]
    deep += [record(field("a", f"R{number - 1}"), name=f"R{number}") for number in range(1, 500)]
    chain = Schema(AVRO, json.dumps([*deep, record(field("a", "R499"), field("b", "R499"), name="Top")]))
    assert checked_schema(*chain)
    with pytest.raises(SchemaError, match="too complex"):
        unreadable(chain, chain._replace(text=chain.text.replace("shop", "shop2")))


def test_the_id_follows_from_the_content() -> None:
    one, same = checked_schema(AVRO, '{"type": "int"}'), checked_schema(AVRO, ' {"type":\n"int"} ')
    assert one == same
    assert len(one.id) == 16
    others = [Schema(JSON, "a INT"), Schema(JSON, "b INT"), Schema(PROTOBUF, "x", "A"), Schema(PROTOBUF, "x", "B")]
    assert len({each.id for each in (one, *others)}) == 5
