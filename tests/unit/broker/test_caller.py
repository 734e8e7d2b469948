"""The authorised caller: every operation asks for its permissions first and changes nothing when it is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.broker.access import UserAccess, in_process_access
from leveret.broker.caller import Caller
from leveret.broker.local import LocalSession
from leveret.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from leveret.routing.bindings import Binding, Destination
from leveret.wire.properties import Properties
from tests.support.peer_pair import Harness

TO_QUEUE = Binding("x", Destination("queue", "q"), "k", {})
TO_EXCHANGE = Binding("x", Destination("exchange", "y"), "k", {})


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.vhost.declare_queue("q")
    harness.vhost.declare_exchange("x")
    harness.vhost.declare_exchange("y")
    harness.vhost.declare_exchange("t", "topic")
    harness.vhost.bind(TO_QUEUE)
    return harness


def access(harness: Harness, configure: str = "", write: str = "", read: str = "") -> UserAccess:
    harness.broker.permissions.set("ann", "/", configure, write, read)
    return UserAccess(harness.broker.permissions, harness.vhost, "ann")


def local(caller: Caller) -> LocalSession:
    return LocalSession(caller.access, lambda tag, delivered: None)


OPERATIONS: dict[str, tuple[Callable[[Caller], object], dict[str, str]]] = {
    "declare exchange": (lambda caller: caller.declare_exchange("new"), {"configure": "^new$"}),
    "look at exchange": (lambda caller: caller.existing_exchange("x"), {"read": "^x$"}),
    "delete exchange": (lambda caller: caller.delete_exchange("y"), {"configure": "^y$"}),
    "declare queue": (lambda caller: caller.declare_queue("new"), {"configure": "^new$"}),
    "declare queue, generated name": (lambda caller: caller.declare_queue(), {"configure": r"^amq\.gen-"}),
    "declare queue, dead letters": (
        lambda caller: caller.declare_queue("new", arguments={"x-dead-letter-exchange": "x"}),
        {"configure": "^new$", "read": "^new$", "write": "^x$"},
    ),
    "delete queue": (lambda caller: caller.delete_queue("q"), {"configure": "^q$"}),
    "purge": (lambda caller: caller.purge_queue("q"), {"read": "^q$"}),
    "browse": (lambda caller: caller.queue_to("browse", "q"), {"read": "^q$"}),
    "bind queue": (lambda caller: caller.bind(TO_QUEUE), {"write": "^q$", "read": "^x$"}),
    "unbind queue": (lambda caller: caller.unbind(TO_QUEUE), {"write": "^q$", "read": "^x$"}),
    "bind exchange": (lambda caller: caller.bind(TO_EXCHANGE), {"write": "^y$", "read": "^x$"}),
    "unbind exchange": (lambda caller: caller.unbind(TO_EXCHANGE), {"write": "^y$", "read": "^x$"}),
    "publish": (lambda caller: local(caller).publish("x", "k", b"a"), {"write": "^x$"}),
    "consume": (lambda caller: local(caller).consume("q"), {"read": "^q$"}),
    "get": (lambda caller: local(caller).get("q"), {"read": "^q$"}),
}


def contents(harness: Harness) -> tuple[object, ...]:
    vhost = harness.vhost
    queue = vhost.queues["q"]
    return set(vhost.queues), set(vhost.exchanges), vhost.bindings.of_source("x"), queue.ready, len(queue.consumers)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.feature("S4-72")
def test_an_operation_needs_each_of_its_permissions(name: str, harness: Harness) -> None:
    operation, needed = OPERATIONS[name]
    before = contents(harness)
    for missing in needed:
        with pytest.raises(AccessRefused, match=rf"{missing} access|access to"):
            operation(Caller(access(harness, **{kind: needed[kind] for kind in needed if kind != missing})))
    assert contents(harness) == before
    operation(Caller(access(harness, **needed)))


def test_topic_permissions_are_checked_for_every_key(harness: Harness) -> None:
    session = LocalSession(access(harness, write="^t$"), lambda tag, delivered: None)
    harness.broker.permissions.set_topic("ann", "/", "t", "^a", "")
    assert not session.publish("t", "a", b"1")
    with pytest.raises(AccessRefused, match="topic 'b' in exchange 't'"):
        session.publish("t", "b", b"1")
    for copies in ("CC", "BCC"):
        with pytest.raises(AccessRefused, match="topic 'b' in exchange 't'"):
            session.publish("t", "a", b"1", Properties(headers={copies: ["b"]}))


def test_user_id_must_be_the_user(harness: Harness) -> None:
    permitted = access(harness, write=".*")
    session = LocalSession(permitted, lambda tag, delivered: None)
    assert session.publish("x", "k", b"1", Properties(user_id="ann"))
    with pytest.raises(PreconditionFailed, match="user_id property set to 'bob' but authenticated user was 'ann'"):
        session.publish("x", "k", b"1", Properties(user_id="bob"))
    other = LocalSession(permitted._replace(tags=("impersonator",)), lambda tag, delivered: None)
    assert other.publish("x", "k", b"1", Properties(user_id="bob"))


def test_a_missing_object_is_not_found_only_by_users_with_a_permission(harness: Harness) -> None:
    with pytest.raises(AccessRefused):
        Caller(access(harness)).queue_to("look at queue", "none")
    with pytest.raises(NotFound):
        Caller(access(harness, write="^none$")).queue_to("look at queue", "none")
    with pytest.raises(AccessRefused):
        Caller(access(harness)).exchange_to_publish("none", "k")


def test_an_exclusive_queue_belongs_to_the_owner(harness: Harness) -> None:
    mine, other, without_owner = (
        Caller(in_process_access(harness.vhost), owner) for owner in (object(), object(), None)
    )
    name = mine.declare_queue(exclusive=True).name
    binding = Binding("x", Destination("queue", name), "k", {})
    assert mine.bind(binding)
    for caller in (other, without_owner):
        for operation in (
            lambda caller=caller: caller.queue_to("get", name),
            lambda caller=caller: caller.purge_queue(name),
            lambda caller=caller: caller.delete_queue(name),
            lambda caller=caller: caller.unbind(binding),
        ):
            with pytest.raises(ResourceLocked):
                operation()
    assert mine.delete_queue(name) == 0


def test_code_in_the_process_needs_no_permissions(harness: Harness) -> None:
    session = LocalSession(in_process_access(harness.vhost), lambda tag, delivered: None)
    session.caller.declare_queue("new", arguments={"x-dead-letter-exchange": "x"})
    assert session.publish("", "new", b"a")
    got = session.get("new")
    assert got is not None
    session.ack(got.delivery_tag)
    with pytest.raises(PreconditionFailed, match="unknown delivery tag 1"):
        session.ack(got.delivery_tag)
    with pytest.raises(AccessRefused, match="default exchange"):
        session.caller.existing_exchange("")
