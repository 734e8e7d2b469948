"""Strict checks of JSON bodies: exactly one object, of the declared types."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from leveret.errors import ConfigError
from leveret.spark.jobs.json_check import checker_of

INT = T.IntegerType()


def schema(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


NO_JSON = "the body is no JSON"
WHOLE = [
    (b'{"a": 1}', None),
    (b' \r\n\t{"a": 1}\n', None),
    ('{"a": 1, "other": "ä"}'.encode(), None),
    (b'{"A": 1}', None),  # names are case-sensitive: a is null
    (None, NO_JSON),
    (b"", NO_JSON),
    (b"  ", NO_JSON),
    (b'{"a": 1', NO_JSON),
    (b"{'a': 1}", NO_JSON),
    (b'{"a": NaN}', NO_JSON),
    (b'{"a": -Infinity}', NO_JSON),
    (b'{"a": 01}', NO_JSON),
    (b'{"a": "\x80"}', NO_JSON),
    (b'{"a": 1e99999999999999999999}', NO_JSON),
    ('\u00a0{"a": 1}'.encode(), NO_JSON),
    (b"[" * 100_000, NO_JSON),
    (b'{"a": 1} x', "the body has text after the JSON"),
    (b'{"a": 1}{"a": 1}', "the body has text after the JSON"),
    (b'{"a": 1}\x00', "the body has text after the JSON"),
    (b'\xef\xbb\xbf{"a": 1}', "the body starts with a byte order mark"),
    (b'{"a": 1, "a": 1}', "the field a appears twice"),
    (b'{"b": {"c": 1, "c": 2}}', "the field c appears twice"),
    (b'{"\\ud800": 1, "\\ud800": 2}', r"the field \ud800 appears twice"),
    (b'{"%s": 1, "%s": 2}' % ((b"c" * 70_000,) * 2), "the field " + "c" * 490),
    (b'{%s, "z": 1, "z": 2}' % b", ".join(b'"%d": 1' % n for n in range(100_000)), "the field z appears twice"),
    (b"1", "the body is no JSON object"),
    (b"null", "the body is no JSON object"),
]


@pytest.mark.parametrize(("body", "reason"), WHOLE)
def test_a_body_is_exactly_one_object(body: bytes | None, reason: str | None) -> None:
    assert checker_of(schema(a=INT))(body) == reason


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (T.StringType(), ['"1"', '""'], ["1", "true", "{}", "[]"]),
        (T.BooleanType(), ["true", "false"], ["0", '"true"']),
        (T.ByteType(), ["127", "-128"], ["128", "-129", "1.0", "1e1", "true", '"1"']),
        (INT, ["2147483647"], ["2147483648"]),
        (T.LongType(), ["9223372036854775807"], ["9223372036854775808"]),
        (T.DoubleType(), ["1", "1.5", "1e308"], ["1e309", "1" + "0" * 400, "true", '"1"']),
        (T.FloatType(), ["3.4e38"], ["3.5e38"]),
        (T.DecimalType(3, 1), ["12.3", "12.30", "0.000", "-99.9", "1e1"], ["12.34", "100", "1e2", '"1"']),
        (T.DecimalType(38, 2), ["1" * 36 + ".11"], ["1" * 37]),
        (T.DateType(), ['"2031-05-01"'], ['"2031-13-01"', '"someday"', "20310501"]),
        (T.TimestampType(), ['"2031-05-01T12:00:00Z"', '"2031-05-01 12:00:00.5+02:00"'], ['"soon"', "1"]),
        (T.TimestampNTZType(), ['"2031-05-01T12:00:00"'], ['"2031-05-01T12:00:00Z"']),
        (T.BinaryType(), ['"AAE="'], ['"AAE"', '"*"', "1"]),
        (T.ArrayType(INT), ["[]", "[1, null]"], ["{}", '"[]"']),
        (T.MapType(T.StringType(), INT), ['{"x": 1}', "{}"], ["[]"]),
        (T.StructType().add("b", INT), ['{"b": 1, "c": 2}', "{}"], ["[]", "1"]),
        (T.VariantType(), ["1", '"x"', "[{}]"], []),
    ],
)
def test_values_have_the_declared_type(kind: T.DataType, good: list[str], bad: list[str]) -> None:
    check = checker_of(schema(a=kind))
    for value in [*good, "null"]:
        assert check(b'{"a": %s}' % value.encode()) is None, value
    for value in bad:
        assert str(check(b'{"a": %s}' % value.encode())).startswith("the field a is not "), value


def test_the_reason_names_the_place() -> None:
    lines = T.ArrayType(T.StructType().add("b", INT, nullable=False))
    whole = schema(a=lines, m=T.MapType(T.StringType(), INT)).add("id", T.StringType(), nullable=False)
    check = checker_of(whole)
    assert check(b'{"id": "1", "a": [{"b": 1}, {"b": "x"}]}') == "the field a[1].b is not int"
    assert check(b'{"id": "1", "a": [{"b": 1}, {}]}') == "the field a[1].b is missing"
    assert check(b'{"id": "1", "m": {"x": 1, "y": []}}') == "the field m.y is not int"
    assert check(b'{"id": null}') == check(b"{}") == "the field id is missing"


def test_types_without_a_form_in_json_are_refused_at_the_start() -> None:
    with pytest.raises(
        ConfigError, match="type interval day to second, which JSON has no form for: use --mode lenient"
    ):
        checker_of(schema(a=T.DayTimeIntervalType()))
    with pytest.raises(ConfigError, match="type map<int,int>"):
        checker_of(schema(a=T.MapType(INT, INT)))
