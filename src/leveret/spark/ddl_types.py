"""The Spark types of DDL, without a Spark session: workers have none."""

from __future__ import annotations

from pyspark.sql import types as T

from leveret.schemas.ddl import DdlType, parse_ddl

SIMPLE: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "char": T.StringType(),
    "varchar": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "time": T.TimeType(),
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "variant": T.VariantType(),
}


def struct_of_ddl(text: str) -> T.StructType:
    return _struct(parse_ddl(text))


def _struct(kind: DdlType) -> T.StructType:
    return T.StructType([T.StructField(field.name, _type(field.type), field.nullable) for field in kind.fields])


def _type(kind: DdlType) -> T.DataType:
    if kind.kind == "struct":
        return _struct(kind)
    if kind.kind == "array":
        return T.ArrayType(_type(kind.inner[0]))
    if kind.kind == "map":
        return T.MapType(_type(kind.inner[0]), _type(kind.inner[1]))
    if kind.kind == "decimal":
        return T.DecimalType(*kind.sizes)
    return SIMPLE[kind.kind]
