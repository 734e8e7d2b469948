"""Code that sees a method before the channel does (S2-25, S2-26)."""

from __future__ import annotations

import pytest

from leveret.broker.interceptors import InterceptContext, Interceptors
from leveret.errors import AccessRefused, PreconditionFailed
from leveret.session.amqp_channel import AmqpChannel
from leveret.wire.methods import (
    METHODS,
    BasicAck,
    BasicConsume,
    BasicPublish,
    ConnectionClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.peer_pair import Content, Harness

CONTEXT = InterceptContext("/", "guest", "here", 1)


def test_interceptors_of_a_method_run_in_the_order_of_their_registration() -> None:
    interceptors = Interceptors(lambda: None)
    for letter in "ab":
        interceptors.register(QueueDeclare, lambda _, method, letter=letter: QueueDeclare(method.queue + letter))
    assert interceptors.apply(CONTEXT, QueueDeclare("q")) == QueueDeclare("qab")
    assert interceptors.concerns(QueueDeclare.id)
    assert not interceptors.concerns(BasicAck.id)
    assert interceptors.apply(CONTEXT, BasicAck(1)) == BasicAck(1)


@pytest.mark.feature("S2-25")
def test_those_registered_as_last_run_after_all_others() -> None:
    interceptors = Interceptors(lambda: None)
    out = {}
    for letter, last in (("y", True), ("a", False), ("z", True), ("b", False)):
        out[letter] = interceptors.register(
            QueueDeclare, lambda _, method, letter=letter: QueueDeclare(method.queue + letter), last=last
        )
    assert interceptors.apply(CONTEXT, QueueDeclare("q")) == QueueDeclare("qabyz")
    out["y"]()
    out["a"]()
    interceptors.register(QueueDeclare, lambda _, method: QueueDeclare(method.queue + "c"))
    assert interceptors.apply(CONTEXT, QueueDeclare("q")) == QueueDeclare("qbcz")


def test_an_interceptor_can_be_taken_out_again() -> None:
    changes: list[int] = []
    interceptors = Interceptors(lambda: changes.append(1))
    unregister = interceptors.register(QueueDeclare, lambda context, method: QueueDeclare("other"))
    unregister()
    unregister()
    assert not interceptors.concerns(QueueDeclare.id)
    assert len(changes) == 2


@pytest.mark.feature("S2-25")
def test_an_interceptor_rewrites_a_method_before_the_channel_handles_it(harness: Harness) -> None:
    seen: list[InterceptContext] = []

    def rename(context: InterceptContext, method: Method) -> Method:
        assert isinstance(method, QueueDeclare)
        seen.append(context)
        method.queue = f"{context.user}.{method.queue}"
        method.durable = True
        return method

    harness.broker.interceptors.register(QueueDeclare, rename)
    client = harness.client()
    assert client.ask(QueueDeclare("q")) == QueueDeclareOk("guest.q", 0, 0)
    assert harness.queue("guest.q").durable
    assert seen == [InterceptContext("/", "guest", "guest", 1)]


@pytest.mark.parametrize("method", sorted(AmqpChannel.handlers | {BasicAck.id: None, BasicPublish.id: None}))
@pytest.mark.feature("S2-26")
def test_every_method_of_a_channel_can_be_refused(harness: Harness, method: tuple[int, int]) -> None:
    def refuse(context: InterceptContext, method: Method) -> Method:
        raise PreconditionFailed("not with me")

    kind = METHODS[method]
    harness.broker.interceptors.register(kind, refuse)
    client = harness.client()
    client.send(kind())
    assert client.error() == (406, "PRECONDITION_FAILED - not with me")


@pytest.mark.feature("S2-26")
def test_an_interceptor_refuses_a_method_with_a_channel_error(harness: Harness) -> None:
    """Other channels live on."""

    def refuse(context: InterceptContext, method: Method) -> Method:
        raise PreconditionFailed("not with me")

    client = harness.client()
    client.declare("q")
    client.open_channel(2)
    harness.broker.interceptors.register(BasicConsume, refuse)
    client.send(BasicConsume("q", "tag"))
    assert client.error() == (406, "PRECONDITION_FAILED - not with me")
    client.declare("q", channel=2)


@pytest.mark.feature("S2-25")
def test_an_interceptor_rewrites_publishes_also_on_a_remembered_route(harness: Harness) -> None:
    """Exchange and routing key; the route that was remembered before it came is forgotten, and after."""
    client = harness.client()
    client.declare("a")
    client.declare("b")
    client.publish("a", b"1")
    unregister = harness.broker.interceptors.register(
        BasicPublish, lambda context, method: BasicPublish("", "b", method.mandatory)
    )
    client.publish("a", b"2", b"3")
    unregister()
    client.publish("a", b"4")
    assert (client.count("a"), client.count("b")) == (2, 2)
    got = client.get("b")
    assert isinstance(got, Content)
    assert got.body == b"2"
    assert got.method.routing_key == "b"  # type: ignore[union-attr]


@pytest.mark.feature("S2-26")
def test_an_interceptor_refuses_publishes(harness: Harness) -> None:

    def refuse(context: InterceptContext, method: Method) -> Method:
        raise AccessRefused("no publishing today")

    client = harness.client()
    client.declare("q")
    client.publish("q", b"1")
    harness.broker.interceptors.register(BasicPublish, refuse)
    client.publish("q", b"2", b"3")
    assert client.error() == (403, "ACCESS_REFUSED - no publishing today")
    assert harness.queue("q").ready == 1


@pytest.mark.feature("S2-25")
def test_an_interceptor_sees_every_ack_of_a_run(harness: Harness) -> None:
    """Acks in order are folded into one, but not past an interceptor."""
    client = harness.client()
    client.declare("q")
    client.publish("q", b"1", b"2", b"3")
    client.consume("q")
    tags: list[int] = []

    def watch(context: InterceptContext, method: Method) -> Method:
        assert isinstance(method, BasicAck)
        tags.append(method.delivery_tag)
        return method

    harness.broker.interceptors.register(BasicAck, watch)
    client.send(BasicAck(1), BasicAck(2), BasicAck(3))
    assert tags == [1, 2, 3]
    assert harness.queue("q").unacked == 0


def test_a_bug_in_an_interceptor_is_answered_with_541_and_harms_nobody_else(harness: Harness) -> None:
    other = harness.client()
    client = harness.client()

    def broken(context: InterceptContext, method: Method) -> Method:
        raise ZeroDivisionError

    harness.broker.interceptors.register(QueueDeclare, broken)
    client.send(QueueDeclare("q"))
    (close,) = client.heard()
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (541, 50, 10)
    other.open_channel(2)
