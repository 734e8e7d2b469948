"""Queues: their names, attributes, limits of life, and the order of messages."""

from __future__ import annotations

import pika
import pytest

import leveret
from tests.integration.conftest import NewPeer
from tests.support.peers import LocalPeer, NetworkPeer, Peer, inside, refused


def bodies(peer: Peer, queue: str) -> list[bytes]:
    """Everything that is ready, in order."""
    taken = []
    while (got := peer.get(queue)) is not None:
        taken.append(got.body)
    return taken


# ---- names and attributes


@pytest.mark.feature("S4-07")
def test_the_server_names_a_queue_that_has_no_name(peer: Peer) -> None:
    """Each time another."""
    names = {peer.declare_queue("") for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("amq.gen-") for name in names)
    for name in names:
        assert peer.publish("", name)


@pytest.mark.feature("S4-07")
def test_an_empty_name_stands_for_the_queue_declared_last_on_the_channel(network: NetworkPeer) -> None:
    """For bind, get, purge, consume and delete; without one it is 404."""
    with refused(404, "no previously declared queue"):
        network.purge_queue("")
    first = network.declare_queue("")
    network.declare_queue("second")
    network.bind("", "amq.direct")  # by its name, too
    assert network.publish("amq.direct", "second", b"1")
    assert network.get("").body == b"1"  # type: ignore[union-attr]
    network.publish("", "second")
    assert network.purge_queue("") == 1
    assert network.consume("").rest() == []
    assert network.count("") == 0
    network.declare_queue(first, passive=True)
    network.delete_queue("")
    with refused(404, first):
        network.count(first)
    assert network.count("second") == 0


@pytest.mark.feature("S4-07")
def test_a_passive_declare_tells_of_a_queue_and_makes_none(network: NetworkPeer) -> None:
    """Whatever flags it carries."""
    with refused(404, "no queue 'q' in vhost '/'"):
        network.declare_queue("q", passive=True)
    network.declare_queue("q")
    network.publish("", "q")
    network.consume("q", prefetch=1)
    network.publish("", "q")
    declared = network.channel.queue_declare("q", passive=True, durable=True, auto_delete=True).method
    assert (declared.queue, declared.message_count, declared.consumer_count) == ("q", 1, 1)


@pytest.mark.feature("S4-07", "S4-81")
def test_declaring_again_agrees_or_says_what_differs(peer: Peer) -> None:
    arguments = {"x-message-ttl": 60000, "x-note": "kept"}
    peer.declare_queue("q", durable=True, arguments=arguments)
    peer.declare_queue("q", durable=True, arguments=arguments)
    peer.declare_queue("q", durable=True, arguments={"x-message-ttl": 60000})
    with refused(406, "inequivalent arg 'durable' for queue 'q' in vhost '/'", "'false'", "'true'"):
        peer.declare_queue("q", arguments=arguments)
    with refused(406, "inequivalent arg 'auto_delete'"):
        peer.declare_queue("q", durable=True, auto_delete=True, arguments=arguments)
    with refused(406, "inequivalent arg 'x-message-ttl'", "'1'", "'60000'"):
        peer.declare_queue("q", durable=True, arguments={"x-message-ttl": 1})
    with refused(406, "inequivalent arg 'x-message-ttl'", "none", "'60000'"):
        peer.declare_queue("q", durable=True)
    with refused(406, "inequivalent arg 'x-max-priority'", "'2'", "none"):
        peer.declare_queue("q", durable=True, arguments={**arguments, "x-max-priority": 2})


@pytest.mark.feature("S4-07")
def test_unknown_arguments_are_kept_and_never_refused(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Clients of newer brokers must be able to declare."""
    arguments = {
        "x-queue-mode": "lazy",
        "x-queue-version": 2,
        "x-quorum-initial-group-size": 3,
        "x-invented": {"deep": [1, "two", {"three": True}]},
        "no-prefix": None,
    }
    peer.declare_queue("q", arguments=arguments)
    assert inside(leveret_broker, "q").arguments == arguments
    assert peer.publish("", "q", b"works")


BAD_ARGUMENTS = [
    ("x-message-ttl", -1, "-1"),
    ("x-message-ttl", "10", "'10'"),
    ("x-message-ttl", True, "True"),
    ("x-expires", 0, "0"),
    ("x-expires", -5, "-5"),
    ("x-expires", "soon", "'soon'"),
    ("x-max-priority", 256, "256"),
    ("x-max-priority", -1, "-1"),
    ("x-max-priority", "high", "'high'"),
    ("x-queue-type", "lifo", "'lifo'"),
    ("x-queue-type", 7, "7"),
]


@pytest.mark.feature("S4-07", "S4-81")
def test_a_bad_argument_is_refused_by_its_name_and_value(peer: Peer) -> None:
    """And nothing is declared."""
    for name, value, shown in BAD_ARGUMENTS:
        with refused(406, f"invalid arg '{name}'", shown):
            peer.declare_queue("q", arguments={name: value})
        with refused(404):
            peer.count("q")


@pytest.mark.feature("S4-07")
def test_the_two_queue_types_are_accepted(peer: Peer) -> None:
    """Quorum queues must be durable and are shared."""
    peer.declare_queue("c", arguments={"x-queue-type": "classic"})
    peer.declare_queue("q", durable=True, arguments={"x-queue-type": "quorum"})
    with refused(406, "durable"):
        peer.declare_queue("t", arguments={"x-queue-type": "quorum"})
    with refused(406, "exclusive"):
        peer.declare_queue("t", durable=True, exclusive=True, arguments={"x-queue-type": "quorum"})


# ---- exclusive and auto-delete


@pytest.mark.feature("S4-73")
def test_an_exclusive_queue_belongs_to_one_peer_and_goes_with_it(new_peer: NewPeer) -> None:
    """Others may not touch it (405), though anybody may publish to it."""
    owner, other = new_peer(), new_peer()
    name = owner.declare_queue("mine", exclusive=True)
    for attempt in (
        lambda: other.declare_queue(name, exclusive=True),
        lambda: other.declare_queue(name),
        lambda: other.consume(name),
        lambda: other.get(name),
        lambda: other.purge_queue(name),
        lambda: other.delete_queue(name),
        lambda: other.bind(name, "amq.fanout"),
        lambda: other.unbind(name, "amq.fanout"),
        lambda: other.count(name),
    ):
        with refused(405, "exclusive access to locked queue 'mine' in vhost '/'"):
            attempt()
    assert other.publish("", name, b"a letter")
    assert owner.declare_queue(name, exclusive=True) == "mine"
    assert owner.get(name).body == b"a letter"  # type: ignore[union-attr]
    owner.close()
    with refused(404, "no queue 'mine'"):
        other.count(name)


@pytest.mark.feature("S4-73")
def test_an_exclusive_queue_of_the_process_is_closed_to_the_network_and_the_reverse(
    network: NetworkPeer, local: LocalPeer
) -> None:
    local.declare_queue("inside", exclusive=True)
    network.declare_queue("outside", exclusive=True)
    with refused(405):
        network.get("inside")
    with refused(405):
        local.get("outside")
    assert network.publish("", "inside")
    assert local.publish("", "outside")


@pytest.mark.feature("S4-73")
def test_a_shared_queue_cannot_be_declared_exclusive_later(new_peer: NewPeer) -> None:
    new_peer().declare_queue("q")
    with refused(405, "'q'"):
        new_peer().declare_queue("q", exclusive=True)


@pytest.mark.feature("S4-73")
def test_all_channels_of_a_connection_share_its_exclusive_queues(network: NetworkPeer) -> None:
    """They live as long as the connection, not the channel."""
    name = network.declare_queue("", exclusive=True)
    network.channel.close()
    network.channel = network.connection.channel()
    assert network.publish("", name)
    assert network.count(name) == 1


@pytest.mark.feature("S4-73")
def test_an_auto_delete_queue_goes_with_its_last_consumer(new_peer: NewPeer) -> None:
    """Not before it had one."""
    peer, watcher = new_peer(), new_peer()
    peer.declare_queue("q", auto_delete=True)
    peer.publish("", "q", b"waits")
    assert watcher.count("q") == 1
    tags = [peer.consume("q", f"tag-{number}").tag for number in range(2)]
    peer.cancel(tags[0])
    assert watcher.count("q") == 0
    peer.cancel(tags[1])
    with refused(404):
        watcher.count("q")


@pytest.mark.feature("S4-61", "S4-73")
def test_an_auto_delete_queue_goes_when_its_consumer_vanishes(new_peer: NewPeer) -> None:
    peer, watcher = new_peer(), new_peer()
    peer.declare_queue("q", auto_delete=True)
    peer.consume("q")
    peer.close()
    with refused(404):
        watcher.count("q")


# ---- purge and delete


@pytest.mark.feature("S4-07")
def test_purge_empties_what_is_ready_and_spares_what_is_unacked(peer: Peer) -> None:
    peer.declare_queue("q")
    for number in range(5):
        peer.publish("", "q", str(number).encode())
    held = peer.get("q", auto_ack=False)
    assert held is not None
    assert peer.purge_queue("q") == 4
    assert peer.purge_queue("q") == 0
    peer.nack(held.tag)
    assert bodies(peer, "q") == [b"0"]


@pytest.mark.feature("S4-07")
def test_delete_tells_how_many_messages_went(peer: Peer) -> None:
    peer.declare_queue("q")
    for _ in range(3):
        peer.publish("", "q")
    assert peer.delete_queue("q") == 3


@pytest.mark.feature("S4-81")
def test_delete_can_spare_a_queue_in_use_or_with_messages(new_peer: NewPeer) -> None:
    peer, other = new_peer(), new_peer()
    peer.declare_queue("q")
    peer.publish("", "q")
    with refused(406, "queue 'q' in vhost '/' is not empty"):
        peer.delete_queue("q", if_empty=True)
    inbox = other.consume("q")
    with refused(406, "queue 'q' in vhost '/' in use"):
        peer.delete_queue("q", if_unused=True)
    other.ack(inbox.take()[0].tag)
    other.cancel(inbox.tag)
    assert peer.delete_queue("q", if_unused=True, if_empty=True) == 0


@pytest.mark.feature("S4-46")
def test_a_consumer_is_told_that_its_queue_was_deleted(network: NetworkPeer) -> None:
    """Basic.cancel from the broker."""
    told: list[str] = []
    network.declare_queue("q")
    network.channel.add_on_cancel_callback(lambda method: told.append(method.method.consumer_tag))
    inbox = network.consume("q", tag="me")
    network.delete_queue("q")
    inbox.rest()
    assert told == ["me"]
    network.declare_queue("q")
    network.publish("", "q", b"for nobody")
    assert inbox.rest() == []


# ---- order


@pytest.mark.feature("S4-47")
def test_messages_come_in_the_order_they_were_published(peer: Peer) -> None:
    peer.declare_queue("q")
    sent = [str(number).encode() for number in range(50)]
    for body in sent:
        peer.publish("", "q", body)
    assert peer.consume("q", auto_ack=True).bodies(50) == sent


@pytest.mark.feature("S4-55")
def test_a_requeued_message_returns_to_its_place(peer: Peer) -> None:
    """In front of those behind it, marked redelivered."""
    peer.declare_queue("q")
    for body in (b"a", b"b", b"c", b"d"):
        peer.publish("", "q", body)
    taken = [peer.get("q", auto_ack=False) for _ in range(3)]
    for got in (taken[1], taken[0]):
        assert got is not None
        peer.nack(got.tag)
    again = [peer.get("q") for _ in range(3)]
    assert [(got.body, got.redelivered) for got in again if got] == [(b"a", True), (b"b", True), (b"d", False)]


@pytest.mark.feature("S4-07")
def test_higher_priorities_go_first_and_equals_keep_their_order(peer: Peer) -> None:
    """None counts as 0, and too high as the highest."""
    peer.declare_queue("q", arguments={"x-max-priority": 5})
    for name, priority in (("a", None), ("b", 1), ("c", 5), ("d", 0), ("e", 200), ("f", 1)):
        peer.publish("", "q", name.encode(), **({} if priority is None else {"priority": priority}))
    assert peer.count("q") == 6
    assert bodies(peer, "q") == [b"c", b"e", b"b", b"f", b"a", b"d"]


@pytest.mark.feature("S4-07", "S4-55")
def test_a_requeued_message_keeps_its_priority_and_its_place(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-max-priority": 9})
    for name, priority in (("low", 1), ("high", 8), ("high2", 8)):
        peer.publish("", "q", name.encode(), priority=priority)
    held = peer.get("q", auto_ack=False)
    assert held is not None
    assert held.body == b"high"
    peer.publish("", "q", b"top", priority=9)
    peer.nack(held.tag)
    assert bodies(peer, "q") == [b"top", b"high", b"high2", b"low"]


def test_priority_means_nothing_to_a_queue_without_it(peer: Peer) -> None:
    peer.declare_queue("q")
    peer.publish("", "q", b"1", priority=1)
    peer.publish("", "q", b"2", priority=9)
    assert bodies(peer, "q") == [b"1", b"2"]


@pytest.mark.feature("S4-47")
def test_a_consumer_of_a_priority_queue_gets_the_highest_first(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-max-priority": 3})
    for priority in (0, 1, 2, 3):
        peer.publish("", "q", str(priority).encode(), priority=priority)
    inbox = peer.consume("q", prefetch=1)
    order = []
    for _ in range(4):
        (got,) = inbox.take()
        order.append(got.body)
        peer.ack(got.tag)
    assert order == [b"3", b"2", b"1", b"0"]


# ---- limits of one connection's frame size


@pytest.mark.feature("S4-09")
def test_large_messages_cross_between_peers_with_different_frame_sizes(leveret_broker: leveret.Broker) -> None:
    url = leveret_broker.amqp_url
    small = NetworkPeer(f"{url}?frame_max=4096")
    large = NetworkPeer(url)
    local = LocalPeer(leveret_broker)
    body = bytes(range(256)) * 2000
    for sender in (small, large, local):
        for receiver in (small, large, local):
            queue = receiver.declare_queue("", exclusive=True)
            sender.publish("", queue, body)
            got = receiver.get(queue)
            assert got is not None
            assert got.body == body
    small.close()
    large.close()


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 131064, 131065])
@pytest.mark.feature("S4-09")
def test_a_body_of_any_size_arrives_whole(network: NetworkPeer, size: int) -> None:
    """Also just at and over the edge of a frame."""
    network.declare_queue("q")
    body = b"\xce" * size
    channel = network.connection.channel()
    channel.basic_publish("", "q", body, pika.BasicProperties(headers={"size": size}))
    channel.close()
    got = network.get("q")
    assert got is not None
    assert (got.body == body, got.properties) == (True, {"headers": {"size": size}})
