"""Strict checks of a JSON body against a schema of Spark.

A body matches if it is exactly one JSON object in UTF-8, without a byte order mark, without text before or after it and
without duplicate keys, and if each declared field has a value of its type. Names are case-sensitive, NaN and Infinity
are no JSON, and no value is converted: a number is no string, ``1.0`` is no INT, ``"1"`` is no DOUBLE.

    STRING, BOOLEAN              a string; true or false
    TINYINT, SMALLINT, INT, BIGINT   a number without fraction or exponent, within the range of the type
    FLOAT, DOUBLE, DECIMAL(p,s)  a number within the range; for DECIMAL within precision and scale
    DATE, TIMESTAMP, TIMESTAMP_NTZ   a string in ISO 8601, as 2031-05-01 or 2031-05-01T12:00:00Z; NTZ without offset
    BINARY                       a string in base64
    ARRAY, MAP<STRING, ...>, STRUCT   an array; an object; an object with the declared fields
    VARIANT                      any value
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NoReturn

from pyspark.sql import types as T

from leveret.errors import ConfigError
from leveret.spark.row_errors import row_error

BOM = b"\xef\xbb\xbf"
INTEGERS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
CORRUPT = "_does_not_fit"  # the column for what the check lets pass and Spark cannot read
LARGEST_FLOAT = 3.4028234663852886e38
Check = Callable[[Any, str], "str | None"]  # value and path to the reason, if it does not match


class _Duplicate(ValueError):
    """An object has a key twice."""


def checker_of(schema: T.StructType) -> Callable[[bytes | None], str | None]:
    """The function from a body to the reason why it does not match, None if it does."""
    check = _struct(schema)
    decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_refuse).raw_decode

    def reason(body: bytes | None) -> str | None:
        if body is None or body.startswith(BOM):
            return "the body is no JSON" if body is None else "the body starts with a byte order mark"
        try:
            text = bytes(body).decode()
            start = len(text) - len(text.lstrip(" \t\r\n"))
            value, end = decode(text, start)
        except _Duplicate as duplicate:
            return row_error(str(duplicate))
        except (ValueError, ArithmeticError, RecursionError):
            return "the body is no JSON"
        if text[end:].strip(" \t\r\n"):
            return "the body has text after the JSON"
        if not isinstance(value, dict):
            return "the body is no JSON object"
        found = check(value, "")
        return None if found is None else row_error(found)

    return reason


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise _Duplicate(f"the field {next(name for name in names if names[name] > 1)} appears twice")
    return found


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _check_of(kind: T.DataType) -> Check:
    match kind:
        case T.StructType():
            return _struct(kind)
        case T.ArrayType():
            return _array(kind)
        case T.MapType(keyType=T.StringType()):
            return _map(kind)
        case _:
            fits, name = _simple(kind), kind.simpleString()
            return lambda value, path: None if fits(value) else f"the field {path} is not {name}"


def _present(kind: T.DataType, nullable: bool) -> Check:
    check = _check_of(kind)

    def present(value: Any, path: str) -> str | None:
        if value is None:
            return None if nullable else f"the field {path} is missing"
        return check(value, path)

    return present


def _struct(kind: T.StructType) -> Check:
    name = kind.simpleString()
    fields = [(field.name, _present(field.dataType, field.nullable)) for field in kind.fields]

    def check(value: Any, path: str) -> str | None:
        if not isinstance(value, dict):
            return f"the field {path} is not {name}"
        dot = f"{path}." if path else ""
        found = (check_field(value.get(field), f"{dot}{field}") for field, check_field in fields)
        return next((reason for reason in found if reason is not None), None)

    return check


def _array(kind: T.ArrayType) -> Check:
    name, check_item = kind.simpleString(), _present(kind.elementType, kind.containsNull)

    def check(value: Any, path: str) -> str | None:
        if not isinstance(value, list):
            return f"the field {path} is not {name}"
        found = (check_item(item, f"{path}[{at}]") for at, item in enumerate(value))
        return next((reason for reason in found if reason is not None), None)

    return check


def _map(kind: T.MapType) -> Check:
    name, check_item = kind.simpleString(), _present(kind.valueType, kind.valueContainsNull)

    def check(value: Any, path: str) -> str | None:
        if not isinstance(value, dict):
            return f"the field {path} is not {name}"
        found = (check_item(item, f"{path}.{key}") for key, item in value.items())
        return next((reason for reason in found if reason is not None), None)

    return check


def _simple(kind: T.DataType) -> Callable[[Any], bool]:
    match kind:
        case T.StringType():
            return lambda value: isinstance(value, str)
        case T.BooleanType():
            return lambda value: isinstance(value, bool)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            limit = 1 << (INTEGERS[type(kind)] - 1)
            return lambda value: type(value) is int and -limit <= value < limit
        case T.DoubleType():
            return lambda value: type(value) in (int, Decimal) and math.isfinite(_float(value))
        case T.FloatType():
            return lambda value: type(value) in (int, Decimal) and abs(_float(value)) <= LARGEST_FLOAT
        case T.DecimalType():
            precision, scale = kind.precision, kind.scale
            return lambda value: type(value) in (int, Decimal) and _has_digits(Decimal(value), precision, scale)
        case T.VariantType():
            return lambda value: True
    return _text(kind)


def _text(kind: T.DataType) -> Callable[[Any], bool]:
    match kind:
        case T.DateType():
            return lambda value: _parses(date.fromisoformat, value)
        case T.TimestampType():
            return lambda value: _parses(datetime.fromisoformat, value)
        case T.TimestampNTZType():
            return lambda value: _parses(_local_time, value)
        case T.BinaryType():
            return lambda value: _parses(lambda text: b64decode(text, validate=True), value)
    raise ConfigError(f"--schema has the type {kind.simpleString()}, which JSON has no form for: use --mode lenient")


def _float(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _has_digits(value: Decimal, precision: int, scale: int) -> bool:
    """Trailing zeros do not count: 1.50 is a DECIMAL(2, 1)."""
    if value == 0:
        return True
    _, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    places = len(text.rstrip("0")) - len(text) - int(exponent)
    return places <= scale and value.adjusted() < precision - scale


def _local_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError("a time with an offset")
    return moment


def _parses(parse: Callable[[str], object], value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parse(value)
    except ValueError:
        return False
    return True
