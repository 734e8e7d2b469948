"""What a peer may ask for at most: frames, channels, messages, tables, time, connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle

import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser, BootstrapVhost
from leveret.config import Settings
from leveret.server.logins import FAILURES
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, frame, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.support.guest_login import GUEST_LOGIN
from tests.support.raw_client import RawClient, eventually, plain

QUIET = {"amqp_port": 0, "http_port": None, "stomp_port": None}


def settings(**given: object) -> Settings:
    return Settings(**(QUIET | given))  # type: ignore[arg-type]


pytestmark = pytest.mark.broker(settings(max_message_size=10000))


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[RawClient]:
    with RawClient.open(broker.amqp_url) as made:
        yield made


# ---- tuning and frames


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2048, 131072, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (2047, 131073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (2047, 4095, "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"),
    ],
)
def test_tuning_beyond_the_limits_is_530(channel_max: int, frame_max: int, text: str, broker: leveret.Broker) -> None:
    with RawClient(broker.amqp_url) as client:
        client.login()
        client.tune(channel_max=channel_max, frame_max=frame_max)
        closed = client.expect_close(530)
    assert closed.reply_text == f"NOT_ALLOWED - {text}"
    assert (closed.class_id, closed.method_id) == ConnectionTuneOk.id


def message_of(size: int, properties: bytes = b"\0\0") -> list[bytes]:
    """A publish to the queue ``tuned`` with its body in one frame, however large."""
    header = frame(FRAME_HEADER, 1, CONTENT_HEADER.pack(60, 0, size) + properties)
    return [method_frame(1, BasicPublish("", "tuned")), header, frame(FRAME_BODY, 1, bytes(size))]


@pytest.fixture(scope="module")
def roomy() -> Iterator[leveret.Broker]:
    with leveret.Broker(GUEST_LOGIN) as running:
        yield running


@pytest.mark.parametrize("frame_max", [4096, 5000, 131072, 0])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "frame by frame"])
def test_payloads_as_long_as_a_frame_pass_and_no_longer_ones(
    at_once: bool, frame_max: int, roomy: leveret.Broker
) -> None:
    """Some clients forget the eight bytes around a payload. What they send is passed on in frames of legal size."""
    limit = frame_max or 131072
    with RawClient.open(roomy.amqp_url, frame_max=frame_max) as client:

        def say(frames: list[bytes]) -> None:
            for part in [b"".join(frames)] if at_once else frames:
                client.send_bytes(part)
                for _ in range(2):
                    roomy.call(lambda: None)  # it has been read by then

        client.call(QueueDeclare("tuned", exclusive=True), QueueDeclareOk)
        client.call(BasicConsume("tuned", no_ack=True), BasicConsumeOk)
        say(message_of(limit))
        got = client.expect_content()
        assert (len(got.body), got.frames) == (limit, 2)
        client.send_bytes(b"".join(message_of(limit + 1)))
        client.expect_close(501)


def test_a_header_longer_than_a_frame_is_501(roomy: leveret.Broker) -> None:
    with RawClient.open(roomy.amqp_url, frame_max=4096) as client:
        client.send_bytes(b"".join(message_of(10, b"\x20\0" + wide(700))))
        client.expect_close(501)


def test_before_tuning_a_frame_may_have_8192_bytes(broker: leveret.Broker) -> None:
    def start_ok(size: int) -> bytes:
        empty = ConnectionStartOk({"filling": ""}, "PLAIN", plain("guest", "guest"))
        filling = "x" * (size - len(empty.encode()))
        return method_frame(0, ConnectionStartOk({"filling": filling}, "PLAIN", plain("guest", "guest")))

    with RawClient(broker.amqp_url) as client:
        client.send_bytes(PROTOCOL_HEADER + start_ok(8192))
        client.expect(ConnectionStart, 0)
        client.expect(ConnectionTune, 0)
    with RawClient(broker.amqp_url) as client:
        client.send_bytes(PROTOCOL_HEADER + start_ok(8193))
        client.expect(ConnectionStart, 0)
        client.expect_close(501)


@pytest.mark.parametrize("known", [7, 8, 9])
def test_a_frame_that_will_be_too_large_is_refused_by_its_first_bytes(known: int, client: RawClient) -> None:
    """Never gathered first: an announced size is no reason to hold memory."""
    head = ENVELOPE.pack(FRAME_BODY, 1, 0xFFFFFFFF) + b"xx"
    client.send_bytes(head[:known])
    client.send_bytes(head[known:])
    client.expect_close(501)


# ---- messages and tables


def test_a_message_of_the_largest_size_passes_and_one_byte_more_is_406(client: RawClient) -> None:
    client.call(QueueDeclare("largest", exclusive=True), QueueDeclareOk)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("", "largest", bytes(10_000))
    client.expect(BasicAck)
    client.publish("", "largest", bytes(10_001))
    closed = client.expect_channel_close(406)
    told = "message size 10001 is larger than configured max size 10000: raise max_message_size to accept it"
    assert closed.reply_text == f"PRECONDITION_FAILED - {told}"
    client.open_channel(1)
    assert client.call(QueueDeclare("largest", passive=True), QueueDeclareOk).message_count == 1


def test_a_message_too_large_in_small_pieces_is_406_before_it_has_come(client: RawClient) -> None:
    client.publish("", "largest", bytes(20_000), piece=100)
    client.expect_channel_close(406)
    client.open_channel(1)
    client.is_alive()


def nested(depth: int) -> bytes:
    """The bytes of a table in a table ..., ``depth`` of them; no encoder of ours would make them."""
    table = b"\0\0\0\0"
    for _ in range(depth - 1):
        inner = b"\x01tF" + table
        table = len(inner).to_bytes(4, "big") + inner
    return table


def declare_with(table: bytes) -> bytes:
    head = QueueDeclare("tables", exclusive=True).encode()[:-4]
    return frame(FRAME_METHOD, 1, head + table)


def test_tables_are_nested_32_deep_at_most(client: RawClient) -> None:
    client.send_bytes(declare_with(nested(32)))
    client.expect(QueueDeclareOk)
    client.send_bytes(declare_with(nested(33)))
    client.expect_close(501)


def wide(fields: int) -> bytes:
    content = b"".join(b"\x04%04xt\x01" % number for number in range(fields))
    return len(content).to_bytes(4, "big") + content


def test_tables_have_4096_fields_at_most(client: RawClient) -> None:
    client.send_bytes(declare_with(wide(4096)))
    client.expect(QueueDeclareOk)
    client.send_bytes(declare_with(wide(4097)))
    client.expect_close(501)


def test_headers_of_a_message_have_the_same_limits(client: RawClient) -> None:
    """They are looked into where they matter: here a headers exchange must read them."""
    head = method_frame(1, BasicPublish("amq.headers", ""))
    client.send_bytes(head + frame(FRAME_HEADER, 1, CONTENT_HEADER.pack(60, 0, 0) + b"\x20\0" + wide(4096)))
    client.is_alive()
    client.send_bytes(head + frame(FRAME_HEADER, 1, CONTENT_HEADER.pack(60, 0, 0) + b"\x20\0" + wide(4097)))
    client.expect_close(501)


def test_unfinished_messages_are_budgeted() -> None:
    """Many channels with a large body each, none of them finished: refused before the memory is gone."""
    size = 1 << 20
    piece = frame(FRAME_BODY, 0, bytes(100_000))
    with leveret.Broker() as fresh, RawClient.open(fresh.amqp_url, channels=100) as client:
        gauge = fresh.node.broker.gauge
        for number in range(1, 101):
            begin = method_frame(number, BasicPublish("", "q"))
            begin += frame(FRAME_HEADER, number, CONTENT_HEADER.pack(60, 0, size) + b"\0\0")
            try:
                client.send_bytes(begin + (piece[:1] + number.to_bytes(2, "big") + piece[3:]) * 10)
            except OSError:
                break
        assert client.expect_close(506).reply_text.startswith("RESOURCE_ERROR")
        eventually(lambda: fresh.call(lambda: gauge.used) == 0)


# ---- time


def test_a_handshake_that_takes_too_long_is_cut() -> None:
    """Whatever step the peer has reached, and however busy it looks; an open connection stays."""
    with ExitStack() as stack:
        short = stack.enter_context(leveret.Broker(settings()))
        opened = stack.enter_context(RawClient.open(short.amqp_url))
        silent, greeted, logged_in, tuned, dripping = (stack.enter_context(RawClient(short.amqp_url)) for _ in range(5))
        greeted.send_bytes(PROTOCOL_HEADER)
        greeted.expect(ConnectionStart, 0)
        logged_in.login()
        logged_in.expect(ConnectionTune, 0)
        tuned.login()
        tuned.tune()
        dripping.send_bytes(PROTOCOL_HEADER[:5])
        short.call(lambda: short.node.apply(settings(handshake_timeout=0.3)))  # now that each has reached its step
        for peer in (silent, greeted, logged_in, tuned):
            peer.expect_eof()
        dripping.expect_raw(b"")
        opened.is_alive()


# ---- who and how many


def other_address() -> str | None:
    """An address of this machine that is not a loopback one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # sends nothing: only asks for the way there
        except OSError:
            return None
        found: str = probe.getsockname()[0]
        return None if found.startswith("127.") else found


LIMITED = Bootstrap(
    vhosts=(BootstrapVhost("small", max_queues=2, max_connections=2),),
    users=(
        BootstrapUser("ann", "ann", max_connections=2),
        BootstrapUser("bob", "bob", max_channels=3),
    ),
    permissions=(
        BootstrapPermission("ann", "/", ".*", ".*", ".*"),
        BootstrapPermission("bob", "/", ".*", ".*", ".*"),
        BootstrapPermission("bob", "small", ".*", ".*", ".*"),
        BootstrapPermission("guest", "small", ".*", ".*", ".*"),
    ),
)


@pytest.fixture(scope="module")
def limited() -> Iterator[leveret.Broker]:
    with leveret.Broker(settings(bootstrap=LIMITED)) as running:
        yield running


def url(broker: leveret.Broker, user: str, vhost: str = "") -> str:
    return broker.amqp_url.replace("guest:guest", f"{user}:{user}").rpartition("/")[0] + "/" + vhost


def refused_open(address: str) -> str:
    with RawClient(address) as client:
        client.login()
        client.tune()
        client.send(ConnectionOpen(client.virtual_host), 0)
        return client.expect_close(530).reply_text


def test_guest_comes_from_this_machine_only() -> None:
    """Refused as with a wrong password, in the same words, and counted as a failure: nothing is learnt from it."""
    address = other_address()
    if address is None:
        pytest.skip("kernel: this machine has no address but loopback")
    with leveret.Broker(settings(host=("0.0.0.0",), login_failure_delay=0.1, bootstrap=LIMITED)) as broker:
        outside = broker.amqp_url.replace("127.0.0.1", address)
        for _, password in zip(range(FAILURES), cycle(("guest", "wrong")), strict=False):
            with RawClient(outside) as client:
                begun = time.monotonic()
                client.login(response=plain("guest", password))
                closed = client.expect_close(403)
                assert "Login was refused using authentication mechanism PLAIN" in closed.reply_text
        assert password == "guest"
        assert time.monotonic() - begun >= 0.1
        with RawClient.open(outside.replace("guest:guest", "ann:ann")) as client:
            client.is_alive()
        with RawClient.open(broker.amqp_url) as client:
            client.is_alive()


def test_connections_per_user_are_limited(limited: leveret.Broker) -> None:
    with RawClient.open(url(limited, "ann")), RawClient.open(url(limited, "ann")) as second:
        assert "user connection limit (2) is reached" in refused_open(url(limited, "ann"))
        with RawClient.open(url(limited, "bob")) as another:
            another.is_alive()
        second.close()
        with RawClient.open(url(limited, "ann")) as again:
            again.is_alive()


def test_connections_per_vhost_are_limited(limited: leveret.Broker) -> None:
    with RawClient.open(url(limited, "guest", "small")) as first, RawClient.open(url(limited, "bob", "small")):
        told = refused_open(url(limited, "bob", "small"))
        assert told.startswith("NOT_ALLOWED - access to vhost 'small' refused for user 'bob'")
        assert "connection limit (2) is reached" in told
        first.close()
        with RawClient.open(url(limited, "bob", "small")) as again:
            again.is_alive()


def test_channels_per_user_are_limited_over_all_connections(limited: leveret.Broker) -> None:
    with RawClient.open(url(limited, "bob"), channels=2) as first:
        with RawClient.open(url(limited, "bob"), channels=1) as second:
            second.send(ChannelOpen(), 2)
            assert "number of channels opened for user 'bob'" in second.expect_close(530).reply_text
        first.is_alive()
        with RawClient.open(url(limited, "bob"), channels=1) as third:  # the closed connection gave its channel back
            third.is_alive()


def test_queues_per_vhost_are_limited(limited: leveret.Broker) -> None:
    with RawClient.open(url(limited, "guest", "small")) as client:
        for name in ("one", "two", "two"):
            client.call(QueueDeclare(name), QueueDeclareOk)
        client.send(QueueDeclare("three"))
        assert "queue limit in vhost 'small' (2) is reached" in client.expect_channel_close(406).reply_text
        client.open_channel(1)
        client.call(QueueDelete("one"), QueueDeleteOk)
        client.call(QueueDeclare("three"), QueueDeclareOk)


def test_connections_to_the_node_are_limited_and_those_there_go_on() -> None:
    with leveret.Broker(settings(connection_max=2)) as broker:
        with RawClient.open(broker.amqp_url) as first, RawClient.open(broker.amqp_url) as second:
            with RawClient(broker.amqp_url) as third:
                third.expect_eof()
            first.is_alive()
            second.close()
            eventually(lambda: broker.call(lambda: len(broker.node.broker.registry)) == 1)
            with RawClient.open(broker.amqp_url) as fourth:
                fourth.call(ChannelOpen(), ChannelOpenOk, 2)


def test_zero_leaves_the_choice_to_the_server(broker: leveret.Broker) -> None:
    with RawClient(broker.amqp_url) as client:
        client.login()
        client.tune(channel_max=0, frame_max=0)
        client.send(ConnectionOpen("/"), 0)
        client.expect(ConnectionOpenOk, 0)
        for number in range(1, 2048):
            client.send(ChannelOpen(), number)
        for number in range(1, 2048):
            client.expect(ChannelOpenOk, number)
        client.send(ChannelOpen(), 2048)
        client.expect_close(530)
