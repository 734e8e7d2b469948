"""Messages that must be looked into: CC and BCC, reply-to, user-id, expiration; and content that comes in pieces."""

from __future__ import annotations

import pytest

from leveret.session.limits import Limits
from leveret.wire.methods import (
    BasicCancel,
    BasicConsume,
    ChannelClose,
    ChannelFlow,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties
from tests.support.peer_pair import Client, Content, Harness, split_frames

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


def got(client: Client, queue: str = "q") -> Content:
    content = client.get(queue, no_ack=True)
    assert content is not None
    return content


# ---- CC and BCC


def test_copies_go_to_the_queues_of_cc_and_bcc_once_each(client: Client) -> None:
    client.declare("cc")
    client.declare("bcc")
    client.publish("q", b"m", headers={"CC": ["cc", "q"], "BCC": ["bcc", "cc"], "kept": "yes"})
    for queue in ("q", "cc", "bcc"):
        content = got(client, queue)
        assert content.properties.headers == {"CC": ["cc", "q"], "kept": "yes"}, "blind copies are not to be seen"
        assert content.method.routing_key == "q"
        assert client.count(queue) == 0


def test_copies_work_where_the_key_itself_leads_nowhere(client: Client) -> None:
    client.feed(client.published("", "nowhere", b"m", mandatory=True, headers={"CC": ["q"]}))
    assert client.heard() == []
    assert got(client).body == b"m"


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_further_keys_that_are_no_array_are_refused(client: Client, header: str) -> None:
    client.publish("q", b"m", headers={header: "cc"})
    assert client.error() == (406, f"PRECONDITION_FAILED - header '{header}' must be an array of routing keys")


def test_a_header_that_only_looks_like_cc_changes_nothing(client: Client) -> None:
    client.publish("q", b"m", headers={"ACCOUNT": ["x"], "CCC": "y"})
    assert got(client).properties.headers == {"ACCOUNT": ["x"], "CCC": "y"}


# ---- who and how long


def test_a_user_id_must_be_the_publishers_own(harness: Harness, client: Client) -> None:
    client.publish("q", b"m", user_id="guest")
    assert got(client).properties.user_id == "guest"
    harness.user("proxy", tags=("impersonator",))
    proxy = harness.client("proxy")
    proxy.publish("q", b"m", user_id="anybody")
    assert got(client).properties.user_id == "anybody"
    client.publish("q", b"m", user_id="proxy")
    (close,) = client.heard()
    assert isinstance(close, ChannelClose)
    assert close.reply_code == 406
    assert (
        close.reply_text == "PRECONDITION_FAILED - user_id property set to 'proxy' but authenticated user was 'guest'"
    )
    assert (close.class_id, close.method_id) == (60, 40)


@pytest.mark.parametrize("expiration", ["", "-5", "1.5", "soon", "12345678901234567"])
def test_a_bad_expiration_is_refused(client: Client, expiration: str) -> None:
    client.publish("q", b"m", expiration=expiration)
    code, text = client.error()
    assert code == 406
    assert f"'{expiration}'" in text


def test_an_expiration_dies_at_its_moment(harness: Harness, client: Client) -> None:
    client.publish("q", b"keeps")
    client.publish("q", b"dies", expiration="1000")
    harness.advance(0.999)
    assert client.count("q") == 2
    harness.advance(0.001)
    assert client.count("q") == 1


# ---- direct reply-to


@pytest.fixture
def requester(harness: Harness) -> Client:
    requester = harness.client()
    requester.declare("rpc")
    requester.consume(REPLY_TO, "replies", no_ack=True)
    return requester


def test_a_reply_goes_straight_to_the_requester(harness: Harness, requester: Client) -> None:
    server = harness.client()
    requester.publish("rpc", b"question", reply_to=REPLY_TO, correlation_id="7")
    question = got(server, "rpc")
    name = question.properties.reply_to
    assert name is not None
    assert name.startswith(f"{REPLY_TO}.")
    assert server.ask(QueueDeclare(name, passive=True)) == QueueDeclareOk(name, 0, 1)
    server.publish(name, b"answer", correlation_id="7")
    (answer,) = requester.heard()
    assert isinstance(answer, Content)
    assert (answer.body, answer.properties.correlation_id, answer.method.consumer_tag) == (b"answer", "7", "replies")  # type: ignore[union-attr]
    assert harness.broker.gauge.used == 0


@pytest.mark.parametrize("end", ["cancel", "close", "vanish"])
def test_a_reply_to_a_requester_that_is_gone_is_unroutable(harness: Harness, requester: Client, end: str) -> None:
    server = harness.client()
    requester.publish("rpc", b"question", reply_to=REPLY_TO)
    name = got(server, "rpc").properties.reply_to
    assert name is not None
    server.feed(server.published("", name, b"one", mandatory=True))
    if end == "cancel":
        requester.send(BasicCancel("replies"))
    elif end == "close":
        requester.send(ChannelClose(200, ""))
    else:
        requester.vanish()
    server.feed(server.published("", name, b"two", mandatory=True))
    assert server.bodies() == [b"two"]
    server.send(QueueDeclare(name, passive=True))
    assert server.error()[0] == 404


def test_requests_need_a_reply_consumer_first(client: Client) -> None:
    client.publish("q", b"question", reply_to=REPLY_TO)
    assert client.error() == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")


def test_a_reply_consumer_is_without_acks_and_alone(harness: Harness, requester: Client) -> None:
    requester.send(BasicConsume(REPLY_TO, "more", no_ack=True))
    assert requester.error() == (406, "PRECONDITION_FAILED - reply consumer already set")
    other = harness.client()
    other.send(BasicConsume(REPLY_TO, no_ack=False))
    assert other.error() == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
    third = harness.client()
    third.consume(REPLY_TO, "mine", no_ack=True)
    third.consume(REPLY_TO, "mine", no_ack=True)
    assert third.error()[0] == 530


def test_another_reply_to_is_left_alone(client: Client) -> None:
    client.publish("q", b"m", reply_to="my.own.queue")
    assert got(client).properties.reply_to == "my.own.queue"


def test_replies_wait_for_a_requester_that_cannot_be_written_to(harness: Harness, requester: Client) -> None:
    server = harness.client()
    requester.publish("rpc", b"question", reply_to=REPLY_TO)
    name = got(server, "rpc").properties.reply_to
    assert name is not None
    requester.session.outbox.set_writable(False)
    server.publish(name, b"answer")
    assert requester.bodies() == []
    requester.session.outbox.set_writable(True)
    harness.turn()
    assert requester.bodies() == [b"answer"]


# ---- in pieces


@pytest.mark.parametrize("size", [0, 1, 255, 256, 4087, 4088, 4089, 100_000])
@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
def test_a_message_arrives_whole_however_it_was_cut(harness: Harness, size: int, step: int) -> None:
    if size > 5_000:
        step = max(step, 1_000)
    client = harness.client(frame_max=4096)
    client.declare("q")
    body = bytes(number & 0xFF for number in range(size))
    data = client.published("", "q", body, headers={"a": 1})
    for start in range(0, len(data), step):
        client.feed(data[start : start + step])
    content = got(client)
    assert (content.body, content.properties.headers) == (body, {"a": 1})
    assert client.session.partial == 0
    harness.turn()
    assert harness.broker.gauge.used == 0


def test_channels_interleave_their_contents(client: Client) -> None:
    client.open_channel(2)
    one = split_frames(client.published("", "q", b"1" * 9))
    two = split_frames(client.published("", "q", b"2" * 9, 2))
    client.feed(b"".join(frame for pair in zip(one, two, strict=True) for frame in pair))
    assert [got(client).body, got(client).body] == [b"1" * 9, b"2" * 9]


def test_what_has_come_of_a_message_counts_as_memory(harness: Harness, client: Client) -> None:
    frames = split_frames(client.published("", "q", b"x" * 200_000))
    client.feed(b"".join(frames[:3]))
    assert 100_000 < client.session.partial == harness.broker.memory_users.unfinished.bytes
    client.send(ChannelFlow(active=True))
    assert client.error()[0] == 505
    assert harness.broker.memory_users.unfinished.bytes == 0


def test_unfinished_messages_of_a_connection_have_a_limit() -> None:
    harness = Harness(limits=Limits(max_partial_bytes=10_000))
    client = harness.client(frame_max=4096)
    client.declare("q")
    for channel in (2, 3, 4):
        client.open_channel(channel)
    for channel in (1, 2, 3, 4):
        frames = split_frames(client.published("", "q", b"x" * 5_000, channel))
        client.feed(b"".join(frames[:3]))
    code, text = client.error()
    assert (code, text.startswith("RESOURCE_ERROR - unfinished messages hold")) == (506, True)
    assert harness.broker.gauge.used == 0


def test_a_message_too_large_ends_the_channel_and_its_content_is_ignored() -> None:
    harness = Harness(limits=Limits(max_message_size=100))
    client = harness.client()
    client.declare("q")
    client.publish("q", b"x" * 100)
    client.publish("q", b"x" * 101, b"y")
    told = "message size 101 is larger than configured max size 100: raise max_message_size to accept it"
    assert client.error() == (406, f"PRECONDITION_FAILED - {told}")
    client.open_channel(2)
    assert client.count("q", 2) == 1


def test_a_body_longer_than_announced_is_a_frame_error(client: Client) -> None:
    method, header, _ = split_frames(client.published("", "q", b"four"))
    _, _, longer = split_frames(client.published("", "q", b"fives"))
    client.feed(method + header + longer)
    assert client.error() == (501, "FRAME_ERROR - body is 1 bytes longer than announced")


@pytest.mark.feature("S4-09")
def test_every_legal_property_survives_the_way(client: Client) -> None:
    client.ask(QueueBind("q", "amq.fanout"))
    sent = {
        "content_type": "a/b",
        "content_encoding": "gzip",
        "headers": {"n": {"deep": [1, "x"]}},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "type": "t",
        "user_id": "guest",
        "app_id": "app",
        "cluster_id": "cl",
    }
    client.feed(client.published("amq.fanout", "", b"", **sent))
    properties = got(client).properties
    assert {name: getattr(properties, name) for name in sent} == sent


EVERY_PROPERTY: dict[str, object] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": {"b": [1, "amq.rabbitmq.reply-to"]}},
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "\x15amq.rabbitmq.reply-to",
    "expiration": "60000",
    "message_id": "m",
    "type": "t",
    "app_id": "a",
}


@pytest.mark.parametrize("left_out", [*EVERY_PROPERTY, "nothing", "everything"])
@pytest.mark.parametrize("more", [{}, {"user_id": "guest"}, {"headers": {"CC": ["other"]}}])
def test_a_direct_reply_to_becomes_the_name_of_the_reply_queue(left_out: str, more: dict[str, object]) -> None:
    """Without decoding the properties, if it is all that the broker acts on; else with them: both give the same."""
    harness = Harness()
    client, server = harness.client(), harness.client()
    server.declare("requests")
    server.send(BasicConsume("requests", no_ack=True))
    server.hear()
    client.send(BasicConsume("amq.rabbitmq.reply-to", no_ack=True))
    client.hear()
    given = {name: value for name, value in EVERY_PROPERTY.items() if left_out not in (name, "everything")} | more
    client.publish("requests", b"one", b"two", **given, reply_to="amq.rabbitmq.reply-to")
    (name,) = harness.vhost.reply_queues
    for found, body in zip(server.heard(), (b"one", b"two"), strict=True):
        assert isinstance(found, Content)
        assert found.body == body
        assert found.properties == Properties(**given, reply_to=name)  # type: ignore[arg-type]


def test_a_direct_reply_to_without_a_reply_consumer_closes_the_channel() -> None:
    harness = Harness()
    client = harness.client()
    client.declare("requests")
    client.publish("requests", b"one", reply_to="amq.rabbitmq.reply-to")
    (closed,) = client.heard()
    assert isinstance(closed, ChannelClose)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (406, 60, 40)


@pytest.mark.parametrize("cut", [1_000, 16_383, 16_385, 65_536, 70_001, 262_144])
@pytest.mark.parametrize("is_halted", [False, True])
def test_large_messages_arrive_whole_however_their_bytes_are_cut(cut: int, is_halted: bool) -> None:
    """The message at the end of a chunk is completed by itself, unless the connection is halted by then."""
    harness = Harness()
    client = harness.client()
    client.declare("q")
    bodies = [bytes([number]) * size for number, size in enumerate([10, 20_000, 0, 131_064, 65_536, 300_000] * 3)]
    data = b"".join(client.published("", "q", body) for body in bodies)
    chunks = [data[at : at + cut] for at in range(0, len(data), cut)]
    for number, chunk in enumerate(chunks):
        if is_halted and number % 3 == 1:
            client.session.halt("a test")
        client.session.receive(chunk)
        if is_halted and number % 3 == 2:
            client.session.unhalt("a test")
    client.session.unhalt("a test")
    harness.turn()
    assert [got(client).body for _ in bodies] == bodies
    assert client.get("q", no_ack=True) is None
    assert client.session.held_input() == 0


@pytest.mark.parametrize(
    ("body", "most", "read"),
    [
        (65_536, 512 << 10, 7),  # whole messages, at most as many as fit
        (120_000, 512 << 10, 4),
        (120_000, 128 << 10, 0),  # only what is missing
        (15_000, 512 << 10, None),  # copying them once more costs little
        (300_000, 512 << 10, None),  # of several frames, which are cut out one by one
    ],
)
def test_reads_end_with_a_message_where_large_ones_follow_each_other(body: int, most: int, read: int | None) -> None:
    """``read``: whole messages in one read, besides the rest of the one that the read before has split."""
    client = Harness().client()
    client.declare("q")
    one = client.published("", "q", bytes(body))
    assert client.session.best_read() == 512 << 10
    client.session.receive((one * 20)[: -len(one) // 3])
    missing = len(one) - client.session.held_input()
    assert client.session.intake.best_read(most) == (most if read is None else missing + read * len(one))
    client.session.receive(one[-missing:])
    assert client.session.held_input() == 0
    assert client.session.intake.best_read(most) == (most if read is None else max(most // len(one), 1) * len(one))
