"""Virtual hosts: apart from each other, each with its rules, and the same words for the same mistakes."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser, BootstrapVhost
from leveret.errors import AmqpError
from tests.support.peers import LocalPeer, NetworkPeer, Peer, Refused, refused

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


@pytest.mark.feature("S4-02")
def test_virtual_hosts_keep_exchanges_queues_bindings_and_messages_apart() -> None:
    """The same names live in two virtual hosts and know nothing of each other."""
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


@pytest.mark.feature("S4-02", "S4-81")
def test_a_user_enters_only_where_permitted_and_touches_only_what_the_patterns_allow() -> None:
    """Users, permissions and limits of virtual hosts come from the bootstrap section."""
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


@pytest.mark.feature("S4-81")
def test_an_unknown_virtual_host_is_refused_alike_by_both_ways(leveret_broker: leveret.Broker) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as over_network:
        NetworkPeer(leveret_broker.amqp_url.removesuffix("%2F") + "nowhere")
    with pytest.raises(AmqpError) as in_process:
        leveret_broker.vhost("nowhere")
    assert in_process.value.code == 530
    assert f"(530) '{in_process.value.reply_text}'" in str(over_network.value)


# ---- rules of the virtual host


@pytest.mark.feature("S4-33")
def test_deleting_what_is_not_there_is_no_error(peer: Peer) -> None:
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


@pytest.mark.feature("S4-34")
def test_bind_needs_both_ends(peer: Peer) -> None:
    peer.declare_queue("q")
    peer.declare_exchange("x")
    with refused(404, "no exchange 'nowhere' in vhost '/'"):
        peer.bind("q", "nowhere", "k")
    with refused(404, "no queue 'nobody' in vhost '/'"):
        peer.bind("nobody", "x", "k")


@pytest.mark.feature("S4-34")
def test_binding_twice_is_binding_once(peer: Peer) -> None:
    """One unbind undoes it."""
    peer.declare_queue("q")
    peer.declare_exchange("x")
    peer.bind("q", "x", "k")
    peer.bind("q", "x", "k")
    peer.publish("x", "k")
    assert peer.count("q") == 1
    peer.unbind("q", "x", "k")
    assert not peer.publish("x", "k")


@pytest.mark.feature("S4-36")
def test_no_exchange_name_means_the_default_exchange(peer: Peer) -> None:
    """Every queue is bound to it by its name, from its first moment to its last."""
    assert not peer.publish("", "later", b"too early")
    peer.declare_queue("later")
    assert peer.publish("", "later", b"now")
    assert peer.get("later").body == b"now"  # type: ignore[union-attr]
    peer.delete_queue("later")
    assert not peer.publish("", "later", b"too late")
    peer.declare_queue("later")
    assert peer.publish("", "later", b"again")
    assert peer.count("later") == 1


@pytest.mark.feature("S4-37")
def test_publishing_to_a_missing_exchange_is_404_and_costs_the_channel_only(peer: Peer) -> None:
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


@pytest.mark.feature("S4-81")
def test_errors_are_typed_and_read_the_same_by_both_ways() -> None:
    """Each misuse has its own code and says what is wrong, with the names and values it is about."""
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
