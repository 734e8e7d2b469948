"""Exchanges: every type, their attributes, alternate exchanges, and bindings between exchanges."""

from __future__ import annotations

from collections.abc import Iterable

import pika
import pytest

import leveret
from tests.support.peers import LocalPeer, NetworkPeer, Peer, refused


def reached(peer: Peer, exchange: str, key: str, queues: Iterable[str], **properties: object) -> set[str]:
    """Which of the queues get a message, each exactly once."""
    was_routed = peer.publish(exchange, key, b"m", **properties)
    counts = {queue: peer.purge_queue(queue) for queue in queues}
    assert set(counts.values()) <= {0, 1}, counts
    assert was_routed == any(counts.values())
    return {queue for queue, count in counts.items() if count}


# ---- types


@pytest.mark.feature("S4-06")
def test_a_direct_exchange_reaches_queues_whose_binding_key_equals_the_routing_key(peer: Peer) -> None:
    peer.declare_exchange("x", "direct")
    for queue, key in (("red", "r"), ("red2", "r"), ("blue", "b"), ("empty", "")):
        peer.declare_queue(queue)
        peer.bind(queue, "x", key)
    queues = ("red", "red2", "blue", "empty")
    assert reached(peer, "x", "r", queues) == {"red", "red2"}
    assert reached(peer, "x", "b", queues) == {"blue"}
    assert reached(peer, "x", "", queues) == {"empty"}
    assert reached(peer, "x", "R", queues) == set()
    assert reached(peer, "x", "red", queues) == set()


@pytest.mark.feature("S4-39")
def test_a_fanout_exchange_reaches_every_bound_queue_whatever_the_keys(peer: Peer) -> None:
    peer.declare_exchange("x", "fanout")
    for queue, key in (("a", ""), ("b", "some"), ("c", "other"), ("apart", "")):
        peer.declare_queue(queue)
        if queue != "apart":
            peer.bind(queue, "x", key)
    for key in ("", "some", "nonsense.#"):
        assert reached(peer, "x", key, ("a", "b", "c", "apart")) == {"a", "b", "c"}
    peer.unbind("b", "x", "some")
    assert reached(peer, "x", "some", ("a", "b", "c", "apart")) == {"a", "c"}


PATTERNS = [
    ("aaa", "aaa", True),
    ("aaa.bbb", "aaa.bbb", True),
    ("aaa.bbb", "aaa.bbb.ccc", False),
    ("aaa.bbb", "aaa.ccc", False),
    ("aaa.bbb.ccc", "aaa.bbb.ccc", True),
    ("aaa.*", "aaa.bbb", True),
    ("aaa.*.bbb", "aaa.bbb.ccc", False),
    ("*.aaa.bbb", "aaa.bbb", False),
    ("#", "aaa.bbb.ccc", True),
    ("aaa.#", "aaa.bbb", True),
    ("aaa.#", "aaa.bbb.ccc", True),
    ("aaa.#.ccc", "aaa.ccc", True),
    ("aaa.#.ccc", "aaa.bbb.ccc", True),
    ("aaa.#.ccc", "aaa.aaa.bbb.ccc", True),
    ("aaa.#.ccc", "aaa.ccc.ccc", True),
    ("#.ccc", "ccc", True),
    ("#.ccc", "aaa.bbb.ccc", True),
    # and besides
    ("aaa.#", "aaa", True),
    ("*", "", False),  # an empty key has no words
    ("#", "", True),
    ("*.#", "aaa", True),
    ("*.#", "aaa.bbb", True),
    ("*.*", "aaa", False),
    ("#.#", "aaa.bbb", True),
    ("*.aaa", ".aaa", True),
    ("aaa.*", "aaa.", True),
    ("aaa", "AAA", False),
    ("a*", "aaa", False),  # a star inside a word is just a character
    ("a*", "a*", True),
]


@pytest.mark.feature("S4-40", "S4-45")
def test_star_is_one_word_and_hash_any_number_in_topic_patterns(leveret_broker: leveret.Broker) -> None:
    """Pattern by pattern, over one socket."""
    peer = NetworkPeer(leveret_broker.amqp_url)
    for number, (pattern, key, matches) in enumerate(PATTERNS):
        exchange = f"x{number}"
        peer.declare_exchange(exchange, "topic")
        queue = peer.declare_queue("")
        peer.bind(queue, exchange, pattern)
        assert peer.publish(exchange, key) is matches, (pattern, key)
        peer.unbind(queue, exchange, pattern)
        assert not peer.publish(exchange, key), f"{pattern} is still bound"
    peer.close()


@pytest.mark.feature("S4-40")
def test_a_topic_exchange_reaches_each_queue_once_by_whichever_patterns_match(peer: Peer) -> None:
    """Three of its patterns match, one copy arrives."""
    for queue, patterns in {"all": ["#"], "many": ["a.*", "a.#", "*.b"], "none": ["c.#"]}.items():
        peer.declare_queue(queue)
        for pattern in patterns:
            peer.bind(queue, "amq.topic", pattern)
    queues = ("all", "many", "none")
    assert reached(peer, "amq.topic", "a.b", queues) == {"all", "many"}
    peer.unbind("many", "amq.topic", "a.*")
    assert reached(peer, "amq.topic", "a.b", queues) == {"all", "many"}
    peer.unbind("many", "amq.topic", "a.#")
    peer.unbind("many", "amq.topic", "*.b")
    assert reached(peer, "amq.topic", "a.b", queues) == {"all"}


HEADERS = {"colour": "red", "size": 3, "x-origin": "here"}
MATCHES: list[tuple[dict[str, object], bool]] = [
    ({"x-match": "all", "colour": "red", "size": 3}, True),
    ({"colour": "red", "size": 3}, True),  # all is the default
    ({"x-match": "all", "colour": "red", "size": 4}, False),
    ({"x-match": "all", "colour": "red", "shape": "round"}, False),
    ({"x-match": "any", "colour": "blue", "size": 3}, True),
    ({"x-match": "any", "colour": "blue", "size": 4}, False),
    ({"x-match": "all", "colour": None}, True),  # no value: being there is enough
    ({"x-match": "all", "shape": None}, False),
    ({"x-match": "all", "colour": "red", "x-origin": "elsewhere"}, True),  # x- names do not count
    ({"x-match": "all-with-x", "colour": "red", "x-origin": "elsewhere"}, False),
    ({"x-match": "all-with-x", "colour": "red", "x-origin": "here"}, True),
    ({"x-match": "any", "x-origin": "here"}, False),
    ({"x-match": "any-with-x", "x-origin": "here"}, True),
    ({"x-match": "any-with-x", "x-origin": "elsewhere", "size": 4}, False),
    ({"x-match": "all"}, True),
    ({"x-match": "any"}, False),
    ({}, True),
]


@pytest.mark.feature("S4-08", "S4-79")
def test_a_headers_exchange_matches_by_all_or_any_of_the_arguments(peer: Peer) -> None:
    """All four forms of x-match; the keys play no part."""
    peer.declare_exchange("x", "headers")
    expected = set()
    for number, (arguments, matches) in enumerate(MATCHES):
        queue = peer.declare_queue(f"q{number}")
        peer.bind(queue, "x", "ignored", dict(arguments))
        if matches:
            expected.add(queue)
    queues = [f"q{number}" for number in range(len(MATCHES))]
    assert reached(peer, "x", "anything", queues, headers=HEADERS) == expected
    assert reached(peer, "x", "anything", queues) == {"q14", "q16"}, "without headers only 'all of nothing' holds"


@pytest.mark.feature("S4-79", "S4-81")
def test_a_headers_binding_with_a_bad_x_match_is_refused(peer: Peer) -> None:
    peer.declare_queue("q")
    with refused(406, "x-match", "some"):
        peer.bind("q", "amq.headers", "", {"x-match": "some"})
    with refused(406, "x-match"):
        peer.bind("q", "amq.headers", "", {"x-match": 1})
    assert not peer.publish("amq.headers", "")


@pytest.mark.feature("S4-79")
def test_headers_are_looked_at_message_by_message(network: NetworkPeer) -> None:
    """The same frame and key, other headers, other queues."""
    for colour in ("red", "blue"):
        network.declare_queue(colour)
        network.bind(colour, "amq.match", "", {"colour": colour})
    channel = network.connection.channel()
    for colour in ("red", "blue", "red", "green", "red"):
        channel.basic_publish("amq.match", "k", b"", pika.BasicProperties(headers={"colour": colour}))
    channel.close()
    assert (network.count("red"), network.count("blue")) == (3, 1)


# ---- attributes


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
@pytest.mark.feature("S4-06")
def test_an_exchange_is_there_from_the_start_and_cannot_be_deleted(local: LocalPeer, name: str, kind: str) -> None:
    """Declaring it as it is agrees, otherwise 406."""
    local.declare_exchange(name, kind, durable=True)
    with refused(406, "durable", f"exchange '{name}'"):
        local.declare_exchange(name, kind, durable=False)
    with refused(403, name):
        local.delete_exchange(name)


@pytest.mark.feature("S4-06")
def test_a_passive_declare_only_asks(network: NetworkPeer) -> None:
    """It ignores type and flags, and makes nothing."""
    with refused(404, "no exchange 'x' in vhost '/'"):
        network.declare_exchange("x", passive=True)
    with refused(404):
        network.declare_exchange("x", passive=True)
    network.declare_exchange("x", "topic", durable=True)
    network.declare_exchange("x", "fanout", passive=True)
    with refused(403, "default exchange"):
        network.declare_exchange("", passive=True)


@pytest.mark.feature("S4-06", "S4-81")
def test_declaring_again_agrees_or_says_what_differs(peer: Peer) -> None:
    peer.declare_exchange("x", "topic", durable=True, arguments={"alternate-exchange": "a", "mine": 1})
    peer.declare_exchange("x", "topic", durable=True, arguments={"alternate-exchange": "a"})
    with refused(406, "inequivalent arg 'type'", "'direct'", "'topic'"):
        peer.declare_exchange("x", "direct", durable=True)
    with refused(406, "inequivalent arg 'auto_delete'", "'true'", "'false'"):
        peer.declare_exchange("x", "topic", durable=True, auto_delete=True)
    with refused(406, "inequivalent arg 'internal'"):
        peer.declare_exchange("x", "topic", durable=True, internal=True)
    with refused(406, "inequivalent arg 'alternate-exchange'", "'b'", "'a'"):
        peer.declare_exchange("x", "topic", durable=True, arguments={"alternate-exchange": "b"})


@pytest.mark.feature("S4-06", "S4-73")
def test_an_auto_delete_exchange_goes_with_its_last_binding(peer: Peer) -> None:
    """Not before it had one."""
    peer.declare_exchange("x", "fanout", auto_delete=True)
    for queue in ("a", "b"):
        peer.declare_queue(queue)
        peer.bind(queue, "x")
    peer.unbind("a", "x")
    assert peer.publish("x", "")
    peer.delete_queue("b")
    with refused(404, "no exchange 'x'"):
        peer.publish("x", "")


@pytest.mark.feature("S4-73")
def test_auto_delete_exchanges_in_a_chain_go_one_after_the_other(network: NetworkPeer) -> None:
    """The end of one binding ends the exchange before it, and so on."""
    for name in ("first", "second"):
        network.declare_exchange(name, "fanout", auto_delete=True)
    network.declare_queue("q")
    network.channel.exchange_bind("second", "first")
    network.bind("q", "second")
    assert network.publish("first", "")
    network.delete_queue("q")
    for name in ("first", "second"):
        with refused(404, name):
            network.declare_exchange(name, passive=True)


@pytest.mark.feature("S4-06")
def test_an_internal_exchange_takes_messages_from_exchanges_only(network: NetworkPeer) -> None:
    network.declare_exchange("inner", "fanout", internal=True)
    network.declare_queue("q")
    network.bind("q", "inner")
    with refused(403, "internal exchange 'inner'"):
        network.publish("inner", "")
    network.declare_exchange("outer", "fanout")
    network.channel.exchange_bind("inner", "outer")
    assert network.publish("outer", "", b"through")
    assert network.get("q").body == b"through"  # type: ignore[union-attr]


@pytest.mark.feature("S4-81")
def test_an_exchange_in_use_is_spared_by_if_unused(peer: Peer) -> None:
    peer.declare_exchange("x")
    peer.declare_queue("q")
    peer.bind("q", "x", "k")
    with refused(406, "exchange 'x' in vhost '/' in use"):
        peer.delete_exchange("x", if_unused=True)
    peer.unbind("q", "x", "k")
    peer.delete_exchange("x", if_unused=True)
    with refused(404):
        peer.publish("x", "k")


# ---- implicit bindings


@pytest.mark.feature("S4-38")
def test_a_direct_exchange_with_implicit_bindings_reaches_queues_by_their_names(peer: Peer) -> None:
    """Beside its bindings; an ordinary direct exchange does not."""
    peer.declare_exchange("x", arguments={"x-implicit-bindings": True})
    peer.declare_exchange("plain")
    for queue in ("a", "b"):
        peer.declare_queue(queue)
    peer.bind("b", "x", "a")
    assert reached(peer, "x", "a", ("a", "b")) == {"a", "b"}
    assert reached(peer, "x", "b", ("a", "b")) == {"b"}
    assert reached(peer, "plain", "a", ("a", "b")) == set()
    with refused(406, "x-implicit-bindings"):
        peer.declare_exchange("y", arguments={"x-implicit-bindings": "yes"})


@pytest.mark.feature("S4-38")
def test_a_queue_declared_after_a_miss_is_reached_by_an_implicit_binding(network: NetworkPeer) -> None:
    """A remembered route must not outlive the moment, through all ways that lead by a queue's name."""
    network.declare_exchange("x", arguments={"x-implicit-bindings": True})
    network.declare_exchange("before", "fanout")
    network.channel.exchange_bind("x", "before")
    network.declare_exchange("fallback", arguments={"alternate-exchange": ""})
    ways = ("x", "before", "fallback", "")
    for _ in range(2):  # the second miss may come from memory
        assert [network.publish(way, "late") for way in ways] == [False] * 4
    network.declare_queue("late")
    assert [network.publish(way, "late") for way in ways] == [True] * 4
    network.delete_queue("late")
    assert [network.publish(way, "late") for way in ways] == [False] * 4
    network.declare_queue("late")
    assert [network.publish(way, "late") for way in ways] == [True] * 4
    assert network.count("late") == 4
