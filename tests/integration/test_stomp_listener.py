"""STOMP over a real socket: the port, heart-beats, TLS-less logins, back-pressure, shutdown, what management shows."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret import Settings
from leveret.errors import ConfigError
from leveret.session.connection import Connection
from tests.support.management_api import as_guest
from tests.support.raw_client import eventually
from tests.support.stomp_client import StompClient, made

QUIET = Settings(amqp_port=0, http_port=None, stomp_port=0, shutdown_timeout=0.5, login_failure_delay=0.0)


@pytest.fixture(scope="module")
def stomp_broker() -> Iterator[leveret.Broker]:
    with leveret.Broker(QUIET) as running:
        yield running


@pytest.fixture
def client(stomp_broker: leveret.Broker) -> Iterator[StompClient]:
    with StompClient.open(stomp_broker.stomp_url) as made:
        yield made


@pytest.mark.feature("S3-02")
def test_messages_cross_between_stomp_and_amqp(stomp_broker: leveret.Broker, client: StompClient) -> None:
    """One broker, two languages."""
    client.sure("SEND", b"from stomp", destination="/queue/crossing", colour="red")
    vhost = stomp_broker.vhost()
    got = vhost.get("crossing", auto_ack=True)
    assert got is not None
    assert (got.body, got.properties.headers) == (b"from stomp", {"colour": "red"})
    client.sure("SUBSCRIBE", destination="/queue/crossing", id=0)
    vhost.publish("", "crossing", b"from the process")
    vhost.close()
    message = client.read()
    assert (message.command, message.body) == ("MESSAGE", b"from the process")


def test_a_wrong_password_is_told_and_the_door_closes(stomp_broker: leveret.Broker) -> None:
    with StompClient(stomp_broker.stomp_url) as client:
        answer = client.connect(passcode="wrong")
        assert (answer.command, answer["message"]) == ("ERROR", "Bad CONNECT")
        assert client.is_closed()


def test_what_is_no_stomp_is_refused_and_harms_nobody(stomp_broker: leveret.Broker, client: StompClient) -> None:
    for data in (
        b"AMQP\0\0\x09\x01",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01" + bytes(300),
        b"SEND\n\n\0",
    ):
        with StompClient(stomp_broker.stomp_url) as stranger:
            stranger.socket.sendall(data)
            assert stranger.read().command == "ERROR"
            assert stranger.is_closed()
    client.sure("SEND", b"m", destination="/queue/unharmed")


@pytest.mark.feature("S3-10")
def test_heart_beats_come_when_nothing_else_does(stomp_broker: leveret.Broker) -> None:
    with StompClient.open(stomp_broker.stomp_url, heart_beat="0,200") as client:
        assert client.socket.recv(1) == b"\n"
        assert client.socket.recv(1) == b"\n"


@pytest.mark.feature("S3-09")
def test_a_peer_that_breaks_its_promise_to_beat_is_cut_off(stomp_broker: leveret.Broker) -> None:
    """And what it had not acked goes to somebody else."""
    with (
        StompClient.open(stomp_broker.stomp_url) as other,
        StompClient.open(stomp_broker.stomp_url, heart_beat="500,0") as client,
    ):
        client.sure("SUBSCRIBE", destination="/queue/silent", id=0, ack="client")
        client.say("SEND", b"m", destination="/queue/silent")
        assert client.read().body == b"m"
        other.sure("SUBSCRIBE", destination="/queue/silent", id=0)
        message = other.read()
        assert (message.body, message["redelivered"]) == (b"m", "true")
        assert client.is_closed()


@pytest.mark.feature("S3-09")
def test_a_peer_that_beats_lives(stomp_broker: leveret.Broker) -> None:
    """Line ends are enough."""
    with StompClient.open(stomp_broker.stomp_url, heart_beat="500,100") as client:
        for _ in range(50):  # our own beats tell the time
            assert client.socket.recv(1) == b"\n"
            client.socket.sendall(b"\n")
        client.socket.sendall(made("SEND", {"destination": "/queue/alive", "receipt": "1"}, b"m"))
        assert client.read().command == "RECEIPT"


@pytest.mark.feature("S3-11")
def test_who_does_not_log_in_in_time_is_cut_off() -> None:
    hasty = Settings(amqp_port=None, http_port=None, stomp_port=0, handshake_timeout=0.2, shutdown_timeout=0.5)
    with leveret.Broker(hasty) as broker, StompClient(broker.stomp_url) as client:
        client.socket.sendall(b"CONNECT\nlogin:guest\n")
        assert client.is_closed()


def test_a_reader_that_does_not_read_holds_little(stomp_broker: leveret.Broker, client: StompClient) -> None:
    """Deliveries stop when the socket is full; they go on when it is read, and nothing is lost."""
    body, number = bytes(64 << 10), 400
    with StompClient.open(stomp_broker.stomp_url) as sender:
        for each in range(number):
            receipt = {"receipt": "r"} if each == number - 1 else {}
            sender.say("SEND", body, destination="/queue/slow", content_length=len(body), **receipt)
        assert sender.read().command == "RECEIPT"
    client.sure("SUBSCRIBE", destination="/queue/slow", id=0)

    def ready() -> int:
        return stomp_broker.node.broker.vhosts["/"].queues["slow"].ready

    assert stomp_broker.call(ready) > number // 4
    assert client.bodies(number) == [body] * number


def test_many_peers_send_and_consume_at_once(stomp_broker: leveret.Broker) -> None:
    senders, each = 5, 400

    def send(name: int) -> None:
        with StompClient.open(stomp_broker.stomp_url) as client:
            headers = {"destination": "/queue/crowd", "sender": name}
            client.socket.sendall(b"".join(made("SEND", headers, b"%d" % number) for number in range(each)))
            client.sure("DISCONNECT")

    threads = [threading.Thread(target=send, args=(name,)) for name in range(senders)]
    for thread in threads:
        thread.start()
    with StompClient.open(stomp_broker.stomp_url) as reader:
        reader.say("SUBSCRIBE", destination="/queue/crowd", id=0, ack="client", **{"prefetch-count": 50})
        seen: dict[str, list[int]] = {}
        for count in range(1, senders * each + 1):
            message = reader.read()
            seen.setdefault(message["sender"], []).append(int(message.body))
            if count % 25 == 0:
                reader.say("ACK", id=message["ack"])
        reader.sure("DISCONNECT")
    for thread in threads:
        thread.join()
    assert seen == {str(name): list(range(each)) for name in range(senders)}
    assert stomp_broker.call(lambda: stomp_broker.node.broker.vhosts["/"].queues["crowd"].unacked) == 0


def test_the_shutdown_is_told() -> None:
    broker = leveret.Broker(QUIET)
    with broker, StompClient.open(broker.stomp_url) as client:
        broker.stop()
        told = client.read()
        assert (told.command, told["message"]) == ("ERROR", "connection_forced")
        assert client.is_closed()


@pytest.mark.feature("S4-30")
def test_what_was_sent_with_a_receipt_survives(tmp_path: Path) -> None:
    """Queue, message and the place of what was not acked."""
    settings = Settings(data_dir=tmp_path, amqp_port=None, http_port=None, stomp_port=0, shutdown_timeout=2.0)
    with leveret.Broker(settings) as broker, StompClient.open(broker.stomp_url) as client:
        client.sure("SEND", b"1", destination="/queue/kept", persistent="true")
        client.say("BEGIN", transaction="t")
        client.say("SEND", b"2", destination="/queue/kept", persistent="true", transaction="t")
        client.sure("COMMIT", transaction="t")
        client.say("BEGIN", transaction="u")
        client.say("SEND", b"3", destination="/queue/kept", persistent="true", transaction="u")
        client.sure("SUBSCRIBE", destination="/topic/news", id="me", durable="true")
    with leveret.Broker(settings) as broker, StompClient.open(broker.stomp_url) as client:
        client.say("SUBSCRIBE", destination="/queue/kept", id=0, ack="client")
        assert client.bodies(2) == [b"1", b"2"]
        client.say("SEND", b"news", destination="/topic/news")
        client.say("SUBSCRIBE", destination="/topic/news", id="me", durable="true")
        assert client.bodies(1) == [b"news"]


@pytest.mark.feature("S4-77")
def test_management_shows_the_peer_and_closes_it() -> None:
    settings = Settings(amqp_port=None, http_port=0, stomp_port=0, shutdown_timeout=0.5, login_failure_delay=0.0)
    with leveret.Broker(settings) as broker, StompClient.open(broker.stomp_url) as client:
        client.sure("SUBSCRIBE", destination="/queue/shown", id="mine")
        api = as_guest(broker)
        (row,) = api.get("connections")[1]
        assert (row["protocol"], row["user"], row["channels"], row["state"]) == ("STOMP 1.2", "guest", 2, "running")
        assert row["recv_oct"] > 100
        (consumer,) = api.get("consumers")[1]
        assert (consumer["queue"]["name"], consumer["consumer_tag"]) == ("shown", "T_mine")
        listeners = {each["protocol"] for each in api.get("overview")[1]["listeners"]}
        assert "stomp" in listeners
        assert api.delete(f"connections/{row['name'].replace(' ', '%20').replace('>', '%3E')}")[0] == 204
        told = client.read()
        assert (told.command, told["message"]) == ("ERROR", "connection_forced")


def test_no_port_is_open_unless_it_is_asked_for() -> None:
    assert Settings().stomp_port is None
    with leveret.Broker() as broker, pytest.raises(ConfigError, match="no stomp listener"):
        _ = broker.stomp_url


def test_limits_of_amqp_channels_and_frames_do_not_bind_stomp() -> None:
    small = Settings(amqp_port=None, http_port=None, stomp_port=0, channel_max=1, frame_max=4096, shutdown_timeout=0.5)
    with leveret.Broker(small) as broker, StompClient.open(broker.stomp_url) as client:
        client.sure("SEND", b"m", destination="/queue/q", long="x" * 20_000)
        client.say("SUBSCRIBE", destination="/queue/q", id=0)
        assert len(client.read()["long"]) == 20_000


def test_too_many_peers_are_refused() -> None:
    few = Settings(amqp_port=None, http_port=None, stomp_port=0, connection_max=1, shutdown_timeout=0.5)
    with leveret.Broker(few) as broker, StompClient.open(broker.stomp_url):
        with StompClient(broker.stomp_url) as second:
            assert second.is_closed()


@pytest.mark.feature("S4-61")
def test_a_half_closed_peer_is_let_go(stomp_broker: leveret.Broker) -> None:
    with StompClient.open(stomp_broker.stomp_url) as client:
        client.sure("SUBSCRIBE", destination="/queue/half", id=0, ack="client")
        client.say("SEND", b"m", destination="/queue/half")
        assert client.read().body == b"m"
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()
    eventually(lambda: stomp_broker.call(lambda: stomp_broker.node.broker.vhosts["/"].queues["half"].ready) == 1)


def test_answers_that_nobody_reads_are_bounded(stomp_broker: leveret.Broker) -> None:
    """Each chunk brings some, all of them 120 MiB: the peer is not heard any more until it has read."""
    number, receipt = 1_000, "r" * 60_000
    asked = [
        made("BEGIN", {"transaction": "t", "receipt": receipt})
        + made("ABORT", {"transaction": "t", "receipt": receipt})
        for _ in range(number)
    ]
    with StompClient.open(stomp_broker.stomp_url) as client:
        ours = client.socket.getsockname()[1]

        def session() -> Connection:
            (found,) = [each for each in stomp_broker.node.broker.registry.connections if f":{ours} ->" in each.name]
            return found  # type: ignore[return-value]

        sender = threading.Thread(target=client.socket.sendall, args=(b"".join(asked),))
        client.socket.settimeout(60)
        sender.start()
        eventually(lambda: stomp_broker.call(lambda: session().is_paused), seconds=30)
        assert stomp_broker.call(lambda: session().peer.unsent()) < 64 << 20
        for _ in range(2 * number):
            assert client.read().command == "RECEIPT"
        sender.join()
        assert not stomp_broker.call(lambda: session().is_paused)


def test_connected_comes_before_the_first_heart_beat(stomp_broker: leveret.Broker) -> None:
    with StompClient(stomp_broker.stomp_url) as client:
        client.say("CONNECT", login="guest", passcode="guest", **{"accept-version": "1.2", "heart-beat": "0,200"})
        assert client.socket.recv(1) == b"C"
