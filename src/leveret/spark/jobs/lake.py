"""lake: writes messages to a Delta or Iceberg table, exactly once.

Without a schema a row is a message as it is. With ``--schema`` the fields of a JSON body are columns, with
``--schema-name`` those of a JSON, Avro or Protobuf body. A body that does not match goes to
``--dead-letter-exchange`` with the reason; without one, the pipeline fails and writes nothing of the batch.

The tasks write Parquet files, and the driver adds them to the table in one commit. The commit has the number of the
batch, so a batch that is repeated after a crash is recognised and not written again.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.archive import by_arrival
from leveret.spark.jobs.batch_writer import BatchOptions, write_batches
from leveret.spark.jobs.fields import (
    REASON,
    check_names,
    check_schemas,
    fields_of,
    flattened,
    names_in,
    with_fields,
)
from leveret.spark.jobs.job import Job, setting
from leveret.spark.jobs.messages import read_stream
from leveret.spark.jobs.refusals import publish_refused
from leveret.spark.jobs.running_job import Queries
from leveret.spark.tables.data_files import write_files
from leveret.spark.tables.evolution import check_partition_columns
from leveret.spark.tables.table import FORMATS, LakeTable, lake_table
from leveret.spark.written import refuse_old_batch

ARRIVAL = ("date", "hour")


@dataclass(frozen=True, kw_only=True)
class LakeOptions(BatchOptions):
    table: str = setting(
        "Delta: the folder or URI of the table. Iceberg: FOLDER/NAMESPACE.NAME, or with --catalog NAMESPACE.NAME."
    )
    format: str = setting("Format of the table: delta or iceberg.", "delta", choices=FORMATS, metavar="WORD")
    catalog: str | None = setting(
        "Iceberg catalog in PyIceberg's configuration.  [default: SQLite in the folder of the table]",
        None,
        metavar="NAME",
    )
    schema: str | None = setting(
        "Fields of a JSON body, such as id STRING NOT NULL, amount DOUBLE; they become columns.", None, metavar="DDL"
    )
    schema_name: str | None = setting(
        "Schema of the broker's registry instead of --schema: json, avro or protobuf.", None, metavar="NAME[:VERSION]"
    )
    keep: str = setting("With a schema: columns of the message to keep.", "queue,offset,timestamp", metavar="COLUMNS")
    partition_by: str = setting("Columns of the partitions; date and hour are of arrival.", "", metavar="COLUMNS")
    dead_letter_exchange: str | None = setting(
        "With a schema: exchange for messages that do not match.", None, metavar="EXCHANGE"
    )
    compact_every: int = setting("Merge small files after every N batches; 0: never.", 0, metavar="N")

    def check(self) -> None:
        super().check()
        if self.catalog is not None and self.format != "iceberg":
            raise ConfigError("--catalog is for --format iceberg: remove it")
        check_schemas(self.schema, self.schema_name)
        if self.dead_letter_exchange is not None and not self.has_schema():
            raise ConfigError("--dead-letter-exchange needs --schema: without it every message is written")
        if self.compact_every < 0:
            raise ConfigError(f"invalid --compact-every {self.compact_every}: it must be 0 or more")

    def has_schema(self) -> bool:
        return self.schema is not None or self.schema_name is not None

    def partitions(self) -> tuple[str, ...]:
        return names_in(self.partition_by)


def start(spark: SparkSession, options: LakeOptions) -> Queries:
    messages = checked(read_stream(spark, options, "lake"), options)
    schema = rows_of(messages, options).drop(REASON).schema
    check_partition_columns(schema, options.partitions())
    table = lake_table(options.format, options.table, options.catalog)
    table.prepare(schema, options.partitions())
    writer = LakeWriter(table, options)
    return write_batches(messages, options, "lake", writer.write, twice=options.dead_letter_exchange is not None)


def checked(messages: DataFrame, options: LakeOptions) -> DataFrame:
    """With a schema: adds the fields, and the reason if the body does not match."""
    if not options.has_schema():
        return messages
    rows = with_fields(messages, options.schema, options.schema_name, options)
    check_names(fields_of(rows), names_in(options.keep), arrival_columns(options))
    return rows


def rows_of(messages: DataFrame, options: LakeOptions) -> DataFrame:
    """The columns of the table, and the reason."""
    added = arrival_columns(options)
    dated = by_arrival(messages) if added else messages
    if not options.has_schema():
        return dated.select(*messages.columns, *added)
    return flattened(dated, (*names_in(options.keep), *added))


def arrival_columns(options: LakeOptions) -> tuple[str, ...]:
    return tuple(name for name in ARRIVAL if name in options.partitions())


class LakeWriter:
    """Writes the batches of one query on the driver."""

    def __init__(self, table: LakeTable, options: LakeOptions) -> None:
        self._table, self._options = table, options
        self._layout = table.layout(options.partitions())

    def write(self, batch: DataFrame, transaction: str, number: int) -> Counts:
        last = self._table.last_batch(transaction)
        refuse_old_batch(number, last, f"table {self._options.table}")
        if last == number:
            return Counts()  # committed before a crash: nothing is read again
        files, refused = write_files(rows_of(batch, self._options), self._layout)
        if refused:  # published before the commit to the table, which ends the batch
            exchange = self._options.dead_letter_exchange
            refused = publish_refused(batch, self._options, exchange, transaction, number)
        if files:
            self._table.commit(files, transaction, number)
        if self._options.compact_every and (number + 1) % self._options.compact_every == 0:
            self._table.compact()
        return Counts(out=sum(file.rows for file in files), refused=refused)


JOB = Job("lake", LakeOptions, start)
