"""What the broker asks before it lets a user do something, asked without doing it.

A session asks one thing after the other (session/declaring.py, consuming.py, routes.py) and refuses with the first that
fails. Here is the same list for each operation of AMQP, in the same order, with the pattern that decides each:

    declare queue    configure the queue; what its arguments need (broker/argument_needs.py)
    bind queue       write the queue, read the source; the key, where the source is a topic exchange
    publish          write the exchange; not if it is internal; the key, where it is a topic exchange
    consume          read the queue

Some things nobody may do, whatever the permissions say: to change the default exchange, to take names that begin with
``amq.``. They are in the list too. Whether the queue or the exchange exists is another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from leveret.auth.permissions import EVERYTHING, Kind, TopicKind
from leveret.broker.access import DEFAULT_EXCHANGE, KINDS, Need, What
from leveret.broker.argument_needs import binding_needs, exchange_needs, queue_needs, unbinding_needs
from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.http.listing import Row
from leveret.queues.options import DEAD_LETTER_EXCHANGE
from leveret.routing.bindings import Destination
from leveret.routing.exchange import ALTERNATE_EXCHANGE

RESERVED = "amq."


class Attempt(NamedTuple):
    """An operation of a user. ``other`` is the second exchange that takes part in it, if one was given; ``arguments``
    are those of a declaration."""

    broker: Broker
    vhost: Vhost
    user: str
    name: str
    other: str | None
    key: str | None
    arguments: Mapping[str, object] = {}


class Check(NamedTuple):
    """One thing that was asked. ``pattern`` is None where no pattern decides."""

    check: Literal["enter", "permission", "topic permission", "rule"]
    kind: str
    what: str
    name: str
    pattern: str | None
    passed: bool
    text: str
    remedy: str  # empty if it has passed

    def row(self) -> Row:
        return self._asdict()


class Action(NamedTuple):
    """``what`` the name is of, ``other`` the part of the second exchange, empty if there is none."""

    what: Literal["queue", "exchange", "queue or exchange"]
    checks: Callable[[Attempt], Iterator[Check]]
    other: str = ""
    needs_other: bool = False
    takes_key: bool = False
    other_argument: str = ""  # the argument that names the second exchange: such an operation takes others as well


def checks_of(action: Action, attempt: Attempt) -> list[Check]:
    """All of them, although the first that fails decides; whoever may not enter learns no more than that."""
    entering = _enter(attempt)
    return [entering, *action.checks(attempt)] if entering.passed else [entering]


# ---- single checks


def _enter(of: Attempt) -> Check:
    may = of.broker.permissions.may_enter(of.user, of.vhost.name)
    text = f"it has permissions in vhost '{of.vhost.name}'" if may else "it has no permissions there"
    remedy = "" if may else f"give user '{of.user}' permissions in vhost '{of.vhost.name}'"
    return Check("enter", "enter", "vhost", of.vhost.name, None, may, text, remedy)


def _access(of: Attempt, kind: Kind, what: str, name: str) -> Check:
    """Asked only of users who may enter: they have a rule."""
    rule = of.broker.permissions.get(of.user, of.vhost.name)
    shown = name or DEFAULT_EXCHANGE
    pattern: str = getattr(rule, kind)
    if of.broker.permissions.check(of.user, of.vhost.name, kind, name):
        return Check(
            "permission", kind, what, shown, pattern, True, f"{kind} '{pattern}' in vhost '{of.vhost.name}'", ""
        )
    remedy = f"have '{kind}' of user '{of.user}' in vhost '{of.vhost.name}' match '{shown}'"
    return Check(
        "permission", kind, what, shown, pattern, False, f"{kind} '{pattern}' does not match '{shown}'", remedy
    )


def _topic(of: Attempt, kind: TopicKind, exchange: str, key: str | None) -> Iterator[Check]:
    """Of topic exchanges only, and only if there is a rule: else any key will do. Without a key: all of them."""
    found = of.vhost.exchanges.get(exchange)
    if found is not None and found.routes_as != "topic":
        return
    rule = of.broker.permissions.get_topic(of.user, of.vhost.name, exchange)
    if rule is None:
        return
    shown, pattern, ask = "every key" if key is None else f"key '{key}'", getattr(rule, kind), of.broker.permissions
    if key is None:
        may = ask.check_all_topics(of.user, of.vhost.name, exchange, kind)
    else:
        may = ask.check_topic(of.user, of.vhost.name, exchange, kind, key)
    name = EVERYTHING if key is None else key
    if may:
        text = f"topic {kind} '{pattern}' at exchange '{exchange}'"
        yield Check("topic permission", kind, "routing key", name, pattern, True, text, "")
        return
    text = f"topic {kind} '{pattern}' does not match {shown}"
    remedy = f"have the topic permission '{kind}' of user '{of.user}' at exchange '{exchange}' match '{name}'"
    yield Check("topic permission", kind, "routing key", name, pattern, False, text, remedy)


def _needed(of: Attempt, needs: Iterable[Need]) -> Iterator[Check]:
    for need in needs:
        yield _access(of, need.kind, need.what, need.name)
        if need.routes:
            yield from _topic(of, "write", need.name, need.key)


def _any(of: Attempt, what: str) -> Check:
    """Some permission on it is enough."""
    checks = [_access(of, kind, what, of.name) for kind in KINDS]
    found = next((check for check in checks if check.passed), None)
    if found is not None:
        return found
    text = f"none of configure, write and read matches '{of.name}'"
    remedy = f"have one of them match '{of.name}' for user '{of.user}' in vhost '{of.vhost.name}'"
    return Check("permission", "any", what, of.name, None, False, text, remedy)


def _rule(is_broken: bool, what: str, name: str, text: str, remedy: str) -> Iterator[Check]:
    """What is refused to everybody is listed only where it is refused."""
    if is_broken:
        yield Check("rule", "rule", what, name or DEFAULT_EXCHANGE, None, False, text, remedy)


def _not_default(name: str) -> Iterator[Check]:
    text = "nobody may declare, delete, bind or look at the default exchange"
    yield from _rule(not name, "exchange", name, text, "use an exchange that has a name")


def _not_reserved(of: Attempt, what: Literal["queue", "exchange"]) -> Iterator[Check]:
    is_there = of.name in (of.vhost.queues if what == "queue" else of.vhost.exchanges)
    text = f"{what} names that begin with '{RESERVED}' are the broker's own"
    yield from _rule(of.name.startswith(RESERVED) and not is_there, what, of.name, text, "choose another name")


# ---- operations


def _declare_queue(of: Attempt) -> Iterator[Check]:
    yield from _needed(of, queue_needs(of.name, of.arguments))
    yield from _not_reserved(of, "queue")


def _declare_exchange(of: Attempt) -> Iterator[Check]:
    yield from _needed(of, exchange_needs(of.name, of.arguments))
    yield from _not_default(of.name)
    yield from _not_reserved(of, "exchange")


def _delete_exchange(of: Attempt) -> Iterator[Check]:
    if of.name:
        yield _access(of, "configure", "exchange", of.name)
    yield from _not_default(of.name)
    text = "nobody may delete the exchanges that every vhost begins with"
    yield from _rule(of.name.startswith(RESERVED), "exchange", of.name, text, "leave it: it does no harm")


def _binds(what: What, needs: Callable[[str, Destination], Iterable[Need]]) -> Callable[[Attempt], Iterator[Check]]:
    """The destination is written to, the source read from."""

    def checks(of: Attempt) -> Iterator[Check]:
        source = of.other or ""
        yield from _needed(of, needs(source, Destination(what, of.name)))
        yield from _topic(of, "read", source, of.key or "")
        yield from _not_default(source)

    return checks


def _bind_exchange(of: Attempt) -> Iterator[Check]:
    yield from _binds("exchange", binding_needs)(of)
    yield from _not_default(of.name)


def _publish(of: Attempt) -> Iterator[Check]:
    yield _access(of, "write", "exchange", of.name)
    found = of.vhost.exchanges.get(of.name)
    text = f"exchange '{of.name}' is internal: only other exchanges publish to it"
    is_internal = found is not None and found.internal
    yield from _rule(is_internal, "exchange", of.name, text, "publish to an exchange that leads to it")
    yield from _topic(of, "write", of.name, of.key or "")


def _one(kind: Kind, what: str) -> Callable[[Attempt], Iterator[Check]]:
    def checks(of: Attempt) -> Iterator[Check]:
        yield _access(of, kind, what, of.name)

    return checks


def _look_at_queue(of: Attempt) -> Iterator[Check]:
    yield _any(of, "queue")


def _look_at_exchange(of: Attempt) -> Iterator[Check]:
    yield from _not_default(of.name)
    yield _any(of, "exchange")


def _plain(kind: Kind) -> Callable[[Attempt], Iterator[Check]]:
    """Of a name alone, whatever it is of."""

    def checks(of: Attempt) -> Iterator[Check]:
        yield _access(of, kind, "queue or exchange", of.name)
        if kind != "configure" and of.key is not None:
            yield from _topic(of, kind, of.name, of.key)

    return checks


ACTIONS: dict[str, Action] = {
    "declare queue": Action("queue", _declare_queue, "dead letter exchange", other_argument=DEAD_LETTER_EXCHANGE),
    "delete queue": Action("queue", _one("configure", "queue")),
    "look at queue": Action("queue", _look_at_queue),
    "bind queue": Action("queue", _binds("queue", binding_needs), "source", needs_other=True, takes_key=True),
    "unbind queue": Action("queue", _binds("queue", unbinding_needs), "source", needs_other=True, takes_key=True),
    "consume": Action("queue", _one("read", "queue")),
    "get": Action("queue", _one("read", "queue")),
    "purge": Action("queue", _one("read", "queue")),
    "publish": Action("exchange", _publish, takes_key=True),
    "declare exchange": Action("exchange", _declare_exchange, "alternate exchange", other_argument=ALTERNATE_EXCHANGE),
    "delete exchange": Action("exchange", _delete_exchange),
    "look at exchange": Action("exchange", _look_at_exchange),
    "bind exchange": Action("exchange", _bind_exchange, "source", needs_other=True, takes_key=True),
    "unbind exchange": Action(
        "exchange", _binds("exchange", unbinding_needs), "source", needs_other=True, takes_key=True
    ),
    **{kind: Action("queue or exchange", _plain(kind), takes_key=kind != "configure") for kind in KINDS},
}
