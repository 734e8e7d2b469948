"""SEND: where it goes, what becomes of its headers, when its receipt comes."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from tests.support.peer_pair import Harness
from tests.support.stomp_client import made
from tests.support.stomp_harness import StompPeer


@pytest.fixture
def peer(harness: Harness) -> StompPeer:
    return StompPeer.open(harness)


def test_a_queue_is_made_when_it_is_first_named(harness: Harness, peer: StompPeer) -> None:
    (receipt,) = peer.ask("SEND", b"m", destination="/queue/made", receipt="7", **{"x-max-length": "5"})
    assert (receipt.command, receipt["receipt-id"]) == ("RECEIPT", "7")
    queue = harness.queue("made")
    assert (queue.durable, queue.ready, queue.arguments) == (True, 1, {"x-max-length": 5})


def test_headers_become_properties_and_the_rest_travels_along(harness: Harness, peer: StompPeer) -> None:
    amqp = harness.client()
    peer.ask(
        "SEND",
        b"body",
        destination="/queue/q",
        persistent="true",
        priority=7,
        expiration=60000,
        timestamp=1700000000,
        content_type="text/plain",
        correlation_id="c",
        reply_to="/queue/answers",
        amqp_message_id="m-1",
        type="t",
        app_id="a",
        colour="red\\cgreen",
    )
    got = amqp.get("q")
    assert got is not None
    told = got.properties
    assert (told.delivery_mode, told.priority, told.expiration, told.content_type) == (2, 7, "60000", "text/plain")
    assert (told.correlation_id, told.reply_to, told.message_id) == ("c", "/queue/answers", "m-1")
    assert (told.type, told.app_id, told.headers) == ("t", "a", {"colour": "red:green"})
    assert got.body == b"body"


def test_expires_is_a_moment(harness: Harness, peer: StompPeer) -> None:
    amqp = harness.client()
    soon = int(harness.clock.wall() * 1000) + 5000
    peer.ask("SEND", b"m", destination="/queue/q", expires=soon)
    got = amqp.get("q")
    assert got is not None
    assert got.properties.expiration == "5000"
    peer.ask("SEND", b"m", destination="/queue/q", expires=0)
    forever = amqp.get("q")
    assert forever is not None
    assert forever.properties.expiration is None


def test_a_scheduled_delay_holds_a_message_back(harness: Harness, peer: StompPeer) -> None:
    """AMQ_SCHEDULED_DELAY is the broker's own schedule."""
    peer.feed(b"SEND\ndestination:/queue/q\nAMQ_SCHEDULED_DELAY:3000\n\nlater\0")
    assert harness.queue("q").ready == 0
    harness.advance(2.9)
    assert harness.queue("q").ready == 0
    harness.advance(0.2)
    assert harness.queue("q").ready == 1


def test_a_group_is_named_as_activemq_names_it(harness: Harness, peer: StompPeer) -> None:
    amqp = harness.client()
    peer.ask("SEND", b"m", destination="/queue/q", JMSXGroupID="g")
    got = amqp.get("q")
    assert got is not None
    assert got.properties.headers == {"JMSXGroupID": "g", "x-group-id": "g"}


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("/exchange/nowhere/k", "not_found"),
        ("/exchange/amq.rabbitmq.log", "not_found"),
        ("/nonsense/a", "Unknown destination"),
        ("/temp-queue/a", "Invalid destination"),
    ],
)
def test_a_send_that_leads_nowhere_ends_in_an_error(harness: Harness, destination: str, message: str) -> None:
    peer = StompPeer.open(harness)
    (answer,) = peer.ask("SEND", b"m", destination=destination)
    assert (answer.command, answer["message"]) == ("ERROR", message)
    assert peer.socket.closed


def test_a_missing_amq_queue_takes_nothing(harness: Harness, peer: StompPeer) -> None:
    (answer,) = peer.ask("SEND", b"m", destination="/amq/queue/absent", receipt="1")
    assert answer.command == "RECEIPT"
    assert "absent" not in harness.vhost.queues


def test_a_queue_that_is_full_refuses_by_an_error(harness: Harness, peer: StompPeer) -> None:
    full = {"x-max-length": "1", "x-overflow": "reject-publish"}
    peer.ask("SEND", b"1", destination="/queue/q", receipt="1", **full)
    (answer,) = peer.ask("SEND", b"2", destination="/queue/q", receipt="2")
    assert (answer.command, answer["message"], answer["receipt-id"]) == ("ERROR", "Message refused", "2")


def test_a_queue_that_is_declared_otherwise_is_an_error(harness: Harness, peer: StompPeer) -> None:
    harness.client().declare("q", durable=False)
    (answer,) = peer.ask("SEND", b"m", destination="/queue/q")
    assert answer["message"] == PreconditionFailed.title.lower()
    assert b"inequivalent arg 'durable'" in answer.body


@pytest.mark.parametrize("header", ["priority", "timestamp", "expires", "persistent"])
def test_a_header_that_makes_no_sense_is_refused(harness: Harness, header: str) -> None:
    (answer,) = StompPeer.open(harness).ask("SEND", b"m", destination="/queue/q", receipt="5", **{header: "-x"})
    assert (answer.command, answer["message"], answer["receipt-id"]) == ("ERROR", "Invalid header", "5")


def test_answers_come_through_a_temporary_queue(harness: Harness, peer: StompPeer) -> None:
    """/temp-queue belongs to who asks; /reply-queue is where the answer goes."""
    other = StompPeer.open(harness)
    other.ask("SUBSCRIBE", destination="/queue/service", id=0)
    peer.ask("SEND", b"2+2", destination="/queue/service", reply_to="/temp-queue/mine", correlation_id="c")
    (question,) = other.heard()
    assert question["reply-to"].startswith("/reply-queue/stomp-temp-")
    other.ask("SEND", b"4", destination=question["reply-to"], correlation_id=question["correlation-id"])
    (answer,) = peer.heard()
    assert (answer["subscription"], answer["correlation-id"], answer.body) == ("/temp-queue/mine", "c", b"4")
    peer.ask("SEND", b"3+3", destination="/queue/service", reply_to="/temp-queue/mine")
    (again,) = other.heard()
    assert again["reply-to"] == question["reply-to"]
    peer.ask("DISCONNECT")
    peer.vanish()
    assert question["reply-to"].removeprefix("/reply-queue/") not in harness.vhost.queues


def test_another_temporary_queue_is_made_when_the_first_is_left(harness: Harness, peer: StompPeer) -> None:
    for _ in range(2):
        peer.ask("SEND", b"?", destination="/queue/service", reply_to="/temp-queue/mine")
        assert [name for name in harness.vhost.queues if name.startswith("stomp-temp-")]
        (receipt,) = peer.ask("UNSUBSCRIBE", id="/temp-queue/mine", receipt="u")
        assert receipt.command == "RECEIPT"
        assert not [name for name in harness.vhost.queues if name.startswith("stomp-temp-")]


def test_a_queue_that_was_deleted_is_made_again(harness: Harness, peer: StompPeer) -> None:
    send = made("SEND", {"destination": "/queue/q"}, b"m")
    peer.feed(send + send)
    harness.vhost.delete_queue("q")
    harness.turn()
    peer.feed(send + send)
    assert harness.queue("q").ready == 2


def test_arguments_of_the_first_send_are_enough(harness: Harness, peer: StompPeer) -> None:
    first = made("SEND", {"destination": "/queue/q", "x-max-length": 5}, b"m")
    peer.feed(first + made("SEND", {"destination": "/queue/q"}, b"m"))
    peer.feed(made("SEND", {"destination": "/queue/q"}, b"m"))
    assert peer.heard() == []
    assert harness.queue("q").ready == 3


@pytest.mark.feature("S4-72")
def test_a_write_needs_the_permission_for_it(harness: Harness) -> None:
    """The rules are those of AMQP, for the queue that is made and the exchange that is written to."""
    harness.user("reader")
    harness.broker.permissions.set("reader", "/", "", "", ".*")
    harness.client().declare("q", durable=True)
    for destination in ("/queue/q", "/amq/queue/q", "/topic/t"):
        (answer,) = StompPeer.open(harness, login="reader").ask("SEND", b"m", destination=destination)
        assert (answer.command, answer["message"]) == ("ERROR", "access_refused")
    assert harness.queue("q").ready == 0


def test_a_body_as_large_as_allowed_is_taken_whole(harness: Harness) -> None:
    peer = StompPeer.open(harness)
    body = bytes(range(256)) * 2_000
    (receipt,) = peer.ask("SEND", body, destination="/queue/q", content_length=len(body), receipt="1")
    assert receipt.command == "RECEIPT"
    (message, *_) = peer.ask("SUBSCRIBE", destination="/queue/q", id=0)
    assert message.body == body
    assert harness.broker.gauge.used == sum(queue.accounted for queue in harness.vhost.queues.values())


LONG = "n" * 256


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"destination": f"/queue/{LONG}"}, "Invalid destination"),
        ({"destination": LONG}, "Invalid destination"),
        ({"destination": f"/amq/queue/{LONG}"}, "Invalid destination"),
        ({"destination": f"/reply-queue/{LONG}"}, "Invalid destination"),
        ({"destination": f"/topic/{LONG}"}, "Invalid destination"),
        ({"destination": f"/exchange/{LONG}/k"}, "Invalid destination"),
        ({"destination": f"/exchange/amq.topic/{LONG}"}, "Invalid destination"),
        ({"destination": "/queue/q", LONG: "v"}, "Invalid header"),
        ({"destination": "/queue/q", "reply-to": "/temp-queue/" + "n" * 243}, "Invalid header"),
    ],
)
def test_names_that_amqp_has_no_room_for_are_refused(
    harness: Harness, headers: dict[str, object], message: str
) -> None:
    peer = StompPeer.open(harness)
    peer.feed(made("SEND", headers, b"m"))
    (answer,) = peer.heard()
    assert (answer.command, answer["message"]) == ("ERROR", message)
    assert b"255 bytes" in answer.body


def test_names_as_long_as_amqp_has_room_for_are_taken(harness: Harness, peer: StompPeer) -> None:
    name = "n" * 255
    for destination in (f"/queue/{name}", "/queue/" + "%2F" * 255, f"/exchange/amq.topic/{name}"):
        (answer,) = peer.ask("SEND", b"m", destination=destination, receipt="1", **{name: "v"})
        assert answer.command == "RECEIPT"
    assert harness.queue("/" * 255).ready == 1
