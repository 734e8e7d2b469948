"""Descriptions of the node: overview, health checks, metrics, login and tunnels."""

from __future__ import annotations

from leveret.api.links import LINK_ROWS
from leveret.api.openapi.description import (
    ADMIN,
    ANY_CLIENT,
    COLUMNS,
    DONE,
    ERROR_ANSWERS,
    EXPOSITION,
    LOGGED_IN,
    MONITOR,
    OBJECT,
    ROW,
    ROWS,
    VIEWER,
    WINDOWS,
    Answer,
    Answers,
    Body,
    Needs,
    Operation,
    Operations,
    Query,
    Resource,
    does,
    list_of,
    name,
    record,
    text,
    truth,
    whole,
)
from leveret.api.plugins import PLUGIN_ROWS
from leveret.api.queue_moves import CELL_ROWS, MOVE_ROWS, PROPOSAL_ROWS
from leveret.http.roles import POLICYMAKER

overview = Resource("Overview")
health = Resource("Health")
metrics = Resource("Metrics")
login = Resource("Login")
links = Resource("Links", LINK_ROWS)
cluster = Resource("Cluster")
cells = Resource("Cells", CELL_ROWS)
tunnel = Resource("Tunnel")

WELL = Answer("Healthy", record({"status": text(one_of=("ok",))}))
NOT_WELL = Answer("Not healthy", record({"status": text(one_of=("failed",))}))
FAILED = Answer("The check failed", {"type": "object"})  # the result of the check, or an error
PORT = {"port": whole("Port number", 1, 65_535)}
SPAN = {"within": whole("Number of units", 1, 10_000), "unit": text(one_of=("days", "weeks", "months", "years"))}
NO_LOGIN_HERE = "Requests from localhost need no login; with `metrics_auth = off`, none do."
RAW = "application/octet-stream"
BYTES = {"type": "string", "format": "binary"}
AT = Query("at", whole("Offset of the first byte of this request in its direction"), required=True)
NODE_WINDOWS = (
    *WINDOWS,
    Query("node_stats_age", whole("Age of the oldest sample of memory, disk, CPU, ... in seconds", 1, 31_536_000)),
    Query("node_stats_incr", whole("Seconds between samples", 1, 31_536_000)),
)
TUNNELS = ANY_CLIENT._replace(note="The client authenticates inside the tunnel, by AMQP.")
CLOSED = {410: Answer("The broker closed the connection in the tunnel", ERROR_ANSWERS[410].schema)}
NO_CELL = {404: Answer("This node does not belong to a cell", ERROR_ANSWERS[404].schema)}
HANDED_OVER = record({"from": text(), "to": text("The node that takes over"), "epoch": whole("The epoch that ends")})
MOVES = record({"moves": list_of(record({"cell": text(), "from": text(), "to": text("The node that takes over")}))})
TOO_MANY = {429: Answer("Too many tunnels or connections", ERROR_ANSWERS[410].schema)}


SIGN_ON_FAILED: Answers = {
    404: Answer("Single sign-on is not configured", ERROR_ANSWERS[404].schema),
    502: Answer("The identity provider cannot be used", ERROR_ANSWERS[404].schema),
}
PROVIDER_RESPONSE = record(
    {"state": text()},
    code=text(),
    iss=text("The issuer, if the provider sends it"),
    error=text("Instead of a code"),
    error_description=text(),
)
ONE_CELL = {404: Answer("There is only one cell, or none of this name", ERROR_ANSWERS[404].schema)}


def with_answers(operation: Operation, answers: Answers) -> Operation:
    return operation._replace(answers={**operation.answers, **answers})


MOVES_QUEUE = Needs(POLICYMAKER, "enter", ("configure queue {name}",))
MOVE_TO = Body(record({"to": text("The cell to move the queue to", shortest=1)}))
MOVE_BEGUN = {202: Answer("The id of the move", record({"id": text()})), **ONE_CELL}


def _check(summary: str, *query: Query, **parts: dict[str, object]) -> Operation:
    return health.does(summary, VIEWER, {200: WELL, 503: FAILED}, *query, parts=parts)


NODE: Operations = {
    "GET /api/login": login.does(
        "Get the user of the Authorization header or of the session cookie",
        ANY_CLIENT._replace(note="Credentials that are sent must be those of a user with a management tag."),
        {200: Answer("The user, or null without both", {"type": ["object", "null"]}), 401: ERROR_ANSWERS[401]},
    ),
    "POST /api/login": login.does(
        "Log in and start a session",
        ANY_CLIENT,
        {200: Answer("The user; sets the session cookie", ROW)},
        body=Body(record({"username": text(), "password": text()})),
    ),
    "POST /api/login/oidc/start": login.does(
        "Start a login with single sign-on",
        ANY_CLIENT._replace(note="For the management UI: needs its Origin."),
        {
            200: Answer("The URL of the provider's login; sets a cookie", record({"location": text()})),
            **SIGN_ON_FAILED,
        },
    ),
    "POST /api/login/oidc": login.does(
        "Complete a login with single sign-on and start a session",
        ANY_CLIENT._replace(note="For the browser that started the login."),
        {200: Answer("The user; sets the session cookie", ROW), **SIGN_ON_FAILED},
        body=Body(PROVIDER_RESPONSE),
    ),
    "POST /api/logout": login.does("Log out", LOGGED_IN, {204: DONE}),
    "GET /api/whoami": login.shows("Get the user of the request", VIEWER),
    "GET /api/auth": login.shows("Get the login methods", ANY_CLIENT),
    "GET /api/openapi.json": overview.shows("This document", VIEWER),
    "GET /api/overview": overview.shows("Get totals, rates and listeners of the broker", VIEWER, *COLUMNS, *WINDOWS),
    "GET /api/cells": with_answers(cells.lists("List cells with their queues and messages", MONITOR), ONE_CELL),
    "POST /api/cells": cells.does(
        "Start one more cell",
        ADMIN._replace(note="The response comes when the cell is ready. With `leveret serve --cells` only."),
        {
            201: Answer("Its name", record({"name": text()})),
            400: ERROR_ANSWERS[400],
            409: ERROR_ANSWERS[409],
            **ONE_CELL,
        },
    ),
    "DELETE /api/cells/{name}": cells.does("Take a cell out of service", ADMIN, {204: DONE, **ONE_CELL}),
    "POST /api/cells/{name}/keep": cells.does("Keep a cell that is leaving", ADMIN, {204: DONE, **ONE_CELL}),
    "POST /api/queues/{vhost}/{name}/move": cells.does(
        "Move a queue to another cell", MOVES_QUEUE, MOVE_BEGUN, body=MOVE_TO
    ),
    "PUT /api/queues/{vhost}/{name}/move": cells.does(
        "Move a queue to another cell, as POST", MOVES_QUEUE, MOVE_BEGUN, body=MOVE_TO
    ),
    "GET /api/queue-moves": with_answers(
        cells.lists("List running and recent moves of queues", VIEWER, rows=MOVE_ROWS), ONE_CELL
    ),
    "GET /api/queue-moves/proposals": with_answers(
        cells.lists(
            "List moves that would spread queues evenly over cells",
            Needs(POLICYMAKER),
            Query("vhost", text("Only queues of this virtual host")),
            rows=PROPOSAL_ROWS,
        ),
        ONE_CELL,
    ),
    "GET /api/queue-moves/{id}": cells.shows(
        "Get the progress of a move", VIEWER._replace(note="The user must see the virtual host of the queue.")
    ),
    "GET /api/cluster-name": overview.shows("Get the cluster name", VIEWER),
    "PUT /api/cluster-name": overview.does(
        "Set the cluster name",
        ADMIN,
        {204: DONE},
        body=Body(record({"name": name("Shown in the management UI and in metrics")})),
    ),
    "GET /api/extensions": overview.does("List management extensions (always empty)", VIEWER, {200: ROWS}),
    "GET /api/feature-flags": overview.does("List feature flags (always empty)", VIEWER, {200: ROWS}),
    "GET /api/deprecated-features": overview.does("List deprecated features (always empty)", VIEWER, {200: ROWS}),
    "GET /api/deprecated-features/used": overview.does(
        "List deprecated features in use (always empty)", VIEWER, {200: ROWS}
    ),
    "GET /api/shovels": links.lists("List shovels (always empty)", MONITOR),
    "GET /api/shovels/{vhost}": links.lists("List shovels in a virtual host (always empty)", MONITOR),
    "GET /api/federation-links": links.lists("List federation links (always empty)", MONITOR),
    "GET /api/federation-links/state/{state}": links.lists("List federation links in a state (always empty)", MONITOR),
    "GET /api/federation-links/{vhost}": links.lists("List federation links in a virtual host (always empty)", MONITOR),
    "GET /api/federation-links/{vhost}/state/{state}": links.lists(
        "List federation links in a state (always empty)", MONITOR
    ),
    "POST /api/rebalance/queues": overview.does("Rebalance queues (no effect: there is one node)", ADMIN, {204: DONE}),
    "GET /api/nodes": overview.lists(
        "List nodes: this one, and the other members of its cell, or of all cells", MONITOR, *NODE_WINDOWS
    ),
    "GET /api/nodes/{name}": overview.shows(
        "Get memory, disk, file descriptors and rates of the leader; role and lag of any member",
        MONITOR,
        *COLUMNS,
        *NODE_WINDOWS,
    ),
    "GET /api/nodes/{name}/log": overview.shows(
        "Get the latest log lines of a node",
        ADMIN,
        Query("level", text("Lowest level", one_of=("debug", "info", "warning", "error"))),
        Query("after", whole("Only lines behind this number")),
        Query("run", text("Run of the broker that the number belongs to; in any other run the number is ignored")),
        Query("limit", whole("Number of lines, the latest", 1, 1000)),
    ),
    "GET /api/alarms": overview.does("List the alarms in effect", VIEWER, {200: ROWS}),
    "GET /api/nodes/{name}/memory": overview.shows("Get the memory use by category in bytes", MONITOR, *COLUMNS),
    "GET /api/cluster": cluster.does(
        "Get the state of the cell: members with their lag, servers of the engine, the log, take-overs",
        MONITOR,
        {200: OBJECT, **NO_CELL},
        *COLUMNS,
    ),
    "POST /api/cluster/handover": cluster.does(
        "Hand over the leadership of the cell to another node",
        ADMIN,
        {202: Answer("The other node takes over now", HANDED_OVER), **NO_CELL},
        body=Body(
            record(
                to=text("Node that is to lead; default: the most advanced standby"),
                cell=text("One of several cells; default: the first"),
            ),
            required=False,
        ),
    ),
    "GET /api/cluster/cells": cluster.does(
        "List the cells of the cluster: leader, standbys with their lag, leader epoch", MONITOR, {200: ROWS, **NO_CELL}
    ),
    "POST /api/cluster/cells/balance": cluster.does(
        "Hand over leaderships so that the leaders of the cells are spread over the nodes",
        ADMIN,
        {
            200: Answer("The hand-overs that would be made (dry_run)", MOVES),
            202: Answer("The hand-overs that are made now", MOVES),
            **NO_CELL,
        },
        body=Body(record(dry_run=truth("Only show the hand-overs")), required=False),
    ),
    "GET /api/nodes/{name}/memory/relative": overview.shows(
        "Get the memory use by category in percent", MONITOR, *COLUMNS
    ),
    "GET /api/plugins": overview.lists("List the built-in counterparts of RabbitMQ plugins", ADMIN, rows=PLUGIN_ROWS),
    "GET /api/plugins/{name}": overview.shows("Get a plugin: whether it is enabled, and what uses it", ADMIN, *COLUMNS),
    "PUT /api/plugins/{name}": overview.shows("Enable a plugin", ADMIN),
    "DELETE /api/plugins/{name}": overview.shows("Disable a plugin; existing uses continue", ADMIN),
    "GET /api/health/checks/alarms": _check("Check that no alarm is in effect"),
    "GET /api/health/checks/local-alarms": _check("Check that no alarm is in effect on this node"),
    "GET /api/health/checks/port-listener/{port}": _check("Check that a listener is bound to the port", **PORT),
    "GET /api/health/checks/protocol-listener/{protocol}": _check("Check that a listener serves the protocol"),
    "GET /api/health/checks/virtual-hosts": _check("Check that all virtual hosts are running"),
    "GET /api/health/checks/node-is-quorum-critical": _check(
        "Check that each cell survives another failure after a node has stopped",
        Query("node", text("The node to stop; default: any that is up to date")),
    ),
    "GET /api/health/checks/node-is-mirror-sync-critical": _check("Check that no mirror depends on this node"),
    "GET /api/health/checks/certificate-expiration/{within}/{unit}": _check(
        "Check that the TLS certificate does not expire within this period", **SPAN
    ),
    "GET /api/health/checks/is-in-service": _check("Check that the node is in service"),
    "GET /api/health/checks/ready-to-serve-clients": _check("Check that clients can connect, publish and consume"),
    "GET /api/healthchecks/node": _check("Run all health checks"),
    "GET /api/healthchecks/node/{name}": _check("Run all health checks of this node", name=name()),
    "GET /api/aliveness-test/{vhost}": health.does(
        "Declare a test queue, publish a message and get it",
        does("configure queue aliveness-test", "read queue aliveness-test", "write exchange amq.default"),
        {200: WELL, 503: FAILED},
    ),
    "GET /health/live": health.does("Check that the broker responds", ANY_CLIENT, {200: WELL, 503: NOT_WELL}),
    "GET /health/ready": health.does(
        "Check that clients can connect, publish and consume", ANY_CLIENT, {200: WELL, 503: NOT_WELL}
    ),
    "GET /metrics": metrics.does(
        "Prometheus metrics, aggregated over all objects", MONITOR._replace(note=NO_LOGIN_HERE), {200: EXPOSITION}
    ),
    "GET /metrics/per-object": metrics.does(
        "Prometheus metrics of each object", MONITOR._replace(note=NO_LOGIN_HERE), {200: EXPOSITION}
    ),
    "GET /metrics/detailed": metrics.does(
        "Prometheus metrics of each object, by metric family and virtual host",
        MONITOR._replace(note=NO_LOGIN_HERE),
        {200: EXPOSITION},
        Query("family", list_of(text())),
        Query("vhost", list_of(text())),
    ),
    "POST /api/tunnel": tunnel.does(
        "Open an AMQP connection over HTTP requests",
        TUNNELS,
        {201: Answer("The id of the tunnel, and the maximum body size in bytes", ROW), **TOO_MANY},
    ),
    "POST /api/tunnel/{id}": tunnel.does(
        "Send bytes to the broker", TUNNELS, {204: DONE, **CLOSED}, AT, body=Body(BYTES, kinds=(RAW,))
    ),
    "GET /api/tunnel/{id}": tunnel.does(
        "Receive bytes from the broker (long polling)",
        TUNNELS,
        {200: Answer("The bytes", BYTES, RAW), 204: Answer("No bytes yet: poll again"), **CLOSED},
        AT,
    ),
    "DELETE /api/tunnel/{id}": tunnel.deletes("Close the tunnel", TUNNELS),
}
