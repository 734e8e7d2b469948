"""What is described of messages: publish, get, look, move and drive back; and of those that wait for their time."""

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

messages = Resource("Messages")
jobs = Resource("Jobs")
schedules = Resource("Schedules")
dead_letters = Resource("Dead letters")
traces = Resource("Traces")

PUBLISHED = record(
    {"routing_key": text(longest=255), "payload": text()},
    payload_encoding=text(one_of=("string", "base64")),
    properties=table("content_type, headers, delivery_mode, ..."),
)
ASKED_FOR = record(
    {
        "count": whole("At most", 1, 10_000),
        "ackmode": text(
            one_of=("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
        ),
        "encoding": text(one_of=("auto", "base64")),
    },
    truncate=whole("Bytes of each payload that are shown"),
)
FIRST_DEATH = {
    "reason": "what they died of first",
    "queue": "where they died first",
    "exchange": "to which exchange they were published",
    "routing_key": "and with which key",
}
JOB = record(
    {"kind": text(one_of=("move", "copy", "delete", "redrive"))},
    destination=text("The queue to move or copy to", longest=255),
    selector=text("Only messages for which it holds; a header by headers.NAME"),
    contains=text("Somewhere in the body"),
    json=text("In a body of JSON, as in customer.id=42"),
    ids=list_of(text(), "Only these messages, by the ids that browsing tells"),
    **{f"death.{part}": text(f"Dead letters alone: {about}") for part, about in FIRST_DEATH.items()},
    limit=whole("At most so many", 1),
    rate={"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000, "description": "A second; of redrive"},
    dry_run=truth("Only count"),
)
BEGUN = Answer("The job has begun", record({"id": text()}))
LOOK = Query("limit", whole("Messages that are looked at in each queue", 1, 10_000))
COUNTED = VIEWER._replace(note="Looks into queues that it may read.")
CHANGE_FLOW = does("configure queue {name}")

MESSAGES: Operations = {
    "POST /api/exchanges/{vhost}/{name}/publish": messages.does(
        "Publish a message",
        does("write exchange {name}"),
        {200: Answer("Whether it reached a queue", record({"routed": truth()}))},
        body=Body(PUBLISHED),
    ),
    "POST /api/queues/{vhost}/{name}/get": messages.does(
        "Take messages, and put them back if asked",
        does("read queue {name}"),
        {200: Answer("The messages", list_of(ROW))},
        body=Body(ASKED_FOR),
    ),
    "GET /api/queues/{vhost}/{name}/messages": messages.does(
        "Look at messages without taking them",
        does("read queue {name}"),
        {200: OBJECT},
        Query("limit", whole("Messages that are shown", 1, 1_000)),
        Query("truncate", whole("Bytes of each payload that are shown")),
        Query("selector", text("Only messages for which it holds; a header by headers.NAME=VALUE")),
        Query("contains", text("Somewhere in the body")),
        Query("json", text("In a body of JSON, as in customer.id=42")),
        *(Query(f"death.{part}", text(f"Dead letters alone: {about}")) for part, about in FIRST_DEATH.items()),
    ),
    "POST /api/queues/{vhost}/{name}/jobs": jobs.does(
        "Move, copy, delete or drive back messages",
        does(
            "read queue {name}",
            "write exchange amq.default",
            note="To delete takes read alone. To redrive a message takes write on its target as well.",
        ),
        {202: BEGUN},
        body=Body(JOB),
    ),
    "POST /api/queues/{vhost}/{name}/pause": jobs.does("Deliver nothing until resumed", CHANGE_FLOW, {204: DONE}),
    "POST /api/queues/{vhost}/{name}/resume": jobs.does("Deliver again", CHANGE_FLOW, {204: DONE}),
    "GET /api/queue-jobs": jobs.lists("Jobs that run, and that ran lately", VIEWER),
    "GET /api/queue-jobs/{id}": jobs.shows("How far a job is", VIEWER._replace(note="If it may see the queue.")),
    "DELETE /api/queue-jobs/{id}": jobs.deletes(
        "Cancel a job; one that is over is forgotten",
        VIEWER._replace(note="If it may see the queue, and with read on it."),
    ),
    "GET /api/dead-letters": dead_letters.shows("Dead letters in groups: what they died of, and where", COUNTED, LOOK),
    "GET /api/dead-letters/{vhost}": dead_letters.shows(
        "Dead letters of a virtual host in groups", SEES._replace(note=COUNTED.note), LOOK
    ),
    "GET /api/traces": traces.lists("Virtual hosts that are traced", VIEWER._replace(note="To monitoring only.")),
    "GET /api/traces/{vhost}": traces.lists(
        "Stories of messages, the newest first",
        MONITOR,
        Query("queue", text()),
        Query("exchange", text()),
        Query("text", text("Somewhere in the story")),
    ),
    "DELETE /api/traces/{vhost}": traces.deletes("Forget all stories", ADMIN),
    "GET /api/traces/{vhost}/{id}": traces.shows("The story of a message", MONITOR),
    "DELETE /api/traces/{vhost}/{id}": traces.deletes("Forget a story", ADMIN),
    "GET /api/schedules/{vhost}": schedules.shows(
        "Messages that wait for their time",
        does("read queue amq.leveret.schedule"),
        Query("limit", whole("Messages that are listed", 1, 1_000)),
        Query("after", text("The next of another answer")),
    ),
    "DELETE /api/schedules/{vhost}/{id}": schedules.deletes(
        "Cancel a scheduled message", does("configure queue amq.leveret.schedule")
    ),
}
