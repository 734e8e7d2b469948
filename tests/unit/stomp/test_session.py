"""The life of a STOMP peer: receipts, the end by DISCONNECT or by an error, alarms."""

from __future__ import annotations

import pytest

from tests.support.peer_pair import House
from tests.support.receipt_log import ReceiptLog
from tests.support.stomp_client import made
from tests.support.stomp_house import StompPeer


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> StompPeer:
    return StompPeer.open(house)


def receipts(peer: StompPeer) -> list[str]:
    return [frame["receipt-id"] for frame in peer.heard() if frame.command == "RECEIPT"]


def durable(house: House) -> tuple[StompPeer, ReceiptLog]:
    """A peer with a queue that is on disk, and the log that says when."""
    log = house.broker.log
    assert isinstance(log, ReceiptLog)
    peer = StompPeer.open(house)
    peer.ask("SEND", b"0", destination="/queue/q")
    log.grant()
    peer.heard()
    return peer, log


def test_a_receipt_waits_for_the_disk() -> None:
    """S4-74: of a persistent message; a transient one has nothing to wait for."""
    peer, log = durable(House(log=ReceiptLog()))
    assert peer.ask("SEND", b"1", destination="/queue/q", persistent="true", receipt="1") == []
    assert peer.ask("SEND", b"2", destination="/queue/q", persistent="true") == []
    assert peer.ask("SEND", b"3", destination="/queue/q", persistent="true", receipt="3") == []
    log.grant(log.issued - 1)
    peer.house.rest()
    assert receipts(peer) == ["1"]
    log.grant()
    peer.house.rest()
    assert receipts(peer) == ["3"]


def test_the_receipt_of_a_commit_waits_for_the_disk() -> None:
    peer, log = durable(House(log=ReceiptLog()))
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true", transaction="t")
    assert peer.ask("COMMIT", transaction="t", receipt="c") == []
    log.grant()
    peer.house.rest()
    assert receipts(peer) == ["c"]


def test_disconnect_is_answered_when_all_is_safe() -> None:
    peer, log = durable(House(log=ReceiptLog()))
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true", receipt="1")
    assert peer.ask("DISCONNECT", receipt="bye") == []
    assert not peer.socket.closed
    log.grant()
    peer.house.rest()
    assert receipts(peer) == ["1", "bye"]
    assert peer.socket.closed


def test_a_disk_that_fails_is_an_error() -> None:
    peer, log = durable(House(log=ReceiptLog()))
    peer.ask("SEND", b"1", destination="/queue/q", persistent="true", receipt="1")
    log.lose()
    peer.house.turn()
    (error,) = peer.heard()
    assert (error.command, error["receipt-id"]) == ("ERROR", "1")


def test_receipts_of_pipelined_sends_come_in_order(peer: StompPeer) -> None:
    sends = [made("SEND", {"destination": f"/queue/{n % 3}", "receipt": n}, b"m") for n in range(50)]
    peer.feed(b"".join(sends))
    assert receipts(peer) == [str(n) for n in range(50)]


def test_what_follows_disconnect_is_not_heard(house: House, peer: StompPeer) -> None:
    peer.feed(made("DISCONNECT", {"receipt": "bye"}) + made("SEND", {"destination": "/queue/late"}, b"m"))
    assert receipts(peer) == ["bye"]
    assert "late" not in house.vhost.queues
    assert peer.socket.closed


def test_an_error_ends_only_its_own_peer(house: House, peer: StompPeer) -> None:
    """S4-81: others are not harmed, and what was right before the error is done."""
    other = StompPeer.open(house)
    other.ask("SUBSCRIBE", destination="/queue/q", id="a")
    peer.feed(made("SEND", {"destination": "/queue/q"}, b"before") + b"NONSENSE\n\n\0" + made("SEND", {}, b"after"))
    (error,) = peer.heard()
    assert (error.command, error["message"], error["content-type"]) == ("ERROR", "Bad command", "text/plain")
    assert peer.socket.closed
    assert other.bodies() == [b"before"]


def test_a_shutdown_is_told(house: House, peer: StompPeer) -> None:
    peer.connection.force_close("broker forced connection closure with reason 'shutdown'")
    house.turn()
    (error,) = peer.heard()
    assert (error["message"], peer.socket.closed) == ("connection_forced", True)
    assert b"'shutdown'" in error.body


def test_publishers_wait_at_an_alarm_and_consumers_do_not(house: House, peer: StompPeer) -> None:
    peer.ask("SEND", b"1", destination="/queue/q")
    house.broker.set_alarm("memory", "memory mark passed")
    assert peer.ask("SEND", b"2", destination="/queue/q", receipt="2") == []
    consumer = StompPeer.open(house)
    (message,) = consumer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    consumer.ask("ACK", id=message["ack"])
    assert (message.body, house.queue("q").unacked) == (b"1", 0)
    house.broker.set_alarm("memory", None)
    house.turn()
    assert receipts(peer) == ["2"]
    assert consumer.bodies() == [b"2"]


def test_a_transaction_does_not_grow_at_an_alarm(house: House, peer: StompPeer) -> None:
    house.broker.set_alarm("memory", "memory mark passed")
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/q", transaction="t")
    assert not peer.socket.reading


def test_a_partial_frame_counts_as_memory(house: House, peer: StompPeer) -> None:
    before = house.broker.gauge.used
    peer.feed(b"SEND\ndestination:/queue/q\ncontent-length:5000\n\n" + bytes(4_000))
    assert house.broker.gauge.used == before + 4_000
    peer.vanish()
    assert house.broker.gauge.used == before


def test_a_bug_ends_the_peer_and_nobody_else(
    house: House, peer: StompPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("leveret.stomp.session.headers_of_message", lambda properties: 1 // 0)
    other = StompPeer.open(house)
    other.ask("SUBSCRIBE", destination="/queue/other", id="a")
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a")
    (error,) = peer.ask("SEND", b"m", destination="/queue/q")
    assert (error.command, error["message"]) == ("ERROR", "internal_error")
    assert "bug while answering" in caplog.text
    assert not other.socket.closed


def test_an_error_is_told_once_however_soon_it_comes(house: House) -> None:
    """What follows CONNECT is looked at when the login is decided; a frame may come before that look."""
    peer = StompPeer.open(house)
    peer.session.receive(b"HELLO\n\n\0")
    peer.session._go_on()  # as the loop calls it behind CONNECTED, if it has read the socket first
    assert [frame["message"] for frame in peer.heard()] == ["Bad command"]


def test_nothing_behind_disconnect_is_done(house: House, peer: StompPeer) -> None:
    peer.feed(made("DISCONNECT", {"receipt": "bye"}) + made("SEND", {"destination": "/queue/late"}, b"m"))
    assert receipts(peer) == ["bye"]
    assert "late" not in house.vhost.queues
