"""Consuming: turns, prefetch, acks, what happens when a client vanishes; over the network and in the process."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import pika
import pytest

import leveret
from leveret.broker.local import Delivered
from tests.compat.waiting import pump
from tests.integration.conftest import NewPeer
from tests.support.peers import PATIENCE, NetworkPeer, Peer, inside, refused

# ---- the backlog and the turns


@pytest.mark.feature("S4-46")
def test_consuming_from_an_unknown_queue_is_an_error(peer: Peer) -> None:
    """Also after the queue was deleted."""
    with refused(404, "no queue 'nowhere' in vhost '/'"):
        peer.consume("nowhere")
    peer.declare_queue("nowhere")
    peer.consume("nowhere")
    peer.delete_queue("nowhere")
    with refused(404):
        peer.consume("nowhere")


@pytest.mark.feature("S4-46")
def test_a_consumer_names_its_tag_or_is_given_one(peer: Peer) -> None:
    """Tag, queue, auto-ack and callback."""
    peer.declare_queue("q")
    assert peer.consume("q", tag="mine").tag == "mine"
    given = peer.consume("q").tag
    assert given
    assert given != "mine"


@pytest.mark.feature("S4-47")
def test_a_new_consumer_gets_the_backlog_first_and_then_what_comes(peer: Peer) -> None:
    """Publish-then-consume and consume-then-publish."""
    peer.declare_queue("q")
    for body in (b"1", b"2", b"3"):
        peer.publish("", "q", body)
    inbox = peer.consume("q", auto_ack=True)
    peer.publish("", "q", b"4")
    assert inbox.bodies(4) == [b"1", b"2", b"3", b"4"]
    assert peer.count("q") == 0


@pytest.mark.feature("S4-48")
def test_consumers_of_a_queue_take_turns(new_peer: NewPeer) -> None:
    """Nine messages, three consumers, three each, one after the other."""
    peers = [new_peer() for _ in range(3)]
    peers[0].declare_queue("q")
    inboxes = [peer.consume("q", tag=f"c{number}", auto_ack=True) for number, peer in enumerate(peers)]
    for number in range(9):
        peers[0].publish("", "q", str(number).encode())
    shares = [[int(body) for body in inbox.bodies(3)] for inbox in inboxes]
    assert sorted(number for share in shares for number in share) == list(range(9))
    assert all(share == [share[0], share[0] + 3, share[0] + 6] for share in shares), shares


@pytest.mark.feature("S4-48")
def test_a_consumer_without_room_is_passed_over(new_peer: NewPeer) -> None:
    """The others get its share until it acks."""
    slow, quick = new_peer(), new_peer()
    slow.declare_queue("q")
    held = slow.consume("q", prefetch=1)
    other = quick.consume("q", auto_ack=True)
    for number in range(4):
        slow.publish("", "q", str(number).encode())
    first, rest = held.take()[0], other.bodies(3)
    assert sorted([first.body, *rest]) == [b"0", b"1", b"2", b"3"]
    assert held.rest() == []
    slow.ack(first.tag)
    quick.cancel(other.tag)
    quick.publish("", "q", b"next")
    assert held.bodies(1) == [b"next"]


@pytest.mark.feature("S4-50")
def test_prefetch_bounds_what_is_unacked(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("q")
    for number in range(10):
        peer.publish("", "q", str(number).encode())
    inbox = peer.consume("q", prefetch=3)
    got = inbox.take(3)
    assert inbox.rest() == []
    assert (inside(leveret_broker, "q").unacked, peer.count("q")) == (3, 7)
    peer.ack(got[1].tag, multiple=True)
    assert inbox.bodies(2) == [b"3", b"4"]
    assert inbox.rest() == []


@pytest.mark.feature("S4-52")
def test_without_prefetch_thousands_may_be_unacked(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Nothing is removed, and nothing waits for an ack."""
    peer.declare_queue("q")
    publisher = pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url))
    channel = publisher.channel()
    for number in range(3000):
        channel.basic_publish("", "q", str(number).encode())
    publisher.close()
    inbox = peer.consume("q")
    got = inbox.take(3000)
    assert [int(one.body) for one in got] == list(range(3000))
    assert inside(leveret_broker, "q").unacked == 3000
    peer.ack(got[-1].tag, multiple=True)
    assert inside(leveret_broker, "q").unacked == 0


@pytest.mark.feature("S4-49")
def test_hundreds_of_queues_need_no_thread_each(leveret_broker: leveret.Broker, network: NetworkPeer) -> None:
    """Queues, consumers and connections do not change the number of threads."""
    local = leveret_broker.vhost()
    came: SimpleQueue[Delivered] = SimpleQueue()
    local.consume(local.declare_queue("first"), came.put, auto_ack=True)
    network.consume(network.declare_queue("also-first"))
    before = threading.active_count()
    for number in range(300):
        local.consume(local.declare_queue(f"q{number}"), came.put, auto_ack=True)
        local.publish("", f"q{number}", str(number).encode())
    assert sorted(int(came.get(timeout=PATIENCE).body) for _ in range(300)) == list(range(300))
    assert threading.active_count() == before


# ---- acknowledging


@pytest.mark.feature("S4-50")
def test_a_message_is_unacked_before_its_callback_runs(leveret_broker: leveret.Broker) -> None:
    local = leveret_broker.vhost()
    local.declare_queue("q")
    seen: SimpleQueue[tuple[int, int]] = SimpleQueue()

    def callback(delivered: Delivered) -> None:
        queue = inside(leveret_broker, "q")
        seen.put((queue.unacked, queue.ready))

    local.consume("q", callback)
    local.publish("", "q", b"m")
    assert seen.get(timeout=PATIENCE) == (1, 0)


@pytest.mark.feature("S4-52")
def test_only_an_ack_removes_a_message(new_peer: NewPeer, leveret_broker: leveret.Broker) -> None:
    """Delivered and not acked, it is there again once its consumer is gone."""
    peer, other = new_peer(), new_peer()
    peer.declare_queue("q")
    for body in (b"kept", b"acked"):
        peer.publish("", "q", body)
    got = peer.consume("q").take(2)
    peer.ack(got[1].tag)
    assert inside(leveret_broker, "q").unacked == 1
    peer.close()
    again = other.get("q")
    assert again is not None
    assert (again.body, again.redelivered) == (b"kept", True)
    assert other.get("q") is None


@pytest.mark.feature("S4-52")
def test_an_ack_may_be_sent_inside_the_callback(leveret_broker: leveret.Broker, network: NetworkPeer) -> None:
    """In the process and with pika, and the next message comes for it."""
    network.declare_queue("q")
    done: SimpleQueue[bytes] = SimpleQueue()
    local = leveret_broker.vhost()

    def in_process(delivered: Delivered) -> None:
        local.ack(delivered.delivery_tag)
        local.publish("", "q2", delivered.body)
        done.put(delivered.body)

    def with_pika(channel: Any, method: Any, properties: object, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        done.put(body)

    local.declare_queue("q2")
    local.consume("q", in_process, prefetch=1)
    network.channel.basic_qos(prefetch_count=1)
    network.channel.basic_consume("q2", with_pika)
    for number in range(5):
        network.publish("", "q", str(number).encode())
    pump(network.connection, lambda: done.qsize() == 10)
    network.channel.basic_qos(prefetch_count=1)
    assert [inside(leveret_broker, name).unacked for name in ("q", "q2")] == [0, 0]


@pytest.mark.feature("S4-46")
def test_auto_ack_removes_on_delivery(new_peer: NewPeer, leveret_broker: leveret.Broker) -> None:
    """Nothing is unacked, nothing comes back, and there is nothing to ack."""
    peer, other = new_peer(), new_peer()
    peer.declare_queue("q")
    peer.publish("", "q", b"once")
    (got,) = peer.consume("q", auto_ack=True).take()
    assert inside(leveret_broker, "q").unacked == 0
    with refused(406, f"unknown delivery tag {got.tag}"):
        peer.ack(got.tag)
    peer.close()
    assert other.get("q") is None


@pytest.mark.feature("S4-52")
def test_ack_of_everything_and_of_everything_up_to_a_tag(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Tag 0 with multiple means all."""
    peer.declare_queue("q")
    for _ in range(6):
        peer.publish("", "q")
    got = [one for _ in range(6) if (one := peer.get("q", auto_ack=False))]
    peer.ack(got[2].tag, multiple=True)
    assert inside(leveret_broker, "q").unacked == 3
    with refused(406, f"unknown delivery tag {got[2].tag}"):
        peer.ack(got[2].tag)


@pytest.mark.feature("S4-52")
def test_tag_zero_acks_all(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """And it is no error when there is nothing."""
    peer.declare_queue("q")
    for _ in range(3):
        peer.publish("", "q")
        peer.get("q", auto_ack=False)
    peer.ack(0, multiple=True)
    assert inside(leveret_broker, "q").unacked == 0
    peer.ack(0, multiple=True)
    with refused(406, "unknown delivery tag 0"):
        peer.ack(0)


@pytest.mark.feature("S4-55", "S4-75")
def test_nack_gives_back_or_throws_away(peer: Peer) -> None:
    """One or all up to a tag, with and without requeue."""
    peer.declare_queue("q")
    for number in range(6):
        peer.publish("", "q", str(number).encode())
    got = [one for _ in range(6) if (one := peer.get("q", auto_ack=False))]
    peer.nack(got[1].tag, multiple=True, requeue=True)
    peer.nack(got[2].tag, requeue=False)
    peer.nack(got[5].tag, multiple=True, requeue=False)
    assert [peer.get("q").body, peer.get("q").body, peer.get("q")] == [b"0", b"1", None]  # type: ignore[union-attr]


@pytest.mark.feature("S4-55", "S4-75")
def test_reject_gives_back_or_throws_away_one_message(network: NetworkPeer) -> None:
    network.declare_queue("q")
    for body in (b"back", b"gone"):
        network.publish("", "q", body)
    got = [one for _ in range(2) if (one := network.get("q", auto_ack=False))]
    network.channel.basic_reject(got[1].tag, requeue=False)
    network.channel.basic_reject(got[0].tag, requeue=True)
    again = network.get("q", auto_ack=False)
    assert again is not None
    assert (again.body, again.redelivered) == (b"back", True)
    assert network.get("q") is None


@pytest.mark.feature("S4-55")
def test_recover_brings_everything_unacked_back(network: NetworkPeer) -> None:
    """In its old order, marked redelivered."""
    network.declare_queue("q")
    for body in (b"1", b"2", b"3"):
        network.publish("", "q", body)
    inbox = network.consume("q")
    inbox.take(3)
    network.channel.basic_recover(requeue=True)
    assert [(got.body, got.redelivered) for got in inbox.take(3)] == [(b"1", True), (b"2", True), (b"3", True)]


@pytest.mark.feature("S4-48", "S4-55")
def test_a_requeued_message_goes_to_another_consumer_too(new_peer: NewPeer) -> None:
    first, second = new_peer(), new_peer()
    first.declare_queue("q")
    inbox = first.consume("q", tag="first", prefetch=1)
    first.publish("", "q", b"m")
    (got,) = inbox.take()
    first.cancel("first")
    other = second.consume("q", tag="second")
    first.nack(got.tag)
    (again,) = other.take()
    assert (again.body, again.redelivered) == (b"m", True)


@pytest.mark.feature("S4-46")
def test_cancelling_stops_deliveries_and_leaves_the_unacked_to_be_acked(
    peer: Peer, leveret_broker: leveret.Broker
) -> None:
    peer.declare_queue("q")
    inbox = peer.consume("q")
    peer.publish("", "q", b"1")
    (got,) = inbox.take()
    peer.cancel(inbox.tag)
    peer.publish("", "q", b"2")
    assert inbox.rest() == []
    assert (inside(leveret_broker, "q").unacked, peer.count("q")) == (1, 1)
    peer.ack(got.tag)
    assert inside(leveret_broker, "q").unacked == 0


# ---- replies


@pytest.mark.feature("S4-58")
def test_replies_find_their_requests_among_many_on_one_connection(leveret_broker: leveret.Broker) -> None:
    """A hundred requests are under way on ten channels before the first answer is read."""
    params = pika.URLParameters(leveret_broker.amqp_url)
    answers: dict[tuple[int, int], str] = {}

    class Client:
        def __init__(self) -> None:
            self.connection = pika.SelectConnection(params, self.opened, self.failed, self.closed)
            self.problem: object = None

        def failed(self, _: object, problem: object) -> None:
            self.problem = problem
            self.connection.ioloop.stop()

        def closed(self, *_: object) -> None:
            self.connection.ioloop.stop()

        def opened(self, connection: Any) -> None:
            for _ in range(10):
                connection.channel(on_open_callback=self.ask)

        def ask(self, channel: Any) -> None:
            for number in range(10):
                name = f"q-{channel.channel_number}-{number}"
                place = (channel.channel_number, number)
                channel.queue_declare(name, callback=lambda frame, place=place: self.answered(place, frame))

        def answered(self, place: tuple[int, int], frame: Any) -> None:
            answers[place] = frame.method.queue
            if len(answers) == 100:
                self.connection.close()

    client = Client()
    client.connection.ioloop.start()
    client.connection.ioloop.close()
    assert client.problem is None
    assert answers == {(channel, number): f"q-{channel}-{number}" for channel in range(1, 11) for number in range(10)}
