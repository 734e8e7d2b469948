"""STOMP as calls of a channel: interceptors, pools, delivery counts, limits, and the order of replies."""

from __future__ import annotations

import pytest

from leveret.broker.interceptors import InterceptContext
from leveret.errors import PreconditionFailed
from leveret.session.pending_publishes import MOST_UNRECEIVED
from leveret.stomp.channel import StompChannel
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicNack,
    BasicPublish,
    BasicQos,
    Method,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
)
from tests.support.peer_pair import Harness
from tests.support.remote_queues import make_remote
from tests.support.shards import Shards
from tests.support.stomp_client import made
from tests.support.stomp_harness import StompPeer


@pytest.fixture
def peer(harness: Harness) -> StompPeer:
    return StompPeer.open(harness)


def commands(peer: StompPeer) -> list[str]:
    return [frame.command for frame in peer.heard()]


@pytest.mark.parametrize(
    "method",
    [QueueDeclare, QueueBind, BasicQos, BasicConsume, BasicCancel, BasicPublish, BasicAck, BasicNack, TxCommit],
)
def test_interceptors_can_refuse_every_request(harness: Harness, peer: StompPeer, method: type[Method]) -> None:
    def refuse(context: InterceptContext, method: Method) -> Method:
        assert (context.user, context.connection) == ("guest", "stomp")
        raise PreconditionFailed("not with me")

    peer.ask("SUBSCRIBE", destination="/queue/q", id="1", ack="client-individual")
    first, second = [peer.ask("SEND", b"m", destination="/queue/q")[0]["ack"] for _ in range(2)]
    harness.broker.interceptors.register(method, refuse)
    frames = [
        made("BEGIN", {"transaction": "t"}),
        made("COMMIT", {"transaction": "t"}) if method is TxCommit else b"",
        made("ACK", {"id": first}) if method is BasicAck else b"",
        made("NACK", {"id": second}) if method is BasicNack else b"",
        made("SEND", {"destination": "/queue/q"}, b"m") if method is BasicPublish else b"",
        made("UNSUBSCRIBE", {"id": "1"}) if method is BasicCancel else b"",
        made("SUBSCRIBE", {"id": "2", "destination": "/topic/t"}),
    ]
    peer.feed(b"".join(frames))
    (error,) = peer.heard()
    assert (error["message"], error.body) == ("precondition_failed", b"PRECONDITION_FAILED - not with me\n")


def test_an_interceptor_can_send_messages_elsewhere(harness: Harness, peer: StompPeer) -> None:
    def redirect(context: InterceptContext, method: Method) -> Method:
        assert isinstance(method, BasicPublish)
        method.routing_key = "other"
        return method

    harness.client().declare("other")
    harness.broker.interceptors.register(BasicPublish, redirect)
    peer.ask("SEND", b"m", destination="/queue/q")
    assert (harness.queue("q").ready, harness.queue("other").ready) == (0, 1)


@pytest.mark.parametrize(("headers", "number"), [({}, 1), ({"x-shard-all": "true"}, 3)])
def test_a_subscription_to_a_sharded_exchange_consumes_from_its_shards(
    harness: Harness, headers: dict[str, object], number: int
) -> None:
    """From one of three, or from all of them; the prefetch is that of the subscription."""
    shards = Shards(harness)
    shards.policy(3)
    peer = StompPeer.open(harness)
    headers |= {"prefetch-count": 5, "ack": "client-individual", "receipt": "r"}
    (receipt,) = peer.ask("SUBSCRIBE", destination="/queue/images", id="1", **headers)
    assert (receipt.command, sum(shards.consumers())) == ("RECEIPT", number)
    client = harness.client()
    client.feed(b"".join(client.published("images", f"key-{number}", b"m") for number in range(60)))
    messages = peer.heard()
    assert len(messages) == 5
    assert len({message["message-id"] for message in messages}) == 5
    assert len(peer.ask("ACK", id=messages[0]["ack"])) == 1
    peer.ask("UNSUBSCRIBE", id="1")
    assert (sum(shards.consumers()), "images" in harness.vhost.queues) == (0, False)


def test_redelivered_messages_of_a_queue_that_counts_have_the_number_of_deliveries(peer: StompPeer) -> None:
    peer.ask(
        "SUBSCRIBE",
        destination="/queue/q",
        id="1",
        ack="client-individual",
        **{"x-queue-type": "quorum", "durable": "true"},
    )
    (first,) = peer.ask("SEND", b"m", destination="/queue/q")
    assert "x-delivery-count" not in first.headers
    (second,) = peer.ask("NACK", id=first["ack"])
    assert (second["redelivered"], second["x-delivery-count"]) == ("true", "1")


def test_a_login_that_exceeds_the_channels_of_its_user_is_refused_and_holds_none(harness: Harness) -> None:
    harness.user("few", max_channels=1)
    (error,) = StompPeer(harness).connect(login="few")
    assert error["message"] == "Bad CONNECT"
    assert b"number of channels opened for user 'few'" in error.body
    registry = harness.broker.registry
    assert (registry.channels_opened - registry.channels_closed, registry.opened - registry.closed) == (0, 0)


def test_an_error_of_the_broker_names_the_receipt_of_its_frame(peer: StompPeer) -> None:
    (error,) = peer.ask("SEND", b"m", destination="/exchange/absent/k", receipt="7")
    assert (error["message"], error["receipt-id"]) == ("not_found", "7")


def test_a_malformed_frame_does_not_name_the_receipt_of_the_frame_before(peer: StompPeer) -> None:
    peer.feed(made("BEGIN", {"transaction": "t", "receipt": "1"}) + b"NONSENSE\n\n\0")
    receipt, error = peer.heard()
    assert (receipt["receipt-id"], error.command, "receipt-id" in error.headers) == ("1", "ERROR", False)


def test_messages_that_arrived_before_a_disconnect_are_delivered(harness: Harness, peer: StompPeer) -> None:
    """Also if the connection is closed before the next tick, which delivers."""
    said = [
        made("SUBSCRIBE", {"destination": "/queue/q", "id": "1"}),
        made("SEND", {"destination": "/queue/q"}, b"m"),
        made("DISCONNECT", {"receipt": "bye"}),
    ]
    peer.connection.receive(b"".join(said))
    while peer.socket.calls:
        peer.socket.calls.pop(0)()
    assert commands(peer) == ["MESSAGE", "RECEIPT"]
    assert (harness.queue("q").ready, peer.socket.closed) == (0, True)


def test_frames_behind_a_blocked_send_wait_for_it(harness: Harness, peer: StompPeer) -> None:
    harness.broker.set_alarm("memory", "memory high watermark exceeded")
    send = made("SEND", {"destination": "/queue/q", "receipt": "1"}, b"m" * 1_000)
    before = harness.broker.memory_users.unfinished.bytes
    peer.feed(send + made("SUBSCRIBE", {"destination": "/queue/q", "id": "1", "receipt": "2"}))
    assert (commands(peer), "q" in harness.vhost.queues) == ([], False)
    assert harness.broker.memory_users.unfinished.bytes > before + 1_000
    harness.broker.set_alarm("memory", None)
    harness.turn()
    assert commands(peer) == ["RECEIPT", "RECEIPT", "MESSAGE"]
    assert harness.broker.memory_users.unfinished.bytes == before


def test_the_receipt_of_a_commit_that_is_answered_later_is_its_own(
    peer: StompPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests may be answered first; DISCONNECT waits for all of them."""
    waiting: list[StompChannel] = []
    handlers = {**StompChannel.handlers, TxCommit.id: lambda channel, method: waiting.append(channel)}
    monkeypatch.setattr(StompChannel, "handlers", handlers)
    peer.ask("BEGIN", transaction="t")
    assert peer.ask("COMMIT", transaction="t", receipt="c") == []
    (receipt,) = peer.ask("SUBSCRIBE", destination="/queue/q", id="1", receipt="s")
    assert receipt["receipt-id"] == "s"
    assert peer.ask("DISCONNECT", receipt="bye") == []
    waiting[0].answer(TxCommitOk(), peer.harness.broker.log.issued)
    peer.harness.turn()
    assert [frame["receipt-id"] for frame in peer.heard()] == ["c", "bye"]


def test_receipts_wait_for_queues_that_answer_later(harness: Harness, peer: StompPeer) -> None:
    """And a client is not read while too many of its messages have not been received by them."""
    peer.ask("SEND", b"0", destination="/queue/far")
    log = make_remote(harness.vhost, "far")
    send = made("SEND", {"destination": "/queue/far"}, b"m")
    peer.feed(send * (MOST_UNRECEIVED - 1) + made("SEND", {"destination": "/queue/far", "receipt": "last"}, b"m"))
    assert (commands(peer), peer.socket.reading) == ([], False)
    log.let_in()
    harness.turn()
    assert (commands(peer), peer.socket.reading) == (["RECEIPT"], True)
