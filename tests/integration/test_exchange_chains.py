"""Exchanges that lead to exchanges: alternates, bindings between them, circles, and one copy per queue."""

from __future__ import annotations

from collections.abc import Iterable

import pika
import pytest

import leveret
from tests.support.peers import NetworkPeer, Peer


def reached(peer: Peer, exchange: str, key: str, queues: Iterable[str], **properties: object) -> set[str]:
    """Which of the queues get a message, each exactly once."""
    was_routed = peer.publish(exchange, key, b"m", **properties)
    counts = {queue: peer.purge_queue(queue) for queue in queues}
    assert set(counts.values()) <= {0, 1}, counts
    assert was_routed == any(counts.values())
    return {queue for queue, count in counts.items() if count}


# ---- alternate exchanges


@pytest.mark.feature("S0-10", "S4-06")
def test_what_an_exchange_cannot_route_goes_to_its_alternate_exchange(peer: Peer) -> None:
    """And counts as routed there."""
    peer.declare_exchange("lost", "fanout")
    peer.declare_exchange("x", "direct", arguments={"alternate-exchange": "lost"})
    for queue in ("known", "rest"):
        peer.declare_queue(queue)
    peer.bind("known", "x", "k")
    peer.bind("rest", "lost")
    assert reached(peer, "x", "k", ("known", "rest")) == {"known"}
    assert reached(peer, "x", "other", ("known", "rest")) == {"rest"}
    peer.delete_queue("known")
    assert reached(peer, "x", "k", ("rest",)) == {"rest"}


@pytest.mark.feature("S0-10")
def test_alternate_exchanges_form_chains_and_cycles_end(peer: Peer) -> None:
    """The last of a chain gets it; a circle that leads nowhere drops it."""
    for name, alternate in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self"), ("gone", "never-declared")):
        peer.declare_exchange(name, "direct", arguments={"alternate-exchange": alternate})
    peer.declare_queue("q")
    assert [peer.publish(name, "k") for name in ("a", "self", "gone")] == [False, False, False]
    peer.bind("q", "c", "k")
    assert [reached(peer, name, "k", ("q",)) for name in ("a", "b", "c")] == [{"q"}] * 3


@pytest.mark.feature("S0-10")
def test_unroutable_messages_are_dropped_without_a_word(network: NetworkPeer, leveret_broker: leveret.Broker) -> None:
    """Not mandatory, no route: no return, no error, and the channel goes on."""
    returned: list[object] = []
    channel = network.connection.channel()
    channel.add_on_return_callback(lambda *args: returned.append(args))
    network.declare_queue("q")
    for key in ("nobody", "q", "nobody"):
        channel.basic_publish("", key, b"m")
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    network.connection.process_data_events(0)
    assert returned == []
    counters = leveret_broker.call(lambda: leveret_broker.node.broker.vhost("/").counters_of(""))
    assert (counters.published, counters.routed, counters.unroutable) == (3, 1, 2)


# ---- exchange to exchange


@pytest.mark.feature("S4-03", "S4-08")
def test_bindings_between_exchanges_lead_on_and_end_in_circles(network: NetworkPeer) -> None:
    """However many ways lead to a queue, it gets one copy."""
    for name in ("a", "b", "c"):
        network.declare_exchange(name, "fanout")
    for source, destination in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "c"), ("a", "a")):
        network.channel.exchange_bind(destination, source)
    network.declare_queue("q")
    for name in ("a", "b", "c"):
        network.bind("q", name)
    for name in ("a", "b", "c"):
        assert reached(network, name, "k", ("q",)) == {"q"}
    for name in ("a", "b", "c"):
        network.unbind("q", name)
    assert not network.publish("a", "k")


@pytest.mark.feature("S4-08", "S4-34")
def test_a_binding_between_exchanges_filters_by_its_own_key_and_is_undone_by_unbind(network: NetworkPeer) -> None:
    network.declare_exchange("source", "topic")
    network.declare_exchange("sink", "direct")
    network.declare_queue("q")
    network.channel.exchange_bind("sink", "source", "eu.*")
    network.channel.exchange_bind("sink", "source", "eu.*")  # twice is once
    network.bind("q", "sink", "eu.paris")
    assert network.publish("source", "eu.paris")
    assert not network.publish("source", "eu.rome")
    assert not network.publish("source", "us.paris")
    network.channel.exchange_unbind("sink", "source", "eu.*")
    assert not network.publish("source", "eu.paris")
    network.channel.exchange_unbind("sink", "source", "eu.*")  # not there: no error


@pytest.mark.feature("S4-34")
def test_a_binding_between_exchanges_needs_both(network: NetworkPeer) -> None:
    network.declare_exchange("x")
    for destination, source, missing in (("x", "no-source", "no-source"), ("no-sink", "x", "no-sink")):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            network.channel.exchange_bind(destination, source)
        assert (caught.value.reply_code, f"'{missing}'" in caught.value.reply_text) == (404, True)
        network.channel = network.connection.channel()


@pytest.mark.feature("S4-33")
def test_deleting_an_exchange_takes_its_bindings_along(network: NetworkPeer) -> None:
    """An exchange of the same name starts afresh."""
    for name in ("source", "sink"):
        network.declare_exchange(name, "fanout")
    network.declare_queue("q")
    network.channel.exchange_bind("sink", "source")
    network.bind("q", "sink")
    assert network.publish("source", "")
    network.delete_exchange("sink")
    assert not network.publish("source", "")
    network.declare_exchange("sink", "fanout")
    network.bind("q", "sink")
    assert not network.publish("source", "")


@pytest.mark.feature("S4-03")
def test_a_queue_is_reached_once_although_several_bindings_match(peer: Peer) -> None:
    """The same key with other arguments, and two keys of one message."""
    peer.declare_exchange("x", "direct")
    peer.declare_queue("q")
    peer.bind("q", "x", "k", {"a": 1})
    peer.bind("q", "x", "k", {"a": 2})
    peer.bind("q", "x", "l")
    assert reached(peer, "x", "k", ("q",), headers={"CC": ["l"], "BCC": ["k"]}) == {"q"}
    peer.unbind("q", "x", "k", {"a": 1})
    assert reached(peer, "x", "k", ("q",)) == {"q"}
    peer.unbind("q", "x", "k", {"a": 2})
    assert reached(peer, "x", "k", ("q",)) == set()


@pytest.mark.feature("S4-09")
def test_cc_and_bcc_are_further_keys_and_bcc_is_not_shown(peer: Peer) -> None:
    for queue in ("to", "copy", "blind"):
        peer.declare_queue(queue)
    peer.publish("", "to", b"m", headers={"CC": ["copy"], "BCC": ["blind"], "other": 1})
    for queue in ("to", "copy", "blind"):
        got = peer.get(queue)
        assert got is not None
        assert (got.key, got.properties) == ("to", {"headers": {"CC": ["copy"], "other": 1}})
