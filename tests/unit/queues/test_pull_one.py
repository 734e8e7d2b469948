"""x-pull-one: a consumer gets one message, never two, and is cancelled by the broker."""

from __future__ import annotations

import pytest

from leveret.broker.access import in_process_access
from leveret.broker.local import Delivered, LocalSession
from leveret.wire.methods import BasicCancel, BasicConsume, BasicConsumeOk
from tests.support.peer_pair import Client, Content, Harness
from tests.support.selector_consumers import consumer_of, given
from tests.support.spies import QueueHarness, messages

PULL = {"x-pull-one": True}


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


def spoken(client: Client) -> list[object]:
    """Bodies of deliveries, and the names of other methods."""
    return [what.body if isinstance(what, Content) else what.NAME for what in client.heard()]


@pytest.mark.parametrize("no_ack", [False, True])
def test_one_message_then_the_cancel(client: Client, no_ack: bool) -> None:
    client.publish("q", b"1", b"2", b"3")
    client.send(BasicConsume("q", "mine", no_ack=no_ack, arguments=PULL))
    answer, delivery, cancel = client.heard()
    assert answer == BasicConsumeOk("mine")
    assert isinstance(delivery, Content)
    assert (delivery.body, cancel) == (b"1", BasicCancel("mine", nowait=True))
    assert client.count("q") == 2


@pytest.mark.parametrize("no_ack", [False, True])
def test_an_empty_queue_is_waited_for(client: Client, harness: Harness, no_ack: bool) -> None:
    client.consume("q", no_ack=no_ack, arguments=PULL)
    assert (spoken(client), len(harness.queue("q").consumers)) == ([], 1)
    client.publish("q", b"1", b"2", b"3")
    assert spoken(client) == [b"1", "basic.cancel"]
    assert (len(harness.queue("q").consumers), client.count("q")) == (0, 2)


def test_a_larger_prefetch_changes_nothing(client: Client) -> None:
    client.qos(10)
    client.publish("q", b"1", b"2")
    client.consume("q", arguments=PULL)
    assert spoken(client) == [b"1", "basic.cancel"]
    client.qos(10, shared=True)
    client.consume("q", arguments=PULL)
    assert spoken(client) == [b"2", "basic.cancel"]


def test_a_full_channel_is_waited_for(client: Client) -> None:
    client.qos(1, shared=True)
    client.publish("q", b"1", b"2")
    client.consume("q", arguments=PULL)
    assert spoken(client) == [b"1", "basic.cancel"]
    client.consume("q", arguments=PULL)
    assert spoken(client) == []
    client.ack(1)
    assert spoken(client) == [b"2", "basic.cancel"]


def test_a_client_that_does_not_know_cancels_hears_none(harness: Harness) -> None:
    client = harness.client(capabilities={})
    client.declare("q")
    client.publish("q", b"1", b"2")
    client.consume("q", "mine", arguments=PULL)
    assert spoken(client) == [b"1"]
    client.consume("q", "mine", arguments=PULL)  # the tag is free again
    assert spoken(client) == [b"2"]


def test_its_message_is_settled_after_it_has_left(client: Client, harness: Harness) -> None:
    client.publish("q", b"1", b"2")
    client.consume("q", arguments=PULL)
    assert harness.queue("q").unacked == 1
    client.nack(1)
    client.consume("q", arguments=PULL)
    deliveries = [what for what in client.heard() if isinstance(what, Content)]
    assert [(each.body, each.redelivered) for each in deliveries] == [(b"1", False), (b"1", True)]
    client.ack(2)
    assert (harness.queue("q").unacked, client.count("q")) == (0, 1)


def test_pulls_of_one_client_are_answered_one_by_one(client: Client) -> None:
    for number in range(3):
        client.consume("q", f"tag-{number}", arguments=PULL)
    client.publish("q", b"1", b"2", b"3", b"4")
    tags = [what.method.consumer_tag for what in client.heard() if isinstance(what, Content)]  # type: ignore[union-attr]
    assert tags == ["tag-0", "tag-1", "tag-2"]
    assert client.count("q") == 1


def test_others_get_the_rest(client: Client) -> None:
    client.consume("q", "pull", arguments=PULL)
    client.consume("q", "push")
    client.publish("q", b"1", b"2", b"3")
    heard = client.heard()
    by_tag = [(what.method.consumer_tag, what.body) for what in heard if isinstance(what, Content)]  # type: ignore[union-attr]
    assert by_tag == [("pull", b"1"), ("push", b"2"), ("push", b"3")]


def test_a_pull_with_a_selector(client: Client) -> None:
    client.publish("q", b"1")
    client.publish("q", b"2", b"3", headers={"colour": "red"})
    client.consume("q", arguments={**PULL, "x-selector": "colour = 'red'"})
    assert spoken(client) == [b"2", "basic.cancel"]


@pytest.mark.parametrize("value", ["true", 1, None])
def test_a_value_that_is_no_truth_is_refused(client: Client, value: object) -> None:
    client.send(BasicConsume("q", arguments={"x-pull-one": value}))  # type: ignore[dict-item]
    code, text = client.error()
    assert code == 406
    assert f"invalid arg 'x-pull-one': {value!r}" in text


def test_false_is_an_ordinary_consumer(client: Client) -> None:
    client.publish("q", b"1", b"2")
    client.consume("q", arguments={"x-pull-one": False})
    assert spoken(client) == [b"1", b"2"]


@pytest.mark.feature("S1-28")
def test_a_selector_that_is_wrong_is_refused(client: Client, harness: Harness) -> None:
    """Nothing consumes then."""
    client.send(BasicConsume("q", arguments={"x-selector": "colour ="}))
    code, text = client.error()
    assert code == 406
    assert "x-selector" in text
    assert len(harness.queue("q").consumers) == 0


def test_an_auto_delete_queue_goes_with_its_last_pull() -> None:
    harness = QueueHarness()
    queue = harness.queue(auto_delete=True)
    consumer = consumer_of(queue, one_shot=True)
    harness.publish(queue, *messages(b"1", b"2"))
    harness.turn()
    assert (given(consumer), consumer.cancelled, harness.retired) == ("1", 1, [queue])


# ---- in the process


def test_the_same_in_the_process(harness: Harness) -> None:
    got: list[Delivered] = []
    gone: list[str] = []
    session = LocalSession(
        in_process_access(harness.vhost), lambda _, delivered: got.append(delivered), left=gone.append
    )
    harness.vhost.declare_queue("q")
    for body in (b"1", b"2", b"3"):
        session.publish("", "q", body)
    session.consume("q", "mine", pull_one=True)
    harness.turn()
    assert ([each.body for each in got], gone) == ([b"1"], ["mine"])
    session.ack(got[0].delivery_tag)
    session.consume("q", "low", prefetch=1)
    session.consume("q", "high", priority=5, prefetch=1)
    harness.turn()
    assert [(each.consumer_tag, each.body) for each in got[1:]] == [("high", b"2"), ("low", b"3")]


def test_selectors_and_exclusive_consumers_in_the_process(harness: Harness) -> None:
    got: list[bytes] = []
    session = LocalSession(in_process_access(harness.vhost), lambda _, delivered: got.append(delivered.body))
    harness.vhost.declare_queue("q")
    session.publish("", "q", b"1")
    session.consume("q", "mine", selector="JMSPriority > 4", exclusive=True)
    harness.turn()
    assert (got, harness.queue("q").ready) == ([], 1)
    assert next(iter(harness.queue("q").consumers)).exclusive
