"""The life of a STOMP peer: receipts, the end by DISCONNECT or by an error, alarms."""

from __future__ import annotations

import pytest

from tests.support.peer_pair import Harness
from tests.support.receipt_log import ReceiptLog
from tests.support.stomp_client import made
from tests.support.stomp_harness import StompPeer


@pytest.fixture
def peer(harness: Harness) -> StompPeer:
    return StompPeer.open(harness)


def receipts(peer: StompPeer) -> list[str]:
    return [frame["receipt-id"] for frame in peer.heard() if frame.command == "RECEIPT"]


def durable(harness: Harness) -> tuple[StompPeer, ReceiptLog]:
    """A peer with a queue that is on disk, and the log that says when."""
    log = harness.broker.log
    assert isinstance(log, ReceiptLog)
    peer = StompPeer.open(harness)
    peer.ask("SEND", b"0", destination="/queue/q")
    log.grant()
    peer.heard()
    return peer, log


@pytest.mark.feature("S4-74")
def test_a_receipt_waits_for_the_disk() -> None:
    """Of a persistent message; a transient one has nothing to wait for."""
    peer, log = durable(Harness(log=ReceiptLog()))
    assert peer.ask("SEND", b"1", destination="/queue/q", persistent="true", receipt="1") == []
    assert peer.ask("SEND", b"2", destination="/queue/q", persistent="true") == []
    assert peer.ask("SEND", b"3", destination="/queue/q", persistent="true", receipt="3") == []
    log.grant(log.issued - 1)
    peer.harness.rest()
    assert receipts(peer) == ["1"]
    log.grant()
    peer.harness.rest()
    assert receipts(peer) == ["3"]


def test_the_receipt_of_a_commit_waits_for_the_disk() -> None:
    peer, log = durable(Harness(log=ReceiptLog()))
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true", transaction="t")
    assert peer.ask("COMMIT", transaction="t", receipt="c") == []
    log.grant()
    peer.harness.rest()
    assert receipts(peer) == ["c"]


def test_disconnect_is_answered_when_all_is_safe() -> None:
    peer, log = durable(Harness(log=ReceiptLog()))
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true", receipt="1")
    assert peer.ask("DISCONNECT", receipt="bye") == []
    assert not peer.socket.closed
    log.grant()
    peer.harness.rest()
    assert receipts(peer) == ["1", "bye"]
    assert peer.socket.closed


def test_a_disk_that_fails_is_an_error() -> None:
    peer, log = durable(Harness(log=ReceiptLog()))
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true", receipt="1")
    log.lose()
    peer.harness.turn()
    (error,) = peer.heard()
    assert (error.command, error["receipt-id"]) == ("ERROR", "1")


def test_receipts_of_pipelined_sends_come_in_order(peer: StompPeer) -> None:
    sends = [made("SEND", {"destination": f"/queue/{n % 3}", "receipt": n}, b"m") for n in range(50)]
    peer.feed(b"".join(sends))
    assert receipts(peer) == [str(n) for n in range(50)]


def test_what_follows_disconnect_is_not_heard(harness: Harness, peer: StompPeer) -> None:
    peer.feed(made("DISCONNECT", {"receipt": "bye"}) + made("SEND", {"destination": "/queue/late"}, b"m"))
    assert receipts(peer) == ["bye"]
    assert "late" not in harness.vhost.queues
    assert peer.socket.closed


@pytest.mark.feature("S4-81")
def test_an_error_ends_only_its_own_peer(harness: Harness, peer: StompPeer) -> None:
    """Others are not harmed, and what was right before the error is done."""
    other = StompPeer.open(harness)
    other.ask("SUBSCRIBE", destination="/queue/q", id="a")
    peer.feed(made("SEND", {"destination": "/queue/q"}, b"before") + b"NONSENSE\n\n\0" + made("SEND", {}, b"after"))
    (error,) = peer.heard()
    assert (error.command, error["message"], error["content-type"]) == ("ERROR", "Bad command", "text/plain")
    assert peer.socket.closed
    assert other.bodies() == [b"before"]


def test_a_shutdown_is_told(harness: Harness, peer: StompPeer) -> None:
    peer.connection.force_close("broker forced connection closure with reason 'shutdown'")
    harness.turn()
    (error,) = peer.heard()
    assert (error["message"], peer.socket.closed) == ("connection_forced", True)
    assert b"'shutdown'" in error.body


def test_publishers_wait_at_an_alarm_and_consumers_do_not(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SEND", b"1", destination="/queue/q")
    harness.broker.set_alarm("memory", "memory high watermark exceeded")
    assert peer.ask("SEND", b"2", destination="/queue/q", receipt="2") == []
    consumer = StompPeer.open(harness)
    (message,) = consumer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    consumer.ask("ACK", id=message["ack"])
    assert (message.body, harness.queue("q").unacked) == (b"1", 0)
    harness.broker.set_alarm("memory", None)
    harness.turn()
    assert receipts(peer) == ["2"]
    assert consumer.bodies() == [b"2"]


def test_a_transaction_does_not_grow_at_an_alarm(harness: Harness, peer: StompPeer) -> None:
    harness.broker.set_alarm("memory", "memory high watermark exceeded")
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/q", transaction="t")
    assert not peer.socket.reading


def test_a_partial_frame_counts_as_memory(harness: Harness, peer: StompPeer) -> None:
    before = harness.broker.memory_users.unfinished.bytes
    peer.feed(b"SEND\ndestination:/queue/q\ncontent-length:5000\n\n" + bytes(4_000))
    assert harness.broker.memory_users.unfinished.bytes == before + 4_000
    peer.vanish()
    assert harness.broker.memory_users.unfinished.bytes == before


def test_a_bug_ends_the_peer_and_nobody_else(
    harness: Harness, peer: StompPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("leveret.stomp.channel.headers_of_message", lambda properties: 1 // 0)
    other = StompPeer.open(harness)
    other.ask("SUBSCRIBE", destination="/queue/other", id="a")
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a")
    (error,) = peer.ask("SEND", b"m", destination="/queue/q")
    assert (error.command, error["message"]) == ("ERROR", "internal_error")
    assert "internal error while delivering a message" in caplog.text
    assert not other.socket.closed


def test_an_error_is_told_once_however_soon_it_comes(harness: Harness) -> None:
    """What follows CONNECT is looked at when the login is decided; a frame may come before that look."""
    peer = StompPeer.open(harness)
    peer.connection.receive(b"HELLO\n\n\0")
    peer.connection.go_on()  # as the end of a halt calls it, if the socket was read first
    harness.rest()
    assert [frame["message"] for frame in peer.heard()] == ["Bad command"]


def test_nothing_behind_disconnect_is_done(harness: Harness, peer: StompPeer) -> None:
    peer.feed(made("DISCONNECT", {"receipt": "bye"}) + made("SEND", {"destination": "/queue/late"}, b"m"))
    assert receipts(peer) == ["bye"]
    assert "late" not in harness.vhost.queues


@pytest.mark.parametrize("settles", ["at once", "with a transaction"])
def test_what_follows_a_send_that_fails_is_not_done(harness: Harness, peer: StompPeer, settles: str) -> None:
    """Who forwards a message and acks its input in one write must not lose it if nobody took the copy."""
    peer.ask("SUBSCRIBE", destination="/queue/in", id="a", ack="client-individual")
    (message,) = peer.ask("SEND", b"m", destination="/queue/in")
    ack = made("ACK", {"id": message["ack"]})
    if settles != "at once":
        peer.ask("BEGIN", transaction="t")
        peer.ask("ACK", id=message["ack"], transaction="t")
        ack = made("COMMIT", {"transaction": "t", "receipt": "c"})
    peer.feed(made("SEND", {"destination": "/exchange/absent/k"}, b"copy") + ack)
    (error,) = peer.heard()
    assert (error.command, error["message"], peer.socket.closed) == ("ERROR", "not_found", True)
    assert (harness.queue("in").ready, harness.queue("in").unacked) == (1, 0)


def test_who_asks_and_does_not_read_is_not_heard_until_it_has(harness: Harness, peer: StompPeer) -> None:
    """BEGIN and ABORT are answered here, so the connection inside knows nothing of these answers."""
    peer.socket.unread = 128 << 20
    peer.connection.outbox.count_unread()  # as after a write
    peer.connection.outbox.set_writable(False)
    peer.ask("BEGIN", transaction="t", receipt="1")
    assert not peer.socket.reading
    peer.socket.unread = 0
    peer.connection.outbox.set_writable(True)
    assert peer.socket.reading
    assert [frame.command for frame in peer.ask("ABORT", transaction="t", receipt="2")] == ["RECEIPT"]


def test_disconnect_waits_for_messages_that_asked_for_no_receipt() -> None:
    peer, log = durable(Harness(log=ReceiptLog()))
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true")
    assert peer.ask("DISCONNECT", receipt="bye") == []
    log.grant()
    peer.harness.rest()
    assert receipts(peer) == ["bye"]


def test_disconnect_is_refused_if_what_it_waits_for_is_not_kept() -> None:
    peer, log = durable(Harness(log=ReceiptLog()))
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true")
    peer.ask("DISCONNECT", receipt="bye")
    log.lose()
    peer.harness.turn()
    (error,) = peer.heard()
    assert (error.command, error["message"], error["receipt-id"]) == ("ERROR", "Message refused", "bye")


def test_a_large_body_waits_at_an_alarm_though_it_is_the_first(harness: Harness, peer: StompPeer) -> None:
    """What has come of it is memory already, long before the connection has published anything."""
    harness.broker.set_alarm("memory", "memory high watermark exceeded")
    peer.feed(b"SEND\ndestination:/queue/q\ncontent-length:200000\n\n" + bytes(60_000))
    assert peer.socket.reading
    peer.feed(bytes(10_000))
    assert not peer.socket.reading
    harness.broker.set_alarm("memory", None)
    assert peer.socket.reading


def test_unacked_messages_of_a_client_that_does_not_read_are_requeued_when_it_is_closed(
    harness: Harness, peer: StompPeer
) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    peer.ask("SEND", b"m", destination="/queue/q")
    peer.socket.unread = 128 << 20
    peer.connection.outbox.count_unread()  # as after a write
    peer.connection.outbox.set_writable(False)
    peer.ask("BEGIN", transaction="t")
    assert not peer.socket.reading
    peer.connection.force_close("closed by an operator")
    harness.rest()
    assert (harness.queue("q").ready, peer.socket.closed) == (1, True)


def test_what_a_websocket_gathers_counts_as_memory_and_waits_at_an_alarm(harness: Harness, peer: StompPeer) -> None:
    """It hands a frame on when it is whole."""
    before = harness.broker.memory_users.unfinished.bytes
    harness.broker.set_alarm("memory", "memory high watermark exceeded")
    peer.connection.gather(50_000)
    assert (harness.broker.memory_users.unfinished.bytes, peer.socket.reading) == (before + 50_000, True)
    peer.connection.gather(100_000)
    assert (harness.broker.memory_users.unfinished.bytes, peer.socket.reading) == (before + 100_000, False)
    peer.connection.gather(0)
    assert harness.broker.memory_users.unfinished.bytes == before
