"""What is described of the node itself: its overview, health and metrics, the login of the page, tunnels."""

from __future__ import annotations

from leveret.api.openapi.description import (
    ADMIN,
    COLUMNS,
    DONE,
    ERROR_ANSWERS,
    EVERYBODY,
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

overview = Resource("Overview")
health = Resource("Health")
metrics = Resource("Metrics")
login = Resource("Login")
links = Resource("Links")
tunnel = Resource("Tunnel")

WELL = Answer("All is well", record({"status": text(one_of=("ok",))}))
FAILED = Answer("What is wrong", {"type": "object"})  # of a check, or an error as everywhere
PORT = {"port": whole("A port", 1, 65_535)}
SPAN = {"within": whole("How many", 1, 10_000), "unit": text(one_of=("days", "weeks", "months", "years"))}
NO_LOGIN_HERE = "From this machine metrics need no login."
RAW = "application/octet-stream"
BYTES = {"type": "string", "format": "binary"}
AT = Query("at", whole("Which byte of its way is the first of the request"), required=True)
DIGS = EVERYBODY._replace(note="AMQP logs in inside the tunnel.")
CLOSED = {410: Answer("The broker has closed the connection in the tunnel", ERROR_ANSWERS[410].schema)}
TOO_MANY = {429: Answer("There are too many tunnels, or connections", ERROR_ANSWERS[410].schema)}


def _check(summary: str, **parts: dict[str, object]) -> Operation:
    return health.does(summary, VIEWER, {200: WELL, 503: FAILED}, parts=parts)


NODE: Operations = {
    "GET /api/login": login.does(
        "Whose session the cookie is", EVERYBODY, {200: Answer("A user, or null", {"type": ["object", "null"]})}
    ),
    "POST /api/login": login.does(
        "Begin a session",
        EVERYBODY,
        {200: Answer("Who has logged in; with the cookie", ROW)},
        body=Body(record({"username": text(), "password": text()})),
    ),
    "POST /api/logout": login.does("End the session", LOGGED_IN, {204: DONE}),
    "GET /api/whoami": login.shows("Who asks", VIEWER),
    "GET /api/auth": login.shows("Ways to log in besides a password", EVERYBODY),
    "GET /api/openapi.json": overview.shows("This document", VIEWER),
    "GET /api/overview": overview.shows("Everything at a glance", VIEWER, *COLUMNS, *WINDOWS),
    "GET /api/cluster-name": overview.shows("The name that was given, or that of the node", VIEWER),
    "PUT /api/cluster-name": overview.does(
        "Give a name", ADMIN, {204: DONE}, body=Body(record({"name": name("For people and dashboards")}))
    ),
    "GET /api/extensions": overview.does("Extensions of the page; there are none", VIEWER, {200: ROWS}),
    "GET /api/feature-flags": overview.does("Feature flags; there are none", VIEWER, {200: ROWS}),
    "GET /api/deprecated-features": overview.does("Deprecated features; there are none", VIEWER, {200: ROWS}),
    "GET /api/deprecated-features/used": overview.does("Those in use; there are none", VIEWER, {200: ROWS}),
    "GET /api/shovels": links.lists("Shovels; there are none", MONITOR),
    "GET /api/shovels/{vhost}": links.lists("Shovels of a virtual host; there are none", MONITOR),
    "GET /api/federation-links": links.lists("Federation links; there are none", MONITOR),
    "GET /api/federation-links/state/{state}": links.lists("Those in this state; there are none", MONITOR),
    "GET /api/federation-links/{vhost}": links.lists("Those of a virtual host; there are none", MONITOR),
    "GET /api/federation-links/{vhost}/state/{state}": links.lists("Those in this state; there are none", MONITOR),
    "POST /api/rebalance/queues": overview.does("Spread queues over nodes: one has all", ADMIN, {204: DONE}),
    "GET /api/nodes": overview.lists("All nodes: one", MONITOR, *WINDOWS),
    "GET /api/nodes/{name}": overview.shows("The node: memory, disk, files, rates", MONITOR, *COLUMNS, *WINDOWS),
    "GET /api/nodes/{name}/memory": overview.shows("What uses the memory", MONITOR, *COLUMNS),
    "GET /api/nodes/{name}/memory/relative": overview.shows("The same in hundredths", MONITOR, *COLUMNS),
    "GET /api/plugins": overview.lists("What RabbitMQ has as plugins, and is built in here", ADMIN),
    "GET /api/plugins/{name}": overview.shows("A plugin: whether it is on, and who uses it", ADMIN, *COLUMNS),
    "PUT /api/plugins/{name}": overview.shows("Enable a plugin", ADMIN),
    "DELETE /api/plugins/{name}": overview.shows("Disable a plugin; what uses it goes on", ADMIN),
    "GET /api/health/checks/alarms": _check("No alarm is in effect"),
    "GET /api/health/checks/local-alarms": _check("No alarm is in effect here"),
    "GET /api/health/checks/port-listener/{port}": _check("Something listens on the port", **PORT),
    "GET /api/health/checks/protocol-listener/{protocol}": _check("Something speaks the protocol"),
    "GET /api/health/checks/virtual-hosts": _check("All virtual hosts run"),
    "GET /api/health/checks/node-is-quorum-critical": _check("No quorum hangs on this node"),
    "GET /api/health/checks/node-is-mirror-sync-critical": _check("No mirror hangs on this node"),
    "GET /api/health/checks/certificate-expiration/{within}/{unit}": _check("The certificate lasts so long", **SPAN),
    "GET /api/health/checks/is-in-service": _check("The node serves clients"),
    "GET /api/healthchecks/node": _check("Everything at once"),
    "GET /api/healthchecks/node/{name}": _check("Everything at once, of this node", name=name()),
    "GET /api/aliveness-test/{vhost}": health.does(
        "Publish a message and get it",
        does("configure queue aliveness-test", "read queue aliveness-test", "write exchange amq.default"),
        {200: WELL, 503: FAILED},
    ),
    "GET /metrics": metrics.does("Sums over all objects", MONITOR._replace(note=NO_LOGIN_HERE), {200: EXPOSITION}),
    "GET /metrics/per-object": metrics.does(
        "A line for each object", MONITOR._replace(note=NO_LOGIN_HERE), {200: EXPOSITION}
    ),
    "GET /metrics/detailed": metrics.does(
        "A line for each object, of chosen families and virtual hosts",
        MONITOR._replace(note=NO_LOGIN_HERE),
        {200: EXPOSITION},
        Query("family", list_of(text())),
        Query("vhost", list_of(text())),
    ),
    "POST /api/tunnel": tunnel.does(
        "Open a connection of AMQP in requests of HTTP",
        DIGS,
        {201: Answer("Its id, and how many bytes it takes at once", ROW), **TOO_MANY},
    ),
    "POST /api/tunnel/{id}": tunnel.does(
        "Bytes for the broker", DIGS, {204: DONE, **CLOSED}, AT, body=Body(BYTES, kinds=(RAW,))
    ),
    "GET /api/tunnel/{id}": tunnel.does(
        "Bytes from the broker, waited for",
        DIGS,
        {200: Answer("Some", BYTES, RAW), 204: Answer("None in time: ask again"), **CLOSED},
        AT,
    ),
    "DELETE /api/tunnel/{id}": tunnel.deletes("The peer leaves the connection", DIGS),
}
