"""BEGIN, COMMIT and ABORT: all of it or nothing, sends and acks together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leveret.session.limits import Limits
from tests.support.peer_pair import Harness
from tests.support.stomp_harness import StompPeer


@pytest.fixture
def peer(harness: Harness) -> StompPeer:
    return StompPeer.open(harness)


def held(harness: Harness, queue: str) -> tuple[int, int]:
    return harness.queue(queue).ready, harness.queue(queue).unacked


@pytest.mark.feature("S3-16")
def test_what_is_sent_comes_with_the_commit(harness: Harness, peer: StompPeer) -> None:
    """Per transaction, of which several may be open."""
    for name in ("t", "u"):
        (begun,) = peer.ask("BEGIN", transaction=name, receipt=name)
        assert begun["receipt-id"] == name
    (taken,) = peer.ask("SEND", b"1", destination="/queue/q", transaction="t", receipt="s")
    assert taken["receipt-id"] == "s"
    peer.ask("SEND", b"2", destination="/queue/q", transaction="u")
    peer.ask("SEND", b"3", destination="/queue/q", transaction="t")
    assert held(harness, "q") == (0, 0)
    (committed,) = peer.ask("COMMIT", transaction="t", receipt="c")
    assert (committed.command, committed["receipt-id"]) == ("RECEIPT", "c")
    assert held(harness, "q") == (2, 0)
    peer.ask("ABORT", transaction="u")
    peer.vanish()
    assert held(harness, "q") == (2, 0)
    assert harness.broker.gauge.used == sum(queue.accounted for queue in harness.vhost.queues.values())


def test_acks_count_with_the_commit(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    messages = [peer.ask("SEND", b"m", destination="/queue/q")[0] for _ in range(3)]
    peer.ask("BEGIN", transaction="t")
    (taken,) = peer.ask("ACK", id=messages[1]["ack"], transaction="t", receipt="a")
    assert taken.command == "RECEIPT"
    peer.ask("SEND", b"done", destination="/queue/out", transaction="t")
    assert held(harness, "q") == (0, 3)
    peer.ask("COMMIT", transaction="t")
    assert (held(harness, "q"), held(harness, "out")) == ((0, 1), (1, 0))
    (receipt,) = peer.ask("ACK", id=messages[2]["ack"], receipt="r")  # transport: counts at once
    assert receipt.command == "RECEIPT"
    assert held(harness, "q") == (0, 0)


def test_an_abort_leaves_what_was_acked_to_be_acked(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    messages = [peer.ask("SEND", b"m", destination="/queue/q")[0] for _ in range(3)]
    peer.ask("BEGIN", transaction="t")
    peer.ask("ACK", id=messages[0]["ack"], transaction="t")
    peer.ask("ABORT", transaction="t")
    assert held(harness, "q") == (0, 3)
    peer.ask("ACK", id=messages[1]["ack"])
    assert held(harness, "q") == (0, 1)


def test_a_nack_in_a_transaction_gives_back_at_its_commit(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client-individual")
    (message,) = peer.ask("SEND", b"m", destination="/queue/q")
    peer.ask("BEGIN", transaction="t")
    assert peer.ask("NACK", id=message["ack"], transaction="t") == []
    (again,) = peer.ask("COMMIT", transaction="t")
    assert again["redelivered"] == "true"


def test_a_transaction_that_fails_does_nothing(harness: Harness, peer: StompPeer) -> None:
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/q", transaction="t")
    peer.ask("SEND", b"2", destination="/exchange/absent/k", transaction="t")
    (error,) = peer.ask("COMMIT", transaction="t", receipt="c")
    assert (error.command, error["message"]) == ("ERROR", "not_found")
    assert held(harness, "q") == (0, 0)


def test_who_leaves_before_the_commit_has_done_nothing(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack="client")
    (message,) = peer.ask("SEND", b"m", destination="/queue/q")
    peer.ask("BEGIN", transaction="t")
    peer.ask("ACK", id=message["ack"], transaction="t")
    peer.ask("SEND", b"2", destination="/queue/q", transaction="t")
    peer.vanish()
    assert held(harness, "q") == (1, 0)


@pytest.mark.parametrize(
    ("command", "headers", "message"),
    [
        ("BEGIN", {"transaction": "open"}, "Transaction already exists"),
        ("BEGIN", {}, "Missing transaction"),
        ("COMMIT", {"transaction": "none"}, "Bad transaction"),
        ("COMMIT", {}, "Missing transaction"),
        ("ABORT", {"transaction": "none"}, "Bad transaction"),
        ("SEND", {"transaction": "none", "destination": "/queue/q"}, "Bad transaction"),
        ("ACK", {"transaction": "none", "id": "x"}, "Bad transaction"),
    ],
)
def test_a_transaction_that_is_not_there_is_an_error(
    peer: StompPeer, command: str, headers: dict[str, object], message: str
) -> None:
    peer.ask("BEGIN", transaction="open")
    (error,) = peer.ask(command, **headers)
    assert (error.command, error["message"]) == ("ERROR", message)


def test_transactions_hold_only_so_much() -> None:
    harness = Harness(limits=Limits(max_partial_bytes=1_000))
    peer = StompPeer.open(harness)
    peer.ask("BEGIN", transaction="t")
    before = harness.broker.memory_users.unfinished.bytes
    assert peer.ask("SEND", b"x" * 600, destination="/queue/q", transaction="t") == []
    assert harness.broker.memory_users.unfinished.bytes - before > 600
    (error,) = peer.ask("SEND", b"x" * 600, destination="/queue/q", transaction="t")
    assert error["message"] == "Transaction too large"
    peer.vanish()
    assert harness.broker.gauge.used == sum(queue.accounted for queue in harness.vhost.queues.values())


def test_a_name_is_no_longer_than_others_may_be(peer: StompPeer) -> None:
    peer.ask("BEGIN", transaction="t" * 255)
    (error,) = peer.ask("BEGIN", transaction="t" * 256)
    assert (error.command, error["message"]) == ("ERROR", "Invalid header")


def test_a_commit_that_a_full_queue_has_no_room_for_does_nothing(harness: Harness, peer: StompPeer) -> None:
    full = {"x-max-length": "1", "x-overflow": "reject-publish"}
    peer.ask("SUBSCRIBE", destination="/queue/in", id="a", ack="client")
    (message,) = peer.ask("SEND", b"m", destination="/queue/in")
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/out", transaction="t", **full)
    peer.ask("SEND", b"2", destination="/queue/out", transaction="t")
    peer.ask("ACK", id=message["ack"], transaction="t")
    (error,) = peer.ask("COMMIT", transaction="t", receipt="c")
    assert (error.command, error["message"]) == ("ERROR", "precondition_failed")
    assert b"'out'" in error.body
    assert (held(harness, "out"), held(harness, "in")) == ((0, 0), (1, 0))


def test_a_queue_that_was_deleted_before_the_commit_is_made_again(harness: Harness, peer: StompPeer) -> None:
    peer.ask("SEND", b"0", destination="/queue/known")
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/new", transaction="t", **{"x-max-length": "5"})
    peer.ask("SEND", b"2", destination="/queue/new", transaction="t")
    peer.ask("SEND", b"3", destination="/queue/known", transaction="t")
    for name in ("new", "known"):
        harness.vhost.delete_queue(name)
    harness.turn()
    (receipt,) = peer.ask("COMMIT", transaction="t", receipt="c")
    assert receipt.command == "RECEIPT"
    assert (held(harness, "new"), held(harness, "known")) == ((2, 0), (1, 0))
    assert harness.queue("new").arguments == {"x-max-length": 5}
    assert harness.broker.gauge.used == sum(queue.accounted for queue in harness.vhost.queues.values())


def test_a_queue_that_somebody_else_has_made_meanwhile_is_taken_as_it_is(harness: Harness, peer: StompPeer) -> None:
    peer.ask("BEGIN", transaction="t")
    peer.ask("SEND", b"1", destination="/queue/q", transaction="t")
    harness.vhost.delete_queue("q")
    harness.client().declare("q", durable=False)
    (receipt,) = peer.ask("COMMIT", transaction="t", receipt="c")
    assert receipt.command == "RECEIPT"
    assert held(harness, "q") == (1, 0)


@pytest.mark.parametrize(("mode", "most"), [("client", 1), ("client-individual", 0)])
def test_an_abort_puts_everything_back_at_once(
    harness: Harness, peer: StompPeer, monkeypatch: pytest.MonkeyPatch, mode: str, most: int
) -> None:
    """Not claim by claim: thousands of acks in one transaction would stop the loop for minutes."""
    sorts: list[int] = []

    def counted(tags: Iterable[int]) -> list[int]:
        sorts.append(1)
        return sorted(tags)

    monkeypatch.setattr("leveret.stomp.subscriptions.sorted", counted, raising=False)
    peer.ask("SUBSCRIBE", destination="/queue/q", id="a", ack=mode)
    messages = [peer.ask("SEND", b"m", destination="/queue/q")[0] for _ in range(6)]
    peer.ask("BEGIN", transaction="t")
    for message in messages[:5]:
        peer.ask("ACK", id=message["ack"], transaction="t")
    peer.ask("ABORT", transaction="t")
    assert len(sorts) == most
    peer.ask("ACK", id=messages[2]["ack"])
    assert held(harness, "q") == (0, 3 if mode == "client" else 5)
