"""Descriptions of the pipeline to Spark: sources, leases, stages, commits and query progress."""

from __future__ import annotations

from leveret.api.leases import LEASE_ROWS
from leveret.api.openapi.description import (
    ARROW,
    ERROR_ANSWERS,
    LOGGED_IN,
    OBJECT,
    SEES,
    STREAM,
    VIEWER,
    WINDOWS,
    Body,
    Operations,
    Query,
    Resource,
    changes,
    does,
    list_of,
    name,
    pipes,
    record,
    text,
    truth,
    whole,
)
from leveret.api.openapi.description import COLUMNS as CHOSEN
from leveret.api.spark_queries import QUERY_ROWS
from leveret.api.views.stream import STREAM_ROWS
from leveret.http.roles import ADMINISTRATOR

pipeline = Resource("Pipeline")
streams = Resource("Streams", STREAM_ROWS)
leases, queries = Resource("Pipeline", LEASE_ROWS), Resource("Pipeline", QUERY_ROWS)

AT = "/api/pipeline/{vhost}"
QUEUE, CONSUMER = Query("queue", name(), required=True), Query("consumer", name(), required=True)
COLUMNS = Query("columns", text("Comma-separated columns to return"))
CONSTANTS = Query(
    "omit_constants", truth("Leave out columns with one value in a batch; the schema's metadata has the value")
)
PARTITION = Query("partition", whole("Value of the column `partition`", 0, (1 << 31) - 1))
TRANSACTION = Query("transaction", text(shortest=1, longest=1_000), required=True)
BATCH = Query("batch", whole(), required=True)
REPORTED = "What to do with mandatory rows that are routed to no queue"
TARGET = (
    Query("exchange", text()),
    Query("routing_key", text()),
    Query("mandatory", truth()),
    Query("unroutable", text(REPORTED, one_of=("fail", "report"))),
)
ROWS_IN = Body({"type": "string", "format": "binary"}, kinds=(ARROW,))
PINS = "A pinned consumer also needs configure."
READS = pipes("read queue")
WRITES = pipes("write exchange")
LEASED = {"consumer": name(), "queue": name()}
NEEDS_ARROW = {501: ERROR_ANSWERS[501]}

PIPELINE: Operations = {
    f"GET {AT}/sources": pipeline.shows(
        "List queues that can be read, with their offsets",
        READS,
        Query("queue", text("Exactly one of queue, super_stream and pattern is required")),
        Query("super_stream", text()),
        Query("pattern", text("A regular expression that matches the whole queue name")),
    ),
    f"GET {AT}/schemas": pipeline.shows(
        "Get a schema by its ID, or by name and version",
        pipes(),
        Query("id", text("Exactly one of id and name is required")),
        Query("name", text()),
        Query("version", whole("Default: the latest", 1)),
    ),
    f"GET {AT}/offsets": pipeline.shows(
        "Get offsets of queues",
        READS,
        Query("queue", list_of(text()), required=True),
        Query(
            "timestamp",
            whole("Milliseconds since 1970-01-01 UTC: return the offset at this time", 0, 9_223_372_036_854_775),
        ),
    ),
    f"GET {AT}/messages": pipeline.does(
        "Read messages of a range of offsets",
        READS,
        {200: STREAM, 410: ERROR_ANSWERS[410], **NEEDS_ARROW},
        QUEUE,
        Query("from", whole("First offset")),
        Query("to", whole("End offset, exclusive")),
        COLUMNS,
        CONSTANTS,
        PARTITION,
        Query("routing_key", text("Only routing keys that match this topic pattern")),
        Query("missing", text(one_of=("skip", "fail"))),
    ),
    f"POST {AT}/messages": pipeline.does(
        "Publish the rows of an Arrow stream",
        WRITES,
        {200: OBJECT, **NEEDS_ARROW},
        *TARGET,
        body=ROWS_IN,
    ),
    f"GET {AT}/consumers": pipeline.shows(
        "List stored offsets of stream consumers",
        pipes(note="Lists queues on which the user has read."),
        Query("queue", text()),
    ),
    f"PUT {AT}/consumers": pipeline.does(
        "Store the offset of a consumer",
        READS._replace(note=PINS),
        {200: OBJECT},
        body=Body(record({**LEASED, "offset": whole()}, pinned=truth("Retention keeps messages from this offset on"))),
    ),
    f"DELETE {AT}/consumers": pipeline.does(
        "Delete the stored offset of a consumer", READS._replace(note=PINS), {200: OBJECT}, QUEUE, CONSUMER
    ),
    f"POST {AT}/leases": pipeline.does(
        "Get the next lease, or the current one again",
        READS,
        {200: OBJECT},
        body=Body(
            record(
                {**LEASED, "max_messages": whole("", 1, 10_000_000)},
                after=whole("Number of the previous lease"),
                max_bytes=whole("", 1, 1 << 40),
                reader=text("The identifier of the registered reader"),
            )
        ),
    ),
    f"GET {AT}/leases": pipeline.shows(
        "List leases and committed lease numbers",
        pipes(note="Lists queues on which the user has read."),
        Query("queue", text()),
        Query("consumer", text()),
    ),
    f"DELETE {AT}/leases": pipeline.does(
        "Release leases and requeue their messages", READS, {200: OBJECT}, QUEUE, CONSUMER, Query("lease", whole("", 1))
    ),
    f"GET {AT}/leases/messages": pipeline.does(
        "Read the messages of a lease",
        READS,
        {200: STREAM, **NEEDS_ARROW},
        QUEUE,
        CONSUMER,
        Query("lease", whole("", 1), required=True),
        Query("slice", whole("Number of the slice, from 0", 0, 999_999)),
        Query("of", whole("Number of slices", 1, 1_000_000)),
        PARTITION,
        COLUMNS,
        CONSTANTS,
    ),
    f"POST {AT}/leases/commit": pipeline.does(
        "Commit leases up to and including this one",
        READS,
        {200: OBJECT},
        body=Body(record({**LEASED, "through": whole()})),
    ),
    f"POST {AT}/leases/readers": pipeline.does(
        "Register the only reader of a consumer, and keep the request open for some seconds",
        READS,
        {200: OBJECT},
        body=Body(
            record(
                {**LEASED, "reader": text("An identifier that the reader chooses", shortest=1, longest=255)},
                name=text("Shown to other readers, such as machine and process"),
                wait=whole("Seconds", 0, 5),
            )
        ),
    ),
    f"DELETE {AT}/leases/readers": pipeline.does(
        "Unregister the reader of a consumer",
        READS,
        {200: OBJECT},
        QUEUE,
        CONSUMER,
        Query("reader", text(), required=True),
    ),
    f"POST {AT}/stages": pipeline.does(
        "Stage the rows of an Arrow stream for a commit",
        WRITES,
        {200: OBJECT, **NEEDS_ARROW},
        TRANSACTION,
        BATCH,
        Query("partition", whole()),
        Query("attempt", whole()),
        *TARGET,
        body=ROWS_IN,
    ),
    f"GET {AT}/stages": pipeline.shows("List up to 1,000 stages", pipes(note="Own stages; all for an administrator.")),
    f"DELETE {AT}/stages": pipeline.does(
        "Delete the stages of a batch",
        pipes(note="Own stages; all for an administrator."),
        {200: OBJECT},
        TRANSACTION,
        BATCH,
    ),
    f"POST {AT}/stages/renew": pipeline.does(
        "Let the stages of a transaction wait for another hour",
        pipes(note="Own stages."),
        {200: OBJECT},
        TRANSACTION,
    ),
    f"POST {AT}/commits": pipeline.does(
        "Publish the staged rows of a batch atomically, exactly once",
        pipes(
            "write exchange",
            note="On the exchanges of the stages, or on any exchange if there are no stages. A transaction of another "
            "user needs administrator.",
        ),
        {200: OBJECT},
        body=Body(
            record({"transaction": text(shortest=1, longest=1_000), "batch": whole(), "stages": list_of(text())})
        ),
    ),
    f"GET {AT}/commits": pipeline.shows(
        "Get the last committed batch of a transaction, or list up to 1,000 transactions",
        pipes(note="Own transactions; all for an administrator."),
        Query("transaction", text("Only this transaction", shortest=1, longest=1_000)),
        Query("start", whole("Number of transactions to skip; the least recently committed come first")),
    ),
    f"DELETE {AT}/commits": pipeline.does(
        "Delete a transaction; its next commit counts as the first",
        changes(ADMINISTRATOR),
        {200: OBJECT},
        TRANSACTION,
        Query("owner_only", truth("Keep the last batch: the next user that commits a stage becomes the owner")),
    ),
    # ---- monitoring
    **streams.vhost_lists("/api/streams", "streams, super streams and sharded queues"),
    "GET /api/streams/{vhost}/{name}": streams.shows(
        "Get offsets, partitions, consumers and consumer lag of a stream", SEES, *CHOSEN, *WINDOWS
    ),
    "GET /api/streams/{vhost}/{name}/messages": streams.shows(
        "Browse messages from an offset on",
        does("read queue {name}"),
        Query("offset", text("first, last or an offset")),
        Query("limit", whole("Maximum number of messages", 1, 1_000)),
        Query("truncate", whole("Maximum bytes of each payload to return")),
    ),
    "GET /api/leases": leases.lists("List leases on classic queues", VIEWER),
    "GET /api/leases/{vhost}": leases.lists("List leases in a virtual host", SEES),
    "GET /api/spark-queries": queries.lists(
        "List Spark queries with rates and lag",
        VIEWER._replace(note="Own queries, and those of virtual hosts that the user sees."),
    ),
    "GET /api/spark-queries/{vhost}": queries.lists("List Spark queries of a virtual host", SEES),
    "GET /api/spark-queries/{vhost}/{id}": queries.shows(
        "Show a Spark query with its steps, state, durations and recent batches",
        SEES._replace(
            note="Error, steps and the address of Spark's UI only if the user sees each of its virtual hosts."
        ),
        *CHOSEN,
    ),
    "POST /api/pipeline/queries": pipeline.does(
        "Report the progress of a query",
        LOGGED_IN,
        {200: OBJECT},
        body=Body(record({"id": name()})),
    ),
    "GET /api/pipeline/queries": pipeline.shows(
        "List reported Spark queries",
        LOGGED_IN._replace(note="Own queries, and those of virtual hosts that the user can access or monitor."),
    ),
}
