"""stomp.py, the client of Python, in all three versions of the protocol."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import stomp
from stomp.utils import Frame

import leveret
from leveret import Settings
from tests.support.certificates import CertificateFiles
from tests.support.raw_client import eventually

QUIET = Settings(amqp_port=None, http_port=None, stomp_port=0, shutdown_timeout=0.5, login_failure_delay=0.0)
VERSIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class Ears(stomp.ConnectionListener):
    """What was heard, by kind; every wait is bounded."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Frame] = queue.Queue()
        self.errors: queue.Queue[Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.ends: queue.Queue[None] = queue.Queue()

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)

    def on_error(self, frame: Frame) -> None:
        self.errors.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_disconnected(self) -> None:
        self.ends.put(None)

    def message(self) -> Frame:
        return self.messages.get(timeout=10)


pytestmark = pytest.mark.broker(QUIET)


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, broker: leveret.Broker) -> Iterator[tuple[Any, Ears]]:
    yield from connected(broker, VERSIONS[request.param])


@pytest.fixture
def latest(broker: leveret.Broker) -> Iterator[tuple[Any, Ears]]:
    yield from connected(broker, stomp.Connection12)


def connected(broker: leveret.Broker, kind: Any, **more: Any) -> Iterator[tuple[Any, Ears]]:
    url = urlsplit(broker.stomp_url)
    connection, ears = kind([(url.hostname, url.port)], **more), Ears()
    connection.set_listener("", ears)
    connection.connect("guest", "guest", wait=True)
    yield connection, ears
    if connection.is_connected():
        connection.disconnect(receipt="bye")
        ears.ends.get(timeout=10)


def test_messages_go_there_and_back(client: tuple[Any, Ears], request: pytest.FixtureRequest) -> None:
    connection, ears = client
    destination = f"/queue/{request.node.name}"
    connection.subscribe(destination, id="1", ack="auto")
    connection.send(destination, "grüße", content_type="text/plain", headers={"colour": "red", "receipt": "sent"})
    assert ears.receipts.get(timeout=10) == "sent"
    message = ears.message()
    assert message.body == "grüße"
    assert (message.headers["colour"], message.headers["destination"].split("/")[1]) == ("red", "queue")


@pytest.mark.feature("S4-55")
def test_acks_and_nacks(client: tuple[Any, Ears], request: pytest.FixtureRequest) -> None:
    connection, ears = client
    destination = f"/queue/{request.node.name}"
    connection.subscribe(destination, id="1", ack="client-individual" if connection.version != "1.0" else "client")
    connection.send(destination, "m")
    message = ears.message()
    assert message.headers["redelivered"] == "false"
    if connection.version == "1.0":
        connection.ack(message.headers["message-id"])
        return
    name = message.headers["ack" if connection.version == "1.2" else "message-id"]
    if connection.version == "1.2":
        connection.nack(name)
    else:
        connection.nack(name, "1")
    again = ears.message()
    assert again.headers["redelivered"] == "true"
    if connection.version == "1.2":
        connection.ack(again.headers["ack"])
    else:
        connection.ack(again.headers["message-id"], "1")


def test_transactions(client: tuple[Any, Ears], request: pytest.FixtureRequest) -> None:
    connection, ears = client
    destination = f"/queue/{request.node.name}"
    connection.subscribe(destination, id="1", ack="auto")
    lost = connection.begin()
    connection.send(destination, "lost", transaction=lost)
    connection.abort(lost)
    kept = connection.begin()
    connection.send(destination, "one", transaction=kept)
    connection.send(destination, "two", transaction=kept)
    connection.commit(kept)
    assert [ears.message().body for _ in range(2)] == ["one", "two"]


def test_headers_of_any_letters_survive(latest: tuple[Any, Ears]) -> None:
    connection, ears = latest
    connection.subscribe("/queue/letters", id="1", ack="auto")
    connection.send("/queue/letters", "m", headers={"odd": "a:b\nc\\d\re"})
    assert ears.message().headers["odd"] == "a:b\nc\\d\re"


def test_an_error_is_heard(latest: tuple[Any, Ears]) -> None:
    connection, ears = latest
    connection.subscribe("/amq/queue/nowhere", id="1", ack="auto")
    error = ears.errors.get(timeout=10)
    assert error.headers["message"] == "not_found"
    assert "no queue 'nowhere' in vhost '/'" in error.body
    ears.ends.get(timeout=10)


@pytest.mark.feature("S3-09", "S3-10")
def test_heart_beats_keep_a_quiet_connection(broker: leveret.Broker) -> None:
    """Stomp.py ends a connection whose broker is silent."""
    beats: queue.Queue[None] = queue.Queue()
    for connection, ears in connected(broker, stomp.Connection12, heartbeats=(1000, 1000)):
        ears.on_heartbeat = lambda: beats.put(None)  # type: ignore[method-assign]
        for _ in range(3):
            beats.get(timeout=60)
        connection.subscribe("/queue/quiet", id="1", ack="auto")
        connection.send("/queue/quiet", "still here")
        assert ears.message().body == "still here"


def test_a_wrong_password_is_refused(broker: leveret.Broker) -> None:
    url = urlsplit(broker.stomp_url)
    connection, ears = stomp.Connection12([(url.hostname, url.port)], reconnect_attempts_max=1), Ears()
    connection.set_listener("", ears)
    with pytest.raises(stomp.exception.ConnectFailedException):
        connection.connect("guest", "wrong", wait=True)
    assert ears.errors.get(timeout=10).headers["message"] == "Bad CONNECT"


def users(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: [each.user.name for each in broker.node.broker.registry.connections])


@pytest.mark.feature("S4-56")
def test_over_tls_with_a_password_or_a_certificate(tmp_path: Path) -> None:
    """Stomp.py sends no login if it is given none."""
    certificates = CertificateFiles(tmp_path)
    with leveret.Broker(certificates.settings(amqps_port=None, stomps_port=0)) as broker:
        url = urlsplit(broker.stomps_url)
        ann = certificates.authority.issue_cert(common_name="ann")
        ann.private_key_and_cert_chain_pem.write_to_path(tmp_path / "ann.pem")
        for login, files in ((("guest", "guest"), {}), ((), {"cert_file": tmp_path / "ann.pem"})):
            connection, ears = stomp.Connection12([(url.hostname, url.port)], vhost="/"), Ears()
            named = {name: str(file) for name, file in files.items()}
            connection.set_ssl([(url.hostname, url.port)], ca_certs=str(certificates.clients), **named)
            connection.set_listener("", ears)
            connection.connect(*login, wait=True)
            eventually(lambda who="ann" if files else "guest": users(broker) == [who])
            connection.disconnect(receipt="bye")
            ears.ends.get(timeout=10)
