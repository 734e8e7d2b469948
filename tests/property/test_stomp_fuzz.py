"""The fuzz law for STOMP: any bytes, in any slicing, are handled or answered by one ERROR and a close.

``internal_error`` is how a bug of ours shows on the wire, so no input may lead to it. Whatever one peer says, another
must be served afterwards, and nothing may be left of it.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.session.limits import Limits
from tests.support.peer_pair import Harness
from tests.support.stomp_client import StompFrame, made
from tests.support.stomp_harness import StompPeer

pytestmark = pytest.mark.fuzz

LIMITS = Limits(max_message_size=5_000, max_partial_bytes=20_000)
LOGIN: dict[str, object] = {"accept-version": "1.0,1.1,1.2", "login": "guest", "passcode": "secret", "host": "/"}
COMMANDS = ["CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT"]
COMMANDS += ["DISCONNECT", "MESSAGE", "send", ""]


def slices(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut at these places (taken modulo its length)."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in pairwise(places)]


def keep_the_law(peer: StompPeer, chunks: list[bytes]) -> list[StompFrame]:
    """Feed the chunks; returns everything received, checked against the protocol."""
    harness = peer.harness
    for chunk in chunks:
        peer.feed(chunk)
    heard = peer.heard()
    cancelled = [frame for frame in heard if frame.headers.get("message") == "Server cancelled subscription"]
    errors = [frame for frame in heard if frame.command == "ERROR" and frame not in cancelled]
    assert len(errors) <= 1
    if errors:
        assert heard[-1] is errors[0], "an error is the last word"
        assert errors[0]["message"] != "internal_error", errors[0]
        assert peer.socket.closed
    peer.vanish()
    other = StompPeer.open(harness)
    (receipt,) = other.ask("SEND", b"m", destination="/queue/afterwards", receipt="1")
    assert receipt.command == "RECEIPT"
    harness.turn()
    assert harness.broker.gauge.used == sum(queue.accounted for queue in harness.vhost.every_queue())
    assert all(not queue.unacked and not queue.consumers for queue in harness.vhost.queues.values())
    assert len(harness.broker.registry) == 1
    return heard


cuts = st.lists(st.integers(0, 1 << 16), max_size=6)
VALUES = st.one_of(
    st.sampled_from(
        ["/queue/q", "/topic/t", "/exchange/amq.topic/k", "/amq/queue/q", "/temp-queue/t", "/reply-queue/q"]
    ),
    st.sampled_from(["/queue/a\\cb", "/exchange/absent", "/queue/", "true", "false", "client", "auto", "0", "1", "7"]),
    st.sampled_from(["99999999999", "-1", "t", "u", "T_1@@x@@1", "@@@@", "x\\y", "colour = 'red'", "1.2", "é", ""]),
    st.text(st.characters(exclude_characters="\n\0", codec="utf-8"), max_size=20),
)
NAMES = st.one_of(
    st.sampled_from(["destination", "id", "receipt", "transaction", "ack", "message-id", "selector", "prefetch-count"]),
    st.sampled_from(["persistent", "expires", "priority", "reply-to", "content-length", "durable", "x-max-length"]),
    st.sampled_from(["x-message-ttl", "x-queue-type", "x-queue-name", "x-priority", "AMQ_SCHEDULED_DELAY", "requeue"]),
    st.sampled_from(["heart-beat", "accept-version", "login", "host", "x-deliver-at", "CC", "exclusive", "user-id"]),
    st.text(st.characters(exclude_characters="\n\0:", codec="utf-8"), max_size=5),
)


@st.composite
def utterances(draw: st.DrawFn) -> bytes:
    headers: dict[str, object] = dict(draw(st.dictionaries(NAMES, VALUES, max_size=5)))
    command = draw(st.sampled_from(COMMANDS[2:] * 3 + COMMANDS))
    if draw(st.integers(0, 3)):
        headers.setdefault("destination", draw(st.sampled_from(["/queue/q", "/queue/p", "/topic/t"])))
        headers.setdefault("id", draw(st.sampled_from(["1", "2"])))
    return made(command, headers, draw(st.sampled_from([b"", b"m", b"x" * 300, b"\xff\xfe", b"y" * 5_001])))


def prepared() -> StompPeer:
    """A peer with subscriptions, a transaction, and messages that it owes an ack for."""
    peer = StompPeer.open(Harness(limits=LIMITS))
    peer.ask("SUBSCRIBE", destination="/queue/q", id="1", ack="client")
    peer.ask("SUBSCRIBE", destination="/topic/t", id="0")
    peer.ask("BEGIN", transaction="t")
    for number in range(3):
        peer.ask("SEND", b"m%d" % number, destination="/queue/q")
    peer.ask("SEND", b"held", destination="/queue/q", transaction="t")
    return peer


@given(st.binary(max_size=200), cuts)
def test_any_bytes_before_the_login(data: bytes, cuts: list[int]) -> None:
    keep_the_law(StompPeer(Harness(limits=LIMITS)), slices(data, cuts))


@given(st.binary(max_size=200), cuts)
def test_any_bytes_after_the_login(data: bytes, cuts: list[int]) -> None:
    keep_the_law(StompPeer(Harness(limits=LIMITS)), slices(made("CONNECT", LOGIN) + data, cuts))


@given(st.lists(utterances(), max_size=10), cuts)
def test_frames_in_any_order(said: list[bytes], cuts: list[int]) -> None:
    keep_the_law(prepared(), slices(b"".join(said), cuts))


def conversation(peer: StompPeer) -> bytes:
    """Most of what a peer may say, in an order that is right; no answer is waited for."""
    said = [
        made("CONNECT", LOGIN),
        made("SUBSCRIBE", {"destination": "/queue/b", "id": "1", "receipt": "1"}),
        made("SUBSCRIBE", {"destination": "/topic/t.*", "id": "2", "ack": "client", "receipt": "2"}),
        made("SEND", {"destination": "/queue/b", "receipt": "3", "colour": "red\\cgreen"}, b"one"),
        made("BEGIN", {"transaction": "t", "receipt": "4"}),
        made("SEND", {"destination": "/queue/b", "transaction": "t", "content-length": "3"}, b"t\0o"),
        made("COMMIT", {"transaction": "t", "receipt": "5"}),
        b"\n\r\n",
        made("UNSUBSCRIBE", {"id": "2", "receipt": "6"}),
        made("DISCONNECT", {"receipt": "7"}),
    ]
    return b"".join(said)


@given(cuts)
def test_slicing_changes_nothing(cuts: list[int]) -> None:
    peer = StompPeer(Harness(limits=LIMITS))
    heard = keep_the_law(peer, slices(conversation(peer), cuts))
    receipts = [frame["receipt-id"] for frame in heard if frame.command == "RECEIPT"]
    assert sorted(receipts) == [str(number) for number in range(1, 8)]
    assert receipts[-1] == "7"
    assert [frame.body for frame in heard if frame.command == "MESSAGE"] == [b"one", b"t\0o"]


@given(st.integers(0, 1 << 16), st.integers(0, 255), cuts)
def test_one_wrong_byte(place: int, byte: int, cuts: list[int]) -> None:
    peer = StompPeer(Harness(limits=LIMITS))
    data = bytearray(conversation(peer))
    data[place % len(data)] = byte
    keep_the_law(peer, slices(bytes(data), cuts))
