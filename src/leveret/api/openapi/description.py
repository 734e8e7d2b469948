"""The words in which an endpoint is described: what it is for, who may use it, what it takes and what it answers.

A description is plain data. ``openapi.py`` makes the document of it. The page docs/guide/permissions.md and the tests
of permissions are made of ``Needs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER

Json = dict[str, Any]

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
METRICS = "text/plain"
FORM = "multipart/form-data"
LARGEST = (1 << 63) - 1
LONGEST_NAME = 255

# ---- who may


Entry = Literal["none", "see", "enter", "change"]


class Needs(NamedTuple):
    """What a user needs.

    ``role``: None for anybody who has logged in, "" for everybody. ``entry``: of the virtual host in the path. To *see*
    it takes permissions there, or a role that sees all; to *enter* it takes permissions there whatever the role; to
    *change* it takes them of all but administrators. ``permissions``: all of them, each a kind and what it is on.
    """

    role: str | None
    entry: Entry = "none"
    permissions: tuple[str, ...] = ()
    note: str = ""


EVERYBODY = Needs("")
LOGGED_IN = Needs(None)
VIEWER = Needs(MANAGEMENT)
MONITOR = Needs(MONITORING)
POLICY_MAKER = Needs(POLICYMAKER)
ADMIN = Needs(ADMINISTRATOR)
SEES = Needs(MANAGEMENT, "see")


def does(*permissions: str, note: str = "") -> Needs:
    """Something in a virtual host, by the rules of AMQP."""
    return Needs(MANAGEMENT, "enter", permissions, note)


def pipes(*permissions: str, note: str = "") -> Needs:
    """The same for the pipeline, whose users need no tag."""
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
    """Names and values."""
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


# ---- parameters of the query


class Query(NamedTuple):
    name: str
    schema: Json
    required: bool = False


PAGING = (
    Query("page", whole("Which page, from 1 on; without it the answer is the whole list", 1)),
    Query("page_size", whole("Rows of a page", 1, 500)),
    Query("name", text("Rows whose name has this in it", longest=1000)),
    Query("use_regex", truth("'name' is a regular expression")),
    Query("sort", text("By this column; a dot leads inside, as in message_stats.publish")),
    Query("sort_reverse", truth("The largest first")),
)
COLUMNS = (Query("columns", text("These alone, with commas between; a dot leads inside")),)
WINDOWS = (
    Query("msg_rates_age", whole("Seconds of samples of rates; goes with msg_rates_incr", 1, 31_536_000)),
    Query("msg_rates_incr", whole("Seconds between these samples", 1, 31_536_000)),
    Query("lengths_age", whole("Seconds of samples of lengths; goes with lengths_incr", 1, 31_536_000)),
    Query("lengths_incr", whole("Seconds between these samples", 1, 31_536_000)),
)


# ---- answers


class Answer(NamedTuple):
    about: str
    schema: Json | None = None  # None: no body
    kind: str = JSON


ROW: Json = {"type": "object"}
PAGE = record(
    {
        "items": list_of(ROW),
        "page": whole(),
        "page_size": whole(),
        "page_count": whole(),
        "item_count": whole(),
        "filtered_count": whole(),
        "total_count": whole(),
    }
)
ROWS = Answer("The rows, or the page that was asked for", {"oneOf": [list_of(ROW), PAGE]})
OBJECT = Answer("As it is now", ROW)
DONE = Answer("Done")
MADE = Answer("Made: there was none before")
CHANGED = Answer("Changed: there was one before")
STREAM = Answer("Messages as an Arrow IPC stream", {"type": "string", "format": "binary"}, ARROW)
EXPOSITION = Answer("In the text format of Prometheus", {"type": "string"}, METRICS)

ERROR = record({"error": text("A word"), "reason": text("The object, the cause and the remedy")})
ERROR_ANSWERS = {
    status: Answer(about, {"$ref": "#/components/schemas/Error"})
    for status, about in {
        400: "A name, a parameter or the body cannot be used; the reason says which",
        401: "Not logged in, or not a user of the management",
        403: "The user lacks a tag, a permission, or access to the virtual host; or a page of another site sent it",
        404: "Something that the path or the request names is not there",
        408: "The body did not come in time",
        409: "It contradicts what is there",
        410: "Retention has taken messages of the range",
        413: "The body is too large",
        501: "An extra is to be installed first: pip install 'leveret[arrow]'",
        503: "An alarm blocks publishers, too much is under way, the disk failed, or the broker stops; try again",
    }.items()
}

Answers = Mapping[int, Answer]


class Body(NamedTuple):
    schema: Json
    required: bool = True
    kinds: tuple[str, ...] = (JSON,)


class Operation(NamedTuple):
    """One method of one path. ``answers`` are those of success, and errors beyond those that every endpoint has."""

    tag: str
    summary: str
    needs: Needs
    answers: Answers
    query: tuple[Query, ...] = ()
    body: Body | None = None
    parts: Mapping[str, Json] = {}  # of the path, where more is known than that it is a name


Operations = dict[str, Operation]
"""By method and path, as in "GET /api/queues/{vhost}"."""


class Resource:
    """Describes the operations of one tag, and those that are alike in one line."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def lists(self, summary: str, needs: Needs, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, {200: ROWS}, (*PAGING, *COLUMNS, *query), **more)

    def shows(self, summary: str, needs: Needs, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, {200: OBJECT}, query, **more)

    def puts(self, summary: str, needs: Needs, body: Json, *, may_be_empty: bool = False, **more: Any) -> Operation:
        asked = Body(body, required=not may_be_empty)
        return Operation(self._tag, summary, needs, {201: MADE, 204: CHANGED}, body=asked, **more)

    def deletes(self, summary: str, needs: Needs, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, {204: DONE}, query, **more)

    def does(self, summary: str, needs: Needs, answers: Answers, *query: Query, **more: Any) -> Operation:
        return Operation(self._tag, summary, needs, answers, query, **more)
