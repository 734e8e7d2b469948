"""Descriptions of queues, exchanges, bindings, connections, channels and consumers."""

from __future__ import annotations

from leveret.api.openapi.description import (
    COLUMNS,
    DONE,
    MADE,
    OBJECT,
    SEES,
    VIEWER,
    WINDOWS,
    Body,
    Operation,
    Operations,
    Query,
    Resource,
    does,
    record,
    table,
    text,
    truth,
)
from leveret.api.views.connection import CHANNEL_ROWS, CONNECTION_ROWS, CONSUMER_ROWS
from leveret.api.views.exchange import BINDING_ROWS, EXCHANGE_ROWS
from leveret.api.views.queue import QUEUE_ROWS

queues = Resource("Queues", QUEUE_ROWS)
exchanges = Resource("Exchanges", EXCHANGE_ROWS)
bindings = Resource("Bindings", BINDING_ROWS)
connections = Resource("Connections", CONNECTION_ROWS)
channels = Resource("Connections", CHANNEL_ROWS)
consumers = Resource("Connections", CONSUMER_ROWS)

DECLARED_QUEUE = record(
    durable=truth("Survives a broker restart"),
    auto_delete=truth("Deleted when its last consumer is cancelled"),
    arguments=table("x-message-ttl, x-queue-type, ..."),
)
DECLARED_EXCHANGE = record(
    type=text("direct, fanout, topic, headers, ..."),
    durable=truth("Survives a broker restart"),
    auto_delete=truth("Deleted when its last binding is deleted"),
    internal=truth("Clients cannot publish to it; only exchanges can be bound to it"),
    arguments=table("alternate-exchange, ..."),
)
BINDING = record(routing_key=text(longest=255), arguments=table())
BY_ARGUMENT = "Arguments can need more: see Arguments, headers and fields."
OWN_OR_ALL = VIEWER._replace(note="Own ones; those of all users for monitoring and administrator.")
OWN_OR_ADMIN = VIEWER._replace(note="Those of other users need administrator.")
BIND = ("write destination", "read exchange {source}")


def _bindings_between(destination: str) -> dict[str, Operation]:
    path = f"/api/bindings/{{vhost}}/e/{{source}}/{destination[0]}/{{{destination}}}"
    return {
        f"GET {path}": bindings.lists(f"List bindings from an exchange to one {destination}", SEES),
        f"POST {path}": bindings.does(
            "Create a binding; its path is in the header Location",
            does(*BIND),
            {201: MADE},
            body=Body(BINDING, required=False),
        ),
        f"GET {path}/{{props}}": bindings.shows("Get a binding by its properties_key", SEES, *COLUMNS),
        f"DELETE {path}/{{props}}": bindings.deletes("Delete a binding", does(*BIND)),
    }


TOPOLOGY: Operations = {
    # ---- queues
    **queues.vhost_lists("/api/queues", "queues", *WINDOWS),
    "GET /api/queues/{vhost}/{name}": queues.shows("Get a queue", SEES, *COLUMNS, *WINDOWS),
    "PUT /api/queues/{vhost}/{name}": queues.puts(
        "Declare a queue", does("configure queue {name}", note=BY_ARGUMENT), DECLARED_QUEUE, may_be_empty=True
    ),
    "DELETE /api/queues/{vhost}/{name}": queues.deletes(
        "Delete a queue and its messages",
        does("configure queue {name}"),
        Query("if-empty", truth("Only if the queue has no messages")),
        Query("if-unused", truth("Only if the queue has no consumers")),
    ),
    "DELETE /api/queues/{vhost}/{name}/contents": queues.deletes("Purge a queue", does("read queue {name}")),
    "GET /api/queues/{vhost}/{name}/bindings": queues.lists("List bindings of a queue", SEES, rows=BINDING_ROWS),
    "POST /api/queues/{vhost}/{name}/actions": queues.does(
        "Synchronise mirrors (no effect: there are no mirrors)",
        does("configure queue {name}"),
        {204: DONE},
        body=Body(record({"action": text(one_of=("sync", "cancel_sync"))})),
    ),
    # ---- exchanges
    **exchanges.vhost_lists("/api/exchanges", "exchanges", *WINDOWS),
    "GET /api/exchanges/{vhost}/{name}": exchanges.shows("Get an exchange", SEES, *COLUMNS, *WINDOWS),
    "PUT /api/exchanges/{vhost}/{name}": exchanges.puts(
        "Declare an exchange",
        does("configure exchange {name}", note=BY_ARGUMENT),
        DECLARED_EXCHANGE,
        may_be_empty=True,
    ),
    "DELETE /api/exchanges/{vhost}/{name}": exchanges.deletes(
        "Delete an exchange",
        does("configure exchange {name}"),
        Query("if-unused", truth("Only if the exchange has no bindings")),
    ),
    "GET /api/exchanges/{vhost}/{name}/bindings/source": exchanges.lists(
        "List bindings with the exchange as source", SEES, rows=BINDING_ROWS
    ),
    "GET /api/exchanges/{vhost}/{name}/bindings/destination": exchanges.lists(
        "List bindings with the exchange as destination", SEES, rows=BINDING_ROWS
    ),
    "GET /api/exchanges/{vhost}/{name}/route": exchanges.does(
        "Explain where a message would be routed, and by which bindings",
        SEES,
        {200: OBJECT},
        Query("routing_key", text("Routing key of the message; pass headers as headers.NAME=VALUE")),
    ),
    # ---- bindings
    **bindings.vhost_lists("/api/bindings", "bindings"),
    **_bindings_between("queue"),
    **_bindings_between("exchange"),
    # ---- connections, channels, consumers
    "GET /api/connections": connections.lists("List connections", OWN_OR_ALL, *WINDOWS),
    "GET /api/connections/username/{user}": connections.lists("List connections of a user", OWN_OR_ALL, *WINDOWS),
    "DELETE /api/connections/username/{user}": connections.deletes("Close all connections of a user", OWN_OR_ADMIN),
    "GET /api/connections/{name}": connections.shows("Get a connection", OWN_OR_ALL, *COLUMNS, *WINDOWS),
    "DELETE /api/connections/{name}": connections.deletes(
        "Close a connection; the header X-Reason is sent to the client", OWN_OR_ADMIN
    ),
    "GET /api/connections/{name}/channels": channels.lists("List channels of a connection", OWN_OR_ALL, *WINDOWS),
    "GET /api/vhosts/{vhost}/connections": connections.lists("List connections to a virtual host", SEES, *WINDOWS),
    "GET /api/channels": channels.lists("List channels", OWN_OR_ALL, *WINDOWS),
    "GET /api/channels/{name}": connections.shows("Get a channel", OWN_OR_ALL, *COLUMNS, *WINDOWS),
    "GET /api/vhosts/{vhost}/channels": channels.lists("List channels in a virtual host", SEES, *WINDOWS),
    **consumers.vhost_lists("/api/consumers", "consumers", note=OWN_OR_ALL.note),
    "DELETE /api/consumers/{vhost}/{channel}/{tag}": consumers.deletes(
        "Cancel a consumer; the client receives basic.cancel", SEES._replace(note=OWN_OR_ADMIN.note)
    ),
}
