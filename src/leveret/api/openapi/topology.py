"""What is described of exchanges, queues and bindings, and of who is connected and consumes."""

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

queues = Resource("Queues")
exchanges = Resource("Exchanges")
bindings = Resource("Bindings")
connections = Resource("Connections")

DECLARED_QUEUE = record(
    durable=truth("Survives a restart"),
    auto_delete=truth("Goes with its last consumer"),
    arguments=table("x-message-ttl, x-queue-type, ..."),
)
DECLARED_EXCHANGE = record(
    type=text("direct, fanout, topic, headers, ..."),
    durable=truth("Survives a restart"),
    auto_delete=truth("Goes with its last binding"),
    internal=truth("Takes messages of other exchanges only"),
    arguments=table("alternate-exchange, ..."),
)
BINDING = record(routing_key=text(longest=255), arguments=table())
BY_ARGUMENT = "Arguments can need more: see Arguments, headers and fields."
OWN_OR_ALL = VIEWER._replace(note="Shows what is the own; to monitoring and administrator that of all users.")
OWN_OR_ADMIN = VIEWER._replace(note="Of other users for administrator only.")
BIND = ("write destination", "read exchange {source}")


def _bindings_between(destination: str) -> dict[str, Operation]:
    path = f"/api/bindings/{{vhost}}/e/{{source}}/{destination[0]}/{{{destination}}}"
    return {
        f"GET {path}": bindings.lists(f"Bindings from an exchange to one {destination}", SEES),
        f"POST {path}": bindings.does(
            "Bind; Location says where the binding is", does(*BIND), {201: MADE}, body=Body(BINDING, required=False)
        ),
        f"GET {path}/{{props}}": bindings.shows("One binding, by its properties_key", SEES, *COLUMNS),
        f"DELETE {path}/{{props}}": bindings.deletes("Unbind", does(*BIND)),
    }


TOPOLOGY: Operations = {
    # ---- queues
    "GET /api/queues": queues.lists("All queues", VIEWER, *WINDOWS),
    "GET /api/queues/{vhost}": queues.lists("Queues of a virtual host", SEES, *WINDOWS),
    "GET /api/queues/{vhost}/{name}": queues.shows("A queue", SEES, *COLUMNS, *WINDOWS),
    "PUT /api/queues/{vhost}/{name}": queues.puts(
        "Declare a queue", does("configure queue {name}", note=BY_ARGUMENT), DECLARED_QUEUE, may_be_empty=True
    ),
    "DELETE /api/queues/{vhost}/{name}": queues.deletes(
        "Delete a queue with its messages",
        does("configure queue {name}"),
        Query("if-empty", truth("Only without messages")),
        Query("if-unused", truth("Only without consumers")),
    ),
    "DELETE /api/queues/{vhost}/{name}/contents": queues.deletes("Purge a queue", does("read queue {name}")),
    "GET /api/queues/{vhost}/{name}/bindings": queues.lists("Bindings to a queue", SEES),
    "POST /api/queues/{vhost}/{name}/actions": queues.does(
        "Synchronise mirrors: there are none",
        does("configure queue {name}"),
        {204: DONE},
        body=Body(record({"action": text(one_of=("sync", "cancel_sync"))})),
    ),
    # ---- exchanges
    "GET /api/exchanges": exchanges.lists("All exchanges", VIEWER, *WINDOWS),
    "GET /api/exchanges/{vhost}": exchanges.lists("Exchanges of a virtual host", SEES, *WINDOWS),
    "GET /api/exchanges/{vhost}/{name}": exchanges.shows("An exchange", SEES, *COLUMNS, *WINDOWS),
    "PUT /api/exchanges/{vhost}/{name}": exchanges.puts(
        "Declare an exchange",
        does("configure exchange {name}", note=BY_ARGUMENT),
        DECLARED_EXCHANGE,
        may_be_empty=True,
    ),
    "DELETE /api/exchanges/{vhost}/{name}": exchanges.deletes(
        "Delete an exchange",
        does("configure exchange {name}"),
        Query("if-unused", truth("Only without bindings")),
    ),
    "GET /api/exchanges/{vhost}/{name}/bindings/source": exchanges.lists("Bindings from an exchange", SEES),
    "GET /api/exchanges/{vhost}/{name}/bindings/destination": exchanges.lists("Bindings to an exchange", SEES),
    "GET /api/exchanges/{vhost}/{name}/route": exchanges.does(
        "Where a message would go, and by which bindings",
        SEES,
        {200: OBJECT},
        Query("routing_key", text("Of the message; its headers as headers.NAME=VALUE")),
    ),
    # ---- bindings
    "GET /api/bindings": bindings.lists("All bindings", VIEWER),
    "GET /api/bindings/{vhost}": bindings.lists("Bindings of a virtual host", SEES),
    **_bindings_between("queue"),
    **_bindings_between("exchange"),
    # ---- connections, channels, consumers
    "GET /api/connections": connections.lists("Connections", OWN_OR_ALL, *WINDOWS),
    "GET /api/connections/username/{user}": connections.lists("Connections of a user", OWN_OR_ALL, *WINDOWS),
    "DELETE /api/connections/username/{user}": connections.deletes("Close all connections of a user", OWN_OR_ADMIN),
    "GET /api/connections/{name}": connections.shows("A connection", OWN_OR_ALL, *COLUMNS, *WINDOWS),
    "DELETE /api/connections/{name}": connections.deletes("Close a connection; X-Reason tells it why", OWN_OR_ADMIN),
    "GET /api/connections/{name}/channels": connections.lists("Channels of a connection", OWN_OR_ALL, *WINDOWS),
    "GET /api/vhosts/{vhost}/connections": connections.lists("Connections to a virtual host", SEES, *WINDOWS),
    "GET /api/channels": connections.lists("Channels", OWN_OR_ALL, *WINDOWS),
    "GET /api/channels/{name}": connections.shows("A channel", OWN_OR_ALL, *COLUMNS, *WINDOWS),
    "GET /api/vhosts/{vhost}/channels": connections.lists("Channels in a virtual host", SEES, *WINDOWS),
    "GET /api/consumers": connections.lists("Consumers", OWN_OR_ALL),
    "GET /api/consumers/{vhost}": connections.lists("Consumers in a virtual host", SEES._replace(note=OWN_OR_ALL.note)),
}
