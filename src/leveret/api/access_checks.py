"""The permission rules of an operation (broker/permission_rules.py), each with the pattern that decides it.

The operation is not performed, and its objects need not exist. The broker refuses an operation at the first check that
fails; here all checks are listed. Some operations are refused to every user, such as changing the default exchange or
using names that begin with ``amq.``: these refusals are listed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from leveret.auth.permissions import EVERYTHING
from leveret.broker.access import DEFAULT_EXCHANGE, KINDS, UserAccess, may_enter
from leveret.broker.permission_rules import RULES, Need, Operation, Subject, TopicNeed, needs_of
from leveret.http.rows import Row
from leveret.queues.options import DEAD_LETTER_EXCHANGE
from leveret.routing.exchange import ALTERNATE_EXCHANGE

RESERVED = "amq."


class Attempt(NamedTuple):
    """An operation of a user. ``other`` is the second exchange that takes part in it, if one was given; ``arguments``
    are those of a declaration."""

    access: UserAccess
    name: str
    other: str | None
    key: str | None
    arguments: Mapping[str, object] = {}


class Check(NamedTuple):
    """``pattern`` is None where no pattern decides; ``remedy`` is empty if the check passed."""

    check: Literal["enter", "permission", "topic permission", "rule"]
    kind: str
    what: str
    name: str
    pattern: str | None
    passed: bool
    text: str
    remedy: str

    def row(self) -> Row:
        return self._asdict()


class Action(NamedTuple):
    """``what`` is the type of the named object, ``other`` the role of the second exchange, empty if there is none."""

    what: Literal["queue", "exchange", "queue or exchange"]
    other: str = ""
    needs_other: bool = False
    takes_key: bool = False
    other_argument: str = ""  # the argument that names the second exchange; the operation takes other arguments too


_BINDING_OF_QUEUE = Action("queue", "source", needs_other=True, takes_key=True)
_BINDING_OF_EXCHANGE = Action("exchange", "source", needs_other=True, takes_key=True)
ACTIONS: dict[str, Action] = {
    "declare queue": Action("queue", "dead letter exchange", other_argument=DEAD_LETTER_EXCHANGE),
    "delete queue": Action("queue"),
    "look at queue": Action("queue"),
    "bind queue": _BINDING_OF_QUEUE,
    "unbind queue": _BINDING_OF_QUEUE,
    "consume": Action("queue"),
    "get": Action("queue"),
    "purge": Action("queue"),
    "publish": Action("exchange", takes_key=True),
    "declare exchange": Action("exchange", "alternate exchange", other_argument=ALTERNATE_EXCHANGE),
    "delete exchange": Action("exchange"),
    "look at exchange": Action("exchange"),
    "bind exchange": _BINDING_OF_EXCHANGE,
    "unbind exchange": _BINDING_OF_EXCHANGE,
    **{kind: Action("queue or exchange", takes_key=kind != "configure") for kind in KINDS},
}


def checks_of(action: str, attempt: Attempt) -> list[Check]:
    """All checks of the operation. A user without access to the virtual host gets only that check."""
    entry = _entry(attempt.access)
    if not entry.passed:
        return [entry]
    if action in KINDS:
        return [entry, *_plain(action, attempt)]
    operation = _operation(action)
    keys = (attempt.key or "",) if ACTIONS[action].takes_key else ()
    subject = Subject(attempt.name, attempt.other or "", keys, attempt.arguments)
    checks = [entry]
    for need in needs_of(attempt.access.vhost, operation, subject):
        checks += _topic(attempt.access, need) if isinstance(need, TopicNeed) else [_permission(attempt.access, need)]
    for refused in REFUSED.get(operation, ()):
        checks += refused(attempt)
    return checks


def _operation(action: str) -> Operation:
    return next(operation for operation in RULES if operation == action)


# ---- permissions


def _entry(access: UserAccess) -> Check:
    vhost = access.vhost.name
    may = may_enter(access.permissions, access.user, vhost)
    text = f"it has permissions in vhost '{vhost}'" if may else "it has no permissions there"
    remedy = "" if may else f"give user '{access.user}' permissions in vhost '{vhost}'"
    return Check("enter", "enter", "vhost", vhost, None, may, text, remedy)


def _permission(access: UserAccess, need: Need, what: str = "") -> Check:
    """Only for users with permissions in the virtual host."""
    kind, shown, vhost = need.kind, need.name or DEFAULT_EXCHANGE, access.vhost.name
    may, what = access.allows(need), what or need.what
    if kind == "any":
        found = next((each for each in KINDS if access.has(each, need.name)), None)
        if found is None:
            text = f"none of configure, write and read matches '{shown}'"
            remedy = f"change one of them for user '{access.user}' in vhost '{vhost}' so that it matches '{shown}'"
            return Check("permission", kind, what, shown, None, False, text, remedy)
        kind = found
    pattern: str = getattr(access.permissions.get(access.user, vhost), kind)
    if may:
        return Check("permission", kind, what, shown, pattern, True, f"{kind} '{pattern}' in vhost '{vhost}'", "")
    remedy = f"change '{kind}' of user '{access.user}' in vhost '{vhost}' so that it matches '{shown}'"
    return Check(
        "permission", kind, what, shown, pattern, False, f"{kind} '{pattern}' does not match '{shown}'", remedy
    )


def _topic(access: UserAccess, need: TopicNeed) -> Iterator[Check]:
    """Without a topic permission of the user for the exchange, every key is allowed and nothing is listed."""
    kind, exchange, found = need.kind, need.exchange, access.vhost.exchanges.get(need.exchange)
    rule = access.permissions.get_topic(access.user, access.vhost.name, exchange)
    if rule is None or (found is not None and found.routes_as != "topic"):
        return
    pattern: str = getattr(rule, kind)
    name = EVERYTHING if need.key is None else need.key
    if access.allows(need._replace(later=True)):
        text = f"topic {kind} '{pattern}' at exchange '{exchange}'"
        yield Check("topic permission", kind, "routing key", name, pattern, True, text, "")
        return
    text = f"topic {kind} '{pattern}' does not match " + ("every key" if need.key is None else f"key '{need.key}'")
    remedy = (
        f"change the topic permission '{kind}' of user '{access.user}' at exchange '{exchange}' so that it matches "
        f"'{name}'"
    )
    yield Check("topic permission", kind, "routing key", name, pattern, False, text, remedy)


def _plain(kind: str, attempt: Attempt) -> Iterator[Check]:
    """A permission on a name, whether it is a queue or an exchange."""
    access = attempt.access
    for each in KINDS:
        if each == kind:
            yield _permission(access, Need(each, "queue", attempt.name), "queue or exchange")
            if each != "configure" and attempt.key is not None:
                yield from _topic(access, TopicNeed(each, attempt.name, attempt.key))


# ---- refused to every user


def _rule(is_broken: bool, what: str, name: str, text: str, remedy: str) -> Iterator[Check]:
    if is_broken:
        yield Check("rule", "rule", what, name or DEFAULT_EXCHANGE, None, False, text, remedy)


def _not_default(name: str) -> Iterator[Check]:
    text = "the default exchange cannot be declared, deleted, bound or inspected by any user"
    return _rule(not name, "exchange", name, text, "use an exchange that has a name")


def _new_name(what: Literal["queue", "exchange"]) -> Callable[[Attempt], Iterator[Check]]:
    def refused(of: Attempt) -> Iterator[Check]:
        is_there = of.name in (of.access.vhost.queues if what == "queue" else of.access.vhost.exchanges)
        text = f"{what} names that begin with '{RESERVED}' are reserved for the broker"
        return _rule(of.name.startswith(RESERVED) and not is_there, what, of.name, text, "choose another name")

    return refused


def _own_exchange(of: Attempt) -> Iterator[Check]:
    return _not_default(of.name)


def _source(of: Attempt) -> Iterator[Check]:
    return _not_default(of.other or "")


def _predeclared(of: Attempt) -> Iterator[Check]:
    text = "predeclared exchanges cannot be deleted by any user"
    return _rule(of.name.startswith(RESERVED), "exchange", of.name, text, "leave it in place")


def _internal(of: Attempt) -> Iterator[Check]:
    found = of.access.vhost.exchanges.get(of.name)
    is_internal = found is not None and found.internal
    text = f"exchange '{of.name}' is internal: only other exchanges publish to it"
    return _rule(is_internal, "exchange", of.name, text, "publish to an exchange that routes to it")


REFUSED: dict[Operation, tuple[Callable[[Attempt], Iterator[Check]], ...]] = {
    "declare queue": (_new_name("queue"),),
    "bind queue": (_source,),
    "unbind queue": (_source,),
    "publish": (_internal,),
    "declare exchange": (_own_exchange, _new_name("exchange")),
    "delete exchange": (_own_exchange, _predeclared),
    "look at exchange": (_own_exchange,),
    "bind exchange": (_source, _own_exchange),
    "unbind exchange": (_source,),
}
