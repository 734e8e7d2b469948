"""The fuzz law: any bytes, in any slicing, are handled or answered by one AMQP error; never another exception.

541 is how a bug of ours shows on the wire, so no input may lead to it. A broker that does not come to rest fails too
(tests/support/peer_pair.py), and whatever one peer sends, another must be served afterwards.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.session.limits import Limits
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import CONTENT_HEADER, frame, method_frame
from leveret.wire.grammar import SERVER_ACCEPTS
from leveret.wire.methods import (
    METHODS,
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from tests.support.method_arguments import arguments_of
from tests.support.peer_pair import Client, Content, Harness, split_frames

pytestmark = pytest.mark.fuzz

LIMITS = Limits(max_message_size=5_000, max_partial_bytes=20_000)
LOGIN = method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0guest\0secret"))
OPENING = PROTOCOL_HEADER + LOGIN + method_frame(0, ConnectionTuneOk(0, 4096, 0)) + method_frame(0, ConnectionOpen("/"))


def slices(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut at these places (taken modulo its length)."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in pairwise(places)]


def keep_the_law(client: Client, chunks: list[bytes]) -> list[Method | Content]:
    """Feed the chunks; returns everything received, checked against the protocol."""
    harness = client.harness
    for chunk in chunks:
        client.feed(chunk)
    if client.socket.written.startswith(PROTOCOL_HEADER):
        assert client.socket.written == PROTOCOL_HEADER
        assert client.socket.closed
        return []
    heard = client.heard()
    closes = [index for index, what in enumerate(heard) if isinstance(what, ConnectionClose)]
    assert len(closes) <= 1
    for index in closes:
        assert all(isinstance(what, ConnectionCloseOk) for what in heard[index + 1 :]), "a close is the last word"
    for what in heard:
        if isinstance(what, ConnectionClose | ChannelClose):
            assert what.reply_code != 541, what
    client.vanish()
    other = harness.client()
    other.declare("afterwards")
    other.publish("afterwards", b"m")
    assert other.get("afterwards", no_ack=True) is not None
    harness.turn()
    assert harness.broker.gauge.used == sum(queue.accounted for queue in harness.vhost.queues.values())
    assert len(harness.broker.registry) == 1
    return heard


cuts = st.lists(st.integers(0, 1 << 16), max_size=6)


@given(st.binary(max_size=200), cuts)
def test_any_bytes_before_the_handshake(data: bytes, cuts: list[int]) -> None:
    keep_the_law(Harness(limits=LIMITS).stranger(), slices(data, cuts))


@given(st.sampled_from([PROTOCOL_HEADER, PROTOCOL_HEADER + LOGIN, OPENING]), st.binary(max_size=200), cuts)
def test_any_bytes_at_any_stage_of_the_handshake(before: bytes, data: bytes, cuts: list[int]) -> None:
    keep_the_law(Harness(limits=LIMITS).stranger(), slices(before + data, cuts))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.binary(max_size=60)), max_size=8),
    cuts,
)
def test_sound_frames_of_any_content(made: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(kind, channel, payload) for kind, channel, payload in made)
    keep_the_law(Harness(limits=LIMITS).client(), slices(data, cuts))


# ---- methods with arguments that make sense, and sense that is not there

NAMES = st.sampled_from(
    ["", "q", "p", "x", "y", "amq.topic", "amq.headers", "amq.rabbitmq.reply-to", "tag", "#", "é" * 100]
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            *("x-message-ttl", "x-expires", "x-max-priority", "x-queue-type", "x-priority", "alternate-exchange"),
            *("x-match", "x-implicit-bindings", "CC"),
        ]
    ),
    st.one_of(
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.sampled_from([0, 1, 5, 1000, "all", "any", "x", "", True, None, 1.5, ["q"], {"a": 1}, "quorum", "classic"]),
    ),
    max_size=3,
)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": NAMES,
    "int": st.integers(0, 6),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=20),
    "Table": ARGUMENTS,
}
KINDS = {"type": st.sampled_from(["direct", "fanout", "topic", "headers", "x-none"])}


@st.composite
def sensible_methods(draw: st.DrawFn) -> Method:
    kind = METHODS[draw(st.sampled_from(sorted(SERVER_ACCEPTS | {ChannelClose.id, ChannelCloseOk.id, ChannelOpen.id})))]
    return kind(**{name: draw(KINDS.get(name, BY_TYPE[sort])) for name, sort in arguments_of(kind).items()})


@st.composite
def contents(draw: st.DrawFn, channel: int) -> bytes:
    """A publish with properties that may be wrong and a body that may not fit its header."""
    publish = method_frame(channel, BasicPublish(draw(NAMES), draw(NAMES), draw(st.booleans())))
    size = draw(st.sampled_from([0, 1, 10, 300, 4_999, 5_001]))
    flags = draw(st.one_of(st.just(0), st.integers(0, 0xFFFF)))
    values = draw(st.binary(max_size=20)) if flags else b""
    header = frame(2, channel, CONTENT_HEADER.pack(60, 0, size) + flags.to_bytes(2, "big") + values)
    body = b"x" * draw(st.sampled_from([size, size, size, size + 1, size // 2]))
    step = draw(st.sampled_from([1, 100, 4_088])) if size < 1_000 else 4_088
    return publish + header + b"".join(frame(3, channel, body[at : at + step]) for at in range(0, len(body), step))


@st.composite
def utterances(draw: st.DrawFn) -> bytes:
    channel = draw(st.sampled_from([1, 1, 1, 2, 3]))
    if draw(st.integers(0, 2)):
        return method_frame(channel, draw(sensible_methods()))
    return draw(contents(channel))


def prepared() -> Client:
    """A client with two channels, queues of every kind, and deliveries unacked."""
    client = Harness(limits=LIMITS).client(frame_max=4096)
    client.open_channel(2)
    for name, arguments in (("q", {}), ("p", {"x-max-priority": 3, "x-message-ttl": 1000})):
        client.declare(name, arguments=arguments)
    client.consume("q")
    client.publish("q", b"1", b"2", b"3")
    client.heard()
    return client


@given(st.lists(utterances(), max_size=12), cuts)
def test_methods_and_contents_in_any_order(said: list[bytes], cuts: list[int]) -> None:
    keep_the_law(prepared(), slices(b"".join(said), cuts))


# ---- a conversation, whole and damaged


def conversation(client: Client) -> bytes:
    """Most of what a client may say, in an order that is right; no answer is waited for."""
    said = [
        QueueDeclare("a", arguments={"x-max-priority": 5}),  # read when all is said, or slicing would change its order
        QueueDeclare("b"),
        ExchangeDeclare("x", "topic"),
        QueueBind("a", "x", "k.#"),
        QueueBind("b", "x", "k.b"),
        BasicQos(0, 100),
        ConfirmSelect(),
    ]
    data = b"".join(method_frame(1, method) for method in said)
    data += method_frame(2, ChannelOpen()) + method_frame(2, BasicConsume("b", "c", no_ack=True))
    for number in range(4):
        data += client.published("x", "k.a", b"plain")
        data += client.published("x", "k.b", b"%d" % number, priority=number, headers={"n": number})
        data += client.published("x", "k.c", b"L" * 6_000 if number == 2 else b"", delivery_mode=2)
        data += client.published("x", "none", b"back", mandatory=True)
        data += client.published("", "a", b"timed", expiration="60000", user_id="guest")
    data += method_frame(2, TxSelect()) + client.published("", "a", b"in tx", 2) + method_frame(2, TxCommit())
    said = [BasicGet("a"), BasicGet("a"), BasicAck(1), BasicGet("a", no_ack=True), BasicNack(2, requeue=True)]
    said += [BasicGet("a"), QueueDeclare("a", passive=True), QueuePurge("a"), BasicAck(0, multiple=True)]
    said += [QueueDelete("b"), BasicGet("a"), ChannelClose(200, "done")]
    return data + b"".join(method_frame(1, method) for method in said)


def retold(client: Client, chunks: list[bytes]) -> dict[str, object]:
    """What was received, without what may differ by the ticks of the broker: how confirms are folded together, and
    where deliveries stand between answers."""
    for chunk in chunks:
        client.feed(chunk)
    answers: list[object] = []
    deliveries: list[object] = []
    confirmed: set[int] = set()
    for channel, what in client.hear():
        if isinstance(what, BasicAck):
            first = 1 if what.multiple else what.delivery_tag
            confirmed.update(range(first, what.delivery_tag + 1))
        elif isinstance(what, Content) and what.method.NAME == "basic.deliver":
            deliveries.append((channel, what.tag, what.body, what.properties))
        else:
            answers.append((channel, what))
    queue = client.harness.queue("a")
    left = (queue.ready, queue.unacked, client.harness.broker.gauge.used)
    return {"answers": answers, "deliveries": deliveries, "confirmed": confirmed, "left": left}


def test_the_conversation_is_a_right_one() -> None:
    client = Harness().client(frame_max=4096)
    told = retold(client, [conversation(client)])
    assert told["confirmed"] == set(range(1, 21))
    assert len(told["deliveries"]) == 4  # type: ignore[arg-type]
    assert not [what for _, what in told["answers"] if getattr(what, "NAME", "") == "connection.close"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, 9, 64, 1_000])
def test_a_right_conversation_sounds_the_same_in_steps_of_any_size(step: int) -> None:
    whole, cut = Harness().client(frame_max=4096), Harness().client(frame_max=4096)
    data = conversation(whole)
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    assert retold(cut, chunks) == retold(whole, [data])


@given(st.lists(st.integers(0, 1 << 20), max_size=12))
def test_a_right_conversation_sounds_the_same_however_it_is_cut(cuts: list[int]) -> None:
    whole, cut = Harness().client(frame_max=4096), Harness().client(frame_max=4096)
    data = conversation(whole)
    assert retold(cut, slices(data, cuts)) == retold(whole, [data])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    frames = split_frames(conversation(Harness().client(frame_max=4096)))
    for _ in range(draw(st.integers(0, 4))):
        at, to = draw(st.integers(0, len(frames) - 1)), draw(st.integers(0, len(frames) - 1))
        how = draw(st.sampled_from(["duplicate", "move", "drop", "swap", "other channel"]))
        if how == "duplicate":
            frames.insert(to, frames[at])
        elif how == "move":
            frames.insert(to, frames.pop(at))
        elif how == "drop" and len(frames) > 1:
            del frames[at]
        elif how == "swap":
            frames[at], frames[to] = frames[to], frames[at]
        else:
            frames[at] = frames[at][:1] + bytes([0, draw(st.integers(0, 3))]) + frames[at][3:]
    data = bytearray(b"".join(frames))
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(data[: draw(st.sampled_from([len(data), len(data), draw(st.integers(0, len(data)))]))])


@given(damaged(), cuts)
def test_a_damaged_conversation_keeps_the_law(data: bytes, cuts: list[int]) -> None:
    keep_the_law(Harness(limits=LIMITS).client(frame_max=4096), slices(data, cuts))


@given(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=9))
def test_a_peer_that_says_too_large_a_frame_is_refused_in_any_slicing(extra: int, more: bytes) -> None:
    """The header of a frame is enough to refuse it: the rest is not awaited or buffered."""
    said = bytes([1, 0, 1]) + min(4097 + extra, 0xFFFFFFFF).to_bytes(4, "big") + more
    for chunks in ([said], [said[:7], said[7:]], [bytes([each]) for each in said]):
        heard = keep_the_law(Harness(limits=LIMITS).client(frame_max=4096), chunks)
        assert [getattr(what, "reply_code", None) for what in heard] == [501]
