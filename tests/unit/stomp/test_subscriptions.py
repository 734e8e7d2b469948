"""SUBSCRIBE, MESSAGE, ACK and NACK."""

from __future__ import annotations

import pytest

from leveret.wire.frames import content_frames, method_frame
from leveret.wire.methods import BasicPublish
from tests.support.peer_pair import Harness
from tests.support.stomp_client import made
from tests.support.stomp_harness import StompPeer


@pytest.fixture
def peer(harness: Harness) -> StompPeer:
    return StompPeer.open(harness)


def send(peer: StompPeer, destination: str, *bodies: bytes, **headers: object) -> None:
    for body in bodies:
        assert peer.ask("SEND", body, destination=destination, **headers) == []


def test_messages_come_with_their_headers(harness: Harness, peer: StompPeer) -> None:
    amqp = harness.client()
    (receipt,) = peer.ask("SUBSCRIBE", destination="/queue/a%2Fb", id="s\\c1", receipt="r")
    assert receipt["receipt-id"] == "r"
    amqp.publish(
        "a/b",
        b"body",
        content_type="text/x",
        delivery_mode=2,
        priority=3,
        reply_to="amq.answers",
        headers={"n": 1, "flag": True, "text": "x:y\n\r\\", "ratio": 0.5, "table": {"a": 1}, "destination": "no"},
    )
    (message,) = peer.heard()
    assert message.body == b"body"
    name = message.headers.pop("message-id")
    assert name.startswith("T_s\\c1@@session-")
    assert name.endswith("@@1")
    assert message.headers == {
        "subscription": "s\\c1",
        "destination": "/queue/a%2Fb",
        "redelivered": "false",
        "content-type": "text/x",
        "persistent": "true",
        "priority": "3",
        "reply-to": "/reply-queue/amq.answers",
        "n": "1",
        "flag": "true",
        "text": "x\\cy\\n\\r\\\\",
        "ratio": "0.5",
        "content-length": "4",
    }


def test_without_an_id_a_subscription_is_named_by_its_destination(harness: Harness) -> None:
    peer = StompPeer.open(harness, "1.0")
    peer.ask("SUBSCRIBE", destination="/queue/q")
    (message,) = peer.ask("SEND", b"m", destination="/queue/q")
    assert ("subscription" in message.headers, "ack" in message.headers) == (False, False)
    (receipt,) = peer.ask("UNSUBSCRIBE", destination="/queue/q", receipt="u")
    assert receipt.command == "RECEIPT"


@pytest.mark.feature("S4-52")
def test_client_acks_speak_for_all_before_them_of_their_subscription(harness: Harness, peer: StompPeer) -> None:
    """Other subscriptions owe what they owed."""
    peer.ask("SUBSCRIBE", destination="/queue/a", id="a", ack="client")
    peer.ask("SUBSCRIBE", destination="/queue/b", id="b", ack="client")
    messages = []
    for queue in ("a", "b", "a", "b", "a"):
        messages += peer.ask("SEND", b"m", destination=f"/queue/{queue}")
    assert len(messages) == 5
    (receipt,) = peer.ask("ACK", id=messages[2]["ack"], receipt="1")
    assert receipt.command == "RECEIPT"
    assert (harness.queue("a").unacked, harness.queue("b").unacked) == (1, 2)
    (error,) = peer.ask("ACK", id=messages[0]["ack"])
    assert (error.command, error["message"]) == ("ERROR", "precondition_failed")


def test_individual_acks_speak_for_themselves(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client-individual")
    messages = [peer.ask("SEND", b"m", destination="/queue/q")[0] for _ in range(3)]
    peer.ask("ACK", id=messages[1]["ack"])
    assert harness.queue("q").unacked == 2


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_older_versions_ack_by_message_id(harness: Harness, version: str) -> None:
    peer = StompPeer.open(harness, version)
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    (message,) = peer.ask("SEND", b"m", destination="/queue/q")
    peer.ask("ACK", message_id=message["message-id"], subscription="a")
    assert harness.queue("q").unacked == 0


@pytest.mark.feature("S4-55", "S4-75")
def test_a_nack_gives_back_or_drops(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client-individual")
    (first,) = peer.ask("SEND", b"m", destination="/queue/q")
    (again,) = peer.ask("NACK", id=first["ack"])
    assert (again.command, again["redelivered"], again.body) == ("MESSAGE", "true", b"m")
    (receipt,) = peer.ask("NACK", id=again["ack"], requeue="false", receipt="n")
    assert receipt.command == "RECEIPT"
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (0, 0)


@pytest.mark.parametrize("header", ["prefetch-count", "activemq.prefetchSize"])
@pytest.mark.feature("S3-18")
def test_no_more_than_the_prefetch_is_owed(harness: Harness, peer: StompPeer, header: str) -> None:
    """Push, and then only after acks."""
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client", **{header: 2})
    messages = [frame for _ in range(4) for frame in peer.ask("SEND", b"m", destination="/queue/q")]
    assert len(messages) == 2
    assert len(peer.ask("ACK", id=messages[1]["ack"])) == 2


def test_each_subscription_has_its_own_prefetch(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/a", id="a", ack="client", **{"prefetch-count": 1})
    peer.ask("SUBSCRIBE", destination="/queue/b", id="b", ack="client")
    other = StompPeer.open(harness)
    send(other, "/queue/a", b"1", b"2")
    send(other, "/queue/b", b"3", b"4")
    assert peer.bodies() == [b"1", b"3", b"4"]


def test_auto_needs_no_ack(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a")
    (message,) = peer.ask("SEND", b"m", destination="/queue/q")
    assert (harness.queue("q").unacked, "ack" in message.headers) == (0, False)
    (error,) = peer.ask("ACK", id=message["message-id"])
    assert error["message"] == "precondition_failed"


def test_a_topic_reaches_those_who_subscribed(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/topic/news.*", id="a")
    other = StompPeer.open(harness)
    other.ask("SUBSCRIBE", destination="/exchange/amq.topic/news.#", id="b")
    send(StompPeer.open(harness), "/topic/news.sport", b"1")
    send(StompPeer.open(harness), "/topic/news.sport.local", b"2")
    (message,) = peer.heard()
    assert (message["destination"], message.body) == ("/topic/news.sport", b"1")
    assert other.bodies() == [b"1", b"2"]
    assert len(harness.vhost.queues) == 2
    peer.ask("UNSUBSCRIBE", id="a")
    assert len(harness.vhost.queues) == 1
    other.vanish()
    assert not harness.vhost.queues


def test_a_durable_subscription_keeps_what_came_meanwhile(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/topic/t", id="me", durable="true")
    peer.ask("DISCONNECT")
    peer.vanish()
    send(StompPeer.open(harness), "/topic/t", b"meanwhile")
    back = StompPeer.open(harness)
    (message,) = back.ask("SUBSCRIBE", destination="/topic/t", id="me", durable="true")
    assert message.body == b"meanwhile"
    (queue,) = harness.vhost.queues
    back.ask("UNSUBSCRIBE", id="me", durable="true", receipt="u")
    assert queue not in harness.vhost.queues


def test_a_subscription_queue_may_have_a_name(harness: Harness, peer: StompPeer) -> None:
    peer.ask(
        "SUBSCRIBE", destination="/topic/t", id="me", durable="true", **{"x-queue-name": "mine", "x-max-length": 3}
    )
    queue = harness.queue("mine")
    assert (queue.durable, queue.arguments) == (True, {"x-max-length": 3})


@pytest.mark.parametrize("destination", ["/queue/q", "/topic/t", "/exchange/amq.topic/t"])
@pytest.mark.feature("S1-28")
def test_a_selector_chooses(harness: Harness, destination: str) -> None:
    """On a queue the others wait for somebody else; a topic keeps nothing that nobody wants."""
    peer = StompPeer.open(harness)
    peer.ask("SUBSCRIBE", destination=destination, id="a", selector="colour = 'red' AND weight > 2")
    target = destination if destination.startswith("/queue") else "/topic/t"
    amqp = harness.client()
    exchange, key = ("", "q") if target == "/queue/q" else ("amq.topic", "t")
    for colour, weight in (("red", 3), ("red", 1), ("blue", 3)):
        amqp.feed(
            amqp.published(exchange, key, f"{colour}{weight}".encode(), headers={"colour": colour, "weight": weight})
        )
    assert peer.bodies() == [b"red3"]
    assert sum(queue.ready for queue in harness.vhost.queues.values()) == (2 if target == "/queue/q" else 0)


@pytest.mark.feature("S4-73")
def test_an_exclusive_consumer_is_alone(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", **{"activemq.exclusive": "true"})
    (error,) = StompPeer.open(harness).ask("SUBSCRIBE", destination="/queue/q", id="a")
    assert (error.command, error["message"]) == ("ERROR", "access_refused")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"destination": "/queue/q", "id": "taken"}, "Duplicated subscription identifier"),
        ({"destination": "/amq/queue/absent", "id": "b"}, "not_found"),
        ({"destination": "/exchange/absent/k", "id": "b"}, "not_found"),
        ({"destination": "/temp-queue/t", "id": "b"}, "Invalid destination"),
        ({"destination": "/queue/q", "id": "b", "ack": "often"}, "Invalid header"),
        ({"destination": "/queue/q", "id": "b", "selector": "= ="}, "precondition_failed"),
        ({"destination": "/queue/q", "id": "b" * 300}, "Invalid header"),
        ({"destination": "/topic/t", "durable": "true"}, "Missing Header"),
        ({"id": "b"}, "Missing destination"),
    ],
)
def test_a_subscription_that_cannot_be_is_an_error(
    harness: Harness, peer: StompPeer, headers: dict[str, object], message: str
) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="taken")
    (error,) = peer.ask("SUBSCRIBE", **headers)
    assert (error.command, error["message"]) == ("ERROR", message)
    assert peer.socket.closed
    assert harness.queue("q").ready == 0


@pytest.mark.feature("S4-72")
def test_reading_needs_the_permission_for_it(harness: Harness) -> None:
    """As over AMQP, topic permissions included."""
    harness.client().declare("q", durable=True)
    harness.user("writer")
    harness.broker.permissions.set("writer", "/", "", ".*", "")
    for destination in ("/queue/q", "/amq/queue/q", "/topic/t"):
        (error,) = StompPeer.open(harness, login="writer").ask("SUBSCRIBE", destination=destination, id="a")
        assert (error.command, error["message"]) == ("ERROR", "access_refused")
    harness.user("local")
    harness.broker.permissions.set_topic("local", "/", "amq.topic", "^local\\.", "^local\\.")
    (error,) = StompPeer.open(harness, login="local").ask("SUBSCRIBE", destination="/topic/world.a", id="a")
    assert (error.command, error["message"]) == ("ERROR", "access_refused")


@pytest.mark.feature("S4-29", "S4-61")
def test_what_was_not_acked_goes_back_when_the_peer_leaves(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    send(StompPeer.open(harness), "/queue/q", b"1")
    assert harness.queue("q").unacked == 1
    assert peer.ask("DISCONNECT")[0].command == "MESSAGE"
    assert (harness.queue("q").ready, harness.queue("q").unacked, len(harness.queue("q").consumers)) == (1, 0, 0)


@pytest.mark.feature("S4-61")
def test_what_was_not_acked_goes_back_when_the_wire_is_cut(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    send(StompPeer.open(harness), "/queue/q", b"1")
    peer.vanish()
    assert (harness.queue("q").ready, harness.queue("q").unacked, len(harness.queue("q").consumers)) == (1, 0, 0)


def test_a_deleted_queue_is_told_and_the_rest_lives_on(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/gone", id="a")
    peer.ask("SUBSCRIBE", destination="/queue/kept", id="b")
    harness.vhost.delete_queue("gone")
    harness.turn()
    (told,) = peer.heard()
    assert (told.command, told["message"], told["subscription"]) == ("ERROR", "Server cancelled subscription", "a")
    (message,) = peer.ask("SEND", b"m", destination="/queue/kept")
    assert message.body == b"m"
    assert peer.ask("SEND", b"m", destination="/queue/gone") == []
    assert harness.queue("gone").ready == 1


def test_what_is_on_its_way_at_unsubscribe_still_comes(harness: Harness, peer: StompPeer) -> None:
    """Also from a queue that may refuse, which delivers during the SEND."""
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", **full)
    said = made("SEND", {"destination": "/amq/queue/q"}, b"1") + made("SEND", {"destination": "/amq/queue/q"}, b"2")
    said += made("UNSUBSCRIBE", {"id": "a", "receipt": "u"})
    peer.feed(said + made("SUBSCRIBE", {"id": "a", "destination": "/queue/r", "ack": "client", "receipt": "s"}))
    frames = [(frame.command, frame.body, "ack" in frame.headers) for frame in peer.heard()]
    assert frames[:2] == [("MESSAGE", b"1", False), ("MESSAGE", b"2", False)]
    assert [command for command, _, _ in frames[2:]] == ["RECEIPT", "RECEIPT"]
    assert harness.queue("q").ready == 0


def test_an_ack_of_another_connection_is_refused(harness: Harness, peer: StompPeer) -> None:
    other = StompPeer.open(harness)
    for each in (peer, other):
        each.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    peer.ask("SEND", b"1", destination="/queue/q")
    (message,) = peer.ask("SEND", b"2", destination="/queue/q") or other.heard()
    assert len(other.heard()) <= 1
    wrong = peer if message["ack"].split("@@")[1] != peer.connection._session else other
    (error,) = [frame for frame in wrong.ask("ACK", id=message["ack"]) if frame.command == "ERROR"]
    assert error["message"] == "Subscription not found"


def test_letters_that_would_break_a_frame_are_made_harmless(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a")
    harness.client().publish("q", b"m", headers={"odd": "a\0b", "even": "1"})
    (message,) = peer.heard()
    assert (message["odd"], message["even"], message.body) == ("a b", "1", b"m")


def test_a_message_whose_headers_nobody_can_read_comes_without_them(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a")
    broken = b"\x20\x00" + b"\x00\x00\x00\x03\x01x?"  # a table with a field of no known type
    amqp = harness.client()
    amqp.feed(method_frame(1, BasicPublish("", "q")) + content_frames(1, broken, b"body", 4096))
    assert peer.bodies() == [b"body"]


def test_unsubscribe_needs_a_subscription(harness: Harness, peer: StompPeer) -> None:
    (error,) = peer.ask("UNSUBSCRIBE", id="a")
    assert (error.command, error["message"]) == ("ERROR", "No subscription found")


def test_after_unsubscribe_what_was_given_can_still_be_acked(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    (message,) = peer.ask("SEND", b"m", destination="/queue/q")
    peer.ask("UNSUBSCRIBE", id="a")
    assert peer.ask("ACK", id=message["ack"]) == []
    assert harness.queue("q").unacked == 0


def test_what_a_subscribe_has_made_a_send_takes_as_it_is(peer: StompPeer) -> None:
    """The queue is declared by whoever of this connection names it first, with the headers given there."""
    peer.ask("SUBSCRIBE", destination="/queue/short", id="1", x_message_ttl=60_000, auto_delete="true")
    (message,) = peer.ask("SEND", b"m", destination="/queue/short")
    assert (message.command, message.body) == ("MESSAGE", b"m")


def test_a_subscribe_declares_anew_what_was_deleted(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SEND", b"m", destination="/queue/q")
    harness.vhost.delete_queue("q")
    (receipt,) = peer.ask("SUBSCRIBE", destination="/queue/q", id="1", x_message_ttl=60_000, receipt="r")
    assert receipt.command == "RECEIPT"
    assert harness.queue("q").arguments == {"x-message-ttl": 60_000}


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_a_queue_that_is_not_durable_is_the_connections_own(harness: Harness, peer: StompPeer, command: str) -> None:
    peer.ask(command, destination="/queue/own", id="1", durable="false")
    own = harness.queue("own")
    assert (own.durable, own.owner is peer.connection, own.auto_delete) == (False, True, True)
    peer.ask(command, destination="/queue/shared", id="2", durable="false", exclusive="false", auto_delete="false")
    shared = harness.queue("shared")
    assert (shared.durable, shared.owner, shared.auto_delete) == (False, None, False)


def test_subscribers_that_name_their_queue_share_it(harness: Harness) -> None:
    """Each message goes to one of them."""
    one, two = StompPeer.open(harness), StompPeer.open(harness)
    for peer in (one, two):
        (receipt,) = peer.ask("SUBSCRIBE", destination="/topic/work", id="w", x_queue_name="crew", receipt="r")
        assert receipt.command == "RECEIPT"
    for body in (b"1", b"2"):
        one.feed(made("SEND", {"destination": "/topic/work"}, body))
    assert len(harness.queue("crew").consumers) == 2
    assert sorted(one.bodies() + two.bodies()) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("version", "headers", "message", "text"),
    [
        ("1.2", {}, "Missing header", '"ACK" must include the "id" header'),
        ("1.1", {}, "Missing header", '"ACK" must include the "message-id" header'),
        ("1.2", {"id": "nonsense"}, "Invalid header", '"ACK" must include a valid "id" header'),
        ("1.2", {"id": "T_s@@elsewhere@@1"}, "Subscription not found", 'Message with id "T_s@@elsewhere@@1" has no'),
    ],
)
def test_an_ack_of_nothing_says_why(
    harness: Harness, version: str, headers: dict[str, object], message: str, text: str
) -> None:
    (error,) = StompPeer.open(harness, version).ask("ACK", **headers)
    assert error["message"] == message
    assert error.body.decode().startswith(text)


def test_the_ids_of_answers_are_taken(peer: StompPeer) -> None:
    (error,) = peer.ask("SUBSCRIBE", destination="/queue/q", id="/temp-queue/x")
    assert error["message"] == "Invalid id"


@pytest.mark.parametrize(
    "headers",
    [
        {"destination": "/queue/q", "x-" + "n" * 254: "v"},
        {"destination": "/topic/t", "x-" + "n" * 254: "v"},
        {"destination": "/topic/t", "x-queue-name": "n" * 256},
    ],
)
def test_a_subscription_with_names_that_amqp_has_no_room_for_is_refused(
    harness: Harness, headers: dict[str, object]
) -> None:
    peer = StompPeer.open(harness)
    peer.feed(made("SUBSCRIBE", {"id": "1", **headers}))
    (answer,) = peer.heard()
    assert (answer.command, answer["message"]) == ("ERROR", "Invalid header")
    assert b"255 bytes" in answer.body
