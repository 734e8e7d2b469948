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
    ROW,
    ROWS,
    VIEWER,
    WINDOWS,
    Answer,
    Body,
    Operation,
    Operations,
    Query,
    Resource,
    does,
    list_of,
    name,
    record,
    text,
    whole,
)
from leveret.api.plugins import PLUGIN_ROWS

overview = Resource("Overview")
health = Resource("Health")
metrics = Resource("Metrics")
login = Resource("Login")
links = Resource("Links", LINK_ROWS)
tunnel = Resource("Tunnel")

WELL = Answer("Healthy", record({"status": text(one_of=("ok",))}))
FAILED = Answer("The check failed", {"type": "object"})  # the result of the check, or an error
PORT = {"port": whole("Port number", 1, 65_535)}
SPAN = {"within": whole("Number of units", 1, 10_000), "unit": text(one_of=("days", "weeks", "months", "years"))}
NO_LOGIN_HERE = "Requests from localhost need no login."
RAW = "application/octet-stream"
BYTES = {"type": "string", "format": "binary"}
AT = Query("at", whole("Offset of the first byte of this request in its direction"), required=True)
TUNNELS = ANY_CLIENT._replace(note="The client authenticates inside the tunnel, by AMQP.")
CLOSED = {410: Answer("The broker closed the connection in the tunnel", ERROR_ANSWERS[410].schema)}
TOO_MANY = {429: Answer("Too many tunnels or connections", ERROR_ANSWERS[410].schema)}


def _check(summary: str, **parts: dict[str, object]) -> Operation:
    return health.does(summary, VIEWER, {200: WELL, 503: FAILED}, parts=parts)


NODE: Operations = {
    "GET /api/login": login.does(
        "Get the user of the session cookie",
        ANY_CLIENT,
        {200: Answer("The user, or null without a session", {"type": ["object", "null"]})},
    ),
    "POST /api/login": login.does(
        "Log in and start a session",
        ANY_CLIENT,
        {200: Answer("The user; sets the session cookie", ROW)},
        body=Body(record({"username": text(), "password": text()})),
    ),
    "POST /api/logout": login.does("Log out", LOGGED_IN, {204: DONE}),
    "GET /api/whoami": login.shows("Get the user of the request", VIEWER),
    "GET /api/auth": login.shows("Get the login methods", ANY_CLIENT),
    "GET /api/openapi.json": overview.shows("This document", VIEWER),
    "GET /api/overview": overview.shows("Get totals, rates and listeners of the broker", VIEWER, *COLUMNS, *WINDOWS),
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
    "GET /api/nodes": overview.lists("List nodes (always one)", MONITOR, *WINDOWS),
    "GET /api/nodes/{name}": overview.shows(
        "Get memory, disk, file descriptors and rates of the node", MONITOR, *COLUMNS, *WINDOWS
    ),
    "GET /api/nodes/{name}/memory": overview.shows("Get the memory use by category in bytes", MONITOR, *COLUMNS),
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
    "GET /api/health/checks/node-is-quorum-critical": _check("Check that no quorum depends on this node"),
    "GET /api/health/checks/node-is-mirror-sync-critical": _check("Check that no mirror depends on this node"),
    "GET /api/health/checks/certificate-expiration/{within}/{unit}": _check(
        "Check that the TLS certificate does not expire within this period", **SPAN
    ),
    "GET /api/health/checks/is-in-service": _check("Check that the node is in service"),
    "GET /api/healthchecks/node": _check("Run all health checks"),
    "GET /api/healthchecks/node/{name}": _check("Run all health checks of this node", name=name()),
    "GET /api/aliveness-test/{vhost}": health.does(
        "Declare a test queue, publish a message and get it",
        does("configure queue aliveness-test", "read queue aliveness-test", "write exchange amq.default"),
        {200: WELL, 503: FAILED},
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
