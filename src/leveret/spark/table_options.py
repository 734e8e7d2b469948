"""The options of `CREATE TABLE ... USING leveret OPTIONS (...)`.

Spark passes the options of a table when the table is created without columns, to get its columns (each option twice, by
its name and with the prefix `option.`, beside properties such as `provider`). It does not pass them to a Python source
when the table is read. So they are stored in the metadata of the first column, which Spark keeps in its catalog and
passes back with the schema. Options of the query (`SELECT ... FROM t WITH (...)`) come first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

PREFIX = "option."
PROVIDER = "provider"  # a property that every table has
METADATA = "leveret"

Options = Mapping[str, str]


def options_of_table(options: Options) -> dict[str, str] | None:
    """The options in a statement that creates a table; None in any other place."""
    if PROVIDER not in options:
        return None
    return {name[len(PREFIX) :]: value for name, value in options.items() if name.startswith(PREFIX)}


def with_options(schema: StructType, options: Options) -> StructType:
    first, *others = schema.fields
    kept = StructField(first.name, first.dataType, first.nullable, {METADATA: json.dumps(dict(options))})
    return StructType([kept, *others])


def read_options(schema: StructType, options: Options) -> dict[str, str]:
    """The options of a read: those of the table, if it reads one, and those of the query."""
    texts = [field.metadata[METADATA] for field in schema.fields if METADATA in (field.metadata or {})]
    of_table: dict[str, str] = json.loads(texts[0]) if texts else {}
    given = {name.lower() for name in options}
    return {name: value for name, value in of_table.items() if name.lower() not in given} | dict(options)
