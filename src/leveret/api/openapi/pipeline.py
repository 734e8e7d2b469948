"""What is described of the pipeline to Spark: sources, leases, stages and commits, and what queries report."""

from __future__ import annotations

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
from leveret.api.openapi.description import (
    COLUMNS as CHOSEN,
)
from leveret.http.roles import ADMINISTRATOR

pipeline = Resource("Pipeline")
streams = Resource("Streams")

AT = "/api/pipeline/{vhost}"
QUEUE, CONSUMER = Query("queue", name(), required=True), Query("consumer", name(), required=True)
COLUMNS = Query("columns", text("These alone, with commas between"))
PARTITION = Query("partition", whole("What stands in the column of that name", 0, (1 << 31) - 1))
TRANSACTION = Query("transaction", text(shortest=1, longest=1_000), required=True)
BATCH = Query("batch", whole(), required=True)
TARGET = (Query("exchange", text()), Query("routing_key", text()), Query("mandatory", truth()))
ROWS_IN = Body({"type": "string", "format": "binary"}, kinds=(ARROW,))
PINS = "With configure as well, if the reader is pinned or is to be."
READS = pipes("read queue")
WRITES = pipes("write exchange")
LEASED = {"consumer": name(), "queue": name()}
NEEDS_ARROW = {501: ERROR_ANSWERS[501]}

PIPELINE: Operations = {
    f"GET {AT}/sources": pipeline.shows(
        "Queues that can be read, and their offsets",
        READS,
        Query("queue", text("One of these three is to be given")),
        Query("super_stream", text()),
        Query("pattern", text("A regular expression for the whole name")),
    ),
    f"GET {AT}/offsets": pipeline.shows(
        "Offsets of queues",
        READS,
        Query("queue", list_of(text()), required=True),
        Query("timestamp", whole("Milliseconds since 1970: the offset of then", 0, 9_223_372_036_854_775)),
    ),
    f"GET {AT}/messages": pipeline.does(
        "Messages of a range of offsets",
        READS,
        {200: STREAM, 410: ERROR_ANSWERS[410], **NEEDS_ARROW},
        QUEUE,
        Query("from", whole("The first offset")),
        Query("to", whole("The offset behind the last")),
        COLUMNS,
        PARTITION,
        Query("routing_key", text("A topic pattern")),
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
        "Where named readers of streams go on", pipes(note="Shows queues that it may read."), Query("queue", text())
    ),
    f"PUT {AT}/consumers": pipeline.does(
        "Set the offset of a reader",
        READS._replace(note=PINS),
        {200: OBJECT},
        body=Body(record({**LEASED, "offset": whole()}, pinned=truth("Retention waits for it"))),
    ),
    f"DELETE {AT}/consumers": pipeline.does(
        "Forget a reader", READS._replace(note=PINS), {200: OBJECT}, QUEUE, CONSUMER
    ),
    f"POST {AT}/leases": pipeline.does(
        "Take the next lease, or the same one again",
        READS,
        {200: OBJECT},
        body=Body(
            record(
                {**LEASED, "max_messages": whole("", 1, 10_000_000)},
                after=whole("The last lease"),
                max_bytes=whole("", 1, 1 << 40),
            )
        ),
    ),
    f"GET {AT}/leases": pipeline.shows(
        "Leases, and what consumers have committed",
        pipes(note="Shows queues that it may read."),
        Query("queue", text()),
        Query("consumer", text()),
    ),
    f"DELETE {AT}/leases": pipeline.does(
        "Give leased messages back", READS, {200: OBJECT}, QUEUE, CONSUMER, Query("lease", whole("", 1))
    ),
    f"GET {AT}/leases/messages": pipeline.does(
        "Messages of a lease",
        READS,
        {200: STREAM, **NEEDS_ARROW},
        QUEUE,
        CONSUMER,
        Query("lease", whole("", 1), required=True),
        Query("slice", whole("Which part", 0, 999_999)),
        Query("of", whole("How many parts", 1, 1_000_000)),
        PARTITION,
        COLUMNS,
    ),
    f"POST {AT}/leases/commit": pipeline.does(
        "Be done with leases, up to this one",
        READS,
        {200: OBJECT},
        body=Body(record({**LEASED, "through": whole()})),
    ),
    f"POST {AT}/stages": pipeline.does(
        "Stage the rows of an Arrow stream, to be committed",
        WRITES,
        {200: OBJECT, **NEEDS_ARROW},
        TRANSACTION,
        BATCH,
        Query("partition", whole()),
        Query("attempt", whole()),
        *TARGET,
        body=ROWS_IN,
    ),
    f"GET {AT}/stages": pipeline.shows("Up to 1,000 stages", pipes(note="Its own; all for an administrator.")),
    f"DELETE {AT}/stages": pipeline.does(
        "Drop the stages of a batch",
        pipes(note="Its own; all for an administrator."),
        {200: OBJECT},
        TRANSACTION,
        BATCH,
    ),
    f"POST {AT}/commits": pipeline.does(
        "Publish staged rows: all of them, once",
        pipes(
            "write exchange",
            note="On the exchanges of the stages, or on any if there are none. To a transaction of another user only "
            "as an administrator.",
        ),
        {200: OBJECT},
        body=Body(
            record({"transaction": text(shortest=1, longest=1_000), "batch": whole(), "stages": list_of(text())})
        ),
    ),
    f"GET {AT}/commits": pipeline.shows(
        "The last batch of a transaction, or up to 1,000 transactions",
        pipes(note="Its own; all for an administrator."),
        Query("transaction", text("This one only", shortest=1, longest=1_000)),
        Query("start", whole("How many transactions to skip, those committed longest ago first")),
    ),
    f"DELETE {AT}/commits": pipeline.does(
        "Delete a transaction: its next commit is its first",
        changes(ADMINISTRATOR),
        {200: OBJECT},
        TRANSACTION,
        Query("owner_only", truth("Keep the last batch: the next user that commits a stage becomes the owner")),
    ),
    # ---- for those who look
    "GET /api/streams": streams.lists("Streams, super streams and sharded queues", VIEWER),
    "GET /api/streams/{vhost}": streams.lists("Those of a virtual host", SEES),
    "GET /api/streams/{vhost}/{name}": streams.shows(
        "A stream: offsets, partitions, readers and how far they are behind", SEES, *CHOSEN, *WINDOWS
    ),
    "GET /api/streams/{vhost}/{name}/messages": streams.shows(
        "Look at messages from an offset on",
        does("read queue {name}"),
        Query("offset", text("first, last or a number")),
        Query("limit", whole("Messages that are shown", 1, 1_000)),
        Query("truncate", whole("Bytes of each payload that are shown")),
    ),
    "GET /api/leases": pipeline.lists("Leases on classic queues", VIEWER),
    "GET /api/leases/{vhost}": pipeline.lists("Leases in a virtual host", SEES),
    "GET /api/spark-queries": pipeline.lists(
        "Spark queries: rates and lag",
        VIEWER._replace(note="Shows its own, and those of virtual hosts that it sees."),
    ),
    "GET /api/spark-queries/{vhost}": pipeline.lists("Spark queries of a virtual host", SEES),
    "POST /api/pipeline/queries": pipeline.does(
        "Report the progress of a query",
        LOGGED_IN,
        {200: OBJECT},
        body=Body(record({"id": name()})),
    ),
    "GET /api/pipeline/queries": pipeline.shows(
        "What queries reported",
        LOGGED_IN._replace(note="Shows its own, and those of virtual hosts that it may enter, or sees."),
    ),
}
