"""Descriptions of messages: publish, get, browse, move and redrive; scheduled messages, dead letters and traces."""

from __future__ import annotations

from leveret.api.openapi.description import (
    ADMIN,
    DONE,
    MONITOR,
    OBJECT,
    ROW,
    SEES,
    VIEWER,
    Answer,
    Body,
    Operations,
    Query,
    Resource,
    does,
    list_of,
    record,
    table,
    text,
    truth,
    whole,
)
from leveret.api.queue_jobs import JOB_ROWS
from leveret.api.traces import BOOK_ROWS, TRACE_ROWS

messages = Resource("Messages")
jobs = Resource("Jobs", JOB_ROWS)
schedules = Resource("Schedules")
dead_letters = Resource("Dead letters")
traces = Resource("Traces", TRACE_ROWS)

PUBLISHED = record(
    {"routing_key": text(longest=255), "payload": text()},
    payload_encoding=text(one_of=("string", "base64")),
    properties=table("content_type, headers, delivery_mode, ..."),
)
ASKED_FOR = record(
    {
        "count": whole("Maximum number of messages", 1, 10_000),
        "ackmode": text(
            one_of=("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
        ),
        "encoding": text(one_of=("auto", "base64")),
    },
    truncate=whole("Maximum bytes of each payload to return"),
)
FIRST_DEATH = {
    "reason": "reason of the first dead-lettering",
    "queue": "queue that dead-lettered the message first",
    "exchange": "exchange that the message was published to",
    "routing_key": "routing key that the message was published with",
    "error": "error in the headers of the message; empty for messages without one",
    "task": "Celery task of the message; empty for messages without one",
}
JOB = record(
    {"kind": text(one_of=("move", "copy", "delete", "redrive"))},
    destination=text("The queue to move or copy to", longest=255),
    destination_vhost=text("Its virtual host; default: that of the source", longest=255),
    selector=text("Only messages that match this selector; headers as headers.NAME"),
    contains=text("Only messages whose body contains this text"),
    json=text("Only messages with this value in a JSON body, as in customer.id=42"),
    ids=list_of(text(), "Only messages with these ids, as returned by browsing"),
    **{f"death.{part}": text(f"Only dead letters: {about}") for part, about in FIRST_DEATH.items()},
    limit=whole("Maximum number of messages", 1),
    rate={
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1_000_000,
        "description": "Messages per second; only for redrive",
    },
    dry_run=truth("Count the messages without changing them"),
)
BEGUN = Answer("The job has started", record({"id": text()}))
LOOK = Query("limit", whole("Maximum number of messages to read in each queue", 1, 10_000))
COUNTED = VIEWER._replace(note="Reads the queues on which the user has read.")
CHANGE_FLOW = does("configure queue {name}")

MESSAGES: Operations = {
    "POST /api/exchanges/{vhost}/{name}/publish": messages.does(
        "Publish a message",
        does("write exchange {name}"),
        {200: Answer("Whether the message was routed to a queue", record({"routed": truth()}))},
        body=Body(PUBLISHED),
    ),
    "POST /api/queues/{vhost}/{name}/get": messages.does(
        "Get messages, and requeue them if requested",
        does("read queue {name}"),
        {200: Answer("The messages", list_of(ROW))},
        body=Body(ASKED_FOR),
    ),
    "GET /api/queues/{vhost}/{name}/messages": messages.does(
        "Browse messages without consuming them",
        does("read queue {name}"),
        {200: OBJECT},
        Query("limit", whole("Maximum number of messages", 1, 1_000)),
        Query("truncate", whole("Maximum bytes of each payload to return")),
        Query("after", text("Only messages behind this position, as returned by browsing")),
        Query("selector", text("Only messages that match this selector; headers as headers.NAME=VALUE")),
        Query("contains", text("Only messages whose body contains this text")),
        Query("json", text("Only messages with this value in a JSON body, as in customer.id=42")),
        *(Query(f"death.{part}", text(f"Only dead letters: {about}")) for part, about in FIRST_DEATH.items()),
    ),
    "GET /api/queues/{vhost}/{name}/messages/{id}/body": messages.does(
        "Download the body of a ready message",
        does("read queue {name}"),
        {200: Answer("The body", {"type": "string", "format": "binary"}, "application/octet-stream")},
    ),
    "GET /api/queues/{vhost}/{name}/unacked": messages.does(
        "List unacknowledged messages with the connections that hold them, the oldest first",
        does("read queue {name}"),
        {200: OBJECT},
        Query("limit", whole("Maximum number of messages", 1, 1_000)),
    ),
    "POST /api/queues/{vhost}/{name}/jobs": jobs.does(
        "Start a job that moves, copies, deletes or redrives messages",
        does(
            "read queue {name}",
            "write exchange amq.default",
            note="A delete job needs only read. A redrive job also needs write on the exchange of each message. "
            "With another `destination_vhost` it is read here, and write on the queue and amq.default there.",
        ),
        {202: BEGUN},
        body=Body(JOB),
    ),
    "POST /api/queues/{vhost}/{name}/pause": jobs.does("Pause deliveries of a queue", CHANGE_FLOW, {204: DONE}),
    "POST /api/queues/{vhost}/{name}/resume": jobs.does("Resume deliveries of a queue", CHANGE_FLOW, {204: DONE}),
    "GET /api/queue-jobs": jobs.lists("List running and recent jobs", VIEWER),
    "GET /api/queue-jobs/{id}": jobs.shows(
        "Get the progress of a job", VIEWER._replace(note="The user must see the virtual host of the queue.")
    ),
    "DELETE /api/queue-jobs/{id}": jobs.deletes(
        "Cancel a job, or remove a finished one from the list",
        VIEWER._replace(note="The user must see the virtual host of the queue and have read on the queue."),
    ),
    "GET /api/dead-letters": dead_letters.shows(
        "Count dead letters by reason, queue, error and Celery task", COUNTED, LOOK
    ),
    "GET /api/dead-letters/{vhost}": dead_letters.shows(
        "Count dead letters of a virtual host by reason, queue, error and Celery task",
        SEES._replace(note=COUNTED.note),
        LOOK,
    ),
    "GET /api/traces": traces.lists(
        "List virtual hosts with tracing", VIEWER._replace(note="Empty for users without monitoring."), rows=BOOK_ROWS
    ),
    "GET /api/traces/{vhost}": traces.lists(
        "List message traces, newest first",
        MONITOR,
        Query("queue", text()),
        Query("exchange", text()),
        Query("text", text("Only traces that contain this text")),
    ),
    "DELETE /api/traces/{vhost}": traces.deletes("Delete all message traces of a virtual host", ADMIN),
    "GET /api/traces/{vhost}/{id}": traces.shows("Get the trace of a message", MONITOR),
    "DELETE /api/traces/{vhost}/{id}": traces.deletes("Delete the trace of a message", ADMIN),
    "GET /api/schedules/{vhost}": schedules.shows(
        "List scheduled messages",
        does("read queue amq.leveret.schedule"),
        Query("limit", whole("Maximum number of messages", 1, 1_000)),
        Query("after", text("The `next` value of the previous response")),
    ),
    "GET /api/schedules/{vhost}/{id}/body": schedules.does(
        "Download the body of a scheduled message",
        does("read queue amq.leveret.schedule"),
        {200: Answer("The body", {"type": "string", "format": "binary"}, "application/octet-stream")},
    ),
    "DELETE /api/schedules/{vhost}/{id}": schedules.deletes(
        "Cancel a scheduled message", does("configure queue amq.leveret.schedule")
    ),
}
