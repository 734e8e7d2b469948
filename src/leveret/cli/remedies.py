"""Errors of the API for users of the command line: the remedy is a command instead of an HTTP request.

Errors of RabbitMQ have no remedies, and often no text: they are completed from the path of the request.
"""

from __future__ import annotations

import re
import shlex

Path = tuple[str, ...]

ALL = "'.*'"
REST = r"(?:[:;] .*)?"  # the remedy for programs
PATTERNS = tuple(
    (re.compile(pattern + REST, re.DOTALL), remedy)
    for pattern, remedy in (
        (
            r"(no (queue|exchange|stream) '.*?' in vhost '.*?'(?:, only an? \w+ of that name)?)",
            r"\1: see 'leveret \2s list'",
        ),
        (r"(no schema '.*?' in vhost '.*?')", r"\1: see 'leveret schemas list'"),
        (r"(no (?:operator )?policy '.*?' in vhost '.*?')", r"\1: see 'leveret policies list'"),
        (r"(no connection '.*?': .*?)", r"\1: see 'leveret connections list'"),
        (r"((user|vhost) '.*?' not found)", r"\1: see 'leveret \2s list'"),
        (r"(user '.*?' has no permissions in vhost '.*?')", r"\1: set them with 'leveret permissions set'"),
        (r"(vhost '.*?' has no tracing.*?)", r"\1: enable tracing with 'leveret trace on'"),
        (r"(no such path: \S+?)", r"\1: the broker may be older than this command, see 'leveret status'"),
    )
)
NO_ACCESS = re.compile(r"(access to vhost '(.*)' refused for user '(.*)'): give it permissions there", re.DOTALL)
NO_TAG = re.compile(r"(user '(.*)' needs the tag '(\w+)') for this", re.DOTALL)
NO_TAG_AT_ALL = re.compile(r"(not a management user: user '(.*)' has none of the tags .*); .*", re.DOTALL)

# Paths of single objects in RabbitMQ's API: the length of the path, and the word for the object.
OBJECTS = {
    "queues": (3, "queue"),
    "exchanges": (3, "exchange"),
    "policies": (3, "policy"),
    "operator-policies": (3, "operator policy"),
    "users": (2, "user"),
    "vhosts": (2, "vhost"),
    "connections": (2, "connection"),
}
PARTS = {"get", "contents", "bindings", "publish", "permissions", "topic-permissions", "connections", "channels"}


def with_command(reason: str) -> str:
    """The same error, with a command as its remedy."""
    for pattern, template in PATTERNS:
        if (found := pattern.fullmatch(reason)) is not None:
            return found.expand(template)
    return _for_an_administrator(reason)


def _for_an_administrator(reason: str) -> str:
    """Missing permissions and tags, which only an administrator can grant."""
    if found := NO_ACCESS.fullmatch(reason):
        what, vhost, user = found.groups()
        named = f"{shlex.quote(user)} --vhost {shlex.quote(vhost)}"
        remedy = f"leveret permissions set {named} --configure {ALL} --write {ALL} --read {ALL}"
    elif found := NO_TAG.fullmatch(reason):
        what, user, tag = found.groups()
        remedy = f"leveret users tags {shlex.quote(user)} --tag {tag}"
    elif found := NO_TAG_AT_ALL.fullmatch(reason):
        what, user = found.groups()
        remedy = f"leveret users tags {shlex.quote(user)} --tag management"
    else:
        return reason
    return f"{what}; an administrator can run: {remedy}"


def not_found(path: Path) -> str | None:
    """The text for a bare "Not Found", by the path. None: RabbitMQ's API has no such path."""
    length, kind = OBJECTS.get(path[0], (0, ""))
    if not length or len(path) < length or (len(path) > length and path[length] not in PARTS):
        return None
    where = f" in vhost '{path[1]}'" if length == 3 else ""
    return with_command(f"no {kind} '{path[length - 1]}'{where}")


def only_leveret(url: str, method: str, place: str) -> str:
    return f"the broker at {url} does not support {method} {place}: this command needs Leveret; see 'leveret status'"
