"""to-jdbc: writes the fields of messages to a PostgreSQL table, exactly once; a row replaces that with its key.

A batch is one transaction of the database with the number of the batch, so a batch that is repeated after a crash
changes nothing. The newest message of a key wins: the last one by arrival, or that with the highest ``--newest-by``. A
body that does not match goes to ``--dead-letter-exchange`` with the reason; without one, the pipeline fails.

All rows pass through the driver, one partition of Spark at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from leveret.errors import ConfigError
from leveret.spark.credentials import first_line
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.batch_writer import BatchOptions, write_batches
from leveret.spark.jobs.fields import REASON, VALUE, check_names, check_schemas, fields_of, names_in, with_fields
from leveret.spark.jobs.job import Job, setting
from leveret.spark.jobs.messages import read_stream
from leveret.spark.jobs.refusals import publish_refused
from leveret.spark.jobs.running_job import Queries
from leveret.spark.schema import SCHEMA
from leveret.spark.tables.postgres import Postgres, Target, Value

TYPES: dict[type[DataType], str] = {
    StringType: "text",
    BinaryType: "bytea",
    BooleanType: "boolean",
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    DateType: "date",
    TimestampType: "timestamptz",
    TimestampNTZType: "timestamp",
}
NUL = r"(?<!\\)(\\\\)*\\u0000"  # in JSON
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True, kw_only=True)
class ToJdbcOptions(BatchOptions):
    table: str = setting("Table, as NAME or SCHEMA.NAME; it is created if it does not exist.")
    key: str = setting("Columns that identify a row.", metavar="COLUMNS")
    schema: str | None = setting(
        "Fields of a JSON body, such as id STRING NOT NULL, amount DOUBLE.", None, metavar="DDL"
    )
    schema_name: str | None = setting(
        "Schema of the broker's registry instead of --schema: json, avro or protobuf.", None, metavar="NAME[:VERSION]"
    )
    database: str = setting(
        "PostgreSQL URL without a password.  [default: PGHOST, PGDATABASE, PGUSER]", "", metavar="URL"
    )
    database_credentials_file: str | None = setting(
        "File with the password of the database.  [default: PGPASSWORD, PGPASSFILE]", None, metavar="FILE"
    )
    keep: str = setting("Columns of the message to write too, such as timestamp.", "", metavar="COLUMNS")
    newest_by: str | None = setting(
        "Column whose highest value wins, such as a version.  [default: the last message to arrive]",
        None,
        metavar="COLUMN",
    )
    dead_letter_exchange: str | None = setting(
        "Exchange for messages that do not match the schema.", None, metavar="EXCHANGE"
    )

    def check(self) -> None:
        super().check()
        check_schemas(self.schema, self.schema_name)
        if self.schema is None and self.schema_name is None:
            raise ConfigError("set --schema or --schema-name: the fields of a body are the columns of the table")


def start(spark: SparkSession, options: ToJdbcOptions) -> Queries:
    messages = checked(read_stream(spark, options, "to-jdbc"), options)
    schema = fields_of(messages)
    check_columns(schema, options)
    password = None if options.database_credentials_file is None else credentials(options.database_credentials_file)
    database = Postgres(options.database, password, target_of(schema, options))
    database.prepare()
    writer = JdbcWriter(database, schema, options)
    return write_batches(messages, options, "to-jdbc", writer.write, twice=options.dead_letter_exchange is not None)


def credentials(file: str) -> str:
    return first_line(file, "--database-credentials-file")


def check_columns(schema: StructType, options: ToJdbcOptions) -> None:
    keep, key = names_in(options.keep), names_in(options.key)
    check_names(schema, keep)
    known = (*keep, *schema.fieldNames())
    for name in (*key, *([options.newest_by] if options.newest_by else [])):
        if name not in known:
            raise ConfigError(f"column {name} is neither in the schema nor in --keep: choose among {', '.join(known)}")
    if not key:
        raise ConfigError("--key names no column: a row replaces that with the same key")


def target_of(schema: StructType, options: ToJdbcOptions) -> Target:
    kept = [SCHEMA[name] for name in names_in(options.keep)]
    columns = {field.name: sql_type(field.dataType) for field in [*kept, *schema.fields]}
    return Target(options.table, columns, names_in(options.key), options.newest_by)


def sql_type(kind: DataType) -> str:
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    return TYPES.get(type(kind), "jsonb")


def checked(messages: DataFrame, options: ToJdbcOptions) -> DataFrame:
    """A key that is missing, and text that PostgreSQL cannot store, are refused like a body that does not match."""
    rows = with_fields(messages, options.schema, options.schema_name, options)
    fields = fields_of(rows).fieldNames()
    missing = [
        F.when(F.col(VALUE)[name].isNull(), f"the field {name} is missing")
        for name in names_in(options.key)
        if name in fields
    ]
    nul = F.when(F.to_json(VALUE).rlike(NUL), "a field has the character U+0000")
    return rows.withColumn(REASON, F.coalesce(REASON, *missing, nul))


def as_text(column: Column, kind: DataType) -> Column:
    """The value as PostgreSQL reads it."""
    if isinstance(kind, BinaryType):
        return F.concat(F.lit("\\x"), F.hex(column))
    if isinstance(kind, TimestampType):
        return F.date_format(column, ISO)
    return column.cast("string") if type(kind) in TYPES or isinstance(kind, DecimalType) else F.to_json(column)


def texts_of(batch: DataFrame, schema: StructType, keep: tuple[str, ...]) -> DataFrame:
    """The columns of the table, the place of the message in the order of arrival, and the reason."""
    kept = [as_text(F.col(name), SCHEMA[name].dataType) for name in keep]
    fields = [as_text(F.col(VALUE)[field.name], field.dataType) for field in schema.fields]
    place = [F.date_format("timestamp", ISO), F.col("offset").cast("string")]
    return batch.select(*kept, *fields, *place, REASON)


class JdbcWriter:
    """Writes the batches of one query on the driver."""

    def __init__(self, database: Postgres, schema: StructType, options: ToJdbcOptions) -> None:
        self._database, self._schema, self._options = database, schema, options
        self._refused = 0

    def write(self, batch: DataFrame, transaction: str, number: int) -> Counts:
        self._refused = 0
        copied, merged = self._database.write(self._rows(batch, transaction, number), transaction, number)
        return Counts(out=merged, duplicates=copied - merged, refused=self._refused)

    def _rows(self, batch: DataFrame, transaction: str, number: int) -> Iterator[tuple[Value, ...]]:
        """The refused messages are published before the rows end: the transaction is committed after that."""
        refused = 0
        for *values, reason in texts_of(batch, self._schema, names_in(self._options.keep)).toLocalIterator():
            if reason is None:
                yield tuple(values)
            refused += reason is not None
        if refused:
            exchange = self._options.dead_letter_exchange
            self._refused = publish_refused(batch, self._options, exchange, transaction, number)


JOB = Job("to-jdbc", ToJdbcOptions, start)
