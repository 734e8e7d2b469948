"""`format("leveret")`: creates the reader or writer, and refuses invalid options.

Spark calls these methods in separate processes on the driver, with the options as strings. `load()` calls `schema`, so
invalid options fail there; options that do not fit a batch or a stream fail when the reader is created.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from leveret.spark.batch_reader import BatchReader, FilteringBatchReader
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import OptionError
from leveret.spark.lease_reader import LeaseReader
from leveret.spark.options import (
    SourceOptions,
    refuse_options_of_batch_writes,
    refuse_options_of_batches,
    refuse_options_of_streams,
    sink_options,
    source_options,
)
from leveret.spark.schema import columns_of, refuse_unless_columns
from leveret.spark.shape import Shape
from leveret.spark.sink_writer import BatchSink, StreamSink
from leveret.spark.source_lookup import STREAM, sources_of
from leveret.spark.stream_reader import StreamReader
from leveret.spark.table_options import options_of_table, read_options, with_options


class LeveretDataSource(DataSource):
    """Queues as sources and exchanges as sinks, for batches and for streams."""

    @classmethod
    def name(cls) -> str:
        return "leveret"

    def schema(self) -> StructType:
        of_table = options_of_table(self.options)
        schema = columns_of(source_options(self.options if of_table is None else of_table).columns)
        return schema if of_table is None else with_options(schema, of_table)

    def reader(self, schema: StructType) -> DataSourceReader:
        given = read_options(schema, self.options)
        options = source_options(given)
        refuse_options_of_streams(given)
        refuse_unless_columns(schema, options.columns)
        kind = FilteringBatchReader if options.push_filters else BatchReader
        return kind(options, Shape(schema, headers=options.include_headers))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = read_options(schema, self.options)
        options = source_options(given)
        refuse_options_of_batches(given)
        refuse_unless_columns(schema, options.columns)
        shape = Shape(schema, headers=options.include_headers)
        return LeaseReader(options, shape) if _is_classic(options) else StreamReader(options, shape)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchSink(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """`overwrite` is set for outputMode("complete"): each batch publishes the whole result again."""
        refuse_options_of_batch_writes(self.options)
        return StreamSink(sink_options(self.options), schema)


def _is_classic(options: SourceOptions) -> bool:
    """Whether to read by leases. A query reads either classic queues or streams: its offset has one form."""
    with BrokerClient(options.access) as client:
        sources = sources_of(client, options.selection)
    classic = [source.queue for source in sources if source.kind != STREAM]
    streams = [source.queue for source in sources if source.kind == STREAM]
    if classic and streams:
        raise OptionError(
            f"{options.selection} contains the classic queue '{classic[0]}' and the stream '{streams[0]}', and a "
            "streaming read takes one kind only; choose another pattern, or one query for each kind"
        )
    return bool(classic)
