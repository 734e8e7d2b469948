"""The record batches that Spark expects, made from those that the broker sends.

Columns that are the same in all rows are not sent but made here: queue and partition, which are known in advance,
headers that were not asked for, and the constants of a batch, which the broker puts into the metadata of the schema
(pipeline/constant_columns.py of the broker). Each is made once, for the largest batch so far; other batches get a slice
of it. Spark compares schemas exactly and takes neither dictionaries nor run-end encoded columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from leveret.spark.schema import SCHEMA, arrow_fields, refuse_unknown_columns

KNOWN = ("queue", "partition")
CONSTANTS = b"constants"
MOST_MADE = 256  # arrays: constants of the broker may be different in each batch

Constants = Mapping[str, object]


class Shape:
    """The columns of a query."""

    def __init__(self, schema: StructType, *, headers: bool) -> None:
        refuse_unknown_columns(schema)
        self.names = tuple(schema.fieldNames())
        self._schema = pa.schema(arrow_fields(schema))
        self._made = frozenset(KNOWN) if headers else frozenset({*KNOWN, "headers"})

    @property
    def columns(self) -> str:
        """The columns to request. The offset is always included: an interrupted fetch continues after the last one."""
        wanted = ({*self.names} - self._made) | {"offset"}
        return ",".join(name for name in SCHEMA.fieldNames() if name in wanted)

    @property
    def query(self) -> dict[str, str]:
        """Parameters of a request for messages."""
        return {"columns": self.columns, "omit_constants": "true"}

    def of(self, queue: str, partition: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Converts the batches of one fetch."""
        known = {"queue": queue, "partition": partition, "headers": None}
        return _Shaping(self._schema, {name: known[name] for name in self._made}).shaped


class _Shaping:
    def __init__(self, schema: pa.Schema, known: Constants) -> None:
        self._schema = schema
        self._known = known
        self._made: dict[tuple[str, str], pa.Array] = {}  # by column and value

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        metadata = batch.schema.metadata or {}
        constants = json.loads(metadata.get(CONSTANTS, b"{}")) | self._known
        columns = [self._column(batch, field, constants) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, constants: Constants) -> pa.Array:
        if field.name not in constants:
            column = batch.column(field.name)
            return column if column.type.equals(field.type) else column.cast(field.type)
        if field.name == "properties" and field.name in batch.schema.names:
            return self._properties(batch, field, constants[field.name])
        return self._repeated(field.name, field.type, constants[field.name], batch.num_rows)

    def _properties(self, batch: pa.RecordBatch, field: pa.Field, constants: object) -> pa.Array:
        """A struct of which the broker has sent some fields."""
        assert isinstance(constants, dict)
        sent = batch.column(field.name)
        fields = [
            self._repeated(f"properties.{each.name}", each.type, constants[each.name], batch.num_rows)
            if each.name in constants
            else sent.field(each.name)
            for each in field.type
        ]
        return pa.StructArray.from_arrays(fields, fields=list(field.type))

    def _repeated(self, name: str, kind: pa.DataType, value: object, rows: int) -> pa.Array:
        key = name, repr(value)
        made = self._made.get(key)
        if made is None or len(made) < rows:
            if len(self._made) >= MOST_MADE:
                self._made.clear()
            made = self._made[key] = pa.nulls(rows, kind) if value is None else repeated(value, kind, rows)
        return made if len(made) == rows else made.slice(0, rows)


def repeated(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    """A column with this value in all rows."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        fields = [
            pa.nulls(rows, each.type) if value[each.name] is None else repeated(value[each.name], each.type, rows)
            for each in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    if isinstance(value, dict):  # an empty map
        return pa.repeat(pa.scalar([], kind), rows)
    return pa.repeat(pa.scalar(value, kind), rows)
