"""Message time: TTL, expiry and how `broker.clock` moves both, in order and without waiting."""

from __future__ import annotations

import time
from queue import SimpleQueue

import pytest

import leveret
from leveret.errors import BrokerStopped
from leveret.session.amqp_connection import AmqpConnection
from leveret.wire.properties import Properties
from tests.integration.conftest import NewPeer
from tests.support.peers import LocalPeer, NetworkPeer, Peer, inside, refused

pytestmark = pytest.mark.broker(clock=leveret.FrozenClock)


def ready(peer: Peer, queue: str) -> list[bytes]:
    taken = []
    while (got := peer.get(queue)) is not None:
        taken.append(got.body)
    return taken


# ---- messages


@pytest.mark.feature("S4-07")
def test_a_message_dies_when_the_ttl_of_its_queue_is_over(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Not a moment before."""
    peer.declare_queue("q", arguments={"x-message-ttl": 1000})
    peer.publish("", "q", b"first")
    leveret_broker.clock.advance(0.6)
    peer.publish("", "q", b"second")
    leveret_broker.clock.advance(0.399)
    assert peer.count("q") == 2
    leveret_broker.clock.advance(0.001)
    assert peer.count("q") == 1
    assert ready(peer, "q") == [b"second"]
    assert inside(leveret_broker, "q").counters.expired == 1


@pytest.mark.feature("S4-07", "S4-09")
def test_the_smaller_of_queue_ttl_and_expiration_wins(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("q", arguments={"x-message-ttl": 1000})
    peer.publish("", "q", b"sooner", expiration="500")
    peer.publish("", "q", b"queue's")
    peer.publish("", "q", b"later", expiration="5000")
    leveret_broker.clock.advance(0.5)
    assert peer.count("q") == 2
    leveret_broker.clock.advance(0.5)
    assert peer.count("q") == 0


@pytest.mark.feature("S4-09")
def test_a_message_expires_in_the_middle_of_the_queue(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Wherever it stands, not only at the head."""
    peer.declare_queue("q")
    for number in range(5):
        properties = {"expiration": "1000"} if number in (1, 3) else {}
        peer.publish("", "q", str(number).encode(), **properties)
    leveret_broker.clock.advance(1)
    assert peer.count("q") == 3
    assert ready(peer, "q") == [b"0", b"2", b"4"]


@pytest.mark.feature("S4-07")
def test_what_expired_at_the_end_of_one_priority_does_not_hide_the_next(
    peer: Peer, leveret_broker: leveret.Broker
) -> None:
    """Get looks on into the lower priorities."""
    peer.declare_queue("q", arguments={"x-max-priority": 5})
    peer.publish("", "q", b"low", priority=1)
    peer.publish("", "q", b"high", priority=5)
    peer.publish("", "q", b"high, short", priority=5, expiration="1000")
    leveret_broker.clock.advance(1)
    assert peer.count("q") == 2
    assert ready(peer, "q") == [b"high", b"low"]


@pytest.mark.feature("S0-16")
def test_an_expiration_of_zero_means_now_or_never(peer: Peer) -> None:
    """A consumer that is ready gets it, a queue does not keep it."""
    peer.declare_queue("q")
    peer.publish("", "q", b"never", expiration="0")
    assert peer.count("q") == 0
    inbox = peer.consume("q", auto_ack=True)
    peer.publish("", "q", b"now", expiration="0")
    assert inbox.bodies(1) == [b"now"]
    peer.declare_queue("z", arguments={"x-message-ttl": 0})
    peer.publish("", "z", b"never")
    assert peer.count("z") == 0
    other = peer.consume("z", auto_ack=True)
    peer.publish("", "z", b"now")
    assert other.bodies(1) == [b"now"]


@pytest.mark.feature("S4-81")
def test_a_bad_expiration_is_refused(peer: Peer) -> None:
    """With the value it had."""
    peer.declare_queue("q")
    for value in ("soon", "-1", "1.5", "", " 1", "99999999999999999999"):
        with refused(406, "invalid expiration", repr(value)):
            peer.publish("", "q", b"", expiration=value)
    assert peer.count("q") == 0


@pytest.mark.feature("S4-55")
def test_an_unacked_message_does_not_expire_until_it_comes_back(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Its time goes on meanwhile."""
    peer.declare_queue("q", arguments={"x-message-ttl": 1000})
    for body in (b"a", b"b"):
        peer.publish("", "q", body)
    held = [got for _ in range(2) if (got := peer.get("q", auto_ack=False))]
    leveret_broker.clock.advance(10)
    assert inside(leveret_broker, "q").unacked == 2
    peer.nack(held[0].tag)
    assert peer.count("q") == 0
    peer.ack(held[1].tag)


@pytest.mark.feature("S4-55")
def test_a_message_that_came_back_in_time_dies_in_time(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("q", arguments={"x-message-ttl": 1000})
    peer.publish("", "q", b"m")
    held = peer.get("q", auto_ack=False)
    assert held is not None
    leveret_broker.clock.advance(0.5)
    peer.nack(held.tag)
    assert peer.count("q") == 1
    leveret_broker.clock.advance(0.5)
    assert peer.count("q") == 0


@pytest.mark.feature("S4-39")
def test_one_message_lives_as_long_as_each_of_its_queues_lets_it(peer: Peer, leveret_broker: leveret.Broker) -> None:
    for name, ttl in (("short", 1000), ("long", 3000)):
        peer.declare_queue(name, arguments={"x-message-ttl": ttl})
        peer.bind(name, "amq.fanout")
    peer.declare_queue("for-ever")
    peer.bind("for-ever", "amq.fanout")
    peer.publish("amq.fanout", "", b"m")
    counts = []
    for _ in range(3):
        leveret_broker.clock.advance(1.5)
        counts.append([peer.count(name) for name in ("short", "long", "for-ever")])
    assert counts == [[0, 1, 1], [0, 0, 1], [0, 0, 1]]


@pytest.mark.feature("S4-47")
def test_a_consumer_gets_only_what_is_still_alive(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("q")
    peer.publish("", "q", b"dead", expiration="100")
    peer.publish("", "q", b"alive")
    leveret_broker.clock.advance(0.1)
    inbox = peer.consume("q", auto_ack=True)
    assert inbox.bodies(1) == [b"alive"]
    assert inbox.rest() == []


# ---- queues


@pytest.mark.feature("S4-07")
def test_an_unused_queue_expires(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """With the messages in it; publishing is no use of it."""
    peer.declare_queue("q", arguments={"x-expires": 1000})
    leveret_broker.clock.advance(0.9)
    assert peer.publish("", "q", b"m")
    leveret_broker.clock.advance(0.1)
    assert not peer.publish("", "q", b"m")
    with refused(404):
        peer.get("q")


@pytest.mark.feature("S4-07")
def test_a_queue_in_use_does_not_expire(new_peer: NewPeer, leveret_broker: leveret.Broker) -> None:
    """A consumer holds it, declare and get start its time again."""
    peer = new_peer()
    arguments = {"x-expires": 1000}
    peer.declare_queue("q", arguments=arguments)
    inbox = peer.consume("q")
    leveret_broker.clock.advance(100)
    peer.cancel(inbox.tag)
    leveret_broker.clock.advance(0.9)
    peer.declare_queue("q", arguments=arguments)
    leveret_broker.clock.advance(0.9)
    peer.get("q")
    leveret_broker.clock.advance(0.9)
    assert peer.publish("", "q")
    leveret_broker.clock.advance(0.1)
    assert not peer.publish("", "q")


@pytest.mark.feature("S4-07")
def test_a_queue_that_was_declared_anew_does_not_die_of_its_namesakes_age(
    peer: Peer, leveret_broker: leveret.Broker
) -> None:
    arguments = {"x-expires": 1000, "x-message-ttl": 500}
    peer.declare_queue("q", arguments=arguments)
    peer.publish("", "q", b"old")
    leveret_broker.clock.advance(0.4)
    peer.delete_queue("q")
    peer.declare_queue("q", arguments=arguments)
    peer.publish("", "q", b"new")
    leveret_broker.clock.advance(0.3)
    assert peer.get("q").body == b"new"  # type: ignore[union-attr]
    leveret_broker.clock.advance(0.9)
    assert peer.count("q") == 0


# ---- travelling


@pytest.mark.feature("S4-62")
def test_time_travel_visits_every_moment_in_order(leveret_broker: leveret.Broker) -> None:
    """A message that dies after one second and a queue that dies after two, in one jump of ten."""
    local = leveret_broker.vhost()
    happened: list[tuple[str, float]] = []
    local.declare_queue("short", arguments={"x-message-ttl": 1000})
    local.declare_queue("middle", arguments={"x-expires": 2000})
    local.declare_queue("long", arguments={"x-message-ttl": 3000})
    for name in ("long", "short"):
        local.publish("", name, b"m")
    start = leveret_broker.clock.now()

    def watch() -> None:
        vhost = leveret_broker.node.broker.vhost("/")
        since = lambda: round(leveret_broker.clock.now() - start, 6)  # noqa: E731
        for name in ("short", "long"):
            vhost.queue(name).observers.append(
                lambda queue: happened.append((queue.name, since())) if queue.counters.expired else None
            )
        callbacks = vhost.queue_context.callbacks
        delete = callbacks.delete_unused
        callbacks.delete_unused = lambda queue: (happened.append((queue.name, since())), delete(queue))[1]  # type: ignore[method-assign, func-returns-value]

    leveret_broker.call(watch)
    leveret_broker.clock.advance(10)
    assert happened == [("short", 1.0), ("middle", 2.0), ("long", 3.0)]
    assert leveret_broker.clock.now() == start + 10


@pytest.mark.feature("S4-62")
def test_time_travel_takes_no_time() -> None:
    """Years pass at once, and on a clock that runs, too."""
    with leveret.Broker() as broker:
        local = broker.vhost()
        local.declare_queue("q", arguments={"x-message-ttl": 3_600_000})
        local.declare_queue("unused", arguments={"x-expires": 86_400_000})
        local.publish("", "q", b"m")
        began = time.monotonic()
        before = broker.clock.now()
        broker.clock.advance(3599)
        assert local.message_count("q") == 1
        broker.clock.advance(366 * 86400)
        assert broker.clock.now() - before >= 366 * 86400
        assert local.message_count("q") == 0
        assert not local.publish("", "unused", b"")
        assert time.monotonic() - began < 2


@pytest.mark.feature("S4-07")
def test_on_a_clock_that_runs_messages_die_by_themselves() -> None:
    """Nobody asks, nobody moves the clock: the timer of the loop fires."""
    with leveret.Broker() as broker:
        local = broker.vhost()
        local.declare_queue("q")
        gone: SimpleQueue[None] = SimpleQueue()

        def watch() -> None:
            queue = broker.node.broker.vhost("/").queue("q")
            queue.observers.append(lambda queue: gone.put(None) if queue.counters.expired else None)

        broker.call(watch)
        local.publish("", "q", b"m", Properties(expiration="20"))
        gone.get(timeout=60)


@pytest.mark.feature("S4-62")
def test_a_frozen_clock_stands_still(leveret_broker: leveret.Broker) -> None:
    """What would die in a millisecond lives as long as the test likes."""
    local = LocalPeer(leveret_broker)
    local.declare_queue("q")
    local.publish("", "q", b"m", expiration="1")
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        assert local.count("q") == 1
    now = leveret_broker.clock.now()
    leveret_broker.clock.advance(0)
    assert leveret_broker.clock.now() == now
    leveret_broker.clock.advance(-5)
    assert leveret_broker.clock.now() == now, "time never goes back"
    leveret_broker.clock.advance(0.001)
    assert local.count("q") == 0


@pytest.mark.feature("S4-62")
def test_heartbeats_stay_on_real_time(leveret_broker: leveret.Broker) -> None:
    """A year of message time does not make a peer silent, nor a handshake late."""
    peer = NetworkPeer(f"{leveret_broker.amqp_url}?heartbeat=1")
    leveret_broker.clock.advance(366 * 86400)
    peer.declare_queue("q")
    leveret_broker.clock.advance(366 * 86400)
    assert peer.publish("", "q", b"still here")
    assert NetworkPeer(leveret_broker.amqp_url).close() is None
    peer.close()


@pytest.mark.feature("S4-62")
def test_a_silent_peer_is_dropped_although_message_time_stands_still(
    leveret_broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pulse does not read the frozen clock."""
    peer = NetworkPeer(f"{leveret_broker.amqp_url}?heartbeat=1")
    dropped: SimpleQueue[None] = SimpleQueue()

    lost = AmqpConnection.lost
    monkeypatch.setattr(AmqpConnection, "lost", lambda connection: (lost(connection), dropped.put(None)))
    dropped.get(timeout=60)  # pika sends no heartbeats unless it is given time to
    peer.close()


@pytest.mark.feature("S4-62", "S4-81")
def test_the_clock_of_a_stopped_broker_cannot_be_moved() -> None:
    with leveret.Broker(clock=leveret.FrozenClock()) as broker:
        before = broker.clock.now()
        broker.clock.advance(1)
    with pytest.raises(BrokerStopped, match=r"start\(\)"):
        broker.clock.advance(1)
    assert broker.clock.now() == before + 1
