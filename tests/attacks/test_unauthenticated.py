"""CWE-400, uncontrolled resource consumption: what connections that have not logged in may use. The attacker has one
address, other clients have another."""

from __future__ import annotations

import http.client
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import leveret
from leveret.config import Settings
from leveret.server.logins import FAILURES
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.methods import ConnectionStartOk
from tests.support.attack_target import AttackTarget
from tests.support.http_api import basic
from tests.support.raw_client import RawClient
from tests.support.sizes import sized
from tests.support.stomp_client import made as stomp_frame

ATTACKER = "127.0.0.66"
SOON = 3.0  # seconds for a login that has to be verified, beside an attacker on two cores


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """For the attacker, which is this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def flood(
    stack: ExitStack, port: int, number: int, data: Callable[[int], bytes] = lambda n: b""
) -> list[socket.socket]:
    """Connections of the attacker, each of which sends something and then nothing more."""
    made = []
    for n in range(number):
        peer = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10, (ATTACKER, 0)))
        peer.sendall(data(n))
        made.append(peer)
    return made


def wrong_login(number: int) -> bytes:
    return PROTOCOL_HEADER + method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0guest\0%d" % number, "en_US"))


def wrong_request(number: int) -> bytes:
    return f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: {basic('ann', str(number))}\r\n\r\n".encode()


def add_user(broker: AttackTarget, name: str) -> None:
    """One that has not logged in yet, so that its password has to be verified."""
    user = b'{"password": "secret", "tags": "management"}'
    assert broker.api.send("PUT", f"/api/users/{name}", user)[0].status == 201
    rights = b'{"configure": ".*", "write": ".*", "read": ".*"}'
    assert broker.api.send("PUT", f"/api/permissions/%2F/{name}", rights)[0].status == 201


@pytest.mark.quiet
@pytest.mark.parametrize("kind", ["amqp", "http"])
def test_wrong_logins_of_one_address_do_not_delay_those_of_another(tmp_path: Path, stack: ExitStack, kind: str) -> None:
    with AttackTarget(tmp_path) as broker:
        add_user(broker, "ann")
        add_user(broker, "bob")
        if kind == "amqp":
            flood(stack, port_of(broker.url()), sized(1_500), wrong_login)
        else:
            flood(stack, port_of(broker.url("http")), sized(300), wrong_request)
        begun = time.monotonic()
        RawClient.open(broker.url().replace("guest:guest", "ann:secret"), timeout=SOON).cut()
        assert http_status(broker, "/api/whoami", basic("bob", "secret")) == 200
        assert time.monotonic() - begun < SOON
        stack.close()
        broker.check()


def http_status(broker: AttackTarget, path: str, login: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(broker.url("http")), timeout=SOON)
    try:
        connection.request("GET", path, headers={"Authorization": login})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.quiet
def test_idle_http_connections_of_one_address_do_not_keep_out_health_checks(tmp_path: Path, stack: ExitStack) -> None:
    with AttackTarget(tmp_path) as broker:
        port = port_of(broker.url("http"))
        flood(stack, port, sized(600))
        flood(stack, port, sized(600), lambda n: b"GET /")  # a head that never ends
        assert http_status(broker, "/api/health/checks/alarms", basic("guest", "guest")) == 200
        assert http_status(broker, "/metrics", basic("guest", "guest")) == 200
        assert http_status(broker, "/health/ready", "none") == 200
        stack.close()
        broker.check()


def test_tunnels_of_one_address_leave_some_to_others(tmp_path: Path, stack: ExitStack) -> None:
    settings = Settings(amqp_port=0, http_port=0, stomp_port=None, shutdown_timeout=0.5)
    with leveret.Broker(settings) as broker:
        attacker = http.client.HTTPConnection("127.0.0.1", port_of(broker.http_url), 10, source_address=(ATTACKER, 0))
        honest = http.client.HTTPConnection("127.0.0.1", port_of(broker.http_url), 10)

        def dig(connection: http.client.HTTPConnection) -> int:
            connection.request("POST", "/api/tunnel")
            answer = connection.getresponse()
            answer.read()
            return answer.status

        for _ in range(250):
            dig(attacker)
        assert dig(honest) == 201
        attacker.close()
        honest.close()


@pytest.mark.quiet
def test_connections_of_all_kinds_do_not_use_up_the_descriptors(tmp_path: Path, stack: ExitStack) -> None:
    def few_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    with AttackTarget(tmp_path, "--stomp-port", "0", before=few_descriptors) as broker:
        for scheme in ("http", "amqp", "stomp"):
            flood(stack, port_of(broker.url(scheme)), 300)
        broker.check_health()
        metrics = broker.api.send("GET", "/metrics")[1].decode()
        values = dict(line.split(" ") for line in metrics.splitlines() if line.startswith("leveret_"))
        assert int(values["leveret_connections_evicted_total"]) > 300
        assert 0 < int(values["leveret_unauthenticated_connections"]) < int(values["leveret_sockets"])
        assert int(values["leveret_sockets"]) <= int(values["leveret_max_sockets"]) < 256
        assert len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir())) <= 256 - 32
        stack.close()
        broker.check()
        assert "Too many open files" not in broker.log()


@pytest.mark.parametrize("kind", ["amqp", "stomp"])
def test_data_sent_ahead_of_the_login_is_bounded(stack: ExitStack, kind: str) -> None:
    """After some failures a wrong login is answered late: whatever else was sent must not be kept until then."""
    settings = Settings(amqp_port=0, http_port=None, stomp_port=0, shutdown_timeout=0.5, login_failure_delay=60.0)
    frame = wrong_login(1)
    if kind == "stomp":
        frame = stomp_frame("CONNECT", {"accept-version": "1.2", "login": "guest", "passcode": "no", "host": "/"})
    with leveret.Broker(settings) as broker:
        port = port_of(broker.amqp_url if kind == "amqp" else broker.stomp_url)
        flood(stack, port, FAILURES, lambda n: frame)  # verified first: a source's logins are, in order
        [peer] = flood(stack, port, 1, lambda n: frame + b"\n" * (200 << 10))
        peer.settimeout(60)
        assert is_closed_by_peer(peer)


def is_closed_by_peer(peer: socket.socket) -> bool:
    """Within the socket's timeout; what comes before is skipped."""
    try:
        while peer.recv(65536):
            pass
    except ConnectionResetError:  # the broker had data left to read
        pass
    except TimeoutError:
        return False
    return True
