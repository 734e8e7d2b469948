"""The calls in the process: from many threads, from callbacks, and what a session holds and gives back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pika
import pytest

import leveret
from leveret.broker.local import Delivered
from leveret.embedded import EmbeddedVhost
from leveret.errors import AmqpError, ChannelFault, FrameError, NotAllowed, NotFound, PreconditionFailed
from leveret.wire.properties import Properties
from tests.support.peers import PATIENCE, LocalPeer, NetworkPeer, inside
from tests.support.remote_queues import make_remote


@pytest.fixture
def vhost(leveret_broker: leveret.Broker) -> EmbeddedVhost:
    return leveret_broker.vhost()


def together(*works: Callable[[], None]) -> None:
    """Run all of them at once; the first failure is the test's."""
    problems: list[BaseException] = []
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            gate.wait(PATIENCE)
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    if problems:
        raise problems[0]


# ---- threads


@pytest.mark.feature("S4-01", "S4-04")
def test_eight_threads_publish_and_consume_through_one_session(vhost: EmbeddedVhost) -> None:
    """Nothing is lost, doubled or out of order of its sender."""
    vhost.declare_queue("q")
    received: SimpleQueue[bytes] = SimpleQueue()

    def sender(number: int) -> Callable[[], None]:
        def send() -> None:
            for item in range(100):
                assert vhost.publish("", "q", f"{number}:{item}".encode())

        return send

    def receive() -> None:
        while received.qsize() < 800:
            if (delivered := vhost.get("q")) is not None:
                vhost.ack(delivered.delivery_tag)
                received.put(delivered.body)

    together(*(sender(number) for number in range(8)), receive)
    bodies = [received.get() for _ in range(received.qsize())]
    for number in range(8):
        mine = [body for body in bodies if body.startswith(f"{number}:".encode())]
        assert mine == [f"{number}:{item}".encode() for item in range(100)]
    assert len(bodies) == 800
    assert vhost.message_count("q") == 0


@pytest.mark.feature("S4-04")
def test_eight_threads_with_sessions_of_their_own(leveret_broker: leveret.Broker) -> None:
    """Declare, bind, publish, consume, ack and delete, all at once."""
    leveret_broker.vhost().declare_exchange("x", "direct")

    def worker(number: int) -> Callable[[], None]:
        def work() -> None:
            vhost = leveret_broker.vhost()
            queue = vhost.declare_queue(f"q{number}", exclusive=True)
            came: SimpleQueue[Delivered] = SimpleQueue()
            vhost.consume(queue, came.put, tag="the same for all")
            for key in range(50):
                vhost.bind(queue, "x", f"{number}-{key}")
                assert vhost.publish("x", f"{number}-{key}", str(number).encode())
                delivered = came.get(timeout=PATIENCE)
                assert (delivered.body, delivered.delivery_tag) == (str(number).encode(), key + 1)
                vhost.ack(delivered.delivery_tag)
                vhost.unbind(queue, "x", f"{number}-{key}")
            vhost.close()

        return work

    together(*(worker(number) for number in range(8)))
    left = leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues))
    assert left == []


@pytest.mark.feature("S4-46")
def test_the_same_tag_in_two_sessions_means_two_consumers(leveret_broker: leveret.Broker) -> None:
    """Each gets what its own queue holds."""
    boxes: dict[str, SimpleQueue[bytes]] = {}
    for name in ("a", "b"):
        vhost = leveret_broker.vhost()
        vhost.declare_queue(name)
        box = boxes[name] = SimpleQueue()
        vhost.consume(name, lambda delivered, box=box: box.put(delivered.body), tag="tag", auto_ack=True)  # type: ignore[misc]
    for name in ("a", "b", "a"):
        leveret_broker.vhost().publish("", name, name.encode())
    assert [boxes["a"].get(timeout=60), boxes["a"].get(timeout=60), boxes["b"].get(timeout=60)] == [b"a", b"a", b"b"]
    assert boxes["a"].empty()
    assert boxes["b"].empty()


# ---- what a session holds


@pytest.mark.feature("S4-61")
def test_close_gives_back_what_was_not_acked_and_ends_consumers_and_exclusive_queues(
    leveret_broker: leveret.Broker,
) -> None:
    """The same as when a connection goes."""
    vhost, other = leveret_broker.vhost(), LocalPeer(leveret_broker)
    for name, options in (("q", {}), ("mine", {"exclusive": True}), ("passing", {"auto_delete": True})):
        vhost.declare_queue(name, **options)  # type: ignore[arg-type]
    came: SimpleQueue[Delivered] = SimpleQueue()
    for name in ("q", "passing"):
        vhost.consume(name, came.put)
    for body in (b"1", b"2"):
        vhost.publish("", "q", body)
        came.get(timeout=60)
    vhost.close()
    vhost.close()
    queue = inside(leveret_broker, "q")
    assert (len(queue.consumers), queue.unacked, queue.ready) == (0, 0, 2)
    assert [other.get("q").body, other.get("q").body] == [b"1", b"2"]  # type: ignore[union-attr]
    assert leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues)) == ["q"]


@pytest.mark.feature("S4-81")
def test_a_closed_session_refuses_every_call_but_close(vhost: EmbeddedVhost) -> None:
    """504, as a closed channel does."""
    vhost.declare_queue("q")
    vhost.close()
    for use in (
        lambda: vhost.publish("", "q", b""),
        lambda: vhost.get("q"),
        lambda: vhost.declare_queue("q"),
        lambda: vhost.consume("q", print),
        lambda: vhost.cancel("tag"),
        lambda: vhost.ack(1),
        lambda: vhost.message_count("q"),
    ):
        with pytest.raises(ChannelFault) as caught:
            use()
        assert caught.value.code == 504


@pytest.mark.feature("S4-61")
def test_deliveries_that_wait_for_their_callback_when_the_session_closes_go_back_unseen(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    """No callback runs for a message that somebody else may have by now."""
    seen: list[bytes] = []
    closed = threading.Event()

    def callback(delivered: Delivered) -> None:
        seen.append(delivered.body)
        vhost.close()
        closed.set()

    vhost.declare_queue("q")
    for body in (b"1", b"2", b"3"):
        vhost.publish("", "q", body)
    vhost.consume("q", callback)
    assert closed.wait(PATIENCE)
    other = LocalPeer(leveret_broker)
    assert other.count("q") == 3
    inbox = other.consume("q", auto_ack=True)  # its callbacks come behind the waiting ones, in the same thread
    assert inbox.bodies(3) == [b"1", b"2", b"3"]
    assert seen == [b"1"]


@pytest.mark.feature("S4-05")
def test_sessions_have_delivery_tags_of_their_own(leveret_broker: leveret.Broker) -> None:
    """As channels do."""
    first, second = leveret_broker.vhost(), leveret_broker.vhost()
    first.declare_queue("q")
    for _ in range(2):
        first.publish("", "q", b"")
    assert [vhost.get("q").delivery_tag for vhost in (first, second)] == [1, 1]  # type: ignore[union-attr]
    first.ack(1)
    with pytest.raises(PreconditionFailed, match="unknown delivery tag 1"):
        first.ack(1)
    second.ack(1)


@pytest.mark.feature("S4-62")
def test_sessions_that_were_closed_are_forgotten(leveret_broker: leveret.Broker) -> None:
    """A program that opens one per request does not grow."""
    kept = leveret_broker.vhost()
    for _ in range(50):
        vhost = leveret_broker.vhost()
        vhost.consume(vhost.declare_queue(exclusive=True), print)
        vhost.close()
        assert vhost._by_tag == {}
    assert leveret_broker._sessions == {kept.session}


@pytest.mark.feature("S4-46")
def test_a_consumer_whose_queue_was_deleted_is_forgotten(leveret_broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    """Its tag may be used again."""
    vhost.declare_queue("q")
    vhost.consume("q", print, tag="tag")
    leveret_broker.vhost().delete_queue("q")
    assert vhost._by_tag == {}
    vhost.declare_queue("q")
    came: SimpleQueue[Delivered] = SimpleQueue()
    vhost.consume("q", came.put, tag="tag")
    vhost.publish("", "q", b"m")
    assert came.get(timeout=60).body == b"m"


# ---- errors


@pytest.mark.feature("S4-81")
def test_errors_are_the_typed_ones_of_the_protocol(leveret_broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    """Catch the class, or read the code."""
    vhost.declare_queue("q")
    vhost.consume("q", print, tag="tag")
    cases: list[tuple[type[AmqpError], int, Callable[[], object]]] = [
        (NotFound, 404, lambda: vhost.publish("nowhere", "", b"")),
        (NotFound, 404, lambda: vhost.get("nowhere")),
        (PreconditionFailed, 406, lambda: vhost.declare_queue("q", durable=True)),
        (NotAllowed, 530, lambda: vhost.consume("q", print, tag="tag")),
        (NotAllowed, 530, lambda: leveret_broker.vhost("nowhere")),
        (FrameError, 501, lambda: vhost.declare_queue("n" * 256)),
        (FrameError, 501, lambda: vhost.declare_exchange("n" * 256)),
        (FrameError, 501, lambda: vhost.publish("", "k" * 256, b"")),
        (FrameError, 501, lambda: vhost.bind("q", "amq.topic", "k" * 256)),
        (FrameError, 501, lambda: vhost.declare_queue("bad", arguments={"x-odd": object()})),
    ]
    for kind, code, act in cases:
        with pytest.raises(kind) as caught:
            act()
        assert caught.value.code == code
    assert leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues)) == ["q"]


@pytest.mark.feature("S4-09")
def test_a_body_that_is_not_bytes_is_refused_before_it_does_harm(vhost: EmbeddedVhost) -> None:
    """Bytes in any form are taken."""
    vhost.declare_queue("q")
    for body in ("text", 5, None):
        with pytest.raises(TypeError):
            vhost.publish("", "q", body)  # type: ignore[arg-type]
    changing = bytearray(b"as it was")
    vhost.publish("", "q", changing)
    changing[:2] = b"IS"
    vhost.publish("", "q", memoryview(b"seen through")[5:])
    got = [delivered.body for _ in range(3) if (delivered := vhost.get("q", auto_ack=True)) is not None]
    assert got == [b"as it was", b"through"]


@pytest.mark.feature("S4-07")
def test_arguments_are_taken_as_they_were_when_they_were_given(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    """A dictionary that its owner changes later changes no queue."""
    arguments: dict[str, object] = {"x-max-priority": 3, "x-mine": ["a"]}
    vhost.declare_queue("q", arguments=arguments)
    arguments["x-max-priority"] = 7
    arguments["x-mine"].append("b")  # type: ignore[attr-defined]
    assert inside(leveret_broker, "q").arguments == {"x-max-priority": 3, "x-mine": ["a"]}


@pytest.mark.feature("S4-81")
def test_a_message_larger_than_allowed_is_refused() -> None:
    """The same limit for both ways."""
    settings = leveret.Settings(amqp_port=None, http_port=None, stomp_port=None, max_message_size=100)
    with leveret.Broker(settings) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q")
        vhost.publish("", "q", bytes(100))
        with pytest.raises(
            PreconditionFailed, match="message size 101 is larger than configured max size 100: raise max_message_size"
        ):
            vhost.publish("", "q", bytes(101))
        assert vhost.message_count("q") == 1


@pytest.mark.feature("S4-04", "S4-09")
def test_a_message_from_the_process_is_a_message_like_any_other(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    """To a client it has the properties that were given."""
    peer = NetworkPeer(leveret_broker.amqp_url)
    inbox = peer.consume(peer.declare_queue("q"), auto_ack=True)
    vhost.publish("", "q", b"m", Properties(content_type="text/plain", headers={"n": 1}, correlation_id="7"))
    (got,) = inbox.take()
    assert got.properties == {"content_type": "text/plain", "headers": {"n": 1}, "correlation_id": "7"}
    peer.close()


@pytest.mark.feature("S4-04")
def test_an_answer_from_the_process_reaches_a_client_that_asked_by_direct_reply_to(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    """A service in the process, a caller on the network."""

    def answer(delivered: Delivered) -> None:
        assert delivered.properties.reply_to is not None
        back = Properties(correlation_id=delivered.properties.correlation_id)
        assert vhost.publish("", delivered.properties.reply_to, delivered.body.upper(), back)
        vhost.ack(delivered.delivery_tag)

    vhost.declare_queue("service")
    vhost.consume("service", answer)
    peer = NetworkPeer(leveret_broker.amqp_url)
    replies = peer.consume("amq.rabbitmq.reply-to", auto_ack=True)
    asked = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="1")
    peer.channel.basic_publish("", "service", b"hello", asked)
    (got,) = replies.take()
    assert (got.body, got.properties) == (b"HELLO", {"correlation_id": "1"})
    peer.close()


@pytest.mark.feature("S0-30")
def test_publishing_in_the_process_does_not_wait_for_a_queue_that_answers_later(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    """Its log opens a receipt for each copy, as for a message of a connection."""
    vhost.declare_queue("q")
    log = leveret_broker.call(lambda: make_remote(leveret_broker.node.broker.vhost("/"), "q", copies=2))
    assert vhost.publish("", "q", b"m")
    assert [len(run.receipts) for run in log.waiting] == [2]
    leveret_broker.call(log.let_in)
    assert vhost.message_count("q") == 1
