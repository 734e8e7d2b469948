"""pika, blocking: exchanges of all types and their bindings."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All that is in a queue."""
    found = []
    while (body := channel.basic_get(queue, auto_ack=True)[2]) is not None:
        found.append(body)
    return found


def bound_queue(channel: BlockingChannel, exchange: str, key: str = "", arguments: dict[str, Any] | None = None) -> str:
    name: str = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(name, exchange, key, arguments)
    return name


@pytest.mark.feature("S4-03", "S4-08")
def test_direct_leads_by_the_whole_key_and_unbind_ends_it(channel: BlockingChannel) -> None:
    channel.exchange_declare("levels", "direct")
    errors = bound_queue(channel, "levels", "error")
    both = bound_queue(channel, "levels", "error")
    channel.queue_bind(both, "levels", "info")
    for key in ("error", "info", "erro", "error."):
        channel.basic_publish("levels", key, key.encode())
    assert (bodies(channel, errors), bodies(channel, both)) == ([b"error"], [b"error", b"info"])
    channel.queue_unbind(both, "levels", "error")
    channel.basic_publish("levels", "error", b"again")
    assert (bodies(channel, errors), bodies(channel, both)) == ([b"again"], [])


@pytest.mark.feature("S4-39")
def test_fanout_reaches_every_bound_queue_once(channel: BlockingChannel) -> None:
    channel.exchange_declare("news", "fanout")
    queues = [bound_queue(channel, "news", "ignored") for _ in range(3)]
    channel.queue_bind(queues[0], "news", "a second binding")
    channel.basic_publish("news", "any", b"hear")
    assert [bodies(channel, queue) for queue in queues] == [[b"hear"]] * 3


@pytest.mark.feature("S4-40", "S4-45")
def test_topic_patterns_match_words_with_star_and_hash(channel: BlockingChannel) -> None:
    channel.exchange_declare("animals", "topic")
    patterns = {
        pattern: bound_queue(channel, "animals", pattern)
        for pattern in ("*.orange.*", "lazy.#", "#", "quick.*", "#.fox", "*")
    }
    keys = ("quick.orange.fox", "lazy", "lazy.grey.hare.sleeps", "quick", "", "quick.fox")
    for key in keys:
        channel.basic_publish("animals", key, key.encode())
    found = {pattern: [body.decode() for body in bodies(channel, queue)] for pattern, queue in patterns.items()}
    assert found == {
        "*.orange.*": ["quick.orange.fox"],
        "lazy.#": ["lazy", "lazy.grey.hare.sleeps"],
        "#": list(keys),
        "quick.*": ["quick.fox"],
        "#.fox": ["quick.orange.fox", "quick.fox"],
        "*": ["lazy", "quick"],
    }


@pytest.mark.feature("S4-79")
def test_headers_match_all_or_any_and_x_headers_only_on_request(channel: BlockingChannel) -> None:
    channel.exchange_declare("reports", "headers")
    wanted = {"format": "pdf", "pages": 4}
    matches = {
        match: bound_queue(channel, "reports", "", {**wanted, **extra, "x-match": match})
        for match, extra in {
            "all": {},
            "any": {},
            "all-with-x": {"x-kind": "log"},
            "any-with-x": {"x-kind": "log"},
        }.items()
    }
    sent: dict[bytes, dict[str, Any]] = {
        b"both": {"format": "pdf", "pages": 4, "more": True},
        b"one": {"format": "zip", "pages": 4},
        b"none": {"format": "zip"},
        b"x": {"x-kind": "log"},
        b"everything": {"format": "pdf", "pages": 4, "x-kind": "log"},
    }
    for body, headers in sent.items():
        channel.basic_publish("reports", "", body, pika.BasicProperties(headers=headers))
    assert {match: bodies(channel, queue) for match, queue in matches.items()} == {
        "all": [b"both", b"everything"],
        "any": [b"both", b"one", b"everything"],
        "all-with-x": [b"everything"],
        "any-with-x": [b"both", b"one", b"x", b"everything"],
    }


def test_exchanges_bound_to_exchanges_pass_messages_on_once_even_in_a_circle(channel: BlockingChannel) -> None:
    for name, kind in (("entry", "topic"), ("middle", "fanout"), ("exit", "direct")):
        channel.exchange_declare(name, kind)
    channel.exchange_bind("middle", "entry", "order.#")
    channel.exchange_bind("exit", "middle")
    channel.exchange_bind("entry", "exit", "order.new")
    queue = bound_queue(channel, "exit", "order.new")
    for key in ("order.new", "order.old", "other"):
        channel.basic_publish("entry", key, key.encode())
    assert bodies(channel, queue) == [b"order.new"]
    channel.exchange_unbind("middle", "entry", "order.#")
    channel.basic_publish("entry", "order.new", b"no more")
    assert bodies(channel, queue) == []


def test_an_alternate_exchange_takes_what_has_no_route(channel: BlockingChannel) -> None:
    channel.exchange_declare("lost", "fanout")
    channel.exchange_declare("first", "direct", arguments={"alternate-exchange": "lost"})
    found, lost = bound_queue(channel, "first", "known"), bound_queue(channel, "lost")
    channel.confirm_delivery()
    channel.basic_publish("first", "known", b"known", mandatory=True)
    channel.basic_publish("first", "unknown", b"unknown", mandatory=True)
    assert (bodies(channel, found), bodies(channel, lost)) == ([b"known"], [b"unknown"])


@pytest.mark.feature("S4-06")
def test_the_exchanges_that_every_vhost_has_are_there(channel: BlockingChannel) -> None:
    for name, kind in (
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ):
        channel.exchange_declare(name, kind, passive=True)
        channel.exchange_declare(name, kind, durable=True)


@pytest.mark.feature("S4-06", "S4-73")
def test_an_auto_delete_exchange_goes_with_its_last_binding(channel: BlockingChannel) -> None:
    channel.exchange_declare("brief", "fanout", auto_delete=True)
    queue = bound_queue(channel, "brief")
    channel.queue_unbind(queue, "brief", "")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.exchange_declare("brief", passive=True)
    assert caught.value.reply_code == 404


def refused(connection: pika.BlockingConnection, wrong: Any) -> int:
    """The reply code that a misuse of a fresh channel earns."""
    channel = connection.channel()
    try:
        wrong(channel)
        channel.queue_declare("", exclusive=True)  # a publish has no answer of its own
    except ChannelClosedByBroker as closed:
        return int(closed.reply_code)
    pytest.fail("the broker refused nothing")


@pytest.mark.feature("S4-06", "S4-34", "S4-81")
def test_misuse_of_exchanges_is_refused_with_its_own_code(connection: pika.BlockingConnection) -> None:
    setup = connection.channel()
    setup.exchange_declare("inner", "fanout", internal=True)
    setup.queue_declare("there")
    assert refused(connection, lambda channel: channel.basic_publish("inner", "", b"")) == 403
    assert refused(connection, lambda channel: channel.exchange_declare("amq.mine", "direct")) == 403
    assert refused(connection, lambda channel: channel.exchange_delete("amq.direct")) == 403
    assert refused(connection, lambda channel: channel.queue_bind("there", "", "key")) == 403
    assert refused(connection, lambda channel: channel.queue_bind("there", "nowhere", "key")) == 404
    assert refused(connection, lambda channel: channel.queue_bind("nowhere", "amq.direct", "key")) == 404
    assert refused(connection, lambda channel: channel.exchange_declare("inner", "direct", internal=True)) == 406


@pytest.mark.feature("S4-81")
def test_an_exchange_type_that_nobody_knows_costs_the_channel_only(connection: pika.BlockingConnection) -> None:
    assert refused(connection, lambda channel: channel.exchange_declare("odd", "x-no-such-type")) == 406
