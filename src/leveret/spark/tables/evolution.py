"""How the schema of a table may change: new columns and new fields of structs are added, and types never change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql.types import ArrayType, BooleanType, DataType, DateType, IntegralType, MapType, StringType, StructType

from leveret.errors import ConfigError

PARTITION_TYPES = (StringType, IntegralType, DateType, BooleanType)


def has_additions(table: str, old: StructType, new: StructType) -> bool:
    """Whether ``new`` has columns that the table lacks. Refuses columns that have another type in the table."""
    changes = list(_changes(old, new, ""))
    for place, before, now in changes:
        if before is not None:
            raise ConfigError(
                f"table {table}: column {place} is {before.simpleString()}, not {now.simpleString()}: "
                "declare it with its type in the table, give the field another name, or write to a new table"
            )
    return bool(changes)


def _changes(old: DataType, new: DataType, place: str) -> Iterator[tuple[str, DataType | None, DataType]]:
    """The place of each difference with the type there in the table, which is None if it has to be added."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        known = {field.name.lower(): field for field in old.fields}
        for field in new.fields:
            at = f"{place}.{field.name}" if place else field.name
            same = known.get(field.name.lower())
            if same is None:
                yield at, None, field.dataType
            elif same.name != field.name:  # files are read by the exact name, others would be null
                raise ConfigError(
                    f"column {at} has the name of column {same.name} of the table, except for upper case: call it "
                    f"{same.name}, or give it another name"
                )
            else:
                yield from _changes(same.dataType, field.dataType, at)
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _changes(old.elementType, new.elementType, f"{place}.element")
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _changes(old.keyType, new.keyType, f"{place}.key")
        yield from _changes(old.valueType, new.valueType, f"{place}.value")
    elif old.simpleString() != new.simpleString():
        yield place, old, new


def check_partitions(table: str, old: Sequence[str], new: Sequence[str]) -> None:
    if list(old) != list(new):
        raise ConfigError(
            f"table {table} is partitioned by {', '.join(old) or 'nothing'}, not by {', '.join(new) or 'nothing'}: "
            f"use --partition-by {','.join(old) or repr('')}, or write to a new table"
        )


def check_partition_columns(schema: StructType, by: Sequence[str]) -> None:
    for name in by:
        if name not in schema.fieldNames():
            raise ConfigError(
                f"--partition-by {name}: there is no such column; choose among {', '.join(schema.fieldNames())}, "
                "date and hour"
            )
        if not isinstance(schema[name].dataType, PARTITION_TYPES):
            raise ConfigError(
                f"--partition-by {name}: {schema[name].dataType.simpleString()} is not possible; "
                "choose a string, a number without fraction, a date or a boolean"
            )
    if by and len(by) == len(schema.fields):
        raise ConfigError("--partition-by names every column: a table needs one column that is not of its partitions")
