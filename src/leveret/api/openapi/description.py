"""Types of an endpoint's description: summary, required permissions, parameters, body and responses.

A description is plain data. ``document.py`` builds the OpenAPI document from it. The page docs/guide/permissions.md and
the permission tests are generated from ``Needs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from leveret.http.rows import RowDescription

Json = dict[str, Any]

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
METRICS = "text/plain"
FORM = "multipart/form-data"
LARGEST = (1 << 63) - 1
LONGEST_NAME = 255

# ---- permissions


Entry = Literal["none", "see", "enter", "change"]


class Needs(NamedTuple):
    """What a user needs to call an endpoint.

    ``role``: a tag, None for any authenticated user, "" if no login is needed. ``entry`` is about the virtual host in
    the path: *see* needs permissions there, or a role that sees all virtual hosts; *enter* needs permissions there for
    every role; *change* needs permissions there for every role but administrator. ``permissions``: all are needed; each
    is a kind (configure, write, read) and an object.
    """

    role: str | None
    entry: Entry = "none"
    permissions: tuple[str, ...] = ()
    note: str = ""


ANY_CLIENT = Needs("")
LOGGED_IN = Needs(None)
VIEWER = Needs(MANAGEMENT)
MONITOR = Needs(MONITORING)
POLICY_MAKER = Needs(POLICYMAKER)
ADMIN = Needs(ADMINISTRATOR)
SEES = Needs(MANAGEMENT, "see")


def does(*permissions: str, note: str = "") -> Needs:
    """Needs of an operation in a virtual host, by the rules of AMQP."""
    return Needs(MANAGEMENT, "enter", permissions, note)


def pipes(*permissions: str, note: str = "") -> Needs:
    """Needs of a pipeline operation: as ``does``, but without a tag."""
    return Needs(None, "enter", permissions, note)


def changes(role: str) -> Needs:
    return Needs(role, "change")


# ---- values


def text(about: str = "", *, one_of: tuple[str, ...] = (), shortest: int = 0, longest: int = 0) -> Json:
    schema: Json = {"type": "string"}
    if about:
        schema["description"] = about
    if one_of:
        schema["enum"] = list(one_of)
    if shortest:
        schema["minLength"] = shortest
    if longest:
        schema["maxLength"] = longest
    return schema


def name(about: str = "") -> Json:
    return text(about, shortest=1, longest=LONGEST_NAME)


def whole(about: str = "", smallest: int = 0, largest: int = LARGEST) -> Json:
    return _told({"type": "integer", "minimum": smallest, "maximum": largest}, about)


def truth(about: str = "") -> Json:
    return _told({"type": "boolean"}, about)


def table(about: str = "") -> Json:
    """A JSON object of names and values."""
    return _told({"type": "object"}, about)


def list_of(schema: Json, about: str = "") -> Json:
    return _told({"type": "array", "items": schema}, about)


def anything(about: str = "") -> Json:
    return _told({}, about)


def record(required: Mapping[str, Json] | None = None, **fields: Json) -> Json:
    """An object with these fields. Names with a dash come in ``required`` or by ``**{...}``."""
    needed = dict(required or {})
    schema: Json = {"type": "object", "properties": needed | fields}
    return schema | {"required": list(needed)} if needed else schema


def _told(schema: Json, about: str) -> Json:
    return schema | {"description": about} if about else schema


# ---- query parameters


class Query(NamedTuple):
    name: str
    schema: Json
    required: bool = False


PAGING = (
    Query("page", whole("Page number, from 1; default: the whole list", 1)),
    Query("page_size", whole("Rows per page", 1, 500)),
    Query("name", text("Only rows whose name contains this text", longest=1000)),
    Query("use_regex", truth("'name' is a regular expression")),
    Query("sort", text("Column to sort by; nested fields with a dot, as in message_stats.publish")),
    Query("sort_reverse", truth("Sort in descending order")),
    Query("node", text("With several cells: only the queues, connections, channels, consumers of this node or cell")),
)
COLUMNS = (Query("columns", text("Comma-separated columns to return; nested fields with a dot")),)
WINDOWS = (
    Query("msg_rates_age", whole("Age of the oldest rate sample in seconds; needs msg_rates_incr", 1, 31_536_000)),
    Query("msg_rates_incr", whole("Seconds between samples", 1, 31_536_000)),
    Query("lengths_age", whole("Age of the oldest queue length sample in seconds; needs lengths_incr", 1, 31_536_000)),
    Query("lengths_incr", whole("Seconds between samples", 1, 31_536_000)),
)


# ---- responses


class Answer(NamedTuple):
    about: str
    schema: Json | None = None  # None: no body
    kind: str = JSON


def rows_with(columns: tuple[str, ...]) -> Answer:
    """A list, or a page of it, whose rows have these columns."""
    row: Json = {"type": "object", "properties": {column: {} for column in columns}} if columns else ROW
    counts = ("page", "page_size", "page_count", "item_count", "filtered_count", "total_count")
    page = record({"items": list_of(row), **{count: whole() for count in counts}})
    return Answer("All rows, or the requested page", {"oneOf": [list_of(row), page]})


ROW: Json = {"type": "object"}
ROWS = rows_with(())
OBJECT = Answer("Success", ROW)
DONE = Answer("Success")
MADE = Answer("Created")
CHANGED = Answer("Updated an existing object")
STREAM = Answer("Messages as an Arrow IPC stream", {"type": "string", "format": "binary"}, ARROW)
EXPOSITION = Answer("Metrics in the Prometheus text format", {"type": "string"}, METRICS)

ERROR = record({"error": text("Error code"), "reason": text("The object, the cause and the remedy")})
ERROR_ANSWERS = {
    status: Answer(about, {"$ref": "#/components/schemas/Error"})
    for status, about in {
        400: "Invalid name, parameter or body; the reason names it",
        401: "Not authenticated, or the user has no management tag",
        403: "The user lacks a tag, a permission or access to the virtual host; or another website sent the request",
        404: "An object named by the path or the request does not exist",
        408: "The body was not received in time",
        409: "The request conflicts with the current state",
        410: "Retention has deleted messages of the requested range",
        413: "The body is too large",
        501: "A missing extra must be installed first: pip install 'leveret[arrow]'",
        503: "Publishers are blocked by an alarm, the broker is busy or stopping, or the disk failed; retry later",
    }.items()
}

Answers = Mapping[int, Answer]


class Body(NamedTuple):
    schema: Json
    required: bool = True
    kinds: tuple[str, ...] = (JSON,)


class Operation(NamedTuple):
    """One method of one path. ``answers``: successful responses, and errors beyond those that every endpoint has."""

    tag: str
    summary: str
    needs: Needs
    answers: Answers
    query: tuple[Query, ...] = ()
    body: Body | None = None
    parts: Mapping[str, Json] = {}  # schemas of path parameters that are not plain names


Operations = dict[str, Operation]
"""Keyed by method and path, as in "GET /api/queues/{vhost}"."""


class Resource:
    """Builds the operations of one OpenAPI tag; ``rows`` describes the rows of its lists."""

    def __init__(self, tag: str, rows: RowDescription[Any] | None = None) -> None:
        self._tag = tag
        self._rows = rows_with(() if rows is None else rows.columns)

    def lists(self, summary: str, needs: Needs, *query: Query, rows: RowDescription[Any] | None = None) -> Operation:
        """``rows``: other rows than those of the resource."""
        answers = {200: self._rows if rows is None else rows_with(rows.columns)}
        return Operation(self._tag, summary, needs, answers, (*PAGING, *COLUMNS, *query))

    def vhost_lists(self, path: str, things: str, *query: Query, note: str = "") -> Operations:
        """The two lists of api.endpoints.vhost_lists."""
        return {
            f"GET {path}": self.lists(f"List {things}", VIEWER._replace(note=note), *query),
            f"GET {path}/{{vhost}}": self.lists(f"List {things} in a virtual host", SEES._replace(note=note), *query),
        }

    def shows(self, summary: str, needs: Needs, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, {200: OBJECT}, query, **more)

    def puts(self, summary: str, needs: Needs, body: Json, *, may_be_empty: bool = False, **more: Any) -> Operation:
        asked = Body(body, required=not may_be_empty)
        return Operation(self._tag, summary, needs, {201: MADE, 204: CHANGED}, body=asked, **more)

    def deletes(self, summary: str, needs: Needs, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, {204: DONE}, query, **more)

    def does(self, summary: str, needs: Needs, answers: Answers, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, answers, query, **more)
