"""Names of destinations: options, wildcards, and where messages for them go."""

from __future__ import annotations

import pytest

from leveret.client.jms.destinations import Layout, Queue, Topic, destination_named, named_in_reply_to
from leveret.client.jms.errors import InvalidDestination


def test_options_stand_behind_the_name_as_in_activemq() -> None:
    queue = Queue("orders?consumer.prefetchSize=10&consumer.exclusive=true&consumer.priority=-5")
    assert (queue.name, queue.prefetch, queue.is_exclusive, queue.consumer_priority) == ("orders", 10, True, -5)
    topic = Topic("prices?consumer.noLocal=TRUE")
    assert topic.is_without_local
    plain = Queue("orders")
    assert (plain.prefetch, plain.is_exclusive, plain.consumer_priority) == (None, False, None)


@pytest.mark.feature("S1-28")
def test_a_name_may_carry_its_kind_and_a_selector() -> None:
    queue = Queue("queue://orders?consumer.selector=region%20%3D%20'eu'+AND+size>2&consumer.dispatchAsync=true")
    assert (queue.name, queue.selector) == ("orders", "region = 'eu' AND size>2")
    assert destination_named("topic://prices.>?consumer.prefetchSize=5") == Topic("prices.>")
    assert destination_named("queue://orders") == destination_named("orders") == Queue("orders")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "1 to 255 bytes"),
        ("?consumer.prefetchSize=1", "1 to 255 bytes"),
        ("ü" * 128, "1 to 255 bytes"),
        (
            "q?consumer.prefetchSize=many",
            "'consumer.prefetchSize' of 'q' must be a whole number from 0 to 65535: 'many'",
        ),
        ("q?consumer.prefetchSize=65536", "from 0 to 65535"),
        ("q?consumer.exclusive=perhaps", "must be true or false: 'perhaps'"),
        ("topic://t", "'topic://t' has a wrong prefix: a Queue is queue://NAME"),
        ("temp-queue://t", "has a wrong prefix"),
        ("q?consumer.retroactive=true", "has an unsupported setting 'consumer.retroactive': .*subscribe durably"),
        ("q?consumer.colour=red", "'q' has an unknown option 'consumer.colour': known are consumer.prefetchSize"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(InvalidDestination, match=problem):
        Queue(name)


@pytest.mark.parametrize(
    ("name", "key"), [("a.b", "a.b"), ("a.*", "a.*"), ("a.>", "a.#"), (">", "#"), ("*.b.>", "*.b.#"), ("a>b", "a>b")]
)
def test_wildcards_of_activemq_become_those_of_amqp(name: str, key: str) -> None:
    assert Topic(name).key == key


def test_where_messages_go() -> None:
    layout = Layout(topic_exchange="news")
    assert Queue("q").route(layout) == ("", "q")
    assert Topic("a.b").route(layout) == ("news", "a.b")
    with pytest.raises(InvalidDestination, match=r"topic 'a\.>' has wildcards"):
        Topic("a.>").route(layout)


def test_a_place_for_answers_is_named_by_kind() -> None:
    assert named_in_reply_to(Topic("a.b").reply_name) == Topic("a.b")
    assert named_in_reply_to(Queue("a.b").reply_name) == Queue("a.b")
    assert [named_in_reply_to(name) for name in ("", "topic://", "queue://")] == [None, None, None]
    assert Queue("a") != Topic("a")
    assert len({Queue("a"), Queue("a?consumer.prefetchSize=1"), Topic("a")}) == 2
