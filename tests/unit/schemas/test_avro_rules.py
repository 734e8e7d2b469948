"""What is refused of Avro schemas that are added, and read all the same if it is stored already."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest

from leveret.schemas.avro import parse_avro
from leveret.schemas.errors import SchemaError
from leveret.schemas.schema import AVRO, Schema, checked_schema, unreadable
from tests.support.schema_bombs import default_of_many_branches, field, record


def enum(*symbols: str) -> object:
    return {"type": "enum", "name": "Kind", "symbols": list(symbols)}


def decimal(kind: object, precision: int, scale: int) -> dict[str, Any]:
    return {**(kind if isinstance(kind, dict) else {"type": kind}), **_decimal(precision, scale)}


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"logicalType": "decimal", "precision": precision, "scale": scale}


FIXED = {"type": "fixed", "name": "F", "size": 4}
ROWS: list[tuple[str, object, str]] = [
    ("a symbol that is no name", enum("a-b"), "the symbol 'a-b' of the Avro enum Kind is invalid"),
    ("a symbol of other letters", enum("\u00e9"), "is invalid: use letters, digits and underscores"),
    ("a symbol twice", enum("A", "B", "A"), "the Avro enum Kind has a symbol twice"),
    ("a scale above the precision", decimal("bytes", 2, 3), "the precision 2 and the scale 3"),
    ("a scale above that of an int", decimal("int", 2, 3), "the precision 2 and the scale 3"),
    ("a negative scale", decimal("bytes", 2, -1), "the scale -1"),
    ("digits that do not fit", decimal(FIXED, 10, 0), "has 4 bytes, which is not enough for decimals of 10 digits"),
    ("an object around a name", [record("A"), {"type": "array", "items": {"type": "A"}}], "write the name of"),
    ("an object around a type", {"type": {"type": "map", "values": "int"}}, "write the inner type alone"),
    (
        "a name of no namespace",
        [record("A"), record("x.B", field("a", "A"))],
        "refers to 'A' in the namespace 'x', where it is not defined",
    ),
    ("parsed by fastavro", fastavro.parse_schema(json.loads('{"type":"record","name":"A","fields":[]}')), "fastavro"),
]


@pytest.mark.parametrize(("node", "problem"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_other_implementations_refuse_is_refused(node: object, problem: str) -> None:
    text = json.dumps(node)
    with pytest.raises(SchemaError) as refused:
        checked_schema(AVRO, text)
    assert problem in str(refused.value)
    assert unreadable(Schema(AVRO, text), Schema(AVRO, text)) == [], "a schema that is stored"


@pytest.mark.parametrize(
    "node",
    [
        decimal(FIXED, 9, 9),
        decimal("bytes", 38, 0),
        [record("x.A"), record("x.B", field("a", "A"), field("b", "x.A"))],
        enum("A", "_b1"),
        {"type": "string", "logicalType": "uuid"},
    ],
)
def test_what_fastavro_accepts_is_accepted(node: object) -> None:
    fastavro.parse_schema(json.loads(checked_schema(AVRO, json.dumps(node)).text))


@pytest.mark.parametrize(
    "node",
    [
        record("A", field("a", "A")),
        record("A", field("n", "int"), field("b", record("B", field("a", "A")))),
        record("A", field("a", ["A"])),
        record("A", field("b", ["A", record("B", field("a", "A"))])),
    ],
    ids=["itself", "another one", "a union of itself", "a union of endless ones"],
)
def test_a_record_that_always_contains_itself_is_refused(node: object) -> None:
    with pytest.raises(SchemaError, match="contains itself in each of its values, which have no end"):
        checked_schema(AVRO, json.dumps([node, "null"]))
    assert parse_avro(json.dumps(node)).name == "A"


@pytest.mark.parametrize(
    "kind", [["null", "A"], {"type": "array", "items": "A"}, {"type": "map", "values": "A"}, ["A", record("B")]]
)
def test_a_record_may_contain_itself_if_its_values_end(kind: object) -> None:
    assert checked_schema(AVRO, json.dumps(record("A", field("a", kind))))


def test_many_records_in_any_order_are_finite() -> None:
    chain = [record("R0", field("n", "int"))]
    chain += [record(f"R{number}", field("a", f"R{number - 1}")) for number in range(1, 700)]
    assert checked_schema(AVRO, json.dumps(chain))
    nested: dict[str, Any] = record("N0", field("n", "int"))
    for number in range(1, 15):
        nested = record(f"N{number}", field("a", nested))
    assert checked_schema(AVRO, json.dumps(nested))


@pytest.mark.parametrize(
    "items",
    [
        "null",
        record("A"),
        {"type": "fixed", "name": "F", "size": 0},
        record("A", field("b", record("B", field("n", "null"))), field("c", "B")),
    ],
)
def test_arrays_of_values_without_bytes_are_refused(items: object) -> None:
    text = json.dumps(record("T", field("a", ["null", {"type": "array", "items": items}])))
    with pytest.raises(SchemaError, match="whose values have no bytes"):
        checked_schema(AVRO, text)
    assert parse_avro(text).name == "T"


def test_values_without_bytes_are_accepted_elsewhere() -> None:
    assert checked_schema(
        AVRO, json.dumps(record("T", field("m", {"type": "map", "values": "null"}), field("n", "null")))
    )
    assert checked_schema(AVRO, json.dumps({"type": "array", "items": ["null", record("A")]}))
    assert checked_schema(
        AVRO, json.dumps(record("T", field("l", {"type": "array", "items": record("A", field("t", ["null", "T"]))})))
    )


def doubled(levels: int) -> str:
    """Each record has the one before twice."""
    fields = [field("f0", record("R0"))]
    for level in range(1, levels):
        before = f"R{level - 1}"
        fields.append(field(f"f{level}", record(f"R{level}", field("a", before), field("b", ["null", before]))))
    return json.dumps(record("T", *fields))


def test_records_that_repeat_records_have_a_limited_number_of_fields() -> None:
    assert checked_schema(AVRO, doubled(14))
    assert checked_schema(AVRO, json.dumps(record("A", field("a", ["null", "A"]), field("b", ["null", "A"]))))
    for levels in (20, 300):
        with pytest.raises(SchemaError, match="has more than 100000 fields"):
            checked_schema(AVRO, doubled(levels))


@pytest.mark.parametrize("depth", [20, 250])
def test_a_default_takes_a_bounded_number_of_steps(depth: int) -> None:
    with pytest.raises(SchemaError, match="too complex"):
        checked_schema(AVRO, default_of_many_branches(depth))


def test_a_default_may_have_many_values_and_be_nested() -> None:
    symbols = [f"s{number}" for number in range(3_000)]
    array = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": symbols}}
    assert checked_schema(AVRO, json.dumps(record("T", field("a", array, default=symbols))))
    value: Any = None
    for _ in range(20):
        value = {"next": value}
    node = record("Node", field("next", ["null", "Node"]))
    assert checked_schema(AVRO, json.dumps(record("T", field("n", node, default=value))))
    with pytest.raises(SchemaError, match=r"the default \[0\] of the field 'a' of 'T' is not of the type array"):
        checked_schema(AVRO, json.dumps(record("T", field("a", {"type": "array", "items": "string"}, default=[0]))))
