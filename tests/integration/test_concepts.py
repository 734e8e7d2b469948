"""The ideas of the broker, the same over the network and in the process: FEATURES section 4, concepts and virtual host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pika
import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser, BootstrapVhost
from leveret.broker.local import Delivered
from leveret.errors import AmqpError
from leveret.wire.properties import Properties
from tests.support.peers import LocalPeer, NetworkPeer, Peer, Refused, refused


# ---- the calls


def test_the_nine_core_calls_work_alike_over_the_network_and_in_process(peer: Peer) -> None:
    """S4-04, S4-05: declare and delete of queue and exchange, bind and unbind, publish, consume and ack."""
    peer.declare_exchange("orders", "direct", durable=True)
    assert peer.declare_queue("paid", durable=True) == "paid"
    peer.bind("paid", "orders", "pay")
    inbox = peer.consume("paid", tag="clerk")
    assert inbox.tag == "clerk"
    assert peer.publish("orders", "pay", b"42")
    (got,) = inbox.take()
    assert (got.body, got.exchange, got.key, got.redelivered, got.tag) == (b"42", "orders", "pay", False, 1)
    peer.ack(got.tag)
    peer.unbind("paid", "orders", "pay")
    assert not peer.publish("orders", "pay", b"nobody")
    peer.cancel("clerk")
    assert peer.delete_queue("paid") == 0
    peer.delete_exchange("orders")
    with refused(404, "no queue 'paid' in vhost '/'"):
        peer.count("paid")
    with refused(404, "no exchange 'orders' in vhost '/'"):
        peer.publish("orders", "pay")


def test_what_is_made_in_process_is_seen_over_the_network_and_the_reverse(
    network: NetworkPeer, local: LocalPeer
) -> None:
    """S4-04: one broker behind both ways."""
    local.declare_exchange("news", "topic")
    network.declare_queue("sports")
    local.bind("sports", "news", "sports.#")
    network.publish("news", "sports.tennis", b"from afar")
    local.publish("news", "sports.golf", b"from within")
    assert [local.get("sports").body, network.get("sports").body] == [b"from afar", b"from within"]  # type: ignore[union-attr]
    network.delete_queue("sports")
    with refused(404):
        local.count("sports")


def test_many_channels_of_one_connection_are_independent(network: NetworkPeer) -> None:
    """S4-05: delivery tags are per channel, and an error in one leaves the others alone."""
    channels = [network.connection.channel() for _ in range(20)]
    queues = [channel.queue_declare("", exclusive=True).method.queue for channel in channels]
    for channel, queue in zip(channels, queues, strict=True):
        channel.basic_publish("", queue, queue.encode())
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channels[0].queue_declare("missing", passive=True)
    assert [channel.is_open for channel in channels] == [False] + [True] * 19
    for channel, queue in zip(channels[1:], queues[1:], strict=True):
        method, _, body = channel.basic_get(queue)
        assert (method.delivery_tag, body) == (1, queue.encode())
        channel.basic_ack(1)


def test_a_connection_and_its_channels_open_and_close_in_order(leveret_broker: leveret.Broker) -> None:
    """S4-05."""
    connection = pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url))
    channel = connection.channel()
    channel.close()
    assert not channel.is_open
    assert connection.channel(5).channel_number == 5
    connection.close()
    assert connection.is_closed


# ---- many to many


def test_many_producers_and_many_consumers_share_the_work(leveret_broker: leveret.Broker) -> None:
    """S4-01: every message is consumed once, by one of them, whoever sent it."""
    local = leveret_broker.vhost()
    local.declare_queue("work")
    done: SimpleQueue[tuple[int, bytes]] = SimpleQueue()

    def consumer(number: int) -> Callable[[Delivered], None]:
        def work(delivered: Delivered) -> None:
            local.ack(delivered.delivery_tag)
            done.put((number, delivered.body))

        return work

    for number in range(4):
        local.consume("work", consumer(number), prefetch=1)

    def produce(number: int) -> None:
        with pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for item in range(25):
                channel.basic_publish("", "work", f"{number}-{item}".encode())

    producers = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    results = [done.get(timeout=10) for _ in range(100)]
    expected = [f"{number}-{item}".encode() for number in range(4) for item in range(25)]
    assert sorted(body for _, body in results) == sorted(expected)
    assert {number for number, _ in results} == {0, 1, 2, 3}


def test_an_exchange_feeds_many_queues_and_a_queue_is_fed_by_many_exchanges(peer: Peer) -> None:
    """S4-03, S4-08: the binding carries exchange, queue, key and arguments."""
    for exchange, kind in (("one", "direct"), ("two", "fanout")):
        peer.declare_exchange(exchange, kind)
    for queue in ("a", "b"):
        peer.declare_queue(queue)
        peer.bind(queue, "one", "k")
        peer.bind(queue, "two")
    assert peer.publish("one", "k", b"1")
    assert peer.publish("two", "whatever", b"2")
    for queue in ("a", "b"):
        assert [peer.get(queue).body, peer.get(queue).body] == [b"1", b"2"]  # type: ignore[union-attr]


# ---- virtual hosts

TENANTS = leveret.Settings(
    amqp_port=0,
    http_port=None,
    stomp_port=None,
    login_failure_delay=0.0,
    bootstrap=Bootstrap(
        vhosts=(BootstrapVhost("red"), BootstrapVhost("blue", max_queues=1)),
        users=(BootstrapUser("ann", "secret"), BootstrapUser("bob", "hidden")),
        permissions=(
            BootstrapPermission("ann", "red", ".*", ".*", ".*"),
            BootstrapPermission("ann", "blue", ".*", ".*", ".*"),
            BootstrapPermission("bob", "blue", "^mine", ".*", "^mine"),
        ),
    ),
)


def enter(broker: leveret.Broker, user: str, password: str, vhost: str) -> NetworkPeer:
    authority = broker.amqp_url.rpartition("@")[2].partition("/")[0]
    return NetworkPeer(f"amqp://{user}:{password}@{authority}/{vhost}")


def test_virtual_hosts_keep_exchanges_queues_bindings_and_messages_apart() -> None:
    """S4-02: the same names live in two virtual hosts and know nothing of each other."""
    with leveret.Broker(TENANTS) as broker:
        red, blue = enter(broker, "ann", "secret", "red"), enter(broker, "ann", "secret", "blue")
        for peer in (red, blue):
            peer.declare_exchange("shop", "fanout" if peer is red else "direct")
            peer.declare_queue("orders")
            peer.bind("orders", "shop", "k")
        red.publish("shop", "anything", b"red")
        assert (red.count("orders"), blue.count("orders")) == (1, 0)
        assert not blue.publish("shop", "anything", b"unbound key")
        assert blue.publish("shop", "k", b"blue")
        assert blue.get("orders").body == b"blue"  # type: ignore[union-attr]
        assert red.get("orders").body == b"red"  # type: ignore[union-attr]
        red.delete_queue("orders")
        red.delete_exchange("shop")
        assert blue.publish("shop", "k", b"still here")
        assert broker.vhost("blue").message_count("orders") == 1
        with refused(404, "no queue 'orders' in vhost '/'"):
            LocalPeer(broker).count("orders")
        for peer in (red, blue):
            peer.close()


def test_a_user_enters_only_where_permitted_and_touches_only_what_the_patterns_allow() -> None:
    """S4-02, S4-81: users, permissions and limits of virtual hosts come from the bootstrap section."""
    with leveret.Broker(TENANTS) as broker:
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
            enter(broker, "bob", "hidden", "red")
        assert "(530) \"NOT_ALLOWED - access to vhost 'red' refused for user 'bob'" in str(caught.value)
        bob = enter(broker, "bob", "hidden", "blue")
        with refused(403, "'theirs'", "'bob'"):
            bob.declare_queue("theirs")
        bob.declare_queue("mine")
        with refused(406, "queue limit in vhost 'blue' (1) is reached"):
            bob.declare_queue("mine-too")
        bob.close()


def test_an_unknown_virtual_host_is_refused_alike_by_both_ways(leveret_broker: leveret.Broker) -> None:
    """S4-81."""
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as over_network:
        NetworkPeer(leveret_broker.amqp_url.removesuffix("%2F") + "nowhere")
    with pytest.raises(AmqpError) as in_process:
        leveret_broker.vhost("nowhere")
    assert in_process.value.code == 530
    assert f"(530) '{in_process.value.reply_text}'" in str(over_network.value)


# ---- what a message is

ALL_PROPERTIES: dict[str, object] = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "headers": {"tries": 3, "deep": {"list": [1, "two", None, True]}, "raw": b"\x00\xff".hex()},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "mine-1",
    "type": "order",
    "user_id": "guest",
    "app_id": "shop",
    "cluster_id": "east",
}


def test_every_property_and_any_bytes_travel_unchanged(peer: Peer) -> None:
    """S4-09: properties, both delivery modes, and a body of any bytes."""
    peer.declare_queue("q")
    body = bytes(range(256)) * 3000  # several frames
    peer.publish("", "q", body, **ALL_PROPERTIES)
    peer.publish("", "q", b"", delivery_mode=1)
    got = peer.get("q")
    assert got is not None
    assert (got.body, got.properties) == (body, ALL_PROPERTIES)
    assert peer.get("q").properties == {"delivery_mode": 1}  # type: ignore[union-attr]


def test_a_message_without_properties_still_comes_with_properties(peer: Peer) -> None:
    """S4-11: there are properties, and none of them is set."""
    peer.declare_queue("q")
    peer.publish("", "q", b"bare")
    got = peer.get("q")
    assert got is not None
    assert (got.body, got.properties) == (b"bare", {})


def test_properties_are_an_object_even_when_none_were_published(leveret_broker: leveret.Broker) -> None:
    """S4-11."""
    local = leveret_broker.vhost()
    local.declare_queue("q")
    local.publish("", "q", b"bare")
    delivered = local.get("q")
    assert delivered is not None
    assert delivered.properties == Properties()


def test_each_message_has_an_id_of_the_broker_beside_the_applications(
    leveret_broker: leveret.Broker, network: NetworkPeer
) -> None:
    """S4-10: two messages with one message_id are told apart; the application's id is not touched, nor made up."""
    local = leveret_broker.vhost()
    local.declare_queue("q")
    for _ in range(2):
        network.publish("", "q", b"", message_id="same")
        local.publish("", "q", b"", Properties(message_id="same"))
    network.publish("", "q", b"")
    got = [delivered for _ in range(5) if (delivered := local.get("q")) is not None]
    assert len({delivered.id for delivered in got}) == 5
    assert [delivered.properties.message_id for delivered in got] == ["same"] * 4 + [None]
    local.nack(got[0].delivery_tag)
    again = local.get("q")
    assert again is not None
    assert (again.id, again.redelivered) == (got[0].id, True)


# ---- rules of the virtual host


def test_deleting_what_is_not_there_is_no_error(peer: Peer) -> None:
    """S4-33."""
    assert peer.delete_queue("never-was") == 0
    peer.delete_exchange("never-was")
    peer.declare_queue("q")
    peer.declare_exchange("x")
    for _ in range(2):
        peer.delete_queue("q")
        peer.delete_exchange("x")
    peer.declare_exchange("x")
    peer.declare_queue("q")
    peer.unbind("q", "x", "never bound")


def test_bind_needs_both_ends(peer: Peer) -> None:
    """S4-34."""
    peer.declare_queue("q")
    peer.declare_exchange("x")
    with refused(404, "no exchange 'nowhere' in vhost '/'"):
        peer.bind("q", "nowhere", "k")
    with refused(404, "no queue 'nobody' in vhost '/'"):
        peer.bind("nobody", "x", "k")


def test_binding_twice_is_binding_once(peer: Peer) -> None:
    """S4-34: one unbind undoes it."""
    peer.declare_queue("q")
    peer.declare_exchange("x")
    peer.bind("q", "x", "k")
    peer.bind("q", "x", "k")
    peer.publish("x", "k")
    assert peer.count("q") == 1
    peer.unbind("q", "x", "k")
    assert not peer.publish("x", "k")


def test_no_exchange_name_means_the_default_exchange(peer: Peer) -> None:
    """S4-36: every queue is bound to it by its name, from its first moment to its last."""
    assert not peer.publish("", "later", b"too early")
    peer.declare_queue("later")
    assert peer.publish("", "later", b"now")
    assert peer.get("later").body == b"now"  # type: ignore[union-attr]
    peer.delete_queue("later")
    assert not peer.publish("", "later", b"too late")
    peer.declare_queue("later")
    assert peer.publish("", "later", b"again")
    assert peer.count("later") == 1


def test_publishing_to_a_missing_exchange_is_404_and_costs_the_channel_only(peer: Peer) -> None:
    """S4-37."""
    peer.declare_queue("q")
    for _ in range(2):
        with refused(404, "no exchange 'nowhere' in vhost '/'"):
            peer.publish("nowhere", "q", b"lost")
    assert peer.publish("", "q", b"fine")
    peer.declare_exchange("nowhere")
    assert not peer.publish("nowhere", "q")


# ---- errors


def misuse(peer: Peer) -> list[tuple[str, Callable[[], object]]]:
    """What both ways must refuse in the same words."""
    peer.declare_exchange("x")
    peer.declare_exchange("inner", internal=True)
    peer.declare_queue("q", arguments={"x-max-priority": 3})
    peer.publish("", "q", b"full")
    return [
        ("other type", lambda: peer.declare_exchange("x", "fanout")),
        ("other flag", lambda: peer.declare_exchange("x", durable=True)),
        ("unknown type", lambda: peer.declare_exchange("y", "x-nonsense")),
        ("reserved exchange", lambda: peer.declare_exchange("amq.mine")),
        ("reserved queue", lambda: peer.declare_queue("amq.mine")),
        ("predeclared", lambda: peer.delete_exchange("amq.topic")),
        ("default exchange deleted", lambda: peer.delete_exchange("")),
        ("default exchange bound", lambda: peer.bind("q", "", "k")),
        ("internal", lambda: peer.publish("inner", "k")),
        ("other queue flag", lambda: peer.declare_queue("q", durable=True, arguments={"x-max-priority": 3})),
        ("other argument", lambda: peer.declare_queue("q", arguments={"x-max-priority": 4})),
        ("no argument", lambda: peer.declare_queue("q")),
        ("bad argument", lambda: peer.declare_queue("z", arguments={"x-message-ttl": -1})),
        ("not empty", lambda: peer.delete_queue("q", if_empty=True)),
        ("missing consume", lambda: peer.consume("missing")),
        ("missing get", lambda: peer.get("missing")),
        ("missing purge", lambda: peer.purge_queue("missing")),
        ("unknown tag", lambda: peer.ack(99)),
        ("unknown tag, nack", lambda: peer.nack(99)),
        ("bad expiration", lambda: peer.publish("", "q", expiration="soon")),
        ("no reply consumer", lambda: peer.publish("", "q", reply_to="amq.rabbitmq.reply-to")),
        ("too large", lambda: peer.publish("", "q", bytes((16 << 20) + 1))),
        ("bad CC", lambda: peer.publish("", "q", headers={"CC": "not a list"})),
    ]


def outcome(act: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.code, caught.value.text


def test_errors_are_typed_and_read_the_same_by_both_ways() -> None:
    """S4-81: each misuse has its own code and says what is wrong, with the names and values it is about."""
    heard: dict[str, dict[str, tuple[int, str]]] = {}
    for way in ("network", "process"):
        with leveret.Broker() as broker:
            peer = NetworkPeer(broker.amqp_url) if way == "network" else LocalPeer(broker)
            heard[way] = {name: outcome(act) for name, act in misuse(peer)}
            peer.close()
    assert heard["network"] == heard["process"]
    codes = {name: code for name, (code, _) in heard["process"].items()}
    assert {name for name, code in codes.items() if code == 403} == {
        "reserved exchange",
        "reserved queue",
        "predeclared",
        "default exchange deleted",
        "default exchange bound",
        "internal",
    }
    assert {name for name, code in codes.items() if code == 404} == {"missing consume", "missing get", "missing purge"}
    assert set(codes.values()) == {403, 404, 406}
    _, text = heard["network"]["other argument"]
    assert all(part in text for part in ("x-max-priority", "'q'", "'4'", "'3'"))
