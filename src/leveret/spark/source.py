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

from leveret.spark.batch_reader import BatchReader
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
from leveret.spark.schema import SCHEMA, Shape
from leveret.spark.sink_writer import BatchSink, StreamSink
from leveret.spark.source_lookup import STREAM, sources_of
from leveret.spark.stream_reader import StreamReader


class LeveretDataSource(DataSource):
    """Queues as sources and exchanges as sinks, for batches and for streams."""

    @classmethod
    def name(cls) -> str:
        return "leveret"

    def schema(self) -> StructType:
        source_options(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options)
        refuse_options_of_streams(self.options)
        return BatchReader(options, Shape(schema, headers=options.include_headers))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = source_options(self.options)
        refuse_options_of_batches(self.options)
        shape = Shape(schema, headers=options.include_headers)
        return LeaseReader(options, shape) if _is_classic(options) else StreamReader(options, shape)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchSink(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """`overwrite` is set for outputMode("complete"): each batch publishes the whole result again."""
        refuse_options_of_batch_writes(self.options)
        return StreamSink(sink_options(self.options), schema)


def _is_classic(options: SourceOptions) -> bool:
    """Whether to read by leases. Several queues must be streams, since a lease belongs to one queue."""
    with BrokerClient(options.access) as client:
        sources = sources_of(client, options.selection)
    classic = [source.queue for source in sources if source.kind != STREAM]
    if classic and options.selection.parameter != "queue":
        raise OptionError(
            f"{options.selection} contains the classic queue '{classic[0]}', and a streaming read can lease from one "
            'queue only; choose stream queues, or one query with .option("queue", ...) for each'
        )
    return bool(classic)
