"""The Spark types of Avro schemas.

| Avro | Spark |
|---|---|
| record, array, map | struct, array, map<string, ...> |
| union of null and another type | that type; all columns are nullable |
| union of int and long, of float and double | bigint, double |
| enum, fixed | string, binary |
| date, timestamp-millis, timestamp-micros, local-timestamp-... | date, timestamp, timestamp_ntz |
| decimal of at most 38 digits | decimal |

Other logical types are read as the type that they annotate. Recursive types and other unions have no Spark type.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from leveret.schemas.avro import AvroType
from leveret.spark.errors import OptionError

SIMPLE: dict[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
UNITED = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
MOST_DIGITS = 38
DEEPEST = 64


def type_of_avro(kind: AvroType, path: str = "", inside: tuple[AvroType, ...] = ()) -> DataType:
    """OptionError: Spark has no such type."""
    place = f"the field {path.removeprefix('.')}" if path else "the schema"
    if kind in inside or len(inside) > DEEPEST:
        raise OptionError(f"{place} of the Avro schema is recursive ({kind}): Spark has no recursive types")
    if kind.kind == "union":
        return type_of_avro(_only_branch(kind, place), path, inside)
    if kind.kind == "record":
        inner = (*inside, kind)
        return StructType(
            [StructField(field.name, type_of_avro(field.type, f"{path}.{field.name}", inner)) for field in kind.fields]
        )
    if kind.kind == "array":
        return ArrayType(type_of_avro(kind.inner[0], f"{path}[]", inside))
    if kind.kind == "map":
        return MapType(StringType(), type_of_avro(kind.inner[0], f"{path}[]", inside))
    if is_decimal(kind.logical, kind.precision):
        return DecimalType(kind.precision, kind.scale)
    return LOGICAL.get((kind.kind, kind.logical), SIMPLE[kind.kind])


def _only_branch(union: AvroType, place: str) -> AvroType:
    branches = [branch for branch in union.inner if branch.kind != "null"]
    united = UNITED.get(frozenset(branch.kind for branch in branches if not branch.logical))
    if len(branches) == 2 and united is not None:
        return AvroType(united)
    if len(branches) > 1:
        raise OptionError(
            f"{place} of the Avro schema is {union}: Spark has a type only for a union of null and one type; read it "
            "with a schema that has one of them"
        )
    return branches[0] if branches else AvroType("null")


def is_recursive(kind: AvroType) -> bool:
    """Whether a type contains itself."""
    inside: set[AvroType] = set()
    done: set[AvroType] = set()

    def repeats(one: AvroType) -> bool:
        if one in done or one in inside:
            return one in inside
        inside.add(one)
        found = any(repeats(part) for part in (*one.inner, *(field.type for field in one.fields)))
        inside.discard(one)
        done.add(one)
        return found

    return repeats(kind)


def is_decimal(logical: object, precision: object) -> bool:
    return logical == "decimal" and isinstance(precision, int) and precision <= MOST_DIGITS


def without_other_logical(node: Any) -> Any:
    """The schema without the logical types that have no Spark type, such as uuid and time-millis."""
    if isinstance(node, list):
        return [without_other_logical(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: value if key == "default" else without_other_logical(value) for key, value in node.items()}
    logical = node.get("logicalType")
    if (str(node.get("type")), str(logical)) not in LOGICAL and not is_decimal(logical, node.get("precision")):
        found.pop("logicalType", None)
    return found
