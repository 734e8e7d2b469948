"""What the API tells programs, told to whoever typed a command: the command that helps, not a path and a verb.

Brokers of RabbitMQ answer here too. They say of an object that is not there only that it is not found, and nothing at
all of what they do not have.
"""

from __future__ import annotations

import re
import shlex

Path = tuple[str, ...]

ALL = "'.*'"
ENDINGS = (
    (": declare it first, or look into /api/queues", ": leveret queues list shows those there are"),
    (": declare it first, or look into /api/exchanges", ": leveret exchanges list shows those there are"),
    ("declare one with x-queue-type stream, or look into /api/streams", "leveret streams list shows those there are"),
    ("/api/connections lists those there are", "leveret connections list shows those there are"),
    (": a PUT here gives it some", ": leveret permissions set gives it some"),
    (": a PUT here makes it", ": leveret policies list shows those there are"),
    ('switch tracing on with PUT /api/vhosts/NAME {"tracing": true}', "leveret trace on"),
    ("; see /api/openapi.json", ": the broker may be older than this command, see leveret status"),
)
PATTERNS = (
    (re.compile(r"(no (queue|exchange) '.*' in vhost '.*')"), r"\1: leveret \2s list shows those there are"),
    (
        re.compile(r"((user|vhost) '.*' not found): name an existing one.*", re.DOTALL),
        r"\1: leveret \2s list shows those there are",
    ),
)
NO_ACCESS = re.compile(r"(access to vhost '(.*)' refused for user '(.*)'): give it permissions there", re.DOTALL)
NO_TAG = re.compile(r"(user '(.*)' needs the tag '(\w+)') for this", re.DOTALL)
NO_TAG_AT_ALL = re.compile(r"(not a management user: user '(.*)' has none of the tags .*); .*", re.DOTALL)

# Where RabbitMQ keeps one object of a kind: the length of its path, and how it is called.
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


def for_a_person(reason: str) -> str:
    """The same refusal, with a command as its remedy."""
    for said, remedy in ENDINGS:
        if reason.endswith(said):
            return reason.removesuffix(said) + remedy
    for pattern, told in PATTERNS:
        if (found := pattern.fullmatch(reason)) is not None:
            return found.expand(told)
    return _from_an_administrator(reason)


def _from_an_administrator(reason: str) -> str:
    """For the rights that are missing; who asks can rarely give them to itself."""
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
    return f"{what}; an administrator can help: {remedy}"


def not_found(path: Path) -> str | None:
    """What a mere "Not Found" was about. None: RabbitMQ has nothing at such a path, whatever the names in it."""
    length, kind = OBJECTS.get(path[0], (0, ""))
    if not length or len(path) < length or (len(path) > length and path[length] not in PARTS):
        return None
    where = f" in vhost '{path[1]}'" if length == 3 else ""
    return for_a_person(f"no {kind} '{path[length - 1]}'{where}")


def only_leveret(url: str, method: str, place: str) -> str:
    return (
        f"the broker at {url} has no {method} {place}: it is not Leveret, which this command needs; see leveret status"
    )
