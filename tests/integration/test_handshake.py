"""From the first byte to an open connection and out again: logins, tuning, refusals, blocking, closing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import pytest

import leveret
from leveret.auth.users import User
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser, BootstrapVhost
from leveret.config import Settings
from leveret.server.logins import FAILURES
from leveret.session.amqp_connection import AmqpConnection
from leveret.session.limits import Limits
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.fields import encode_table
from leveret.wire.frames import method_frame
from leveret.wire.grammar import Step
from leveret.wire.methods import (
    BasicGet,
    BasicGetOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.peer_pair import Harness, Socket
from tests.support.raw_client import CAPABILITIES, RawClient, eventually, plain

DELAY = 0.15
SETTINGS = Settings(
    amqp_port=0,
    http_port=None,
    stomp_port=None,
    login_failure_delay=DELAY,
    bootstrap=Bootstrap(
        vhosts=(BootstrapVhost("other"), BootstrapVhost("forbidden")),
        users=(BootstrapUser("ann", "ann's"), BootstrapUser("outside", "secret")),
        permissions=(BootstrapPermission("ann", "other", ".*", ".*", ".*"),),
    ),
)
REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."


pytestmark = pytest.mark.broker(SETTINGS)


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[RawClient]:
    """Connected, nothing said."""
    with RawClient(broker.amqp_url) as made:
        yield made


def amqplain(user: object, password: object) -> bytes:
    return encode_table({"LOGIN": user, "PASSWORD": password})[4:]  # type: ignore[dict-item]


# ---- logging in


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
@pytest.mark.feature("S4-56")
def test_both_mechanisms_log_in(mechanism: str, client: RawClient) -> None:
    make = {"PLAIN": plain, "AMQPLAIN": amqplain}[mechanism]
    client.handshake(mechanism=mechanism, response=make("ann", "ann's"), virtual_host="other")
    client.open_channel(1)
    client.is_alive()


def test_the_server_introduces_itself_with_what_it_can_do(client: RawClient) -> None:
    client.handshake()
    assert client.start is not None
    assert (client.start.version_major, client.start.version_minor) == (0, 9)
    assert client.start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN"]  # EXTERNAL only with a certificate
    assert b"en_US" in client.start.locales.split()
    told = client.start.server_properties
    assert {"product", "version", "platform", "information", "cluster_name"} <= told.keys()
    assert told["cluster_name"] == SETTINGS.node_name
    announced = {"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify"}
    announced |= {"connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos"}
    assert told["capabilities"] == dict.fromkeys(announced | {"direct_reply_to"}, True)


def test_the_offer_is_what_the_settings_say(client: RawClient) -> None:
    client.login()
    offer = client.expect(ConnectionTune, 0)
    assert (offer.channel_max, offer.frame_max, offer.heartbeat) == (2047, 131072, 60)


@pytest.fixture(scope="module")
def slow_to_refuse() -> Iterator[leveret.Broker]:
    """The delay is longer than clients wait here: what is answered was not delayed."""
    with leveret.Broker(replace(SETTINGS, login_failure_delay=60.0)) as running:
        yield running


WRONG = [("ann", "wrong"), ("nobody", "x"), ("ann", ""), ("guest", "wrong")]
SOURCES = (f"127.0.1.{number}" for number in count(1))  # failures count by source: each test has its own


@pytest.mark.parametrize(("user", "password"), WRONG)
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
@pytest.mark.feature("S4-81")
def test_wrong_credentials_are_403_at_once(
    mechanism: str, user: str, password: str, slow_to_refuse: leveret.Broker
) -> None:
    """To clients that announced authentication_failure_close; the same words for every cause."""
    make = {"PLAIN": plain, "AMQPLAIN": amqplain}[mechanism]
    with RawClient(slow_to_refuse.amqp_url, source=next(SOURCES)) as client:
        client.login(mechanism=mechanism, response=make(user, password))
        assert client.expect_close(403).reply_text == REFUSED.format(mechanism)


def test_a_source_that_fails_repeatedly_is_answered_late(slow_to_refuse: leveret.Broker) -> None:
    """And delays no other source."""
    guesser = next(SOURCES)
    for number in range(FAILURES):
        with RawClient(slow_to_refuse.amqp_url, source=guesser) as client:
            client.login(response=plain("ann", f"guess {number}"))
            if number + 1 < FAILURES:
                client.expect_close(403)
            else:
                client.timeout = 1
                with pytest.raises(AssertionError, match="nothing heard"):
                    client.expect_close(403)
    with RawClient(slow_to_refuse.amqp_url, source=next(SOURCES)) as other:
        other.login(response=plain("ann", "wrong"))
        other.expect_close(403)
    with RawClient.open(slow_to_refuse.amqp_url, source=guesser) as right:
        right.is_alive()


def test_a_source_that_fails_repeatedly_gets_its_answer_after_the_delay(broker: leveret.Broker) -> None:
    guesser = next(SOURCES)
    for number in range(FAILURES):
        with RawClient(broker.amqp_url, source=guesser) as client:
            begun = time.monotonic()
            client.login(response=plain("ann", f"guess {number}"))
            client.expect_close(403)
    assert time.monotonic() - begun >= DELAY


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": False}, {"basic.nack": True}])
def test_wrong_credentials_end_silently_for_other_clients(capabilities: dict[str, bool], client: RawClient) -> None:
    begun = time.monotonic()
    client.login(response=plain("ann", "wrong"), capabilities=dict(capabilities))
    client.expect_eof()
    assert time.monotonic() - begun >= DELAY


def test_logins_of_others_go_on_while_a_failed_one_waits(broker: leveret.Broker, client: RawClient) -> None:
    client.login(response=plain("ann", "wrong"))
    with RawClient.open(broker.amqp_url) as another:
        another.is_alive()
    client.expect_close(403)


MALFORMED = [
    ("PLAIN", b""),
    ("PLAIN", b"guest"),
    ("PLAIN", b"\0guest"),
    ("PLAIN", b"\0guest\0guest\0"),
    ("PLAIN", b"\0gu\xffst\0guest"),
    ("AMQPLAIN", b""),
    ("AMQPLAIN", b"\x05LOGINS\0\0\xff\xff"),
    ("AMQPLAIN", encode_table({"LOGIN": "guest"})[4:]),
    ("AMQPLAIN", amqplain(1, "guest")),
]


@pytest.mark.parametrize(("mechanism", "response"), MALFORMED)
def test_a_malformed_response_is_502(mechanism: str, response: bytes, client: RawClient) -> None:
    client.login(mechanism=mechanism, response=response)
    closed = client.expect_close(502)
    assert closed.reply_text.startswith("SYNTAX_ERROR")
    assert (closed.class_id, closed.method_id) == ConnectionStartOk.id


@pytest.mark.parametrize("mechanism", ["", "plain", "EXTERNAL", "ANONYMOUS", "SCRAM-SHA-256"])
def test_an_unknown_mechanism_is_503(mechanism: str, client: RawClient) -> None:
    client.login(mechanism=mechanism)
    closed = client.expect_close(503)
    assert closed.reply_text.startswith("COMMAND_INVALID")
    assert (closed.class_id, closed.method_id) == ConnectionStartOk.id


# ---- the order of things

TOO_EARLY = [ConnectionTuneOk(), ConnectionOpen(), ConnectionSecureOk(), ConnectionUpdateSecret()]


@pytest.mark.parametrize("method", TOO_EARLY, ids=lambda method: method.NAME)
def test_a_connection_method_too_early_is_504(method: Method, client: RawClient) -> None:
    client.send_bytes(PROTOCOL_HEADER)
    client.expect(ConnectionStart, 0)
    client.send(method, 0)
    closed = client.expect_close(504)
    assert (closed.class_id, closed.method_id) == method.id


def test_open_before_tune_ok_and_a_second_start_ok_are_504(broker: leveret.Broker) -> None:
    for method in (ConnectionOpen("/"), ConnectionStartOk({}, "PLAIN", plain("guest", "guest"))):
        with RawClient(broker.amqp_url) as client:
            client.login()
            client.expect(ConnectionTune, 0)
            client.send(method, 0)
            client.expect_close(504)


def test_a_channel_before_the_connection_is_open_is_504(client: RawClient) -> None:
    client.login()
    client.tune()
    client.send(ChannelOpen(), 1)
    closed = client.expect_close(504)
    assert (closed.class_id, closed.method_id) == ChannelOpen.id


def test_a_client_may_leave_in_the_middle_of_the_handshake(client: RawClient) -> None:
    client.login()
    client.expect(ConnectionTune, 0)
    client.close()


@pytest.mark.parametrize(
    ("user", "vhost", "text"),
    [
        ("guest:guest", "nowhere", "NOT_ALLOWED - vhost nowhere not found"),
        ("guest:guest", "other", "NOT_ALLOWED - access to vhost 'other' refused for user 'guest'"),
        ("ann:ann's", "/", "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"),
        ("outside:secret", "/", "NOT_ALLOWED - access to vhost '/' refused for user 'outside'"),
    ],
)
def test_a_missing_or_forbidden_vhost_is_530(user: str, vhost: str, text: str, client: RawClient) -> None:
    name, _, password = user.partition(":")
    client.login(response=plain(name, password))
    client.tune()
    client.send(ConnectionOpen(vhost), 0)
    closed = client.expect_close(530)
    assert closed.reply_text == text
    assert (closed.class_id, closed.method_id) == ConnectionOpen.id


# ---- slicing


def whole_handshake() -> bytes:
    start_ok = ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", plain("guest", "guest"))
    steps = [start_ok, ConnectionTuneOk(2047, 131072, 0), ConnectionOpen("/")]
    asked = [ChannelOpen(), QueueDeclare("sliced")]
    said = b"".join(method_frame(0, method) for method in steps) + b"".join(method_frame(1, each) for each in asked)
    return PROTOCOL_HEADER + said


def hear_handshake(client: RawClient) -> None:
    for answer in (ConnectionStart, ConnectionTune, ConnectionOpenOk):
        client.expect(answer, 0)
    client.expect(ChannelOpenOk)
    client.expect(QueueDeclareOk)


@pytest.mark.feature("S4-56")
def test_a_handshake_sent_one_byte_at_a_time_works(client: RawClient) -> None:
    """Bytes in any slicing."""
    client.send_slowly(whole_handshake())
    hear_handshake(client)


def test_a_handshake_cut_at_any_byte_works(broker: leveret.Broker) -> None:
    """Nothing is awaited in between: what comes during the login is kept, and handled after it."""
    said = whole_handshake()
    for cut in range(0, len(said), 3):
        with RawClient(broker.amqp_url) as client:
            client.send_bytes(said[:cut])
            client.send_bytes(said[cut:])
            hear_handshake(client)
            client.send(ConnectionClose(200, "bye"), 0)
            client.expect(ConnectionCloseOk, 0)


def test_nothing_is_done_before_the_login_is_decided(client: RawClient) -> None:
    """A peer that sends all at once with a wrong password gets no further than any other."""
    client.send_bytes(whole_handshake().replace(b"\0guest\0guest", b"\0guest\0gues!"))
    client.expect(ConnectionStart, 0)
    client.expect_close(403)


def test_bytes_that_come_while_the_login_is_verified_are_not_looked_at() -> None:
    """Even if the socket hands them over although it was paused, as TLS layers may."""
    harness, socket = Harness(), Socket()
    waiting: list[Callable[[User | None], None]] = []
    connection = AmqpConnection(harness.broker, socket, lambda _, done: waiting.append(done), Limits(), "hasty")
    said = whole_handshake()
    cut = said.index(b"guest\0guest") + len("guest\0guest") + len("\x05en_US\xce")
    connection.receive(said[:cut])
    assert len(waiting) == 1
    for at in range(cut, len(said)):
        connection.receive(said[at : at + 1])
        assert connection.step is Step.AWAIT_TUNE_OK
    waiting[0](harness.broker.users.get("guest"))
    assert connection.step is Step.OPEN
    assert list(connection.channels) == [1]


# ---- an open connection


@pytest.mark.parametrize("secret", [b"guest", b"another", b""])
def test_any_new_secret_is_accepted(broker: leveret.Broker, secret: bytes) -> None:
    """As in RabbitMQ for users of its own database: the connection is logged in already."""
    with RawClient.open(broker.amqp_url) as client:
        client.call(ConnectionUpdateSecret(secret, "routine"), ConnectionUpdateSecretOk, 0)
        client.is_alive()


@pytest.mark.feature("S4-05")
def test_both_sides_may_close(broker: leveret.Broker) -> None:
    with RawClient.open(broker.amqp_url) as client:
        client.close()
    with RawClient.open(broker.amqp_url, properties={"connection_name": "victim"}) as client:
        registry = broker.node.broker.registry
        named = [each for each in registry.connections if getattr(each, "client_name", "") == "victim"]
        broker.call(lambda: named[0].force_close("enough"))
        client.expect(ConnectionClose, 0)
        client.send(QueueDeclare("ignored"))  # crossed with the close: ignored
        client.send(ConnectionClose(200, "me too"), 0)
        client.expect(ConnectionCloseOk, 0)
        client.expect_eof()


def test_publishers_are_told_when_they_are_blocked_and_unblocked() -> None:
    """Consumers and other work go on meanwhile; a client that did not ask is blocked all the same, and not told."""
    with (
        leveret.Broker() as broker,
        RawClient.open(broker.amqp_url) as publisher,
        RawClient.open(broker.amqp_url, capabilities={}) as quiet,
        RawClient.open(broker.amqp_url) as reader,
    ):
        memory = broker.node.broker.memory
        broker.call(lambda: setattr(memory, "high_watermark", 10_000))
        for client in (reader, publisher, quiet):
            client.call(QueueDeclare("filled"), QueueDeclareOk)
        quiet.publish("", "nowhere")
        quiet.call(QueueDeclare("filled"), QueueDeclareOk)
        publisher.publish("", "filled", bytes(20_000))
        publisher.is_alive()
        publisher.publish("", "filled", b"waits")
        assert publisher.expect(ConnectionBlocked, 0).reason == "low on memory"
        quiet.publish("", "filled", b"waits too")
        quiet.send(QueueDeclare("filled", passive=True))
        reader.send(BasicGet("filled"))
        assert len(reader.expect_content(BasicGetOk).body) == 20_000  # unacked: memory is still held
        assert reader.call(QueueDeclare("filled", passive=True), QueueDeclareOk).message_count == 0
        reader.cut()
        with RawClient.open(broker.amqp_url) as cleaner:
            passive = QueueDeclare("filled", passive=True)
            eventually(lambda: cleaner.call(passive, QueueDeclareOk).message_count == 1)  # it is requeued
            cleaner.call(QueuePurge("filled"), QueuePurgeOk)
            publisher.expect(ConnectionUnblocked, 0)
            quiet.expect(QueueDeclareOk)
            publisher.is_alive()
            assert cleaner.call(QueueDeclare("filled", passive=True), QueueDeclareOk).message_count == 2
