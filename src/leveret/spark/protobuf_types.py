"""The Spark types of Protobuf messages, and the values of messages as Spark has them.

| Protobuf | Spark |
|---|---|
| message, repeated, map | struct, array, map |
| enum | string |
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int; bigint |
| uint32, fixed32; uint64, fixed64 | bigint; decimal(20,0) |
| google.protobuf.Timestamp | timestamp |

A field with presence (a message, ``optional``, ``oneof``) that is not set is null; other fields have their default.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret.spark.errors import OptionError

SIMPLE: dict[int, DataType] = {
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_ENUM: StringType(),
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_UINT32: LongType(),
    FieldDescriptor.TYPE_FIXED32: LongType(),
    FieldDescriptor.TYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.TYPE_FIXED64: DecimalType(20, 0),
}
LARGE = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
TIMESTAMP = "google.protobuf.Timestamp"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def type_of_message(message: Descriptor, inside: tuple[str, ...] = ()) -> StructType:
    """OptionError: Spark has no such type."""
    if message.full_name in inside:
        raise OptionError(f"the Protobuf message {message.full_name} is recursive: Spark has no recursive types")
    inner = (*inside, message.full_name)
    return StructType([StructField(field.name, _type_of_field(field, inner)) for field in message.fields])


def _type_of_field(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_type_of_value(entry["key"], inside), _type_of_value(entry["value"], inside))
    kind = _type_of_value(field, inside)
    return ArrayType(kind) if field.is_repeated else kind


def _type_of_value(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return SIMPLE[field.type]
    if field.message_type.full_name == TIMESTAMP:
        return TimestampType()
    return type_of_message(field.message_type, inside)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# ---- values


def row_of(message: Message) -> dict[str, Any]:
    return {field.name: _value_of(message, field) for field in message.DESCRIPTOR.fields}


def _value_of(message: Message, field: FieldDescriptor) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of = field.message_type.fields_by_name
        return [(_single(of["key"], key), _single(of["value"], value[key])) for key in value]
    return [_single(field, each) for each in value] if field.is_repeated else _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        return row_of(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return Decimal(value) if field.type in LARGE else value


def fill(message: Message, row: dict[str, Any]) -> None:
    """Set the fields of the message from a row; null leaves a field unset."""
    for name, value in row.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"{message.DESCRIPTOR.full_name} has no field '{name}'")
        if value is None:
            continue
        if _is_map(field):
            _fill_map(getattr(message, name), field, value)
        elif field.is_repeated:
            _fill_list(getattr(message, name), field, value)
        elif field.message_type is not None:
            _fill_message(getattr(message, name), value)
        else:
            setattr(message, name, _plain(field, value))


def _fill_map(target: Any, field: FieldDescriptor, value: dict[Any, Any]) -> None:
    of = field.message_type.fields_by_name
    for key, each in value.items():
        if of["value"].message_type is not None:
            _fill_message(target[_plain(of["key"], key)], each)
        else:
            target[_plain(of["key"], key)] = _plain(of["value"], each)


def _fill_list(target: Any, field: FieldDescriptor, value: list[Any]) -> None:
    for each in value:
        if field.message_type is not None:
            _fill_message(target.add(), each)
        else:
            target.append(_plain(field, each))


def _fill_message(target: Any, value: Any) -> None:
    if isinstance(value, datetime):
        since = value - EPOCH
        target.seconds, target.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000
    else:
        target.SetInParent()
        fill(target, value)


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"{field.enum_type.full_name} has no value '{value}'")
        return known.number
    return int(value) if field.type in LARGE else value
