"""S3-03: AMQP in requests of HTTP, on networks that lose requests and answers, and against strangers.

The calls of a client through a tunnel are in test_client_transports.py, what each request means in
tests/unit/http/test_tunnels.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

import leveret
from leveret.client import Channel, ConnectionLost, Happening, connect, http_tunnel
from leveret.clock import FrozenClock
from leveret.http import tunnel_endpoints as api_tunnel
from leveret.http.tunnels import IDLE, Tunnels
from leveret.session.limits import UNAUTHENTICATED_BYTES
from leveret.wire.constants import PROTOCOL_HEADER
from tests.support.http_api import QUIET, HttpApi
from tests.support.http_messages import next_message
from tests.support.raw_client import RawClient, eventually


@pytest.fixture(scope="module")
def broker() -> Iterator[leveret.Broker]:
    with leveret.Broker(QUIET) as running:
        yield running


@pytest.fixture(autouse=True)
def nobody_else_is_harmed(bystander: RawClient) -> Iterator[None]:
    yield
    bystander.is_alive()


class RawTunnel:
    """Requests by hand, without a login."""

    def __init__(self, broker: leveret.Broker) -> None:
        self.api = HttpApi(broker.http_url, None)
        response, answer = self.api.send("POST", "/api/tunnel")
        assert response.status == 201
        self.told = json.loads(answer)
        self.path = f"/api/tunnel/{self.told['id']}"

    def ask(self, method: str, query: str = "", body: bytes | None = None) -> tuple[int, bytes]:
        response, answer = self.api.send(method, self.path + query, body)
        return response.status, answer

    def refused(self, method: str, query: str = "", body: bytes | None = None) -> tuple[int, str]:
        status, answer = self.ask(method, query, body)
        return status, json.loads(answer)["reason"]


def tunnels_of(broker: leveret.Broker) -> int:
    return broker.call(lambda: len(broker.node._listeners.tunnels or ()))


async def all_settled(channel: Channel) -> None:
    assert channel.confirms is not None
    await channel.confirms.all_settled()


# ---- requests by hand


@pytest.mark.feature("S3-03")
def test_requests_carry_amqp_both_ways_and_may_be_sent_again(broker: leveret.Broker) -> None:
    tunnel = RawTunnel(broker)
    for _ in range(2):
        assert tunnel.ask("POST", "?at=0", PROTOCOL_HEADER) == (204, b"")
    first, again = tunnel.ask("GET", "?at=0"), tunnel.ask("GET", "?at=0")
    assert first == again
    assert first[1].startswith(b"\x01\x00\x00")
    assert b"RabbitMQ" in first[1]
    assert tunnel.ask("DELETE") == (204, b"")
    assert tunnel.refused("GET", "?at=0")[0] == 404
    assert tunnels_of(broker) == 0


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_nobody_finds_a_tunnel_by_guessing(broker: leveret.Broker, method: str) -> None:
    tunnel = RawTunnel(broker)
    tunnel.path = tunnel.path[:-1] + ("A" if tunnel.path[-1] != "A" else "B")
    assert tunnel.refused(method, "?at=0")[0] == 404


@pytest.mark.parametrize("at", ["", "?at=-1", "?at=x", f"?at={1 << 70}"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_where_a_request_stands_must_be_a_number(broker: leveret.Broker, method: str, at: str) -> None:
    status, reason = RawTunnel(broker).refused(method, at, b"AMQP" if method == "POST" else None)
    assert status == 400
    assert reason.startswith("'at' must be a whole number")


def test_bytes_that_are_missing_are_named(broker: leveret.Broker) -> None:
    tunnel = RawTunnel(broker)
    assert tunnel.refused("POST", "?at=8", b"x") == (
        409,
        "received bytes from 8 on, but only 0 before them: send the missing bytes",
    )
    assert tunnel.refused("GET", "?at=8")[0] == 409


def test_a_stranger_may_not_send_much_at_once(broker: leveret.Broker) -> None:
    tunnel = RawTunnel(broker)
    status, reason = tunnel.refused("POST", "?at=0", bytes(UNAUTHENTICATED_BYTES + 1))
    assert status == 413
    assert f"larger than {UNAUTHENTICATED_BYTES} bytes" in reason
    assert tunnel.ask("POST", "?at=0", PROTOCOL_HEADER) == (204, b"")


def test_a_stranger_may_not_send_for_ever(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_tunnel, "SLOWEST", 0.1)
    tunnel = RawTunnel(broker)
    connection = tunnel.api.connect()
    connection.putrequest("POST", tunnel.path + "?at=0")
    connection.putheader("Content-Length", "8")
    connection.endheaders(b"AMQP")
    answer = connection.getresponse()
    assert answer.status == 408
    assert "was not received within" in json.loads(answer.read())["reason"]
    connection.close()
    assert tunnel.ask("POST", "?at=0", PROTOCOL_HEADER) == (204, b"")
    tunnel.ask("DELETE")


def test_what_is_no_amqp_is_answered_and_ends_the_tunnel(broker: leveret.Broker) -> None:
    tunnel = RawTunnel(broker)
    assert tunnel.ask("POST", "?at=0", b"GET / HTTP/1.1\r\n\r\n")[0] == 204
    status, said = tunnel.ask("GET", "?at=0")
    assert (status, said) == (200, PROTOCOL_HEADER)
    assert tunnel.refused("GET", f"?at={len(said)}") == (
        410,
        "the broker closed the connection in this tunnel: open a new tunnel",
    )
    assert tunnel.ask("GET", "?at=0")[0] == 404


def test_a_poll_whose_client_hangs_up_does_not_wait_on(broker: leveret.Broker) -> None:
    tunnel = RawTunnel(broker)
    connection = tunnel.api.connect()
    connection.request("GET", tunnel.path + "?at=0")

    def waiting() -> list[int]:
        doors = broker.node._listeners
        assert doors.tunnels is not None
        return [doors.tunnels.found(tunnel.told["id"]).waiting]

    eventually(lambda: broker.call(waiting) == [1])
    connection.close()
    eventually(lambda: broker.call(waiting) == [0])
    tunnel.ask("DELETE")


def test_a_tunnel_that_nobody_asks_is_gone_after_a_while() -> None:
    clock = FrozenClock()
    with leveret.Broker(replace(QUIET, handshake_timeout=60.0), clock=clock) as broker:
        RawTunnel(broker)
        broker.clock.advance(IDLE - 1)
        assert tunnels_of(broker) == 1
        broker.clock.advance(IDLE)
        assert tunnels_of(broker) == 0
        eventually(lambda: broker.call(lambda: len(broker.node.broker.registry)) == 0)


def test_a_peer_that_does_not_log_in_is_dropped_in_time() -> None:
    with leveret.Broker(QUIET) as broker:
        tunnel, checks = RawTunnel(broker), broker.node._checks
        assert checks is not None
        checks.handshake_timeout = 0.3  # not that of the heads of requests
        assert tunnel.ask("GET", "?at=0")[0] == 410
        assert tunnels_of(broker) == 0


def test_tunnels_count_as_connections() -> None:
    with leveret.Broker(replace(QUIET, connection_max=1)) as broker:
        with RawClient.open(broker.amqp_url) as first:
            response, answer = HttpApi(broker.http_url, None).send("POST", "/api/tunnel")
            assert (response.status, response.getheader("retry-after")) == (429, "10")
            assert "the connection limit is reached" in json.loads(answer)["reason"]
            assert tunnels_of(broker) == 0
            first.is_alive()


# ---- a bad network


class Lossy:
    """Stands between client and broker. Every ``nth`` answer is lost with its connection, and so is every ``nth``
    request in the other direction: in turn."""

    def __init__(self, broker: leveret.Broker, nth: int) -> None:
        where = urlsplit(broker.http_url)
        self._where = (where.hostname, where.port)
        self._nth = nth
        self._seen = 0
        self.lost = 0
        self.is_down = False

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._where)
        try:
            while not self.is_down and (request := await next_message(reader)):
                self._seen += 1
                is_bad = self._seen % self._nth == 0 and b"/api/tunnel/" in request
                if is_bad and self._seen // self._nth % 2:
                    self.lost += 1
                    break  # the request is lost
                up_writer.write(request)
                answer = await next_message(up_reader)
                if is_bad or self.is_down:
                    self.lost += 1
                    break  # it was taken, but its answer is lost
                writer.write(answer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            up_writer.transport.abort()


@pytest.mark.feature("S3-03")
def test_nothing_is_lost_or_doubled_when_requests_and_answers_are_lost(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_tunnel, "PAUSE", 0.0)
    number = 2_000

    async def run() -> None:
        lossy = Lossy(broker, 5)
        async with lossy.listening() as port, asyncio.timeout(40):
            connection = await connect(f"http://127.0.0.1:{port}")
            channel = await connection.channel()
            await channel.confirm_select()
            await channel.declare_queue("lossy", exclusive=True)
            await channel.qos(20)
            consumer = await channel.consume("lossy")
            for each in range(number):
                channel.send(b"%d" % each, "", "lossy")
            for each in range(number):
                delivery = await consumer.next()
                assert delivery is not None
                assert (delivery.body, delivery.redelivered) == (b"%d" % each, False)
                delivery.ack()
            await all_settled(channel)
            await connection.close()
        assert lossy.lost > 20

    asyncio.run(run())


@pytest.mark.feature("S3-03", "S3-09")
def test_a_network_that_is_gone_for_good_is_a_lost_connection(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listeners are told."""
    monkeypatch.setattr(http_tunnel, "PAUSE", 0.01)
    monkeypatch.setattr(http_tunnel, "PATIENCE", 0.2)

    async def run() -> None:
        lossy = Lossy(broker, 1_000_000)
        async with lossy.listening() as port, asyncio.timeout(20):
            connection = await connect(f"http://127.0.0.1:{port}")
            told: asyncio.Queue[Happening] = asyncio.Queue()
            connection.listeners.append(told.put_nowait)
            channel = await connection.channel()
            lossy.is_down = True
            with pytest.raises(ConnectionLost, match=r"was lost: (POST|GET) fails"):
                await channel.declare_queue("never", exclusive=True)
            assert (await told.get()).kind == "lost"

    asyncio.run(run())


@pytest.mark.feature("S3-03")
def test_a_tunnel_that_the_broker_forgot_is_a_lost_connection(broker: leveret.Broker) -> None:
    async def run() -> None:
        connection = await connect(broker.http_url)
        channel = await connection.channel()
        doors = broker.node._listeners
        assert doors.tunnels is not None
        tunnels = doors.tunnels
        await asyncio.to_thread(broker.call, lambda: _end_all(tunnels))
        with pytest.raises(ConnectionLost, match="was lost"):
            await channel.declare_queue("never", exclusive=True)

    asyncio.run(asyncio.wait_for(run(), 20))


def _end_all(tunnels: Tunnels) -> None:
    for each in list(tunnels._tunnels.values()):
        each.end(None)


@pytest.mark.feature("S3-03")
def test_an_idle_line_that_was_closed_is_made_anew(broker: leveret.Broker) -> None:
    """Servers and proxies close what is kept open and not used; nobody notices."""

    async def run() -> None:
        connection = await connect(broker.http_url)
        channel = await connection.channel()
        tunnel = connection._transport
        assert isinstance(tunnel, http_tunnel.HttpTunnel)
        for _ in range(3):
            await asyncio.to_thread(broker.call, lambda: _close_idle(broker))
            assert (await channel.declare_queue("idle", exclusive=True)).queue == "idle"
        await connection.close()

    asyncio.run(asyncio.wait_for(run(), 20))


def _close_idle(broker: leveret.Broker) -> None:
    http_server = broker.node._http
    assert http_server is not None
    peers = http_server._connections
    assert peers is not None
    for peer in list(peers.state.connections):
        if peer.cycle is not None and peer.cycle.response_complete:  # type: ignore[union-attr]
            peer.transport.close()


# ---- back-pressure


@pytest.mark.feature("S3-03")
def test_a_blocked_publisher_waits_and_goes_on(broker: leveret.Broker) -> None:
    """While an alarm blocks publishers the broker does not listen; what is sent meanwhile is kept, and arrives."""

    async def run() -> None:
        connection = await connect(broker.http_url)
        told: asyncio.Queue[Happening] = asyncio.Queue()
        connection.listeners.append(told.put_nowait)
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_queue("alarm", exclusive=True)
        await channel.publish(b"before", "", "alarm")
        core = broker.node.broker
        await asyncio.to_thread(broker.call, lambda: core.set_alarm("test", "low on memory"))
        sent = [channel.send(bytes(100_000), "", "alarm") for _ in range(40)]
        assert (await told.get()).kind == "blocked"
        await asyncio.wait_for(_until(lambda: connection.is_congested), 60)
        await asyncio.to_thread(broker.call, lambda: core.set_alarm("test", None))
        assert (await told.get()).kind == "unblocked"
        assert None not in sent
        await all_settled(channel)
        await connection.writable()
        assert not connection.is_congested
        await connection.close()

    asyncio.run(asyncio.wait_for(run(), 30))


async def _until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0)
